"""Estimators that a user brings: what they return and what they are tuned over costs no more than their own cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import spdsl
from samples import labeled
from spdsl import LogVectors, SPDNearestNeighbor
from spdsl.evaluation.results import Results

X, Y = labeled(36, 4, 3, seed=4)


class Returning(ClassifierMixin, BaseEstimator):
    """Predicts an array of the wrong shape."""

    def __init__(self, shape: Any = None) -> None:
        self.shape = shape

    def fit(self, X: Any, y: Any) -> Returning:
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return np.full(self.shape, self.classes_[0])


@pytest.mark.parametrize("shape", [(1,), (18, 1), (1, 18), (18, 3), ()])
def test_predictions_of_another_shape_are_an_error_of_their_cell(shape):
    methods = {"odd": Returning(shape), "NN": SPDNearestNeighbor("lem")}
    table = spdsl.compare(X, Y, methods, splits=2, verbose=False)
    wanted = f"ValueError: predict returned an array of shape {shape}; it must hold one label for each of 18 samples"
    assert [cell.error for cell in table.cells if cell.method == "odd"] == [wanted] * 2
    assert not any(cell.error for cell in table.cells if cell.method == "NN")


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_a_grid_may_hold_numbers_that_json_does_not_know(tmp_path, odd):
    class Taking(Returning):
        def predict(self, X: Any) -> Any:
            return np.full(len(X), self.classes_[0])

    methods = {"odd": (Taking(), {"shape": [odd, 1.0]})}
    options = {"splits": 2, "n_folds": 2, "verbose": False}
    table = spdsl.compare(X, Y, methods, folder=tmp_path, **options)
    assert [cell.params for cell in table.cells] == [{"shape": repr(odd)}] * 2
    assert spdsl.compare(X, Y, methods, folder=tmp_path, **options).cells == table.cells
    assert Results.from_json(table.results.to_json()).cells == table.cells


def test_a_history_with_infinite_values_is_left_out(tmp_path):
    class Learner(SPDNearestNeighbor):
        def fit(self, X: Any, y: Any) -> Any:
            self.history_ = [{"value": np.inf, "seconds": 0.0}]
            return super().fit(X, y)

    table = spdsl.compare(X, Y, {"mine": Learner("lem")}, splits=2, folder=tmp_path, verbose=False)
    assert [(cell.error, cell.history) for cell in table.cells] == [("", ())] * 2


def test_a_name_takes_a_grid_of_its_own():
    methods = {"short": ("CDL", {"extra_components": [0]}), "CDL": "CDL"}
    table = spdsl.compare(X, Y, methods, splits=2, n_folds=2, verbose=False)
    assert [cell.params for cell in table.cells if cell.method == "short"] == [{"extra_components": 0}] * 2


@pytest.mark.parametrize("scoring", [None, 3, max])
def test_a_scoring_that_is_no_name_is_refused(scoring):
    with pytest.raises(ValueError, match="scoring must be a name or a list of names"):
        spdsl.compare(X, Y, ["NN-LEM"], scoring=scoring, verbose=False)


def test_integers_of_numpy_are_integers(tmp_path):
    methods = {"CDL": "CDL", "SPDSL": spdsl.SPDSL(max_iter=2)}
    three, two = np.int64(3), np.int64(2)
    options = {"splits": two, "n_folds": three, "n_components": two, "random_state": three, "n_jobs": np.int64(1)}
    table = spdsl.compare(X, Y, methods, folder=tmp_path, verbose=False, **options)
    plain = spdsl.compare(X, Y, methods, verbose=False, **{name: int(value) for name, value in options.items()})
    assert [(cell.error, cell.accuracy) for cell in table.cells] == [("", cell.accuracy) for cell in plain.cells]
    assert Results.from_json(table.results.to_json()).cells == table.cells


def test_a_random_generator_is_refused_as_seed_of_a_comparison():
    with pytest.raises(ValueError, match="random_state must be an integer or None"):
        spdsl.compare(X, Y, ["NN-LEM"], random_state=np.random.RandomState(0), verbose=False)


def test_data_sets_without_names_are_refused():
    with pytest.raises(ValueError, match="datasets must map names to"):
        spdsl.compare_many([(X, Y)], ["NN-LEM"])


def test_a_score_of_one_class_is_missing_and_the_reason_is_kept():
    pipeline = make_pipeline(LogVectors(), LogisticRegression())
    split = [(np.arange(0, 36, 2), np.flatnonzero(Y[1::2] == 0) * 2 + 1)]
    table = spdsl.compare(X, Y, {"LR": pipeline}, splits=split, scoring=["accuracy", "roc_auc_ovr"], verbose=False)
    assert np.isnan(table.cells[0].scores["roc_auc_ovr"])
    assert any(said.startswith("no roc_auc_ovr: ") for said in table.cells[0].warnings)
