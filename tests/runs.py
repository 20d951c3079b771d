"""A run that never took place: results and numbers for the tests of figures and report."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spdsl.evaluation.figure_data import FigureData, Samples, Space, SweepPoint
from spdsl.evaluation.results import Cell, Results

HOSTILE = {
    "script": "<script>document.title='owned'</script>",
    "image": '"><img src=x onerror="document.title=\'owned\'">',
    "formula": '=HYPERLINK("http://evil.example","x")',
    "command": "@SUM(1+1)*cmd|' /C calc'!A0",
    "escape": "\x1b]0;owned\x07\x1b[31mred\x1b[2J",
    "control": "a\x00b\x08c\x9bd\x7f",
    "reversed": "user\u202egpj.exe",
    "latex": r"\input{/etc/passwd} $x_1$ 50% & #1 ~ ^ {",
    "markup": "[bold red]x[/bold red] [link=http://evil.example]y[/link]",
    "lines": "one\r\n| two | three |\n---",
    "mathtext": "$\\frac{$",
    "surrogate": "lone \ud800",
}
METHODS = {"NN-LEM": 0.7, "CDL": 0.82, "SPDML*-LEM": 0.8, "SPDSL-LEM": 0.9}


def make_results(draws=5, methods=METHODS, classes=("apple", "pear", "quince"), **changes) -> Results:
    """Accuracies spread around the given means, the same for every call; predictions that agree with them."""
    rng = np.random.default_rng(0)
    truth = [(np.arange(60) % len(classes)).tolist() for _ in range(draws)]
    cells = [
        make_cell(name, k, round(60 * (mean + 0.02 * float(rng.standard_normal()))), truth[k], len(classes))
        for name, mean in methods.items()
        for k in range(draws)
    ]
    content = {
        "dataset": "made",
        "title": "A made-up run",
        "description": "Nothing is recognized from nothing.",
        "n_matrices": 120,
        "n_features": 30,
        "n_classes": len(classes),
        "n_components": 10,
        "n_draws": draws,
        "cells": cells,
        "settings": {"splits": f"{draws} draws", "tuning": "nothing tuned", "seed": 0, "grids": {"CDL": {"a": [1, 2]}}},
        "environment": {"python": "3.11", "spdsl": "0.1.0", "processor": "abacus"},
        "seconds": 12.3,
        "sizes": [(60, 60)] * draws,
        "classes": list(classes),
        "truth": truth,
        "sections": {"NN-LEM": "1", "CDL": "2", "SPDML*-LEM": "proposed", "SPDSL-LEM": "proposed"},
    }
    return Results(**(content | changes))


def make_cell(name, k, right, truth, C) -> Cell:
    """A cell with so many right answers of 60; the others are the class that follows."""
    right = min(max(right, 0), 60)
    found = tuple((c + (i >= right)) % C for i, c in enumerate(truth))
    history = tuple((value, 0.01) for value in np.linspace(1.0, 2.0 + k, 5 + k)) if name == "SPDSL-LEM" else ()
    return Cell(name, k, right / 60, {}, 1.0, 0.5, 0.1, predictions=found, history=history)


def make_figures(classes=("apple", "pear", "quince")) -> FigureData:
    """Numbers that differ from each other, so that a drawing cannot mix them up."""
    rng = np.random.default_rng(1)
    C, each = len(classes), 6
    counts = (1, 2, "all")
    sweep = [
        SweepPoint(metric, v, draw, 0.5 + 0.1 * k + 0.01 * draw + 0.001 * m, 0.001 * (k + 1) * (m + 1))
        for m, metric in enumerate(("LEM", "AIM", "Stein"))
        for draw in range(2)
        for k, v in enumerate(counts)
    ]
    spaces = []
    for _ in range(2):
        K = np.round(255 * rng.uniform(size=(C * each, C * each))) / 255
        spaces.append(Space(K, np.round(rng.standard_normal((C * each, 2)), 3), 0.75))
    return FigureData(list(classes), sweep, Samples(np.repeat(np.arange(C), each), *spaces))


def hostile_results() -> Results:
    """A run in which every name that comes from a user is hostile."""
    names = list(HOSTILE.values())
    results = make_results(methods=dict.fromkeys([*names, "SPDSL-LEM"], 0.8), classes=names)
    cells = [replace(cell, warnings=(names[cell.split],), params={names[1]: names[2]}) for cell in results.cells]
    cells += [Cell("MDM", k, error=f"ValueError: {name}") for k, name in enumerate(names[:5])]
    everything = " / ".join(names)
    return replace(
        results,
        cells=cells,
        title=everything,
        description=everything,
        environment={"command": everything, everything: everything},
        settings={"splits": everything, "tuning": everything, everything: everything},
    )
