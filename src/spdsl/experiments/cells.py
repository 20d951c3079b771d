"""One method on one split, and many of them at once: in this process, in worker processes, or on a Dask cluster."""

from __future__ import annotations

import inspect
import logging
import signal
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs, parallel_config

from spdsl.experiments.splits import Split
from spdsl.experiments.tuning import tune as choose_parameters
from spdsl.methods import Method

T = TypeVar("T")
CLUSTER_WAIT = "20s"  # for a scheduler to answer


@dataclass(frozen=True)
class Cell:
    """One method on one split; `error` says what went wrong, and the figures are then NaN."""

    method: str
    split: int
    accuracy: float = float("nan")
    params: dict[str, Any] = field(default_factory=dict)
    tune_seconds: float = float("nan")
    fit_seconds: float = float("nan")
    predict_seconds: float = float("nan")
    warnings: tuple[str, ...] = ()
    error: str = ""


def unfitted(method: Method, n_components: int | None, seed: int | None) -> Any:
    """The method's estimator with the size and the seed of a run, where it has such parameters."""
    model: Any = method.factory()
    own = model.get_params()
    fixed = {"n_components": n_components, "random_state": seed}
    return model.set_params(**{name: v for name, v in fixed.items() if name in own and v is not None})


def not_default(model: Any) -> dict[str, str]:
    """Parameters that are not the default: a version that adds a parameter then still knows the cells of the one before.

    One that changes a default raises RESULT_VERSION.
    """
    usual = {name: parameter.default for name, parameter in inspect.signature(type(model)).parameters.items()}
    params = sorted(model.get_params(deep=False).items())
    return {name: repr(value) for name, value in params if repr(value) != repr(usual[name])}


def run_cell(
    X: np.ndarray,
    y: np.ndarray,
    method: Method,
    k: int,
    split: Split,
    given: Mapping[str, Any] | None = None,
    *,
    tuned: bool,
    n_components: int | None,
    n_folds: int,
    seed: int | None,
) -> Cell:
    """Tune, fit and score one method on split number k; `given` parameters are taken as they are, and nothing is tuned."""
    train, test = split
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = unfitted(method, n_components, seed)
            clock = [time.perf_counter()]
            params = dict(given or {})
            grid = method.grid_at(n_components, X.shape[-1])
            if given is None and tuned and grid:
                params = choose_parameters(model, grid, X[train], y[train], n_folds=n_folds, random_state=seed).params
            clock.append(time.perf_counter())
            model.set_params(**params).fit(X[train], y[train])
            clock.append(time.perf_counter())
            accuracy = float(np.mean(model.predict(X[test]) == y[test]))
            clock.append(time.perf_counter())
        except Exception as error:  # whatever one method trips over must not cost the user the rest of the table
            return Cell(method.name, k, error=f"{type(error).__name__}: {error}")
    said = tuple(dict.fromkeys(str(warning.message) for warning in caught))
    spent = np.diff(clock)
    return Cell(method.name, k, accuracy, params, float(spent[0]), float(spent[1]), float(spent[2]), said)


def run_jobs(
    function: Callable[..., T], jobs: Iterable[tuple[Any, ...]], n_jobs: int | None, cluster: str | None = None
) -> Generator[T, None, None]:
    """Yield `function(*job)` for every job as it is done, in no particular order.

    Parameters
    ----------
    function : callable
    jobs : iterable of tuples
        Drawn from as workers become free, perhaps in another thread.
    n_jobs : int, optional
        Processes; each holds its linear algebra to its share of the cores.
    cluster : str, optional
        Address of a Dask scheduler, whose workers are then used instead.
    """
    if cluster is not None:
        with _client(cluster) as client, parallel_config(backend="dask", client=client):
            run = Parallel(return_as="generator_unordered", batch_size=1)
            yield from _closed_quietly(run(delayed(function)(*job) for job in jobs))
        return
    workers = effective_n_jobs(n_jobs)
    if workers == 1:
        yield from (function(*job) for job in jobs)
        return
    # the workers' BLAS and the library's own threads both read what this sets
    cores = max(1, effective_n_jobs(-1) // workers)
    with parallel_config(backend="loky", inner_max_num_threads=cores):
        # nothing is dispatched ahead of a free worker by more than one job: two runs that share a store share the work
        run = Parallel(n_jobs=workers, return_as="generator_unordered", pre_dispatch=workers + 1, batch_size=1)
        with _inherited_by_workers():
            results = run(delayed(function)(*job) for job in jobs)
        yield from _closed_quietly(results)


def _closed_quietly(results: Generator[T, None, None]) -> Generator[T, None, None]:
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
        raise ImportError("a cluster needs Dask: pip install 'spdsl[cluster]'") from error
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
