"""Running a protocol: what is computed, what is kept, and that stopping changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trials import make_experiment

from spdsl import SPDSL, SPDNearestNeighbor
from spdsl.evaluation import cells, jobs
from spdsl.evaluation.cells import Cells, Settings
from spdsl.evaluation.methods import METHODS, Method
from spdsl.evaluation.results import Cell, Results, cell_to_dict
from spdsl.evaluation.runner import run_experiment
from spdsl.evaluation.store import Store
from spdsl.evaluation.tables import cells_to_csv, to_csv
from spdsl.evaluation.tuning import _by_fit

SOME = ["NN-LEM", "CDL", "SPDSL-LEM"]
run = partial(run_experiment, n_jobs=1, n_folds=3, verbose=False)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bytes]]:
    """Method and training samples of every cell that is computed in this process."""
    seen: list[tuple[str, bytes]] = []
    find = cells.find_cell

    def spy(X: Any, y: Any, groups: Any, method: Method, split: Any, *rest: Any) -> Any:
        seen.append((method.name, split[0].tobytes()))
        return find(X, y, groups, method, split, *rest)

    monkeypatch.setattr(cells, "find_cell", spy)
    return seen


@pytest.fixture
def tuned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The estimator of every call of the tuner."""
    seen: list[str] = []
    tune = cells.choose_parameters

    def spy(model: Any, *rest: Any, **options: Any) -> Any:
        seen.append(type(model).__name__)
        return tune(model, *rest, **options)

    monkeypatch.setattr(cells, "choose_parameters", spy)
    return seen


def accuracies(results: Results, method: str) -> list[float]:
    return [cell.accuracy for cell in results.cells if cell.method == method]


def test_every_method_meets_every_draw_and_finds_what_a_fit_by_hand_finds(tmp_path):
    experiment = make_experiment()
    results = run(experiment, Store(tmp_path), SOME, tuning="none")
    assert [(c.method, c.split) for c in results.cells] == [(name, k) for name in SOME for k in range(3)]
    X, y = experiment.X, experiment.y
    by_hand = {
        "NN-LEM": SPDNearestNeighbor("lem"),
        "SPDSL-LEM": METHODS["SPDSL-LEM"].factory().set_params(n_components=2),
    }
    for name, model in by_hand.items():
        wanted = [model.fit(X[a], y[a]).score(X[b], y[b]) for a, b in experiment.splits]
        assert accuracies(results, name) == wanted


def test_a_run_in_pieces_and_in_processes_ends_in_the_same_bytes(tmp_path):
    experiment = make_experiment()
    whole = run(experiment, Store(tmp_path / "whole"), SOME, tuning="first")
    pieces = Store(tmp_path / "pieces")
    run(replace(experiment, splits=experiment.splits[:1]), pieces, ["CDL"], tuning="first")
    run(experiment, Store(tmp_path / "pieces"), ["SPDSL-LEM"], tuning="first")
    joined = run(experiment, Store(tmp_path / "pieces"), SOME, tuning="first", n_jobs=2)
    for render in (to_csv, cells_to_csv):
        assert render(joined) == render(whole)


def test_finished_cells_are_not_computed_again(tmp_path, computed):
    experiment = make_experiment()
    first = run(experiment, Store(tmp_path), SOME, tuning="first")
    assert len(computed) == len(set(computed)) == 9
    computed.clear()
    again = run(experiment, Store(tmp_path), SOME, tuning="first")
    assert computed == []
    assert again.cells == first.cells
    assert again.seconds == first.seconds


def test_a_stopped_run_has_lost_nothing_and_goes_on(tmp_path, computed, monkeypatch):
    experiment, store = make_experiment(), Store(tmp_path / "a")
    append, kept = store.append, []

    def full_after_four(key: str, row: Any) -> bool:
        if len(kept) == 4:
            raise OSError(28, "No space left on device")
        kept.append(key)
        return append(key, row)

    monkeypatch.setattr(store, "append", full_after_four)
    with pytest.raises(OSError, match="No space"):
        run(experiment, store, SOME, tuning="each")
    assert len(Store(tmp_path / "a")) == 4
    assert list((tmp_path / "a" / ".claims").iterdir()) == []
    computed.clear()
    resumed = run(experiment, Store(tmp_path / "a"), SOME, tuning="each")
    assert len(computed) == 5
    assert to_csv(resumed) == to_csv(run(experiment, Store(tmp_path / "b"), SOME, tuning="each"))


# --------------------------------------------------------------------------------------------------------------- tuning


def test_each_training_part_is_tuned_on_its_own(tmp_path, tuned):
    run(make_experiment(), Store(tmp_path), SOME, tuning="each")
    assert sorted(tuned) == ["CDL"] * 3 + ["SPDSL"] * 3


def test_tuning_on_the_first_draw_serves_all_draws(tmp_path, tuned):
    experiment = make_experiment()
    results = run(experiment, Store(tmp_path), SOME, tuning="first")
    assert sorted(tuned) == ["CDL", "SPDSL"]
    chosen = [cell.params for cell in results.cells if cell.method == "SPDSL-LEM"]
    assert chosen[0]
    assert chosen == [chosen[0]] * 3
    model = METHODS["SPDSL-LEM"].unfitted(2, 0).set_params(**chosen[0])
    train, test = experiment.splits[2]
    wanted = model.fit(experiment.X[train], experiment.y[train]).score(experiment.X[test], experiment.y[test])
    assert accuracies(results, "SPDSL-LEM")[2] == wanted
    assert "first draw's training part alone" in results.settings["tuning"]
    tuned_on = experiment.splits[0][0]
    shared = np.isin(tuned_on, np.concatenate([test for _, test in experiment.splits[1:]])).sum()
    assert shared > 0
    said = f"{shared} of the {len(tuned_on)} samples tuned on are test samples of other draws"
    assert said in results.settings["tuning"]


def test_tuning_is_given_the_training_part_and_nothing_else(tmp_path, monkeypatch):
    seen, tune = [], cells.choose_parameters

    def spy(model: Any, grid: Any, X: np.ndarray, y: np.ndarray, **options: Any) -> Any:
        seen.append((X, y))
        return tune(model, grid, X, y, **options)

    monkeypatch.setattr(cells, "choose_parameters", spy)
    experiment = make_experiment()
    run(experiment, Store(tmp_path), ["CDL"], tuning="each")
    for (X, y), (train, _) in zip(seen, experiment.splits, strict=True):
        np.testing.assert_array_equal(X, experiment.X[train])
        np.testing.assert_array_equal(y, experiment.y[train])


def test_nothing_is_tuned_when_nothing_is_to_be(tmp_path, tuned):
    results = run(make_experiment(), Store(tmp_path), SOME, tuning="none")
    assert tuned == []
    assert all(cell.params == {} for cell in results.cells)


def test_an_unknown_way_of_tuning_is_refused(tmp_path):
    with pytest.raises(ValueError, match="tuning='last': choose 'each', 'first' or 'none'"):
        run(make_experiment(), Store(tmp_path), SOME, tuning="last")


# ------------------------------------------------------------------------------------------------------------- failures


def test_a_method_that_fails_says_so_in_its_cells_and_costs_nobody_else(tmp_path, moody):
    moody().append(RuntimeError("no luck today"))
    store = Store(tmp_path)
    results = run(make_experiment(), store, ["NN-LEM", "Moody"])
    assert [c.error for c in results.cells] == [""] * 3 + ["RuntimeError: no luck today"] * 3
    assert all(np.isnan(c.accuracy) for c in results.cells[3:])
    assert np.isfinite(accuracies(results, "NN-LEM")).all()
    assert len(store) == 3


def test_a_failed_cell_is_tried_again_by_the_next_run(tmp_path, moody, computed):
    trouble = moody()
    trouble.append(MemoryError("too large"))
    run(make_experiment(), Store(tmp_path), ["NN-LEM", "Moody"])
    trouble.clear()
    computed.clear()
    results = run(make_experiment(), Store(tmp_path), ["NN-LEM", "Moody"])
    assert [name for name, _ in computed] == ["Moody"] * 3
    assert not any(cell.error for cell in results.cells)


def test_without_parameters_from_the_first_draw_the_others_are_not_run(tmp_path, moody, computed):
    moody(level=(1, 2)).append(ValueError("bad start"))
    results = run(make_experiment(), Store(tmp_path), ["NN-LEM", "Moody"], tuning="first")
    assert [name for name, _ in computed].count("Moody") == 1
    errors = [c.error for c in results.cells if c.method == "Moody"]
    assert errors[0] == "ValueError: bad start"
    assert errors[1:] == ["not tuned, since the first draw failed: ValueError: bad start"] * 2


# ---------------------------------------------------------------------------------------------------------- the digest


def key(
    experiment: Any = None, method: str = "CDL", *, draw: int = 0, given: Any = None, n_folds: int = 3, **more: Any
) -> str:
    experiment = make_experiment() if experiment is None else experiment
    return Cells(experiment, Settings("each", n_folds, **more)).job(METHODS[method], draw, given).key


def changed_split(part: int, change: Callable[[np.ndarray], np.ndarray]) -> Any:
    experiment = make_experiment()
    split = list(experiment.splits[0])
    split[part] = change(split[part])
    return replace(experiment, splits=[tuple(split), *experiment.splits[1:]])


def test_what_determines_a_cell_changes_its_key(monkeypatch):
    base = make_experiment()
    X = base.X.copy()
    X[29, 5, 5] = np.nextafter(X[29, 5, 5], 9)
    y = base.y.copy()
    y[3] = (y[3] + 1) % 3
    keys = {
        "nothing": key(),
        "one bit of a matrix": key(replace(base, X=X)),
        "a label": key(replace(base, y=y)),
        "a training sample": key(changed_split(0, lambda rows: rows[:-1])),
        "the order of training": key(changed_split(0, lambda rows: rows[::-1])),
        "a test sample": key(changed_split(1, lambda rows: rows[:-1])),
        "the draw": key(draw=1),
        "the method": key(method="LEML"),
        "the folds": key(n_folds=4),
        "given parameters": key(given={"extra_components": 1}),
        "defaults": key(given={}),
        "the size": key(method="SPDSL-LEM"),
        "another size": key(replace(base, n_components=3), method="SPDSL-LEM"),
    }
    monkeypatch.setitem(METHODS, "CDL", replace(METHODS["CDL"], grid={"extra_components": (-1, 0)}))
    keys["the grid"] = key()
    factory = METHODS["CDL"].factory
    monkeypatch.setitem(METHODS, "CDL", replace(METHODS["CDL"], factory=partial(factory, "lda")))
    keys["a parameter of the estimator"] = key(given={})
    keys["the seed"] = key(seed=1)
    keys["the scores"] = key(scoring=("balanced_accuracy",))
    keys["the groups"] = key(replace(base, groups=np.arange(30) // 2))
    monkeypatch.setattr(cells, "RESULT_VERSION", 99)
    keys["the version of the results"] = key()
    assert len(set(keys.values())) == len(keys), keys


def test_what_does_not_determine_a_cell_leaves_its_key(monkeypatch):
    renamed = make_experiment(name="x", title="y", description="z", how="w", tuning="first", published={"CDL": (1, 2)})
    assert key(renamed) == key()
    assert key(make_experiment(draws=2)) == key()
    assert key(replace(make_experiment(), n_components=3)) == key()  # CDL reduces nothing
    assert key(n_folds=9) == key(n_folds=5)  # five samples of each class: five folds either way
    assert key(method="NN-LEM") == key(method="NN-LEM", given={})  # nothing to tune


def test_equal_draws_share_their_cells(tmp_path, computed):
    experiment = make_experiment(draws=2)
    twice = replace(experiment, splits=[experiment.splits[0], experiment.splits[1], experiment.splits[0]])
    results = run(twice, Store(tmp_path), SOME, tuning="each")
    assert len(computed) == 6
    for name in SOME:
        first, _, again = accuracies(results, name)
        assert first == again


# --------------------------------------------------------------------------------------------------------- several runs


def in_threads(*work: Callable[[], Any]) -> list[Any]:
    found: list[Any] = [None] * len(work)

    def keep(k: int) -> None:
        found[k] = work[k]()

    threads = [threading.Thread(target=keep, args=(k,)) for k in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


def test_two_runs_on_one_store_share_the_work(tmp_path, computed, monkeypatch):
    monkeypatch.setattr(jobs, "POLL", 0.01)
    experiment = make_experiment(draws=8)
    both = in_threads(*[partial(run, experiment, Store(tmp_path), SOME, tuning="first") for _ in range(2)])
    assert len(computed) == len(set(computed)) == len(SOME) * 8  # none twice
    assert to_csv(both[0]) == to_csv(both[1])
    assert len((tmp_path / "store.jsonl").read_text().splitlines()) == 1 + 24
    assert to_csv(both[0]) == to_csv(run(experiment, Store(tmp_path / "alone"), SOME, tuning="first"))


def test_a_run_waits_for_a_cell_that_another_works_on_and_takes_its_figure(tmp_path, computed, monkeypatch):
    experiment, other = make_experiment(draws=1), Store(tmp_path)
    task = Cells(experiment, Settings("none", 3)).job(METHODS["NN-LEM"], 0, {})
    claim = other.claim(task.key)
    waits = []

    def finish(seconds: float) -> None:
        waits.append(seconds)
        cell = Cell("NN-LEM", 0, 0.125, {}, 0.0, 0.0, 0.0)
        other.append(task.key, cell_to_dict(cell))
        other.release(claim)

    monkeypatch.setattr(jobs, "sleep", finish)
    results = run(experiment, Store(tmp_path), ["NN-LEM"])
    assert len(waits) == 1
    assert computed == []
    assert results.cells[0].accuracy == 0.125


def test_a_run_takes_over_what_another_gave_up(tmp_path, computed, monkeypatch):
    experiment, other = make_experiment(draws=1), Store(tmp_path)
    task = Cells(experiment, Settings("none", 3)).job(METHODS["NN-LEM"], 0, {})
    claim = other.claim(task.key)
    monkeypatch.setattr(jobs, "sleep", lambda _: other.release(claim))
    results = run(experiment, Store(tmp_path), ["NN-LEM"])
    assert [name for name, _ in computed] == ["NN-LEM"]
    assert not results.cells[0].error


def test_a_dask_cluster_finds_the_same(tmp_path):
    distributed = pytest.importorskip("distributed")
    experiment = make_experiment()
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        far = run(experiment, Store(tmp_path / "far"), SOME, tuning="first", cluster=cluster.scheduler_address)
    near = run(experiment, Store(tmp_path / "near"), SOME, tuning="first")
    assert cells_to_csv(far) == cells_to_csv(near)


def test_a_scheduler_that_does_not_answer_is_named(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(jobs, "CLUSTER_WAIT", "200ms")
    with pytest.raises(ConnectionError, match=r"no Dask scheduler answers at 'tcp://127\.0\.0\.1:9'"):
        run(make_experiment(), Store(tmp_path), ["NN-LEM"], cluster="tcp://127.0.0.1:9")


# ------------------------------------------------------------------------------------------------------------- results


def test_results_come_back_from_their_text(tmp_path, moody):
    moody().append(RuntimeError("no luck"))
    results = run(make_experiment(published={"CDL": (50.0, None)}), Store(tmp_path), [*SOME, "Moody"], tuning="first")
    again = Results.from_json(results.to_json())
    assert again.to_json() == results.to_json()
    assert to_csv(again) == to_csv(results)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not results of spdsl"),
        ("[]", "not results of spdsl"),
        ("{}", "not results of spdsl"),
        ('{"spdsl-results": 8}', "results of format 8, and this version of spdsl reads format 2"),
        ('{"spdsl-results": 2}', "incomplete or edited results"),
        ('{"spdsl-results": 2, "cells": [{}]}', "incomplete or edited results"),
    ],
)
def test_other_text_is_no_results(text, message):
    with pytest.raises(ValueError, match=message):
        Results.from_json(text)


def test_progress_goes_to_the_error_stream_and_counts_what_is_missing(tmp_path, capsys):
    experiment = make_experiment()
    run(experiment, Store(tmp_path), ["NN-LEM"])
    run(experiment, Store(tmp_path), SOME, tuning="first", verbose=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines()[-1].startswith("Small: 6/6, about 0 s left")


def test_the_settings_tell_the_protocol(tmp_path: Path):
    results = run(make_experiment(), Store(tmp_path), SOME, tuning="each")
    assert results.settings["tuning"] == "parameters chosen inside each training part by cross-validation with 3 folds"
    assert results.settings["seed"] == 0
    assert results.settings["iterations"] == {"SPDSL-LEM": 50}
    assert results.settings["grids"]["CDL"] == {"extra_components": [-1, 0, 1]}
    assert results.sizes == [(15, 15)] * 3
    assert {"python", "numpy", "cores"} <= set(results.environment)


def test_grid_points_share_a_fit_by_their_values_rather_than_their_texts() -> None:
    """NumPy shortens the text of a large array, so that those of two starts may be the same."""
    one, other = np.eye(60, 40), np.eye(60, 40)
    other[20, 20] = 2.0
    starts = [{"init": one}, {"init": other}]
    assert repr(starts[0]) == repr(starts[1])
    points = [{"solver": start, "classifier": head} for start in starts for head in ("nn", "lda")]
    assert [fit.members for fit in _by_fit(SPDSL(40), points)] == [[0, 1], [2, 3]]
