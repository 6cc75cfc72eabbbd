"""`trellis select`: which sentences, and in what form they come back."""

from pathlib import Path

import pytest

from tests.cli.conftest import Shell

POOL = (
    "Anna met Paul in Rome.\n\nIt rained.\nQuux Zork of Blarg City met Foo Bar.\nQuux Zork of Blarg City met Foo Bar.\n"
)


@pytest.fixture
def pool(here: Path) -> Path:
    (here / "pool.txt").write_text(POOL)
    return here / "pool.txt"


@pytest.mark.parametrize("by", ["errors", "entropy", "margin"])
def test_the_least_sure_come_first_and_no_two_of_a_kind(shell: Shell, pool: Path, ner_model: Path, by: str) -> None:
    ran = shell("select", ner_model, pool, "-n", 2, "--by", by, "--numbers", "-q")
    assert ran.code == 0, ran.err
    first, second = (line.split("\t") for line in ran.out.splitlines())
    assert first == ["4", "Quux Zork of Blarg City met Foo Bar."]
    assert second[0] in ("1", "3")


def test_alike_ones_if_asked_for(shell: Shell, pool: Path, ner_model: Path) -> None:
    ran = shell("select", ner_model, pool, "-n", 2, "--alike", "-q")
    assert ran.out.splitlines() == ["Quux Zork of Blarg City met Foo Bar."] * 2


def test_a_file_of_tokens_comes_back_as_tokens(shell: Shell, here: Path, ner_model: Path) -> None:
    ran = shell("select", ner_model, "train.conll", "-n", 100, "-q", "-o", "chosen.txt")
    assert ran.code == 0, ran.err
    lines = (here / "chosen.txt").read_text().splitlines()
    assert "It rained ." in lines
    assert len(lines) == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [(("--by", "luck"), "unknown measure 'luck'"), (("--from", "pdf"), "--from: unknown format 'pdf'")],
)
def test_usage(shell: Shell, pool: Path, ner_model: Path, options: tuple[str, ...], message: str) -> None:
    ran = shell("select", ner_model, pool, *options, "-q")
    assert ran.code == 2
    assert message in ran.err
