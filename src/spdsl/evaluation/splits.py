"""Training and test indices: given, drawn, or from a scikit-learn splitter; groups stay on one side."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from spdsl.data.labels import as_names, is_unlabeled, kinds_of
from spdsl.data.parameters import check_count

Split = tuple[np.ndarray, np.ndarray]
LEAVE_ONE_GROUP_OUT = "leave-one-group-out"
GIVE_UP = 1000  # draws in a row that have all been drawn before: there are no others
ALL_HALVES = 5000  # so many ways to halve the groups are listed; of more a sample is drawn


def make_splits(splits: Any, y: np.ndarray, *, groups: Any = None, random_state: int | None = None) -> list[Split]:
    """Return distinct pairs (train, test) of index arrays.

    Parameters
    ----------
    splits : int, "leave-one-group-out", splitter or list
        A number of stratified half/half draws, by whole groups where groups are given; one split per group; an object
        with `split(X, y, groups)`; or pairs of index arrays or masks.
    y : (N,) labels
    groups : (N,), optional
        Samples of one group (a person, a session) stay on one side of every draw.
    random_state : int or None
        For the draws.
    """
    groups = check_groups(groups, len(y))
    if isinstance(splits, int | np.integer) and not isinstance(splits, bool):
        check_count("splits", splits, low=1)
        if groups is not None:
            return draw_groups(y, groups, int(splits), random_state)
        _check_halves(y)
        return take_distinct(_stratified_halves(y, random_state), int(splits))
    if isinstance(splits, str) and splits == LEAVE_ONE_GROUP_OUT:
        return leave_one_group_out(groups)
    if hasattr(splits, "split") and not isinstance(splits, str):
        pairs = [(np.asarray(a), np.asarray(b)) for a, b in splits.split(np.zeros(len(y)), y, groups)]
        return _checked_apart(_without_copies(pairs), groups)
    if not isinstance(splits, Iterable) or isinstance(splits, str):
        raise ValueError(
            f"splits must be an integer, {LEAVE_ONE_GROUP_OUT!r}, a splitter or pairs of index arrays, got {splits!r}"
        )
    pairs = [_checked_split(k, split, len(y)) for k, split in enumerate(splits)]
    if not pairs:
        raise ValueError("splits is empty: give a number of draws, or pairs (train, test)")
    return _checked_apart(_without_copies(pairs), groups)


def check_groups(groups: Any, count: int) -> np.ndarray | None:
    """The groups as an array (count,), or an error that says what is wrong with them."""
    if groups is None:
        return None
    found = as_names(groups, "groups")
    if found.shape != (count,):
        raise ValueError(f"groups has shape {found.shape}; it must hold one entry for each of the {count} samples")
    missing = np.flatnonzero(is_unlabeled(found))
    if len(missing):
        raise ValueError(f"groups[{missing[0]}] is {str(found[missing[0]]) or 'empty'}; name the group of every sample")
    if found.dtype.kind == "O":
        kinds = kinds_of(found.tolist())
        if len(kinds) > 1:
            raise ValueError(f"groups mixes names of the types {' and '.join(kinds)}; use names of one type")
        found = np.array([str(name) for name in found.tolist()])
    return found


def leave_one_group_out(groups: np.ndarray | None) -> list[Split]:
    """One split for each group, which is its test part."""
    if groups is None:
        raise ValueError(f"{LEAVE_ONE_GROUP_OUT!r} needs groups: give the group of every sample")
    names = np.unique(groups)
    if len(names) < 2:
        raise ValueError("groups has a single group; splits that keep groups together need two")
    return [(np.flatnonzero(groups != name), np.flatnonzero(groups == name)) for name in names]


def take_distinct(drawn: Iterator[Split], count: int) -> list[Split]:
    """The first `count` draws that differ; where fewer exist all of them, with a warning."""
    found: dict[bytes, Split] = {}
    idle = 0
    for split in drawn:
        key = _identity(split)
        idle = idle + 1 if key in found else 0
        found.setdefault(key, split)
        if len(found) == count or idle == GIVE_UP:
            break
    _say_fewer(len(found), count)
    return list(found.values())


def draw_groups(y: np.ndarray, groups: np.ndarray, count: int, random_state: int | None) -> list[Split]:
    """Distinct draws that train on half of the groups and test on the others, at most half of them.

    Where more exist than are asked for, they are drawn at random from the half in which the classes are divided most
    evenly; draws that train on every class come before those that do not.
    """
    names, codes = np.unique(groups, return_inverse=True)
    if len(names) < 2:
        raise ValueError("groups has a single group; splits that keep groups together need two")
    rng = np.random.default_rng(random_state)
    tested = _halves_of(len(names), count, rng)
    labels = np.unique(y, return_inverse=True)[1]
    inside = np.zeros((len(names), labels.max() + 1))
    np.add.at(inside, (codes, labels), 1)
    share = tested @ inside / inside.sum(axis=0)
    learned = np.all(share < 1, axis=1)
    if learned.any():
        tested, share = tested[learned], share[learned]
    if len(tested) > count:
        uneven = np.abs(share - 0.5).max(axis=1)
        even = np.sort(np.argsort(uneven, kind="stable")[: max(count, len(tested) // 2)])
        tested = tested[even][:count]
    _say_fewer(len(tested), count, " of whole groups")
    return [(np.flatnonzero(~chosen[codes]), np.flatnonzero(chosen[codes])) for chosen in tested]


def _halves_of(G: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Ways to test half of G groups, in random order: masks (ways, G), all of them where they are not too many."""
    size = G // 2
    if comb(G, size) <= ALL_HALVES:
        chosen = rng.permutation(np.array(list(combinations(range(G), size))))
    else:
        drawn = np.array([np.sort(rng.permutation(G)[:size]) for _ in range(max(20 * count, 1000))])
        chosen = drawn[np.sort(np.unique(drawn, axis=0, return_index=True)[1])]
    masks = np.zeros((len(chosen), G), bool)
    masks[np.arange(len(chosen))[:, None], chosen] = True
    return masks


def _stratified_halves(y: np.ndarray, random_state: int | None) -> Iterator[Split]:
    """Endless stratified halves."""
    from sklearn.model_selection import StratifiedShuffleSplit  # not above: it slows the import down

    yield from StratifiedShuffleSplit(2**31 - 1, test_size=0.5, random_state=random_state).split(np.zeros(len(y)), y)


def _without_copies(pairs: list[Split]) -> list[Split]:
    """Each split once: means and tests over copies would claim more than was found."""
    known = {_identity(split): split for split in reversed(pairs)}
    kept = [split for split in pairs if known[_identity(split)] is split]
    if len(kept) < len(pairs):
        warnings.warn(
            f"{len(pairs) - len(kept)} of the {len(pairs)} splits repeat another one: each is used once",
            UserWarning,
            stacklevel=4,
        )
    return kept


def _identity(split: Split) -> bytes:
    """Equal for splits of the same samples in whatever order."""
    return b"/".join(np.sort(np.asarray(part, np.int64)).tobytes() for part in split)


def _say_fewer(found: int, wanted: int, kind: str = "") -> None:
    if found < wanted:
        warnings.warn(
            f"only {found} distinct draws{kind} exist, {wanted} were asked for: all {found} are used",
            UserWarning,
            stacklevel=4,
        )


def warn_of_unlearned(pairs: list[Split], y: np.ndarray, source: str = "") -> None:
    """Warn where a class is tested that the training part does not hold: all of its samples will be wrong."""
    unseen = [np.setdiff1d(y[test], y[train]) for train, test in pairs]
    draws = [k for k, classes in enumerate(unseen) if len(classes)]
    if draws:
        more = f", nor is one of its own in {len(draws) - 1} other draws" if len(draws) > 1 else ""
        warnings.warn(
            f"{source}class {str(unseen[draws[0]][0])!r} is tested in draw {draws[0] + 1} but not in its training part{more}",
            UserWarning,
            stacklevel=3,
        )


def _checked_apart(pairs: list[Split], groups: np.ndarray | None) -> list[Split]:
    """The splits; a warning where they test a group that they also train on."""
    if groups is not None:
        for k, (train, test) in enumerate(pairs):
            shared = np.intersect1d(groups[train], groups[test])
            if len(shared):
                warnings.warn(
                    f"splits[{k}] has group {str(shared[0])!r} in both train and test; to keep groups apart use an integer, "
                    f"{LEAVE_ONE_GROUP_OUT!r}, or a splitter such as GroupKFold",
                    UserWarning,
                    stacklevel=4,
                )
                break
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


# ---------------------------------------------------------------------------------------------------------------- folds


def fold_count(y: np.ndarray, n_folds: int, groups: np.ndarray | None = None) -> int:
    """As many folds as asked for, or as the smallest class has samples (or groups), but at least two.

    For classes of two samples see `_pair_folds`.
    """
    if _grouped(groups):
        labels = np.unique(y, return_inverse=True)[1]
        spread = [len(np.unique(groups[labels == k])) for k in range(labels.max() + 1)]  # type: ignore[index]
        return max(2, min(n_folds, *spread))
    counts = np.unique(y, return_counts=True)[1]
    if counts.max() == 2 and np.sum(counts == 2) > 1:
        pairs = int(np.sum(counts == 2))
        return 4 if pairs == 2 else max(3, min(n_folds, 2 * pairs))
    return max(2, min(n_folds, int(counts.min())))


def make_folds(y: np.ndarray, n_folds: int, random_state: int | None, groups: np.ndarray | None = None) -> list[Split]:
    """Stratified folds; classes with a single sample are trained on in all folds but one.

    Samples of a group share a fold where there are two groups or more. Where no class has more than two samples,
    stratified folds would leave every class with one, from which no method can learn what makes a class: see
    `_pair_folds`.
    """
    check_count("n_folds", n_folds, low=2)
    if len(y) < 2:
        raise ValueError(f"cross-validation needs at least 2 samples, got {len(y)}")
    if _grouped(groups):
        return _group_folds(y, np.asarray(groups), n_folds, random_state)
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


def _grouped(groups: np.ndarray | None) -> bool:
    """Whether there are groups to keep apart; within a single group samples are all there is to divide."""
    return groups is not None and len(np.unique(groups)) > 1


def _group_folds(y: np.ndarray, groups: np.ndarray, n_folds: int, random_state: int | None) -> list[Split]:
    """Folds of whole groups, stratified where the groups allow it; those that leave one class to learn are left out."""
    from sklearn.model_selection import StratifiedGroupKFold

    folds = StratifiedGroupKFold(fold_count(y, n_folds, groups), shuffle=True, random_state=random_state)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        pairs = [(a, b) for a, b in folds.split(np.zeros(len(y)), y, groups) if len(b) and len(np.unique(y[a])) > 1]
    if not pairs:
        raise ValueError(
            "groups cannot be kept apart in tuning: without one of them a single class is left; do not tune "
            "(tune=False), or give groups that hold several classes each"
        )
    return pairs


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
