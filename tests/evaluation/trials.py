"""A small experiment for the tests of the runner."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from samples import labeled
from spdsl.datasets import Protocol
from spdsl.evaluation.cells import Experiment


def make_experiment(draws: int = 3, **changes: Any) -> Experiment:
    """Three classes of ten 6 x 6 matrices, half to train."""
    X, y = labeled(30, 6, 3, seed=4)
    splits = list(Protocol(draws=draws).splits(y))
    return replace(Experiment("small", "Small", "Thirty matrices.", X, y, splits, f"{draws} draws", 2), **changes)
