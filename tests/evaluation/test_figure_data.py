"""The numbers behind the figures: found once, from the cells of the table where these have them, and readable again."""

from dataclasses import replace

import numpy as np
import pytest

from spdsl.estimators import pairwise_sqdist
from spdsl.evaluation import cells, figure_data
from spdsl.evaluation.figure_data import FigureData, find_figures
from spdsl.evaluation.methods import METHODS
from spdsl.evaluation.plates import confusion, draw_plates
from spdsl.evaluation.protocols import load_experiment
from spdsl.evaluation.runner import run_experiment
from spdsl.evaluation.store import Store


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
    """Folder, results of the table, numbers of the figures."""
    folder = tmp_path_factory.mktemp("run")
    store = Store(folder)
    results = run_experiment(small, store, ["NN-LEM", "SPDSL-LEM"], tuning="first", n_jobs=1, verbose=False)
    return folder, results, find_figures(small, store, results, n_jobs=1, verbose=False)


def test_confusions_are_those_of_the_table(run):
    _, results, _ = run
    for name in ("NN-LEM", "SPDSL-LEM"):
        counts = confusion(results, name)
        accuracies = [cell.accuracy for cell in results.cells if cell.method == name]
        assert np.trace(counts) / counts.sum() == pytest.approx(np.mean(accuracies))


def test_counts_that_mean_the_same_graph_are_fitted_once(run):
    sweep = run[2].sweep
    lem = [point.n_between for point in sweep if point.metric == "LEM" and point.draw == 0]
    assert lem == [1, 2, 3, 4, 5, "all"]  # of 8 training samples 6 are of other classes
    assert {point.metric for point in sweep} == {"LEM", "AIM", "Stein"}
    assert all(point.seconds > 0 for point in sweep)


def test_a_point_of_the_sweep_is_a_fit_by_hand(run, small):
    point = next(p for p in run[2].sweep if (p.metric, p.n_between, p.draw) == ("LEM", 3, 1))
    train, test = small.splits[1]
    model = METHODS["SPDSL-LEM"].unfitted(8, 0).set_params(n_between=3, n_within=None)
    assert point.accuracy == model.fit(small.X[train], small.y[train]).score(small.X[test], small.y[test])


def test_the_objective_never_falls(run):
    for cell in run[1].cells:
        values = [value for value, _ in cell.history]
        assert cell.method != "SPDSL-LEM" or len(values) > 3
        assert np.all(np.diff(values) > -1e-12)


def test_samples_shown_are_sorted_by_class_and_separate_better_after_learning(run):
    samples = run[2].samples
    assert np.all(np.diff(samples.labels) >= 0)
    assert samples.before.similarity.shape == (len(samples.labels),) * 2
    assert np.all(np.diag(samples.after.similarity) == 1)
    assert samples.after.closer > samples.before.closer


def test_samples_after_learning_are_under_the_distance_of_the_tables_fit(run, small):
    _, results, data = run
    params = next(cell.params for cell in results.cells if cell.method == "SPDSL-LEM")
    train, test = small.splits[0]
    model = METHODS["SPDSL-LEM"].unfitted(8, 0).set_params(**params).fit(small.X[train], small.y[train])
    order = test[np.argsort(small.y[test], kind="stable")]
    same = (small.y[order][:, None] == small.y[order])[np.triu_indices(len(order), 1)]
    learned, plain = model.sqdist(small.X[order]), pairwise_sqdist(small.X[order])
    for space, d2 in ((data.samples.after, learned), (data.samples.before, plain)):
        assert space.closer == pytest.approx(figure_data._closer(d2[np.triu_indices(len(order), 1)], same), abs=1e-9)


def test_nothing_is_fitted_for_the_figures_of_a_quick_run(run, small, monkeypatch):
    folder, results, _ = run
    monkeypatch.setattr(cells, "fit_on", None)  # whoever fits fails
    monkeypatch.setattr(cells, "choose_parameters", None)
    data = find_figures(small, Store(folder), results, sweep=False, n_jobs=1, verbose=False)
    assert data.missing == []
    names = [plate.name for plate in draw_plates(results, data)]
    assert names == ["methods", "convergence", "similarity", "embedding", "confusion"]


def test_nothing_is_found_twice(run, small, monkeypatch):
    folder, results, data = run
    monkeypatch.setattr(cells, "fit_on", None)
    monkeypatch.setattr(figure_data, "_embed", None)
    store = Store(folder)
    assert find_figures(small, store, results, n_jobs=1, verbose=False).to_json() == data.to_json()


def test_numbers_survive_json(run):
    data = run[2]
    again = FigureData.from_json(data.to_json())
    assert again.to_json() == data.to_json()
    np.testing.assert_array_equal(again.samples.after.similarity, data.samples.after.similarity)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"spdsl-figures": 99}', '{"spdsl-figures": 2, "classes": []}'])
def test_a_file_that_holds_no_numbers_says_so(text):
    with pytest.raises(ValueError, match=r"not figures of spdsl.*run `spdsl reproduce` again"):
        FigureData.from_json(text)


def test_a_figure_that_fails_is_named_and_costs_no_other(small, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ValueError("no picture today")

    monkeypatch.setattr(figure_data, "find_samples", fail)
    monkeypatch.setattr(figure_data, "BETWEEN", (1,))
    one, store = replace(small, splits=small.splits[:1]), Store(tmp_path)
    results = run_experiment(one, store, ["SPDSL-LEM"], tuning="none", n_jobs=1, verbose=False)
    found = find_figures(one, store, results, n_jobs=1, verbose=False)
    assert found.samples is None
    assert found.missing == ["before and after: ValueError: no picture today"]
    assert len(found.sweep) == 3


def test_without_the_learned_method_there_are_no_samples(small, tmp_path):
    one, store = replace(small, splits=small.splits[:1]), Store(tmp_path)
    results = run_experiment(one, store, ["NN-LEM"], tuning="none", n_jobs=1, verbose=False)
    found = find_figures(one, store, results, sweep=False, n_jobs=1, verbose=False)
    assert found.samples is None
    assert found.missing == []


def test_expensive_graphs_are_left_to_the_cheap_metric(small, run, monkeypatch):
    folder, results, _ = run
    monkeypatch.setattr(figure_data, "MAX_PAIRS", 20)
    plan = figure_data._Plan(small, Store(folder), results, True)
    assert plan._counts("lem", 0) == [1, 2, 3, 4, 5, "all"]
    assert plan._counts("aim", 0) == [1, 2]
    monkeypatch.setattr(figure_data, "MAX_SURVEY", 1)
    assert plan._counts("aim", 0) == []


def test_closer_counts_pairs_by_hand():
    d2 = np.array([1.0, 2.0, 3.0, 2.0])
    same = np.array([True, True, False, False])
    assert figure_data._closer(d2, same) == (1 + 1 + 1 + 0.5) / 4
