"""Covariance discriminative learning: kernel PLS or kernel LDA with the log-Euclidean inner product."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spdsl.backend import Array
from spdsl.baselines.pairwise import PairwiseClassifier, log_vectors
from spdsl.data.parameters import check_choice, check_count, check_number
from spdsl.models import savable

EQUAL = 1e-14  # a centered kernel below this fraction of the trace is rounding error


@savable("classes_", "dual_coef_", "_factors", "_labels", "_column_mean", "_grand_mean")
class CDL(PairwiseClassifier):
    """Covariance discriminative learning, kernel `k(X_i, X_j) = tr(log X_i log X_j)`.

    "pls": kernel partial least squares of one-hot labels, label = largest response. "lda": kernel discriminant
    analysis, `max_A tr(A'KWKA) / tr(A'(KK + ridge I)A)` with W the matrix of class means, followed by the
    nearest neighbor among the projections. Kernels are centered with the training means.

    PLS is computed by NIPALS on the N x N kernel, not by scikit-learn's PLSRegression on an explicit feature map: the
    map needs an eigendecomposition, and its weakest directions are rounding errors that NIPALS never uses. The two agree
    (see the tests). Singular covariances need `regularize(X, 1e-3)` first, as published.

    Parameters
    ----------
    discriminant : {"pls", "lda"}
    extra_components : int
        "pls" uses as many components as there are classes, plus this: -1, 0 or 1 in the paper's search.
    ridge : float
        For "lda", added to the squared centered kernel.
    device : optional
        Device to compute the kernel on, e.g. "cuda" (needs PyTorch). By default the host.

    Attributes
    ----------
    dual_coef_ : (N, n_outputs)
        Responses ("pls") or projections ("lda") are the centered kernel times this.
    classes_, n_features_in_

    Examples
    --------
    >>> from spdsl import CDL
    >>> from spdsl.datasets import load_digit_sets
    >>> X, y = load_digit_sets()
    >>> model = CDL().fit(X[::20], y[::20])
    >>> model.predict(X[[1, 401]]).tolist()
    [0, 4]
    """

    pair_arrays = 7

    def __init__(
        self,
        discriminant: Literal["pls", "lda"] = "pls",
        *,
        extra_components: int = 0,
        ridge: float = 0.01,
        device: Any = None,
    ) -> None:
        self.discriminant = discriminant
        self.extra_components = extra_components
        self.ridge = ridge
        self.device = device

    def _factor(self, X: Array) -> tuple[Array, ...]:
        return (log_vectors(X),)

    def _cross(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> Array:
        return FA[0] @ FB[0].mT

    def _learn_pairs(self, values: np.ndarray, labels: np.ndarray) -> None:
        check_choice("discriminant", self.discriminant, ("pls", "lda"))
        check_number("ridge", self.ridge, low=0.0)
        check_count("extra_components", self.extra_components, low=-len(self.classes_) + 1)
        self._labels = labels
        self._column_mean, self._grand_mean = values.mean(axis=0), values.mean()
        K = self._center(values)
        if not np.trace(K) > EQUAL * np.trace(values):
            raise ValueError("all training matrices are identical; provide matrices that differ")
        onehot = np.eye(len(self.classes_))[labels]
        if self.discriminant == "pls":
            count = min(max(1, len(self.classes_) + self.extra_components), len(labels) - 1)
            self._offset = onehot.mean(axis=0)
            self.dual_coef_ = kernel_pls(K, onehot - self._offset, count)
        else:
            self.dual_coef_ = kernel_lda(K, onehot, self.ridge)
            self._train = K @ self.dual_coef_

    def _center(self, values: np.ndarray) -> np.ndarray:
        return values - values.mean(axis=1, keepdims=True) - self._column_mean + self._grand_mean

    def _decide_pairs(self, values: np.ndarray) -> np.ndarray:
        output = self._center(values) @ self.dual_coef_
        if self.discriminant == "pls":
            return (output + self._offset).argmax(axis=1)
        d2 = ((output[:, None, :] - self._train[None, :, :]) ** 2).sum(axis=2)
        return self._labels[d2.argmin(axis=1)]

    def transform(self, X: Any) -> np.ndarray:
        """Responses to the classes ("pls") or discriminant coordinates ("lda"), (n_matrices, n_outputs)."""
        check_is_fitted(self)
        fitted = self._as_fitted()
        values = fitted.against_training(X)
        output = fitted._center(values) @ fitted.dual_coef_
        return output + fitted._offset if fitted.discriminant == "pls" else output


def kernel_pls(K: np.ndarray, Y: np.ndarray, n_components: int) -> np.ndarray:
    """Dual coefficients `B = U (T'KU)^-1 T'Y` (N, c) of kernel partial least squares, by NIPALS.

    K (N, N) and Y (N, c) are centered. The inner loop of NIPALS is a power iteration for the leading eigenvector of a
    c x c matrix, computed directly here: with close eigenvalues, common for balanced classes, it would reach its limit
    of 50 iterations. A component costs one deflation, O(N^2). Stops early if nothing is left of K or Y, or if what is left
    of K has nothing to do with Y.
    """
    residual, target = K.copy(), Y.copy()
    size = float(np.trace(K))
    T, U = [], []
    for _ in range(n_components):
        if not (np.trace(residual) > 1e-12 * size and np.abs(target).max() > 1e-12):
            break
        t, u = _component(residual, target)
        length = float(np.linalg.norm(t))
        if not length > 1e-12 * size:
            break
        t = t / length
        T.append(t)
        U.append(u)
        along = residual @ t
        along -= (t @ along) / 2 * t
        residual -= np.outer(t, along)
        residual -= np.outer(along, t)
        target = target - np.outer(t, t @ target)
    if not T:
        return np.zeros_like(Y)
    scores, weights = np.stack(T, axis=1), np.stack(U, axis=1)
    return weights @ np.linalg.solve(scores.T @ K @ weights, scores.T @ Y)


def _component(K: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One pair of NIPALS scores, t = K u and u of unit length in the span of Y: what its inner loop converges to."""
    u = Y @ np.linalg.eigh(Y.T @ K @ Y)[1][:, -1]
    u = u / np.linalg.norm(u)
    return K @ u, u


def kernel_lda(K: np.ndarray, onehot: np.ndarray, ridge: float) -> np.ndarray:
    """Dual directions (N, c-1) that maximize `|E'K a|^2 / (a'(KK + ridge I)a)`, E the one-hot labels with unit columns.

    One eigendecomposition of K, then the singular vectors of a matrix with c rows.
    """
    w, V = np.linalg.eigh((K + K.T) / 2)
    kept = w > 1e-12 * w[-1]
    w, V = w[kept], V[:, kept]
    root = np.sqrt(w**2 + ridge)
    E = onehot / np.sqrt(onehot.sum(axis=0))
    _, s, Rt = np.linalg.svd((E.T @ V) * (w / root), full_matrices=False)
    count = min(onehot.shape[1] - 1, int(np.sum(s > 1e-12)))
    return (V / root) @ Rt[:count].T
