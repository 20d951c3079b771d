"""What is run: the paper's datasets and protocols, the embedded digits, and a stack of one's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spdsl.data.labels import check_labels
from spdsl.data.validation import check_spd, regularize
from spdsl.datasets import Dataset, Protocol, load_digit_sets, load_hdm05, load_spd, load_uiuc, load_ytc
from spdsl.evaluation.cells import SEED, Experiment, Tuning
from spdsl.evaluation.splits import (
    LEAVE_ONE_GROUP_OUT,
    Split,
    check_groups,
    draw_groups,
    leave_one_group_out,
    make_splits,
    take_distinct,
    warn_of_unlearned,
)
from spdsl.evaluation.text import count_matrices
from spdsl.features.errors import FeatureError
from spdsl.features.numpy_files import read_npz

DRAWS = 10
ENDLESS = 2**31 - 1


@dataclass(frozen=True)
class Benchmark:
    """How a named dataset is run.

    Attributes
    ----------
    title, description : str
    n_components : int
        m.
    protocol : Protocol
        Training and test samples of each class.
    load : callable
        Folder to dataset; None for the one that is embedded.
    classes, samples : int
        What the whole dataset has.
    tuning : {"each", "first"}
        Inside each training part, or inside the first alone.
    """

    title: str
    description: str
    n_components: int
    protocol: Protocol
    load: Callable[..., Dataset] | None
    classes: int
    samples: int
    tuning: Tuning = "each"


BENCHMARKS: dict[str, Benchmark] = {
    "digits": Benchmark(
        "Handwritten digits",
        "A digit is recognized from a set of two 8 x 8 images, described by its 65 x 65 covariance-with-mean matrix.",
        20,
        Protocol(train=2, test=20),
        None,
        10,
        896,
        "first",
    ),
    "ytc": Benchmark(
        "YouTube Celebrities",
        "A person is recognized from the faces in a video clip, described by their 401 x 401 covariance with mean.",
        40,
        Protocol(train=3, test=6),
        load_ytc,
        47,
        1910,
    ),
    "uiuc": Benchmark(
        "UIUC materials",
        "A material is recognized from an image, described by the 128 x 128 covariance of its dense SIFT descriptors.",
        40,
        Protocol(),
        load_uiuc,
        18,
        216,
    ),
    "hdm05": Benchmark(
        "HDM05 motions",
        "An action is recognized from motion capture, described by the 93 x 93 covariance of its joint positions.",
        30,
        Protocol(),
        load_hdm05,
        130,
        2337,
    ),
}
#: the accuracies that the paper prints in its Tables 1 to 3: percent, mean and standard deviation over ten draws
_METHODS = (
    *("NN-AIM", "NN-Stein", "NN-LEM", "CDL", "RSR", "LEK-poly", "LEK-exp", "LEK-gauss", "LEML"),
    *("SPDML-AIM", "SPDML-Stein", "SPDML*-AIM", "SPDML*-Stein", "SPDML*-LEM", "SPDSL-AIM", "SPDSL-Stein", "SPDSL-LEM"),
)
_YTC = (
    *((62.85, 3.46), (61.46, 3.52), (63.91, 3.25)),
    *((72.67, 2.47), (72.77, 2.69), (61.85, 3.24), (62.17, 3.52), (56.30, 3.62)),
    *((70.53, 2.95), (64.66, 2.92), (61.57, 3.43)),
    *((64.27, 2.84), (62.31, 3.48), (69.32, 2.04), (71.60, 2.45), (71.03, 2.39), (72.29, 1.58)),
)
_UIUC = (
    *((46.30, 2.90), (42.87, 2.27), (46.30, 2.86)),
    *((54.91, 4.72), (52.41, 4.03), (48.89, 3.29), (49.54, 3.67), (49.63, 3.03)),
    *((52.53, 2.13), (48.09, 1.82), (49.17, 2.37)),
    *((50.00, 3.60), (49.35, 2.47), (50.28, 3.78), (52.31, 3.55), (51.57, 4.16), (52.13, 3.49)),
)
_HDM05 = (
    *((42.70, 1.74), (42.13, 2.63), (43.98, 2.13)),
    *((41.74, 1.92), (41.12, 2.53), (47.22, 1.62), (46.87, 1.72), (48.72, 3.00)),
    *((46.87, 2.19), (47.25, 2.78), (46.21, 2.65)),
    *((47.93, 2.62), (46.35, 2.45), (48.88, 3.18), (48.09, 2.49), (49.02, 2.93), (49.13, 2.74)),
)

#: dataset -> method -> (mean, standard deviation), in percent
PUBLISHED: dict[str, dict[str, tuple[float, float | None]]] = {
    name: dict(zip(_METHODS, figures, strict=True))
    for name, figures in (("ytc", _YTC), ("uiuc", _UIUC), ("hdm05", _HDM05))
}
ENOUGH = 0.9  # share of a dataset's files that must be usable; a few clips without a face are nobody's fault


def load_experiment(
    dataset: str | None = None,
    data: str | Path | None = None,
    *,
    draws: int | str | None = None,
    n_components: int | None = None,
    groups: str | None = None,
    at_most: bool = False,
    ridge: float = 0.0,
    partial: bool = False,
    jobs: int = 1,
    progress: Any = None,
) -> Experiment:
    """Load a dataset and draw its splits.

    Parameters
    ----------
    dataset : "digits", "ytc", "uiuc" or "hdm05", optional
        By default the embedded digits, or `data` as a stack of one's own.
    data : str or Path, optional
        The dataset's folder, or a file with `X` (N, n, n) and `y`. A file of one's own may also hold `groups` (N,), which
        are then kept on one side of a split, or the splits themselves: masks `train` and `test` (N,) or (draws, N).
    draws : int or "leave-one-group-out", optional
        10 by default; of given splits the first so many, by default all. With groups, draws of whole groups.
    n_components : int, optional
        m, where the protocol's is not wanted.
    groups : str, optional
        Name of the array of groups in a file of one's own; "groups" where there is one of that name.
    at_most : bool
        A file with fewer splits than `draws` is taken as it is.
    ridge : float
        `ridge * trace(X_i) I` is added to the matrices of a file.
    partial : bool
        Take a dataset of which a part is missing; published figures are then left out.
    jobs, progress
        For the extraction of features.
    """
    data = None if data is None else Path(data)
    check_source(dataset, data)
    if isinstance(draws, int) and draws < 1:
        raise ValueError(f"draws={draws} is out of range: it must be at least 1")
    if dataset is None and data is not None:
        return _own(data, draws, n_components, ridge, at_most, groups)
    if groups is not None or isinstance(draws, str):
        raise ValueError("groups belong to a file of your own: the splits of a named dataset are those of the paper")
    name = dataset or "digits"
    benchmark = BENCHMARKS[name]
    if ridge and (data is None or not data.is_file()):
        raise ValueError("a ridge is added to the matrices of a file alone: those of this dataset have theirs already")
    X, y = _read(benchmark, data, ridge, jobs, progress)
    whole = _complete(name, benchmark, X, y, partial)
    count = draws or DRAWS
    protocol = Protocol(benchmark.protocol.train, benchmark.protocol.test, ENDLESS)
    splits = take_distinct(protocol.splits(y, SEED), count)
    return Experiment(
        name,
        benchmark.title,
        benchmark.description,
        X,
        y,
        splits,
        f"{_counted(splits, count)} (seed {SEED}): {_words(protocol)}",
        _components(n_components or benchmark.n_components, X),
        benchmark.tuning,
        PUBLISHED.get(name, {}) if whole else {},
    )


def check_source(dataset: str | None, data: Path | None) -> None:
    """Raise an error that says what to give, where a dataset and its data do not go together or are not there."""
    if dataset is None:
        folders = [name for name, benchmark in BENCHMARKS.items() if benchmark.load is not None]
        if data is not None and data.is_dir():
            raise FeatureError(
                f"{data}: a folder; name the dataset in it ({', '.join(folders)}), or make a file of your own media with "
                "`spdsl features` and give that"
            )
        if data is not None and not data.exists():
            raise FeatureError(f"{data}: no such file")
        return
    if dataset not in BENCHMARKS:
        raise ValueError(
            f"unknown dataset {dataset!r}; choose among {', '.join(BENCHMARKS)}, or give a file of your own"
        )
    benchmark = BENCHMARKS[dataset]
    if benchmark.load is None and data is not None:
        raise ValueError(f"{dataset!r} is embedded and takes no data; for a stack of your own leave {dataset!r} out")
    if benchmark.load is not None and data is None:
        raise ValueError(
            f"{dataset!r} is not embedded: give the folder that holds {benchmark.title} with --data FOLDER"
        )
    if benchmark.load is not None and data is not None and not data.exists():
        benchmark.load(data)  # its error says what the folder should hold and who publishes it


def _counted(splits: list[Split], wanted: int) -> str:
    """How many draws there are."""
    return f"{len(splits)} random draws" if len(splits) == wanted else f"all {len(splits)} draws that exist"


def _words(protocol: Protocol) -> str:
    if protocol.train is None:
        return "half of each class to train, the other half to test"
    return f"{protocol.train} samples of each class to train, {protocol.test or 'all the others'} to test"


def _components(m: int, X: np.ndarray) -> int:
    """A size that the matrices allow, or an error."""
    if X.shape[-1] < 2:
        raise ValueError("matrices of size 1 x 1 cannot be reduced; give at least 2 x 2")
    if not 1 <= m < X.shape[-1]:
        raise ValueError(
            f"{m} components are out of range: matrices of size {X.shape[-1]} can be reduced to 1..{X.shape[-1] - 1}; "
            "choose with --components"
        )
    return m


def _read(
    benchmark: Benchmark, data: Path | None, ridge: float, jobs: int, progress: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Matrices and labels of a named dataset, from nowhere, from its folder, or from a ready-made stack."""
    if benchmark.load is None or data is None:
        return load_digit_sets()
    if data.is_file():
        return _stack(data, ridge)
    loaded = benchmark.load(data, jobs=jobs, progress=progress)
    return np.asarray(check_spd(loaded.X)), loaded.y


def _complete(name: str, benchmark: Benchmark, X: np.ndarray, y: np.ndarray, partial: bool) -> bool:
    """Whether the dataset is all there; an error where it is not and a part of it was not asked for."""
    classes = len(np.unique(y))
    whole = classes == benchmark.classes and len(X) >= ENOUGH * benchmark.samples
    if not whole and not partial:
        raise FeatureError(
            f"{name}: {len(X)} usable samples of {classes} classes found where {benchmark.title} has {benchmark.samples} of "
            f"{benchmark.classes}; add what is missing, or pass --partial to run on what is there, without published figures"
        )
    return whole


# ---------------------------------------------------------------------------------------------------- one's own stack


def _stack(path: Path, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    """Checked matrices and labels of a file."""
    X, y = load_spd(path)
    if y is None:
        raise FeatureError(f"{path}: no labels; save them beside X as an array y of {len(X)} entries, one per matrix")
    blank = np.flatnonzero([isinstance(label, str) and not label.strip() for label in y.tolist()])
    if len(blank):
        raise FeatureError(f"{path}: y[{blank[0]}] is empty, which is not a label; remove that sample or label it")
    try:
        X = np.asarray(check_spd(regularize(X, ridge) if ridge else X, blocks=True))
        classes, labels = check_labels(y, len(X))
    except ValueError as error:
        remedy = "; on the command line: --ridge 1e-3" if "add a ridge" in str(error) else ""
        raise FeatureError(f"{path}: {error}{remedy}") from None
    if len(classes) < 2:
        raise FeatureError(f"{path}: all labels are {str(classes[0])!r}; there must be two classes to tell apart")
    return X, classes[labels]


def _own(
    path: Path, draws: int | str | None, n_components: int | None, ridge: float, at_most: bool, name: str | None
) -> Experiment:
    """A stack of one's own with its own splits, or random halves."""
    X, y = _stack(path, ridge)
    extra = _extra_arrays(path, len(X))
    groups = read_groups(path, name)
    try:
        groups = check_groups(groups, len(X))
    except ValueError as error:
        raise FeatureError(f"{path}: {error}") from None
    if "train" in extra and not isinstance(draws, str):
        splits, how = _given_splits(path, extra, y, groups, draws, at_most)
    else:
        splits, how = _drawn(path, y, groups, draws or DRAWS)
    for k, (train, _) in enumerate(splits):
        if len(np.unique(y[train])) < 2:
            raise FeatureError(f"{path}: the training part of draw {k + 1} holds a single class; it must hold two")
    warn_of_unlearned(splits, y, f"{path}: ")
    m = n_components or max(1, min(round(X.shape[-1] / 3), 40))  # what the estimators take by default
    classes = len(np.unique(y))
    about = f"{count_matrices(X)} of {classes} classes, from {path.name}"
    about += f", with {ridge:g} of the trace added to the diagonal." if ridge else "."
    return Experiment(path.stem, path.stem, about, X, y, splits, how, _components(m, X), groups=groups)


def read_groups(path: Path, name: str | None = None) -> np.ndarray | None:
    """The array of groups in a file: the named one, or `groups` where there is one of that name."""
    wanted = name or "groups"
    if path.suffix.lower() == ".npz":
        found = read_npz(path, only=(wanted,)).get(wanted)
        if found is None and name is not None:
            raise FeatureError(f"{path}: no array named {name!r} for the groups")
        return found
    try:
        return load_spd(path, y=wanted)[1]
    except FeatureError as error:
        if name is None and "no array named" in str(error):
            return None
        raise


def _extra_arrays(path: Path, count: int) -> dict[str, np.ndarray]:
    """The arrays `train` and `test` of an .npz file, checked against the number of matrices."""
    extra = read_npz(path, only=("train", "test")) if path.suffix.lower() == ".npz" else {}
    if len(extra) == 1:
        raise FeatureError(f"{path}: splits need both `train` and `test`; only `{next(iter(extra))}` is there")
    for name, array in extra.items():
        if array.shape[-1:] != (count,) or array.ndim > 2:
            raise FeatureError(
                f"{path}: `{name}` has shape {array.shape}; it must be (N,) or (draws, N) with N = {count}"
            )
        if array.dtype != bool:
            raise FeatureError(f"{path}: `{name}` must hold booleans, got {array.dtype}; save {name}.astype(bool)")
    return extra


def _given_splits(
    path: Path,
    extra: Mapping[str, np.ndarray],
    y: np.ndarray,
    groups: np.ndarray | None,
    draws: int | None,
    at_most: bool,
) -> tuple[list[Split], str]:
    train, test = (np.atleast_2d(extra[name]) for name in ("train", "test"))
    if len(train) != len(test):
        raise FeatureError(f"{path}: {len(train)} rows of `train` and {len(test)} of `test`; they must be as many")
    if draws is not None and draws > len(train) and not at_most:
        raise FeatureError(f"{path}: {draws} draws asked for, the file has {len(train)}; ask for at most as many")
    try:
        splits = make_splits(list(zip(train, test, strict=True))[:draws], y, groups=groups)
    except ValueError as error:
        raise FeatureError(f"{path}: {error}") from None
    return splits, f"{len(splits)} split{'s' if len(splits) > 1 else ''} given in the file"


def _drawn(path: Path, y: np.ndarray, groups: np.ndarray | None, draws: int | str) -> tuple[list[Split], str]:
    """Leave-one-group-out, draws of whole groups, or random halves of each class."""
    try:
        if isinstance(draws, str):
            splits = leave_one_group_out(groups)
            return splits, f"{LEAVE_ONE_GROUP_OUT}: each of {len(splits)} groups is tested once"
        if groups is not None:
            splits = draw_groups(y, groups, draws, SEED)
            return (
                splits,
                f"{_counted(splits, draws)} (seed {SEED}): half of the {len(np.unique(groups))} groups to test",
            )
    except ValueError as error:
        raise FeatureError(f"{path}: {error}") from None
    protocol = Protocol(draws=ENDLESS)
    smallest = np.unique(y, return_counts=True)[1].min()
    if smallest < 2:
        name = next(str(label) for label in np.unique(y) if np.sum(y == label) < 2)
        raise FeatureError(f"{path}: class {name!r} has a single sample; halves need two: leave it out")
    splits = take_distinct(protocol.splits(y, SEED), draws)
    return splits, f"{_counted(splits, draws)} (seed {SEED}): {_words(protocol)}"
