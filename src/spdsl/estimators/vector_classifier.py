"""A scikit-learn classifier on log-vectors."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from spdsl import backend
from spdsl.backend import Array, modules
from spdsl.data.labels import check_labels
from spdsl.data.weights import with_weight
from spdsl.estimators.base import Answer, LabelScore, SPDEstimator
from spdsl.estimators.calibration import canonical_order, fit_temperature, folds, probabilities
from spdsl.estimators.discriminant import LeaveOneOutDiscriminant
from spdsl.geometry import log_vectors
from spdsl.models import savable

EQUAL = 1e-14  # a spread below this fraction of the vectors is rounding error
TOLERANCE = 1e-3  # of the logistic regressions that calibrate probabilities; the scores need no more
PENALTY = 300.0  # C of the logistic regression, for vectors of mean square length one
NAMED = ("lda", "logistic")
PROBABLE = ("LogisticRegression", "LinearDiscriminantAnalysis")  # linear, with probabilities of one form
SCORED = ("LinearSVC", "RidgeClassifier")  # linear, without


@savable("classes_", "mean_", "scale_", "classifier_")
class LogVectorClassifier(LabelScore, SPDEstimator):
    """A scikit-learn classifier on log-vectors, centered and scaled to mean square length one.

    Parameters
    ----------
    classifier : {"lda", "logistic"} or scikit-learn classifier
        Discriminant analysis (`LeaveOneOutDiscriminant`), logistic regression, or your own. The probabilities of the first
        two are calibrated on samples left out, those of logistic regression by at most five folds; your own says its own.

    Examples
    --------
    >>> from spdsl.datasets import load_digit_sets
    >>> from spdsl.estimators import LogVectorClassifier
    >>> X, y = load_digit_sets()
    >>> LogVectorClassifier("logistic").fit(X[::20], y[::20]).predict(X[[1, 401]]).tolist()
    [0, 4]
    """

    _takes_blocks = True

    def __init__(self, classifier: Any = "lda") -> None:
        self.classifier = classifier

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to the matrices (n_matrices, n, n) and their labels.

        Samples of weight zero are left out; weights of a mean below one are scaled to a mean of one.
        """
        check_vector_classifier(self.classifier)
        with self._whole():
            X, y, weight = with_weight(X, y, sample_weight)
            return self._fit_labeled(self._check_X(X, reset=True), y, weight)

    def _fit_labeled(self, X: Array, y: Any, weight: np.ndarray | None) -> Self:
        """Fit to checked matrices and unchecked labels."""
        classes, labels = check_labels(y, *X.shape[:-2])
        if len(classes) < 2:
            raise ValueError(
                f"LogVectorClassifier needs at least 2 classes, y has 1 class: every label is {classes[0]}"
            )
        if len(classes) == len(labels) and self.classifier == "lda":
            raise ValueError(
                "every class has one sample; discriminant analysis needs at least two samples of some class"
            )
        return self.fit_checked(X, classes[labels], weight)

    def fit_checked(self, P: Array, y: np.ndarray, weight: np.ndarray | None = None) -> Self:
        """Fit to checked matrices and labels; the samples may have positive weights."""
        self._check_size(P.shape, reset=True, name="X")
        V = backend.to_numpy(log_vectors(P))
        self.mean_ = np.average(V, axis=0, weights=weight)
        self.scale_ = float(np.sqrt(np.average(np.sum((V - self.mean_) ** 2, axis=1), weights=weight)))
        if not self.scale_ > EQUAL * float(np.abs(V).max()):
            raise ValueError("all training matrices are identical; provide matrices that differ")
        V = (V - self.mean_) / self.scale_
        classifier = self._classifier()
        if weight is not None and not has_fit_parameter(classifier, "sample_weight"):
            raise ValueError(
                f"a {type(classifier).__name__} takes no sample_weight; use classifier='lda' or 'logistic', or fit without "
                f"weights"
            )
        self.classifier_ = classifier.fit(V, y, **({} if weight is None else {"sample_weight": weight}))
        self.classes_ = self.classifier_.classes_
        self._calibrated = self._calibrate(V, y, weight) if self.classifier == "logistic" else None
        return self

    def _calibrate(self, V: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> tuple[float, int]:
        """The inverse temperature of logistic regression, and the number of samples."""
        labels = np.searchsorted(self.classes_, y)
        scores, tested = [np.empty((0, len(self.classes_)))], [np.empty(0, int)]
        order = canonical_order(np.sum(V * V, axis=1), lambda rows: V[rows], labels)
        for train, test in folds(labels, np.argsort(order)):
            own = None if weight is None else weight[train]
            part = self._classifier().set_params(tol=TOLERANCE).fit(V[train], labels[train], own)
            scores.append(_log_odds(part, V[test]))
            tested.append(test)
        rows = np.concatenate(tested)
        own = None if weight is None else weight[rows]
        return fit_temperature(np.concatenate(scores), labels[rows], len(V), own), len(V)

    def _classifier(self) -> Any:
        """An unfitted classifier of vectors."""
        if not isinstance(self.classifier, str):
            return clone(self.classifier)
        if self.classifier == "lda":
            return LeaveOneOutDiscriminant()
        from sklearn.linear_model import LogisticRegression  # imported here because it would double the import time

        return LogisticRegression(C=PENALTY, max_iter=1000)

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n_matrices,)."""
        check_is_fitted(self, "classifier_")
        return self.answer(self._check_X(X), "predict")

    @available_if(lambda self: offers(getattr(self, "classifier_", self.classifier), "predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n_matrices, n_classes), if the classifier has them."""
        check_is_fitted(self, "classifier_")
        return self.answer(self._check_X(X), "predict_proba")

    def answer(self, P: Array, kind: Answer) -> np.ndarray:
        """Result of the given method for checked matrices."""
        V = (backend.to_numpy(log_vectors(P)) - self.mean_) / self.scale_
        calibrated = getattr(self, "_calibrated", None)  # absent in a model saved by an older version
        if kind == "predict_proba" and calibrated is not None:
            return probabilities(_log_odds(self.classifier_, V), *calibrated)
        return getattr(self.classifier_, kind)(V)

    def to_torch(self) -> Any:
        """A float64 `torch.nn.Module` from X to `predict_proba`, or `decision_function` where there are none."""
        check_is_fitted(self, "classifier_")
        inner, kind = self.classifier_, type(self.classifier_).__name__
        if isinstance(inner, LeaveOneOutDiscriminant):
            steps = inner.torch_steps(self.mean_, self.scale_)
        elif kind in (*PROBABLE, *SCORED) and type(inner).__module__.startswith("sklearn."):
            scores = modules.affine(inner.coef_, inner.intercept_, self.mean_, self.scale_)
            calibrated = getattr(self, "_calibrated", None)
            probable = modules.shares() if calibrated is None else modules.sure_shares(*calibrated)
            steps = [scores, probable if kind in PROBABLE else modules.decision()]
        else:
            raise ValueError(
                f"a {kind} cannot be exported; use classifier='lda', 'logistic', or one of {', '.join(PROBABLE + SCORED)}"
            )
        logs = modules.log_vectors(self.n_features_in_)
        return modules.double_in(modules.chain("LogVectorClassifier", logs, *steps))


def _log_odds(logistic: Any, V: np.ndarray) -> np.ndarray:
    """Log probabilities (N, n_classes) up to a number for each row, without the underflow of scikit-learn's own."""
    scores = logistic.decision_function(V)
    return scores if scores.ndim == 2 else np.column_stack([np.zeros_like(scores), scores])


def offers(classifier: Any, method: str) -> bool:
    """Whether a classifier of vectors, given by name, unfitted or fitted, has this method."""
    return classifier in NAMED if isinstance(classifier, str) else hasattr(classifier, method)


def check_vector_classifier(classifier: Any) -> None:
    """Raise unless `classifier` names one for vectors or is a scikit-learn classifier."""
    if isinstance(classifier, str):
        if classifier in ("nn", "svm"):
            raise ValueError(
                f"classifier={classifier!r} needs distances, not vectors; use SPDNearestNeighbor or KernelSVC"
            )
        if classifier not in NAMED:
            raise ValueError(f"classifier must be 'lda', 'logistic' or a scikit-learn classifier, got {classifier!r}")
        return
    if isinstance(classifier, type) or not isinstance(classifier, BaseEstimator) or not is_classifier(classifier):
        raise ValueError(f"classifier must be a scikit-learn classifier object, got {classifier!r}")
    if type(classifier).__module__.split(".")[0] in ("pyriemann", "spdsl"):
        raise ValueError(
            f"classifier={classifier!r} needs matrices, but here it would get vectors; append it to the reduction with "
            f"make_pipeline(SPDSL(...), {type(classifier).__name__}(...))"
        )
