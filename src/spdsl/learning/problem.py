"""The function that is minimized: the chain rule from W to the objective and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from spdsl import backend
from spdsl.backend import Array, namespace
from spdsl.data import View
from spdsl.geometry import Metric
from spdsl.learning.objectives import Objective

STEEPEST = 1e50  # derivative by a squared distance up to which the steps of a search are numbers; 1e60 still works


class Evaluation:
    """An objective value, and `S` with `dJ = sum_i <S_i, dP_i>`, computed when first asked for."""

    def __init__(self, value: float, pullback: Callable[[], Array]) -> None:
        self.value = value
        self._pullback = pullback
        self._S: Array | None = None

    @property
    def S(self) -> Array:
        if self._S is None:
            self._S = self._pullback()
        return self._S


@dataclass(frozen=True)
class Problem:
    """Samples seen through W, a metric, the selected pairs (i, j), and the objective over them."""

    view: View
    metric: Metric
    objective: Objective
    i: Array
    j: Array

    def evaluate(self, P: Array) -> Evaluation:
        """The objective at reduced matrices P; the derivative is computed on demand from the same factorizations."""
        return self._evaluate(P)[0]

    def evaluate_first(self, P: Array) -> Evaluation:
        """As `evaluate`, for the start: an error if what the objective and the metric return is not finite there."""
        evaluation, c = self._evaluate(P)
        xp = namespace(c)
        if not math.isfinite(evaluation.value) or not bool(xp.all(xp.isfinite(c))):
            what = "derivative" if math.isfinite(evaluation.value) else "value"
            raise ValueError(
                f"objective {self.objective.name!r}: its {what} is NaN or infinite at the start; use another beta or init, and "
                f"test an objective of your own with spdsl.check_objective"
            )
        steepest = float(xp.max(xp.abs(c)))
        if steepest > STEEPEST:
            raise ValueError(
                f"objective {self.objective.name!r}: its derivative is as large as {steepest:.1e} at the start, and steps "
                f"along it overflow; use a smaller beta, or divide X by its mean trace"
            )
        if not bool(xp.all(xp.isfinite(evaluation.S))):
            raise ValueError(
                f"metric {self.metric.name!r}: its derivative is NaN or infinite at the start; use another init, and test a "
                f"metric of your own with spdsl.check_metric"
            )
        return evaluation

    def _evaluate(self, P: Array) -> tuple[Evaluation, Array]:
        d2, pullback = self.metric.pairs(P, self.i, self.j)
        value, c = self.objective(d2)
        return Evaluation(value, lambda: pullback(c)), c

    @backend.own_threads
    def cost(self, W: Array) -> tuple[float, Array]:
        """Value and Euclidean gradient at W."""
        evaluation = self.evaluate(self.view.start(W + 0.0))  # a copy: the caller may change W in place
        return evaluation.value, self.view.gradient(evaluation.S)
