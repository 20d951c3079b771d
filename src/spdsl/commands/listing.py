"""`spdsl methods`, `spdsl metrics`: the registries. A table in a terminal, lines of tab-separated fields in a pipe."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from spdsl.methods import METHODS, Method
from spdsl.metrics import METRICS

CATEGORIES = {
    1: "1 basic metrics",
    2: "2 kernel methods",
    3: "3 learned metrics and reductions",
    "proposed": "proposed",
    "head": "proposed, other classifiers",
    "alternative": "alternatives",
}
SHOWN = 6  # integers of a range; of a longer one the ends


def methods() -> None:
    """List the methods.

    With their category, what they are, and the values that `--tune` and `compare` choose from. The first four categories
    are the paper's; the rest is what one would try beside it.
    """
    rows = [(m.name, CATEGORIES[m.category], _about(m), _estimator(m), _grid(m)) for m in METHODS.values()]
    if not Console().is_terminal:
        return _lines(("method", "category", "what it is", "estimator", "tuned over"), rows)
    for category, members in groupby(rows, key=lambda row: row[1]):
        table = Table(
            title=category, title_justify="left", title_style="bold", box=None, pad_edge=False, show_header=False
        )
        table.add_column(width=max(map(len, METHODS)))
        for name, _, about, estimator, grid in members:
            tuned = f"\n{grid}" if grid else ""
            table.add_row(Text(name), Text.assemble(about, "\n", (estimator, "dim"), tuned))
        Console().print(table, "")


def metrics() -> None:
    """List the metrics.

    With the other names that are accepted, the squared distance, and what leaves it unchanged: P -> A'PA for every
    invertible A (linear), for rotations (orthogonal), for none; P -> s P (scale).
    """
    head = ("metric", "also", "squared distance", "invariance")
    rows = [
        (m.name, ", ".join(m.aliases), m.formula, m.invariance + (", scale" if m.scale_free else ""))
        for m in METRICS.values()
    ]
    if not Console().is_terminal:
        return _lines(head, rows)
    table = Table(*head, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(field) for field in row))
    Console().print(table)


def _about(method: Method) -> str:
    """The first words of the estimator's own description."""
    first = (type(method.factory()).__doc__ or "").strip().split("\n")[0]
    return re.split(r"[:;,`.]| under ", first)[0].strip()


def _estimator(method: Method) -> str:
    """The estimator with the parameters that the method sets."""
    return " ".join(repr(method.factory()).split())


def _grid(method: Method) -> str:
    """Parameters and the values they are tuned over."""
    parts = [f"{name}: {_values(values)}" for name, values in method.grid.items()]
    if method.sizes != (1,):
        parts.append("n_components: " + ", ".join("m" if k == 1 else f"{k} m" for k in method.sizes))
    return "; ".join(parts)


def _values(values: Sequence[Any]) -> str:
    """A range of integers by its ends, anything else in full."""
    whole = all(isinstance(value, int) for value in values)
    if whole and len(values) > SHOWN and list(values) == list(range(values[0], values[-1] + 1)):
        return f"{values[0]} to {values[-1]}"
    return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)


def _lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for row in (head, *rows):
        typer.echo("\t".join(row))
