"""The numbers behind the figures: found once, the same as the table's, and readable again."""

from dataclasses import replace

import numpy as np
import pytest

from spdsl.experiments import study_runner as module
from spdsl.experiments.protocols import load_experiment
from spdsl.experiments.runner import run_experiment
from spdsl.experiments.store import Store
from spdsl.experiments.studies import Studies
from spdsl.experiments.study_runner import run_studies


@pytest.fixture(scope="module")
def small():
    """Two draws of four digits."""
    whole = load_experiment(draws=2)
    kept = np.flatnonzero(whole.y < 4)
    place = {old: new for new, old in enumerate(kept)}
    splits = [tuple(np.array([place[k] for k in part if k in place]) for part in split) for split in whole.splits]
    return replace(whole, X=whole.X[kept], y=whole.y[kept], splits=splits, n_components=8)


@pytest.fixture(scope="module")
def run(small, tmp_path_factory):
    """Folder, results of the table, studies."""
    folder = tmp_path_factory.mktemp("run")
    store = Store(folder)
    results = run_experiment(small, store, ["NN-LEM", "SPDSL-LEM"], tuning="first", n_jobs=1, verbose=False)
    return folder, results, run_studies(small, store, results, n_jobs=1, verbose=False)


def test_confusions_are_those_of_the_table(run):
    _, results, studies = run
    for name, counts in (("NN-LEM", "plain"), ("SPDSL-LEM", "learned")):
        found = [np.trace(getattr(fit, counts)) / getattr(fit, counts).sum() for fit in studies.fits]
        assert found == [cell.accuracy for cell in results.cells if cell.method == name]


def test_counts_that_mean_the_same_graph_are_fitted_once(run, small):
    _, _, studies = run
    lem = [point.n_between for point in studies.sweep if point.metric == "LEM" and point.draw == 0]
    assert lem == [1, 2, 3, 4, 5, "all"]  # of 8 training samples 6 are of other classes
    assert {point.metric for point in studies.sweep} == {"LEM", "AIM", "Stein"}
    full = next(point for point in studies.sweep if point.n_between == "all")
    N = len(small.splits[0][0])
    assert full.pairs == N * (N - 1) // 2


def test_the_objective_never_falls(run):
    _, _, studies = run
    for fit in studies.fits:
        assert np.all(np.diff(fit.values) > -1e-12)
        assert len(fit.values) > 3


def test_samples_shown_are_sorted_by_class_and_separate_better_after_learning(run):
    view = run[2].view
    assert np.all(np.diff(view.labels) >= 0)
    assert view.before.similarity.shape == (len(view.labels),) * 2
    assert np.all(np.diag(view.after.similarity) == 1)
    assert view.after.closer > view.before.closer


def test_nothing_is_found_twice(run, small, monkeypatch):
    folder, results, studies = run
    monkeypatch.setattr(module, "_do", None)
    store = Store(folder)
    assert run_studies(small, store, results, n_jobs=1, verbose=False).to_json() == studies.to_json()


def test_two_runs_find_the_same_numbers_one_after_the_other(run, small, monkeypatch):
    folder, results, studies = run
    first, second = Store(folder), Store(folder)
    claim = first.claim(module._Plan(small, results).key)
    waits = []

    def sleep(_):
        waits.append(len(waits))
        if len(waits) == 3:
            first.release(claim)

    monkeypatch.setattr(module.time, "sleep", sleep)
    assert run_studies(small, second, results, n_jobs=1, verbose=False).to_json() == studies.to_json()
    assert waits == [0, 1, 2]


def test_other_parameters_are_another_study(run, small):
    _, results, _ = run
    other = replace(results, cells=[replace(cell, params={"n_between": 1}) for cell in results.cells])
    plan, again = module._Plan(small, results), module._Plan(small, other)
    assert {job.key for job in plan.fits()}.isdisjoint(job.key for job in again.fits())
    assert [job.key for job in plan.sweep(timed=True)] == [job.key for job in again.sweep(timed=True)]


def test_studies_survive_json(run):
    studies = run[2]
    again = Studies.from_json(studies.to_json())
    assert again.to_json() == studies.to_json()
    np.testing.assert_array_equal(again.view.after.similarity, studies.view.after.similarity)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"spdsl-figures": 99}', '{"spdsl-figures": 1, "classes": []}'])
def test_a_file_that_holds_no_studies_says_so(text):
    with pytest.raises(ValueError, match=r"not figures of spdsl .*run `spdsl reproduce` again"):
        Studies.from_json(text)


def test_a_study_that_fails_is_named_and_costs_no_other(small, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ValueError("no picture today")

    monkeypatch.setattr(module, "view_row", fail)
    monkeypatch.setattr(module, "BETWEEN", (1,))
    found = run_studies(replace(small, splits=small.splits[:1]), Store(tmp_path), n_jobs=1, verbose=False)
    assert found.view is None
    assert found.missing == ["before and after: ValueError: no picture today"]
    assert len(found.sweep) == 3
    assert len(found.fits) == 1


def test_expensive_graphs_are_left_to_the_flat_metric(small, monkeypatch):
    monkeypatch.setattr(module, "MAX_PAIRS", 20)
    plan = module._Plan(small, None)
    assert plan._counts("lem", 0) == [1, 2, 3, 4, 5, "all"]
    assert plan._counts("aim", 0) == [1, 2]
    monkeypatch.setattr(module, "MAX_SURVEY", 1)
    assert plan._counts("aim", 0) == []


def test_closer_counts_pairs_by_hand():
    d2 = np.array([1.0, 2.0, 3.0, 2.0])
    same = np.array([True, True, False, False])
    assert module._closer(d2, same) == (1 + 1 + 1 + 0.5) / 4
