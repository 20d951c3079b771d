"""One method on one draw: how it is found, and what it is known by."""

from __future__ import annotations

import base64
import hashlib
import time
import warnings
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from spdsl.evaluation.fitting import answering, bound, fit_on, get_scorer, requests_groups
from spdsl.evaluation.identity import told
from spdsl.evaluation.jobs import Done, Job, key_of
from spdsl.evaluation.methods import Grid, Method
from spdsl.evaluation.results import Cell, cell_from_dict, cell_to_dict
from spdsl.evaluation.splits import Split, fold_count
from spdsl.evaluation.store import StoreError
from spdsl.evaluation.tuning import tune as choose_parameters

RESULT_VERSION = 2  # to be raised whenever a change of the library changes what a cell finds
SEED = 0  # of the draws, of the folds and of every random start
LEARNED = "SPDSL-LEM"  # whose W is kept for the pictures of samples
Tuning = Literal["each", "first", "none"]


@dataclass(frozen=True)
class Experiment:
    """Data, splits and settings of a run.

    Attributes
    ----------
    name, title, description : str
    X : (N, n, n)
    y : (N,)
    splits : list of (train, test)
        The same for every method.
    how : str
        The splits in words.
    n_components : int, optional
        m; without it every method takes its own default.
    tuning : {"each", "first", "none"}
        Where parameters are chosen unless asked otherwise.
    published : dict
        Method to (mean, standard deviation) in percent.
    groups : (N,), optional
        Kept apart in the folds of tuning, and passed on to steps that request them.
    """

    name: str
    title: str
    description: str
    X: np.ndarray
    y: np.ndarray
    splits: list[Split]
    how: str
    n_components: int | None = None
    tuning: Tuning = "each"
    published: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)
    groups: np.ndarray | None = None

    @property
    def digest(self) -> str:
        """Digest of the matrices and labels."""
        return digest_data(self.X, self.y)

    def grouped(self, rows: np.ndarray) -> np.ndarray | None:
        """The groups of these samples."""
        return None if self.groups is None else self.groups[rows]


@dataclass(frozen=True)
class Settings:
    """How the cells of a run are found."""

    tuning: Tuning = "each"
    n_folds: int = 5
    seed: int | None = SEED
    scoring: tuple[str, ...] = ("accuracy",)
    device: str | None = None

    @property
    def of_tuning(self) -> dict[str, Any]:
        """Arguments of `tune`."""
        return {"n_folds": self.n_folds, "random_state": self.seed, "scoring": self.scoring[0]}


def digest_data(X: np.ndarray, y: np.ndarray) -> str:
    """SHA-256 of the numbers, shape and labels, a matrix at a time."""
    found = hashlib.sha256(f"{X.shape} {X.dtype} {np.asarray(y).tolist()}".encode())
    for matrix in X:
        found.update(np.ascontiguousarray(matrix).data)
    return found.hexdigest()


# ------------------------------------------------------------------------------------------------------------- one cell


def find_cell(
    X: np.ndarray,
    y: np.ndarray,
    groups: np.ndarray | None,
    method: Method,
    split: Split,
    given: Mapping[str, Any] | None,
    n_components: int | None,
    settings: Settings,
) -> dict[str, Any]:
    """Tune, fit and score one method on one split: a row. `given` parameters are taken as they are, and nothing is tuned."""
    train, test = split
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = method.unfitted(n_components, settings.seed, settings.device)
        clock = [time.perf_counter()]
        params, failed = dict(given or {}), tuple[str, ...]()
        grid = method.grid_at(n_components, X.shape[-1])
        if given is None and grid:
            inside = None if groups is None else groups[train]
            tuned = choose_parameters(model, grid, X[train], y[train], groups=inside, **settings.of_tuning)
            params, failed = tuned.params, tuned.failed
        clock.append(time.perf_counter())
        model.set_params(**params)
        with answering(model, [get_scorer(name) for name in settings.scoring]):
            fit_on(model, X, y, groups, train)
        clock.append(time.perf_counter())
        asked = bound(model, groups, test)
        predicted = _one_each(asked.predict(X[test]), len(test))
        clock.append(time.perf_counter())
        scores, missing = _scores(asked, X[test], y[test], settings.scoring)
    said = [*failed, *(str(warning.message) for warning in caught), *missing]
    tuning, fit, predict = (float(seconds) for seconds in np.diff(clock))
    cell = Cell(
        method.name,
        0,
        float(np.mean(predicted == y[test])),
        params,
        tuning,
        fit,
        predict,
        warnings=tuple(dict.fromkeys(said)),
        scores=scores,
        predictions=_codes(np.unique(y), predicted),
        history=_history(model),
    )
    row = cell_to_dict(cell)
    if method.name == LEARNED and getattr(model, "components_", np.zeros(0)).ndim == 2:
        row["components"] = pack(model.components_)
    return row


def _scores(model: Any, X: np.ndarray, y: np.ndarray, scoring: tuple[str, ...]) -> tuple[dict[str, float], list[str]]:
    """The scores beside the accuracy, NaN with a sentence for each that the model or the test part does not allow."""
    scores, missing = {}, []
    for name in scoring:
        if name == "accuracy":
            continue
        try:
            scores[name] = float(get_scorer(name)(model, X, y))
            if not np.isfinite(scores[name]):
                raise ValueError(f"it is {scores[name]}")
        except Exception as error:
            scores[name] = float("nan")
            missing.append(f"no {name}: {error}")
    return scores, missing


def _one_each(predicted: Any, count: int) -> np.ndarray:
    """Predictions as an array (count,); others would be compared with the labels by broadcasting."""
    found = np.asarray(predicted)
    if found.shape != (count,):
        raise ValueError(
            f"predict returned an array of shape {found.shape}; it must hold one label for each of {count} samples"
        )
    return found


def _codes(classes: np.ndarray, predicted: np.ndarray) -> tuple[int, ...]:
    """Places of the predicted labels among the classes."""
    places = np.clip(np.searchsorted(classes, predicted), 0, len(classes) - 1)
    foreign = classes[places] != predicted
    if np.any(foreign):
        raise ValueError(f"predicted {predicted[foreign].tolist()[0]!r}, which is not a label of y")
    return tuple(places.tolist())


def _history(model: Any) -> tuple[tuple[float, float], ...]:
    """The objective, which the solver minimizes with its sign changed, and the seconds of each iteration."""
    rows = getattr(model, "history_", None)
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and {"value", "seconds"} <= set(row) for row in rows
    ):
        return ()
    found = tuple((-float(row["value"]), float(row["seconds"])) for row in rows)
    return found if np.all(np.isfinite(found)) else ()


def pack(W: np.ndarray) -> dict[str, Any]:
    """An array as JSON values."""
    W = np.ascontiguousarray(W, dtype="<f8")
    return {"shape": list(W.shape), "doubles": base64.b64encode(zlib.compress(W.tobytes())).decode()}


def unpack(packed: Mapping[str, Any]) -> np.ndarray:
    """The array again."""
    return np.frombuffer(zlib.decompress(base64.b64decode(packed["doubles"])), "<f8").reshape(packed["shape"])


# -------------------------------------------------------------------------------------------------------------- its key


class Cells:
    """The cells of an experiment as jobs.

    A cell is known by a digest of all that determines it: matrices, labels, groups, split, method with its parameters and
    grid, folds, seed, size, scores.
    """

    def __init__(self, experiment: Experiment, settings: Settings) -> None:
        self.experiment, self.settings = experiment, settings
        self.data = experiment.digest
        self._groups = None if experiment.groups is None else told(experiment.groups)
        self._told: dict[str, Any] = {}  # once for all draws

    def grid(self, method: Method) -> Grid:
        """What the method is tuned over on this experiment."""
        return method.grid_at(self.experiment.n_components, self.experiment.X.shape[-1])

    def job(self, method: Method, draw: int, given: Mapping[str, Any] | None = None) -> Job:
        """A cell: tuned, or with given parameters; nothing to tune is the same as nothing given."""
        e, s = self.experiment, self.settings
        split = e.splits[draw]
        given = {} if given is None and not method.grid else given
        model = method.unfitted(e.n_components, s.seed, s.device)
        if method.name not in self._told:
            self._told[method.name] = told(model)
        content = {
            "version": RESULT_VERSION,
            "data": self.data,
            "train": _digest(split[0]),
            "test": _digest(split[1]),
            "method": method.name,
            "estimator": self._told[method.name],
            "seed": s.seed,
        }
        if s.scoring != ("accuracy",):
            content["scoring"] = list(s.scoring)
        asks = requests_groups(model, "fit") or requests_groups(model, "predict")
        if self._groups is not None and (given is None or asks):
            content["groups"] = self._groups
        if given is None:
            content["grid"] = {name: [told(v) for v in values] for name, values in sorted(self.grid(method).items())}
            content["folds"] = fold_count(e.y[split[0]], s.n_folds, e.grouped(split[0]))
        else:
            content["given"] = {name: told(value) for name, value in sorted(given.items())}
        arguments = (e.X, e.y, e.groups, method, split, given, e.n_components, s)
        return Job(key_of(content), find_cell, arguments)


def cell_of(done: Done, method: str, draw: int, where: Any = "the store") -> Cell:
    """The cell of a finished job, or an error where somebody has edited its row."""
    if done.error:
        return Cell(method, draw, error=done.error)
    try:
        content = {name: value for name, value in done.row.items() if name != "components"}
        return cell_from_dict(content | {"method": method, "split": draw, "key": done.key})
    except (KeyError, TypeError, AttributeError, ValueError):
        raise StoreError(
            f"{where}: the row {done.key} does not hold a cell, though its check-sum agrees: it was edited; "
            f"remove the row, or choose another output folder"
        ) from None


def _digest(indices: np.ndarray) -> str:
    """Digest of indices; their order counts, since the first of equal neighbors wins."""
    return hashlib.sha256(np.asarray(indices, np.int64).tobytes()).hexdigest()[:16]
