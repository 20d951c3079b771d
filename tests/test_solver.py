"""The solver: descent, known optima, every way to end, and one pass over the data per iteration."""

import math
from itertools import pairwise

import numpy as np
import pytest
import scipy.optimize
from sklearn.exceptions import ConvergenceWarning

from samples import aligned, make_spd
from spdsl import SPDML, backend
from spdsl.data import as_data
from spdsl.data.memory import MemoryView
from spdsl.geometry import METRICS
from spdsl.geometry.manifolds import MANIFOLDS
from spdsl.learning import solver
from spdsl.learning.graph import PairGraph, survey_pairs
from spdsl.learning.line_search import Line, cubic
from spdsl.learning.objectives import CenteredAlignment, GraphEmbedding
from spdsl.learning.problem import Problem
from spdsl.learning.solver import BETA_RULES, STATUSES, Products, minimize

N, n, m = 18, 6, 2


def data(rng, classes=3):
    """Classes that differ in two of six directions, under noise in the others."""
    y = np.arange(N) % classes
    X = make_spd(rng, N, n, 10)
    X[:, 2, 2] += 2.0 * y
    X[:, 4, 4] += 1.5 * (y == 1)
    return X, y


def make_problem(rng, metric="lem", as_array=np.asarray, neighbors=("all", "all")):
    X, y = data(rng)
    survey = survey_pairs(as_data(X), y, METRICS[metric], *neighbors)
    graph = survey.graph
    objective = CenteredAlignment(graph, y, 1 / survey.mean_distance**2)
    return Problem(MemoryView(as_array(X)), METRICS[metric], objective, as_array(graph.i), as_array(graph.j))


def space(metric):
    return MANIFOLDS["full-rank" if METRICS[metric].invariance == "none" else "psd"]


def start(rng):
    return np.linalg.qr(rng.standard_normal((n, m)))[0]


# ------------------------------------------------------------------ descent


@pytest.mark.parametrize("rule", BETA_RULES)
@pytest.mark.parametrize("metric", METRICS)
def test_the_value_decreases_in_every_iteration(metric, rule, rng):
    problem = make_problem(rng, metric)
    result = minimize(problem, start(rng), space(metric), rule=rule, max_iter=25)
    values = [row["value"] for row in result.history]
    assert all(b < a for a, b in pairwise(values))
    assert values[-1] < values[0] - 1e-3
    assert result.value == values[-1]
    assert result.value == pytest.approx(problem.cost(result.W)[0], rel=1e-9)


@pytest.mark.parametrize("manifold", ["psd", "grassmann"])
def test_numpy_and_torch_take_the_same_path(as_array, manifold):
    rng = np.random.default_rng(0)
    W = MANIFOLDS[manifold].point(start(rng))
    expected = minimize(make_problem(np.random.default_rng(1)), W, MANIFOLDS[manifold], max_iter=10)
    problem = make_problem(np.random.default_rng(1), as_array=as_array)
    found = minimize(problem, as_array(W), MANIFOLDS[manifold], max_iter=10)
    assert found.value == pytest.approx(expected.value, rel=1e-9)
    np.testing.assert_allclose(backend.to_numpy(found.W), expected.W, atol=1e-7)


def test_grassmann_stays_orthonormal(rng):
    W = MANIFOLDS["grassmann"].point(3 * start(rng))
    result = minimize(make_problem(rng, "aim"), W, MANIFOLDS["grassmann"], max_iter=30)
    np.testing.assert_allclose(result.W.T @ result.W, np.eye(m), atol=1e-10)


@pytest.mark.parametrize("metric", ["aim", "stein"])
def test_grassmann_and_psd_agree_for_metrics_that_see_only_the_subspace(metric):
    ends = []
    for manifold in ("psd", "grassmann"):
        rng = np.random.default_rng(2)
        problem = make_problem(rng, metric)
        ends.append(minimize(problem, start(rng), MANIFOLDS[manifold], max_iter=300, tol=1e-12).value)
    assert ends[0] == pytest.approx(ends[1], rel=1e-5)


# ------------------------------------------------------------------ known optima


@pytest.mark.parametrize("manifold", ["psd", "grassmann"])
@pytest.mark.parametrize("rule", BETA_RULES)
def test_reaches_the_known_optimum_of_a_tiny_problem(manifold, rule):
    """Two matrices, one pair to pull apart, m = 1: AIM's log^2(w'Aw / w'Bw) is largest at an extreme eigenvector."""
    A, B = np.diag([1.0, 2.0, 30.0]), np.eye(3)
    graph = PairGraph(2, np.array([0]), np.array([1]), np.array([False]))
    problem = Problem(
        MemoryView(np.stack([A, B])), METRICS["aim"], GraphEmbedding(graph, np.arange(2)), graph.i, graph.j
    )
    W = np.array([[0.6], [0.6], [0.5]])
    result = minimize(problem, W, MANIFOLDS[manifold], rule=rule, max_iter=200, tol=1e-14)
    assert result.value == pytest.approx(-(np.log(30) ** 2), rel=1e-6)
    assert abs(result.W[2, 0]) / np.linalg.norm(result.W) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("metric", ["lem", "aim", "log-cholesky"])
def test_another_optimizer_on_the_same_cost_finds_the_same_optimum(metric):
    rng = np.random.default_rng(3)
    X, y = data(rng)
    W = start(rng)
    model = aligned(m, metric=metric, solver={"init": W}, max_iter=400, tol=1e-9).fit(X, y)
    cost = model.cost(X, y)

    def flat(w):
        value, g = cost(w.reshape(n, m))
        return value, g.ravel()

    other = scipy.optimize.minimize(flat, W.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 1000})
    assert model.cost_ == pytest.approx(other.fun, rel=0.01)
    assert model.cost_ == pytest.approx(cost(model.components_)[0], rel=1e-9)


# ------------------------------------------------------------------ passes over the data


@pytest.mark.parametrize("manifold", ["psd", "grassmann"])
def test_one_pass_over_the_data_per_iteration(rng, manifold):
    problem = make_problem(rng)
    result = minimize(problem, start(rng), MANIFOLDS[manifold], max_iter=20, tol=0)
    assert len(result.history) == 21
    assert sum(row["trials"] for row in result.history) > 21  # more trials than passes: the line search reads nothing
    assert result.passes == problem.view.passes == 21


def test_refresh_costs_a_pass_and_changes_nothing(rng, monkeypatch):
    W, seed = start(rng), 4
    plain = minimize(make_problem(np.random.default_rng(seed)), W, MANIFOLDS["psd"], max_iter=20, tol=0)
    monkeypatch.setattr(solver, "REFRESH", 3)
    refreshed = minimize(make_problem(np.random.default_rng(seed)), W, MANIFOLDS["psd"], max_iter=20, tol=0)
    assert refreshed.passes == plain.passes + 6
    assert refreshed.value == pytest.approx(plain.value, rel=1e-9)


@pytest.mark.parametrize("t", [0.0, 0.3])
def test_along_the_line_the_reduced_matrices_are_a_quadratic(as_array, t, rng):
    X, _ = data(rng)
    W, H = start(rng), start(rng)
    stack = MemoryView(as_array(X))
    P = backend.to_numpy(stack.start(as_array(W)))
    A1, A2 = (backend.to_numpy(a) for a in stack.look(as_array(H)))
    V = W + t * H
    np.testing.assert_allclose(P + t * A1 + t * t * A2, V.T @ X @ V, atol=1e-12)
    right = rng.standard_normal((m, m))
    np.testing.assert_allclose(backend.to_numpy(stack.step(t, as_array(right))), V @ right, atol=1e-13)
    S = make_spd(rng, N, m)
    expected = 2 * sum(x @ V @ right @ s for x, s in zip(X, S, strict=True))
    np.testing.assert_allclose(backend.to_numpy(stack.gradient(as_array(S))), expected, atol=1e-11)
    assert stack.passes == 2


@pytest.mark.parametrize("manifold", ["psd", "grassmann"])
def test_slope_along_the_line_is_the_derivative_of_the_value(manifold, rng):
    problem = make_problem(rng)
    space = MANIFOLDS[manifold]
    W = space.point(start(rng))
    H = space.project(W, rng.standard_normal((n, m)))
    P = problem.view.start(W)
    line = Line(problem.evaluate, P, *problem.view.look(H), space.normalizer(H), 0.0, -1.0)
    for t in (0.0, 0.2, 1.0):
        h = 1e-5
        expected = (line.at(t + h).value - line.at(t - h).value) / (2 * h)
        assert line.at(t).slope == pytest.approx(expected, rel=1e-6, abs=1e-9)


# ------------------------------------------------------------------ every way to end


def test_ends_on_the_gradient(rng):
    result = minimize(make_problem(rng), start(rng), MANIFOLDS["psd"], max_iter=500, tol=0, gradient_tol=1e-3)
    assert (result.status, result.converged) == ("gradient", True)
    assert len(result.history) < 501


def test_ends_on_no_change(rng):
    result = minimize(make_problem(rng), start(rng), MANIFOLDS["psd"], max_iter=500, tol=0.05, gradient_tol=0)
    assert (result.status, result.converged) == ("change", True)
    values = [row["value"] for row in result.history]
    assert values[-4] - values[-1] <= 3 * 0.05 * abs(values[-1])


def test_ends_within_rounding(rng):
    result = minimize(
        make_problem(rng), start(rng), MANIFOLDS["psd"], max_iter=5000, tol=0, gradient_tol=0, patience=50
    )
    assert result.status in ("precision", "change")
    assert result.history[-1]["gradient_norm"] < 1e-5


def test_ends_on_the_iteration_limit(rng):
    result = minimize(make_problem(rng), start(rng), MANIFOLDS["psd"], max_iter=2)
    assert (result.status, result.converged) == ("max_iter", False)
    assert [row["iteration"] for row in result.history] == [0, 1, 2]


def test_no_iterations_return_the_start(rng):
    W = start(rng)
    result = minimize(make_problem(rng), W, MANIFOLDS["psd"], max_iter=0)
    np.testing.assert_array_equal(result.W, W)
    assert result.passes == 1


@pytest.mark.parametrize("when", [0, 3])
def test_ends_when_the_callback_says_so(rng, when):
    seen = []

    def callback(row, W):
        seen.append((row["iteration"], W.shape))
        return row["iteration"] == when

    result = minimize(make_problem(rng), start(rng), MANIFOLDS["psd"], max_iter=20, callback=callback)
    assert result.status == "callback"
    assert seen == [(k, (n, m)) for k in range(when + 1)]


def test_ends_on_an_interrupt_with_the_best_so_far(rng):
    def callback(row, W):
        if row["iteration"] == 3:
            raise KeyboardInterrupt

    result = minimize(make_problem(rng), start(rng), MANIFOLDS["psd"], max_iter=20, callback=callback)
    assert result.status == "interrupted"
    assert len(result.history) == 4
    assert result.value == result.history[-1]["value"]


@pytest.mark.parametrize("metric", [name for name in METRICS if not METRICS[name].scale_free])
def test_an_objective_that_falls_with_the_size_of_w_ends_as_unbounded(metric, rng):
    """Graph embedding with a metric that is not scale-free: pairs to push apart go further by growing W."""
    X, y = data(rng)
    model = SPDML(m, metric=metric, manifold="psd", n_within=1, n_between=3, max_iter=500, tol=0)
    remedy = "use SPDSL" if METRICS[metric].invariance == "none" else "use manifold='grassmann', or SPDSL"
    with pytest.warns(ConvergenceWarning, match=rf"grows without bound.*{remedy}"):
        model.fit(X, y)
    assert model.status_ == "unbounded"
    assert np.isfinite(model.components_).all()
    assert np.linalg.norm(model.components_) < 1e6


def test_graph_embedding_with_lem_is_bounded(rng):
    """log is operator monotone: from a W'W <= P_i <= b W'W, |log P_i - log P_j| <= sqrt(m) log(b/a) for every W."""
    X, _ = data(rng)
    w = np.linalg.eigvalsh(X)
    bound = m * np.log(w.max() / w.min()) ** 2
    for condition in np.logspace(0, 5, 30):
        W = start(rng) * [1.0, 1 / condition] @ np.linalg.qr(rng.standard_normal((m, m)))[0]
        P = W.T @ X @ W
        assert METRICS["lem"].sqdist(P, P).max() <= bound


@pytest.mark.parametrize("seed", range(3))
def test_graph_embedding_with_lem_never_ends_in_nan(seed):
    X, y = data(np.random.default_rng(seed))
    model = SPDML(m + 1, metric="lem", manifold="psd", n_within=1, n_between=3, max_iter=500, tol=0).fit(X, y)
    assert model.status_ in ("gradient", "precision", "rank")
    assert np.isfinite(model.components_).all()
    assert all(math.isfinite(row["value"]) for row in model.history_)


def test_rank_loss_is_named_and_warned_of(monkeypatch, rng):
    """The same fit with the limit set where its W passes."""
    X, y = data(rng)
    monkeypatch.setattr(solver, "MAX_CONDITION", 2.0)
    model = SPDML(m + 1, metric="lem", manifold="psd", n_within=1, n_between=3, max_iter=500, tol=0)
    with pytest.warns(ConvergenceWarning, match="about to lose rank"):
        model.fit(X, y)
    assert model.status_ == "rank"
    assert np.linalg.cond(model.components_) > 2
    assert len(model.history_) == model.n_iter_ + 1


def test_a_start_at_the_edge_of_rank_stays_finite(rng):
    problem = make_problem(rng)
    W = start(rng) * [1.0, 1e-6]
    result = minimize(problem, W, MANIFOLDS["psd"], max_iter=100)
    assert np.isfinite(result.W).all()
    assert result.value < result.history[0]["value"]


def test_every_status_has_its_sentence():
    assert all(STATUSES[status] for status in ("gradient", "change", "precision", "rank", "max_iter", "callback"))


def test_unknown_rule_is_an_error_that_lists_the_known(rng):
    with pytest.raises(ValueError, match=r"rule must be 'hestenes-stiefel', .*got 'newton'"):
        minimize(make_problem(rng), start(rng), MANIFOLDS["psd"], rule="newton")


# ------------------------------------------------------------------ parts


def test_conjugate_rules_worked_by_hand():
    g, old, H = np.array([[3.0]]), np.array([[1.0]]), np.array([[2.0]])
    expected = {
        "hestenes-stiefel": 3 * 2 / (2 * 2),
        "polak-ribiere": 3 * 2 / 1,
        "fletcher-reeves": 9.0,
        "dai-yuan": 9 / (2 * 2),
    }
    assert {name: rule(Products.of(g, old, H)) for name, rule in BETA_RULES.items()} == expected


@pytest.mark.parametrize("name", ["hestenes-stiefel", "polak-ribiere"])
def test_plus_rules_are_never_negative(name):
    g, old, H = np.array([[1.0]]), np.array([[3.0]]), np.array([[-2.0]])
    assert BETA_RULES[name](Products.of(g, old, H)) == 0


def test_cubic_finds_the_minimum_of_acubic():
    def f(t):
        return t**3 - 4 * t**2 + t + 2

    def slope(t):
        return 3 * t**2 - 8 * t + 1

    best = (8 + math.sqrt(64 - 12)) / 6
    for a, b in ((0.5, 3.0), (3.0, 0.5), (2.0, 2.7)):
        assert cubic(a, f(a), slope(a), b, f(b), slope(b)) == pytest.approx(best, rel=1e-12)


def test_cubic_of_a_line_without_a_minimum_is_none():
    assert cubic(0.0, 0.0, -1.0, 1.0, -1.0, -1.0) is None  # a straight line
    assert cubic(0.0, 0.0, -1.0, 1.0, -0.5, -1.0) is None  # the slope has no root


def test_history_rows_are_complete(rng):
    result = minimize(make_problem(rng), start(rng), MANIFOLDS["psd"], max_iter=3)
    for k, row in enumerate(result.history):
        assert set(row) == {"iteration", "value", "gradient_norm", "step", "trials", "seconds"}
        assert row["seconds"] >= 0
        assert (row["step"] > 0) == (k > 0)


@pytest.mark.parametrize("metric", ["lem", "aim"])
def test_scaling_a_large_w_back_changes_nothing_where_the_metric_is_scale_free(metric, monkeypatch):
    W = start(np.random.default_rng(0))
    plain = minimize(make_problem(np.random.default_rng(1), metric), W, MANIFOLDS["psd"], max_iter=25, tol=0)
    monkeypatch.setattr("spdsl.learning.solver.MAX_SIZE", 1.001)
    scaled = minimize(make_problem(np.random.default_rng(1), metric), W, MANIFOLDS["psd"], max_iter=25, tol=0)
    assert np.linalg.norm(scaled.W) <= 1.001 * np.linalg.norm(W) < np.linalg.norm(plain.W)
    assert scaled.value == pytest.approx(plain.value, rel=1e-3)
    assert scaled.status == plain.status
    assert all(after <= before for before, after in pairwise([row["value"] for row in scaled.history]))
