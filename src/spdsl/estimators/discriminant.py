"""Linear discriminant analysis whose ridge and calibration come from exact leave-one-out predictions."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from spdsl.backend import modules
from spdsl.data.weights import check_weights, in_use
from spdsl.estimators.calibration import fit_temperature, probabilities, rms
from spdsl.models import savable

RIDGES = (1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # times the mean within-class variance
TEMPERATURES = np.geomspace(1e-4, 3.0, 40)  # inverse temperatures that are tried
AT_ONCE = 1 << 15  # numbers of the temperatures judged in one go: few calls for few samples, in cache for many
POOL = 0.5  # degrees of freedom that the spread of all classes counts for in that of one
LEAST, MOST = 1e-60, 1e60  # entries of vectors whose sums of squares and their products are numbers as they are
SAME = 1e-12  # directions with less than this share of the largest variance are rounding error


@savable("classes_", "mean_", "coef_", "intercept_", "temperature_", "n_samples_")
class LeaveOneOutDiscriminant(ClassifierMixin, BaseEstimator):
    """Linear discriminant analysis for few samples and many features.

        score_c(x) = x'B m_c - m_c'B m_c / 2 + log(k_c / N) + v_c / (2 k_c),   B = (S + ridge tr(S) / r I)^-1

    S is the pooled within-class covariance of rank r, `m_c` the mean of the `k_c` samples of class c. The ridge is the one
    of ten with the least leave-one-out log-loss at its own best temperature; leaving a sample out is a rank-one change
    of S, so all of these predictions are exact and cost one eigendecomposition. The last term corrects for the noise of
    the class means: a mean of k_c samples lies on average `v_c / k_c` too far from every other sample, more so for small
    and for wide classes. `v_c` is the leave-one-out spread of class c, drawn toward that of all classes where k_c is small.

    Features are not scaled: lengths and angles of log-vectors are meaningful.

    With weights, `k_c` is the sum of the weights of class c and N that of all, means and S are weighted, and a sample is left
    out with all of its weight (copies of a sample, in contrast, are left out one by one). In the last term `k_c` is at
    least the number of samples that the weights of the class amount to, `(sum w)^2 / sum w^2`: small weights make a class
    rare, not noisy.

    Attributes
    ----------
    classes_ : (n_classes,)
    coef_ : (n_classes, n_features)
    intercept_ : (n_classes,)
    mean_ : (n_features,)
    ridge_ : float
    temperature_ : float
        Inverse temperature of the probabilities.
    n_samples_ : int
        Or the sum of the weights.
    spread_ : float
        Root mean square of the centered leave-one-out scores.
    loo_accuracy_ : float
    """

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: Any = None) -> Self:
        """Fit to vectors (n_samples, n_features) and labels; some class needs two samples or more.

        Samples of weight zero are left out; weights of a mean below one are scaled to a mean of one.
        """
        X, y = np.asarray(X, np.float64), np.asarray(y)
        weight = check_weights(sample_weight, len(y))
        if weight is not None:
            kept, weight = in_use(weight)
            X, y = X[kept], y[kept]
        self.classes_, labels = np.unique(y, return_inverse=True)
        if np.bincount(labels).max() < 2:
            raise ValueError(
                "every class has one sample; discriminant analysis needs at least two samples of some class"
            )
        sizes = np.bincount(labels, weight)
        self.mean_ = np.average(X, axis=0, weights=weight)
        self.n_samples_ = len(X) if weight is None else float(weight.sum())
        scale = _unit_scale(X - self.mean_)
        V, basis = _in_span((X - self.mean_) * scale)
        means = _class_means(V, labels, sizes, weight)
        R = V - means[labels]
        w, E = np.linalg.eigh((R if weight is None else weight[:, None] * R).T @ R / self.n_samples_)
        w = np.maximum(w, 0.0)
        unit = w.sum() / max(1, min(V.shape[1], len(V) - len(sizes)))
        if not unit > 0:  # copies in every class: any ridge separates them
            unit = float(np.mean(V**2)) or 1.0
        left_out = _LeftOut(V @ E, means @ E, labels, sizes, w, weight)
        best = min((left_out.judge(ridge * unit) for ridge in RIDGES), key=lambda found: found.loss)
        self.ridge_ = best.ridge / unit
        paired = left_out.paired
        judged, mine = best.scores[paired], None if weight is None else weight[paired]
        self.temperature_ = fit_temperature(judged, labels[paired], self.n_samples_, mine)
        self.spread_ = rms(judged, mine) or 1.0
        self.loo_accuracy_ = float(np.average(best.scores.argmax(axis=1) == labels, weights=weight))
        M = means @ E
        scaled = M / (w + best.ridge)
        self.coef_ = scaled @ (basis @ E).T * scale
        self.intercept_ = (
            np.log(sizes / self.n_samples_) - (M * scaled).sum(axis=1) / 2 + best.spread / (2 * left_out.known)
        )
        return self

    def scores(self, X: np.ndarray) -> np.ndarray:
        """Scores (n_samples, n_classes); the largest one is that of the predicted class."""
        check_is_fitted(self, "coef_")
        return (X - self.mean_) @ self.coef_.T + self.intercept_

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Scores (n_samples, n_classes), or for two classes their difference (n_samples,)."""
        scores = self.scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Labels (n_samples,)."""
        return self.classes_[self.scores(X).argmax(axis=1)]

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Probabilities (n_samples, n_classes), calibrated on the leave-one-out predictions."""
        return self.probabilities(self.scores(X))

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Probabilities of scores of the same spread as its own; none is surer than N samples allow."""
        return probabilities(scores, self.temperature_, self.n_samples_)

    def torch_scores(self, mean: np.ndarray | float = 0.0, scale: float = 1.0) -> Any:
        """The PyTorch module of `scores` of `(V - mean) / scale`."""
        return modules.affine(self.coef_ / scale, self.intercept_, mean + scale * self.mean_)

    def torch_steps(self, mean: np.ndarray | float = 0.0, scale: float = 1.0) -> list[Any]:
        """PyTorch modules from vectors V to `predict_proba` of `(V - mean) / scale`."""
        return [self.torch_scores(mean, scale), modules.sure_shares(self.temperature_, self.n_samples_)]


class _Judged:
    """A ridge, and the leave-one-out predictions under it."""

    def __init__(self, ridge: float, scores: np.ndarray, spread: np.ndarray, loss: float) -> None:
        self.ridge, self.scores, self.spread, self.loss = ridge, scores, spread, loss


class _LeftOut:
    """Scores of every sample under the rule that was fitted without it, for any ridge.

    `V` (N, r) and class means `M` are in the eigenbasis of the within-class covariance, whose eigenvalues are `w`; `weight` are
    the weights of the samples, if any, and `sizes` their sums by class.
    """

    def __init__(
        self,
        V: np.ndarray,
        M: np.ndarray,
        labels: np.ndarray,
        sizes: np.ndarray,
        w: np.ndarray,
        weight: np.ndarray | None = None,
    ) -> None:
        self.V, self.M, self.labels, self.sizes, self.w, self.weight = V, M, labels, sizes, w, weight
        self.R = V - M[labels]
        self.counts = np.bincount(labels)
        self.paired = self.counts[labels] > 1
        self.total = len(V) if weight is None else float(weight.sum())
        self.prior = np.log(sizes / self.total)
        self.known, self.known_without = self._known()

    def judge(self, ridge: float) -> _Judged:
        """The ridge with its leave-one-out scores (N, C), the spreads of the classes and the least log-loss."""
        N, own = self.total, (np.arange(len(self.V)), self.labels)
        c: Any = 1 if self.weight is None else self.weight  # what leaves the class with sample i
        k = np.where(self.paired, self.sizes[self.labels], 2 * c)
        b = 1 / (np.multiply.outer(N / (N - c), self.w) + ridge)  # (r,), or (N, r) with weights
        Rb = self.R * b
        rr = (self.R * Rb).sum(axis=1)
        squares = (self.M**2 * b).sum(axis=1) if b.ndim == 1 else b @ (self.M**2).T
        far = (self.V**2 * b).sum(axis=1)[:, None] - 2 * (self.V * b) @ self.M.T + squares
        along = (Rb * self.V).sum(axis=1)[:, None] - Rb @ self.M.T
        # without sample i, S loses alpha_i R_i R_i'
        alpha = c * k / ((k - c) * (N - c))
        gap = np.maximum(1 - alpha * rr, 1e-6)
        Q = far + (alpha / gap)[:, None] * along**2
        Q[own] = rr * (k / (k - c)) ** 2 * (1 + alpha * rr / gap)
        spread = self._spread(Q[own] * (k - c) / k)
        noise = np.repeat((spread / self.known)[None], len(self.V), axis=0)
        noise[own] = spread[self.labels] / self.known_without
        scores = self.prior - Q / 2 + noise / 2
        alone = ~self.paired
        scores[alone, self.labels[alone]] = scores.min() - 1  # alone in its class: cannot be found
        return _Judged(ridge, scores, spread, self._loss(scores))

    def _known(self) -> tuple[np.ndarray, np.ndarray]:
        """How many samples the mean of a class (C,) rests on, and that of its own class without a sample (N,).

        Their weights, but for weights below one, which make no mean noisier than that of so many samples: the squared
        sum of weights over the sum of their squares.
        """
        if self.weight is None:
            return self.counts.astype(float), np.maximum(self.counts[self.labels] - 1, 1)
        squares = np.bincount(self.labels, self.weight**2, len(self.sizes))
        left = np.maximum(self.sizes[self.labels] - self.weight, 0.0)
        left_squares = np.maximum(squares[self.labels] - self.weight**2, 0.0)
        most = np.maximum(self.counts[self.labels] - 1.0, 1.0)  # also where the squares have lost their digits
        alike = np.divide(left**2, left_squares, out=most.copy(), where=left_squares > 0)
        return np.maximum(self.sizes, self.sizes**2 / squares), np.maximum(left, np.clip(alike, 1.0, most))

    def _spread(self, z: np.ndarray) -> np.ndarray:
        """v (C,) from the squared distances z (N,) of the samples to the true means of their classes."""
        freedom, paired = np.maximum(self.counts - 2, 0), self.paired
        weight = None if self.weight is None else self.weight[paired]
        own = z[paired] if weight is None else weight * z[paired]
        mine = np.bincount(self.labels[paired], own, len(self.sizes)) / self.sizes
        return (freedom * mine + POOL * np.average(z[paired], weights=weight)) / (freedom + POOL)

    def _loss(self, scores: np.ndarray) -> float:
        """The log-loss at the best of the inverse temperatures."""
        rows, labels = scores[self.paired], self.labels[self.paired]
        rows = rows - rows.max(axis=1, keepdims=True)
        true = rows[np.arange(len(rows)), labels]
        weight = None if self.weight is None else self.weight[self.paired]
        least = np.inf
        some = max(1, AT_ONCE // max(1, rows.size))
        for k in range(0, len(TEMPERATURES), some):
            t = TEMPERATURES[k : k + some, None]
            each = np.log(np.exp(t[:, :, None] * rows).sum(axis=2)) - t * true
            least = min(least, float(np.average(each, axis=1, weights=weight).min()))
        return least


def _unit_scale(V: np.ndarray) -> float:
    """A power of two that brings entries near one, so that no square of them overflows or vanishes."""
    size = float(np.abs(V).max())
    if not np.isfinite(size):
        raise ValueError("the vectors are not finite, or so large that their means overflow; rescale the data")
    return 1.0 if LEAST < size < MOST or not size else 2.0 ** -np.frexp(size)[1]


def _in_span(V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates (N, r) of centered vectors in an orthonormal basis (d, r) of their span."""
    if V.shape[1] <= len(V):
        return V, np.eye(V.shape[1])
    g, U = np.linalg.eigh(V @ V.T)
    keep = g > SAME * g[-1]
    if not keep.any():
        raise ValueError("all training vectors are identical; provide data that differ")
    return U[:, keep] * np.sqrt(g[keep]), V.T @ (U[:, keep] / np.sqrt(g[keep]))


def _class_means(V: np.ndarray, labels: np.ndarray, sizes: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    means = np.zeros((len(sizes), V.shape[1]))
    np.add.at(means, labels, V if weight is None else weight[:, None] * V)
    return means / sizes[:, None]


@savable("covariance_", "shrinkage_")
class SpanLedoitWolf(BaseEstimator):
    """Ledoit-Wolf covariance of vectors in a subspace: a part of models saved by older versions."""

    def __init__(self, n_features: int) -> None:
        self.n_features = n_features

    def fit(self, X: np.ndarray, y: Any = None) -> Self:
        """Estimate from the coordinates X (n_samples, r)."""
        X = X - X.mean(axis=0)
        G = X @ X.T / len(X)
        p, size = self.n_features, float(np.sum(G**2))
        mu = float(np.trace(G)) / p
        error = (len(X) * float(np.sum(np.diagonal(G) ** 2)) - size) / (p * len(X))
        spread = (size - p * mu**2) / p
        self.shrinkage_ = min(error, spread) / spread if spread > 0 else 0.0
        self.covariance_ = (1 - self.shrinkage_) * X.T @ X / len(X) + self.shrinkage_ * mu * np.eye(X.shape[1])
        return self
