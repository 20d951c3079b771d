"""Matrices on disk, read in blocks: `.npy` files and memory maps, HDF5 and Zarr arrays, several of them, or some rows.

Files are read, never mapped: if a mapped file shrinks the process is killed, whereas reading gives an error; and the
pages of a mapped file count as memory of the process.
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

BLOCK_BYTES = 1 << 23  # read at once: a block and the next one fit in the cache shared by the cores

KINDS = "fiu"  # dtype kinds of the numbers in files

Read = Callable[[int, int], np.ndarray]


class Reader(Protocol):
    """Matrices (N, n, n) of which any contiguous run can be read."""

    label: str
    shape: tuple[int, int, int]

    def reader(self) -> AbstractContextManager[Read]:
        """Open for one pass. `read(start, stop)` may reuse the memory of the block before the previous one."""

    def slices(self, size: int) -> list[slice]:
        """Runs of at most `size` matrices that cover all of them, each within one file."""


def even_slices(count: int, size: int, offset: int = 0) -> list[slice]:
    """Runs of at most `size` that cover `offset .. offset + count`."""
    return [slice(offset + k, offset + min(k + size, count)) for k in range(0, count, size)]


def stream(source: Reader) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield `(where, block)` over all matrices; a thread reads the next block while the caller works on this one."""
    _, n, _ = source.shape
    slices = source.slices(max(1, BLOCK_BYTES // (8 * n * n)))
    with source.reader() as read, ThreadPoolExecutor(1) as thread:
        pending = thread.submit(read, slices[0].start, slices[0].stop)
        for k, where in enumerate(slices):
            block = pending.result()
            if k + 1 < len(slices):
                pending = thread.submit(read, slices[k + 1].start, slices[k + 1].stop)
            yield where, block


class FileReader:
    """Evenly spaced matrices in one file: all of an `.npy` file, or the part that a view of a memory map covers."""

    def __init__(self, path: Any, dtype: np.dtype, shape: tuple[int, int, int], offset: int, stride: int) -> None:
        self.label = str(path)
        self.dtype, self.shape, self.offset, self.stride = dtype, shape, offset, stride
        self._path = Path(path).resolve()
        self._identity = _identity(os.stat(self._path))

    @classmethod
    def npy(cls, path: Any) -> FileReader:
        """All of an `.npy` file."""
        if not os.path.isfile(path):
            raise FileNotFoundError(f"no such file: {os.fspath(path)}")
        shape, dtype, in_order, offset = _header(path)
        if len(shape) != 3 or shape[1] != shape[2] or 0 in shape[1:]:
            remedy = "; pass samples of several matrices as one file, not in a list" if len(shape) == 4 else ""
            raise ValueError(f"{path} must hold an array of shape (n_matrices, n, n), but its shape is {shape}{remedy}")
        return cls._of_blocks(path, dtype, in_order, (shape[0], 1, *shape[1:]), offset)[0]

    @classmethod
    def npy_blocks(cls, path: Any) -> list[FileReader] | None:
        """The blocks of an `.npy` file (N, b, n, n), one reader each; None of a file that holds anything else."""
        if not os.path.isfile(path):
            return None
        shape, dtype, in_order, offset = _header(path)
        if len(shape) != 4 or shape[2] != shape[3] or 0 in shape:
            return None
        return cls._of_blocks(path, dtype, in_order, shape, offset)

    @classmethod
    def _of_blocks(
        cls, path: Any, dtype: np.dtype, in_order: bool, shape: tuple[int, ...], offset: int
    ) -> list[FileReader]:
        if dtype.kind not in KINDS:
            raise ValueError(f"{path} must hold real numbers, but its dtype is {dtype}; save X.astype(float)")
        if not in_order:
            raise ValueError(
                f"{path} must be in C order, but is in Fortran order; "
                f"save it again, e.g. np.save(path, np.ascontiguousarray(X))"
            )
        N, blocks, n, _ = shape
        size = dtype.itemsize * n * n
        return [cls(path, dtype, (N, n, n), offset + k * size, blocks * size) for k in range(blocks)]

    @classmethod
    def mapped(cls, X: np.memmap) -> FileReader | None:
        """The part of a file that a memory map covers; None if the file has changed or the matrices are not evenly spaced."""
        n, item = X.shape[-1], X.dtype.itemsize
        whole = getattr(X, "_mmap", None)
        scattered = X.strides[1:] != (n * item, item) or abs(X.strides[0]) < n * n * item
        if whole is None or X.filename is None or scattered or X.dtype.kind not in KINDS:
            return None
        if not os.path.exists(X.filename) or X.mode == "c":
            return None  # "c": changes are in the map but not in the file
        whole.flush()
        begin = np.frombuffer(whole, np.uint8).__array_interface__["data"][0]
        before = X.offset - X.offset % mmap.ALLOCATIONGRANULARITY
        offset = before + X.__array_interface__["data"][0] - begin
        source = cls(X.filename, X.dtype, X.shape, offset, X.strides[0])
        return source if source._shows(X, whole.size()) else None

    def _shows(self, X: np.memmap, size: int) -> bool:
        """Whether this is the file behind a map of `size` bytes, and not another one that now has its name."""
        if size != os.path.getsize(self._path):
            return False
        places = self.offset, self.offset + (len(X) - 1) * self.stride
        if max(places) + X[0].nbytes > size:
            return True  # it has shrunk: reading raises an error, whereas touching the map would kill the process
        with self.reader() as read:
            return all(np.array_equal(read(k, k + 1)[0], X[k], equal_nan=True) for k in (0, len(X) - 1))

    def slices(self, size: int) -> list[slice]:
        return even_slices(self.shape[0], size)

    @contextmanager
    def reader(self) -> Iterator[Read]:
        try:
            file = open(self._path, "rb", buffering=0)  # noqa: SIM115 - closed below
        except OSError as error:
            raise OSError(
                f"{self.label} can no longer be opened ({error.strerror}); do not move it during a fit"
            ) from error
        with file:
            if _identity(os.fstat(file.fileno())) != self._identity:
                raise OSError(f"{self.label} was changed after it was first read; do not modify it during a fit")
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
        """Read matrices from `first` on until the block is full."""
        file.seek(self.offset + first * self.stride)
        rest = block.reshape(-1).view(np.uint8).data
        while len(rest):
            try:
                count = file.readinto(rest)
            except OSError as error:
                raise OSError(f"{self.label} could not be read at matrix {first}: {error.strerror}") from error
            if not count:
                raise OSError(f"{self.label} ends before matrix {first + len(block)}: it was truncated during the fit")
            rest = rest[count:]


class DatasetReader:
    """An HDF5 dataset or a Zarr array; closing its file is up to the caller."""

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
            raise OSError(f"{self.label} ends before matrix {stop}: it was truncated during the fit")
        # arrays have no modification time, and Zarr fills missing chunks with a constant
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(np.sum(block, dtype=np.float64))
        first = self._sums.setdefault((start, stop), total)
        if total != first and not np.isnan(first):  # NaN from the start is reported by the check
            raise OSError(
                f"{self.label} was changed after it was first read, in matrices {start} to {stop - 1}; "
                f"do not modify it during a fit"
            )
        return block


class JoinedReader:
    """Several readers, concatenated."""

    def __init__(self, parts: Sequence[Reader]) -> None:
        first = parts[0]
        for part in parts:
            if part.shape[1:] != first.shape[1:]:
                raise ValueError(
                    f"{part.label} holds {part.shape[1]} x {part.shape[2]} matrices and {first.label} "
                    f"{first.shape[1]} x {first.shape[2]}: pass matrices of one size"
                )
        self.parts = list(parts)
        self.starts = np.cumsum([0, *(part.shape[0] for part in parts)])
        self.label = f"{len(parts)} files, the first of them {first.label},"
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


class SelectedReader:
    """Selected matrices of a reader, in the order of `index`."""

    def __init__(self, source: Reader, index: np.ndarray) -> None:
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
        raise ValueError(f"{path} is not a complete .npy file of numbers: {error}") from error
    return mapped.shape, mapped.dtype, mapped.flags.c_contiguous, mapped.offset


def _identity(stat: os.stat_result) -> tuple[int, ...]:
    """What identifies a file and its state, so that changes are noticed."""
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns  # the last cannot be set back
