"""Supervised similarity learning on symmetric positive definite (SPD) matrices."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spdsl.baselines import CDL, LEK, LEML, MDM, RSR, TangentSpaceClassifier
    from spdsl.data import Data, FactoredSPD, check_spd, regularize
    from spdsl.estimators import (
        SPDML,
        SPDSL,
        KernelSVC,
        LogVectors,
        Recenter,
        Regularize,
        SPDNearestNeighbor,
        pairwise_sqdist,
    )
    from spdsl.evaluation.compare import compare
    from spdsl.evaluation.methods import METHODS, Method, register_method
    from spdsl.evaluation.several_sets import compare_many
    from spdsl.evaluation.tuning import tune
    from spdsl.features import (
        FaceCovariance,
        JointCovariance,
        MaterialCovariance,
        RegionCovariance,
        SetCovariance,
        SignalCovariance,
    )
    from spdsl.geometry import METRICS, Metric, log_euclidean_mean, register_metric, riemannian_mean
    from spdsl.geometry.checking import check_metric
    from spdsl.learning.checking import check_objective
    from spdsl.learning.objectives import OBJECTIVES, Objective, register_objective
    from spdsl.models import ModelFileError, load, save

__version__ = "0.1.0"

__all__ = [
    "CDL",
    "LEK",
    "LEML",
    "MDM",
    "METHODS",
    "METRICS",
    "OBJECTIVES",
    "RSR",
    "SPDML",
    "SPDSL",
    "Data",
    "FaceCovariance",
    "FactoredSPD",
    "JointCovariance",
    "KernelSVC",
    "LogVectors",
    "MaterialCovariance",
    "Method",
    "Metric",
    "ModelFileError",
    "Objective",
    "Recenter",
    "RegionCovariance",
    "Regularize",
    "SPDNearestNeighbor",
    "SetCovariance",
    "SignalCovariance",
    "TangentSpaceClassifier",
    "check_metric",
    "check_objective",
    "check_spd",
    "compare",
    "compare_many",
    "load",
    "log_euclidean_mean",
    "pairwise_sqdist",
    "register_method",
    "register_metric",
    "register_objective",
    "regularize",
    "riemannian_mean",
    "save",
    "tune",
]

# the module of each name, imported on first use: most need scikit-learn, which takes a second to import
_HOMES = {
    "baselines": ("CDL", "LEK", "LEML", "MDM", "RSR", "TangentSpaceClassifier"),
    "data": ("Data", "FactoredSPD", "check_spd", "regularize"),
    "estimators": (
        "SPDML",
        "SPDSL",
        "KernelSVC",
        "LogVectors",
        "Recenter",
        "Regularize",
        "SPDNearestNeighbor",
        "pairwise_sqdist",
    ),
    "evaluation.compare": ("compare",),
    "evaluation.several_sets": ("compare_many",),
    "evaluation.methods": ("METHODS", "Method", "register_method"),
    "evaluation.tuning": ("tune",),
    "features": (
        "FaceCovariance",
        "JointCovariance",
        "MaterialCovariance",
        "RegionCovariance",
        "SetCovariance",
        "SignalCovariance",
    ),
    "geometry": ("METRICS", "Metric", "log_euclidean_mean", "register_metric", "riemannian_mean"),
    "geometry.checking": ("check_metric",),
    "learning.checking": ("check_objective",),
    "learning.objectives": ("OBJECTIVES", "Objective", "register_objective"),
    "models": ("ModelFileError", "load", "save"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

if not TYPE_CHECKING:  # it would hide misspelled names from a type checker

    def __getattr__(name: str) -> Any:
        """A public name, or a module of the package, on first use."""
        if name in _HOME:
            value = getattr(import_module(f"spdsl.{_HOME[name]}"), name)
        elif name.isidentifier() and not name.startswith("_") and find_spec(f"spdsl.{name}") is not None:
            value = import_module(f"spdsl.{name}")
        else:
            raise AttributeError(f"module 'spdsl' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
