"""The nearest neighbor under a metric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spdsl import backend
from spdsl.backend import Array, modules, namespace
from spdsl.data import first_copies
from spdsl.data.bounded_search import RowSearch
from spdsl.data.labels import check_labels, known_labels
from spdsl.data.parameters import check_count
from spdsl.estimators.base import Answer, LabelScore, SPDEstimator
from spdsl.estimators.calibration import canonical_order, fit_temperature, led_by, probabilities
from spdsl.geometry import BlockSum, Metric, get_metric, metric_for, of_single
from spdsl.models import savable

Factors = tuple[Array, ...]

WORTH = 12  # pairs for each matrix to prepare from which a search with bounds is faster, whatever the size
#: searches of fitted classifiers, with the factors that they are of: no part of a model, and made again where needed
_searches: WeakKeyDictionary[Any, tuple[Factors, RowSearch]] = WeakKeyDictionary()
PREDICT_BLOCK = 256  # test matrices compared with all training matrices at a time
ANCHORS = 512  # training matrices at most that are compared with all others to calibrate probabilities
SAME = 1e-12  # squared distances below this share of the largest one are rounding error


@savable("classes_", "_labels", "_first", "_metric", "_factors", "_votes")
class SPDNearestNeighbor(LabelScore, SPDEstimator):
    """Nearest-neighbor classifier under a metric on SPD matrices.

    Probabilities fall with a power of the distance `d_c` to the nearest training matrix of a class:

        p_c ~ d_c^-t

    The power t is the one of least log-loss on training matrices, each among all others; it is found when probabilities
    are first asked for. They are no surer than the number of training matrices allows. The label of `predict` always has the
    largest one: where several neighbors vote for another class than the nearest, the two classes exchange theirs.

    Parameters
    ----------
    metric : str
        A name of `spdsl.METRICS` or an alias.
    n_neighbors : int
        Number of neighbors that vote; ties are broken in favor of the class of the nearest of them.
    device : optional
        Device to compute on, e.g. "cuda" (needs PyTorch). By default that of X.

    Attributes
    ----------
    classes_ : (n_classes,)
    n_features_in_ : int
        Size n of the matrices.

    Examples
    --------
    >>> from spdsl import SPDNearestNeighbor
    >>> from spdsl.datasets import load_digit_sets
    >>> X, y = load_digit_sets()
    >>> model = SPDNearestNeighbor("stein", n_neighbors=1).fit(X[::20], y[::20])
    >>> model.predict(X[[1, 401]]).tolist()
    [0, 4]
    """

    _takes_blocks = True

    def __init__(self, metric: str | Metric = "lem", *, n_neighbors: int = 1, device: Any = None) -> None:
        self.metric = metric
        self.n_neighbors = n_neighbors
        self.device = device

    def fit(self, X: Any, y: Any) -> Self:
        """Store the training matrices (n_matrices, n, n), prepared for the metric, and their labels."""
        with self._whole():
            return self.fit_checked(backend.to_device(self._check_X(X, reset=True), self.device), y)

    def check_parameters(self, n_matrices: int) -> None:
        """Raise where a parameter is out of range for so many training matrices."""
        check_neighbors(self.n_neighbors, n_matrices)

    def fit_checked(self, P: Array, y: Any, first: np.ndarray | None = None) -> Self:
        """Store checked matrices; `first` is the index of the first copy of each, if known."""
        self._check_size(P.shape, reset=True, name="X")
        self.check_parameters(P.shape[0])
        self.classes_, self._labels = check_labels(y, *P.shape[:-2])
        self._first = first_copies(P) if first is None else first
        self._votes = int(self.n_neighbors)
        self._metric = metric_for(get_metric(self.metric), P.shape)
        # copies: a metric may keep the matrices themselves, and the caller may change them later
        self._factors = tuple(backend.copy(part) for part in self._metric.factor(P))
        self._asked: dict[str, float] = {}  # what `predict_proba` has computed once
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Add training matrices to those of earlier calls, or of `fit`; the result is that of one `fit` on all of them.

        Parameters
        ----------
        X : (n_matrices, n, n)
        y : (n_matrices,) labels
        classes : (n_classes,), optional
            All labels that will ever come; needed in the first call, unless `fit` came before.

        Notes
        -----
        As long as there are fewer than `n_neighbors` matrices, all of them vote. Parameters set after the first call wait
        for the next `fit`.
        """
        with self._whole():
            first = not hasattr(self, "_factors")
            if first:
                if classes is None:
                    raise ValueError(
                        "classes must be given in the first call of partial_fit: all labels that will come"
                    )
                names, _ = check_labels(classes, len(classes))
                self._votes = check_count("n_neighbors", self.n_neighbors, low=1)
            elif classes is not None and set(np.asarray(classes).tolist()) != set(self.classes_.tolist()):
                raise ValueError(
                    f"classes={np.asarray(classes).tolist()} is not the same as in the first call, {self.classes_.tolist()}"
                )
            P = self._check_X(X, reset=first)
            if first:
                self.classes_, self._metric = names, metric_for(get_metric(self.metric), P.shape)
            labels = known_labels(y, self.classes_, *P.shape[:-2])
            new = tuple(backend.copy(part) for part in self._metric.factor(P))
            self._labels = labels if first else np.concatenate([self._labels, labels])
            if not first:
                new = tuple(backend.concat([a, backend.like(b, a)]) for a, b in zip(self._factors, new, strict=True))
            self._factors, self._first, self._asked = new, self._copies_of(new), {}
        return self

    def _copies_of(self, factors: Factors) -> np.ndarray:
        """The index of the first copy of each matrix, from the first factor of each block: those of copies are equal."""
        rows = [part.reshape(part.shape[0], 1, -1) for part in first_factors(self._metric, factors)]
        return first_copies(namespace(rows[0]).concat(rows, axis=-1))

    def kneighbors(self, X: Any) -> tuple[Array, Array]:
        """Squared distances and indices (n_matrices, n_neighbors) of the nearest training matrices, nearest first."""
        check_is_fitted(self, "_factors")
        return self._nearest(self._check_X(X))

    def _nearest(self, X: Array) -> tuple[np.ndarray, np.ndarray]:
        """`kneighbors` of checked matrices."""
        X = backend.to_device(X, self.device)
        metric, count = self._metric, self._votes
        sqdist, found = self._distances(X), []
        for start in range(0, X.shape[0], PREDICT_BLOCK):
            d2 = sqdist(metric.factor(X[start : start + PREDICT_BLOCK]), count)
            d2 = d2[:, self._first]  # copies must tie exactly, but blocked products may round differently
            # a stable sort resolves ties to the first training sample
            order = np.argsort(d2, axis=1, kind="stable")[:, :count]
            found.append((np.take_along_axis(d2, order, axis=1), order))
        return np.concatenate([d for d, _ in found]), np.concatenate([k for _, k in found])

    def _distances(self, X: Array) -> Callable[[Factors, int], np.ndarray]:
        """The function of factors that gives distances to all training matrices, or enough of them for the nearest."""
        metric, known = self._metric, _searches.get(self)
        train = tuple(backend.like(part, X) for part in self._factors)
        if known is not None and known[0] is self._factors and known[1].factors[0].device == X.device:
            new = 0  # training matrices to prepare
        else:
            known, new = None, train[0].shape[0]
        pairs = X.shape[0] * train[0].shape[0]
        if not metric.bounded or pairs < WORTH * (X.shape[0] + new):
            return lambda F, count: backend.to_numpy(metric.cross(F, train))
        if known is None:
            known = self._factors, RowSearch(metric, train, self._first == np.arange(len(self._first)))
            _searches[self] = known
        return known[1]

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n_matrices,) of the matrices X (n_matrices, n, n)."""
        index = self.kneighbors(X)[1]
        return self.classes_[self._vote(index)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n_matrices, n_classes) of the matrices X (n_matrices, n, n)."""
        check_is_fitted(self, "_factors")
        return self._probabilities(self._check_X(X))

    def answer(self, P: Array, kind: Answer) -> np.ndarray:
        """Result of the given method for checked matrices."""
        return self._probabilities(P) if kind == "predict_proba" else self.classes_[self._vote(self._nearest(P)[1])]

    def _probabilities(self, X: Array) -> np.ndarray:
        """`predict_proba` of checked matrices."""
        X = backend.to_device(X, self.device)
        known = self.__dict__.setdefault("_asked", {})  # a model saved by an older version has none
        if "power" not in known:
            known["power"] = self._power()
        found = []
        for start in range(0, X.shape[0], PREDICT_BLOCK):
            d2 = self._sqdist(self._metric.factor(X[start : start + PREDICT_BLOCK]))
            P = probabilities(self._closeness(d2), known["power"], len(self._labels))
            order = np.argsort(d2, axis=1, kind="stable")[:, : self._votes]
            found.append(led_by(P, self._vote(order)))
        return np.concatenate(found)

    def _sqdist(self, factors: Factors) -> np.ndarray:
        """Squared distances from matrices, given by their factors, to all training matrices."""
        train = tuple(backend.like(part, factors[0]) for part in self._factors)
        return backend.to_numpy(self._metric.cross(factors, train))[:, self._first]

    def _closeness(self, d2: np.ndarray) -> np.ndarray:
        """`-log d` to the nearest training matrix of each class, from squared distances (n, n_training)."""
        own = [d2[:, self._labels == c] for c in range(len(self.classes_))]  # of a class to come: none
        nearest = np.stack([part.min(axis=1, initial=np.inf) for part in own], axis=1)
        largest = np.where(np.isfinite(nearest), nearest, 0.0).max(axis=1, keepdims=True)
        largest = np.where(largest > 0, largest, 1.0)  # copies of all classes: none is nearer
        return -0.5 * np.log(np.clip(nearest / largest, SAME, 1.0))

    def _power(self) -> float:
        """The power t, from training matrices whose class has others."""
        labels, N = self._labels, len(self._labels)
        anchors = self._spread_out(ANCHORS) if N > ANCHORS else np.arange(N)
        anchors = anchors[np.bincount(labels)[labels[anchors]] > 1]
        scores = [np.empty((0, len(self.classes_)))]
        for start in range(0, len(anchors), PREDICT_BLOCK):
            rows = anchors[start : start + PREDICT_BLOCK]
            d2 = self._sqdist(tuple(part[backend.like(rows, part)] for part in self._factors))
            d2[np.arange(len(rows)), rows] = np.inf
            scores.append(self._closeness(d2))
        return fit_temperature(np.concatenate(scores), labels[anchors], N)

    def _spread_out(self, count: int) -> np.ndarray:
        """So many of the training matrices, from small to large ones: those that are chosen do not depend on their order."""
        labels, metric, factors = self._labels, self._metric, self._factors
        sizes = np.zeros(len(labels))
        for part in first_factors(metric, factors):
            flat = backend.to_numpy(part).reshape(len(labels), -1)
            # distances from the mean of an embedding do not change with the unit of the matrices either
            with np.errstate(over="ignore"):
                sizes += np.sum((flat - flat.mean(axis=0) if metric.euclidean else flat) ** 2, axis=1)
        order = canonical_order(sizes, lambda rows: flat_factors(metric, factors, rows), labels)
        return order[np.linspace(0, len(order) - 1, count).round().astype(int)]

    def to_torch(self) -> Any:
        """A float64 `torch.nn.Module` from X to minus the least squared distance (N, n_classes) to each class."""
        check_is_fitted(self, "_factors")
        if self._votes != 1:
            raise ValueError(f"n_neighbors={self._votes} cannot be exported; fit with n_neighbors=1")
        distances = torch_distances(self._metric, self._factors, self.n_features_in_)
        return modules.double_in(modules.nearest_scores(distances, self._labels, len(self.classes_)))

    def _vote(self, index: np.ndarray) -> np.ndarray:
        """Index of the most frequent class among the neighbors (n_matrices, n_neighbors)."""
        votes = self._labels[index]
        if self._votes == 1:
            return votes[:, 0]
        counts = np.zeros((len(votes), len(self.classes_)), dtype=int)
        np.add.at(counts, (np.arange(len(votes))[:, None], votes), 1)
        tied = np.take_along_axis(counts, votes, axis=1) == counts.max(axis=1, keepdims=True)
        return votes[np.arange(len(votes)), tied.argmax(axis=1)]


def check_neighbors(n_neighbors: Any, n_matrices: int) -> None:
    """Raise unless there are enough training matrices."""
    remedy = f" (there are {n_matrices} training matrices)"
    check_count("n_neighbors", n_neighbors, low=1, high=n_matrices, remedy=remedy)


def torch_distances(metric: Metric, factors: tuple[Array, ...], n: int) -> Any:
    """The module of squared distances to training matrices with these factors, or an error if the metric has none."""
    name = of_single(metric).name
    if name not in modules.DISTANCES:
        known = ", ".join(map(repr, modules.DISTANCES))
        raise ValueError(
            f"distances under the metric {name!r} cannot be exported; use one of {known}, or classifier='lda'"
        )
    return modules.squared_distances(name, list(first_factors(metric, factors)), n)


def first_factors(metric: Metric, factors: Factors) -> Factors:
    """The first factor of each block."""
    return factors[:: len(factors) // (metric.blocks if isinstance(metric, BlockSum) else 1)]


def flat_factors(metric: Metric, factors: Factors, rows: np.ndarray) -> np.ndarray:
    """The first factors of some matrices as vectors on the host, those of several blocks one after the other."""
    parts = [part[backend.like(rows, part)] for part in first_factors(metric, factors)]
    return np.concatenate([backend.to_numpy(part).reshape(len(rows), -1) for part in parts], axis=1)
