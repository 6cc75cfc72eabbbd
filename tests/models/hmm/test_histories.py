"""Order 2 against enumeration of all labellings, with trigram probabilities counted here by hand."""

import itertools
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis import HMM
from trellis.errors import ConfigError, ModelError, NoPathError
from trellis.text import Sentence

LABELS = ("a", "b", "c")


class Oracle:
    """A trigram tagger by enumeration; takes over start, bigrams and emissions, which other tests prove."""

    def __init__(self, model, Y, pairs, smooth):
        self.model, self.labels = model, model.labels_
        self.triples = Counter(t for y in Y for t in zip([None, *y], y, y[1:], strict=False))
        histories = Counter()
        for (a, b, _), count in self.triples.items():
            histories[a, b] += count
        rank = sorted(histories, key=lambda h: (-histories[h], self._id(h[0]), self._id(h[1])))
        self.kept, self.smooth = set(rank[:pairs]), smooth

    def _id(self, label):
        return -1 if label is None else self.labels.index(label)

    def step(self, a, b, c):
        """P(c | a, b)."""
        bigram = self.model.transitions_[self._id(b), self._id(c)]
        if (a, b) not in self.kept:
            return bigram
        seen = [self.triples[a, b, label] for label in self.labels]
        return self.smooth(self.triples[a, b, c], sum(seen), sum(n > 0 for n in seen), bigram)

    def joint(self, x, path):
        """P(x, path)."""
        if not path:
            return 1.0
        p = self.model.start_[self._id(path[0])]
        for a, b, c in zip([None, *path], path, path[1:], strict=False):
            p *= self.step(a, b, c)
        symbols = self.model.symbols_
        return p * np.prod([self.model.emissions_[self._id(s), symbols.index(o)] for s, o in zip(path, x, strict=True)])

    def every(self, x):
        """P(x, path) of all paths."""
        return {path: self.joint(x, path) for path in itertools.product(self.labels, repeat=len(x))}


SMOOTH = {
    "witten_bell": lambda n, total, kinds, below: (n + kinds * below) / (total + kinds),
    "additive": lambda n, total, kinds, below: (n + 0.1) / (total + 0.1 * 3),
    "none": lambda n, total, kinds, below: n / total,
}


@st.composite
def corpora(draw):
    """Sentences of symbols 0..2 with labels a, b, c, all of which occur; some are empty."""
    Y = draw(st.lists(st.lists(st.sampled_from(LABELS), max_size=6), min_size=1, max_size=5))
    Y.append(draw(st.permutations(LABELS)))
    X = [[draw(st.integers(0, 2)) for _ in y] for y in Y]
    return X, Y


@settings(max_examples=60, deadline=None)
@given(corpora(), st.sampled_from(sorted(SMOOTH)), st.integers(0, 13), st.data())
def test_everything_equals_enumeration(corpus, smoothing, pairs, data) -> None:
    X, Y = corpus
    model = HMM(order=2, pairs=pairs, smoothing=smoothing).fit(X, Y)
    oracle = Oracle(model, Y, pairs, SMOOTH[smoothing])
    x = data.draw(st.lists(st.sampled_from(model.symbols_), min_size=1, max_size=4))
    every = oracle.every(x)
    total, paths = sum(every.values()), list(every)
    if total == 0:
        assert model.log_likelihood([x])[0] == -np.inf
        with pytest.raises(NoPathError, match="no valid path"):
            model.predict([x])
        return
    share = np.array(list(every.values())) / total
    assert model.log_likelihood([x])[0] == pytest.approx(np.log(total))
    np.testing.assert_allclose(model.sequence_probabilities([x] * len(paths), paths), share, atol=1e-12)
    assert every[tuple(model.predict([x])[0])] == pytest.approx(max(every.values()))
    best = model.kbest([x], 7)[0]
    np.testing.assert_allclose([one.probability for one in best], np.sort(share[share > 0])[::-1][:7])
    assert [every[tuple(one.tags)] / total for one in best] == pytest.approx([one.probability for one in best])
    assert len({tuple(one.tags) for one in best}) == len(best)
    chosen = np.array([[[label == own for label in LABELS] for own in path] for path in paths], dtype=float)
    gamma, xi = np.einsum("p,ptl->tl", share, chosen), np.einsum("p,pti,ptj->tij", share, chosen[:, :-1], chosen[:, 1:])
    np.testing.assert_allclose(model.marginals([x])[0], gamma, atol=1e-12)
    found = model.posteriors(x)
    np.testing.assert_allclose(found.gamma, gamma, atol=1e-12)
    np.testing.assert_allclose(found.xi, xi, atol=1e-12)
    alpha, beta = model.forward(x).values, model.backward(x).values
    np.testing.assert_allclose((alpha * beta).sum(axis=1), total)
    assert alpha.shape == (len(x), len(model.histories_))


@settings(max_examples=30, deadline=None)
@given(corpora(), st.sampled_from(sorted(SMOOTH)), st.integers(0, 13))
def test_the_loss_is_that_of_the_labelled_sentences(corpus, smoothing, pairs) -> None:
    X, Y = corpus
    model = HMM(order=2, pairs=pairs, smoothing=smoothing).fit(X, Y)
    oracle = Oracle(model, Y, pairs, SMOOTH[smoothing])
    assert model.history_.loss == pytest.approx(-sum(np.log(oracle.joint(x, y)) for x, y in zip(X, Y, strict=True)))


BIO = [
    Sentence(tokens.split(), tags.split())
    for tokens, tags in [
        ("a b c a", "B-X I-X O B-Y"),
        ("c a b b", "O B-X I-X I-X"),
        ("b a c", "B-Y I-Y O"),
        ("a a", "B-X B-X"),
    ]
]


# the first label comes back two places later, whatever is between: no chain of order 1 can see that
X = [["A", "?", "?"], ["C", "?", "?"]] * 5
Y = [["a", "b", "a"], ["c", "b", "c"]] * 5
QUESTIONS = [["C", "?", "?", "?"], ["A"], [], ["?", "?"], ["A", "?", "?"]]


def assert_same(one: HMM, other: HMM) -> None:
    np.testing.assert_array_equal(one.log_likelihood(QUESTIONS), other.log_likelihood(QUESTIONS))
    assert list(one.histories_) == list(other.histories_)
    np.testing.assert_array_equal(list(one.histories_.values()), list(other.histories_.values()))


def test_what_lies_two_labels_back_is_seen() -> None:
    assert HMM(order=2).fit(X, Y).predict(X) == Y
    assert HMM(order=1).fit(X, Y).predict(X) != Y


def test_histories_are_named_and_sum_to_one() -> None:
    model = HMM(order=2, smoothing="none").fit(X, Y)
    assert list(model.histories_) == [("a",), ("b",), ("c",), (None, "a"), (None, "c"), ("a", "b"), ("c", "b")]
    np.testing.assert_array_equal(model.histories_["a", "b"], [1, 0, 0])
    np.testing.assert_array_equal(model.histories_["b",], [0.5, 0, 0.5])
    np.testing.assert_allclose(np.sum(list(model.histories_.values()), axis=1), 1.0)
    assert list(HMM().fit(X, Y).histories_) == [("a",), ("b",), ("c",)]


def test_without_pairs_it_is_order_1() -> None:
    one, two = HMM().fit(X, Y), HMM(order=2, pairs=0).fit(X, Y)
    assert_same(one, two)
    assert one.history_.loss == pytest.approx(two.history_.loss)
    for a, b in zip(one.marginals(QUESTIONS), two.marginals(QUESTIONS), strict=True):
        np.testing.assert_array_equal(a, b)


def test_saved_and_pickled_models_are_the_same_and_can_go_on(tmp_path) -> None:
    model = HMM(order=2, pairs=3).fit(X, Y)
    model.save(tmp_path / "m")
    more = [["B", "A"]], [["b", "a"]]
    whole = HMM(order=2, pairs=3).fit([*X, *more[0]], [*Y, *more[1]])
    for again in (HMM.load(tmp_path / "m"), pickle.loads(pickle.dumps(model))):
        assert_same(again, model)
        assert_same(again.fit(*more, warm_start=True), whole)


def test_going_on_may_bring_new_labels() -> None:
    model = HMM(order=2).fit(X, Y).fit([["D", "?", "?"]], [["d", "b", "d"]], warm_start=True)
    assert model.labels_ == ("a", "b", "c", "d")
    assert model.predict([["D", "?", "?"], ["C", "?", "?"]]) == [["d", "b", "d"], ["c", "b", "c"]]


def test_transitions_can_be_held_fixed() -> None:
    model = HMM(order=2, fixed=("transitions",))
    model.set_params(fixed=()).fit(X, Y)
    before = model.histories_
    after = model.set_params(fixed=("transitions",)).fit([["A", "C"]], [["a", "c"]], warm_start=True).histories_
    np.testing.assert_array_equal(list(after.values()), list(before.values()))


def test_weights_count_sentences_as_often() -> None:
    weighted = HMM(order=2, unknown=False).fit(X[:3], Y[:3], sentence_weights=[2, 1, 0])
    repeated = HMM(order=2, unknown=False).fit([X[0], X[0], X[1]], [Y[0], Y[0], Y[1]])
    assert_same(weighted, repeated)


def test_samples_follow_the_model() -> None:
    model = HMM(order=2, pairs=3, smoothing="additive", alpha=0.5, unknown=False).fit(X[:4], Y[:4])
    drawn = model.sample(3, n=20_000, seed=3)
    shares = Counter(tuple(states) for _, states in drawn)
    oracle = Oracle(model, Y[:4], 3, lambda n, total, kinds, below: (n + 0.5) / (total + 1.5))
    for path in itertools.product(LABELS, repeat=3):
        expected = sum(oracle.joint(x, path) for x in itertools.product(model.symbols_, repeat=3))
        assert shares[path] / 20_000 == pytest.approx(expected, abs=0.015)
    x = ["A", "?", "C"]
    states = Counter(map(tuple, model.posterior([["C"], x]).sample(20_000, seed=1)[1]))
    every = oracle.every(x)
    for path, p in every.items():
        assert states[path] / 20_000 == pytest.approx(p / sum(every.values()), abs=0.015)


def test_small_blocks_give_what_one_gives(monkeypatch) -> None:
    model = HMM(order=2).fit(BIO)
    inputs, tags = [s.tokens for s in BIO] * 3, [s.tags for s in BIO] * 3
    ask = (
        model.predict,
        model.span_probabilities,
        lambda X: np.concatenate(model.marginals(X)).tolist(),
        lambda X: model.log_likelihood(X).tolist(),
        lambda X: model.sequence_probabilities(X, tags).tolist(),
    )
    whole = [question(inputs) for question in ask]
    monkeypatch.setattr("trellis.models.tagger._BLOCK", 11)
    for question, expected in zip(ask, whole, strict=True):
        found = question(inputs)
        assert len(found) == len(expected)
        assert found == expected or np.allclose(found, expected, rtol=1e-12)
    assert len(list(model._posteriors(inputs))) == 3  # 11 sentences of 5 labels are 4 of 12 states


def test_only_labels_teach_order_2() -> None:
    with pytest.raises(ModelError, match="order = 2 is learned from labels alone, but sentence 0 has a token without"):
        HMM(order=2).fit_unlabelled(X)
    for label in (None, {"a", "b"}):
        with pytest.raises(ModelError, match="but sentence 1 has a token without one: leave such sentences out, or"):
            HMM(order=2).fit(X[:2], [Y[0], ["c", label, "c"]])
    assert_same(HMM(order=2).fit(X, [[{label} for label in y] for y in Y]), HMM(order=2).fit(X, Y))


def test_other_mistakes_are_named() -> None:
    with pytest.raises(ConfigError, match="order"):
        HMM(order=3)
    with pytest.raises(ConfigError, match="pairs must be at least 0, got -1"):
        HMM(pairs=-1)
    with pytest.raises(ModelError, match="from_probabilities makes models of order 1, got order = 2"):
        HMM.from_probabilities([1.0], [[1.0]], [[1.0]], order=2)
    with pytest.raises(ModelError, match="continues from a model of order 2, but this one is of order 1"):
        HMM().fit(X, Y).set_params(order=2).fit(X, Y, warm_start=True)
    with pytest.raises(ModelError, match="spans are given for 1 sentence, but there are 2"):
        HMM(order=2).fit(BIO).span_probabilities([["a"], ["b"]], [[]])


def test_constraints_that_are_turned_on_later_hold_for_pairs() -> None:
    illegal = [Sentence(["a", "b", "c"], ["O", "O", "I-X"]), Sentence(["c", "a"], ["B-X", "I-X"])]
    model = HMM(order=2, scheme="iob2", constraints=False).fit(illegal)
    assert model.predict([["a", "b", "c"]]) == [["O", "O", "I-X"]]
    tags = model.set_params(constraints=True).predict([["a", "b", "c"]])[0]
    assert "I-X" not in tags or tags[tags.index("I-X") - 1] == "B-X"
    assert model.sequence_probabilities([["a", "b", "c"]], [["O", "O", "I-X"]])[0] == 0
