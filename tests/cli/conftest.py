"""A small corpus, models trained on it once, and the command line run in this process as a shell would run it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from trellis.cli import main
from trellis.models import CRF, HMM, Tagger, folder
from trellis.text import Sentence

NER = """\
Anna B-PER|Smith I-PER|lives O|in O|New B-LOC|York I-LOC|. O
She O|met O|Paul B-PER|in O|Rome B-LOC|. O
Rome B-LOC|is O|old O|. O
Paul B-PER|Jones I-PER|likes O|New B-LOC|Delhi I-LOC|. O
In O|Paris B-LOC|, O|Anna B-PER|slept O|. O
It O|rained O|. O
"""
SEGMENTED = "我 喜欢 音乐\n他 也 喜欢 北京\n我们 在 北京 学习\n音乐 很 好\n"


def sentences(text: str = NER) -> list[Sentence]:
    rows = [[cell.split(" ") for cell in line.split("|")] for line in text.splitlines()]
    return [Sentence([token for token, _ in row], [tag for _, tag in row]) for row in rows]


def conll(items: list[Sentence]) -> str:
    return "\n".join("".join(f"{a}\t{b}\n" for a, b in zip(s.tokens, s.tags or (), strict=True)) for s in items)


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


class Shell:
    """``shell("tag", "model", "-")`` runs a command and gives exit code and output."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capture = capfd

    def __call__(self, *arguments: object) -> Ran:
        self._capture.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = self._capture.readouterr()
        assert isinstance(ended.value.code, int)
        return Ran(ended.value.code, out, err)


@pytest.fixture
def shell(capfd: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capfd)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with training files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "train.conll").write_text(conll(sentences()))
    (tmp_path / "dev.conll").write_text(conll(sentences()[:2]))
    (tmp_path / "train.seg").write_text(SEGMENTED)
    return tmp_path


def _saved(place: Path, tagger: Tagger) -> Path:
    folder.save_model(folder.prepare(place), tagger)
    return place


@pytest.fixture(scope="session")
def ner_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _saved(tmp_path_factory.mktemp("models") / "ner", CRF(features="ner", c2=0.1).fit(sentences()))


@pytest.fixture(scope="session")
def hmm_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _saved(tmp_path_factory.mktemp("models") / "hmm", HMM().fit(sentences()))


@pytest.fixture(scope="session")
def seg_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from trellis.corpus import sentence_from_words

    data = [sentence_from_words(line.split()) for line in SEGMENTED.splitlines()]
    return _saved(tmp_path_factory.mktemp("models") / "seg", CRF(features="seg", c2=0.1).fit(data))


@pytest.fixture
def standard_input(monkeypatch: pytest.MonkeyPatch):
    """``standard_input(b"...")`` is what the next command reads from ``-``."""
    import io
    import sys

    def give(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give
