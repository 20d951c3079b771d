"""The classifiers that the automatic one takes W'XW by: leaving out, weights, many samples."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression

from samples import labeled
from spdsl import SPDSL
from spdsl.estimators import learned_views
from spdsl.estimators.calibration import least_log_loss
from spdsl.estimators.learned_views import LeaveOneOutKernelRidge, LogisticScores

RNG = np.random.default_rng(0)
LABELS = np.arange(40) % 4
V = RNG.standard_normal((4, 6))[LABELS] + RNG.standard_normal((40, 6))
NEW = RNG.standard_normal((7, 6))
WEIGHT = RNG.integers(1, 4, 40).astype(float)


def expected(vectors, labels, width, ridge, shares, at, weight=None):
    """Scores by scikit-learn's kernel ridge regression."""
    model = KernelRidge(alpha=ridge, kernel="rbf", gamma=1 / width)
    model.fit(vectors, np.eye(4)[labels] - shares, sample_weight=weight)
    return model.predict(at) + shares


def test_the_scores_are_those_of_kernel_ridge_regression():
    model = LeaveOneOutKernelRidge().fit(V, LABELS)
    d2 = ((V[:, None] - V) ** 2).sum(axis=2)
    assert model.width_ == pytest.approx(d2.mean())
    assert_allclose(model.scores(NEW), expected(V, LABELS, model.width_, model.ridge_, np.full(4, 0.25), NEW))


def left_out_scores(width, ridge, shares, weight=None):
    """Scores of every sample by a fit without it."""
    found = []
    for i in range(len(V)):
        rest = np.arange(len(V)) != i
        some = None if weight is None else weight[rest]
        found.append(expected(V[rest], LABELS[rest], width, ridge, shares, V[[i]], some)[0])
    return np.array(found)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_predictions_without_a_sample_are_those_of_a_fit_without_it(weight, monkeypatch):
    """The spread is that of these predictions, for each of the ridges."""
    for ridge in learned_views.RIDGES:
        monkeypatch.setattr(learned_views, "RIDGES", (ridge,))
        model = LeaveOneOutKernelRidge().fit(V, LABELS, weight)
        left_out = left_out_scores(model.width_, ridge, model.intercept_, weight)
        squares = (left_out - left_out.mean(axis=1, keepdims=True)) ** 2
        assert model.spread_**2 == pytest.approx(np.average(squares.mean(axis=1), weights=weight))


def test_the_ridge_predicts_samples_left_out_best():
    model = LeaveOneOutKernelRidge().fit(V, LABELS)
    left_out = [left_out_scores(model.width_, ridge, model.intercept_) for ridge in learned_views.RIDGES]
    losses = [least_log_loss(scores, LABELS) for scores in left_out]
    assert model.ridge_ == learned_views.RIDGES[np.argmin(losses)]
    clear = 10 * np.eye(4)[LABELS] + 0.1 * RNG.standard_normal((40, 4))
    assert LeaveOneOutKernelRidge().fit(clear, LABELS).ridge_ < model.ridge_


def test_integer_weights_count_as_copies(monkeypatch):
    monkeypatch.setattr(learned_views, "RIDGES", (0.1,))
    again = np.repeat(np.arange(len(V)), WEIGHT.astype(int))
    weighted, copied = (
        LeaveOneOutKernelRidge().fit(V, LABELS, WEIGHT),
        LeaveOneOutKernelRidge().fit(V[again], LABELS[again]),
    )
    assert_allclose(weighted.scores(NEW), copied.scores(NEW))


def test_a_sample_alone_in_its_class_and_equal_vectors():
    alone = np.append(LABELS[:-1], 4)
    assert np.isfinite(LeaveOneOutKernelRidge().fit(V, alone).scores(NEW)).all()
    equal = LeaveOneOutKernelRidge().fit(np.ones((8, 3)), LABELS[:8])
    assert_allclose(equal.scores(np.ones((1, 3))), 0.25)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_logistic_scores_are_those_of_scikit_learn(n_classes):
    labels = LABELS % n_classes
    model = LogisticScores().fit(V, labels)
    centered = V - V.mean(axis=0)
    scale = np.sqrt((centered**2).sum(axis=1).mean())
    peer = LogisticRegression(C=learned_views.PENALTY, max_iter=500, tol=1e-3).fit(centered / scale, labels)
    log_shares = peer.predict_log_proba((NEW - V.mean(axis=0)) / scale)
    found = model.scores(NEW)
    assert_allclose(found - found.mean(axis=1, keepdims=True), log_shares - log_shares.mean(axis=1, keepdims=True))


def test_many_samples_are_taken_by_logistic_regression(monkeypatch):
    X, y = labeled(60, 5, signal=1.5, noise=0.4)
    few = SPDSL(3, max_iter=2).fit(X[:40], y[:40])
    monkeypatch.setattr(learned_views, "MOST", 39)
    many = SPDSL(3, max_iter=2).fit(X[:40], y[:40])
    assert isinstance(few.classifier_.learned_, LeaveOneOutKernelRidge)
    assert isinstance(many.classifier_.learned_, LogisticScores)
    assert_array_equal(few.components_, many.components_)
    assert abs(few.score(X[40:], y[40:]) - many.score(X[40:], y[40:])) <= 0.1
