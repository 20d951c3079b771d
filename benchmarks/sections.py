"""The sections of `bench.py`: each is given a number of repeats and whether to be tiny, and returns its lines."""

from __future__ import annotations

import os
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bench import Rows, clocked, interleaved, row
from paper_algorithm import paper_seconds
from problems import full_graph, make, make_problem, neighbors, per_iteration
from pymanopt_peer import autograd_cost, ours, peer
from spdsl import SPDSL, pairwise_sqdist
from spdsl.data import MemoryData
from spdsl.geometry.manifolds import MANIFOLDS
from spdsl.learning.problem import Problem
from spdsl.learning.solver import minimize
from whole_jobs import aim_neighbors, tuning, whole

FACES = {"N": 141, "n": 401, "m": 40}  # the size of the paper's face set
TINY = {"N": 30, "n": 40, "m": 8}


def iteration(repeats: int, tiny: bool) -> Rows:
    N, n, m = (TINY if tiny else FACES).values()
    X, _ = make(N, n)
    H = np.random.default_rng(1).standard_normal((n, m))
    sparse, full = (make_problem(X, *graph, m) for graph in (neighbors(N, 2), full_graph(N)))
    mixed = make_problem(X.astype(np.float32), *neighbors(N, 2), m)
    steps = 3 if tiny else 20

    def bare() -> float:
        return min(clocked(lambda: X.reshape(N * n, n) @ H)() for _ in range(3))

    seconds = interleaved(
        {
            "bare": bare,
            "sparse": lambda: per_iteration(*sparse, steps),
            "full": lambda: per_iteration(*full, steps),
            "mixed": lambda: per_iteration(*mixed, steps),
        },
        repeats,
    )
    pairs = len(sparse[0].i)
    return [
        row("the bare product X H (best of 3)", seconds["bare"]),
        row(f"iteration, {pairs} pairs: over the bare product", seconds["sparse"], seconds["bare"], "<= 2.3"),
        row(f"iteration, {len(full[0].i)} pairs: over the sparse one", seconds["full"], seconds["sparse"], "<= 1.15"),
        row(
            "double over mixed precision",
            seconds["sparse"],
            seconds["mixed"],
            ">= 1.25",
            note=f"mixed {middle_ms(seconds['mixed'])}",
        ),
    ]


def peers(repeats: int, tiny: bool) -> Rows:
    N, n, m = (TINY if tiny else FACES).values()
    X, _ = make(N, n)
    problem, W = make_problem(X, *neighbors(N, 2), m)
    steps = 5 if tiny else 50
    ends: dict[str, float] = {}

    def remember(name: str, result: dict[str, float]) -> float:
        ends[name] = result["value"]
        return result["seconds"] / result["iterations"]

    contenders: dict[str, Callable[[], float]] = {
        "ours": lambda: remember("ours", ours(problem, W, steps)),
        "pymanopt, the same gradient": lambda: remember(
            "pymanopt, the same gradient", peer(problem.cost, W, steps, shared=False)
        ),
        "pymanopt, cost and gradient in one call": lambda: remember(
            "pymanopt, cost and gradient in one call", peer(problem.cost, W, steps, shared=True)
        ),
    }
    try:
        cost = autograd_cost(X, problem.objective, problem.i, problem.j)
        contenders["pymanopt, torch autograd"] = lambda: remember(
            "pymanopt, torch autograd", peer(cost, W, steps, shared=False, autograd=True)
        )
    except ImportError:
        print("  (PyTorch is absent: no line for autograd)")
    seconds = interleaved(contenders, max(1, repeats - 2))
    want = {"pymanopt, the same gradient": ">= 2.5", "pymanopt, torch autograd": ">= 5"}
    rows = [row("ours, per iteration", seconds["ours"], note=f"cost {ends['ours']:.5f}")]
    for name in list(contenders)[1:]:
        note = f"cost {ends[name]:.5f}"
        rows.append(row(f"{name}: over ours", seconds[name], seconds["ours"], want.get(name, ""), note=note))
    return rows


def paper(repeats: int, tiny: bool) -> Rows:
    N, n, m = (TINY if tiny else FACES).values()
    X, _ = make(N, n)
    rng = np.random.default_rng(1)
    rows = []
    for name, graph in (("sparse", neighbors(N, 2)), ("full", full_graph(N))):
        problem, W = make_problem(X, *graph, m)
        chosen = rng.choice(len(problem.i), min(20, len(problem.i)), replace=False)

        def theirs(problem: Problem = problem, W: np.ndarray = W, chosen: np.ndarray = chosen) -> float:
            once, each, _ = paper_seconds(X, W, problem.i[chosen], problem.j[chosen])
            return once + each * len(problem.i)

        def mine(problem: Problem = problem, W: np.ndarray = W) -> float:
            return per_iteration(problem, W, 3 if tiny else 10)

        seconds = interleaved({"paper": theirs, "ours": mine}, max(1, repeats - 2))
        title = f"block logarithm per pair, {name} ({len(problem.i)} pairs, scaled from 20): over ours"
        rows.append(row(title, seconds["paper"], seconds["ours"]))
    return rows


def pairwise(repeats: int, tiny: bool) -> Rows:
    from pyriemann.geometry.distance import pairwise_distance

    names = {
        "stein": ("logdet", ">= 5"),
        "aim": ("riemann", ">= 1.8"),
        "wasserstein": ("wasserstein", ">= 8"),
        "jeffreys": ("kullback_sym", ">= 8"),
        "lem": ("logeuclid", ">= 1"),
    }
    rows = []
    sizes = [(500, 40, list(names)), (141, 401, ["stein"])] if not tiny else [(20, 8, list(names))]
    for N, n, metrics in sizes:
        rng = np.random.default_rng(0)
        F = rng.standard_normal((N, n, 2 * n))
        X = F @ F.mT / (2 * n) + 0.01 * np.eye(n)
        for metric in metrics:
            alias, want = names[metric]
            mine = clocked(lambda metric=metric, X=X: pairwise_sqdist(X, metric=metric))
            theirs = clocked(lambda alias=alias, X=X: pairwise_distance(X, metric=alias))
            seconds = interleaved({"theirs": theirs, "ours": mine}, 1)
            rest = min(
                repeats - 1, int(20 / sum(s[0] for s in seconds.values()))
            )  # slow peers are not waited for often
            more = interleaved({"theirs": theirs, "ours": mine}, max(rest, 0))
            seconds = {name: seconds[name] + more[name] for name in seconds}
            title = f"pyRiemann {alias}, N = {N}, n = {n}: over ours"
            note = f"ours {middle_ms(seconds['ours'])}, repeats: {len(seconds['ours'])}"
            rows.append(row(title, seconds["theirs"], seconds["ours"], ">= 3" if n > 100 else want, note=note))
    return rows


def middle_ms(values: list[float]) -> str:
    return f"{1000 * float(np.median(values)):.0f} ms"


def lapack(repeats: int, tiny: bool) -> Rows:
    """Seconds per iteration at the size of HDM05, and what share of it LAPACK takes, on one thread."""
    N, n, m = (30, 20, 6) if tiny else (1168, 93, 30)
    X, _ = make(N, n)
    rows = []
    for metric in ("aim", "stein"):
        problem, W = make_problem(X, *neighbors(N, 5), m, metric)
        seconds = [per_iteration(problem, W, 3) for _ in range(max(1, repeats - 2))]
        with single_thread(), LapackClock() as clock:
            began = time.thread_time()
            minimize(problem, W, MANIFOLDS["psd"], max_iter=3, tol=0.0)
            share = clock.seconds / (time.thread_time() - began)
        note = f"{share:.0%} of the time in LAPACK and the stacked inverse, want >= 80%"
        rows.append(
            row(f"{metric}, {N} x {n} x {n}, m = {m}, {len(problem.i)} pairs", seconds, lapack=share, note=note)
        )
    return rows


@contextmanager
def single_thread() -> Iterator[None]:
    """The library and BLAS on the calling thread alone, whose clock then sees all of the work."""
    from spdsl import backend

    places = (backend, backend.blocks)
    held = [place.threads for place in places]
    for place in places:
        place.threads = lambda: 1
    try:
        with backend.one_blas_thread:
            yield
    finally:
        for place, threads in zip(places, held, strict=True):
            place.threads = threads


class LapackClock:
    """Counts the time inside the LAPACK calls of NumPy and SciPy that the library makes, and its own stacked inverse.

    That inverse stands where LAPACK's `dtrtri` and `dpotri` would be called matrix by matrix.
    """

    def __enter__(self) -> LapackClock:
        import array_api_compat.numpy.linalg as compat
        import scipy.linalg.lapack as f77

        from spdsl import backend

        self.seconds, self.inside = 0.0, False
        # array_api_compat hands on NumPy's own function for some and wraps it for others: each is counted once
        names = ("eigh", "eigvalsh", "cholesky", "svd", "svdvals", "inv", "solve")
        places = [(compat, name) for name in names] + [(f77, "dtrtri"), (backend, "inverse_lower")]
        self.held = [(place, name, getattr(place, name)) for place, name in places if hasattr(place, name)]
        for place, name, function in self.held:
            setattr(place, name, self._counted(function))
        return self

    def _counted(self, function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.inside:
                return function(*args, **kwargs)
            self.inside, began = True, time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.inside = False
                self.seconds += time.thread_time() - began

        return call

    def __exit__(self, *_: object) -> None:
        for place, name, function in self.held:
            setattr(place, name, function)


def growth(repeats: int, tiny: bool) -> Rows:
    N, n, m = (TINY if tiny else FACES).values()
    steps = 3 if tiny else 8
    largest, _ = make((2 if tiny else 8) * N // 3 * 3, n)
    rows = [*_growth_in_matrices(largest, N, m, steps, repeats, tiny)]
    for name, values in (("n", (n // 4, n // 2, n)), ("m", (m // 2, m, min(2 * m, n - 1)))):
        for value in values:
            size, small = (value, m) if name == "n" else (n, value)
            X = np.ascontiguousarray(largest[:N, :size, :size])
            problem, W = make_problem(X, *neighbors(N, 2), small)
            rows.append(row(f"{name} = {value} (N = {N}, n = {size}, m = {small})", [per_iteration(problem, W, steps)]))
    for metric, counts in (("lem", (2, 20, "all")), ("aim", (2, 8)), ("stein", (2, 8))):
        for between in counts:
            graph = full_graph(N) if between == "all" else neighbors(N, between)
            problem, W = make_problem(largest[:N], *graph, m, metric)
            rows.append(row(f"{len(graph[0])} pairs, {metric}", [per_iteration(problem, W, steps)]))
    return rows


def _growth_in_matrices(largest: np.ndarray, N: int, m: int, steps: int, repeats: int, tiny: bool) -> Rows:
    """Time against N at fixed neighbors, of iterations with one trial, and the memory beside X of the first."""
    sizes = [N * k for k in ((1, 2) if tiny else (1, 2, 4, 8)) if N * k <= len(largest)]
    problems = {k: make_problem(largest[:k], *neighbors(k, 2), m) for k in sizes}
    seconds = interleaved(
        {str(k): (lambda pair=pair: per_iteration(*pair, steps, one_trial=True)) for k, pair in problems.items()},
        max(1, repeats - 2),
    )
    first = [s / sizes[0] for s in seconds[str(sizes[0])]]
    rows = []
    for k in sizes:
        each = [s / k for s in seconds[str(k)]]
        line = row(f"N = {k}, one trial: time per matrix over that of N = {sizes[0]}", each, first, "<= 1.1")
        rows.append(line | {"seconds": line["seconds"] * k, "all": seconds[str(k)]})
    del problems
    tracemalloc.start()
    problem, W = make_problem(largest[:N], *neighbors(N, 2), m)
    per_iteration(problem, W, 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    n = largest.shape[-1]
    bound = MemoryData(largest[:N]).bytes_needed(m) - 8 * N * n * n
    note = f"{peak / 1e6:.1f} MB at N = {N}; stated bound {bound / 1e6:.1f} MB; X itself {8 * N * n * n / 1e6:.1f} MB"
    return [*rows, {"what": "peak memory beside X", "bytes": peak, "bound": bound, "note": note}]


def precision(repeats: int, tiny: bool) -> Rows:
    """Accuracy of mixed against double precision, on the real sets where they are at hand."""
    if tiny or not os.environ.get("SPDSL_DATA"):
        return [{"what": "accuracy of mixed precision", "note": "needs SPDSL_DATA, the folder of the real data sets"}]
    from realdata import splits

    rows = []
    for name, draws in (("eth80", 5), ("fpha", 1)):
        scores: dict[str, list[float]] = {"double": [], "mixed": []}
        for split in splits(name, draws):
            for kind, found in scores.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model = SPDSL(split.n_components, precision=kind).fit(split.X_train, split.y_train)
                found.append(100 * model.score(split.X_test, split.y_test))
        double, mixed = np.mean(scores["double"]), np.mean(scores["mixed"])
        note = f"accuracy {double:.2f} double, {mixed:.2f} mixed, difference {mixed - double:+.2f}, want within 0.5"
        rows.append({"what": f"{name}, {draws} draws", "double": double, "mixed": mixed, "note": note})
    return rows


SECTIONS: dict[str, tuple[str, Callable[[int, bool], Rows]]] = {
    "iteration": ("One iteration at the size of the paper's face set (LEM, 141 x 401 x 401, m = 40)", iteration),
    "peers": ("pymanopt's conjugate gradient on PSDFixedRank, same start, same number of iterations", peers),
    "paper": ("The paper's algorithm", paper),
    "pairwise": ("Pairwise distances beside pyRiemann", pairwise),
    "aim": ("Nearest neighbors under AIM", aim_neighbors),
    "whole": ("Whole fits, and a table", whole),
    "tuning": ("Tuning", tuning),
    "lapack": ("AIM and Stein at the size of HDM05", lapack),
    "growth": ("Growth", growth),
    "precision": ("What mixed precision does to accuracy", precision),
}
