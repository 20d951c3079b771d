"""The application with all commands."""

from __future__ import annotations

from typing import Annotated

import typer

from spdsl import __version__
from spdsl.cli import features
from spdsl.cli.applying import predict, transform
from spdsl.cli.comparing import compare
from spdsl.cli.describing import info
from spdsl.cli.evaluating import evaluate
from spdsl.cli.learning import fit
from spdsl.cli.listing import methods, metrics
from spdsl.cli.report import report
from spdsl.cli.reproduce import reproduce

PANELS = {
    "Your own data": (fit, predict, evaluate, info, transform, compare),
    "The paper": (reproduce, report),
    "Reference": (methods, metrics),
}

app = typer.Typer(no_args_is_help=True, add_completion=False)
for _panel, _commands in PANELS.items():
    for _command in _commands:
        app.command(rich_help_panel=_panel)(_command)
app.add_typer(
    features.app,
    name="features",
    help="Compute SPD matrices from a folder of media files.",
    rich_help_panel="From media",
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
