"""Every gradient, three ways: Taylor remainder of order 2, an independent derivative, cases worked by hand."""

import mpmath
import numpy as np
import pytest

import digits
import plain
from samples import LIBRARIES, make_spd
from spdsl import backend
from spdsl.data import as_data
from spdsl.data.memory import MemoryView
from spdsl.geometry import METRICS
from spdsl.learning.graph import PairGraph, survey_pairs
from spdsl.learning.objectives import OBJECTIVES, CenteredAlignment
from spdsl.learning.problem import Problem

# those of the package: what others register needs no plain formula, it is held to the remainder alone
KNOWN_METRICS = [name for name in METRICS if name in plain.SQDIST]
KNOWN_OBJECTIVES = [name for name in OBJECTIVES if name in plain.OBJECTIVES]
GRAPHS = {"sparse": (1, 2), "full": ("all", "all")}
N, n, m = 7, 4, 3
LABELS = np.array([0, 0, 0, 1, 1, 2, 2])


def setup(metric_name, graph_name):
    """Matrices, a W that is neither orthonormal nor square, and the graph."""
    rng = np.random.default_rng(3)
    X = make_spd(rng, N, n)
    W = np.linalg.qr(rng.standard_normal((n, m)))[0] + 0.2 * rng.standard_normal((n, m))
    survey = survey_pairs(as_data(X), LABELS, METRICS[metric_name], *GRAPHS[graph_name])
    assert survey.graph.is_full == (graph_name == "full")
    return X, W, survey.graph, 1 / survey.mean_distance**2


def make_cost(as_array, X, metric_name, objective_name, graph, beta, labels=LABELS):
    """The library's value and gradient at W, as NumPy arrays."""
    objective = OBJECTIVES[objective_name](graph, labels, beta)
    problem = Problem(MemoryView(as_array(X)), METRICS[metric_name], objective, as_array(graph.i), as_array(graph.j))

    def cost(W):
        value, g = problem.cost(as_array(W))
        return value, backend.to_numpy(g)

    return cost


@pytest.mark.parametrize("graph_name", GRAPHS)
@pytest.mark.parametrize("objective_name", OBJECTIVES)
@pytest.mark.parametrize("metric_name", METRICS)
def test_taylor_remainder_has_order_two(as_array, metric_name, objective_name, graph_name):
    X, W, graph, beta = setup(metric_name, graph_name)
    cost = make_cost(as_array, X, metric_name, objective_name, graph, beta)
    H = np.random.default_rng(4).standard_normal(W.shape)
    H /= np.linalg.norm(H)
    slope = np.sum(cost(W)[1] * H)
    order = plain.taylor_slope(lambda V: cost(V)[0], W, H, slope, 3e-5, 1e-3)
    assert 1.9 < order < 2.1


@pytest.mark.parametrize("graph_name", GRAPHS)
@pytest.mark.parametrize("objective_name", KNOWN_OBJECTIVES)
@pytest.mark.parametrize("metric_name", KNOWN_METRICS)
def test_gradient_equals_the_derivative_of_the_plain_formula(as_array, metric_name, objective_name, graph_name):
    X, W, graph, beta = setup(metric_name, graph_name)
    G = plain.mask(N, graph.i, graph.j)

    def cost(V):
        D2 = plain.pair_distances(metric_name, V.T @ X @ V, graph.i, graph.j)
        return plain.OBJECTIVES[objective_name](D2, G, LABELS, beta)

    value, g = make_cost(as_array, X, metric_name, objective_name, graph, beta)(W)
    expected = plain.gradient(cost, W)
    assert value == pytest.approx(cost(W), rel=1e-10)
    assert np.linalg.norm(g - expected) <= 1e-7 * np.linalg.norm(expected)


@pytest.mark.parametrize("metric_name", METRICS)
def test_gradient_is_the_same_in_blocks_and_with_factors_computed_again(monkeypatch, metric_name):
    X, W, graph, beta = setup(metric_name, "full")
    value, g = make_cost(np.asarray, X, metric_name, "alignment", graph, beta)(W)
    monkeypatch.setattr("spdsl.backend.blocks.BLOCK_BYTES", 100)
    monkeypatch.setattr("spdsl.backend.arrays.KEEP_BYTES", 0)
    again, h = make_cost(np.asarray, X, metric_name, "alignment", graph, beta)(W)
    assert again == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(h, g, rtol=1e-9, atol=1e-11 * np.abs(g).max())


@pytest.mark.parametrize("metric_name", METRICS)
def test_pullback_is_linear_symmetric_and_zero_for_samples_without_pairs(as_array, metric_name, rng):
    P = make_spd(rng, 5, 3)
    i, j = np.array([0, 0, 1]), np.array([1, 2, 2])
    _, pullback = METRICS[metric_name].pairs(as_array(P), as_array(i), as_array(j))
    a, b = rng.standard_normal(3), rng.standard_normal(3)
    A, B, both = (backend.to_numpy(pullback(as_array(c))) for c in (a, b, 2 * a + b))
    np.testing.assert_allclose(both, 2 * A + B, atol=1e-11 * np.abs(both).max())
    np.testing.assert_allclose(A, A.mT, atol=1e-12 * np.abs(A).max())
    assert np.abs(A[:3]).max() > 1e-3
    assert not A[3:].any()


@pytest.mark.parametrize("metric_name", METRICS)
def test_derivative_vanishes_where_the_pair_is_equal(as_array, metric_name, rng):
    P = np.repeat(make_spd(rng, 1, 4), 2, axis=0)
    d2, pullback = METRICS[metric_name].pairs(as_array(P), as_array(np.array([0])), as_array(np.array([1])))
    S = backend.to_numpy(pullback(as_array(np.ones(1))))
    assert float(d2[0]) == pytest.approx(0, abs=1e-13)
    assert np.abs(S).max() < 1e-11  # the smallest eigenvalue is 1/30


@pytest.mark.parametrize("metric_name", KNOWN_METRICS)
def test_derivative_survives_repeated_eigenvalues(as_array, metric_name):
    """At multiples of the identity, where eigenvectors are arbitrary."""
    H = np.array([[1.0, 0.3, 0.0], [0.3, -0.5, 0.2], [0.0, 0.2, 0.4]])
    P = np.stack([2 * np.eye(3), np.diag([1.0, 1.0, 1.0 + 1e-9])])
    _, pullback = METRICS[metric_name].pairs(as_array(P), as_array(np.array([0])), as_array(np.array([1])))
    S = backend.to_numpy(pullback(as_array(np.ones(1))))
    expected = plain.derivative(lambda t: plain.SQDIST[metric_name](P[0] + t * H, P[1]), 0.05)
    assert np.sum(S[0] * H) == pytest.approx(expected, rel=1e-7)


# d2 and derivatives with respect to P for P = diag(4, 9), Q = diag(1, 1), by hand
BY_HAND = {
    "aim": (np.log(4) ** 2 + np.log(9) ** 2, [2 * np.log(4) / 4, 2 * np.log(9) / 9]),
    "stein": (np.log(5 / 2) + np.log(5) - np.log(4) / 2 - np.log(9) / 2, [1 / 5 - 1 / 8, 1 / 10 - 1 / 18]),
    "lem": (np.log(4) ** 2 + np.log(9) ** 2, [2 * np.log(4) / 4, 2 * np.log(9) / 9]),
    "jeffreys": ((1 / 4 + 1 / 9 + 4 + 9) / 2 - 2, [(1 - 1 / 16) / 2, (1 - 1 / 81) / 2]),
    "cholesky": ((2 - 1) ** 2 + (3 - 1) ** 2, [(2 - 1) / 2, (3 - 1) / 3]),
    "log-cholesky": (np.log(2) ** 2 + np.log(3) ** 2, [np.log(2) / 4, np.log(3) / 9]),
    "power": (4 * (1 + 4), [4 * (2 - 1) / 2, 4 * (3 - 1) / 3]),
    "wasserstein": ((2 - 1) ** 2 + (3 - 1) ** 2, [(2 - 1) / 2, (3 - 1) / 3]),
    "euclid": (9 + 64, [6.0, 16.0]),
}


@pytest.mark.parametrize("metric_name", BY_HAND)
def test_diagonal_pair_worked_by_hand(as_array, metric_name):
    P = np.stack([np.diag([4.0, 9.0]), np.eye(2)])
    d2, pullback = METRICS[metric_name].pairs(as_array(P), as_array(np.array([0])), as_array(np.array([1])))
    value, diagonal = BY_HAND[metric_name]
    assert float(d2[0]) == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(backend.to_numpy(pullback(as_array(np.ones(1))))[0], np.diag(diagonal), atol=1e-13)


def test_gradient_of_a_one_dimensional_projection_worked_by_hand(as_array):
    """X_1 = diag(a, b), X_2 = I, W = (cos u, sin u): d2 = log^2(a cos^2 u + b sin^2 u) for AIM and LEM."""
    a, b, u = 3.0, 0.5, 0.7
    X, W = np.stack([np.diag([a, b]), np.eye(2)]), np.array([[np.cos(u)], [np.sin(u)]])
    p = a * np.cos(u) ** 2 + b * np.sin(u) ** 2
    along = 2 * np.log(p) / p * (b - a) * np.sin(2 * u)  # derivative in u
    graph = PairGraph(2, np.array([0]), np.array([1]), np.array([True]))
    for name in ("aim", "lem"):
        value, g = make_cost(as_array, X, name, "embedding", graph, 1.0, np.array([0, 0]))(W)
        assert value == pytest.approx(np.log(p) ** 2, rel=1e-13)
        assert g[:, 0] @ [-np.sin(u), np.cos(u)] == pytest.approx(along, rel=1e-12)


# ------------------------------------------------------------------ Theorem 1


@pytest.mark.parametrize(
    "eigenvalues",
    [
        [0.1, 0.7, 2.0, 9.0],
        [1.0, 1.0, 1.0, 1.0],
        [0.5, 2.0, 2.0, 2.0],
        [1.0, 1.0 + 1e-15, 1.0 + 1e-12, 3.0],
        [1.0, 1.0 + 1e-9, 1.0 + 1e-6, 1.0 + 1e-3],
        [1e-3, 1e-3 * (1 + 1e-8), 1.0, 1e2],
    ],
)
def test_dlog_equals_the_block_form_of_theorem_1(as_array, eigenvalues, rng):
    V = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    P = (V * eigenvalues) @ V.T
    P, H = (P + P.T) / 2, rng.standard_normal((4, 4))
    H = H + H.T
    w, V = np.linalg.eigh(P)
    found = METRICS["lem"].pull(as_array(H[None]), as_array(w[None]), as_array(V[None]))
    expected = plain.dlog(P, H)
    assert np.linalg.norm(backend.to_numpy(found)[0] - expected) <= 1e-9 * np.linalg.norm(expected)


@pytest.mark.parametrize("graph_name", GRAPHS)
def test_gradient_equals_the_sum_over_pairs_by_theorem_1(as_array, graph_name):
    """The paper's algorithm: two logarithms of 2m x 2m matrices for every pair."""
    X, W, graph, beta = setup("lem", graph_name)
    B, P = X @ W, W.T @ X @ W
    logs = [plain.log(p) for p in P]
    d2 = np.array([np.sum((logs[i] - logs[j]) ** 2) for i, j in zip(graph.i, graph.j, strict=True)])
    _, c = CenteredAlignment(graph, LABELS, beta)(d2)
    expected = np.zeros_like(W)
    for i, j, weight in zip(graph.i, graph.j, c, strict=True):
        expected += weight * plain.lem_pair_gradient(B[i], B[j], P[i], P[j], logs[i] - logs[j])
    _, g = make_cost(as_array, X, "lem", "alignment", graph, beta)(W)
    assert np.linalg.norm(g - expected) <= 1e-9 * np.linalg.norm(expected)


def test_dlog_worked_by_hand(as_array):
    """At diag(a, b): entries divided by a, by b, and off the diagonal by the logarithmic mean of a and b."""
    a, b = 2.0, 5.0
    H = np.array([[1.0, 3.0], [3.0, -2.0]])
    found = METRICS["lem"].pull(as_array(H[None]), as_array(np.array([[a, b]])), as_array(np.eye(2)[None]))
    off = 3 * (np.log(b) - np.log(a)) / (b - a)
    np.testing.assert_allclose(backend.to_numpy(found)[0], [[1 / a, off], [off, -2 / b]], rtol=1e-14)


@pytest.mark.parametrize("name", ["lem", "power"])
@pytest.mark.parametrize("ratio", [1 + 1e-15, 1 + 1e-8, 1.5, 1e4, 1e12])
def test_divided_differences_do_not_cancel(name, ratio):
    low = np.array([0.3])
    high = low * ratio
    found = METRICS[name].divided_difference(low, high)[0]
    with mpmath.workdps(50):
        a, b = mpmath.mpf(low[0]), mpmath.mpf(high[0])
        function = mpmath.log if name == "lem" else lambda x: 2 * mpmath.sqrt(x)
        exact = (function(b) - function(a)) / (b - a)
        assert abs(found / exact - 1) < 1e-14


# ------------------------------------------------------------------ torch: autograd of formulas without eigh


def _torch_log(A, nodes=80):
    """Matrix logarithm by Gauss-Legendre quadrature of the integral of (A - I) (I + t (A - I))^-1."""
    import torch

    x, weight = np.polynomial.legendre.leggauss(nodes)
    eye = torch.eye(A.shape[-1], dtype=A.dtype)
    t = torch.as_tensor((x + 1) / 2)[:, None, None]
    terms = torch.linalg.solve(eye + t * (A - eye), (A - eye).expand(nodes, *A.shape))
    return torch.sum(torch.as_tensor(weight / 2)[:, None, None] * terms, dim=0)


def _torch_sqrt(A):
    """Matrix square root by the Denman-Beavers iteration."""
    import torch

    Y, Z = A, torch.eye(A.shape[-1], dtype=A.dtype)
    for _ in range(14):
        Y, Z = (Y + torch.linalg.inv(Z)) / 2, (Z + torch.linalg.inv(Y)) / 2
    return Y


def torch_sqdist(name, P, Q):
    import torch
    from torch.linalg import cholesky, inv, slogdet, solve_triangular

    def whiten(L, A):
        half = solve_triangular(L, A, upper=False)
        return solve_triangular(L, half.mT, upper=False).mT

    if name == "aim":
        return torch.sum(_torch_log(whiten(cholesky(P), Q)) ** 2)
    if name == "stein":
        return slogdet((P + Q) / 2)[1] - (slogdet(P)[1] + slogdet(Q)[1]) / 2
    if name == "lem":
        return torch.sum((_torch_log(P) - _torch_log(Q)) ** 2)
    if name == "jeffreys":
        return (torch.trace(inv(P) @ Q) + torch.trace(inv(Q) @ P)) / 2
    if name == "cholesky":
        return torch.sum((cholesky(P) - cholesky(Q)) ** 2)
    if name == "log-cholesky":
        L, M = cholesky(P), cholesky(Q)
        diagonal = torch.log(torch.diagonal(L)) - torch.log(torch.diagonal(M))
        return torch.sum(torch.tril(L - M, -1) ** 2) + torch.sum(diagonal**2)
    if name == "power":
        return 4 * torch.sum((_torch_sqrt(P) - _torch_sqrt(Q)) ** 2)
    if name == "wasserstein":
        L = cholesky(P)
        return torch.trace(P) + torch.trace(Q) - 2 * torch.trace(_torch_sqrt(L.mT @ Q @ L))
    if name == "euclid":
        return torch.sum((P - Q) ** 2)
    raise KeyError(name)


@pytest.mark.arrays
@pytest.mark.skipif("torch" not in LIBRARIES, reason="torch is not under test")
@pytest.mark.parametrize("metric_name", KNOWN_METRICS)
def test_gradient_equals_automatic_differentiation(metric_name):
    import torch

    X, W, graph, beta = setup(metric_name, "sparse")
    V = torch.tensor(W, requires_grad=True)
    P = [V.mT @ torch.as_tensor(x) @ V for x in X]
    K = torch.eye(N, dtype=torch.float64)
    for i, j in zip(graph.i, graph.j, strict=True):
        shift = m if metric_name == "jeffreys" else 0
        K[i, j] = K[j, i] = torch.exp(-beta * (torch_sqdist(metric_name, P[i], P[j]) - shift))
    U = torch.as_tensor(plain.centering(N))
    T = torch.as_tensor(plain.mask(N, graph.i, graph.j) * plain.target(LABELS))
    L = U @ K @ U
    J = -torch.sum(L * T) / torch.linalg.norm(L)
    (expected,) = torch.autograd.grad(J, V)
    value, g = make_cost(torch.as_tensor, X, metric_name, "alignment", graph, beta)(W)
    assert value == pytest.approx(float(J.detach()), rel=1e-10)
    assert np.linalg.norm(g - expected.numpy()) <= 1e-9 * np.linalg.norm(expected.numpy())


# ------------------------------------------------------------------ accuracy on ill-conditioned data


CONDITION = 1e12
FEW = np.array([0, 0, 1])  # labels of the small problems that 50 digits can afford


def ill_conditioned(kind, n, seed):
    """Three n x n matrices of condition 1e12."""
    rng = np.random.default_rng(seed)
    root = np.logspace(0, -np.log10(CONDITION) / 2, n)
    if kind == "rotated":  # log-spaced spectrum, each matrix in its own random basis
        half = np.linalg.qr(rng.standard_normal((3, n, n)))[0] * root
    elif kind == "close":  # one such matrix, and deformations of it
        half = np.linalg.qr(rng.standard_normal((n, n)))[0] * root @ (np.eye(n) + 0.2 * rng.standard_normal((3, n, n)))
    else:  # well-conditioned correlations of features whose units differ by 1e6
        half = root[:, None] * np.linalg.cholesky(make_spd(rng, 3, n))
    X = half @ half.mT
    return (X + X.mT) / 2


def accuracy(metric_name, X, W, seed):
    """Relative error of the gradient, what a change of the last bit of X does to the exact one, and cond(W'XW)."""
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(3, 1)
    P = W.T @ X @ W
    beta = float(1 / np.mean(METRICS[metric_name].sqdist(P, P)[i, j]))
    _, g = make_cost(np.asarray, X, metric_name, "alignment", PairGraph(3, i, j, FEW[i] == FEW[j]), beta, FEW)(W)
    exact = digits.gradient(metric_name, X, W, FEW, beta)
    bit = np.tril(rng.choice([-1, 1], X.shape))
    nudged = X * (1 + 2.0**-52 * (bit + np.tril(bit, -1).mT))
    inherent = digits.relative_error(digits.gradient(metric_name, nudged, W, FEW, beta), exact)
    return digits.relative_error(g, exact), inherent, np.linalg.cond(P).max()


def random_basis(n, m, seed):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n, m)))[0]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kind", ["rotated", "close", "units"])
@pytest.mark.parametrize("metric_name", ["aim", "stein", "lem"])
def test_condition_1e12_of_the_data_keeps_gradients_accurate(metric_name, kind, seed):
    """W'XW with m well below n does not see the worst of X."""
    error, _, condition = accuracy(metric_name, ill_conditioned(kind, 8, seed), random_basis(8, 3, seed + 10), seed)
    assert condition < 1e8
    assert error < 1e-7


@pytest.mark.parametrize("metric_name", ["aim", "stein", "lem"])
def test_units_of_the_features_cost_no_digits(metric_name):
    """W selects features, so that W'XW is as badly scaled as X, but by its units alone."""
    W = np.eye(6)[:, [0, 1, 2, 3, 5]]
    error, _, condition = accuracy(metric_name, ill_conditioned("units", 6, 0), W, 0)
    assert condition > 1e12
    assert error < 1e-8


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kind", ["rotated", "close"])
@pytest.mark.parametrize("metric_name", ["aim", "stein", "lem"])
def test_where_digits_are_lost_the_data_do_not_hold_them(metric_name, kind, seed):
    """With m = n - 1 the reduced matrices are as bad as X: the error stays near what the last bit of X decides."""
    error, inherent, condition = accuracy(
        metric_name, ill_conditioned(kind, 6, seed), random_basis(6, 5, seed + 10), seed
    )
    assert condition > 1e9
    assert error < max(1e-6, (200 if metric_name == "stein" else 30) * inherent)


@pytest.mark.parametrize("metric_name", ["aim", "stein", "lem"])
def test_error_is_bounded_by_the_rounding_of_the_reduced_matrices(metric_name):
    """X holds all digits (units), W mixes them: W'XW in double precision has lost those of its small eigenvalues."""
    error, inherent, condition = accuracy(metric_name, ill_conditioned("units", 6, 0), random_basis(6, 5, 10), 0)
    assert inherent < 1e-10
    assert error < 300 * 2.0**-52 * condition
