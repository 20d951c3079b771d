"""The Gram-matrix lasso against scikit-learn's, and against its own optimality conditions."""

import numpy as np
import pytest
from sklearn.linear_model import Lasso

import spdsl
from spdsl.baselines.lasso import duality_gap, lasso_gram


def problem(rng, rows, atoms, columns):
    A = rng.standard_normal((rows, atoms)) + 0.7  # a common part, as kernels have: badly conditioned on purpose
    A /= np.linalg.norm(A, axis=0)
    B = rng.standard_normal((rows, columns)) + 0.7
    return A, B / np.linalg.norm(B, axis=0)


def objective(A, B, codes, penalty):
    return ((B - A @ codes) ** 2).sum(axis=0) + penalty * np.abs(codes).sum(axis=0)


@pytest.mark.parametrize("penalty", [1e-1, 1e-2, 1e-3])
@pytest.mark.parametrize("rows", [40, 120])
def test_objective_equals_scikit_learn(penalty, rows):
    A, B = problem(np.random.default_rng(0), rows, 80, 12)
    ours = lasso_gram(A.T @ A, A.T @ B, np.ones(12), penalty, tol=1e-10, max_iter=20000).codes
    # scikit-learn minimizes |b - Aw|^2 / (2 rows) + alpha |w|_1
    reference = Lasso(alpha=penalty / (2 * rows), fit_intercept=False, tol=1e-12, max_iter=200000)
    theirs = reference.fit(A, B).coef_.T
    assert np.abs(objective(A, B, ours, penalty) - objective(A, B, theirs, penalty)).max() < 1e-8


def test_gap_bounds_what_is_left_to_gain():
    A, B = problem(np.random.default_rng(1), 50, 60, 8)
    K, C = A.T @ A, A.T @ B
    best = lasso_gram(K, C, np.ones(8), 0.05, tol=1e-12, max_iter=20000)
    assert best.gaps.max() < 1e-11
    rough = best.codes + 0.01 * np.random.default_rng(2).standard_normal(best.codes.shape)
    left = objective(A, B, rough, 0.05) - objective(A, B, best.codes, 0.05)
    assert np.all(duality_gap(K, C, np.ones(8), 0.05, rough) >= left)


def test_equal_atoms_and_large_penalty():
    A, B = problem(np.random.default_rng(3), 30, 20, 5)
    A = np.concatenate([A, A], axis=1)
    K, C = A.T @ A, A.T @ B
    result = lasso_gram(K, C, np.ones(5), 0.01, tol=1e-9, max_iter=20000)
    assert result.gaps.max() <= 1e-9
    assert not lasso_gram(K, C, np.ones(5), 10.0).codes.any()


def test_start_from_larger_penalty_gives_the_same_optimum():
    A, B = problem(np.random.default_rng(4), 60, 50, 6)
    K, C, s = A.T @ A, A.T @ B, np.ones(6)
    start = lasso_gram(K, C, s, 0.1).codes
    warm = lasso_gram(K, C, s, 0.01, tol=1e-10, max_iter=20000, start=start).codes
    cold = lasso_gram(K, C, s, 0.01, tol=1e-10, max_iter=20000).codes
    assert np.abs(objective(A, B, warm, 0.01) - objective(A, B, cold, 0.01)).max() < 1e-9


@pytest.mark.parametrize("penalty", [1e-1, 1e-2, 1e-3])
def test_a_column_does_not_depend_on_the_others(penalty):
    """With fewer rows than atoms many codes are minimizers; other columns may have other penalties and sizes."""
    A, B = problem(np.random.default_rng(7), 12, 60, 30)
    K, C, s = A.T @ A, A.T @ B, np.ones(30)
    all_of_them = lasso_gram(K, C, s, penalty).codes
    sizes = np.geomspace(0.01, 100, 30)
    mixed = lasso_gram(K, C * sizes, sizes**2, penalty * sizes).codes / sizes
    for t in range(30):
        alone = lasso_gram(K, C[:, [t]], s[[t]], penalty).codes[:, 0]
        np.testing.assert_allclose(all_of_them[:, t], alone, atol=1e-9)
        np.testing.assert_allclose(mixed[:, t], alone, atol=1e-9)


def test_max_iter_is_reported_not_hidden():
    A, B = problem(np.random.default_rng(5), 60, 50, 6)
    result = lasso_gram(A.T @ A, A.T @ B, np.ones(6), 0.001, tol=1e-14, max_iter=3)
    assert result.n_iter == 3
    assert result.gaps.max() > 1e-14


def test_coding_500_over_500_closes_the_gap():
    rng = np.random.default_rng(6)
    frames = rng.standard_normal((1000, 30, 60)) * (1 + np.arange(30)[:, None] / 10)
    X = frames @ frames.mT / 60
    S = spdsl.pairwise_sqdist(X[500:], X[:500], metric="stein")
    K = np.exp(-spdsl.pairwise_sqdist(X[:500], metric="stein") / S.mean())
    result = lasso_gram(K, np.exp(-S / S.mean()).T, np.ones(500), 0.01)
    assert result.gaps.max() <= 1e-6
