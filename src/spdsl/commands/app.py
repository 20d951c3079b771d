"""All commands under one roof."""

from __future__ import annotations

from typing import Annotated

import typer

from spdsl import __version__
from spdsl.commands import features
from spdsl.commands.comparing import compare
from spdsl.commands.learning import fit, predict, transform
from spdsl.commands.listing import methods, metrics
from spdsl.commands.report import report
from spdsl.commands.reproduce import reproduce

PANELS = {
    "Your own matrices": (fit, predict, transform, compare),
    "The paper": (reproduce, report),
    "What there is": (methods, metrics),
}

app = typer.Typer(no_args_is_help=True, add_completion=False)
for _panel, _commands in PANELS.items():
    for _command in _commands:
        app.command(rich_help_panel=_panel)(_command)
app.add_typer(
    features.app, name="features", help="Turn a folder of media into an SPD stack.", rich_help_panel="From media"
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"spdsl {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Supervised learning on SPD matrices."""
