"""Checks of parameters: the value, or an error that names the parameter and what it may be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

LARGEST = 1e300  # of a parameter: products with it stay finite, and those with its inverse stay above zero


def check_count(name: str, value: Any, *, low: int, high: int | None = None, remedy: str = "") -> int:
    """Return an integer parameter, or raise if it is not an integer or out of range."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{name} must be an integer, got {value!r}")
    if value < low or (high is not None and value > high):
        span = f"at least {low}" if high is None else f"between {low} and {high}"
        raise ValueError(f"{name}={value} is out of range: it must be {span}{remedy}")
    return int(value)


def check_number(name: str, value: Any, *, low: float, above: bool = False, high: float = LARGEST) -> float:
    """Return a real parameter, or raise if it is not a number, below `low` (or not clearly above it), or above `high`."""
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    try:
        number = float(value) if real else np.nan
    except OverflowError:  # an integer of more than 308 digits
        number = np.inf
    if not low <= number <= high or (above and number < low + 1 / LARGEST):
        span = f"<= {high:g}" if high < number < np.inf else f"{'>' if above else '>='} {low:g}"
        raise ValueError(f"{name} must be a finite number {span}, got {value!r}")
    return number


def check_choice(name: str, value: Any, choices: Iterable[str], also: str = "") -> str:
    """Return one of several strings, or raise; `also` names other values in the message."""
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        names = [*map(repr, choices), *([also] if also else [])]
        raise ValueError(f"{name} must be {', '.join(names[:-1])} or {names[-1]}, got {value!r}")
    return value


def check_flag(name: str, value: Any) -> bool:
    """Return a boolean parameter, or raise."""
    if not isinstance(value, int | np.integer | np.bool_) or value not in (0, 1):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def check_seed(random_state: Any) -> np.random.RandomState:
    """The generator for a `random_state`, or raise."""
    try:
        return check_random_state(random_state)
    except ValueError as error:
        raise ValueError(
            f"random_state must be an integer from 0 to 2**32 - 1, a RandomState or None, got {random_state!r}"
        ) from error
