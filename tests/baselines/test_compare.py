"""The registry, tuning and the table."""

import builtins
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ParameterGrid, StratifiedKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline

import spdsl
from samples import aligned
from spdsl.evaluation import methods
from spdsl.evaluation.splits import make_folds, make_splits
from spdsl.evaluation.tables import to_markdown
from spdsl.evaluation.tuning import _search

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
def test_heads_and_early_stops_share_one_fit_of_the_reduction_in_tuning(small, monkeypatch):
    X, y = small
    grid = {"classifier": ["svm", "lda", "nn"], "max_iter": [3, 0, 100]}
    model = aligned(3)
    plain = {}
    for point in ParameterGrid(grid):
        folds = [clone(model).set_params(**point).fit(X[a], y[a]).score(X[b], y[b]) for a, b in make_folds(y, 3, 0)]
        plain[str(point)] = np.mean(folds)
    fits = []
    fit = spdsl.SPDSL.fit
    monkeypatch.setattr(spdsl.SPDSL, "fit", lambda self, X, y: fits.append(1) or fit(self, X, y))
    tuned = spdsl.tune(model, grid, X, y, n_folds=3)
    assert len(fits) == 3
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
    with pytest.raises(ImportError, match=r"pip install 'pyriemann"):
        spdsl.MDM().fit(*small)


def test_fit_on_no_warnings_for_good_data(small):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("CDL", "LEK-poly", "LEK-exp", "LEK-gauss", "RSR"):
            spdsl.METHODS[name].factory().fit(*small).predict(small[0])


# ------------------------------------------------------------------------------------------------------- any estimator


def moody(trouble):
    """A copy of the nearest neighbor that raises what `trouble` returns for its parameters and training set."""

    class Moody(spdsl.SPDNearestNeighbor):
        def fit(self, X, y):
            error = trouble(self, X)
            if error is not None:
                raise error
            return super().fit(X, y)

    return Moody("lem")


def test_names_estimators_and_pipelines_stand_side_by_side(small):
    X, y = small
    pipeline = make_pipeline(spdsl.LogVectors(), LogisticRegression())
    methods = {
        "mine": (pipeline, {"logisticregression__C": [0.01, 1.0]}),
        "SPDSL": spdsl.SPDSL(2, max_iter=3, random_state=5),
        "NN-LEM": "NN-LEM",
        "nearest": "NN-LEM",
    }
    table = spdsl.compare(X, y, methods, splits=3, n_components=3, verbose=False)
    assert [row.method for row in table.rows] == list(methods)
    assert [row.category for row in table.rows] == ["own", "own", 1, "own"]
    by = {name: [c.accuracy for c in table.cells if c.method == name] for name in methods}
    assert by["nearest"] == by["NN-LEM"]
    assert all(set(c.params) == {"logisticregression__C"} for c in table.cells if c.method == "mine")
    train, test = table.splits[0]
    own = spdsl.SPDSL(2, max_iter=3, random_state=5).fit(X[train], y[train])  # neither its size nor its seed is changed
    assert by["SPDSL"][0] == own.score(X[test], y[test])
    listed = spdsl.compare(X, y, [pipeline, "NN-LEM", spdsl.MDM()], splits=1, verbose=False)
    assert [row.method for row in listed.rows] == ["Pipeline", "NN-LEM", "MDM"]


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ([], "methods is empty"),
        ({"x": 3}, "'x': 3 is neither a name of spdsl.METHODS nor an unfitted scikit-learn classifier"),
        ({"x": spdsl.SPDSL}, "nor an unfitted"),
        ({"x": (spdsl.SPDSL(), [1])}, "the grid must map names of parameters"),
        (["NN-LEM", "NN-LEM"], "two methods are called 'NN-LEM'"),
    ],
)
def test_what_is_no_method_is_refused(small, methods, message):
    with pytest.raises(ValueError, match=message):
        spdsl.compare(*small, methods, verbose=False)


def test_registered_methods_are_compared_by_name(small, monkeypatch):
    monkeypatch.setattr(methods, "METHODS", methods.METHODS)
    mine = spdsl.register_method(spdsl.Method("mine", "own", spdsl.SPDNearestNeighbor, {"n_neighbors": (1, 3)}))
    try:
        table = spdsl.compare(*small, ["mine", mine.name + "", "NN-LEM"][1:], splits=2, verbose=False)
        assert [row.method for row in table.rows] == ["mine", "NN-LEM"]
        assert all(cell.params for cell in table.cells if cell.method == "mine")
    finally:
        del spdsl.METHODS["mine"]


def test_an_estimator_that_fails_in_some_draws_is_averaged_over_the_others_and_says_so(small):
    X, y = small
    splits = make_splits(6, y, random_state=0)
    marked = X[splits[2][0][0]]
    broken = moody(lambda model, part: RuntimeError("no luck") if np.array_equal(part[0], marked) else None)
    table = spdsl.compare(X, y, {"broken": broken, "NN-LEM": "NN-LEM"}, splits=splits, verbose=False)
    row, whole = table.rows
    assert (row.failed, row.error) == (1, "RuntimeError: no luck")
    assert row.accuracy == pytest.approx(np.mean([c.accuracy for c in table.cells[:6] if not c.error]))
    assert "1 of 6 failed: RuntimeError: no luck" in str(table)
    text = to_markdown(table.results)
    assert "(5 of 6 draws)" in text
    assert "! broken: 1 of 6 draws failed: RuntimeError: no luck" in text
    assert f"**{100 * whole.accuracy:.2f}" in text  # a mean over fewer draws is never the best


# ------------------------------------------------------------------------------------------------------------ scoring


def test_scores_are_those_of_scikit_learn(small):
    X, y = small
    X, y = X[: len(X) - 12], y[: len(y) - 12]  # one class is rarer
    names = ["balanced_accuracy", "f1_macro", "neg_log_loss", "roc_auc_ovr", "accuracy"]
    model = make_pipeline(spdsl.LogVectors(), LogisticRegression())
    table = spdsl.compare(X, y, {"mine": model}, splits=3, scoring=names, tune=False, verbose=False)
    found = cross_validate(model, X, y, cv=table.splits, scoring=names)
    for name in names:
        assert [cell.score(name) for cell in table.cells] == pytest.approx(found[f"test_{name}"], abs=1e-12)
        assert table.rows[0].scores[name] == pytest.approx(found[f"test_{name}"].mean())
    assert table.results.scoring == names
    assert str(table).split()[:2] == ["method", "balanced_accuracy"]
    one = spdsl.compare(X, y, {"mine": model}, splits=3, scoring="f1_macro", tune=False, verbose=False)
    assert [cell.scores["f1_macro"] for cell in one.cells] == pytest.approx(found["test_f1_macro"])


def test_a_score_that_a_model_does_not_offer_is_missing_and_said(small):
    table = spdsl.compare(
        *small, ["NN-LEM", "CDL"], splits=2, tune=False, scoring=["accuracy", "roc_auc_ovr"], verbose=False
    )
    cell = table.cells[-1]  # of CDL
    assert np.isnan(cell.scores["roc_auc_ovr"])
    assert any(said.startswith("no roc_auc_ovr: ") for said in cell.warnings)
    assert np.isfinite(cell.accuracy)
    with pytest.raises(ValueError, match="unknown scoring 'acc'"):
        spdsl.compare(*small, ["NN-LEM"], scoring="acc", verbose=False)


def test_tuning_maximizes_the_first_score(small):
    X, y = small
    grid = {"degree": [1, 2], "penalty": [1e-1, 1e-4]}
    for scoring in ("accuracy", "balanced_accuracy"):
        tuned = spdsl.tune(spdsl.METHODS["LEK-poly"].factory(), grid, X, y, n_folds=3, scoring=scoring)
        means = [
            cross_val_score(
                clone(spdsl.METHODS["LEK-poly"].factory()).set_params(**point),
                X,
                y,
                cv=make_folds(y, 3, 0),
                scoring=scoring,
            ).mean()
            for point in ParameterGrid(grid)
        ]
        assert tuned.score == pytest.approx(max(means))


# ------------------------------------------------------------------------------------------------- one point that fails


@pytest.mark.parametrize("shared", [True, False])
def test_a_grid_point_that_fails_is_left_out_and_said(small, monkeypatch, shared):
    X, y = small
    model = spdsl.METHODS["LEK-poly"].factory()
    fit = type(model).fit

    def fails(self, X, y):
        if self.penalty == 1e-4:
            raise np.linalg.LinAlgError("singular matrix")
        return fit(self, X, y)

    validate = type(model).validate

    def fails_too(self, prepared, labels, train, test, points):
        if any(point["penalty"] == 1e-4 for point in points):
            raise np.linalg.LinAlgError("singular matrix")
        return validate(self, prepared, labels, train, test, points)

    monkeypatch.setattr(type(model), "fit", fails)
    monkeypatch.setattr(type(model), "validate", fails_too)
    grid = {"penalty": [1e-4, 1e-2, 1e-1]}
    scoring = "accuracy" if shared else "balanced_accuracy"
    tuned = spdsl.tune(model, grid, X, y, n_folds=3, scoring=scoring)
    whole = spdsl.tune(model, {"penalty": [1e-2, 1e-1]}, X, y, n_folds=3, scoring=scoring)
    assert (tuned.params, tuned.score) == (whole.params, whole.score)
    assert tuned.failed == ("in tuning penalty=0.0001 failed (LinAlgError: singular matrix) and was left out",)
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        spdsl.tune(model, {"penalty": [1e-4, 1e-4]}, X, y, n_folds=3, scoring=scoring)
    table = spdsl.compare(X, y, {"mine": (model, grid)}, splits=1, n_folds=3, scoring=scoring, verbose=False)
    assert not table.cells[0].error
    assert tuned.failed[0] in table.cells[0].warnings


def test_a_point_that_fails_in_one_fold_is_not_averaged_over_the_others(small):
    X, y = small
    folds = make_folds(y, 3, 0)
    marked = X[folds[1][0][0]]
    picky = moody(lambda m, part: ValueError("odd") if m.n_neighbors == 3 and np.array_equal(part[0], marked) else None)
    better = spdsl.tune(spdsl.SPDNearestNeighbor("lem"), {"n_neighbors": [3, 39]}, X, y, n_folds=3)
    assert better.params == {"n_neighbors": 3}  # which would have won
    with_39 = spdsl.tune(picky, {"n_neighbors": [3, 39]}, X, y, n_folds=3)
    assert with_39.params == {"n_neighbors": 39}
    assert "n_neighbors=3 failed (ValueError: odd)" in with_39.failed[0]


# ------------------------------------------------------------------------------------------------------- several sets


def test_many_sets_are_ranked_and_tested(small):
    X, y = small
    rng = np.random.default_rng(0)
    sets = {f"set {k}": (X[part], y[part]) for k in range(5) for part in [np.sort(rng.permutation(60)[:48])]}
    sets["grouped"] = (X, y, np.arange(60) % 6)
    many = spdsl.evaluation.compare_many(sets, ["NN-LEM", "NN-Stein", "CDL"], splits=2, tune=False, verbose=False)
    assert many.scores.shape == (6, 3)
    for (name, content), row in zip(sets.items(), many.scores, strict=True):
        single = spdsl.compare(
            *content[:2], many.methods, splits=2, tune=False, verbose=False, groups=(*content, None)[2]
        )
        assert row.tolist() == [r.accuracy for r in single.rows], name
    assert many.ranking.p is not None
    assert "Friedman" in str(many)
    assert "mean rank" in many.to_markdown()
    assert many.draw().axes
    few = spdsl.evaluation.compare_many({"a": (X, y)}, ["NN-LEM", "CDL"], splits=1, tune=False, verbose=False)
    assert few.ranking.p is None
    assert "it takes five data sets" in str(few)
    with pytest.raises(ValueError, match=r"datasets\['a'\] must be \(X, y\) or \(X, y, groups\)"):
        spdsl.evaluation.compare_many({"a": X}, ["NN-LEM"])
