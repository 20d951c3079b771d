"""Supervised similarity learning on symmetric positive definite (SPD) matrices."""

from spdsl.estimators import SPDML, SPDSL, SPDNearestNeighbor, pairwise_sqdist
from spdsl.metrics import METRICS
from spdsl.validation import check_spd, regularize

__version__ = "0.1.0"

__all__ = ["METRICS", "SPDML", "SPDSL", "SPDNearestNeighbor", "check_spd", "pairwise_sqdist", "regularize"]
