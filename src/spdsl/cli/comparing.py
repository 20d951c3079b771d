"""`spdsl compare`: several methods on your own matrices."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spdsl.cli.errors import Debug, plain_errors, plain_warnings
from spdsl.cli.options import (
    Components,
    Device,
    Folds,
    Groups,
    Jobs,
    LabelsName,
    Methods,
    Plugins,
    Ridge,
    Scoring,
    Seed,
    Stack,
    StackName,
    as_draws,
    named_methods,
    named_scores,
    number_or_groups,
)
from spdsl.cli.samples import read_labeled
from spdsl.cli.text import say
from spdsl.evaluation.compare import Comparison
from spdsl.evaluation.compare import compare as run
from spdsl.models.files import check_not_input, check_target, written_whole

FORMATS = {".csv": Comparison.to_csv, ".md": Comparison.to_markdown}

Splits = Annotated[
    str,
    typer.Option(
        metavar="N|leave-one-group-out",
        callback=number_or_groups,
        help="Number of random splits into a training and a test half, of whole groups if there are groups; or test each "
        "group once.",
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option("--folder", metavar="FOLDER", help="Keep completed results here; the same command again resumes."),
]
NoTune = Annotated[bool, typer.Option("--no-tune", help="Use the default parameters of every method; much faster.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Also write the table to this .csv or .md file.")
]


def compare(
    stack: Stack,
    methods: Methods = "all",
    splits: Splits = "10",
    groups: Groups = None,
    scoring: Scoring = "accuracy",
    no_tune: NoTune = False,
    components: Components = None,
    folds: Folds = 5,
    ridge: Ridge = 0.0,
    seed: Seed = 0,
    jobs: Jobs = None,
    device: Device = None,
    output: Output = None,
    folder: Folder = None,
    x: StackName = None,
    y: LabelsName = None,
    plugin: Plugins = None,
    debug: Debug = False,
) -> None:
    """Compare methods on labeled matrices.

    Prints the accuracy, the most frequently selected parameters, and the time. Every method is tuned by cross-validation
    inside each training half. All methods use the same splits.
    """
    if output is not None and output.suffix not in FORMATS:
        raise typer.BadParameter(f"{output} must end in {' or '.join(FORMATS)}", param_hint="--output")
    with plain_errors(debug, kept=folder), plain_warnings():
        if output is not None:
            check_target(output)
            check_not_input(output, stack)
        X, labels, names = read_labeled(stack, ridge, x, y, groups)
        table = run(
            X,
            labels,
            named_methods(methods),
            splits=as_draws(splits),
            groups=names,
            scoring=named_scores(scoring),
            folder=folder,
            tune=not no_tune,
            n_components=components,
            n_folds=folds,
            device=device,
            n_jobs=jobs or -1,
            random_state=seed,
        )
        if output is not None:
            with written_whole(output) as file:
                file.write(FORMATS[output.suffix](table).encode())
    say(table)
    failed = sum(row.failed for row in table.rows)
    if failed:
        say(f"error: {failed} of {len(table.cells)} fits failed; see the table for the reasons", err=True)
        raise typer.Exit(1)
