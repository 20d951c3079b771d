"""Samples on the workers of a Dask cluster: only small matrices are sent to and fro."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any
from uuid import uuid4

import numpy as np

from spdsl.backend import Array
from spdsl.data import cluster_worker
from spdsl.data.approximate_search import search_vectors
from spdsl.data.base import Data, View
from spdsl.data.bounded_search import bounded
from spdsl.data.cluster_client import Answering, ClusterError, current_client
from spdsl.data.cluster_worker import Order, Step
from spdsl.data.neighbor_search import BlockSummary, Capacities, Nearest, Neighbors, check_vectors, mean_of
from spdsl.data.recentering import Moments, Recentering, add_moments, recentering_of
from spdsl.geometry import LowerBound, Metric
from spdsl.geometry.lower_bounds import sample_places

logger = logging.getLogger(__name__)

PATIENCE = 5.0  # seconds between checks that the workers are alive
AHEAD = 3  # pairs of shards submitted per thread of the cluster while the graph is built


class _Stranded(Exception):
    """All workers that tasks were pinned to are gone, but others are available."""


class ClusterData(Data):
    """Samples in files or chunks, each held by a worker of the cluster.

    Parameters
    ----------
    data : list of paths of `.npy` files that the workers can read, or a Dask array (N, n, n)
        Each file, or chunk along the first axis, is a shard.
    client : distributed.Client, optional
    in_memory : bool
        Whether workers hold their files in memory; otherwise they read them in every pass.
    precision : {"double", "mixed"}

    Examples
    --------
    >>> from dask import array, distributed
    >>> from spdsl.data import as_data
    >>> with distributed.Client(processes=False, dashboard_address=None) as client:
    ...     as_data(array.ones((4, 3, 3), chunks=2)).shape  # a ClusterData
    (4, 3, 3)
    """

    ndim = 3

    def __init__(self, data: Any, client: Any = None, *, in_memory: bool = True, precision: str = "double") -> None:
        self.client = client or current_client()
        if self.client is None:
            raise ValueError(
                "data on a cluster needs a dask.distributed client: start one, e.g. Client(LocalCluster()), "
                "or pass an array in memory"
            )
        self.precision, self.token, self.views = precision, uuid4().hex, 0
        self._shards: list[Any] = []
        self._contents: list[str] = []  # digests of the shards, once they have been described
        self._homes: dict[str, Sequence[str]] = {}  # the workers that each shard is pinned to
        try:
            shapes = self._placed(data, in_memory)
            self.starts = np.cumsum([0, *(shape[0] for shape in shapes)])
            self.shape = (int(self.starts[-1]), shapes[0][1], shapes[0][2])
            self.model = np.empty((0, *self.shape[1:]))
            self._pin()
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> None:
        raise TypeError("samples on a cluster cannot be indexed; for a selection or cross-validation pass a Dask array")

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError("only SPDSL and SPDML accept samples on a cluster; for other methods load them into memory")

    def _placed(self, data: Any, in_memory: bool) -> list[tuple[int, ...]]:
        """Start loading the shards, and return their shapes."""
        for pinned in (True, False):
            with Answering(self.client), suppress(_Stranded):
                self._shards, names = self._place(data, in_memory, pinned)
                shapes, contents = zip(*self._run(cluster_worker.describe), strict=True)
                return self._whole_shapes(names, list(shapes), list(contents))
        raise ClusterError("the workers died while loading the data; do they have enough memory?")

    def _place(self, data: Any, in_memory: bool, pinned: bool) -> tuple[list[Any], list[str]]:
        """Futures of the shards, spread evenly over the workers, and their names for messages."""
        if hasattr(data, "to_delayed"):
            from dask import delayed

            chunks = data.rechunk({1: -1, 2: -1}).to_delayed().ravel().tolist() if data.ndim == 3 else []
            if not chunks:
                raise ValueError(f"X must have shape (n_matrices, n, n), got {tuple(data.shape)}")
            made = [delayed(cluster_worker.Shard, pure=False)(chunk) for chunk in chunks]
            return self.client.compute(made), [f"chunk {k}" for k in range(len(chunks))]
        if (
            not isinstance(data, list | tuple)
            or not all(isinstance(one, str | os.PathLike) for one in data)
            or not data
        ):
            raise TypeError(
                f"samples on a cluster must be a Dask array or a list of paths of .npy files, got {type(data).__name__}"
            )
        workers = sorted(self.client.nthreads()) if pinned else []
        futures = []
        for k, path in enumerate(data):
            key = f"load-{self.token}-{k}" if pinned else f"load-again-{self.token}-{k}"
            pin = {"workers": workers[k % len(workers)], "allow_other_workers": True} if workers else {}
            given = os.path.abspath(path), in_memory, self.precision  # workers may run in another folder
            futures.append(self.client.submit(cluster_worker.load, *given, key=key, **pin))
        self._homes = {future.key: workers for future in futures} if workers else {}
        return futures, [os.fspath(path) for path in data]

    def _pin(self) -> None:
        """Pin tasks to the workers that hold their shards; shards that are reloaded may go elsewhere."""
        with Answering(self.client):
            self._homes = self.client.who_has(self._shards)
        with suppress(Exception):  # not a documented call; without it one more worker death in a row is tolerated
            free = {future.key: None for future in self._shards}
            self.client.sync(self.client.scheduler.set_restrictions, worker=free)

    def _whole_shapes(
        self, names: list[str], shapes: list[tuple[int, ...]], contents: list[str]
    ) -> list[tuple[int, ...]]:
        """Shapes of the shards, without the empty ones, which are dropped; an error if they do not fit together."""
        self._check_shapes(names, shapes)
        filled = [k for k, shape in enumerate(shapes) if shape[0]]
        if not filled:
            raise ValueError(f"X has no matrices: its shape is {tuple(shapes[0])}")
        self._shards, self._contents = [self._shards[k] for k in filled], [contents[k] for k in filled]
        return [shapes[k] for k in filled]

    def _check_shapes(self, names: list[str], shapes: list[tuple[int, ...]]) -> None:
        for name, shape in zip(names, shapes, strict=True):
            if len(shape) != 3 or shape[1] != shape[2]:
                raise ValueError(f"{name} must have shape (n_matrices, n, n), got {shape}")
            if shape[1] != shapes[0][1]:
                raise ValueError(
                    f"{name} holds {shape[1]} x {shape[1]} matrices and {names[0]} {shapes[0][1]} x {shapes[0][1]}: "
                    f"pass matrices of one size"
                )

    # ------------------------------------------------------------------ work on the workers

    def run(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Run `function(shard, ...)` where each shard is; an argument that is a list has one entry per shard."""
        try:
            return self._run(function, *arguments)
        except _Stranded:
            self._homes = {}
            return self._run(function, *arguments)

    def _run(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        futures = []
        for k in range(len(self._shards)):
            given = [argument[k] if isinstance(argument, list) else argument for argument in arguments]
            futures.append(self._on_shard(function, k, *given, home=k))
        return self.gather(futures, pinned=bool(self._homes))

    def _on_shard(self, function: Callable[..., Any], k: int, *arguments: Any, home: int | None = None) -> Any:
        """Start `function(shard k, ...)`, which fails if that shard is no longer what it was."""
        if not self._contents:
            return self.submit(function, self._shards[k], *arguments, home=home)
        return self.submit(cluster_worker.on_same, function, self._contents[k], self._shards[k], *arguments, home=home)

    def submit(self, function: Callable[..., Any], *arguments: Any, home: int | None = None) -> Any:
        """Start a task, on the worker that holds shard `home` if it is still there."""
        import dask.config

        place = self._homes.get(self._shards[home].key) if home is not None else None
        options = {"workers": list(place), "allow_other_workers": True} if place else {}
        # arguments are sent with each task: data scattered beforehand would be lost with its worker
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}), Answering(self.client):
            return self.client.submit(function, *arguments, pure=False, **options)

    def gather(self, futures: Any, pinned: bool = False) -> Any:
        """Results of tasks; an exception in a task is raised here."""
        try:
            with Answering(self.client):
                if pinned:
                    self._wait(futures)
                return self.client.gather(futures)
        except BaseException:
            with suppress(Exception):
                self.client.cancel(futures)
            raise

    def _wait(self, futures: list[Any]) -> None:
        """Wait for pinned tasks. Dask forgets those that had no worker for a moment, whatever workers join later."""
        from distributed import wait

        homes = {address for place in self._homes.values() for address in place}
        while True:
            try:
                wait(futures, timeout=PATIENCE)
                return
            except TimeoutError:
                alive = set(self.client.nthreads())
                if not alive:
                    logger.warning("the cluster has no workers; waiting for workers to join")
                elif not alive & homes:
                    raise _Stranded from None

    # ------------------------------------------------------------------ the Data protocol

    def check(self, name: str = "X") -> None:
        for complaint in self.run(cluster_worker.check, self.starts[:-1].tolist(), name, self.precision):
            if complaint is not None:
                raise ValueError(complaint)

    def to_device(self, device: Any) -> ClusterData:
        if device is not None:
            raise ValueError(f"device={device!r}: data on a cluster are processed by its workers; use device=None")
        return self

    def unit_mean(self) -> np.ndarray:
        weights = np.diff(self.starts) / self.shape[0]
        return np.tensordot(weights, self.run(cluster_worker.unit_mean), axes=1)

    def first_copies(self) -> np.ndarray:
        seen: dict[bytes, int] = {}
        all_digests = (one for part in self.run(cluster_worker.digests) for one in part)
        return np.array([seen.setdefault(one, k) for k, one in enumerate(all_digests)])

    def recentering(self) -> Recentering:
        return recentering_of(
            self.shape,
            sum(self.run(cluster_worker.trace_sum)),
            lambda unit: sum(self.run(cluster_worker.log_sum, unit)),
            self.log_moments,
        )

    def log_moments(self, G: Array) -> Moments:
        return add_moments(self.run(cluster_worker.log_moments, G))

    def map_log_vectors(self, A: Array, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        return np.concatenate(self.run(cluster_worker.map_log_vectors, A, function))

    def neighbors(
        self, metric: Metric, labels: np.ndarray, capacities: Capacities, *, measure: bool, approximate: bool
    ) -> Neighbors:
        if approximate:
            check_vectors(metric)
            Z = np.concatenate(self.run(cluster_worker.vectors, metric))
            return search_vectors(Z, None, labels, capacities, measure=measure)
        within, between = (Nearest(len(labels), capacity) for capacity in capacities)
        total = 0.0
        bound = self._bound(metric) if bounded(metric, capacities, len(labels), measure=measure) else None
        for summary in self._summaries(metric, labels, within, between, bound):
            total += summary.total
            for nearest, offers in ((within, summary.within), (between, summary.between)):
                for offer in offers:
                    nearest.merge(*offer)
        return Neighbors(within, between, mean_of(total, len(labels)) if measure else None)

    def _bound(self, metric: Metric) -> LowerBound | None:
        """Lower bounds around the mean of a sample of all shards."""
        places = sample_places(self.shape[0])
        here = [places[(places >= a) & (places < b)] - a for a, b in pairwise(self.starts)]
        return LowerBound.around(metric, np.concatenate(self.run(cluster_worker.sampled, here)))

    def _summaries(
        self, metric: Metric, labels: np.ndarray, within: Nearest, between: Nearest, bound: LowerBound | None
    ) -> Iterator[BlockSummary]:
        """Summaries of the distances between all pairs of shards, in order, computed on the workers.

        A task knows how far the lists reach when it is sent: what lies beyond is of no use.
        """
        factors = [self._on_shard(cluster_worker.compact, k, metric, bound) for k in range(len(self._shards))]
        pairs = [(a, b) for a in range(len(factors)) for b in range(a, len(factors))]
        waiting: deque[Any] = deque()
        try:
            ahead = AHEAD * max(1, sum(self.client.nthreads().values()))
            for a, b in pairs:
                parts = [slice(self.starts[k], self.starts[k + 1]) for k in ([a] if a == b else [a, b])]
                sides = cluster_worker.Sides(
                    (int(self.starts[a]), int(self.starts[b])),
                    np.concatenate([labels[part] for part in parts]),
                    (_reach(within, parts), _reach(between, parts)),
                )
                other = None if a == b else factors[b]
                capacities = within.capacity, between.capacity
                task = (cluster_worker.summarize_pair, factors[a], other, sides, capacities, metric, bound)
                waiting.append(self.submit(*task))
                if len(waiting) >= ahead:
                    yield self.gather(waiting.popleft())
            while waiting:
                yield self.gather(waiting.popleft())
        finally:
            _let_go([*factors, *waiting])

    def view(self, m: int) -> View:
        return ClusterView(self)

    def reduce(self, W: Array) -> np.ndarray:
        return cluster_worker.unpack(np.concatenate(self.run(cluster_worker.reduce, W)), W.shape[1])

    def release(self) -> None:
        """Let the workers free what they keep for fits; the shards are freed with this object, or by `close`."""
        if self.client.status == "running":
            with suppress(Exception):  # workers that are gone keep nothing
                self.client.run(cluster_worker.forget, self.token, on_error="ignore")

    def close(self) -> None:
        """Free the shards at once, even if a traceback still refers to this object."""
        _let_go(self._shards)


def _reach(nearest: Nearest, parts: Sequence[slice]) -> np.ndarray:
    """How far the lists of some samples reach."""
    return np.concatenate([nearest.reach(part) for part in parts])


def _let_go(futures: Sequence[Any]) -> None:
    with suppress(Exception):  # the client may be closed
        for future in futures:
            future.release()


class ClusterView:
    """Cluster data seen through W, on the driver: it holds W, and sends orders with W and how it was reached.

    Per iteration W, H and the triangles of S are sent; the triangles of A1 and A2 and a gradient (n, m) per shard return.
    """

    def __init__(self, samples: ClusterData) -> None:
        self.samples = samples
        samples.views += 1  # several fits may view the same samples at once
        self.token = f"{samples.token}-{samples.views}"
        self.passes = 0
        self.version = self.looks = 0
        self.W: Any = None
        self.P: Any = None  # at W, as long as that has not moved
        self.moves: list[Step | float] = []

    def start(self, W: Array) -> Array:
        if W is not self.W or self.P is None:
            self.W = W
            self.P = self.refresh()
        return self.P

    def refresh(self) -> Array:
        self.version += 1
        self.moves = []
        self.passes += 1
        return self._whole(self._run(cluster_worker.start))

    def look(self, H: Array) -> tuple[Array, Array]:
        self.H = H
        self.passes += 1
        self.looks += 1
        parts = self._run(cluster_worker.look, self.looks, H)
        return self._whole([part[0] for part in parts]), self._whole([part[1] for part in parts])

    def step(self, t: float, right: Array | None = None) -> Array:
        self.W, self.P = self.W + t * self.H, None
        if right is not None:
            self.W = self.W @ right
        self._moved(Step(self.looks, t, right))
        return self.W

    def scale(self, factor: float) -> Array:
        self.W = self.W * factor
        self.P = None if self.P is None else self.P * factor**2
        self._moved(factor)
        return self.W

    def gradient(self, S: Array) -> Array:
        starts = self.samples.starts
        pieces = [cluster_worker.pack(S[a:b]) for a, b in pairwise(starts)]
        return np.sum(self._run(cluster_worker.gradient, pieces), axis=0)

    def _moved(self, move: Step | float) -> None:
        self.version += 1
        self.moves.append(move)

    def _run(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Run with the order of each shard; matrices already sent are not sent again."""
        samples = self.samples
        orders = [Order(self.token, k, self.version, self.W, tuple(self.moves)) for k in range(len(samples.starts) - 1)]
        answers = samples.run(function, orders, samples.precision, *arguments)
        self.moves = []
        return answers

    def _whole(self, triangles: Sequence[np.ndarray]) -> np.ndarray:
        return cluster_worker.unpack(np.concatenate(triangles), self.W.shape[1])
