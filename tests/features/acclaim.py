"""A small skeleton and clip in Acclaim's format, their damaged versions, and a fuzzer.

Run by itself it tries many more inputs than the test does:  python tests/features/acclaim.py 20000
"""

from __future__ import annotations

import os
import random
import re
import resource
import sys
import tempfile
import time
from pathlib import Path

from spdsl.features import FeatureError, read_amc

ASF = """# a two-legged thing
:version 1.10
:name test
:units
  mass 1.0
  length 0.5
  angle deg
:root
   order TX TY TZ RX RY RZ
   axis XYZ
   position 0 0 0
   orientation 0 0 0
:bonedata
  begin
     id 1
     name hip
     direction 1 0 0
     length 2
     axis 0 0 0 XYZ
  end
  begin
     id 2
     name leg
     direction 0 -1 0
     length 3
     axis 0 0 20 XYZ
     dof rx ry rz
     limits (-160.0 20.0)
            (-70.0 70.0)
            (-60.0 70.0)
  end
  begin
     id 3
     name foot
     direction 0 0 1
     length 1
     axis 90 0 20 XYZ
     dof rx rz
  end
:hierarchy
  begin
    root hip
    hip leg
    leg foot
  end
"""


def clip_text(frames: int, end: str = "\r\n") -> str:
    lines = ["#!OML:ASF somewhere\\f\xfcr.ASF", ":FULLY-SPECIFIED", ":DEGREES"]
    for k in range(frames):
        lines += [
            str(k + 1),
            f"root {0.1 * k} 1.5 -2e-1 {3 * k} -10 5",
            f"leg {k} {-k} {0.5 * k}",
            f"foot {-k} 1.25e-014",
        ]
    return end.join(lines) + end


def write_pair(folder: Path, frames: int = 12, name: str = "HDM_xx_walk_001_120") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "HDM_xx.asf").write_bytes(ASF.encode("latin-1"))
    clip = folder / f"{name}.amc"
    clip.write_bytes(clip_text(frames).encode("latin-1"))
    return clip


WORDS = [
    b"nan",
    b"inf",
    b"1e999",
    b"-1e308",
    b"1_0",
    b"0x10",
    b":hierarchy",
    b"begin",
    b"end",
    b"root",
    b"(",
    b"#",
    b"99" * 3000,
]


def mutate(rng: random.Random, data: bytes) -> bytes:
    """One to three random injuries: other digits, bytes, lost or doubled pieces, swapped lines, absurd tokens."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at, length = rng.randrange(len(out) + 1), rng.randint(1, 200)
        kind = rng.randrange(7)
        if kind == 0 and out:
            out[at % len(out)] = rng.randrange(256)
        elif kind == 1:
            del out[at : at + length]
        elif kind == 2:
            out[at:at] = out[at : at + length]
        elif kind == 3:
            del out[at:]
        elif kind == 4:
            lines = bytes(out).split(b"\n")
            i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[i], lines[j] = lines[j], lines[i]
            out = bytearray(b"\n".join(lines))
        elif kind == 5:
            digits = [k for k, byte in enumerate(out) if 48 <= byte <= 57]
            for k in rng.sample(digits, min(3, len(digits))):
                out[k] = rng.randrange(48, 58)
        else:
            tokens = bytes(out).split(b" ")
            tokens[rng.randrange(len(tokens))] = rng.choice(WORDS)
            out = bytearray(b" ".join(tokens))
    return bytes(out)


def fuzz(count: int, seed: int, asf: bytes, amc: bytes, folder: Path) -> dict[str, float]:
    """Read `count` damaged pairs; anything but joints or a FeatureError is a crash."""
    rng = random.Random(seed)
    tally = {"tried": 0, "read": 0, "refused": 0, "slowest": 0.0}
    skeleton, clip = folder / "HDM_xx.asf", folder / "HDM_xx_walk_001_120.amc"
    for k in range(count):
        skeleton.write_bytes(mutate(rng, asf) if k % 3 != 0 else asf)
        clip.write_bytes(mutate(rng, amc) if k % 3 != 1 else amc)
        start = time.perf_counter()
        try:
            joints = read_amc(clip)
            assert joints.ndim == 3
            assert joints.shape[2] == 3
            tally["read"] += 1
        except FeatureError as error:
            assert str(folder) in str(error), "the message does not name the file"  # noqa: PT017
            tally["refused"] += 1
        tally["tried"] += 1
        tally["slowest"] = max(tally["slowest"], time.perf_counter() - start)
    return tally


if __name__ == "__main__":
    total = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        pairs = [(ASF.encode("latin-1"), clip_text(12).encode("latin-1"))]
        if "SPDSL_DATA" in os.environ:
            raw = Path(os.environ["SPDSL_DATA"]) / "hdm05_raw"
            clip = (raw / "HDM_bd_squat1Reps_001_120.amc").read_bytes()
            clip = clip[: re.search(rb"\n41\r?\n", clip).start() + 1]  # forty whole frames
            pairs.append(((raw / "HDM_bd.asf").read_bytes(), clip))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for seed, (asf, amc) in enumerate(pairs):
            print(fuzz(total // len(pairs), seed, asf, amc, Path(name)))
        print(f"memory grew by {(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024:.0f} MiB")
