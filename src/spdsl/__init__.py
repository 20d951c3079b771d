"""Supervised similarity learning on symmetric positive definite (SPD) matrices."""

from spdsl.estimators import SPDML, SPDSL
from spdsl.heads import LogVectors
from spdsl.metrics import METRICS
from spdsl.neighbors import SPDNearestNeighbor, pairwise_sqdist
from spdsl.validation import check_spd, regularize

__version__ = "0.1.0"

__all__ = [
    "METRICS",
    "SPDML",
    "SPDSL",
    "LogVectors",
    "SPDNearestNeighbor",
    "check_spd",
    "pairwise_sqdist",
    "regularize",
]
