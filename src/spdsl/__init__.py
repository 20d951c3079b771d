"""Supervised similarity learning on symmetric positive definite (SPD) matrices."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spdsl.baselines import CDL, LEK, LEML, MDM, RSR, TangentSpaceClassifier
    from spdsl.estimators import SPDML, SPDSL
    from spdsl.experiments.compare import compare
    from spdsl.experiments.tuning import tune
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

# where each name is found when it is first asked for: scikit-learn, which most of them need, takes a second to import
_HOMES = {
    "baselines": ("CDL", "LEK", "LEML", "MDM", "RSR", "TangentSpaceClassifier"),
    "estimators": ("SPDML", "SPDSL"),
    "experiments.compare": ("compare",),
    "experiments.tuning": ("tune",),
    "heads": ("LogVectors",),
    "methods": ("METHODS",),
    "metrics": ("METRICS",),
    "models": ("ModelFileError", "load"),
    "neighbors": ("SPDNearestNeighbor", "pairwise_sqdist"),
    "samples": ("FactoredSPD",),
    "validation": ("check_spd", "regularize"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

if not TYPE_CHECKING:  # for a type checker it would give every misspelt name a meaning

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
