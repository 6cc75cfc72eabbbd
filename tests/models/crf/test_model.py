"""What a CRF can be asked: explanations that add up, feature and transition tables, names, files."""

import numpy as np
import pytest

from tests.models.contract import TRAIN
from trellis import store
from trellis.errors import ConfigError, DataError, ModelError, TagError, TemplateError
from trellis.models import CRF
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
    assert 'word is "Smith"' in text
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
    assert "·" in table.to_markdown()


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


def test_a_model_trained_in_single_precision_is_pruned_and_keeps_single_weights(tmp_path):
    whole, single = (CRF(features="ner", precision=one).fit(TRAIN) for one in ("double", "single"))
    assert (whole.settings_.prune, single.settings_.prune) == (0.0, 1e-3)
    single.save(tmp_path / "model")
    assert single.parameters_.weights.dtype == CRF.load(tmp_path / "model").parameters_.weights.dtype == np.float32
    assert store.load(tmp_path / "model").arrays["pair_weights"].dtype == np.float32
    np.testing.assert_array_equal(CRF.load(tmp_path / "model").marginals([TRAIN[0]]), single.marginals([TRAIN[0]]))


def test_how_much_is_pruned_is_a_setting():
    none, half = (CRF(features="ner", prune=share).fit(TRAIN).parameters_.weights for share in (0.0, 0.5))
    assert 0 < len(half) < len(none)
    assert np.abs(half).min() >= 0.5 * np.abs(none).max()
    for wrong in (-0.1, 1.0, float("nan")):
        with pytest.raises(ConfigError, match="prune must be at least 0 and below 1"):
            CRF(prune=wrong)


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
