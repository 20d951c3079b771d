"""YouTube Celebrities (Kim et al. 2008): faces of 47 people in 1,910 clips."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from spdsl.datasets.folders import split_settings
from spdsl.datasets.loading import Dataset, Source, load_folder
from spdsl.datasets.protocol import Protocol
from spdsl.features.errors import FeatureError
from spdsl.features.recipes import Recipe

SOURCE = Source(
    "YouTube Celebrities",
    "its video clips, named like 0094_03_002_al_gore.avi (1,910 clips of 47 people)",
    "http://seqamlab.com/youtube-celebrities-face-tracking-and-recognition-dataset/",
)
PROTOCOL = Protocol(train=3, test=6)
_NAME = re.compile(r"^\d+_\d+_\d+_(?P<subject>[A-Za-z].*)$")


def ytc_label(sample: Path) -> str:
    """Person in a clip: what follows the three numbers of its name."""
    name = sample.stem if sample.suffix else sample.name
    match = _NAME.match(name)
    if match is None:
        raise FeatureError(f"{sample}: not named like a clip of YouTube Celebrities (0094_03_002_al_gore.avi)")
    return match["subject"].lower()


def load_ytc(folder: str | Path, **settings: Any) -> Dataset:
    """Load YouTube Celebrities as the paper does: 401 x 401, 3 clips of each person to train and 6 to test, 10 draws.

    Parameters
    ----------
    folder : str or Path
        The clips (or folders of frames with the clips' names), at any depth.
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
    >>> from spdsl.datasets import load_ytc
    >>> os.makedirs("ytc/0001_01_001_eileen_collins")  # stands for a clip
    >>> for k in range(4):
    ...     path = f"ytc/0001_01_001_eileen_collins/{k}.png"
    ...     _ = cv2.imwrite(path, np.roll(astronaut()[..., ::-1], 2 * k, axis=1))
    >>> data = load_ytc("ytc", min_faces=4, cache=False)
    >>> data.X.shape, data.y.tolist()
    ((1, 401, 401), ['eileen_collins'])
    """
    shared, options = split_settings(settings)
    return load_folder(folder, Recipe("faces", options), ytc_label, SOURCE, protocol=PROTOCOL, **shared)
