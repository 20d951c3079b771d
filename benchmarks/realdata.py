"""The real data sets behind the benchmarks, read from the folder that the environment variable SPDSL_DATA names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import scipy.io

from spdsl.datasets import load_digit_sets, load_image_folder, load_set_folder
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


def square(upper: np.ndarray, n: int) -> np.ndarray:
    """Symmetric matrices (N, n, n) from their upper triangles, row by row."""
    row, column = np.triu_indices(n)
    X = np.zeros((len(upper), n, n))
    X[:, row, column] = X[:, column, row] = upper
    return X


def load_toy() -> Split:
    """Synthetic 30 x 30 set: 200 + 200 matrices, 10 directions carry the class."""
    box = scipy.io.loadmat(folder() / "toy_30x30.mat")["covD_Struct"][0, 0]
    stack = {part: np.ascontiguousarray(box[f"{part}_X"].transpose(2, 0, 1)) for part in ("trn", "tst")}
    return Split(stack["trn"], box["trn_y"].ravel(), stack["tst"], box["tst_y"].ravel(), 10)


def load_fpha() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First-person hand actions, 63 x 63, without the sample that is all zero; labels, and which samples train."""
    box = np.load(folder() / "fpha_63.npz")
    X = square(box["triu"], int(box["dim"]))
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


# ------------------------------------------------------------------------------------------- all sets, for accuracy.py


@dataclass(frozen=True)
class RealSet:
    """Matrices, labels 0, 1, ..., and the training and test rows of every draw."""

    X: np.ndarray
    y: np.ndarray
    draws: list[tuple[np.ndarray, np.ndarray]]


def _given(X: np.ndarray, y: np.ndarray, train: np.ndarray) -> RealSet:
    """A set with its official split."""
    return RealSet(X, np.unique(y, return_inverse=True)[1], [(np.flatnonzero(train), np.flatnonzero(~train))])


def _drawn(X: np.ndarray, y: np.ndarray, count: int, n_train: int, n_test: int) -> RealSet:
    """A set with random draws of so many samples of every class."""
    y = np.unique(y, return_inverse=True)[1]
    return RealSet(X, y, [draw(y, seed, n_train, n_test) for seed in range(count)])


def _halves(X: np.ndarray, y: np.ndarray, count: int) -> RealSet:
    """A set with random draws of half of every class."""
    y = np.unique(y, return_inverse=True)[1]
    return RealSet(X, y, draw_halves(y, count))


def draw_halves(y: np.ndarray, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Random draws of half of every class to train, and the rest."""
    draws = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        classes = [rng.permutation(np.flatnonzero(y == label)) for label in np.unique(y)]
        parts = ([c[: len(c) // 2] for c in classes], [c[len(c) // 2 :] for c in classes])
        draws.append((np.concatenate(parts[0]), np.concatenate(parts[1])))
    return draws


def _eeg(subject: int, count: int) -> RealSet:
    box = np.load(folder() / "eeg_2a.npz")
    X = square(box[f"triu_{subject}"], int(box["dim"]))
    return _given(X, box[f"y_{subject}"], box[f"session_{subject}"] == 1)


def _florence(count: int) -> RealSet:
    """Joint positions relative to the first joint, 45 x 45."""
    box = np.load(folder() / "florence3d.npz")
    clips = np.split(box["joints"].astype(float), np.cumsum(box["length"])[:-1])
    return _halves(np.stack([set_covariance(clip - clip[:, :1]) for clip in clips]), box["y"], count)


def _hdm05_actor(count: int) -> RealSet:
    """Trained on one actor, tested on the other four."""
    X, y, actor = load_hdm05()
    draws = [(np.flatnonzero(actor == one), np.flatnonzero(actor != one)) for one in np.unique(actor)[:count]]
    return RealSet(X, np.unique(y, return_inverse=True)[1], draws)


def _kylberg(count: int) -> RealSet:
    box = np.load(folder() / "kylberg5.npz")
    return _given(box["cov"], box["y"], box["is_train"])


def _toy(count: int) -> RealSet:
    split = load_toy()
    train = np.arange(len(split.y_train) + len(split.y_test)) < len(split.y_train)
    return _given(np.concatenate([split.X_train, split.X_test]), np.concatenate([split.y_train, split.y_test]), train)


def _uav(count: int) -> RealSet:
    box = np.load(folder() / "uav_51.npz")
    return _given(square(box["triu"], int(box["dim"])), box["y"], box["train"])


def _virus(count: int) -> RealSet:
    """Image sets as 401 x 401 covariance-with-mean matrices; always ten draws, since a test part has 30 samples."""
    X, y, _ = load_set_folder(folder() / "virus")
    return _drawn(np.asarray(X), y.astype(int), 10, 3, 2)


def _signals(name: str, count: int) -> RealSet:
    """Covariances of the channels of the signals that come with aeon, with its split."""
    from aeon import datasets

    parts = [getattr(datasets, f"load_{name}")(split=part) for part in ("train", "test")]
    signals = [np.asarray(signal, float) for part, _ in parts for signal in part]
    X = np.stack([set_covariance(signal[:, ~np.isnan(signal).any(axis=0)].T) for signal in signals])
    train = np.arange(len(X)) < len(parts[0][0])
    return _given(X, np.concatenate([labels for _, labels in parts]), train)


REAL_SETS: dict[str, Callable[[int], RealSet]] = {
    "digits": lambda count: _drawn(*load_digit_sets(), count, 2, 20),
    "basic_motions": partial(_signals, "basic_motions"),
    "japanese_vowels": partial(_signals, "japanese_vowels"),
    "eeg7": partial(_eeg, 7),
    "eeg9": partial(_eeg, 9),
    "toy": _toy,
    "florence": _florence,
    "kth": lambda count: _drawn(*load_kth_tips(), count, 6, 6),
    "hdm05_actor": _hdm05_actor,
    "hdm05_half": lambda count: _halves(*load_hdm05()[:2], count),
    "eth80": lambda count: _drawn(*load_eth80(), count, 5, 5),
    "fpha": lambda count: _given(*load_fpha()),
    "kylberg": _kylberg,
    "virus": _virus,
    "uav": _uav,
}


def missing(name: str) -> str | None:
    """What a set of REAL_SETS needs and does not find."""
    if name in ("basic_motions", "japanese_vowels"):
        return None if find_spec("aeon") else "aeon is not installed"
    return None if name == "digits" or os.environ.get("SPDSL_DATA") else "SPDSL_DATA is not set"
