"""CRFsuite's files: read and written as CRFsuite itself does, and refused with a reason when they are damaged."""

import struct

import numpy as np
import pycrfsuite
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import trellis
from tests.damage import changes, damaged
from trellis import _native
from trellis.errors import ModelError, StoreError
from trellis.models import crfsuite

X = [
    [{"w": "a", "n": 0.5, "é": {"q": ["ü", "long name of a feature"]}}, {"w": "b", "t": True}, {"w": "c", "n": -1.5}],
    [{"w": "b"}, {"w": "a", "n": 2}],
    [{"w": "d"}],
] * 3
Y = [["B-X", "I-X", "四"], ["四", "B-X"], ["O"]] * 3
NEW = [[{"w": "a", "new": 1}, {"n": 3.5}, {}, {"w": "d"}], [{"w": "b"}]]


def written_by_crfsuite(path, algorithm="lbfgs", options=None, X=X, Y=Y):
    trainer = pycrfsuite.Trainer(algorithm, options or {}, verbose=False)
    for x, y in zip(X, Y, strict=True):
        trainer.append(x, y)
    trainer.train(str(path))
    return path.read_bytes()


def answers_of_crfsuite(path, sequences):
    """Labels, tags and marginals."""
    with pycrfsuite.Tagger().open(str(path)) as tagger:
        labels, tags, marginals = tagger.labels(), [], []
        for sequence in sequences:
            tags.append(tagger.tag(sequence))
            marginals.append([[tagger.marginal(label, t) for label in labels] for t in range(len(sequence))])
    return labels, tags, marginals


def assert_same_answers(model, path, sequences, given=None):
    labels, tags, marginals = answers_of_crfsuite(path, given or sequences)
    columns = [model.labels_.index(label) for label in labels]
    assert model.predict(sequences) == tags
    for ours, theirs in zip(model.marginals(sequences), marginals, strict=True):
        np.testing.assert_allclose(ours[:, columns], theirs, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [
        ("lbfgs", {}),
        ("lbfgs", {"c1": 0.3, "feature.possible_transitions": 1}),
        ("lbfgs", {"feature.possible_states": 1}),
        ("l2sgd", {"max_iterations": 20}),
        ("ap", {"max_iterations": 3}),
        ("pa", {"max_iterations": 3}),
        ("arow", {"max_iterations": 3}),
    ],
)
def test_a_file_of_crfsuite_is_read_and_written_byte_by_byte(tmp_path, algorithm, options):
    path = tmp_path / "model.crfsuite"
    data = written_by_crfsuite(path, algorithm, options)
    model = trellis.load(path)
    assert_same_answers(model, path, [*X, *NEW])
    assert crfsuite.to_bytes(model) == data
    assert model.labels_ == ("B-X", "I-X", "四", "O")
    model.save(tmp_path / "own")
    assert trellis.load(tmp_path / "own").predict(NEW) == model.predict(NEW)


@settings(max_examples=25)
@given(data=st.data())
def test_names_of_any_kind_and_number(tmp_path_factory, data):
    text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
    items = st.lists(st.dictionaries(text, st.floats(-2, 2) | text, max_size=6), min_size=1, max_size=4)
    sequences = data.draw(st.lists(items, min_size=1, max_size=5))
    labels = [[data.draw(text.filter(bool)) for _ in items] for items in sequences]
    path = tmp_path_factory.mktemp("names") / "model.crfsuite"
    written = written_by_crfsuite(path, options={"max_iterations": 3}, X=sequences, Y=labels)
    model = trellis.load(path)
    assert_same_answers(model, path, sequences)
    assert crfsuite.to_bytes(model) == written


@pytest.mark.parametrize(
    "options",
    [{"features": "given"}, {"features": "pos"}, {"features": "seg", "c1": 0.1, "min_freq": 1}],
)
def test_our_models_open_in_crfsuite(tmp_path, options):
    path = tmp_path / "model.crfsuite"
    words = [["a", "Bcd", "四", "12"], ["x-y", "a"], ["e"]] * 2
    labels = [["O", "A", "C", "A"], ["O", "A"], ["C"]] * 2
    model = trellis.CRF(**options, scheme="plain", constraints=False)
    if options["features"] == "given":
        inputs = given = X
        model.fit(X, Y)
    else:
        inputs = words
        model.fit(words, labels)
        given = [model.feature_names(sentence) for sentence in words]
    crfsuite.save(model, path)
    assert_same_answers(model, path, inputs, given)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "constraints: train with constraints=False"),
        ({"constraints": False, "order": 2}, "a memory of two labels: train with order=1"),
    ],
)
def test_what_no_file_can_hold_is_named(options, reason):
    model = trellis.CRF(max_iterations=2, **options).fit([["a", "b", "c"]] * 2, [["B-X", "I-X", "O"]] * 2)
    with pytest.raises(ModelError, match=reason):
        crfsuite.to_bytes(model)


def test_what_is_too_large_or_has_a_nul_is_refused_before_it_is_written():
    model = trellis.CRF(features="given", constraints=False, scheme="plain").fit([[["a\0b"], ["c"]]], [["A", "B"]])
    with pytest.raises(ModelError, match="a name with a NUL cannot be written"):
        crfsuite.to_bytes(model)

    def arrays(length, *kinds):
        return [np.zeros(size, dtype=kind) for size, kind in zip(length, kinds, strict=True)]

    pairs = arrays((1, 0, 0, 0, 0), np.uint32, np.uint16, np.float64, np.int64, np.float64)
    name = np.zeros(2**32 - 1, dtype=np.uint8)  # of pages that nobody touches
    with pytest.raises(ValueError, match=r"would take 42949\d+ bytes, and its offsets of 32 bits allow for 4294967295"):
        _native.write_crfsuite(*arrays((0, 0), np.uint8, np.uint32), name, np.array([2**32 - 1], np.uint32), *pairs)


def test_a_model_of_nothing_has_no_answers(tmp_path):
    pycrfsuite.Trainer(verbose=False).train(str(tmp_path / "empty.crfsuite"))
    with pytest.raises(StoreError, match=r"empty.crfsuite: the saved model has no labels"):
        trellis.load(tmp_path / "empty.crfsuite")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return written_by_crfsuite(tmp_path_factory.mktemp("damage") / "model.crfsuite")


class TestDamage:
    def word(self, data, *places):
        """The 32-bit number at a sum of places."""
        return struct.unpack_from("<I", data, sum(places))[0]

    @pytest.mark.parametrize(
        ("place", "value", "problem"),
        [
            (lambda w: 4, 99, "has 5... bytes, and its header says 99"),
            (lambda w: 8, 99, "not of the type 'FOMC'"),
            (lambda w: 12, 99, "has version 99, and only 100 is known"),
            (lambda w: 20, 2**31, "has 2147483648 labels, and at most 16384 are possible"),
            (lambda w: 20, 5, "table of labels: has 4 ids, and the header of the file says 5"),
            (lambda w: 20, 3, "feature . is for label 3 of 3"),
            (lambda w: 24, 2**32 - 1, "table of attributes: has .* ids, and the header of the file says 4294967295"),
            (lambda w: 28, 2**32 - 1, "the features would take 0 bytes from byte 4294967295, and there are"),
            (lambda w: 32, 50, "the table of labels: must begin with 'CQDB'"),
            (lambda w: w(28), 99, "the features: must begin with 'FEAT'"),
            (lambda w: w(28) + 8, 2**32 - 1, "the features: 4294967295 features would take 85899345900 bytes from"),
            (lambda w: w(28) + 12, 1, "feature 0 has type 1 and source 0, and a list has it with type 0 and source 0"),
            (lambda w: w(28) + 28, 0xFFF00000, "the weight of feature 0 is not finite"),
            (lambda w: w(32) + 4, 5, "says that it has 5 bytes, and its header alone has more"),
            (lambda w: w(32) + 4, 10**6, "the table of labels: the whole of it would take 1000000 bytes"),
            (lambda w: w(32) + 12, 0x71534462, "the table of labels: was written in another byte order"),
            (lambda w: w(32) + 20, 10**6, "the offsets by id would take 16 bytes from byte 1000000"),
            (lambda w: w(32) + w(w(32) + 20), 0, "label 0 has no name"),
            (lambda w: w(32) + w(w(32) + 20), 10**6, "the name of label 0 would begin at byte 1000000"),
            (lambda w: w(32) + 2072, 3, "the record for label 0 is that of 3"),
            (lambda w: w(32) + 2076, 0, "the name of label 0 ends outside of the table"),
            (lambda w: w(32) + 2080, 0, "the name of label 0 must end with its only NUL"),
            (lambda w: w(40), 0, "the transitions: must begin with 'LFRF'"),
            (lambda w: w(40) + 8, 2, "the transitions: has 2 lists, and 4 are needed"),
            (lambda w: w(40) + 12, 10**6, "list 0 from byte 1000000 ends outside of the file"),
            (lambda w: w(w(40) + 12), 10**6, "the transitions: list 0 from byte .* ends outside of the file"),
            (lambda w: w(w(44) + 12) + 4, 99, "the attributes: list 0 has feature 99 of"),
        ],
    )
    def test_a_number_that_cannot_be_is_named(self, whole, tmp_path, place, value, problem):
        where = place(lambda at: self.word(whole, at))
        path = tmp_path / "bad.crfsuite"
        path.write_bytes(whole[:where] + struct.pack("<I", value) + whole[where + 4 :])
        with pytest.raises(StoreError, match=f"bad.crfsuite is no CRFsuite model: .*{problem}"):
            trellis.load(path)

    def test_features_that_are_listed_twice_are_refused(self, whole):
        lists = self.word(whole, 44)
        offsets = [self.word(whole, lists, 12, 4 * attribute) for attribute in range(self.word(whole, 24))]
        first = next(at for at in offsets if self.word(whole, at) > 1)
        twice = whole[: first + 8] + whole[first + 4 : first + 8] + whole[first + 12 :]
        with pytest.raises(StoreError, match="two features for label"):
            crfsuite.read(twice, "twice")

    def test_every_truncation_is_refused(self, whole):
        for size in [*range(0, len(whole), 37), len(whole) - 1]:
            with pytest.raises(StoreError, match="cut is no CRFsuite model"):
                crfsuite.read(whole[:size], "cut")
            fitting = whole[:4] + struct.pack("<I", size) + whole[8:size]  # the header agrees
            with pytest.raises(StoreError, match="cut is no CRFsuite model"):
                crfsuite.read(fitting[:size], "cut")

    @settings(max_examples=300)
    @given(changed=changes([b"", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\1", b"\x30\0\0\0", b"CQDB"], max_size=3))
    @example(changed=[(0, 0, b"")])
    def test_changed_bytes_are_read_or_refused(self, whole, changed):
        data = damaged(whole, changed)
        data = data[:4] + struct.pack("<I", len(data)) + data[8:]
        try:
            model = trellis.CRF.from_stored(crfsuite.read(data, "changed"))
        except StoreError as error:
            assert str(error).startswith("changed")  # noqa: PT017 - most changes are refused
        else:
            assert len(model.predict(NEW)) == len(NEW)
