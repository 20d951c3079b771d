"""`spdsl report`: the report of a finished run of `spdsl reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spdsl.cli.errors import Debug, plain_errors
from spdsl.cli.text import say
from spdsl.evaluation.report import read_figures, write_report
from spdsl.evaluation.results import read_results
from spdsl.models.files import check_not_input

Folder = Annotated[Path, typer.Argument(help="Folder written by `spdsl reproduce`.")]
Output = Annotated[
    Path | None, typer.Option("--out", "-o", help="File for the report. By default report.html in the folder.")
]


def report(folder: Folder, output: Output = None, debug: Debug = False) -> None:
    """Write the report of a finished run again, from its results.json and figures.json."""
    with plain_errors(debug):
        check_not_input(output, folder / "results.json", folder / "figures.json")
        results, data = read_results(folder), read_figures(folder)
        page = next(iter(write_report(results, folder, data, output=output)))
    if data is None:
        say(
            f"warning: no figures.json in {folder}, so the report has only the figure of the table; run the same "
            "`spdsl reproduce` command without --no-report for the other figures",
            err=True,
        )
    say(f"Report: {page}")
