"""Methods on a PyTorch device: here the host, which runs the same code as a GPU."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import spdsl
from samples import labeled
from spdsl import METHODS
from spdsl.backend import linalg
from spdsl.cli.app import app

pytestmark = [pytest.mark.arrays, pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")]
torch = pytest.importorskip("torch")
X, Y = labeled(36)
NEW = labeled(48)[0][36:]
PAPER = [name for name, method in METHODS.items() if isinstance(method.category, int) or method.category == "proposed"]


@pytest.mark.parametrize("name", [*PAPER, "SPDSL", "TS+LDA", "TS+LR"])
def test_a_method_says_the_same_on_a_device(name):
    models = [METHODS[name].unfitted(3, 0, device) for device in (None, "cpu")]
    for model in models:
        model.set_params(**({"max_iter": 5} if METHODS[name].reduces else {})).fit(X, Y)
    assert models[1].device == "cpu"
    found = [np.asarray(model.predict(NEW)) for model in models]
    np.testing.assert_array_equal(*found)


def test_codes_are_the_same_on_a_device():
    codes = [spdsl.RSR(penalty=0.02, device=device).fit(X, Y).sparse_codes(NEW) for device in (None, "cpu")]
    np.testing.assert_allclose(codes[1], codes[0], atol=1e-6)


def test_a_model_predicts_on_another_device_than_it_was_fitted_on(monkeypatch):
    from spdsl.geometry import METRICS

    seen = []
    cross = type(METRICS["stein"]).cross
    monkeypatch.setattr(
        type(METRICS["stein"]), "cross", lambda self, FA, FB: seen.append(type(FA[0])) or cross(self, FA, FB)
    )
    for model in (spdsl.RSR().fit(X, Y), spdsl.SPDNearestNeighbor("stein").fit(X, Y)):
        model.predict(NEW)
        assert seen[-1] is np.ndarray
        model.set_params(device="cpu").predict(NEW)
        assert seen[-1] is torch.Tensor


def test_eigenvectors_of_many_matrices_are_found_in_batches(monkeypatch):
    A = torch.as_tensor(X)
    wanted = linalg.eigh(A), linalg.eigvalsh(A)
    calls = []
    at_once = linalg._eigen_at_once
    monkeypatch.setattr(linalg, "_most_at_once", lambda A: 7)
    monkeypatch.setattr(linalg, "_eigen_at_once", lambda name, A: calls.append(len(A)) or at_once(name, A))
    found = linalg.eigh(A), linalg.eigvalsh(A)
    assert calls == [7, 7, 7, 7, 7, 1] * 2
    for a, b in zip((*found[0], found[1]), (*wanted[0], wanted[1]), strict=True):
        assert torch.equal(a, b)


def test_a_comparison_on_a_device_has_the_table_of_the_host():
    names = ["NN-AIM", "CDL", "SPDSL-LEM"]
    tables = [
        spdsl.compare(X, Y, names, splits=1, n_folds=2, device=device, n_jobs=1, verbose=False)
        for device in (None, "cpu")
    ]
    assert [row.accuracy for row in tables[1].rows] == pytest.approx([row.accuracy for row in tables[0].rows])
    assert tables[1].results.settings["device"] == "cpu"
    assert "device" not in tables[0].results.settings


def test_commands_take_a_device(tmp_path):
    np.savez(tmp_path / "X.npz", X=X, y=Y)
    model, labels = str(tmp_path / "m.safetensors"), tmp_path / "labels.jsonl"
    run = CliRunner().invoke
    stack = str(tmp_path / "X.npz")
    done = run(app, ["fit", stack, "-o", model, "--method", "CDL", "--device", "cpu"])
    assert done.exit_code == 0, done.output
    done = run(app, ["predict", model, stack, "--device", "cpu", "--format", "jsonl", "-o", str(labels)])
    assert done.exit_code == 0, done.output
    assert len([json.loads(line) for line in labels.read_text().splitlines()]) == len(X)
    options = [
        "--methods",
        "NN-AIM,CDL",
        "--draws",
        "1",
        "--tune",
        "none",
        "--no-report",
        "--out",
        str(tmp_path / "out"),
    ]
    done = run(app, ["reproduce", "--data", stack, "--device", "cpu", *options])
    assert done.exit_code == 0, done.output
    assert run(app, ["compare", stack, "--device", "nowhere"]).exit_code == 2
