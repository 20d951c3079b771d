"""Arguments and options that several commands share, and their checks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from spdsl.methods import get_methods


def one_of(*names: str) -> Callable[[str | None], str | None]:
    """A check that a value is one of `names`."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in names:
            raise typer.BadParameter(f"{value!r} is none of {', '.join(names)}")
        return value

    return check


def named_methods(value: str) -> str | list[str]:
    """The word "all" or "paper", or the names between commas."""
    names = list(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    return names[0] if names in (["all"], ["paper"]) else names


def check_methods(value: str) -> str:
    """A check of a list of methods."""
    try:
        if not get_methods(named_methods(value)):
            raise ValueError("no method is named")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return value


Methods = Annotated[
    str,
    typer.Option(
        metavar="NAMES",
        callback=check_methods,
        help="'paper' (its 17), 'all', or names between commas (`spdsl methods`).",
    ),
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", metavar="N", min=1, help="Processes; as many as cores by default.")
]
Folds = Annotated[int, typer.Option(metavar="N", min=2, help="Of the cross-validation.")]
Components = Annotated[int | None, typer.Option(metavar="M", min=1, help="Size m of the reduced matrices.")]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Fixes every random choice.")]
Ridge = Annotated[
    float,
    typer.Option(
        metavar="SHARE", min=0, help="Added to the diagonals of the file's matrices, as a share of the trace."
    ),
]
Stack = Annotated[
    Path,
    typer.Argument(
        metavar="STACK", help="File of SPD matrices (N, n, n) and labels y: npz, npy, mat, h5.", show_default=False
    ),
]
StackName = Annotated[
    str | None, typer.Option("--x", metavar="NAME", help="Array of the matrices, if the file has several.")
]
LabelsName = Annotated[
    str | None, typer.Option("--y", metavar="NAME", help="Array of the labels, if its name is unusual.")
]
