"""What one run of a protocol found: all that a table, a figure or the report needs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from spdsl.experiments.cells import Cell

FORMAT = 1


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
        One per method and draw that is done, in the order of the methods and of the draws; accuracies in [0, 1].
    published : dict
        Method name to (mean, standard deviation or None) in percent, where the paper has a figure for this dataset.
    settings : dict
        The protocol in words: folds, iterations, seeds, grids, what was tuned on what.
    environment : dict
        Versions and hardware.
    seconds : float
        Work done in all, summed over cells and processes.
    sizes : list of (int, int)
        Training and test samples of each draw.
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
    sizes: list[tuple[int, int]] = field(default_factory=list)

    def to_json(self) -> str:
        """All of it as JSON; figures that a failed cell lacks are null."""
        content = {"spdsl-results": FORMAT, **asdict(self), "cells": [cell_to_dict(cell) for cell in self.cells]}
        return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Results:
        """Results from `to_json`, or a ValueError that says what is wrong with the text."""
        try:
            content = json.loads(text)
            version = content.pop("spdsl-results")
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            raise ValueError(f"not results of spdsl ({error}); run `spdsl reproduce` again") from None
        if version != FORMAT:
            raise ValueError(f"results of format {version}, and this version of spdsl reads format {FORMAT}")
        try:
            content["cells"] = [cell_from_dict(cell) for cell in content["cells"]]
            content["published"] = {name: tuple(pair) for name, pair in content["published"].items()}
            content["sizes"] = [tuple(pair) for pair in content["sizes"]]
            return cls(**content)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"incomplete results of spdsl ({error}); run `spdsl reproduce` again") from None


def cell_to_dict(cell: Cell) -> dict[str, Any]:
    """A cell as plain JSON values; NaN becomes None."""
    content = {key: None if value != value else value for key, value in asdict(cell).items()}
    content["params"] = {name: plain(value) for name, value in cell.params.items()}
    return content | {"warnings": list(cell.warnings)}


def cell_from_dict(content: dict[str, Any]) -> Cell:
    """The cell again; a TypeError where the values are not those of a cell."""
    figures = {key: float("nan") if value is None else value for key, value in content.items()}
    cell = Cell(**(figures | {"warnings": tuple(content["warnings"])}))
    numbers = (cell.accuracy, cell.tune_seconds, cell.fit_seconds, cell.predict_seconds)
    texts = (cell.method, cell.error, *cell.warnings)
    if not all(isinstance(number, int | float) for number in numbers) or not all(isinstance(t, str) for t in texts):
        raise TypeError("a cell holds a figure or a text of another kind")
    if not isinstance(cell.params, dict):
        raise TypeError("the parameters of a cell are no mapping")
    return cell


def plain(value: Any) -> Any:
    """A parameter as JSON knows it: NumPy's numbers as Python's, objects by name."""
    if hasattr(value, "item"):
        value = value.item()
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
