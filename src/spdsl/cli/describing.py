"""`spdsl info`: what a model file holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from sklearn.pipeline import Pipeline

from spdsl.cli.errors import Debug, plain_errors, plain_warnings
from spdsl.cli.models import ModelFile, Opened, last_step, opened
from spdsl.cli.options import Plugins
from spdsl.cli.text import say
from spdsl.features.recipes import Recipe
from spdsl.models import load_with_notes
from spdsl.models.container import read

SHOWN = 12  # classes listed in the text; JSON has all

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def info(model: ModelFile, as_json: Json = False, plugin: Plugins = None, debug: Debug = False) -> None:
    """Show what a model expects and what it was fitted to."""
    with plain_errors(debug), plain_warnings():
        fitted, notes = load_with_notes(model)
        versions = read(model)[0]["versions"]
        found = _about(opened(model, fitted, notes), model, versions)
    if as_json:
        typer.echo(json.dumps(found, default=str))
        return
    width = max(map(len, found))
    for name, value in found.items():
        if value is not None:
            say(f"{name.replace('_', ' '):<{width}}  {_words(name, value)}")


def _about(model: Opened, path: Path, versions: dict[str, str]) -> dict[str, Any]:
    """What is known of a model, as JSON has it; None where it is not."""
    learner, notes = last_step(model.model), model.notes
    steps = [step for _, step in model.model.steps] if isinstance(model.model, Pipeline) else [model.model]
    classes = getattr(learner, "classes_", None)
    W = getattr(learner, "components_", None)
    return {
        "file": str(path),
        "bytes": path.stat().st_size,
        "method": notes.get("method"),
        "steps": [type(step).__name__ for step in steps],
        "expects": _expects(model, steps),
        "recipe": None if model.recipe is None else _options(model.recipe),
        "ridge": model.ridge,
        "metric": getattr(getattr(learner, "metric_", None), "name", None),
        "objective": getattr(getattr(learner, "objective_", None), "name", None),
        "m": None if W is None or not hasattr(learner, "history_") else int(W.shape[-1]),
        "classifier": _classifier(learner),
        "classes": None if classes is None else [c if isinstance(c, str) else str(c) for c in classes.tolist()],
        "training": notes.get("training"),
        "accuracy": notes.get("accuracy") or _left_out(learner),
        "versions": versions,
    }


def _expects(model: Opened, steps: list[Any]) -> str:
    """What `predict` takes."""
    sizes = (getattr(step, "n_features_in_", None) for step in steps)
    n = next((size for step, size in zip(steps, sizes, strict=True) if size and hasattr(step, "n_blocks_in_")), None)
    blocks = next((step.n_blocks_in_ for step in steps if getattr(step, "n_blocks_in_", None)), None)
    matrices = "SPD matrices" if n is None else f"SPD matrices {n} x {n}"
    matrices = matrices if blocks is None else f"samples of {blocks} {matrices}"
    if model.recipe is None:
        return matrices
    folders = ", folders of frames" if model.recipe.folders else ""
    return f"files {' '.join(model.recipe.suffixes)}{folders}, or {matrices} of the same recipe"


def _options(recipe: Recipe) -> dict[str, Any]:
    """The kind and all options."""
    return {"kind": recipe.kind, **recipe.defaults(), **recipe.options}


def _classifier(learner: Any) -> str | None:
    """The classifier after the reduction."""
    given = getattr(learner, "classifier", None)
    return given if given is None or isinstance(given, str) else type(given).__name__


def _left_out(learner: Any) -> dict[str, Any] | None:
    """The accuracy that the discriminant of the automatic classifier had on the training samples, each left out once."""
    discriminant = getattr(getattr(learner, "classifier_", None), "discriminant_", None)
    value = getattr(discriminant, "loo_accuracy_", None)
    return (
        None if value is None else {"value": value, "how": "training samples left out one by one, discriminant alone"}
    )


def _words(name: str, value: Any) -> str:
    """A value for a person."""
    if name == "classes":
        return f"{len(value)}: {', '.join(value[:SHOWN])}{', ...' if len(value) > SHOWN else ''}"
    if name == "training":
        return f"{value['name']}, {sum(value['samples'].values())} samples, sha256 {value['sha256'][:16]}"
    if name == "accuracy":
        return f"{100 * value['value']:.1f} % ({value['how']})"
    if name == "recipe":
        kind, *rest = (str(item) if key == "kind" else f"{key}={item}" for key, item in value.items())
        return f"{kind}: {', '.join(rest)}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return " > ".join(value) if isinstance(value, list) else f"{value:g}" if isinstance(value, float) else str(value)
