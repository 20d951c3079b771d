"""The automatic classifier after a reduction: discriminant analysis on all of X, and logistic regression on W'XW."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from spdsl import backend
from spdsl.backend import Array, modules
from spdsl.estimators.base import Answer, LabelScore, SPDEstimator
from spdsl.estimators.discriminant import LeaveOneOutDiscriminant
from spdsl.geometry import log_vectors
from spdsl.models import savable

WEIGHT = 0.5  # of the learned view: chosen on 15 real sets, where 0.25 to 1 differ by less than half a point
PENALTY = 30.0  # C of the logistic regression, for vectors of mean square length one


@savable("classes_", "discriminant_", "logistic_", "center_", "scale_", "spread_")
class AutoHead(LabelScore, SPDEstimator):
    """Two classifiers whose scores are added after scaling both to the same spread.

        S = c(S_lda) / s_lda + 0.5 c(S_lr) / s_lr,   p = softmax(t s_lda S)

    `S_lda` are the scores of `LeaveOneOutDiscriminant` on the base vectors, log-vectors of the recentered matrices before
    the reduction (of W'XW where those are out of reach, or where W is square and nothing is lost); `S_lr` the log
    probabilities of logistic regression on the log-vectors of W'XW. c centers over the classes, s is the root mean square
    over the training samples, left out one at a time for the discriminant: the learned view cannot drown the other however
    well it fits the training samples. t is the inverse temperature of the discriminant.

    Attributes
    ----------
    classes_ : (n_classes,)
    discriminant_ : LeaveOneOutDiscriminant
    logistic_ : LogisticRegression
    """

    _takes_blocks = True

    def fit_views(self, base: np.ndarray, P: Array, y: np.ndarray, weight: np.ndarray | None = None) -> Self:
        """Fit to base vectors (N, d), reduced matrices, and labels; the samples may have positive weights."""
        self._check_size(P.shape, reset=True, name="X")
        self.discriminant_ = LeaveOneOutDiscriminant().fit(base, y, weight)
        self.classes_ = self.discriminant_.classes_
        V = backend.to_numpy(log_vectors(P))
        self.center_ = np.average(V, axis=0, weights=weight)
        squares = np.sum((V - self.center_) ** 2, axis=1)
        self.scale_ = float(np.sqrt(np.average(squares, weights=weight))) or 1.0
        V = (V - self.center_) / self.scale_
        from sklearn.linear_model import LogisticRegression  # imported here because it would double the import time

        logistic = LogisticRegression(C=PENALTY, max_iter=500, tol=1e-3)
        if V.shape[1] > len(V):  # in the span of the vectors, which changes nothing but the time
            basis = np.linalg.svd(V, full_matrices=False)[2]
            logistic.fit(V @ basis.T, y, weight)
            logistic.coef_ = logistic.coef_ @ basis
            logistic.n_features_in_ = basis.shape[1]
        else:
            logistic.fit(V, y, weight)
        self.logistic_ = logistic
        self.spread_ = float(np.sqrt(np.average(np.mean(self._learned(P) ** 2, axis=1), weights=weight))) or 1.0
        return self

    def answer_views(self, base: np.ndarray, P: Array, kind: Answer) -> np.ndarray:
        """Result of the given method, from the scores (N, n_classes) of the discriminant on the base vectors."""
        first = self.discriminant_
        scores = (base - base.mean(axis=1, keepdims=True)) / first.spread_ + WEIGHT * self._learned(P) / self.spread_
        if kind == "predict":
            return self.classes_[scores.argmax(axis=1)]
        if kind == "predict_proba":
            return first.probabilities(first.spread_ * scores)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def fit_checked(self, P: Array, y: np.ndarray, weight: np.ndarray | None = None) -> Self:
        """Fit to reduced matrices and labels, with their own log-vectors as the base."""
        return self.fit_views(backend.to_numpy(log_vectors(P)), P, y, weight)

    def answer(self, P: Array, kind: Answer) -> np.ndarray:
        """Result of the given method after `fit_checked`."""
        return self.answer_views(self.discriminant_.scores(backend.to_numpy(log_vectors(P))), P, kind)

    def _learned(self, P: Array) -> np.ndarray:
        """Centered log probabilities (N, n_classes) on the log-vectors of reduced matrices."""
        V = (backend.to_numpy(log_vectors(P)) - self.center_) / self.scale_
        # `decision_function` would check V, which takes as long as all the rest for a single sample
        scores = V @ self.logistic_.coef_.T + self.logistic_.intercept_
        if scores.shape[1] == 1:
            scores = np.hstack([np.zeros_like(scores), scores])
        return scores - scores.mean(axis=1, keepdims=True)  # centered, log probabilities are decision values

    def to_torch(self, before: Any = None, reference: np.ndarray | None = None) -> Any:
        """A float64 `torch.nn.Module` from X to `predict_proba`.

        With the modules `before`, from the matrices to the reduced ones, and the `reference`, at whose recentered matrices
        the discriminant looks, from the matrices before the reduction.
        """
        logistic, first, m = self.logistic_, self.discriminant_, self.n_features_in_
        n = m if reference is None else reference.shape[-1]
        reduced = [] if before is None else [before]
        base = [*(reduced if reference is None else []), modules.log_vectors(n, reference), first.torch_scores()]
        learned = [
            *reduced,
            modules.log_vectors(m),
            modules.affine(logistic.coef_, logistic.intercept_, self.center_, self.scale_),
        ]
        scales = 1.0, WEIGHT * first.spread_ / self.spread_
        views = modules.two_views(modules.chain("Base", *base), modules.chain("Learned", *learned), scales)
        shares = modules.sure_shares(first.temperature_, first.n_samples_)
        return modules.double_in(modules.chain("AutoHead", views, shares))
