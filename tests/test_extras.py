"""Hints on what to install are commands that work from a clone and from an index."""

from importlib import metadata
from pathlib import Path

import pytest

import spdsl
from spdsl.backend.extras import install_hint

REQUIRES = [
    "numpy>=2.0",
    "safetensors>=0.4 ; extra == 'models'",
    'opencv-python-headless<5,>=4.9; extra == "features"',
    "spdsl[models,report] ; extra == 'cli'",
    "typer>=0.15 ; extra == 'cli'",
    "jinja2>=3.1 ; extra == 'report'",
    "typer>=0.15 ; extra == 'client'",
]


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("models", "pip install 'safetensors>=0.4'"),
        ("features", "pip install 'opencv-python-headless<5,>=4.9'"),
        ("cli", "pip install 'safetensors>=0.4' 'jinja2>=3.1' 'typer>=0.15'"),
        ("unheard-of", "pip install 'unheard-of'"),
    ],
)
def test_a_hint_names_the_requirements_themselves(extra, command, monkeypatch):
    monkeypatch.setattr(metadata, "requires", lambda name: REQUIRES)
    assert install_hint(extra) == command


def test_without_an_installation_the_hint_names_the_extra(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    assert install_hint("models") == "pip install 'spdsl[models]'"


@pytest.mark.parametrize("extra", ["torch", "cuda13", "pyriemann", "models", "features", "cli", "ann"])
def test_every_extra_that_is_hinted_at_exists(extra):
    assert "spdsl" not in install_hint(extra)


def test_no_message_asks_an_index_for_spdsl():
    """Who cloned the project may find nothing of that name there."""
    for path in Path(spdsl.__file__).parent.rglob("*.py"):
        assert "pip install 'spdsl[" not in path.read_text(), path
