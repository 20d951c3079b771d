"""Comparisons of methods on labeled SPD matrices: splits, tuning, tables."""

from spdsl.evaluation.compare import Comparison, compare
from spdsl.evaluation.methods import METHODS, Method, register_method
from spdsl.evaluation.several_sets import ManyComparison, compare_many
from spdsl.evaluation.tuning import tune

__all__ = ["METHODS", "Comparison", "ManyComparison", "Method", "compare", "compare_many", "register_method", "tune"]
