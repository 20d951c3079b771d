"""Runs that are stopped, killed, or lose their reader: nothing is lost, nothing lives on, and the end is the same."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import spdsl
from samples import labeled
from spdsl.cli.app import app
from spdsl.evaluation import cells, jobs
from spdsl.evaluation.store import NAME, MemoryStore, Store

pytestmark = [pytest.mark.kills, pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")]
X, Y = labeled(60, 6, 3, seed=4)
GROUPS = np.arange(60) // 10


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("mine.npz", X=X, y=Y, groups=GROUPS)


def start(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "spdsl.cli", *map(str, arguments)]
    return subprocess.Popen(line, text=True, start_new_session=True, **options)


def rows_in(folder: str) -> int:
    path = Path(folder, NAME)
    return len(path.read_bytes().splitlines()) - 1 if path.exists() else 0


def wait_for(condition: Any, seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


# ----------------------------------------------------------------------------------------------- nobody lives on


SLOW = """
import sys, time
from spdsl.evaluation.jobs import Job, run_jobs
from spdsl.evaluation.store import MemoryStore

if __name__ == "__main__":
    from slow import work
    jobs = [Job(str(k), work, (sys.argv[1], k)) for k in range(int(sys.argv[2]))]
    list(run_jobs(jobs, MemoryStore(), n_jobs=2))
"""
WORK = """
import os, time
from pathlib import Path

def work(folder, k):
    Path(folder, f"{k}.pid").write_text(str(os.getpid()))
    time.sleep(120)
    return {}
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@pytest.mark.parametrize("jobs", [1, 4])
def test_workers_do_not_outlive_a_parent_that_is_killed(jobs, tmp_path):
    """Workers at work, and one that never got a job."""
    (tmp_path / "slow.py").write_text(WORK)
    (tmp_path / "main.py").write_text(SLOW)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    line = [sys.executable, str(tmp_path / "main.py"), str(tmp_path), str(jobs)]
    parent = subprocess.Popen(line, env=os.environ | {"PYTHONPATH": path}, start_new_session=True)
    workers: list[int] = []
    try:
        assert wait_for(lambda: len(list(tmp_path.glob("*.pid"))) == min(jobs, 2))
        at_work = {int(file.read_text()) for file in tmp_path.glob("*.pid")}
        workers = children(parent.pid)
        assert at_work < set(workers)
        assert len(workers) >= 3  # two workers, whatever they do, and joblib's own helper
        parent.kill()
        parent.wait()
        assert wait_for(lambda: not any(map(alive, workers)), 10), "workers live on"
    finally:
        os.killpg(parent.pid, signal.SIGKILL) if any(map(alive, workers)) else None


# ------------------------------------------------------------------------------------------- a reader that goes away


def test_a_reader_that_goes_away_costs_neither_tables_nor_report():
    options = ("--data", "mine.npz", "--quick", "--methods", "NN-LEM,SPDSL-LEM", "-j", 1, "-o", "out")
    process = start("reproduce", *options, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    process.stdout.readline()
    process.stdout.close()  # as `head -1` does
    assert process.wait(120) == 0
    assert {"table.csv", "results.json", "report.html", "figures.json"} <= {path.name for path in Path("out").iterdir()}


def test_compare_writes_its_table_though_nobody_reads():
    options = ("--methods", "NN-LEM", "--no-tune", "--splits", 2, "-j", 1, "-o", "t.csv")
    process = start("compare", "mine.npz", *options, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.wait(60) == 0, process.stderr.read()
    process.stderr.close()
    assert Path("t.csv").stat().st_size


# ------------------------------------------------------------------------------------------------- stopped and resumed


COMPARE = ("compare", "mine.npz", "--methods", "NN-AIM,NN-Stein,NN-LEM,CDL", "--splits", 10, "--no-tune")


def without_seconds(csv_file: str) -> list[list[str]]:
    rows = list(csv.reader(Path(csv_file).read_text().splitlines()))
    kept = [k for k, name in enumerate(rows[0]) if not name.endswith("_seconds")]
    return [[row[k] for k in kept] for row in rows]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_compare_goes_on_from_its_folder(how):
    process = start(*COMPARE, "-j", 1, "--folder", "kept", "-o", "a.csv", stderr=subprocess.PIPE)
    assert wait_for(lambda: rows_in("kept") >= 3)
    process.send_signal(how)
    err = process.communicate(timeout=60)[1]
    kept = rows_in("kept")
    if how != signal.SIGKILL and process.returncode != 0:  # a very fast machine may be through
        assert process.returncode == 130
        assert "completed results are in kept" in err
    assert CliRunner().invoke(app, [*map(str, COMPARE), "-j", "1", "--folder", "kept", "-o", "a.csv"]).exit_code == 0
    assert rows_in("kept") == 40 >= kept
    assert CliRunner().invoke(app, [*map(str, COMPARE), "-j", "1", "-o", "b.csv"]).exit_code == 0
    assert without_seconds("a.csv") == without_seconds("b.csv")


def test_the_same_call_computes_nothing_again_and_gives_the_same(monkeypatch, tmp_path):
    options: dict[str, Any] = {"splits": 3, "groups": GROUPS, "n_folds": 2, "verbose": False}
    methods = {"CDL": "CDL", "mine": (spdsl.SPDNearestNeighbor("lem"), {"n_neighbors": [1, 3]})}
    first = spdsl.compare(X, Y, methods, folder=tmp_path / "kept", **options)
    monkeypatch.setattr(cells, "fit_on", None)
    again = spdsl.compare(X, Y, methods, folder=tmp_path / "kept", **options)
    assert again.cells == first.cells
    assert again.to_csv() == first.to_csv()
    changed = {"mine": (spdsl.SPDNearestNeighbor("aim"), {"n_neighbors": [1, 3]})}
    other = spdsl.compare(X, Y, changed, folder=tmp_path / "kept", **options)
    assert all(cell.error for cell in other.cells)  # another estimator of the same name is computed, not looked up


def test_a_row_that_was_edited_is_one_clear_error(tmp_path):
    spdsl.compare(X, Y, ["NN-LEM"], splits=1, verbose=False, folder=tmp_path)
    store = Store(tmp_path)
    (key,) = store._rows
    row = store[key] | {"accuracy": "high"}
    (tmp_path / NAME).unlink()
    Store(tmp_path).append(key, row)
    with pytest.raises(ValueError, match=rf"the row {key} does not hold a cell, though its check-sum agrees"):
        spdsl.compare(X, Y, ["NN-LEM"], splits=1, verbose=False, folder=tmp_path)


def test_equal_jobs_are_done_once_and_failures_are_told_for_each():
    seen = []

    def work(k: int) -> dict[str, int]:
        seen.append(k)
        if k == 2:
            raise ValueError("no luck")
        return {"k": k}

    wanted = [jobs.Job("a", work, (1,)), jobs.Job("b", work, (2,)), jobs.Job("a", work, (3,))]
    done = {outcome.key: outcome for outcome in jobs.run_jobs(wanted, MemoryStore())}
    assert seen == [1, 2]
    assert done["a"].row == {"k": 1}
    assert (done["b"].row, done["b"].error) == (None, "ValueError: no luck")


def test_a_grouped_compare_that_is_killed_at_random_ends_in_the_same_table():
    """A few kills here; benchmarks/kill_runs.py does twenty."""
    line = ("compare", "mine.npz", "-o", "table.csv", "--methods", "NN-AIM,NN-LEM,CDL", "--splits", 4)
    rng = random.Random(0)
    for _ in range(2):
        before = rows_in("kept")
        process = start(*line, "-j", 2, "--folder", "kept", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda seen=before, p=process: rows_in("kept") > seen or p.poll() is not None)
        time.sleep(rng.uniform(0, 0.3))
        os.killpg(process.pid, signal.SIGKILL) if rng.random() < 0.5 and process.poll() is None else process.kill()
        process.wait()
    assert CliRunner().invoke(app, [*map(str, line), "-j", "1", "--folder", "kept"]).exit_code == 0
    killed = without_seconds("table.csv")
    assert CliRunner().invoke(app, [*map(str, line), "-j", "1"]).exit_code == 0
    assert without_seconds("table.csv") == killed
    keys = [json.loads(row.split(b" ", 1)[1])["key"] for row in Path("kept", NAME).read_bytes().splitlines()[1:]]
    assert len(keys) == len(set(keys)) == 12
