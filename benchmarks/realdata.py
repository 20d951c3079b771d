"""The real data sets behind the benchmarks, read from the folder that the environment variable SPDSL_DATA names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.io

from spdsl.datasets import load_image_folder
from spdsl.features import set_covariance


@dataclass(frozen=True)
class Split:
    """Training and test part of one draw, and the reduced size m used with this data."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    n_components: int


def folder() -> Path:
    """The data folder; ends the program with a clear line where there is none."""
    name = os.environ.get("SPDSL_DATA", "")
    if not name or not Path(name).is_dir():
        raise SystemExit("set SPDSL_DATA to the folder that holds the real data sets")
    return Path(name)


def load_toy() -> Split:
    """Synthetic 30 x 30 set: 200 + 200 matrices, 10 directions carry the class."""
    box = scipy.io.loadmat(folder() / "toy_30x30.mat")["covD_Struct"][0, 0]
    stack = {part: np.ascontiguousarray(box[f"{part}_X"].transpose(2, 0, 1)) for part in ("trn", "tst")}
    return Split(stack["trn"], box["trn_y"].ravel(), stack["tst"], box["tst_y"].ravel(), 10)


def load_fpha() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First-person hand actions, 63 x 63, without the sample that is all zero; labels, and which samples train."""
    box = np.load(folder() / "fpha_63.npz")
    n = int(box["dim"])
    row, column = np.triu_indices(n)
    X = np.zeros((len(box["triu"]), n, n))
    X[:, row, column] = X[:, column, row] = box["triu"]
    good = np.abs(X).max(axis=(1, 2)) > 0
    return X[good], box["y"][good], (box["split"] == "train")[good]


def load_hdm05() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Joint covariances 93 x 93 of motion-capture clips with the paper's ridge, classes, actors."""
    box = np.load(folder() / "hdm05_11.npz")
    ends = np.cumsum(box["length"])
    clips = np.split(box["X"].reshape(int(ends[-1]), -1), ends[:-1])
    return np.stack([set_covariance(clip) for clip in clips]), box["y"], box["subject"]


def load_eth80() -> tuple[np.ndarray, np.ndarray]:
    """Image sets as 401 x 401 covariance-with-mean matrices."""
    box = np.load(folder() / "eth80_20x20.npz")
    sets = [box["faces20"][box["set_id"] == k] for k in np.unique(box["set_id"])]
    return np.stack([set_covariance(views, embedding="augmented") for views in sets]), box["set_label"]


def load_kth_tips() -> tuple[np.ndarray, np.ndarray]:
    """Textures as 128 x 128 covariances of dense SIFT descriptors by the paper's recipe; cached."""
    X, y, _ = load_image_folder(folder() / "kth_tips", recipe="materials", jobs=2)
    return X, y


def draw(y: np.ndarray, seed: int, n_train: int, n_test: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of a random draw with so many of every class."""
    rng = np.random.default_rng(seed)
    classes = [rng.permutation(np.flatnonzero(y == label)) for label in np.unique(y)]
    return (
        np.concatenate([c[:n_train] for c in classes]),
        np.concatenate([c[n_train : n_train + n_test] for c in classes]),
    )


def splits(name: str, draws: int = 10) -> Iterator[Split]:
    """The protocol of a data set: the official split, one actor against the rest, or random draws per class."""
    if name == "toy":
        yield load_toy()
    elif name == "fpha":
        X, y, train = load_fpha()
        yield Split(X[train], y[train], X[~train], y[~train], 20)
    elif name == "hdm05":
        X, y, actor = load_hdm05()
        for one in np.unique(actor)[:draws]:
            yield Split(X[actor == one], y[actor == one], X[actor != one], y[actor != one], 30)
    elif name in ("kth", "eth80"):
        X, y = load_kth_tips() if name == "kth" else load_eth80()
        size = 6 if name == "kth" else 5
        for seed in range(draws):
            train, test = draw(y, seed, size, size)
            yield Split(X[train], y[train], X[test], y[test], 40)
    else:
        raise ValueError(f"unknown data set {name!r}")
