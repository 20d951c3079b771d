"""How the paper splits a dataset into gallery and probe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Protocol:
    """Random splits with a fixed number of samples per class.

    Parameters
    ----------
    train : int or None
        Training samples of each class; None takes half of the class, rounded down, at least one.
    test : int or None
        Test samples of each class; None takes all that are left.
    draws : int
        Number of random splits.

    Examples
    --------
    >>> from spdsl.datasets import Protocol
    >>> train, test = next(Protocol(train=2, draws=1).splits(["a"] * 4 + ["b"] * 3))
    >>> len(train), len(test)
    (4, 3)
    """

    train: int | None = None
    test: int | None = None
    draws: int = 10

    def splits(self, y: np.ndarray, seed: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield `draws` pairs (train, test) of sorted indices into `y`; equal seeds give equal splits."""
        classes, codes = np.unique(np.asarray(y), return_inverse=True)
        members = [np.flatnonzero(codes == code) for code in range(len(classes))]
        for name, rows in zip(classes, members, strict=True):
            needed = (self.train or 1) + (self.test or 0)
            if len(rows) < needed:
                raise ValueError(
                    f"class {str(name)!r} has {len(rows)} samples, the protocol takes {needed}; leave the class out, "
                    "or use Protocol(train=..., test=None)"
                )
        rng = np.random.default_rng(seed)
        for _ in range(self.draws):
            train, test = [], []
            for rows in members:
                shuffled = rng.permutation(rows)
                cut = max(1, len(rows) // 2) if self.train is None else self.train
                end = None if self.test is None else cut + self.test
                train.append(shuffled[:cut])
                test.append(shuffled[cut:end])
            yield np.sort(np.concatenate(train)), np.sort(np.concatenate(test))
