"""Which samples are copies of earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b

import numpy as np

from spdsl import arrays
from spdsl.arrays import Array


def first_copies(X: Array) -> np.ndarray:
    """For every matrix of a stack in memory the index of the first one equal to it."""
    return copies_by_digest(row_digests(X), lambda k: arrays.to_numpy(X[k]))


def row_digests(X: Array) -> list[bytes]:
    """A digest of the first row of every matrix: only where these agree is the rest looked at."""
    return [digest(row) for row in arrays.to_numpy(X[:, 0, :])]


def digest(part: np.ndarray) -> bytes:
    """Sixteen bytes that stand for an array."""
    return blake2b(np.ascontiguousarray(part).data, digest_size=16).digest()


def copies_by_digest(digests: Sequence[bytes], matrix: Callable[[int], np.ndarray]) -> np.ndarray:
    """The index of the first copy of each, given digests of a part and a way to get at the whole."""
    first = np.arange(len(digests))
    groups: dict[bytes, list[int]] = {}
    for k, part in enumerate(digests):
        groups.setdefault(part, []).append(k)
    for alike in groups.values():
        if len(alike) > 1:
            seen: dict[bytes, int] = {}
            for k in alike:
                first[k] = seen.setdefault(digest(matrix(k)), k)
    return first
