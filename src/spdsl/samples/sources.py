"""Stacks on disk, read in blocks: `.npy` files and memory maps, HDF5 and Zarr arrays, several of them, or some rows.

Files are read, never mapped: a mapped file that shrinks kills the process, a read one gives an error, and pages of a
mapped file count as memory of the process.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

BLOCK_BYTES = 1 << 23  # read at once: a block and the one behind it stay in the cache that the cores share

KINDS = "fiu"  # of the numbers that matrices may be stored as

Read = Callable[[int, int], np.ndarray]


class Source(Protocol):
    """A stack (N, n, n) of which any run of matrices can be read."""

    label: str
    shape: tuple[int, int, int]

    def reader(self) -> AbstractContextManager[Read]:
        """Open for one pass. `read(start, stop)` may reuse the memory of the block before the last one."""

    def slices(self, size: int) -> list[slice]:
        """Runs of at most `size` matrices that cover the stack, each from one place."""


def even_slices(count: int, size: int, offset: int = 0) -> list[slice]:
    """Runs of at most `size` that cover `offset .. offset + count`."""
    return [slice(offset + k, offset + min(k + size, count)) for k in range(0, count, size)]


def stream(source: Source) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield `(where, block)` over the stack; a thread reads the next block while the caller works on this one."""
    _, n, _ = source.shape
    slices = source.slices(max(1, BLOCK_BYTES // (8 * n * n)))
    with source.reader() as read, ThreadPoolExecutor(1) as thread:
        pending = thread.submit(read, slices[0].start, slices[0].stop)
        for k, where in enumerate(slices):
            block = pending.result()
            if k + 1 < len(slices):
                pending = thread.submit(read, slices[k + 1].start, slices[k + 1].stop)
            yield where, block


class FileSource:
    """Matrices at even distances in one file: all of an `.npy` file, or what a view of a memory map shows of it."""

    def __init__(self, path: Any, dtype: np.dtype, shape: tuple[int, int, int], offset: int, stride: int) -> None:
        self.label = str(path)
        self.dtype, self.shape, self.offset, self.stride = dtype, shape, offset, stride
        self._path = Path(path).resolve()
        self._identity = _identity(os.stat(self._path))

    @classmethod
    def npy(cls, path: Any) -> FileSource:
        """All of an `.npy` file."""
        if not os.path.isfile(path):
            raise FileNotFoundError(f"there is no file {os.fspath(path)}")
        shape, dtype, in_order, offset = _header(path)
        if len(shape) != 3 or shape[1] != shape[2] or 0 in shape[1:]:
            raise ValueError(f"{path} must hold an array (n_matrices, n, n), it holds {shape}; save one of that shape")
        if dtype.kind not in KINDS:
            raise ValueError(f"{path} must hold real numbers, it holds {dtype}; save it again, e.g. X.astype(float)")
        if not in_order:
            raise ValueError(
                f"{path} must be in C order, it holds {shape} in Fortran order; "
                f"save it again, e.g. np.save(path, np.ascontiguousarray(X))"
            )
        return cls(path, dtype, shape, offset, dtype.itemsize * shape[1] * shape[2])

    @classmethod
    def mapped(cls, X: np.memmap) -> FileSource | None:
        """What a memory map shows of its file; None where the file shows something else or the matrices lie scattered."""
        n, item = X.shape[-1], X.dtype.itemsize
        whole = getattr(X, "_mmap", None)
        scattered = X.strides[1:] != (n * item, item) or abs(X.strides[0]) < n * n * item
        if whole is None or X.filename is None or scattered or X.dtype.kind not in KINDS:
            return None
        if not os.path.exists(X.filename) or X.mode == "c":
            return None  # "c": changes show in the map and not in the file
        whole.flush()
        begin = np.frombuffer(whole, np.uint8).__array_interface__["data"][0]
        before = X.offset - X.offset % mmap.ALLOCATIONGRANULARITY
        offset = before + X.__array_interface__["data"][0] - begin
        source = cls(X.filename, X.dtype, X.shape, offset, X.strides[0])
        return source if source._shows(X, whole.size()) else None

    def _shows(self, X: np.memmap, size: int) -> bool:
        """Whether this is the file of a map, of `size` bytes, and not another that has its name now."""
        if size != os.path.getsize(self._path):
            return False
        places = self.offset, self.offset + (len(X) - 1) * self.stride
        if max(places) + X[0].nbytes > size:
            return True  # it has shrunk: reading will say so, looking at the map would kill the process
        with self.reader() as read:
            return all(np.array_equal(read(k, k + 1)[0], X[k], equal_nan=True) for k in (0, len(X) - 1))

    def slices(self, size: int) -> list[slice]:
        return even_slices(self.shape[0], size)

    @contextmanager
    def reader(self) -> Iterator[Read]:
        try:
            file = open(self._path, "rb", buffering=0)  # noqa: SIM115 - closed below
        except OSError as error:
            raise OSError(f"{self.label} can no longer be opened ({error.strerror}): keep it in place") from error
        with file:
            if _identity(os.fstat(file.fileno())) != self._identity:
                raise OSError(f"{self.label} was changed or replaced since it was first read: leave it as it is")
            buffers = [np.empty(0, self.dtype), np.empty(0, self.dtype)]

            def read(start: int, stop: int) -> np.ndarray:
                buffers.reverse()
                _, n, _ = self.shape
                if buffers[0].size < (stop - start) * n * n:
                    buffers[0] = np.empty((stop - start) * n * n, self.dtype)
                block = buffers[0][: (stop - start) * n * n].reshape(stop - start, n, n)
                if self.stride == n * n * self.dtype.itemsize:
                    self._fill(file, block, start)
                else:
                    for k in range(start, stop):
                        self._fill(file, block[k - start], k)
                return block

            yield read

    def _fill(self, file: Any, block: np.ndarray, first: int) -> None:
        """Read from matrix `first` on until the block is full."""
        file.seek(self.offset + first * self.stride)
        rest = block.reshape(-1).view(np.uint8).data
        while len(rest):
            try:
                count = file.readinto(rest)
            except OSError as error:
                raise OSError(f"{self.label} could not be read at matrix {first}: {error.strerror}") from error
            if not count:
                raise OSError(f"{self.label} ends before matrix {first + len(block)}: it has shrunk during the fit")
            rest = rest[count:]


class DatasetSource:
    """An HDF5 dataset or a Zarr array; the file stays the caller's to close."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.label = f"{type(dataset).__module__.split('.')[0]} array {getattr(dataset, 'name', '')}".rstrip()
        self.shape = tuple(dataset.shape)
        self._sums: dict[tuple[int, int], float] = {}

    def slices(self, size: int) -> list[slice]:
        return even_slices(self.shape[0], size)

    @contextmanager
    def reader(self) -> Iterator[Read]:
        yield self._read

    def _read(self, start: int, stop: int) -> np.ndarray:
        try:
            block = np.asarray(self.dataset[start:stop])
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise OSError(f"{self.label} could not be read at matrix {start}: {error}") from error
        if len(block) < stop - start:
            raise OSError(f"{self.label} ends before matrix {stop}: it has shrunk during the fit")
        # no date tells that an array has changed, and Zarr reads a constant where a chunk is missing
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(np.sum(block, dtype=np.float64))
        first = self._sums.setdefault((start, stop), total)
        if total != first and not np.isnan(first):  # NaN from the start is for the check to name
            raise OSError(
                f"{self.label} was changed since it was first read, in matrices {start} to {stop - 1}: is a part of it "
                f"missing? Leave it as it is"
            )
        return block


class JoinedSource:
    """Several sources one behind the other."""

    def __init__(self, parts: Sequence[Source]) -> None:
        first = parts[0]
        for part in parts:
            if part.shape[1:] != first.shape[1:]:
                raise ValueError(
                    f"{part.label} holds {part.shape[1]} x {part.shape[2]} matrices and {first.label} "
                    f"{first.shape[1]} x {first.shape[2]}: pass matrices of one size"
                )
        self.parts = list(parts)
        self.starts = np.cumsum([0, *(part.shape[0] for part in parts)])
        self.label = f"{len(parts)} files from {first.label} on"
        self.shape = (int(self.starts[-1]), *first.shape[1:])

    def slices(self, size: int) -> list[slice]:
        pieces = zip(self.parts, self.starts.tolist(), strict=False)
        return [piece for part, start in pieces for piece in even_slices(part.shape[0], size, start)]

    @contextmanager
    def reader(self) -> Iterator[Read]:
        with ExitStack() as opened:
            current: list[Any] = [-1, None]

            def read(start: int, stop: int) -> np.ndarray:
                k = int(np.searchsorted(self.starts, start, side="right")) - 1
                if stop > self.starts[k + 1]:
                    middle = int(self.starts[k + 1])
                    return np.concatenate([read(start, middle).copy(), read(middle, stop)])
                if k != current[0]:
                    opened.close()  # one file open at a time, however many there are
                    current[:] = k, opened.enter_context(self.parts[k].reader())
                return current[1](start - self.starts[k], stop - self.starts[k])

            yield read


class ChosenSource:
    """Chosen matrices of a source, in the order of `index`."""

    def __init__(self, source: Source, index: np.ndarray) -> None:
        self.source, self.index = source, index
        self.label = source.label
        self.shape = (len(index), *source.shape[1:])

    def slices(self, size: int) -> list[slice]:
        return even_slices(self.shape[0], size)

    @contextmanager
    def reader(self) -> Iterator[Read]:
        with self.source.reader() as read_all:

            def read(start: int, stop: int) -> np.ndarray:
                chosen = self.index[start:stop]
                cuts = np.flatnonzero(np.diff(chosen) != 1) + 1
                runs = np.split(chosen, cuts)
                return np.concatenate([read_all(int(run[0]), int(run[-1]) + 1).copy() for run in runs])

            yield read


def _header(path: Any) -> tuple[tuple[int, ...], np.dtype, bool, int]:
    """Shape and dtype of an `.npy` file, whether it is in C order, and where its numbers begin."""
    try:
        mapped = np.lib.format.open_memmap(path, mode="r")
    except ValueError as error:
        raise ValueError(f"{path} is no complete .npy file of numbers: {error}") from error
    return mapped.shape, mapped.dtype, mapped.flags.c_contiguous, mapped.offset


def _identity(stat: os.stat_result) -> tuple[int, int, int]:
    """What tells a file from another or from itself before a change."""
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
