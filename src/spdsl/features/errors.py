"""The two ways in which turning a file into a matrix can fail: the file, or a missing optional library."""

from __future__ import annotations

import importlib
from typing import Any

#: module -> (what it is for, extra of spdsl that installs it)
_EXTRAS = {
    "cv2": ("OpenCV reads images and video", "features"),
    "h5py": ("h5py reads HDF5 files", "hdf5"),
}


class FeatureError(ValueError):
    """A file or an array cannot be turned into an SPD matrix; the message names it, the property and the remedy."""


def require(module: str) -> Any:
    """Import an optional library, or say which pip command installs it."""
    purpose, extra = _EXTRAS[module]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{purpose}, and it is not installed: pip install 'spdsl[{extra}]'") from error
