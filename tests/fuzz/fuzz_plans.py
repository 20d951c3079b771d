"""What is thrown at the library: stacks, labels and parameters, good and bad, as hypothesis strategies.

Everything follows from the drawn values, so that a failing case shrinks to a small one and can be run again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

SPECTRA = ("plain", "near-singular", "repeated", "identical", "duplicated", "diagonal", "huge-condition")
FLAWS = (
    "nan",
    "inf",
    "asymmetric",
    "indefinite",
    "singular",
    "zero",
    "flat",
    "deep",
    "oblong",
    "empty",
    "no-size",
    "ragged",
    "complex",
    "object",
    "words",
    "none",
    "masked",
    "number",
    "negative",
    "records",
    "denormal",
)
LAYOUTS = (
    "C",
    "F",
    "strided",
    "read-only",
    "list",
    "view",
    "big-endian",
    "float32",
    "matrix-view",
    "float16",
    "longdouble",
    "matrices",
    "blocks",
)
SCALES = (0, 0, 0, 0, -3, 3, -12, 12, -100, 100, -150, 150)  # powers of ten; most of them modest


def make_spd(rng: np.random.Generator, N: int, n: int, spectrum: str) -> np.ndarray:
    """N matrices n x n of a kind."""
    if spectrum == "repeated":
        return rng.uniform(0.5, 2, N)[:, None, None] * np.eye(n)
    if spectrum == "diagonal":
        return rng.uniform(0.1, 3, (N, n))[:, :, None] * np.eye(n)
    V = np.linalg.qr(rng.standard_normal((N, n, n)))[0]
    w = rng.uniform(0.2, 2, (N, n))
    if spectrum == "near-singular":
        w[:, 0] = 10.0 ** rng.uniform(-16, -8, N)
    if spectrum == "huge-condition":
        w = np.logspace(0, -11, n) * rng.uniform(0.5, 2, (N, n))
    X = (V * w[:, None, :]) @ V.mT
    X = (X + X.mT) / 2
    if spectrum == "identical":
        X[:] = X[0]
    if spectrum == "duplicated":
        X[N // 2 :] = X[: N - N // 2]
    return X


def spoil(X: np.ndarray, flaw: str, k: int) -> Any:
    """The stack with one thing wrong, at matrix k where it is about one matrix."""
    X = X.copy()
    n = X.shape[-1]
    if flaw == "nan":
        X[k, 0, -1] = np.nan
    elif flaw == "inf":
        X[k, 0, 0] = np.inf
    elif flaw == "asymmetric":
        X[k, 0, -1] += 1.0 * np.abs(X[k]).max()
    elif flaw == "indefinite":
        X[k] -= 3 * np.abs(X[k]).max() * np.eye(n)
    elif flaw == "negative":
        X = -X
    elif flaw == "singular":
        X[k] = np.ones((n, n))
    elif flaw == "zero":
        X[k] = 0
    changed: dict[str, Any] = {
        "flat": X[0],
        "deep": X[None],
        "oblong": X[:, :-1, :] if n > 1 else X[:, :, :0],
        "empty": X[:0],
        "no-size": X[:, :0, :0],
        "ragged": [*list(X[:-1]), X[-1][:-1, :-1]],
        "complex": X + 1j,
        "object": X.astype(object),
        "words": [["a", "b"], ["c", "d"]],
        "none": None,
        "masked": np.ma.masked_array(X, mask=np.arange(X.size).reshape(X.shape) == k),
        "number": 3.0,
        "records": np.rec.array(np.zeros(X.shape, [("a", float)])),
        "denormal": np.repeat(1e-310 * np.eye(n)[None], len(X), axis=0),
    }
    return changed.get(flaw, X)


def lay_out(X: np.ndarray, layout: str) -> Any:
    """The same numbers in another form."""
    if layout == "F":
        return np.asfortranarray(X)
    if layout == "strided":
        return np.repeat(X, 2, axis=0)[::2]
    if layout == "read-only":
        X = X.copy()
        X.flags.writeable = False
        return X
    if layout == "list":
        return X.tolist()
    if layout == "view":
        return X.mT
    if layout == "matrix-view":
        return X[::-1]
    if layout == "big-endian":
        return X.astype(">f8")
    if layout == "matrices":
        return list(X)
    if layout == "blocks":  # samples of two matrices
        return np.stack([X, X[::-1]], axis=1)
    if layout in ("float32", "float16", "longdouble"):
        with np.errstate(all="ignore"):
            return X.astype(layout)
    return X


@st.composite
def stacks(draw: Any, *, flawed: float = 0.25, max_count: int = 14, max_size: int = 7) -> tuple[Any, bool, int]:
    """(X, whether something was spoiled on purpose, n)."""
    n = draw(st.integers(1, max_size))
    N = draw(st.integers(1, max_count))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    X = make_spd(rng, N, n, draw(st.sampled_from(SPECTRA)))
    with np.errstate(all="ignore"):
        X = X * 10.0 ** draw(st.sampled_from(SCALES))
    if draw(st.floats(0, 1)) < flawed:
        return spoil(X, draw(st.sampled_from(FLAWS)), draw(st.integers(0, N - 1))), True, n
    return lay_out(X, draw(st.sampled_from(LAYOUTS))), False, n


def classes_of(N: int, kind: str) -> Any:
    """Labels of a kind for N matrices."""
    turn = np.arange(N) % 3
    words = np.array(["ant", "bee", "cow"])[turn]
    made: dict[str, Any] = {
        "integers": turn,
        "negative": turn - 5,
        "words": words,
        "objects": words.astype(object),
        "list": turn.tolist(),
        "floats": turn.astype(float),
        "booleans": turn == 0,
        "series": pd.Series(words, index=np.arange(N)[::-1]),
        "categories": pd.Series(words, dtype="category"),
        "bytes": words.astype("S3"),
        "column": turn[:, None],
        "pairs": np.arange(N) // 2,
        "one": np.zeros(N, int),
        "each": np.arange(N),
        "continuous": np.linspace(0, 1, N),
        "missing": np.where(turn == 0, np.nan, 1.0),
        "none": None,
        "short": turn[:-1],
        "long": np.append(turn, 0),
        "mixed": np.array(["a", 1, None] * N, dtype=object)[:N],
        "unhashable": [[1], [2, 3]] * N,
        "sets": [{1}] * N,
        "number": 3,
        "huge": turn.astype(np.int64) * 2**61,
        "dates": np.datetime64("2020-01-01") + turn,
        "table": np.ones((N, 2)),
    }
    return made[kind]


GOOD_LABELS = ("integers", "negative", "words", "objects", "list", "floats", "booleans", "series", "categories")
ODD_LABELS = (
    "bytes",
    "column",
    "pairs",
    "one",
    "each",
    "continuous",
    "missing",
    "none",
    "short",
    "long",
    "mixed",
    "unhashable",
    "sets",
    "number",
    "huge",
    "dates",
    "table",
)


@st.composite
def labels(draw: Any, N: int) -> Any:
    """Labels for N matrices, three in four of them good."""
    kinds = GOOD_LABELS if draw(st.integers(0, 3)) else ODD_LABELS
    return classes_of(N, draw(st.sampled_from(kinds)))


def parameters(good: dict[str, tuple[Any, ...]], bad: dict[str, tuple[Any, ...]]) -> st.SearchStrategy[dict[str, Any]]:
    """A few parameters with allowed values, now and then one at or past its limits."""
    allowed = st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in good.items()})
    if not bad:
        return allowed
    wrong = st.sampled_from([(name, value) for name, values in bad.items() for value in values])
    return st.builds(
        lambda some, odd, spoiled: some | dict([odd]) if spoiled == 0 else some, allowed, wrong, st.integers(0, 3)
    )
