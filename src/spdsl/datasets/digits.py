"""Image sets of handwritten digits, from the images in scikit-learn: small data that every installation has."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.utils import check_random_state

from spdsl.features import set_covariance


def load_digit_sets(
    set_size: int = 2, *, ridge: float = 1e-3, random_state: int | np.random.RandomState | None = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Sets of digit images as 65 x 65 SPD matrices `[[C + mu mu', mu], [mu', 1]]`, as the paper does for faces.

    Parameters
    ----------
    set_size : int
        Images in a set. Two make the task hard enough to be interesting.
    ridge : float
        `ridge * trace(C) * I` is added to the covariance C of a set.
    random_state : int, RandomState or None
        Which images form a set.

    Returns
    -------
    X : (n_sets, 65, 65)
    y : (n_sets,)
        Digits 0 to 9.

    Examples
    --------
    >>> from spdsl.datasets import load_digit_sets
    >>> X, y = load_digit_sets()
    >>> X.shape, y.shape
    ((896, 65, 65), (896,))
    """
    if set_size < 2:
        raise ValueError(f"set_size={set_size}: a covariance needs at least 2 images")
    digits = load_digits()
    rng = check_random_state(random_state)
    matrices, labels = [], []
    for digit in range(10):
        chosen = rng.permutation(np.flatnonzero(digits.target == digit))
        sets = digits.data[chosen[: len(chosen) // set_size * set_size]].reshape(-1, set_size, 64)
        matrices.append(np.stack([set_covariance(images, ridge=ridge, embedding="augmented") for images in sets]))
        labels.append(np.full(len(sets), digit))
    return np.concatenate(matrices), np.concatenate(labels)
