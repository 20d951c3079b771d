"""Seconds per iteration on a CUDA device, and the same fit on CPU and GPU.

    python benchmarks/gpu.py                 # one H200 in mind: the largest stack takes 26 GB
    python benchmarks/gpu.py --scale 0.1     # fewer matrices and pairs, for a smaller card
    python benchmarks/gpu.py --device cpu --scale 0.002    # without a card: that it runs

Needs PyTorch and CuPy. With SPDSL_DATA the fits on `fpha` are compared too.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning

sys.path.insert(0, str(Path(__file__).parent))
from problems import full_graph, make_problem, neighbors
from spdsl import SPDSL
from spdsl.geometry.manifolds import MANIFOLDS
from spdsl.learning.problem import Problem
from spdsl.learning.solver import minimize

warnings.simplefilter("ignore", ConvergenceWarning)


def wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def random_stack(N: int, n: int, device: str, dtype: Any = torch.float64) -> torch.Tensor:
    """Covariances of random sets of 60 frames with the paper's ridge, made on the device in blocks."""
    generator = torch.Generator(device=device).manual_seed(0)
    X = torch.empty(N, n, n, dtype=dtype, device=device)
    scale = torch.as_tensor(np.geomspace(1, 0.03, n), device=device)[:, None]
    for start in range(0, N, 1000):
        count = min(1000, N - start)
        F = torch.randn(count, n, 60, generator=generator, dtype=torch.float64, device=device) * scale
        C = F @ F.mT / 60
        ridge = 1e-3 * C.diagonal(dim1=1, dim2=2).sum(1)
        X[start : start + count] = C + ridge[:, None, None] * torch.eye(n, dtype=C.dtype, device=device)
    return X


def timed(problem: Problem, W: Any, iterations: int, device: str) -> dict[str, float]:
    """Mean and median milliseconds of an iteration, whole, after a warm-up, and how many trials it took."""
    minimize(problem, W, MANIFOLDS["psd"], max_iter=2, tol=0.0, gradient_tol=0.0)
    wait(device)
    began = time.perf_counter()
    result = minimize(problem, W, MANIFOLDS["psd"], max_iter=iterations, tol=0.0, gradient_tol=0.0)
    wait(device)
    total = time.perf_counter() - began - result.history[0]["seconds"]
    each = [row["seconds"] for row in result.history[1:]]
    return {
        "ms": 1000 * total / len(each),
        "median ms": 1000 * float(np.median(each)),
        "trials": float(np.mean([row["trials"] for row in result.history[1:]])),
        "value": result.value,
    }


def bare_ms(X: torch.Tensor, m: int, device: str) -> float:
    """The product X H alone."""
    N, n, _ = X.shape
    H = torch.randn(n, m, dtype=X.dtype, device=device)
    X.view(N * n, n) @ H
    wait(device)
    began = time.perf_counter()
    for _ in range(3):
        X.view(N * n, n) @ H
    wait(device)
    return 1000 * (time.perf_counter() - began) / 3


def profile(problem: Problem, W: Any) -> str:
    """Where the time of ten iterations goes, by operation."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as watch

    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])
    with watch(activities=activities) as seen:
        minimize(problem, W, MANIFOLDS["psd"], max_iter=10, tol=0.0, gradient_tol=0.0)
    order = "self_cuda_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
    return str(seen.key_averages().table(sort_by=order, row_limit=22, max_name_column_width=60))


def same_fit(
    X: np.ndarray, y: np.ndarray, m: int, device: str, X_test: np.ndarray, **parameters: Any
) -> dict[str, Any]:
    """One fit on the CPU and one on the device, from NumPy."""
    found: dict[str, Any] = {}
    models = []
    for where in (None, device):
        began = time.perf_counter()
        model = SPDSL(m, device=where, **parameters).fit(X, y)
        found[f"seconds on {where or 'cpu, NumPy'}"] = time.perf_counter() - began
        models.append(model)
    host, other = models
    found["objective, relative difference"] = abs(other.cost_ - host.cost_) / abs(host.cost_)
    found["cost"] = host.cost_
    a, b = host.predict(X_test), other.predict(X_test)
    found["predictions that differ"] = int(np.sum(a != b))
    found["of"] = len(a)
    found["returns"] = type(other.components_).__name__
    return found


def speeds(device: str, scale: float) -> dict[str, Any]:
    """Milliseconds per iteration of the sizes that the targets name."""
    found: dict[str, Any] = {}

    def note(name: str, row: dict[str, Any]) -> None:
        found[name] = row
        print(f"{name}: {row}", flush=True)

    clips, n, m = (141, 401, 40) if scale >= 0.1 else (30, 40, 8)
    faces = random_stack(clips, n, device)
    sparse = make_problem(faces, *neighbors(clips, 2), m)
    note("YTC size, sparse (<= 6 ms)", timed(*sparse, 30, device))
    note("YTC size, full graph", timed(*make_problem(faces, *full_graph(clips), m), 30, device))
    print(profile(*sparse), flush=True)
    del faces, sparse
    N, pairs = max(30, int(20000 * scale)), max(60, int(100000 * scale))
    for metric, want in (("aim", "<= 450 ms"), ("stein", "<= 80 ms")):
        count = max(30, pairs // 10)
        X = random_stack(count, 93, device)
        graph = neighbors(count, 9)
        problem = make_problem(X, *graph, 40, metric)
        note(f"{metric}, {len(graph[0])} pairs, {count} x 93 x 93, m = 40 ({want})", timed(*problem, 20, device))
        del X, problem
    for dtype, name in ((torch.float64, "float64"), (torch.float32, "mixed")):
        if device != "cpu":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        X = random_stack(N, n, device, dtype)
        note(f"bare product, {N} x {n} x {n}, {name}", {"ms": bare_ms(X, m, device)})
        problem = make_problem(X, *neighbors(N, 2), m)
        note(f"LEM, {N} x {n} x {n}, m = {m}, {name} (<= 100 ms)", timed(*problem, 20, device))
        if name == "float64":
            print(profile(*problem), flush=True)
        if device != "cpu":
            note(f"peak memory, {name}", {"GB": torch.cuda.max_memory_allocated() / 1e9, "X, GB": X.nbytes / 1e9})
        del X, problem
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", choices=["speeds", "fits"])
    parser.add_argument("--json", default="build/gpu.json")
    arguments = parser.parse_args()
    name = torch.cuda.get_device_name() if arguments.device != "cpu" else "CPU"
    found: dict[str, Any] = {"device": name, "torch": torch.__version__, "scale": arguments.scale}
    print(found)
    if arguments.only != "fits":
        found["speeds"] = speeds(arguments.device, arguments.scale)
    if arguments.only != "speeds":
        found["fits"] = fits(arguments.device, arguments.scale)
    Path(arguments.json).parent.mkdir(parents=True, exist_ok=True)
    Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n")


def fits(device: str, scale: float) -> dict[str, Any]:
    """The same fits on both: random covariances, and real data where they are at hand."""
    count = max(40, int(400 * scale))
    X = random_stack(count, 60, "cpu").numpy()
    X[: count // 2, :20, :20] *= 1.5
    y = (np.arange(count) >= count // 2).astype(int)
    found = {
        f"{metric}, m = {m}": same_fit(X, y, m, device, X, metric=metric, n_within=5, n_between=5, max_iter=15)
        for metric, m in (("lem", 40), ("lem", 20), ("aim", 20), ("stein", 20))
    }
    if os.environ.get("SPDSL_DATA") and scale >= 0.1:
        from realdata import splits

        split = next(splits("fpha"))
        for metric in ("lem", "stein"):
            found[f"fpha, {metric}"] = same_fit(
                split.X_train, split.y_train, split.n_components, device, split.X_test, metric=metric, n_between=10
            )
    for name, row in found.items():
        print(f"{name}: {row}", flush=True)
    return found


if __name__ == "__main__":
    main()
