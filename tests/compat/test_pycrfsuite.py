"""The mirror of python-crfsuite against the original: files, answers, parameters, messages."""

import struct

import numpy as np
import pycrfsuite as original
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.compat import pycrfsuite
from trellis.errors import DataError, ModelError, StoreError

X = [
    [{"w": "a", "n": 0.5, "é": {"q": ["ü", "a long name"], "d": {"x": True}}}, {"w": b"b", "t": True}, ["c", "c", "d"]],
    [{"w": "b"}, {"w": "a", "n": 2}],
    [{"w": "d", "off": False}],
] * 3
Y = [["B-X", "I-X", "四"], ["四", "B-X"], ["O"]] * 3
NEW = [[{"w": "a", "new": 1}, {"n": 3.5}, {}, {"w": "d"}], [["c", "c"], {"é": {"q": {"ü"}}}], []]
ALGORITHMS = {
    "lbfgs": {"c1": 0.05, "c2": 0.1},
    "l2sgd": {"c2": 0.01, "max_iterations": 50},
    "ap": {"max_iterations": 10},
    "pa": {"max_iterations": 10},
    "arow": {"max_iterations": 10},
}


def trained(package, path, algorithm="lbfgs", params=None, trainer=None):
    trainer = (trainer or package.Trainer)(algorithm, params or {}, verbose=False)
    for x, y in zip(X, Y, strict=True):
        trainer.append(x, y)
    trainer.train(str(path))
    return trainer


def answers(package, path, sequences=(*X, *NEW)):
    with package.Tagger().open(str(path)) as tagger:
        labels, found = tagger.labels(), []
        for sequence in sequences:
            tags = tagger.tag(sequence)
            marginals = [[tagger.marginal(label, t) for label in labels] for t in range(len(sequence))]
            found.append((tags, tagger.probability(tags) if tags else None, marginals))
        return labels, found


def assert_same_answers(path):
    theirs, ours = answers(original, path), answers(pycrfsuite, path)
    assert ours[0] == theirs[0]
    for (tags, probability, marginals), (true_tags, true_probability, true_marginals) in zip(
        ours[1], theirs[1], strict=True
    ):
        assert tags == true_tags
        assert probability == pytest.approx(true_probability, abs=1e-9)
        np.testing.assert_allclose(marginals, true_marginals, rtol=0, atol=1e-9)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_files_of_either_side_have_the_same_answers_on_both(tmp_path, algorithm):
    for package in (original, pycrfsuite):
        trained(package, tmp_path / "model", algorithm, ALGORITHMS[algorithm])
        assert_same_answers(tmp_path / "model")
    assert answers(pycrfsuite, tmp_path / "model")[1][0][0] == Y[0]


@settings(max_examples=30)
@given(data=st.data())
def test_features_of_any_shape_have_the_same_answers(tmp_path_factory, data):
    name = st.text("ab:é四", max_size=14)
    values = st.floats(-2, 2) | st.booleans() | name | name.map(str.encode) | st.lists(name, max_size=3)
    items = st.dictionaries(name, values | st.dictionaries(name, values, max_size=2), max_size=4)
    sequence = st.lists(items | st.lists(name, max_size=40) | st.sets(name), min_size=1, max_size=4)
    sequences = data.draw(st.lists(sequence, min_size=1, max_size=4))
    path = tmp_path_factory.mktemp("shapes") / "model"
    trainer = original.Trainer("lbfgs", {"max_iterations": 3}, verbose=False)
    for items in sequences:
        trainer.append(items, [data.draw(st.sampled_from(["A", "B", "四"])) for _ in items])
    trainer.train(str(path))
    with original.Tagger().open(str(path)) as theirs, pycrfsuite.Tagger().open(path) as ours:
        for items in [*sequences, data.draw(sequence)]:
            for given_items in (items, original.ItemSequence(items)):
                best = theirs.tag(given_items)
            for given_items in (items, pycrfsuite.ItemSequence(items), iter(items)):
                tags = ours.tag(given_items)
                assert ours.probability(tags) == pytest.approx(theirs.probability(tags), abs=1e-9)
                assert ours.probability(best) == pytest.approx(ours.probability(tags), abs=1e-9)
            summed = [{name: item.count(name) for name in item} if isinstance(item, list) else item for item in items]
            assert pycrfsuite.ItemSequence(summed).items() == original.ItemSequence(summed).items()


def test_answers_stay_the_same_once_all_weights_are_in_memory(tmp_path):
    trained(pycrfsuite, tmp_path / "model")
    with pycrfsuite.Tagger().open(str(tmp_path / "model")) as tagger:
        found = []
        for _ in range(2):
            found.append([tagger.scores([x]).emissions for x in (*X, *NEW)])
            tagger.tag_all([*X, *NEW] * 500)
        for before, after in zip(*found, strict=True):
            np.testing.assert_allclose(after, before, rtol=1e-12, atol=1e-12)
        assert tagger.tag_all(X) == Y


def test_parameters_are_the_originals():
    for name in ("lbfgs", "l2sgd", "ap", "averaged-perceptron", "pa", "passive-aggressive", "AROW"):
        theirs, ours = original.Trainer(name), pycrfsuite.Trainer(name)
        assert ours.params() == theirs.params()
        assert ours.get_params() == theirs.get_params()
        assert [type(value) for value in ours.get_params().values()] == [
            type(value) for value in theirs.get_params().values()
        ]
        assert all(ours.help(parameter).endswith(".") for parameter in ours.params())
    public = {name for name in dir(original) if not name.startswith("_")}
    assert public <= set(dir(pycrfsuite)) | {"contextlib", "os", "sys", "tempfile"}
    for name in ("Tagger", "Trainer", "ItemSequence"):
        public = {name for name in dir(getattr(original, name)) if not name.startswith("_")}
        assert public <= {*dir(getattr(pycrfsuite, name)), "verbose"}


def test_groups_are_held_out_and_scored(tmp_path):
    logs = []
    for package in (original, pycrfsuite):
        trainer = package.Trainer("lbfgs", verbose=False)
        for group, (x, y) in enumerate(zip(X, Y, strict=True)):
            trainer.append(x, y, group % 3)
        trainer.train(str(tmp_path / package.__name__), holdout=2)
        logs.append(trainer.logparser)
    theirs, ours = (log.last_iteration for log in logs)
    assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)
    assert ours["scores"].keys() == {"B-X", "I-X", "四", "O"}  # the original passes over B-X, which has no items
    assert ours["scores"]["B-X"].f1 is None
    for name in ("avg_precision", "avg_recall", "avg_f1", "item_accuracy", "instance_accuracy", "active_features"):
        assert ours[name] == theirs[name]
    assert ours["scores"]["O"]._asdict() == theirs["scores"]["O"]._asdict()
    assert [event for event, _, _ in logs[1].events if event != "iteration"] == [
        event for event, _, _ in logs[0].events if event != "iteration"
    ]


def test_the_parser_of_messages_finds_what_the_original_finds(tmp_path):
    from pycrfsuite._logparser import TrainLogParser as Original

    from trellis.compat.pycrfsuite._logparser import TrainLogParser

    for algorithm, options in ALGORITHMS.items():
        lines = []

        class Recorder(original.BaseTrainer):
            def message(self, message, lines=lines):
                lines.append(message)

        trainer = Recorder(algorithm, options)
        for group, (x, y) in enumerate(zip(X, Y, strict=True)):
            trainer.append(x, y, group % 2)
        trainer.train(str(tmp_path / "model"), holdout=1)
        theirs, ours = Original(), TrainLogParser()
        for line in lines:
            assert ours.feed(line) == theirs.feed(line)
            assert ours.last_log == theirs.last_log
        assert {**vars(ours), "iterations": 0, "last_iteration": 0, "storing_seconds": 0} == {
            **vars(theirs),
            "iterations": 0,
            "last_iteration": 0,
            "storing_seconds": 0,
        }
        for left, right in zip(ours.iterations, theirs.iterations, strict=True):
            scores = [{label: tuple(score) for label, score in row.pop("scores").items()} for row in (left, right)]
            assert left == right
            for label, score in scores[1].items():  # the original does not read rows of asterisks and counts
                assert scores[0][label] == score


def test_what_a_model_consists_of(tmp_path):
    trained(original, tmp_path / "model")
    with original.Tagger().open(str(tmp_path / "model")) as tagger:
        theirs = tagger.info()
        tagger.dump(str(tmp_path / "theirs"))
    with pycrfsuite.Tagger().open(str(tmp_path / "model")) as tagger:
        ours = tagger.info()
        tagger.dump(tmp_path / "ours")
    assert (ours.header, ours.labels, ours.attributes) == (theirs.header, theirs.labels, theirs.attributes)
    for name in ("transitions", "state_features"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), abs=1e-6)
    assert sorted((tmp_path / "ours").read_text().split("\n")) == sorted((tmp_path / "theirs").read_text().split("\n"))


def test_what_is_appended_may_change_afterwards(tmp_path):
    item, inner = {"w": "a"}, {"x": 1.0}
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.append([item, {"deep": inner}], ["A", "B"])
    item["w"], inner["y"] = "b", 1.0
    trainer.train(tmp_path / "model")
    with pycrfsuite.Tagger().open(tmp_path / "model") as tagger:
        assert set(tagger.info().attributes) == {"w:a", "deep:x"}
    trainer.clear()
    trainer.train(tmp_path / "empty")
    assert (tmp_path / "empty").read_bytes() == _empty_of_crfsuite(tmp_path)
    trainer.train("")


def _empty_of_crfsuite(folder):
    original.Trainer(verbose=False).train(str(folder / "theirs"))
    return (folder / "theirs").read_bytes()


def test_refusals_say_what_is_wrong(tmp_path):
    trainer = pycrfsuite.Trainer(verbose=False)
    with pytest.raises(DataError, match=r"differ: \|x\| = 1, \|y\| = 2"):
        trainer.append([{"a": 1}], ["A", "B"])
    with pytest.raises(TypeError, match="a label must be a string, got 3"):
        trainer.append([{"a": 1}], [3])
    with pytest.raises(ModelError, match="Parameter not found: c3"):
        trainer.set("c3", 1)
    with pytest.raises(ModelError, match="c1 must be a number, got 'x'"):
        trainer.set("c1", "x")
    trained(pycrfsuite, tmp_path / "model")
    tagger = pycrfsuite.Tagger()
    for question in (tagger.labels, tagger.info, lambda: tagger.tag([{}]), lambda: tagger.marginal("O", 0)):
        with pytest.raises(ModelError, match="The tagger is not opened"):
            question()
    tagger.open(tmp_path / "model")
    with pytest.raises(ModelError, match="no sequence is set"):
        tagger.tag()
    tagger.set(X[0])
    with pytest.raises(RuntimeError, match="Failed to convert into label identifier: Z"):
        tagger.marginal("Z", 0)
    with pytest.raises(ValueError, match="position 3 is out of range of 3"):
        tagger.marginal("O", 3)
    with pytest.raises(ValueError, match=r"\|x\| = 3, \|y\| = 1"):
        tagger.probability(["O"])
    with pytest.raises(DataError, match="sentence 0, position 1: feature 'a' must be a string, a number or a bool"):
        tagger.tag([{"a": 1}, {"a": None}])
    for items in ("text", ["text"], [[{"a": 1}]], [{"a": None}]):
        with pytest.raises(DataError, match=r"must be|expected"):
            pycrfsuite.ItemSequence(items)


def test_damage_is_found_at_the_latest_when_it_is_met(tmp_path):
    trained(pycrfsuite, tmp_path / "model")
    data = (tmp_path / "model").read_bytes()
    tags, refused = answers(pycrfsuite, tmp_path / "model")[1][0][0], 0
    used = [at for at in range(0, len(data) - 4, 4) if any(data[at : at + 4])]
    for at in used:
        for number in (0xFFFFFFFF, len(data) - 4):
            damaged = data[:at] + struct.pack("<I", number) + data[at + 4 :]
            tagger = pycrfsuite.Tagger()
            try:
                tagger.open_inmemory(damaged)
                assert len(tagger.tag(X[0])) == len(tags)
            except (StoreError, DataError):
                refused += 1
    assert refused > 50
