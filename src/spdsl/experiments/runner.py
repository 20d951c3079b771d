"""Run a protocol: every method on every draw, finished cells kept in a store, so that a run can stop and go on."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from spdsl.experiments.cells import Cell, not_default, run_cell, run_jobs, unfitted
from spdsl.experiments.environment import describe_environment
from spdsl.experiments.protocols import SEED, Experiment, Tuning
from spdsl.experiments.results import Results, cell_from_dict, cell_to_dict, plain
from spdsl.experiments.splits import Split, fold_count
from spdsl.experiments.store import Store, StoreError
from spdsl.methods import Grid, Method, get_methods
from spdsl.progress import Progress, Quiet

RESULT_VERSION = 1  # to be raised whenever a change of the library changes what a cell finds
POLL = 0.5  # seconds between looks at cells on which another run works


@dataclass(frozen=True)
class Task:
    """A cell to be found: its key in the store, and what `run_cell` needs besides the data."""

    key: str
    method: Method
    draw: int
    split: Split
    given: Mapping[str, Any] | None


def run_experiment(
    experiment: Experiment,
    store: Store,
    methods: str | Sequence[str] = "paper",
    *,
    tuning: Tuning | None = None,
    n_folds: int = 5,
    n_jobs: int | None = -1,
    cluster: str | None = None,
    verbose: bool = True,
) -> Results:
    """Find every cell that the store does not hold, and return all of them.

    A cell is known by a digest of all that determines it: matrices, labels, split, method with its parameters and grid,
    folds, seed, size. Several runs may share a store: each works on cells that no other works on, and takes over what the
    others find. A cell that fails is not stored, so that the next run tries it again.

    Parameters
    ----------
    experiment : Experiment
    store : Store
    methods : "all", "paper", or names of `spdsl.METHODS`
    tuning : {"each", "first", "none"}, optional
        Choose parameters by cross-validation inside each training part; inside the first draw's alone, and use them for
        all draws; or take the defaults. By default what the experiment asks for.
    n_folds : int
        Of the cross-validation; fewer where a class of a training part has fewer samples.
    n_jobs : int, optional
        Processes.
    cluster : str, optional
        Address of a Dask scheduler to compute on instead.
    verbose : bool
        Show progress on standard error.
    """
    mode: Tuning = tuning or experiment.tuning
    if mode not in ("each", "first", "none"):
        raise ValueError(f"tuning={mode!r}: choose 'each', 'first' or 'none'")
    run = _Run(experiment, store, get_methods(methods), mode, n_folds)
    missing = run.count_missing()
    shown = Progress(missing, experiment.title) if verbose and missing else Quiet()
    with shown as progress:
        for wave in run.waves():
            for cell in _run_wave(run, wave, n_jobs, cluster):
                progress.step(f"{cell.method} {cell.error or f'{100 * cell.accuracy:.1f}'}")
    return run.results()


class _Run:
    """The cells of a run: which there are, in which order, and what is known of them."""

    def __init__(
        self, experiment: Experiment, store: Store, methods: list[Method], tuning: Tuning, n_folds: int
    ) -> None:
        self.experiment, self.store, self.methods = experiment, store, methods
        self.tuning, self.n_folds = tuning, n_folds
        self.cells: dict[tuple[str, int], Cell] = {}
        self._data = experiment.digest

    def grid(self, method: Method) -> Grid:
        """What the method is tuned over on this experiment."""
        return method.grid_at(self.experiment.n_components, self.experiment.X.shape[-1])

    def task(self, method: Method, draw: int, given: Mapping[str, Any] | None) -> Task:
        """A cell with its key; nothing to tune is the same as nothing given."""
        split = self.experiment.splits[draw]
        given = {} if given is None and not method.grid else given
        model = unfitted(method, self.experiment.n_components, SEED)
        content = {
            "version": RESULT_VERSION,
            "data": self._data,
            "train": _digest(split[0]),
            "test": _digest(split[1]),
            "method": method.name,
            "estimator": type(model).__name__,
            "params": not_default(model),
            "seed": SEED,
        }
        if given is None:
            content["grid"] = {name: [repr(v) for v in values] for name, values in sorted(self.grid(method).items())}
            content["folds"] = fold_count(self.experiment.y[split[0]], self.n_folds)
        else:
            content["given"] = {name: repr(value) for name, value in sorted(given.items())}
        text = json.dumps(content, sort_keys=True)
        return Task(hashlib.sha256(text.encode()).hexdigest()[:32], method, draw, split, given)

    def waves(self) -> Iterator[list[Task]]:
        """Lists of cells that depend on nothing but earlier lists."""
        draws = range(len(self.experiment.splits))
        if self.tuning != "first":
            nothing: dict[str, Any] | None = None if self.tuning == "each" else {}
            yield [self.task(method, draw, nothing) for draw in draws for method in self.methods]
            return
        # the slow methods are the registry's last: first in the list they leave no worker waiting at the end
        yield [self.task(method, 0, None) for method in reversed(self.methods)]
        good = [method for method in self.methods if not self.cells[method.name, 0].error]
        for method in self.methods:
            if method not in good:
                failure = f"not tuned, since the first draw failed: {self.cells[method.name, 0].error}"
                self.cells |= {(method.name, k): Cell(method.name, k, error=failure) for k in draws[1:]}
        given = {m.name: _grid_values(self.grid(m), self.cells[m.name, 0].params) for m in good}
        yield [self.task(method, draw, given[method.name]) for draw in draws[1:] for method in good]

    def count_missing(self) -> int:
        """How many cells the store lacks, those that wait for the first draw's parameters included."""
        count = 0
        for method in self.methods:
            first = self.task(method, 0, {} if self.tuning == "none" else None)
            given = first.given
            if self.tuning == "first":
                stored = self.stored(first).params if first.key in self.store else {}
                given = _grid_values(
                    self.grid(method), stored
                )  # of the others nothing is known before the first is done
            others = [self.task(method, k, given) for k in range(1, len(self.experiment.splits))]
            unknown = self.tuning == "first" and first.key not in self.store
            count += sum(unknown or task.key not in self.store for task in [first, *others])
        return count

    def stored(self, task: Task) -> Cell:
        """The cell that the store has, or an error where somebody has edited it."""
        try:
            return cell_from_dict(self.store[task.key] | {"split": task.draw})
        except (KeyError, TypeError, AttributeError):
            raise StoreError(
                f"{self.store.path}: the row {task.key} is no cell of ours, though its check-sum agrees: it was edited; "
                f"remove the row, or choose another output folder"
            ) from None

    def take(self, task: Task) -> bool:
        """Whether the store has the cell; it is then known."""
        if task.key not in self.store:
            return False
        self.cells[task.method.name, task.draw] = self.stored(task)
        return True

    def put(self, task: Task, cell: Cell) -> None:
        """Keep a new cell; what is stored and what is shown are the same."""
        if not cell.error:
            self.store.append(task.key, cell_to_dict(cell))
            self.take(task)
        else:
            self.cells[task.method.name, task.draw] = cell

    def results(self) -> Results:
        """All cells in order, with the protocol in words."""
        e = self.experiment
        order = [(method.name, draw) for method in self.methods for draw in range(len(e.splits))]
        cells = [self.cells[place] for place in order]
        spent = [[c.tune_seconds, c.fit_seconds, c.predict_seconds] for c in cells]
        return Results(
            e.name,
            e.title,
            e.description,
            *(len(e.X), e.X.shape[-1], len(np.unique(e.y)), e.n_components, len(e.splits)),
            cells,
            {name: pair for name, pair in e.published.items() if name in {m.name for m in self.methods}},
            self._settings(),
            describe_environment(),
            float(np.nansum(spent)),
            [(len(train), len(test)) for train, test in e.splits],
        )

    def _settings(self) -> dict[str, Any]:
        e = self.experiment
        folds = sorted({fold_count(e.y[train], self.n_folds) for train, _ in e.splits})
        by = f"cross-validation with {' to '.join(map(str, folds[:: max(1, len(folds) - 1)]))} folds"
        tuned = {
            "each": f"parameters chosen inside each training part by {by}",
            "first": f"parameters chosen inside the first draw's training part alone, by {by}, and used for all draws",
            "none": "nothing tuned: the defaults of the methods",
        }
        iterations = {m.name: m.factory().get_params().get("max_iter") for m in self.methods if m.reduces}
        return {
            "splits": e.how,
            "tuning": tuned[self.tuning],
            "seed": SEED,
            "folds": folds,
            "components": e.n_components,
            "iterations": {name: count for name, count in iterations.items() if count is not None},
            "grids": {m.name: {k: list(v) for k, v in self.grid(m).items()} for m in self.methods if m.grid},
            "data": f"sha256 {self._data}",
            "result version": RESULT_VERSION,
        }


def _run_wave(run: _Run, wave: list[Task], n_jobs: int | None, cluster: str | None) -> Iterator[Cell]:
    """Find the cells of a wave that are not stored, and yield them as they come, here or from another run."""
    run.store.refresh()
    waiting = [task for task in wave if not run.take(task)]
    options = {"tuned": True, "n_components": run.experiment.n_components, "n_folds": run.n_folds, "seed": SEED}
    while waiting:
        desk = _Desk(run, waiting)
        try:
            with closing(run_jobs(partial(_keyed, options), desk.jobs(), n_jobs, cluster)) as done:
                for key, cell in done:
                    run.put(desk.tasks[key], cell)
                    desk.release(key)
                    yield cell
        finally:
            desk.release_all()
        if desk.failure is not None:
            raise desk.failure
        yield from desk.found
        waiting = desk.busy
        if waiting:
            time.sleep(POLL)


class _Desk:
    """Hands out tasks that no other run works on; the claim on each lasts until it is released or this process ends."""

    def __init__(self, run: _Run, waiting: list[Task]) -> None:
        self.run, self.waiting = run, waiting
        self.tasks = {task.key: task for task in reversed(waiting)}  # of equal splits the first is handed out
        self.busy: list[Task] = []
        self.found: list[Cell] = []
        self.failure: Exception | None = None
        self._claims: dict[str, Any] = {}

    def jobs(self) -> Iterator[tuple[Any, ...]]:
        """Arguments of `_keyed`, one task at a time."""
        X, y = self.run.experiment.X, self.run.experiment.y
        try:
            for task in self.waiting:
                if self._claim(task):
                    yield task.key, X, y, task.method, task.draw, task.split, task.given
        except Exception as error:  # joblib may draw in a thread of its own, where an error would be lost
            self.failure = error

    def _claim(self, task: Task) -> bool:
        claim = self.run.store.claim(task.key)
        if claim is None:
            self.busy.append(task)
            return False
        self._claims[task.key] = claim
        self.run.store.refresh()  # it may have been found between our last look and our claim
        if self.run.take(task):
            self.release(task.key)
            self.found.append(self.run.cells[task.method.name, task.draw])
            return False
        return True

    def release(self, key: str) -> None:
        self.run.store.release(self._claims.pop(key))

    def release_all(self) -> None:
        for key in list(self._claims):
            self.release(key)


def _keyed(options: Mapping[str, Any], key: str, *job: Any) -> tuple[str, Cell]:
    """A cell under its key."""
    return key, run_cell(*job, **options)


def _digest(indices: np.ndarray) -> str:
    """Digest of indices; their order counts, since the first of equal neighbours wins."""
    return hashlib.sha256(np.asarray(indices, np.int64).tobytes()).hexdigest()[:16]


def _grid_values(grid: Grid, params: Mapping[str, Any]) -> dict[str, Any]:
    """Stored parameters as the values of the grid that they came from."""
    return {name: next((v for v in grid[name] if plain(v) == value), value) for name, value in params.items()}
