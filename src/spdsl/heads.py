"""What classifies behind a learned reduction: nearest neighbour, support vectors, discriminant analysis, or your own."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
    is_classifier,
)
from sklearn.utils.validation import check_is_fitted

from spdsl import arrays
from spdsl.arrays import Array, namespace
from spdsl.metrics import Metric, get_metric
from spdsl.models import savable
from spdsl.neighbors import SPDEstimator, sqdist_within
from spdsl.validation import check_labels, check_number

HEADS = ("nn", "svm", "lda", "logistic")
EQUAL = 1e-14  # below this fraction of the vectors their spread is rounding
PENALTY = 300.0  # inverse strength of the logistic head, for vectors of mean square length one


@savable("n_features_in_", "_n_features_out")
class LogVectors(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SPDEstimator):
    """Vectors of matrix logarithms: `log X`, upper triangle, off-diagonal entries times sqrt(2).

    Euclidean distances of the vectors are log-Euclidean distances of the matrices, so any scikit-learn estimator can
    follow in a pipeline.
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Note the size of the matrices (n_matrices, n, n)."""
        with self._whole():
            n = self._check_X(X, reset=True).shape[-1]
        self._n_features_out = n * (n + 1) // 2
        return self

    def transform(self, X: Any) -> Array:
        """Vectors (n_matrices, n (n + 1) / 2)."""
        check_is_fitted(self, "n_features_in_")
        return log_vectors(self._check_X(X))


def log_vectors(X: Array) -> Array:
    """Log-vectors of checked matrices."""
    n = X.shape[-1]
    logs = get_metric("lem").factor(X)[0].reshape(-1, n, n)
    row, column = np.triu_indices(n)
    weight = np.where(row == column, 1.0, np.sqrt(2.0))
    return logs[:, arrays.like(row, X), arrays.like(column, X)] * arrays.like(weight, X)


@savable("classes_", "beta_", "_factors", "_machine")
class KernelSVC(ClassifierMixin, SPDEstimator):
    """Support vector machine on the similarities `exp(-beta d2)`.

    Parameters
    ----------
    metric : str
        A name of `spdsl.METRICS` or an alias.
    beta : float, optional
        By default 1 over the mean squared distance of the training pairs.
    C : float
        Penalty of the support vector machine. The kernel need not be positive definite for every metric and beta;
        the machine is then a heuristic, as usual with such kernels.
    """

    def __init__(self, metric: str | Metric = "lem", *, beta: float | None = None, C: float = 10.0) -> None:
        self.metric = metric
        self.beta = beta
        self.C = C

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to the matrices (n_matrices, n, n) and their labels."""
        check_number("C", self.C, low=0.0, above=True)
        if self.beta is not None:
            check_number("beta", self.beta, low=0.0, above=True)
        with self._whole():
            return self._fit(self._check_X(X, reset=True), y)

    def _fit(self, X: Array, y: Any) -> Self:
        """Fit to matrices that need no check."""
        from sklearn.svm import SVC  # here, not above: it would double the time that the learners take to import

        self.classes_, labels = check_labels(y, X.shape[0])
        if len(self.classes_) < 2:
            raise ValueError(f"KernelSVC needs at least 2 classes, y has 1 class: every label is {self.classes_[0]}")
        metric = get_metric(self.metric)
        d2 = arrays.to_numpy(sqdist_within(metric, X))
        N = d2.shape[0]
        if self.beta is None and not d2.any():
            raise ValueError("all training matrices are equal: there is no distance to set beta by; give beta")
        self.beta_ = N * (N - 1) / float(d2.sum()) if self.beta is None else float(self.beta)
        self._factors = metric.factor(X)
        with np.errstate(over="ignore"):  # a similarity of zero
            similarities = np.exp(-self.beta_ * d2)
        self._machine = SVC(kernel="precomputed", C=self.C).fit(similarities, labels)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n_matrices,)."""
        check_is_fitted(self, "_machine")
        return self._predict(self._check_X(X))

    def _similarities(self, X: Array) -> np.ndarray:
        """Similarities (n_matrices, n_training) of matrices that need no check."""
        metric = get_metric(self.metric)
        d2 = metric.cross(metric.factor(X), tuple(arrays.like(part, X) for part in self._factors))
        with np.errstate(over="ignore"):
            return arrays.to_numpy(namespace(d2).exp(-self.beta_ * d2))

    def _predict(self, X: Array) -> np.ndarray:
        """Labels of matrices that need no check."""
        return self.classes_[self._machine.predict(self._similarities(X))]

    def _soft(self, X: Array, name: str) -> np.ndarray:
        """What the machine's method of that name says."""
        return getattr(self._machine, name)(self._similarities(X))


@savable("covariance_", "shrinkage_")
class SpanLedoitWolf(BaseEstimator):
    """Ledoit-Wolf covariance `(1 - s) S + s mu I` of vectors known by their coordinates in a subspace that holds them.

    Parameters
    ----------
    n_features : int
        Length of the full vectors; shrinkage s and scale mu depend on it, not on the number of coordinates.

    Attributes
    ----------
    covariance_ : (r, r)
        In the coordinates.
    shrinkage_ : float
    """

    def __init__(self, n_features: int) -> None:
        self.n_features = n_features

    def fit(self, X: np.ndarray, y: Any = None) -> Self:
        """Estimate from the coordinates X (n_samples, r)."""
        X = X - X.mean(axis=0)
        G = X @ X.T / len(X)
        p, size = self.n_features, float(np.sum(G**2))
        mu = float(np.trace(G)) / p
        error = (len(X) * float(np.sum(np.diagonal(G) ** 2)) - size) / (p * len(X))
        spread = (size - p * mu**2) / p
        self.shrinkage_ = min(error, spread) / spread if spread > 0 else 0.0
        self.covariance_ = (1 - self.shrinkage_) * X.T @ X / len(X) + self.shrinkage_ * mu * np.eye(X.shape[1])
        return self


def span_discriminant(count: int, length: int) -> Any:
    """Discriminant analysis with Ledoit-Wolf shrinkage for `count` vectors of `length` entries.

    Unlike scikit-learn's `shrinkage="auto"` it does not scale the entries to unit variance first: lengths and angles of
    log-vectors have a meaning. Vectors longer than their number are rotated into their span, which changes nothing.
    """
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.pipeline import Pipeline

    steps: list[tuple[str, Any]] = [("rotate", PCA(svd_solver="full"))] if length > count else []
    lda = LinearDiscriminantAnalysis(solver="lsqr", covariance_estimator=SpanLedoitWolf(length))
    return Pipeline([*steps, ("lda", lda)])


@savable("classes_", "mean_", "scale_", "classifier_")
class LogVectorClassifier(ClassifierMixin, SPDEstimator):
    """A scikit-learn classifier on log-vectors, centred and scaled to mean square length one.

    Parameters
    ----------
    classifier : {"lda", "logistic"} or scikit-learn classifier
        Discriminant analysis with Ledoit-Wolf shrinkage (entries not scaled), logistic regression, or your own.
    """

    def __init__(self, classifier: Any = "lda") -> None:
        self.classifier = classifier

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to the matrices (n_matrices, n, n) and their labels."""
        if self.classifier in ("nn", "svm"):
            raise ValueError(f"classifier={self.classifier!r} works on distances: use SPDNearestNeighbor or KernelSVC")
        check_head(self.classifier)
        with self._whole():
            return self._checked_fit(self._check_X(X, reset=True), y)

    def _checked_fit(self, X: Array, y: Any) -> Self:
        """Fit to checked matrices and labels that are not checked yet."""
        classes, labels = check_labels(y, X.shape[0])
        if len(classes) < 2:
            raise ValueError(
                f"LogVectorClassifier needs at least 2 classes, y has 1 class: every label is {classes[0]}"
            )
        if len(classes) == len(labels) and self.classifier == "lda":
            raise ValueError("every class has one sample: discriminant analysis needs two or more of some class")
        return self._fit(X, classes[labels])

    def _fit(self, X: Array, y: Any) -> Self:
        """Fit to matrices and labels that need no check."""
        V = arrays.to_numpy(log_vectors(X))
        self.mean_ = V.mean(axis=0)
        self.scale_ = float(np.sqrt(np.mean(np.sum((V - self.mean_) ** 2, axis=1))))
        if not self.scale_ > EQUAL * float(np.abs(V).max()):
            raise ValueError("all training matrices are equal: there is nothing to tell classes apart by; bring others")
        self.classifier_ = self._classifier(*V.shape).fit((V - self.mean_) / self.scale_, y)
        self.classes_ = self.classifier_.classes_
        return self

    def _classifier(self, count: int, length: int) -> Any:
        """An unfitted classifier for so many vectors of that length."""
        if not isinstance(self.classifier, str):
            return clone(self.classifier)
        if self.classifier == "lda":
            return span_discriminant(count, length)
        from sklearn.linear_model import LogisticRegression  # here: it doubles the time of the import

        return LogisticRegression(C=PENALTY, max_iter=1000)

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n_matrices,)."""
        check_is_fitted(self, "classifier_")
        return self._predict(self._check_X(X))

    def _predict(self, X: Array) -> np.ndarray:
        """Labels of matrices that need no check."""
        return self._soft(X, "predict")

    def _soft(self, X: Array, name: str) -> np.ndarray:
        """What the classifier's method of that name says."""
        V = (arrays.to_numpy(log_vectors(X)) - self.mean_) / self.scale_
        return getattr(self.classifier_, name)(V)


def head_offers(classifier: Any, method: str) -> bool:
    """Whether a head has `predict_proba` or `decision_function`."""
    if isinstance(classifier, str):
        return classifier in ("lda", "logistic") or (classifier == "svm" and method == "decision_function")
    return hasattr(classifier, method)


def check_head(classifier: Any) -> None:
    """Raise unless `classifier` names a head or is a scikit-learn classifier."""
    if isinstance(classifier, str):
        if classifier not in HEADS:
            names = ", ".join(map(repr, HEADS))
            raise ValueError(f"classifier must be one of {names} or a scikit-learn classifier, got {classifier!r}")
        return
    if isinstance(classifier, type) or not isinstance(classifier, BaseEstimator) or not is_classifier(classifier):
        raise ValueError(f"classifier must be a scikit-learn classifier object, got {classifier!r}")
    if type(classifier).__module__.split(".")[0] in ("pyriemann", "spdsl"):
        raise ValueError(
            f"classifier={classifier!r} takes matrices, but here it would get vectors: put it behind the reduction with "
            f"make_pipeline(SPDSL(...), {type(classifier).__name__}(...))"
        )
