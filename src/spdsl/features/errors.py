"""Errors of reading a file, or of a missing optional library."""

from __future__ import annotations

import importlib
from typing import Any

from spdsl.backend.extras import install_hint

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
        raise ImportError(f"{purpose}, but is not installed: {install_hint(extra)}") from error
