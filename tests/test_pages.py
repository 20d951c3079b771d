"""What the README shows, the examples and the benchmarks run as they stand."""

import re
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from spdsl.datasets import load_digit_sets
from spdsl.experiments.protocols import load_experiment

ROOT = Path(__file__).parents[1]


def test_the_python_of_the_readme_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # it writes a file
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len(blocks) >= 2
    scope = {}
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        for block in blocks:
            exec(compile(block, "README.md", "exec"), scope)
    shown = capsys.readouterr().out.split()
    assert float(shown[1]) > float(shown[0])
    assert "(448,20,20)" in "".join(shown)


def test_the_python_of_the_page_on_scale_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # it writes a file
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "scale.md").read_text(), flags=re.DOTALL)
    assert len(blocks) == 2
    scope = {}
    for block in blocks:
        exec(compile(block, "docs/scale.md", "exec"), scope)
    assert scope["model"].transform(scope["X"]).shape == (12, 10, 10)


def test_digit_sets_are_covariances_with_mean():
    X, y = load_digit_sets(3, random_state=1)
    assert X.shape[1:] == (65, 65)
    assert len(X) == len(y)
    np.testing.assert_array_equal(np.unique(y), np.arange(10))
    mean = X[0, :64, 64]
    C = X[0, :64, :64] - np.outer(mean, mean)
    assert np.sum(np.linalg.eigvalsh(C) > 0.05 * np.trace(C)) == 2  # three images: rank two above the ridge
    assert X[0, 64, 64] == 1


def test_digit_sets_need_two_images():
    with pytest.raises(ValueError, match="at least 2 images"):
        load_digit_sets(1)


def test_the_example_draws_its_figure(tmp_path):
    example = runpy.run_path(str(ROOT / "examples" / "learn_distances.py"))
    before, after = example["main"](str(tmp_path / "figure.png"))
    assert after > before
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    "script",
    [
        "soak.py",
        "kill_fits.py",
        "interrupt_runs.py",
        "kill_runs.py",
        "determinism.py",
        "bench.py",
        "iteration.py",
        "pymanopt_peer.py",
        "coding.py",
        "paper_algorithm.py",
        "fuzz_models.py",
    ],
)
def test_benchmarks_run_at_a_tiny_size(script):
    command = [sys.executable, str(ROOT / "benchmarks" / script), "--tiny"]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert len(out.stdout.splitlines()) >= 3


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


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text()):
        if "://" not in target:
            assert ((ROOT / page).parent / target).exists(), target
