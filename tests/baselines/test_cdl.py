"""CDL against scikit-learn on explicit feature maps, and on the toy set."""

import numpy as np
import pytest
import scipy.linalg
from sklearn.cross_decomposition import PLSRegression
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import spdsl
from spdsl.baselines.cdl import kernel_lda, kernel_pls
from spdsl.baselines.pairwise import log_vectors


def centered_map(X):
    """Log-vectors with the redundant mirror entries folded, so that the map has full column rank."""
    n = X.shape[-1]
    i, j = np.triu_indices(n)
    T = log_vectors(X).reshape(-1, n, n)[:, i, j] * np.where(i == j, 1.0, np.sqrt(2))
    return T


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_pls_responses_equal_plsregression_on_the_explicit_map(small, extra):
    X, y = small
    train, test = np.arange(0, 60, 2), np.arange(1, 60, 2)
    model = spdsl.CDL("pls", extra_components=extra).fit(X[train], y[train])
    onehot = (y[train][:, None] == np.unique(y)).astype(float)
    Z = centered_map(X)
    reference = PLSRegression(3 + extra, scale=False, tol=1e-14, max_iter=5000).fit(Z[train], onehot)
    assert np.allclose(model.transform(X[test]), reference.predict(Z[test]), atol=1e-6)
    assert np.array_equal(model.predict(X[test]), np.unique(y)[reference.predict(Z[test]).argmax(axis=1)])


def test_lda_subspace_equals_scikit_learn_on_the_explicit_map(small):
    X, y = small
    Z = centered_map(X)
    model = spdsl.CDL("lda", ridge=1e-12).fit(X, y)
    reference = LinearDiscriminantAnalysis(solver="svd").fit(Z, y).transform(Z)
    angles = scipy.linalg.subspace_angles(model.transform(X), reference)
    assert angles.max() < 1e-5


def test_lda_directions_solve_the_regularized_eigenproblem(small):
    X, y = small
    T = log_vectors(X)
    T = T - T.mean(axis=0)
    K = T @ T.T
    onehot = (y[:, None] == np.unique(y)).astype(float)
    W = onehot @ np.diag(1 / onehot.sum(axis=0)) @ onehot.T
    A = kernel_lda(K, onehot, 0.5)
    w = scipy.linalg.eigh(K @ W @ K, K @ K + 0.5 * np.eye(60), eigvals_only=True)[::-1]
    quotient = np.linalg.eigvals(np.linalg.solve(A.T @ (K @ K + 0.5 * np.eye(60)) @ A, A.T @ K @ W @ K @ A))
    assert np.allclose(np.sort(quotient.real)[::-1], w[:2], rtol=1e-8)


def test_pls_stops_where_nothing_is_left():
    t = np.array([1.0, -1.0, 2.0, -2.0])
    B = kernel_pls(np.outer(t, t), t[:, None], 3)
    assert np.allclose(np.outer(t, t) @ B, t[:, None])


def test_bad_parameters(small):
    X, y = small
    with pytest.raises(ValueError, match="discriminant must be"):
        spdsl.CDL("qda").fit(X, y)
    with pytest.raises(ValueError, match="ridge"):
        spdsl.CDL("lda", ridge=-1.0).fit(X, y)
    with pytest.raises(ValueError, match="at least 2 classes"):
        spdsl.CDL().fit(X, np.zeros(60))
    bad = X.copy()
    bad[3, 0, 1] += 1
    with pytest.raises(ValueError, match=r"X\[3\] is not symmetric"):
        spdsl.CDL().fit(bad, y)
    with pytest.raises(ValueError, match="4 x 4 matrices, but CDL was fitted on 5 x 5"):
        spdsl.CDL().fit(X, y).predict(X[:, :4, :4])


@pytest.mark.data
@pytest.mark.parametrize("discriminant", ["pls", "lda"])
def test_toy(toy, discriminant):
    X, y, X_test, y_test = toy
    assert spdsl.CDL(discriminant).fit(X, y).score(X_test, y_test) >= 0.97


def test_matrices_that_have_nothing_to_do_with_the_classes_give_no_component():
    """Two values, each in both classes: found by fuzzing, it divided zero by zero."""
    X = np.array([1.5, 2.0, 1.5, 2.0]).reshape(4, 1, 1)
    with np.errstate(all="raise"):
        model = spdsl.CDL().fit(X, [1, 0, 0, 1])
    np.testing.assert_array_equal(model.transform(X), np.full((4, 2), 0.5))
