from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data() -> Path:
    """Folder of the real data."""
    folder = os.environ.get("SPDSL_DATA")
    if not folder:
        pytest.skip("SPDSL_DATA is not set: it names the folder with the real data")
    return Path(folder)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test writes into the user's cache."""
    monkeypatch.setenv("SPDSL_CACHE", str(tmp_path / "default-cache"))
