"""From a folder to a dataset: find, label, extract, cache."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from spdsl.datasets.extraction import Progress, common_shape, discard, extract, restore_parts, write_stack
from spdsl.datasets.files import INDEX, alone_in, find_samples, fingerprint
from spdsl.datasets.protocol import Protocol
from spdsl.features.errors import FeatureError
from spdsl.features.recipes import Recipe
from spdsl.models.files import written_whole

STACK = re.compile(r"stack-[0-9a-f]{16}\.npy")
Cache = str | Path | bool | None
Errors = Literal["report", "raise"]
Label = Callable[[Path], str]  # sample, relative to the folder -> class; raises FeatureError where there is none


class SkippedFilesWarning(UserWarning):
    """Some files of a dataset could not be used; `Dataset.skipped` lists them with the reasons."""


@dataclass
class Dataset:
    """A stack of SPD matrices with labels; unpacks as `X, y, protocol`.

    Attributes
    ----------
    X : ndarray (N, n, n), or (N, b, n, n) where a sample is several matrices
        The matrices. Where they come from a cache they are mapped from disk and copied only when written to.
    y : ndarray of str (N,)
        Class of each.
    protocol : Protocol
        How the paper splits the dataset.
    files : ndarray of str (N,)
        The file behind each matrix, relative to the folder.
    notes : dict
        File to a line about it, e.g. in how many frames a face was found.
    skipped : dict
        File to the reason for which it was left out.

    Examples
    --------
    >>> import os
    >>> import numpy as np
    >>> from spdsl.datasets import load_mocap_folder
    >>> for name in ("jump", "walk"):
    ...     os.makedirs(f"clips/{name}")
    ...     for k in range(4):
    ...         np.save(f"clips/{name}/{k}.npy", np.random.default_rng(k).random((50, 5, 3)))
    >>> X, y, protocol = load_mocap_folder("clips", cache=False)
    >>> [(len(train), len(test)) for train, test in protocol.splits(y)][0]
    (4, 4)
    """

    X: np.ndarray
    y: np.ndarray
    protocol: Protocol
    files: np.ndarray
    notes: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.X, self.y, self.protocol))


@dataclass(frozen=True)
class Source:
    """What a loader expects in its folder, for its error messages."""

    name: str
    expected: str
    published: str = ""

    def missing(self, folder: Path, found: str) -> FeatureError:
        """The error for a folder that does not hold the dataset."""
        published = f" Its authors publish it at {self.published}." if self.published else ""
        return FeatureError(f"{folder}: {found}; {self.name} needs {self.expected}.{published}")


def load_folder(
    folder: str | Path,
    recipe: Recipe,
    label: Label,
    source: Source,
    *,
    protocol: Protocol | None = None,
    cache: Cache = None,
    jobs: int = 1,
    errors: Errors = "report",
    progress: Progress | None = None,
) -> Dataset:
    """Load a dataset from its folder, through the cache; what the loaders of this package share.

    Parameters
    ----------
    folder : str or Path
        The dataset's folder.
    recipe : Recipe
        How a file becomes a matrix.
    label : callable
        Sample to class.
    source : Source
        What was expected, for messages.
    protocol : Protocol, optional
        Half and half, ten times, by default.
    cache, jobs, errors, progress
        As in `load_image_folder`.
    """
    folder = Path(folder)
    if errors not in ("report", "raise"):
        raise ValueError(f"errors={errors!r}: it must be 'report' or 'raise'")
    samples, labels, skipped = label_samples(folder, recipe, label, source)
    names = {sample: f"{fingerprint(folder, sample, recipe)}.npz" for sample in samples}
    with _place(cache, folder, recipe) as place:
        index, X = _read(place)
        if not _serves(index, names):
            with alone_in(place):
                index, X = _read(place)  # again: another process may have built it while this one waited
                if not _serves(index, names):
                    _build(place, folder, list(names), recipe, jobs, errors, progress)
                    index, X = _read(place)
        assert index is not None
        X = np.array(X) if cache is False else X  # a temporary folder is about to go
    skipped |= index["skipped"]
    if errors == "raise" and skipped:
        raise FeatureError(next(iter(skipped.values())))
    if not index["files"]:
        raise source.missing(folder, f"none of {len(skipped)} files can be used, e.g. {next(iter(skipped.values()))}")
    if skipped:
        first = next(iter(skipped.values()))
        text = f"{source.name}: {len(skipped)} of {len(samples) + len(skipped - index['skipped'].keys())} files skipped"
        warnings.warn(f"{text}, e.g. {first}", SkippedFilesWarning, stacklevel=3)
    files = np.repeat(np.array(index["files"]), index["counts"])
    y = np.array([labels[Path(file)] for file in files])
    notes = {file: note for file, note in zip(index["files"], index["notes"], strict=True) if note}
    return Dataset(np.asarray(X), y, protocol or Protocol(), files, notes, skipped)


def label_samples(
    folder: Path, recipe: Recipe, label: Label, source: Source
) -> tuple[list[Path], dict[Path, str], dict[str, str]]:
    """Samples that have a class, their classes, and why the others are skipped; an error when there are none."""
    if not folder.is_dir():
        raise source.missing(folder, "a file, not a folder" if folder.exists() else "no such folder")
    found = find_samples(folder, recipe)
    labels: dict[Path, str] = {}
    skipped: dict[str, str] = {}
    for sample in found:
        try:
            labels[sample] = label(sample)
        except FeatureError as error:
            skipped[sample.as_posix()] = str(error)
    if not labels:
        kinds = " ".join(recipe.suffixes)
        example = f", none with a usable name, e.g. {next(iter(skipped.values()))}" if skipped else ""
        raise source.missing(folder, f"{len(found)} files of the kinds {kinds} found{example}")
    return list(labels), labels, skipped


# ------------------------------------------------------------------------------------------------------------ the cache


def cache_folder(cache: Cache, folder: Path, recipe: Recipe) -> Path:
    """Where the results of a recipe on a folder are kept."""
    if cache == "beside":
        return folder / ".spdsl-cache" / recipe.key()
    if cache in (None, True):
        default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spdsl"
        base = Path(os.environ.get("SPDSL_CACHE") or default)
    else:
        base = Path(str(cache))
    where = hashlib.sha256(str(folder.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return base / f"{folder.resolve().name}-{where}" / recipe.key()


@contextmanager
def _place(cache: Cache, folder: Path, recipe: Recipe) -> Iterator[Path]:
    """The cache folder, or a temporary one that goes away."""
    if cache is False:
        with tempfile.TemporaryDirectory(prefix="spdsl-") as name:
            yield Path(name)
    else:
        yield cache_folder(cache, folder, recipe)


def _read(place: Path) -> tuple[dict[str, Any] | None, np.ndarray]:
    """Index and stack of a finished cache; the index is written last and names its stack, so that the two agree."""
    try:
        index = json.loads((place / INDEX).read_text(encoding="utf-8"))
        if not STACK.fullmatch(index["stack"]):  # of somebody else's making: it could lead out of the folder
            return None, np.empty(0)
        X = np.load(place / index["stack"], mmap_mode="c" if index["files"] else None)
        return (index, X) if _whole(index, X) else (None, X)
    except Exception:  # none there, or damaged by something else than us: it is built again
        return None, np.empty(0)


def _whole(index: dict[str, Any], X: np.ndarray) -> bool:
    """Whether an index and a stack are what we write."""
    rows = zip(index["used"], index["files"], index["counts"], index["notes"], strict=True)
    return (
        all(isinstance(count, int) and count >= 0 and isinstance(file, str) for _, file, count, _ in rows)
        and X.ndim in (3, 4)
        and (X.dtype, len(X)) == (np.float64, sum(index["counts"]))
        and X.shape[-2] == X.shape[-1]
        and all(isinstance(reason, str) for reason in index["skipped"].values())
    )


def _serves(index: dict[str, Any] | None, names: dict[Path, str]) -> bool:
    """Whether an index is of just these samples."""
    return (
        index is not None
        and index["parts"] == list(names.values())
        and all(Path(file) in names for file in index["files"])
    )


def _build(
    place: Path,
    folder: Path,
    samples: list[Path],
    recipe: Recipe,
    jobs: int,
    errors: Errors,
    progress: Progress | None,
) -> None:
    """Extract what is not there yet, stack it, write stack and index.

    A failure that is not the fault of a file's content stays out of the index, so that the next load tries again.
    """
    store = place / "parts"
    old, X = _read(place)
    if old is not None:
        restore_parts(store, X, old["used"], old["counts"], old["notes"])
    outcomes = extract(folder, samples, recipe, store, jobs=jobs, progress=progress)
    good, bad = common_shape(outcomes)
    if errors == "raise" and bad:
        raise FeatureError(bad[0].error)
    used = [outcome.part.name for outcome in good]
    stack = f"stack-{hashlib.sha256(' '.join(used).encode()).hexdigest()[:16]}.npy"  # other rows, another name
    with written_whole(place / stack) as file:
        counts = write_stack(file, good)
    index = {
        "recipe": recipe.text(),
        "stack": stack,
        "parts": [outcome.part.name for outcome in outcomes if outcome.lasting or not outcome.error],
        "used": used,
        "files": [outcome.sample.as_posix() for outcome in good],
        "counts": counts,
        "notes": [outcome.note for outcome in good],
        "skipped": {outcome.sample.as_posix(): outcome.error for outcome in bad},
    }
    with written_whole(place / INDEX) as file:
        file.write(json.dumps(index).encode())
    discard(store)
    for path in place.glob("stack*.npy"):
        if path.name != stack:
            with suppress(OSError):  # Windows removes no file that is mapped; the next rebuild does
                path.unlink()
