"""Build a clip from a photograph that scikit-image ships, with faceless frames in it, and write the contact sheet.

python benchmarks/features_face_sheet.py sheet.png
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np
from skimage.data import astronaut

from spdsl.features import contact_sheet, face_covariance

FACELESS = range(40, 60)
HIDDEN = (12, 13, 14, 70)  # frames in which the face is painted over: short gaps to be filled


def build_clip(path: Path, frames: int = 96, side: int = 320) -> None:
    """Pan and zoom over the photograph; frames 40 to 59 show drawn shapes instead."""
    photo = cv2.cvtColor(astronaut(), cv2.COLOR_RGB2BGR)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 25, (side, side))
    for k in range(frames):
        frame = _drawn(k, side) if k in FACELESS else _panned(photo, k / frames, side, hide=k in HIDDEN)
        writer.write(frame)
    writer.release()


def face_centre(k: int, frames: int = 96, side: int = 320) -> tuple[float, float]:
    """Where the face of the photograph is in frame `k`."""
    zoom, dx, dy = _motion(k / frames)
    return (224 * zoom - dx) * side / 320, (110 * zoom - dy) * side / 320


def _motion(t: float) -> tuple[float, float, float]:
    zoom = 0.9 + 0.3 * np.sin(2 * np.pi * t)
    return zoom, 224 * zoom - 160 + 50 * np.sin(4 * np.pi * t), 110 * zoom - 130 - 25 * np.cos(2 * np.pi * t)


def _panned(photo: np.ndarray, t: float, side: int, *, hide: bool) -> np.ndarray:
    if hide:
        photo = cv2.rectangle(photo.copy(), (160, 30), (290, 200), (90, 90, 90), -1)
    zoom, dx, dy = _motion(t)
    view = np.array([[zoom, 0, -dx], [0, zoom, -dy]]) * (side / 320)
    return cv2.warpAffine(photo, view, (side, side), borderMode=cv2.BORDER_REPLICATE)


def _drawn(k: int, side: int) -> np.ndarray:
    frame = np.full((side, side, 3), 120, np.uint8)
    cv2.rectangle(frame, (20 + k, 40), (140 + k, 200), (200, 180, 60), -1)
    cv2.circle(frame, (side // 2, side - 70), 50, (30, 60, 200), -1)
    return frame


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        clip = Path(folder) / "clip.avi"
        build_clip(clip)
        matrix, track = face_covariance(clip)
        contact_sheet(clip, track, sys.argv[1])
        print(track.summary())
        centres = np.array([face_centre(k) for k in track.boxes])
        boxes = np.array(list(track.boxes.values()))
        off = np.linalg.norm(boxes[:, :2] + boxes[:, 2:] / 2 - centres, axis=1) / boxes[:, 2]
        print(f"{matrix.shape}, smallest eigenvalue {np.linalg.eigvalsh(matrix)[0]:.3g}")
        print(f"box centre at most {off.max():.2f} of its side from the face")
