"""What a run will take, before the work: seconds by method, extrapolated from small cells timed on this machine."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from spdsl.evaluation.cells import Experiment, Settings, find_cell
from spdsl.evaluation.methods import Method
from spdsl.evaluation.splits import Split, fold_count

SMALL = (24, 72)  # training matrices of the cells that are timed
WARM = 4  # those of a first one, not tuned and not timed: what is only slow the first time
FOLDS = 2  # of their tuning; more folds take longer in proportion
POWERS = (0.7, 2.0)  # of the number of matrices, within which cells grow; pairs are the most that a method looks at


@dataclass(frozen=True)
class PlannedMethod:
    """Cells of a method, and seconds of the first one, with its tuning, and of each other."""

    name: str
    cells: int
    first: float
    other: float
    on_device: bool
    error: str = ""

    @property
    def seconds(self) -> float:
        """Seconds of all of its cells, one after the other."""
        return self.first + (self.cells - 1) * self.other


@dataclass(frozen=True)
class Plan:
    """Seconds by method, bytes that a process holds, and seconds that the plan took."""

    methods: list[PlannedMethod]
    bytes: int
    spent: float

    @property
    def seconds(self) -> float:
        """Seconds of all cells, one after the other."""
        return sum(method.seconds for method in self.methods)

    def on_cores(self, count: int) -> float:
        """Seconds until the last of so many processes is done: no less than the longest cell takes."""
        ends = np.zeros(count)
        cells = [s for m in self.methods for s in (m.first, *[m.other] * (m.cells - 1))]
        for seconds in sorted(cells, reverse=True):
            ends[ends.argmin()] += seconds
        return float(ends.max())


def plan_run(experiment: Experiment, methods: list[Method], settings: Settings) -> Plan:
    """Time small cells of every method, and extrapolate to the cells of a run.

    Two of them are not tuned and tell how time grows with the number of matrices; a method that is tuned has a third one. They
    have whole classes of the first draw, and the method's own grid. What they miss is what only shows in
    numbers of matrices far beyond theirs, and a machine that others use meanwhile.
    """
    began = time.perf_counter()
    with _one_thread():
        planned = [_planned(experiment, method, settings) for method in methods]
    N = max(len(train) + len(test) for train, test in experiment.splits)
    train = max(len(train) for train, _ in experiment.splits)
    pairs = max((getattr(method.factory(), "pair_arrays", 0) for method in methods), default=0)
    size = 8 * (len(experiment.X) + 3 * N) * experiment.X.shape[-1] ** 2 + 8 * pairs * train**2
    return Plan(planned, size, time.perf_counter() - began)


def _planned(experiment: Experiment, method: Method, settings: Settings) -> PlannedMethod:
    tuned = settings.tuning != "none" and bool(method.grid)
    folds = fold_count(experiment.y[experiment.splits[0][0]], settings.n_folds, None)
    first: dict[bool, float] = {}
    device = "device" in method.factory().get_params()
    cells = len(experiment.splits)
    try:
        _timed(experiment, method, settings, _part(experiment, WARM), False)
        plain, power = _extrapolated(experiment, method, settings)
        first[False] = first[tuned] = plain
        if tuned:
            small = _part(experiment, SMALL[0])
            seconds = _timed(experiment, method, settings, small, True) * folds / FOLDS
            first[True] = seconds * (_mean_size(experiment) / len(small[0])) ** power
    except Exception as error:  # it will fail in the run as well, which then says so
        return PlannedMethod(method.name, cells, 0.0, 0.0, device, f"{type(error).__name__}: {error}")
    other = first[tuned] if settings.tuning == "each" else first[False]
    return PlannedMethod(method.name, cells, first[tuned], other, device)


def _extrapolated(experiment: Experiment, method: Method, settings: Settings) -> tuple[float, float]:
    """Seconds of a cell of the run's size that is not tuned, from two smaller ones, and the power with which cells grow."""
    sizes: list[int] = []
    seconds: list[float] = []
    for count in SMALL:
        split = _part(experiment, count)
        sizes.append(len(split[0]))
        seconds.append(_timed(experiment, method, settings, split, False))
        if sizes[-1] == len(experiment.splits[0][0]):
            break
    power = 1.0
    if len(sizes) > 1 and sizes[0] < sizes[1]:
        power = math.log(max(seconds[1], 1e-6) / max(seconds[0], 1e-6)) / math.log(sizes[1] / sizes[0])
        power = min(max(power, POWERS[0]), POWERS[1])
    return seconds[-1] * (_mean_size(experiment) / sizes[-1]) ** power, power


def _mean_size(experiment: Experiment) -> float:
    return float(np.mean([len(train) for train, _ in experiment.splits]))


def _part(experiment: Experiment, count: int) -> Split:
    """Whole classes of the first draw with at least so many training matrices, and their share of the test part."""
    train, test = experiment.splits[0]
    y, taken = experiment.y, 0
    chosen = []
    for label in np.unique(y[train]):
        chosen.append(label)
        taken += int(np.sum(y[train] == label))
        if taken >= count and len(chosen) > 1:
            break
    if taken > 2 * count and len(chosen) == 2:  # two classes are too many matrices: some of each
        few = [train[y[train] == label][: count // 2] for label in chosen]
        share = max(1, len(test) * count // len(train) // 2)
        return np.concatenate(few), np.concatenate([test[y[test] == label][:share] for label in chosen])
    return train[np.isin(y[train], chosen)], test[np.isin(y[test], chosen)]


def _timed(experiment: Experiment, method: Method, settings: Settings, split: Split, tuning: bool) -> float:
    small = Settings(settings.tuning, FOLDS, settings.seed, settings.scoring, settings.device)
    e, given = experiment, None if tuning else dict[str, Any]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # on one thread: others who use the machine do not count
        clock = time.process_time if settings.device is None else time.perf_counter
        began = clock()
        find_cell(e.X, e.y, e.groups, method, split, given, e.n_components, small)
        return clock() - began


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread, as the processes of a run have that share the cores."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before
