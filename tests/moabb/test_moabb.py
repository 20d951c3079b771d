"""The pipelines of examples/moabb are read by MOABB's own parser and evaluated by MOABB (make test-moabb)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.moabb, pytest.mark.filterwarnings("ignore")]  # of the packages that MOABB brings
FOLDER = Path(__file__).parents[2] / "examples" / "moabb"
NAMES = {"SPDSL", "Recenter + SPDSL-LDA", "Log vectors + LR"}


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    from moabb.pipelines.utils import generate_paradigms, parse_pipelines_from_directory

    # a copy: MOABB leaves lock files beside what it reads
    copy = shutil.copytree(FOLDER, tmp_path_factory.mktemp("moabb") / "pipelines")
    paradigms = generate_paradigms(parse_pipelines_from_directory(str(copy)))
    assert set(paradigms) == {"LeftRightImagery", "MotorImagery"}
    return paradigms["LeftRightImagery"]


@pytest.mark.parametrize("kind", ["WithinSessionEvaluation", "CrossSessionEvaluation"])
def test_moabb_evaluates_every_pipeline(pipelines, kind, tmp_path):
    from moabb.datasets.fake import FakeDataset
    from moabb.paradigms import LeftRightImagery

    from moabb import evaluations

    assert set(pipelines) == NAMES
    dataset = FakeDataset(["left_hand", "right_hand"], n_subjects=2, n_sessions=2, seed=12)
    evaluation = getattr(evaluations, kind)(
        paradigm=LeftRightImagery(), datasets=[dataset], overwrite=True, hdf5_path=str(tmp_path), error_score="raise"
    )
    scores = evaluation.process(pipelines)
    print(scores.groupby("pipeline")[["score", "time"]].mean())
    assert set(scores["pipeline"]) == NAMES
    assert len(scores) == 3 * 2 * 2  # pipelines, subjects, sessions
    assert scores["score"].between(0, 1).all()
