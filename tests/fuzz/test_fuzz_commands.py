"""The command line and model files under odd files, names and values."""

import json

import numpy as np
import pytest
from fuzz_plans import GOOD_LABELS, classes_of, stacks
from fuzz_profile import PROFILE
from fuzz_verdict import judge, time_limit
from hypothesis import given, settings
from hypothesis import strategies as st
from test_fuzz_media import damaged
from typer.testing import CliRunner

import spdsl
from samples import aligned
from spdsl.cli.app import app

pytestmark = [pytest.mark.fuzz, pytest.mark.filterwarnings("ignore")]
CHEAP = ("NN-AIM", "NN-LEM", "CDL", "RSR", "LEK-gauss", "SPDML-Stein", "SPDSL-LEM", "SPDSL-LEM+LDA", "TS+LDA", "nope")
VALUES = ("1", "0", "-1", "2.5", "x", "", "null", "true", "[1]", "1e999", "nan", "all", "'")
NAMES = (
    "n_components",
    "n_between",
    "max_iter",
    "tol",
    "beta",
    "metric",
    "classifier",
    "callback",
    "ridge",
    "penalty",
    "x",
)


def run(arguments):
    """The outcome of a command, which must be a result, or a line and an exit code."""
    with time_limit():
        done = CliRunner().invoke(app, arguments)
    assert done.exit_code in (0, 1, 2), (arguments, done.output, done.exception)
    assert done.exception is None or isinstance(done.exception, SystemExit), (arguments, done.exception)
    if done.exit_code == 1:
        assert "error: " in done.output, (arguments, done.output)
        assert "(use --debug for the traceback)" not in done.output, (arguments, done.output)
        assert "Traceback" not in done.output
    return done


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A stack and a model of it."""
    folder = tmp_path_factory.mktemp("good")
    rng = np.random.default_rng(0)
    A = rng.standard_normal((12, 5, 9))
    np.savez(folder / "stack.npz", X=A @ A.mT, y=np.arange(12) % 3)
    model = aligned(2, max_iter=3).fit(A @ A.mT, np.arange(12) % 3)
    model.save(folder / "model.safetensors")
    return folder


def test_commands_end_in_a_result_or_a_line(counted, good, tmp_path):
    # a command takes a tenth of a second
    @settings(PROFILE, max_examples=max(5, PROFILE.max_examples // 4))
    @given(st.data())
    def case(data):
        counted()
        X, _, _ = data.draw(stacks(max_count=9, max_size=4))
        own = tmp_path / "own.npz"
        try:
            count = len(X)
            np.savez(own, X=np.asarray(X), y=classes_of(count, data.draw(st.sampled_from(GOOD_LABELS))))
        except (ValueError, TypeError):
            own.write_bytes(b"")
        stack = data.draw(st.sampled_from([str(own)] * 3 + [str(good / "stack.npz"), str(tmp_path), "", "no.npz"]))
        output = data.draw(st.sampled_from([str(tmp_path / "out"), str(tmp_path), str(tmp_path / "no" / "out"), ""]))
        command = data.draw(
            st.sampled_from(["fit", "fit", "predict", "transform", "compare", "methods", "metrics", "x"])
        )
        arguments = [command]
        if command in ("predict", "transform"):
            arguments.append(str(good / "model.safetensors"))
        if command in ("fit", "predict", "transform", "compare"):
            arguments.append(stack)
            arguments += ["-o", output + (".npz" if command == "transform" else ".csv" if command == "compare" else "")]
        if command == "fit":
            arguments += ["--method", data.draw(st.sampled_from(CHEAP))]
            for name in data.draw(st.lists(st.sampled_from(NAMES), max_size=2)):
                arguments += ["-p", f"{name}={data.draw(st.sampled_from(VALUES))}"]
            arguments += ["-p", "max_iter=3"] if data.draw(st.booleans()) else []
        if command == "compare":
            arguments += ["--methods", ",".join(data.draw(st.lists(st.sampled_from(CHEAP), max_size=2)))]
            arguments += ["--splits", data.draw(st.sampled_from(["1", "2", "0", "x"])), "--no-tune"]
        if data.draw(st.integers(0, 4)) == 0:
            arguments += [data.draw(st.sampled_from(["--ridge", "--seed", "--folds", "--jobs"]))]
            arguments += [data.draw(st.sampled_from(VALUES))]
        run(arguments)

    case()


def test_a_good_stack_goes_all_the_way(good, tmp_path):
    model, labels = tmp_path / "m.safetensors", tmp_path / "labels.csv"
    assert run(["fit", str(good / "stack.npz"), "-o", str(model), "-p", "max_iter=3"]).exit_code == 0
    assert run(["predict", str(model), str(good / "stack.npz"), "-o", str(labels)]).exit_code == 0
    assert len(labels.read_text().splitlines()) == 13


def test_a_damaged_model_is_the_model_or_refused(counted, good, tmp_path):
    whole = (good / "model.safetensors").read_bytes()
    path = tmp_path / "model.safetensors"
    with np.load(good / "stack.npz") as saved:
        X = saved["X"]
    expected = spdsl.load(good / "model.safetensors").predict(X)

    @PROFILE
    @given(damaged(whole))
    def case(content):
        counted()
        path.write_bytes(content)
        model = judge(lambda path: [spdsl.load(path)], path)
        assert model is None or np.array_equal(model[0].predict(X), expected)

    case()


def test_damaged_results_are_the_results_or_refused(counted):
    from spdsl.evaluation.results import Cell, Results

    results = Results(
        "a", "A", "b", 10, 4, 2, 2, 2, [Cell("NN-LEM", k, 0.5, {"x": 1}, 0.1, 0.1, 0.1) for k in range(2)]
    )
    whole = results.to_json().encode()

    @PROFILE
    @given(damaged(whole))
    def case(content):
        counted()
        text = content.decode("utf-8", "replace")
        read = judge(lambda text: [Results.from_json(text)], text)
        if read is not None:
            json.loads(text)

    case()
