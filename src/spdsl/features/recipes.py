"""The recipes by name: a file and options to SPD matrices and a line for the report."""

from __future__ import annotations

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
from spdsl.features.images import IMAGE_SUFFIXES, VIDEO_SUFFIXES
from spdsl.features.materials import material_covariance, region_covariance
from spdsl.features.motion import MOTION_SUFFIXES, motion_covariance
from spdsl.features.signals import SIGNAL_SUFFIXES, signal_file_covariance


@dataclass(frozen=True)
class Kind:
    """One kind of media: which files it takes, and how one becomes matrices (k, n, n) and a note.

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


def _regions(path: Path, **options: Any) -> tuple[np.ndarray, str]:
    return region_covariance(path, **options)[None], ""


def _motion(path: Path, **options: Any) -> tuple[np.ndarray, str]:
    return motion_covariance(path, **options)[None], ""


def _signals(path: Path, **options: Any) -> tuple[np.ndarray, str]:
    return signal_file_covariance(path, **options), ""


KINDS: dict[str, Kind] = {
    "faces": Kind(VIDEO_SUFFIXES, face_covariance, _faces, folders=True),
    "materials": Kind(IMAGE_SUFFIXES, material_covariance, _materials),
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
        A name in `KINDS`: faces, materials, regions, motion, signals.
    options : mapping
        Keyword arguments of the kind's function, e.g. `ridge` or `size`.
    """

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind={self.kind!r}: choose from {', '.join(KINDS)}")
        unknown = set(self.options) - set(self._defaults())
        if unknown:
            raise TypeError(
                f"{self.kind} has no option {min(unknown)!r}; its options are {', '.join(self._defaults())}"
            )

    def _defaults(self) -> dict[str, Any]:
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
        full = self._defaults() | dict(self.options)
        options = {name: value if _plain(value) else str(value) for name, value in full.items()}
        return json.dumps({"kind": self.kind, "version": KINDS[self.kind].version, **options}, sort_keys=True)

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
        """Matrices (k, n, n) of one file, and a line for the report (may be empty)."""
        matrices, note = KINDS[self.kind].extract(Path(path), **self.options)
        if not np.isfinite(matrices).all():
            raise FeatureError(f"{path}: the matrix holds NaN or infinity; rescale the data")
        return matrices, note


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))
