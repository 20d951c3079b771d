"""What a learner may ask of its samples, wherever they live, and of the samples seen through W.

`Data` and `View` are the only access to the n x n matrices. Each place where samples may live is one file with one
class of each kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from spdsl.backend import Array
from spdsl.data.neighbor_search import Capacities, Neighbors
from spdsl.data.recentering import Moments, Recentering, base_of
from spdsl.geometry import Metric


class Data(ABC):
    """N SPD matrices n x n, wherever they live; or N samples of b such matrices each.

    Subclass it to support another place: `fit`, `transform` and `predict` of `SPDSL` and `SPDML` accept such an object as
    it is. If blocks of it can be formed, `search_blocks` and `upper_blocks` find neighbors, and `first_copies` duplicates.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.data import as_data
    >>> np.save("stack.npy", np.stack([np.eye(3)] * 5))
    >>> data = as_data("stack.npy")  # a subclass of Data that reads the file in blocks
    >>> data.shape, data[1:3].shape
    ((5, 3, 3), (2, 3, 3))
    """

    #: (N, n, n), or (N, b, n, n)
    shape: tuple[int, ...]
    #: an empty array (0, n, n) or (0, b, n, n) of the array library, dtype and device of the results
    model: Array
    #: whether products with the samples are in float32
    single: bool = False

    @abstractmethod
    def check(self, name: str = "X") -> None:
        """Raise a ValueError that names the first sample that is not SPD, by its index in the whole.

        Called before anything else by `fit`, `predict` and the like, each time; what they need may be prepared here.
        """

    @abstractmethod
    def to_device(self, device: Any) -> Data:
        """The same samples, computed on `device`; None leaves them where they are."""

    @abstractmethod
    def unit_mean(self) -> Array:
        """Mean (n, n) or (b, n, n) of the matrices, each scaled to trace 1."""

    @abstractmethod
    def first_copies(self) -> np.ndarray:
        """For every sample, the index of the first sample equal to it."""

    @abstractmethod
    def neighbors(
        self, metric: Metric, labels: np.ndarray, capacities: Capacities, *, measure: bool, approximate: bool
    ) -> Neighbors:
        """Nearest samples of the same class and of other classes; with `measure`, the mean distance of all pairs too."""

    @abstractmethod
    def view(self, m: int) -> View:
        """The samples as the solver sees them, through W (n, m) or (b, n, m)."""

    def recentering(self) -> Recentering | None:
        """The map to the mean; None where the matrices are never formed."""
        return None

    def log_moments(self, G: Array) -> Moments | None:
        """Sums over the logarithms of `G X_i G`: see `spdsl.data.recentering.Moments`. None: there is no nearer mean."""
        return None

    def base_map(self, found: Recentering) -> Array:
        """The map A (n, k) or (b, n, k) to the recentered matrices `A'XA` that a classifier sees."""
        return base_of(found, self.shape[0], self.log_moments)

    def map_log_vectors(self, A: Array, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """`function` of the log-vectors (k, d) of `A'X_i A`, block by block along the first axis."""
        raise TypeError(
            f"{type(self).__name__}: this classifier needs the matrices themselves, as those it was fitted on; pass "
            f"X.dense() of factors, or fit with classifier='logistic'"
        )

    def reduce(self, W: Array) -> Array:
        """Reduced matrices `W'XW`, (N, m, m) or (N, b, m, m)."""
        return self.view(W.shape[-1]).start(W)

    def bytes_needed(self, m: int) -> int | None:
        """Bytes that a fit needs on the device that holds the samples; None if they are read in parts."""
        return None

    def release(self) -> None:  # noqa: B027
        """Free what a fit has used, such as memory of workers and open files. The samples stay usable."""

    def close(self) -> None:  # noqa: B027
        """Free everything. The samples cannot be used afterwards."""


class View(Protocol):
    """X (N, n, n) seen through W (n, m). Along the line W + tH, `W'XW` is a quadratic in t with m x m coefficients.

    If a sample is b matrices, X is (N, b, n, n), W is (b, n, m), and (N, m, m) below stands for (N, b, m, m).

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.data import as_data
    >>> view = as_data(np.stack([np.eye(3)] * 4)).view(2)
    >>> view.start(np.eye(3, 2)).shape, view.passes
    ((4, 2, 2), 1)
    """

    passes: int  # number of passes over all of X

    def start(self, W: Array) -> Array:
        """Keep XW, return `P = W'XW` (N, m, m). One pass over the data; none if W is that of the last call."""

    def refresh(self) -> Array:
        """Recompute XW from W to remove rounding drift, and return P. One pass over the data."""

    def look(self, H: Array) -> tuple[Array, Array]:
        """Keep XH, return `A1 = W'XH + H'XW` and `A2 = H'XH` (N, m, m). One pass over the data."""

    def step(self, t: float, right: Array | None = None) -> Array:
        """Set `W <- (W + tH) right`, update XW, and return W. No pass over the data."""

    def scale(self, factor: float) -> Array:
        """Multiply W and XW by a scalar, return W. No pass over the data."""

    def gradient(self, S: Array) -> Array:
        """Return `2 sum_i X_i W S_i` (n, m). No pass over the data."""
