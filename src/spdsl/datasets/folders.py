"""People's own data: a folder per class, holding images, clips or motion files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spdsl.datasets.extraction import Progress
from spdsl.datasets.loading import Cache, Dataset, Errors, Source, load_folder
from spdsl.datasets.protocol import Protocol
from spdsl.features.errors import FeatureError
from spdsl.features.recipes import Recipe


def folder_label(sample: Path) -> str:
    """Class of a sample in a folder per class: the first part of its path."""
    if len(sample.parts) < 2:
        raise FeatureError(f"{sample}: lies outside any class folder; move it into one named after its class")
    return sample.parts[0]


def load_image_folder(
    folder: str | Path,
    *,
    recipe: str = "materials",
    protocol: Protocol | None = None,
    cache: Cache = None,
    jobs: int = 1,
    errors: Errors = "report",
    progress: Progress | None = None,
    **options: Any,
) -> Dataset:
    """Load images from a folder per class.

    Parameters
    ----------
    folder : str or Path
        Holds a folder for each class, which hold the images, at any depth.
    recipe : {"materials", "regions"}
        Dense SIFT covariance (128 x 128) or the classical region covariance (7 x 7).
    protocol : Protocol, optional
        Half and half, ten times, by default.
    cache : path, "beside", True, False or None
        Where to keep the result: in the given folder, in `.spdsl-cache` inside the data folder, or (True or None) in
        the folder named by the environment variable SPDSL_CACHE, else in the user's cache folder. False keeps nothing.
    jobs : int
        Files worked on at a time, each in its own process.
    errors : {"report", "raise"}
        Leave a bad file out and list it in `skipped` with a warning, or stop at it.
    progress : callable, optional
        Called with `(outcome, done, total)` after each file.
    **options
        Of the recipe: the arguments of `material_covariance` or `region_covariance`.

    Returns
    -------
    Dataset
    """
    source = Source("an image folder", "a folder per class with images in it")
    return load_folder(
        folder,
        Recipe(recipe, options),
        folder_label,
        source,
        protocol=protocol,
        cache=cache,
        jobs=jobs,
        errors=errors,
        progress=progress,
    )


def load_video_folder(folder: str | Path, *, protocol: Protocol | None = None, **settings: Any) -> Dataset:
    """Load faces from a folder per class of video files, or of folders of frames.

    Parameters
    ----------
    folder : str or Path
        Holds a folder for each class (person); in it every video, and every folder of images, is one clip.
    protocol : Protocol, optional
        Half and half, ten times, by default.
    **settings
        `cache`, `jobs`, `errors`, `progress` as in `load_image_folder`; the rest are arguments of `face_covariance`.

    Returns
    -------
    Dataset
    """
    source = Source("a video folder", "a folder per class with videos or folders of frames in it")
    shared, options = split_settings(settings)
    return load_folder(folder, Recipe("faces", options), folder_label, source, protocol=protocol, **shared)


def load_mocap_folder(folder: str | Path, *, protocol: Protocol | None = None, **settings: Any) -> Dataset:
    """Load motion clips (AMC, C3D, CSV, NPY) from a folder per class.

    Parameters
    ----------
    folder : str or Path
        Holds a folder for each class with the clips; skeletons of AMC clips lie beside them or above.
    protocol : Protocol, optional
        Half and half, ten times, by default.
    **settings
        `cache`, `jobs`, `errors`, `progress` as in `load_image_folder`; the rest are arguments of `motion_covariance`.

    Returns
    -------
    Dataset
    """
    source = Source("a motion folder", "a folder per class with motion files in it")
    shared, options = split_settings(settings)
    return load_folder(folder, Recipe("motion", options), folder_label, source, protocol=protocol, **shared)


def split_settings(settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separate what `load_folder` takes from the options of the recipe."""
    names = ("cache", "jobs", "errors", "progress")
    shared = {name: value for name, value in settings.items() if name in names}
    return shared, {name: value for name, value in settings.items() if name not in names}
