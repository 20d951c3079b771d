"""No step of tuning, recentering, regularization or fitting sees the test part, and a pipeline that does is caught."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import spdsl
from samples import labeled, random_spd
from spdsl import SPDSL, LogVectors, SPDNearestNeighbor
from spdsl.estimators import Recenter, Regularize
from spdsl.evaluation import cells

X, Y = labeled(36, 6, 3, seed=4)
GROUPS = np.arange(36) // 6
TRAIN, TEST = np.flatnonzero(GROUPS < 4), np.flatnonzero(GROUPS >= 4)


def state(model: Any) -> Any:
    """All that a fitted model holds but how long it took."""
    if isinstance(model, list | tuple):
        return [state(item) for item in model]
    if not hasattr(model, "get_params"):
        return joblib.hash(model)
    content = {name: value for name, value in vars(model).items() if name != "history_"}
    steps = [row["value"] for row in getattr(model, "history_", [])]
    return {name: state(value) for name, value in content.items()} | {"history": steps}


@pytest.fixture
def leaks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., set[str]]:
    """A function from a maker of methods to the names of those whose fit changes with the test part."""
    fitted: list[Any] = []
    tuned: list[Any] = []  # what tuning is given and finds: a leak need not change which point is best
    fit, tune = cells.fit_on, cells.choose_parameters

    def keep(model: Any, *rest: Any) -> Any:
        fitted.append(([*tuned], fit(model, *rest)))
        tuned.clear()
        return model

    def record(*arguments: Any, **options: Any) -> Any:
        found = tune(*arguments, **options)
        tuned.append((joblib.hash((arguments[1:], options)), found))
        return found

    monkeypatch.setattr(cells, "fit_on", keep)
    monkeypatch.setattr(cells, "choose_parameters", record)

    def run(make: Callable[..., Any], X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
        fitted.clear()
        options = {"splits": [(TRAIN, TEST)], "groups": GROUPS, "n_folds": 2, "n_components": 3, "verbose": False}
        table = spdsl.compare(X, y, make(X, y), **options)
        assert not any(cell.error for cell in table.cells), table
        return {
            c.method: (c.params, chosen, state(model)) for c, (chosen, model) in zip(table.cells, fitted, strict=True)
        }

    def find(make: Callable[..., Any]) -> set[str]:
        rng = np.random.default_rng(0)
        permuted, noise = Y.copy(), X.copy()
        permuted[TEST] = np.roll(Y[TEST], 1)
        assert np.all(permuted[TEST] != Y[TEST])
        noise[TEST] = random_spd(len(TEST), 6, spread=float(rng.uniform(1, 2)), seed=9)
        before = run(make, X, Y)
        after = [run(make, X, permuted), run(make, noise, Y)]
        return {name for name, found in before.items() if any(other[name] != found for other in after)}

    return find


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", list(spdsl.METHODS))
def test_no_method_sees_the_test_part_in_tuning_or_fit(leaks, name):
    assert leaks(lambda X, y: [name]) == set()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::spdsl.estimators.recenter.RecenterWarning")
def test_no_step_of_a_pipeline_sees_the_test_part(leaks):
    def make(X: Any, y: Any) -> dict[str, Any]:
        return {
            "recentered": make_pipeline(Recenter(), SPDNearestNeighbor("lem")),
            "rotated": make_pipeline(Recenter(rotate=True), SPDNearestNeighbor("lem")),
            "regularized": (
                make_pipeline(Regularize(), SPDSL(3, max_iter=3)),
                {"spdsl__classifier": ["lda", "nn"]},
            ),
            "scaled": make_pipeline(LogVectors(), StandardScaler(), spdsl_head()),
        }

    assert leaks(make) == set()


def spdsl_head() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression()


class Whole(TransformerMixin, BaseEstimator):
    """Whitens by the mean of the matrices that it was made with: all of them, in a leaky pipeline."""

    def __init__(self, matrices: Any = None) -> None:
        self.matrices = matrices

    def fit(self, X: Any, y: Any = None) -> Whole:
        w, V = np.linalg.eigh(np.mean(X if self.matrices is None else self.matrices, axis=0))
        self.root_ = (V / np.sqrt(w)) @ V.T
        return self

    def transform(self, X: Any) -> Any:
        return self.root_ @ X @ self.root_


class Knowing(TransformerMixin, BaseEstimator):
    """Scales by a number that depends on all labels."""

    def __init__(self, labels: Any = None) -> None:
        self.labels = labels

    def fit(self, X: Any, y: Any = None) -> Knowing:
        self.scale_ = 1 + float(np.dot(self.labels, np.arange(len(self.labels))))
        return self

    def transform(self, X: Any) -> Any:
        return X * self.scale_


def test_pipelines_that_leak_are_caught_and_their_honest_twin_is_not(leaks):
    def make(X: Any, y: Any) -> dict[str, Any]:
        nearest = SPDNearestNeighbor("lem")
        return {
            "honest": make_pipeline(Whole(), nearest),
            "matrices": make_pipeline(Whole(X), nearest),
            "labels": make_pipeline(Knowing(y), nearest),
        }

    assert leaks(make) == {"matrices", "labels"}


def test_tuning_on_all_samples_would_be_caught(leaks, monkeypatch):
    tune = cells.choose_parameters

    def peeks(model: Any, grid: Any, *_: Any, **options: Any) -> Any:
        everything = inspect.currentframe().f_back.f_locals  # type: ignore[union-attr]
        return tune(model, grid, everything["X"], everything["y"], **(options | {"groups": None}))

    monkeypatch.setattr(cells, "choose_parameters", peeks)
    assert leaks(lambda X, y: {"tuned": (SPDNearestNeighbor("lem"), {"n_neighbors": list(range(1, 13))})}) == {"tuned"}


@pytest.mark.parametrize("part", ["X", "y"])
def test_a_leak_into_tuning_that_changes_no_choice_would_be_caught(leaks, monkeypatch, part):
    """A scale taken from all matrices, or an order taken from all labels; there is a single best point."""
    tune = cells.choose_parameters

    def peeks(model: Any, grid: Any, X: Any, y: Any, **options: Any) -> Any:
        everything = inspect.currentframe().f_back.f_locals  # type: ignore[union-attr]
        if part == "X":
            X = X / np.trace(everything["X"].mean(axis=0))
        else:
            y = np.roll(y, everything["y"][-1])
        return tune(model, grid, X, y, **options)

    monkeypatch.setattr(cells, "choose_parameters", peeks)
    assert leaks(lambda X, y: {"tuned": (SPDNearestNeighbor("lem"), {"n_neighbors": [1, 1]})}) == {"tuned"}
