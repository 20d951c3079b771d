"""Your own data: a folder per class with images, clips or motion files."""

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

    Examples
    --------
    >>> import os
    >>> import cv2
    >>> import numpy as np
    >>> from spdsl.datasets import load_image_folder
    >>> rng = np.random.default_rng(0)
    >>> for name in ("bark", "sand"):
    ...     os.makedirs(f"photos/{name}")
    ...     for k in range(3):
    ...         _ = cv2.imwrite(f"photos/{name}/{k}.png", rng.integers(256, size=(32, 32), dtype=np.uint8))
    >>> data = load_image_folder("photos", recipe="regions", cache=False)
    >>> data.X.shape, data.y.tolist()
    ((6, 7, 7), ['bark', 'bark', 'bark', 'sand', 'sand', 'sand'])
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

    Examples
    --------
    >>> import os
    >>> import cv2
    >>> import numpy as np
    >>> from skimage.data import astronaut  # a photograph with one face
    >>> from spdsl.datasets import load_video_folder
    >>> os.makedirs("people/eileen/clip1")  # a folder of frames, as a video would be
    >>> for k in range(4):
    ...     _ = cv2.imwrite(f"people/eileen/clip1/{k}.png", np.roll(astronaut()[..., ::-1], 2 * k, axis=1))
    >>> load_video_folder("people", min_faces=4, cache=False).X.shape
    (1, 401, 401)
    """
    source = Source("a video folder", "a folder per class with videos or folders of frames in it")
    shared, options = split_settings(settings)
    return load_folder(folder, Recipe("faces", options), folder_label, source, protocol=protocol, **shared)


def load_set_folder(folder: str | Path, *, protocol: Protocol | None = None, **settings: Any) -> Dataset:
    """Load image sets from a folder per class: every folder of images in it, `<class>/<set>/*.png`, is one sample.

    No face is looked for: images are taken whole. `load_video_folder` finds faces first.

    Parameters
    ----------
    folder : str or Path
        Holds a folder for each class; in it every folder of images, and every video, is one set.
    protocol : Protocol, optional
        Half and half, ten times, by default.
    **settings
        `cache`, `jobs`, `errors`, `progress` as in `load_image_folder`; the rest are arguments of `image_set_covariance`.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> import os
    >>> import cv2
    >>> import numpy as np
    >>> from spdsl.datasets import load_set_folder
    >>> rng = np.random.default_rng(0)
    >>> for name in ("cup/1", "cup/2", "pear/1", "pear/2"):
    ...     os.makedirs(f"objects/{name}")
    ...     for k in range(5):
    ...         _ = cv2.imwrite(f"objects/{name}/{k}.png", rng.integers(256, size=(32, 32), dtype=np.uint8))
    >>> data = load_set_folder("objects", size=6, cache=False)
    >>> data.X.shape, data.y.tolist()
    ((4, 37, 37), ['cup', 'cup', 'pear', 'pear'])
    """
    source = Source("a folder of image sets", "a folder per class with folders of images in it")
    shared, options = split_settings(settings)
    return load_folder(folder, Recipe("sets", options), set_label, source, protocol=protocol, **shared)


def set_label(sample: Path) -> str:
    """Class of an image set: the first part of its path; images outside a set are no sample of their class."""
    if len(sample.parts) < 2:
        raise FeatureError(f"{sample}: contains images but not sets of images; expected <class>/<set>/*.png")
    return sample.parts[0]


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

    Examples
    --------
    >>> import os
    >>> import numpy as np
    >>> from spdsl.datasets import load_mocap_folder
    >>> rng = np.random.default_rng(0)
    >>> for name in ("jump", "walk"):
    ...     os.makedirs(f"clips/{name}")
    ...     for k in range(2):
    ...         np.save(f"clips/{name}/{k}.npy", rng.random((50, 5, 3)))  # (frames, joints, 3)
    >>> load_mocap_folder("clips", cache=False).X.shape
    (4, 15, 15)
    """
    source = Source("a motion folder", "a folder per class with motion files in it")
    shared, options = split_settings(settings)
    return load_folder(folder, Recipe("motion", options), folder_label, source, protocol=protocol, **shared)


def split_settings(settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separate what `load_folder` takes from the options of the recipe."""
    names = ("cache", "jobs", "errors", "progress")
    shared = {name: value for name, value in settings.items() if name in names}
    return shared, {name: value for name, value in settings.items() if name not in names}
