"""What the paper prints, put to the derivative tests that the library passes. The table is in docs/theory/errata.md.

A printed formula that is wrong must fail the test which the exact one passes; one that is right must pass it.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg as sl

import plain
from samples import make_spd
from spdsl.data import as_data
from spdsl.data.memory import MemoryView
from spdsl.geometry import METRICS
from spdsl.geometry.manifolds import MANIFOLDS
from spdsl.learning.graph import survey_pairs
from spdsl.learning.objectives import CenteredAlignment
from spdsl.learning.problem import Problem
from spdsl.learning.solver import minimize

N, n, m = 8, 5, 3
LABELS = np.array([0, 0, 0, 1, 1, 1, 2, 2])
BETA = 0.3


@pytest.fixture
def X():
    return make_spd(np.random.default_rng(5), N, n)


@pytest.fixture
def W():
    rng = np.random.default_rng(6)
    return np.linalg.qr(rng.standard_normal((n, m)))[0] @ (np.eye(m) + 0.3 * rng.standard_normal((m, m)))


def is_gradient(function, W, gradient):
    """The two tests of every gradient: agreement with an independent derivative, and a Taylor remainder of order 2."""
    expected = plain.gradient(function, W)
    agrees = np.linalg.norm(gradient - expected) <= 1e-7 * np.linalg.norm(expected)
    H = np.random.default_rng(7).standard_normal(W.shape)
    H /= np.linalg.norm(H)
    order = plain.taylor_slope(function, W, H, np.sum(gradient * H), 1e-4, 1e-2)
    assert agrees == (1.9 < order < 2.1), "the two tests contradict each other"
    return agrees


def similarity(name, X, W):
    """k_12 of Eq. 6 as a function of W."""
    return np.exp(-BETA * plain.SQDIST[name](W.T @ X[0] @ W, W.T @ X[1] @ W))


# ------------------------------------------------------------------ gradients of the similarity, Eq. 11 to 19


def printed_eq_11(X, W, log_factor):
    """-4 beta k (B_i P_i^-1 - B_j P_j^-1) log(...)."""
    Pi, Pj = W.T @ X[0] @ W, W.T @ X[1] @ W
    B = X[0] @ W @ np.linalg.inv(Pi) - X[1] @ W @ np.linalg.inv(Pj)
    return -4 * BETA * similarity("aim", X, W) * B @ log_factor(Pi, Pj)


def printed_log(Pi, Pj):
    half = np.linalg.inv(sl.sqrtm(Pj).real)
    return sl.logm(half @ Pi @ half)


def exact_log(Pi, Pj):
    return sl.logm(Pi @ np.linalg.inv(Pj)).real


def test_eq_11_needs_log_of_the_unsymmetrized_product(X, W):
    def function(V):
        return similarity("aim", X, V)

    assert not is_gradient(function, W, printed_eq_11(X, W, printed_log))
    assert is_gradient(function, W, printed_eq_11(X, W, exact_log))


def test_eq_11_as_printed_is_right_only_for_matrices_that_commute(W):
    V = np.linalg.qr(np.random.default_rng(1).standard_normal((n, n)))[0]
    X = np.stack([(V * w) @ V.T for w in ([1.0, 2, 3, 4, 5], [2.0, 1, 4, 9, 2])])
    W = V[:, :m] * [1.0, 0.5, 2.0]  # the reduced matrices are diagonal
    np.testing.assert_allclose(printed_eq_11(X, W, printed_log), printed_eq_11(X, W, exact_log), atol=1e-12)


def test_eq_19_stein_is_right(X, W):
    Bi, Bj = X[0] @ W, X[1] @ W
    A = W.T @ (X[0] + X[1]) @ W / 2
    inside = (Bi + Bj) @ np.linalg.inv(A) - Bi @ np.linalg.inv(W.T @ Bi) - Bj @ np.linalg.inv(W.T @ Bj)
    assert is_gradient(lambda V: similarity("stein", X, V), W, -BETA * similarity("stein", X, W) * inside)


def test_eq_14_and_15_are_right(X, W):
    P = W.T @ X[0] @ W
    printed = 4 * X[0] @ W @ plain.dlog(P, sl.logm(P))
    assert is_gradient(lambda V: np.sum(plain.log(V.T @ X[0] @ V) ** 2), W, printed)


def test_eq_16_is_right(X, W):
    Pi, Pj = W.T @ X[0] @ W, W.T @ X[1] @ W
    printed = 2 * X[0] @ W @ plain.dlog(Pi, sl.logm(Pj)) + 2 * X[1] @ W @ plain.dlog(Pj, sl.logm(Pi))
    assert is_gradient(lambda V: np.sum(plain.log(V.T @ X[0] @ V) * plain.log(V.T @ X[1] @ V)), W, printed)


def test_eq_17_lem_is_right(X, W):
    Pi, Pj = W.T @ X[0] @ W, W.T @ X[1] @ W
    D = sl.logm(Pi) - sl.logm(Pj)
    printed = -4 * (X[0] @ W @ plain.dlog(Pi, D) - X[1] @ W @ plain.dlog(Pj, D)) * BETA * similarity("lem", X, W)
    assert is_gradient(lambda V: similarity("lem", X, V), W, printed)


def test_pseudo_code_of_theorem_1_needs_logm(X, W):
    """The printed MATLAB line calls `log`, which works entry by entry there, on a block matrix with zeros in it."""
    P, H = W.T @ X[0] @ W, W.T @ X[1] @ W
    block = np.block([[P, H], [np.zeros((m, m)), P]])
    with np.errstate(divide="ignore", invalid="ignore"):
        printed = np.log(block)
    t = 1e-5
    expected = (sl.logm(P + t * H) - sl.logm(P - t * H)) / (2 * t)
    assert not np.allclose(printed[:m, m:], expected, rtol=1e-3)
    assert not np.isfinite(printed).all()
    np.testing.assert_allclose(sl.logm(block)[:m, m:], expected, rtol=1e-7)


# ------------------------------------------------------------------ Eq. 12


def alignment_parts(X, W, name, graph):
    """G, K, L, T, J of Eq. 9 at W, dense."""
    G, U = plain.mask(N, graph.i, graph.j), plain.centering(N)
    K = np.exp(-BETA * plain.pair_distances(name, W.T @ X @ W, graph.i, graph.j))
    T = G * plain.target(LABELS)
    L = U @ (G * K) @ U
    return G, K, L, T, np.sum(L * T) / np.linalg.norm(L)


def eq_12(parts, *, masked):
    """What <D k, .> is taken with in the last line of Eq. 12."""
    G, _, L, T, J = parts
    U, norm = plain.centering(N), np.linalg.norm(L)
    inside = U @ (T / norm - J * L / norm**2) @ U
    return G * inside if masked else inside


@pytest.mark.parametrize("neighbors", [(1, 2), ("all", "all")])
def test_eq_12_needs_the_mask_on_a_sparse_graph(X, W, neighbors):
    graph = survey_pairs(as_data(X), LABELS, METRICS["lem"], *neighbors).graph
    parts = alignment_parts(X, W, "lem", graph)

    def function(V):
        return alignment_parts(X, V, "lem", graph)[-1]

    logs = [sl.logm(W.T @ x @ W) for x in X]
    derivatives = {}  # of k_ij(W), which is a function of W for every pair
    for a, b in zip(*np.triu_indices(N, 1), strict=True):
        D = logs[a] - logs[b]
        Dk = X[a] @ W @ plain.dlog(W.T @ X[a] @ W, D) - X[b] @ W @ plain.dlog(W.T @ X[b] @ W, D)
        derivatives[a, b] = -4 * BETA * np.exp(-BETA * np.sum(D**2)) * Dk

    def gradient(masked):
        C = eq_12(parts, masked=masked)
        return sum(2 * C[pair] * Dk for pair, Dk in derivatives.items())

    assert is_gradient(function, W, gradient(masked=True))
    assert is_gradient(function, W, gradient(masked=False)) == graph.is_full


def test_the_library_agrees_with_the_masked_eq_12(X, W):
    graph = survey_pairs(as_data(X), LABELS, METRICS["stein"], 1, 2).graph
    d2, _ = METRICS["stein"].pairs(W.T @ X @ W, graph.i, graph.j)
    value, c = CenteredAlignment(graph, LABELS, BETA)(d2)
    parts = alignment_parts(X, W, "stein", graph)
    expected = (2 * BETA * parts[1] * eq_12(parts, masked=True))[graph.i, graph.j]  # minus for -J, minus from exp
    assert value == pytest.approx(-parts[-1], rel=1e-12)
    np.testing.assert_allclose(c, expected, atol=1e-12)


# ------------------------------------------------------------------ the Riemannian gradient, and Algorithm 1


def cost(X, name, neighbors=(1, 2)):
    graph = survey_pairs(as_data(X), LABELS, METRICS[name], *neighbors).graph
    return Problem(MemoryView(X), METRICS[name], CenteredAlignment(graph, LABELS, BETA), graph.i, graph.j)


@pytest.mark.parametrize("name", [name for name in METRICS if METRICS[name].invariance != "none"])
def test_euclidean_gradient_is_horizontal_as_it_stands(X, W, name):
    """J does not change under W -> WO, so W'D is symmetric and the projection changes nothing."""
    D = cost(X, name).cost(W)[1]
    np.testing.assert_allclose(W.T @ D, D.T @ W, atol=1e-12)
    np.testing.assert_allclose(MANIFOLDS["psd"].project(W, D), D, atol=1e-12)


@pytest.mark.parametrize("name", ["aim", "stein", "jeffreys"])
def test_printed_riemannian_gradient_is_harmless_for_invariant_metrics(X, W, name):
    D = cost(X, name).cost(W)[1]
    assert np.linalg.norm(W.T @ D) < 1e-12 * np.linalg.norm(W) * np.linalg.norm(D)


def test_printed_riemannian_gradient_discards_descent_for_lem(X, W):
    """D - WW'D is not the gradient: the rate of descent along it is not its squared length, and part of D is lost."""
    Q = MANIFOLDS["grassmann"].point(W)
    for point in (W, Q):
        problem = cost(X, "lem")
        D = problem.cost(point)[1]
        printed = D - point @ (point.T @ D)
        assert np.linalg.norm(D - printed) > 0.1 * np.linalg.norm(D)
        rate = plain.derivative(lambda t, p=printed, V=point, f=problem: f.cost(V - t * p)[0])
        exact = plain.derivative(lambda t, D=D, V=point, f=problem: f.cost(V - t * D)[0])
        assert exact == pytest.approx(-np.sum(D * D), rel=1e-7)  # what a gradient must satisfy
        assert rate / np.linalg.norm(printed) > 0.99 * exact / np.linalg.norm(D)  # less steep than steepest descent
    # where W is orthonormal the printed form is tangent to the Grassmann manifold: shape and scale of W'W never change
    assert np.linalg.norm(Q.T @ (D - Q @ (Q.T @ D))) < 1e-12


def test_printed_riemannian_gradient_vanishes_away_from_the_optimum():
    """All subspaces equal (m = n): printed gradient zero at orthonormal W for LEM, yet J can still be improved."""
    X = make_spd(np.random.default_rng(5), N, m)
    problem = cost(X, "lem", ("all", "all"))
    W = np.eye(m)
    value, D = problem.cost(W)
    assert np.linalg.norm(D - W @ (W.T @ D)) == 0
    assert np.linalg.norm(D) > 1e-3
    better = problem.cost(W - 0.1 * D / np.linalg.norm(D))[0]
    assert better < value - 1e-5


def test_algorithm_1_must_minimize_minus_j(X, W):
    """Eq. 9 is maximized. The argmin of Algorithm 1 taken on J itself makes the alignment worse."""

    class Printed(CenteredAlignment):
        def __call__(self, d2):
            value, c = super().__call__(d2)
            return -value, -c  # J of Eq. 9

    graph = survey_pairs(as_data(X), LABELS, METRICS["lem"], "all", "all").graph
    ends = {}
    for objective in (CenteredAlignment, Printed):
        problem = Problem(MemoryView(X), METRICS["lem"], objective(graph, LABELS, BETA), graph.i, graph.j)
        found = minimize(problem, W, MANIFOLDS["psd"], max_iter=15).W
        ends[objective] = alignment_parts(X, found, "lem", graph)[-1]
    start = alignment_parts(X, W, "lem", graph)[-1]
    assert ends[CenteredAlignment] > start + 0.05
    assert ends[Printed] < start - 0.05


# ------------------------------------------------------------------ geometry of the fixed-rank PSD manifold


def test_vertical_vectors_need_a_skew_matrix_of_size_m(W):
    """The tangent of the fiber t -> W exp(t Omega) is W Omega: only an m x m Omega fits, and leaves WW' unchanged."""
    rng = np.random.default_rng(8)
    with pytest.raises(ValueError, match="matmul"):
        W @ rng.standard_normal((n, m))
    skew = rng.standard_normal((m, m))
    skew = skew - skew.T
    vertical = W @ skew
    np.testing.assert_allclose(W @ vertical.T + vertical @ W.T, 0, atol=1e-13)
    np.testing.assert_allclose(MANIFOLDS["psd"].project(W, vertical), 0, atol=1e-12)
    # dimensions: vertical plus horizontal fill the tangent space
    projections = np.array([MANIFOLDS["psd"].project(W, E.reshape(n, m)).ravel() for E in np.eye(n * m)])
    assert np.linalg.matrix_rank(projections) == n * m - m * (m - 1) // 2


def test_the_manifold_is_not_compact(W):
    """Multiples of WW' stay on it and leave every bounded set."""
    sizes = [np.linalg.norm((s * W) @ (s * W).T) for s in (1, 1e3, 1e6)]
    assert all(np.linalg.matrix_rank(s * W) == m for s in (1, 1e3, 1e6))
    assert sizes[2] > 1e11 * sizes[0]


def test_the_manifold_is_not_complete(W):
    """A geodesic of finite length reaches a matrix of lower rank: a Cauchy sequence without a limit inside."""
    U, s, Vt = np.linalg.svd(W, full_matrices=False)
    H = -s[-1] * np.outer(U[:, -1], Vt[-1])  # horizontal: W'H is symmetric
    np.testing.assert_allclose(W.T @ H, H.T @ W, atol=1e-14)
    line = [W + (1 - 2.0**-k) * H for k in range(40)]
    lengths = [np.linalg.norm(b - a) for a, b in pairwise(line)]
    assert sum(lengths) < np.linalg.norm(H) * (1 + 1e-12)
    assert all(np.linalg.svd(point)[1][-1] > 0 for point in line)
    assert np.linalg.svd(W + H)[1][-1] < 1e-15


# ------------------------------------------------------------------ the page


def test_every_test_of_this_file_is_named_on_the_errata_page():
    page = (Path(__file__).parents[1] / "docs" / "theory" / "errata.md").read_text()
    tests = [name for name in globals() if name.startswith("test_") and "errata_page" not in name]
    assert len(tests) > 10
    assert [name for name in tests if name not in page] == []
