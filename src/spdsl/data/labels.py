"""Checks of class labels."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from spdsl import backend


def check_labels(y: Any, n_samples: int, n_blocks: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes and the labels as integers 0..c-1, or raise; `n_blocks` matrices make a sample."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None: this method learns from labels")
    y = as_names(y, "y")
    if y.dtype.kind == "c":
        raise ValueError("y holds complex numbers, which are not labels; pass one label per sample")
    y = column_or_1d(y, warn=True)
    if len(y) != n_samples:
        held, one = f"{n_samples} matrices", "matrix"
        if n_blocks is not None:
            held, one = (
                f"{n_samples} {'sample' if n_samples == 1 else 'samples'} of {n_blocks} matrices",
                "sample; single matrices are (n_matrices, n, n)",
            )
        raise ValueError(
            f"X has {held} but y has {len(y)} labels (inconsistent numbers of samples): pass one label per {one}"
        )
    check_missing(y)
    if y.dtype.kind in "OTSmMcV":
        _check_objects(y)
    classes, labels = np.unique(y, return_inverse=True)
    check_classification_targets(np.tile(classes, 2))  # each label twice: many classes are no reason for a warning
    return classes, labels


def check_missing(y: np.ndarray, rows: np.ndarray | None = None) -> None:
    """Raise unless every label (N,), or those of the samples `rows`, is one: not None, NaN or infinite."""
    if y.dtype.kind not in "fOmMT":
        return
    values = y.tolist()
    for k in range(len(y)) if rows is None else rows.tolist():
        if _is_missing(values[k]):
            raise ValueError(f"y[{k}] is {y[k]}, which is not a label; remove that sample or label it")


def as_names(values: Any, name: str) -> np.ndarray:
    """Labels or groups as an array; `name` is that of the data in messages.

    A list of strings and something else becomes an array of objects, not of strings: NaN is not the class "nan", nor 1 the
    class "1".
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        bad = int(np.flatnonzero(np.ma.getmaskarray(values))[0])
        raise ValueError(f"{name}[{bad}] is masked; remove that sample or label it")
    array = backend.to_numpy(values)
    if array.ndim != 1 or isinstance(values, np.ndarray):
        return array
    strings = array.dtype.kind == "U" and not all(isinstance(value, str) for value in values)
    huge = array.dtype.kind == "f" and array.size > 0 and all(type(value) is int for value in values)  # for NumPy
    return np.array(list(values), dtype=object) if strings or huge else array


def kinds_of(values: list[Any]) -> list[str]:
    """The types of labels or groups, each once, in alphabetical order."""
    return sorted({_kind(value) for value in values})


def is_unlabeled(y: np.ndarray) -> np.ndarray:
    """Which samples (N,) have no label: an empty string or only spaces, None, NaN, or a missing value of pandas."""
    empty = [isinstance(label, str) and not label.strip() for label in y.tolist()]
    return np.array([_is_missing(label) for label in y.tolist()], dtype=bool) | np.array(empty, dtype=bool)


def known_labels(y: Any, known: np.ndarray, n_samples: int, n_blocks: int | None = None) -> np.ndarray:
    """Labels as indices of known classes, or raise if there is another one."""
    classes, labels = check_labels(y, n_samples, n_blocks)
    index = {name: k for k, name in enumerate(known.tolist())}
    odd = [name for name in classes.tolist() if name not in index]
    if odd:
        raise ValueError(f"y holds the class {odd[0]!r}, which was not in fit; its classes are {list(index)}")
    return np.array([index[name] for name in classes.tolist()])[labels]


def _check_objects(y: np.ndarray) -> None:
    """Raise unless labels of an unusual dtype are strings; the error says how to convert them."""
    labels = y.tolist()
    kinds = kinds_of(labels)
    if len(kinds) > 1:
        raise ValueError(
            f"y mixes labels of the types {' and '.join(kinds)}, which cannot be sorted; use labels of one type"
        )
    (kind,) = kinds
    if kind == "bytes":
        raise ValueError("y holds bytes; decode them, e.g. y.astype(str)")
    if y.dtype.kind == "T":
        raise ValueError("y has the dtype StringDType, which scikit-learn does not support; pass y.astype(object)")
    if kind != "str":
        fits = {"bool": "b", "int": "biu", "float": "biuf"}.get(kind, "")
        plain = np.array(labels).dtype.kind in fits  # not so for huge integers
        remedy = f"y.astype({kind})" if plain else "[str(label) for label in y]"
        raise ValueError(f"Unknown label type: y holds objects of type {kind}; convert them, e.g. {remedy}")


def _kind(label: Any) -> str:
    """The type of a label: str, bytes, bool, int or float, also for types of NumPy, or its own name."""
    if isinstance(label, Enum):
        return type(label).__name__
    plain = label.item() if isinstance(label, np.generic) else label
    return next(
        (known.__name__ for known in (str, bytes, bool, int, float) if isinstance(plain, known)), type(label).__name__
    )


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, infinite, or a missing value of pandas."""
    return (
        label is None
        or type(label).__name__ in ("NAType", "NaTType")
        or (isinstance(label, np.datetime64 | np.timedelta64) and np.isnat(label))
        or (isinstance(label, float) and not np.isfinite(label))
    )
