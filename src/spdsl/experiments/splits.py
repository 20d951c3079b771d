"""Train and test indices: given, drawn, or from a scikit-learn splitter."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from spdsl.validation import check_count

Split = tuple[np.ndarray, np.ndarray]


def make_splits(splits: Any, y: np.ndarray, *, groups: Any = None, random_state: int | None = None) -> list[Split]:
    """Return (train, test) index arrays.

    Parameters
    ----------
    splits : int, splitter or list
        A number of stratified half/half draws; an object with `split(X, y, groups)`; or pairs of index arrays or masks.
    y : (N,) labels
    groups : (N,), optional
        Passed on to the splitter.
    random_state : int or None
        For the draws.
    """
    if isinstance(splits, int | np.integer) and not isinstance(splits, bool):
        check_count("splits", splits, low=1)
        _check_halves(y)
        from sklearn.model_selection import StratifiedShuffleSplit  # not above: it slows the import down

        draw = StratifiedShuffleSplit(int(splits), test_size=0.5, random_state=random_state)
        return list(draw.split(np.zeros(len(y)), y))
    if hasattr(splits, "split") and not isinstance(splits, str):
        return [(np.asarray(a), np.asarray(b)) for a, b in splits.split(np.zeros(len(y)), y, groups)]
    if not isinstance(splits, Iterable) or isinstance(splits, str):
        raise ValueError(f"splits must be an integer, a splitter or pairs of index arrays, got {splits!r}")
    pairs = [_checked_split(k, split, len(y)) for k, split in enumerate(splits)]
    if not pairs:
        raise ValueError("splits is empty: give a number of draws, or pairs (train, test)")
    return pairs


def _check_halves(y: np.ndarray) -> None:
    """Raise unless both halves can hold every class."""
    classes, counts = np.unique(y, return_counts=True)
    if counts.min() < 2:
        raise ValueError(f"class {str(classes[counts.argmin()])!r} has a single sample; halves need two: leave it out")
    if len(y) // 2 < len(classes):
        raise ValueError(f"{len(y)} samples of {len(classes)} classes: a half cannot hold one of each; give the splits")


def _checked_split(k: int, split: Any, count: int) -> Split:
    """One given pair as two arrays of indices, or an error that names it."""
    try:
        train, test = (np.asarray(part) for part in split)
    except (TypeError, ValueError) as error:
        raise ValueError(f"splits[{k}] must be a pair of index arrays (train, test)") from error
    train, test = (
        np.flatnonzero(part) if part.dtype == bool and len(part) == count else part for part in (train, test)
    )
    for name, part in (("train", train), ("test", test)):
        if part.ndim != 1 or part.dtype.kind not in "iu" or not len(part):
            raise ValueError(
                f"splits[{k}]: {name} must hold indices or a mask of all {count} samples, and not be empty"
            )
        if part.min() < 0 or part.max() >= count:
            raise ValueError(f"splits[{k}]: {name} holds an index outside 0..{count - 1}")
    if len(np.intersect1d(train, test)):
        raise ValueError(f"splits[{k}]: {len(np.intersect1d(train, test))} samples are in both train and test")
    return train, test


def fold_count(y: np.ndarray, n_folds: int) -> int:
    """As many folds as asked for, or as the smallest class has samples, but at least two; for pairs see `_pair_folds`."""
    counts = np.unique(y, return_counts=True)[1]
    if counts.max() == 2 and np.sum(counts == 2) > 1:
        pairs = int(np.sum(counts == 2))
        return 4 if pairs == 2 else max(3, min(n_folds, 2 * pairs))
    return max(2, min(n_folds, int(counts.min())))


def make_folds(y: np.ndarray, n_folds: int, random_state: int | None) -> list[Split]:
    """Stratified folds; classes with a single sample are trained on in all folds but one.

    Where no class has more than two samples, stratified folds would leave every class with one, from which no method can
    learn what makes a class: see `_pair_folds`.
    """
    check_count("n_folds", n_folds, low=2)
    if len(y) < 2:
        raise ValueError(f"cross-validation needs at least 2 samples, got {len(y)}")
    counts = np.unique(y, return_counts=True)[1]
    if counts.max() == 1:
        raise ValueError("every class has one sample: cross-validation needs two or more of some class")
    if counts.max() == 2 and np.sum(counts == 2) > 1:
        return _pair_folds(y, fold_count(y, n_folds), random_state)
    from sklearn.model_selection import StratifiedKFold

    folds = StratifiedKFold(fold_count(y, n_folds), shuffle=True, random_state=random_state)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        return list(folds.split(np.zeros(len(y)), y))


def _pair_folds(y: np.ndarray, count: int, random_state: int | None) -> list[Split]:
    """Folds for classes of two samples: a fold tests one sample of some classes, and trains on both of the others.

    Samples stand in a row, partners side by side, and go to the folds in turn: partners never share a fold, and with
    three folds or more each fold leaves some class whole.
    """
    rng = np.random.default_rng(random_state)
    labels, counts = np.unique(y, return_counts=True)
    row = np.concatenate(
        [rng.permutation(np.flatnonzero(y == label)) for label in rng.permutation(labels[counts == 2])]
    )
    tests = [np.sort(row[k::count]) for k in range(count)]
    return [(np.setdiff1d(np.arange(len(y)), test), test) for test in tests]
