"""Stacks of matrices that commands read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spdsl.datasets import load_spd
from spdsl.validation import check_spd, regularize


def read_stack(path: Path, ridge: float, x: str | None, y: str | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Matrices, checked, and labels if the file has them; errors name the file, and options instead of functions."""
    try:
        X, labels = load_spd(path, X=x, y=y)
    except ValueError as error:
        raise ValueError(str(error).replace("call the one that is meant X", "name one with --x")) from error
    try:
        return check_spd(regularize(X, ridge) if ridge else X), labels
    except ValueError as error:
        text = str(error).replace("regularize(X, 1e-3)", "--ridge 1e-3")
        raise ValueError(f"{path}: {text}") from error


def read_labelled(path: Path, ridge: float, x: str | None, y: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Matrices and labels, which must be there."""
    X, labels = read_stack(path, ridge, x, y)
    if labels is None:
        raise ValueError(
            f"{path}: there are no labels for {len(X)} matrices in it; add an array y of as many, or name one with --y"
        )
    return X, labels
