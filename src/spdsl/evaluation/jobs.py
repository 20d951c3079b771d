"""The one way in which work is done: jobs with a key each, whose rows a store keeps, in this process or in others."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from time import sleep
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs, parallel_config

from spdsl.backend.extras import install_hint
from spdsl.evaluation.store import MemoryStore, Store

POLL = 0.5  # seconds between looks at jobs on which another run works
CLUSTER_WAIT = "20s"  # for a scheduler to answer
WATCH = 1.0  # seconds between looks of a worker at whether its parent is alive

Outcome = tuple[str, Any, str]


@dataclass(frozen=True)
class Job:
    """A piece of work: its key in the store, and the function of `arguments` that returns its row, of JSON's values."""

    key: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Done:
    """The row of a job, or None and what went wrong."""

    key: str
    row: Any
    error: str = ""


def key_of(content: Mapping[str, Any]) -> str:
    """The key of a job, from all that determines its row."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def run_jobs(
    jobs: Sequence[Job], store: Store | MemoryStore, *, n_jobs: int | None = None, cluster: str | None = None
) -> Iterator[Done]:
    """Yield the outcome of every key once, as it is known; only what the store lacks is worked on.

    Several runs may share a store: each works on jobs that no other works on, and takes over what the others find. A job
    that fails is not stored.

    Parameters
    ----------
    jobs : sequence of Job
        Of equal keys the first is done.
    store : Store or MemoryStore
    n_jobs : int, optional
        Processes; each holds its linear algebra to its share of the cores.
    cluster : str, optional
        Address of a Dask scheduler, whose workers are then used instead.
    """
    store.refresh()
    unique = {job.key: job for job in reversed(jobs)}
    ordered = [unique.pop(job.key) for job in jobs if job.key in unique]
    yield from (Done(job.key, store[job.key]) for job in ordered if job.key in store)
    waiting = [job for job in ordered if job.key not in store]
    while waiting:
        desk = _Desk(store, waiting)
        try:
            with closing(_compute(desk.jobs(), n_jobs, cluster)) as outcomes:
                for key, row, error in outcomes:
                    if not error:
                        store.append(key, row)
                    desk.release(key)
                    yield Done(key, None if error else store[key], error)
        finally:
            desk.release_all()
        if desk.failure is not None:
            raise desk.failure
        yield from (Done(key, store[key]) for key in desk.found)
        waiting = desk.busy
        if waiting:
            sleep(POLL)
            store.refresh()


class _Desk:
    """Hands out jobs that no other run works on; the claim on each lasts until it is released or this process ends."""

    def __init__(self, store: Store | MemoryStore, waiting: list[Job]) -> None:
        self.store, self.waiting = store, waiting
        self.busy: list[Job] = []
        self.found: list[str] = []
        self.failure: Exception | None = None
        self._claims: dict[str, Any] = {}

    def jobs(self) -> Iterator[Job]:
        """One job at a time, as workers become free."""
        try:
            for job in self.waiting:
                if self._claim(job):
                    yield job
        except Exception as error:  # joblib may draw in a thread of its own, where an error would be lost
            self.failure = error

    def _claim(self, job: Job) -> bool:
        claim = self.store.claim(job.key)
        if claim is None:
            self.busy.append(job)
            return False
        self._claims[job.key] = claim
        self.store.refresh()  # it may have been found between our last look and our claim
        if job.key in self.store:
            self.release(job.key)
            self.found.append(job.key)
            return False
        return True

    def release(self, key: str) -> None:
        self.store.release(self._claims.pop(key))

    def release_all(self) -> None:
        for key in list(self._claims):
            self.release(key)


def _do(job: Job) -> Outcome:
    """One job: its key, and its row or its error."""
    try:
        return job.key, job.function(*job.arguments), ""
    except Exception as error:  # whatever one job trips over must not cost the user the others
        return job.key, None, f"{type(error).__name__}: {error}"


def _compute(jobs: Iterable[Job], n_jobs: int | None, cluster: str | None) -> Generator[Outcome, None, None]:
    """Outcomes in no particular order; `jobs` is drawn from as workers become free, perhaps in another thread."""
    if cluster is not None:
        with _client(cluster) as client, parallel_config(backend="dask", client=client):
            run = Parallel(return_as="generator_unordered", batch_size=1)
            yield from _closed_quietly(run(delayed(_do)(job) for job in jobs))
        return
    workers = effective_n_jobs(n_jobs)
    if workers == 1:
        yield from (_do(job) for job in jobs)
        return
    # the workers' BLAS and the library's own threads both read what this sets
    cores = max(1, effective_n_jobs(-1) // workers)
    with parallel_config(backend="loky", inner_max_num_threads=cores):
        # nothing is dispatched ahead of a free worker by more than one job: two runs that share a store share the work
        ending = {"initializer": _end_with, "initargs": (os.getpid(),)}  # before the first job: some workers get none
        run = Parallel(workers, return_as="generator_unordered", pre_dispatch=workers + 1, batch_size=1, **ending)
        with _inherited_by_workers():
            results = run(delayed(_do)(job) for job in jobs)
        yield from _closed_quietly(results)


def _end_with(parent: int) -> None:
    """Let this worker end when its parent does: Ctrl-C is for the parent, and one that was killed cannot end its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            sleep(WATCH)
        os._exit(1)

    threading.Thread(target=watch, name="spdsl-parent-watch", daemon=True).start()


def _closed_quietly(results: Generator[Outcome, None, None]) -> Generator[Outcome, None, None]:
    """The results; when nobody wants the rest, joblib gives it up without advice on how to call it."""
    try:
        for result in results:  # noqa: UP028  # `yield from` would close it before we can silence it
            yield result
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results.close()


@contextmanager
def _inherited_by_workers() -> Iterator[None]:
    """Workers that are started inside do not hear Ctrl-C: it is for this process, which ends them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # its start unblocks the signal, so it must not fall inside
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)  # one that came meanwhile is heard now


@contextmanager
def _client(address: str) -> Iterator[Any]:
    """A client of the scheduler, or an error that names it."""
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError(f"a cluster needs Dask: {install_hint('cluster')}") from error
    try:
        client = Client(address, timeout=CLUSTER_WAIT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {address!r} ({error or type(error).__name__}); "
            "start one with `dask scheduler`, or check the address"
        ) from error
    log = logging.getLogger("distributed.client")
    before = log.level
    log.setLevel(logging.CRITICAL)  # whether the scheduler goes away is in the error; its traceback helps nobody
    try:
        with client:
            yield client
    finally:
        log.setLevel(before)
