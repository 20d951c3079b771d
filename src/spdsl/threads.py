"""How many threads, one pool of them for the whole process, and BLAS held to one thread underneath."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock, local
from typing import Any

from threadpoolctl import ThreadpoolController


def threads() -> int:
    """Number of threads to use: the cores this process may run on, or OMP_NUM_THREADS where it is set."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(asked)) if asked.isdigit() and int(asked) > 0 else cores


class _OneBlasThread:
    """Holds BLAS to one thread while any thread of ours is inside: loops over small factorisations gain nothing from more.

    The setting belongs to the whole process, so the first to enter saves it and the last to leave restores it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._controller: ThreadpoolController | None = None
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._controller = self._controller or ThreadpoolController()
                self._limit = self._controller.limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()

    def forked(self) -> None:
        """In a forked child: a thread that had the lock is not there to give it back.

        BLAS stays at one thread where one was inside: to set it in such a child can wait for ever.
        """
        self._lock = Lock()


one_blas_thread = _OneBlasThread()


class _Pool:
    """One pool of threads for the whole process, made when first needed, and anew in a forked child."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._made: tuple[int, ThreadPoolExecutor] | None = None
        self._inside = local()

    def map(self, function: Callable[[slice], Any], slices: Sequence[slice], workers: int) -> list[Any]:
        """Results in order; in the calling thread where that is one of ours, which must not wait for the others."""
        if len(slices) <= 1 or getattr(self._inside, "yes", False):
            return [function(s) for s in slices]
        with one_blas_thread:
            if workers == 1:
                return [function(s) for s in slices]
            return list(self._executor(workers).map(function, slices))

    def _executor(self, workers: int) -> ThreadPoolExecutor:
        with self._lock:
            if self._made is None or self._made[0] != workers:
                self._made = (workers, ThreadPoolExecutor(workers, "spdsl", self._enter))
            return self._made[1]

    def _enter(self) -> None:
        self._inside.yes = True

    def forked(self) -> None:
        """In a forked child: its threads and the holder of the lock are not there."""
        self._lock, self._made = Lock(), None


pool = _Pool()

if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=one_blas_thread.forked)
    os.register_at_fork(after_in_child=pool.forked)
