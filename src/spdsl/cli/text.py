"""Messages of a command."""

from __future__ import annotations

from typing import Any

import typer

from spdsl.models.text import printable


def say(text: Any, *, err: bool = False) -> None:
    """Print a message; control characters from file names and labels are shown as escapes."""
    typer.echo(printable(text, keep="\n\t"), err=err)
