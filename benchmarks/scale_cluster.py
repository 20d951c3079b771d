"""The parts of `scale.py` on a cluster, and the cost model beside measurements."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from costmodel import Rates, Size, cluster_seconds, disk_seconds
from scale_common import CLASSES, LEM, fit, iterate, some_pairs, write_stack
from spdsl import SPDSL
from spdsl.data import Data, as_data


@contextmanager
def local_cluster(workers: int = 2) -> Iterator[object]:
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": None, "processes": True}
    with LocalCluster(n_workers=workers, **options) as started, Client(started) as client:
        yield client


class Wire:
    """Counts the bytes that this process, driver and scheduler of a LocalCluster, sends and receives."""

    def __init__(self) -> None:
        from distributed.comm import tcp

        self.sent = self.received = 0
        header, read = tcp._add_frames_header, tcp.read_bytes_rw

        def counted_header(frames: list) -> tuple:
            made = header(frames)
            self.sent += made[2]
            return made

        async def counted_read(stream: object, count: int) -> object:
            self.received += count
            return await read(stream, count)

        tcp._add_frames_header, tcp.read_bytes_rw = counted_header, counted_read


def write_shards(folder: str, N: int, n: int, shards: int) -> list[str]:
    each = N // shards
    return [str(write_stack(Path(folder) / f"{n}-{N}-{k}.npy", each, n, k * each)) for k in range(shards)]


def cluster(tiny: bool) -> None:
    N, n, m, shards = (400, 16, 4, 4) if tiny else (8000, 64, 10, 4)
    y = np.arange(N) % CLASSES
    options = {"n_within": 5, "n_between": 5, "max_iter": 12, "tol": 0.0}
    wire = Wire()
    with tempfile.TemporaryDirectory() as folder, local_cluster() as client:
        paths = write_shards(folder, N, n, shards)
        memory = fit(SPDSL(m, **options), np.concatenate([np.load(path) for path in paths]), y)
        counts: list[tuple[int, int]] = []
        model = SPDSL(m, **options, callback=lambda row, W: counts.append((wire.sent, wire.received)))
        fit(model, paths, y)
        print(f"{N} matrices {n} x {n} in {shards} files on 2 workers, m = {m}")
        print(f"  cost in memory {memory.cost_:.12f}, on the cluster {model.cost_:.12f}")
        size = Size(N, n, m, len(model.graph_), shards, 2)
        sent, received = np.median(np.diff(np.array(counts), axis=0), axis=0)
        # driver and scheduler are one process here, and all passes through both
        out, back = 2 * size.sent + size.received, size.sent + 2 * size.received
        print(
            f"  driver, by the model: sends {size.sent / 1e6:.3f} MB per iteration, receives {size.received / 1e6:.3f}"
        )
        print(f"  driver and scheduler: sent {sent / 1e6:.3f} MB (model {out / 1e6:.3f})")
        print(f"  driver and scheduler: received {received / 1e6:.3f} MB (model {back / 1e6:.3f})")
        killed = fit(SPDSL(m, **options, callback=killer(client, 5)), paths, y)
        print(f"  one worker killed with SIGKILL at iteration 5: cost {killed.cost_:.12f}")
        print(f"  W differs by {np.abs(killed.components_ - memory.components_).max():.1e}")


def killer(client: object, iteration: int) -> Callable:
    """A callback that kills a worker in the middle of the next iteration's work."""

    def callback(row: dict, W: np.ndarray) -> None:
        if row["iteration"] == iteration:
            victim = next(iter(client.run(os.getpid).values()))
            threading.Timer(0.02, os.kill, (victim, signal.SIGKILL)).start()

    return callback


def model(tiny: bool) -> None:
    n, m, sizes = (16, 4, (200, 400, 800)) if tiny else (128, 10, (2000, 4000, 8000))
    with tempfile.TemporaryDirectory() as folder:
        disk_model(folder, n, m, sizes)
        cluster_model(folder, n, m, sizes)
    large = Size(1_000_000, 401, 40, 12_000_000, 256, 64)
    print("\none million 401 x 401 matrices, m = 40, 64 workers, 256 shards:")
    print(
        f"  X {large.data / 1e12:.2f} TB; a worker holds {large.worker_memory / 1e9:.0f} GB; "
        f"the driver {large.small / 1e9:.0f} GB; per iteration the driver sends {large.sent / 1e9:.1f} GB and "
        f"receives {large.received / 1e9:.1f} GB; {large.product_flops / 1e12:.1f} Tflop on the workers, "
        f"{large.small_flops / 1e12:.1f} a trial on the driver"
    )


def calibrate(samples: Data, m: int) -> tuple[float, float]:
    """Bytes of X per second through a pass, and matrices m x m evaluated per second."""
    N, n, _ = samples.shape
    stack = samples.view(m)
    P = stack.start(np.eye(n, m))
    graph = some_pairs(N)
    began = time.perf_counter()
    for _ in range(3):
        stack.look(np.eye(n, m))
        stack.gradient(P)
    middle = time.perf_counter()
    for _ in range(3):
        d2, pullback = LEM.pairs(P, graph.i, graph.j)
        pullback(d2)
    return 3 * 8 * N * n * n / (middle - began), 3 * N / (time.perf_counter() - middle)


def disk_model(folder: str, n: int, m: int, sizes: tuple[int, ...]) -> None:
    places = [as_data(write_stack(Path(folder) / f"{N}.npy", N, n)) for N in sizes]
    read, small = calibrate(places[0], m)
    rates = Rates(read, small)
    print(
        f"disk: {n} x {n}, m = {m}; rates from the first size: {read / 1e9:.2f} GB/s through a pass, "
        f"{small:.0f} matrices {m} x {m} a second"
    )
    for N, samples in zip(sizes, places, strict=True):
        seconds, trials, _ = iterate(samples, m, 8)
        expected = disk_seconds(Size(N, n, m, len(some_pairs(N))), rates, trials)
        print(f"  N = {N}: {np.median(seconds):.3f} s per iteration, model {expected:.3f}")


def cluster_model(folder: str, n: int, m: int, sizes: tuple[int, ...]) -> None:
    shards = 4
    with local_cluster() as client:
        places = [as_data(write_shards(folder, N, n, shards)) for N in sizes]
        read, small = calibrate(as_data(np.load(Path(folder) / f"{n}-{sizes[0]}-0.npy")), m)
        task = timed(lambda: client.gather([client.submit(len, "x", pure=False) for _ in range(20)])) / 20
        parcel = np.ones((250, 1000))
        wire = (
            2 * parcel.nbytes / max(1e-6, timed(lambda: client.submit(np.positive, parcel, pure=False).result()) - task)
        )
        rates = Rates(read, small, wire, task)
        print(
            f"cluster: 2 workers, {shards} shards; {read / 1e9:.2f} GB/s a worker, {wire / 1e6:.0f} MB/s through driver and "
            f"scheduler, {1000 * task:.1f} ms a task"
        )
        for N, samples in zip(sizes, places, strict=True):
            seconds, trials, _ = iterate(samples, m, 8)
            expected = cluster_seconds(Size(N, n, m, len(some_pairs(N)), shards, 2), rates, trials)
            print(f"  N = {N}: {np.median(seconds):.3f} s per iteration, model {expected:.3f}")
            samples.release()


def timed(function: Callable) -> float:
    """Median seconds of five calls."""
    taken = []
    for _ in range(5):
        began = time.perf_counter()
        function()
        taken.append(time.perf_counter() - began)
    return float(np.median(taken))
