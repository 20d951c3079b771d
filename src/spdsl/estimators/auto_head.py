"""The automatic classifier after a reduction: discriminant analysis on all of X, and kernel ridge regression on W'XW."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np

from spdsl import backend
from spdsl.backend import Array, modules
from spdsl.data.recentering import base_size
from spdsl.estimators.base import Answer, LabelScore, SPDEstimator
from spdsl.estimators.calibration import led_by
from spdsl.estimators.discriminant import LeaveOneOutDiscriminant
from spdsl.estimators.learned_views import fit_learned_view
from spdsl.geometry import log_vectors
from spdsl.models import savable

BASE_BYTES = 1 << 30  # log-vectors of the training matrices before the reduction, up to which they are seen
WEIGHT = 0.25  # of the learned view: on 15 real sets 0.25 to 0.7 differ by less than half a point


@savable("classes_", "discriminant_", "learned_")
class AutoHead(LabelScore, SPDEstimator):
    """The weighted mean of the scores of two classifiers, scaled to the same spread.

        S = (c(S_1) / s_1 + 0.25 c(S_2) / s_2) / 1.25,   p = softmax(t s_1 S)

    `S_1` are the scores of `LeaveOneOutDiscriminant` on the base vectors, log-vectors of the recentered matrices before
    the reduction (of W'XW where those are out of reach); `S_2` those of `LeaveOneOutKernelRidge` on the log-vectors of
    W'XW, or of logistic regression for more than 4,000 samples. c centers over the classes, s is the root mean square over
    the training samples, each left out of its own score (but under logistic regression): the learned view cannot drown the
    other however well it fits the training samples. t is the inverse temperature of the discriminant.

    Attributes
    ----------
    classes_ : (n_classes,)
    discriminant_ : LeaveOneOutDiscriminant
    learned_ : LeaveOneOutKernelRidge or LogisticScores
    """

    _takes_blocks = True

    def fit_views(self, base: np.ndarray, P: Array, y: np.ndarray, weight: np.ndarray | None = None) -> Self:
        """Fit to base vectors (N, d), reduced matrices, and labels; the samples may have positive weights."""
        self._check_size(P.shape, reset=True, name="X")
        self.discriminant_ = LeaveOneOutDiscriminant().fit(base, y, weight)
        self.classes_ = self.discriminant_.classes_
        labels = np.searchsorted(self.classes_, y)
        self.learned_ = fit_learned_view(backend.to_numpy(log_vectors(P)), labels, weight)
        return self

    def answer_views(self, base: np.ndarray, P: Array, kind: Answer) -> np.ndarray:
        """Result of the given method, from the scores (N, n_classes) of the discriminant on the base vectors."""
        first = self.discriminant_
        learned = self.learned_.scores(backend.to_numpy(log_vectors(P)))
        scores = (_centered(base) / first.spread_ + WEIGHT * _centered(learned) / self.learned_.spread_) / (1 + WEIGHT)
        if kind == "predict":
            return self.classes_[scores.argmax(axis=1)]
        if kind == "predict_proba":
            return led_by(first.probabilities(first.spread_ * scores), scores.argmax(axis=1))
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def fit_checked(self, P: Array, y: np.ndarray, weight: np.ndarray | None = None) -> Self:
        """Fit to reduced matrices and labels, with their own log-vectors as the base."""
        return self.fit_views(backend.to_numpy(log_vectors(P)), P, y, weight)

    def answer(self, P: Array, kind: Answer) -> np.ndarray:
        """Result of the given method after `fit_checked`."""
        return self.answer_views(self.discriminant_.scores(backend.to_numpy(log_vectors(P))), P, kind)

    def to_torch(self, before: Any = None, reference: np.ndarray | None = None) -> Any:
        """A float64 `torch.nn.Module` from X to `predict_proba`.

        With the modules `before`, from the matrices to the reduced ones, and the `reference` A, at whose `A'XA` the
        discriminant looks, from the matrices before the reduction.
        """
        first, m = self.discriminant_, self.n_features_in_
        reduced = [] if before is None else [before]
        start = reduced if reference is None else []
        k = m if reference is None else reference.shape[-1]
        base = modules.chain("Base", *start, modules.log_vectors(k, reference), first.torch_scores())
        learned = modules.chain("Learned", *reduced, modules.log_vectors(m), self.learned_.torch_scores())
        views = modules.two_views(
            base, learned, (1 / (1 + WEIGHT), WEIGHT / (1 + WEIGHT) * first.spread_ / self.learned_.spread_)
        )
        shares = modules.sure_shares(first.temperature_, first.n_samples_)
        return modules.double_in(modules.chain("AutoHead", views, shares))


def sees_vectors(classifier: Any, shape: tuple[int, ...]) -> bool:
    """Whether the classifier sees the recentered matrices beside W'XW: not if their vectors do not fit into memory."""
    if not isinstance(classifier, str) or classifier != "auto":
        return False
    k = base_size(shape[-1])
    size = 4 * int(np.prod(shape[:-2])) * k * (k + 1)
    if size > BASE_BYTES:
        warnings.warn(
            f"classifier='auto' sees W'XW alone: log-vectors of all matrices would take {size / 1e9:.3g} GB, more than "
            f"{BASE_BYTES / 1e9:.3g} GB",
            UserWarning,
            stacklevel=5,
        )
    return size <= BASE_BYTES


def _centered(scores: np.ndarray) -> np.ndarray:
    return scores - scores.mean(axis=1, keepdims=True)
