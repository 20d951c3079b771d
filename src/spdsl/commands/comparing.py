"""`spdsl compare`: methods side by side on a stack of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spdsl.commands.errors import Debug, plain_errors, plain_warnings
from spdsl.commands.options import (
    Components,
    Folds,
    Jobs,
    LabelsName,
    Methods,
    Ridge,
    Seed,
    Stack,
    StackName,
    named_methods,
)
from spdsl.commands.stacks import read_labelled
from spdsl.experiments import Comparison
from spdsl.experiments import compare as run
from spdsl.writing import check_target, written_whole

FORMATS = {".csv": Comparison.to_csv, ".md": Comparison.to_markdown}

Splits = Annotated[int, typer.Option(metavar="N", min=1, help="Random halves: trained on one, tested on the other.")]
NoTune = Annotated[bool, typer.Option("--no-tune", help="Take every method as it comes; much faster.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Also write the table, to a .csv or .md file.")
]


def compare(
    stack: Stack,
    methods: Methods = "all",
    splits: Splits = 10,
    no_tune: NoTune = False,
    components: Components = None,
    folds: Folds = 5,
    ridge: Ridge = 0.0,
    seed: Seed = 0,
    jobs: Jobs = None,
    output: Output = None,
    x: StackName = None,
    y: LabelsName = None,
    debug: Debug = False,
) -> None:
    """Compare methods on labelled matrices.

    Prints accuracy, the parameters chosen most often, and seconds. Every method is tuned by cross-validation inside each
    training half, and tested on the same halves.
    """
    if output is not None and output.suffix not in FORMATS:
        raise typer.BadParameter(f"{output} ends in none of {', '.join(FORMATS)}", param_hint="--output")
    with plain_errors(debug), plain_warnings():
        if output is not None:
            check_target(output)
        X, labels = read_labelled(stack, ridge, x, y)
        table = run(
            X,
            labels,
            named_methods(methods),
            splits=splits,
            tune=not no_tune,
            n_components=components,
            n_folds=folds,
            n_jobs=jobs or -1,
            random_state=seed,
        )
        if output is not None:
            with written_whole(output) as file:
                file.write(FORMATS[output.suffix](table).encode())
    typer.echo(str(table))
    failed = sum(row.failed for row in table.rows)
    if failed:
        typer.echo(f"error: {failed} of {len(table.cells)} fits failed; the table says why", err=True)
        raise typer.Exit(1)
