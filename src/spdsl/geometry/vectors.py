"""SPD matrices as vectors whose Euclidean distances are log-Euclidean distances."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from spdsl import backend
from spdsl.backend import Array, namespace
from spdsl.geometry.registry import get_metric


def log_vectors(X: Array) -> Array:
    """Vectors (N, n (n + 1) / 2): upper triangles of the logarithms, off-diagonal entries times sqrt(2).

    Of samples of several matrices (N, b, n, n) the vectors are concatenated.

    Parameters
    ----------
    X : array (N, n, n) or (N, b, n, n)

    Returns
    -------
    array (N, d)

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.geometry import log_vectors
    >>> log_vectors(np.stack([np.eye(3)] * 2)).shape
    (2, 6)
    """
    if X.ndim == 4:
        return namespace(X).concat([log_vectors(X[:, k]) for k in range(X.shape[1])], axis=1)
    logs = get_metric("lem").factor(X)[0]
    place, weight = _upper_triangle(X.shape[-1])
    return logs[:, backend.like(place, X)] * backend.like(weight, X)


@lru_cache(maxsize=4)
def _upper_triangle(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the upper triangle lies in a flattened matrix, and the weights of its entries."""
    row, column = np.triu_indices(n)
    return row * n + column, np.where(row == column, 1.0, np.sqrt(2.0))
