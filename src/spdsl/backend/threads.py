"""One thread pool per process, and BLAS held to one thread inside it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Lock, local
from typing import Any

from threadpoolctl import ThreadpoolController


def threads() -> int:
    """Number of threads to use: the cores available to this process, or OMP_NUM_THREADS if set."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(asked)) if asked.isdigit() and int(asked) > 0 else cores


class _OneBlasThread:
    """Hold BLAS to one thread while any of our threads is inside: loops over small factorizations gain nothing from more.

    The setting is global to the process, so the first to enter saves it and the last to leave restores it.
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
        """In a forked child, make a new lock, because a thread that held the old one does not exist.

        If a thread was inside, BLAS stays at one thread: setting it in such a child can deadlock.
        """
        self._lock = Lock()


one_blas_thread = _OneBlasThread()


class _Pool:
    """One thread pool for the whole process, created when first needed, and again in a forked child.

    The calling thread works too: it need not be woken, and threads stay on their cores.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._made: tuple[int, ThreadPoolExecutor] | None = None
        self._inside = local()

    def map(self, function: Callable[[slice], Any], slices: Sequence[slice], workers: int) -> list[Any]:
        """Results in order. The calling thread takes its share, and all where it is one of ours, which must not wait."""
        if getattr(self._inside, "yes", False):
            return [function(s) for s in slices]
        with one_blas_thread:  # also for a single slice: how BLAS cuts a product in parts shows in the last digits
            if workers == 1 or len(slices) <= 1:
                return [function(s) for s in slices]
            return self._shared(function, slices, workers)

    def _shared(self, function: Callable[[slice], Any], slices: Sequence[slice], workers: int) -> list[Any]:
        """Run the slices in this and other threads; each takes the next one when it is free."""
        results: list[Any] = [None] * len(slices)
        todo = deque(range(len(slices)))

        def work() -> None:
            while todo:
                try:
                    k = todo.popleft()
                except IndexError:  # another thread was faster
                    return
                try:
                    results[k] = function(slices[k])
                except BaseException:
                    todo.clear()
                    raise

        executor = self._executor(workers - 1)
        others = [executor.submit(work) for _ in range(min(workers, len(slices)) - 1)]
        self._inside.yes = True
        try:
            work()
        finally:  # also after Ctrl-C, so that nothing keeps running in the background
            self._inside.yes = False
            todo.clear()
            wait([other for other in others if not other.cancel()])
        for other in others:
            if not other.cancelled():
                other.result()
        return results

    def _executor(self, workers: int) -> ThreadPoolExecutor:
        with self._lock:
            if self._made is None or self._made[0] != workers:
                self._made = (workers, ThreadPoolExecutor(workers, "spdsl", self._enter))
            return self._made[1]

    def _enter(self) -> None:
        self._inside.yes = True

    def forked(self) -> None:
        """In a forked child, start afresh: the threads, and the holder of the lock, do not exist."""
        self._lock, self._made = Lock(), None


pool = _Pool()

if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=one_blas_thread.forked)
    os.register_at_fork(after_in_child=pool.forked)
