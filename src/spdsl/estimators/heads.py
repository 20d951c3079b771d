"""The classifier after the reduction: nearest neighbor, SVM, discriminant analysis, logistic regression, or your own."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from spdsl.backend import Array
from spdsl.estimators.auto_head import AutoHead
from spdsl.estimators.base import Head
from spdsl.estimators.nearest import SPDNearestNeighbor
from spdsl.estimators.svc import KernelSVC
from spdsl.estimators.vector_classifier import NAMED, LogVectorClassifier, check_vector_classifier, offers
from spdsl.geometry import Metric, get_metric

HEADS = ("auto", "nn", "svm", *NAMED)
ON_MATRICES = (SPDNearestNeighbor, KernelSVC)


def check_head(classifier: Any, metric: Metric, n_matrices: int) -> None:
    """Raise before the long work unless `classifier` can follow a reduction of so many matrices under the metric."""
    if isinstance(classifier, ON_MATRICES):
        if get_metric(classifier.metric).name != metric.name:
            raise ValueError(
                f"classifier={classifier!r} uses another metric than the reduction, {metric.name!r}; "
                f"pass {type(classifier).__name__}({metric.name!r}, ...)"
            )
        classifier.check_parameters(n_matrices)
    elif isinstance(classifier, str):
        if classifier not in HEADS:
            names = ", ".join(map(repr, HEADS))
            raise ValueError(f"classifier must be one of {names} or a scikit-learn classifier, got {classifier!r}")
        if classifier == "svm":
            KernelSVC(metric).check_parameters(n_matrices)
    else:
        check_vector_classifier(classifier)


def fit_head(
    classifier: Any,
    P: Array,
    y: np.ndarray,
    *,
    metric: Metric,
    beta: float | None,
    first: np.ndarray,
    weight: np.ndarray | None = None,
) -> Head:
    """The classifier fitted to reduced training matrices.

    `beta` is the width of the learned similarity, if any; `first` the index of the first copy of each matrix; `weight`
    positive weights of the samples, which nearest neighbors do not use.
    """
    if isinstance(classifier, ON_MATRICES):
        head: Any = clone(classifier)
        return head.fit_checked(P, y, first if isinstance(head, SPDNearestNeighbor) else weight)
    if isinstance(classifier, str) and classifier == "nn":
        return SPDNearestNeighbor(metric).fit_checked(P, y, first)
    if isinstance(classifier, str) and classifier == "auto":
        return AutoHead().fit_checked(P, y, weight)
    if isinstance(classifier, str) and classifier == "svm":
        return KernelSVC(metric, beta=beta).fit_checked(P, y, weight)
    return LogVectorClassifier(classifier).fit_checked(P, y, weight)


def head_offers(classifier: Any, method: str) -> bool:
    """Whether a classifier, given by name, unfitted or fitted, has `predict_proba` or `decision_function`."""
    if isinstance(classifier, SPDNearestNeighbor) or (isinstance(classifier, str) and classifier == "nn"):
        return method == "predict_proba"
    if isinstance(classifier, AutoHead | KernelSVC) or (isinstance(classifier, str) and classifier in ("auto", "svm")):
        return True
    return offers(classifier.classifier_ if isinstance(classifier, LogVectorClassifier) else classifier, method)
