"""A support vector machine on the similarities of SPD matrices."""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spdsl import backend
from spdsl.backend import Array, modules, namespace
from spdsl.data.labels import check_labels
from spdsl.data.parameters import check_number
from spdsl.data.weights import with_weight
from spdsl.estimators.base import Answer, LabelScore, SPDEstimator
from spdsl.estimators.calibration import canonical_order, fit_temperature, folds, led_by, probabilities
from spdsl.estimators.nearest import flat_factors, torch_distances
from spdsl.geometry import Metric, get_metric, metric_for
from spdsl.models import savable

TOLERANCE = (
    1e-6  # of the machine; at scikit-learn's 1e-3 probabilities follow the order of the samples in the second digit
)
PAIR_ARRAYS = 6  # of one number per pair that a fit holds at most, with those of the machine


@savable("classes_", "beta_", "_metric", "_factors", "_machine")
class KernelSVC(LabelScore, SPDEstimator):
    """Support vector machine on the similarities `exp(-beta d2)`.

    Probabilities are the softmax of scores, the score of a class being the least of its decision values against each other
    class, at the temperature that fits the training matrices of at most five folds best. The label of `predict`, by votes
    over the pairs of classes, always has the largest one: where votes and scores disagree, two classes exchange theirs.

    Parameters
    ----------
    metric : str
        A name in `spdsl.METRICS` or an alias.
    beta : float, optional
        By default the inverse of the mean squared distance of the training pairs.
    C : float
        Regularization parameter, as in scikit-learn's SVC. The kernel is not positive definite for every metric and beta;
        the classifier is then a heuristic, as is common with such kernels.

    Examples
    --------
    >>> from spdsl import KernelSVC
    >>> from spdsl.datasets import load_digit_sets
    >>> X, y = load_digit_sets()
    >>> model = KernelSVC("lem").fit(X[::20], y[::20])
    >>> model.predict(X[[1, 401]]).tolist()
    [0, 4]
    """

    _takes_blocks = True

    def __init__(self, metric: str | Metric = "lem", *, beta: float | None = None, C: float = 10.0) -> None:
        self.metric = metric
        self.beta = beta
        self.C = C

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to the matrices (n_matrices, n, n) and their labels.

        Weights scale C sample by sample; a sample of weight 2 counts as two, one of weight 0 is left out. Weights of a
        mean below one, as those with a sum of one, are scaled to a mean of one.
        """
        with self._whole():
            self._check_numbers()
            X, y, weight = with_weight(X, y, sample_weight)
            return self.fit_checked(self._check_X(X, reset=True), y, weight)

    def _check_numbers(self) -> None:
        check_number("C", self.C, low=0.0, above=True)
        if self.beta is not None:
            check_number("beta", self.beta, low=0.0, above=True)

    def check_parameters(self, n_matrices: int) -> None:
        """Raise where a parameter is out of range, or where so many matrices have more pairs than fit into memory."""
        self._check_numbers()
        backend.check_pairs_fit(n_matrices, PAIR_ARRAYS, "KernelSVC")

    def fit_checked(self, P: Array, y: Any, weight: np.ndarray | None = None) -> Self:
        """Fit to checked matrices; the samples may have positive weights."""
        self._check_size(P.shape, reset=True, name="X")
        from sklearn.svm import SVC  # imported here because it would double the import time of the learners

        self.classes_, labels = check_labels(y, *P.shape[:-2])
        if len(self.classes_) < 2:
            raise ValueError(f"KernelSVC needs at least 2 classes, y has 1 class: every label is {self.classes_[0]}")
        self._metric = metric_for(get_metric(self.metric), P.shape)
        backend.check_pairs_fit(P.shape[0], PAIR_ARRAYS, "KernelSVC")
        factors = self._metric.factor(P)
        d2 = backend.to_numpy(self._metric.within(factors))
        N = d2.shape[0]
        if self.beta is None and not d2.any():
            raise ValueError("all training matrices are identical, so beta cannot be estimated; set beta")
        w = np.ones(N) if weight is None else weight
        pairs = float(w.sum() ** 2 - w @ w)
        self.beta_ = pairs / float(w @ (d2 @ w)) if self.beta is None else float(self.beta)
        with np.errstate(over="ignore"):  # a similarity of zero
            similarities = np.exp(-self.beta_ * d2)
        del d2  # its room is for the next
        # where the kernel is not positive definite, the machine has several solutions, and the order decides which is found
        order = canonical_order(similarities @ w, lambda rows: flat_factors(self._metric, factors, rows), labels)
        similarities, labels = similarities[np.ix_(order, order)], labels[order]
        weight = None if weight is None else weight[order]
        # copies also because a metric may keep the matrices themselves, and the caller may change them later
        self._factors = tuple(part[backend.like(order, part)] for part in factors)
        self._machine = SVC(kernel="precomputed", C=self.C, tol=TOLERANCE).fit(similarities, labels, weight)
        self._temperature = self._calibrate(similarities, labels, weight)
        return self

    def _calibrate(self, similarities: np.ndarray, labels: np.ndarray, weight: np.ndarray | None) -> float:
        """The inverse temperature, from machines each fitted to four fifths of the training matrices, in canonical order."""
        from sklearn.svm import SVC

        scores, tested = [np.empty((0, len(self.classes_)))], [np.empty(0, int)]
        for train, test in folds(labels, np.arange(len(labels))):
            own = None if weight is None else weight[train]
            part = SVC(kernel="precomputed", C=self.C, tol=TOLERANCE)
            part.fit(similarities[np.ix_(train, train)], labels[train], own)
            scores.append(_scores(part, similarities[np.ix_(test, train)]))
            tested.append(test)
        rows = np.concatenate(tested)
        own = None if weight is None else weight[rows]
        return fit_temperature(np.concatenate(scores), labels[rows], len(labels), own)

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n_matrices,)."""
        check_is_fitted(self, "_machine")
        return self.answer(self._check_X(X), "predict")

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n_matrices, n_classes)."""
        check_is_fitted(self, "_machine")
        return self.answer(self._check_X(X), "predict_proba")

    def _similarities(self, X: Array) -> np.ndarray:
        """Similarities (n_matrices, n_training) of checked matrices."""
        d2 = self._metric.cross(self._metric.factor(X), tuple(backend.like(part, X) for part in self._factors))
        with np.errstate(over="ignore"):
            return backend.to_numpy(namespace(d2).exp(-self.beta_ * d2))

    def answer(self, P: Array, kind: Answer) -> np.ndarray:
        """Result of the given method for checked matrices."""
        similarities = self._similarities(P)
        if kind == "decision_function":
            return self._machine.decision_function(similarities)
        voted = self._machine.predict(similarities)
        if kind == "predict":
            return self.classes_[voted]
        if not hasattr(self, "_temperature"):
            raise ValueError("this model was saved by a version without probabilities of KernelSVC; fit it again")
        scores = _scores(self._machine, similarities)
        return led_by(probabilities(scores, self._temperature, self._machine.shape_fit_[0]), voted)

    def to_torch(self) -> Any:
        """A float64 `torch.nn.Module` from X to the values of `decision_function`."""
        check_is_fitted(self, "_machine")
        machine = self._machine
        coef = _pair_coefficients(machine.dual_coef_, machine.n_support_, len(self.classes_))
        distances = torch_distances(self._metric, self._factors, self.n_features_in_)
        return modules.double_in(
            modules.kernel_machine(
                distances, self.beta_, machine.support_, coef, machine.intercept_, len(self.classes_)
            )
        )


def _scores(machine: Any, similarities: np.ndarray) -> np.ndarray:
    """For each class the least of its decision values against the others, (n_matrices, n_classes)."""
    pairwise = copy(machine)
    pairwise.decision_function_shape = "ovo"
    values = pairwise.decision_function(similarities)
    if values.ndim == 1:
        return np.stack([-values, values], axis=1) / 2
    scores = np.full((len(values), len(machine.classes_)), np.inf)
    for column, (i, j) in enumerate(zip(*np.triu_indices(len(machine.classes_), 1), strict=True)):
        scores[:, i] = np.minimum(scores[:, i], values[:, column])
        scores[:, j] = np.minimum(scores[:, j], -values[:, column])
    return scores


def _pair_coefficients(dual: np.ndarray, counts: np.ndarray, n_classes: int) -> np.ndarray:
    """Coefficients (pairs, n_support) of the machines between classes i < j, from libsvm's (n_classes - 1, n_support).

    Its row j - 1 holds those of the vectors of class i against class j, and its row i those of class j against class i.
    """
    owner = np.repeat(np.arange(n_classes), counts)
    rows = [
        np.where(owner == i, dual[j - 1], 0.0) + np.where(owner == j, dual[i], 0.0)
        for i in range(n_classes)
        for j in range(i + 1, n_classes)
    ]
    return np.stack(rows)
