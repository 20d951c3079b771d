"""Groups stay together: in draws, in the folds of tuning, in files and commands, and on the way to steps that ask."""

from __future__ import annotations

import os
import warnings
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

import spdsl
from samples import labeled
from spdsl.cli.app import app
from spdsl.evaluation.protocols import load_experiment
from spdsl.evaluation.results import read_results
from spdsl.evaluation.splits import fold_count, make_folds, make_splits
from spdsl.features.errors import FeatureError

X, Y = labeled(60, 6, 3, seed=4)
SUBJECT = np.array(["ann", "bob", "cy", "dee", "eve", "fay"])[np.arange(60) // 10]


def apart(pairs: Any, groups: np.ndarray) -> bool:
    return all(not set(groups[train]) & set(groups[test]) for train, test in pairs)


def distinct(pairs: Any) -> bool:
    return len({tuple(np.sort(test)) for _, test in pairs}) == len(pairs)


# ---------------------------------------------------------------------------------------------------------------- draws


def test_a_number_of_draws_with_groups_divides_groups():
    pairs = make_splits(7, Y, groups=SUBJECT, random_state=0)
    assert len(pairs) == 7
    assert apart(pairs, SUBJECT)
    assert distinct(pairs)
    for train, test in pairs:
        assert len(np.union1d(train, test)) == 60
        assert len(np.unique(SUBJECT[test])) == 3
    again = make_splits(7, Y, groups=SUBJECT, random_state=0)
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(pairs, again, strict=True))
    other = make_splits(7, Y, groups=SUBJECT, random_state=1)
    assert not all(np.array_equal(a[1], b[1]) for a, b in zip(pairs, other, strict=True))


@pytest.mark.parametrize("G", [2, 3, 4, 5])
def test_where_fewer_draws_exist_all_of_them_are_used_once_and_it_is_said(G):
    groups = np.arange(60) % G
    exist = comb(G, G // 2)
    with pytest.warns(UserWarning, match=f"only {exist} distinct draws of whole groups exist, 20 were asked for"):
        pairs = make_splits(20, Y, groups=groups, random_state=0)
    assert len(pairs) == exist
    assert distinct(pairs)
    assert apart(pairs, groups)


def test_draws_without_groups_are_distinct_too():
    y = np.array([0, 0, 1, 1])
    with pytest.warns(UserWarning, match="only 4 distinct draws exist, 10 were asked for: all 4 are used"):
        pairs = make_splits(10, y, random_state=0)
    assert len(pairs) == 4
    assert distinct(pairs)


def test_draws_train_on_every_class_where_the_groups_allow_it():
    groups = np.repeat(np.arange(4), 15)
    y = np.where(groups < 2, 0, 1)  # two groups of each class
    with pytest.warns(UserWarning, match="only 4 distinct draws"):
        pairs = make_splits(10, y, groups=groups, random_state=0)
    assert len(pairs) == 4
    for train, test in pairs:
        assert set(y[train]) == set(y[test]) == {0, 1}


def test_draws_of_many_groups_are_nearly_stratified(rng):
    groups = np.repeat(np.arange(30), 4)
    y = (rng.random(120) < 0.2).astype(int)
    pairs = make_splits(10, y, groups=groups, random_state=0)
    assert distinct(pairs)
    assert apart(pairs, groups)
    assert all(0.25 < np.mean(np.isin(np.flatnonzero(y == 1), test)) < 0.75 for _, test in pairs)


def test_leave_one_group_out_by_name():
    pairs = make_splits("leave-one-group-out", Y, groups=SUBJECT)
    theirs = list(LeaveOneGroupOut().split(X, Y, SUBJECT))
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(pairs, theirs, strict=True))
    with pytest.raises(ValueError, match="'leave-one-group-out' needs groups"):
        make_splits("leave-one-group-out", Y)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (SUBJECT[:-1], r"groups has shape \(59,\); it must hold one entry for each of the 60 samples"),
        (np.zeros(60), "a single group"),
        (np.where(np.arange(60), 1.0, np.nan), r"groups\[0\] is nan"),
        ([None, *SUBJECT[1:]], r"groups\[0\] is None"),
        ([float("nan"), *SUBJECT[1:].tolist()], r"groups\[0\] is nan"),
        (["", *SUBJECT[1:].tolist()], r"groups\[0\] is empty"),
        ([1, *SUBJECT[1:].tolist()], "groups mixes names of the types int and str"),
        (np.ma.masked_array(np.arange(60), np.arange(60) == 3), r"groups\[3\] is masked"),
        (SUBJECT[:, None], "has shape"),
    ],
)
def test_groups_that_do_not_fit_are_refused(groups, message):
    with pytest.raises(ValueError, match=message):
        spdsl.compare(X, Y, ["NN-LEM"], splits=3, groups=groups, verbose=False)


def test_a_missing_group_of_pandas_is_named():
    pandas = pytest.importorskip("pandas")
    groups = pandas.Series([pandas.NA, *SUBJECT[1:]], dtype="string")
    with pytest.raises(ValueError, match=r"groups\[0\] is <NA>; name the group of every sample"):
        spdsl.compare(X, Y, ["NN-LEM"], splits=3, groups=groups, verbose=False)


def test_a_class_of_one_group_is_said_to_be_tested_without_being_learned():
    y = np.where(SUBJECT == "bob", 7, Y)
    options = {"splits": "leave-one-group-out", "groups": SUBJECT, "tune": False, "verbose": False}
    with pytest.warns(UserWarning, match="class '7' is tested in draw 2 but not in its training part$"):
        table = spdsl.compare(X, y, ["NN-LEM"], **options)
    assert table.cells[1].accuracy == 0


def test_a_splitter_that_ignores_groups_is_warned_of():
    with pytest.warns(UserWarning, match=r"splits\[0\] has group 'ann' in both train and test"):
        make_splits([(np.arange(0, 60, 2), np.arange(1, 60, 2))], Y, groups=SUBJECT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_splits(GroupKFold(3), Y, groups=SUBJECT)


def test_a_split_given_twice_counts_once():
    halves = [(np.arange(0, 60, 2), np.arange(1, 60, 2)), (np.arange(1, 60, 2), np.arange(0, 60, 2))]
    with pytest.warns(UserWarning, match="2 of the 4 splits repeat another one: each is used once"):
        assert len(make_splits([*halves, *halves], Y)) == 2


# ---------------------------------------------------------------------------------------------------------------- folds


def test_folds_of_tuning_keep_groups_apart_and_are_stratified():
    folds = make_folds(Y, 3, 0, SUBJECT)
    assert len(folds) == 3
    assert apart(folds, SUBJECT)
    assert all(set(Y[train]) == set(Y[test]) == {0, 1, 2} for train, test in folds)
    assert fold_count(Y, 10, SUBJECT) == 6


def test_within_one_group_samples_are_divided():
    folds = make_folds(Y, 3, 0, np.zeros(60))
    plain = make_folds(Y, 3, 0)
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(folds, plain, strict=True))


def test_classes_of_one_group_each_cannot_be_tuned_and_it_is_said():
    y = np.repeat([0, 1], 10)
    with pytest.raises(ValueError, match=r"groups cannot be kept apart in tuning.*tune=False"):
        make_folds(y, 2, 0, y)


def test_tuning_sees_the_groups(monkeypatch):
    """A label leaks through a group effect: only folds of whole groups see that 1-NN does not generalize."""
    seen = []
    import spdsl.evaluation.tuning as tuning

    folds = tuning.make_folds
    monkeypatch.setattr(tuning, "make_folds", lambda y, n, s, groups: seen.append(groups) or folds(y, n, s, groups))
    spdsl.tune(spdsl.SPDNearestNeighbor("lem"), {"n_neighbors": [1, 3]}, X, Y, groups=SUBJECT, n_folds=3)
    pipeline = (spdsl.SPDNearestNeighbor("lem"), {"n_neighbors": [1, 3]})
    table = spdsl.compare(X, Y, {"nn": pipeline}, splits=2, groups=SUBJECT, n_folds=3, verbose=False)
    assert np.array_equal(seen[0], SUBJECT)
    for groups, (train, _) in zip(seen[1:], table.splits, strict=True):
        assert np.array_equal(groups, SUBJECT[train])


# ------------------------------------------------------------------------------------------------- equal to scikit-learn


def test_leave_one_group_out_scores_are_those_of_scikit_learn():
    model = spdsl.SPDSL(3, max_iter=5, random_state=0, classifier="lda")
    wanted = cross_val_score(model, X, Y, groups=SUBJECT, cv=LeaveOneGroupOut())
    options = {"groups": SUBJECT, "tune": False, "verbose": False}
    table = spdsl.compare(X, Y, {"mine": model}, splits="leave-one-group-out", **options)
    assert [cell.accuracy for cell in table.cells] == wanted.tolist()
    table = spdsl.compare(X, Y, {"mine": model}, splits=LeaveOneGroupOut(), **options)
    assert [cell.accuracy for cell in table.cells] == wanted.tolist()


@pytest.mark.usefixtures("here")
@pytest.mark.skipif(
    "SPDSL_DATA" not in os.environ, reason="SPDSL_DATA is not set: it names the folder with the real data"
)
def test_sessions_of_real_eeg_left_out_in_python_and_on_the_command_line_score_as_in_scikit_learn():
    box = np.load(Path(os.environ["SPDSL_DATA"]) / "eeg_2a.npz")
    n, rows = int(box["dim"]), slice(None, None, 6)
    X, y, session = np.zeros((len(box["y_7"][rows]), n, n)), box["y_7"][rows], box["session_7"][rows]
    upper = np.triu_indices(n)
    X[:, upper[0], upper[1]] = X[:, upper[1], upper[0]] = box["triu_7"][rows]
    np.savez("eeg.npz", X=X, y=y, session=session)
    names = ["NN-LEM", "TS+LDA"]
    way = {"splits": "leave-one-group-out", "groups": session, "tune": False, "verbose": False}
    cells = spdsl.compare(X, y, names, **way).cells
    command = ("compare", "eeg.npz", "--methods", ",".join(names), "--groups", "session", "--no-tune", "-j", 1)
    result = spdsl_command(*command, "--splits", "leave-one-group-out", "-o", "t.csv")
    assert result.exit_code == 0, result.output
    for name, line in zip(names, Path("t.csv").read_text().splitlines()[1:], strict=True):
        model = spdsl.METHODS[name].factory()
        wanted = cross_val_score(model, X, y, groups=session, cv=LeaveOneGroupOut())
        assert [cell.accuracy for cell in cells if cell.method == name] == wanted.tolist()
        assert line.split(",")[2] == repr(float(np.mean(wanted)))


class Center(TransformerMixin, BaseEstimator):
    """Divides each group's matrices by the group's mean trace; a group that is not named is an error."""

    __metadata_request__fit = {"groups": True}  # noqa: RUF012
    __metadata_request__transform = {"groups": True}  # noqa: RUF012

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Center:
        if groups is None:
            raise ValueError("no groups came")
        self.seen_ = set(groups)
        return self

    def fit_transform(self, X: Any, y: Any = None, groups: Any = None) -> Any:
        return self.fit(X, y, groups).transform(X, groups)

    def transform(self, X: Any, groups: Any = None) -> Any:
        trace = np.trace(X, axis1=1, axis2=2)
        return np.stack([x / trace[groups == group].mean() for x, group in zip(X, groups, strict=True)])


def test_steps_that_request_groups_are_given_those_of_their_samples():
    model = make_pipeline(Center(), spdsl.SPDNearestNeighbor("lem"))
    with config_context(enable_metadata_routing=True):
        wanted = cross_val_score(model, X, Y, params={"groups": SUBJECT}, cv=LeaveOneGroupOut())
    for n_jobs in (1, 2):
        options = {"splits": "leave-one-group-out", "groups": SUBJECT, "verbose": False, "n_jobs": n_jobs}
        table = spdsl.compare(X, Y, {"mine": model}, scoring=["accuracy", "balanced_accuracy"], **options)
        assert [cell.accuracy for cell in table.cells] == wanted.tolist()
        assert all(np.isfinite(cell.scores["balanced_accuracy"]) for cell in table.cells)
    grid = {"spdnearestneighbor__n_neighbors": [1, 3]}
    tuned = spdsl.compare(X, Y, {"mine": (model, grid)}, n_folds=3, **options)
    assert not any(cell.error for cell in tuned.cells)
    assert all(set(cell.params) == set(grid) for cell in tuned.cells)


# ------------------------------------------------------------------------------------------------------ files, commands


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.savez("mine.npz", X=X, y=Y, groups=SUBJECT, other=np.arange(60) % 3)
    np.savez("plain.npz", X=X, y=Y)
    return tmp_path


def spdsl_command(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


QUICK = ("--methods", "NN-LEM,CDL", "-j", 1)


@pytest.mark.usefixtures("here")
def test_compare_on_the_command_line_takes_the_groups_of_the_file():
    result = spdsl_command("compare", "mine.npz", *QUICK, "--splits", 3, "--no-tune", "-o", "t.csv")
    assert result.exit_code == 0, result.output
    wanted = spdsl.compare(X, Y, ["NN-LEM", "CDL"], splits=3, groups=SUBJECT, tune=False, verbose=False)
    scores = [line.split(",")[2] for line in Path("t.csv").read_text().splitlines()[1:]]
    assert scores == [repr(row.accuracy) for row in wanted.rows]
    result = spdsl_command("compare", "mine.npz", *QUICK, "--splits", "leave-one-group-out", "--no-tune", "-o", "t.csv")
    wanted = spdsl.compare(
        *(X, Y, ["NN-LEM", "CDL"]), splits="leave-one-group-out", groups=SUBJECT, tune=False, verbose=False
    )
    scores = [line.split(",")[2] for line in Path("t.csv").read_text().splitlines()[1:]]
    assert scores == [repr(row.accuracy) for row in wanted.rows]
    other = spdsl_command("compare", "mine.npz", *QUICK, "--splits", 9, "--no-tune", "--groups", "other")
    assert "only 3 distinct draws of whole groups exist" in other.stderr
    missing = spdsl_command("compare", "plain.npz", *QUICK, "--groups", "subject")
    assert "no array named 'subject'" in missing.stderr
    none = spdsl_command("compare", "plain.npz", *QUICK, "--splits", "leave-one-group-out")
    assert "needs groups" in none.stderr
    assert none.exit_code == missing.exit_code == 1


@pytest.mark.usefixtures("here")
def test_samples_without_a_label_take_their_groups_with_them():
    names = np.array(["a", "b", "c"])[Y]
    names[[0, 7, 31]] = ""
    np.savez("some.npz", X=X, y=names, groups=SUBJECT)
    result = spdsl_command("compare", "some.npz", *QUICK, "--splits", "leave-one-group-out", "--no-tune", "-o", "t.csv")
    assert result.exit_code == 0, result.output
    assert "3 of 60 samples have no label and are left out" in result.stderr
    kept = names != ""
    options = {"splits": "leave-one-group-out", "groups": SUBJECT[kept], "tune": False, "verbose": False}
    wanted = spdsl.compare(X[kept], names[kept], ["NN-LEM", "CDL"], **options)
    scores = [line.split(",")[2] for line in Path("t.csv").read_text().splitlines()[1:]]
    assert scores == [repr(row.accuracy) for row in wanted.rows]


@pytest.mark.usefixtures("here")
def test_groups_of_the_wrong_length_are_refused_with_the_name_of_the_file():
    np.savez("wrong.npz", X=X, y=Y, groups=SUBJECT[:-1])
    for command in (("compare", "wrong.npz"), ("reproduce", "--data", "wrong.npz", "--no-report")):
        result = spdsl_command(*command, *QUICK)
        assert result.exit_code == 1
        assert "wrong.npz: groups has shape (59,); it must hold one entry for each of the 60 samples" in result.stderr


@pytest.mark.usefixtures("here")
def test_reproduce_leaves_one_group_out_as_scikit_learn_does():
    options = ("--tune", "none", "--no-report", "-o", "out", "--scoring", "accuracy,balanced_accuracy")
    result = spdsl_command("reproduce", "--data", "mine.npz", *QUICK, "--draws", "leave-one-group-out", *options)
    assert result.exit_code == 0, result.output
    cells = [cell for cell in read_results("out").cells if cell.method == "NN-LEM"]
    model, cv = spdsl.SPDNearestNeighbor("lem"), LeaveOneGroupOut()
    assert [cell.accuracy for cell in cells] == cross_val_score(model, X, Y, groups=SUBJECT, cv=cv).tolist()
    balanced = cross_val_score(model, X, Y, groups=SUBJECT, cv=cv, scoring="balanced_accuracy")
    assert [cell.scores["balanced_accuracy"] for cell in cells] == balanced.tolist()
    assert "leave-one-group-out: each of 6 groups is tested once" in Path("out/table.md").read_text()


@pytest.mark.usefixtures("here")
def test_three_groups_are_three_draws_and_methods_that_fail_do_not_crash_the_run(monkeypatch):
    """Ten draws of three groups used to hold copies, and ended in KeyError: ('MDM', 2) without pyRiemann."""
    import builtins

    from spdsl.evaluation import methods

    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("pyriemann"):
            raise ImportError("No module named 'pyriemann'")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    find = methods.find_spec
    monkeypatch.setattr(methods, "find_spec", lambda name: None if name == "pyriemann" else find(name))
    options = ("--methods", "NN-LEM,MDM", "-j", 1, "--tune", "none", "--no-report", "-o", "out", "--groups", "other")
    result = spdsl_command("reproduce", "--data", "mine.npz", *options)
    assert result.exit_code == 1
    assert "only 3 distinct draws of whole groups exist, 10 were asked for: all 3 are used" in result.stderr
    assert "pyriemann is not installed, so that MDM will fail: pip install 'pyriemann>=0.9'" in result.stderr
    assert "3 of 6 cells failed" in result.stderr
    results = read_results("out")
    assert results.n_draws == 3
    assert "all 3 draws that exist" in results.settings["splits"]
    assert "! MDM: 3 of 3 draws failed" in Path("out/table.md").read_text()


def test_a_file_of_one_group_is_refused(tmp_path):
    np.savez(tmp_path / "one.npz", X=X, y=Y, groups=np.zeros(60))
    with pytest.raises(FeatureError, match=r"one\.npz: groups has a single group"):
        load_experiment(data=tmp_path / "one.npz")


def test_stratified_splitters_are_taken_as_they_are():
    pairs = make_splits(StratifiedKFold(3), Y)
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(pairs, StratifiedKFold(3).split(X, Y), strict=True))
