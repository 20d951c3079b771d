"""The recipes by name: a file and options to SPD matrices and a line for the report."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spdsl.features.amc import find_skeleton
from spdsl.features.errors import FeatureError
from spdsl.features.faces import face_covariance
from spdsl.features.image_sets import image_set_covariance
from spdsl.features.images import IMAGE_SUFFIXES, VIDEO_SUFFIXES
from spdsl.features.materials import material_covariance, region_covariance
from spdsl.features.motion import MOTION_SUFFIXES, motion_covariance
from spdsl.features.signals import SIGNAL_SUFFIXES, signal_file_covariance


@dataclass(frozen=True)
class Kind:
    """One kind of media: which files it takes, and how one becomes k samples (k, n, n) or (k, b, n, n) and a note.

    `version` counts changes of the numbers that come out, so that results cached before a change are not used after it.
    """

    suffixes: tuple[str, ...]
    function: Callable[..., Any]  # whose keyword arguments are the options
    extract: Callable[..., tuple[np.ndarray, str]]
    version: int = 2
    folders: bool = False  # whether a folder of images is one sample


def _faces(path: Path, **options: Any) -> tuple[np.ndarray, str]:
    matrix, track = face_covariance(path, **options)
    return matrix[None], track.summary()


def _materials(path: Path, **options: Any) -> tuple[np.ndarray, str]:
    return material_covariance(path, **options)[None], ""


def _sets(path: Path, **options: Any) -> tuple[np.ndarray, str]:
    return image_set_covariance(path, **options)[None], ""


def _regions(path: Path, **options: Any) -> tuple[np.ndarray, str]:
    return region_covariance(path, **options)[None], ""


def _motion(path: Path, **options: Any) -> tuple[np.ndarray, str]:
    return motion_covariance(path, **options)[None], ""


def _signals(path: Path, **options: Any) -> tuple[np.ndarray, str]:
    return signal_file_covariance(path, **options), ""


KINDS: dict[str, Kind] = {
    "faces": Kind(VIDEO_SUFFIXES, face_covariance, _faces, folders=True),
    "materials": Kind(IMAGE_SUFFIXES, material_covariance, _materials),
    "sets": Kind(VIDEO_SUFFIXES, image_set_covariance, _sets, folders=True),
    "regions": Kind(IMAGE_SUFFIXES, region_covariance, _regions),
    "motion": Kind(MOTION_SUFFIXES, motion_covariance, _motion),
    "signals": Kind(SIGNAL_SUFFIXES, signal_file_covariance, _signals),
}


@dataclass(frozen=True)
class Recipe:
    """A kind of media with its options, and a key under which its results are kept.

    Parameters
    ----------
    kind : str
        A name in `KINDS`: faces, materials, sets, regions, motion, signals.
    options : mapping
        Keyword arguments of the kind's function, e.g. `ridge` or `size`.

    Examples
    --------
    >>> from spdsl.features import Recipe
    >>> Recipe("regions", {"size": 64}).defaults()
    {'size': None, 'ridge': 0.001}
    """

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind={self.kind!r}: choose from {', '.join(KINDS)}")
        unknown = set(self.options) - set(self.defaults())
        if unknown:
            raise TypeError(f"{self.kind} has no option {min(unknown)!r}; its options are {', '.join(self.defaults())}")

    def defaults(self) -> dict[str, Any]:
        """All options of this kind, with their defaults."""
        parameters = inspect.signature(KINDS[self.kind].function).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Endings of the files this recipe takes."""
        return KINDS[self.kind].suffixes

    @property
    def folders(self) -> bool:
        """Whether a folder of images counts as one sample."""
        return KINDS[self.kind].folders

    def text(self) -> str:
        """The recipe as one line of JSON, defaults spelled out: a default that changes is another recipe."""
        full = self.defaults() | dict(self.options)
        options = {name: value if _plain(value) else str(value) for name, value in full.items()}
        return json.dumps({"kind": self.kind, "version": KINDS[self.kind].version, **options}, sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> Recipe:
        """The recipe that `text` describes; an error if this version would make other numbers of it."""
        content = json.loads(text)
        kind, version = content.pop("kind"), content.pop("version")
        recipe = cls(kind, {name: _value(value) for name, value in content.items()})
        if version != KINDS[kind].version:
            raise FeatureError(
                f"the recipe {kind} of this version of spdsl makes other matrices (version {KINDS[kind].version}, not "
                f"{version}); compute the matrices again, or fit again"
            )
        return recipe

    def described(self) -> str:
        """The recipe in words: its kind, and the options that are not the defaults."""
        full = self.defaults() | dict(self.options)
        changed = {name: full[name] for name, usual in self.defaults().items() if not _same(full[name], usual)}
        return " ".join([self.kind, *(f"{name}={_shown(value)}" for name, value in changed.items())])

    def differs(self, other: Recipe) -> str:
        """What sets matrices of `other` apart, "" if nothing; where a skeleton lies does not count."""
        if self.kind != other.kind:
            return f"{other.kind}, not {self.kind}"
        ours, theirs = (recipe.defaults() | dict(recipe.options) for recipe in (self, other))
        odd = [name for name in ours if name != "skeleton" and not _same(ours[name], theirs[name])]
        if not odd:
            return ""
        first, second = (", ".join(f"{name}={_shown(have[name])}" for name in odd) for have in (theirs, ours))
        return f"{self.kind} with {first}, not {second}"

    def key(self) -> str:
        """Digest of the recipe."""
        return hashlib.sha256(self.text().encode()).hexdigest()[:16]

    def companions(self, path: Path) -> list[Path]:
        """Other files on which the result for `path` depends: the skeleton of an AMC clip."""
        if self.kind != "motion" or path.suffix.lower() != ".amc":
            return []
        if self.options.get("skeleton"):
            return [Path(self.options["skeleton"])]
        try:
            return [find_skeleton(path)]
        except FeatureError:
            return []

    def __call__(self, path: str | Path) -> tuple[np.ndarray, str]:
        """Matrices (k, n, n), or (k, b, n, n), of one file, and a line for the report (may be empty)."""
        matrices, note = KINDS[self.kind].extract(Path(path), **self.options)
        if not np.isfinite(matrices).all():
            raise FeatureError(f"{path}: the matrix holds NaN or infinity; rescale the data")
        return matrices, note


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def _value(value: Any) -> Any:
    """An option as `Recipe.text` writes it: sequences are the text of a Python literal."""
    if isinstance(value, str) and value[:1] in ("[", "("):
        return ast.literal_eval(value)
    return value


def _same(one: Any, two: Any) -> bool:
    """Whether two values of an option are equal; a list is as good as a tuple."""
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return len(one) == len(two) and all(map(_same, one, two))
    return bool(one == two)


def _shown(value: Any) -> str:
    """A value as it is written on the command line."""
    try:
        return json.dumps(value).strip('"')
    except TypeError:
        return str(value)
