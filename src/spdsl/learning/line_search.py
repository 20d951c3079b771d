"""The objective along a search line, and the strong-Wolfe search on it.

On this line the reduced matrices are `P(t) = P + t A1 + t^2 A2`, so the value and slope of a trial cost only m x m work.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from spdsl import backend
from spdsl.backend import Array
from spdsl.geometry import NotPositiveDefiniteError
from spdsl.learning.problem import Evaluation

ARMIJO = 1e-4  # sufficient decrease, the usual constant
CURVATURE = 0.4  # strong Wolfe: a larger value accepts more first trials, a smaller one keeps directions conjugate
MAX_TRIALS = 12
GROWTH = 4.0  # largest factor from one trial step to the next


def inner(A: Array, B: Array) -> float:
    """Frobenius inner product."""
    return float(A.reshape(-1) @ B.reshape(-1))


Evaluate = Callable[[Array], Evaluation]  # from reduced matrices to value and derivative


@dataclass
class Trial:
    """A point on the line: its reduced matrices, value, slope, and the factor that normalizes W there."""

    P: Array
    right: Array | None
    evaluation: Evaluation
    slope: float

    @property
    def value(self) -> float:
        return self.evaluation.value


class Line:
    """The objective along one search line."""

    def __init__(
        self, evaluate: Evaluate, P: Array, A1: Array, A2: Array, normalizer: Any, value: float, slope: float
    ) -> None:
        self.evaluate, self.P, self.A1, self.A2, self.normalizer = evaluate, P, A1, A2, normalizer
        self.value, self.slope = value, slope
        self.trials = 0

    def at(self, t: float) -> Trial | None:
        """Value and slope at t; None if a reduced matrix is not positive definite to working precision."""
        self.trials += 1
        P = backend.moved(self.P, (t, self.A1), (t * t, self.A2))
        velocity = backend.moved(self.A1, (2 * t, self.A2))
        right = None
        if self.normalizer is not None:
            right, rate = self.normalizer(t)
            turn = rate.mT @ P @ right
            velocity = right.mT @ velocity @ right + turn + turn.mT
            P = right.mT @ P @ right
        try:
            evaluation = self.evaluate(P)
            if not math.isfinite(evaluation.value):
                return None
            slope = inner(evaluation.S, velocity)
        except (NotPositiveDefiniteError, np.linalg.LinAlgError):  # so far away that P is no matrix of numbers
            return None
        return Trial(P, right, evaluation, slope) if math.isfinite(slope) else None

    def search(self, t: float, limit: float) -> tuple[float, Trial] | None:
        """A strong-Wolfe point up to `limit`, by bracketing and cubic interpolation; else a point of decrease, or None."""
        t = min(t, limit)
        low, low_value, low_slope = 0.0, self.value, self.slope
        best: tuple[float, Trial] | None = None
        high: float | None = None
        high_value = high_slope = math.nan
        while self.trials < MAX_TRIALS:
            trial = self.at(t)
            if trial is None:  # outside the domain: move back toward the good end
                high, high_value, high_slope = t, math.nan, math.nan
                t = low + 0.1 * (t - low)
                continue
            sufficient = trial.value <= self.value + ARMIJO * t * self.slope
            if sufficient and trial.value < self.value and (best is None or trial.value < best[1].value):
                best = t, trial
            if not sufficient or trial.value >= low_value:
                high, high_value, high_slope = t, trial.value, trial.slope
            else:
                if abs(trial.slope) <= -CURVATURE * self.slope:
                    return t, trial
                if trial.slope * ((high if high is not None else math.inf) - low) >= 0:
                    high, high_value, high_slope = low, low_value, low_slope
                low, low_value, low_slope = t, trial.value, trial.slope
            if high is None:
                if t >= limit:
                    break
                guess = cubic(0.0, self.value, self.slope, t, trial.value, trial.slope)
                inside = guess is not None and guess > t
                t = min(max(guess, 1.1 * t), GROWTH * t) if inside and guess is not None else GROWTH * t
                t = min(t, limit)
            else:
                t = between(low, low_value, low_slope, high, high_value, high_slope)
                if abs(high - low) <= 1e-12 * max(abs(low), abs(high)):
                    break
        return best


def between(a: float, fa: float, ga: float, b: float, fb: float, gb: float) -> float:
    """Minimizer of the cubic inside the bracket, away from its ends; the midpoint if there is none."""
    guess = None if math.isnan(fb) else cubic(a, fa, ga, b, fb, gb)
    low, high = min(a, b), max(a, b)
    margin = 0.1 * (high - low)
    if guess is None:
        return (a + b) / 2
    return min(max(guess, low + margin), high - margin)


def cubic(a: float, fa: float, ga: float, b: float, fb: float, gb: float) -> float | None:
    """Minimizer of the cubic with these values and slopes at a and b."""
    d1 = ga + gb - 3 * (fa - fb) / (a - b)
    square = d1 * d1 - ga * gb
    if square < 0:
        return None
    d2 = math.copysign(math.sqrt(square), b - a)
    bottom = gb - ga + 2 * d2
    return None if bottom == 0 else b - (b - a) * (gb + d2 - d1) / bottom
