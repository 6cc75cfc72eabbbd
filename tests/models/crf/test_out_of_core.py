"""A feature CRF whose sentences are on disk learns what it learns in memory."""

import json
import os
import re
import resource
import subprocess
import sys
from itertools import islice

import numpy as np
import pytest

import trellis
from trellis import CRF, Lexicon, corpus, demo
from trellis.errors import ConfigError, DataError, ModelError, StoreError
from trellis.models.crf.out_of_core import Scratch

TRAIN, DEV, TEST = demo.english().train[:200], demo.english().dev[:20], demo.english().test[:50]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr("trellis.models.crf.out_of_core.BLOCK", 300)


def losses(model: CRF) -> list[float]:
    return [step.loss for step in model.history_.steps]


def check_alike(memory: CRF, disk: CRF) -> None:
    a, b = memory.parameters_, disk.parameters_
    assert losses(disk) == pytest.approx(losses(memory), rel=1e-9)
    assert a.index.names() == b.index.names()
    assert a.ends.tolist() == b.ends.tolist()
    assert a.labels.tolist() == b.labels.tolist()
    assert b.weights == pytest.approx(a.weights, abs=1e-6)
    assert memory.labels_ == disk.labels_
    assert memory.predict(TEST) == disk.predict(TEST)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"min_freq": 2.0, "c1": 0.1},
        {"order": 2, "pairs": 5},
        {"label_weights": {"O": 0.5}},
        {"all_possible_states": True, "all_possible_transitions": True},
        {"scheme": "plain", "constraints": False},
    ],
    ids=["l2", "l1, frequent features", "order 2", "weights of labels", "all features", "plain"],
)
def test_a_stream_gives_the_model_of_a_list(options):
    settings = {"features": "ner", "max_iterations": 12, "precision": "double", **options}
    weights = np.linspace(0.5, 2.0, len(TRAIN))
    memory = CRF(**settings).fit(TRAIN, dev=DEV, sentence_weights=weights)
    disk = CRF(**settings, out_of_core=True).fit(iter(TRAIN), dev=DEV, sentence_weights=weights)
    check_alike(memory, disk)
    assert [step.dev for step in memory.history_.steps] == [step.dev for step in disk.history_.steps]


def test_single_precision_and_blocks_of_any_size(monkeypatch):
    memory = CRF(features="ner", max_iterations=5, precision="single").fit(TRAIN)
    for size in (1, 100, 10**6):
        monkeypatch.setattr("trellis.models.crf.out_of_core.BLOCK", size)
        disk = CRF(features="ner", max_iterations=5, precision="single", out_of_core=True).fit(TRAIN)
        assert losses(disk) == pytest.approx(losses(memory), rel=1e-5)
        assert disk.parameters_.index.names() == memory.parameters_.index.names()


def test_given_features_with_values_and_partly_known_labels():
    X = [[{"word": t, "size": len(t) / 4} for t in s.tokens] for s in TRAIN]
    y = [[None if i % 7 == 3 else {"O", tag} if i % 5 == 1 else tag for i, tag in enumerate(s.tags)] for s in TRAIN]
    settings = {"features": "given", "max_iterations": 10, "precision": "double"}
    memory, disk = CRF(**settings).fit(X, y), CRF(**settings, out_of_core=True).fit(iter(X), iter(y))
    assert losses(disk) == pytest.approx(losses(memory), rel=1e-9)
    assert disk.parameters_.weights == pytest.approx(memory.parameters_.weights, abs=1e-6)


def test_a_warm_start_takes_over_the_weights():
    def learned(**options):
        model = CRF(features="ner", max_iterations=5, precision="double", **options).fit(TRAIN[:80])
        return model.fit(TRAIN[80:], warm_start=True)

    check_alike(learned(), learned(out_of_core=True))


def test_lines_with_the_same_text_share_attributes(tmp_path):
    templates = tmp_path / "templates"
    templates.write_text("U:%x[0,0]\nU:%x[-1,0]\nU:%x[1,0]\nB\n")
    settings = {"features": str(templates), "max_iterations": 3, "precision": "double"}
    check_alike(CRF(**settings).fit(TRAIN), CRF(**settings, out_of_core=True).fit(TRAIN))


def test_bad_tags_are_named_by_file_and_line(tmp_path):
    path = tmp_path / "train.conll"
    path.write_text("a\tB-X\nb\tO\n\n" * 200 + "a\tO\nb\tI-X\n\n" + "a\tO\nb\tO\n\n" * 200)
    with pytest.raises(DataError, match=re.escape(f"{path}:602")):
        CRF(features="ner", scheme="bio", out_of_core=True).fit(corpus.iterate(path))


def shards(folder, sizes, sentences=TRAIN):
    """Files with so many sentences each."""
    folder.mkdir()
    rest = iter(sentences)
    for number, size in enumerate(sizes):
        corpus.write(folder / f"{number:02}.jsonl", islice(rest, size))
    return folder


SIZES = [15, 0, 40, 10, 5, 30, 20, 20, 10, 25, 25]


@pytest.mark.parametrize("run", [1, 2500, 10**9], ids=["a run each", "runs of several", "too few runs"])
def test_shards_give_the_model_of_a_list(tmp_path, monkeypatch, run):
    monkeypatch.setattr("trellis.models.crf.out_of_core.RUN", run)
    settings = {"features": "ner", "max_iterations": 12, "precision": "double", "tokenizer": "words"}
    streamed = CRF(**settings).fit(corpus.Shards(shards(tmp_path / "in", SIZES)), dev=DEV)
    check_alike(CRF(**settings).fit(TRAIN, dev=DEV), streamed)


def test_files_that_are_taken_together(tmp_path):
    found = corpus.Shards(shards(tmp_path / "in", SIZES))
    for least in (1, 3000, 10**9):
        runs = found.runs(least)
        assert [path for run in runs for path in run] == list(found.paths)
        assert all(sum(os.path.getsize(path) for path in run) >= least for run in runs[:-1])
    assert len(found.runs(1)) == 10  # the empty one goes with its neighbour
    assert len(found.runs(10**9)) == 1


def test_shards_with_labels_or_weights_of_their_own(tmp_path):
    found = corpus.Shards(shards(tmp_path / "in", SIZES))
    weights = np.linspace(0.5, 2.0, len(TRAIN))
    settings = {"features": "ner", "max_iterations": 5, "precision": "double"}
    memory = CRF(**settings).fit(TRAIN, sentence_weights=weights)
    check_alike(memory, CRF(**settings).fit(found, sentence_weights=weights))


def test_errors_in_shards(tmp_path):
    folder = shards(tmp_path / "in", SIZES)
    with pytest.raises(ConfigError, match="that one needs all sentences in memory"):
        CRF(features="ner", algorithm="ap").fit(corpus.Shards(folder))
    (folder / "07.jsonl").write_text('{"tokens": ["a"]}\n')
    with pytest.raises(DataError, match=r"07\.jsonl:1\) has no tags"):
        CRF(features="ner").fit(corpus.Shards(folder))
    for path in folder.iterdir():
        path.write_text("")
    with pytest.raises(ModelError, match="there is nothing to learn from"):
        CRF(features="ner").fit(corpus.Shards(folder))


def test_sentences_are_counted_through_all_blocks():
    sentences = [(list(s.tokens), list(s.tags)) for s in TRAIN]
    X, y = ([pair[i] for pair in sentences] for i in (0, 1))
    y[150] = y[150][:-1]
    with pytest.raises(DataError, match="sentence 150 has"):
        CRF(features="ner", out_of_core=True).fit(X, y)
    with pytest.raises(DataError, match="more sentences than labels, of which there are 100"):
        CRF(features="ner", out_of_core=True).fit(X[:149], y[:100])
    with pytest.raises(ModelError, match="sentence_weights must be 100 finite numbers"):
        CRF(features="ner", out_of_core=True).fit(X[:100], y[:100], sentence_weights=[1.0] * 99)
    with pytest.raises(ModelError, match="there is nothing to learn from"):
        CRF(features="ner", out_of_core=True).fit([])
    with pytest.raises(DataError, match="got one str"):
        CRF(features="ner", out_of_core=True).fit("train.conll")


def test_what_needs_all_sentences_is_refused(tmp_path):
    templates = tmp_path / "templates"
    templates.write_text("U00:%x[0,0]\nB01:%x[0,0]\n")

    def refused(error, match, options=(), **settings):
        with pytest.raises(error, match=match):
            CRF(**{"features": "ner", **settings}, out_of_core=True).fit(TRAIN, **dict(options))

    refused(ConfigError, "out_of_core trains with lbfgs or owlqn, and algorithm is 'ap'", algorithm="ap")
    refused(ConfigError, "leave vectors unset", vectors="vectors.txt")
    refused(ConfigError, "line 2: 'B01:%x.*out_of_core does not support", features=str(templates))
    refused(ModelError, "looks at all sentences at once", {"on_bad_tags": "repair"})
    names = Lexicon([("London", "LOC")], strength="feature")
    refused(ModelError, "out_of_core does not learn from a lexicon", {"lexicon": names})
    refused(StoreError, "cannot be written", scratch=str(tmp_path / "missing"))


ARRAYS = {
    "whole": np.arange(7),
    "bytes": np.arange(3, dtype=np.uint8),
    "none": np.empty((0, 4), dtype=np.float32),
    "table": np.arange(6.0).reshape(2, 3),
}


def test_sections_are_read_as_they_were_written(tmp_path):
    scratch = Scratch(tmp_path)
    sections = [scratch.append({name: array + i for name, array in ARRAYS.items()}) for i in range(3)]
    for i, section in enumerate(sections):
        found = scratch.read(section)
        assert found.keys() == ARRAYS.keys()
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(found[name], array + i)
            assert (found[name].dtype, found[name].shape) == ((array + i).dtype, array.shape)
        assert not found["table"].flags.writeable
        assert found["table"].ctypes.data % 64 == 0


def test_the_file_has_no_name_and_its_arrays_outlive_it(tmp_path):
    scratch = Scratch(tmp_path)
    found = scratch.read(scratch.append(ARRAYS))
    assert list(tmp_path.iterdir()) == []
    scratch.close()
    assert found["whole"].tolist() == list(range(7))


def test_a_truncated_file_is_an_error_and_no_crash(tmp_path):
    scratch = Scratch(tmp_path)
    section = scratch.append({"large": np.zeros(100_000)})
    scratch.read(section)
    os.ftruncate(scratch._file.fileno(), 4096)
    with pytest.raises(StoreError, match="was truncated while it was in use"):
        scratch.read(section)


def test_a_full_disk_is_an_error_that_says_where(tmp_path):
    scratch = Scratch(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    try:
        with pytest.raises(StoreError, match=f"in {tmp_path} has no room for 800,000 bytes more: File too large"):
            scratch.append({"large": np.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_nothing_is_left_on_disk(tmp_path):
    seen = []
    model = CRF(features="ner", max_iterations=3, out_of_core=True, scratch=str(tmp_path))
    model.fit(TRAIN, progress=lambda step: seen.append(list(tmp_path.iterdir())))
    assert seen == [[]] * 3
    assert list(tmp_path.iterdir()) == []


def write(path, sentences) -> None:
    path.write_text("\n".join("".join(f"{t}\t{g}\n" for t, g in zip(s.tokens, s.tags, strict=True)) for s in sentences))


def command(folder, *options: str) -> list[str]:
    write(folder / "train.conll", TRAIN)
    start = [sys.executable, "-m", "trellis", "train", "-m", "crf", "--train", "train.conll"]
    return [*start, *(part for option in options for part in ("--set", option))]


def test_the_command_line_trains_from_a_stream(tmp_path):
    limits = ["max_iterations=5", "precision=double"]
    write(tmp_path / "dev.conll", DEV)
    for name, how in (("false", ()), ("true", ("--stream",))):
        line = [*command(tmp_path, *limits), *how, "--dev", "dev.conll", "--out", name]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert "task and scheme by its first 200 sentences" in done.stderr
    records = [json.loads((tmp_path / name / "training.json").read_text()) for name in ("false", "true")]
    for same in ("data", "figures", "labels", "tokenizer", "iterations"):
        assert records[0][same] == records[1][same]
    models = [trellis.load(tmp_path / name) for name in ("false", "true")]
    assert models[0].parameters_.weights == pytest.approx(models[1].parameters_.weights, abs=1e-8)


def test_the_command_line_trains_from_a_folder_and_from_standard_input(tmp_path):
    (tmp_path / "in").mkdir()
    start = command(tmp_path, "max_iterations=5", "precision=double")
    for number in range(10):
        write(tmp_path / "in" / f"{number}.conll", TRAIN[number * 20 : number * 20 + 20])
    for path in ("in", "-"):
        line = [*start, "--train", path, "--stream", "--out", f"model{path}"]
        with open(tmp_path / "train.conll") as given:
            done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, stdin=given)
        assert done.returncode == 0, done.stderr
    models = [trellis.load(tmp_path / name) for name in ("modelin", "model-")]
    assert models[0].config.out_of_core
    assert models[0].parameters_.weights == pytest.approx(models[1].parameters_.weights, abs=1e-8)
    counts = [json.loads((tmp_path / n / "training.json").read_text())["data"]["train"] for n in ("modelin", "model-")]
    assert counts[0] | {"path": "-"} == counts[1]
