from __future__ import annotations

import re
from pathlib import Path

import cv2
import numpy as np
from acclaim import write_pair
from clips import frame, write_video

PAGE = Path(__file__).parents[2] / "docs" / "features.md"


def test_the_python_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_video(Path("clip.avi"), [True] * 12)
    cv2.imwrite("oak.jpg", frame(0))
    write_pair(Path(), name="HDM_bd_squat1Reps_001_120")
    Path("HDM_xx.asf").rename("HDM_bd.asf")
    for take in (1, 2, 3, 4):
        write_pair(Path("HDM05_cut_amc"), frames=9 + take, name=f"HDM_xx_squat1Reps_{take:03}_120")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) == 2
    scope = {"frames": np.random.default_rng(0).normal(size=(30, 4, 4)), "__name__": "__main__"}
    for block in blocks:
        exec(compile(block.replace("jobs=8", "jobs=1"), PAGE.name, "exec"), scope)
    assert scope["P"].shape == (17, 17)
    assert scope["X"].shape == (4, 12, 12)
    assert scope["protocol"].draws == 10
