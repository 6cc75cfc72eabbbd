"""The CRF's training: gradient, loss and weights against references, weights of sentences and labels, partial labels,
warm starts, early stopping, interrupts, threads."""

import numpy as np
import pytest

from tests.models.contract import TRAIN
from tests.models.crf.oracle import check_gradient
from trellis import chain
from trellis.errors import ConfigError, DataError, ModelError
from trellis.features import AttributeIndex, GivenExtractor
from trellis.models import CRF
from trellis.models.crf.model import Observed
from trellis.models.crf.training import CRFObjective, FeatureSelection
from trellis.models.data import Labelled
from trellis.tags import Scheme, StateMap, TagSet
from trellis.text import Sentence
from trellis.training import Descent, Perceptron, averaged_perceptron

LABELS = ["A", "B", "C"]
TIGHT = {"epsilon": 1e-9, "delta": 0.0}


def make_data(seed=0, sentences=12, values=True):
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(sentences):
        length = int(random.integers(1, 6))
        X.append(
            [
                {f"w{random.integers(6)}": 1.0, "bias": float(random.integers(1, 3)) if values else 1.0}
                for _ in range(length)
            ]
        )
        y.append(random.choice(LABELS, size=length).tolist())
    return X, y


def objective_of(X, y, *, c2=0.0, constraints=False, all_states=False, scheme="plain", **options):
    data = Labelled.of(X, y)
    index = AttributeIndex()
    compiled = GivenExtractor().compile(X, index, grow=True)
    choice = FeatureSelection(0.0, all_states, True, True, constraints)
    return CRFObjective(
        Observed(compiled), index, data, StateMap.of(data.labels_in(data.detect(scheme))), choice, c2=c2, **options
    )


def test_sentence_weights_are_repeated_sentences():
    X, y = make_data(sentences=6)
    settings = {"features": "ready", "scheme": "plain", "constraints": False, **TIGHT}
    weighted = CRF(**settings).fit(X, y, sentence_weights=[3, 1, 1, 1, 1, 2])
    repeated = CRF(**settings).fit([X[0], X[0], *X, X[5]], [y[0], y[0], *y, y[5]])
    np.testing.assert_allclose(weighted.chain_scores(X).emissions, repeated.chain_scores(X).emissions, atol=1e-5)
    for bad, got in (([1.0], r"\(1,\)"), ([1.0, -2.0, 1.0, 1.0, 1.0, 1.0], "-2.0"), ([np.nan] * 6, "nan")):
        with pytest.raises(ModelError, match=f"sentence_weights must be 6 finite numbers >= 0.*, got {got}$"):
            CRF(**settings).fit(X, y, sentence_weights=bad)


def test_label_weights_of_one_change_nothing_and_larger_ones_raise_recall():
    X, y = make_data(sentences=40, values=False)
    settings = {"features": "ready", "scheme": "plain", "constraints": False, **TIGHT}
    plain = CRF(**settings).fit(X, y)
    ones = CRF(label_weights={"A": 1.0, "C": 1.0}, **settings).fit(X, y)
    np.testing.assert_allclose(ones.chain_scores(X).emissions, plain.chain_scores(X).emissions, atol=1e-5)
    heavy = CRF(label_weights={"A": 5.0}, **settings).fit(X, y)
    a = plain.labels_.index("A")
    assert np.mean([m[:, a].mean() for m in heavy.marginals(X)]) > np.mean([m[:, a].mean() for m in plain.marginals(X)])
    with pytest.raises(ConfigError, match="the weight of 'A' must be a finite number"):
        CRF(label_weights={"A": -1.0}, **settings).fit(X, y)


def test_partial_labels_teach_what_they_say():
    X = [["a", "b", "c"]] * 4
    y = [["O", None, "O"], [None, "B-X", None], ["O", {"B-X", "O"}, None], [None, None, None]]
    model = CRF(features="ner", c2=0.01).fit(X, y)
    assert model.predict(X[:1]) == [["O", "B-X", "O"]]
    with pytest.raises(DataError, match="sentence 0, position 1: no label is possible"):
        CRF(features="ner").fit([["a", "b", "c"]], [["O", [], "B-X"]])
    for algorithm in ("sgd", "ap"):
        model = CRF(features="ner", algorithm=algorithm, c2=0.01).fit(X, y)
        assert model.predict(X[:1]) == [["O", "B-X", "O"]]


def test_the_perceptron_learns_from_the_best_of_the_allowed_paths():
    X = [[{"a": 1.0}], [{"b": 1.0}]]
    objective = objective_of(X, [[{"B", "C"}], ["A"]], all_states=True)
    assert objective.states.tags.labels == ("A", "B", "C")
    state = Perceptron(np.zeros(objective.size), np.zeros(objective.size))
    assert objective.correct(np.array([0]), state) == 0.5  # of two tokens; A comes first among equals, and is wrong
    moved = objective.parameters(state.weights).weights.reshape(2, 3)
    np.testing.assert_array_equal(moved, [[-1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    assert objective.correct(np.array([0]), state) == 0.0


def test_the_perceptron_knows_no_label_weights():
    with pytest.raises(ModelError, match="ap cannot train with label_weights: use lbfgs, owlqn or sgd"):
        CRF(algorithm="ap", label_weights={"O": 2.0}).fit(TRAIN)


def test_constraints_forbid_in_training_too():
    model = CRF(features="ner", c2=0.1).fit(TRAIN)
    table = model.transitions()
    start = table.labels.index("O")
    assert table.weights[start][table.labels.index("I-PER")] == -np.inf
    assert model.parameters_.start[table.labels.index("I-PER")] == -np.inf
    free = CRF(features="ner", c2=0.1, constraints=False).fit(TRAIN)
    assert np.isfinite(free.parameters_.transitions).all()


def test_labels_that_break_the_scheme_are_named():
    broken = [*TRAIN, Sentence(["a", "b"], ["O", "I-PER"], path="x.txt", lines=(4, 5))]
    with pytest.raises(DataError, match=r"^x.txt:5: bad tag 'I-PER': I-PER must follow B-PER or I-PER"):
        CRF(features="ner", scheme="bio").fit(broken)
    CRF(features="ner", scheme="bio", constraints=False).fit(broken)


def test_min_freq_leaves_rare_features_without_weights():
    X = [[["often", "rare"]], [["often"]], [["often"]]]
    y = [["A"], ["A"], ["B"]]
    settings = {"features": "ready", "scheme": "plain"}
    assert names(CRF(min_freq=2, **settings).fit(X, y)) == {("often", "A")}
    assert names(CRF(**settings).fit(X, y)) == {("often", "A"), ("often", "B"), ("rare", "A")}
    every = names(CRF(all_possible_states=True, **settings).fit(X, y))
    assert every == {(f, label) for f in ("often", "rare") for label in "AB"}


def names(model):
    return {(f.name, f.label) for f in model.top_features(n=100).features}


def test_transitions_that_never_occur_have_a_weight_only_when_asked():
    X, y = [[["a"], ["b"]]], [["A", "B"]]
    some = CRF(features="given", scheme="plain").fit(X, y)
    assert some.parameters_.weighted.tolist() == [[False, True], [False, False]]
    every = CRF(features="given", scheme="plain", all_possible_transitions=True).fit(X, y)
    assert every.parameters_.weighted.all()


def test_a_template_without_b_has_no_transition_weights(tmp_path):
    (tmp_path / "t").write_text("U:%x[0,0]\n", encoding="utf-8")
    model = CRF(features=str(tmp_path / "t")).fit(TRAIN)
    assert not model.parameters_.weighted.any()
    (tmp_path / "t").unlink()
    model.save(tmp_path / "m")
    assert CRF.load(tmp_path / "m").predict([["Rome"]]) == model.predict([["Rome"]])


def test_l1_makes_the_model_small(tmp_path):
    dense = CRF(features="ner", c2=0.1).fit(TRAIN)
    sparse = CRF(features="ner", c1=0.5, c2=0.0).fit(TRAIN)
    assert 0 < len(sparse.parameters_.weights) < len(dense.parameters_.weights) / 4
    assert (sparse.parameters_.weights != 0).all()
    dense.save(tmp_path / "dense")
    sparse.save(tmp_path / "sparse")
    assert (tmp_path / "sparse").stat().st_size < (tmp_path / "dense").stat().st_size


def test_warm_start_continues_where_it_stopped():
    settings = {"features": "ner", "c2": 0.1}
    full = CRF(**settings, **TIGHT).fit(TRAIN)
    first = CRF(**settings, max_iterations=5).fit(TRAIN)
    loss = first.history_.loss
    again = first.set_params(max_iterations=1).fit(TRAIN, warm_start=True)
    assert full.history_.loss < again.history_.loss < loss
    more = again.set_params(max_iterations=None, **TIGHT).fit(TRAIN, warm_start=True)
    assert more.history_.loss == pytest.approx(full.history_.loss, rel=1e-6)


def test_early_stopping_keeps_the_best_held_out_model():
    model = CRF(features="ner", c2=0.01, patience=2).fit(TRAIN, dev=TRAIN[:3])
    assert model.history_.reason in ("early_stopping", "converged")
    scores = [step.dev for step in model.history_.steps]
    assert scores[model.history_.kept] == max(scores) == model.score(TRAIN[:3])
    pair = CRF(features="ner", c2=0.01, patience=2).fit(
        TRAIN, dev=([s.tokens for s in TRAIN[:3]], [s.tags for s in TRAIN[:3]])
    )
    assert [step.dev for step in pair.history_.steps] == scores


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("algorithm", ["lbfgs", "sgd"])
def test_thread_count_does_not_change_a_bit(algorithm, precision, tmp_path):
    X, y = make_data(seed=3, sentences=3000)
    before = chain.get_num_threads()
    try:
        for threads in (1, 2, 5):
            chain.set_num_threads(threads)
            settings = {"features": "ready", "scheme": "plain", "max_iterations": 4, "precision": precision}
            CRF(algorithm=algorithm, **settings).fit(X, y).save(tmp_path / str(threads))
    finally:
        chain.set_num_threads(before)
    assert len({(tmp_path / str(threads)).read_bytes() for threads in (1, 2, 5)}) == 1


def test_sgd_comes_near_the_minimum_and_ap_learns():
    X, y = make_data(seed=4, sentences=400)
    settings = {"features": "ready", "scheme": "plain", "constraints": False, "c2": 1.0}
    exact = CRF(**settings).fit(X, y).history_.loss
    descended = CRF(algorithm="sgd", **settings).fit(X, y)
    objective = objective_of(X, y, c2=1.0)
    p = descended.parameters_
    assert len(p.weights) + 9 == objective.size
    loss = objective.evaluate(np.concatenate([p.weights, p.transitions.ravel()]), np.empty(objective.size))
    assert loss == pytest.approx(exact, rel=5e-3)
    history = CRF(algorithm="ap", features="ner").fit(TRAIN).history_
    assert history.steps[-1].loss < history.steps[0].loss


def test_steps_that_overflow_are_not_the_ones_that_sgd_takes():
    """One sentence, regularised strongly: the first step lengths that are tried overflow, or take all weights to 0."""
    X, y = [[{"a": 1.0}, {"b": 0.5}, {"a": 1.0, "b": 300.0}]] * 2, [["A", "B", "B"]] * 2
    settings = {"features": "given", "scheme": "plain", "constraints": False, "algorithm": "sgd"}
    for c2 in (0.1, 0.5, 1.0, 10.0, 1000.0):
        for sentences in (1, 2):
            model = CRF(**settings, c2=c2).fit(X[:sentences], y[:sentences])
            assert np.isfinite(model.history_.loss)
            assert np.isfinite(model.parameters_.weights).all()
    model = CRF(**settings, c2=0.5, learning_rate=1.0).fit(X[:1], y[:1])  # 1 - rate * decay is 0
    assert np.isfinite(model.parameters_.weights).all()


def test_the_averaged_perceptron_is_the_mean_of_the_weights_along_the_way():
    X, y = make_data(seed=6, sentences=15)
    objective = objective_of(X, y, all_states=True)
    iterates = averaged_perceptron(objective, np.zeros(objective.size), seed=3)
    found = [next(iterates).weights for _ in range(2)][-1]
    random, w, along = np.random.default_rng(3), np.zeros(objective.size), []
    for order in (random.permutation(len(X)) for _ in range(2)):
        for i in order:
            along.append(w)
            w = w + perceptron_step(objective, w, X[i], y[i])
    along.append(w)
    np.testing.assert_allclose(found, np.mean(along, axis=0), atol=1e-12)


def perceptron_step(objective, w, x, gold):
    """Features of the gold labels minus those of the best labels, as gradients of the two scores."""
    compiled = GivenExtractor().compile([x], objective.index, grow=False)
    best = Observed(compiled).scores(objective.parameters(w)).viterbi().tags
    states, steps = np.zeros((len(objective.index), 3)), np.zeros((3, 3))
    for path, sign in ((objective.states.tags.encode(gold), 1.0), (best, -1.0)):
        for t, label in enumerate(path):
            for attribute, value in compiled.token_attributes(t):
                states[attribute, label] += sign * value
            if t:
                steps[path[t - 1], label] += sign
    return np.concatenate([states.ravel(), steps.ravel()])


def test_seeds_shuffle():
    X, y = make_data(seed=4, sentences=100)
    settings = {"features": "ready", "scheme": "plain", "algorithm": "sgd", "max_iterations": 2}
    one, other = (CRF(seed=seed, **settings).fit(X, y).parameters_.weights for seed in (0, 1))
    assert not np.array_equal(one, other)


def test_impossible_settings_are_named():
    for options, message in [
        ({"c2": -1.0}, "c2 must be a finite number >= 0, got -1.0"),
        ({"memory": 0}, "memory must be at least 1, got 0"),
        ({"max_iterations": -1}, "max_iterations must be at least 0, got -1"),
        ({"max_iterations": 10**400}, r"max_iterations must be at least 0, got 10+\.\.\.0+$"),
        ({"patience": 0}, "patience must be at least 1, got 0"),
        ({"learning_rate": -0.1}, "learning_rate must be a finite number > 0, got -0.1"),
        ({"learning_rate": float("nan")}, "learning_rate must be a finite number > 0, got nan"),
        ({"order": 2.0}, "'order' must be 1 or 2, got 2.0"),
        ({"order": True}, "'order' must be 1 or 2, got True"),
        (
            {"algorithm": "adam"},
            "'algorithm' must be 'lbfgs' or 'owlqn' or 'sgd' or 'ap' or 'pa' or 'arow', got 'adam'",
        ),
        ({"c3": 1.0}, r"no setting 'c3'; did you mean 'c2'\?|no setting 'c3'; did you mean 'c1'\?"),
    ]:
        with pytest.raises(ConfigError, match=message):
            CRF(**options)
    with pytest.raises(ModelError, match="sgd does not support L1"):
        CRF(algorithm="sgd", c1=1.0).fit(TRAIN)


def test_a_period_of_any_size_is_fine():
    assert CRF(features="pos", period=2**70).fit(TRAIN[:5]).history_.reason == "converged"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_weights_that_are_not_finite_are_refused():
    X, y = [[{"a": 1e200}, {"a": -1e200}]], [["X", "Y"]]
    with pytest.raises(DataError, match="weights that are not finite; feature values are too large"):
        CRF(features="given", algorithm="arow", max_iterations=5).fit(X, y)


def test_tag_sets_with_plain_labels_have_no_constraints():
    objective = objective_of(*make_data(), constraints=True)
    assert objective.states.tags == TagSet(tuple(LABELS), Scheme.PLAIN)
    assert objective.transitions.legal.all()


class Short(list):
    """A sentence that says it has one token, whatever it holds."""

    def __len__(self):
        return 1


@pytest.mark.parametrize("features", ["ready", "pos"])
def test_a_sentence_whose_length_is_not_what_it_holds_does_not_reach_the_kernels(features):
    tokens = [["a"], ["b"], ["c"]] if features == "ready" else ["a", "b", "c"]
    with pytest.raises(DataError, match="sentence 0 contains 3 tokens but its length is 1: expected the same number"):
        CRF(features=features).fit([Short(tokens), tokens[:2]], [["X"], ["X", "Y"]])


def test_a_settled_objective_has_the_same_loss_and_gradient_and_serves_nothing_else():
    X, y = make_data()
    objective = objective_of(X, y, c2=0.1)
    weights = np.random.default_rng(0).normal(size=objective.size)
    before, after = np.full((2, objective.size), np.nan)  # what was there does not matter
    loss = objective.evaluate(weights, before)
    objective.finalize()
    assert objective.evaluate(weights, after) == loss
    np.testing.assert_array_equal(after, before)
    with pytest.raises(ValueError, match="only evaluate works"):
        objective.descend(np.arange(3), Descent(weights, 0.1, 2))


@pytest.mark.parametrize("labels", [2, 3, 4, 5, 8, 9])
def test_rows_of_any_width_give_the_gradient(labels):
    random = np.random.default_rng(labels)
    names = [f"L{i}" for i in range(labels)]
    X = [[{f"w{random.integers(4)}": 1.0, "bias": 0.5} for _ in range(4)] for _ in range(3 * labels)]
    y = [[names[i % labels], *random.choice(names, size=3).tolist()] for i in range(len(X))]
    check_gradient(objective_of(X, y, c2=0.1))
