"""The files of a run."""

from __future__ import annotations

from pathlib import Path

from spdsl.datasets.files import written_whole
from spdsl.experiments import tables
from spdsl.experiments.results import Results

RESULTS = "results.json"
TABLES = {
    "table.md": tables.to_markdown,
    "table.tex": tables.to_latex,
    "table.csv": tables.to_csv,
    "table.json": tables.to_json,
    "cells.csv": tables.cells_to_csv,
    "seconds.csv": tables.seconds_to_csv,
    RESULTS: Results.to_json,
}


def write_outputs(results: Results, folder: str | Path) -> list[Path]:
    """Write everything that comes of a run into `folder`, each file whole or not at all; the paths written."""
    paths = []
    for name, render in TABLES.items():
        path = Path(folder) / name
        with written_whole(path) as file:
            file.write(render(results).encode())
        paths.append(path)
    return paths


def read_results(folder: str | Path) -> Results:
    """The results that a run has left in `folder`; a ValueError or FileNotFoundError says what is wrong with them."""
    path = Path(folder) / RESULTS
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; `spdsl reproduce --out {folder}` makes it")
    try:
        return Results.from_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
