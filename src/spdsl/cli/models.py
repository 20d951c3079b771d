"""Open a model file for a command: which part of it takes matrices, and how they have to be made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.pipeline import Pipeline

from spdsl.cli.samples import Samples, named
from spdsl.data.validation import regularize
from spdsl.estimators import Regularize
from spdsl.evaluation.methods import METHODS
from spdsl.features.base import RecipeTransformer
from spdsl.features.recipes import Recipe
from spdsl.models import load_with_notes

ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Model file written by `spdsl fit` or `model.save`.", show_default=False)
]


@dataclass(frozen=True)
class Opened:
    """A model from a file.

    Attributes
    ----------
    path : Path
    model : estimator
        As it was saved.
    rest : estimator
        What takes matrices: the model without the recipe that may be its first step.
    recipe : Recipe or None
        How the matrices are made of files, if it is known.
    ridge : float
        The ridge that the model adds or, in files of older versions, that has to be added before.
    notes : mapping
    """

    path: Path
    model: Any
    rest: Any
    recipe: Recipe | None
    ridge: float
    notes: Mapping[str, Any]

    @property
    def what(self) -> str:
        """Name of the method or of the class."""
        return str(self.notes.get("method") or type(last_step(self.model)).__name__)

    def apply(self, verb: str, samples: Samples) -> np.ndarray:
        """What a method of the model gives for samples; errors name the files."""
        inside = isinstance(self.rest, Pipeline) and any(isinstance(step, Regularize) for _, step in self.rest.steps)
        X = regularize(samples.X, self.ridge) if self.ridge and not inside else samples.X
        with named(samples):
            return np.asarray(getattr(self.rest, verb)(X))

    def check_samples(self, samples: Samples) -> Samples:
        """The samples; an error if they were made by another recipe than those that the model was fitted to."""
        if self.recipe is not None and samples.recipe is not None:
            odd = self.recipe.differs(samples.recipe)
            if odd:
                ours, theirs = self.recipe.described(), samples.recipe.described()
                raise ValueError(
                    f"{samples.path} was made with the recipe `{theirs}`, but {self.path} was fitted with `{ours}` (the "
                    f"file has {odd}); make it with the recipe of the model"
                )
        return samples

    def check_ridge(self, ridge: float | None) -> None:
        """An error if another ridge is asked for than that of the fit."""
        if ridge is not None and ridge != self.ridge:
            raise ValueError(
                f"{self.path} was fitted with --ridge {self.ridge:g}, not {ridge:g}; leave --ridge out, or fit again"
            )


def open_model(path: Path, verb: str) -> Opened:
    """A model that has the method `verb`, or an error that names those that have it."""
    model, notes = load_with_notes(path)
    if not hasattr(model, verb):
        names = ", ".join(name for name, method in METHODS.items() if hasattr(method.factory(), verb))
        what = notes.get("method") or type(last_step(model)).__name__
        raise ValueError(f"{path}: this {what} does not support {verb}; these methods do: {names}")
    return opened(path, model, notes)


def opened(path: Path, model: Any, notes: Mapping[str, Any]) -> Opened:
    """A model that has been loaded."""
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    ridge = notes.get("ridge", 0.0) + sum(step.ridge_ for step in steps if isinstance(step, Regularize))
    if isinstance(steps[0], RecipeTransformer):
        return Opened(path, model, model[1:] if len(steps) > 1 else None, steps[0].recipe_, ridge, notes)
    recipe = None if notes.get("recipe") is None else Recipe.from_text(notes["recipe"])
    return Opened(path, model, model, recipe, ridge, notes)


def last_step(model: Any) -> Any:
    """The learner of a pipeline, or the model itself."""
    return model.steps[-1][1] if isinstance(model, Pipeline) else model
