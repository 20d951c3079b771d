"""The commands from media files to labels: one model file with recipe, ridge, reduction and classifier."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import cv2
import numpy as np
import pytest

import spdsl
from spdsl import SPDSL, MaterialCovariance, Regularize
from spdsl.models import container
from test_cli import run

SIZE = 32
QUICK = ("--components", 5, "-p", "max_iter=5")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Images of two textures to learn from and to label, one of them without a class, in which commands run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPDSL_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    for k in range(16):
        image = cv2.GaussianBlur(rng.integers(0, 256, (SIZE, SIZE)).astype(np.uint8), (0, 0), 0.6 + k % 2)
        path = tmp_path / ("train" if k < 10 else "test") / ("rough", "smooth")[k % 2] / f"{k}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), image)
    cv2.imwrite(str(tmp_path / "test" / "lost.png"), image)
    return tmp_path


@pytest.fixture
def model(folder):
    run("fit", "train", "--recipe", "materials", "-r", f"size={SIZE}", "-r", "ridge=0", "--ridge", 1e-3, *QUICK)
    return folder / "model.safetensors"


def csv_rows(text):
    return list(csv.DictReader(text.splitlines()))


def test_one_file_leads_from_an_image_to_its_label(model):
    files = sorted(Path("test").rglob("*.png"))
    loaded = spdsl.load(model)
    assert [type(step).__name__ for step in loaded] == ["MaterialCovariance", "Regularize", "SPDSL"]
    train = sorted(Path("train").rglob("*.png"), key=lambda path: (path.parent.name, int(path.stem)))
    X = Regularize(1e-3).fit_transform(MaterialCovariance(SIZE, ridge=0).fit_transform(train))
    by_hand = SPDSL(5, max_iter=5).fit(X, [path.parent.name for path in train])
    new = Regularize(1e-3).fit_transform(MaterialCovariance(SIZE, ridge=0).fit_transform(files))
    np.testing.assert_array_equal(loaded.predict_proba(files), by_hand.predict_proba(new))

    said = run("predict", model, "test", "--proba", "--top", 1, "-o", "labels.csv")
    assert said.stdout == "labels.csv: 7 labels\n"
    rows = {row["file"]: row for row in csv_rows(Path("labels.csv").read_text())}
    for file, label, shares in zip(files, loaded.predict(files), loaded.predict_proba(files), strict=True):
        row = rows[file.relative_to("test").as_posix()]
        assert row["label"] == row["top 1"] == label
        assert [float(row[f"p({name})"]) for name in ("rough", "smooth")] == shares.tolist()
        assert float(row["p 1"]) == shares.max()
    one = run("predict", model, "test/lost.png", "--format", "jsonl", "--proba")
    found = json.loads(one.stdout)
    assert found["file"] == "test/lost.png"
    assert found["label"] == loaded.predict(["test/lost.png"])[0]
    assert dict(found["probabilities"]).keys() == {"rough", "smooth"}
    assert one.stderr == "standard output: 1 label\n"


def test_a_damaged_file_is_named_and_the_others_are_labeled(model):
    Path("test/rough/bad.png").write_text("no image")
    said = run("predict", model, "test")
    assert len(csv_rows(said.stdout)) == 7
    assert "1 of 8 files skipped, e.g. test/rough/bad.png: cannot be decoded as an image" in said.stderr


def test_an_evaluation_counts_what_has_a_label(model):
    said = run("evaluate", model, "test", "-o", "found.json")
    found = json.loads(Path("found.json").read_text())
    assert json.loads(run("evaluate", model, "test", "--json").stdout) == found
    files = sorted(Path("test").rglob("*/*.png"))
    loaded = spdsl.load(model)
    hits = int(np.sum(loaded.predict(files) == [file.parent.name for file in files]))
    assert (found["samples"], found["correct"], found["unlabeled"]) == (6, hits, 1)
    assert f"accuracy {100 * hits / 6:.1f} % ({hits} of 6; 1 unlabeled, not counted)" in said.stdout
    assert [row["class"] for row in found["classes"]] == found["labels"] == ["rough", "smooth"]
    assert np.sum(found["confusion"]) == 6
    Path("test/rough").rename("test/third")
    said = run("evaluate", model, "test")
    assert "3 samples have labels that the model does not know (third), counted as wrong" in said.stderr
    Path("test/smooth").rename("test/fourth")
    said = run("evaluate", model, "test", code=1).stderr
    assert "none of its labels (fourth, third) is a class of the model (rough, smooth)" in said
    assert "test: no labels found" in run("evaluate", model, "test", "--labels", "none", code=1).stderr


def test_samples_without_a_label_are_not_errors(folder):
    run("features", "materials", "train", "-o", "train.npz", "--labels", "none")
    assert "no labels found for the 10 matrices" in run("fit", "train.npz", code=1).stderr
    with np.load("train.npz") as file:
        content = dict(file)
    content["y"] = np.array([*["a", "b"] * 4, "", ""])
    np.savez("some.npz", **content)
    said = run("fit", "some.npz", "--method", "NN-LEM")
    assert "2 of 10 samples have no label and are left out" in said.stderr
    assert "8 matrices" in said.stdout
    said = run("predict", "model.safetensors", "some.npz", "-o", "labels.csv").stdout
    assert said.endswith("of 8; 2 unlabeled, not counted)\n")
    assert run("predict", "model.safetensors", "train.npz", "-o", "labels.csv").stdout == "labels.csv: 10 labels\n"
    content["y"] = np.arange(10) % 2
    np.savez("numbers.npz", **content)
    run("fit", "numbers.npz", "--method", "NN-LEM")
    content["y"] = np.where(np.arange(10) < 7, content["y"], -1)
    np.savez("minus.npz", **content)
    found = json.loads(run("evaluate", "model.safetensors", "minus.npz", "--json").stdout)
    assert (found["samples"], found["unlabeled"]) == (7, 3)


def test_a_stack_of_another_recipe_is_an_error_that_names_both(model):
    for size, ridge in ((SIZE, 0), (48, 0), (SIZE, 1e-3)):
        run("features", "materials", "test", "-o", f"{size}-{ridge}.npz", "--size", size, "--ridge", ridge)
    run("predict", model, f"{SIZE}-0.npz")
    said = run("predict", model, "48-0.npz", code=1).stderr
    assert (
        f"48-0.npz was made with the recipe `materials size=48 ridge=0.0`, but {model} was fitted with `materials "
        f"size={SIZE} ridge=0` (the file has materials with size=48, not size={SIZE}); make it with the recipe of the model"
    ) in said
    said = run("evaluate", model, f"{SIZE}-0.001.npz", code=1).stderr
    assert "the file has materials with ridge=0.001, not ridge=0" in said
    run(
        "fit", f"{SIZE}-0.001.npz", "-o", "stack.safetensors", "--method", "NN-LEM"
    )  # a model of a stack knows the recipe of the stack
    rows = csv_rows(run("predict", "stack.safetensors", "test/lost.png").stdout)
    S = MaterialCovariance(SIZE).fit_transform(["test/lost.png"])
    assert rows[0]["label"] == spdsl.load("stack.safetensors").predict(S)[0]
    assert "but stack.safetensors was fitted" in run("predict", "stack.safetensors", "48-0.npz", code=1).stderr
    rows = csv_rows(run("predict", "stack.safetensors", f"{SIZE}-0.001.npz").stdout)
    assert {row["file"] for row in rows} == {
        path.relative_to("test").as_posix() for path in Path("test").glob("*/*.png")
    }


def test_windows_of_a_signal_are_labeled_one_by_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPDSL_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    for k in range(6):
        Path(f"eeg/{'ab'[k % 2]}").mkdir(parents=True, exist_ok=True)
        np.save(f"eeg/{'ab'[k % 2]}/{k}.npy", rng.standard_normal((4, 60)) * (1 + np.arange(4) * (k % 2))[:, None])
    run("fit", "eeg", "--recipe", "signals", "-r", "window=30", "--components", 2)
    assert type(spdsl.load("model.safetensors")) is SPDSL  # no transformer makes two samples of one
    rows = csv_rows(run("predict", "model.safetensors", "eeg/b/1.npy").stdout)
    assert [(row["file"], row["part"], row["label"]) for row in rows] == [("eeg/b/1.npy", str(k), "b") for k in (0, 1)]
    run("fit", "eeg", "--recipe", "signals", "-r", "lags=[1, 3]", "--components", 2)
    assert run("evaluate", "model.safetensors", "eeg").stdout.startswith("accuracy 100.0 % (6 of 6)")
    np.save("flat.npy", np.ones((4, 60)))
    assert "flat.npy: window 0 is constant" in run("predict", "model.safetensors", "flat.npy", code=1).stderr


def test_a_model_says_what_it_is(model, folder):
    found = json.loads(run("info", model, "--json").stdout)
    assert found["recipe"] == {"kind": "materials", "size": SIZE, "step": 4, "patch": 16, "ridge": 0} | {
        "shrinkage": None,
        "quarters": False,
    }
    assert found["ridge"] == 1e-3
    assert (found["metric"], found["m"], found["classes"]) == ("lem", 5, ["rough", "smooth"])
    assert found["training"]["samples"] == {"rough": 5, "smooth": 5}
    assert found["versions"]["spdsl"] == spdsl.__version__
    assert 0 <= found["accuracy"]["value"] <= 1
    said = run("info", model).stdout
    assert "expects     files .png .jpg" in said
    assert "SPD matrices 128 x 128 of the same recipe" in said
    MaterialCovariance().fit().save("recipe.safetensors")
    assert "MaterialCovariance" in run("info", "recipe.safetensors").stdout
    assert "does not support predict" in run("predict", "recipe.safetensors", "test", code=1).stderr
    assert "this MaterialCovariance does not" in run("predict", "recipe.safetensors", "test", code=1).stderr


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["fit", "train"], 2, "train is a folder"),
        (["fit", "absent", "--recipe", "materials"], 1, "absent: no such file"),
        (["fit", "empty", "--recipe", "materials"], 1, "empty: 0 files of the kinds .png"),
        (["fit", "text.txt", "--recipe", "materials"], 2, "text.txt is a file; --recipe is for folders"),
        (["fit", "train", "--recipe", "paintings"], 2, "is not one of faces, materials"),
        (["fit", "train", "--recipe", "materials", "-r", "side=3"], 2, "materials has no option"),
        (["fit", "train", "-r", "size=3"], 2, "needs --recipe"),
        (["fit", "test", "--recipe", "materials", "-r", "size=8"], 1, "smaller than one patch"),
        (
            ["fit", "test", "--recipe", "materials", "-r", "size=big"],
            1,
            "`materials size=big`: size must be an integer",
        ),
        (["predict", "check.safetensors", "test"], 1, "check.safetensors: is the checkpoint of a fit"),
        (["fit", "raw.npy"], 1, "for signals (trials, channels, time) pass their covariances"),
        (["fit", "train", "--recipe", "materials", "-o", "train/rough/0.png"], 1, "is an input; choose another output"),
        (["predict", "m.safetensors", "absent.png"], 1, "absent.png: no such file"),
        (["predict", "m.safetensors", "empty"], 1, "empty: 0 files of the kinds"),
        (["predict", "m.safetensors", "text.txt"], 1, "text.txt: unknown kind of file; matrices come in .npz"),
        (["predict", "m.safetensors", "text.png"], 1, "text.png: cannot be decoded as an image"),
        (["predict", "m.safetensors", "test", "-o", "test/lost.png"], 1, "is an input; choose another output"),
        (["evaluate", "m.safetensors", "test", "-o", "m.safetensors"], 1, "is an input; choose another output"),
        (["predict", "bare.safetensors", "test/lost.png"], 1, "and raw files need a recipe"),
        (["predict", "bare.safetensors", "test"], 1, "knows no recipe for files; fit one with `spdsl fit FOLDER"),
        (["info", "text.txt"], 1, "text.txt: truncated, or not a model file of spdsl"),
    ],
    ids=lambda item: " ".join(item) if isinstance(item, list) else "",
)
def test_wrong_input_is_one_clear_line(arguments, code, complaint, folder):
    S = MaterialCovariance(SIZE).fit_transform(sorted(Path("train").rglob("*.png")))
    bare = spdsl.SPDNearestNeighbor().fit(S, np.arange(10) % 2)
    bare.save("bare.safetensors")
    spdsl.save(_with_recipe(bare), "m.safetensors")
    Path("empty").mkdir()
    np.save("raw.npy", np.ones((5, 3, 20)))
    container.write(Path("check.safetensors"), {"format": container.FORMAT, "kind": "checkpoint"}, {})
    for name in ("text.txt", "text.png"):
        Path(name).write_text("no picture")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "cache" not in path.parts}
    said = run(*arguments, code=code).stderr
    assert complaint in " ".join(said.replace("│", " ").split())
    lines = [line for line in said.splitlines() if not line.startswith(("features: ", "failed: ", "warning: "))]
    assert code == 2 or len(lines) == 1
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "cache" not in path.parts}
    assert after == before


def test_a_single_image_is_no_set(folder):
    for k in range(8):
        place = Path("sets", ("rough", "smooth")[k % 2], str(k))
        place.mkdir(parents=True)
        for j in range(3):
            image = np.random.default_rng(10 * k + j).integers(0, 256, (8, 8)).astype(np.uint8)
            cv2.imwrite(str(place / f"{j}.png"), image)
    run("fit", "sets", "--recipe", "sets", "-r", "size=4", *QUICK)
    said = run("predict", "model.safetensors", "sets/rough/0/1.png", code=1).stderr
    assert "the recipe sets takes" in said
    assert "and folders of images" in said
    assert "one.npz: 1 matrix" in run("transform", "model.safetensors", "sets/rough/0", "-o", "one.npz").stdout


def _with_recipe(model):
    from sklearn.pipeline import make_pipeline

    return make_pipeline(MaterialCovariance(SIZE).fit(), model)


@pytest.mark.parametrize(
    "change",
    [
        lambda image: np.dstack([image] * 3),
        lambda image: np.dstack([image] * 4),
        lambda image: image.astype(np.uint16) * 257,
    ],
    ids=["color", "alpha", "16 bits"],
)
def test_images_of_any_kind_get_the_label_of_the_same_picture(change, model):
    image = cv2.imread("test/lost.png", cv2.IMREAD_GRAYSCALE)
    cv2.imwrite("other.png", change(image))
    expected, found = (run("predict", model, path, "--proba").stdout for path in ("test/lost.png", "other.png"))
    assert csv_rows(found)[0] | {"file": ""} == csv_rows(expected)[0] | {"file": ""}
