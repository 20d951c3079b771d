"""How equal is the same fit: twice, on another number of threads, from disk, from factors, on a cluster.

    python benchmarks/determinism.py
    python benchmarks/determinism.py --tiny
    python benchmarks/determinism.py --real        # the defaults, to the end of the fit, on digits, fpha and hdm05

Every fit runs in a process of its own with its threads pinned; reported is the relative difference of the final cost to that
of the fit in memory on one thread, and whether all labels predicted for the training matrices are the same. With `--real`:
also in another order of memory, scaled, and with the samples permuted, and the learned distances and labels of unseen samples.
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
    # what factors can do as well: they form no matrix to recenter
    same = {"classifier": "nn", "solver": {"init": "pca"}}
    model = spdsl.SPDSL(max(2, n // 5), metric=metric, n_between=4, n_within=4, max_iter=30, **same)
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


def fit_apart(place: str, metric: str, threads: int, more: tuple[Any, ...]) -> dict[str, Any]:
    """The same in a process with so many threads."""
    command = [sys.executable, __file__, "--child", place, metric, *map(str, more)]
    environment = os.environ | dict.fromkeys(THREADS, str(threads))
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{place}, {metric}: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def real_split(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Training matrices and labels, test matrices, and m."""
    from realdata import load_fpha, load_hdm05

    if name == "digits":
        X, y = spdsl.datasets.load_digit_sets()
        return X[::16], y[::16], X[1::16], 20
    if name == "fpha":
        X, y, _ = load_fpha()
        return X[::6], y[::6], X[1::6], 21  # AIM over all pairs of more would take hours
    X, y, _ = load_hdm05()
    return X[::2], y[::2], X[1::2], 30


def learn_real(name: str, metric: str, objective: str, variant: str) -> dict[str, Any]:
    """One fit on real data in this process: its distances between unseen and training matrices, and labels."""
    warnings.simplefilter("ignore")
    X, y, other, m = real_split(name)
    order = np.random.default_rng(0).permutation(len(X)) if variant == "permuted" else np.arange(len(X))
    scale = {"x 2^20": 2.0**20, "x 1e12": 1e12}.get(variant, 1.0)
    seen = np.asfortranarray(X[order] * scale) if variant == "Fortran" else X[order] * scale
    model = spdsl.SPDSL(m, metric=metric, objective=objective).fit(seen, y[order])
    unseen = other[:: -(-len(other) // 100)] * scale
    d2 = np.empty((len(unseen), len(X)))
    d2[:, order] = model.sqdist(unseen, seen)
    return {"cost": model.cost_, "d2": d2.tolist(), "labels": model.predict(other * scale).tolist()}


def report_real(names: list[str], metrics: list[str], objectives: list[str]) -> None:
    """A line for each set, metric, objective and variant."""
    print(
        f"{'set':8}{'metric':8}{'objective':21}{'variant':12}{'same bits':>10}{'cost':>9}{'distances':>11}{'labels':>10}"
    )
    variants = [("plain", 1), ("plain", 2), ("plain", 4), ("Fortran", 1), ("x 2^20", 1), ("x 1e12", 1), ("permuted", 1)]
    for name in names:
        for metric in metrics:
            for objective in objectives:
                found = [fit_apart("real", metric, threads, (name, objective, what)) for what, threads in variants]
                first, d2 = found[0], np.array(found[0]["d2"])
                for (what, threads), other in list(zip(variants, found, strict=True))[1:]:
                    cost = abs(other["cost"] / first["cost"] - 1)
                    apart = np.abs(np.array(other["d2"]) - d2).max() / d2.max()
                    labels = np.mean(np.array(other["labels"]) != np.array(first["labels"]))
                    label = f"{threads} threads" if what == "plain" else what
                    line = f"{name:8}{metric:8}{objective:21}{label:12}{other == first!s:>10}{cost:9.1e}{apart:11.1e}"
                    print(f"{line}{labels:10.2%}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--real", nargs="*", metavar="SET", help="digits, fpha, hdm05; all of them if none is named")
    parser.add_argument("--metric", nargs="+", default=["lem", "stein", "aim"], help="with --real")
    parser.add_argument("--objective", nargs="+", default=["stochastic-neighbors", "alignment"], help="with --real")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        place, metric, *more = options.child
        if place == "real":
            name, objective, variant = more
            print(json.dumps(learn_real(name, metric, objective, variant)))
            return
        *size, folder = more
        print(json.dumps(learn(place, metric, *map(int, size), Path(folder))))
        return
    if options.real is not None:
        report_real(options.real or ["digits", "fpha", "hdm05"], options.metric, options.objective)
        return
    size = (24, 12, 8) if options.tiny else (120, 100, 30)
    metrics = ("lem",) if options.tiny else ("lem", "stein", "aim")
    runs = [("memory", 1), ("memory", 2), ("disk", 1), ("factors", 1)] + ([] if options.tiny else [("cluster", 1)])
    print(f"{size[0]} matrices {size[1]} x {size[1]}, 30 iterations")
    print(f"{'metric':8}{'data':10}{'threads':>8}{'same bits':>11}{'difference':>12}{'same labels':>13}")
    with tempfile.TemporaryDirectory() as folder:
        for metric in metrics:
            first = fit_apart("memory", metric, 1, (*size, folder))
            for place, threads in runs:
                other = fit_apart(place, metric, threads, (*size, folder))
                difference = abs(other["cost"] / first["cost"] - 1)
                bits, labels = other["digest"] == first["digest"], other["labels"] == first["labels"]
                print(f"{metric:8}{place:10}{threads:8d}{bits!s:>11}{difference:12.1e}{labels!s:>13}")


if __name__ == "__main__":
    main()
