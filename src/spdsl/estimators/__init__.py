"""scikit-learn estimators on SPD matrices: learners, nearest neighbors, classifiers and transformers."""

from spdsl.estimators.distances import pairwise_sqdist
from spdsl.estimators.log_vectors import LogVectors
from spdsl.estimators.nearest import SPDNearestNeighbor
from spdsl.estimators.recenter import Recenter, RecenterWarning
from spdsl.estimators.regularize import Regularize
from spdsl.estimators.spdml import SPDML
from spdsl.estimators.spdsl import SPDSL
from spdsl.estimators.svc import KernelSVC
from spdsl.estimators.vector_classifier import LogVectorClassifier

__all__ = [
    "SPDML",
    "SPDSL",
    "KernelSVC",
    "LogVectorClassifier",
    "LogVectors",
    "Recenter",
    "RecenterWarning",
    "Regularize",
    "SPDNearestNeighbor",
    "pairwise_sqdist",
]
