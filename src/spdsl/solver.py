"""Riemannian conjugate gradient (Algorithm 1) that reads the data once per iteration.

Along the search line the reduced matrices are `P(t) = P + t A1 + t^2 A2`, so every trial of the line search, value and
slope, costs m x m work only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from spdsl import arrays
from spdsl.arrays import Array, namespace
from spdsl.lines import Evaluation, Line, inner
from spdsl.manifolds import Manifold
from spdsl.metrics import Metric
from spdsl.objectives import Objective
from spdsl.stacks import Stack

FIRST_STEP = 0.1  # length of the very first trial, relative to W
SAVE = 10  # iterations from one snapshot to the next
REFRESH = 100  # iterations after which XW is computed from W again, against rounding drift
MAX_STRETCH = 10.0  # one step is at most this long, relative to W: a trial further out says nothing about here
MAX_SIZE = 1e4  # of W, relative to the start: no objective with a minimum goes there, if it depends on the size at all
SAME_VALUE = 1e-6  # relative difference of costs that another number of threads or another device can explain
SQUARED = 1e-3  # of MAX_CONDITION, up to which W'W tells the condition of W
MAX_CONDITION = 1e8  # of W: beyond it W'XW loses all its digits in double precision


class Products(NamedTuple):
    """Inner products of the gradient g, the gradient before o and the last direction H, all at the current point."""

    gg: float
    go: float
    gH: float
    oo: float
    oH: float
    HH: float

    @classmethod
    def of(cls, g: Array, o: Array, H: Array) -> Products:
        (gg, go, gH), (_, oo, oH), (_, _, HH) = arrays.inner_products(g, o, H)
        return cls(gg, go, gH, oo, oH, HH)


def hestenes_stiefel(of: Products) -> float:
    """HS+ (the default)."""
    return max(0.0, _ratio(of.gg - of.go, of.gH - of.oH))


def polak_ribiere(of: Products) -> float:
    """PR+."""
    return max(0.0, _ratio(of.gg - of.go, of.oo))


def fletcher_reeves(of: Products) -> float:
    """FR."""
    return _ratio(of.gg, of.oo)


def dai_yuan(of: Products) -> float:
    """DY."""
    return _ratio(of.gg, of.gH - of.oH)


#: how much of the old direction is kept
BETA_RULES: dict[str, Callable[[Products], float]] = {
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

    @arrays.own_threads
    def cost(self, W: Array) -> tuple[float, Array]:
        """Value and Euclidean gradient at W."""
        evaluation = self.evaluate(self.stack.start(W + 0.0))  # a copy: the caller may change W in place
        return evaluation.value, self.stack.gradient(evaluation.S)


@arrays.own_threads
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
        # W'W on the host: one wait for a device tells the size of W and its condition
        self._square = arrays.to_numpy(self.W.mT @ self.W)
        self.size = math.sqrt(np.trace(self._square))

    @property
    def condition(self) -> float:
        """Condition number of W: an upper bound, at most m times too large, where that is far from MAX_CONDITION."""
        try:
            inverse = arrays.inverse_lower(np.linalg.cholesky(self._square)[None])
            bound = self.size * math.sqrt(inner(inverse, inverse))
        except np.linalg.LinAlgError:
            bound = math.inf
        if bound < SQUARED * MAX_CONDITION:
            return bound
        w = namespace(self.W).linalg.svdvals(self.W).tolist()  # W'W may have lost the digits
        return w[0] / w[-1] if w[-1] > 0 else math.inf

    def refresh(self) -> None:
        """Compute XW and P from W again."""
        self.P = self.problem.stack.refresh()

    def scale(self, factor: float) -> None:
        """Move to `factor W` where the objective is the same: tangent vectors grow with W, gradients shrink."""
        self.W = self.problem.stack.scale(factor)
        self.P, self._square = self.P * factor**2, self._square * factor**2
        self.size *= factor
        self.g, self.old_g = self.g / factor, self.old_g / factor
        self.gradient_norm /= factor
        if self.H is not None:
            self.H = self.H * factor

    def advance(self, rule: str) -> tuple[float, int] | None:
        """One iteration: direction, line search, step. None if not even the negative gradient goes down."""
        H, slope, length = self._direction(rule)
        trials = 0
        for restart in (False, True):
            if restart:
                if self.H is None:
                    return None
                self.H, (H, slope, length) = None, self._downhill()
            A1, A2 = self.problem.stack.look(H)
            line = Line(self.problem.evaluate, self.P, A1, A2, self.manifold.normaliser(H), self.value, slope)
            found = line.search(self._first_step(slope, length), MAX_STRETCH * self.size / length)
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

    def _direction(self, rule: str) -> tuple[Array, float, float]:
        """Conjugate direction, its slope and length; the negative gradient where that would not go down."""
        if self.H is not None:
            H = self.manifold.transport(self.W, self.H)
            of = Products.of(self.g, self.manifold.transport(self.W, self.old_g), H)
            beta = BETA_RULES[rule](of)
            slope = beta * of.gH - of.gg
            length = math.sqrt(max(beta * beta * of.HH - 2 * beta * of.gH + of.gg, 0.0))
            if slope < -1e-10 * self.gradient_norm * length and length > 1e-6 * self.gradient_norm:
                return beta * H - self.g, slope, length
        return self._downhill()

    def _downhill(self) -> tuple[Array, float, float]:
        """The negative gradient, its slope and length."""
        return -self.g, -(self.gradient_norm**2), self.gradient_norm

    def _first_step(self, slope: float, length: float) -> float:
        """Trial step: the last decrease of first order, kept, or a set fraction of W at the start."""
        if self.H is None or self.step == 0.0:
            return FIRST_STEP * self.size / length
        return self.step * min(max(self.slope / slope, 1e-3), 1e3)


def _ratio(top: float, bottom: float) -> float:
    return top / bottom if bottom > 0 else 0.0
