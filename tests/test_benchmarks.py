"""Every benchmark runs, at a tiny size."""

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from spdsl.evaluation.protocols import load_experiment

pytestmark = pytest.mark.benchmarks
ROOT = Path(__file__).parents[1]


def benchmark(script, *arguments):
    """What a benchmark prints."""
    command = [sys.executable, "-W", "ignore", str(ROOT / "benchmarks" / script), *arguments]
    calm = os.environ | {"OMP_NUM_THREADS": "1"}  # idle threads of one library spin on the cores of the next
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=calm)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize(
    "script",
    [
        "soak.py",
        "kill_fits.py",
        "interrupt_runs.py",
        "kill_runs.py",
        "determinism.py",
        "bench.py",
        "pymanopt_peer.py",
        "coding.py",
        "paper_algorithm.py",
        "fuzz_models.py",
        "serving.py",
        "accuracy.py",
        "patterns.py",
        "calibration.py",
        "groups.py",
    ],
)
def test_benchmarks_run_at_a_tiny_size(script):
    assert len(benchmark(script, "--tiny").splitlines()) >= 3


def test_figures_of_features_run_on_some_real_data(data_folder):
    assert len(benchmark("features_figures.py", "mocap").splitlines()) >= 2


def test_an_interrupted_run_of_accuracy_resumes(tmp_path):
    path, few = tmp_path / "accuracy.json", ["--tiny", "--methods", "SPDSL", "CDL"]
    first = benchmark("accuracy.py", *few, "--results", str(path))
    cells = json.loads(path.read_text())
    assert sorted(cells) == ["digits/0/CDL", "digits/0/SPDSL"]
    cells["digits/0/CDL"]["accuracy"] = 12.5  # kept from here on, whereas what is lost is computed again
    del cells["digits/0/SPDSL"]
    path.write_text(json.dumps(cells))
    second = benchmark("accuracy.py", *few, "--results", str(path))
    assert "| 12.5 |" in second
    assert second.splitlines()[2].split("|")[3] == first.splitlines()[2].split("|")[3]


def test_accuracy_finds_all_sets(data_folder):
    module = runpy.run_path(str(ROOT / "benchmarks" / "realdata.py"))
    for name in ("eeg7", "florence", "hdm05_actor", "kylberg", "toy", "uav"):
        found = module["REAL_SETS"][name](2)
        assert len(found.X) == len(found.y)
        for train, test in found.draws:
            assert set(found.y[train]) == set(found.y)
            assert not set(train) & set(test)


def test_the_benchmark_of_devices_runs_on_the_cpu(tmp_path):
    pytest.importorskip("torch", reason="needs PyTorch")
    said = benchmark("gpu.py", "--device", "cpu", "--scale", "0.001", "--json", str(tmp_path / "gpu.json"))
    assert "predictions that differ': 0" in said
    assert (tmp_path / "gpu.json").exists()


def test_the_benchmark_of_whole_jobs_resumes(tmp_path):
    few = ["--device", "host", "--tiny", "--methods", "CDL", "SPDSL-LEM", "--out", str(tmp_path)]
    said = benchmark("gpu_jobs.py", *few, "--steps", "neighbors", "fit", "agree", "rows", "table")
    assert "same neighbors True" in said
    assert "cells known before 0" in said
    assert said.count("predictions that differ 0") == 2
    again = benchmark("gpu_jobs.py", *few, "--steps", "table")
    assert "seconds to tune" not in again
    kept = json.loads((tmp_path / "results.json").read_text())
    assert not [row for row in kept.values() if row.keys() & {"failed", "ended"}]


def test_every_benchmark_is_run_by_a_test():
    """By name in a test, or as a module of one that is."""
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    scripts = {path.stem: path.read_text() for path in (ROOT / "benchmarks").glob("*.py")}
    run = {name for name in scripts if f"{name}.py" in tests}
    for _ in scripts:
        run |= {
            other for name in run for other in scripts if re.search(rf"^\s*from {other} import", scripts[name], re.M)
        }
    assert sorted(set(scripts) - run) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--threads", "0"], "this process may run on"),
        (["--page", "absent.md"], "absent.md is no file"),
    ],
)
def test_the_benchmark_complains_before_it_measures(arguments, message):
    command = [sys.executable, str(ROOT / "benchmarks" / "bench.py"), "--tiny", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode != 0
    assert message in run.stderr
    assert "Traceback" not in run.stderr


def test_the_benchmarks_of_scale_run_at_a_tiny_size():
    command = [sys.executable, str(ROOT / "benchmarks" / "scale.py"), "--tiny"]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    for part in ("fit on disk", "ratio", "killed with SIGKILL", "recall", "one million"):
        assert part in out.stdout


def test_real_sets_become_files_that_reproduce_reads(data_folder, tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks" / "real_stacks.py"), str(tmp_path), "--sets", "eth80", "hdm05"]
    subprocess.run([*command, "--draws", "2"], check=True, timeout=120, stdout=subprocess.DEVNULL)
    eth80 = load_experiment(data=tmp_path / "eth80.npz")
    assert eth80.X.shape == (80, 401, 401)
    assert [len(part) for split in eth80.splits for part in split] == [40] * 4
    hdm05 = load_experiment(data=tmp_path / "hdm05.npz")
    assert [len(train) + len(test) for train, test in hdm05.splits] == [287] * 2
