"""`spdsl report`: the page of a run that `spdsl reproduce` has finished."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spdsl.commands.errors import Debug, plain_errors
from spdsl.experiments.outputs import read_results
from spdsl.experiments.report import read_studies, write_report

Folder = Annotated[Path, typer.Argument(help="Folder that `spdsl reproduce` wrote.")]
Output = Annotated[Path | None, typer.Option("--out", "-o", help="Write the page here, and nothing into the folder.")]


def report(folder: Folder, output: Output = None, debug: Debug = False) -> None:
    """Make the report of a finished run again, from its results.json and figures.json."""
    with plain_errors(debug):
        results, studies = read_results(folder), read_studies(folder)
        page = next(iter(write_report(results, folder, studies, output=output)))
    if studies is None:
        typer.echo(
            f"warning: no figures.json in {folder}: the page has the figure of the table alone; the same "
            "`spdsl reproduce` again, without --no-report, finds the others",
            err=True,
        )
    typer.echo(f"Report: {page}")
