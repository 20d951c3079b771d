"""The recipes as scikit-learn transformers: from files, or from arrays, to SPD matrices, as the first step of a pipeline."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from spdsl.features.base import RecipeTransformer
from spdsl.features.covariance import RIDGE, Embedding, Shrinkage, as_array
from spdsl.features.errors import FeatureError
from spdsl.features.image_sets import image_set_covariance
from spdsl.features.materials import material_covariance, region_covariance
from spdsl.features.motion import joint_covariance, read_tracks
from spdsl.features.recipes import Recipe
from spdsl.features.signals import Estimator, signal_file_covariance
from spdsl.models import savable


@savable("_options")
class MaterialCovariance(RecipeTransformer):
    """Covariance of the dense SIFT descriptors of each image: `material_covariance` as a transformer.

    A sample is the path of an image file, or an image in memory.

    Parameters
    ----------
    size : int
        Images are resized to this side, whatever their shape.
    step, patch : int
        Pixels between descriptors, and the side of the window of each.
    ridge : float
        Fraction of the trace added to the diagonal.
    shrinkage : {"ledoit_wolf", "oas"}, optional
        Shrinkage estimator to use instead of the sample covariance.
    quarters : bool
        Whether a sample is five matrices: the whole image and each of its quarters.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl import MaterialCovariance
    >>> images = np.random.default_rng(0).random((2, 64, 64))
    >>> MaterialCovariance(size=64).fit_transform(images).shape
    (2, 128, 128)
    """

    _kind = "materials"

    def __init__(
        self,
        size: int = 400,
        *,
        step: int = 4,
        patch: int = 16,
        ridge: float = RIDGE,
        shrinkage: Shrinkage | None = None,
        quarters: bool = False,
    ) -> None:
        self.size = size
        self.step = step
        self.patch = patch
        self.ridge = ridge
        self.shrinkage = shrinkage
        self.quarters = quarters

    def _of_array(self, sample: Any) -> np.ndarray:
        return material_covariance(sample, **self._options)


@savable("_options")
class RegionCovariance(RecipeTransformer):
    """Covariance of position, intensity and derivatives over each image: `region_covariance` as a transformer.

    A sample is the path of an image file, or an image in memory.

    Parameters
    ----------
    size : int, optional
        Images are resized to this side, whatever their shape; by default they are taken as they are.
    ridge : float
        Fraction of the trace added to the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl import RegionCovariance
    >>> images = np.random.default_rng(0).random((2, 32, 32))
    >>> RegionCovariance().fit_transform(images).shape
    (2, 7, 7)
    """

    _kind = "regions"

    def __init__(self, size: int | None = None, *, ridge: float = RIDGE) -> None:
        self.size = size
        self.ridge = ridge

    def _of_array(self, sample: Any) -> np.ndarray:
        return region_covariance(sample, **self._options)


@savable("_options")
class SetCovariance(RecipeTransformer):
    """Covariance, joined with the mean, of each set of images: `image_set_covariance` as a transformer.

    A sample is the path of a folder of images or of a video, or a sequence of images in memory.

    Parameters
    ----------
    size : int
        Images are resized to this side, whatever their shape.
    equalize : bool
        Equalize the histogram of each image, so that brightness and contrast do not matter.
    embedding : {"covariance", "augmented", "gaussian"}
        Whether and how the mean is joined, as in `set_covariance`.
    ridge : float
        Fraction of the trace added to the diagonal.
    shrinkage : {"ledoit_wolf", "oas"}, optional
        Shrinkage estimator to use instead of the sample covariance.
    truncated : {"error", "keep"}
        What to do when a video ends well before the frames its header announces.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl import SetCovariance
    >>> sets = np.random.default_rng(0).random((3, 8, 20, 20))  # three sets of eight gray images
    >>> SetCovariance(size=6).fit_transform(sets).shape
    (3, 37, 37)
    """

    _kind = "sets"

    def __init__(
        self,
        size: int = 20,
        *,
        equalize: bool = True,
        embedding: Embedding = "augmented",
        ridge: float = RIDGE,
        shrinkage: Shrinkage | None = None,
        truncated: str = "error",
    ) -> None:
        self.size = size
        self.equalize = equalize
        self.embedding = embedding
        self.ridge = ridge
        self.shrinkage = shrinkage
        self.truncated = truncated

    def _of_array(self, sample: Any) -> np.ndarray:
        return image_set_covariance(sample, **self._options)


@savable("_options")
class FaceCovariance(RecipeTransformer):
    """Covariance, joined with the mean, of the face in each clip: `face_covariance` as a transformer.

    A sample is the path of a video, or of a folder of frames.

    Parameters
    ----------
    size : int
        Side of the crops in pixels.
    embedding : {"covariance", "augmented", "gaussian"}
        Whether and how the mean is joined, as in `set_covariance`.
    ridge : float
        Fraction of the trace added to the diagonal.
    shrinkage : {"ledoit_wolf", "oas"}, optional
        Shrinkage estimator to use instead of the sample covariance.
    min_faces : int
        Minimum number of frames with a face; a clip with fewer is an error.
    max_gap : int
        Longest run of frames without a detection that is bridged.
    truncated : {"error", "keep"}
        What to do when a video ends well before the frames its header announces.

    Examples
    --------
    >>> import os
    >>> import cv2
    >>> import numpy as np
    >>> from skimage.data import astronaut  # a photograph with one face
    >>> from spdsl import FaceCovariance
    >>> os.mkdir("clip")
    >>> for k in range(12):
    ...     _ = cv2.imwrite(f"clip/{k:02}.png", np.roll(astronaut()[..., ::-1], 2 * k, axis=1))
    >>> FaceCovariance().fit_transform(["clip"]).shape
    (1, 401, 401)
    """

    _kind = "faces"

    def __init__(
        self,
        size: int = 20,
        *,
        embedding: Embedding = "augmented",
        ridge: float = RIDGE,
        shrinkage: Shrinkage | None = None,
        min_faces: int = 10,
        max_gap: int = 10,
        truncated: str = "error",
    ) -> None:
        self.size = size
        self.embedding = embedding
        self.ridge = ridge
        self.shrinkage = shrinkage
        self.min_faces = min_faces
        self.max_gap = max_gap
        self.truncated = truncated

    def _of_array(self, sample: Any) -> np.ndarray:
        raise FeatureError(
            "faces are looked for in files only; pass paths of videos or folders, or SetCovariance for crops in memory"
        )


@savable("_options")
class JointCovariance(RecipeTransformer):
    """Covariance of the joint positions of each clip over time: `motion_covariance` as a transformer.

    A sample is the path of a motion file (AMC, C3D, CSV, NPY), or an array (frames, joints, 3).

    Parameters
    ----------
    root_relative : bool
        Subtract the first joint from the others and leave it out.
    embedding : {"covariance", "augmented", "gaussian"}
        Whether and how the mean is joined, as in `set_covariance`.
    ridge : float
        Fraction of the trace added to the diagonal.
    shrinkage : {"ledoit_wolf", "oas"}, optional
        Shrinkage estimator to use instead of the sample covariance.
    levels : int
        More than 1 for several matrices a sample, of the parts that `temporal_pyramid` cuts.
    skeleton : str, optional
        ASF file of AMC clips; by default found by their names.
    gaps : {"error", "interpolate", "drop"}
        What to do with frames in which a joint is missing, as in `read_tracks`.
    step : int
        Keep every `step`-th frame.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl import JointCovariance
    >>> tracks = np.random.default_rng(0).standard_normal((2, 50, 5, 3))  # (frames, joints, 3)
    >>> JointCovariance().fit_transform(tracks).shape
    (2, 15, 15)
    """

    _kind = "motion"

    def __init__(
        self,
        *,
        root_relative: bool = False,
        embedding: Embedding = "covariance",
        ridge: float = RIDGE,
        shrinkage: Shrinkage | None = None,
        levels: int = 1,
        skeleton: str | None = None,
        gaps: str = "error",
        step: int = 1,
    ) -> None:
        self.root_relative = root_relative
        self.embedding = embedding
        self.ridge = ridge
        self.shrinkage = shrinkage
        self.levels = levels
        self.skeleton = skeleton
        self.gaps = gaps
        self.step = step

    def _of_array(self, sample: Any) -> np.ndarray:
        options = dict(self._options)
        gaps, step, _ = (options.pop(name) for name in ("gaps", "step", "skeleton"))
        tracks = sample if isinstance(sample, np.ndarray) else as_array(sample)  # masked positions are gaps
        return joint_covariance(read_tracks(tracks, gaps=gaps, step=step), **options)


@savable("_options")
class SignalCovariance(RecipeTransformer):
    """Covariance across the channels of each signal: `signal_covariance` as a transformer.

    A sample is an array (channels, time), or the path of a file that holds one. It is taken whole: cut long recordings
    with `cut_windows` first.

    Parameters
    ----------
    estimator : {"scm", "cov", "lwf", "oas"}
        The covariance estimator; names and values are pyRiemann's.
    ridge : float
        Fraction of the trace added to the diagonal.
    lags : int or sequence of int
        Delayed copies of all channels to add as channels; a number L stands for 1 to L.
    embedding : {"covariance", "augmented", "gaussian"}
        Whether and how the mean of the channels is joined, as in `set_covariance`.
    bands : sequence of (low, high), optional
        A sample is then one matrix for each frequency band, as in `filter_bank`.
    rate : float, optional
        Samples per second; needed with `bands`.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl import SignalCovariance
    >>> rng = np.random.default_rng(0)
    >>> signals = [rng.standard_normal((4, 200)), rng.standard_normal((4, 300))]  # (channels, time)
    >>> SignalCovariance(lags=1, embedding="augmented").fit_transform(signals).shape
    (2, 9, 9)
    """

    _kind = "signals"

    def __init__(
        self,
        *,
        estimator: Estimator = "scm",
        ridge: float = 0.0,
        lags: int | Sequence[int] = 0,
        embedding: Embedding = "covariance",
        bands: Sequence[tuple[float, float]] | None = None,
        rate: float | None = None,
    ) -> None:
        self.estimator = estimator
        self.ridge = ridge
        self.lags = lags
        self.embedding = embedding
        self.bands = bands
        self.rate = rate

    def _of_array(self, sample: Any) -> np.ndarray:
        return signal_file_covariance(as_array(sample), **self._options)[0]


#: the transformer of each kind of recipe
TRANSFORMERS: dict[str, type[RecipeTransformer]] = {
    cls._kind: cls
    for cls in (
        *(MaterialCovariance, RegionCovariance, SetCovariance),
        *(FaceCovariance, JointCovariance, SignalCovariance),
    )
}


def as_transformer(recipe: Recipe) -> RecipeTransformer | None:
    """The fitted transformer of a recipe; None if it makes several samples of a file, which no transformer does."""
    if recipe.options.get("window") is not None:
        return None
    cls: Any = TRANSFORMERS[recipe.kind]
    known = inspect.signature(cls).parameters  # a step without a window does nothing
    return cls(**{name: value for name, value in recipe.options.items() if name in known}).fit()
