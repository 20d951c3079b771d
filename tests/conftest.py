"""Fixtures shared by all tests: the array libraries under test, SPD matrices, real data."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from samples import LIBRARIES, make_spd


def pytest_configure() -> None:
    """Hear Ctrl-C, and let child processes hear it, even where the tests run in the background of a script."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs on every array library, and what needs real data."""
    for item in items:
        names = getattr(item, "fixturenames", ())
        if "xp_name" in names:
            item.add_marker(pytest.mark.arrays)
        if "data_folder" in names:
            item.add_marker(pytest.mark.data)


@pytest.fixture(params=LIBRARIES)
def xp_name(request: pytest.FixtureRequest) -> str:
    """Name of the array library under test."""
    return request.param


@pytest.fixture
def as_array(xp_name: str) -> Callable[[Any], Any]:
    """A function from NumPy arrays to arrays of the library under test."""
    if xp_name == "numpy":
        return np.asarray
    if xp_name == "torch":
        torch = pytest.importorskip("torch")
        return lambda x: torch.as_tensor(np.array(x))
    raise ValueError(f"SPDSL_TEST_ARRAYS names {xp_name!r}; known are 'numpy' and 'torch'")


@pytest.fixture
def spd() -> Callable[..., np.ndarray]:
    """The maker `spd(rng, N, n, condition=30)` of random SPD stacks."""
    return make_spd


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed."""
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Folder of the real data sets, from the environment variable SPDSL_DATA."""
    folder = os.environ.get("SPDSL_DATA")
    if not folder:
        pytest.skip("set SPDSL_DATA to the folder of the real data sets")
    path = Path(folder)
    if not path.is_dir():
        pytest.skip(f"SPDSL_DATA={folder} is not a folder")
    return path
