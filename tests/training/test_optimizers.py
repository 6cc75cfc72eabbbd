"""Optimizers on functions whose minimum is known, and the loop around them."""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize

from trellis import _native
from trellis.errors import DataError
from trellis.training import History, Iterate, lbfgs, owlqn, pseudo_gradient, retry_on_interrupt, run
from trellis.training.lbfgs import InverseHessian, wolfe
from trellis.training.online import calibrate


class Quadratic:
    """1/2 (x - m)' A (x - m), with a minimum that can be solved for."""

    def __init__(self, size, seed=0):
        random = np.random.default_rng(seed)
        root = random.normal(size=(size, size))
        self.A = root @ root.T + 0.1 * np.eye(size)
        self.m = random.normal(size=size)
        self.size = size
        self.evaluations = 0

    def evaluate(self, weights, gradient):
        self.evaluations += 1
        gradient[:] = self.A @ (weights - self.m)
        return 0.5 * float((weights - self.m) @ gradient)


class Rosenbrock:
    size = 2

    def evaluate(self, weights, gradient):
        x, y = weights
        gradient[:] = [-2 * (1 - x) - 400 * x * (y - x * x), 200 * (y - x * x)]
        return float((1 - x) ** 2 + 100 * (y - x * x) ** 2)


TIGHT = {"epsilon": 1e-10, "delta": 0.0, "period": 0}


def test_lbfgs_finds_the_minimum_of_a_quadratic():
    objective = Quadratic(20)
    trained = run(lbfgs(objective, np.zeros(20), **TIGHT), np.zeros(20), max_iterations=500)
    np.testing.assert_allclose(trained.weights, objective.m, atol=1e-7)
    assert trained.history.reason == "converged"
    losses = [step.loss for step in trained.history.steps]
    assert losses == sorted(losses, reverse=True)


def test_lbfgs_follows_a_curved_valley():
    trained = run(lbfgs(Rosenbrock(), np.array([-1.2, 1.0]), **TIGHT), np.zeros(2), max_iterations=200)
    np.testing.assert_allclose(trained.weights, [1.0, 1.0], atol=1e-6)


def test_lbfgs_at_the_minimum_stops_at_once():
    objective = Quadratic(4)
    trained = run(lbfgs(objective, objective.m), objective.m)
    assert trained.history.reason == "converged"
    assert objective.evaluations == 1


def test_the_two_loops_equal_the_recursion_on_long_vectors():
    random = np.random.default_rng(1)
    size, memory = 50, 4
    hessian, pairs = InverseHessian(np.zeros(size), memory), []
    for _ in range(7):
        s = random.normal(size=size).astype(np.float32).astype(np.float64)  # as they are kept
        y = (0.3 * s + 0.02 * random.normal(size=size)).astype(np.float32).astype(np.float64)
        v = random.normal(size=size)
        hessian.update(s, np.zeros(size), y, np.zeros(size), v)
        pairs.append((s, y))
    q, alphas = v.copy(), []
    for s, y in reversed(pairs[-memory:]):
        alphas.append(s @ q / (s @ y))
        q -= alphas[-1] * y
    s, y = pairs[-1]
    q *= s @ y / (y @ y)
    for s, y in pairs[-memory:]:
        q += s * (alphas.pop() - y @ q / (s @ y))
    direction = np.empty(size)
    assert hessian.descent(direction) == pytest.approx(-q @ v, rel=1e-9)
    np.testing.assert_allclose(direction, -q, rtol=1e-9)
    assert hessian.length == pytest.approx(np.linalg.norm(v))


def test_a_step_without_positive_curvature_teaches_nothing():
    direction = np.empty(3)
    hessian = InverseHessian(np.zeros(3), 2)
    hessian.update(np.ones(3), np.zeros(3), -np.ones(3), np.zeros(3), np.ones(3))
    assert hessian.descent(direction) == -3
    np.testing.assert_array_equal(direction, -np.ones(3))


@pytest.mark.parametrize("size", [1, 15, 16, 2047, 2048, 50_001])
def test_vector_operations_of_every_length(size):
    a, b = np.random.default_rng(2).normal(size=(2, size))
    assert _native.dot(a, b) == pytest.approx(float(a @ b), rel=1e-9, abs=1e-9)
    combined = np.empty(size)
    _native.combine([a, b], [2.0, -3.0], combined)
    np.testing.assert_allclose(combined, 2 * a - 3 * b, rtol=1e-12, atol=1e-12)
    decayed = b.copy()
    assert _native.add_decay(a, 0.5, decayed) == pytest.approx(float(a @ a), rel=1e-9)
    np.testing.assert_allclose(decayed, b + 0.5 * a, rtol=1e-12, atol=1e-12)
    out = a.copy()
    _native.combine([out, b], [1.0, 1.0], out)
    np.testing.assert_allclose(out, a + b, rtol=1e-12, atol=1e-12)


def test_wolfe_conditions_hold_on_a_wavy_line():
    def along(t):
        return float(np.cos(3 * t) + 0.05 * t * t), float(-3 * np.sin(3 * t) + 0.1 * t)

    loss, slope = along(0.4)

    def shifted(t):
        return along(0.4 + t)

    trial = wolfe(shifted, loss, slope, 0.001, 30)
    assert trial is not None
    assert trial.loss <= loss + 1e-4 * trial.step * slope
    assert abs(trial.slope) <= 0.9 * abs(slope)


def test_no_step_is_found_where_the_loss_only_rises():
    assert wolfe(lambda t: (1.0 + t, 1.0), 1.0, -1.0, 1.0, 10) is None


class Rounded(Quadratic):
    """A quadratic of which the loss is known to some digits only, as a sum in single precision is."""

    def evaluate(self, weights, gradient):
        loss = 1000.0 + super().evaluate(weights, gradient)
        return loss * (1 + 7e-7 * np.sin(1e6 * self.evaluations))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("minimise", [lbfgs, partial(owlqn, c1=0.3)], ids=["lbfgs", "owlqn"])
def test_a_loss_with_rounding_converges(minimise, seed):
    objective = Rounded(60, seed)
    trained = run(minimise(objective, np.zeros(60), epsilon=1e-9), np.zeros(60), max_iterations=1000)
    assert trained.history.reason == "converged"
    exact = run(minimise(Quadratic(60, seed), np.zeros(60), **TIGHT), np.zeros(60), max_iterations=3000)
    assert trained.history.loss <= 1000 + exact.history.loss + 0.05


@pytest.mark.parametrize("c1", [0.3, 2.0])
def test_owlqn_reaches_the_optimality_conditions_and_exact_zeros(c1):
    objective = Quadratic(30, seed=3)
    trained = run(owlqn(objective, np.zeros(30), c1=c1, **TIGHT), np.zeros(30), max_iterations=2000)
    w, g = trained.weights, np.empty(30)
    loss = objective.evaluate(w, g) + c1 * np.abs(w).sum()
    zero = w == 0
    assert 0 < zero.sum() < 30
    np.testing.assert_allclose(g[~zero], -c1 * np.sign(w[~zero]), atol=1e-5)
    assert (np.abs(g[zero]) <= c1 + 1e-6).all()
    np.testing.assert_allclose(pseudo_gradient(w, g, c1), 0.0, atol=1e-5)

    def split(z):  # the same problem as a smooth one with bounds: w = p - n
        g2 = np.empty(30)
        value = objective.evaluate(z[:30] - z[30:], g2)
        return value + c1 * z.sum(), np.concatenate([g2 + c1, c1 - g2])

    best = minimize(split, np.zeros(60), jac=True, bounds=[(0, None)] * 60, options={"maxiter": 5000, "ftol": 1e-14})
    assert loss == pytest.approx(best.fun, rel=1e-6)


@pytest.mark.parametrize("size", [1, 15, 2048, 40_000])
def test_owlqn_stays_in_the_orthant_of_a_step(size):
    random = np.random.default_rng(size)
    x, g, direction = random.choice([-1.0, -0.5, -0.0, 0.0, 0.5, 1.0], size=(3, size))
    c1, step = 0.75, 0.7
    shrunk = np.sign(g) * np.maximum(np.abs(g) - c1, 0.0)
    uphill = np.where(x != 0.0, g + c1 * np.sign(x), shrunk)
    np.testing.assert_array_equal(pseudo_gradient(x, g, c1), uphill)

    downhill = np.where(direction * uphill >= 0.0, 0.0, direction)
    _native.keep_downhill(uphill, direction)
    np.testing.assert_array_equal(direction, downhill)

    orthant = np.where(x != 0.0, np.sign(x), -np.sign(uphill))
    cut = x + step * direction
    cut[cut * orthant <= 0.0] = 0.0
    found = np.empty(size)
    length, slope = _native.step_in_orthant(x, uphill, direction, step, found)
    np.testing.assert_array_equal(found, cut)
    assert length == pytest.approx(np.abs(cut).sum(), rel=1e-12)
    assert slope == pytest.approx(uphill @ (cut - x), abs=1e-9)


@pytest.mark.parametrize("size", [1, 7, 256, 2048, 2049, 20_011])
@pytest.mark.parametrize("count", [0, 1, 2, 5, 12])
def test_a_step_is_learned_with_all_its_products(size, count):
    random = np.random.default_rng(size + count)
    x, x_before, g, g_before, v = random.normal(size=(5, size))
    vectors = list(random.normal(size=(count, size)).astype(np.float32))
    s, y = np.empty((2, size), dtype=np.float32)
    found = _native.learn_step(x, x_before, g, g_before, v, vectors, s, y).reshape(3, count + 3)
    assert s.tolist() == (x - x_before).astype(np.float32).tolist()
    assert y.tolist() == (g - g_before).astype(np.float32).tolist()
    three = np.array([s, y, v], dtype=np.float64)
    expected = three @ np.array([*vectors, *three], dtype=np.float64).T
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("size", [1, 255, 2049, 20_011])
def test_long_vectors_are_combined(size):
    random = np.random.default_rng(size)
    v, out = random.normal(size=(2, size))
    vectors = list(random.normal(size=(5, size)).astype(np.float32))
    factors = random.normal(size=5)
    _native.combine_steps(vectors, factors.tolist(), v, -2.0, out)
    np.testing.assert_allclose(out, factors @ np.array(vectors, dtype=np.float64) - 2.0 * v, rtol=1e-12, atol=1e-12)
    gradient = random.normal(size=size)
    expected = gradient + 0.5 * v
    assert _native.add_decay(v, 0.5, gradient) == pytest.approx(float(v @ v))
    np.testing.assert_allclose(gradient, expected, rtol=1e-12, atol=1e-12)


def test_a_gradient_that_is_not_a_number_is_not_hidden_by_owlqn():
    assert np.isnan(pseudo_gradient(np.array([0.0, 1.0]), np.full(2, np.nan), 0.5)).all()


def test_owlqn_with_a_huge_penalty_gives_nothing_but_zeros():
    trained = run(owlqn(Quadratic(5), np.zeros(5), c1=1e6), np.zeros(5))
    assert not trained.weights.any()
    assert trained.history.reason == "converged"


def iterates(losses, stop_after=None):
    for i, loss in enumerate(losses):
        yield Iterate(np.array([float(i)]), loss, None, "converged" if i == stop_after else None)


def test_the_loop_stops_at_its_limit_and_tells_the_time_left():
    seen = []
    trained = run(iterates([3.0, 2.0, 1.0]), np.zeros(1), max_iterations=2, progress=seen.append)
    assert trained.history.reason == "max_iterations"
    assert [step.iteration for step in seen] == [1, 2]
    assert seen[-1].seconds_left == 0.0
    assert trained.weights[0] == 1.0


def test_no_iterations_keep_the_start():
    trained = run(iterates([1.0]), np.array([7.0]), max_iterations=0)
    assert trained.weights[0] == 7.0
    assert trained.history == History((), "max_iterations", -1)


def test_an_interrupt_keeps_the_last_weights():
    def interrupted():
        yield from iterates([3.0, 2.0])
        raise KeyboardInterrupt

    trained = run(interrupted(), np.zeros(1))
    assert trained.history.reason == "interrupted"
    assert trained.weights[0] == 1.0


def test_an_interrupt_in_the_callback_keeps_that_step():
    def stop(step):
        if step.iteration == 2:
            raise KeyboardInterrupt

    trained = run(iterates([3.0, 2.0, 1.0]), np.zeros(1), progress=stop)
    assert (trained.history.reason, trained.weights[0]) == ("interrupted", 1.0)


def test_what_is_put_away_survives_one_interrupt():
    calls = []

    def finish():
        calls.append(1)
        if len(calls) < 2:
            raise KeyboardInterrupt
        return "done"

    assert retry_on_interrupt(finish) == "done"


class Fragile:
    """Descent on w^2 whose scores overflow if the step is longer than a tenth."""

    size = examples = 1

    def descend(self, order, descent):
        if descent.rate > 0.1:
            raise DataError("the scores overflow")
        descent.weights *= 1 - descent.rate
        return 0.0

    def loss_of(self, order, weights):
        return float(weights @ weights)


def test_step_lengths_that_overflow_are_halved_until_one_does_not():
    assert calibrate(Fragile(), np.ones(1), np.arange(1), 1) == 0.0625
