"""Samples on the workers of a Dask cluster: they stay there, and small matrices travel."""

from __future__ import annotations

import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from itertools import pairwise
from typing import Any
from uuid import uuid4

import numpy as np

from spdsl.arrays import Array
from spdsl.metrics import Metric
from spdsl.samples import shards
from spdsl.samples.base import DistanceBlock
from spdsl.samples.shards import Order, Step
from spdsl.search import BlockSummary
from spdsl.stacks import Stack

logger = logging.getLogger(__name__)

PATIENCE = 5.0  # seconds after which we ask whether the workers are still there
AHEAD = 3  # pairs of shards under way per thread of the cluster while the graph is built


class ClusterError(RuntimeError):
    """The cluster did not answer, or has lost data that it cannot compute again."""


class _Stranded(Exception):
    """All workers that tasks were pinned to are gone; others are there."""


class ClusterSamples:
    """Files or chunks, each on a worker of the cluster.

    Parameters
    ----------
    data : list of paths of `.npy` files that the workers can read, or a Dask array (N, n, n)
        One shard a file, or a chunk along the first axis.
    client : distributed.Client, optional
        By default the current one.
    in_memory : bool
        Whether workers hold their files in memory, or read them anew in every pass.
    """

    ndim = 3

    def __init__(self, data: Any, client: Any = None, *, in_memory: bool = True, precision: str = "double") -> None:
        self.client = client or current_client()
        if self.client is None:
            raise ValueError(
                "data on a cluster needs a dask.distributed client: start one, e.g. Client(LocalCluster()), "
                "or pass an array in memory"
            )
        self.precision, self.token = precision, uuid4().hex
        self.stacks = 0
        self._shards: list[Any] = []
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
        raise TypeError("samples on a cluster come whole: to choose some, for cross-validation, pass a Dask array")

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError("samples on a cluster are for SPDSL and SPDML: for other methods load them into memory")

    def _placed(self, data: Any, in_memory: bool) -> list[tuple[int, ...]]:
        """Start to load the shards; their shapes."""
        for pinned in (True, False):
            with self._answering(), suppress(_Stranded):
                self._shards, names = self._place(data, in_memory, pinned)
                return self._whole_shapes(names, self._run(shards.describe))
        raise ClusterError("the workers died while they loaded the data: do they have enough memory?")

    def _place(self, data: Any, in_memory: bool, pinned: bool) -> tuple[list[Any], list[str]]:
        """Futures of the shards, spread evenly over the workers, and what to call them."""
        if hasattr(data, "to_delayed"):
            from dask import delayed

            chunks = data.rechunk({1: -1, 2: -1}).to_delayed().ravel().tolist() if data.ndim == 3 else []
            if not chunks:
                raise ValueError(f"X must have shape (n_matrices, n, n), got {tuple(data.shape)}")
            made = [delayed(shards.Shard, pure=False)(chunk) for chunk in chunks]
            return self.client.compute(made), [f"chunk {k}" for k in range(len(chunks))]
        if (
            not isinstance(data, list | tuple)
            or not all(isinstance(one, str | os.PathLike) for one in data)
            or not data
        ):
            raise TypeError(
                f"samples on a cluster are a Dask array or a list of .npy files, got {type(data).__name__}: "
                f"pass one of these"
            )
        workers = sorted(self.client.nthreads()) if pinned else []
        futures = []
        for k, path in enumerate(data):
            key = f"load-{self.token}-{k}" if pinned else f"load-again-{self.token}-{k}"
            pin = {"workers": workers[k % len(workers)], "allow_other_workers": True} if workers else {}
            given = os.path.abspath(path), in_memory, self.precision  # workers may run in another folder
            futures.append(self.client.submit(shards.load, *given, key=key, **pin))
        self._homes = {future.key: workers for future in futures} if workers else {}
        return futures, [os.fspath(path) for path in data]

    def _pin(self) -> None:
        """Pin work to where the shards are; the shards themselves, should they be loaded again, may go elsewhere."""
        with self._answering():
            self._homes = self.client.who_has(self._shards)
        with suppress(Exception):  # an order that no documented call gives; without it one death in a row more is borne
            free = {future.key: None for future in self._shards}
            self.client.sync(self.client.scheduler.set_restrictions, worker=free)

    def _whole_shapes(self, names: list[str], shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Shapes of the shards, of which the empty ones are dropped, or an error where they do not fit together."""
        self._check_shapes(names, shapes)
        filled = [k for k, shape in enumerate(shapes) if shape[0]]
        if not filled:
            raise ValueError(f"X has no matrices: its shape is {tuple(shapes[0])}")
        self._shards = [self._shards[k] for k in filled]
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
        """`function(shard, ...)` of every shard where it is; an argument that is a list has one entry a shard."""
        try:
            return self._run(function, *arguments)
        except _Stranded:
            self._homes = {}
            return self._run(function, *arguments)

    def _run(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        futures = []
        for k, shard in enumerate(self._shards):
            given = [argument[k] if isinstance(argument, list) else argument for argument in arguments]
            futures.append(self.submit(function, shard, *given, home=k))
        return self.gather(futures, pinned=bool(self._homes))

    def submit(self, function: Callable[..., Any], *arguments: Any, home: int | None = None) -> Any:
        """Start a task, on the worker that holds shard `home` if it is still there."""
        import dask.config

        place = self._homes.get(self._shards[home].key) if home is not None else None
        options = {"workers": list(place), "allow_other_workers": True} if place else {}
        # what an order carries travels with it: data that was sent ahead would be lost with its worker
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}), self._answering():
            return self.client.submit(function, *arguments, pure=False, **options)

    def gather(self, futures: Any, pinned: bool = False) -> Any:
        """Results of tasks; what a task raised is raised here."""
        try:
            with self._answering():
                if pinned:
                    self._wait(futures)
                return self.client.gather(futures)
        except BaseException:
            with suppress(Exception):
                self.client.cancel(futures)
            raise

    def _wait(self, futures: list[Any]) -> None:
        """Wait for pinned tasks: those that had no worker at all for a moment Dask forgets, whatever workers come later."""
        from distributed import wait

        homes = {address for place in self._homes.values() for address in place}
        while True:
            try:
                wait(futures, timeout=PATIENCE)
                return
            except TimeoutError:
                alive = set(self.client.nthreads())
                if not alive:
                    logger.warning("the cluster has no workers: waiting for some to come")
                elif not alive & homes:
                    raise _Stranded from None

    def _answering(self) -> Any:
        return _Answering(self.client)

    # ------------------------------------------------------------------ what a learner asks for

    def check(self, name: str = "X") -> None:
        for complaint in self.run(shards.check, self.starts[:-1].tolist(), name, self.precision):
            if complaint is not None:
                raise ValueError(complaint)

    def to_device(self, device: Any) -> ClusterSamples:
        if device is not None:
            raise ValueError(f"device={device!r}: data on a cluster is computed with on its workers; use device=None")
        return self

    def unit_mean(self) -> np.ndarray:
        weights = np.diff(self.starts) / self.shape[0]
        return np.tensordot(weights, self.run(shards.unit_mean), axes=1)

    def first_copies(self) -> np.ndarray:
        seen: dict[bytes, int] = {}
        all_digests = (one for part in self.run(shards.digests) for one in part)
        return np.array([seen.setdefault(one, k) for k, one in enumerate(all_digests)])

    def sqdist_blocks(self, metric: Metric) -> Iterator[DistanceBlock]:
        raise NotImplementedError("distances on a cluster are reduced there: block_summaries")

    def block_summaries(
        self, metric: Metric, labels: np.ndarray, capacities: tuple[int | None, int | None]
    ) -> Iterator[BlockSummary]:
        """Summaries of the distances between all pairs of shards, in order, computed on the workers."""
        factors = [self.submit(shards.compact, shard, metric) for shard in self._shards]
        pairs = [(a, b) for a in range(len(factors)) for b in range(a, len(factors))]
        waiting: deque[Any] = deque()
        try:
            ahead = AHEAD * max(1, sum(self.client.nthreads().values()))
            for a, b in pairs:
                parts = [labels[self.starts[k] : self.starts[k + 1]] for k in ([a] if a == b else [a, b])]
                places = (int(self.starts[a]), int(self.starts[b]))
                other = None if a == b else factors[b]
                task = shards.summarise_pair, factors[a], other, places, np.concatenate(parts), capacities, metric
                waiting.append(self.submit(*task))
                if len(waiting) >= ahead:
                    yield self.gather(waiting.popleft())
            while waiting:
                yield self.gather(waiting.popleft())
        finally:
            _let_go([*factors, *waiting])

    def vectors(self, metric: Metric) -> np.ndarray:
        return np.concatenate(self.run(shards.vectors, metric))

    def stack(self, m: int) -> Stack:
        return ClusterStack(self)

    def reduce(self, W: Array) -> np.ndarray:
        return shards.unpack(np.concatenate(self.run(shards.reduce, W)), W.shape[1])

    def release(self) -> None:
        """Let the workers drop what they keep for fits; the shards go with this object, or by `close`."""
        if self.client.status == "running":
            with suppress(Exception):  # workers that are gone keep nothing
                self.client.run(shards.forget, self.token, on_error="ignore")

    def close(self) -> None:
        """Let go of the shards at once, also where an error holds on to this object."""
        _let_go(self._shards)


def _let_go(futures: Sequence[Any]) -> None:
    with suppress(Exception):  # of a client that is closed
        for future in futures:
            future.release()


class ClusterStack:
    """The driver's side of a stack on a cluster: it holds W, and sends orders that say where W is and how it got there.

    Per iteration W, H and the triangles of S go out, the triangles of A1 and A2 and a gradient (n, m) a shard come back.
    """

    def __init__(self, samples: ClusterSamples) -> None:
        self.samples = samples
        samples.stacks += 1  # several fits may look at the same samples at once
        self.token = f"{samples.token}-{samples.stacks}"
        self.passes = 0
        self.version = self.looks = 0
        self.W: Any = None
        self.moves: list[Step | float] = []

    def start(self, W: Array) -> Array:
        if W is not self.W:
            self.W = W
            self.P = self.refresh()
        return self.P

    def refresh(self) -> Array:
        self.version += 1
        self.moves = []
        self.passes += 1
        return self._whole(self._run(shards.start))

    def look(self, H: Array) -> tuple[Array, Array]:
        self.H = H
        self.passes += 1
        self.looks += 1
        parts = self._run(shards.look, self.looks, H)
        return self._whole([part[0] for part in parts]), self._whole([part[1] for part in parts])

    def step(self, t: float, right: Array | None = None) -> Array:
        self.W = self.W + t * self.H
        if right is not None:
            self.W = self.W @ right
        self._moved(Step(self.looks, t, right))
        return self.W

    def scale(self, factor: float) -> Array:
        self.W = self.W * factor
        self._moved(factor)
        return self.W

    def gradient(self, S: Array) -> Array:
        starts = self.samples.starts
        pieces = [shards.pack(S[a:b]) for a, b in pairwise(starts)]
        return np.sum(self._run(shards.gradient, pieces), axis=0)

    def _moved(self, move: Step | float) -> None:
        self.version += 1
        self.moves.append(move)

    def _run(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Run with the order of each shard; what has been sent need not be sent again."""
        samples = self.samples
        orders = [Order(self.token, k, self.version, self.W, tuple(self.moves)) for k in range(len(samples.starts) - 1)]
        answers = samples.run(function, orders, samples.precision, *arguments)
        self.moves = []
        return answers

    def _whole(self, triangles: Sequence[np.ndarray]) -> np.ndarray:
        return shards.unpack(np.concatenate(triangles), self.W.shape[1])


class _Answering:
    """Turns what Dask raises when the cluster is gone into one error that says so."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: BaseException | None, trace: Any) -> None:
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        if isinstance(error, KilledWorker):
            raise ClusterError(
                f"workers died one after the other at the same work, the last at {error.last_worker.address}: "
                f"do they have enough memory? Smaller shards need less"
            ) from error
        running = self.client.status == "running"
        silent = isinstance(error, CancelledError | CommClosedError | TimeoutError)
        if silent or (isinstance(error, Exception) and not running and not isinstance(error, ClusterError)):
            lost = "has lost data that it cannot compute again" if running else "went away, or the client was closed"
            reason = str(error).partition("\n")[0].rstrip(":") or type(error).__name__
            raise ClusterError(
                f"the cluster {lost} ({reason}); connect to a running scheduler, with data that comes from files, and fit "
                f"again"
            ) from error


def current_client() -> Any:
    """The client of this process, or None; none inside a task, which must not wait for other tasks."""
    if "distributed" not in sys.modules:
        return None
    from distributed import get_worker
    from distributed.client import default_client

    try:
        get_worker()
    except ValueError:
        with suppress(ValueError):
            return default_client()
    return None
