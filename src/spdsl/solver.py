"""Riemannian conjugate gradient (Algorithm 1) that reads the data once per iteration.

Along the search line the reduced matrices are `P(t) = P + t A1 + t^2 A2`, so every trial of the line search, value and
slope, costs m x m work only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from spdsl import arrays
from spdsl.arrays import Array, namespace
from spdsl.manifolds import Manifold
from spdsl.metrics import Metric, NotPositiveDefiniteError
from spdsl.objectives import Objective
from spdsl.stacks import Stack

ARMIJO = 1e-4  # sufficient decrease, the usual constant
CURVATURE = 0.4  # strong Wolfe: a looser value accepts more first trials, a tighter one keeps directions conjugate
MAX_TRIALS = 12
GROWTH = 4.0  # a step may grow at most by this from one trial to the next
FIRST_STEP = 0.1  # length of the very first trial, relative to W
SAVE = 10  # iterations from one snapshot to the next
REFRESH = 100  # iterations after which XW is computed from W again, against rounding drift
MAX_STRETCH = 10.0  # one step is at most this long, relative to W: a trial further out says nothing about here
MAX_SIZE = 1e4  # of W, relative to the start: no objective with a minimum goes there, if it depends on the size at all
SAME_VALUE = 1e-6  # relative difference of costs that another number of threads or another device can explain
SQUARED = 1e-3  # of MAX_CONDITION, up to which W'W tells the condition of W
MAX_CONDITION = 1e8  # of W: beyond it W'XW loses all its digits in double precision


def inner(A: Array, B: Array) -> float:
    """Frobenius inner product."""
    return float(A.reshape(-1) @ B.reshape(-1))


def hestenes_stiefel(g: Array, old_g: Array, H: Array) -> float:
    """HS+ (the default)."""
    y = g - old_g
    return max(0.0, _ratio(inner(g, y), inner(H, y)))


def polak_ribiere(g: Array, old_g: Array, H: Array) -> float:
    """PR+."""
    return max(0.0, _ratio(inner(g, g - old_g), inner(old_g, old_g)))


def fletcher_reeves(g: Array, old_g: Array, H: Array) -> float:
    """FR."""
    return _ratio(inner(g, g), inner(old_g, old_g))


def dai_yuan(g: Array, old_g: Array, H: Array) -> float:
    """DY."""
    return _ratio(inner(g, g), inner(H, g - old_g))


#: how much of the old direction is kept; arguments: gradient, transported old gradient, transported old direction
BETA_RULES: dict[str, Callable[[Array, Array, Array], float]] = {
    "hestenes-stiefel": hestenes_stiefel,
    "polak-ribiere": polak_ribiere,
    "fletcher-reeves": fletcher_reeves,
    "dai-yuan": dai_yuan,
}


@dataclass(frozen=True)
class Iteration:
    """One row of the history: the state reached, and what it took."""

    iteration: int
    value: float
    gradient_norm: float
    step: float
    trials: int
    seconds: float


@dataclass
class SolverResult:
    """Where the solver ended and why. `status` is one of STATUSES."""

    W: Array
    value: float
    status: str
    message: str
    history: list[dict[str, float]] = field(default_factory=list)
    passes: int = 0

    @property
    def converged(self) -> bool:
        return self.status in ("gradient", "change", "precision")


@dataclass(frozen=True)
class Snapshot:
    """All that a run needs to go on from where it was.

    Attributes
    ----------
    parts : dict of NumPy arrays
        W, its gradient g, and where there is a last direction H, that and the gradient before, old_g.
    iteration, idle : int
        Iterations done, and for how many of the last the value has hardly changed.
    value, step, slope, size : float
        Of the point reached, of the last line search, and of the first W.
    history : list of dict
    """

    parts: dict[str, np.ndarray]
    iteration: int
    idle: int
    value: float
    step: float
    slope: float
    size: float
    history: list[dict[str, float]]


STATUSES = {
    "gradient": "the gradient vanished to tolerance",
    "change": "the objective stopped changing",
    "precision": "no further decrease within rounding",
    "rank": "W is about to lose rank: the objective has no minimiser in the interior",
    "unbounded": "W grows without end: the objective has no minimiser",
    "max_iter": "the iteration limit was reached before convergence",
    "callback": "stopped by the callback",
    "interrupted": "interrupted from the keyboard",
}


@dataclass(frozen=True)
class Problem:
    """A stack, a metric, the pairs (i, j) that count, and the objective over them."""

    stack: Stack
    metric: Metric
    objective: Objective
    i: Array
    j: Array

    def evaluate(self, P: Array) -> Evaluation:
        """The objective at reduced matrices P; its derivative follows on demand from the same factorisations."""
        d2, pullback = self.metric.pairs(P, self.i, self.j)
        value, c = self.objective(d2)
        return Evaluation(value, lambda: pullback(c))

    def cost(self, W: Array) -> tuple[float, Array]:
        """Value and Euclidean gradient at W."""
        evaluation = self.evaluate(self.stack.start(W + 0.0))  # a copy: the caller may change W in place
        return evaluation.value, self.stack.gradient(evaluation.S)


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


def minimize(
    problem: Problem,
    W: Array,
    manifold: Manifold,
    *,
    max_iter: int = 50,
    tol: float = 1e-4,
    gradient_tol: float = 1e-6,
    patience: int = 3,
    rule: str = "hestenes-stiefel",
    callback: Callable[[dict[str, float], Array], Any] | None = None,
    resume: Snapshot | None = None,
    save: Callable[[Snapshot], None] | None = None,
) -> SolverResult:
    """Minimise the problem over the manifold from `W`, a point on it, or from a snapshot of an earlier run.

    Stops when `|grad| |W| <= gradient_tol |value|`, when the relative decrease stays below `tol` for `patience`
    iterations, when the line search finds no decrease along the negative gradient, when W is about to lose rank or grows
    without end, after `max_iter` iterations, or when `callback(row, W)` returns True. The value never increases.
    `save` is given a snapshot every few iterations, and the run itself goes on from it: one that is resumed has the very
    numbers of the one that took the snapshot.
    """
    if rule not in BETA_RULES:
        raise ValueError(f"unknown conjugate-gradient rule {rule!r}; choose one of {', '.join(BETA_RULES)}")
    state = _State(problem, manifold, W) if resume is None else _State.restored(problem, manifold, resume, W)
    size = state.size if resume is None else resume.size
    history: list[dict[str, float]] = [] if resume is None else list(resume.history)
    first = 1 if resume is None else resume.iteration + 1
    status, idle, began = "max_iter", 0 if resume is None else resume.idle, time.perf_counter()

    def record(iteration: int, step: float, trials: int) -> bool:
        nonlocal began
        now = time.perf_counter()
        row = asdict(Iteration(iteration, state.value, state.gradient_norm, step, trials, now - began))
        began = now
        history.append(row)
        answer = None if callback is None else callback(row, state.W)
        return isinstance(answer, bool | np.bool_) and bool(answer)

    try:
        if resume is None and record(0, 0.0, 1):
            status = "callback"
            max_iter = 0
        for iteration in range(first, max_iter + 1):
            if state.gradient_norm * state.size <= gradient_tol * max(abs(state.value), 1e-300):
                status = "gradient"
                break
            before = state.value
            outcome = state.advance(rule)
            if outcome is None:
                status = "precision"
                break
            step, trials = outcome
            stopped = record(iteration, step, trials)
            if state.condition > MAX_CONDITION:
                status = "rank"
                break
            if state.size > MAX_SIZE * size:
                if not problem.metric.scale_free:
                    status = "unbounded"
                    break
                state.scale(size / state.size)
            if stopped:
                status = "callback"
                break
            idle = idle + 1 if before - state.value <= tol * abs(state.value) else 0
            if idle >= patience:
                status = "change"
                break
            if save is not None and iteration % SAVE == 0:
                snapshot = state.snapshot(iteration, idle, size, history)
                save(snapshot)
                state = _State.restored(problem, manifold, snapshot, W)
            elif iteration % REFRESH == 0:
                state.refresh()
    except KeyboardInterrupt:
        status = "interrupted"
    return SolverResult(state.W, state.value, status, STATUSES[status], history, problem.stack.passes)


class _State:
    """The point reached, its reduced matrices, gradient and last direction."""

    def __init__(self, problem: Problem, manifold: Manifold, W: Array) -> None:
        self.problem, self.manifold = problem, manifold
        self.W = W
        self.P = problem.stack.start(W)
        self._settle(problem.evaluate(self.P))
        self.H: Array | None = None
        self.old_g: Array = self.g
        self.step = 0.0
        self.slope = 0.0

    @classmethod
    def restored(cls, problem: Problem, manifold: Manifold, snapshot: Snapshot, model: Array) -> _State:
        """The state that a snapshot was taken of, as arrays like `model`; an error where the data give another value."""
        parts = {name: arrays.like(part, model) for name, part in snapshot.parts.items()}
        state = cls(problem, manifold, parts["W"])
        if not abs(state.value - snapshot.value) <= SAME_VALUE * abs(snapshot.value):
            raise ValueError(
                f"the checkpoint was made on other data: its W has the cost {snapshot.value:.9g} there and "
                f"{state.value:.9g} here; remove it, or choose another path"
            )
        # not what was just computed: it may differ in the last digits, and a run that goes on must not
        state.value, state.g = snapshot.value, parts["g"]
        state.gradient_norm = math.sqrt(inner(state.g, state.g))
        state.H, state.old_g = parts.get("H"), parts.get("old_g", state.g)
        state.step, state.slope = snapshot.step, snapshot.slope
        return state

    def snapshot(self, iteration: int, idle: int, size: float, history: list[dict[str, float]]) -> Snapshot:
        """What `restored` needs."""
        held = {"W": self.W, "g": self.g} | ({} if self.H is None else {"H": self.H, "old_g": self.old_g})
        parts = {name: np.array(arrays.to_numpy(part), order="C") for name, part in held.items()}
        return Snapshot(parts, iteration, idle, self.value, self.step, self.slope, size, list(history))

    def _settle(self, evaluation: Evaluation) -> None:
        """Take over value and gradient of the current point."""
        self.value = evaluation.value
        self.g = self.manifold.gradient(self.W, self.problem.stack.gradient(evaluation.S))
        self.gradient_norm = math.sqrt(inner(self.g, self.g))
        self.size = math.sqrt(inner(self.W, self.W))

    @property
    def condition(self) -> float:
        """Condition number of W: an upper bound, at most m times too large, where that is far from MAX_CONDITION."""
        xp = namespace(self.W)
        try:
            inverse = arrays.inverse_lower(xp.linalg.cholesky((self.W.mT @ self.W)[None]))
            bound = self.size * math.sqrt(inner(inverse, inverse))
        except Exception as error:  # the array libraries share no class for a failed factorisation
            if type(error).__name__ not in ("LinAlgError", "_LinAlgError"):
                raise
            bound = math.inf
        if bound < SQUARED * MAX_CONDITION:
            return bound
        w = xp.linalg.svdvals(self.W).tolist()  # W'W may have lost the digits
        return w[0] / w[-1] if w[-1] > 0 else math.inf

    def refresh(self) -> None:
        """Compute XW and P from W again."""
        self.P = self.problem.stack.refresh()

    def scale(self, factor: float) -> None:
        """Move to `factor W` where the objective is the same: tangent vectors grow with W, gradients shrink."""
        self.W = self.problem.stack.scale(factor)
        self.P = self.P * factor**2
        self.size *= factor
        self.g, self.old_g = self.g / factor, self.old_g / factor
        self.gradient_norm /= factor
        if self.H is not None:
            self.H = self.H * factor

    def advance(self, rule: str) -> tuple[float, int] | None:
        """One iteration: direction, line search, step. None if not even the negative gradient goes down."""
        H, slope = self._direction(rule)
        trials = 0
        for restart in (False, True):
            if restart:
                if self.H is None:
                    return None
                self.H, H, slope = None, -self.g, -inner(self.g, self.g)
            A1, A2 = self.problem.stack.look(H)
            line = _Line(self.problem, self.P, A1, A2, self.manifold.normaliser(H), self.value, slope)
            limit = MAX_STRETCH * self.size / math.sqrt(inner(H, H))
            found = line.search(self._first_step(H, slope), limit)
            trials += line.trials
            if found is not None:
                break
        else:
            return None
        t, trial = found
        self.W = self.problem.stack.step(t, trial.right)
        self.P = trial.P
        self.old_g, self.H, self.step, self.slope = self.g, H, t, slope
        self._settle(trial.evaluation)
        return t, trials

    def _direction(self, rule: str) -> tuple[Array, float]:
        """Conjugate direction, or the negative gradient where that would not go down."""
        if self.H is not None:
            H = self.manifold.transport(self.W, self.H)
            old_g = self.manifold.transport(self.W, self.old_g)
            direction = BETA_RULES[rule](self.g, old_g, H) * H - self.g
            slope = inner(self.g, direction)
            if slope < -1e-10 * self.gradient_norm * math.sqrt(inner(direction, direction)):
                return direction, slope
        return -self.g, -inner(self.g, self.g)

    def _first_step(self, H: Array, slope: float) -> float:
        """Trial step: the last decrease of first order, kept, or a set fraction of W at the start."""
        if self.H is None or self.step == 0.0:
            return FIRST_STEP * self.size / math.sqrt(inner(H, H))
        return self.step * min(max(self.slope / slope, 1e-3), 1e3)


@dataclass
class _Trial:
    """A point on the line: its reduced matrices, value, slope, and the factor that normalises W there."""

    P: Array
    right: Array | None
    evaluation: Evaluation
    slope: float

    @property
    def value(self) -> float:
        return self.evaluation.value


class _Line:
    """The objective along one search line."""

    def __init__(
        self, problem: Problem, P: Array, A1: Array, A2: Array, normaliser: Any, value: float, slope: float
    ) -> None:
        self.problem, self.P, self.A1, self.A2, self.normaliser = problem, P, A1, A2, normaliser
        self.value, self.slope = value, slope
        self.trials = 0

    def at(self, t: float) -> _Trial | None:
        """Value and slope at t; None where a reduced matrix is no longer positive definite to working precision."""
        self.trials += 1
        P = self.P + t * self.A1 + (t * t) * self.A2
        velocity = self.A1 + (2 * t) * self.A2
        right = None
        if self.normaliser is not None:
            right, rate = self.normaliser(t)
            turn = rate.mT @ P @ right
            velocity = right.mT @ velocity @ right + turn + turn.mT
            P = right.mT @ P @ right
        try:
            evaluation = self.problem.evaluate(P)
            if not math.isfinite(evaluation.value):
                return None
            slope = inner(evaluation.S, velocity)
        except NotPositiveDefiniteError:
            return None
        return _Trial(P, right, evaluation, slope) if math.isfinite(slope) else None

    def search(self, t: float, limit: float) -> tuple[float, _Trial] | None:
        """Strong-Wolfe point up to `limit` by bracketing and cubic interpolation; else a point of decrease, or None."""
        t = min(t, limit)
        low, low_value, low_slope = 0.0, self.value, self.slope
        best: tuple[float, _Trial] | None = None
        high: float | None = None
        high_value = high_slope = math.nan
        while self.trials < MAX_TRIALS:
            trial = self.at(t)
            if trial is None:  # outside the domain: come back towards the good end
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
                guess = _cubic(0.0, self.value, self.slope, t, trial.value, trial.slope)
                inside = guess is not None and guess > t
                t = min(max(guess, 1.1 * t), GROWTH * t) if inside and guess is not None else GROWTH * t
                t = min(t, limit)
            else:
                t = _between(low, low_value, low_slope, high, high_value, high_slope)
                if abs(high - low) <= 1e-12 * max(abs(low), abs(high)):
                    break
        return best


def _between(a: float, fa: float, ga: float, b: float, fb: float, gb: float) -> float:
    """Cubic minimiser inside the bracket, kept away from its ends; the middle where there is none."""
    guess = None if math.isnan(fb) else _cubic(a, fa, ga, b, fb, gb)
    low, high = min(a, b), max(a, b)
    margin = 0.1 * (high - low)
    if guess is None:
        return (a + b) / 2
    return min(max(guess, low + margin), high - margin)


def _cubic(a: float, fa: float, ga: float, b: float, fb: float, gb: float) -> float | None:
    """Minimiser of the cubic with these values and slopes at a and b."""
    d1 = ga + gb - 3 * (fa - fb) / (a - b)
    square = d1 * d1 - ga * gb
    if square < 0:
        return None
    d2 = math.copysign(math.sqrt(square), b - a)
    bottom = gb - ga + 2 * d2
    return None if bottom == 0 else b - (b - a) * (gb + d2 - d1) / bottom


def _ratio(top: float, bottom: float) -> float:
    return top / bottom if bottom > 0 else 0.0
