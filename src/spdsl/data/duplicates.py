"""Find samples that are copies of earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b

import numpy as np

from spdsl import backend
from spdsl.backend import Array


def first_copies(X: Array) -> np.ndarray:
    """For every sample in memory, (N, n, n) or (N, b, n, n), the index of the first sample equal to it.

    Parameters
    ----------
    X : array (N, n, n) or (N, b, n, n)

    Returns
    -------
    ndarray of int (N,)

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.data import first_copies
    >>> first_copies(np.stack([np.eye(2), 2 * np.eye(2), np.eye(2)])).tolist()
    [0, 1, 0]
    """
    X = X.reshape(X.shape[0], -1, X.shape[-1])
    return copies_by_digest(row_digests(X), lambda k: backend.to_numpy(X[k]))


def row_digests(X: Array) -> list[bytes]:
    """A digest of the first row of every matrix; the rest is compared only where these agree."""
    return [digest(row) for row in backend.to_numpy(X[:, 0, :])]


def digest(part: np.ndarray) -> bytes:
    """A digest of 16 bytes."""
    return blake2b(np.ascontiguousarray(part).data, digest_size=16).digest()


def copies_by_digest(digests: Sequence[bytes], matrix: Callable[[int], np.ndarray]) -> np.ndarray:
    """The index of the first copy of each sample, given digests of a part and a function for those of the whole."""
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
