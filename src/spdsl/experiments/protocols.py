"""What is run: the paper's datasets and protocols, the embedded digits, and a stack of one's own."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from spdsl.datasets import Dataset, Protocol, load_digit_sets, load_hdm05, load_spd, load_uiuc, load_ytc
from spdsl.experiments.published import PUBLISHED
from spdsl.experiments.splits import Split, make_splits
from spdsl.features.errors import FeatureError
from spdsl.features.numpy_files import read_npz
from spdsl.validation import check_labels, check_spd, regularize

Tuning = Literal["each", "first", "none"]
SEED = 0  # of the draws, of the folds and of every random start
DRAWS = 10


@dataclass(frozen=True)
class Study:
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


STUDIES: dict[str, Study] = {
    "digits": Study(
        "Handwritten digits",
        "A digit is recognised from a set of two 8 x 8 images, described by its 65 x 65 covariance-with-mean matrix.",
        20,
        Protocol(train=2, test=20),
        None,
        10,
        896,
        "first",
    ),
    "ytc": Study(
        "YouTube Celebrities",
        "A person is recognised from the faces in a video clip, described by their 401 x 401 covariance with mean.",
        40,
        Protocol(train=3, test=6),
        load_ytc,
        47,
        1910,
    ),
    "uiuc": Study(
        "UIUC materials",
        "A material is recognised from an image, described by the 128 x 128 covariance of its dense SIFT descriptors.",
        40,
        Protocol(),
        load_uiuc,
        18,
        216,
    ),
    "hdm05": Study(
        "HDM05 motions",
        "An action is recognised from motion capture, described by the 93 x 93 covariance of its joint positions.",
        30,
        Protocol(),
        load_hdm05,
        130,
        2337,
    ),
}
ENOUGH = 0.9  # share of a dataset's files that must be usable; a few clips without a face are nobody's fault


@dataclass(frozen=True)
class Experiment:
    """Data, splits and settings of a run.

    Attributes
    ----------
    name, title, description : str
    X : (N, n, n)
    y : (N,)
    splits : list of (train, test)
        The same for every method.
    how : str
        The splits in words.
    n_components : int
    tuning : {"each", "first"}
        Where parameters are chosen unless asked otherwise.
    published : dict
        Method to (mean, standard deviation) in percent.
    digest : str
        Of X and y.
    """

    name: str
    title: str
    description: str
    X: np.ndarray
    y: np.ndarray
    splits: list[Split]
    how: str
    n_components: int
    tuning: Tuning = "each"
    published: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Digest of the matrices and labels."""
        return digest_data(self.X, self.y)


def load_experiment(
    dataset: str | None = None,
    data: str | Path | None = None,
    *,
    draws: int | None = None,
    n_components: int | None = None,
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
    draws : int, optional
        10 by default; of given splits the first so many, by default all.
    n_components : int, optional
        m, where the protocol's is not wanted.
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
    if draws is not None and draws < 1:
        raise ValueError(f"draws={draws} is out of range: it must be at least 1")
    if dataset is None and data is not None:
        return _own(data, draws, n_components, ridge, at_most)
    name = dataset or "digits"
    study = STUDIES[name]
    if ridge and (data is None or not data.is_file()):
        raise ValueError("a ridge is added to the matrices of a file alone: those of this dataset have theirs already")
    X, y = _read(study, data, ridge, jobs, progress)
    whole = _complete(name, study, X, y, partial)
    protocol = Protocol(study.protocol.train, study.protocol.test, draws or DRAWS)
    return Experiment(
        name,
        study.title,
        study.description,
        X,
        y,
        list(protocol.splits(y, SEED)),
        f"{protocol.draws} random draws (seed {SEED}): {_words(protocol)}",
        _components(n_components or study.n_components, X),
        study.tuning,
        PUBLISHED.get(name, {}) if whole else {},
    )


def check_source(dataset: str | None, data: Path | None) -> None:
    """Raise an error that says what to give, where a dataset and its data do not go together or are not there."""
    if dataset is None:
        folders = [name for name, study in STUDIES.items() if study.load is not None]
        if data is not None and data.is_dir():
            raise FeatureError(
                f"{data}: a folder; name the dataset in it ({', '.join(folders)}), or make a file of your own media with "
                "`spdsl features` and give that"
            )
        if data is not None and not data.exists():
            raise FeatureError(f"{data}: no such file")
        return
    if dataset not in STUDIES:
        raise ValueError(f"unknown dataset {dataset!r}; choose among {', '.join(STUDIES)}, or give a file of your own")
    study = STUDIES[dataset]
    if study.load is None and data is not None:
        raise ValueError(f"{dataset!r} is embedded and takes no data; for a stack of your own leave {dataset!r} out")
    if study.load is not None and data is None:
        raise ValueError(f"{dataset!r} is not embedded: give the folder that holds {study.title} with --data FOLDER")
    if study.load is not None and data is not None and not data.exists():
        study.load(data)  # its error says what the folder should hold and who publishes it


def digest_data(X: np.ndarray, y: np.ndarray) -> str:
    """SHA-256 of the numbers, shape and labels, a matrix at a time."""
    found = hashlib.sha256(f"{X.shape} {X.dtype} {np.asarray(y).tolist()}".encode())
    for matrix in X:
        found.update(np.ascontiguousarray(matrix).data)
    return found.hexdigest()


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


def _read(study: Study, data: Path | None, ridge: float, jobs: int, progress: Any) -> tuple[np.ndarray, np.ndarray]:
    """Matrices and labels of a named dataset, from nowhere, from its folder, or from a ready-made stack."""
    if study.load is None or data is None:
        return load_digit_sets()
    if data.is_file():
        return _stack(data, ridge)
    loaded = study.load(data, jobs=jobs, progress=progress)
    return np.asarray(check_spd(loaded.X)), loaded.y


def _complete(name: str, study: Study, X: np.ndarray, y: np.ndarray, partial: bool) -> bool:
    """Whether the dataset is all there; an error where it is not and a part of it was not asked for."""
    classes = len(np.unique(y))
    whole = classes == study.classes and len(X) >= ENOUGH * study.samples
    if not whole and not partial:
        raise FeatureError(
            f"{name}: {len(X)} usable samples of {classes} classes found where {study.title} has {study.samples} of "
            f"{study.classes}; add what is missing, or pass --partial to run on what is there, without published figures"
        )
    return whole


# ---------------------------------------------------------------------------------------------------- one's own stack


def _stack(path: Path, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    """Checked matrices and labels of a file."""
    X, y = load_spd(path)
    if y is None:
        raise FeatureError(f"{path}: no labels; save them beside X as an array y of {len(X)} entries, one per matrix")
    try:
        X = np.asarray(check_spd(regularize(X, ridge) if ridge else X))
        classes, labels = check_labels(y, len(X))
    except ValueError as error:
        remedy = "; on the command line: --ridge 1e-3" if "add a ridge" in str(error) else ""
        raise FeatureError(f"{path}: {error}{remedy}") from None
    if len(classes) < 2:
        raise FeatureError(f"{path}: all labels are {str(classes[0])!r}; there must be two classes to tell apart")
    return X, classes[labels]


def _own(path: Path, draws: int | None, n_components: int | None, ridge: float, at_most: bool) -> Experiment:
    """A stack of one's own with its own splits, or random halves."""
    X, y = _stack(path, ridge)
    extra = _extra_arrays(path, len(X))
    if "train" in extra:
        splits, how = _given_splits(path, extra, y, draws, at_most)
    else:
        splits, how = _drawn(path, y, extra.get("groups"), draws or DRAWS)
    for k, (train, test) in enumerate(splits):
        if len(np.unique(y[train])) < 2:
            raise FeatureError(f"{path}: the training part of draw {k + 1} holds a single class; it must hold two")
        unseen = np.setdiff1d(y[test], y[train])
        if len(unseen):
            warnings.warn(
                f"{path}: class {str(unseen[0])!r} is tested in draw {k + 1} but not in its training part",
                UserWarning,
                stacklevel=3,
            )
    m = n_components or max(1, min(round(X.shape[-1] / 3), 40))  # what the estimators take by default
    classes = len(np.unique(y))
    about = f"{len(X)} matrices {X.shape[-1]} x {X.shape[-1]} of {classes} classes, from {path.name}"
    about += f", with {ridge:g} of the trace added to the diagonal." if ridge else "."
    return Experiment(path.stem, path.stem, about, X, y, splits, how, _components(m, X))


def _extra_arrays(path: Path, count: int) -> dict[str, np.ndarray]:
    """The arrays `groups`, `train` and `test` of an .npz file, checked against the number of matrices."""
    if path.suffix.lower() != ".npz":
        return {}
    extra = read_npz(path, only=("groups", "train", "test"))
    if ("train" in extra) != ("test" in extra):
        raise FeatureError(f"{path}: splits need both `train` and `test`; only `{'/'.join(extra)}` is there")
    for name, array in extra.items():
        if array.shape[-1:] != (count,) or array.ndim > (1 if name == "groups" else 2):
            wanted = "(N,)" if name == "groups" else "(N,) or (draws, N)"
            raise FeatureError(f"{path}: `{name}` has shape {array.shape}; it must be {wanted} with N = {count}")
        if name != "groups" and array.dtype != bool:
            raise FeatureError(f"{path}: `{name}` must hold booleans, got {array.dtype}; save {name}.astype(bool)")
    return extra


def _given_splits(
    path: Path, extra: Mapping[str, np.ndarray], y: np.ndarray, draws: int | None, at_most: bool
) -> tuple[list[Split], str]:
    train, test = (np.atleast_2d(extra[name]) for name in ("train", "test"))
    if len(train) != len(test):
        raise FeatureError(f"{path}: {len(train)} rows of `train` and {len(test)} of `test`; they must be as many")
    if draws is not None and draws > len(train) and not at_most:
        raise FeatureError(f"{path}: {draws} draws asked for, the file has {len(train)}; ask for at most as many")
    try:
        splits = make_splits(list(zip(train, test, strict=True))[:draws], y)
    except ValueError as error:
        raise FeatureError(f"{path}: {error}") from None
    return splits, f"{len(splits)} split{'s' if len(splits) > 1 else ''} given in the file"


def _drawn(path: Path, y: np.ndarray, groups: np.ndarray | None, draws: int) -> tuple[list[Split], str]:
    if groups is None:
        protocol = Protocol(draws=draws)
        smallest = np.unique(y, return_counts=True)[1].min()
        if smallest < 2:
            name = next(str(label) for label in np.unique(y) if np.sum(y == label) < 2)
            raise FeatureError(f"{path}: class {name!r} has a single sample; halves need two: leave it out")
        return list(protocol.splits(y, SEED)), f"{draws} random draws (seed {SEED}): {_words(protocol)}"
    from sklearn.model_selection import StratifiedGroupKFold  # slow to import

    if len(np.unique(groups)) < 2:
        raise FeatureError(f"{path}: `groups` has a single group; splits that keep groups together need two")
    splits = []
    for k in range(draws):
        halves = StratifiedGroupKFold(2, shuffle=True, random_state=SEED + k)
        splits.append(next(iter(halves.split(np.zeros(len(y)), y, groups))))
    return splits, f"{draws} random draws (seeds {SEED} to {SEED + draws - 1}): half of the groups to train"
