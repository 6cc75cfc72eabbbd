"""The three problems on models with given probabilities, against the worked figures and enumeration."""

import numpy as np
import pytest
from hmmlearn.hmm import CategoricalHMM
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import xlogy

from tests.models.hmm.oracle import BOXES, expected_counts, joint, models, paths
from trellis.errors import ConfigError, DataError, ModelError, NoPathError
from trellis.models import HMM
from trellis.models.hmm.probabilities import log_score

COLOURS = ["red", "white", "red"]


@pytest.fixture
def boxes() -> HMM:
    return HMM.from_probabilities(**BOXES, states=["box 1", "box 2", "box 3"], symbols=["red", "white"])


class TestWorkedExample:
    def test_forward(self, boxes) -> None:
        alpha = boxes.forward(COLOURS).values
        expected = [[0.10, 0.16, 0.28], [0.077, 0.1104, 0.0606], [0.04187, 0.035512, 0.052836]]
        np.testing.assert_allclose(alpha, expected, rtol=1e-12)
        assert alpha[-1].sum() == pytest.approx(0.130218, abs=1e-15)

    def test_backward_gives_the_same_likelihood(self, boxes) -> None:
        beta = boxes.backward(COLOURS).values
        np.testing.assert_array_equal(beta[-1], 1.0)
        first = np.array(BOXES["start"]) * np.array(BOXES["emissions"])[:, 0]
        assert first @ beta[0] == pytest.approx(0.130218, abs=1e-15)

    def test_tables_show_probabilities_states_and_observations(self, boxes) -> None:
        assert str(boxes.forward(COLOURS)).splitlines()[::4] == [
            "Forward: alpha as probabilities, ● most probable states; P(o) = 0.13022",
            "| red   |     0.1 |     0.16 |     ● 0.28 |",
        ]
        assert "| start | 0.02451 |" in str(boxes.backward(COLOURS))
        assert "● 0.0606" in boxes.forward(COLOURS)._repr_html_()
        assert boxes.forward(COLOURS).to_records()[0]["box 1"] == pytest.approx(0.1)
        table = boxes.viterbi_table(COLOURS)
        np.testing.assert_allclose(np.exp(table.last[0]), [0.00756, 0.01008, 0.0147])
        np.testing.assert_array_equal(table.path, [2, 2, 2])
        assert "← box 3" in str(table)

    def test_likelihood(self, boxes) -> None:
        assert np.exp(boxes.log_likelihood([COLOURS]))[0] == pytest.approx(0.130218, abs=1e-15)

    def test_best_path_is_box_3_three_times(self, boxes) -> None:
        assert boxes.predict([COLOURS]) == [["box 3"] * 3]
        best = boxes.kbest([COLOURS], 1)[0][0]
        assert best.probability * 0.130218 == pytest.approx(0.0147, abs=1e-15)

    def test_integers_are_symbols_by_default(self) -> None:
        model = HMM.from_probabilities(**BOXES)
        assert model.predict([[0, 1, 0], np.array([0, 1, 0])]) == [["2"] * 3] * 2
        assert model.symbols_ == (0, 1)
        assert model.emissions_.shape == (3, 2)


@settings(max_examples=60, deadline=None)
@given(models(), st.data())
def test_everything_equals_enumeration(model, data) -> None:
    L, V = model[2].shape
    x = data.draw(st.lists(st.integers(0, V - 1), min_size=1, max_size=4))
    hmm = HMM.from_probabilities(*model)
    every = {path: joint(*model, x, path) for path in paths(L, len(x))}
    total, start, transitions, _ = expected_counts(*model, x)
    if total == 0:
        assert hmm.log_likelihood([x])[0] == -np.inf
        with pytest.raises(NoPathError, match="no valid path"):
            hmm.predict([x])
        return
    assert hmm.log_likelihood([x])[0] == pytest.approx(np.log(total))
    gamma, xi = hmm.posteriors(x)
    np.testing.assert_allclose(gamma[0], start, atol=1e-12)
    np.testing.assert_allclose(xi.sum(axis=0), transitions, atol=1e-12)
    np.testing.assert_allclose(gamma[:-1], xi.sum(axis=2), atol=1e-12)
    np.testing.assert_allclose(gamma[1:], xi.sum(axis=1), atol=1e-12)
    best = tuple(map(int, hmm.predict([x])[0]))
    assert every[best] == pytest.approx(max(every.values()))
    ranked = sorted((p for p in every.values() if p > 0), reverse=True)
    found = [labelling.probability for labelling in hmm.kbest([x], 5)[0]]
    np.testing.assert_allclose(found, np.array(ranked[:5]) / total)
    chosen = list(map(int, hmm.predict_posterior([x])[0]))
    np.testing.assert_allclose(gamma[np.arange(len(x)), chosen], gamma.max(axis=1))


@settings(max_examples=60, deadline=None)
@given(models(), st.data())
def test_forward_and_backward_join_at_every_position(model, data) -> None:
    V = model[2].shape[1]
    x = data.draw(st.lists(st.integers(0, V - 1), min_size=1, max_size=6))
    hmm = HMM.from_probabilities(*model)
    alpha, beta = hmm.forward(x), hmm.backward(x)
    total = alpha.values[-1].sum()
    np.testing.assert_allclose((alpha.values * beta.values).sum(axis=1), total, rtol=1e-12, atol=0)
    np.testing.assert_allclose((model[0] * model[2][:, x[0]]) @ beta.values[0], total, rtol=1e-12, atol=0)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(alpha.log, np.log(alpha.values), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(alpha.scaled * np.exp(alpha.log_scale)[:, None], alpha.values, rtol=1e-12, atol=0)
    sums = alpha.scaled.sum(axis=1)
    assert np.all(np.isclose(sums, 1) | (sums == 0))


def test_scaled_and_log_views_survive_long_sequences(boxes) -> None:
    x = COLOURS * 2000
    alpha, beta = boxes.forward(x), boxes.backward(x)
    assert (alpha.values[-1] == 0).all()
    np.testing.assert_allclose(alpha.scaled.sum(axis=1), 1.0)
    log_likelihood = boxes.log_likelihood([x])[0]
    assert alpha.log_scale[-1] == pytest.approx(log_likelihood, rel=1e-12)
    t = 1234
    assert np.logaddexp.reduce(alpha.log[t] + beta.log[t]) == pytest.approx(log_likelihood, rel=1e-12)


def test_impossible_sequences_among_possible_ones() -> None:
    model = HMM.from_probabilities([1, 0], [[0, 1], [1, 0]], [[1, 0], [0, 1]])
    np.testing.assert_array_equal(
        model.log_likelihood([[0, 1], [0, 0], [], [1], [7]]), [0, -np.inf, 0, -np.inf, -np.inf]
    )
    assert not np.isnan(model.forward([0, 0]).scaled).any()
    for ask in (model.predict, model.marginals, model.predict_posterior):
        with pytest.raises(NoPathError, match=r"sentence 1 of length 2 has no valid path: .* position 1"):
            ask([[0, 1], [0, 0]])
    with pytest.raises(NoPathError):
        model.posteriors([0, 0])


def test_a_known_label_that_a_token_never_had_is_not_called_an_unseen_token() -> None:
    model = HMM(smoothing="none", unknown=False).fit([["a", "b"], ["b", "a"]], [["A", "B"], ["B", "A"]])
    with pytest.raises(NoPathError, match=r"the token 'a' at position 0: .* or not with the labels that are allowed"):
        model.predict([["a", "b"]], known=[["B", None]])


def test_an_unseen_symbol_is_named_with_its_sentence_and_position(boxes) -> None:
    place = r"sentence {} of length 2 has no valid path: .*; no label can have the token 'blue' at position 1"
    for ask in (boxes.predict, boxes.marginals, boxes.annotate):
        with pytest.raises(NoPathError, match=place.format(1)):
            ask([COLOURS, ["red", "blue"]])
    for ask in (boxes.posteriors, boxes.viterbi_table):
        with pytest.raises(NoPathError, match=place.format(0)):
            ask(["red", "blue"])
    model = HMM.from_probabilities([1, 0], [[0, 1], [1, 0]], [[1, 0], [0, 1]])
    with pytest.raises(NoPathError, match=r"position 1$"):  # the symbols are known, and impossible together
        model.predict([[0, 0]])


@pytest.mark.parametrize("bad", [1.0, np.float32(0.5), 1j])
def test_floats_are_refused_as_symbols(boxes, bad) -> None:
    expected = "sentence 1, position 0: an observation must be a string or an integer, got the float"
    with pytest.raises(DataError, match=expected):
        HMM(states=2).fit_unlabelled([[0, 1], [bad]])
    with pytest.raises(DataError, match=expected):
        boxes.log_likelihood([COLOURS, [bad]])
    with pytest.raises(ModelError, match="symbols, position 1: an observation must be a string or an integer"):
        HMM.from_probabilities(**BOXES, symbols=[0, bad])


def test_information_criteria_are_hmmlearns() -> None:
    theirs = CategoricalHMM(3)
    theirs.startprob_, theirs.transmat_, theirs.emissionprob_ = map(np.array, BOXES.values())
    theirs.n_features = 2
    X = [[0, 1, 0, 0], [1, 1]]
    flat, lengths = np.concatenate(X)[:, None], [4, 2]
    model = HMM.from_probabilities(**BOXES)
    assert model.aic(X) == pytest.approx(theirs.aic(flat, lengths))
    assert model.bic(iter(X)) == pytest.approx(theirs.bic(flat, lengths))
    with pytest.raises(ModelError, match="at least one observation"):
        model.bic([])


def test_numbers_that_the_scheme_or_the_order_fixes_are_counted() -> None:
    """BIO of one type: O, B, I; a sequence starts with two of them, and O is followed by two."""
    X, y = [["a", "b", "c", "a", "b"]], [["B-X", "I-X", "O", "B-X", "I-X"]]
    model = HMM(unknown=False).fit(X, y)
    free = 1 + (1 + 2 + 2) + 3 * 2
    assert model.aic(X) == pytest.approx(2 * free - 2 * model.log_likelihood(X).sum())
    second = HMM(unknown=False, order=2, pairs=1).fit(X, y)
    label = next(key[1] for key in second.histories_ if len(key) == 2)
    more = free + (1 if label == "O" else 2)
    assert second.aic(X) == pytest.approx(2 * more - 2 * second.log_likelihood(X).sum())


def test_samples_follow_the_model(boxes) -> None:
    drawn = boxes.sample(4, n=20_000, seed=3)
    assert drawn == boxes.sample(4, n=20_000, seed=3)
    again = HMM(smoothing="none", unknown=False).fit([o for o, _ in drawn], [s for _, s in drawn])
    order = [again.symbols_.index(symbol) for symbol in boxes.symbols_]
    np.testing.assert_allclose(again.start_, boxes.start_, atol=0.02)
    np.testing.assert_allclose(again.transitions_, boxes.transitions_, atol=0.02)
    np.testing.assert_allclose(again.emissions_[:, order], boxes.emissions_, atol=0.02)
    assert boxes.sample(0) == [([], [])]


def test_sampled_states_follow_the_posterior(boxes) -> None:
    drawn = boxes.posterior([COLOURS, ["red"]]).sample(4000, seed=1)
    assert [len(own) for own in drawn] == [4000, 4000]
    share = np.mean([path[0] == "box 3" for path in drawn[0]])
    assert share == pytest.approx(boxes.posteriors(COLOURS).gamma[0, 2], abs=0.03)


@pytest.mark.parametrize("part", ["start", "transitions", "emissions"])
def test_what_does_not_sum_to_one_is_refused_by_name(part) -> None:
    broken = {name: np.array(values, dtype=float) for name, values in BOXES.items()}
    broken[part].flat[0] -= 0.1
    with pytest.raises(ModelError, match=f"{part} must sum to 1, got 0.9"):
        HMM.from_probabilities(**broken)


def test_other_mistakes_are_named(boxes) -> None:
    with pytest.raises(ModelError, match="expected 3 states and 2 distinct symbols, got 2 and 2"):
        HMM.from_probabilities(**BOXES, states=["a", "b"])
    with pytest.raises(ModelError, match="not fitted"):
        HMM().log_likelihood([["a"]])
    with pytest.raises(DataError, match="sentence 0 is a string"):
        boxes.predict(["red"])
    with pytest.raises(ModelError, match="length must be an integer >= 0, got -1"):
        boxes.sample(-1)
    with pytest.raises(ConfigError, match="alpha must be a finite number >= 0"):
        HMM(alpha=-1.0)
    with pytest.raises(ConfigError, match="restarts must be at least 1"):
        HMM(restarts=0)
    with pytest.raises(ConfigError, match="patience must be at least 1, got 0"):
        HMM(patience=0)
    with pytest.raises(ConfigError, match="smoothing"):
        HMM(smoothing="laplace")


def test_a_model_of_given_probabilities_is_saved(boxes, tmp_path) -> None:
    boxes.save(tmp_path / "boxes")
    again = HMM.load(tmp_path / "boxes")
    assert again.symbols_ == ("red", "white")
    np.testing.assert_array_equal(again.emissions_, boxes.emissions_)
    assert again.predict([COLOURS]) == boxes.predict([COLOURS])
    numbers = HMM.from_probabilities(**BOXES, symbols=list(np.arange(2)))
    numbers.save(tmp_path / "numbers")
    assert HMM.load(tmp_path / "numbers").symbols_ == (0, 1)
    with pytest.raises(ModelError, match="strings or integers"):
        HMM.from_probabilities(**BOXES, symbols=[(1,), (2,)]).save(tmp_path / "tuples")


def test_log_scores_of_counts_are_scipys_and_what_was_never_counted_adds_nothing() -> None:
    random = np.random.default_rng(0)
    counts, shares = random.integers(0, 3, (4, 5)) * 1.5, random.dirichlet(np.ones(5), 4)
    assert log_score(counts, shares) == pytest.approx(float(xlogy(counts, shares).sum()), rel=1e-13)
    assert log_score(np.array([0.0, 2.0]), np.array([0.0, 1.0])) == 0.0
    assert log_score(np.array([1.0, 2.0]), np.array([0.0, 1.0])) == -np.inf


def test_an_explanation_compares_the_probabilities_of_words_and_transitions(boxes) -> None:
    why = boxes.explain(COLOURS, 0)
    assert (why.label, why.probability) == ("box 3", pytest.approx(boxes.posteriors(COLOURS).gamma[0, 2]))
    assert sum(c.difference for c in why.contributions) == pytest.approx(why.score_difference)
    emission = next(c for c in why.contributions if c.kind == "emission" and c.position == 0)
    chances = [boxes.emissions_[boxes.labels_.index(label), 0] for label in (why.label, why.runner_up)]
    assert (emission.name, emission.chosen, emission.runner_up) == ("red", *map(pytest.approx, np.log(chances)))


def test_an_explanation_says_when_no_other_label_is_possible() -> None:
    model = HMM(smoothing="none", unknown=False).fit([["a", "b"]], [["X", "Y"]])
    why = model.explain(["a", "b"], 1)
    assert (why.label, why.runner_up, why.contributions) == ("Y", "", ())
    assert why.grid().title == "Position 1: Y (1.000)"
