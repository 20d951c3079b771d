"""Distances between stacks, and the nearest neighbour under a metric."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from spdsl import arrays
from spdsl.arrays import Array
from spdsl.metrics import Metric, get_metric
from spdsl.models import savable, save
from spdsl.samples import FactoredSPD, first_copies
from spdsl.validation import check_count, check_labels, check_spd

PREDICT_BLOCK = 256  # test matrices compared with all training matrices at once


def pairwise_sqdist(A: Any, B: Any = None, *, metric: str | Metric = "lem") -> Array:
    """Squared distances between SPD matrices.

    Parameters
    ----------
    A : (a, n, n), or `FactoredSPD`
    B : (b, n, n), or `FactoredSPD` if A is that, optional
        A itself by default; the diagonal is then zero.
    metric : str
        A name of `spdsl.METRICS` or an alias, e.g. "aim", "stein", "lem", "riemann", "logdet", "logeuclid".

    Returns
    -------
    (a, b) squared distances, in the array library of `A`.
    """
    chosen = get_metric(metric)
    if isinstance(A, FactoredSPD):
        return _factored_sqdist(A, A if B is None else B, chosen)
    A = check_spd(A, name="A")
    if B is None:
        return sqdist_within(chosen, A)
    B = arrays.like(check_spd(B, name="B"), A)
    if A.shape[-1] != B.shape[-1]:
        raise ValueError(
            f"A holds {A.shape[-1]} x {A.shape[-1]} matrices and B {B.shape[-1]} x {B.shape[-1]}: pass one size"
        )
    return chosen.sqdist(A, B)


def _factored_sqdist(A: FactoredSPD, B: Any, metric: Metric) -> np.ndarray:
    """`pairwise_sqdist` of matrices that are not formed."""
    if not isinstance(B, FactoredSPD):
        raise TypeError("A is factored and B is not: pass both factored, or A.dense()")
    if A.shape[1] != B.shape[1]:
        raise ValueError(
            f"A holds {A.shape[1]} x {A.shape[1]} matrices and B {B.shape[1]} x {B.shape[1]}: pass one size"
        )
    A.check("A")
    B.check("B")
    d2 = A.sqdist(B, metric)
    if A is B:
        d2 = (d2 + d2.T) / 2
        np.fill_diagonal(d2, 0.0)
    return d2


def sqdist_within(metric: Metric, A: Array) -> Array:
    """Squared distances of a stack to itself, exactly symmetric with a zero diagonal."""
    return metric.within(metric.factor(A))


class KeptInterrupt(KeyboardInterrupt):
    """Ctrl-C in a fit that has kept what it had reached."""


class SPDEstimator(BaseEstimator):
    """What all estimators on SPD stacks share: the check of X, and the way to disk."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one safetensors file, for `spdsl.load`.

        Parameters
        ----------
        path : str or Path
            A file that is there is replaced, once the new one is whole.

        Notes
        -----
        Needs safetensors: `pip install 'spdsl[models]'`. Not saved: `callback`, `checkpoint`, and a
        `random_state` that is no integer.
        """
        save(self, path)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """A fit that fails inside leaves everything as it was, so that an older fit stays usable."""
        before = dict(vars(self))
        try:
            yield
        except KeptInterrupt:
            raise
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _check_X(self, X: Any, *, reset: bool = False, name: str = "X") -> Array:
        X = check_spd(X, name=name, precision=getattr(self, "precision", "double"))
        self._check_size(X.shape[-1], reset=reset, name=name)
        return X

    def _check_size(self, n: int, *, reset: bool, name: str) -> None:
        """Note the size of the matrices, or raise if it is not the one noted before."""
        if reset:
            self.n_features_in_ = n
        elif n != self.n_features_in_:
            raise ValueError(
                f"{name} holds {n} x {n} matrices, but {type(self).__name__} was fitted on "
                f"{self.n_features_in_} x {self.n_features_in_} ones; pass matrices of that size, or fit again"
            )


@savable("classes_", "_labels", "_first", "_metric", "_factors")
class SPDNearestNeighbor(ClassifierMixin, SPDEstimator):
    """Nearest-neighbour classifier under a metric on SPD matrices.

    Parameters
    ----------
    metric : str
        A name of `spdsl.METRICS` or an alias.
    n_neighbors : int
        Neighbours that vote; a tied vote goes to the class of the nearest among the tied.

    Attributes
    ----------
    classes_ : (n_classes,)
    n_features_in_ : int
        Size n of the matrices.
    """

    def __init__(self, metric: str | Metric = "lem", *, n_neighbors: int = 1) -> None:
        self.metric = metric
        self.n_neighbors = n_neighbors

    def fit(self, X: Any, y: Any) -> Self:
        """Store the training matrices (n_matrices, n, n), factored for the metric, and their labels."""
        with self._whole():
            X = self._check_X(X, reset=True)
            check_neighbors(self.n_neighbors, X.shape[0])
            return self._fit(X, y, first_copies(X))

    def _fit(self, X: Array, y: Any, first: np.ndarray) -> Self:
        """Keep matrices that need no check; `first` is the index of the first copy of each."""
        self.classes_, self._labels = check_labels(y, X.shape[0])
        self._first = first
        self._metric = get_metric(self.metric)  # what the factors belong to, whatever `metric` is set to later
        self._factors = self._metric.factor(X)
        return self

    def kneighbors(self, X: Any) -> tuple[Array, Array]:
        """Squared distances and indices (n_matrices, n_neighbors) of the nearest training matrices, nearest first."""
        check_is_fitted(self, "_factors")
        return self._nearest(self._check_X(X))

    def _nearest(self, X: Array) -> tuple[np.ndarray, np.ndarray]:
        """`kneighbors` of matrices that need no check."""
        metric = self._metric
        train = tuple(arrays.like(part, X) for part in self._factors)
        found = []
        for start in range(0, X.shape[0], PREDICT_BLOCK):
            d2 = arrays.to_numpy(metric.cross(metric.factor(X[start : start + PREDICT_BLOCK]), train))
            d2 = d2[:, self._first]  # copies tie exactly, where blocked products would round them apart
            # a stable sort sends ties to the first training sample
            order = np.argsort(d2, axis=1, kind="stable")[:, : self.n_neighbors]
            found.append((np.take_along_axis(d2, order, axis=1), order))
        return np.concatenate([d for d, _ in found]), np.concatenate([k for _, k in found])

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n_matrices,) of the matrices X (n_matrices, n, n)."""
        return self._vote(self.kneighbors(X)[1])

    def _predict(self, X: Array) -> np.ndarray:
        """`predict` of matrices that need no check."""
        return self._vote(self._nearest(X)[1])

    def _vote(self, index: np.ndarray) -> np.ndarray:
        """The label that most of the neighbours (n_matrices, n_neighbors) have."""
        votes = self._labels[index]
        if self.n_neighbors == 1:
            return self.classes_[votes[:, 0]]
        counts = np.zeros((len(votes), len(self.classes_)), dtype=int)
        np.add.at(counts, (np.arange(len(votes))[:, None], votes), 1)
        tied = np.take_along_axis(counts, votes, axis=1) == counts.max(axis=1, keepdims=True)
        return self.classes_[votes[np.arange(len(votes)), tied.argmax(axis=1)]]


def check_neighbors(n_neighbors: Any, n_matrices: int) -> None:
    """Raise unless so many neighbours can vote."""
    remedy = f" (there are {n_matrices} training matrices)"
    check_count("n_neighbors", n_neighbors, low=1, high=n_matrices, remedy=remedy)
