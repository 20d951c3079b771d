"""Kernel sparse coding: RSR with the Stein kernel, LEK with log-Euclidean kernels."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from spdsl.backend import Array, namespace
from spdsl.baselines.lasso import lasso_gram
from spdsl.baselines.pairwise import Factors, PairwiseClassifier, log_vectors
from spdsl.data.parameters import check_choice, check_count, check_flag, check_number
from spdsl.geometry import get_metric
from spdsl.models import savable

RANK = 1e-12  # eigenvalues of the kernel matrix below this fraction of the largest are rounding errors


class KernelSparseCoder(PairwiseClassifier):
    """Classify by `min_a |phi(x) - Phi a|^2 + penalty |a|_1` over the training set, in the feature space of a kernel.

    The label is the class whose atoms, with their part of the code, leave the smallest residual. Subclasses define the
    value of a pair and the kernel as a function of it.
    """

    tuning_params: ClassVar[dict[str, Any]] = {"tol": 1e-3, "max_iter": 60}
    pair_arrays = 8

    penalty: float
    normalize: bool
    tol: float
    max_iter: int

    @abstractmethod
    def _kernel(self, values: np.ndarray, *, train: bool) -> np.ndarray:
        """Kernel from pair values; rows of test values may be scaled if codes are normalized."""

    def _learn_pairs(self, values: np.ndarray, labels: np.ndarray) -> None:
        check_number("penalty", self.penalty, low=0.0, above=True)
        check_number("tol", self.tol, low=0.0)
        check_count("max_iter", self.max_iter, low=1)
        check_flag("normalize", self.normalize)
        self._labels = labels
        self._set_width(values)
        K = self._kernel(values, train=True)
        w, V = np.linalg.eigh((K + K.T) / 2)
        self._judge_spectrum(w)
        kept = w > RANK * w[-1]
        w, V = w[kept], V[:, kept]
        self._whiten = V / np.sqrt(w)
        self.gram_ = (V * w) @ V.T

    def _set_width(self, values: np.ndarray) -> None:
        """Set the width relative to the training distances; does nothing for kernels without one."""

    def _judge_spectrum(self, w: np.ndarray) -> None:
        """Warn if the kernel is not positive semidefinite; most kernels always are."""

    def _targets(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Correlations (N, T) of the test points with the atoms, and their squared norms in the span of the atoms."""
        k = self._kernel(values, train=False).T
        B = self._whiten.T @ k
        sqnorm = np.einsum("rt,rt->t", B, B)
        C = self.gram_ @ (self._whiten @ B)
        if self.normalize:
            length = np.sqrt(np.where(sqnorm > 0, sqnorm, 1.0))
            return C / length, np.where(sqnorm > 0, 1.0, 0.0)
        return C, sqnorm

    def _codes(self, C: np.ndarray, sqnorm: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
        options = {"tol": self.tol, "max_iter": self.max_iter, "device": self.device}
        result = lasso_gram(self.gram_, C, sqnorm, self.penalty, start=start, **options)
        self.n_iter_ = result.n_iter
        late = int(np.sum(result.gaps > self.tol * sqnorm))
        worst = np.max(result.gaps / np.maximum(sqnorm, 1e-300))
        if late:
            warnings.warn(
                f"{type(self).__name__}: {late} of {len(sqnorm)} codes reached max_iter={self.max_iter} with a "
                f"relative duality gap up to {worst:.1e}; increase max_iter or tol",
                ConvergenceWarning,
                stacklevel=4,
            )
        return result.codes

    def _residuals(self, codes: np.ndarray, C: np.ndarray) -> np.ndarray:
        """Squared residuals (n_classes, T), minus the squared norm of the test point, which is the same for all classes."""
        residuals = np.empty((len(self.classes_), C.shape[1]))
        for c in range(len(self.classes_)):
            own = self._labels == c
            a = codes[own]
            residuals[c] = np.einsum("nt,nt->t", a, self.gram_[np.ix_(own, own)] @ a - 2 * C[own])
        return residuals

    def _decide_pairs(self, values: np.ndarray) -> np.ndarray:
        C, sqnorm = self._targets(values)
        return self._residuals(self._codes(C, sqnorm), C).argmin(axis=0)

    def sparse_codes(self, X: Any) -> np.ndarray:
        """Codes (n_matrices, n_train) of the SPD matrices X over the training set."""
        check_is_fitted(self)
        fitted = self._as_fitted()
        C, sqnorm = fitted._targets(fitted.against_training(X))
        return fitted._codes(C, sqnorm).T

    def validate(
        self, prepared: Factors, y: np.ndarray, train: np.ndarray, test: np.ndarray, points: list[dict[str, Any]]
    ) -> list[float]:
        """As in the base class; grid points with the same kernel share its factors, and start from each other's codes."""
        (values,) = prepared
        within, across = values[np.ix_(train, train)], values[np.ix_(test, train)]
        scores = [0.0] * len(points)
        groups: dict[tuple[Any, ...], list[int]] = {}
        for p, point in enumerate(points):
            groups.setdefault(tuple((k, v) for k, v in sorted(point.items()) if k != "penalty"), []).append(p)
        for members in groups.values():
            model = self._at(points[members[0]])
            model._learn_pairs(within, model.checked_labels(y[train], len(train)))
            C, sqnorm = model._targets(across)
            codes = None
            for p in sorted(members, key=lambda p: -points[p].get("penalty", self.penalty)):
                model.penalty = points[p].get("penalty", self.penalty)
                codes = model._codes(C, sqnorm, codes)
                chosen = model.classes_[model._residuals(codes, C).argmin(axis=0)]
                scores[p] = float(np.mean(chosen == y[test]))
        return scores


class _WidthKernel(KernelSparseCoder):
    """Kernels `exp(-beta d2)`, with beta given or relative to the mean squared distance of the training pairs."""

    beta: float | None
    beta_scale: float

    def _set_width(self, values: np.ndarray) -> None:
        for name, value in (("beta", self.beta), ("beta_scale", self.beta_scale)):
            if value is not None:
                check_number(name, value, low=0.0, above=True)
        if self.beta is not None:
            self.beta_ = float(self.beta)
            return
        mean = values.sum() / (len(values) * (len(values) - 1))
        if not mean > 0:
            raise ValueError("all training matrices are identical, so beta cannot be estimated; set beta")
        self.beta_ = check_number("beta_scale / mean squared distance", self.beta_scale / mean, low=0.0, above=True)

    def _gaussian(self, values: np.ndarray, *, train: bool) -> np.ndarray:
        if not train and self.normalize:
            # only the direction of a test point matters, so scale its largest similarity to 1: no underflow
            values = values - values.min(axis=1, keepdims=True)
        with np.errstate(over="ignore"):  # a similarity of zero
            return np.exp(-self.beta_ * values)


@savable("classes_", "gram_", "_whiten", "_factors", "_labels", "beta_")
class RSR(_WidthKernel):
    """Riemannian sparse representation: sparse coding with the Stein kernel `k(X, Y) = exp(-beta S(X, Y))`.

    `S = logdet((X+Y)/2) - (logdet X + logdet Y)/2`; a test point x has the code
    `min_a |phi(x) - Phi a|^2 + penalty |a|_1` over the training set and the label of the class with the
    smallest residual. The kernel is positive definite only for beta in {1/2, 1, ..., (n-2)/2} or beta >= (n-1)/2;
    otherwise a negative part of its spectrum, if the data have one, is removed with a warning.

    Parameters
    ----------
    penalty : float
        Weight lambda of the l1 norm.
    beta : float, optional
        Width of the kernel; by default `beta_scale` over the mean divergence of the training pairs.
    beta_scale : float
    normalize : bool
        Scale test points to unit length in the span of the training set, as public code does, so that `penalty` has
        the same effect on near and far points. Without it, all codes are zero for a narrow kernel.
    tol : float
        Duality gap of the codes, relative to the test point's squared norm.
    max_iter : int
    device : optional
        Device to compute divergences and codes on, e.g. "cuda" (needs PyTorch). By default the host.

    Attributes
    ----------
    beta_ : float
    gram_ : (N, N)
        Kernel matrix of the training set, negative part removed.
    classes_, n_features_in_, n_iter_

    Examples
    --------
    >>> from spdsl import RSR
    >>> from spdsl.datasets import load_digit_sets
    >>> X, y = load_digit_sets()
    >>> model = RSR().fit(X[::20], y[::20])
    >>> model.predict(X[[1, 401]]).tolist()
    [0, 4]
    """

    def __init__(
        self,
        *,
        penalty: float = 1e-2,
        beta: float | None = None,
        beta_scale: float = 1.0,
        normalize: bool = True,
        tol: float = 1e-6,
        max_iter: int = 1000,
        device: Any = None,
    ) -> None:
        self.penalty = penalty
        self.beta = beta
        self.beta_scale = beta_scale
        self.normalize = normalize
        self.tol = tol
        self.max_iter = max_iter
        self.device = device

    def _factor(self, X: Array) -> tuple[Array, ...]:
        return get_metric("stein").factor(X)

    def _cross(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> Array:
        return get_metric("stein").cross(FA, FB)

    def _kernel(self, values: np.ndarray, *, train: bool) -> np.ndarray:
        return self._gaussian(values, train=train)

    def _judge_spectrum(self, w: np.ndarray) -> None:
        n = self.n_features_in_
        if w[0] < -1e-10 * w[-1]:
            safe = "{" + ", ".join(f"{b / 2:g}" for b in range(1, n - 1)[:3]) + f", ..., {(n - 2) / 2:g}" + "} or "
            warnings.warn(
                f"the Stein kernel is not positive definite at beta={self.beta_:.4g} (smallest eigenvalue {w[0]:.2g} "
                f"against largest {w[-1]:.2g}); its negative part is removed. Safe for {n} x {n} matrices: beta in "
                f"{safe if n > 2 else ''}beta >= {(n - 1) / 2:g}",
                UserWarning,
                stacklevel=5,
            )


@savable("classes_", "gram_", "_whiten", "_factors", "_labels")
class LEK(_WidthKernel):
    """Log-Euclidean kernels with sparse coding; `T = log X`, `s = <T_i, T_j> / (|T_i| |T_j|)`.

    ======== ===============================
    kernel   k(X_i, X_j)
    ======== ===============================
    poly     `s^degree`
    exp      `exp(s^degree)`
    gauss    `exp(-beta |T_i - T_j|^2)`
    ======== ===============================

    All three are positive semidefinite for every integer degree, odd ones included: entrywise products and power
    series with positive coefficients of a positive semidefinite matrix. Coding and classification are as in `RSR`.

    Parameters
    ----------
    kernel : {"poly", "exp", "gauss"}
    degree : int
        For "poly" and "exp".
    penalty, beta, beta_scale, normalize, tol, max_iter, device
        As in `RSR`; `beta` and `beta_scale` are for "gauss" only.

    Attributes
    ----------
    beta_ : float
        For "gauss".
    gram_, classes_, n_features_in_, n_iter_

    Examples
    --------
    >>> from spdsl import LEK
    >>> from spdsl.datasets import load_digit_sets
    >>> X, y = load_digit_sets()
    >>> model = LEK("gauss").fit(X[::20], y[::20])
    >>> model.predict(X[[1, 401]]).tolist()
    [0, 4]
    """

    def __init__(
        self,
        kernel: Literal["poly", "exp", "gauss"] = "gauss",
        *,
        degree: int = 5,
        penalty: float = 1e-2,
        beta: float | None = None,
        beta_scale: float = 1.0,
        normalize: bool = True,
        tol: float = 1e-6,
        max_iter: int = 1000,
        device: Any = None,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.penalty = penalty
        self.beta = beta
        self.beta_scale = beta_scale
        self.normalize = normalize
        self.tol = tol
        self.max_iter = max_iter
        self.device = device

    def _factor(self, X: Array) -> tuple[Array, ...]:
        check_choice("kernel", self.kernel, ("poly", "exp", "gauss"))
        T = log_vectors(X)
        if self.kernel == "gauss":
            return (T,)
        xp = namespace(T)
        length = xp.linalg.vector_norm(T, axis=1, keepdims=True)
        return (
            T / xp.where(length > 0, length, xp.ones_like(length)),
        )  # log I = 0 has no direction: cosine 0 with everything

    def _cross(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> Array:
        if self.kernel == "gauss":
            return get_metric("lem").cross(FA, FB)
        return (FA[0] @ FB[0].mT).clip(-1.0, 1.0)

    def _set_width(self, values: np.ndarray) -> None:
        if self.kernel == "gauss":
            super()._set_width(values)
        else:
            check_count("degree", self.degree, low=1)

    def _kernel(self, values: np.ndarray, *, train: bool) -> np.ndarray:
        if self.kernel == "gauss":
            return self._gaussian(values, train=train)
        power = values**self.degree
        return power if self.kernel == "poly" else np.exp(power)
