"""A method that does as it is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from spdsl.evaluation.methods import METHODS, Method


class Moody(ClassifierMixin, BaseEstimator):
    """Answers the first class; what is in `trouble` is raised by `fit`."""

    trouble: list[Exception]

    def __init__(self, level: int = 0) -> None:
        self.level = level

    def fit(self, X: np.ndarray, y: np.ndarray) -> Moody:
        if self.trouble:
            raise self.trouble[0]
        self.first_ = y[0]
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self.first_)


@pytest.fixture
def moody(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Exception]]:
    """Adds the method "Moody" to the registry; returns the list of what its fits raise."""

    def add(**grid: Any) -> list[Exception]:
        Moody.trouble = []
        monkeypatch.setitem(METHODS, "Moody", Method("Moody", "alternative", Moody, grid))
        return Moody.trouble

    return add
