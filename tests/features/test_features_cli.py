from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from acclaim import write_pair
from clips import write_frames, write_video
from typer.testing import CliRunner

from spdsl.backend.extras import install_hint
from spdsl.cli.app import app
from spdsl.datasets.exporting import export_stack
from spdsl.datasets.extraction import _run_pool
from spdsl.features import Recipe


def spdsl(*arguments: object) -> SimpleNamespace:
    """The command in this process: its exit code and what it says on either stream, on a wide terminal."""
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return SimpleNamespace(returncode=result.exit_code, stdout=result.stdout, stderr=result.stderr)


def loaded(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an archive, whose file is closed."""
    with np.load(path) as archive:
        return dict(archive)


def report(output: Path) -> dict[str, tuple[str, str]]:
    with open(f"{output}.report.csv", newline="") as file:
        return {row["file"]: (row["status"], row["note"]) for row in csv.DictReader(file)}


def motion_folder(root: Path, count: int) -> Path:
    rng = np.random.default_rng(0)
    for k in range(count):
        (root / f"class{k % 2}").mkdir(parents=True, exist_ok=True)
        np.save(root / f"class{k % 2}" / f"{k}.npy", rng.normal(size=(400, 31, 3)).cumsum(axis=0))
    return root


@pytest.mark.kills
def test_killed_half_way_and_started_again(tmp_path):
    root = motion_folder(tmp_path / "data", 400)
    whole, broken = tmp_path / "whole.npz", tmp_path / "broken.npz"
    assert spdsl("features", "motion", root, "-o", whole).returncode == 0
    process = subprocess.Popen([sys.executable, "-m", "spdsl.cli", "features", "motion", root, "-o", broken, "-j", "2"])
    parts = tmp_path / ".broken.npz.parts"
    deadline = time.monotonic() + 60
    while len(list(parts.rglob("*.npz"))) < 150:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not broken.exists()
    finished = {path.name: path.stat().st_mtime_ns for path in parts.rglob("[!.]*.npz")}
    assert 150 <= len(finished) < 400

    script = (
        "import sys; from spdsl.datasets.exporting import export_stack; from spdsl.features import Recipe\n"
        "fresh = []\n"
        "export_stack(sys.argv[1], sys.argv[2], Recipe('motion'),"
        " progress=lambda o, *_: fresh.append(o.part.name) if o.fresh else None)\n"
        "print('\\n'.join(fresh))"
    )
    again = subprocess.run([sys.executable, "-c", script, root, broken], capture_output=True, text=True, check=True)
    # two workers may each have finished one more file between the listing and their end
    assert not set(again.stdout.split()) & set(finished)
    assert len(again.stdout.split()) <= 400 - len(finished)
    assert broken.read_bytes() == whole.read_bytes()
    assert not parts.exists()


@pytest.mark.kills
def test_workers_do_not_outlive_a_killed_command(tmp_path):
    root = motion_folder(tmp_path / "data", 300)
    process = subprocess.Popen(
        [sys.executable, "-m", "spdsl.cli", "features", "motion", root, "-o", tmp_path / "a.npz", "-j", "2"]
    )
    deadline = time.monotonic() + 60
    while not list((tmp_path / ".a.npz.parts").rglob("*.npz")):
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        process.kill()
        pytest.skip("this system does not list the children of a process")
    workers = [int(pid) for pid in children.read_text().split()]
    process.kill()
    process.wait()
    deadline = time.monotonic() + 20
    while any(_alive(pid) for pid in workers):
        assert time.monotonic() < deadline, "a worker is still there"
        time.sleep(0.1)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_report_names_bad_files_and_the_rest_are_used(tmp_path):
    write_pair(tmp_path / "data" / "walk", name="HDM_xx_a")
    write_pair(tmp_path / "data" / "run", name="HDM_xx_b")
    (tmp_path / "data" / "run" / "HDM_xx_c.amc").write_text("1\nroot 1 2 3\n")
    output = tmp_path / "stack.npz"
    done = spdsl("features", "motion", tmp_path / "data", "-o", output, "--jobs", 2)
    assert done.returncode == 0, done.stderr
    assert "2 matrices from 2 files, 1 files skipped" in done.stdout
    assert "failed: " in done.stderr
    assert "3 of 3" in done.stderr
    saved = loaded(output)
    assert saved["X"].shape == (2, 12, 12)
    assert saved["y"].tolist() == ["run", "walk"]
    assert report(output)["run/HDM_xx_c.amc"][0] == "skipped"
    assert "'root' has 3 values" in report(output)["run/HDM_xx_c.amc"][1]
    strict = spdsl("features", "motion", tmp_path / "data", "-o", tmp_path / "strict.npz", "--strict")
    assert strict.returncode == 1
    assert "1 files failed and nothing was written" in strict.stderr
    assert not (tmp_path / "strict.npz").exists()


def test_file_names_are_inert_in_the_report(tmp_path):
    """Neither a terminal that shows it nor a spreadsheet that opens it obeys the name of a file."""
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data" / "=1+1.npy", np.random.default_rng(0).standard_normal((3, 50)))
    (tmp_path / "data" / "\x1b[31mred\x07.npy").write_bytes(b"nothing")
    output = tmp_path / "stack.npz"
    done = spdsl("features", "signals", tmp_path / "data", "-o", output, "--labels", "none")
    assert done.returncode == 0, done.stderr
    assert loaded(output)["files"].tolist() == ["=1+1.npy"]  # data keep their names
    assert "\x1b" not in Path(f"{output}.report.csv").read_text()
    assert {file: status for file, (status, _) in report(output).items()} == {
        "'=1+1.npy": "used",
        r"\x1b[31mred\x07.npy": "skipped",
    }


def test_faces_materials_and_signals(tmp_path):
    write_video(tmp_path / "v" / "anna" / "a.avi", [True] * 12)
    write_video(tmp_path / "v" / "bert" / "b.avi", [False] * 12)
    done = spdsl("features", "faces", tmp_path / "v", "-o", tmp_path / "faces.npz", "--size", 10)
    assert done.returncode == 0, done.stderr
    assert loaded(tmp_path / "faces.npz")["X"].shape == (1, 101, 101)
    assert "too few faces" in report(tmp_path / "faces.npz")["bert/b.avi"][1]
    assert "detected in 12" in report(tmp_path / "faces.npz")["anna/a.avi"][1]
    (tmp_path / "s" / "rest").mkdir(parents=True)
    np.save(tmp_path / "s" / "rest" / "x.npy", np.random.default_rng(0).normal(size=(3, 100)))
    done = spdsl("features", "signals", tmp_path / "s", "-o", tmp_path / "s.npz", "--window", 25)
    assert done.returncode == 0, done.stderr
    saved = loaded(tmp_path / "s.npz")
    assert saved["X"].shape == (4, 3, 3)
    assert saved["files"].tolist() == ["rest/x.npy"] * 4


def test_the_report_of_a_run_is_no_input_of_the_next(tmp_path):
    np.save(tmp_path / "a.npy", np.random.default_rng(0).normal(size=(3, 100)))
    for output in (tmp_path / "out.npz", tmp_path / "out.npz", tmp_path / "other.npz"):
        done = export_stack(tmp_path, output, Recipe("signals"), labels="none")
        assert (done.files, done.skipped) == (1, {})
        assert done.report.exists()


def test_wrong_use_is_explained(tmp_path):
    gone = spdsl("features", "motion", tmp_path / "gone", "-o", tmp_path / "a.npz")
    assert gone.returncode == 1
    assert "no such folder" in gone.stderr
    name = spdsl("features", "motion", tmp_path, "-o", tmp_path / "a.csv")
    assert "ends in .npz" in name.stderr
    write_pair(tmp_path / "flat")
    flat = spdsl("features", "motion", tmp_path / "flat", "-o", tmp_path / "a.npz")
    assert flat.returncode == 1
    assert "outside any class folder" in flat.stderr
    assert spdsl("features", "motion", tmp_path / "flat", "-o", tmp_path / "a.npz", "--labels", "none").returncode == 0


class _Deadly:
    """A recipe whose file named `deadly` takes the process down, as a crash in a C library would."""

    def __call__(self, path: Path) -> tuple[np.ndarray, str]:
        if path.name == "deadly":
            os._exit(3)
        return np.eye(2)[None], ""


@pytest.mark.kills
def test_a_file_that_crashes_its_worker_is_named_and_the_rest_go_on(tmp_path):
    names = [Path(name) for name in ("a", "b", "deadly", "c", "d")]
    tasks = [(tmp_path, name, tmp_path / f"{name}.npz", _Deadly()) for name in names]
    outcomes = {outcome.sample.name: outcome.error for outcome in _run_pool(tasks, 2)}  # type: ignore[arg-type]
    assert set(outcomes) == {"a", "b", "c", "d", "deadly"}
    assert "crashed the process" in outcomes.pop("deadly")
    assert not any(outcomes.values())


def test_a_script_without_guard_is_told_so_and_no_file_is_blamed(tmp_path):
    root = motion_folder(tmp_path / "data", 4)
    script = tmp_path / "script.py"
    load = f"load_mocap_folder({str(root)!r}, cache={str(tmp_path / 'cache')!r}, jobs=2)"
    script.write_text(f"from spdsl.datasets import load_mocap_folder\nprint(len({load}.X))\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("put the call under `if __name__ == '__main__':`, or use jobs=1")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    script.write_text(
        f"from spdsl.datasets import load_mocap_folder\nif __name__ == '__main__':\n    print(len({load}.X))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "4", done.stderr


BLOCK = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ImportError(name)
sys.meta_path.insert(0, Block())
"""


def without(names: tuple[str, ...], code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BLOCK.format(names=names) + code], capture_output=True, text=True)


def test_core_install_needs_no_optional_library(tmp_path):
    optional = ("cv2", "ezc3d", "h5py", "typer", "rich", "pyriemann", "torch", "matplotlib")
    assert without(optional, "import spdsl, spdsl.features, spdsl.datasets").returncode == 0
    np.save(tmp_path / "t.npy", np.random.default_rng(0).normal(size=(9, 4, 3)))
    code = f"from spdsl.features import motion_covariance as m; print(m({str(tmp_path / 't.npy')!r}).shape)"
    assert without(optional, code).stdout.strip() == "(12, 12)"
    (tmp_path / "a.png").write_bytes(b"x")
    image = without(optional, f"from spdsl.features import read_gray; read_gray({str(tmp_path / 'a.png')!r})")
    assert "pip install 'opencv-python-headless" in image.stderr
    command = without(optional, "from spdsl.cli import main; main()")
    assert command.returncode == 1
    assert command.stderr.strip() == f"The command line needs typer and rich: {install_hint('cli')}"


def test_recipe_key_depends_on_every_option():
    assert Recipe("motion").key() == Recipe("motion", {"ridge": 1e-3}).key()
    assert Recipe("motion").key() != Recipe("motion", {"ridge": 1e-2}).key()
    assert Recipe("materials").key() != Recipe("regions").key()
    with pytest.raises(ValueError, match="choose from faces, materials"):
        Recipe("music")


def test_sets_lags_bands_levels_and_quarters(tmp_path):
    for c in ("oak", "elm"):
        for k in range(2):
            write_frames(tmp_path / "sets" / c / f"s{k}", [True] * 5)
    done = spdsl("features", "sets", tmp_path / "sets", "-o", tmp_path / "sets.npz", "--size", 6, "--no-equalize")
    assert done.returncode == 0, done.stderr
    saved = loaded(tmp_path / "sets.npz")
    assert saved["X"].shape == (4, 37, 37)
    assert saved["files"].tolist() == ["elm/s0", "elm/s1", "oak/s0", "oak/s1"]
    (tmp_path / "s" / "rest").mkdir(parents=True)
    np.save(tmp_path / "s" / "rest" / "x.npy", np.random.default_rng(0).normal(size=(3, 200)))
    options = ("--lags", 2, "--embedding", "augmented", "--band", "8-12", "--band", "12-30", "--rate", 100)
    done = spdsl("features", "signals", tmp_path / "s", "-o", tmp_path / "s.npz", *options)
    assert done.returncode == 0, done.stderr
    assert loaded(tmp_path / "s.npz")["X"].shape == (1, 2, 10, 10)
    done = spdsl("features", "motion", motion_folder(tmp_path / "m", 2), "-o", tmp_path / "m.npz", "--levels", 2)
    assert done.returncode == 0, done.stderr
    assert loaded(tmp_path / "m.npz")["X"].shape == (2, 4, 93, 93)


def test_wrong_options_are_explained(tmp_path):
    (tmp_path / "photo.png").write_bytes(b"x")
    for arguments, message in (
        (("materials", tmp_path / "photo.png"), "photo.png: a file, not a folder"),
        (("signals", tmp_path, "--band", "8-12"), "--band needs --rate"),
        (("signals", tmp_path, "--band", "alpha", "--rate", 9), "is not of the form LOW-HIGH"),
        (("materials", tmp_path, "--descriptor", "region", "--quarters"), "--quarters needs --descriptor sift"),
    ):
        done = spdsl("features", *arguments, "-o", tmp_path / "a.npz")
        assert done.returncode != 0
        assert message in done.stderr
