import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis import MarkovChain
from trellis.errors import ModelError, TagError
from trellis.models.hmm.probabilities import draw, smoothed

WEATHER = MarkovChain([0.2, 0.8], [[0.3, 0.7], [0.6, 0.4]])
DAYS = [["rain", "rain", "sun"], ["sun"], [], ["rain", "sun", "sun", "sun"]]


def test_the_worked_example() -> None:
    assert WEATHER.probability(["1", "0", "1", "1"]) == pytest.approx(0.1344, abs=1e-15)
    assert WEATHER.log_probability(["1", "0", "1", "1"]) == pytest.approx(np.log(0.1344))


def test_the_probabilities_of_all_sequences_of_a_length_sum_to_one() -> None:
    words = [[a, b, c] for a in "01" for b in "01" for c in "01"]
    assert sum(map(WEATHER.probability, words)) == pytest.approx(1.0)
    assert WEATHER.probability([]) == 1.0


def test_an_impossible_step_has_probability_zero() -> None:
    chain = MarkovChain([1, 0], [[0, 1], [1, 0]], states="ab")
    assert chain.log_probability("aba") == 0.0
    assert chain.log_probability("aab") == -np.inf
    assert chain.probability("ba") == 0.0


def test_without_smoothing_the_estimate_is_the_relative_frequency() -> None:
    chain = MarkovChain.fit(DAYS)
    assert chain.states == ("rain", "sun")
    np.testing.assert_allclose(chain.start, [2 / 3, 1 / 3])
    np.testing.assert_allclose(chain.transitions, [[1 / 3, 2 / 3], [0, 1]])


def test_additive_smoothing_adds_to_every_count() -> None:
    chain = MarkovChain.fit(DAYS, smoothing="additive", alpha=0.5)
    np.testing.assert_allclose(chain.start, [2.5 / 4, 1.5 / 4])
    np.testing.assert_allclose(chain.transitions, [[1.5 / 4, 2.5 / 4], [0.5 / 3, 2.5 / 3]])


def test_witten_bell_backs_off_to_how_often_a_state_occurs() -> None:
    chain = MarkovChain.fit(DAYS, smoothing="witten_bell")
    # rain occurs 3 times, sun 5 times of 8; after sun only sun was seen: T = 1, after rain both: T = 2
    np.testing.assert_allclose(chain.transitions[0], [(1 + 2 * 3 / 8) / 5, (2 + 2 * 5 / 8) / 5])
    np.testing.assert_allclose(chain.transitions[1], [(0 + 1 * 3 / 8) / 3, (2 + 1 * 5 / 8) / 3])


@pytest.mark.parametrize("smoothing", ["none", "additive", "witten_bell"])
def test_a_state_that_is_never_left_or_never_seen_keeps_a_proper_distribution(smoothing) -> None:
    chain = MarkovChain.fit([["a", "b"]], smoothing=smoothing, states=["a", "b", "c"])
    np.testing.assert_allclose(chain.transitions.sum(axis=1), 1.0)
    assert not np.isnan(chain.start).any()
    if smoothing == "none":
        np.testing.assert_allclose(chain.transitions[1:], 1 / 3)


def test_k_steps_are_the_power_of_one() -> None:
    np.testing.assert_allclose(WEATHER.k_step(0), np.eye(2))
    np.testing.assert_allclose(WEATHER.k_step(2), [[0.51, 0.49], [0.42, 0.58]])
    np.testing.assert_allclose(WEATHER.k_step(200)[0], WEATHER.stationary())


def test_the_stationary_distribution_stays() -> None:
    p = WEATHER.stationary()
    np.testing.assert_allclose(p, [6 / 13, 7 / 13])
    np.testing.assert_allclose(p @ WEATHER.transitions, p)
    np.testing.assert_allclose(MarkovChain([1, 0], [[0, 1], [1, 0]]).stationary(), [0.5, 0.5])
    with pytest.raises(ModelError, match="not unique"):
        MarkovChain([1, 0], np.eye(2)).stationary()


def test_samples_follow_the_chain() -> None:
    drawn = WEATHER.sample(5, n=20_000, seed=1)
    assert drawn == WEATHER.sample(5, n=20_000, seed=1)
    again = MarkovChain.fit(drawn)
    np.testing.assert_allclose(again.start, WEATHER.start, atol=0.02)
    np.testing.assert_allclose(again.transitions, WEATHER.transitions, atol=0.02)
    assert WEATHER.sample(0, n=2) == [[], []]


def test_samples_never_take_an_impossible_step() -> None:
    for own in MarkovChain([0, 1, 0], [[0, 1, 0], [0, 0, 1], [1, 0, 0]]).sample(9, n=50):
        assert own == list("120120120")


@given(st.lists(st.lists(st.sampled_from("abc")), min_size=1).filter(any))
def test_every_estimate_is_a_distribution(sequences) -> None:
    for smoothing in ("none", "additive", "witten_bell"):
        chain = MarkovChain.fit(sequences, smoothing=smoothing)
        np.testing.assert_allclose(chain.start.sum(), 1.0)
        np.testing.assert_allclose(chain.transitions.sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.2, 0.7], np.eye(2)), r"start must sum to 1, got 0.9"),
        (([0.5, 0.5], [[0.5, 0.5], [0.9, 0.2]]), r"each row of transitions must sum to 1, got 1.1 for row 1"),
        (([0.5, 0.5], np.eye(3)), r"transitions must have shape \(2, 2\), got \(3, 3\)"),
        (([1.5, -0.5], np.eye(2)), r"start\[0\] is 1.5: must be a probability"),
        (([np.nan, 1.0], np.eye(2)), r"start\[0\] is nan: must be a probability"),
        ((["a", "b"], np.eye(2)), r"start must be an array of probabilities, got \['a', 'b'\]"),
        (
            ([0.5, 0.5], [[1], [0.5, 0.5]]),
            r"transitions must be an array of probabilities, got \[\[1\], \[0.5, 0.5\]\]",
        ),
        (([1j, 0.5], np.eye(2)), r"start must be an array of probabilities, got \[1j, 0.5\]"),
    ],
)
def test_what_is_no_distribution_is_refused_by_name(arguments, message) -> None:
    with pytest.raises(ModelError, match=message):
        MarkovChain(*arguments)


def test_other_mistakes_are_named() -> None:
    with pytest.raises(ModelError, match="states must be 2 names"):
        MarkovChain([0.5, 0.5], np.eye(2), states=["a"])
    with pytest.raises(
        TagError, match="state '2' at position 1 is not one of the chain's; the nearest of the 2 states"
    ):
        WEATHER.probability(["0", "2"])
    with pytest.raises(TagError, match="sequence 1: state 'c'"):
        MarkovChain.fit([["a"], ["c"]], states=["a", "b"])
    with pytest.raises(ModelError, match="no state occurs"):
        MarkovChain.fit([[]])
    with pytest.raises(ModelError, match="smoothing must be one of"):
        MarkovChain.fit([["a"]], smoothing="laplace")
    with pytest.raises(ModelError, match="k must be an integer >= 0"):
        WEATHER.k_step(-1)
    np.testing.assert_array_equal(WEATHER.k_step(np.int64(2)), WEATHER.k_step(2))  # type: ignore[arg-type]
    for alpha in (-1, np.nan, np.inf, "1", None):
        with pytest.raises(ModelError, match="alpha must be a finite number >= 0"):
            MarkovChain.fit([["a"]], smoothing="additive", alpha=alpha)
    with pytest.raises(ModelError, match="length must be an integer >= 0, got -1"):
        WEATHER.sample(-1)


class Extreme:
    """A generator that always gives the same number."""

    def __init__(self, number: float) -> None:
        self.number = number

    def random(self, shape):
        return np.full(shape, self.number)


@pytest.mark.parametrize(("number", "expected"), [(0.0, 1), (1 - 2**-53, 2)])
def test_an_outcome_of_probability_zero_is_never_drawn(number, expected) -> None:
    rows = np.array([[0.0, 0.5, 0.5 - 1e-7, 0.0]])  # sums to a little less than one
    assert draw(rows, Extreme(number)) == [expected]


@pytest.mark.parametrize("smoothing", ["none", "additive", "witten_bell"])
def test_smoothing_gives_nothing_to_what_is_not_legal(smoothing) -> None:
    legal = np.array([[True, True, False], [False, True, True]])
    counts = np.array([[3.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    rows = smoothed(counts, legal, smoothing, 0.5, np.array([0.2, 0.3, 0.5]))
    assert (rows[~legal] == 0).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1.0)


def test_integer_states_are_learned_asked_about_and_drawn() -> None:
    chain = MarkovChain.fit([[0, 2, 0], np.array([2, 2]), []])
    assert chain.states == (0, 2)
    assert set(map(type, MarkovChain.fit([[np.int64(1), 2], [np.int64(3)]]).states)) == {int}
    np.testing.assert_allclose(chain.transitions, [[0, 1], [0.5, 0.5]])
    assert chain.probability(np.array([0, 2])) == pytest.approx(0.5)
    assert {state for own in chain.sample(5, n=20) for state in own} == {0, 2}
    assert WEATHER.probability([1, 0, 1, 1]) == WEATHER.probability(["1", "0", "1", "1"])


@pytest.mark.parametrize("bad", [1.0, np.float32(1), True, None, (1,)])
def test_states_that_are_neither_strings_nor_integers_are_named(bad) -> None:
    with pytest.raises(TagError, match=r"sequence 1: state .* at position 1 must be a string or an integer"):
        MarkovChain.fit([[0, 1], [0, bad]])
    with pytest.raises(TagError, match=r"state .* at position 0 must be a string or an integer"):
        WEATHER.log_probability([bad])


def test_strings_and_integers_do_not_mix_and_names_are_distinct() -> None:
    with pytest.raises(ModelError, match="all strings or all integers"):
        MarkovChain.fit([["a", 1]])
    with pytest.raises(TagError, match="state 'a' occurs twice"):
        MarkovChain([0.5, 0.5], np.eye(2), states=["a", "a"])


def test_information_criteria_weigh_the_likelihood_against_the_free_numbers() -> None:
    """Three free numbers: one of start, one of each row."""
    chain = MarkovChain.fit(DAYS)
    log_likelihood = 2 * np.log(2 / 3) + np.log(1 / 3) + np.log(1 / 3) + 2 * np.log(2 / 3)
    np.testing.assert_allclose(chain.log_likelihood(DAYS).sum(), log_likelihood)
    assert chain.aic(DAYS) == pytest.approx(2 * 3 - 2 * log_likelihood)
    assert chain.bic(iter(DAYS)) == pytest.approx(3 * np.log(8) - 2 * log_likelihood)
    with pytest.raises(ModelError, match="at least one observation"):
        chain.bic([[]])
    with pytest.raises(TagError, match="sequence 1: state 'snow' at position 1"):
        chain.log_likelihood([["sun"], ["sun", "snow"]])


def test_what_is_no_list_of_sequences_is_named() -> None:
    for ask in (WEATHER.aic, WEATHER.bic, WEATHER.log_likelihood, MarkovChain.fit):
        with pytest.raises(ModelError, match="must be a list of strings or integers, got 1"):
            ask([1, 2])
        with pytest.raises(ModelError, match="expected a list of sequences of states, got '01'"):
            ask("01")
        with pytest.raises(ModelError, match="sequence 1 must be a list of states, got the string 'rain'"):
            ask([["0"], "rain"])
        with pytest.raises(ModelError, match=r"must be a list of strings or integers, got array\(1\)"):
            ask([np.array(1)])
    with pytest.raises(TagError, match=r"an integer of [0-9]+ bits at position 0 is not one of the chain's"):
        WEATHER.probability([10**5000])
