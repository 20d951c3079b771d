"""`spdsl evaluate`: how often a model is right on labeled samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from spdsl.cli.errors import Debug, plain_errors, plain_warnings
from spdsl.cli.models import ModelFile, open_model
from spdsl.cli.options import AnySamples, FolderLabels, LabelsName, MediaJobs, Plugins, StackName
from spdsl.cli.samples import check_output, read_samples
from spdsl.cli.text import say
from spdsl.evaluation.counts import Counts, count_hits
from spdsl.models.files import written_whole
from spdsl.models.text import printable

WIDEST = 20  # classes up to which the table of all confusions is printed

Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Also write everything to this JSON file.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def evaluate(
    model: ModelFile,
    source: AnySamples,
    labels: FolderLabels = "folder",
    output: Output = None,
    as_json: Json = False,
    jobs: MediaJobs = 1,
    x: StackName = None,
    y: LabelsName = None,
    plugin: Plugins = None,
    debug: Debug = False,
) -> None:
    """Compare the predictions of a model with the labels of samples.

    Prints the accuracy, a line per class, and the confusions. Samples without a label are counted apart, not as errors;
    labels that the model does not know are errors.
    """
    with plain_errors(debug), plain_warnings():
        check_output(output, source, None, model)
        opened = open_model(model, "predict")
        check_output(output, source, opened.recipe)
        samples = opened.check_samples(
            read_samples(source, opened.recipe, labels=labels, strict=False, jobs=jobs, x=x, y=y)
        )
        if samples.labels is None or samples.unlabeled.all():
            raise ValueError(f"{source}: no labels found; label the samples, or use `spdsl predict`")
        classes = opened.rest.classes_
        counts = count_hits(samples.labels, opened.apply("predict", samples), classes)
        if not counts.known:
            ours, theirs = _few(counts.names[: len(classes)]), _few(counts.names[len(classes) :])
            raise ValueError(f"{source}: none of its labels ({theirs}) is a class of the model ({ours})")
        text = json.dumps(counts.to_dict())
        if output is not None:
            with written_whole(output) as file:
                file.write(text.encode())
    if as_json:
        typer.echo(text)
        return
    _show(counts, len(classes))


def _show(counts: Counts, n_classes: int) -> None:
    """Print the results as tables."""
    say(f"{counts.words()}, balanced accuracy {100 * counts.balanced_accuracy:.1f} %")
    odd = counts.total - counts.known
    if odd:
        say(
            f"warning: {odd} samples have labels that the model does not know ({_few(counts.names[n_classes:])}), counted as "
            f"wrong",
            err=True,
        )
    table = _table("class", "samples", "recall %", "precision %", "most mistaken for")
    for row in counts.classes:
        recall, precision = (_percent(row[key]) for key in ("recall", "precision"))
        mistake = "" if row["mistaken_for"] is None else f"{printable(row['mistaken_for'])} ({row['times']})"
        table.add_row(*map(_cell, (row["class"], row["samples"], recall, precision, mistake)))
    _print(table)
    shown = [k for k, name in enumerate(counts.names) if counts.confusion[k].any() or counts.confusion[:, k].any()]
    if len(shown) <= WIDEST:
        say("\nconfusions: a row per label, a column per prediction")
        square = _table("", *(str(k + 1) for k in range(len(shown))))
        for row_number, k in enumerate(shown):
            cells = (str(count) if count else "." for count in counts.confusion[k, shown])
            square.add_row(*map(_cell, (f"{row_number + 1} {counts.names[k]}", *cells)))
        _print(square)


def _table(*columns: str) -> Table:
    """An empty table; all columns but the first hold numbers."""
    table = Table(box=None, pad_edge=False, header_style="")
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k == 0 or column.startswith("most") else "right", no_wrap=True)
    return table


def _print(table: Table) -> None:
    console = Console()
    wide = console.measure(table).maximum
    Console(width=max(wide, 20)).print(table)  # a narrow terminal breaks lines rather than cutting cells


def _cell(value: Any) -> Text:
    return Text(printable(value))


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"


def _few(names: list[Any]) -> str:
    """Some names for a message."""
    return ", ".join(map(str, names[:5])) + (", ..." if len(names) > 5 else "")
