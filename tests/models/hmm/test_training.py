"""Problem 2: counting, Baum-Welch, and both together."""

import numpy as np
import pytest

from tests.models.hmm.oracle import expected_counts
from trellis import HMM
from trellis.errors import DataError, ModelError, NoPathError
from trellis.text import Sentence

X = [["the", "dog", "barks"], ["the", "cat"], ["dogs", "bark", "the", "cat"], []]
Y = [["D", "N", "V"], ["D", "N"], ["N", "V", "D", "N"], []]
PLAIN = {"smoothing": "none", "unknown": False}


def by_state(model):
    return {
        state: dict(zip(model.symbols_, row, strict=False))
        for state, row in zip(model.labels_, model.emissions_, strict=True)
    }


class TestCounting:
    def test_estimates_equal_counts(self) -> None:
        model = HMM(**PLAIN).fit(X, Y)
        assert model.labels_ == ("D", "N", "V")
        np.testing.assert_allclose(model.start_, [2 / 3, 1 / 3, 0])
        np.testing.assert_allclose(model.transitions_, [[0, 1, 0], [0, 0, 1], [1, 0, 0]])
        emissions = by_state(model)
        assert emissions["D"] == {"the": 1, "dog": 0, "barks": 0, "cat": 0, "dogs": 0, "bark": 0}
        assert emissions["N"] == {"the": 0, "dog": 0.25, "barks": 0, "cat": 0.5, "dogs": 0.25, "bark": 0}

    def test_additive_smoothing(self) -> None:
        model = HMM(smoothing="additive", alpha=0.5, unknown=False).fit(X, Y)
        np.testing.assert_allclose(model.start_, [2.5 / 4.5, 1.5 / 4.5, 0.5 / 4.5])
        np.testing.assert_allclose(model.transitions_[0], [0.5 / 4.5, 3.5 / 4.5, 0.5 / 4.5])
        assert by_state(model)["N"]["cat"] == pytest.approx(2.5 / 7)

    def test_each_part_can_have_a_prior_of_its_own(self) -> None:
        model = HMM(**PLAIN, transition_prior=1.0).fit(X, Y)
        np.testing.assert_allclose(model.start_, [2 / 3, 1 / 3, 0])
        np.testing.assert_allclose(model.transitions_[0], [1 / 6, 4 / 6, 1 / 6])

    def test_witten_bell_smoothing(self) -> None:
        model = HMM(smoothing="witten_bell", unknown=False).fit(X, Y)
        # D, N and V occur 3, 4 and 2 times of 9; D is followed by N only: T = 1
        np.testing.assert_allclose(model.transitions_[0], [(3 / 9) / 4, (3 + 4 / 9) / 4, (2 / 9) / 4])
        # N emits 3 kinds of words in 4 tokens; cat is 2 of all 9 tokens
        assert by_state(model)["N"]["cat"] == pytest.approx((2 + 3 * 2 / 9) / 7)

    @pytest.mark.parametrize("smoothing", ["none", "additive", "witten_bell"])
    @pytest.mark.parametrize("unknown", [True, False])
    def test_every_distribution_sums_to_one(self, smoothing, unknown) -> None:
        model = HMM(smoothing=smoothing, unknown=unknown).fit(X, Y)
        for values in (model.start_, model.transitions_, model.emissions_):
            np.testing.assert_allclose(values.sum(axis=-1), 1.0)
        assert model.emissions_.shape == (3, 6 + unknown)

    def test_weights_count_sentences_as_often(self) -> None:
        weighted = HMM(**PLAIN).fit(X, Y, sentence_weights=[2, 1, 0, 1])
        repeated = HMM(**PLAIN).fit([X[0], X[0], X[1]], [Y[0], Y[0], Y[1]])
        np.testing.assert_allclose(weighted.start_, repeated.start_)
        np.testing.assert_allclose(weighted.transitions_[:2], repeated.transitions_[:2])

    def test_going_on_adds_to_the_counts(self) -> None:
        whole = HMM().fit(X, Y)
        steps = HMM().fit(X[:2], Y[:2]).fit(X[2:], Y[2:], warm_start=True)
        np.testing.assert_array_equal(steps.transitions_, whole.transitions_)
        np.testing.assert_array_equal(steps.emissions_, whole.emissions_)
        assert steps.predict([["the", "doggy"]]) == whole.predict([["the", "doggy"]])

    def test_going_on_may_bring_new_labels_and_words(self) -> None:
        model = HMM().fit(X, Y).fit([["Oh", "dog"]], [["I", "N"]], warm_start=True)
        assert model.labels_ == ("D", "N", "V", "I")
        assert model.predict([["Oh", "dog"]]) == [["I", "N"]]

    def test_illegal_tags_are_refused_and_illegal_steps_never_smoothed_in(self) -> None:
        sentences = [Sentence(["a", "b", "c"], ["B-X", "I-X", "O"]), Sentence(["c", "a"], ["O", "B-X"])]
        model = HMM(smoothing="additive", alpha=5.0).fit(sentences)
        o, b, i = (model.labels_.index(label) for label in ("O", "B-X", "I-X"))
        assert model.transitions_[o, i] == 0
        assert model.start_[i] == 0
        assert model.transitions_[o, b] > 0
        with pytest.raises(DataError, match="sentence 0, position 0"):
            HMM(scheme="iob2").fit([["a"], ["b"]], [["I-X"], ["O"]])

    def test_the_history_has_the_loss_and_the_held_out_score(self) -> None:
        steps = []
        model = HMM(**PLAIN).fit(X[:3], Y[:3], dev=(X[:3], Y[:3]), progress=steps.append)
        assert model.history_.steps == tuple(steps)
        assert steps[0].dev == 1.0
        expected = -sum(np.log(model.sequence_probabilities(X[:3], Y[:3]))) - model.log_likelihood(X[:3]).sum()
        assert model.history_.loss == pytest.approx(expected)


ROLLS = [[0, 1, 1, 2, 2, 2, 0], [2, 2, 1], [0, 0, 1, 0], [1, 2, 0, 0, 0, 1]]


class TestBaumWelch:
    def test_an_iteration_equals_enumeration(self) -> None:
        given = np.array([0.6, 0.4]), np.array([[0.7, 0.3], [0.4, 0.6]]), np.array([[0.5, 0.3, 0.2], [0.1, 0.3, 0.6]])
        model = HMM.from_probabilities(*given, max_iterations=1).fit_unlabelled(ROLLS, warm_start=True)
        sums = [sum(parts) for parts in zip(*(expected_counts(*given, x)[1:] for x in ROLLS), strict=True)]
        np.testing.assert_allclose(model.start_, sums[0] / sums[0].sum())
        np.testing.assert_allclose(model.transitions_, sums[1] / sums[1].sum(axis=1, keepdims=True))
        np.testing.assert_allclose(model.emissions_, sums[2] / sums[2].sum(axis=1, keepdims=True))

    def test_more_restarts_are_never_worse(self) -> None:
        losses = [HMM(states=2, restarts=n, tolerance=1e-9).fit_unlabelled(ROLLS).history_.loss for n in (1, 8)]
        assert losses[1] <= losses[0]

    def test_parts_can_be_held_fixed(self) -> None:
        given = [0.6, 0.4], [[0.7, 0.3], [0.4, 0.6]], [[0.5, 0.3, 0.2], [0.1, 0.3, 0.6]]
        model = HMM.from_probabilities(*given, fixed=("start", "emissions")).fit_unlabelled(ROLLS, warm_start=True)
        np.testing.assert_allclose(model.start_, given[0])
        np.testing.assert_allclose(model.emissions_, given[2])
        assert np.abs(model.transitions_ - given[1]).max() > 0.01
        with pytest.raises(ModelError, match="use warm_start=True"):
            HMM(states=2, fixed=("start",)).fit_unlabelled(ROLLS)

    def test_priors_pull_towards_uniform(self) -> None:
        strong = HMM(states=2, transition_prior=1e6).fit_unlabelled(ROLLS)
        np.testing.assert_allclose(strong.transitions_, 0.5, atol=1e-4)

    def test_what_the_start_forbids_cannot_be_learnt(self) -> None:
        model = HMM.from_probabilities([1, 0], np.eye(2), [[1, 0], [0, 1]])
        with pytest.raises(NoPathError, match="sequence 1 of length 2 has probability zero"):
            model.fit_unlabelled([[0], [0, 1]], warm_start=True)

    def test_without_labels_the_number_of_states_must_be_given(self) -> None:
        with pytest.raises(ModelError, match="set `states`"):
            HMM().fit_unlabelled(ROLLS)


class TestBetween:
    def test_without_unlabelled_sentences_it_is_counting(self) -> None:
        partial = [[{label} for label in own] for own in Y]  # one possible label is a known label
        for options in ({}, PLAIN, {"smoothing": "additive"}):
            counted, other = HMM(**options).fit(X, Y), HMM(**options).fit(X, partial)
            np.testing.assert_array_equal(other.transitions_, counted.transitions_)
            np.testing.assert_array_equal(other.emissions_, counted.emissions_)

    @pytest.mark.parametrize("labels", [[None, None, None], [None, {"N", "V"}, None], [{"D", "N"}, None, "V"]])
    def test_one_iteration_adds_expected_counts_to_known_ones(self, labels) -> None:
        unlabelled = ["the", "cat", "barks"]
        model = HMM(**PLAIN, max_iterations=1).fit([*X, unlabelled], [*Y, labels])
        start = HMM(smoothing="additive", alpha=0.5, unknown=False).fit(X, Y)
        x = [start.symbols_.index(word) for word in unlabelled]
        allowed = [[label is None or state in label for state in "DNV"] for label in labels]
        _, *counts = expected_counts(start.start_, start.transitions_, start.emissions_, x, allowed)
        known = model.model_.labelled
        np.testing.assert_allclose(model.start_, (known.start + counts[0]) / 4)
        both = known.transitions + counts[1]
        np.testing.assert_allclose(model.transitions_, both / both.sum(axis=1, keepdims=True))
        both = known.emissions.T + counts[2]
        np.testing.assert_allclose(model.emissions_, both / both.sum(axis=1, keepdims=True))

    def test_what_is_known_in_part_is_kept_to(self) -> None:
        labels = [["D", None, None], [None, {"N", "V"}], [None] * 4, []]
        model = HMM(**PLAIN, tolerance=1e-9).fit(X, labels)
        assert model.labels_ == ("D", "N", "V")
        assert model.predict([X[0]])[0][0] == "D"

    def test_an_impossible_sentence_is_named_by_its_place_in_the_data(self) -> None:
        sentences = [["a", "b"], ["a"], ["b", "a"]]
        with pytest.raises(NoPathError, match="sequence 2 of length 2 has probability zero"):
            HMM(scheme="iob2").fit(sentences, [["B-X", "I-X"], ["O"], ["I-X", None]])

    def test_unlabelled_sentences_teach_words(self) -> None:
        extra = [["the", "mouse", "barks"]] * 3
        model = HMM(unknown=False).fit([*X, *extra], [*Y, *([None] * 3 for _ in extra)])
        assert model.predict([["the", "mouse"]]) == [["D", "N"]]
        assert by_state(model)["N"]["mouse"] > 10 * by_state(model)["D"]["mouse"]

    def test_a_held_out_score_is_watched(self) -> None:
        model = HMM(max_iterations=4, tolerance=0.0).fit([*X, X[0]], [*Y, [None] * 3], dev=(X[:3], Y[:3]))
        assert all(step.dev is not None for step in model.history_.steps)

    def test_going_on_without_labels_keeps_the_labelled_counts(self) -> None:
        together = HMM(max_iterations=1).fit([*X, X[0]], [*Y, [None] * 3])
        after = HMM(max_iterations=1).fit(X, Y).fit_unlabelled([X[0]], warm_start=True)
        assert after.labels_ == together.labels_
        np.testing.assert_array_equal(after.model_.labelled.emissions, together.model_.labelled.emissions)
