"""Where the samples of a learner may be: in memory, on disk, known by factors, or on a cluster. `as_samples` tells which."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from spdsl.samples.base import Samples
from spdsl.samples.cluster import ClusterError, ClusterSamples, current_client
from spdsl.samples.copies import first_copies
from spdsl.samples.disk import DiskSamples
from spdsl.samples.factored import FactoredSPD
from spdsl.samples.memory import MemorySamples
from spdsl.samples.sources import KINDS, DatasetSource, FileSource, JoinedSource, Source
from spdsl.stacks import enough_memory

__all__ = [
    "ClusterError",
    "ClusterSamples",
    "DiskSamples",
    "FactoredSPD",
    "MemorySamples",
    "Samples",
    "as_samples",
    "at_work",
    "first_copies",
    "let_go",
]


def as_samples(X: Any, precision: str = "double") -> Samples:
    """What `fit`, `transform` and `predict` make of X.

    Memory maps opened for reading, HDF5 and Zarr arrays, the path of an `.npy` file and a list of such paths are read in
    blocks. A Dask array, and a list of paths where there is a `dask.distributed` client, stay on the cluster. Everything
    else is an array in memory. `precision="mixed"` computes products in float32.
    """
    if isinstance(X, MemorySamples | DiskSamples | FactoredSPD | ClusterSamples):
        return X
    if _is_dask(X) or (_are_paths(X) and current_client() is not None):
        return ClusterSamples(X, precision=precision)
    source = _source(X)
    return MemorySamples(X, precision) if source is None else DiskSamples(source, precision)


def let_go(samples: Samples, X: Any) -> None:
    """Give back what `as_samples(X)` took to get at the data."""
    if isinstance(samples, ClusterSamples) and samples is not X:
        samples.close()


@contextmanager
def at_work(samples: Samples, who: str, m: int, device: Any) -> Iterator[None]:
    """Say how much memory is needed where it does not suffice; give back what the samples took however the work ends."""
    guard: AbstractContextManager[None] = nullcontext()
    if isinstance(samples, MemorySamples):
        guard = enough_memory(who, samples.X, m, device, single=samples.precision == "mixed")
    try:
        with guard:
            yield
    finally:
        samples.release()


def _source(X: Any) -> Source | None:
    """The source of what is on disk, or None."""
    if _is_path(X):
        return FileSource.npy(X)
    if _are_paths(X):
        return JoinedSource([FileSource.npy(path) for path in X])
    if isinstance(X, np.memmap) and X.ndim == 3 and X.shape[1] == X.shape[2] and X.size:
        return FileSource.mapped(X)
    if type(X).__module__.partition(".")[0] in ("h5py", "zarr"):
        return _dataset(X)
    return None


def _dataset(X: Any) -> Source | None:
    """An HDF5 or Zarr array of numbers as a source; None where the checks of an array have something to say about it."""
    if hasattr(X, "keys"):
        raise TypeError(f"X is {X!r}, which holds arrays: pass one of them, e.g. X['name']")
    try:
        stack = len(X.shape) == 3 and np.dtype(X.dtype).kind in KINDS
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise OSError(f"X is {X!r} and cannot be read ({error}): open its file again") from error
    return DatasetSource(X) if stack else None


def _are_paths(X: Any) -> bool:
    """Whether X is a list of files; an error where one of them is no `.npy` file."""
    if not isinstance(X, list | tuple) or not X or not all(isinstance(one, str | os.PathLike) for one in X):
        return False
    odd = [os.fspath(path) for path in X if not _is_path(path)]
    if odd:
        raise ValueError(f"X is a list of files, of which {odd[0]} is no .npy file: save its matrices by np.save")
    return True


def _is_dask(X: Any) -> bool:
    return type(X).__module__.startswith("dask.array")


def _is_path(X: Any) -> bool:
    """Whether X names an `.npy` file."""
    return isinstance(X, str | os.PathLike) and str(os.fspath(X)).endswith(".npy")
