"""Factors of samples in a temporary file, for distances between more samples than fit in memory."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import numpy as np

from spdsl.data.neighbor_search import DistanceBlock, block_size
from spdsl.geometry import Metric

ROWS_BYTES = 1 << 27  # factors of rows held at once; for each such part half of the file is read on average

Factors = tuple[np.ndarray, ...]


class FactorFile:
    """Factors of N samples in an unnamed temporary file, so that nothing is left behind whatever happens."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._shapes: list[tuple[int, ...]] = []
        self._file: Any = None
        self._written = 0

    def __enter__(self) -> Self:
        try:
            self._file = tempfile.TemporaryFile(buffering=0)
        except OSError as error:
            raise _no_file(error, f"cannot create a temporary file ({error.strerror}) in") from error
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()

    def append(self, factors: Factors) -> None:
        """Write the factors of the next samples."""
        self._shapes = [part.shape[1:] for part in factors]
        rows = np.concatenate([part.reshape(len(part), -1) for part in factors], axis=1)
        rest = rows.reshape(-1).view(np.uint8).data
        try:
            while len(rest):
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
                raise
            size = self.count * rows.shape[1] * 8 / 1e9
            raise _no_file(error, f"no space for a temporary file of {size:.2g} GB in") from error
        self._written += len(rows)

    def read(self, start: int, stop: int) -> Factors:
        """The factors of the samples from start to stop."""
        sizes = [int(np.prod(shape)) for shape in self._shapes]
        width = sum(sizes)
        rows = np.empty((stop - start, width))
        self._file.seek(start * width * 8)
        rest = rows.reshape(-1).view(np.uint8).data
        while len(rest):
            count = self._file.readinto(rest)
            if not count:
                raise OSError(f"the temporary file in {tempfile.gettempdir()} was truncated by another process")
            rest = rest[count:]
        parts = np.split(rows, np.cumsum(sizes)[:-1], axis=1)
        return tuple(
            part.reshape(len(rows), *shape) if len(shape) != 1 else part
            for part, shape in zip(parts, self._shapes, strict=True)
        )

    def sqdist_blocks(self, metric: Metric) -> Iterator[DistanceBlock]:
        """Squared distances, columns at or after rows; every sample meets the others in the order of their indices."""
        for row, column, left, right in self.block_pairs():
            yield row, column, metric.cross(left, right)

    def block_pairs(self) -> Iterator[tuple[slice, slice, Factors, Factors]]:
        """Factors of rows and of columns at or after them, in blocks that cover all pairs once."""
        width = sum(int(np.prod(shape)) for shape in self._shapes)
        size = max(1, min(block_size(self.count), ROWS_BYTES // (4 * 8 * width)))
        many = max(1, ROWS_BYTES // (8 * width * size)) * size
        with ThreadPoolExecutor(1) as thread:
            for top in range(0, self.count, many):
                rows = [slice(k, min(k + size, self.count)) for k in range(top, min(top + many, self.count), size)]
                held = self.read(top, rows[-1].stop)
                columns = [slice(k, min(k + size, self.count)) for k in range(top, self.count, size)]
                pending = thread.submit(self.read, columns[0].start, columns[0].stop)
                for k, column in enumerate(columns):
                    right = pending.result()
                    if k + 1 < len(columns):
                        pending = thread.submit(self.read, columns[k + 1].start, columns[k + 1].stop)
                    for row in rows[: k + 1]:
                        left = tuple(part[row.start - top : row.stop - top] for part in held)
                        yield row, column, left, right


def _no_file(error: OSError, what: str) -> OSError:
    """The same error, with the purpose of the file and how to do without it."""
    return OSError(
        error.errno,
        f"{what} {tempfile.tempdir or 'any known folder'}, which the nearest-neighbor graph needs; set TMPDIR to a folder "
        f"with space, or use n_within='all' and n_between='all', or solver={{'search': 'approximate'}}",
    )
