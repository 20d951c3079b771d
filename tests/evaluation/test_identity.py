"""Finished cells are used again for the same data, method and code, and for no other."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import spdsl
from samples import labeled
from spdsl import Recenter, SPDNearestNeighbor
from spdsl.evaluation import cells
from spdsl.evaluation.identity import told

X, Y = labeled(24, 4, 2, seed=4)
HALVES = [(np.arange(12), np.arange(12, 24))]
GROUPS = np.arange(24) // 6


@pytest.fixture
def fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """A function that compares one estimator in one folder, and tells how many fits that took."""
    done: list[int] = []
    fit = cells.fit_on
    monkeypatch.setattr(cells, "fit_on", lambda *rest: done.append(1) or fit(*rest))

    def run(model: Any, **options: Any) -> int:
        done.clear()
        options = {"splits": HALVES, "tune": False, "verbose": False, "folder": tmp_path} | options
        table = spdsl.compare(X, Y, {"mine": model}, **options)
        assert not any(cell.error for cell in table.cells), table
        return len(done)

    return run


def always(k: int) -> Any:
    """A classifier whose class has one name and other code for each k."""

    class Mine(ClassifierMixin, BaseEstimator):
        def __init__(self, table: Any = None) -> None:
            self.table = table

        def fit(self, X: Any, y: Any) -> Any:
            self.classes_ = np.unique(y)
            return self

        def predict(self, X: Any) -> Any:
            return np.full(len(X), self.classes_[k])

    return Mine


def test_a_class_with_other_code_is_another_method(fits):
    assert fits(always(0)()) == 1
    assert fits(always(0)()) == 0
    assert fits(always(1)()) == 1


def test_functions_made_in_turn_are_told_apart_by_what_they_hold(fits):
    """Each is gone before the next is made, often at the same address, by which they used to be known."""
    for scale in range(6):
        step = FunctionTransformer(lambda X, scale=scale: X + scale * np.eye(4))
        assert fits(make_pipeline(step, SPDNearestNeighbor("lem"))) == 1
    enclosed = [lambda X, k=k: (lambda X: X + k)(X) for k in (0, 1)]
    assert told(enclosed[0]) != told(enclosed[1])
    assert fits(make_pipeline(FunctionTransformer(lambda X, scale=3: X + scale * np.eye(4)), spdsl.CDL())) == 1


def test_large_tables_are_told_apart_by_all_their_numbers(fits):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(np.zeros((200, 3)))
    other = table.copy()
    other.iloc[100, 1] = 1
    assert repr(table) == repr(other)
    assert fits(always(0)(table)) == 1
    assert fits(always(0)(table.copy())) == 0
    assert fits(always(0)(other)) == 1


def test_groups_that_only_the_prediction_asks_for_count(fits):
    with config_context(enable_metadata_routing=True):
        model = make_pipeline(Recenter().set_fit_request(groups=False), SPDNearestNeighbor("lem"))
    assert fits(model, groups=GROUPS) == 1
    assert fits(model, groups=np.arange(24) // 3) == 1


SCRIPT = """
from functools import partial
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import FunctionTransformer
from spdsl import SPDSL
from spdsl.evaluation.identity import told

NAMES = {"b", "a", "c"}

def scaled(X, by):
    return X * by if "a" in {"a", "q", "z"} else recursive(X, NAMES)

def recursive(X, depth):
    return scaled(recursive(X, 1), NAMES)

class Base(ClassifierMixin, BaseEstimator):
    def predict(self, X):
        return scaled(X, 1)

class Mine(Base):
    def __init__(self, step=None, metric="lem"):
        super().__init__()
        self.step, self.metric = step, metric
    def fit(self, X, y):
        return super().fit(self.step.fit_transform(X))

print(told(Mine(FunctionTransformer(partial(scaled, by=np.arange(3))))), told(SPDSL(3, metric="stein", classifier="lda")))
"""


def test_another_process_tells_the_same(tmp_path):
    """Otherwise nothing would be used again after an interruption."""
    (tmp_path / "a.py").write_text(SCRIPT)
    (tmp_path / "b.py").write_text("# a line more\n" + SCRIPT)
    (tmp_path / "c.py").write_text(SCRIPT.replace("X * by", "X + by"))
    found = [
        subprocess.run([sys.executable, tmp_path / name], capture_output=True, text=True, check=True).stdout
        for name in ("a.py", "a.py", "b.py", "c.py")
    ]
    assert found[0]
    assert found[0] == found[1] == found[2]
    assert found[0] != found[3]
