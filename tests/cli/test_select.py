"""`trellis select`: what it writes, says and refuses."""

import json
from pathlib import Path


def test_the_texts_come_as_they_were(here, shell, ner_model):
    Path("pool.txt").write_text("Zed  Qux!\nAda lives in Rome\n\nSomeone went to Qux\n")
    done = shell("select", str(ner_model), "pool.txt", "-n", "2")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert len(lines) == 2
    assert set(lines) <= {"Zed  Qux!", "Ada lives in Rome", "Someone went to Qux"}
    assert "2 of 4 sentences" in done.err
    valued = shell("select", str(ner_model), "pool.txt", "-n", "2", "--values", "-q")
    rows = [line.split("\t") for line in valued.out.splitlines()]
    assert [row[2] for row in rows] == lines
    assert float(rows[0][0]) >= float(rows[1][0]) > 0
    assert all(row[1].startswith("pool.txt:") for row in rows)
    assert valued.err == ""


def test_the_models_own_tags_can_be_corrected(here, shell, ner_model):
    Path("pool.txt").write_text("Zed Qux\nAda lives in Rome\n")
    done = shell("select", str(ner_model), "pool.txt", "-n", "1", "--to", "jsonl", "--out", "next.jsonl")
    assert done.code == 0, done.err
    record = json.loads(Path("next.jsonl").read_text())
    assert len(record["tags"]) == len(record["tokens"])
    columns = shell("select", str(ner_model), "dev.conll", "-n", "1")
    assert columns.code == 0, columns.err
    assert all(len(line.split()) == 2 for line in columns.out.strip().splitlines())


def test_what_cannot_be_is_named(here, shell, ner_model):
    Path("pool.txt").write_text("Zed Qux\n")
    for options, said in (
        (("--by", "luck"), "--by: expected one of errors, entropy, margin, got 'luck'"),
        (("--to", "poem"), "--to: expected one of text, inline"),
        (("--from", "poem"), "--from: expected one of text, tokens"),
        (("--values", "--to", "conll"), "--values is for --to text"),
    ):
        done = shell("select", str(ner_model), "pool.txt", *options)
        assert done.code == 2
        assert said in done.err
    assert shell("select", str(ner_model), "missing.txt").code == 1
