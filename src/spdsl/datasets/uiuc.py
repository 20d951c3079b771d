"""UIUC materials (Liao et al. 2013): 18 subcategories of 12 images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spdsl.datasets.folders import split_settings
from spdsl.datasets.loading import Dataset, Source, load_folder
from spdsl.datasets.protocol import Protocol
from spdsl.features.errors import FeatureError
from spdsl.features.recipes import Recipe

SOURCE = Source(
    "the UIUC material dataset",
    "a folder per subcategory with its images (18 folders of 12)",
    "the project page of 'Non-parametric filtering for geometric detail extraction and material representation' "
    "(Liao, Rock, Wang, Forsyth, CVPR 2013), University of Illinois",
)
PROTOCOL = Protocol()


def uiuc_label(sample: Path) -> str:
    """Subcategory of an image: the folder it lies in, with the category above it where there is one."""
    if len(sample.parts) < 2:
        raise FeatureError(f"{sample}: lies outside any subcategory folder")
    return sample.parent.as_posix()


def load_uiuc(folder: str | Path, **settings: Any) -> Dataset:
    """Load the UIUC materials as the paper does: 128 x 128 from dense SIFT, half of each subcategory, 10 draws.

    Parameters
    ----------
    folder : str or Path
        A folder per subcategory.
    **settings
        `cache`, `jobs`, `errors`, `progress` as in `load_image_folder`; the rest go to `material_covariance`.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> import os
    >>> import cv2
    >>> import numpy as np
    >>> from spdsl.datasets import load_uiuc
    >>> rng = np.random.default_rng(0)
    >>> for name in ("bark", "brick"):  # stand for the 18 folders
    ...     os.makedirs(f"uiuc/{name}")
    ...     for k in range(2):
    ...         _ = cv2.imwrite(f"uiuc/{name}/{k}.png", rng.integers(256, size=(64, 64), dtype=np.uint8))
    >>> load_uiuc("uiuc", size=64, cache=False).X.shape
    (4, 128, 128)
    """
    shared, options = split_settings(settings)
    return load_folder(folder, Recipe("materials", options), uiuc_label, SOURCE, protocol=PROTOCOL, **shared)
