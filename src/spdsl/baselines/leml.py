"""Log-Euclidean metric learning: a metric on matrix logarithms from constraints on pairs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.linalg
import scipy.optimize
from sklearn.base import TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from spdsl import backend
from spdsl.backend import one_blas_thread
from spdsl.baselines.pairwise import Factors, SPDClassifier, log_vectors
from spdsl.data.parameters import check_choice, check_count, check_number, check_seed
from spdsl.estimators.base import KeptInterrupt
from spdsl.geometry import get_metric
from spdsl.models import savable

STIFFEST = 1e12  # larger eta and zeta change the thresholds by less than rounding, or overflow
LARGEST = 700.0  # exponentials of larger numbers overflow


@savable("classes_", "components_", "_root", "_train", "_labels")
class LEML(TransformerMixin, SPDClassifier):
    """Log-Euclidean metric learning: `d_Q(X_i, X_j) = tr(Q (T_i - T_j)^2)`, `T = log X`, Q symmetric positive definite.

    Minimizes `LogDet(Q, I) + eta LogDet(xi, xi_0)` subject to `d_Q <= xi` for pairs of one class and `d_Q >= xi` for
    pairs of two, by cyclic Bregman projections; classifies by the nearest neighbor under d_Q. A visit to a constraint
    costs one n x n product for the distance. Only if it is violated or has a multiplier, it also costs the eigenvalues
    of one matrix, a Cholesky factor and three products ("exact"), or one product ("closed-form"). A sweep visits
    every pair once.

    Parameters
    ----------
    n_components : int, optional
        Keep the part of Q along its leading m eigenvectors. By default all of Q.
    eta : float
        Weight of the slack; large values enforce the thresholds.
    zeta : float
        Thresholds are the mean of the training pairs' squared distances, less (same class) or plus (different) this
        many standard deviations.
    update : {"exact", "closed-form"}
        "exact" projects by a scalar root; "closed-form" is the published update, which is exact only for constraints of
        rank one. Its steps that would make Q indefinite are skipped.
    max_pairs : int, optional
        At most this many pairs of one class, drawn at random; by default all. As many pairs of different classes are used.
    max_iter : int
        Maximum number of sweeps.
    tol : float
        Converged when the multipliers change by less than this fraction in a sweep.
    random_state : int, RandomState or None
        Seed of the draw of pairs.
    device : optional
        Device to compute the logarithms on, e.g. "cuda" (needs PyTorch). The projections, one after the other, stay on the
        host.

    Attributes
    ----------
    metric_ : (n, n)
        Q, of rank m if reduced.
    components_ : (n, m)
        Leading eigenvectors of Q, each scaled by the fourth root of its eigenvalue: the tangent map is `T -> W'TW`.
    status_ : {"converged", "max_iter", "infeasible", "interrupted"}
        "infeasible": equal matrices have different labels, which no Q can separate; such pairs are ignored.
    message_ : str
    n_iter_ : int
        Number of sweeps.
    n_pairs_ : int
    classes_, n_features_in_

    Examples
    --------
    >>> from spdsl import LEML
    >>> from spdsl.datasets import load_digit_sets
    >>> X, y = load_digit_sets()
    >>> model = LEML(max_iter=5).fit(X[::20], y[::20])
    >>> model.predict(X[[1, 401]]).tolist()
    [0, 4]
    """

    tuning_params: ClassVar[dict[str, Any]] = {"max_iter": 2, "max_pairs": 50, "random_state": 0}
    pair_arrays = 6

    def __init__(
        self,
        n_components: int | None = None,
        *,
        eta: float = 1.0,
        zeta: float = 0.1,
        update: Literal["exact", "closed-form"] = "exact",
        max_pairs: int | None = None,
        max_iter: int = 20,
        tol: float = 1e-2,
        random_state: Any = None,
        device: Any = None,
    ) -> None:
        self.n_components = n_components
        self.eta = eta
        self.zeta = zeta
        self.update = update
        self.max_pairs = max_pairs
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.device = device

    def _prepare(self, X: np.ndarray) -> Factors:
        T = backend.to_numpy(log_vectors(self._on_device(X)))
        return (T.reshape(X.shape),)

    def _learn(self, factors: Factors, labels: np.ndarray) -> None:
        (T,) = factors
        self._check_params(T.shape[-1])
        pairs = self._constraints(T, labels)
        with one_blas_thread:
            Q = self._sweeps(T, pairs)
        w, V = np.linalg.eigh(Q)
        m = self.n_components or len(w)
        w, V = np.maximum(w[::-1][:m], 0.0), V[:, ::-1][:, :m]
        self.metric_ = (V * w) @ V.T
        self.components_ = V * w**0.25
        self._root = V * np.sqrt(w)
        self._train, self._labels = self._embed(T), labels
        if self.status_ == "interrupted":
            raise KeptInterrupt

    def fit(self, X: Any, y: Any) -> Self:
        """Learn Q from the SPD matrices X (n_matrices, n, n) and their labels.

        Ctrl-C during the sweeps keeps the current Q, sets `status_` to "interrupted", and raises KeyboardInterrupt.
        """
        super().fit(X, y)
        if self.status_ != "converged":
            warnings.warn(f"LEML: {self.message_}", ConvergenceWarning, stacklevel=2)
        return self

    def _check_params(self, n: int) -> None:
        check_choice("update", self.update, ("exact", "closed-form"))
        check_number("eta", self.eta, low=1 / STIFFEST, high=STIFFEST)
        check_number("zeta", self.zeta, low=-STIFFEST, high=STIFFEST)
        check_number("tol", self.tol, low=0.0, above=True)
        check_count("max_iter", self.max_iter, low=0)
        if self.max_pairs is not None:
            check_count("max_pairs", self.max_pairs, low=1)
        if self.n_components is not None:
            check_count("n_components", self.n_components, low=1, high=n, remedy=f", the size {n} of the matrices")

    def _constraints(self, T: np.ndarray, labels: np.ndarray) -> _Constraints:
        rng = check_seed(self.random_state)
        i, j = np.triu_indices(len(labels), 1)
        lem = get_metric("lem")
        flat = T.reshape(len(T), -1)
        d2 = lem.cross((flat,), (flat,))[i, j]
        same = labels[i] == labels[j]
        impossible = ~same & (d2 <= 1e-14 * d2.max())
        alike = _draw(np.flatnonzero(same & (d2 > 0)), self.max_pairs, rng)
        apart = _draw(np.flatnonzero(~same & ~impossible), max(len(alike), 1), rng)
        chosen = np.sort(np.concatenate([alike, apart]))
        low, high = d2.mean() - self.zeta * d2.std(), d2.mean() + self.zeta * d2.std()
        if not low > 0:
            raise ValueError(
                f"zeta={self.zeta} puts the threshold of same-class pairs at {low:.3g}; use a smaller zeta"
            )
        self.n_pairs_, self._n_impossible = len(chosen), int(impossible.sum())
        return _Constraints(i[chosen], j[chosen], same[chosen], np.where(same[chosen], low, high))

    def _sweeps(self, T: np.ndarray, pairs: _Constraints) -> np.ndarray:
        """Project onto one constraint after the other until the multipliers converge."""
        project = project_exact if self.update == "exact" else project_closed_form
        Q = np.eye(T.shape[-1])
        xi, multiplier = pairs.xi.copy(), np.zeros(len(pairs.xi))
        self.status_, self.n_iter_ = "max_iter", 0
        for sweep in range(1, self.max_iter + 1):
            before = multiplier.copy()
            try:
                for p in range(len(xi)):
                    D = T[pairs.i[p]] - T[pairs.j[p]]
                    Q, xi[p], multiplier[p] = project(Q, D, xi[p], multiplier[p], self.eta, bool(pairs.same[p]))
            except KeyboardInterrupt:
                self.status_ = "interrupted"
                break
            self.n_iter_ = sweep
            if np.abs(multiplier - before).sum() <= self.tol * max(np.abs(multiplier).sum(), np.finfo(float).tiny):
                self.status_ = "converged"
                break
        self.message_ = f"{self.status_} after {self.n_iter_} sweeps over {len(xi)} pairs"
        if self.status_ == "max_iter":
            self.message_ += "; increase max_iter or tol, or decrease eta"
        if self._n_impossible and self.status_ != "interrupted":
            self.status_ = "infeasible"
            self.message_ += f"; {self._n_impossible} pairs of equal matrices have different labels and were ignored"
        return Q

    def _embed(self, T: np.ndarray) -> np.ndarray:
        """Rows (N, n m) whose squared Euclidean distances are d_Q: `tr(Q D^2) = |D Q^1/2|^2`."""
        return (T @ self._root).reshape(len(T), -1)

    def _decide(self, factors: Factors) -> np.ndarray:
        return self._labels[get_metric("euclid").cross((self._embed(factors[0]),), (self._train,)).argmin(axis=1)]

    def transform(self, X: Any) -> np.ndarray:
        """Reduced SPD matrices `exp(W' log(X) W)` (n_matrices, m, m), W = `components_`."""
        check_is_fitted(self)
        (T,) = self._prepare(self._checked_numpy(X))
        w, V = np.linalg.eigh(self.components_.T @ T @ self.components_)
        if not np.abs(w).max() < LARGEST:
            raise ValueError(
                f"the reduced logarithms reach {np.abs(w).max():.3g}, whose exponential overflows; divide X by its "
                f"mean trace, and fit again"
            )
        return (V * np.exp(w)[:, None, :]) @ V.mT


@dataclass(frozen=True)
class _Constraints:
    """Pairs (i, j), whether they share a class, and their thresholds xi_0."""

    i: np.ndarray
    j: np.ndarray
    same: np.ndarray
    xi: np.ndarray


def _draw(index: np.ndarray, count: int | None, rng: np.random.RandomState) -> np.ndarray:
    """At most `count` of the indices, without replacement."""
    return index if count is None or count >= len(index) else rng.choice(index, count, replace=False)


Projected = tuple[np.ndarray, float, float]


def project_exact(Q: np.ndarray, D: np.ndarray, xi: float, multiplier: float, eta: float, same: bool) -> Projected:
    """Bregman projection of (Q, xi) onto `tr(Q D^2) <= xi` (same) or `>= xi`, given the current multiplier.

    `Q+ = (Q^-1 + a D^2)^-1`, `xi+ = eta xi / (eta - a xi)`; a is the root of
    `sum lam/(1 + a lam) = eta xi/(eta - a xi)`, lam the eigenvalues of `Q^1/2 D^2 Q^1/2`, clipped so that the
    multiplier does not change sign. Returns Q, xi and the multiplier.
    """
    sign = 1.0 if same else -1.0
    QD = Q @ D
    distance = float(np.vdot(QD, D))
    if multiplier == 0 and sign * (distance - xi) <= 0:
        return Q, xi, multiplier
    # DQD has the eigenvalues of Q^1/2 D^2 Q^1/2, and Q+ = Q - a QD (I + a DQD)^-1 DQ needs no roots or eigenvectors
    DQD = D @ QD
    lam = np.maximum(np.linalg.eigvalsh(DQD), 0.0)
    step = _root(lam, xi, eta)
    step = sign * max(sign * step, -multiplier)
    L = np.linalg.cholesky(np.eye(len(Q)) + step * DQD)
    B = scipy.linalg.solve_triangular(L, QD.T, lower=True, check_finite=False)
    return Q - step * (B.T @ B), eta * xi / (eta - step * xi), multiplier + sign * step


def _root(lam: np.ndarray, xi: float, eta: float) -> float:
    """The root in (-1/max lam, eta/xi), where the difference of the two sides falls from +infinity to -infinity."""

    def difference(a: float) -> float:
        return float(np.sum(lam / (1 + a * lam))) - eta * xi / (eta - a * xi)

    low, high = -1.0 / float(lam.max()), eta / xi
    inset = 1e-12
    while difference(low * (1 - inset)) < 0 or difference(high * (1 - inset)) > 0:
        inset /= 10
        if inset < 1e-16:
            return low * (1 - 1e-12) if difference(low * (1 - 1e-12)) < 0 else high * (1 - 1e-12)
    return float(scipy.optimize.brentq(difference, low * (1 - inset), high * (1 - inset), xtol=1e-300, rtol=1e-14))


def project_closed_form(
    Q: np.ndarray, D: np.ndarray, xi: float, multiplier: float, eta: float, same: bool
) -> Projected:
    """The published update: the projection for constraints of rank one, applied to `D^2` of full rank.

    `a = min(multiplier, delta/2 (1/p - eta/xi))`, `p = tr(Q D^2)`, delta = 1 (same) or -1;
    `b = delta a/(1 - delta a p)`; `Q+ = Q + b Q D^2 Q`, `xi+ = eta xi/(eta + delta a xi)`.
    """
    delta = 1.0 if same else -1.0
    QD = Q @ D
    p = float(np.vdot(QD, D))
    a = min(multiplier, delta / 2 * (1 / p - eta / xi))
    if a == 0:
        return Q, xi, multiplier
    b = delta * a / (1 - delta * a * p)
    new = Q + b * (QD @ QD.T)
    if b < 0 and np.linalg.eigvalsh(new)[0] <= 0:
        return Q, xi, multiplier
    return new, eta * xi / (eta + delta * a * xi), multiplier - a
