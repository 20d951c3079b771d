"""Riemannian conjugate gradient (Algorithm 1) that reads the data once per iteration.

Along the search line the reduced matrices are `P(t) = P + t A1 + t^2 A2`, so the value and slope of a trial of the line
search cost only m x m work.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from spdsl import backend
from spdsl.backend import Array, namespace
from spdsl.data.parameters import check_choice
from spdsl.geometry.manifolds import Manifold
from spdsl.learning.line_search import Line, inner
from spdsl.learning.problem import Evaluation, Problem

FIRST_STEP = 0.1  # length of the first trial step, relative to W
SAVE = 10  # iterations between snapshots
REFRESH = 100  # iterations after which XW is recomputed from W, to remove rounding drift
MAX_STRETCH = 10.0  # largest step relative to W: a longer trial is uninformative
MAX_SIZE = 1e4  # of W, relative to the start: no objective that has a minimum and depends on the size gets this far
SAME_VALUE = 1e-6  # relative difference of costs that can be due to the number of threads or the device
SQUARED = 1e-3  # fraction of MAX_CONDITION up to which W'W determines the condition of W
MAX_CONDITION = 1e8  # of W: beyond it W'XW has no correct digits in double precision


class Products(NamedTuple):
    """Inner products of the gradient g, the previous gradient o and the last direction H, all at the current point."""

    gg: float
    go: float
    gH: float
    oo: float
    oH: float
    HH: float

    @classmethod
    def of(cls, g: Array, o: Array, H: Array) -> Products:
        (gg, go, gH), (_, oo, oH), (_, _, HH) = backend.inner_products(g, o, H)
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


#: how much of the old direction is kept, by name of the rule
BETA_RULES: dict[str, Callable[[Products], float]] = {
    "hestenes-stiefel": hestenes_stiefel,
    "polak-ribiere": polak_ribiere,
    "fletcher-reeves": fletcher_reeves,
    "dai-yuan": dai_yuan,
}


@dataclass(frozen=True)
class Iteration:
    """One row of the history: the state reached, and the work it took."""

    iteration: int
    value: float
    gradient_norm: float
    step: float
    trials: int
    seconds: float


@dataclass
class SolverResult:
    """Where the solver stopped and why: W, the reduced matrices P, and one of STATUSES."""

    W: Array
    P: Array
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
    """Everything needed to resume a run.

    Attributes
    ----------
    parts : dict of NumPy arrays
        W, its gradient g and, if there is a last direction H, that and the previous gradient old_g.
    iteration, idle : int
        Iterations done, and the number of last ones in which the value hardly changed.
    value, step, slope, size : float
        Value at the point reached, step and slope of the last line search, size of the first W.
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
    "gradient": "the gradient is zero to tolerance",
    "change": "the objective stopped changing",
    "precision": "no further decrease within rounding",
    "rank": "W is about to lose rank: the objective has no minimizer in the interior",
    "unbounded": "W grows without bound: the objective has no minimizer",
    "max_iter": "the iteration limit was reached before convergence",
    "callback": "stopped by the callback",
    "interrupted": "interrupted from the keyboard",
}


@backend.own_threads
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
    """Minimize the problem over the manifold from the point `W`, or from a snapshot of an earlier run.

    Stops when `|grad| |W| <= gradient_tol |value|`, when the relative decrease stays below `tol` for `patience`
    iterations, when the line search finds no decrease along the negative gradient, when W is about to lose rank or grows
    without bound, after `max_iter` iterations, or when `callback(row, W)` returns True. The value never increases.
    `save` receives a snapshot every few iterations, and the run itself continues from it, so that a resumed run has
    exactly the same numbers.
    """
    check_choice("rule", rule, BETA_RULES)
    run = _Run(problem, manifold, W, resume, callback)
    status = "max_iter"
    try:
        if resume is None and run.record(0, 0.0, 1):
            status, max_iter = "callback", 0
        for iteration in range(run.first, max_iter + 1):
            if run.state.gradient_norm * run.state.size <= gradient_tol * max(abs(run.state.value), 1e-300):
                status = "gradient"
                break
            reason = run.iterate(iteration, rule, tol, patience)
            if reason is not None:
                status = reason
                break
            if save is not None and iteration % SAVE == 0:
                run.save(iteration, save)
            elif iteration % REFRESH == 0:
                run.state.refresh()
    except KeyboardInterrupt:
        status = "interrupted"
    state = run.state
    return SolverResult(state.W, state.P, state.value, status, STATUSES[status], run.history, problem.view.passes)


class _Run:
    """The state reached, the history of the way there, and the number of last iterations that changed little."""

    def __init__(
        self,
        problem: Problem,
        manifold: Manifold,
        W: Array,
        resume: Snapshot | None,
        callback: Callable[[dict[str, float], Array], Any] | None,
    ) -> None:
        self.problem, self.manifold, self.model, self.callback = problem, manifold, W, callback
        if resume is None:
            self.state = _State(problem, manifold, W)
            self.size, self.idle, self.first = self.state.size, 0, 1
            self.history: list[dict[str, float]] = []
        else:
            self.state = _State.restored(problem, manifold, resume, W)
            self.size, self.idle, self.first = resume.size, resume.idle, resume.iteration + 1
            self.history = list(resume.history)
        self.began = time.perf_counter()

    def record(self, iteration: int, step: float, trials: int) -> bool:
        """Add a row to the history; whether the callback asks to stop."""
        now = time.perf_counter()
        state = self.state
        row = dict(vars(Iteration(iteration, state.value, state.gradient_norm, step, trials, now - self.began)))
        self.began = now
        self.history.append(row)
        answer = None if self.callback is None else self.callback(row, self.state.W)
        return isinstance(answer, bool | np.bool_) and bool(answer)

    def iterate(self, iteration: int, rule: str, tol: float, patience: int) -> str | None:
        """One iteration; the status if it is the last one."""
        state, before = self.state, self.state.value
        outcome = state.advance(rule)
        if outcome is None:
            return "precision"
        stopped = self.record(iteration, *outcome)
        if state.condition > MAX_CONDITION:
            return "rank"
        if state.size > MAX_SIZE * self.size:
            if not self.problem.metric.scale_free:
                return "unbounded"
            state.scale(self.size / state.size)
        if stopped:
            return "callback"
        self.idle = self.idle + 1 if before - state.value <= tol * abs(state.value) else 0
        return "change" if self.idle >= patience else None

    def save(self, iteration: int, write: Callable[[Snapshot], None]) -> None:
        """Write a snapshot, and continue from it."""
        snapshot = self.state.snapshot(iteration, self.idle, self.size, self.history)
        write(snapshot)
        self.state = _State.restored(self.problem, self.manifold, snapshot, self.model)


class _State:
    """The current point, its reduced matrices, gradient and last direction."""

    def __init__(self, problem: Problem, manifold: Manifold, W: Array) -> None:
        self.problem, self.manifold = problem, manifold
        self.W = W
        self.P = problem.view.start(W)
        self._settle(problem.evaluate_first(self.P))
        self.H: Array | None = None
        self.old_g: Array = self.g
        self.step = 0.0
        self.slope = 0.0

    @classmethod
    def restored(cls, problem: Problem, manifold: Manifold, snapshot: Snapshot, model: Array) -> _State:
        """The state of a snapshot, as arrays like `model`; an error if its value is another one on these data."""
        parts = {name: backend.like(part, model) for name, part in snapshot.parts.items()}
        state = cls(problem, manifold, parts["W"])
        if not abs(state.value - snapshot.value) <= SAME_VALUE * abs(snapshot.value):
            raise ValueError(
                f"the checkpoint was made with other data: the cost of its W was {snapshot.value:.9g} and is "
                f"{state.value:.9g} here; remove it, or choose another path"
            )
        # not the values just computed: their last digits may differ, and a resumed run must have the same numbers
        state.value, state.g = snapshot.value, parts["g"]
        state.gradient_norm = math.sqrt(inner(state.g, state.g))
        state.H, state.old_g = parts.get("H"), parts.get("old_g", state.g)
        state.step, state.slope = snapshot.step, snapshot.slope
        return state

    def snapshot(self, iteration: int, idle: int, size: float, history: list[dict[str, float]]) -> Snapshot:
        """What `restored` needs."""
        held = {"W": self.W, "g": self.g} | ({} if self.H is None else {"H": self.H, "old_g": self.old_g})
        parts = {name: np.array(backend.to_numpy(part), order="C") for name, part in held.items()}
        return Snapshot(parts, iteration, idle, self.value, self.step, self.slope, size, list(history))

    def _settle(self, evaluation: Evaluation) -> None:
        """Set value and gradient of the current point."""
        self.value = evaluation.value
        self.g = self.manifold.gradient(self.W, self.problem.view.gradient(evaluation.S))
        self.gradient_norm = math.sqrt(inner(self.g, self.g))
        # W'W on the host: one synchronization gives the size of W and its condition
        self._square = backend.to_numpy(self.W.mT @ self.W)
        self.size = math.sqrt(np.sum(np.trace(self._square, axis1=-2, axis2=-1)))

    @property
    def condition(self) -> float:
        """Condition number of W, of its worst block; only an upper bound if far from MAX_CONDITION."""
        square = self._square.reshape(-1, *self._square.shape[-2:])
        try:
            inverse = backend.inverse_lower(np.linalg.cholesky(square))
            bound = math.sqrt(np.max(np.trace(square, axis1=1, axis2=2) * np.sum(inverse**2, axis=(1, 2))))
        except np.linalg.LinAlgError:
            bound = math.inf
        if bound < SQUARED * MAX_CONDITION:
            return bound
        w = backend.to_numpy(namespace(self.W).linalg.svdvals(self.W))  # W'W may be too inaccurate
        return float(np.max(w[..., 0] / w[..., -1])) if np.all(w[..., -1] > 0) else math.inf

    def refresh(self) -> None:
        """Recompute XW and P from W."""
        self.P = self.problem.view.refresh()

    def scale(self, factor: float) -> None:
        """Rescale to `factor W`, which leaves the objective as it is: tangent vectors grow with W, gradients shrink."""
        self.W = self.problem.view.scale(factor)
        self.P, self._square = self.P * factor**2, self._square * factor**2
        self.size *= factor
        self.g, self.old_g = self.g / factor, self.old_g / factor
        self.gradient_norm /= factor
        if self.H is not None:
            self.H = self.H * factor

    def advance(self, rule: str) -> tuple[float, int] | None:
        """One iteration: direction, line search, step. None if not even the negative gradient is a descent direction."""
        H, slope, length = self._direction(rule)
        trials = 0
        for restart in (False, True):
            if restart:
                if self.H is None:
                    return None
                self.H, (H, slope, length) = None, self._downhill()
            A1, A2 = self.problem.view.look(H)
            line = Line(self.problem.evaluate, self.P, A1, A2, self.manifold.normalizer(H), self.value, slope)
            found = line.search(self._first_step(slope, length), MAX_STRETCH * self.size / length)
            trials += line.trials
            if found is not None:
                break
        else:
            return None
        t, trial = found
        self.W = self.problem.view.step(t, trial.right)
        self.P = trial.P
        self.old_g, self.H, self.step, self.slope = self.g, H, t, slope
        self._settle(trial.evaluation)
        return t, trials

    def _direction(self, rule: str) -> tuple[Array, float, float]:
        """Conjugate direction, its slope and length; the negative gradient if it is not a descent direction."""
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
        """Trial step: the same first-order decrease as the last step, or a fixed fraction of W at the start."""
        if self.H is None or self.step == 0.0:
            return FIRST_STEP * self.size / length
        return self.step * min(max(self.slope / slope, 1e-3), 1e3)


def _ratio(top: float, bottom: float) -> float:
    return top / bottom if bottom > 0 else 0.0
