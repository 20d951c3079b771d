"""What recentering of sessions and people, and several matrices a sample, give on real sets (docs/defaults.md).

    python benchmarks/groups.py                       # all of: eeg, florence, hdm05, blocks
    python benchmarks/groups.py eeg florence

eeg: from session 1 to 2 of both subjects, the second session moved by its own mean, all at once or one trial at a time.
florence, hdm05: every subject left out once, each moved by the mean of its own clips. blocks: half of florence3d to train, five
draws, the clip alone and with its three halves, without and with the mean pose, and the halves at other weights in the squared
distance.
Needs SPDSL_DATA; `--tiny` runs on made-up sessions.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np

from realdata import draw_halves, folder, load_hdm05, square
from spdsl import SPDSL, Recenter, pairwise_sqdist
from spdsl.features import set_covariance, temporal_pyramid

Moved = tuple[np.ndarray, np.ndarray]  # training matrices, test matrices
LEARNERS: dict[str, Callable[[], SPDSL]] = {"SPDSL()": SPDSL, "with lda": partial(SPDSL, classifier="lda")}
WEIGHTS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the halves


def moves(X: np.ndarray, groups: np.ndarray, train: np.ndarray) -> dict[str, Moved]:
    """Both parts as they are, and recentered."""
    recenter = Recenter().fit(X[train], groups=groups[train])
    own = recenter.transform(X[train], groups=groups[train])
    found = {
        "as it is": (X[train], X[~train]),
        "recentered": (own, recenter.transform(X[~train], groups=groups[~train])),
    }
    stream = []
    for matrix, group in zip(X[~train], groups[~train], strict=True):
        stream.append(recenter.partial_fit(matrix[None], groups=[group]).transform(matrix[None], groups=[group])[0])
    return found | {"one at a time": (own, np.stack(stream))}


def leave_out(X: np.ndarray, y: np.ndarray, groups: np.ndarray, tested: np.ndarray) -> dict[str, list[float]]:
    """Accuracies, one for each tested group."""
    scores: dict[str, list[float]] = {}
    for group in tested:
        train = groups != group
        for how, (A, B) in moves(X, groups, train).items():
            for name, make in LEARNERS.items():
                score = make().fit(A, y[train]).score(B, y[~train])
                scores.setdefault(f"{name}, {how}", []).append(100 * score)
    return scores


def eeg() -> dict[str, list[float]]:
    box = np.load(folder() / "eeg_2a.npz")
    both: dict[str, list[float]] = {}
    for subject in (7, 9):
        X = square(box[f"triu_{subject}"], int(box["dim"]))
        found = leave_out(X, box[f"y_{subject}"], box[f"session_{subject}"], np.array([2]))
        for name, scores in found.items():
            both.setdefault(name, []).extend(scores)
    return both


def clips() -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Joints of florence3d relative to the first one, classes, subjects."""
    box = np.load(folder() / "florence3d.npz")
    parts = np.split(box["joints"].astype(float), np.cumsum(box["length"])[:-1])
    return [part - part[:, :1] for part in parts], box["y"], box["subject"]


def florence() -> dict[str, list[float]]:
    parts, y, subject = clips()
    X = np.stack([set_covariance(part) for part in parts])
    return leave_out(X, y, subject, np.unique(subject))


def hdm05() -> dict[str, list[float]]:
    X, y, actor = load_hdm05()
    return leave_out(X, y, actor, np.unique(actor))


def blocks() -> dict[str, list[float]]:
    parts, y, _ = clips()
    X, with_mean = (
        np.stack([[set_covariance(part, embedding=how) for part in temporal_pyramid(clip, 2)] for clip in parts])
        for how in ("covariance", "augmented")
    )
    forms = {
        "one matrix": X[:, 0],
        "four matrices": X,
        "one matrix with the mean": with_mean[:, 0],
        "four matrices with the mean": with_mean,
    }
    scores: dict[str, list[float]] = {}
    for train, test in draw_halves(y, 5):
        for name, A in forms.items():
            for who, make in LEARNERS.items():
                scores.setdefault(f"{who}, {name}", []).append(
                    100 * make().fit(A[train], y[train]).score(A[test], y[test])
                )
        for name, rows in weighted(SPDSL(classifier="nn").fit(X[train], y[train]), X, y, train, test).items():
            scores.setdefault(f"nearest neighbor, {name}", []).append(rows)
    return scores


def weighted(model: SPDSL, X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> dict[str, float]:
    """Accuracy of the nearest neighbor with the halves at these weights, and at the one that training samples choose."""
    P, Q = model.transform(X[train]), model.transform(X[test])
    within = [pairwise_sqdist(P[:, k]) for k in range(P.shape[1])]
    across = [pairwise_sqdist(Q[:, k], P[:, k]) for k in range(P.shape[1])]
    found, chosen = {}, {}
    for w in WEIGHTS:
        inner = within[0] + w * sum(within[1:])
        np.fill_diagonal(inner, np.inf)
        chosen[w] = float(np.mean(y[train][inner.argmin(axis=1)] == y[train]))
        outer = across[0] + w * sum(across[1:])
        found[f"halves at {w}"] = 100 * float(np.mean(y[train][outer.argmin(axis=1)] == y[test]))
    best = max(WEIGHTS, key=lambda w: (chosen[w], w == 1.0))
    return found | {"weight by leave-one-out": found[f"halves at {best}"]}


def tiny() -> dict[str, list[float]]:
    """Three made-up sessions whose channels have other gains."""
    rng = np.random.default_rng(0)
    y, session = np.arange(60) % 2, np.arange(60) // 20
    gain = np.exp(rng.standard_normal((3, 4)))[session]
    rhythm = np.where(y[:, None] == np.arange(4) % 2, 1.5, 1.0)
    X = np.stack([set_covariance(rng.standard_normal((50, 4)) * g * r) for g, r in zip(gain, rhythm, strict=True)])
    return leave_out(X, y, session, np.arange(3))


def main() -> None:
    parts = {"eeg": eeg, "florence": florence, "hdm05": hdm05, "blocks": blocks}
    asked = sys.argv[1:] or list(parts)
    if asked == ["--tiny"]:
        parts, asked = {"tiny": tiny}, ["tiny"]
    if set(asked) - set(parts):
        sys.exit(f"choose among {', '.join(parts)}")
    for name in asked:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = parts[name]()
        for row, scores in found.items():
            print(f"{name}: {row}: {np.mean(scores):.1f} +- {np.std(scores, ddof=1):.1f} ({len(scores)})", flush=True)


if __name__ == "__main__":
    main()
