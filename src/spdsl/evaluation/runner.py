"""A run: every method on every draw, finished cells kept in a store, so that it can stop and go on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from spdsl.backend import check_device
from spdsl.evaluation.cells import RESULT_VERSION, SEED, Cells, Experiment, Settings, Tuning, cell_of
from spdsl.evaluation.fitting import check_scoring
from spdsl.evaluation.jobs import Done, Job, run_jobs
from spdsl.evaluation.methods import Grid, Method, get_methods, warn_of_missing
from spdsl.evaluation.results import Cell, Results, describe_environment, plain, unit_of
from spdsl.evaluation.splits import fold_count
from spdsl.evaluation.store import MemoryStore, Store
from spdsl.learning.progress import Progress, Quiet
from spdsl.models.text import printable


def run_experiment(
    experiment: Experiment,
    store: Store | MemoryStore,
    methods: Any = "paper",
    *,
    tuning: Tuning | None = None,
    n_folds: int = 5,
    scoring: Any = "accuracy",
    seed: int | None = SEED,
    device: str | None = None,
    n_jobs: int | None = -1,
    cluster: str | None = None,
    command: str = "",
    verbose: bool = True,
) -> Results:
    """Find every cell that the store does not hold, and return all of them.

    Several runs may share a store: each works on cells that no other works on, and takes over what the others find. A
    cell that fails is not stored, so that the next run tries it again.

    Parameters
    ----------
    experiment : Experiment
    store : Store or MemoryStore
    methods : "all", "paper", or a list or dict as in `spdsl.compare`
    tuning : {"each", "first", "none"}, optional
        Choose parameters by cross-validation inside each training part; inside the first draw's alone, and use them for
        all draws; or take the defaults. By default what the experiment asks for.
    n_folds : int
        Of the cross-validation; fewer where a class of a training part has fewer samples or groups.
    scoring : str or list of str
        scikit-learn's names; the first one is what tuning maximizes.
    seed : int or None
        Of the folds and of every random start.
    device : str, optional
        Device of the methods that compute on one, e.g. "cuda": one cell after the other, in this process.
    n_jobs : int, optional
        Processes.
    cluster : str, optional
        Address of a Dask scheduler to compute on instead.
    command : str
        The command line, for the record.
    verbose : bool
        Show progress on standard error.
    """
    mode: Tuning = tuning or experiment.tuning
    if mode not in ("each", "first", "none"):
        raise ValueError(f"tuning={mode!r}: choose 'each', 'first' or 'none'")
    chosen = get_methods(methods)
    warn_of_missing(chosen)
    n_jobs = jobs_on(device, n_jobs, cluster)
    run = _Run(experiment, store, chosen, Settings(mode, n_folds, seed, check_scoring(scoring), device))
    missing = run.count_missing()
    with Progress(missing, printable(experiment.title)) if verbose and missing else Quiet() as progress:
        for wave in run.waves():
            for done in run_jobs([run.start(*place) for place in wave], store, n_jobs=n_jobs, cluster=cluster):
                cell = run.take(done)
                if done.key not in run.known:
                    progress.step(_said(cell, run.cells_of.settings.scoring[0]))
    return run.results(command)


def jobs_on(device: str | None, n_jobs: int | None, cluster: str | None = None) -> int | None:
    """Processes: one where there is a device, which must be there and is not shared."""
    if device is None:
        return n_jobs
    if cluster is not None:
        raise ValueError(f"device={device!r} is of this machine; leave it or the cluster out")
    check_device(device)
    return 1


def _said(cell: Cell, name: str) -> str:
    score = cell.score(name)
    return printable(
        f"{cell.method} {cell.error or (f'{100 * score:.1f}' if unit_of(name) == 100 else f'{score:.3g}')}"
    )


class _Run:
    """Which cells there are, in which order they are found, and what is known of them."""

    def __init__(
        self, experiment: Experiment, store: Store | MemoryStore, methods: list[Method], settings: Settings
    ) -> None:
        self.experiment, self.store, self.methods = experiment, store, methods
        self.cells_of = Cells(experiment, settings)
        self.cells: dict[tuple[str, int], Cell] = {}
        self.known: set[str] = set()  # what the store had at the start
        self._places: dict[str, list[tuple[str, int]]] = {}  # several for equal splits

    def start(self, method: Method, draw: int, given: Mapping[str, Any] | None) -> Job:
        """The job of a cell."""
        job = self.cells_of.job(method, draw, given)
        self._places.setdefault(job.key, []).append((method.name, draw))
        return job

    def take(self, done: Done) -> Cell:
        """Keep the cell, wherever it belongs; one of them."""
        for name, draw in self._places[done.key]:
            cell = self.cells[name, draw] = cell_of(done, name, draw, getattr(self.store, "path", "the store"))
        return cell

    def waves(self) -> Iterator[list[tuple[Method, int, Mapping[str, Any] | None]]]:
        """Lists of cells that depend on nothing but earlier lists."""
        draws = range(len(self.experiment.splits))
        if self.cells_of.settings.tuning != "first":
            nothing: dict[str, Any] | None = None if self.cells_of.settings.tuning == "each" else {}
            yield [(method, draw, nothing) for draw in draws for method in self.methods]
            return
        # the slow methods are the registry's last: first in the list they leave no worker waiting at the end
        yield [(method, 0, None) for method in reversed(self.methods)]
        good = [method for method in self.methods if not self.cells[method.name, 0].error]
        for method in self.methods:
            if method not in good:
                failure = f"not tuned, since the first draw failed: {self.cells[method.name, 0].error}"
                self.cells |= {(method.name, k): Cell(method.name, k, error=failure) for k in draws[1:]}
        given = {m.name: _grid_values(self.cells_of.grid(m), self.cells[m.name, 0].params) for m in good}
        yield [(method, draw, given[method.name]) for draw in draws[1:] for method in good]

    def count_missing(self) -> int:
        """How many cells the store lacks, those that wait for the first draw's parameters included."""
        self.store.refresh()
        tuning, count = self.cells_of.settings.tuning, 0
        for method in self.methods:
            first = self.cells_of.job(method, 0, {} if tuning == "none" else None)
            given, stored = first.arguments[5], first.key in self.store
            if tuning == "first" and stored:
                cell = cell_of(Done(first.key, self.store[first.key]), method.name, 0, getattr(self.store, "path", ""))
                given = _grid_values(self.cells_of.grid(method), cell.params)
            others = [self.cells_of.job(method, k, given) for k in range(1, len(self.experiment.splits))]
            self.known |= {job.key for job in (first, *others) if job.key in self.store}
            unknown = tuning == "first" and not stored  # of the others nothing is known before the first is done
            keys = {job.key for job in (first, *others) if unknown or job.key not in self.store}
            count += len(others) + 1 if unknown else len(keys)
        return count

    def results(self, command: str) -> Results:
        """All cells in order, with the protocol in words."""
        e = self.experiment
        cells = [self.cells[method.name, draw] for method in self.methods for draw in range(len(e.splits))]
        spent = [[c.tune_seconds, c.fit_seconds, c.predict_seconds] for c in cells]
        classes, codes = np.unique(e.y, return_inverse=True)
        return Results(
            dataset=e.name,
            title=e.title,
            description=e.description,
            n_matrices=len(e.X),
            n_features=e.X.shape[-1],
            n_classes=len(classes),
            n_components=e.n_components,
            n_draws=len(e.splits),
            cells=cells,
            published={name: pair for name, pair in e.published.items() if name in {m.name for m in self.methods}},
            settings=describe_protocol(self.cells_of, self.methods),
            environment=describe_environment(command),
            seconds=float(np.nansum(spent)),
            sizes=[(len(train), len(test)) for train, test in e.splits],
            scoring=list(self.cells_of.settings.scoring),
            classes=[str(name) for name in classes],
            truth=[codes[test].tolist() for _, test in e.splits],
            sections={method.name: str(method.category) for method in self.methods},
        )


def describe_protocol(cells: Cells, methods: list[Method]) -> dict[str, Any]:
    """What was done, in words; nothing that was not."""
    e, s = cells.experiment, cells.settings
    tuned = [m for m in methods if m.grid] if s.tuning != "none" else []
    iterations = {m.name: m.factory().get_params().get("max_iter") for m in methods if m.reduces}
    said: dict[str, Any] = {"splits": e.how, "tuning": _tuning_words(cells, bool(tuned))}
    if s.scoring != ("accuracy",):
        said["scores"] = list(s.scoring)
    if e.groups is not None:
        said["groups"] = (
            f"{len(np.unique(e.groups))} groups, kept apart in the folds of tuning"
            if tuned
            else (f"{len(np.unique(e.groups))} groups")
        )
    said["seed"] = s.seed
    if s.device is not None:
        said["device"] = s.device
    if tuned:
        said["folds"] = sorted({fold_count(e.y[train], s.n_folds, e.grouped(train)) for train, _ in e.splits})
    if e.n_components is not None:
        said["components"] = e.n_components
    said["iterations"] = {name: count for name, count in iterations.items() if count is not None}
    if tuned:
        said["grids"] = {m.name: {k: [plain(v) for v in values] for k, values in cells.grid(m).items()} for m in tuned}
    return said | {"data": f"sha256 {cells.data}", "result version": RESULT_VERSION}


def _tuning_words(cells: Cells, anything: bool) -> str:
    e, s = cells.experiment, cells.settings
    if not anything:
        return "nothing tuned: the defaults of the methods"
    folds = sorted({fold_count(e.y[train], s.n_folds, e.grouped(train)) for train, _ in e.splits})
    by = f"cross-validation with {' to '.join(map(str, folds[:: max(1, len(folds) - 1)]))} folds"
    if s.tuning == "each":
        return f"parameters chosen inside each training part by {by}"
    tested = np.unique(np.concatenate([test for _, test in e.splits]))
    shared = len(np.intersect1d(e.splits[0][0], tested))
    others = (
        f"; {shared} of the {len(e.splits[0][0])} samples tuned on are test samples of other draws" if shared else ""
    )
    return f"parameters chosen inside the first draw's training part alone, by {by}, and used for all draws{others}"


def _grid_values(grid: Grid, params: Mapping[str, Any]) -> dict[str, Any]:
    """Stored parameters as the values of the grid that they came from."""
    return {name: next((v for v in grid[name] if plain(v) == value), value) for name, value in params.items()}
