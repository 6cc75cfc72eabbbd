"""What a CRF can be asked: explanations that add up, feature and transition tables, names, files."""

import pickle

import numpy as np
import pytest

from tests.models.contract import TRAIN
from trellis import store
from trellis.errors import ConfigError, DataError, ModelError, StoreError, TagError, TemplateError
from trellis.models import CRF
from trellis.models.crf.model import Observed
from trellis.text import Sentence


@pytest.fixture(scope="module")
def model():
    return CRF(features="ner", c2=0.05).fit(TRAIN)


def test_contributions_add_up_to_the_difference_of_scores(model):
    for sentence in TRAIN:
        scores = model.chain_scores([sentence])
        tags = model.tagset_
        for position in range(len(sentence)):
            found = model.explain(sentence, position)
            paths = (found.labelling, found.alternative)
            ids = [model.states_.encode(tags.encode(path), scores.lengths) for path in paths]
            best, other = (scores.score(own)[0] for own in ids)
            assert found.score_difference == pytest.approx(best - other, abs=1e-10)
            total = sum(c.difference for c in found.contributions)
            assert total == pytest.approx(found.score_difference, abs=1e-10)
            assert found.score_difference >= 0


def test_the_runner_up_is_the_best_path_with_another_label(model):
    sentence = TRAIN[0]
    found = model.explain(sentence, 1)
    assert found.labelling == sentence.tags
    assert found.runner_up != found.label == "I-PER"
    options = [option for option in model.kbest([sentence], 500)[0] if option.tags[1] != "I-PER"]
    assert tuple(options[0].tags) == found.alternative
    marginals = dict(zip(model.labels_, model.marginals([sentence])[0][1], strict=True))
    assert found.probability == pytest.approx(marginals["I-PER"])
    assert found.runner_up_probability == pytest.approx(marginals[found.runner_up])


def test_explanations_name_features_and_transitions(model):
    found = model.explain(TRAIN[0], 1)
    names = {c.name for c in found.contributions}
    assert "U00:Smith" in names
    assert any(c.kind == "transition" and c.name.startswith("B-PER -> I-PER or ") for c in found.contributions)
    text = found.to_markdown()
    assert "U00:Smith" in text
    assert "total" in text


def test_positions_outside_the_sentence_are_refused(model):
    with pytest.raises(ModelError, match=r"position must be in 0..1 of 2 tokens, got 2"):
        model.explain(["a", "b"], 2)


def test_no_learned_state_is_lost_among_the_top_features_of_labels():
    X, y = (
        [["Ann", "lives", "in", "New", "York"], ["Paris", "calls"]],
        [["B-PER", "O", "O", "B-LOC", "I-LOC"], ["B-LOC", "O"]],
    )
    model = CRF(features="ner", max_iterations=20).fit(X, y)
    every = {(f.name, f.label) for f in model.top_features(n=10_000).features}
    by_label = [model.top_features(label, 10_000).features for label in model.labels_]
    assert sorted((f.name, f.label) for own in by_label for f in own) == sorted(every)
    assert {f.label for f in model.top_features("B-LOC", 10_000).features} == {"B-LOC", "S-LOC"}
    assert {f.label for f in model.top_features("S-LOC", 10_000).features} == {"S-LOC"}


def test_top_features_are_sorted_by_size_and_belong_to_the_label(model):
    top = model.top_features("B-LOC", 5).features
    assert len(top) == 5
    assert {f.label for f in top} <= {"B-LOC", "S-LOC"}
    sizes = [abs(f.weight) for f in model.top_features(n=50).features]
    assert sizes == sorted(sizes, reverse=True)
    p = model.parameters_
    assert sizes[0] == np.abs(p.weights).max()
    with pytest.raises(TagError, match=r"label 'B-LOK' .* nearest of its 5 labels is 'B-LOC'"):
        model.top_features("B-LOK")


def test_transitions_are_a_table(model):
    table = model.transitions()
    assert table.labels == model.states_.names
    i, j = table.labels.index("B-PER"), table.labels.index("E-PER")
    assert table.weights[i][j] == model.parameters_.transitions[i, j] > 0
    assert "-inf" in table.to_markdown()


def test_feature_names_of_a_sentence(model):
    assert model.feature_names(["Rome"])[0][0] == "U00:Rome"
    with pytest.raises(ModelError, match="no templates"):
        CRF(features="given").fit([[["a"], ["b"]]], [["A", "B"]]).feature_names([["a"]])


def test_templates_with_columns_need_them_when_tagging():
    train = [Sentence(["a", "b"], ["O", "B-X"], columns={"pos": ["D", "N"]})]
    model = CRF(features="chunk").fit(train)
    assert len(model.tag([Sentence(["a"], columns={"pos": ["N"]})])[0].tags) == 1
    with pytest.raises(TemplateError, match=r"line 12: 'U10:%x\[-2,1\]' looks at column 1"):
        model.predict([["a"]])


def test_tagged_sentences_keep_what_they_had(model):
    sentence = Sentence(["Rome", "!"], text="Rome!", offsets=[(0, 4), (4, 5)])
    tagged = model.tag([sentence])[0]
    assert (tagged.text, tagged.offsets, len(tagged.tags)) == ("Rome!", ((0, 4), (4, 5)), 2)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("pair_weights", lambda a: a[1:], "the array 'pair_weights' must have the shape"),
        ("pair_labels", lambda a: a + 100, r"the array 'pair_labels' must lie in 0..8, got 10. at \[0\]"),
        ("pair_counts", lambda a: a[1:], "the array 'pair_counts' must have the shape"),
        ("pair_counts", lambda a: a[::1] + 1, "the array 'pair_counts' must add up to"),
        ("attributes", lambda a: a[1:], "the array 'attributes.lengths' must add up to"),
    ],
)
def test_counts_and_labels_that_do_not_fit_each_other_are_refused(model, tmp_path, name, change, message):
    model.save(tmp_path / "m")
    stored = store.load(tmp_path / "m")
    store.save(tmp_path / "bad", "crf", stored.manifest.values, stored.arrays | {name: change(stored.arrays[name])})
    with pytest.raises(StoreError, match=message):
        CRF.load(tmp_path / "bad")


def test_a_model_trained_in_single_precision_is_pruned_and_keeps_single_weights(tmp_path):
    whole, single = (CRF(features="ner", precision=one).fit(TRAIN) for one in ("double", "single"))
    assert (whole.settings_.prune, single.settings_.prune) == (0.0, 1e-3)
    weights = single.parameters_.weights
    np.testing.assert_array_equal(weights, weights.astype(np.float32))
    single.save(tmp_path / "model")
    assert store.load(tmp_path / "model").arrays["pair_weights"].dtype == np.float32
    np.testing.assert_array_equal(CRF.load(tmp_path / "model").marginals([TRAIN[0]]), single.marginals([TRAIN[0]]))


def test_how_much_is_pruned_is_a_setting():
    none, half = (CRF(features="ner", prune=share).fit(TRAIN).parameters_.weights for share in (0.0, 0.5))
    assert 0 < len(half) < len(none)
    assert np.abs(half).min() >= 0.5 * np.abs(none).max()
    for wrong in (-0.1, 1.0, float("nan")):
        with pytest.raises(ConfigError, match="prune must be at least 0 and below 1"):
            CRF(prune=wrong)


def test_arrays_that_do_not_fit_each_other_are_refused(model, tmp_path):
    model.save(tmp_path / "m")
    stored = store.load(tmp_path / "m")
    for name, change, message in [
        ("transitions", lambda a: a[1:], r"bad: the array 'transitions' must have the shape \(9, 9\), got \(8, 9\)"),
        ("transitions", lambda a: a * np.nan, "the array 'transitions' must be finite or -inf, got nan at"),
        ("start", lambda a: -a, "the array 'start' must be finite or -inf, got inf at"),
        ("weighted", lambda a: a + 1, "the array 'weighted' must lie in 0..1, got 2 at"),
        ("pair_weights", lambda a: a[1:], "the array 'pair_weights' must have the shape"),
        ("pair_weights", lambda a: a * np.inf, "the array 'pair_weights' must be finite, got -?inf at"),
    ]:
        changed = stored.arrays | {name: change(stored.arrays[name])}
        store.save(tmp_path / "bad", "crf", stored.manifest.values, changed)
        with pytest.raises(StoreError, match=message):
            CRF.load(tmp_path / "bad")
    rest = {name: array for name, array in stored.arrays.items() if name != "start"}
    store.save(tmp_path / "bad", "crf", stored.manifest.values, rest)
    with pytest.raises(StoreError, match=r"bad: the array 'start' is missing: expected float64 of shape \(9\)"):
        CRF.load(tmp_path / "bad")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("pair_labels", lambda a: np.full(len(a), -1), "the array 'pair_labels' must be uint8 or uint16, got int64"),
        ("pair_counts", lambda a: a.reshape(1, -1), "the array 'pair_counts' must have the shape"),
        (
            "pair_counts",
            lambda a: np.full(len(a), 2**32 - 1, dtype=np.uint32),
            "the array 'pair_counts' must add up to",
        ),
        (
            "attributes.lengths",
            lambda a: a.astype(np.float64),
            "the array 'attributes.lengths' must be uint8 or uint16 or uint32, got float64",
        ),
        ("attributes.lengths", lambda a: np.full(len(a), 2**32 - 1, dtype=np.uint32), "lengths' must add up to"),
        ("attributes", lambda a: np.full_like(a, 255), "must be attributes of its templates, and number 0 is none"),
        ("values.counts", lambda a: a + 1, "must count as many values as there are"),
        ("values.counts", lambda a: a[:-1], "must count as many values as there are"),
    ],
)
def test_arrays_that_would_have_native_code_look_outside_are_refused(model, tmp_path, name, change, message):
    """Each was a crash: numbers converted, differences that overflow, and rows taken for items."""
    model.save(tmp_path / "m")
    stored = store.load(tmp_path / "m")
    store.save(tmp_path / "bad", "crf", stored.manifest.values, stored.arrays | {name: change(stored.arrays[name])})
    with pytest.raises(StoreError, match=message):
        CRF.load(tmp_path / "bad")


def test_models_of_another_kind_are_refused(tmp_path):
    store.save(tmp_path / "x", "horse", {}, {})
    from trellis import models

    with pytest.raises(StoreError, match="kind 'horse', expected 'crf'"):
        CRF.load(tmp_path / "x")
    with pytest.raises(StoreError, match="unknown kind 'horse'"):
        models.load(tmp_path / "x")


def test_scores_do_not_depend_on_what_was_tagged_before():
    """The model remembers words and pairs, and forgets them when they are many: 200 labels make that soon."""
    labels = [f"t{i}" for i in range(200)]
    X = [["w" + label, "and", label] for label in labels]
    y = [[label, "t0", label] for label in labels]
    fitted = CRF(features="pos", max_iterations=3).fit(X, y)
    fresh = pickle.loads(pickle.dumps(fitted))
    random = np.random.default_rng(0)
    many = [[f"{a}{b}" for a, b in random.choice(["and", *labels], (20, 2))] for _ in range(600)]
    few = [*X[:20], many[3]]
    expected = fresh.chain_scores(few).emissions
    for before in ([], many, many[:5], few):
        fitted.chain_scores(before)
        np.testing.assert_array_equal(fitted.chain_scores(few).emissions, expected)
    compiled = fitted._extractor().compile(few, fitted.parameters_.index, grow=False)
    np.testing.assert_allclose(Observed(compiled).scores(fitted.parameters_).emissions, expected, atol=1e-12)


class TestMemory:
    """What a model keeps of the words it has seen, from call to call."""

    @pytest.fixture
    def model(self, tmp_path):
        templates = tmp_path / "templates"
        templates.write_text("U0:%x[0,0]\nU1:%suffix2[-1,0]/%suffix2[0,0]\nB\n")
        return CRF(features=str(templates)).fit(TRAIN)

    def scorer(self, model):
        model.predict([["a"]])
        return model._scorer[1]

    def test_words_are_remembered_and_counted_by_their_bytes(self, model):
        scorer = self.scorer(model)
        before = scorer.bytes
        words = [f"word{number}" for number in range(10_000)]
        model.predict([words])
        grown = scorer.bytes
        assert grown - before > sum(map(len, words))
        model.predict([words])
        assert scorer.bytes == grown

    def test_150_words_of_a_megabyte_are_forgotten(self, model):
        scorer = self.scorer(model)
        sentence = list(TRAIN[0].tokens)
        huge = [f"{number}".ljust(1 << 20, "x") for number in range(150)]
        expected = model.predict([sentence, huge[:2]])
        assert model.predict([sentence, huge])[0] == expected[0]
        assert scorer.bytes <= scorer.most_bytes
        for word in huge:
            model.predict([[word]])
            assert scorer.bytes <= scorer.most_bytes
        assert model.predict([sentence, huge[:2]]) == expected

    def test_what_was_read_before_an_error_is_forgotten_too(self, model):
        scorer = self.scorer(model)
        expected = model.marginals([TRAIN[0]])
        huge = [f"{number}".ljust(1 << 20, "x") for number in range(100)]
        with pytest.raises(DataError, match="sentence 1, position 0: token must be a string, got int"):
            model.predict([huge, [3]])
        assert scorer.bytes <= scorer.most_bytes
        np.testing.assert_array_equal(model.marginals([TRAIN[0]]), expected)
