"""Clips with a real face in them, made from a photograph that scikit-image ships."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from skimage.data import astronaut

FACE = (224, 110)  # center of the face in the photograph


def frame(k: int, *, face: bool = True, side: int = 200) -> np.ndarray:
    """Frame `k` of a pan over the photograph (the face drifts right by 2 pixels a frame), or drawn shapes."""
    if not face:
        image = np.full((side, side, 3), 90, np.uint8)
        return cv2.rectangle(image, (20 + k, 40), (90 + k, 160), (200, 180, 60), -1)
    photo = cv2.cvtColor(astronaut(), cv2.COLOR_RGB2BGR)
    shift = np.array([[0.8, 0, center(k)[0] - 0.8 * FACE[0]], [0, 0.8, center(k)[1] - 0.8 * FACE[1]]])
    return cv2.warpAffine(photo, shift, (side, side), borderMode=cv2.BORDER_REPLICATE)


def center(k: int) -> tuple[float, float]:
    return 80.0 + 2 * k, 95.0


def write_video(path: Path, faces: list[bool], codec: str = "MJPG") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*codec), 25, (200, 200))
    assert writer.isOpened()
    for k, face in enumerate(faces):
        writer.write(frame(k, face=face))
    writer.release()
    return path


def write_frames(folder: Path, faces: list[bool]) -> Path:
    folder.mkdir(parents=True)
    for k, face in enumerate(faces):
        cv2.imwrite(str(folder / f"frame{k}.png"), frame(k, face=face))
    return folder
