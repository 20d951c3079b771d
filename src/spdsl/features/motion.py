"""Bodies in motion: joint tracks from the usual files, and their covariance."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spdsl.data.parameters import check_count
from spdsl.features.amc import read_amc
from spdsl.features.blocks import temporal_pyramid
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
    levels: int = 1,
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
    levels : int
        More than 1 for a matrix of every part of the clip that `temporal_pyramid` cuts: 2 for the whole and its overlapping
        halves.

    Returns
    -------
    ndarray (3 * joints, 3 * joints), with levels (parts, 3 * joints, 3 * joints)

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.features import joint_covariance
    >>> rng = np.random.default_rng(0)
    >>> joint_covariance(rng.random((50, 5, 3))).shape
    (15, 15)
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
    check_count("levels", levels, low=1)
    parts = [tracks] if levels == 1 else temporal_pyramid(tracks, levels)
    S = [set_covariance(part, embedding=embedding, ridge=ridge, shrinkage=shrinkage) for part in parts]
    return S[0] if levels == 1 else np.stack(S)


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
    levels: int = 1,
) -> np.ndarray:
    """`joint_covariance` of a motion file.

    Parameters
    ----------
    path : str, Path, or ndarray as an `.npy` file holds
        The clip.
    skeleton, gaps, step
        How it is read, as in `read_tracks`.
    root_relative, embedding, ridge, shrinkage, levels
        As in `joint_covariance`.

    Returns
    -------
    ndarray (n, n), with levels (parts, n, n)

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.features import motion_covariance
    >>> np.save("clip.npy", np.random.default_rng(0).random((50, 5, 3)))  # (frames, joints, 3)
    >>> motion_covariance("clip.npy", root_relative=True).shape
    (12, 12)
    """
    tracks = read_tracks(path, skeleton=skeleton, gaps=gaps, step=step)
    try:
        return joint_covariance(
            tracks,
            root_relative=root_relative,
            embedding=embedding,
            ridge=ridge,
            shrinkage=shrinkage,
            levels=levels,
        )
    except FeatureError as error:
        raise FeatureError(f"{path}: {error}") from None


def read_tracks(
    path: str | Path | np.ndarray, *, skeleton: str | Path | None = None, gaps: str = "error", step: int = 1
) -> np.ndarray:
    """Joint positions over time from an AMC, C3D, CSV or NPY file.

    Parameters
    ----------
    path : str, Path, or ndarray as an `.npy` file holds
        `.amc` (with its skeleton), `.c3d` (markers), `.csv`, `.tsv`, `.txt` (a row a frame: x, y, z of each joint in
        turn; one header line allowed), or `.npy` of shape (frames, joints, 3) or (frames, 3 * joints).
    skeleton : str or Path, optional
        ASF file of an AMC clip; by default found by its name.
    gaps : {"error", "interpolate", "drop"}
        Frames in which a joint is NaN or masked (a hidden marker): refuse the file, fill them in linearly over time (the ends
        repeat the nearest position), or leave those frames out.
    step : int
        Keep every `step`-th frame.

    Returns
    -------
    ndarray (frames, joints, 3)

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.features import read_tracks
    >>> np.savetxt("clip.csv", np.random.default_rng(0).random((50, 15)), delimiter=",")
    >>> read_tracks("clip.csv", step=2).shape
    (25, 5, 3)
    """
    if gaps not in ("error", "interpolate", "drop"):
        raise ValueError(f"gaps={gaps!r}: choose 'error', 'interpolate' or 'drop'")
    check_count("step", step, low=1)
    if isinstance(path, np.ndarray):
        if path.dtype.kind not in "biuf":
            raise FeatureError(f"tracks have dtype {path.dtype}: expected real numbers")
        if np.ma.is_masked(path):  # hidden positions
            path = np.ma.filled(path.astype(np.float64), np.nan)
        return _close_gaps(_as_tracks(path.astype(np.float64, copy=False), ""), gaps, "")[::step]
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in MOTION_SUFFIXES:
        raise FeatureError(f"{path}: not a motion file; known are {', '.join(MOTION_SUFFIXES)}")
    if suffix == ".amc":
        return read_amc(path, skeleton, step=step)
    tracks = _as_tracks(read_c3d(path) if suffix == ".c3d" else read_table(path), f"{path}: ")
    return _close_gaps(tracks, gaps, f"{path}: ")[::step]


def _as_tracks(array: np.ndarray, name: str) -> np.ndarray:
    """Numbers (frames, joints, 3) or (frames, 3 * joints) as the first of these; `name` begins messages."""
    if array.ndim == 2 and array.shape[1] % 3 == 0:
        array = array.reshape(len(array), -1, 3)
    if array.ndim != 3 or array.shape[2] != 3 or array.size == 0:
        raise FeatureError(
            f"{name}shape {array.shape} is not a joint track; expected (frames, joints, 3) or (frames, 3 K)"
        )
    if np.isinf(array).any():
        raise FeatureError(f"{name}frame {np.argwhere(np.isinf(array))[0][0]} holds an infinite position")
    return array


def _close_gaps(tracks: np.ndarray, gaps: str, name: str) -> np.ndarray:
    """Tracks without hidden joints; `gaps` as in `read_tracks`."""
    hidden = np.isnan(tracks).any(axis=2)
    if not hidden.any():
        return tracks
    frame, joint = np.argwhere(hidden)[0]
    if gaps == "error":
        raise FeatureError(
            f"{name}{hidden.sum()} positions are NaN, the first in frame {frame}, joint {joint}; "
            "use gaps='interpolate' or gaps='drop'"
        )
    if gaps == "drop":
        return tracks[~hidden.any(axis=1)]
    if hidden.all(axis=0).any():
        lost = int(np.flatnonzero(hidden.all(axis=0))[0])
        raise FeatureError(f"{name}joint {lost} is never seen, so it cannot be interpolated; remove it from the file")
    tracks, times = tracks.copy(), np.arange(len(tracks))
    for j in np.flatnonzero(hidden.any(axis=0)):
        seen = ~hidden[:, j]
        for k in range(3):
            tracks[:, j, k] = np.interp(times, times[seen], tracks[seen, j, k])
    return tracks
