"""What a case may end in: a finite, valid result, or a clear error of ours. Anything else fails the test."""

from __future__ import annotations

import copy
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import spdsl

OURS = str(Path(spdsl.__file__).parent)
# scikit-learn's own checks of labels and of fitted models speak for us: its users know these messages
SHARED = ("sklearn/utils/validation.py", "sklearn/utils/multiclass.py")
ERRORS = (ValueError, TypeError, OSError, ImportError, MemoryError)
NOISE = (RuntimeWarning, DeprecationWarning, FutureWarning, PendingDeprecationWarning, SyntaxWarning, ResourceWarning)
SECONDS = 60  # a case that takes longer counts as a hang


class Hang(BaseException):
    """The case did not end."""


@contextmanager
def time_limit() -> Iterator[None]:
    """Raise Hang in the main thread when a case takes too long."""

    def stop(*_: Any) -> None:
        raise Hang(f"no end after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def judge(call: Callable[..., Any], *inputs: Any) -> Any:
    """`call(*inputs)`, or None where it ended in a clear error; an AssertionError where it ended in anything else."""
    kept = [copy.deepcopy(value) for value in inputs]
    with warnings.catch_warnings(record=True) as caught, time_limit():
        warnings.simplefilter("always")
        try:
            result = call(*inputs)
        except Exception as error:
            check_error(error)
            result = None
    for warning in caught:
        assert not issubclass(warning.category, NOISE), f"{warning.category.__name__} leaks: {warning.message}"
    for before, after in zip(kept, inputs, strict=True):
        assert same(before, after), "an input was changed"
    if result is not None:
        check_finite(result)
    return result


def check_error(error: Exception) -> None:
    """The error is of a plain kind, raised by us, and says something."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    ours = where.filename.startswith(OURS) or where.filename.replace("\\", "/").endswith(SHARED)
    text = "".join(traceback.format_exception(error)[-8:])
    assert ours, f"foreign {type(error).__name__} from {where.filename}:{where.lineno}\n{text}"
    assert isinstance(error, ERRORS), f"{type(error).__name__} is none of ours\n{text}"
    assert len(str(error)) >= 15, f"an error that says nothing: {error!r}\n{text}"


def check_finite(value: Any) -> None:
    """No NaN and no infinity in any array of a result."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            check_finite(part)
    elif isinstance(value, np.ndarray) and value.dtype.kind in "fc":
        assert np.all(np.isfinite(value)), "a result is not finite"
    elif isinstance(value, float):
        assert np.isfinite(value), "a result is not finite"


def same(a: Any, b: Any) -> bool:
    """Whether an input is what it was."""
    if isinstance(a, np.ndarray):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if hasattr(a, "equals"):
        return bool(a.equals(b))
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return a is b or repr(a) == repr(b)
