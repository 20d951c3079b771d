"""The real sets (the folder in SPDSL_DATA) as files that `spdsl reproduce --data` reads: X, y, and the splits as masks.

    python benchmarks/real_stacks.py stacks
    spdsl reproduce --data stacks/hdm05.npz --components 30 --methods all --folds 3

Sets: fpha (official split, m = 20), hdm05 (train on one actor, test on the other four, m = 30), kth (10 draws of 6 + 6 images
per class, m = 40), eth80 (10 draws of 5 + 5 image sets per class, m = 40).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from realdata import draw, load_eth80, load_fpha, load_hdm05, load_kth_tips

SETS = ("fpha", "hdm05", "kth", "eth80")


def stack(name: str, draws: int) -> dict[str, np.ndarray]:
    """Matrices, labels and masks (draws, N) of a set."""
    if name == "fpha":
        X, y, train = load_fpha()
        return {"X": X, "y": y, "train": train[None], "test": ~train[None]}
    if name == "hdm05":
        X, y, actor = load_hdm05()
        train = np.unique(actor)[:draws, None] == actor
        return {"X": X, "y": y, "train": train, "test": ~train}
    X, y = load_kth_tips() if name == "kth" else load_eth80()
    size = 6 if name == "kth" else 5
    masks = np.zeros((2, draws, len(y)), bool)
    for k in range(draws):
        for mask, part in zip(masks, draw(y, k, size, size), strict=True):
            mask[k, part] = True
    return {"X": X, "y": y, "train": masks[0], "test": masks[1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--draws", type=int, default=10)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.sets:
        content = stack(name, options.draws)
        np.savez(options.folder / f"{name}.npz", **content)
        print(f"{options.folder / name}.npz: X {content['X'].shape}, {len(content['train'])} split(s)")


if __name__ == "__main__":
    main()
