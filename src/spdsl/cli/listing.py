"""`spdsl methods`, `spdsl metrics`: list the registries, as a table in a terminal and tab-separated in a pipe."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from spdsl.cli.options import Plugins
from spdsl.cli.text import say
from spdsl.evaluation.methods import METHODS, Method
from spdsl.geometry import METRICS

CATEGORIES = {
    1: "1 basic metrics",
    2: "2 kernel methods",
    3: "3 learned metrics and reductions",
    "proposed": "proposed",
    "head": "proposed, other classifiers",
    "alternative": "alternatives",
}
SHOWN = 6  # most integers of a range to list; of a longer one only the ends are shown


def methods(plugin: Plugins = None) -> None:
    """List the methods.

    For each method: its category, a description, and the values that `--tune` and `compare` choose from. The first four
    categories are those of the paper; the others are common alternatives.
    """
    rows = [(m.name, CATEGORIES[m.category], _about(m), _estimator(m), _grid(m)) for m in METHODS.values()]
    if not Console().is_terminal:
        return _lines(("method", "category", "description", "estimator", "tuned over"), rows)
    for category, members in groupby(rows, key=lambda row: row[1]):
        table = Table(
            title=category, title_justify="left", title_style="bold", box=None, pad_edge=False, show_header=False
        )
        table.add_column(width=max(map(len, METHODS)))
        for name, _, about, estimator, grid in members:
            tuned = f"\n{grid}" if grid else ""
            table.add_row(Text(name), Text.assemble(about, "\n", (estimator, "dim"), tuned))
        Console().print(table, "")


def metrics(plugin: Plugins = None) -> None:
    """List the metrics.

    For each metric: its aliases, the squared distance, and its invariance under P -> A'PA for every invertible A (linear),
    for rotations (orthogonal) or neither (none), and under P -> s P (scale).
    """
    head = ("metric", "aliases", "squared distance", "invariance")
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
    """The first words of the estimator's docstring."""
    first = (type(method.factory()).__doc__ or "").strip().split("\n")[0]
    return re.split(r"[:;,`.]| under ", first)[0].strip()


def _estimator(method: Method) -> str:
    """The estimator with the parameters set by the method."""
    return " ".join(repr(method.factory()).split())


def _grid(method: Method) -> str:
    """Parameters and the values they are tuned over."""
    parts = [f"{name}: {_values(values)}" for name, values in method.grid.items()]
    if method.sizes != (1,):
        parts.append("n_components: " + ", ".join("m" if k == 1 else f"{k} m" for k in method.sizes))
    return "; ".join(parts)


def _values(values: Sequence[Any]) -> str:
    """A long range of integers as its ends, anything else in full."""
    whole = all(isinstance(value, int) for value in values)
    if whole and len(values) > SHOWN and list(values) == list(range(values[0], values[-1] + 1)):
        return f"{values[0]} to {values[-1]}"
    return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)


def _lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for row in (head, *rows):
        say("\t".join(row))
