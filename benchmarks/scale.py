"""Beyond memory: stacks on disk, factored matrices, clusters, large graphs, and the cost model beside measurements.

    python benchmarks/scale.py disk         # 25,000 x 128 x 128 (3.3 GB) under a limit of 1 GB, beside memory
    python benchmarks/scale.py factored     # n = 2,048, r = 40, N = 500; ETH-80 dense and factored (SPDSL_DATA)
    python benchmarks/scale.py cluster      # two workers, one of them killed; bytes moved
    python benchmarks/scale.py graph        # 50,000 matrices of 20 x 20 under LEM, exact and approximate
    python benchmarks/scale.py model        # seconds per iteration at three sizes, measured and predicted
    python benchmarks/scale.py COMMAND --tiny

Files go to a temporary folder (TMPDIR) and are removed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from scale_cluster import cluster, model
from scale_common import CLASSES, LEM, fit, iterate, peak_mb, write_stack
from spdsl import SPDSL, FactoredSPD, pairwise_sqdist
from spdsl.data import Data, as_data
from spdsl.features import set_factors
from spdsl.learning.graph import survey_pairs

# ---------------------------------------------------------------------- on disk


def disk(tiny: bool) -> None:
    N, n, m, limit = (600, 24, 4, 0) if tiny else (25_000, 128, 8, 1000)
    with tempfile.TemporaryDirectory() as folder:
        path = write_stack(Path(folder) / "stack.npy", N, n)
        print(f"{N} matrices {n} x {n}, m = {m}: {path.stat().st_size / 1e9:.2f} GB")
        report = alone(tiny, "_limited", path, m, limit)
        print(f"fit on disk: peak resident set {report['peak']:.0f} MB, memory limited to {limit} MB on the process")
        print(
            f"  {report['iterations']} iterations, {report['pairs']} pairs; seconds: graph and checks {report['before']:.0f}"
        )
        few = min(N, 1000)
        options = {"n_within": 5, "n_between": 5, "max_iter": 10, "tol": 0.0}
        y = np.arange(few) % CLASSES
        here, there = (
            fit(SPDSL(m, **options), X, y) for X in (np.load(path, mmap_mode="c")[:few], as_data(path)[:few])
        )
        difference = np.abs(here.components_ - there.components_).max() / np.abs(here.components_).max()
        print(f"{few} of them: W on disk and in memory differ by {difference:.1e} of its largest entry")
        report = alone(tiny, "_beside", path, m, 2 if tiny else 5)
        print(f"iteration in memory {report['memory']:.3f} s, on disk {report['disk']:.3f} s, warm cache")
        print(
            f"ratio {report['disk'] / report['memory']:.2f} (median of alternating runs), same cost to {report['same']:.0e}"
        )


def _limited(path: str, m: str, limit: str) -> dict:
    """A fit with a limit on the memory of the process."""
    if int(limit):
        resource.setrlimit(resource.RLIMIT_DATA, (int(limit) << 20,) * 2)
    began = time.perf_counter()
    N = as_data(path).shape[0]
    model = fit(SPDSL(int(m), n_within=5, n_between=5, max_iter=10, tol=0.0), path, np.arange(N) % CLASSES)
    taken = sum(row["seconds"] for row in model.history_)
    before = time.perf_counter() - began - taken
    return {"peak": peak_mb(), "iterations": model.n_iter_, "pairs": len(model.graph_), "before": before}


def _beside(path: str, m: str, repeats: str) -> dict:
    """Iterations on disk and in memory, in turn."""
    places = {"disk": as_data(path), "memory": as_data(np.load(path))}
    seconds: dict[str, list[float]] = {name: [] for name in places}
    values = {}
    for _ in range(int(repeats)):
        for name, samples in places.items():
            taken, _, values[name] = iterate(samples, int(m), 4)
            seconds[name] += taken.tolist()
    same = abs(values["disk"] / values["memory"] - 1)
    return {name: float(np.median(taken)) for name, taken in seconds.items()} | {"same": same}


# ---------------------------------------------------------------------- factored


def factored(tiny: bool) -> None:
    for metric in ("lem", "stein", "aim"):
        compare_small(metric)
    N, n, r, m = (30, 200, 8, 4) if tiny else (500, 2048, 40, 20)
    report = alone(tiny, "_factored", N, n, r, m)
    print(f"N = {N}, n = {n}, r = {r}, m = {m} (dense: {8 * N * n * n / 1e9:.1f} GB)")
    print(f"  fit {report['fit']:.0f} s, of it {report['before']:.0f} s before the {report['iterations']} iterations")
    print(f"  {report['iteration']:.3f} s per iteration; peak resident set {report['peak']:.0f} MB")
    if os.environ.get("SPDSL_DATA"):
        eth80(2 if tiny else 5)


def compare_small(metric: str) -> None:
    """Fits and distances beside those of the formed matrices."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 4
    X = FactoredSPD(rng.standard_normal((40, 30, 6)) * (1 + y[:, None, None] * (np.arange(30) < 5)[:, None]), 0.1)
    d2, exact = pairwise_sqdist(X, metric=metric), pairwise_sqdist(X.dense(), metric=metric)
    distances = np.max(np.abs(d2 - exact)) / exact.max()
    options = {"metric": metric, "n_within": 3, "n_between": 3, "beta": "original", "max_iter": 10, "tol": 0.0}
    here, there = (fit(SPDSL(5, **options), data, y) for data in (X, X.dense()))
    learned = here.sqdist(X), there.sqdist(X.dense())
    print(
        f"{metric}: distances differ by {distances:.1e}, the cost by {abs(here.cost_ / there.cost_ - 1):.1e}, "
        f"learned distances by {np.max(np.abs(learned[0] - learned[1])) / learned[1].max():.1e} (relative)"
    )


def _factored(N: str, n: str, r: str, m: str) -> dict:
    """A fit of factors with fast decaying spectrum, as deep features have."""
    rng = np.random.default_rng(0)
    y = np.arange(int(N)) % CLASSES
    scale = np.geomspace(1, 0.05, int(n))[:, None]
    centers = np.random.default_rng(1).standard_normal((CLASSES, int(n), 2))

    def frames(k: int) -> np.ndarray:
        F = rng.standard_normal((int(n), int(r))) * scale
        F[:, :2] += centers[y[k]]
        return F / np.sqrt(int(r))

    factors = [frames(k) for k in range(int(N))]
    X = FactoredSPD(factors, [1e-3 * np.sum(F**2) for F in factors])
    del factors
    began = time.perf_counter()
    model = fit(SPDSL(int(m), n_within=10, n_between=10, max_iter=30, tol=0.0), X, y)
    taken = time.perf_counter() - began
    seconds = [row["seconds"] for row in model.history_[1:]]
    report = {"fit": taken, "before": taken - sum(seconds), "iterations": model.n_iter_}
    return report | {"iteration": float(np.median(seconds)), "peak": peak_mb()}


def eth80(repeats: int) -> None:
    """Iterations on the image sets of ETH-80, formed and factored, in turn."""
    from realdata import folder

    box = np.load(folder() / "eth80_20x20.npz")
    sets = [box["faces20"][box["set_id"] == k] for k in np.unique(box["set_id"])]
    X = FactoredSPD(*zip(*(set_factors(views, embedding="augmented") for views in sets), strict=True))
    places = {"dense": X.dense(), "factored": X}
    seconds: dict[str, list[float]] = {name: [] for name in places}
    products: dict[str, list[float]] = {name: [] for name in places}
    cost = {}
    for _ in range(repeats):
        for name, data in places.items():
            model = fit(SPDSL(40, max_iter=10, tol=0.0), data, box["set_label"])
            seconds[name] += [row["seconds"] for row in model.history_[1:]]
            products[name].append(product_seconds(as_data(data), 40))
            cost[name] = model.cost_
    middle = {name: 1000 * float(np.median(taken)) for name, taken in seconds.items()}
    bare = {name: 1000 * float(np.median(taken)) for name, taken in products.items()}
    print(
        f"ETH-80, 80 matrices 401 x 401 of rank 41, m = 40; same cost to {abs(cost['dense'] / cost['factored'] - 1):.0e}"
    )
    print(
        f"  iteration: dense {middle['dense']:.1f} ms, factored {middle['factored']:.1f} ms, ratio "
        f"{middle['dense'] / middle['factored']:.2f}"
    )
    print(
        f"  look and gradient alone: dense {bare['dense']:.1f} ms, factored {bare['factored']:.1f} ms, ratio "
        f"{bare['dense'] / bare['factored']:.2f}"
    )


def product_seconds(samples: Data, m: int) -> float:
    """What of an iteration touches the data: a look and a gradient."""
    N, n, _ = samples.shape
    W, H = np.random.default_rng(0).standard_normal((2, n, m))
    S = np.broadcast_to(np.eye(m), (N, m, m)).copy()
    stack = samples.view(m)
    stack.start(W)
    began = time.perf_counter()
    for _ in range(5):
        stack.look(H)
        stack.gradient(S)
    return (time.perf_counter() - began) / 5


# ---------------------------------------------------------------------- graph


def graph(tiny: bool) -> None:
    N, n = (1500, 6) if tiny else (50_000, 20)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        write_logs(path := Path(folder) / "stack.npy", N, n)
        for kind in ("exact", "approximate"):
            report = alone(tiny, "_graph", path, kind, Path(folder) / f"{kind}.npy")
            found[kind] = np.load(Path(folder) / f"{kind}.npy")
            print(
                f"{kind}: {report['seconds']:.0f} s ({report['cpu']:.0f} s of the processor), {len(found[kind])} pairs, "
                f"peak resident set {report['peak']:.0f} MB ({report['base']:.0f} MB before)"
            )
            report_of = report["seconds"], report["cpu"]
            found[kind + " seconds"] = np.array(report_of)
    recall = np.isin(found["exact"], found["approximate"]).mean()
    faster = found["exact seconds"] / found["approximate seconds"]
    print(
        f"{N} matrices {n} x {n}, LEM, 10 neighbors within and 10 between {CLASSES} classes: recall {recall:.4f}, "
        f"speed-up {faster[0]:.1f} ({faster[1]:.1f} of the processor's time)"
    )


def write_logs(path: Path, N: int, n: int) -> None:
    """Matrices whose logarithms vary in 12 directions, with classes and noise."""
    rng = np.random.default_rng(0)
    parts = rng.standard_normal((CLASSES + 12, n, n))
    stack = np.lib.format.open_memmap(path, mode="w+", dtype="f8", shape=(N, n, n))
    for k in range(0, N, 1000):
        y = np.arange(k, min(k + 1000, N)) % CLASSES
        S = parts[y] + np.tensordot(rng.standard_normal((len(y), 12)), parts[CLASSES:], 1)
        S = 0.12 * (S + 0.2 * rng.standard_normal(S.shape))
        w, V = np.linalg.eigh((S + S.mT) / 2)
        P = (V * np.exp(w)[:, None, :]) @ V.mT
        stack[k : k + len(y)] = (P + P.mT) / 2


def _graph(path: str, kind: str, out: str) -> dict:
    samples = as_data(path)
    N = samples.shape[0]
    base, began, cpu = peak_mb(), time.perf_counter(), time.process_time()
    labels = np.arange(N) % CLASSES
    made = survey_pairs(samples, labels, LEM, 10, 10, measure=False, approximate=kind == "approximate").graph
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    np.save(out, made.i * N + made.j)
    return {"seconds": seconds, "cpu": cpu, "peak": peak_mb(), "base": base}


def alone(tiny: bool, part: str, *arguments: object) -> dict:
    """Run a part in a process of its own, so that its memory is its own too; a tiny one in this process."""
    if tiny:
        return PARTS[part](*map(str, arguments))
    line = [sys.executable, __file__, part, *map(str, arguments)]
    out = subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(out.stdout.splitlines()[-1])


COMMANDS = {"disk": disk, "factored": factored, "cluster": cluster, "graph": graph, "model": model}
PARTS = {"_limited": _limited, "_beside": _beside, "_factored": _factored, "_graph": _graph}


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] in PARTS:
        print(json.dumps(PARTS[sys.argv[1]](*sys.argv[2:])))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=COMMANDS, nargs="?")
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    for name in [given.command] if given.command else COMMANDS:
        COMMANDS[name](given.tiny)


if __name__ == "__main__":
    main()
