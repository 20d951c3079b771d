"""Recentering of groups of SPD matrices."""

from __future__ import annotations

import math
import warnings
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from spdsl import backend
from spdsl.backend import Array, namespace, symmetric
from spdsl.data.labels import as_names, check_labels, check_missing, known_labels
from spdsl.data.parameters import check_count
from spdsl.estimators.base import SPDEstimator
from spdsl.geometry.means import MEANS, geodesic, inverse_root, logm, mean_name
from spdsl.geometry.procrustes import procrustes
from spdsl.models import savable

FEW = 10  # the mean of N is off by 1/N of the group's spread: below ten, by more than a tenth
UNBALANCED = 0.25  # part of the matrices that would have to change their class for the usual proportions
ROUNDS = 3  # of rotating the training groups to common class means, and taking these again


class RecenterWarning(UserWarning):
    """The mean of a group is too uncertain for recentering, or depends more on its classes than on the group."""


@savable("groups_", "means_", "counts_", "_metric")
class Recenter(TransformerMixin, SPDEstimator):
    """Move every group of matrices to the identity: `M^-1/2 X M^-1/2` with the mean M of its group.

    A group is anything that shifts all of its matrices alike: a session, a subject, a camera. Groups seen in `fit` or
    `partial_fit` keep the mean computed there. Any other group is moved by the mean of its matrices in the call of
    `transform`: pass a new session as a whole, or pass each matrix to `partial_fit` first. Labels are not needed.

    Without `groups` all matrices of a call are one group, the same in every call; where `fit` was given groups, the matrices
    of a later call without them are a new group.

    Parameters
    ----------
    metric : {"riemann", "logeuclid"}
        Metric of the mean.
    rotate : bool
        Also rotate each group that has labels so that its class means come closest to those of all training groups
        (Procrustes, as in Rodrigues et al. 2019). `fit` needs `y` then; labels of a new group are given to `partial_fit`.
    prior : int
        Number of matrices that the mean of the training groups counts for in the running mean of a new group. With 0 the
        first matrix of a group is its mean, and becomes the identity.

    Attributes
    ----------
    groups_ : list
        Names of the groups; None is the group without a name.
    means_ : (n_groups, n, n) or (n_groups, b, n, n)
    counts_ : (n_groups,)
        Number of matrices in each mean.
    rotations_ : as `means_`, only with `rotate`

    Warns
    -----
    RecenterWarning
        A group has fewer than 10 matrices, or a mix of classes that differs from that of the others by more than a quarter:
        its mean is closer to its frequent classes, and recentering can do more harm than good (pyRiemann's
        issue 490).

    Notes
    -----
    `groups` is requested by default where scikit-learn's metadata routing is enabled: in a Pipeline, pass `groups` to its
    `fit`, `predict` and `score`, or as `params={"groups": groups}` to `cross_val_score`.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl import Recenter, riemannian_mean
    >>> F = np.random.default_rng(0).standard_normal((20, 2, 9))
    >>> X, sessions = F @ F.mT, ["monday"] * 10 + ["tuesday"] * 10
    >>> moved = Recenter().fit_transform(X, groups=sessions)
    >>> np.allclose(riemannian_mean(moved[:10]), np.eye(2))
    True
    """

    _takes_blocks = True
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True}
    __metadata_request__partial_fit: ClassVar[dict[str, bool]] = {"groups": True}
    __metadata_request__transform: ClassVar[dict[str, bool]] = {"groups": True}

    def __init__(self, metric: str = "riemann", *, rotate: bool = False, prior: int = 5) -> None:
        self.metric = metric
        self.rotate = rotate
        self.prior = prior

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Take the mean of every group of X (n_matrices, n, n); earlier groups are forgotten.

        Parameters
        ----------
        X : (n_matrices, n, n) or (n_samples, b, n, n)
        y : (n_samples,), optional
            Classes, to see whether groups are mixed alike, and for `rotate`.
        groups : (n_samples,), optional
            Group of each sample, strings or numbers.
        """
        with self._whole():
            self._fit(X, y, groups)
        return self

    def _fit(self, X: Any, y: Any, groups: Any) -> None:
        X = self._check_X(X, reset=True)
        self._start()
        names, member = _read_groups(groups, X.shape[0])
        self.groups_ = names
        parts = [np.flatnonzero(member == k) for k in range(len(names))]
        self.counts_ = np.array([len(part) for part in parts])
        for name, part in zip(names, parts, strict=True):
            _warn_if_few(name, len(part))
        self.means_ = _stack([self._mean(X[part]) for part in parts], X)
        self._origin = self._mean(self.means_)
        if y is None:
            if self._rotates:
                raise ValueError("rotate=True needs y: pass the classes of the samples, or rotate=False")
        elif self._rotates or _are_classes(y):
            self.classes_, labels = check_labels(y, X.shape[0])
            _warn_if_unbalanced(names, _crosstab(member, labels, len(names), len(self.classes_)))
            if self._rotates:
                self._fit_rotations(X, member, labels)

    def partial_fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Move the running means of groups along the geodesic to the matrices X (n_matrices, n, n), one or many.

        A group that is not known yet starts here; see `prior`. With `rotate` and `y` its rotation follows.
        """
        with self._whole():
            first = not hasattr(self, "groups_")
            if first and self.rotate:
                raise ValueError("rotate=True needs a fit with y before partial_fit: there is nothing to rotate to yet")
            X = self._check_X(X, reset=first)
            if first:
                self._start()
                self.groups_, self.means_, self.counts_ = [], X[:0], np.zeros(0, dtype=int)
            names, member = _read_groups(groups, X.shape[0])
            labels = None if y is None or not self._rotates else known_labels(y, self.classes_, X.shape[0])
            self.groups_, self.means_, self.counts_ = list(self.groups_), backend.copy(self.means_), self.counts_.copy()
            for k, name in enumerate(names):
                part = np.flatnonzero(member == k)
                self._add(name, X[part], None if labels is None else labels[part])
        return self

    def transform(self, X: Any, *, groups: Any = None) -> Array:
        """Recentered matrices, in the shape of X.

        Parameters
        ----------
        X : (n_matrices, n, n) or (n_samples, b, n, n)
        groups : (n_samples,), optional
        """
        check_is_fitted(self, "groups_")
        return self._move(self._check_X(X), *_read_groups(groups, len(X)))

    def fit_transform(self, X: Any, y: Any = None, *, groups: Any = None) -> Array:
        """`fit`, then `transform` of the same matrices."""
        return self.fit(X, y, groups=groups).transform(X, groups=groups)

    # ------------------------------------------------------------------------------------------------------------ means

    def _start(self) -> None:
        """Resolve the parameters: what is fitted does not read them again."""
        self._metric = mean_name(self.metric)
        if not isinstance(self.rotate, bool | np.bool_):
            raise ValueError(f"rotate must be True or False, got {self.rotate!r}")
        self._rotates = bool(self.rotate)
        self._prior = check_count("prior", self.prior, low=0)
        for name in ("classes_", "rotations_", "_origin", "_reference", "_class_means", "_class_counts"):
            if hasattr(self, name):
                delattr(self, name)

    def _mean(self, X: Array) -> Array:
        """Mean of matrices (N, n, n), or of each block (N, b, n, n)."""
        mean = MEANS[self._metric]
        blocks = _blocks(X)
        return namespace(X).stack([mean(blocks[:, k]) for k in range(blocks.shape[1])]).reshape(X.shape[1:])

    def _toward(self, M: Array, X: Array, count: int) -> Array:
        """The mean M of `count` matrices once those of X have joined them."""
        goal, share = self._mean(X), X.shape[0] / (count + X.shape[0])
        pairs = zip(_blocks(M[None])[0], _blocks(goal[None])[0], strict=True)
        steps = [geodesic(a, b, share, metric=self._metric) for a, b in pairs]
        return namespace(X).stack(steps).reshape(M.shape)

    def _add(self, name: Any, X: Array, labels: np.ndarray | None) -> None:
        """Matrices of one group that have arrived."""
        if name in self.groups_:
            k = self.groups_.index(name)
            M, count = backend.like(self.means_[k], X), int(self.counts_[k])
        else:
            k, prior = len(self.groups_), self._prior if hasattr(self, "_origin") else 0
            M, count = (backend.like(self._origin, X), prior) if prior else (None, 0)
            self.groups_ = [*self.groups_, name]
            self.means_ = _stack([*self.means_, X[0]], X)
            self.counts_ = np.append(self.counts_, 0)
            if self._rotates:
                self._add_rotation(X)
        self.means_[k] = backend.like(self._mean(X) if M is None else self._toward(M, X, count), self.means_)
        self.counts_[k] = count + X.shape[0]
        if labels is not None:
            self._add_labeled(k, X, labels)

    def _move(self, X: Array, names: list[Any], member: np.ndarray) -> Array:
        """Checked matrices, each moved by the mean of its group."""
        out = backend.empty(tuple(X.shape), X)
        for k, name in enumerate(names):
            part = np.flatnonzero(member == k)
            G = backend.like(self._map(name, X, part), X)
            out[part] = backend.over_blocks(lambda P, G=G: symmetric(G.mT @ P @ G), backend.double(X[part]))
        return out

    def _map(self, name: Any, X: Array, part: np.ndarray) -> Array:
        """The G of `G' X G` for one group."""
        if name not in self.groups_:
            if len(part) == 1:
                raise ValueError(
                    f"{_called(name)} is not known from fit and comes as a single matrix, which would become the identity; "
                    f"transform more of its matrices at once, or give each to partial_fit(X, groups=...) as it arrives"
                )
            _warn_if_few(name, len(part))
            return _inverse_roots(self._mean(X[part]))
        k = self.groups_.index(name)
        G = _inverse_roots(self.means_[k])
        return G @ self.rotations_[k] if self._rotates else G

    # --------------------------------------------------------------------------------------------------------- rotations

    def _fit_rotations(self, X: Array, member: np.ndarray, labels: np.ndarray) -> None:
        """Class means of every group, and the rotations that bring them together."""
        g, c = len(self.groups_), len(self.classes_)
        self._class_counts = _crosstab(member, labels, g, c)
        self._class_means = _stack([self.means_] * c, X)  # of a class that a group lacks, any: its weight is zero
        self._class_means = (
            namespace(X).permute_dims(self._class_means, (1, 0, *range(2, self._class_means.ndim))) + 0.0
        )
        for k, j in np.argwhere(self._class_counts).tolist():
            self._class_means[k, j] = self._mean(X[np.flatnonzero((member == k) & (labels == j))])
        self.rotations_ = _identities(self.means_)
        most = self._first_reference()
        for turn in range(ROUNDS):
            logs = _stack([self._class_logs(k) for k in range(g)], X)
            w = self._class_counts.astype(float)
            if turn == 0:
                w[:, w[most] > 0] *= (np.arange(g) == most)[:, None]
            w = backend.like((w / w.sum(axis=0)).reshape(g, c, *[1] * (logs.ndim - 2)), X)
            self._reference = namespace(X).sum(w * logs, axis=0)
            for k in range(g):
                self.rotations_[k] = self._rotation(k)

    def _first_reference(self) -> int:
        """The group to which all are rotated first: most matrices in its rarest class, most in all, first name."""
        rarest, all_of_them = self._class_counts.min(axis=1), self._class_counts.sum(axis=1)
        return min(range(len(rarest)), key=lambda k: (-rarest[k], -all_of_them[k], str(self.groups_[k])))

    def _class_logs(self, k: int, *, rotated: bool = True) -> Array:
        """Logarithms of the class means of group k (c, [b,] n, n), recentered and rotated."""
        G = _inverse_roots(self.means_[k])
        G = G @ self.rotations_[k] if rotated else G
        moved = symmetric(G.mT @ self._class_means[k] @ G)
        n = moved.shape[-1]
        return logm(moved.reshape(-1, n, n)).reshape(moved.shape)

    def _rotation(self, k: int) -> Array:
        """The rotation of group k to the reference, each block by itself."""
        A, B = _blocks(self._reference), _blocks(self._class_logs(k, rotated=False))
        w = backend.like(self._class_counts[k] / self._class_counts[k].sum(), A)
        turns = [procrustes(A[:, b], B[:, b], w) for b in range(A.shape[1])]
        return namespace(A).stack(turns).reshape(self.means_.shape[1:])

    def _add_rotation(self, X: Array) -> None:
        """Room for a group that has no labels yet."""
        rows = [*self._class_means, _stack([self.means_[-1]] * len(self.classes_), X)]
        self._class_means = _stack(rows, X)
        self._class_counts = np.vstack([self._class_counts, np.zeros(len(self.classes_), dtype=int)])
        self.rotations_ = _stack([*self.rotations_, _identities(self.means_[-1:])[0]], X)

    def _add_labeled(self, k: int, X: Array, labels: np.ndarray) -> None:
        """Let the class means of group k, and its rotation, follow labeled matrices."""
        self._class_means, self._class_counts = backend.copy(self._class_means), self._class_counts.copy()
        self.rotations_ = backend.copy(self.rotations_)
        for j in np.unique(labels).tolist():
            part, count = X[np.flatnonzero(labels == j)], int(self._class_counts[k, j])
            M = backend.like(self._class_means[k, j], X)
            new = self._toward(M, part, count) if count else self._mean(part)
            self._class_means[k, j] = backend.like(new, self._class_means)
            self._class_counts[k, j] += part.shape[0]
        self.rotations_[k] = self._rotation(k)


def _are_classes(y: Any) -> bool:
    """Whether y names classes, of which the mix in each group is compared, rather than being something else to predict."""
    labels = as_names(y, "y")
    if labels.ndim == 1:
        check_missing(labels)
    return type_of_target(labels) in ("binary", "multiclass")


def _read_groups(groups: Any, count: int) -> tuple[list[Any], np.ndarray]:
    """Names of the groups in order of appearance, and the group of each sample as an index."""
    if groups is None:
        return [None], np.zeros(count, dtype=int)
    array = as_names(groups, "groups")
    if array.ndim != 1:
        raise ValueError(f"groups has shape {array.shape}; pass one group for each sample, shape ({count},)")
    if len(array) != count:
        raise ValueError(f"groups has {len(array)} entries for {count} samples in X; pass one for each sample")
    values = [value.item() if isinstance(value, np.generic) else value for value in array.tolist()]
    for k, value in enumerate(values):
        if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
            raise ValueError(f"groups[{k}] is {value!r}; name every group by a string or a number")
    names = list(dict.fromkeys(values))
    index = {name: k for k, name in enumerate(names)}
    return names, np.array([index[value] for value in values], dtype=int)


def _called(name: Any) -> str:
    return "the group without a name" if name is None else f"group {name!r}"


def _warn_if_few(name: Any, count: int) -> None:
    if count < FEW:
        text = f"{_called(name)} has {count} matrices: their mean is too uncertain for recentering; use {FEW} or more"
        warnings.warn(text, RecenterWarning, stacklevel=4)


def _warn_if_unbalanced(names: list[Any], table: np.ndarray) -> None:
    """Compare the mix of classes in each group with that of the others; of a single group, with equal shares."""
    if table.shape[1] < 2:
        return
    shares = table / table.sum(axis=1, keepdims=True)
    g, c = shares.shape
    usual = (shares.sum(axis=0) - shares) / (g - 1) if g > 1 else np.full((1, c), 1 / c)
    away = np.abs(shares - usual).sum(axis=1) / 2
    k = int(np.argmax(away))
    if away[k] > UNBALANCED:
        than = "those of the other groups" if g > 1 else "equal shares"
        warnings.warn(
            f"the class proportions of {_called(names[k])} differ from {than} by {100 * away[k]:.0f} % of its matrices: its "
            f"mean lies nearer to its frequent classes, and recentering may do harm; use groups with a similar mix",
            RecenterWarning,
            stacklevel=5,
        )


def _crosstab(member: np.ndarray, labels: np.ndarray, g: int, c: int) -> np.ndarray:
    """Samples of each group and class (g, c)."""
    return np.bincount(member * c + labels, minlength=g * c).reshape(g, c)


def _blocks(X: Array) -> Array:
    """(N, n, n) or (N, b, n, n) as (N, b, n, n)."""
    return X.reshape(X.shape[0], -1, *X.shape[-2:])


def _stack(parts: list[Array], model: Array) -> Array:
    return namespace(model).stack([backend.like(part, model) for part in parts])


def _inverse_roots(M: Array) -> Array:
    """`M^-1/2` of a mean (n, n), or of each of its blocks (b, n, n)."""
    return namespace(M).stack([inverse_root(block) for block in M.reshape(-1, *M.shape[-2:])]).reshape(M.shape)


def _identities(M: Array) -> Array:
    """Identity matrices in the shape of means."""
    eye = namespace(M).eye(M.shape[-1], dtype=M.dtype, device=M.device)
    return namespace(M).zeros_like(M) + eye
