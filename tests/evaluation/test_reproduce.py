"""`spdsl reproduce` as a user meets it: what it prints, writes and returns, and what it says when something is wrong."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from samples import labeled
from spdsl.cli import reproduce as command
from spdsl.cli.errors import in_words, plain_errors
from spdsl.evaluation import cells, jobs
from spdsl.evaluation.protocols import load_experiment
from spdsl.evaluation.results import read_results
from spdsl.evaluation.store import NAME
from spdsl.evaluation.tables import OUTPUTS
from spdsl.features.errors import FeatureError

app = typer.Typer()
app.command()(command.reproduce)
SOME = ("--methods", "NN-LEM,CDL,SPDSL-LEM", "--no-report", "-j", "1")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every command runs in a folder of its own that holds a small file of matrices."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPDSL_CACHE", str(tmp_path / "cache"))
    X, y = labeled(30, 6, 3, seed=4)
    np.savez("mine.npz", X=X, y=y)
    return tmp_path


def spdsl(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(*arguments: object) -> str:
    """The error stream of a command that must end with exit code 1, one line and no traceback."""
    result = spdsl(*arguments)
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    errors = [line for line in result.stderr.splitlines() if line]
    assert errors[-1].startswith("error: ")
    assert "Traceback" not in result.output
    return errors[-1]


@contextmanager
def started(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """The command in a process group of its own, which does not outlive the test."""
    line = [sys.executable, "-m", "spdsl.cli", "reproduce", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(line, start_new_session=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            with_workers = os.getpgid(process.pid) if process.poll() is None else None
            if with_workers is not None:
                os.killpg(with_workers, signal.SIGKILL)


# -------------------------------------------------------------------------------------------------------- the good case


def test_a_run_prints_the_table_and_writes_every_file_it_names():
    result = spdsl("--data", "mine.npz", "--draws", 5, *SOME)
    assert result.exit_code == 0, result.output
    for text in ("NN-LEM", "SPDSL-LEM", "5 random draws (seed 0)", "inside each training part", "Nadeau and Bengio"):
        assert text in " ".join(result.stdout.split())
    listed = re.findall(r"^  (\w+\.\w+) ", result.stdout.split("Written to spdsl-results/mine:")[1], flags=re.MULTILINE)
    assert sorted(listed) == sorted(OUTPUTS)
    for name in listed:
        assert Path("spdsl-results/mine", name).stat().st_size
    assert len(read_results("spdsl-results/mine").cells) == 15


def test_the_same_command_again_computes_nothing_and_writes_the_same(monkeypatch):
    spdsl("--data", "mine.npz", "--draws", 2, *SOME, "-o", "out")
    tables = [name for name in OUTPUTS if name != "results.json"]  # which holds the date
    first = {name: Path("out", name).read_bytes() for name in tables}
    monkeypatch.setattr(cells, "fit_on", None)  # whoever tries to fit fails
    result = spdsl("--data", "mine.npz", "--draws", 2, *SOME, "-o", "out")
    assert result.exit_code == 0, result.output
    assert "6 results are stored in out/store.jsonl" in result.stdout
    assert {name: Path("out", name).read_bytes() for name in tables} == first


def test_a_report_comes_with_it_unless_it_is_not_wanted():
    result = spdsl("--data", "mine.npz", "--quick", "--methods", "NN-LEM,SPDSL-LEM", "-j", 1, "-o", "out")
    assert result.exit_code == 0, result.output
    assert "Report: out/report.html" in result.stdout
    assert Path("out/report.html").read_text().startswith("<!")
    assert "report" not in spdsl("--data", "mine.npz", "--quick", *SOME, "-o", "bare").stdout


def test_quick_means_two_draws_and_no_tuning_unless_said_otherwise():
    spdsl("--data", "mine.npz", "--quick", *SOME, "-o", "quick")
    found = read_results("quick")
    assert found.n_draws == 2
    assert found.settings["tuning"].startswith("nothing tuned")
    spdsl("--data", "mine.npz", "--quick", "--draws", 3, "--tune", "first", "--components", 3, *SOME, "-o", "other")
    found = read_results("other")
    assert (found.n_draws, found.n_components) == (3, 3)
    assert "first draw's training part alone" in found.settings["tuning"]


def test_without_arguments_it_runs_on_the_digits():
    result = spdsl("--quick", "--methods", "NN-LEM", "--no-report", "-j", 1)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Handwritten digits. A digit is recognized from a set of two 8 x 8 images")
    assert Path("spdsl-results/digits/table.csv").is_file()


def test_a_pipe_gets_plain_text_and_a_stream_of_ascii_is_no_reason_to_fail():
    line = [sys.executable, "-m", "spdsl.cli", "reproduce", "--data", "mine.npz", "--quick", *SOME]
    ascii_only = os.environ | {"PYTHONIOENCODING": "ascii", "COLUMNS": "80"}
    result = subprocess.run(line, capture_output=True, env=ascii_only, timeout=120)
    assert result.returncode == 0, result.stderr
    assert b"\x1b" not in result.stdout
    assert b"SPDSL-LEM" in result.stdout


def test_a_dask_cluster_is_used_through_its_address(monkeypatch):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as one:
        far = ("--data", "mine.npz", "--quick", *SOME, "-o", "far", "--cluster", one.scheduler_address)
        result = spdsl(*far)
    assert result.exit_code == 0, result.output
    spdsl("--data", "mine.npz", "--quick", *SOME, "-o", "near")
    assert Path("far/table.csv").read_bytes() == Path("near/table.csv").read_bytes()
    monkeypatch.setattr(jobs, "CLUSTER_WAIT", "200ms")
    nobody = "tcp://127.0.0.1:9"
    error = refused("--data", "mine.npz", "--draws", 1, *SOME, "-o", "far", "--cluster", nobody)
    assert f"no Dask scheduler answers at '{nobody}'" in error


# -------------------------------------------------------------------------------------------------------- bad arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mnist",), "'mnist' is not one of digits, ytc, uiuc, hdm05"),
        (("--methods", "SVM"), "unknown method 'SVM'; choose among NN-AIM"),
        (("--methods", ","), "no method is given"),
        (("--tune", "often"), "'often' is not one of each, first, none"),
        (("--draws", "0"), "--draws"),
        (("--folds", "1"), "--folds"),
        (("--nonsense",), "--nonsense"),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_says_what_is_wrong(arguments, message):
    result = spdsl(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert not Path("spdsl-results").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ytc",), "give the folder that holds YouTube Celebrities with --data FOLDER"),
        (("ytc", "--data", "nowhere"), "nowhere: no such folder; YouTube Celebrities needs its video clips"),
        (("uiuc", "--data", "."), "the UIUC material dataset needs a folder per subcategory"),
        (("digits", "--data", "mine.npz"), "'digits' is embedded and takes no data"),
        (("hdm05", "--data", "mine.npz"), "30 usable samples of 3 classes found where HDM05 motions has 2337 of 130"),
        (("--data", "."), "a folder; name the dataset in it"),
        (("--data", "nowhere.npz"), "nowhere.npz: no such file"),
        (("--data", "mine.npz", "--components", "6"), "6 components are out of range"),
    ],
)
def test_a_wrong_source_ends_with_1_says_what_is_wrong_and_makes_nothing(arguments, message):
    assert message in refused(*arguments)
    assert not Path("spdsl-results").exists()


def test_debug_shows_where():
    result = spdsl("--data", "nowhere.npz", "--debug")
    assert isinstance(result.exception, FeatureError)


# ------------------------------------------------------------------------------------------------ what can go wrong then


def test_a_method_that_fails_is_in_the_table_and_the_exit_code(moody):
    moody().append(RuntimeError("no luck today"))
    error = refused("--data", "mine.npz", "--quick", "--methods", "NN-LEM,Moody", "--no-report", "-j", 1, "-o", "out")
    assert "2 of 4 cells failed; see the table for the reasons" in error
    assert "! Moody: 2 of 2 draws failed: RuntimeError: no luck today" in Path("out/table.md").read_text()
    assert len(Path("out", NAME).read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b'{"spdsl-store": 7}\n',
            "a store of format 7, and this version of spdsl reads format 1; choose another output",
        ),
        (b"something else\n", "not a store of results; move the file away, or choose another output folder"),
    ],
)
def test_a_store_that_is_not_ours_is_left_alone(content, message):
    Path("out").mkdir()
    Path("out", NAME).write_bytes(content)
    assert message in refused("--data", "mine.npz", "--quick", *SOME, "-o", "out")
    assert Path("out", NAME).read_bytes() == content


def test_a_store_cut_off_in_a_row_is_warned_of_and_made_whole():
    run = ("--data", "mine.npz", "--quick", *SOME, "-o", "out")
    spdsl(*run)
    table = Path("out/table.csv").read_bytes()
    rows = Path("out", NAME).read_bytes()
    Path("out", NAME).write_bytes(rows[:-30])
    result = spdsl(*run)
    assert result.exit_code == 0
    assert "warning: out/store.jsonl: the last row was cut off" in result.stderr
    assert Path("out/table.csv").read_bytes() == table
    assert len(Path("out", NAME).read_text().splitlines()) == len(rows.splitlines())


def test_an_output_folder_that_cannot_be_is_said_before_anything_is_loaded(monkeypatch):
    monkeypatch.setattr(command, "load_experiment", None)
    Path("file").touch()
    for out in ("file", "file/below"):
        error = refused("--data", "mine.npz", *SOME, "-o", out)
        assert error == "error: file: Not a directory; fix this, or choose another --out, and run again"


@pytest.mark.skipif(not Path("/sys/kernel").is_dir(), reason="needs a folder in which not even the superuser may write")
def test_an_output_folder_without_permission_is_named():
    error = refused("--data", "mine.npz", "--quick", *SOME, "-o", "/sys/kernel/spdsl")
    assert re.match(r"error: /sys/kernel\S*: .+; fix this, or choose another --out, and run again", error)


def test_a_disk_that_is_full_at_the_end_keeps_the_work(monkeypatch):
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    run = ("--data", "mine.npz", "--quick", *SOME, "-o", "out")
    with monkeypatch.context() as patch:
        patch.setattr(command, "write_outputs", full)
        error = refused(*run)
    assert error.startswith("error: out: No space left on device; completed results are kept; fix this")
    assert "6 results are stored" in spdsl(*run).stdout


@pytest.mark.kills
@pytest.mark.skipif(sys.platform == "win32", reason="process groups of Unix")
@pytest.mark.parametrize("how", ["Ctrl-C", "kill"])
def test_an_interrupted_run_ends_with_130_says_so_and_goes_on(how):
    run = ("--methods", "NN-Stein,NN-LEM,CDL", "--draws", "6", "--tune", "none", "--no-report")
    with started(*run, "-j", "2", "-o", "out") as process:
        deadline = time.monotonic() + 120
        while not Path("out", NAME).exists() or len(Path("out", NAME).read_bytes().splitlines()) < 3:
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        if how == "Ctrl-C":
            os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to the workers as well
        else:
            process.terminate()
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "interrupted: completed results are in out; run the same command again to resume" in err
    assert "Traceback" not in out + err
    assert "Warning" not in err
    kept = len(Path("out", NAME).read_text().splitlines()) - 1
    assert 2 <= kept < 18
    resumed = spdsl(*run, "-j", "1", "-o", "out")
    assert f"{kept} results are stored" in resumed.stdout
    assert resumed.exit_code == 0
    if how == "kill":  # once is enough: it takes as long as the rest
        spdsl(*run, "-j", "1", "-o", "whole")
        assert Path("out/table.csv").read_bytes() == Path("whole/table.csv").read_bytes()
    assert len(Path("out", NAME).read_text().splitlines()) == 19


def test_errors_in_words():
    class TerminatedWorkerError(Exception):
        pass

    out = Path("out")
    assert "because memory ran out; try again with fewer --jobs" in in_words(TerminatedWorkerError("code"), out)
    out.mkdir()
    (out / NAME).touch()
    assert "completed results are kept; try again with fewer --jobs" in in_words(TerminatedWorkerError("code"), out)

    class KilledWorker(Exception):
        pass

    assert in_words(KilledWorker("x"), out) == (
        "the Dask cluster was lost (x); completed results are kept; run again when it is back"
    )
    assert in_words(ValueError("a\nb   c")) == "a b c"
    assert in_words(ZeroDivisionError("float")) == "ZeroDivisionError: float (use --debug for the traceback)"
    assert in_words(PermissionError(13, "Permission denied", "x.npz")) == "x.npz: Permission denied"


def test_an_interruption_before_anything_is_kept_promises_nothing(capsys):
    with pytest.raises(typer.Exit) as caught, plain_errors(kept=Path("nothing")):
        raise KeyboardInterrupt
    assert caught.value.exit_code == 130
    assert capsys.readouterr().err.strip() == "interrupted"


PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "reproducing.md").read_text()


def test_the_commands_of_the_page_exist():
    lines = re.findall(r"^spdsl reproduce(.*)$", PAGE, flags=re.MULTILINE)
    assert len(lines) >= 7
    for line in lines:
        arguments = line.split("#")[0].split()
        result = spdsl(*arguments, "--help")
        assert result.exit_code == 0, (line, result.output)


def test_the_python_of_the_page_makes_a_file_that_runs():
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(compile(block, "reproduce.md", "exec"), {})
    assert [len(part) for part in load_experiment(data="mine.npz").splits] == [2, 2, 2]


def test_a_ridge_is_recorded_and_refused_where_it_would_do_nothing():
    assert refused("--quick", "--ridge", 0.1, *SOME).startswith(
        "error: a ridge is added to the matrices of a file alone"
    )
    spdsl("--data", "mine.npz", "--quick", "--ridge", 0.5, *SOME, "--no-report", "-o", "out")
    assert "with 0.5 of the trace added" in Path("out/results.json").read_text()
    assert "with 0.5 of the trace added" in Path("out/table.md").read_text()


def test_quick_takes_a_file_with_a_single_split():
    with np.load("mine.npz") as saved:
        X, y = saved["X"], saved["y"]
    train = np.arange(len(y)) % 2 == 0
    np.savez("single.npz", X=X, y=y, train=train, test=~train)
    assert spdsl("--data", "single.npz", "--quick", *SOME, "--no-report", "-o", "out").exit_code == 0
    error = refused("--data", "single.npz", "--draws", 2, *SOME, "--no-report", "-o", "out")
    assert "2 draws asked for, the file has 1; ask for at most as many" in error


def test_labels_of_another_number_are_said_to_be_that():
    with np.load("mine.npz") as saved:
        np.savez("short.npz", X=saved["X"], y=saved["y"][:-1])
    assert "'y' has shape" in refused("--data", "short.npz", "--quick", *SOME)
