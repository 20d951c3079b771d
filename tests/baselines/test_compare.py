"""The registry, tuning and the table."""

import builtins
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid, StratifiedKFold

import spdsl
from spdsl import methods
from spdsl.experiments.splits import make_folds, make_splits
from spdsl.experiments.tuning import _search

PAPER = [
    "NN-AIM",
    "NN-Stein",
    "NN-LEM",
    "CDL",
    "RSR",
    "LEK-poly",
    "LEK-exp",
    "LEK-gauss",
    "LEML",
    "SPDML-AIM",
    "SPDML-Stein",
    "SPDML*-AIM",
    "SPDML*-Stein",
    "SPDML*-LEM",
    "SPDSL-AIM",
    "SPDSL-Stein",
    "SPDSL-LEM",
]
QUICK = ["NN-LEM", "CDL", "LEK-gauss"]


def test_registry_has_the_papers_rows_in_its_order():
    assert [m.name for m in methods.get_methods("paper")] == PAPER
    assert list(spdsl.METHODS)[: len(PAPER)] == PAPER


@pytest.mark.parametrize("name", list(spdsl.METHODS))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_method_fits_predicts_and_has_a_grid_of_its_own_parameters(small, name):
    X, y = small
    method = spdsl.METHODS[name]
    model = clone(method.factory())
    assert set(method.grid) <= set(model.get_params())
    assert model.fit(X[::2], y[::2]).predict(X[1::2]).shape == (30,)
    assert model.score(X[1::2], y[1::2]) > 1 / 2


@pytest.mark.parametrize("name", ["CDL", "RSR", "LEK-exp", "LEK-gauss", "LEML", "TS+LR"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_shared_validation_equals_plain_fits(small, name):
    X, y = small
    method = spdsl.METHODS[name]
    model = method.factory()
    points = list(ParameterGrid({key: values[:2] for key, values in method.grid.items()}))
    train, test = make_folds(y, 3, 0)[0]
    cheap = {"max_pairs": 30, "max_iter": 3} if name == "LEML" else {}
    shared = model.set_params(**cheap).validate(model.prepare(X), y, train, test, points)
    plain = [clone(model).set_params(**p).fit(X[train], y[train]).score(X[test], y[test]) for p in points]
    assert shared == plain


def test_tune_takes_the_best_point_and_the_first_of_equals(small):
    X, y = small
    nearest = spdsl.SPDNearestNeighbor("lem")
    tuned = spdsl.tune(nearest, {"n_neighbors": [1, 40]}, X, y, n_folds=3)
    assert tuned.params == {"n_neighbors": 1}
    assert tuned.n_folds == 3
    assert spdsl.tune(nearest, {}, X, y).params == {}
    failing = spdsl.tune(nearest, {"n_neighbors": [1000, 3]}, X, y, n_folds=3)
    assert failing.params == {"n_neighbors": 3}
    with pytest.raises(ValueError, match="n_neighbors=1000"):
        spdsl.tune(nearest, {"n_neighbors": [1000, 2000]}, X, y, n_folds=3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_heads_share_one_fit_of_the_reduction_in_tuning(small, monkeypatch):
    X, y = small
    grid = {"classifier": ["svm", "lda", "nn"], "max_iter": [0, 3]}
    model = spdsl.SPDSL(3)
    plain = {}
    for point in ParameterGrid(grid):
        folds = [clone(model).set_params(**point).fit(X[a], y[a]).score(X[b], y[b]) for a, b in make_folds(y, 3, 0)]
        plain[str(point)] = np.mean(folds)
    fits = []
    fit = spdsl.SPDSL.fit
    monkeypatch.setattr(spdsl.SPDSL, "fit", lambda self, X, y: fits.append(1) or fit(self, X, y))
    tuned = spdsl.tune(model, grid, X, y, n_folds=3)
    assert len(fits) == 2 * 3
    assert tuned.score == max(plain.values()) == plain[str(tuned.params)]


def test_sizes_of_a_row_are_multiples_of_m_below_n():
    row = spdsl.METHODS["SPDSL-LEM+head"]
    assert row.grid_at(10, 50)["n_components"] == (10, 20)
    assert row.grid_at(10, 15)["n_components"] == (10, 14)
    assert row.grid_at(None, 30)["n_components"] == (10, 20)
    assert spdsl.METHODS["NN-LEM"].grid_at(10, 50) == {}


def test_long_ranges_are_searched_in_two_rounds():
    asked = []

    class Peak:
        def __call__(self, points):
            asked.extend(p["degree"] for p in points)
            return np.array([[-abs(p["degree"] - 24) - abs(np.log10(p["penalty"]) + 2) for p in points]])

    params, _ = _search(Peak(), spdsl.METHODS["LEK-poly"].grid)
    assert params == {"degree": 24, "penalty": 1e-2}
    assert len(asked) < 100
    assert {1, 50} <= set(asked)


def test_same_splits_reproducible_and_parallel(small):
    X, y = small
    first = spdsl.compare(X, y, QUICK, splits=2, random_state=3, verbose=False)
    again = spdsl.compare(X, y, QUICK, splits=2, random_state=3, n_jobs=2, verbose=False)
    for a, b in zip(first.cells, again.cells, strict=True):
        assert (a.method, a.split, a.accuracy, a.params) == (b.method, b.split, b.accuracy, b.params)
    train, test = first.splits[1]
    direct = spdsl.SPDNearestNeighbor("lem").fit(X[train], y[train]).score(X[test], y[test])
    assert next(c for c in first.cells if c.method == "NN-LEM" and c.split == 1).accuracy == direct


def test_failure_stays_in_its_cell(small, monkeypatch):
    class Broken(spdsl.CDL):
        def fit(self, X, y):
            raise RuntimeError("no luck")

    monkeypatch.setitem(methods.METHODS, "CDL", methods.Method("CDL", 2, Broken))
    X, y = small
    table = spdsl.compare(X, y, ["CDL", "NN-LEM"], splits=2, verbose=False)
    assert table.rows[0].error == "RuntimeError: no luck"
    assert table.rows[0].failed == 2
    assert np.isnan(table.rows[0].accuracy)
    assert table.rows[1].accuracy > 0.5
    assert "2 of 2 failed: RuntimeError: no luck" in str(table)


def test_fewer_folds_are_said_once(small):
    X, y = small
    keep = np.concatenate([np.arange(3), np.arange(20, 60)])
    with pytest.warns(UserWarning, match="as few as 2 folds") as said:
        table = spdsl.compare(X[keep], y[keep], ["CDL", "LEK-gauss"], splits=2, verbose=False)
    assert len(said) == 1
    assert not any(cell.error for cell in table.cells)


def test_splits_as_number_splitter_and_list():
    y = np.repeat([0, 1], 10)
    half = make_splits(3, y, random_state=0)
    assert [len(train) for train, _ in half] == [10, 10, 10]
    assert len(make_splits(StratifiedKFold(4), y)) == 4
    mask = np.arange(20) % 2 == 0
    ((train, test),) = make_splits([(mask, ~mask)], y)
    assert np.array_equal(train, np.arange(0, 20, 2))
    assert np.array_equal(test, np.arange(1, 20, 2))
    for bad, words in [
        ([([0, 1], [1, 2])], "both train and test"),
        ([([0, 99], [1])], "outside"),
        ([([], [1])], "not be empty"),
        ("half", "must be an integer"),
        (0, "out of range"),
    ]:
        with pytest.raises(ValueError, match=words):
            make_splits(bad, y)


def test_unknown_method_and_bad_matrices(small):
    X, y = small
    with pytest.raises(ValueError, match="unknown method 'KNN'"):
        spdsl.compare(X, y, ["KNN"])
    with pytest.raises(ValueError, match=r"X\[0\] contains NaN"):
        spdsl.compare(X * np.nan, y, QUICK)


def test_table_as_text_and_without_pandas(small, monkeypatch):
    X, y = small
    table = spdsl.compare(X, y, ["NN-LEM"], splits=2, tune=False, verbose=False)
    lines = str(table).splitlines()
    assert lines[0].split()[:2] == ["method", "accuracy"]
    assert lines[1].startswith("NN-LEM  ")
    real = builtins.__import__

    def without_pandas(name, *args, **kwargs):
        if name == "pandas":
            raise ImportError
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_pandas)
    with pytest.raises(ImportError, match="pip install pandas"):
        table.to_pandas()


def test_missing_pyriemann_names_the_remedy(small, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("pyriemann"):
            raise ImportError
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'spdsl\[pyriemann\]'"):
        spdsl.MDM().fit(*small)


def test_fit_on_no_warnings_for_good_data(small):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("CDL", "LEK-poly", "LEK-exp", "LEK-gauss", "RSR"):
            spdsl.METHODS[name].factory().fit(*small).predict(small[0])
