"""`spdsl features`: a folder of media to an SPD stack."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from spdsl.commands.progress import shown
from spdsl.datasets.exporting import LABELS, export_stack
from spdsl.features.covariance import EMBEDDINGS, RIDGE
from spdsl.features.errors import FeatureError
from spdsl.features.recipes import Recipe

app = typer.Typer(no_args_is_help=True)


def _choice(names: Iterable[str], text: str) -> Any:
    """An option that takes one of `names`."""
    names = tuple(names)

    def check(value: str) -> str:
        if value not in names:
            raise typer.BadParameter(f"{value!r} is none of {', '.join(names)}")
        return value

    return typer.Option(callback=check, help=text, metavar="|".join(names))


Folder = Annotated[Path, typer.Argument(help="Folder with the files.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="The .npz file to write.")]
Labels = Annotated[str, _choice(LABELS, "Classes from the first folder, the parent folder, or a dataset's file names.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, help="Files worked on at a time.")]
Strict = Annotated[bool, typer.Option(help="Write no stack when any file fails.")]
Ridge = Annotated[float, typer.Option(min=0, help="Fraction of the trace added to the diagonal.")]
Step = Annotated[int, typer.Option(min=1, help="Keep every step-th frame.")]
Embedding = Annotated[str, _choice(EMBEDDINGS, "Covariance alone, with the mean, or as a Gaussian.")]
Descriptor = Annotated[str, _choice(("sift", "region"), "Dense SIFT, or the classical features.")]
Gaps = Annotated[str, _choice(("error", "interpolate", "drop"), "What to do where a marker is hidden.")]
Estimator = Annotated[str, _choice(("scm", "cov", "lwf", "oas"), "Covariance estimator, by pyRiemann's name.")]


@app.command()
def faces(
    folder: Folder,
    output: Output = Path("stack.npz"),
    labels: Labels = "folder",
    size: Annotated[int, typer.Option(min=2, help="Side of the crops in pixels.")] = 20,
    embedding: Embedding = "augmented",
    ridge: Ridge = RIDGE,
    min_faces: Annotated[int, typer.Option(min=2, help="Fewest frames with a face.")] = 10,
    max_gap: Annotated[int, typer.Option(min=0, help="Longest gap in frames that is filled.")] = 10,
    keep_truncated: Annotated[bool, typer.Option(help="Use what can be read of a video that is cut off.")] = False,
    jobs: Jobs = 1,
    strict: Strict = False,
) -> None:
    """Faces in videos, or in folders of frames."""
    options = {
        "size": size,
        "embedding": embedding,
        "ridge": ridge,
        "min_faces": min_faces,
        "max_gap": max_gap,
        "truncated": "keep" if keep_truncated else "error",
    }
    _export("faces", folder, output, options, labels, jobs, strict)


@app.command()
def materials(
    folder: Folder,
    output: Output = Path("stack.npz"),
    labels: Labels = "folder",
    descriptor: Descriptor = "sift",
    size: Annotated[int, typer.Option(min=16, help="Images are resized to this side (sift).")] = 400,
    step: Annotated[int, typer.Option(min=1, help="Pixels between descriptors (sift).")] = 4,
    patch: Annotated[int, typer.Option(min=4, help="Side of a descriptor's window (sift).")] = 16,
    ridge: Ridge = RIDGE,
    jobs: Jobs = 1,
    strict: Strict = False,
) -> None:
    """Materials and textures in images."""
    sift = descriptor == "sift"
    options: dict[str, Any] = {"ridge": ridge} | ({"size": size, "step": step, "patch": patch} if sift else {})
    _export("materials" if sift else "regions", folder, output, options, labels, jobs, strict)


@app.command()
def motion(
    folder: Folder,
    output: Output = Path("stack.npz"),
    labels: Labels = "folder",
    skeleton: Annotated[Path | None, typer.Option(help="ASF file for all AMC clips; else found by name.")] = None,
    gaps: Gaps = "error",
    step: Step = 1,
    root_relative: Annotated[bool, typer.Option(help="Positions relative to the first joint.")] = False,
    embedding: Embedding = "covariance",
    ridge: Ridge = RIDGE,
    jobs: Jobs = 1,
    strict: Strict = False,
) -> None:
    """Motion capture: AMC, C3D, CSV, NPY."""
    options = {
        "skeleton": None if skeleton is None else str(skeleton.resolve()),
        "gaps": gaps,
        "step": step,
        "root_relative": root_relative,
        "embedding": embedding,
        "ridge": ridge,
    }
    _export("motion", folder, output, options, labels, jobs, strict)


@app.command()
def signals(
    folder: Folder,
    output: Output = Path("stack.npz"),
    labels: Labels = "folder",
    window: Annotated[int | None, typer.Option(min=2, help="Cut signals into windows of so many samples.")] = None,
    step: Annotated[int | None, typer.Option(min=1, help="Samples between windows.")] = None,
    estimator: Estimator = "scm",
    ridge: Ridge = 0.0,
    jobs: Jobs = 1,
    strict: Strict = False,
) -> None:
    """Multichannel signals: NPY or CSV, a row a channel."""
    options = {"window": window, "step": step, "estimator": estimator, "ridge": ridge}
    _export("signals", folder, output, options, labels, jobs, strict)


def _export(
    kind: str, folder: Path, output: Path, options: dict[str, Any], labels: str, jobs: int, strict: bool
) -> None:
    """Run the export and say what came of it."""
    try:
        with shown(kind) as progress:
            done = export_stack(
                folder, output, Recipe(kind, options), labels=labels, jobs=jobs, strict=strict, progress=progress
            )
    except (FeatureError, ImportError, OSError, ValueError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"{output}: {done.matrices} matrices from {done.files} files, {len(done.skipped)} files skipped")
    if done.skipped:
        typer.echo(f"{done.report} says why")
