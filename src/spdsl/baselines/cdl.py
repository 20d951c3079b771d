"""Covariance discriminative learning: kernel PLS or kernel LDA with the log-Euclidean inner product."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spdsl.baselines.pairwise import Factors, PairwiseClassifier, log_vectors
from spdsl.models import savable
from spdsl.validation import check_count, check_number

EQUAL = 1e-14  # below this fraction of the kernel's trace its centred form is rounding


@savable("classes_", "dual_coef_", "_factors", "_labels", "_column_mean", "_grand_mean")
class CDL(PairwiseClassifier):
    """Covariance discriminative learning, kernel `k(X_i, X_j) = tr(log X_i log X_j)`.

    "pls": kernel partial least squares of one-hot labels, label = largest response. "lda": kernel discriminant
    analysis, `max_A tr(A'KWKA) / tr(A'(KK + ridge I)A)` with W the matrix of class means, then 1-nearest neighbour
    among the projections. Kernels are centred with the training means.

    PLS is computed by NIPALS on the N x N kernel rather than by scikit-learn's PLSRegression on an explicit feature
    map: the map needs an eigen-decomposition first, and its weakest directions are rounding that NIPALS never touches.
    The two agree (see the tests). Singular covariances want `regularize(X, 1e-3)` beforehand, as published.

    Parameters
    ----------
    discriminant : {"pls", "lda"}
    extra_components : int
        "pls" uses as many components as there are classes, plus this: -1, 0 or 1 in the paper's search.
    ridge : float
        For "lda", added to the squared centred kernel.

    Attributes
    ----------
    dual_coef_ : (N, n_outputs)
        Responses ("pls") or projections ("lda") are the centred kernel times this.
    classes_, n_features_in_
    """

    def __init__(
        self, discriminant: Literal["pls", "lda"] = "pls", *, extra_components: int = 0, ridge: float = 0.01
    ) -> None:
        self.discriminant = discriminant
        self.extra_components = extra_components
        self.ridge = ridge

    def _factor(self, X: np.ndarray) -> Factors:
        return (log_vectors(X),)

    def _cross(self, FA: Factors, FB: Factors) -> np.ndarray:
        return FA[0] @ FB[0].T

    def _learn_pairs(self, values: np.ndarray, labels: np.ndarray) -> None:
        if self.discriminant not in ("pls", "lda"):
            raise ValueError(f"discriminant must be 'pls' or 'lda', got {self.discriminant!r}")
        check_number("ridge", self.ridge, low=0.0)
        check_count("extra_components", self.extra_components, low=-len(self.classes_) + 1)
        self._labels = labels
        self._column_mean, self._grand_mean = values.mean(axis=0), values.mean()
        K = self._centre(values)
        if not np.trace(K) > EQUAL * np.trace(values):
            raise ValueError("all training matrices are equal: there is nothing to tell classes apart by; bring others")
        onehot = np.eye(len(self.classes_))[labels]
        if self.discriminant == "pls":
            count = min(max(1, len(self.classes_) + self.extra_components), len(labels) - 1)
            self._offset = onehot.mean(axis=0)
            self.dual_coef_ = kernel_pls(K, onehot - self._offset, count)
        else:
            self.dual_coef_ = kernel_lda(K, onehot, self.ridge)
            self._train = K @ self.dual_coef_

    def _centre(self, values: np.ndarray) -> np.ndarray:
        return values - values.mean(axis=1, keepdims=True) - self._column_mean + self._grand_mean

    def _decide_pairs(self, values: np.ndarray) -> np.ndarray:
        output = self._centre(values) @ self.dual_coef_
        if self.discriminant == "pls":
            return (output + self._offset).argmax(axis=1)
        d2 = ((output[:, None, :] - self._train[None, :, :]) ** 2).sum(axis=2)
        return self._labels[d2.argmin(axis=1)]

    def transform(self, X: Any) -> np.ndarray:
        """Responses to the classes ("pls") or discriminant coordinates ("lda"), (n_matrices, n_outputs)."""
        check_is_fitted(self)
        values = self._cross(self._factor(self._checked_numpy(X)), self._factors)
        output = self._centre(values) @ self.dual_coef_
        return output + self._offset if self.discriminant == "pls" else output


def kernel_pls(K: np.ndarray, Y: np.ndarray, n_components: int) -> np.ndarray:
    """Dual coefficients `B = U (T'KU)^-1 T'Y` (N, c) of kernel partial least squares, by NIPALS.

    K (N, N) and Y (N, c) are centred. The inner loop of NIPALS is a power iteration for the leading eigenvector of a
    c x c matrix, taken directly here: close eigenvalues, usual with balanced classes, would stop it at its limit of
    50 rounds. A component costs one deflation, O(N^2). Stops early where nothing is left of K or Y.
    """
    residual, target = K.copy(), Y.copy()
    size = float(np.trace(K))
    T, U = [], []
    for _ in range(n_components):
        if not (np.trace(residual) > 1e-12 * size and np.abs(target).max() > 1e-12):
            break
        t, u = _component(residual, target)
        T.append(t)
        U.append(u)
        along = residual @ t
        along -= (t @ along) / 2 * t
        residual -= np.outer(t, along)
        residual -= np.outer(along, t)
        target = target - np.outer(t, t @ target)
    scores, weights = np.stack(T, axis=1), np.stack(U, axis=1)
    return weights @ np.linalg.solve(scores.T @ K @ weights, scores.T @ Y)


def _component(K: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One pair of NIPALS scores, t of unit length and u in the span of Y: what its inner loop converges to."""
    u = Y @ np.linalg.eigh(Y.T @ K @ Y)[1][:, -1]
    u = u / np.linalg.norm(u)
    t = K @ u
    return t / np.linalg.norm(t), u


def kernel_lda(K: np.ndarray, onehot: np.ndarray, ridge: float) -> np.ndarray:
    """Dual directions (N, c-1) that maximise `|E'K a|^2 / (a'(KK + ridge I)a)`, E the one-hot labels with unit columns.

    One eigen-decomposition of K, then the singular vectors of a matrix of c rows.
    """
    w, V = np.linalg.eigh((K + K.T) / 2)
    kept = w > 1e-12 * w[-1]
    w, V = w[kept], V[:, kept]
    root = np.sqrt(w**2 + ridge)
    E = onehot / np.sqrt(onehot.sum(axis=0))
    _, s, Rt = np.linalg.svd((E.T @ V) * (w / root), full_matrices=False)
    count = min(onehot.shape[1] - 1, int(np.sum(s > 1e-12)))
    return (V / root) @ Rt[:count].T
