"""Supervised similarity learning on symmetric positive definite (SPD) matrices."""

from spdsl.baselines import CDL, LEK, LEML, MDM, RSR, TangentSpaceClassifier
from spdsl.estimators import SPDML, SPDSL
from spdsl.experiments import compare, tune
from spdsl.heads import LogVectors
from spdsl.methods import METHODS
from spdsl.metrics import METRICS
from spdsl.models import ModelFileError, load
from spdsl.neighbors import SPDNearestNeighbor, pairwise_sqdist
from spdsl.samples import FactoredSPD
from spdsl.validation import check_spd, regularize

__version__ = "0.1.0"

__all__ = [
    "CDL",
    "LEK",
    "LEML",
    "MDM",
    "METHODS",
    "METRICS",
    "RSR",
    "SPDML",
    "SPDSL",
    "FactoredSPD",
    "LogVectors",
    "ModelFileError",
    "SPDNearestNeighbor",
    "TangentSpaceClassifier",
    "check_spd",
    "compare",
    "load",
    "pairwise_sqdist",
    "regularize",
    "tune",
]
