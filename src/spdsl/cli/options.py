"""Arguments and options shared by several commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from spdsl.backend import check_device
from spdsl.backend.extras import PLUGINS, load_plugins, named_plugins
from spdsl.datasets.exporting import LABELS
from spdsl.evaluation.fitting import check_scoring
from spdsl.evaluation.methods import get_methods
from spdsl.evaluation.splits import LEAVE_ONE_GROUP_OUT


def one_of(names: Iterable[str]) -> Callable[[str | None], str | None]:
    """A callback that checks that a value is one of `names`."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in names:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(names)}")
        return value

    return check


def import_plugins(context: typer.Context, names: list[str] | None) -> list[str] | None:
    """Import modules of the user, from the current folder too, before other options are checked.

    Those named in the environment come first.
    """
    wanted = [*named_plugins(), *(names or [])]
    if wanted:
        folder, before = os.getcwd(), os.environ.get(PLUGINS)
        sys.path.append(folder)
        try:
            load_plugins(wanted)
        except ImportError as error:
            _restore(folder, before)
            raise typer.BadParameter(" ".join(str(error).split())) from error
        context.call_on_close(lambda: _restore(folder, before))
    return names


def _restore(folder: str, before: str | None) -> None:
    sys.path.remove(folder)
    os.environ.pop(PLUGINS, None)
    if before is not None:
        os.environ[PLUGINS] = before


def named_methods(value: str) -> str | list[str]:
    """ "all", "paper", or a list of comma-separated names."""
    names = list(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    return names[0] if names in (["all"], ["paper"]) else names


def check_methods(value: str) -> str:
    """A callback that checks a list of methods."""
    try:
        if not get_methods(named_methods(value)):
            raise ValueError("no method is given")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return value


def number_or_groups(value: str | None) -> str | None:
    """A check of a number of draws, or of the word for one draw a group."""
    if value is None or value == LEAVE_ONE_GROUP_OUT or (value.isascii() and value.isdigit() and int(value) > 0):
        return value
    raise typer.BadParameter(f"{value!r} is neither a number of draws from 1 nor {LEAVE_ONE_GROUP_OUT}")


def as_draws(value: str | None) -> int | str | None:
    """The number, or the word."""
    return int(value) if value is not None and value.isdigit() else value


def check_scores(value: str) -> str:
    """A check of a list of scores."""
    try:
        check_scoring(named_scores(value))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return value


def named_scores(value: str) -> list[str]:
    """The names between commas."""
    return [name.strip() for name in value.split(",") if name.strip()]


def check_named_device(value: str | None) -> str | None:
    """A callback that checks that there is such a device."""
    try:
        if value is not None:
            check_device(value)
    except (ImportError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None
    return value


def on_device(model: Any, device: str | None) -> Any:
    """The model, or the steps of a pipeline, with this device where they have such a parameter."""
    if device is not None:
        names = [name for name in model.get_params() if name == "device" or name.endswith("__device")]
        if not names:
            raise typer.BadParameter(f"{type(model).__name__} computes on the host alone", param_hint="--device")
        model.set_params(**dict.fromkeys(names, device))
    return model


Methods = Annotated[
    str,
    typer.Option(
        metavar="NAMES",
        callback=check_methods,
        help="'paper' (its 17 methods), 'all', or comma-separated names from `spdsl methods`.",
    ),
]
Scoring = Annotated[
    str,
    typer.Option(
        metavar="NAMES",
        callback=check_scores,
        help="scikit-learn's names between commas, e.g. balanced_accuracy,f1_macro; the first one tunes.",
    ),
]
Groups = Annotated[
    str | None,
    typer.Option(
        "--groups",
        metavar="NAME",
        help="Array of the groups in the file; by default the one called groups, if there is one. Groups stay together.",
    ),
]
Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="MODULE",
        callback=import_plugins,
        is_eager=True,
        help="Import a module that registers metrics, objectives or methods.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", metavar="N", min=1, help="Number of processes. By default the number of cores."),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME",
        callback=check_named_device,
        help="Compute on this PyTorch device, e.g. cuda: in one process, by the methods that can.",
    ),
]
Folds = Annotated[int, typer.Option(metavar="N", min=2, help="Number of cross-validation folds.")]
Components = Annotated[int | None, typer.Option(metavar="M", min=1, help="Size m of the reduced matrices.")]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Seed of all random choices.")]
Ridge = Annotated[
    float,
    typer.Option(metavar="FRACTION", min=0, help="Added to the diagonals of the matrices, as a fraction of the trace."),
]
Stack = Annotated[
    Path,
    typer.Argument(
        metavar="STACK", help="File with SPD matrices X (N, n, n) and labels y: npz, npy, mat, h5.", show_default=False
    ),
]
MediaJobs = Annotated[
    int, typer.Option("--jobs", "-j", metavar="N", min=1, help="Number of files processed in parallel.")
]
FolderLabels = Annotated[
    str,
    typer.Option(
        metavar="|".join(LABELS),
        callback=one_of(LABELS),
        help="In a folder, take the class from the top folder, the parent folder, or the file name of a dataset.",
    ),
]
SameRidge = Annotated[
    float | None,
    typer.Option(metavar="FRACTION", min=0, help="Must be that of the fit, which is always used."),
]
AnySamples = Annotated[
    Path,
    typer.Argument(
        metavar="FILE|FOLDER",
        help="File with SPD matrices X (N, n, n): npz, npy, mat, h5. For a model with a recipe also a media file, such as "
        "photo.png, or a folder of them.",
        show_default=False,
    ),
]
StackName = Annotated[
    str | None, typer.Option("--x", metavar="NAME", help="Name of the array of matrices, if the file has several.")
]
LabelsName = Annotated[
    str | None, typer.Option("--y", metavar="NAME", help="Name of the array of labels, if it is not found.")
]
