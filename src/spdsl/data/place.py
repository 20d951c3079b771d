"""Turn whatever users pass into `Data`, the only interface that the learners use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from spdsl import backend
from spdsl.data.base import Data
from spdsl.data.blocks import BlockData
from spdsl.data.cluster import ClusterData
from spdsl.data.cluster_client import current_client
from spdsl.data.disk import DiskData
from spdsl.data.memory import MemoryData
from spdsl.data.readers import KINDS, DatasetReader, FileReader, JoinedReader, Reader


def as_data(X: Any, precision: str = "double") -> Data:
    """Wrap X as `fit`, `transform` and `predict` do.

    Memory maps opened for reading, HDF5 and Zarr arrays, the path of an `.npy` file and a list of such paths are read in
    blocks. A Dask array, and a list of paths where there is a `dask.distributed` client, stay on the cluster. Anything
    else is converted to an array in memory. Samples of several matrices, (N, b, n, n), are wrapped block by block.

    Parameters
    ----------
    X : array, tensor, path, list of paths, `FactoredSPD`, Dask array or `Data`
    precision : {"double", "mixed"}
        "mixed" computes products in float32.

    Returns
    -------
    Data

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.data import as_data
    >>> np.save("stack.npy", np.stack([np.eye(3)] * 6))
    >>> as_data("stack.npy")[::2].shape  # every other matrix, still on disk
    (3, 3, 3)
    """
    if isinstance(X, Data):
        return X
    if _is_dask(X) or (_are_paths(X) and current_client() is not None):
        return ClusterData(X, precision=precision)
    parts = _block_readers(X)
    if parts is not None:
        return BlockData([DiskData(part, precision) for part in parts])
    reader = _reader(X)
    if reader is not None:
        return DiskData(reader, precision)
    if getattr(X, "ndim", None) == 4:
        return BlockData([MemoryData(X[:, k], precision) for k in range(X.shape[1])])
    return MemoryData(X, precision)


@contextmanager
def checked_data(X: Any, precision: str, name: str = "X", *, keep: bool = False) -> Iterator[Data]:
    """X as checked samples, closed at the end unless they were the caller's own, or are kept and nothing failed.

    Parameters
    ----------
    X, precision
        As in `as_data`.
    name : str
        What error messages call X.
    keep : bool
        Leave the samples open.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.data import checked_data
    >>> with checked_data(np.stack([np.eye(3)] * 4), "double") as data:
    ...     print(data.shape)
    (4, 3, 3)
    """
    data = as_data(X, precision)
    try:
        data.check(name)
        yield data
    except BaseException:
        keep = False
        raise
    finally:
        if data is not X and not keep:
            data.close()


@contextmanager
def at_work(data: Data, who: str, m: int, device: Any) -> Iterator[None]:
    """If memory does not suffice, say how much is needed; release the samples however the work ends.

    Parameters
    ----------
    data : Data
    who : str
        What the message calls the caller.
    m : int
        Size of the reduced matrices.
    device : device or None
        Where the work is done; None for where the data are.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.data import as_data, at_work
    >>> data = as_data(np.stack([np.eye(3)] * 4))
    >>> with at_work(data, "a fit", 2, None):
    ...     print(data.reduce(np.eye(3, 2)).shape)
    (4, 2, 2)
    """
    needed = data.bytes_needed(m)
    on_host = backend.is_numpy(data.model)  # a tensor may be on the device already
    free = None if needed is None or not on_host else backend.free_bytes(device)
    try:
        if needed is not None and free is not None and needed > free:
            raise MemoryError
        yield
    except Exception as error:
        if needed is None or not backend.is_out_of_memory(error):
            raise
        raise MemoryError(_too_little(data, who, m, device, needed, free)) from error
    finally:
        data.release()


def _too_little(data: Data, who: str, m: int, device: Any, needed: int, free: int | None) -> str:
    """Message of how much memory a fit takes, and what to do instead."""
    where = data.model.device if device is None else device
    room = "" if free is None else f", where {free / 1e9:.3g} GB are free"
    halves = "" if data.single else "precision='mixed' (about half of it), "
    host = "" if str(where) == "cpu" else ", or device='cpu'"
    return (
        f"{who} on {data.shape[0]} matrices of {data.shape[-1]} x {data.shape[-1]} with m = {m} needs about "
        f"{needed / 1e9:.3g} GB on {str(where)!r}{room}, and more with many pairs; use {halves}fewer neighbors, a smaller "
        f"n_components, fewer matrices{host}"
    )


def _block_readers(X: Any) -> list[FileReader] | None:
    """The readers of the blocks of samples of several matrices (N, b, n, n) in one file, or None."""
    if _is_path(X):
        return FileReader.npy_blocks(X)
    if isinstance(X, np.memmap) and X.ndim == 4 and X.shape[2] == X.shape[3] and X.size:
        parts = [FileReader.mapped(X[:, k].view(np.memmap)) for k in range(X.shape[1])]
        return None if any(part is None for part in parts) else [part for part in parts if part is not None]
    return None


def _reader(X: Any) -> Reader | None:
    """The reader of what is on disk, or None."""
    if _is_path(X):
        return FileReader.npy(X)
    if _are_paths(X):
        return JoinedReader([FileReader.npy(path) for path in X])
    if isinstance(X, np.memmap) and X.ndim == 3 and X.shape[1] == X.shape[2] and X.size:
        return FileReader.mapped(X)
    if type(X).__module__.partition(".")[0] in ("h5py", "zarr"):
        return _dataset(X)
    return None


def _dataset(X: Any) -> Reader | None:
    """An HDF5 or Zarr array of numbers as a reader; None if the checks of arrays have a better error for it."""
    if hasattr(X, "keys"):
        raise TypeError(f"X is {X!r}, which is a group of arrays; pass one of them, e.g. X['name']")
    try:
        stack = len(X.shape) == 3 and np.dtype(X.dtype).kind in KINDS
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise OSError(f"X is {X!r} and cannot be read ({error}); open its file again") from error
    return DatasetReader(X) if stack else None


def _are_paths(X: Any) -> bool:
    """Whether X is a list of files; an error if one of them is not an `.npy` file."""
    if not isinstance(X, list | tuple) or not X or not all(isinstance(one, str | os.PathLike) for one in X):
        return False
    odd = [os.fspath(path) for path in X if not _is_path(path)]
    if odd:
        raise ValueError(f"X is a list of files, but {odd[0]} is not an .npy file; save its matrices with np.save")
    return True


def _is_dask(X: Any) -> bool:
    return type(X).__module__.startswith("dask.array")


def _is_path(X: Any) -> bool:
    """Whether X names an `.npy` file."""
    return isinstance(X, str | os.PathLike) and str(os.fspath(X)).endswith(".npy")
