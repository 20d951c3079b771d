"""Classifiers that see the matrices only through one value per pair, and how such methods are tuned at little cost."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from spdsl import arrays
from spdsl.metrics import get_metric
from spdsl.neighbors import SPDEstimator
from spdsl.validation import check_labels

Factors = tuple[np.ndarray, ...]
LEAF = 64  # below this many matrices all pairs are computed, above it each pair once


class SPDClassifier(ClassifierMixin, SPDEstimator):
    """What the comparison methods share: checks, and work that is done once for all points of a parameter grid.

    Subclasses fill in `_prepare` (once per stack, whatever the parameters), `_learn` and `_decide`. `prepare` and
    `validate` serve tuning: factors and pair values of a training part are computed once, not once per grid point.
    """

    #: parameters that make a fit cheaper where only the order of grid points matters, not the last digit
    tuning_params: ClassVar[dict[str, Any]] = {}

    def _prepare(self, X: np.ndarray) -> Factors:
        """What depends on single matrices alone: arrays with the stack axis first."""
        raise NotImplementedError

    def _learn(self, factors: Factors, labels: np.ndarray) -> None:
        """Fit to the prepared training matrices."""
        raise NotImplementedError

    def _decide(self, factors: Factors) -> np.ndarray:
        """Class indices of prepared test matrices."""
        raise NotImplementedError

    def _checked_numpy(self, X: Any, *, reset: bool = False) -> np.ndarray:
        return arrays.to_numpy(self._check_X(X, reset=reset))

    def _checked_labels(self, y: Any, n_matrices: int) -> np.ndarray:
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
            labels = self._checked_labels(y, X.shape[0])
            self._learn(self._prepare(X), labels)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n_matrices,) of the SPD matrices X (n_matrices, n, n)."""
        check_is_fitted(self)
        return self.classes_[self._decide(self._prepare(self._checked_numpy(X)))]

    def _at(self, point: dict[str, Any]) -> Any:
        """An unfitted copy with other parameters that knows the size of the matrices."""
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
            labels = model._checked_labels(y[train], len(train))
            model._learn(left, labels)
            scores.append(float(np.mean(model.classes_[model._decide(right)] == y[test])))
        return scores


class PairwiseClassifier(SPDClassifier):
    """Methods that need one value per pair: a squared distance or an inner product.

    Subclasses fill in `_factor`, `_cross`, `_learn_pairs` and `_decide_pairs`.
    """

    def _factor(self, X: np.ndarray) -> Factors:
        raise NotImplementedError

    def _cross(self, FA: Factors, FB: Factors) -> np.ndarray:
        """Values (a, b) of all pairs of two factored stacks; symmetric in the stacks."""
        raise NotImplementedError

    def _learn_pairs(self, values: np.ndarray, labels: np.ndarray) -> None:
        """Fit to the values (N, N) of the training pairs."""
        raise NotImplementedError

    def _decide_pairs(self, values: np.ndarray) -> np.ndarray:
        """Class indices (T,) from the values (T, N) against the training matrices."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from the SPD matrices X (n_matrices, n, n) and their labels."""
        with self._whole():
            X = self._checked_numpy(X, reset=True)
            labels = self._checked_labels(y, X.shape[0])
            self._factors = self._factor(X)
            self._learn_pairs(all_pairs(self._cross, self._factors), labels)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n_matrices,) of the SPD matrices X (n_matrices, n, n)."""
        check_is_fitted(self)
        values = self._cross(self._factor(self._checked_numpy(X)), self._factors)
        return self.classes_[self._decide_pairs(values)]

    def prepare(self, X: Any) -> Factors:
        """Values (N, N) of all training pairs, for `validate`."""
        return (all_pairs(self._cross, self._factor(self._checked_numpy(X, reset=True))),)

    def validate(
        self, prepared: Factors, y: np.ndarray, train: np.ndarray, test: np.ndarray, points: list[dict[str, Any]]
    ) -> list[float]:
        """Accuracy on `test` after learning from `train`, for every parameter setting of `points`."""
        (values,) = prepared
        within, across = values[np.ix_(train, train)], values[np.ix_(test, train)]
        scores = []
        for point in points:
            model = self._at(point)
            model._learn_pairs(within, model._checked_labels(y[train], len(train)))
            scores.append(float(np.mean(model.classes_[model._decide_pairs(across)] == y[test])))
        return scores


def log_vectors(X: np.ndarray) -> np.ndarray:
    """Matrix logarithms as rows (N, n^2): inner products of rows are `tr(log X_i log X_j)`."""
    return np.asarray(get_metric("lem").factor(X)[0])


def all_pairs(cross: Any, factors: Factors) -> np.ndarray:
    """Symmetric values (N, N) of a stack against itself, each pair computed once."""
    N = len(factors[0])
    if N <= LEAF:
        values = cross(factors, factors)
        return (values + values.T) / 2
    half = N // 2
    first, second = tuple(part[:half] for part in factors), tuple(part[half:] for part in factors)
    across = cross(first, second)
    return np.block([[all_pairs(cross, first), across], [across.T, all_pairs(cross, second)]])
