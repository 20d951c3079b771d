"""Comparisons of methods on labelled SPD matrices: splits, tuning, tables."""

from spdsl.experiments.compare import Comparison, compare
from spdsl.experiments.tuning import tune

__all__ = ["Comparison", "compare", "tune"]
