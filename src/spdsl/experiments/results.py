"""What one run of a protocol found: all that a table, a figure or the report needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from spdsl.experiments.compare import Cell


@dataclass(frozen=True)
class Results:
    """The outcome of a run.

    Attributes
    ----------
    dataset : str
        Short name ("digits", "ytc", "uiuc", "hdm05", or the stem of a user's file).
    title, description : str
        A heading, and what is recognised from what, in a sentence.
    n_matrices, n_features, n_classes, n_components : int
        N, n, classes, m.
    n_draws : int
    cells : list of Cell
        One per method and draw that is done; accuracies in [0, 1].
    published : dict
        Method name to (mean, standard deviation or None) in percent, where the paper has a figure for this dataset.
    settings : dict
        The protocol in words: folds, iterations, seeds, grids, what was tuned on what.
    environment : dict
        Versions and hardware.
    seconds : float
        Work done in all, summed over cells and processes.
    """

    dataset: str
    title: str
    description: str
    n_matrices: int
    n_features: int
    n_classes: int
    n_components: int
    n_draws: int
    cells: list[Cell]
    published: dict[str, tuple[float, float | None]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
