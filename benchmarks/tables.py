"""All methods on one real set (the folder in SPDSL_DATA), tuned inside the training part; a Markdown table.

    python benchmarks/tables.py hdm05 --jobs 2 --json docs/tables/hdm05.json

Sets: fpha (official split), hdm05 (train on one actor, test on the rest), kth (6 + 6 per class), eth80 (5 + 5 per class).
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np

from realdata import splits
from spdsl import METHODS
from spdsl.experiments.compare import Comparison, compare


def as_stack(name: str, draws: int) -> tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]], int]:
    """The draws of a set as one stack with index pairs, which is what `compare` takes."""
    X, y, pairs, start = [], [], [], 0
    for split in splits(name, draws):
        ends = start + len(split.y_train), start + len(split.y_train) + len(split.y_test)
        X += [split.X_train, split.X_test]
        y += [split.y_train, split.y_test]
        pairs.append((np.arange(start, ends[0]), np.arange(*ends)))
        start, m = ends[1], split.n_components
    return np.concatenate(X), np.concatenate(y), pairs, m


def markdown(result: Comparison) -> str:
    lines = [
        "| method | category | accuracy | tuned to | tune s | fit s | predict s |",
        "|---|---|---|---|---|---|---|",
    ]
    best = max(row.accuracy for row in result.rows if row.failed < row.n_splits)
    for row in result.rows:
        accuracy = f"{100 * row.accuracy:.1f}" + (f" ± {100 * row.std:.1f}" if row.n_splits > 1 else "")
        if row.accuracy == best:
            accuracy = f"**{accuracy}**"
        note = ", ".join(f"{key} {value}" for key, value in row.params.items())
        if row.failed:
            note += f" ({row.failed} of {row.n_splits} failed: {row.error})"
        seconds = " | ".join(f"{s:.2g}" for s in (row.tune_seconds, row.fit_seconds, row.predict_seconds))
        lines.append(f"| {row.method} | {row.category} | {accuracy} | {note} | {seconds} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=["fpha", "hdm05", "kth", "eth80"])
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="a class has fewer training samples")
    X, y, pairs, m = as_stack(options.set, options.draws)
    began = time.perf_counter()
    result = compare(
        X, y, options.methods, splits=pairs, n_components=m, n_folds=options.folds, n_jobs=options.jobs, random_state=0
    )
    print(markdown(result))
    print(f"\n{len(pairs)} splits, m = {m}, {options.folds} folds, {time.perf_counter() - began:.0f} s")
    if options.json:
        cells = [
            {"method": c.method, "split": c.split, "accuracy": c.accuracy, "params": c.params} for c in result.cells
        ]
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(cells, indent=1) + "\n")


if __name__ == "__main__":
    main()
