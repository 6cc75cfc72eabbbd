"""A feature CRF that several processes train from shards: each reads its own."""

import json
from pathlib import Path

import pytest

import trellis
from tests.training import processes
from trellis import corpus, demo

SHARDS = """
import json, sys
import trellis.models.crf.out_of_core as once
from trellis import CRF, corpus
from trellis.training.process_group import together
once.BLOCK, once.RUN, opened = 200, int(sys.argv[2]), []
shards = corpus.Shards(sys.argv[1], read=lambda path: opened.append(path) or corpus.iterate(path))
with together():
    model = CRF(features="ner", max_iterations=8).fit(shards)
p = model.parameters_
losses = [step.loss for step in model.history_.steps]
print(json.dumps([opened, [losses, p.index.names(), p.weights.tolist(), model.tokenizer_.name]]))
"""


@pytest.fixture
def shards(tmp_path):
    sentences = demo.english().train[:200]
    (tmp_path / "in").mkdir()
    for number in range(20):
        own = sentences[number * 10 : number * 10 + 10] if number != 3 else []
        corpus.write(tmp_path / "in" / f"{number:02}.jsonl", own)
    return tmp_path / "in"


@pytest.mark.parametrize(("run", "dealt"), [("1", True), ("3000", True), ("1000000", False)])
def test_each_process_reads_its_own_shards_of_a_crf(shards, run, dealt):
    found = [list(map(json.loads, processes.run(SHARDS, count, str(shards), run))) for count in (1, 2, 3)]
    losses, names, weights, tokenizer = found[0][0][1]
    for group in found:
        assert all(model == group[0][1] for _, model in group)
        assert group[0][1][0] == pytest.approx(losses, rel=1e-12)
        assert group[0][1][1::2] == [names, tokenizer]
        assert group[0][1][2] == pytest.approx(weights, abs=1e-9)
    files = sorted(map(str, shards.iterdir()))
    for group in found:
        opened = [path for own, _ in group for path in own]
        assert sorted(opened) == (files if dealt else sorted(files * len(group)))
        assert all(own for own, _ in group)


def test_a_bad_shard_of_one_process_ends_all_with_its_line(shards):
    with open(shards / "19.jsonl", "a") as file:
        file.write('{"tokens": \n')
    for returncode, _, errors in processes.finish(processes.start(SHARDS, 2, str(shards), "1")):
        assert returncode == 1
        assert "19.jsonl:11: expected JSON" in errors


def test_processes_that_see_other_files_do_not_begin(shards):
    other = "with together() as team:\n    shards = corpus.Shards(shards.paths[team.rank:])"
    code = SHARDS.replace("with together():", other)
    for returncode, _, errors in processes.finish(processes.start(code, 2, str(shards), "1")):
        assert returncode == 1
        assert "must find the same files: process" in errors


def test_the_command_line_streams_a_crf_in_two_processes(shards):
    code = (
        "import trellis.models.crf.out_of_core as once; once.RUN = 1; "
        "from trellis.cli import main; import sys; sys.exit(main())"
    )
    corpus.write(shards.parent / "dev.conll", demo.english().dev[:20])
    options = ["--dev", str(shards.parent / "dev.conll"), "--stream", "--set", "max_iterations=5"]
    records, weights = [], []
    for count in (1, 2):
        out = str(shards.parent / f"model{count}")
        processes.run(code, count, "train", "--model", "crf", "--train", str(shards), "--out", out, *options)
        records.append(json.loads(Path(out, "training.json").read_text()))
        weights.append(trellis.load(out).parameters_.weights.tolist())
    assert weights[0] == pytest.approx(weights[1], abs=1e-9)
    for same in ("data", "figures", "labels", "tokenizer"):
        assert records[0][same] == records[1][same]
    assert records[0]["data"]["train"]["sentences"] == 190
