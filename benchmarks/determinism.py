"""How equal is the same fit: twice, on another number of threads, from disk, from factors, on a cluster.

    python benchmarks/determinism.py
    python benchmarks/determinism.py --tiny

Every fit runs in a process of its own with its threads pinned; reported is the relative difference of the final cost to that
of the fit in memory on one thread, and whether all labels predicted for the training matrices are the same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import spdsl

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def frames(N: int, n: int, r: int) -> tuple[np.ndarray, np.ndarray]:
    """Image sets as factors F_i (n, r), whose matrices are F_i F_i' + 0.01 I, and labels."""
    rng = np.random.default_rng(0)
    y = np.arange(N) % 4
    weights = 1 + rng.random((4, n))
    return rng.standard_normal((N, n, r)) * weights[y][:, :, None] / np.sqrt(r), y


def learn(place: str, metric: str, N: int, n: int, r: int, folder: Path) -> dict[str, Any]:
    """The fit of one place in this process."""
    F, y = frames(N, n, r)
    X = F @ F.mT + 0.01 * np.eye(n)
    model = spdsl.SPDSL(max(2, n // 5), metric=metric, n_between=4, n_within=4, max_iter=30)
    warnings.simplefilter("ignore")
    if place == "memory":
        model.fit(X, y)
    elif place == "disk":
        path = folder / f"stack-{os.getpid()}.npy"
        np.save(path, X)
        model.fit(str(path), y)
    elif place == "factors":
        model.fit(spdsl.FactoredSPD(list(F), 0.01), y)
    elif place == "cluster":
        import dask.array
        from distributed import Client, LocalCluster

        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
            model.fit(dask.array.from_array(X, chunks=(-(-N // 4), n, n)), y)
    W = np.asarray(model.components_)
    return {"cost": model.cost_, "digest": hashlib.sha256(W.tobytes()).hexdigest(), "labels": model.predict(X).tolist()}


def fit_apart(place: str, metric: str, threads: int, size: tuple[int, int, int], folder: Path) -> dict[str, Any]:
    """The same in a process with so many threads."""
    command = [sys.executable, __file__, "--child", place, metric, *map(str, size), str(folder)]
    environment = os.environ | dict.fromkeys(THREADS, str(threads))
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{place}, {metric}: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--child", nargs=6, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        place, metric, *size, folder = options.child
        print(json.dumps(learn(place, metric, *map(int, size), Path(folder))))
        return
    size = (24, 12, 8) if options.tiny else (120, 100, 30)
    metrics = ("lem",) if options.tiny else ("lem", "stein", "aim")
    runs = [("memory", 1), ("memory", 2), ("disk", 1), ("factors", 1)] + ([] if options.tiny else [("cluster", 1)])
    print(f"{size[0]} matrices {size[1]} x {size[1]}, 30 iterations")
    print(f"{'metric':8}{'data':10}{'threads':>8}{'same bits':>11}{'difference':>12}{'same labels':>13}")
    with tempfile.TemporaryDirectory() as folder:
        for metric in metrics:
            first = fit_apart("memory", metric, 1, size, Path(folder))
            for place, threads in runs:
                other = fit_apart(place, metric, threads, size, Path(folder))
                difference = abs(other["cost"] / first["cost"] - 1)
                bits, labels = other["digest"] == first["digest"], other["labels"] == first["labels"]
                print(f"{metric:8}{place:10}{threads:8d}{bits!s:>11}{difference:12.1e}{labels!s:>13}")


if __name__ == "__main__":
    main()
