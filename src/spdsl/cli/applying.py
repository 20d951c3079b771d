"""`spdsl predict`, `spdsl transform`: apply a model to matrices, a media file, or a folder of these."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from spdsl.cli.errors import Debug, plain_errors, plain_warnings
from spdsl.cli.models import ModelFile, open_model
from spdsl.cli.options import (
    AnySamples,
    Device,
    LabelsName,
    MediaJobs,
    Plugins,
    SameRidge,
    StackName,
    on_device,
    one_of,
)
from spdsl.cli.samples import Samples, check_output, read_samples
from spdsl.cli.text import say
from spdsl.evaluation.counts import count_hits
from spdsl.evaluation.text import count_matrices
from spdsl.models.files import written_whole
from spdsl.models.text import csv_cell, printable

FORMATS = ("csv", "jsonl")

Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="File to write. By default standard output."),
]
Proba = Annotated[bool, typer.Option("--proba", help="Add the probability of each class.")]
Top = Annotated[int, typer.Option(metavar="K", min=0, help="Add the K most probable classes and their probabilities.")]
Format = Annotated[
    str,
    typer.Option(
        "--format", metavar="|".join(FORMATS), callback=one_of(FORMATS), help="CSV, or one line of JSON per sample."
    ),
]
Reduced = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help=".npz file to write.")]


def predict(
    model: ModelFile,
    source: AnySamples,
    output: Output = None,
    proba: Proba = False,
    top: Top = 0,
    form: Format = "csv",
    jobs: MediaJobs = 1,
    device: Device = None,
    ridge: SameRidge = None,
    x: StackName = None,
    y: LabelsName = None,
    plugin: Plugins = None,
    debug: Debug = False,
) -> None:
    """Predict labels with a fitted model.

    Writes a line per sample: its file, or its index in a file of matrices, and its label. Prints the accuracy if a file of
    matrices has labels. In CSV, text that a spreadsheet would take for a formula starts with an apostrophe. The results of a
    folder are kept in the cache: after an interruption, the same command resumes.
    """
    with plain_errors(debug), plain_warnings():
        check_output(output, source, None, model)
        opened = open_model(model, "predict")
        check_output(output, source, opened.recipe)
        opened.check_ridge(ridge)
        on_device(opened.rest, device)
        if (proba or top) and not hasattr(opened.rest, "predict_proba"):
            raise ValueError(
                f"{model}: this {opened.what} does not provide probabilities; use SPDSL with any --classifier"
            )
        samples = opened.check_samples(read_samples(source, opened.recipe, jobs=jobs, x=x, y=y))
        found = opened.apply("predict", samples)
        shares = opened.apply("predict_proba", samples) if proba or top else None
        rows = [*_rows(samples, found, opened.rest.classes_, shares, proba, top)]
        text = "".join(json.dumps(row) + "\n" for row in rows) if form == "jsonl" else _table(rows)
        if output is not None:
            with written_whole(output) as file:
                file.write(text.encode("utf-8", "surrogateescape"))
    if output is None:
        typer.echo(text, nl=False)
    said = f"{'standard output' if output is None else output}: {len(found)} {'label' if len(found) == 1 else 'labels'}"
    say(said + _accuracy(samples, found, opened.rest.classes_), err=output is None)


def transform(
    model: ModelFile,
    source: AnySamples,
    output: Reduced = Path("reduced.npz"),
    jobs: MediaJobs = 1,
    ridge: SameRidge = None,
    x: StackName = None,
    y: LabelsName = None,
    plugin: Plugins = None,
    debug: Debug = False,
) -> None:
    """Reduce matrices with a fitted model.

    Writes the reduced matrices X (N, m, m), or vectors if the method computes vectors, and y and files if they are known.
    """
    if output.suffix != ".npz":
        raise typer.BadParameter(f"{output} does not end in .npz", param_hint="--output")
    with plain_errors(debug), plain_warnings():
        check_output(output, source, None, model)
        opened = open_model(model, "transform")
        check_output(output, source, opened.recipe)
        opened.check_ridge(ridge)
        samples = opened.check_samples(read_samples(source, opened.recipe, jobs=jobs, x=x, y=y))
        reduced = opened.apply("transform", samples)
        name = "X" if reduced.ndim >= 3 else "vectors"
        arrays: dict[str, Any] = {name: reduced}
        for key, value in (("y", samples.labels), ("files", samples.files)):
            if value is not None and not (key == "y" and samples.unlabeled.all()):
                arrays[key] = value.astype(str) if value.dtype == object else value
        with written_whole(output) as file:
            np.savez(file, **arrays)
    what = f"{len(samples)} vectors of length {reduced.shape[1]}" if reduced.ndim == 2 else count_matrices(reduced)
    say(f"{output}: {what}, as {name}")


def _rows(
    samples: Samples, found: np.ndarray, classes: np.ndarray, shares: np.ndarray | None, proba: bool, top: int
) -> list[dict[str, Any]]:
    """What to write of each sample."""
    names = [_plain(label) for label in classes.tolist()]
    rows = []
    for k, (place, label) in enumerate(zip(_places(samples), found.tolist(), strict=True)):
        row: dict[str, Any] = {**place, "label": _plain(label)}
        if shares is not None:
            if top:
                best = np.argsort(-shares[k], kind="stable")[:top].tolist()
                row["top"] = [[names[c], float(shares[k, c])] for c in best]
            if proba:
                row["probabilities"] = [[name, float(p)] for name, p in zip(names, shares[k], strict=True)]
        rows.append(row)
    return rows


def _places(samples: Samples) -> list[dict[str, Any]]:
    """Where each sample comes from: its file, and which of the matrices of that file it is; or its index."""
    if samples.files is None:
        return [{"index": k} for k in range(len(samples))]
    files = [str(file) for file in samples.files]
    if len(set(files)) == len(files):
        return [{"file": file} for file in files]
    seen: dict[str, int] = {}
    places = []
    for file in files:
        places.append({"file": file, "part": seen.get(file, 0)})
        seen[file] = seen.get(file, 0) + 1
    return places


def _plain(label: Any) -> Any:
    """A label as JSON has it."""
    return label if isinstance(label, str | int | float | bool) else str(label)


def _table(rows: list[dict[str, Any]]) -> str:
    """CSV with a header."""
    rows = [_flat(row) for row in rows]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([csv_cell(name) for name in rows[0]])
    writer.writerows([csv_cell(value) for value in row.values()] for row in rows)
    return text.getvalue()


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """A row whose lists of classes are columns of their own."""
    flat = {name: value for name, value in row.items() if name not in ("top", "probabilities")}
    for rank, (name, p) in enumerate(row.get("top", []), 1):
        flat |= {f"top {rank}": name, f"p {rank}": p}
    return flat | {f"p({name})": p for name, p in row.get("probabilities", [])}


def _accuracy(samples: Samples, found: np.ndarray, classes: np.ndarray) -> str:
    """The accuracy in words, where there are labels."""
    if samples.labels is None or samples.unlabeled.all():
        return ""
    counts = count_hits(samples.labels, found, classes)
    if not counts.known:
        say(f"warning: none of the labels in {printable(samples.path)} is a class of the model", err=True)
    elif counts.known < counts.total:
        odd = counts.total - counts.known
        say(f"warning: {odd} samples have labels that the model does not know, counted as wrong", err=True)
    return f", {counts.words()}"
