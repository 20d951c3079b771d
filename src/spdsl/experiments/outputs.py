"""The files of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spdsl.experiments import tables
from spdsl.experiments.results import Results
from spdsl.writing import written_whole

RESULTS = "results.json"


@dataclass(frozen=True)
class Output:
    """A file of a run: what is in it, and how its text comes of the results."""

    about: str
    render: Callable[[Results], str]


OUTPUTS = {
    "table.md": Output("the table in Markdown", tables.to_markdown),
    "table.tex": Output("in LaTeX (booktabs)", tables.to_latex),
    "table.csv": Output("as CSV, with all digits", tables.to_csv),
    "table.json": Output("as JSON", tables.to_json),
    "cells.csv": Output("accuracy and parameters of each method in each draw", tables.cells_to_csv),
    "seconds.csv": Output("how long each took", tables.seconds_to_csv),
    RESULTS: Output("everything, with settings, versions and hardware", Results.to_json),
}


def write_outputs(results: Results, folder: str | Path) -> dict[Path, str]:
    """Write everything that comes of a run into `folder`, each file whole or not at all; the paths, and what is there."""
    written = {}
    for name, output in OUTPUTS.items():
        path = Path(folder) / name
        with written_whole(path) as file:
            file.write(output.render(results).encode())
        written[path] = output.about
    return written


def read_results(folder: str | Path) -> Results:
    """The results that a run has left in `folder`; a ValueError or FileNotFoundError says what is wrong with them."""
    path = Path(folder) / RESULTS
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; `spdsl reproduce --out {folder}` makes it")
    try:
        return Results.from_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
