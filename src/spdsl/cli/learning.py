"""`spdsl fit`: a model from labeled matrices, or from a folder of media files."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections import ChainMap
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.pipeline import make_pipeline

from spdsl.cli.errors import Debug, plain_errors, plain_warnings
from spdsl.cli.options import (
    Components,
    Device,
    FolderLabels,
    Folds,
    LabelsName,
    MediaJobs,
    Plugins,
    Ridge,
    StackName,
    on_device,
    one_of,
)
from spdsl.cli.samples import Samples, check_output, check_recipe, checked, only_labeled, read_samples
from spdsl.cli.text import say
from spdsl.estimators import SPDSL, Regularize
from spdsl.estimators.heads import HEADS
from spdsl.estimators.options import Options
from spdsl.evaluation.methods import METHODS, Method
from spdsl.evaluation.text import count_matrices
from spdsl.evaluation.tuning import tune as choose
from spdsl.features.recipes import KINDS, Recipe
from spdsl.features.transformers import as_transformer
from spdsl.models import save

DEFAULT = Method("SPDSL", "proposed", SPDSL, METHODS["SPDSL-LEM"].grid)  # SPDSL() as in Python
ROWS = ChainMap(METHODS, {DEFAULT.name: DEFAULT})  # sees methods that plugins register
OPTIONS = tuple(option.name for option in fields(Options))

Source = Annotated[
    Path,
    typer.Argument(
        metavar="STACK|FOLDER",
        help="File with SPD matrices X (N, n, n) and labels y: npz, npy, mat, h5. Or, with --recipe, a folder of media files.",
        show_default=False,
    ),
]
RecipeName = Annotated[
    str | None,
    typer.Option(metavar="|".join(KINDS), callback=one_of(KINDS), help="How the files of a folder become matrices."),
]
RecipeOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option", "-r", metavar="NAME=VALUE", help="An option of the recipe, e.g. size=200. Can be repeated."
    ),
]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Model file to write.")]


Name = Annotated[
    str,
    typer.Option(
        "--method",
        metavar="NAME",
        callback=one_of(ROWS),
        help="SPDSL with its defaults in Python, or one of the methods listed by `spdsl methods`.",
    ),
]
Params = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        "-p",
        metavar="NAME=VALUE",
        help="A parameter, e.g. objective=pairs or solver.init=identity. Can be repeated.",
    ),
]
Classifier = Annotated[
    str | None,
    typer.Option(metavar="|".join(HEADS), callback=one_of(HEADS), help="Classifier applied after the reduction."),
]
Tune = Annotated[
    bool, typer.Option("--tune", help="Choose parameters by cross-validation over the grid of the method.")
]
Random = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", min=0, help="Seed of all random choices. By default that of the method."),
]


def fit(
    source: Source,
    output: Output = Path("model.safetensors"),
    recipe: RecipeName = None,
    option: RecipeOptions = None,
    labels: FolderLabels = "folder",
    jobs: MediaJobs = 1,
    method: Name = DEFAULT.name,
    components: Components = None,
    param: Params = None,
    classifier: Classifier = None,
    tune: Tune = False,
    folds: Folds = 5,
    ridge: Ridge = 0.0,
    seed: Random = None,
    device: Device = None,
    x: StackName = None,
    y: LabelsName = None,
    plugin: Plugins = None,
    debug: Debug = False,
) -> None:
    """Fit a model to labeled matrices, or to a folder of media files, and write it to a file.

    The file holds everything from the raw file to the label: the recipe, the ridge, the learned reduction and the
    classifier. It contains no code and no pickle.
    """
    row = ROWS[method]
    given = _parameters(row, components, classifier, param or [])
    how = _recipe(source, recipe, option or [])
    with plain_errors(debug), plain_warnings():
        check_output(output, source, how)
        check_recipe(source, how)
        samples = only_labeled(read_samples(source, how, labels=labels, strict=True, jobs=jobs, x=x, y=y))
        X, truth = checked(samples, ridge).X, samples.labels
        began = time.perf_counter()
        model = on_device(row.unfitted(None, seed).set_params(**given), device)
        notes = _notes(method, samples)
        if tune:
            grid = {k: v for k, v in row.grid_at(components, X.shape[-1]).items() if k not in given}
            notes["accuracy"] = _tuned(model, grid, X, truth, folds, seed or 0)
        quiet = not sys.stderr.isatty() or "verbose" not in model.get_params()
        model.set_params(**({} if quiet else {"verbose": True})).fit(X, truth)
        model.set_params(**({} if quiet else {"verbose": False}))
        save(_whole(model, samples, how, ridge), output, notes=notes)
    seconds = time.perf_counter() - began
    say(f"{output}: {method} fitted to {count_matrices(X)} of {len(model.classes_)} classes in {seconds:.1f} s")


def _whole(model: Any, samples: Samples, recipe: Recipe | None, ridge: float) -> Any:
    """The model with the steps before it: the recipe, where it was fitted to files, and the ridge."""
    first = None if recipe is None else as_transformer(recipe)
    steps = [] if first is None else [first]
    steps += [Regularize(ridge).fit(samples.X)] if ridge else []
    return make_pipeline(*steps, model) if steps else model


def _notes(method: str, samples: Samples) -> dict[str, Any]:
    """What is worth knowing of the training data, for `predict` and `info`."""
    digest = hashlib.sha256(np.ascontiguousarray(samples.X).data)
    digest.update(
        "\n".join(map(str, [] if samples.labels is None else samples.labels.tolist())).encode(errors="replace")
    )
    names, counts = np.unique([] if samples.labels is None else samples.labels.astype(str), return_counts=True)
    return {
        "method": method,
        "recipe": None if samples.recipe is None else samples.recipe.text(),
        "training": {
            "name": samples.path.name,
            "samples": dict(zip(names.tolist(), counts.tolist(), strict=True)),
            "sha256": digest.hexdigest(),
        },
    }


def _recipe(source: Path, kind: str | None, assignments: list[str]) -> Recipe | None:
    """The recipe asked for; a usage error where there is a folder without one, or one without a folder."""
    if kind is None:
        if assignments:
            raise typer.BadParameter("an option of a recipe needs --recipe", param_hint="--option")
        if source.is_dir():
            raise typer.BadParameter(f"{source} is a folder: name one of {', '.join(KINDS)}", param_hint="--recipe")
        return None
    if source.is_file():
        raise typer.BadParameter(f"{source} is a file; --recipe is for folders of media files", param_hint="--recipe")
    try:
        return Recipe(kind, dict(_assigned(text, "--option") for text in assignments))
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint="--option") from None


def _assigned(text: str, option: str) -> tuple[str, Any]:
    """Name and value of NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r} is not of the form NAME=VALUE", param_hint=option)
    return name.strip(), _value(value)


def _parameters(
    method: Method, components: int | None, classifier: str | None, assignments: list[str]
) -> dict[str, Any]:
    """Parameters of the estimator given on the command line; a usage error for unknown ones."""
    own = method.factory().get_params(deep=False)
    given: dict[str, Any] = {}
    for name, value in (("n_components", components), ("classifier", classifier)):
        if value is not None:
            given[name] = value
    for text in assignments:
        name, value = _assigned(text, "--param")
        name, _, option = name.partition(".")
        given[name] = {**(given.get(name, own.get(name)) or {}), option: value} if option else value
    for name in given:
        if name not in own or name == "callback":
            raise typer.BadParameter(_unknown(method, name, own), param_hint="--param")
    return given


def _unknown(method: Method, name: str, own: dict[str, Any]) -> str:
    """The message about a parameter that the method does not have."""
    if "solver" in own and name in OPTIONS:
        return f"{name} is an option of the solver; use solver.{name}=VALUE"
    known = sorted(set(own) - {"callback", "solver"}) + [f"solver.{option}" for option in OPTIONS if "solver" in own]
    return f"{method.name} has no parameter {name!r}; it has: {', '.join(known) or 'none'}"


def _value(text: str) -> Any:
    """A number, true, false, null, list or object as in JSON; anything else is a string."""
    try:
        return json.loads(text)
    except ValueError:
        return {"True": True, "False": False, "None": None}.get(text, text)


def _tuned(model: Any, grid: dict[str, Any], X: np.ndarray, y: Any, folds: int, seed: int) -> dict[str, Any] | None:
    """Set the best parameters, also printed to standard error; returns their accuracy and how it was found."""
    found = choose(model, grid, X, y, n_folds=folds, random_state=seed)
    model.set_params(**found.params)
    if not found.n_folds:
        say("tuned: nothing, as no parameter is left to choose", err=True)
        return None
    chosen = ", ".join(f"{name}={value}" for name, value in found.params.items())
    say(f"tuned: {chosen} (accuracy {100 * found.score:.1f} % in {found.n_folds} folds)", err=True)
    return {"value": found.score, "how": f"mean of {found.n_folds} folds, of the best of the parameters tried"}
