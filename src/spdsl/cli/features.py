"""`spdsl features`: SPD matrices from a folder of media files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from spdsl.cli.progress import shown
from spdsl.cli.text import say
from spdsl.datasets.exporting import LABELS, export_stack
from spdsl.features.covariance import EMBEDDINGS, RIDGE
from spdsl.features.errors import FeatureError
from spdsl.features.recipes import Recipe

app = typer.Typer(no_args_is_help=True)


def _choice(names: Iterable[str], text: str) -> Any:
    """An option with a value from `names`."""
    names = tuple(names)

    def check(value: str) -> str:
        if value not in names:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(names)}")
        return value

    return typer.Option(callback=check, help=text, metavar="|".join(names))


Folder = Annotated[Path, typer.Argument(help="Folder with the files.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="The .npz file to write.")]
Labels = Annotated[
    str, _choice(LABELS, "Take the class from the top folder, the parent folder, or the file name of a dataset.")
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, help="Number of files processed in parallel.")]
Strict = Annotated[bool, typer.Option(help="Write nothing if any file fails.")]
Ridge = Annotated[float, typer.Option(min=0, help="Added to the diagonal, as a fraction of the trace.")]
Step = Annotated[int, typer.Option(min=1, help="Keep every step-th frame.")]
Embedding = Annotated[str, _choice(EMBEDDINGS, "Covariance only, with the mean, or as a Gaussian.")]
Descriptor = Annotated[str, _choice(("sift", "region"), "Dense SIFT, or classical region covariance features.")]
Gaps = Annotated[str, _choice(("error", "interpolate", "drop"), "What to do if a marker is missing.")]
Estimator = Annotated[str, _choice(("scm", "cov", "lwf", "oas"), "Covariance estimator, as named in pyRiemann.")]


@app.command()
def faces(
    folder: Folder,
    output: Output = Path("stack.npz"),
    labels: Labels = "folder",
    size: Annotated[int, typer.Option(min=2, help="Side of the crops in pixels.")] = 20,
    embedding: Embedding = "augmented",
    ridge: Ridge = RIDGE,
    min_faces: Annotated[int, typer.Option(min=2, help="Minimum number of frames with a face.")] = 10,
    max_gap: Annotated[int, typer.Option(min=0, help="Longest gap, in frames, to fill.")] = 10,
    keep_truncated: Annotated[bool, typer.Option(help="Use the readable part of a truncated video.")] = False,
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
    size: Annotated[int, typer.Option(min=16, help="Side in pixels to which images are resized (sift).")] = 400,
    step: Annotated[int, typer.Option(min=1, help="Pixels between descriptors (sift).")] = 4,
    patch: Annotated[int, typer.Option(min=4, help="Side of a descriptor's window (sift).")] = 16,
    quarters: Annotated[bool, typer.Option(help="A matrix of the image and of each of its quarters (sift).")] = False,
    ridge: Ridge = RIDGE,
    jobs: Jobs = 1,
    strict: Strict = False,
) -> None:
    """Materials and textures in images."""
    sift = descriptor == "sift"
    options: dict[str, Any] = {"ridge": ridge}
    if sift:
        options |= {"size": size, "step": step, "patch": patch, "quarters": quarters}
    elif quarters:
        raise typer.BadParameter("--quarters needs --descriptor sift")
    _export("materials" if sift else "regions", folder, output, options, labels, jobs, strict)


@app.command()
def sets(
    folder: Folder,
    output: Output = Path("stack.npz"),
    labels: Labels = "folder",
    size: Annotated[int, typer.Option(min=2, help="Images are resized to this side.")] = 20,
    equalize: Annotated[bool, typer.Option(help="Equalize the histogram of each image.")] = True,
    embedding: Embedding = "augmented",
    ridge: Ridge = RIDGE,
    jobs: Jobs = 1,
    strict: Strict = False,
) -> None:
    """Image sets, one folder of images each: <class>/<set>/*.png. No face is looked for."""
    options = {"size": size, "equalize": equalize, "embedding": embedding, "ridge": ridge}
    _export("sets", folder, output, options, labels, jobs, strict)


@app.command()
def motion(
    folder: Folder,
    output: Output = Path("stack.npz"),
    labels: Labels = "folder",
    skeleton: Annotated[
        Path | None, typer.Option(help="ASF file for all AMC clips. By default it is found by name.")
    ] = None,
    gaps: Gaps = "error",
    step: Step = 1,
    root_relative: Annotated[bool, typer.Option(help="Use positions relative to the first joint.")] = False,
    levels: Annotated[
        int, typer.Option(min=1, help="2: a matrix of the clip and of its three overlapping halves.")
    ] = 1,
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
        "levels": levels,
        "embedding": embedding,
        "ridge": ridge,
    }
    _export("motion", folder, output, options, labels, jobs, strict)


@app.command()
def signals(
    folder: Folder,
    output: Output = Path("stack.npz"),
    labels: Labels = "folder",
    window: Annotated[int | None, typer.Option(min=2, help="Cut signals into windows of this many samples.")] = None,
    step: Annotated[int | None, typer.Option(min=1, help="Number of samples between windows.")] = None,
    estimator: Estimator = "scm",
    lags: Annotated[int, typer.Option(min=0, help="Copies of the channels, 1 to so many samples earlier.")] = 0,
    embedding: Embedding = "covariance",
    band: Annotated[list[str] | None, typer.Option(help="A frequency band such as 8-12; repeat for several.")] = None,
    rate: Annotated[float | None, typer.Option(help="Samples per second, for --band.")] = None,
    ridge: Ridge = 0.0,
    jobs: Jobs = 1,
    strict: Strict = False,
) -> None:
    """Multichannel signals: NPY or CSV, one row per channel."""
    options = {
        "window": window,
        "step": step,
        "estimator": estimator,
        "ridge": ridge,
        "lags": lags,
        "embedding": embedding,
        "bands": [_read_band(text) for text in band] if band else None,
        "rate": rate,
    }
    if band and rate is None:
        raise typer.BadParameter("--band needs --rate, the samples per second")
    _export("signals", folder, output, options, labels, jobs, strict)


def _read_band(text: str) -> tuple[float, float]:
    """8-12 as (8.0, 12.0)."""
    try:
        low, high = (float(edge) for edge in text.split("-"))
    except ValueError:
        raise typer.BadParameter(f"--band {text!r} is not of the form LOW-HIGH, e.g. 8-12") from None
    return low, high


def _export(
    kind: str, folder: Path, output: Path, options: dict[str, Any], labels: str, jobs: int, strict: bool
) -> None:
    """Run the export and print the result."""
    try:
        with shown(kind) as progress:
            done = export_stack(
                folder, output, Recipe(kind, options), labels=labels, jobs=jobs, strict=strict, progress=progress
            )
    except (FeatureError, ImportError, OSError, ValueError) as error:
        say(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    say(f"{output}: {done.matrices} matrices from {done.files} files, {len(done.skipped)} files skipped")
    if done.skipped:
        say(f"see {done.report} for the reasons")
