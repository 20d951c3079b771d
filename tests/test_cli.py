"""The commands on one's own matrices: what they write, what they say where, and how they end."""

import csv
import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import spdsl
from samples import labeled
from spdsl import SPDSL
from spdsl.cli.app import app
from spdsl.evaluation.methods import METHODS
from spdsl.geometry import METRICS

X, Y = labeled(48, 6)
NAMES = np.array(["walk", "run", "jump, high"])[Y]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with stacks to learn from and to label, in which commands run."""
    monkeypatch.chdir(tmp_path)
    np.savez("train.npz", X=X[:30], y=NAMES[:30])
    np.savez("test.npz", X=X[30:], y=NAMES[30:])
    np.savez("bare.npz", X=X[30:])
    return tmp_path


def run(*arguments, code=0):
    """What a command says on its two streams; it must end with `code`."""
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def table(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_fit_and_predict_are_the_estimator(folder):
    said = run("fit", "train.npz", "-o", "m.safetensors", "--components", 3).stdout
    assert "m.safetensors: SPDSL fitted to 30 matrices 6 x 6 of 3 classes" in said
    said = run("predict", "m.safetensors", "test.npz", "-o", "labels.csv")
    model = SPDSL(n_components=3).fit(X[:30], NAMES[:30])
    rows = table("labels.csv")
    assert [row["label"] for row in rows] == model.predict(X[30:]).tolist()
    assert [row["index"] for row in rows] == [str(k) for k in range(18)]
    hits = int(np.sum(model.predict(X[30:]) == NAMES[30:]))
    assert said.stdout == f"labels.csv: 18 labels, accuracy {100 * hits / 18:.1f} % ({hits} of 18)\n"
    assert said.stderr == ""


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore")
def test_every_method_goes_through_the_commands(method, folder):
    run("fit", "train.npz", "--method", method)
    said = run("predict", "model.safetensors", "bare.npz", "-o", "labels.csv").stdout
    assert said == "labels.csv: 18 labels\n"
    model = spdsl.load("model.safetensors")
    assert [row["label"] for row in table("labels.csv")] == model.predict(X[30:]).tolist()
    if hasattr(model, "transform"):
        run("transform", "model.safetensors", "test.npz")
        with np.load("reduced.npz") as file:
            saved = dict(file)
        np.testing.assert_array_equal(saved["X" if "X" in saved else "vectors"], model.transform(X[30:]))
        np.testing.assert_array_equal(saved["y"], NAMES[30:])
    else:
        said = run("transform", "model.safetensors", "test.npz", code=1).stderr
        assert "does not support transform; these methods do: CDL, LEML" in said


def test_labels_go_to_standard_output_and_nothing_else_does(folder):
    run("fit", "train.npz")
    said = run("predict", "model.safetensors", "test.npz")
    assert [line.split(",")[0] for line in said.stdout.splitlines()] == ["index", *map(str, range(18))]
    assert "accuracy" in said.stderr


def test_probabilities_where_the_model_has_them(folder):
    run("fit", "train.npz", "--classifier", "lda")
    run("predict", "model.safetensors", "bare.npz", "--proba", "-o", "p.csv")
    expected = spdsl.load("model.safetensors").predict_proba(X[30:])
    found = [[float(row[f"p({name})"]) for name in ("jump, high", "run", "walk")] for row in table("p.csv")]
    np.testing.assert_array_equal(found, expected)
    run("fit", "train.npz", "--method", "CDL")
    said = run("predict", "model.safetensors", "bare.npz", "--proba", code=1).stderr
    assert "does not provide probabilities; use SPDSL with any --classifier" in said


def test_samples_of_several_matrices_go_through_the_commands(folder):
    blocks = np.stack([X, X @ X], axis=1)
    np.savez("train.npz", X=blocks[:30], y=NAMES[:30])
    np.savez("bare.npz", X=blocks[30:])
    assert "fitted to 30 samples of 2 matrices" in run("fit", "train.npz", "--components", 3).stdout
    run("predict", "model.safetensors", "bare.npz", "-o", "labels.csv")
    model = spdsl.load("model.safetensors")
    assert [row["label"] for row in table("labels.csv")] == model.predict(blocks[30:]).tolist()
    assert "samples of 2 matrices 3 x 3, as X" in run("transform", "model.safetensors", "bare.npz").stdout
    assert (
        "NN-LEM" in run("compare", "train.npz", "--methods", "NN-LEM", "--splits", 2, "--jobs", 1, "--no-tune").stdout
    )
    blocks[3, 1, 0, 0] = np.inf
    np.savez("bad.npz", X=blocks, y=NAMES)
    assert "matrix 3 of block 1 holds NaN or infinity" in run("fit", "bad.npz", code=1).stderr


def test_parameters_reach_the_estimator(folder):
    run(
        "fit",
        "train.npz",
        "-p",
        "max_iter=3",
        "-p",
        "n_between=all",
        "-p",
        "solver.init=identity",
        "-p",
        "solver.patience=5",
        "-p",
        "objective=pairs",
        "-p",
        "beta=0.5",
        "-p",
        "tol=1e-2",
    )
    model = spdsl.load("model.safetensors")
    assert (model.max_iter, model.n_between, model.beta, model.tol) == (3, "all", 0.5, 0.01)
    assert model.solver == {"init": "identity", "patience": 5}
    assert model.objective == "pairs"
    assert not model.verbose
    run("fit", "train.npz", "--method", "RSR", "-p", "normalize=false", "-p", "beta=None")
    assert spdsl.load("model.safetensors").normalize is False


def test_fit_without_options_is_the_estimator_without_parameters(folder):
    run("fit", "train.npz")
    model, plain = spdsl.load("model.safetensors"), SPDSL()
    assert {name: repr(value) for name, value in model.get_params().items()} == {
        name: repr(value) for name, value in plain.get_params().items()
    }
    plain.fit(X[:30], NAMES[:30])
    np.testing.assert_array_equal(model.components_, plain.components_)
    run("fit", "train.npz", "--method", "SPDSL-LEM", "-p", "solver.rule=dai-yuan")
    assert spdsl.load("model.safetensors").get_params()["max_iter"] == 50


def test_options_of_the_solver_are_named_where_they_belong(folder):
    said = run("fit", "train.npz", "-p", "init=identity", code=2).stderr
    assert "init is an option of the solver" in said
    assert "solver.init=VALUE" in said
    assert "solver: unknown option 'start'" in run("fit", "train.npz", "-p", "solver.start=identity", code=1).stderr
    assert "has no parameter 'beta.x'" not in run("fit", "train.npz", "-p", "gamma.x=1", code=2).stderr


def test_tuning_chooses_from_what_is_not_given(folder):
    said = run("fit", "train.npz", "--method", "LEK-gauss", "--tune", "--folds", 3, "-p", "penalty=0.05").stderr
    model = spdsl.load("model.safetensors")
    assert model.penalty == 0.05
    assert f"tuned: beta_scale={model.beta_scale} (accuracy" in said
    assert "in 3 folds" in said
    assert "nothing" in run("fit", "train.npz", "--method", "NN-LEM", "--tune").stderr


def test_the_ridge_of_the_fit_is_used_again(folder):
    flat = X.copy()
    flat[:, 0, :] = flat[:, :, 0] = 0.0
    np.savez("flat.npz", X=flat, y=NAMES)
    said = run("fit", "flat.npz", code=1).stderr
    assert "flat.npz: X[0] is not positive definite" in said
    assert "--ridge 1e-3" in said
    run("fit", "flat.npz", "--ridge", 0.01)
    run("predict", "model.safetensors", "flat.npz", "-o", "labels.csv")
    model = spdsl.load("model.safetensors")
    learned = SPDSL().fit(spdsl.regularize(flat, 0.01), NAMES)
    expected = learned.predict(spdsl.regularize(flat, 0.01)).tolist()
    assert [row["label"] for row in table("labels.csv")] == expected
    assert model.predict(flat).tolist() == expected  # in Python too: the ridge is a part of the model
    with pytest.warns(UserWarning, match="X seems to have a ridge already"):
        model.predict(spdsl.regularize(flat, 0.01))
    run("predict", "model.safetensors", "flat.npz", "--ridge", 0.01)
    said = run("predict", "model.safetensors", "flat.npz", "--ridge", 0.02, code=1).stderr
    assert said.startswith("error: model.safetensors was fitted with --ridge 0.01, not 0.02; leave --ridge out")
    spdsl.save(learned, "old.safetensors", notes={"ridge": 0.01})  # as older versions wrote it
    run("predict", "old.safetensors", "flat.npz", "-o", "labels.csv")
    assert [row["label"] for row in table("labels.csv")] == expected


def test_a_stack_whose_arrays_are_named_is_read(folder):
    np.savez("two.npz", A=X, B=X[:5], truth=NAMES)
    said = run("fit", "two.npz", code=1).stderr
    assert "several stacks: name one with --x, e.g. --x A; the file holds" in said
    assert "no array named 'Z'" in run("fit", "two.npz", "--x", "Z", code=1).stderr
    run("fit", "two.npz", "--x", "A", "--y", "truth")


def test_labels_that_the_model_does_not_know_are_warned_of(folder):
    run("fit", "train.npz")
    np.savez("other.npz", X=X[30:], y=Y[30:])
    said = run("predict", "model.safetensors", "other.npz", "-o", "labels.csv")
    assert "warning: none of the labels in other.npz is a class of the model" in said.stderr
    assert "accuracy 0.0 %" in said.stdout
    np.savez("other.npz", X=X[30:], y=np.where(NAMES[30:] == NAMES[0], "unheard of", NAMES[30:]))
    said = run("predict", "model.safetensors", "other.npz", "-o", "labels.csv")
    odd = (NAMES[30:] == NAMES[0]).sum()
    assert f"warning: {odd} samples have labels that the model does not know, counted as wrong" in said.stderr


# ------------------------------------------------------------------------------------------------ compare and lists


def test_compare_is_the_function(folder):
    said = run("compare", "train.npz", "--methods", "NN-LEM, CDL", "--splits", 2, "--no-tune", "-j", 1, "-o", "t.csv")
    expected = spdsl.compare(X[:30], NAMES[:30], ["NN-LEM", "CDL"], splits=2, tune=False, verbose=False)
    rows = table("t.csv")
    assert [(row["method"], float(row["accuracy"])) for row in rows] == [(r.method, r.accuracy) for r in expected.rows]
    for row in expected.rows:
        assert any(
            line.startswith(row.method) and f"{100 * row.accuracy:.1f}" in line for line in said.stdout.splitlines()
        )
    run("compare", "train.npz", "--methods", "NN-LEM", "--splits", 1, "--no-tune", "-j", 1, "-o", "t.md")
    head, rule, line = (folder / "t.md").read_text().splitlines()
    assert head.startswith("| method | accuracy |")
    assert rule == "|" + "---|" * 6
    assert line.startswith("| NN-LEM | ")


def test_compare_tunes_and_says_what_failed(folder):
    options = ("--splits", 1, "--folds", 2, "-j", 1)
    assert "extra_components=" in run("compare", "train.npz", "--methods", "CDL", *options).stdout
    said = run(
        "compare", "train.npz", "--methods", "NN-LEM,SPDSL-LEM", "--components", 9, "--no-tune", *options, code=1
    )
    assert "n_components=9" in said.stdout
    assert "error: 1 of 2 fits failed; see the table for the reasons" in said.stderr
    assert "NN-LEM" in said.stdout


def test_methods_and_metrics_list_the_registries():
    lines = run("methods").stdout.splitlines()
    assert [line.split("\t")[0] for line in lines[1:]] == list(METHODS)
    assert {len(line.split("\t")) for line in lines} == {5}
    assert any("degree: 1 to 50; penalty: 0.1, 0.01, 0.001, 0.0001" in line for line in lines)
    lines = run("metrics").stdout.splitlines()
    assert [line.split("\t")[0] for line in lines[1:]] == list(METRICS)
    assert "aim\triemann, affine-invariant\tsum log^2 eig(P^-1 Q)\tlinear, scale" in lines


@pytest.mark.parametrize("command", ["methods", "metrics"])
def test_lists_fit_into_a_terminal(command, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(command).stdout.splitlines()
    assert max(map(len, (plain(line) for line in lines))) <= 80
    text = "".join(lines)
    assert "…" not in text
    assert all(name in text for name in (METHODS if command == "methods" else METRICS))


def plain(line):
    """Without colors."""
    return "".join(part.partition("m")[2] if k else part for k, part in enumerate(line.split("\x1b[")))


@pytest.mark.parametrize("command", ["fit", "predict", "transform", "compare", "methods", "metrics"])
def test_help_fits_into_a_terminal(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(command, "--help").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(command in line for line in run("--help").stdout.splitlines())


def test_version_is_said():
    assert run("--version").stdout == f"spdsl {spdsl.__version__}\n"


def test_version_takes_no_imports():
    code = "import sys; from spdsl.cli import main; sys.argv = ['spdsl', '--version']; main(); print(*sys.modules)"
    version, loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split("\n", 1)
    assert version == f"spdsl {spdsl.__version__}"
    assert not {"numpy", "typer", "sklearn"} & set(loaded.split())
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "spdsl.cli", "--version"], capture_output=True, check=True)
    assert time.perf_counter() - began < 2  # 0.05 s on a machine that is idle


# ------------------------------------------------------------------------------------------------ plugins

SOURCES = Path(spdsl.__file__).parents[1]
PLUGINS = Path(__file__).parent / "plugins"


@pytest.fixture
def plugin(folder, monkeypatch):
    """A module of the user in the current folder; what it registers is forgotten afterwards."""
    shutil.copy(PLUGINS / "own_parts.py", folder / "own_parts.py")
    kept = [(registry, dict(registry)) for registry in (METRICS, spdsl.OBJECTIVES, METHODS)]
    yield "own_parts"
    sys.modules.pop("own_parts", None)
    for registry, before in kept:
        registry.clear()
        registry.update(before)


def test_a_plugin_is_known_to_every_command(plugin):
    own = ("--plugin", plugin)
    run("fit", "train.npz", *own, "-p", "metric=own-inverse", "-p", "objective=own-contrast", "-p", "max_iter=3")
    run("predict", "model.safetensors", "test.npz", *own, "-o", "labels.csv")
    run("transform", "model.safetensors", "test.npz", *own)
    assert "own-majority" in run("compare", "train.npz", *own, "--methods", "own-majority", "--no-tune", "-j", 1).stdout
    assert "own-majority\t" in run("methods", *own).stdout
    assert "own-inverse\t" in run("metrics", *own).stdout
    out = (
        "reproduce",
        "--data",
        "train.npz",
        *own,
        "--methods",
        "own-majority,NN-LEM",
        "--quick",
        "--no-report",
        "-j",
        1,
    )
    assert "own-majority" in run(*out, "-o", "out").stdout
    model = spdsl.load("model.safetensors")
    assert [row["label"] for row in table("labels.csv")] == model.predict(X[30:]).tolist()


def test_worker_processes_import_the_plugin(plugin, folder):
    code = "import spdsl, own_parts\nfrom functools import partial\n"
    code += "near = partial(spdsl.SPDNearestNeighbor, 'own-inverse')\n"
    (folder / "own_row.py").write_text(code + "spdsl.register_method(spdsl.Method('own-row', 'alternative', near))\n")
    arguments = [
        "compare",
        "train.npz",
        "--plugin",
        "own_row",
        "--methods",
        "own-row,NN-LEM",
        "--splits",
        "2",
        "-j",
        "2",
    ]
    with command(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "failed" not in out
    assert "own-row" in out


def test_plugins_named_in_the_environment_are_found_in_the_current_folder(plugin, monkeypatch):
    monkeypatch.setenv("SPDSL_PLUGINS", plugin)
    assert "own-majority\t" in run("methods").stdout
    run("fit", "train.npz", "-p", "metric=own-inverse", "-p", "max_iter=2")
    assert os.environ["SPDSL_PLUGINS"] == plugin


def test_without_its_plugin_a_model_asks_for_it(plugin):
    run("fit", "train.npz", "--plugin", plugin, "-p", "metric=own-inverse", "-p", "max_iter=2")
    with command("predict", "model.safetensors", "test.npz", stderr=subprocess.PIPE) as process:
        _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "uses the metric 'own-inverse', which is not registered; use --plugin with the module that registers" in err


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "No module named 'broken'); check the name of the module"),
        ("import no_such_library", "No module named 'no_such_library'); correct the module"),
        ("def", "SyntaxError"),
        ("import spdsl; spdsl.register_metric('lem')", "TypeError: a metric must be an instance"),
    ],
)
def test_a_plugin_that_cannot_be_imported_is_an_error(content, complaint, folder):
    if content is not None:
        (folder / "broken.py").write_text(content)
    importlib.invalidate_caches()
    said = run("methods", "--plugin", "broken", code=2).stderr
    said = " ".join(said.replace("│", " ").split())  # it comes in a box
    assert "plugin 'broken' cannot be imported" in said
    assert complaint in said
    assert str(folder) not in sys.path
    sys.modules.pop("broken", None)


# ------------------------------------------------------------------------------------------------ what goes wrong


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "train.npz", "-o", "train.npz"],
        ["fit", "train.npz", "-o", "link.npz"],
        ["fit", "train.npz", "-o", "hard.npz"],
        ["fit", "link.npz", "-o", "train.npz"],
        ["predict", "m.safetensors", "test.npz", "-o", "test.npz"],
        ["predict", "m.safetensors", "test.npz", "-o", "m.safetensors"],
        ["transform", "m.safetensors", "train.npz", "-o", "train.npz"],
        ["transform", "m.safetensors", "train.npz", "-o", "link.npz"],
        ["compare", "train.npz", "--methods", "NN-LEM", "-o", "link.csv"],
        ["reproduce", "--data", "folder", "-o", "folder"],
        ["report", "folder", "-o", "folder/results.json"],
        ["features", "signals", "media", "-o", "link.npz", "--labels", "none"],
    ],
    ids=" ".join,
)
def test_an_output_that_is_an_input_is_refused(arguments, folder):
    run("fit", "train.npz", "-o", "m.safetensors", "--method", "NN-LEM")
    (folder / "folder").mkdir()
    (folder / "folder" / "results.json").write_text("{}")
    (folder / "media").mkdir()
    np.save("media/clip.npy", np.random.default_rng(0).standard_normal((3, 50)))
    target = "media/clip.npy" if arguments[0] == "features" else "train.npz"
    for name in ("link.npz", "link.csv"):
        (folder / name).symlink_to(folder / target)
    os.link("train.npz", "hard.npz")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert "is an input; choose another output" in run(*arguments, code=1).stderr
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_names_that_are_no_names_do_no_harm(folder):
    odd = np.array(["=cmd|' /C calc'!A0", "\x1b[31mred", "-1"])[Y]
    np.savez("odd\x1b[2J.npz", X=X, y=odd)
    said = run("fit", "odd\x1b[2J.npz", "-o", "m\x1b[2J.safetensors", "--classifier", "lda")
    assert "m\\x1b[2J.safetensors: SPDSL fitted" in said.stdout
    said = run("predict", "m\x1b[2J.safetensors", "odd\x1b[2J.npz", "--proba")
    assert "\x1b" not in said.output
    rows = list(csv.DictReader(said.stdout.splitlines()))
    assert {row["label"] for row in rows} == {"'=cmd|' /C calc'!A0", "\\x1b[31mred", "-1"}
    assert "p(\\x1b[31mred)" in rows[0]
    said = run("transform", "m\x1b[2J.safetensors", "odd\x1b[2J.npz", "-o", "r\x1b[2J.npz")
    assert "\x1b" not in said.output
    np.savez("bad\x1b[2J.npz", X=-X, y=odd)
    assert "\x1b" not in run("fit", "bad\x1b[2J.npz", code=1).output


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit"],
        ["fit", "train.npz", "--method", "none"],
        ["fit", "train.npz", "--param", "beta"],
        ["fit", "train.npz", "--param", "gamma=1"],
        ["fit", "train.npz", "--param", "callback=print"],
        ["fit", "train.npz", "--method", "CDL", "--components", "3"],
        ["fit", "train.npz", "--classifier", "tree"],
        ["fit", "train.npz", "--ridge", "-1"],
        ["transform", "m", "train.npz", "-o", "reduced.csv"],
        ["compare", "train.npz", "--methods", "none"],
        ["compare", "train.npz", "--splits", "0"],
        ["compare", "train.npz", "-o", "table.txt"],
        ["predict", "m"],
        ["learn"],
    ],
    ids=" ".join,
)
def test_wrong_use_ends_with_2_and_writes_nothing(arguments, folder):
    before = sorted(folder.iterdir())
    assert run(*arguments, code=2).stdout == ""
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["fit", "bare.npz"],
            "bare.npz: no labels found for the 18 matrices; add an array y of that length, or",
        ),
        (["fit", "none.npz"], "none.npz: no such file"),
        (["fit", "text.npz"], "text.npz: not a readable NumPy file"),
        (["fit", "train.npz", "-p", "max_iter=-1"], "max_iter=-1 is out of range"),
        (["fit", "train.npz", "-o", "train.npz/m"], "train.npz is not a folder"),
        (["fit", "train.npz", "-o", "."], "is a folder"),
        (["fit", "train.npz", "-o", "pipe"], "exists but is not a regular file"),
        (["predict", "none.safetensors", "test.npz"], "none.safetensors: no such file"),
        (["predict", "train.npz", "test.npz"], "not a model file of spdsl"),
        (["predict", "cut.safetensors", "test.npz"], "cut.safetensors: "),
        (["predict", "m.safetensors", "small.npz"], "fitted on 6 x 6"),
        (["transform", "m.safetensors", "test.npz", "-o", "pipe.npz/x.npz"], "is not a folder"),
    ],
    ids=lambda item: " ".join(item) if isinstance(item, list) else "",
)
def test_an_error_is_one_line_and_ends_with_1(arguments, complaint, folder):
    run("fit", "train.npz", "-o", "m.safetensors", "--method", "NN-LEM")
    (folder / "cut.safetensors").write_bytes((folder / "m.safetensors").read_bytes()[:-3])
    (folder / "text.npz").write_text("no archive")
    np.savez("small.npz", X=X[:, :4, :4])
    os.mkfifo("pipe")
    os.mkfifo("pipe.npz")
    before = sorted(folder.iterdir())
    said = run(*arguments, code=1)
    assert said.stdout == ""
    (line,) = said.stderr.splitlines()
    assert line.startswith("error: ")
    assert complaint in line
    assert sorted(folder.iterdir()) == before


def test_debug_shows_where(folder):
    result = CliRunner().invoke(app, ["fit", "bare.npz", "--debug"])
    assert isinstance(result.exception, ValueError)


def test_an_old_file_survives_a_fit_that_fails_and_a_full_disk(folder, monkeypatch):
    run("fit", "train.npz", "-o", "m.safetensors")
    before = (folder / "m.safetensors").read_bytes()
    run("fit", "train.npz", "-o", "m.safetensors", "-p", "tol=-1", code=1)

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    said = run("fit", "train.npz", "-o", "m.safetensors", code=1).stderr
    assert said.endswith("m.safetensors: No space left on device\n")
    assert (folder / "m.safetensors").read_bytes() == before
    assert not list(folder.glob(".*"))


def command(*arguments, **options):
    return subprocess.Popen([sys.executable, "-m", "spdsl.cli", *arguments], text=True, **options)


def test_ctrl_c_during_the_imports_ends_the_same_way(tmp_path):
    # a library that swallows the exception in the midst of its import
    code = "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept BaseException:\n    pass\n"
    (tmp_path / "typer.py").write_text(code)
    command = [sys.executable, "-m", "spdsl.cli", "methods"]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{SOURCES}"}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\ninterrupted\n")


@pytest.mark.parametrize("request_to_end", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_with_130_and_writes_nothing(folder, request_to_end):
    X, y = labeled(300, 40)
    np.savez("large.npz", X=X, y=y)
    # it would take hours, unless it is told to end
    slow = "import spdsl.cli.learning as c, sys; r = c.read_samples\n" + (
        "def read(*a, **k):\n    print('reading', file=sys.stderr, flush=True)\n    return r(*a, **k)\n"
        "c.read_samples = read\nfrom spdsl.cli import main; main()"
    )
    arguments = ["fit", "large.npz", "-p", "max_iter=1000000", "-p", "tol=0", "-p", "metric=aim"]
    process = subprocess.Popen([sys.executable, "-c", slow, *arguments], text=True, stderr=subprocess.PIPE)
    assert process.stderr.readline() == "reading\n"
    time.sleep(0.5)
    process.send_signal(request_to_end)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.strip() == "interrupted"
    assert not (folder / "model.safetensors").exists()


def test_a_pipe_that_closes_early_is_no_error(folder):
    with command("methods", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
