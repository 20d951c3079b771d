"""`spdsl reproduce`: the paper's comparison on its datasets, on the embedded digits, or on a stack of one's own."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.console import Console

from spdsl.commands.errors import Debug, plain_errors
from spdsl.commands.options import Components, Folds, Jobs, Methods, Ridge, named_methods, one_of
from spdsl.commands.progress import shown
from spdsl.experiments.outputs import write_outputs
from spdsl.experiments.protocols import STUDIES, Experiment, Tuning, check_source, load_experiment
from spdsl.experiments.report import check_tools, write_report
from spdsl.experiments.results import Results
from spdsl.experiments.runner import run_experiment
from spdsl.experiments.store import Store, open_early
from spdsl.experiments.study_runner import run_studies
from spdsl.experiments.tables import notes, to_rich

QUICK_DRAWS = 2


Dataset = Annotated[
    str | None, typer.Argument(metavar="|".join(STUDIES), callback=one_of(*STUDIES), help="Which dataset.")
]
Data = Annotated[
    Path | None, typer.Option("--data", help="Folder of the dataset, or an .npz file of your own with X and y.")
]
Draws = Annotated[int | None, typer.Option(min=1, help="Random draws; 10 unless quick.")]
Quick = Annotated[bool, typer.Option("--quick", help=f"{QUICK_DRAWS} draws, nothing tuned.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Where to write. By default spdsl-results and the name of the dataset."),
]
Tune = Annotated[
    str | None,
    typer.Option(
        metavar="each|first|none",
        callback=one_of("each", "first", "none"),
        help="Tune in each draw, in the first alone, or not. By default first for digits, else each.",
    ),
]
Cluster = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Compute on this Dask scheduler's workers.")]
Partial = Annotated[bool, typer.Option("--partial", help="Run although a part of the dataset is missing.")]
NoReport = Annotated[bool, typer.Option("--no-report", help="Tables alone: no figures and no page.")]


def reproduce(
    dataset: Dataset = None,
    data: Data = None,
    methods: Methods = "paper",
    draws: Draws = None,
    quick: Quick = False,
    jobs: Jobs = None,
    folds: Folds = 5,
    components: Components = None,
    out: Out = None,
    tune: Tune = None,
    cluster: Cluster = None,
    ridge: Ridge = 0.0,
    partial: Partial = False,
    no_report: NoReport = False,
    debug: Debug = False,
) -> None:
    """Run the paper's comparison, and write its tables and a report.

    Without arguments on image sets of digits that come with the installation. Finished work is kept in the output folder:
    the same command again goes on where an interrupted one stopped, and two of them at once share the work.
    """
    # an interrupted run can end before joblib has told its tracker that a semaphore is gone; the tracker's complaint, which
    # comes from a process of its own, would be the last thing that the user reads
    os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker")
    began = time.perf_counter()
    name = dataset or (data.stem if data else "digits")
    folder = out or Path("spdsl-results") / name
    at_most = quick and draws is None
    if quick:
        draws, tune = draws or QUICK_DRAWS, tune or "none"
    with plain_errors(debug, kept=folder):
        check_source(dataset, data)
        if not no_report:
            check_tools()
        store = open_early(folder)
        experiment = _load(dataset, data, draws, at_most, components, ridge, partial, jobs or os.cpu_count() or 1)
        store = Store(folder) if store is None else store
        _say(experiment, store)
        chosen, tuning = named_methods(methods), cast(Tuning | None, tune)
        results = run_experiment(
            experiment, store, chosen, tuning=tuning, n_folds=folds, n_jobs=jobs or -1, cluster=cluster
        )
        written = write_outputs(results, folder)
        _show(results)
        if not no_report:
            studies = run_studies(experiment, store, results, n_jobs=jobs or -1)
            written = write_report(results, folder, studies) | written
    _write(f"\nDone in {time.perf_counter() - began:.0f} s; the methods took {results.seconds:.0f} s of work.")
    _list(written)
    _exit_code(results)


def _exit_code(results: Results) -> None:
    """End with 1 where a cell failed."""
    failed = sum(bool(cell.error) for cell in results.cells)
    if failed:
        typer.echo(f"error: {failed} of {len(results.cells)} cells failed; the table says why", err=True)
        raise typer.Exit(1)


def _load(
    dataset: str | None,
    data: Path | None,
    draws: int | None,
    at_most: bool,
    components: int | None,
    ridge: float,
    partial: bool,
    jobs: int,
) -> Experiment:
    """The experiment; progress and what was skipped are said on the error stream."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with shown("features") as progress:
            experiment = load_experiment(
                dataset,
                data,
                draws=draws,
                at_most=at_most,
                n_components=components,
                ridge=ridge,
                partial=partial,
                jobs=jobs,
                progress=progress,
            )
    for warning in caught:
        typer.echo(f"warning: {warning.message}", err=True)
    return experiment


def _say(experiment: Experiment, store: Store) -> None:
    """What is about to run."""
    for line in store.damaged:
        typer.echo(f"warning: {line}", err=True)
    _write(f"{experiment.title}. {experiment.description}")
    train, test = (len(part) for part in experiment.splits[0])
    _write(f"{experiment.how}; {train} labelled matrices, {test} to recognise; m = {experiment.n_components}.")
    if len(store):
        _write(
            f"{len(store)} pieces of work are finished already, in {store.path}; what is of this run is not done again."
        )


def _show(results: Results) -> None:
    """The table, and what a reader of it must know."""
    Console().print(to_rich(results))
    for note in notes(results):
        _write(note, style="dim")


def _list(written: dict[Path, str]) -> None:
    """Where everything is."""
    _write(f"Written to {next(iter(written)).parent}:")
    width = max(len(path.name) for path in written)
    for path, about in written.items():
        _write(f"  {path.name:<{width}}  {about}")
    for path in written:
        if path.suffix == ".html":
            _write(f"Report: {path}")


def _write(text: str, style: str | None = None) -> None:
    """Text that breaks between words where the terminal ends, and nowhere in a pipe."""
    console = Console()
    console.print(text, markup=False, highlight=False, style=style, soft_wrap=not console.is_terminal)
