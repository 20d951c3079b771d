"""Faces in video: detect, follow, crop, and describe the set of crops by one SPD matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from spdsl.features.covariance import RIDGE, Embedding, Shrinkage, set_covariance
from spdsl.features.errors import FeatureError, require
from spdsl.features.images import gray_frames

Box = tuple[float, float, float]  # left, top, side: the detector's boxes are square

_DETECT_WIDTH = 480  # frames are shrunk to this width for detection only: faces worth 20 x 20 pixels survive it
_SMALLEST = 0.06  # of the shorter side of the frame: smaller detections are mostly false
_MIN_TRACK = 3  # false detections rarely repeat in place over this many frames
_CHUNK = 256  # crops handed to the covariance at a time


@dataclass(frozen=True)
class FaceTrack:
    """One face followed through a clip.

    Attributes
    ----------
    boxes : dict of int to (left, top, side)
        Frame number to the square around the face, in pixels.
    frames : int
        Frames in the clip.
    detected : int
        Frames in which the face was detected.
    filled : int
        Frames in short gaps, where the box is interpolated between its neighbors.

    Examples
    --------
    >>> from spdsl.features import link_faces
    >>> track = link_faces([[(10, 10, 40)], [], [(12, 10, 40)], []])  # boxes found in each of four frames
    >>> track.summary()
    '4 frames: face detected in 2, filled in 1, missing in 1'
    """

    boxes: dict[int, Box]
    frames: int
    detected: int
    filled: int

    @property
    def missing(self) -> int:
        """Frames without the face."""
        return self.frames - self.detected - self.filled

    def summary(self) -> str:
        """One line for a report."""
        counts = f"detected in {self.detected}, filled in {self.filled}, missing in {self.missing}"
        return f"{self.frames} frames: face {counts}"


def track_face(path: str | Path, *, max_gap: int = 10, truncated: str = "error") -> FaceTrack:
    """Find and follow the most prominent face of a clip.

    Every frame goes through OpenCV's Haar cascade for frontal faces. Detections are linked to the nearest one in the
    frames before; of the resulting tracks the one with the most face area over time is kept, and with it those
    that do not overlap it in time (after a cut, or a long turn of the head). Gaps of up to `max_gap` frames are filled.

    Parameters
    ----------
    path : str or Path
        A video file or a folder of frames.
    max_gap : int
        Longest run of frames without a detection that is bridged.
    truncated : {"error", "keep"}
        What to do with a truncated video.

    Returns
    -------
    FaceTrack
        Empty if no face was found.

    Examples
    --------
    >>> import os
    >>> import cv2
    >>> import numpy as np
    >>> from skimage.data import astronaut  # a photograph with one face
    >>> from spdsl.features import track_face
    >>> os.mkdir("clip")
    >>> for k in range(4):
    ...     _ = cv2.imwrite(f"clip/{k}.png", np.roll(astronaut()[..., ::-1], 2 * k, axis=1))
    >>> track_face("clip").summary()
    '4 frames: face detected in 4, filled in 0, missing in 0'
    """
    detections = [detect_faces(frame) for frame in gray_frames(path, truncated=truncated)]
    return link_faces(detections, max_gap=max_gap)


def detect_faces(frame: np.ndarray) -> list[Box]:
    """Frontal faces in a gray image, found by OpenCV's Haar cascade.

    Parameters
    ----------
    frame : ndarray of uint8 (height, width)

    Returns
    -------
    list of (left, top, side), in pixels

    Examples
    --------
    >>> from skimage.data import astronaut  # a photograph with one face
    >>> from spdsl.features import as_gray, detect_faces
    >>> len(detect_faces(as_gray(astronaut()[..., ::-1])))
    1
    """
    cv2 = require("cv2")
    height, width = frame.shape
    scale = min(1.0, _DETECT_WIDTH / width)
    if scale < 1:
        size = (_DETECT_WIDTH, max(1, round(height * scale)))
        frame = cv2.resize(frame, size, interpolation=cv2.INTER_AREA)
    least = max(20, int(_SMALLEST * min(frame.shape)))
    found = _cascade().detectMultiScale(frame, scaleFactor=1.1, minNeighbors=4, minSize=(least, least))
    return [(x / scale, y / scale, max(w, h) / scale) for x, y, w, h in found]


@cache
def _cascade() -> Any:
    cv2 = require("cv2")
    # version 5 of OpenCV ships no cascades
    folder = getattr(getattr(cv2, "data", None), "haarcascades", None)
    if folder is None:
        raise ImportError("this version of OpenCV has no face cascade: pip install 'opencv-python-headless<5'")
    cascade = cv2.CascadeClassifier(str(Path(folder) / "haarcascade_frontalface_alt2.xml"))
    if cascade.empty():
        raise ImportError(
            "the face cascade of OpenCV cannot be loaded; reinstall OpenCV: pip install 'opencv-python-headless<5'"
        )
    return cascade


# ------------------------------------------------------------------------------------------------------------ tracking


def link_faces(detections: Sequence[Sequence[Box]], *, max_gap: int = 10) -> FaceTrack:
    """Link the detections of all frames into one track, as `track_face` does.

    Parameters
    ----------
    detections : sequence of sequences of (left, top, side)
        The boxes found in each frame.
    max_gap : int
        Longest run of frames without a detection that is bridged.

    Returns
    -------
    FaceTrack

    Examples
    --------
    >>> from spdsl.features import link_faces
    >>> sorted(link_faces([[(10, 10, 40)], [], [(12, 10, 40)]]).boxes)
    [0, 1, 2]
    """
    tracks: list[dict[int, Box]] = []
    for number, boxes in enumerate(detections):
        free = [track for track in tracks if number - max(track) <= max_gap + 1]
        for box in sorted(boxes, key=lambda box: -box[2]):
            near = [track for track in free if _close(track[max(track)], box)]
            if near:
                track = min(near, key=lambda track: _distance(track[max(track)], box))
                free = [other for other in free if other is not track]
                track[number] = box
            else:
                tracks.append({number: box})
    chosen = _choose(tracks)
    filled = _fill_gaps(chosen, max_gap)
    return FaceTrack(filled, len(detections), len(chosen), len(filled) - len(chosen))


def _distance(a: Box, b: Box) -> float:
    return float(np.hypot(a[0] + a[2] / 2 - b[0] - b[2] / 2, a[1] + a[2] / 2 - b[1] - b[2] / 2))


def _close(a: Box, b: Box) -> bool:
    """Whether two boxes can be one face a few frames apart: it moved by less than half its width, and kept its size."""
    return _distance(a, b) < 0.5 * max(a[2], b[2]) and 0.5 < a[2] / b[2] < 2


def _choose(tracks: list[dict[int, Box]]) -> dict[int, Box]:
    """The track with the most face area, and what follows or precedes it without overlap, heaviest first."""
    chosen: dict[int, Box] = {}
    spans: list[tuple[int, int]] = []
    for track in sorted(tracks, key=lambda track: -sum(side**2 for _, _, side in track.values())):
        first, last = min(track), max(track)
        apart = all(last < a or first > b for a, b in spans)
        if apart and (len(track) >= _MIN_TRACK or not spans):
            chosen |= track
            spans.append((first, last))
    return dict(sorted(chosen.items()))


def _fill_gaps(boxes: dict[int, Box], max_gap: int) -> dict[int, Box]:
    """Interpolate boxes over short gaps, but never across a jump to another place."""
    filled = dict(boxes)
    numbers = list(boxes)
    for a, b in pairwise(numbers):
        if 1 < b - a <= max_gap + 1 and _close(boxes[a], boxes[b]):
            for number in range(a + 1, b):
                t = (number - a) / (b - a)
                x, y, side = ((1 - t) * np.array(boxes[a]) + t * np.array(boxes[b])).tolist()
                filled[number] = (x, y, side)
    return dict(sorted(filled.items()))


# ---------------------------------------------------------------------------------------------------- crops and matrix


def crop_face(frame: np.ndarray, box: Box, size: int = 20) -> np.ndarray:
    """Cut a face out of a gray frame, resize it and equalize its histogram.

    Parameters
    ----------
    frame : ndarray of uint8 (height, width)
    box : (left, top, side)
        In pixels.
    size : int
        Side of the result.

    Returns
    -------
    ndarray of uint8 (size, size)

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.features import crop_face
    >>> frame = np.random.default_rng(0).integers(256, size=(90, 120), dtype=np.uint8)
    >>> crop_face(frame, (30, 20, 40)).shape
    (20, 20)
    """
    cv2 = require("cv2")
    height, width = frame.shape
    side = int(np.clip(round(box[2]), 1, min(height, width)))
    left = int(np.clip(round(box[0]), 0, width - side))
    top = int(np.clip(round(box[1]), 0, height - side))
    crop = frame[top : top + side, left : left + side]
    shrinking = cv2.INTER_AREA if side >= size else cv2.INTER_LINEAR
    return cv2.equalizeHist(cv2.resize(crop, (size, size), interpolation=shrinking))


def face_crops(path: str | Path, track: FaceTrack, *, size: int = 20, truncated: str = "error") -> Iterator[np.ndarray]:
    """Yield the crops of a tracked face in chunks (k, size, size) of uint8, reading the clip a second time.

    Parameters
    ----------
    path : str or Path
        The video file or folder of frames that was tracked.
    track : FaceTrack
    size : int
        Side of the crops.
    truncated : {"error", "keep"}
        As in `track_face`.

    Examples
    --------
    >>> import os
    >>> import cv2
    >>> import numpy as np
    >>> from skimage.data import astronaut  # a photograph with one face
    >>> from spdsl.features import face_crops, track_face
    >>> os.mkdir("clip")
    >>> for k in range(4):
    ...     _ = cv2.imwrite(f"clip/{k}.png", np.roll(astronaut()[..., ::-1], 2 * k, axis=1))
    >>> [chunk.shape for chunk in face_crops("clip", track_face("clip"))]
    [(4, 20, 20)]
    """
    chunk: list[np.ndarray] = []
    for number, frame in enumerate(gray_frames(path, truncated=truncated)):
        if number in track.boxes:
            chunk.append(crop_face(frame, track.boxes[number], size))
        if len(chunk) == _CHUNK:
            yield np.stack(chunk)
            chunk = []
    if chunk:
        yield np.stack(chunk)


def face_covariance(
    path: str | Path,
    *,
    size: int = 20,
    embedding: Embedding = "augmented",
    ridge: float = RIDGE,
    shrinkage: Shrinkage | None = None,
    min_faces: int = 10,
    max_gap: int = 10,
    truncated: str = "error",
) -> tuple[np.ndarray, FaceTrack]:
    """SPD matrix of the face in a clip: 20 x 20 equalized crops, their covariance with the mean, 401 x 401.

    Parameters
    ----------
    path : str or Path
        A video file, or a folder of frames.
    size : int
        Side of the crops in pixels.
    embedding, ridge, shrinkage
        As in `set_covariance`; the paper joins the mean and adds a ridge of 1e-3 of the trace.
    min_faces : int
        Minimum number of frames with a face; a clip with fewer is an error.
    max_gap, truncated
        As in `track_face`.

    Returns
    -------
    matrix : ndarray (size**2 + 1, size**2 + 1), without the one for `embedding="covariance"`
    track : FaceTrack
        How often the face was found.

    Examples
    --------
    >>> import os
    >>> import cv2
    >>> import numpy as np
    >>> from skimage.data import astronaut  # a photograph with one face
    >>> from spdsl.features import face_covariance
    >>> os.mkdir("clip")
    >>> for k in range(4):
    ...     _ = cv2.imwrite(f"clip/{k}.png", np.roll(astronaut()[..., ::-1], 2 * k, axis=1))
    >>> S, track = face_covariance("clip", min_faces=4)
    >>> S.shape, track.detected
    ((401, 401), 4)
    """
    track = track_face(path, max_gap=max_gap, truncated=truncated)
    if len(track.boxes) < max(min_faces, 2):
        raise FeatureError(
            f"{path}: too few faces ({track.summary()}); at least {max(min_faces, 2)} are needed (min_faces)"
        )
    crops: Any = face_crops(path, track, size=size, truncated=truncated)
    if shrinkage is not None:
        crops = np.concatenate(list(crops))
    try:
        return set_covariance(crops, embedding=embedding, ridge=ridge, shrinkage=shrinkage), track
    except FeatureError as error:
        raise FeatureError(f"{path}: {error}") from None


def contact_sheet(path: str | Path, track: FaceTrack, output: str | Path, *, columns: int = 8, rows: int = 4) -> None:
    """Write a PNG of evenly spread frames with the box drawn in, each above the crop taken from it.

    A white box is a frame with a detection or a filled gap; a frame without a box has no face, and no crop below.

    Parameters
    ----------
    path : str or Path
        The video file or folder of frames that was tracked.
    track : FaceTrack
    output : str or Path
        The image file to write.
    columns, rows : int
        Of the grid of frames.

    Examples
    --------
    >>> import os
    >>> import cv2
    >>> import numpy as np
    >>> from skimage.data import astronaut  # a photograph with one face
    >>> from spdsl.features import contact_sheet, track_face
    >>> os.mkdir("clip")
    >>> for k in range(4):
    ...     _ = cv2.imwrite(f"clip/{k}.png", np.roll(astronaut()[..., ::-1], 2 * k, axis=1))
    >>> contact_sheet("clip", track_face("clip"), "sheet.png")
    """
    cv2 = require("cv2")
    tile = 160
    picked = set(np.linspace(0, track.frames - 1, min(columns * rows, track.frames)).round().astype(int).tolist())
    tiles = []
    for number, frame in enumerate(gray_frames(path, truncated="keep")):
        if number not in picked:
            continue
        crop = np.zeros((tile // 2, tile), np.uint8)
        if number in track.boxes:
            x, y, side = (round(value) for value in track.boxes[number])
            face = crop_face(frame, track.boxes[number])
            crop[:, : tile // 2] = cv2.resize(face, (tile // 2, tile // 2), interpolation=cv2.INTER_NEAREST)
            frame = cv2.rectangle(frame.copy(), (x, y), (x + side, y + side), 255, max(2, frame.shape[1] // 100))
        view = np.vstack([cv2.resize(frame, (tile, tile), interpolation=cv2.INTER_AREA), crop])
        tiles.append(cv2.putText(view, str(number), (tile // 2 + 8, tile + 24), cv2.FONT_HERSHEY_SIMPLEX, 0.5, 255))
    tiles += [np.zeros_like(tiles[0])] * (-len(tiles) % columns)
    sheet = np.vstack([np.hstack(tiles[i : i + columns]) for i in range(0, len(tiles), columns)])
    if not cv2.imwrite(str(output), sheet):
        raise OSError(f"cannot write {output}")
