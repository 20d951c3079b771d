"""Base classes of the comparison methods, and of those that need only one value per pair; both tune at little cost."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from spdsl import backend
from spdsl.backend import Array
from spdsl.data.labels import check_labels
from spdsl.estimators.base import LabelScore, SPDEstimator
from spdsl.geometry import get_metric

Factors = tuple[np.ndarray, ...]
ANSWER_BYTES = 1 << 28  # values of the test matrices against the training matrices that are held at once
LEAF = 64  # up to this many matrices all pairs are computed; for more, each pair once


class SPDClassifier(LabelScore, SPDEstimator):
    """Base class of the comparison methods: checks, and work shared by all points of a parameter grid.

    Subclasses define `_prepare` (independent of the parameters), `_learn` and `_decide`. `prepare` and `validate` are for
    tuning: factors and pair values of a training part are computed once, not once per grid point.
    """

    #: parameters that make a fit cheaper when only the ranking of grid points matters
    tuning_params: ClassVar[dict[str, Any]] = {}
    device: Any = None  # a parameter of those that compute on one
    #: how many arrays of one number per pair of training matrices a fit holds at most, with the workspace of LAPACK
    pair_arrays: ClassVar[int] = 0

    @abstractmethod
    def _prepare(self, X: np.ndarray) -> Factors:
        """What depends only on single matrices: arrays with one entry per matrix along the first axis."""

    @abstractmethod
    def _learn(self, factors: Factors, labels: np.ndarray) -> None:
        """Fit to the prepared training matrices."""

    @abstractmethod
    def _decide(self, factors: Factors) -> np.ndarray:
        """Class indices of prepared test matrices."""

    def _checked_numpy(self, X: Any, *, reset: bool = False) -> np.ndarray:
        return backend.to_numpy(self._check_X(X, reset=reset))

    def _on_device(self, *arrays: Array) -> Any:
        """Arrays on the device of this model, one or a tuple; NumPy arrays stay where there is none."""
        moved = tuple(backend.to_device(array, self.device) for array in arrays)
        return moved[0] if len(moved) == 1 else moved

    def checked_labels(self, y: Any, n_matrices: int) -> np.ndarray:
        """Labels as indices of `classes_`, which are set."""
        self.classes_, labels = check_labels(y, n_matrices)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least 2 classes; y has 1 class: every label is {self.classes_[0]}"
            )
        return labels

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from the SPD matrices X (n_matrices, n, n) and their labels."""
        with self._whole():
            X = self._checked_numpy(X, reset=True)
            labels = self.checked_labels(y, X.shape[0])
            self._check_room(len(X))
            self._learn(self._prepare(X), labels)
            self._fitted_params = self.get_params(deep=False)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n_matrices,) of the SPD matrices X (n_matrices, n, n)."""
        check_is_fitted(self)
        fitted = self._as_fitted()
        return fitted.classes_[fitted._decide(fitted._prepare(fitted._checked_numpy(X)))]

    def _check_room(self, N: int) -> None:
        """Raise before the work where the pairs of N matrices do not fit into memory."""
        backend.check_pairs_fit(N, self.pair_arrays, type(self).__name__)

    def _as_fitted(self) -> Self:
        """This model with the parameters that it was fitted with, whatever was set since, on the device of now."""
        fitted = copy(self).set_params(**getattr(self, "_fitted_params", {}))
        if self.device is not None or fitted.device is not None:
            fitted.device = self.device
        return fitted

    def _at(self, point: dict[str, Any]) -> Any:
        """An unfitted copy with other parameters, for matrices of the same size."""
        model = clone(self).set_params(**point)
        model.n_features_in_ = self.n_features_in_
        return model

    def prepare(self, X: Any) -> Factors:
        """Checked and factored training matrices, for `validate`."""
        return self._prepare(self._checked_numpy(X, reset=True))

    def validate(
        self, prepared: Factors, y: np.ndarray, train: np.ndarray, test: np.ndarray, points: list[dict[str, Any]]
    ) -> list[float]:
        """Accuracy on `test` after learning from `train`, for every parameter setting of `points`."""
        left, right = tuple(part[train] for part in prepared), tuple(part[test] for part in prepared)
        scores = []
        for point in points:
            model = self._at(point)
            labels = model.checked_labels(y[train], len(train))
            model._learn(left, labels)
            scores.append(float(np.mean(model.classes_[model._decide(right)] == y[test])))
        return scores


class PairwiseClassifier(SPDClassifier):
    """Methods that need one value per pair: a squared distance or an inner product.

    Subclasses define `_factor`, `_cross`, `_learn_pairs` and `_decide_pairs`. The first two compute on `device`.
    """

    @abstractmethod
    def _factor(self, X: Array) -> tuple[Array, ...]: ...

    @abstractmethod
    def _cross(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> Array:
        """Values (a, b) of all pairs of two sets of factors; symmetric in its arguments."""

    def _factored(self, X: np.ndarray) -> Factors:
        """Factors, which are kept on the host."""
        return tuple(backend.to_numpy(part) for part in self._factor(self._on_device(X)))

    def _values(self, FA: Factors, FB: Factors) -> np.ndarray:
        """Values (a, b) of all pairs of two sets of factors."""
        FA, FB = (tuple(self._on_device(part) for part in F) for F in (FA, FB))
        return backend.to_numpy(self._cross(FA, FB))

    def _all_values(self, factors: Factors) -> np.ndarray:
        """Symmetric values (N, N) within one set of factors."""
        return all_pairs(self._values, factors, LEAF if self.device is None else len(factors[0]))

    @abstractmethod
    def _learn_pairs(self, values: np.ndarray, labels: np.ndarray) -> None:
        """Fit to the values (N, N) of the training pairs."""

    @abstractmethod
    def _decide_pairs(self, values: np.ndarray) -> np.ndarray:
        """Class indices (T,) from the values (T, N) against the training matrices."""

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from the SPD matrices X (n_matrices, n, n) and their labels."""
        with self._whole():
            X = self._checked_numpy(X, reset=True)
            labels = self.checked_labels(y, X.shape[0])
            self._check_room(len(X))
            self._factors = self._factored(X)
            self._learn_pairs(self._all_values(self._factors), labels)
            self._fitted_params = self.get_params(deep=False)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n_matrices,) of the SPD matrices X (n_matrices, n, n)."""
        check_is_fitted(self)
        fitted = self._as_fitted()
        factors = fitted._factored(fitted._checked_numpy(X))
        rows = max(1, ANSWER_BYTES // (8 * len(fitted._factors[0])))
        found = [
            fitted._decide_pairs(fitted._values(tuple(part[k : k + rows] for part in factors), fitted._factors))
            for k in range(0, len(factors[0]), rows)
        ]
        return fitted.classes_[np.concatenate(found)]

    def against_training(self, X: Any) -> np.ndarray:
        """Values (T, N) of the SPD matrices X (T, n, n) against the training matrices."""
        return self._values(self._factored(self._checked_numpy(X)), self._factors)

    def prepare(self, X: Any) -> Factors:
        """Values (N, N) of all training pairs, for `validate`."""
        X = self._checked_numpy(X, reset=True)
        self._check_room(len(X))
        return (self._all_values(self._factored(X)),)

    def validate(
        self, prepared: Factors, y: np.ndarray, train: np.ndarray, test: np.ndarray, points: list[dict[str, Any]]
    ) -> list[float]:
        """Accuracy on `test` after learning from `train`, for every parameter setting of `points`."""
        (values,) = prepared
        within, across = values[np.ix_(train, train)], values[np.ix_(test, train)]
        scores = []
        for point in points:
            model = self._at(point)
            model._learn_pairs(within, model.checked_labels(y[train], len(train)))
            scores.append(float(np.mean(model.classes_[model._decide_pairs(across)] == y[test])))
        return scores


def log_vectors(X: Array) -> Array:
    """Matrix logarithms as rows (N, n^2): inner products of rows are `tr(log X_i log X_j)`."""
    return get_metric("lem").factor(X)[0]


def all_pairs(cross: Any, factors: Factors, leaf: int = LEAF) -> np.ndarray:
    """Symmetric values (N, N) within one set of factors; of more than `leaf` each pair is computed once."""
    N = len(factors[0])
    if leaf >= N:
        values = cross(factors, factors)
        return (values + values.T) / 2
    half = N // 2
    first, second = tuple(part[:half] for part in factors), tuple(part[half:] for part in factors)
    across = cross(first, second)
    return np.block([[all_pairs(cross, first, leaf), across], [across.T, all_pairs(cross, second, leaf)]])
