"""The recipes as the first step of a pipeline: files or arrays in, matrices out; cloned, searched, saved."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest
from acclaim import write_pair
from clips import write_frames, write_video
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import spdsl
from spdsl import (
    FaceCovariance,
    JointCovariance,
    MaterialCovariance,
    RegionCovariance,
    Regularize,
    SetCovariance,
    SignalCovariance,
    SPDNearestNeighbor,
)
from spdsl.features import (
    FeatureError,
    Recipe,
    face_covariance,
    image_set_covariance,
    joint_covariance,
    material_covariance,
    motion_covariance,
    region_covariance,
    signal_covariance,
    signal_file_covariance,
)

RECIPES = {
    MaterialCovariance: "materials",
    RegionCovariance: "regions",
    SetCovariance: "sets",
    FaceCovariance: "faces",
    JointCovariance: "motion",
    SignalCovariance: "signals",
}

NOISE = np.random.default_rng(0).normal(size=(4, 9))


@pytest.fixture
def images() -> np.ndarray:
    rng = np.random.default_rng(0)
    noise = [rng.integers(0, 256, (48, 48)).astype(np.uint8) for _ in range(12)]
    return np.stack([cv2.GaussianBlur(image, (0, 0), 0.6 + k % 2) for k, image in enumerate(noise)])


@pytest.fixture
def files(tmp_path, images) -> list[str]:
    for k, image in enumerate(images):
        cv2.imwrite(str(tmp_path / f"{k}.png"), image)
    return [str(tmp_path / f"{k}.png") for k in range(len(images))]


@pytest.mark.parametrize("cls", RECIPES, ids=lambda cls: cls.__name__)
def test_parameters_and_defaults_are_the_recipes(cls):
    known = cls().get_params()
    recipe = dict(Recipe(RECIPES[cls]).defaults())
    if cls is SignalCovariance:  # one signal is one sample
        del recipe["window"], recipe["step"]
    assert known == recipe


def test_files_and_arrays_give_what_the_functions_give(tmp_path, images, files):
    for model, function, options in (
        (MaterialCovariance(48), material_covariance, {"size": 48}),
        (MaterialCovariance(48, quarters=True), material_covariance, {"size": 48, "quarters": True}),
        (RegionCovariance(ridge=1e-2), region_covariance, {"ridge": 1e-2}),
    ):
        expected = np.stack([function(file, **options) for file in files])
        np.testing.assert_array_equal(model.fit_transform(files), expected)
        np.testing.assert_array_equal(model.transform([Path(file) for file in files]), expected)
        np.testing.assert_array_equal(model.transform(images), expected)
    write_frames(tmp_path / "set", [True] * 4)
    sets = SetCovariance(6).fit_transform([tmp_path / "set"])
    np.testing.assert_array_equal(sets, image_set_covariance(tmp_path / "set", size=6)[None])
    assert SetCovariance(6).fit_transform(images.reshape(2, 6, 48, 48)).shape == (2, 37, 37)
    write_video(tmp_path / "a.avi", [True] * 12)
    faces = FaceCovariance(6).fit_transform([tmp_path / "a.avi"])
    np.testing.assert_array_equal(faces, face_covariance(tmp_path / "a.avi", size=6)[0][None])


def test_motion_and_signals_of_different_length(tmp_path):
    rng = np.random.default_rng(0)
    clip = write_pair(tmp_path / "walk")
    np.testing.assert_array_equal(
        JointCovariance(levels=2).fit_transform([clip]), motion_covariance(clip, levels=2)[None]
    )
    tracks = [rng.normal(size=(20 + k, 4, 3)) for k in range(3)]
    moved = JointCovariance(root_relative=True, step=2).fit_transform(tracks)
    np.testing.assert_array_equal(moved[1], joint_covariance(tracks[1][::2], root_relative=True))
    flat = JointCovariance(step=2).fit_transform([track.reshape(len(track), 12) for track in tracks])
    assert flat.shape == (3, 12, 12)
    tracks[1][4, 2] = np.nan
    with pytest.raises(FeatureError, match=r"X\[1\]: 1 positions are NaN, the first in frame 4, joint 2"):
        JointCovariance().fit_transform(tracks)
    assert JointCovariance(gaps="interpolate").fit_transform(tracks).shape == (3, 12, 12)

    signals = [rng.normal(size=(3, 60 + k)) for k in range(4)]
    np.save(tmp_path / "s.npy", signals[2])
    model = SignalCovariance(lags=(1, 3), embedding="augmented", ridge=1e-3).fit(signals)
    one = signal_covariance(signals[2], lags=(1, 3), embedding="augmented", ridge=1e-3)
    np.testing.assert_array_equal(model.transform(signals)[2], one)
    np.testing.assert_array_equal(model.transform([tmp_path / "s.npy"])[0], one)
    bands = SignalCovariance(bands=[(5, 10), (10, 20)], rate=100).fit_transform(np.stack([s[:, :60] for s in signals]))
    assert bands.shape == (4, 2, 3, 3)
    np.testing.assert_array_equal(
        bands[0], signal_file_covariance(signals[0][:, :60], bands=[(5, 10), (10, 20)], rate=100)[0]
    )


def test_a_pipeline_from_files_is_searched_saved_and_loaded(tmp_path, files):
    y = np.arange(12) % 2
    pipe = make_pipeline(MaterialCovariance(48), Regularize(1e-3), SPDNearestNeighbor())
    search = GridSearchCV(pipe, {"materialcovariance__size": [32, 48], "regularize__ridge": [1e-3, 1e-2]}, cv=3)
    search.fit(files, y)
    assert search.best_score_ == 1.0
    best = search.best_estimator_
    spdsl.save(best, tmp_path / "model.safetensors")
    again = spdsl.load(tmp_path / "model.safetensors")
    assert again[0].get_params() == best[0].get_params()
    np.testing.assert_array_equal(again.predict(files), best.predict(files))
    np.testing.assert_array_equal(again[:-1].transform(files), best[:-1].transform(files))


@pytest.mark.parametrize(
    "model",
    [
        RegionCovariance(ridge=0.1),
        SetCovariance(5, equalize=False),
        FaceCovariance(5),
        JointCovariance(levels=2, gaps="drop"),
        SignalCovariance(lags=(1, 2), bands=[(5, 10), (10, 20)], rate=100.0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_recipe_is_cloned_saved_and_loaded(tmp_path, model):
    model = clone(model).fit()
    model.save(tmp_path / "m.safetensors")
    again = spdsl.load(tmp_path / "m.safetensors")
    assert type(again) is type(model)
    assert vars(again) == vars(model)
    if isinstance(model, SignalCovariance):
        X = np.random.default_rng(0).normal(size=(2, 3, 80))
        np.testing.assert_array_equal(model.transform(X), again.transform(X))


def test_what_is_fitted_does_not_read_parameters_again(images):
    model = MaterialCovariance(48).fit()
    before = model.transform(images[:2])
    model.set_params(size=32)
    np.testing.assert_array_equal(model.transform(images[:2]), before)


@pytest.mark.parametrize(
    ("do", "message"),
    [
        (lambda: MaterialCovariance().fit().transform("a.png"), r"X is the single path 'a\.png'; pass a list of paths"),
        (lambda: MaterialCovariance().fit().transform([]), "X has no samples"),
        (lambda: MaterialCovariance().fit().transform(None), "X must be a list of paths or arrays, got NoneType"),
        (
            lambda: MaterialCovariance().fit().transform(pd.DataFrame({"path": ["a.png"]})),
            "X is a data frame; pass the column that holds the paths",
        ),
        (lambda: RegionCovariance().fit().transform([np.ones((2, 9))]), r"X\[0\]: the image is 9 x 2"),
        (lambda: MaterialCovariance().fit().transform([np.full((20, 20), np.nan)]), r"X\[0\]: the image holds NaN"),
        (lambda: FaceCovariance().fit().transform([np.ones((5, 9, 9))]), r"X\[0\]: faces are looked for in files only"),
        (
            lambda: SignalCovariance().fit().transform([NOISE[:3], NOISE]),
            r"X\[1\] gives matrices of shape \(4, 4\) where X\[0\] gives \(3, 3\)",
        ),
        (lambda: SignalCovariance(lags=9).fit().transform([NOISE[:3]]), r"X\[0\]: lags of up to 9"),
        (lambda: SignalCovariance().fit().transform(NOISE[:3]), r"X\[0\]: shape \(9,\) is not a signal"),
    ],
)
def test_bad_input_is_named(do, message):
    with pytest.raises(FeatureError, match=message):
        do()


def test_a_recipe_that_is_not_fitted_says_so(images):
    with pytest.raises(NotFittedError):
        MaterialCovariance().transform(images)
