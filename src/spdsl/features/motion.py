"""Bodies in motion: joint tracks from the usual files, and their covariance."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spdsl.features.amc import read_amc
from spdsl.features.c3d import read_c3d
from spdsl.features.covariance import RIDGE, Embedding, Shrinkage, as_array, set_covariance
from spdsl.features.errors import FeatureError
from spdsl.features.tables import read_table

MOTION_SUFFIXES = (".amc", ".c3d", ".csv", ".tsv", ".txt", ".npy")


def joint_covariance(
    tracks: np.ndarray,
    *,
    root_relative: bool = False,
    embedding: Embedding = "covariance",
    ridge: float = RIDGE,
    shrinkage: Shrinkage | None = None,
) -> np.ndarray:
    """Covariance over time of all joint coordinates: 93 x 93 for 31 joints.

    Parameters
    ----------
    tracks : ndarray (frames, joints, 3)
        Joint positions.
    root_relative : bool
        Subtract the first joint from the others and leave it out, so that where the body goes does not count:
        90 x 90 for 31 joints.
    embedding, ridge, shrinkage
        As in `set_covariance`.

    Returns
    -------
    ndarray (3 * joints, 3 * joints)
    """
    tracks = as_array(tracks)
    if tracks.dtype.kind not in "biuf":
        raise FeatureError(f"tracks have dtype {tracks.dtype}: expected real numbers")
    tracks = tracks.astype(np.float64, copy=False)
    if tracks.ndim != 3 or tracks.shape[2] != 3:
        raise FeatureError(f"tracks have shape {tracks.shape}: expected (frames, joints, 3)")
    if root_relative:
        if tracks.shape[1] < 2:
            raise FeatureError("root_relative needs a root and at least one more joint")
        tracks = tracks[:, 1:] - tracks[:, :1]
    return set_covariance(tracks, embedding=embedding, ridge=ridge, shrinkage=shrinkage)


def motion_covariance(
    path: str | Path,
    *,
    skeleton: str | Path | None = None,
    gaps: str = "error",
    step: int = 1,
    root_relative: bool = False,
    embedding: Embedding = "covariance",
    ridge: float = RIDGE,
    shrinkage: Shrinkage | None = None,
) -> np.ndarray:
    """`joint_covariance` of a file; the arguments are those of `read_tracks` and `joint_covariance`."""
    tracks = read_tracks(path, skeleton=skeleton, gaps=gaps, step=step)
    try:
        return joint_covariance(
            tracks, root_relative=root_relative, embedding=embedding, ridge=ridge, shrinkage=shrinkage
        )
    except FeatureError as error:
        raise FeatureError(f"{path}: {error}") from None


def read_tracks(
    path: str | Path, *, skeleton: str | Path | None = None, gaps: str = "error", step: int = 1
) -> np.ndarray:
    """Joint positions over time from an AMC, C3D, CSV or NPY file.

    Parameters
    ----------
    path : str or Path
        `.amc` (with its skeleton), `.c3d` (markers), `.csv`, `.tsv`, `.txt` (a row a frame: x, y, z of each joint in
        turn; one header line allowed), or `.npy` of shape (frames, joints, 3) or (frames, 3 * joints).
    skeleton : str or Path, optional
        ASF file of an AMC clip; by default found by its name.
    gaps : {"error", "interpolate", "drop"}
        Frames in which a joint is NaN (a hidden marker): refuse the file, fill them in linearly over time (the ends
        repeat the nearest position), or leave those frames out.
    step : int
        Keep every `step`-th frame.

    Returns
    -------
    ndarray (frames, joints, 3)
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if gaps not in ("error", "interpolate", "drop"):
        raise ValueError(f"gaps={gaps!r}: choose 'error', 'interpolate' or 'drop'")
    if suffix not in MOTION_SUFFIXES:
        raise FeatureError(f"{path}: not a motion file; known are {', '.join(MOTION_SUFFIXES)}")
    if suffix == ".amc":
        return read_amc(path, skeleton, step=step)
    tracks = _as_tracks(read_c3d(path) if suffix == ".c3d" else read_table(path), path)
    return _close_gaps(tracks, gaps, path)[::step]


def _as_tracks(array: np.ndarray, path: Path) -> np.ndarray:
    if array.ndim == 2 and array.shape[1] % 3 == 0:
        array = array.reshape(len(array), -1, 3)
    if array.ndim != 3 or array.shape[2] != 3 or array.size == 0:
        raise FeatureError(
            f"{path}: shape {array.shape} is no joint track; expected (frames, joints, 3) or (frames, 3 K)"
        )
    if np.isinf(array).any():
        raise FeatureError(f"{path}: frame {np.argwhere(np.isinf(array))[0][0]} holds an infinite position")
    return array


def _close_gaps(tracks: np.ndarray, gaps: str, path: Path) -> np.ndarray:
    hidden = np.isnan(tracks).any(axis=2)
    if not hidden.any():
        return tracks
    frame, joint = np.argwhere(hidden)[0]
    if gaps == "error":
        raise FeatureError(
            f"{path}: {hidden.sum()} positions are NaN, the first in frame {frame}, joint {joint}; "
            "use gaps='interpolate' or gaps='drop'"
        )
    if gaps == "drop":
        return tracks[~hidden.any(axis=1)]
    if hidden.all(axis=0).any():
        lost = int(np.flatnonzero(hidden.all(axis=0))[0])
        raise FeatureError(f"{path}: joint {lost} is never seen, so it cannot be interpolated; remove it from the file")
    tracks, times = tracks.copy(), np.arange(len(tracks))
    for j in np.flatnonzero(hidden.any(axis=0)):
        seen = ~hidden[:, j]
        for k in range(3):
            tracks[:, j, k] = np.interp(times, times[seen], tracks[seen, j, k])
    return tracks
