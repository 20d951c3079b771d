"""What the recipes share as scikit-learn transformers."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from spdsl.features.covariance import as_array
from spdsl.features.errors import FeatureError
from spdsl.features.recipes import Recipe
from spdsl.models import save

#: asymmetry, relative to the largest entry, that products in single precision leave; no image is as symmetric
ROUNDING = 1e-5


class RecipeTransformer(TransformerMixin, BaseEstimator):
    """A recipe as a step of a pipeline. A sample is the path of a file or folder, or an array; X is a list of them."""

    _kind: ClassVar[str]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.requires_fit = True
        return tags

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Note the parameters; nothing is learned, and no file is read."""
        self._options = dict(Recipe(self._kind, self.get_params(deep=False)).options)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_options")

    def transform(self, X: Any) -> np.ndarray:
        """Matrices (N, n, n), or (N, b, n, n) where a sample gives several."""
        check_is_fitted(self, "_options")
        if isinstance(X, str | Path):
            raise FeatureError(f"X is the single path {str(X)!r}; pass a list of paths, e.g. [{str(X)!r}]")
        if hasattr(X, "columns"):
            raise FeatureError("X is a data frame; pass the column that holds the paths, e.g. X['path']")
        try:
            samples = iter(X)
        except TypeError:
            raise FeatureError(f"X must be a list of paths or arrays, got {type(X).__name__}") from None
        recipe = Recipe(self._kind, self._options)
        matrices = [self._one(recipe, sample, f"X[{k}]") for k, sample in enumerate(samples)]
        if not matrices:
            raise FeatureError("X has no samples; provide at least one")
        for k, S in enumerate(matrices):
            if S.shape != matrices[0].shape:
                raise FeatureError(
                    f"X[{k}] gives matrices of shape {S.shape} where X[0] gives {matrices[0].shape}; pass samples of one kind"
                )
        return np.stack(matrices)

    @property
    def recipe_(self) -> Recipe:
        """The recipe with the parameters of the fit."""
        check_is_fitted(self, "_options")
        return Recipe(self._kind, self._options)

    def _one(self, recipe: Recipe, sample: Any, name: str) -> np.ndarray:
        """Matrix or matrices of one sample."""
        if isinstance(sample, str | Path):
            return recipe(sample)[0][0]
        if _is_matrix(sample):
            raise FeatureError(
                f"{name} is a symmetric matrix, and {type(self).__name__} makes matrices of {recipe.kind}; pass files or raw "
                f"data, or matrices to the steps after it: model[1:]"
            )
        try:
            S = self._of_array(sample)
        except FeatureError as error:
            raise FeatureError(f"{name}: {error}") from None
        if not np.isfinite(S).all():
            raise FeatureError(f"{name}: the matrix holds NaN or infinity; rescale the data")
        return S

    @abstractmethod
    def _of_array(self, sample: Any) -> np.ndarray:
        """Matrix or matrices of a sample that is an array."""

    def save(self, path: str | Path) -> None:
        """Write the transformer to one safetensors file, for `spdsl.load`."""
        save(self, path)


def _is_matrix(sample: Any) -> bool:
    """Whether a sample is what the recipes make rather than what they take: matrices symmetric up to rounding."""
    try:
        array = as_array(sample)
    except FeatureError:
        return False  # images of several sizes, for example
    if array.ndim not in (2, 3) or array.dtype.kind != "f" or not 1 < array.shape[-2] == array.shape[-1]:
        return False
    flat = (array == array[..., :1, :1]).all()  # an image of one color is an image
    with np.errstate(invalid="ignore"):  # of infinities, which the recipe names
        return not flat and bool(np.abs(array - array.mT).max() <= ROUNDING * np.abs(array).max())
