"""Means of SPD matrices: closed forms, invariances, pyRiemann, and what is refused."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from samples import make_spd, random_spd
from spdsl import log_euclidean_mean, riemannian_mean
from spdsl.backend import to_numpy
from spdsl.geometry.means import geodesic, inverse_root, mean_name
from spdsl.geometry.procrustes import procrustes

MEANS = [riemannian_mean, log_euclidean_mean]


def relative(A, B):
    return float(np.abs(np.asarray(A) - np.asarray(B)).max() / np.abs(np.asarray(B)).max())


@pytest.mark.parametrize("mean", MEANS)
def test_mean_of_commuting_matrices_is_the_geometric_mean_of_their_eigenvalues(mean, rng, as_array):
    V = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    d, w = np.exp(rng.uniform(-3, 3, (9, 5))), rng.uniform(0, 2, 9)
    expected = (V * np.exp(w / w.sum() @ np.log(d))) @ V.T
    M = mean(as_array((V * d[:, None, :]) @ V.T), weights=as_array(w))
    np.testing.assert_allclose(to_numpy(M), expected, rtol=1e-9, atol=1e-10)


def test_mean_of_two_matrices_is_the_middle_of_their_geodesic(as_array):
    A, B = as_array(random_spd(2, 4, seed=3))
    root = np.linalg.cholesky(np.asarray(A))
    K = np.linalg.solve(root, np.linalg.solve(root, np.asarray(B)).T)
    w, V = np.linalg.eigh((K + K.T) / 2)
    expected = root @ (V * np.sqrt(w)) @ V.T @ root.T
    assert relative(riemannian_mean(as_array(random_spd(2, 4, seed=3))), expected) < 1e-9
    assert relative(geodesic(A, B, 0.5), expected) < 1e-12
    middle = log_euclidean_mean(as_array(random_spd(2, 4, seed=3)))
    assert relative(geodesic(A, B, 0.5, metric="logeuclid"), middle) < 1e-12
    for metric in ("riemann", "lem"):
        assert relative(geodesic(A, B, 0.0, metric=metric), A) < 1e-12
        assert relative(geodesic(A, B, 1.0, metric=metric), B) < 1e-12


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "condition"), [(3, 10.0), (12, 1e3), (30, 1e6)])
def test_agrees_with_pyriemann(rng, as_array, n, condition, weighted):
    reference = pytest.importorskip("pyriemann.utils.mean")
    X = make_spd(rng, 40, n, condition)
    w = rng.uniform(0.1, 1, 40) if weighted else None
    ours = riemannian_mean(as_array(X), weights=w)
    assert relative(ours, reference.mean_riemann(X, tol=1e-11, maxiter=300, sample_weight=w)) < 1e-7
    ours = log_euclidean_mean(as_array(X), weights=w)
    assert relative(ours, reference.mean_logeuclid(X, sample_weight=w)) < 1e-11


def test_riemannian_mean_follows_congruences_and_inversion(rng, as_array):
    X, A = make_spd(rng, 15, 6, 100.0), rng.standard_normal((6, 6))
    M = np.asarray(riemannian_mean(as_array(X)))
    moved = A @ X @ A.T
    assert relative(riemannian_mean(as_array((moved + moved.mT) / 2)), A @ M @ A.T) < 1e-7
    assert relative(riemannian_mean(as_array(np.linalg.inv(X))), np.linalg.inv(M)) < 1e-6
    assert relative(riemannian_mean(as_array(1e-40 * X)), 1e-40 * M) < 1e-9


def test_the_gradient_vanishes_at_the_mean_even_of_matrices_far_apart(rng):
    X = make_spd(rng, 8, 10, 1e9)
    G = inverse_root(riemannian_mean(X))
    w, V = np.linalg.eigh(G @ X @ G)
    assert np.linalg.norm(((V * np.log(w)[:, None, :]) @ V.mT).mean(axis=0)) < 1e-5


def test_too_few_iterations_are_said():
    with pytest.warns(ConvergenceWarning, match="gradient norm .* increase max_iter"):
        riemannian_mean(random_spd(9, 4, spread=2.0), max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        riemannian_mean(random_spd(9, 4, spread=2.0))


X = random_spd(4, 3)
HOLE, INDEFINITE, CROOKED = X.copy(), X.copy(), X.copy()
HOLE[2, 0, 1] = np.nan
CROOKED[3, 0, 1] += 1e-3
INDEFINITE[1] -= 10 * np.eye(3)


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize(
    ("X", "weights", "message"),
    [
        (X[0], None, r"shape \(n_matrices, n, n\), got \(3, 3\)"),
        (X.tolist(), None, "got list"),
        (X[:0], None, "no matrices"),
        (HOLE, None, r"X\[2\] contains NaN"),
        (INDEFINITE, None, r"X\[1\] is not positive definite"),
        (INDEFINITE[1:2], None, r"X\[0\] is not positive definite"),
        (CROOKED, None, r"X\[3\] is not symmetric"),
        (X + 1e-3j, None, "X must hold real numbers, got dtype complex128"),
        (X.astype(object), None, "X must hold real numbers, got dtype object"),
        (np.ma.masked_array(X, np.isnan(HOLE)), None, "X has masked entries"),
        (X, [1, 2], r"weights have shape \(2,\); pass one for each of the 4"),
        (X, [1, 2, -1, 1], "zero or more"),
        (X, [0, 0, 0, 0], "not all zero"),
        (X, [1, np.nan, 1, 1], "finite"),
        (X, ["a"] * 4, "weights must be an array of real numbers"),
        (X, np.ones(4) * 1j, "weights must be an array of real numbers, got dtype complex128"),
        (X, np.ma.masked_array(np.ones(4), [1, 0, 0, 0]), "weights has masked entries"),
        (-X, None, r"X\[0\] is not positive definite: .*pass SPD matrices"),
    ],
)
def test_what_has_no_mean_is_refused(mean, X, weights, message):
    with pytest.raises(ValueError, match=message):
        mean(X, weights=weights)


@pytest.mark.parametrize(
    ("A", "B", "t", "message"),
    [
        (X[0] + 0j, X[1], 0.5, "A must hold real numbers"),
        (X[0], np.triu(X[1]), 0.5, "B is not symmetric"),
        (X[0], HOLE[2], 0.5, "B contains NaN"),
        (X[0], X[1][:2, :2], 0.5, "A is 3 x 3 and B is 2 x 2"),
        (X[0], X, 0.5, r"B must be an array of shape \(n, n\)"),
        (X[0], X[1], np.nan, "t must be a finite number"),
    ],
)
@pytest.mark.parametrize("metric", ["aim", "lem"])
def test_what_has_no_geodesic_is_refused(A, B, t, message, metric):
    with pytest.raises(ValueError, match=message):
        geodesic(A, B, t, metric=metric)


@pytest.mark.parametrize("tol", [np.nan, -1.0, True, "small"])
def test_a_tolerance_is_a_number(tol):
    with pytest.raises(ValueError, match="tol must be a finite number"):
        riemannian_mean(X, tol=tol)


def test_names_of_means():
    assert [mean_name(name) for name in ("riemann", "aim", "logeuclid", "lem")] == ["aim", "aim", "lem", "lem"]
    with pytest.raises(ValueError, match="has no mean in spdsl; use 'riemann' or 'logeuclid'"):
        mean_name("stein")


def test_procrustes_finds_the_rotation(rng, as_array):
    A = rng.standard_normal((3, 5, 5))
    A = A + A.mT
    S = 0.1 * rng.standard_normal((5, 5))
    Q = np.linalg.qr(np.eye(5) + S - S.T)[0]
    Q = Q * np.sign(np.diag(Q))
    U = procrustes(as_array(A), as_array(Q @ A @ Q.T), as_array(np.ones(3) / 3))
    np.testing.assert_allclose(to_numpy(U), Q, atol=1e-6)  # the root of what rounding leaves in the squares
