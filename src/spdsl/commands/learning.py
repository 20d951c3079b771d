"""`spdsl fit`, `spdsl predict`, `spdsl transform`: a model from a stack, and what it says of another stack."""

from __future__ import annotations

import csv
import io
import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from spdsl.commands.errors import Debug, plain_errors, plain_warnings
from spdsl.commands.options import Components, Folds, LabelsName, Ridge, Seed, Stack, StackName, one_of
from spdsl.commands.stacks import read_labelled, read_stack
from spdsl.experiments import tune as choose
from spdsl.experiments.cells import unfitted
from spdsl.heads import HEADS
from spdsl.methods import METHODS, Method
from spdsl.models import load_with_notes, save
from spdsl.writing import check_target, written_whole

ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="File that `spdsl fit` or `model.save` wrote.", show_default=False)
]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The model file to write.")]
Name = Annotated[
    str, typer.Option("--method", metavar="NAME", callback=one_of(*METHODS), help="One that `spdsl methods` lists.")
]
Params = Annotated[
    list[str] | None,
    typer.Option("--param", "-p", metavar="NAME=VALUE", help="A parameter of the estimator; once for each."),
]
Classifier = Annotated[
    str | None,
    typer.Option(metavar="|".join(HEADS), callback=one_of(*HEADS), help="What decides behind the reduction."),
]
Tune = Annotated[bool, typer.Option("--tune", help="Choose parameters by cross-validation over the method's grid.")]
SameRidge = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE", min=0, help="Added to the diagonals, as a share of the trace. By default that of the fit."
    ),
]
Labels = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="The CSV file to write. By default standard output."),
]
Proba = Annotated[bool, typer.Option("--proba", help="Add a column of probabilities for each class.")]
Reduced = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The .npz file to write.")]


def fit(
    stack: Stack,
    output: Output = Path("model.safetensors"),
    method: Name = "SPDSL-LEM",
    components: Components = None,
    param: Params = None,
    classifier: Classifier = None,
    tune: Tune = False,
    folds: Folds = 5,
    ridge: Ridge = 0.0,
    seed: Seed = 0,
    x: StackName = None,
    y: LabelsName = None,
    debug: Debug = False,
) -> None:
    """Fit a model to labelled matrices and write it to a file.

    The file holds no code and no pickle. Ridge and method are noted in it, so that `predict` uses the same.
    """
    row = METHODS[method]
    given = _parameters(row, components, classifier, param or [])
    with plain_errors(debug), plain_warnings():
        check_target(output)
        X, labels = read_labelled(stack, ridge, x, y)
        began = time.perf_counter()
        model = unfitted(row, None, seed).set_params(**given)
        if tune:
            grid = row.grid_at(components, X.shape[-1])
            model.set_params(**_tuned(model, {k: v for k, v in grid.items() if k not in given}, X, labels, folds, seed))
        quiet = not sys.stderr.isatty() or "verbose" not in model.get_params()
        model.set_params(**({} if quiet else {"verbose": True})).fit(X, labels)
        model.set_params(**({} if quiet else {"verbose": False}))
        save(model, output, notes={"method": method, "ridge": ridge})
    seconds, n = time.perf_counter() - began, X.shape[-1]
    typer.echo(
        f"{output}: {method} fitted to {len(X)} matrices {n} x {n} of {len(model.classes_)} classes in {seconds:.1f} s"
    )


def predict(
    model: ModelFile,
    stack: Stack,
    output: Labels = None,
    proba: Proba = False,
    ridge: SameRidge = None,
    x: StackName = None,
    y: LabelsName = None,
    debug: Debug = False,
) -> None:
    """Label matrices with a fitted model.

    Writes CSV with the columns index and label, and says the accuracy if the stack has labels.
    """
    with plain_errors(debug), plain_warnings():
        if output is not None:
            check_target(output)
        fitted, X, truth = _model_and_stack(model, "predict", stack, ridge, x, y)
        if proba and not hasattr(fitted, "predict_proba"):
            raise ValueError(
                f"{model}: this {_what(fitted)} has no probabilities; fit it with --classifier lda or logistic"
            )
        labels = fitted.predict(X)
        text = _table(labels, fitted.classes_, fitted.predict_proba(X) if proba else None)
        if output is not None:
            with written_whole(output) as file:
                file.write(text.encode("utf-8", "surrogateescape"))
    if output is None:
        typer.echo(text, nl=False)
    said = f"{'standard output' if output is None else output}: {len(labels)} labels"
    if truth is not None:
        hits = [a == b for a, b in zip(labels.tolist(), truth.tolist(), strict=True)]
        said += f", accuracy {100 * float(np.mean(hits)):.1f} % ({sum(hits)} of {len(hits)})"
        if not set(truth.tolist()) & set(fitted.classes_.tolist()):
            typer.echo(f"warning: no label in {stack} is one of the model's classes", err=True)
    typer.echo(said, err=output is None)


def transform(
    model: ModelFile,
    stack: Stack,
    output: Reduced = Path("reduced.npz"),
    ridge: SameRidge = None,
    x: StackName = None,
    y: LabelsName = None,
    debug: Debug = False,
) -> None:
    """Reduce matrices with a fitted model.

    Writes X, the reduced matrices (N, m, m), or vectors where the method makes such, and y if the file has labels.
    """
    if output.suffix != ".npz":
        raise typer.BadParameter(f"{output} does not end in .npz", param_hint="--output")
    with plain_errors(debug), plain_warnings():
        check_target(output)
        fitted, X, labels = _model_and_stack(model, "transform", stack, ridge, x, y)
        reduced = np.asarray(fitted.transform(X))
        name = "X" if reduced.ndim == 3 else "vectors"
        arrays: dict[str, Any] = {name: reduced} | (
            {} if labels is None else {"y": labels.astype(str) if labels.dtype == object else labels}
        )
        with written_whole(output) as file:
            np.savez(file, **arrays)
    shape = " x ".join(map(str, reduced.shape[1:]))
    typer.echo(f"{output}: {len(X)} {'matrices' if reduced.ndim == 3 else 'vectors of length'} {shape}, as {name}")


def _parameters(
    method: Method, components: int | None, classifier: str | None, assignments: list[str]
) -> dict[str, Any]:
    """Parameters of the estimator from the command line; what the method does not have is wrong use."""
    own = method.factory().get_params(deep=False)
    given: dict[str, Any] = {}
    for name, value in (("n_components", components), ("classifier", classifier)):
        if value is not None:
            given[name] = value
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"{text!r} is not of the form NAME=VALUE", param_hint="--param")
        given[name.strip()] = _value(value)
    for name in given:
        if name not in own or name == "callback":
            known = ", ".join(sorted(set(own) - {"callback"})) or "none"
            raise typer.BadParameter(f"{method.name} has no parameter {name!r}; it has: {known}", param_hint="--param")
    return given


def _value(text: str) -> Any:
    """A number, true, false, null, a list or an object as in JSON; anything else is a string."""
    try:
        return json.loads(text)
    except ValueError:
        return {"True": True, "False": False, "None": None}.get(text, text)


def _tuned(model: Any, grid: dict[str, Any], X: np.ndarray, y: np.ndarray, folds: int, seed: int) -> dict[str, Any]:
    """The best parameters, said on the error stream."""
    found = choose(model, grid, X, y, n_folds=folds, random_state=seed)
    chosen = ", ".join(f"{name}={value}" for name, value in found.params.items())
    if found.n_folds:
        score = f"accuracy {100 * found.score:.1f} % in {found.n_folds} folds"
        typer.echo(f"tuned: {chosen} ({score})", err=True)
    else:
        typer.echo("tuned: nothing, the method has no parameter left to choose", err=True)
    return found.params


def _model_and_stack(
    path: Path, verb: str, stack: Path, ridge: float | None, x: str | None, y: str | None
) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """A model that can do what is asked, and the matrices with the ridge that it was fitted with."""
    model, notes = load_with_notes(path)
    if not hasattr(model, verb):
        names = ", ".join(name for name, method in METHODS.items() if hasattr(method.factory(), verb))
        raise ValueError(f"{path}: this {_what(model)} has no {verb}; methods that have it: {names}")
    noted = notes.get("ridge", 0.0)
    if ridge is not None and ridge != noted:
        typer.echo(f"warning: the model was fitted with --ridge {noted:g}", err=True)
    X, labels = read_stack(stack, noted if ridge is None else ridge, x, y)
    return model, X, labels


def _what(model: Any) -> str:
    """What a model is, in a word."""
    return type(model).__name__


def _table(labels: np.ndarray, classes: np.ndarray, probabilities: np.ndarray | None) -> str:
    """CSV with a row a matrix."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = [] if probabilities is None else [f"p({label})" for label in classes.tolist()]
    writer.writerow(["index", "label", *columns])
    for k, label in enumerate(labels.tolist()):
        writer.writerow([k, label, *([] if probabilities is None else probabilities[k].tolist())])
    return text.getvalue()
