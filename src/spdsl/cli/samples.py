"""Read the samples of a command: a file with matrices, a media file, or a folder of these."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from spdsl.cli.progress import shown
from spdsl.cli.text import say
from spdsl.data.labels import is_unlabeled
from spdsl.data.validation import check_spd, regularize
from spdsl.datasets import load_spd
from spdsl.datasets.exporting import LABELS, stack_origin
from spdsl.datasets.files import find_samples
from spdsl.datasets.loading import Label, Source, load_folder
from spdsl.datasets.spd import STACK_SUFFIXES
from spdsl.evaluation.protocols import read_groups
from spdsl.evaluation.splits import check_groups
from spdsl.features.errors import FeatureError
from spdsl.features.images import IMAGE_SUFFIXES, frame_files
from spdsl.features.recipes import KINDS, Recipe
from spdsl.models.files import check_not_input, check_target


@dataclass(frozen=True)
class Samples:
    """Matrices, and what is known of them.

    Attributes
    ----------
    path : Path
        Where they come from.
    X : ndarray (N, n, n) or (N, b, n, n)
    labels : ndarray (N,) or None
        Some may be missing: see `is_unlabeled`.
    files : ndarray of str (N,) or None
        The file behind each.
    recipe : Recipe or None
        How they were made of these files.
    """

    path: Path
    X: np.ndarray
    labels: np.ndarray | None = None
    files: np.ndarray | None = None
    recipe: Recipe | None = None

    def __len__(self) -> int:
        return len(self.X)

    @property
    def unlabeled(self) -> np.ndarray:
        """Which samples (N,) have no label."""
        return np.ones(len(self), bool) if self.labels is None else is_unlabeled(self.labels)

    def chosen(self, which: np.ndarray) -> Samples:
        """Some of the samples."""
        labels, files = (None if part is None else part[which] for part in (self.labels, self.files))
        return replace(self, X=self.X[which], labels=labels, files=files)

    def name(self, k: int) -> str:
        """What to call sample k in a message."""
        return f"X[{k}]" if self.files is None else f"{self.files[k]} (X[{k}])"


def read_samples(
    path: Path,
    recipe: Recipe | None,
    *,
    labels: str = "none",
    strict: bool = False,
    jobs: int = 1,
    x: str | None = None,
    y: str | None = None,
) -> Samples:
    """The samples of a file with matrices, or of media by the recipe.

    `labels` is how folders tell classes: a name in `LABELS`. Files that have no class so are skipped if `strict`.
    """
    if path.is_dir():
        if recipe is None:
            raise ValueError(
                f"{path} is a folder, but the model was fitted to matrices and knows no recipe for files; fit one with "
                f"`spdsl fit FOLDER --recipe {'|'.join(KINDS)}`, or name a file with matrices"
            )
        if recipe.folders and frame_files(path):
            return _one(path, recipe)
        return _folder(path, recipe, LABELS[labels] if strict else _lenient(LABELS[labels]), jobs)
    if recipe is not None and _is_medium(path, recipe):
        return _one(path, recipe)
    return _stack(path, recipe, x, y)


def check_output(output: Path | None, source: Path, recipe: Recipe | None, *others: Path) -> None:
    """Raise if an output cannot be written, or would replace an input: the source, a file of it, or one of `others`."""
    if output is None:
        return
    check_target(output)
    check_not_input(output, source, *others)
    if recipe is not None and source.is_dir() and output.exists():
        kinds = (*recipe.suffixes, *(IMAGE_SUFFIXES if recipe.folders else ()))
        check_not_input(output, *(path for path in source.rglob("*") if path.suffix.lower() in kinds))


def check_recipe(source: Path, recipe: Recipe | None) -> None:
    """Raise if no file can be read since an option is wrong: what the first file says that is no fault of the file."""
    if recipe is None or not recipe.options or not source.is_dir():
        return
    for sample in find_samples(source, recipe)[:1]:
        try:
            recipe(source / sample)
        except (FeatureError, OSError):
            return
        except (TypeError, ValueError) as error:
            raise ValueError(f"the recipe `{recipe.described()}`: {error}") from error


def read_labeled(
    path: Path, ridge: float, x: str | None, y: str | None, groups: str | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Checked matrices, labels and groups, if there are any, of the samples of a file that have a label."""
    whole = _stack(path, None, x, y)
    try:
        names = check_groups(read_groups(path, groups), len(whole))
    except FeatureError:
        raise
    except ValueError as error:
        raise FeatureError(f"{path}: {error}") from None
    samples = checked(only_labeled(whole), ridge)
    assert samples.labels is not None
    return samples.X, samples.labels, None if names is None else names[~whole.unlabeled]


def only_labeled(samples: Samples) -> Samples:
    """The samples that have a label, after saying how many have none; an error if none has."""
    without = samples.unlabeled
    if without.all():
        remedy = "add an array y of that length, or name one with --y" if samples.labels is None else "label them"
        raise ValueError(f"{samples.path}: no labels found for the {len(samples)} matrices; {remedy}")
    if not without.any():
        return samples
    say(f"warning: {samples.path}: {without.sum()} of {len(samples)} samples have no label and are left out", err=True)
    return samples.chosen(~without)


def checked(samples: Samples, ridge: float) -> Samples:
    """The samples with the ridge, if they are then positive definite."""
    with named(samples):
        return replace(samples, X=check_spd(regularize(samples.X, ridge) if ridge else samples.X, blocks=True))


@contextmanager
def named(samples: Samples) -> Iterator[None]:
    """Let errors about X name the file, and options instead of functions."""
    try:
        yield
    except ValueError as error:
        text = str(error)
        if not re.match(r"X\b", text):
            raise
        text = re.sub(r"^X\[(\d+)\]", lambda found: samples.name(int(found[1])), text)
        text = text.replace("add a ridge, e.g. regularize(X, 1e-3)", "fit with a ridge, e.g. --ridge 1e-3")
        raise ValueError(f"{samples.path}: {text.replace('regularize(X, 1e-3)', '--ridge 1e-3')}") from error


def _stack(path: Path, recipe: Recipe | None, x: str | None, y: str | None) -> Samples:
    """The samples of a file with matrices."""
    if path.is_file() and path.suffix.lower() not in STACK_SUFFIXES:
        folders = " and folders of images" if recipe and recipe.folders else ""
        takes = (
            f"the recipe {recipe.kind} takes {' '.join(recipe.suffixes)}{folders}"
            if recipe
            else "raw files need a recipe"
        )
        raise FeatureError(f"{path}: unknown kind of file; matrices come in {' '.join(STACK_SUFFIXES)}, and {takes}")
    try:
        X, labels = load_spd(path, X=x, y=y)
    except ValueError as error:
        named_by = r"call the one that is meant X, or name it, e\.g\. load_spd\(path, X='(.*?)'\)"
        raise ValueError(re.sub(named_by, r"name one with --x, e.g. --x \1", str(error))) from error
    made, files = stack_origin(path)
    return Samples(path, X, labels, files if files is not None and len(files) == len(X) else None, made)


def _is_medium(path: Path, recipe: Recipe) -> bool:
    """Whether a file is one that the recipe takes, rather than one with matrices; .npy files may be either."""
    suffix = path.suffix.lower()
    if suffix not in recipe.suffixes or suffix != ".npy" or not path.is_file():
        return suffix in recipe.suffixes
    try:
        shape = np.load(path, mmap_mode="r", allow_pickle=False).shape
    except (ValueError, OSError, EOFError):
        return True  # its reader will say what is wrong
    return not (len(shape) == 3 and shape[1] == shape[2])


def _one(path: Path, recipe: Recipe) -> Samples:
    """The samples of one file, or of one folder of frames."""
    if not path.exists():
        raise FeatureError(f"{path}: no such file")
    matrices, _ = recipe(path)
    return Samples(path, matrices, None, np.repeat(np.array([str(path)]), len(matrices)), recipe)


def _folder(path: Path, recipe: Recipe, label: Label, jobs: int) -> Samples:
    """The samples of a folder; results are kept in the cache, so that an interrupted command resumes."""
    source = Source(f"the recipe {recipe.kind}", f"{' '.join(recipe.suffixes)} files")
    with shown("features") as progress:
        found = load_folder(path, recipe, label, source, jobs=jobs, progress=progress)
    return Samples(path, found.X, found.y, found.files, recipe)


def _lenient(label: Label) -> Label:
    """The same function, but a sample whose class it cannot tell is unlabeled."""

    def read(sample: Path) -> str:
        try:
            return label(sample)
        except FeatureError:
            return ""

    return read
