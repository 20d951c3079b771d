"""Sparse coding classifiers: kernels, decision rule, toy figures."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import Lasso

import spdsl


def test_codes_equal_scikit_learn_lasso_in_the_feature_space(small):
    X, y = small
    model = spdsl.LEK("gauss", penalty=0.01, tol=1e-10, max_iter=20000).fit(X[::2], y[::2])
    K = np.exp(-model.beta_ * spdsl.pairwise_sqdist(X[::2], metric="lem"))
    A = np.linalg.cholesky(K).T
    B = np.linalg.solve(A.T, np.exp(-model.beta_ * spdsl.pairwise_sqdist(X[::2], X[1::2], metric="lem")))
    B /= np.linalg.norm(B, axis=0)
    theirs = Lasso(alpha=0.01 / (2 * len(A)), fit_intercept=False, tol=1e-13, max_iter=500000).fit(A, B).coef_.T

    def value(codes):
        return ((B - A @ codes) ** 2).sum(axis=0) + 0.01 * np.abs(codes).sum(axis=0)

    assert np.abs(value(model.sparse_codes(X[1::2]).T) - value(theirs)).max() < 1e-8
    residuals = [((B - A @ np.where(y[::2, None] == c, theirs, 0)) ** 2).sum(axis=0) for c in "abc"]
    assert np.array_equal(model.predict(X[1::2]), np.array(list("abc"))[np.argmin(residuals, axis=0)])


@pytest.mark.parametrize("kernel", ["poly", "exp"])
@pytest.mark.parametrize("degree", [1, 2, 7])
def test_cosine_kernels_by_hand_and_semi_definite(small, kernel, degree):
    X, y = small
    model = spdsl.LEK(kernel, degree=degree).fit(X, y)
    w, V = np.linalg.eigh(X[:2])
    T = (V * np.log(w)[:, None, :]) @ V.mT
    s = np.trace(T[0] @ T[1]) / np.linalg.norm(T[0]) / np.linalg.norm(T[1])
    assert np.isclose(model.gram_[0, 1], s**degree if kernel == "poly" else np.exp(s**degree))
    assert np.linalg.eigvalsh(model.gram_)[0] > -1e-10


def test_narrow_kernel_falls_back_to_the_nearest_atom(small):
    X, y = small
    nearest = spdsl.SPDNearestNeighbor("lem").fit(X[::2], y[::2]).predict(X[1::2])
    with np.errstate(all="raise", under="ignore"):
        assert np.array_equal(spdsl.LEK("gauss", beta=1e6).fit(X[::2], y[::2]).predict(X[1::2]), nearest)


def test_indefinite_stein_kernel_is_cut_off_and_reported(small):
    rng = np.random.default_rng(0)
    frames = rng.standard_normal((60, 5, 6))
    X, y = frames @ frames.mT / 6 + 1e-6 * np.eye(5), small[1]
    with pytest.warns(UserWarning, match=r"not positive definite at beta=0\.02.*beta >= 2") as said:
        model = spdsl.RSR(beta=0.02).fit(X, y)
    assert len(said) == 1
    assert np.linalg.eigvalsh(model.gram_)[0] > -1e-10
    assert model.predict(X).shape == (60,)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spdsl.RSR(beta=2.0).fit(X, y)


@pytest.mark.parametrize("parameters", [{"penalty": 0.0}, {"beta": -1.0}, {"beta_scale": np.nan}, {"max_iter": 0}])
def test_bad_parameters(small, parameters):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        spdsl.RSR(**parameters).fit(*small)


def test_bad_kernel_and_degree(small):
    with pytest.raises(ValueError, match="kernel must be"):
        spdsl.LEK("linear").fit(*small)
    with pytest.raises(ValueError, match="degree must be an integer"):
        spdsl.LEK("poly", degree=2.5).fit(*small)


@pytest.mark.data
@pytest.mark.parametrize(
    ("model", "low", "high"),
    [
        (spdsl.LEK("poly", degree=5), 0.95, 1.0),
        (spdsl.LEK("exp", degree=5), 0.95, 1.0),
        (spdsl.LEK("gauss", beta=0.02), 0.97, 1.0),
        (spdsl.RSR(beta=10.0, penalty=0.01), 0.58, 0.72),
    ],
    ids=["poly", "exp", "gauss", "rsr"],
)
def test_toy(toy, model, low, high):
    X, y, X_test, y_test = toy
    assert low <= model.fit(X, y).score(X_test, y_test) <= high
