"""Print a Markdown table of every bad input and what a user sees; docs/bad-input.md holds the output.

python benchmarks/bad_input_table.py > docs/bad-input.md
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from spdsl import SPDML, SPDSL, SPDNearestNeighbor, check_spd, pairwise_sqdist, regularize

INTRODUCTION = """\
# Bad input

What happens to input that is not as it should be. Nothing is repaired silently: input is handled as it stands, or an
error names the sample, what is wrong with it and what to do. The same checks guard `fit`, `predict`, `transform`,
`sqdist`, `similarity`, `cost`, `pairwise_sqdist` and `check_spd`; an argument called `A` or `B` is called so in the
message.

This page is the output of `python benchmarks/bad_input_table.py`.
"""

N_MATRICES, SIZE = 12, 4
X = np.stack([np.diag(1.0 + (np.arange(SIZE) * (k + 1)) % 5) + np.cos(k) / 4 for k in range(N_MATRICES)])
Y = np.arange(N_MATRICES) % 3
# what is put in is diagonal, so that the numbers in the messages are exact on every machine
INDEFINITE, SINGULAR = np.diag([3.0, 2.0, 1.0, -0.5]), np.diag([3.0, 2.0, 1.0, 0.0])
LOPSIDED = np.diag([3.0, 2.0, 1.0, 5.0]) + np.eye(SIZE, k=1) / 4


def changed(index: Any, value: Any, dtype: Any = float) -> np.ndarray:
    """The common stack with `value` written at `index`."""
    stack = X.astype(dtype)
    stack[index] = value
    return stack


def fit(stack: Any = X, labels: Any = Y, **parameters: Any) -> Any:
    return SPDSL(**{"n_components": 2, "max_iter": 1000, **parameters}).fit(stack, labels)


def nearest(labels: Any = Y, **parameters: Any) -> Any:
    return SPDNearestNeighbor(**parameters).fit(X, labels)


def matrices() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Matrices that are none, or not positive definite."""
    yield "a NaN entry", lambda: fit(changed((3, 0, 1), np.nan))
    yield "an infinite entry", lambda: fit(changed((3, 0, 1), np.inf))
    yield "not symmetric", lambda: fit(changed(3, LOPSIDED))
    yield "negative eigenvalue", lambda: fit(changed(3, INDEFINITE))
    yield "singular", lambda: fit(changed(3, SINGULAR))
    yield "all-zero matrix", lambda: fit(changed(3, 0.0))
    yield "bad matrix at `predict`", lambda: fit().predict(changed(3, INDEFINITE))
    yield "bad matrix in `pairwise_sqdist(A, B)`", lambda: pairwise_sqdist(X, changed(3, INDEFINITE))
    yield "bad matrix in `check_spd`", lambda: check_spd(changed(3, np.nan))
    yield "NaN in `regularize`", lambda: regularize(changed(3, np.nan))
    yield "negative ridge", lambda: regularize(X, -1.0)


def shapes() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Stacks of the wrong shape or size."""
    yield "one matrix instead of a stack", lambda: fit(X[0])
    yield "flattened matrices", lambda: fit(X.reshape(N_MATRICES, -1))
    yield "a stack taken for one sample", lambda: fit(X[None])
    yield "five axes", lambda: fit(X[None, None])
    yield "not square", lambda: fit(X[:, :3, :])
    yield "no matrices", lambda: fit(X[:0], Y[:0])
    yield "1 x 1 matrices", lambda: fit(X[:, :1, :1])
    yield "other size at `predict`", lambda: fit().predict(X[:, :3, :3])
    yield "other size at `transform`", lambda: fit().transform(X[:, :3, :3])
    yield "other size in `SPDNearestNeighbor.predict`", lambda: nearest().predict(X[:, :3, :3])
    yield "two sizes in `pairwise_sqdist(A, B)`", lambda: pairwise_sqdist(X, X[:, :3, :3])
    yield "`predict` before `fit`", lambda: SPDSL().predict(X)


def containers() -> Iterator[tuple[str, Callable[[], Any]]]:
    """What X comes as."""
    masked = np.ma.masked_array(X, mask=np.zeros(X.shape, bool))
    masked[3, 0, 1] = np.ma.masked
    ragged = [*X[:3], X[3, :3, :3]]
    yield "integers", lambda: fit(np.round(9 * X).astype(int))
    yield "float32", lambda: fit(X.astype(np.float32))
    yield "Fortran order", lambda: fit(np.asfortranarray(X))
    yield "read-only", lambda: fit(np.frombuffer(X.tobytes()).reshape(X.shape))
    yield "nested lists", lambda: fit(X.tolist(), Y.tolist())
    yield "complex", lambda: fit(X.astype(complex))
    yield "strings", lambda: fit(X.astype(str))
    yield "objects", lambda: fit(X.astype(object))
    yield "ragged list", lambda: fit(ragged, Y[:4])
    yield "data frame", lambda: fit(pd.DataFrame(X[0]))
    yield "sparse matrix", lambda: fit(scipy.sparse.csr_array(X[0]))
    yield "masked entries", lambda: fit(masked)
    yield "a string", lambda: fit("matrices")
    yield "a path without a file", lambda: fit("matrices.npy")
    yield "None", lambda: fit(None)


def labels() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Labels, and how they are spread over the samples."""
    with_nan, with_none = Y.astype(float), Y.astype(object)
    with_nan[5], with_none[5] = np.nan, None
    mixed = Y.astype(object)
    mixed[5] = "five"
    yield "y shorter than X", lambda: fit(X, Y[:-1])
    yield "y missing", lambda: fit(X, None)
    yield "y with NaN", lambda: fit(X, with_nan)
    yield "y with None", lambda: fit(X, with_none)
    yield "y with two axes", lambda: fit(X, np.stack([Y, Y], axis=1))
    yield "y of numbers and strings", lambda: fit(X, mixed)
    yield "y continuous", lambda: fit(X, Y + 0.5)
    yield "one class", lambda: fit(X, np.zeros(N_MATRICES))
    yield "one class, `SPDNearestNeighbor`", lambda: nearest(np.zeros(N_MATRICES))
    yield "every class has one sample", lambda: fit(X, np.arange(N_MATRICES))
    yield "one class has one sample", lambda: fit(X, np.where(np.arange(N_MATRICES) == 0, 9, Y))
    yield "all matrices equal", lambda: fit(np.repeat(X[:1], N_MATRICES, axis=0))
    yield "copies under different labels", lambda: fit(np.concatenate([X, X]), np.concatenate([Y, (Y + 1) % 3]))


def parameters() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Parameters out of range."""
    for name, value in [
        ("n_components", 0),
        ("n_components", SIZE),
        ("n_components", 2.5),
        ("n_components", "3"),
        ("metric", "mahalanobis"),
        ("n_within", 0),
        ("n_between", -1),
        ("n_between", 1.5),
        ("n_between", "most"),
        ("n_between", 1000),
        ("objective", "rows"),
        ("beta", -1.0),
        ("beta", np.nan),
        ("beta_scale", 0.0),
        ("max_iter", -1),
        ("max_iter", 2.5),
        ("tol", np.nan),
        ("tol", "small"),
        ("callback", "print"),
        ("classifier", "forest"),
        ("solver", "newton"),
        ("solver", {"steps": 3}),
        ("solver", {"rule": "newton"}),
        ("solver", {"search": "fast"}),
        ("solver", {"manifold": "sphere"}),
        ("solver", {"init": "zeros"}),
    ]:
        yield f"`{name}={value!r}`", lambda name=name, value=value: fit(**{name: value})
    yield "`solver={'init': array of ones}`", lambda: fit(solver={"init": np.ones((SIZE, 2))})
    yield "`solver={'init': array (3, 2)}`", lambda: fit(solver={"init": np.eye(3, 2)})
    for votes in (0, N_MATRICES + 1):
        yield f"`SPDNearestNeighbor(n_neighbors={votes})`", lambda votes=votes: nearest(n_neighbors=votes)
    yield (
        "`metric='cholesky', manifold='grassmann'`",
        lambda: SPDML(2, metric="cholesky", manifold="grassmann").fit(X, Y),
    )
    yield "stopped by `max_iter`", lambda: fit(max_iter=1, tol=0.0)


SECTIONS = [matrices, shapes, containers, labels, parameters]


def outcome(call: Callable[[], Any]) -> str:
    """What a user sees of the call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    seen = "; ".join(f"{warning.category.__name__}: {warning.message}" for warning in caught)
    return f"works, with {seen}" if seen else "works"


def page() -> str:
    """The whole page."""
    lines = [INTRODUCTION]
    for section in SECTIONS:
        lines += [f"## {section.__doc__}\n".replace(".\n", "\n"), "| input | outcome |", "|---|---|"]
        for title, call in section():
            text = " ".join(outcome(call).replace("|", "\\|").split())
            lines.append(f"| {title} | {text} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(), end="")
