"""`spdsl reproduce --plan`: estimates from small cells, on several cores, and nothing else."""

import os

import numpy as np
import pytest
from trials import make_experiment
from typer.testing import CliRunner

from samples import labeled
from spdsl.cli.app import app
from spdsl.datasets import Protocol
from spdsl.evaluation import plan as planning
from spdsl.evaluation.cells import Settings
from spdsl.evaluation.methods import get_methods
from spdsl.evaluation.plan import Plan, PlannedMethod, plan_run


def test_estimates_grow_with_the_matrices_within_the_powers(monkeypatch):
    """Cells that take c N^p seconds are extrapolated to the size of the run."""
    X, y = labeled(60, 6, 6)
    experiment = make_experiment(X=X, y=y, splits=list(Protocol(draws=4).splits(y)))
    monkeypatch.setattr(planning, "SMALL", (10, 20))
    asked = []

    def timed(experiment, method, settings, split, tuning):
        asked.append((len(split[0]), tuning))
        return 0.01 * len(split[0]) ** (1.5 if method.name == "NN-LEM" else 5)

    monkeypatch.setattr(planning, "_timed", timed)
    found = plan_run(experiment, get_methods(["NN-LEM", "CDL"]), Settings("first", 5))
    near, far = found.methods
    assert near.first == near.other == pytest.approx(0.01 * 30**1.5)
    assert far.other == pytest.approx(0.01 * 20**5 * 1.5**2)  # the highest power
    assert far.first == pytest.approx(2.5 * 0.01 * 10**5 * 3**2)  # five folds instead of two
    assert {(10, True), (10, False), (20, False)} <= set(asked)
    assert (20, True) not in asked  # the tuned cells are the slow ones
    assert far.seconds == pytest.approx(far.first + 3 * far.other)


def test_a_run_on_more_cores_takes_no_less_than_its_longest_cell():
    found = Plan([PlannedMethod("A", 3, 8.0, 2.0, True), PlannedMethod("B", 2, 3.0, 3.0, False)], 0, 0.0)
    assert found.seconds == found.on_cores(1) == 18
    assert found.on_cores(2) == 10
    assert found.on_cores(16) == 8


def test_small_cells_are_timed_and_a_method_that_fails_says_so(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    names = {"NN-LEM": "NN-LEM", "worse": get_methods(["MDM"])[0].factory().set_params(metric="nothing")}
    found = plan_run(make_experiment(), get_methods(names), Settings("none"))
    assert 0 < found.methods[0].seconds < 10
    assert "nothing" in found.methods[1].error
    assert found.bytes > 0
    assert os.environ["OMP_NUM_THREADS"] == "2"


def test_the_command_prints_the_plan_and_stores_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = labeled(40)
    np.savez("mine.npz", X=X, y=y)
    done = CliRunner().invoke(
        app, ["reproduce", "--data", "mine.npz", "--methods", "NN-AIM,CDL", "--draws", "2", "--plan"]
    )
    assert done.exit_code == 0, done.output
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:3]] == [["NN-AIM", "2"], ["CDL", "2"]]
    assert "--device cuda" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.npz"]
