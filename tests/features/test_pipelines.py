"""Pipelines on disk: recipes, ridges, recentering, heads and steps of other packages, equal to the last bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from clips import write_frames
from pyriemann.classification import MDM as RiemannMDM
from pyriemann.classification import FgMDM
from pyriemann.estimation import Covariances, Shrinkage
from pyriemann.tangentspace import FGDA, TangentSpace
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, RobustScaler, StandardScaler
from sklearn.svm import SVC

import spdsl
from samples import labeled
from spdsl import (
    MDM,
    SPDSL,
    FaceCovariance,
    JointCovariance,
    KernelSVC,
    LogVectors,
    MaterialCovariance,
    ModelFileError,
    Recenter,
    RegionCovariance,
    Regularize,
    SetCovariance,
    SignalCovariance,
    SPDNearestNeighbor,
    TangentSpaceClassifier,
)

SOURCES = Path(spdsl.__file__).parents[1]
X, Y = labeled(24, 6)
TRAIN = slice(0, 16)
RNG = np.random.default_rng(0)
SIGNALS = [RNG.standard_normal((4, 50 + k)) * (1 + np.arange(4) * (k % 2))[:, None] for k in range(12)]
EPOCHS = np.stack([signal[:, :50] for signal in SIGNALS])
TRACKS = [RNG.standard_normal((20 + k, 3, 3)) * (1 + k % 2) for k in range(12)]
IMAGES = [cv2.GaussianBlur(RNG.integers(0, 256, (32, 32)).astype(np.uint8), (0, 0), 0.6 + k % 2) for k in range(12)]
SETS = [np.stack([np.roll(image, k) for k in range(4)]) for image in IMAGES]
HALVES = np.arange(12) % 2


def quick(**params):
    return SPDSL(3, max_iter=3, **params)


PIPELINES = {
    "materials": (lambda: make_pipeline(MaterialCovariance(32), Regularize(1e-3), quick()), IMAGES),
    "regions": (lambda: make_pipeline(RegionCovariance(), Regularize(1e-2), quick(classifier="lda")), IMAGES),
    "sets": (lambda: make_pipeline(SetCovariance(4), quick(classifier="svm")), SETS),
    "motion": (lambda: make_pipeline(JointCovariance(levels=2), quick(classifier="nn")), TRACKS),
    "signals": (lambda: make_pipeline(SignalCovariance(lags=(1, 3), embedding="augmented"), quick()), SIGNALS),
    "recenter": (lambda: make_pipeline(SignalCovariance(), Recenter(), quick(classifier="logistic")), SIGNALS),
    "vectors": (lambda: make_pipeline(Regularize(), LogVectors(), StandardScaler(), PCA(3), SVC()), X),
    "scaled": (
        lambda: make_pipeline(LogVectors(), RobustScaler(), MinMaxScaler(), Normalizer(), LinearDiscriminantAnalysis()),
        X,
    ),
    "riemann": (
        lambda: make_pipeline(Covariances("oas"), Shrinkage(0.05), quick(metric="riemann"), RiemannMDM()),
        EPOCHS,
    ),
    "tangent": (lambda: make_pipeline(Covariances(), TangentSpace(), LogisticRegression()), EPOCHS),
    "geodesic": (lambda: make_pipeline(Covariances("lwf"), FGDA(), FgMDM()), EPOCHS),
    "kernel": (lambda: make_pipeline(Recenter(), quick(), KernelSVC()), X),
}


def assert_kept(model, samples, path):
    """The pipeline predicts and transforms the same, to the last bit, after a round trip."""
    spdsl.save(model, path)
    again = spdsl.load(path)
    assert repr(again) == repr(model)
    for method in ("predict", "predict_proba", "decision_function"):
        assert hasattr(again, method) == hasattr(model, method)
        if hasattr(model, method):
            np.testing.assert_array_equal(getattr(again, method)(samples), getattr(model, method)(samples), strict=True)
    np.testing.assert_array_equal(again[:-1].transform(samples), model[:-1].transform(samples), strict=True)


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_pipeline_predicts_the_same_after_a_round_trip(name, tmp_path):
    make, samples = PIPELINES[name]
    y = HALVES if len(samples) == 12 else Y
    assert_kept(make().fit(samples, y), samples, tmp_path / "m.safetensors")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_pipeline_of_faces_predicts_the_same_after_a_round_trip(tmp_path):
    write_frames(tmp_path / "clip", [True] * 4)
    clips = [tmp_path / "clip"]
    model = make_pipeline(FaceCovariance(4, min_faces=3), SPDNearestNeighbor()).fit(clips, ["a"])
    assert_kept(model, clips, tmp_path / "m.safetensors")


@pytest.mark.parametrize(
    ("step", "name"),
    [
        (SelectKBest(k=5), "sklearn.feature_selection._univariate_selection.SelectKBest"),
        (RandomForestClassifier(3), "sklearn.ensemble._forest.RandomForestClassifier"),
    ],
)
def test_a_foreign_step_is_refused_by_its_name(step, name, tmp_path):
    steps = [LogVectors(), step] if hasattr(step, "predict") else [LogVectors(), step, LogisticRegression()]
    model = make_pipeline(*steps).fit(X, Y)
    with pytest.raises(ModelFileError, match=f"Pipeline.steps.1.1 is a {name}, which cannot be saved without pickle"):
        spdsl.save(model, tmp_path / "m.safetensors")
    assert not (tmp_path / "m.safetensors").exists()


def test_a_search_and_a_cache_say_what_to_save_instead(tmp_path):
    search = GridSearchCV(
        make_pipeline(LogVectors(), LogisticRegression()), {"logisticregression__C": [1.0]}, cv=2
    ).fit(X, Y)
    with pytest.raises(ModelFileError, match="GridSearchCV is a search; save what it found, its best_estimator_"):
        spdsl.save(search, tmp_path / "m.safetensors")
    cached = make_pipeline(LogVectors(), LogisticRegression(), memory=str(tmp_path / "cache")).fit(X, Y)
    with pytest.raises(ModelFileError, match=r"only None can be saved; call set_params\(memory=None\)"):
        spdsl.save(cached, tmp_path / "m.safetensors")
    assert_kept(cached.set_params(memory=None), X, tmp_path / "m.safetensors")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_search_goes_over_the_recipe_the_ridge_and_the_learner(tmp_path):
    pipe = make_pipeline(SignalCovariance(), Regularize(), quick(classifier="nn"))
    grid = {"signalcovariance__lags": [0, 1], "regularize__ridge": [1e-3, 1e-1], "spdsl__n_components": [2, 3]}
    search = GridSearchCV(pipe, grid, cv=2).fit(SIGNALS, HALVES)
    assert len(search.cv_results_["params"]) == 8
    assert search.best_score_ > 0.8
    assert_kept(search.best_estimator_, SIGNALS, tmp_path / "m.safetensors")


# ----------------------------------------------------------------------------------- what used to go wrong silently


def test_the_ridge_is_that_of_the_training(tmp_path):
    bare = X.copy()
    bare[:, 0] = bare[:, :, 0] = 0.0
    model = make_pipeline(Regularize(1e-3), quick()).fit(bare[TRAIN], Y[TRAIN])
    expected = quick().fit(spdsl.regularize(bare[TRAIN], 1e-3), Y[TRAIN]).predict(spdsl.regularize(bare, 1e-3))
    spdsl.save(model, tmp_path / "m.safetensors")
    again = spdsl.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.predict(bare), expected)
    assert again[0].ridge_ == 1e-3
    for ridge in (1e-3, 1e-2):
        with pytest.warns(
            UserWarning, match="X seems to have a ridge already, which the training matrices did not have"
        ):
            again.predict(spdsl.regularize(bare, ridge))
    Regularize(1e-3).fit(X).transform(spdsl.regularize(X, 1e-2))  # definite matrices may be as definite as they like


def test_the_resolution_of_an_image_does_not_matter_to_a_recipe_with_a_size():
    large = [cv2.resize(image, (64, 64), interpolation=cv2.INTER_LINEAR) for image in IMAGES]
    for recipe in (RegionCovariance(32), MaterialCovariance(32)):
        S, other = recipe.fit_transform(IMAGES), recipe.transform(large)
        model = SPDNearestNeighbor().fit(S, HALVES)
        assert model.score(other, HALVES) == 1.0
        assert np.abs(other - S).max() < 0.1 * np.abs(S).max()
    assert (
        SPDNearestNeighbor()
        .fit(RegionCovariance().fit_transform(IMAGES), HALVES)
        .score(RegionCovariance().fit_transform(large), HALVES)
        < 1.0
    )


def test_the_recipe_is_that_of_the_training(tmp_path):
    model = make_pipeline(MaterialCovariance(32), SPDNearestNeighbor()).fit(IMAGES, HALVES)
    spdsl.save(model, tmp_path / "m.safetensors")
    again = spdsl.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(
        again.predict(IMAGES), model[-1].predict(MaterialCovariance(32).fit_transform(IMAGES))
    )
    other = MaterialCovariance(48).fit_transform(IMAGES)
    with pytest.raises(
        ValueError, match=r"X\[0\] is a symmetric matrix, and MaterialCovariance makes matrices of materials"
    ):
        again.predict(other)
    rounded = other * (1 + 1e-15 * np.random.default_rng(0).standard_normal(other.shape))
    assert not np.array_equal(rounded, rounded.mT)
    for form in (rounded, other.astype(np.float32), other.tolist(), [Arraylike(S) for S in other]):
        with pytest.raises(ValueError, match="is a symmetric matrix"):
            again.predict(form)
    np.testing.assert_array_equal(again.predict([Arraylike(image) for image in IMAGES]), again.predict(IMAGES))


def test_matrices_of_several_blocks_are_no_sets_of_images():
    model = make_pipeline(SetCovariance(4), SPDNearestNeighbor()).fit(SETS, HALVES)
    blocks = MaterialCovariance(64, quarters=True).fit_transform(IMAGES)
    with pytest.raises(ValueError, match="is a symmetric matrix"):
        model.predict(blocks)
    model.predict([[image, image[:20]] for image in IMAGES])  # of several sizes
    model.predict(
        [np.dstack([np.full((8, 8), value) for value in (0.1, 0.5, 0.9)]).T for _ in range(2)]
    )  # of one color


class Arraylike:
    """What NumPy takes for an array though it is none, as a tensor is."""

    def __init__(self, content):
        self.content = content

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.content, dtype)


def test_a_model_on_tangent_vectors_loads_without_pyriemann(tmp_path):
    model = TangentSpaceClassifier().fit(X[TRAIN], Y[TRAIN])
    np.testing.assert_allclose(model.transform(X), TangentSpace().fit(X[TRAIN]).transform(X), atol=1e-12)
    model.save(tmp_path / "m.safetensors")
    MDM().fit(X[TRAIN], Y[TRAIN]).save(tmp_path / "mdm.safetensors")
    np.save(tmp_path / "X.npy", X)
    code = (
        "import sys, numpy as np, spdsl\nsys.modules['pyriemann'] = None\n"
        "np.save('p.npy', spdsl.load('m.safetensors').predict(np.load('X.npy')))\n"
        "try:\n    spdsl.load('mdm.safetensors')\nexcept ImportError as error:\n    print(error)"
    )
    said = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
    )
    assert said.stderr == ""
    assert "pyriemann.classification.MDM, which cannot be imported" in said.stdout
    assert "pip install" in said.stdout
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), model.predict(X))
