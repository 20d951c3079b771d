"""What the automatic classifier takes W'XW by: kernel ridge regression, or logistic regression for many samples."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from spdsl.backend import modules
from spdsl.estimators.calibration import least_log_loss, rms
from spdsl.models import savable

RIDGES = (1e-3, 1e-2, 1e-1, 1.0)  # beside a kernel that is one on its diagonal
PENALTY = 30.0  # C of the logistic regression, for vectors of mean square length one
MOST = 4000  # samples: the eigenvectors of a larger kernel would take longer than learning W


@savable("mean_", "vectors_", "squares_", "width_", "coef_", "intercept_", "spread_")
class LeaveOneOutKernelRidge(BaseEstimator):
    """Kernel ridge regression of class indicators, with the ridge that predicts samples left out best.

        score_c(x) = s_c + sum_i k(x, x_i) a_ic,   (K + ridge I) a = Y - s,   k(x, y) = exp(-|x - y|^2 / width)

    `Y` (N, C) is one where sample i is of class c, `s_c` the share of class c, and the width the mean of `|x_i - x_j|^2`
    over all i and j. Without sample i the score is `Y_i - a_i / ((K + ridge I)^-1)_ii`, so that all of these predictions
    cost one eigendecomposition; of four ridges the one with the least log-loss at its own best temperature is taken.

    With weights, the squares are weighted (`ridge I` becomes `ridge / w_i`) and so are `s`, the width and the log-loss; a
    sample is left out with all of its weight.

    Attributes
    ----------
    mean_ : (n_features,)
    vectors_ : (n_samples, n_features)
        Less their mean, which keeps digits of differences; `squares_` are their squared lengths.
    coef_ : (n_samples, n_classes)
    intercept_ : (n_classes,)
    width_, ridge_ : float
    spread_ : float
        Root mean square of the centered leave-one-out scores.
    """

    def fit(self, V: np.ndarray, labels: np.ndarray, weight: np.ndarray | None = None) -> Self:
        """Fit to vectors (n_samples, n_features) and labels 0 .. n_classes - 1; the samples may have positive weights."""
        share = np.full(len(V), 1 / len(V)) if weight is None else weight / weight.sum()
        self.mean_ = V.mean(axis=0)
        self.vectors_ = V - self.mean_
        self.squares_ = np.sum(self.vectors_**2, axis=1)
        d2 = self._sqdist(V)
        Y = np.eye(labels.max() + 1)[labels]
        self.intercept_ = share @ Y
        self.width_ = float(share @ d2 @ share) or 1.0
        root = np.ones(len(V)) if weight is None else np.sqrt(weight)
        g, U = np.linalg.eigh(root[:, None] * np.exp(-d2 / self.width_) * root)
        g, target = np.maximum(g, 0.0), U.T @ (root[:, None] * (Y - self.intercept_))
        paired = np.bincount(labels)[labels] > 1  # nothing tells of a sample alone in its class
        mine = None if weight is None else weight[paired]
        found = []
        for ridge in RIDGES:
            coef = U @ (target / (g + ridge)[:, None])
            left_out = Y - coef / (root * (U**2 @ (1 / (g + ridge))))[:, None]
            found.append((least_log_loss(left_out[paired], labels[paired], mine), ridge, coef, left_out[paired]))
        _, self.ridge_, coef, left_out = min(found, key=lambda one: one[0])
        self.coef_ = root[:, None] * coef
        self.spread_ = rms(left_out, mine) or 1.0
        return self

    def scores(self, V: np.ndarray) -> np.ndarray:
        """Scores (n_samples, n_classes)."""
        return np.exp(-self._sqdist(V) / self.width_) @ self.coef_ + self.intercept_

    def _sqdist(self, V: np.ndarray) -> np.ndarray:
        """Squared distances of vectors to those of the fit; the digits that close ones lose do not show in the kernel."""
        V = V - self.mean_
        return np.maximum(np.sum(V**2, axis=1)[:, None] + self.squares_ - 2 * V @ self.vectors_.T, 0.0)

    def torch_scores(self) -> Any:
        """The PyTorch module of `scores`."""
        return modules.gaussian_regression(self.vectors_ + self.mean_, self.width_, self.coef_, self.intercept_)


@savable("mean_", "coef_", "intercept_", "spread_")
class LogisticScores(BaseEstimator):
    """Decision values of logistic regression on vectors scaled to mean square length one.

    Attributes
    ----------
    coef_ : (n_classes, n_features)
    intercept_ : (n_classes,)
    mean_ : (n_features,)
    spread_ : float
        Root mean square of the centered scores of the training samples.
    """

    def fit(self, V: np.ndarray, labels: np.ndarray, weight: np.ndarray | None = None) -> Self:
        """Fit to vectors (n_samples, n_features) and labels 0 .. n_classes - 1; the samples may have positive weights."""
        from sklearn.linear_model import LogisticRegression  # imported here because it would double the import time

        self.mean_ = np.average(V, axis=0, weights=weight)
        squares = np.sum((V - self.mean_) ** 2, axis=1)
        scale = float(np.sqrt(np.average(squares, weights=weight))) or 1.0
        model = LogisticRegression(C=PENALTY, max_iter=500, tol=1e-3).fit((V - self.mean_) / scale, labels, weight)
        coef, intercept = model.coef_ / scale, model.intercept_
        if len(coef) == 1:  # two classes
            coef, intercept = np.concatenate([-coef, coef]) / 2, np.concatenate([-intercept, intercept]) / 2
        self.coef_, self.intercept_ = coef, intercept
        self.spread_ = rms(self.scores(V), weight) or 1.0
        return self

    def scores(self, V: np.ndarray) -> np.ndarray:
        """Scores (n_samples, n_classes)."""
        return (V - self.mean_) @ self.coef_.T + self.intercept_

    def torch_scores(self) -> Any:
        """The PyTorch module of `scores`."""
        return modules.affine(self.coef_, self.intercept_, self.mean_)


def fit_learned_view(
    V: np.ndarray, labels: np.ndarray, weight: np.ndarray | None
) -> LeaveOneOutKernelRidge | LogisticScores:
    """The fitted regression that suits the number of samples."""
    model = LeaveOneOutKernelRidge() if len(V) <= MOST else LogisticScores()
    return model.fit(V, labels, weight)
