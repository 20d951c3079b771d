"""A run that never took place: results and studies for the tests of figures and report."""

from __future__ import annotations

import numpy as np

from spdsl.experiments.cells import Cell
from spdsl.experiments.results import Results
from spdsl.experiments.studies import Fit, Space, Studies, SweepPoint, View

METHODS = {"NN-LEM": 0.7, "CDL": 0.82, "SPDML*-LEM": 0.8, "SPDSL-LEM": 0.9}


def make_results(draws=4, methods=METHODS, **changes) -> Results:
    """Accuracies spread around the given means, the same for every call."""
    rng = np.random.default_rng(0)
    cells = [
        Cell(name, k, round(mean + 0.02 * float(rng.standard_normal()), 3), {}, 1.0, 0.5, 0.1)
        for name, mean in methods.items()
        for k in range(draws)
    ]
    content = {
        "dataset": "made",
        "title": "A made-up run",
        "description": "Nothing is recognised from nothing.",
        "n_matrices": 120,
        "n_features": 30,
        "n_classes": 3,
        "n_components": 10,
        "n_draws": draws,
        "cells": cells,
        "settings": {"splits": f"{draws} draws", "tuning": "nothing tuned", "seed": 0, "grids": {"CDL": {"a": [1, 2]}}},
        "environment": {"python": "3.11", "spdsl": "0.1.0", "processor": "abacus"},
        "seconds": 12.3,
        "sizes": [(60, 60)] * draws,
    }
    return Results(**(content | changes))


def make_studies(classes=("apple", "pear", "quince"), draws=4) -> Studies:
    """Numbers that differ from each other, so that a drawing cannot mix them up."""
    rng = np.random.default_rng(1)
    C, each = len(classes), 6
    counts = (1, 2, "all")
    sweep = [
        SweepPoint(metric, v, draw, 10 * (k + 1), 0.5 + 0.1 * k + 0.01 * draw + 0.001 * m, 0.001 * (k + 1) * (m + 1))
        for m, metric in enumerate(("LEM", "AIM", "Stein"))
        for draw in range(2)
        for k, v in enumerate(counts)
    ]
    fits = [
        Fit(k, list(np.linspace(1.0, 2.0 + k, 5 + k)), rng.integers(1, 5, (C, C)), np.diag(rng.integers(5, 9, C)))
        for k in range(draws)
    ]
    spaces = []
    for _ in range(2):
        K = np.round(255 * rng.uniform(size=(C * each, C * each))) / 255
        spaces.append(Space(K, np.round(rng.standard_normal((C * each, 2)), 3), 0.75))
    return Studies(list(classes), sweep, fits, View(np.repeat(np.arange(C), each), *spaces))
