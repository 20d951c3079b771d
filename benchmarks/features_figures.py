"""Figures of the feature extractors on real data: accuracy of plain log-Euclidean neighbors, errors, speed, memory.

With the folder of the data in SPDSL_DATA: python benchmarks/features_figures.py [mocap] [materials] [sets] [stream]
"""

from __future__ import annotations

import os
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np

from spdsl.datasets import Protocol, load_image_folder
from spdsl.features import StreamingCovariance, joint_covariance, read_amc, set_covariance


def lem_accuracy(X: np.ndarray, y: np.ndarray, protocol: Protocol, seed: int = 0) -> tuple[float, float]:
    """Mean and deviation over the draws, in percent, of the nearest neighbor between matrix logarithms."""
    w, V = np.linalg.eigh(X)
    L = ((V * np.log(w)[:, None, :]) @ V.transpose(0, 2, 1)).reshape(len(X), -1)
    sq = (L**2).sum(axis=1)
    d2 = sq[:, None] + sq - 2 * L @ L.T
    scores = [(y[tr][d2[np.ix_(te, tr)].argmin(axis=1)] == y[te]).mean() for tr, te in protocol.splits(y, seed)]
    return 100 * float(np.mean(scores)), 100 * float(np.std(scores))


def mocap(data: Path) -> None:
    reference = np.load(data / "hdm05_11.npz")
    ends = np.cumsum(reference["length"])
    rows = {
        name: slice(end - n, end) for name, end, n in zip(reference["name"], ends, reference["length"], strict=True)
    }
    files = sorted((data / "hdm05_raw").glob("*.amc"))
    start = time.perf_counter()
    clips = [read_amc(file) for file in files]
    rate = sum(map(len, clips)) / (time.perf_counter() - start)
    worst = worst_cov = 0.0
    for file, clip in zip(files, clips, strict=True):
        expected = reference["X"][rows[file.stem]].reshape(-1, 31, 3).astype(float)
        worst = max(worst, float(np.abs(clip[::2] - expected).max()))
        A, B = joint_covariance(clip[::2]), joint_covariance(expected)
        worst_cov = max(worst_cov, float(np.linalg.norm(A - B) / np.linalg.norm(B)))
    print(f"mocap: {len(files)} clips, largest joint error {worst:.5f}, {rate:.0f} frames a second")
    print(f"mocap: 93 x 93 covariances, largest relative difference {worst_cov:.1e}")


def materials(data: Path) -> None:
    for size in (400, 200):
        start = time.perf_counter()
        X, y, _ = load_image_folder(data / "kth_tips", cache=False, size=size)
        seconds = (time.perf_counter() - start) / len(X)
        mean, std = lem_accuracy(X, y, Protocol(train=6, test=6))
        many, _ = lem_accuracy(X, y, Protocol(train=6, test=6, draws=200), seed=1)
        least = np.linalg.eigvalsh(X)[:, 0].min()
        print(
            f"materials at {size} x {size}: {seconds:.3f} s an image, {X.shape}, smallest eigenvalue {least:.3g}, "
            f"LEM {mean:.1f} +- {std:.1f} over 10 draws, {many:.1f} over 200"
        )


def sets(data: Path) -> None:
    saved = np.load(data / "eth80_20x20.npz")
    X = np.stack(
        [
            set_covariance(saved["faces20"][saved["set_id"] == k], embedding="augmented")
            for k in range(len(saved["set_label"]))
        ]
    )
    mean, std = lem_accuracy(X, saved["set_label"], Protocol(train=5, test=5))
    many, _ = lem_accuracy(X, saved["set_label"], Protocol(train=5, test=5, draws=200), seed=1)
    print(f"sets: {X.shape}, LEM {mean:.1f} +- {std:.1f} over 10 draws, {many:.1f} over 200")


def stream(_: Path) -> None:
    rng = np.random.default_rng(0)
    frames = 1000 + rng.standard_normal((50_000, 400)).astype(np.float32) @ rng.standard_normal((400, 400)).astype("f4")
    whole = np.cov(frames.astype(np.float64), rowvar=False)
    tracemalloc.start()
    moments, peaks = StreamingCovariance(), []
    for i in range(0, len(frames), 250):
        moments.update(frames[i : i + 250])
        peaks.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
    error = np.abs(moments.covariance() - whole).max() / np.abs(whole).max()
    print(
        f"stream: 50,000 frames, relative difference {error:.1e}, peak {peaks[9] / 2**20:.1f} MiB after 2,500 frames,"
    )
    print(f"        {peaks[-1] / 2**20:.1f} MiB after 50,000")


if __name__ == "__main__":
    root = Path(os.environ["SPDSL_DATA"])
    parts = {"mocap": mocap, "materials": materials, "sets": sets, "stream": stream}
    for name in sys.argv[1:] or parts:
        parts[name](root)
