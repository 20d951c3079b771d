"""`spdsl reproduce`: the paper's comparison on its datasets, on digits, or on your own matrices."""

from __future__ import annotations

import os
import shlex
import sys
import time
import warnings
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console

from spdsl.cli.errors import Debug, plain_errors, plain_warnings
from spdsl.cli.options import (
    Components,
    Device,
    Folds,
    Groups,
    Jobs,
    Methods,
    Plugins,
    Ridge,
    Scoring,
    as_draws,
    named_methods,
    named_scores,
    number_or_groups,
    one_of,
)
from spdsl.cli.planning import show_plan
from spdsl.cli.progress import shown
from spdsl.cli.text import say
from spdsl.evaluation.cells import SEED, Experiment, Settings, Tuning
from spdsl.evaluation.figure_data import find_figures
from spdsl.evaluation.methods import get_methods
from spdsl.evaluation.plan import plan_run
from spdsl.evaluation.protocols import BENCHMARKS, check_source, load_experiment
from spdsl.evaluation.report import check_tools, write_report
from spdsl.evaluation.results import Results
from spdsl.evaluation.runner import run_experiment
from spdsl.evaluation.store import Store, open_early
from spdsl.evaluation.tables import notes, to_rich, write_outputs
from spdsl.models.files import check_not_input
from spdsl.models.text import printable

QUICK_DRAWS = 2
# an interrupted run can end before joblib has told its tracker that a semaphore is released; the warning of the tracker,
# a process of its own, would then be the last thing the user sees
UNTRACKED = "ignore:resource_tracker"


Dataset = Annotated[
    str | None, typer.Argument(metavar="|".join(BENCHMARKS), callback=one_of(BENCHMARKS), help="Dataset.")
]
Data = Annotated[Path | None, typer.Option("--data", help="Folder of the dataset, or your own .npz file with X and y.")]
Draws = Annotated[
    str | None,
    typer.Option(
        metavar="N|leave-one-group-out",
        callback=number_or_groups,
        help="Number of random splits, of whole groups if the file has groups; by default 10. Or test each group once.",
    ),
]
Quick = Annotated[
    bool, typer.Option("--quick", help=f"{QUICK_DRAWS} splits, no tuning, and no figures that need further fits.")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Output folder. By default spdsl-results/DATASET."),
]
Tune = Annotated[
    str | None,
    typer.Option(
        metavar="each|first|none",
        callback=one_of(("each", "first", "none")),
        help="Tune in each split, only in the first (whose training samples are test samples of other splits), or not at "
        "all. By default first for digits, else each.",
    ),
]
Cluster = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Compute on the workers of this Dask scheduler.")]
Partial = Annotated[bool, typer.Option("--partial", help="Run even if a part of the dataset is missing.")]
NoReport = Annotated[bool, typer.Option("--no-report", help="Write only tables, no figures and no report.")]
Planned = Annotated[
    bool,
    typer.Option("--plan", help="Print how long the run will take, by method, and the memory; compute nothing else."),
]


def reproduce(
    dataset: Dataset = None,
    data: Data = None,
    methods: Methods = "paper",
    draws: Draws = None,
    quick: Quick = False,
    jobs: Jobs = None,
    device: Device = None,
    folds: Folds = 5,
    components: Components = None,
    out: Out = None,
    tune: Tune = None,
    groups: Groups = None,
    scoring: Scoring = "accuracy",
    cluster: Cluster = None,
    ridge: Ridge = 0.0,
    partial: Partial = False,
    no_report: NoReport = False,
    plan: Planned = False,
    plugin: Plugins = None,
    debug: Debug = False,
) -> None:
    """Run the paper's comparison, and write its tables and a report.

    Without arguments it runs on image sets of digits that come with the installation. Completed results are stored in the
    output folder: run the same command again to resume an interrupted run, or at the same time to share the work.
    """
    began = time.perf_counter()
    os.environ.setdefault("PYTHONWARNINGS", UNTRACKED)
    name = dataset or (data.stem if data else "digits")
    folder = out or Path("spdsl-results") / name
    at_most = quick and draws is None
    if quick:
        draws, tune = draws or str(QUICK_DRAWS), tune or "none"
    with plain_errors(debug, kept=folder):
        check_not_input(folder, data)
        check_source(dataset, data)
        options: dict[str, Any] = {"n_components": components, "groups": groups, "ridge": ridge, "partial": partial}
        options |= {"draws": as_draws(draws), "at_most": at_most, "jobs": jobs or os.cpu_count() or 1}
        if plan:
            _plan(_load(dataset, data, options), methods, tune, folds, jobs, device)
            return
        if not no_report:
            check_tools()
        store = open_early(folder)
        experiment = _load(dataset, data, options)
        store = Store(folder) if store is None else store
        _say(experiment, store)
        with plain_warnings():
            results = run_experiment(
                *(experiment, store, named_methods(methods)),
                tuning=cast(Tuning | None, tune),
                n_folds=folds,
                scoring=named_scores(scoring),
                device=device,
                n_jobs=jobs or -1,
                cluster=cluster,
                command=shlex.join(["spdsl", *sys.argv[1:]]),
            )
        written = write_outputs(results, folder)
        _show(results)
        if not no_report:
            data_of_figures = find_figures(
                experiment, store, results, sweep=not quick, device=device, n_jobs=jobs or -1
            )
            written = write_report(results, folder, data_of_figures) | written
    _conclude(results, written, time.perf_counter() - began)


def _plan(
    experiment: Experiment, methods: str, tune: str | None, folds: int, jobs: int | None, device: str | None
) -> None:
    """Print how long the run will take."""
    settings = Settings(cast(Tuning, tune or experiment.tuning), folds, SEED, ("accuracy",), device)
    show_plan(plan_run(experiment, get_methods(named_methods(methods)), settings), jobs, device)


def _conclude(results: Results, written: dict[Path, str], seconds: float) -> None:
    """Say how long it took and what was written; exit with code 1 if a cell failed."""
    _write(f"\nDone in {seconds:.0f} s; total time of the methods {results.seconds:.0f} s.")
    _list(written)
    failed = sum(bool(cell.error) for cell in results.cells)
    if failed:
        say(f"error: {failed} of {len(results.cells)} cells failed; see the table for the reasons", err=True)
        raise typer.Exit(1)


def _load(dataset: str | None, data: Path | None, options: dict[str, Any]) -> Experiment:
    """The experiment; progress and warnings go to standard error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with shown("features") as progress:
            experiment = load_experiment(dataset, data, progress=progress, **options)
    for warning in caught:
        say(f"warning: {warning.message}", err=True)
    return experiment


def _say(experiment: Experiment, store: Store) -> None:
    """Print what is going to run."""
    for line in store.damaged:
        say(f"warning: {line}", err=True)
    _write(f"{experiment.title}. {experiment.description}")
    train, test = (len(part) for part in experiment.splits[0])
    _write(f"{experiment.how}; {train} training and {test} test matrices; m = {experiment.n_components}.")
    if len(store):
        _write(f"{len(store)} results are stored in {store.path}; those of this run are reused.")


def _show(results: Results) -> None:
    """Print the table and its notes."""
    Console().print(to_rich(results))
    for note in notes(results):
        _write(note, style="dim")


def _list(written: dict[Path, str]) -> None:
    """List the files written."""
    _write(f"Written to {next(iter(written)).parent}:")
    width = max(len(path.name) for path in written)
    for path, about in written.items():
        _write(f"  {path.name:<{width}}  {about}")
    for path in written:
        if path.suffix == ".html":
            _write(f"Report: {path}")


def _write(text: str, style: str | None = None) -> None:
    """Print text wrapped to the width of the terminal, and not wrapped in a pipe."""
    console = Console()
    console.print(
        printable(text, keep="\n"), markup=False, highlight=False, style=style, soft_wrap=not console.is_terminal
    )
