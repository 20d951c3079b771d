"""Find the numbers behind the figures, piece by piece, each kept in the store of the run."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from spdsl.experiments.cells import not_default, run_jobs, unfitted
from spdsl.experiments.protocols import SEED, Experiment
from spdsl.experiments.results import Results
from spdsl.experiments.runner import RESULT_VERSION
from spdsl.experiments.splits import Split
from spdsl.experiments.store import Store
from spdsl.experiments.studies import (
    LEARNED,
    Fit,
    Space,
    Studies,
    SweepPoint,
    View,
    fit_from_row,
    fit_to_row,
    view_from_row,
    view_to_row,
)
from spdsl.methods import METHODS
from spdsl.neighbors import SPDNearestNeighbor, pairwise_sqdist
from spdsl.progress import Progress, Quiet

STUDY_VERSION = 1  # to be raised whenever a study is done otherwise; what changes a learner raises RESULT_VERSION
METRICS = {"lem": "LEM", "aim": "AIM", "stein": "Stein"}
BETWEEN: tuple[int | str, ...] = (*range(1, 9), 20, 100, "all")  # the paper's Fig. 6
SWEEP_DRAWS = 3  # over which accuracies are averaged; one draw of few samples says little
MAX_PAIRS = 4096  # under AIM and Stein every pair costs a factorisation in every iteration
MAX_SURVEY = 1e11  # and finding neighbours costs N^2/2 factorisations of n x n matrices, n^3 each
SHOWN = 300  # test samples in the similarity matrices and embeddings
POLL = 0.5  # seconds between looks at whether another run is done
FEWEST = 8  # below which these show nothing


@dataclass(frozen=True)
class _Job:
    """A piece of work: its key in the store, what it is in words, and the function of (X, y) that does it."""

    key: str
    words: str
    find: Callable[..., dict[str, Any]]
    split: Split
    options: dict[str, Any]


def run_studies(
    experiment: Experiment,
    store: Store,
    results: Results | None = None,
    *,
    n_jobs: int | None = -1,
    verbose: bool = True,
) -> Studies:
    """Find the numbers of all figures; what the store holds is not found again.

    Parameters
    ----------
    experiment : Experiment
    store : Store
    results : Results, optional
        Whose parameters of SPDSL-LEM the convergence and the pictures of samples take; the defaults otherwise.
    n_jobs : int, optional
        Processes; what is timed runs alone.
    verbose : bool
        Show progress on standard error.
    """
    plan = _Plan(experiment, results)
    with _turn(store, plan.key):
        return _run_plan(plan, store, n_jobs, verbose)


@contextmanager
def _turn(store: Store, key: str) -> Iterator[None]:
    """Wait until no other run finds the same numbers, and then read what it has found: times want an idle machine."""
    while (claim := store.claim(key)) is None:
        time.sleep(POLL)
    try:
        store.refresh()
        yield
    finally:
        store.release(claim)


def _run_plan(plan: _Plan, store: Store, n_jobs: int | None, verbose: bool) -> Studies:
    """Do what is missing, and collect all."""
    alone, together = plan.sweep(timed=True), [*plan.sweep(timed=False), *plan.fits(), *plan.views()]
    missing = sum(job.key not in store for job in [*alone, *together])
    errors: dict[str, str] = {}
    with Progress(missing, "Figures") if verbose and missing else Quiet() as progress:
        for jobs, processes in ((alone, 1), (together, n_jobs)):
            for job, error in _run(jobs, plan.experiment, store, processes):
                if error:
                    errors[job.key] = f"{job.words}: {error}"
                progress.step(job.words)
    return plan.collect(store, errors)


def _run(jobs: Sequence[_Job], experiment: Experiment, store: Store, n_jobs: int | None) -> Iterator[tuple[_Job, str]]:
    """Do the jobs whose rows the store lacks; errors in words."""
    by_key = {job.key: job for job in jobs if job.key not in store}
    arguments = [(experiment.X, experiment.y, job) for job in by_key.values()]
    for key, row, error in run_jobs(_do, arguments, n_jobs):
        if row is not None:
            store.append(key, row)
        yield by_key[key], error


def _do(X: np.ndarray, y: np.ndarray, job: _Job) -> tuple[str, dict[str, Any] | None, str]:
    """One job: its row, or its error."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # a study passes through poor parameters; the table's own warnings are kept there
        try:
            return job.key, job.find(X, y, *job.split, **job.options), ""
        except Exception as error:  # one point that fails must not cost the user the other figures
            return job.key, None, f"{type(error).__name__}: {error}"


class _Plan:
    """Which studies an experiment asks for, and what their rows mean."""

    def __init__(self, experiment: Experiment, results: Results | None) -> None:
        self.experiment = experiment
        self.classes, self.labels = np.unique(experiment.y, return_inverse=True)
        self._params = {} if results is None else {c.split: c.params for c in results.cells if c.method == LEARNED}
        self._data = experiment.digest
        self.key = f"figures-{self._data[:24]}"
        self._points: dict[str, tuple[str, int | str, int]] = {}
        self._fits: dict[str, int] = {}
        self._views: list[str] = []

    def _job(self, words: str, find: Callable[..., dict[str, Any]], draw: int, options: dict[str, Any]) -> _Job:
        split = self.experiment.splits[draw]
        learner = METHODS[f"SPDSL-{METRICS[options.get('metric', 'lem')]}"]
        said = {
            "study": find.__name__,
            "version": (STUDY_VERSION, RESULT_VERSION),
            "data": self._data,
            "learner": not_default(unfitted(learner, options["m"], SEED)),
            **options,
        }
        text = json.dumps({name: repr(value) for name, value in said.items()}, sort_keys=True).encode()
        indices = b"/".join(np.asarray(part, np.int64).tobytes() for part in split)
        return _Job(hashlib.sha256(text + b"/" + indices).hexdigest()[:32], words, find, split, options)

    def sweep(self, *, timed: bool) -> list[_Job]:
        """The fits over v_b on the first draw, where they are timed, or on further ones."""
        draws = range(len(self.experiment.splits))[:SWEEP_DRAWS]
        jobs = []
        for draw in draws[:1] if timed else draws[1:]:
            for metric, name in METRICS.items():
                for count in self._counts(metric, draw):
                    options = {"metric": metric, "n_between": count, "m": self.experiment.n_components}
                    job = self._job(f"{name}, v_b = {count}", sweep_row, draw, options)
                    self._points[job.key] = (name, count, draw)
                    jobs.append(job)
        return jobs

    def _counts(self, metric: str, draw: int) -> list[int | str]:
        """Values of v_b that differ on this training part, and that the metric can afford."""
        labels = self.labels[self.experiment.splits[draw][0]]
        sizes = np.unique(labels, return_counts=True)[1]
        N, n = len(labels), self.experiment.X.shape[-1]
        counts = [v for v in BETWEEN if v == "all" or (isinstance(v, int) and v < N - sizes.min())]
        if metric == "lem":
            return counts
        if N**2 / 2 * n**3 > MAX_SURVEY:
            return []
        within = int(np.sum(sizes * (sizes - 1)) // 2)
        most = {v: N * (N - 1) // 2 if isinstance(v, str) else within + N * v for v in counts}
        return [v for v in counts if most[v] <= MAX_PAIRS]

    def fits(self) -> list[_Job]:
        """SPDSL-LEM with the parameters of the table on every draw."""
        jobs = [self._job(f"draw {k + 1}", fit_row, k, self._options(k)) for k in range(len(self.experiment.splits))]
        self._fits = {job.key: k for k, job in enumerate(jobs)}
        return jobs

    def views(self) -> list[_Job]:
        """The samples of the first draw's test part."""
        job = self._job("before and after", view_row, 0, self._options(0))
        self._views = [job.key]
        return [job]

    def _options(self, draw: int) -> dict[str, Any]:
        return {"params": dict(self._params.get(draw, {})), "m": self.experiment.n_components}

    def collect(self, store: Store, errors: dict[str, str]) -> Studies:
        """What the store now holds of the plan."""
        points = [SweepPoint(*place, **store[key]) for key, place in self._points.items() if key in store]
        fits = [fit_from_row(draw, store[key]) for key, draw in self._fits.items() if key in store]
        views = [view_from_row(store[key]) for key in self._views if key in store]
        return Studies(
            [str(name) for name in self.classes], points, fits, next(iter(views), None), list(errors.values())
        )


# ---------------------------------------------------------------------------------------------------------------- studies


def sweep_row(
    X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, *, metric: str, n_between: int | str, m: int
) -> dict[str, Any]:
    """SPDSL with so many neighbours of other classes; v_w is the smallest class as in the paper, or all where v_b is."""
    model = unfitted(METHODS[f"SPDSL-{METRICS[metric]}"], m, SEED)
    model.set_params(n_between=n_between, n_within="all" if n_between == "all" else None).fit(X[train], y[train])
    seconds = [row["seconds"] for row in model.history_[1:]]
    return {
        "pairs": len(model.graph_),
        "accuracy": float(np.mean(model.predict(X[test]) == y[test])),
        "seconds": float(np.median(seconds)) if seconds else 0.0,
    }


def fit_row(
    X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, *, params: dict[str, Any], m: int
) -> dict[str, Any]:
    """Course of the objective, and which class was taken for which."""
    model = unfitted(METHODS[LEARNED], m, SEED).set_params(**params).fit(X[train], y[train])
    plain = SPDNearestNeighbor("lem").fit(X[train], y[train])
    classes = np.unique(y)
    counts = [_confusion(classes, y[test], found.predict(X[test])) for found in (plain, model)]
    return fit_to_row(Fit(0, [-row["value"] for row in model.history_], *counts))


def view_row(
    X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, *, params: dict[str, Any], m: int
) -> dict[str, Any]:
    """Test samples under the plain and under the learned distance."""
    classes, labels = np.unique(y, return_inverse=True)
    each = max(1, SHOWN // len(classes))
    by_class = [test[labels[test] == k][:each] for k in range(len(classes))]
    shown = np.concatenate(by_class)[:SHOWN]
    if len(shown) < FEWEST:
        raise ValueError(f"{len(shown)} test samples are too few for a picture; it takes {FEWEST}")
    model = unfitted(METHODS[LEARNED], m, SEED).set_params(**params).fit(X[train], y[train])
    spaces = [_space(d2, labels[shown]) for d2 in (pairwise_sqdist(X[shown], metric="lem"), model.sqdist(X[shown]))]
    return view_to_row(View(labels[shown], *spaces))


def _confusion(classes: np.ndarray, true: np.ndarray, found: np.ndarray) -> np.ndarray:
    counts = np.zeros((len(classes), len(classes)), int)
    np.add.at(counts, (np.searchsorted(classes, true), np.searchsorted(classes, found)), 1)
    return counts


def _space(d2: np.ndarray, labels: np.ndarray) -> Space:
    """Similarities, embedding and separation from squared distances (k, k)."""
    upper = np.triu_indices(len(d2), 1)
    scale = max(float(np.quantile(d2[upper], 0.1)), np.finfo(float).tiny)
    similarity = np.round(255 * np.exp(-d2 / scale)) / 255
    return Space(similarity, _embed(d2), _closer(d2[upper], (labels[:, None] == labels)[upper]))


def _closer(d2: np.ndarray, same: np.ndarray) -> float:
    """Share of (same-class pair, other pair) where the first is closer; ties count half."""
    from scipy.stats import rankdata  # slow to import

    few, many = int(np.sum(same)), int(np.sum(~same))
    if not few or not many:
        return 1.0
    return float((np.sum(rankdata(-d2)[same]) - few * (few + 1) / 2) / (few * many))


def _embed(d2: np.ndarray) -> np.ndarray:
    """t-SNE in the plane, started from classical scaling so that the same distances give the same picture."""
    from sklearn.manifold import TSNE  # slow to import

    k = len(d2)
    centred = d2 - d2.mean(axis=0) - d2.mean(axis=1)[:, None] + d2.mean()
    w, V = np.linalg.eigh(-centred / 2)
    start = V[:, [-1, -2]] * np.sqrt(np.maximum(w[[-1, -2]], 0))
    start = 1e-4 * start / max(float(np.std(start)), 1e-300)  # the width that the method starts with by itself
    perplexity = min(30.0, (k - 1) / 3)
    model = TSNE(metric="precomputed", init=start.astype(np.float32), perplexity=perplexity, random_state=SEED)
    return np.asarray(model.fit_transform(np.sqrt(d2)), float)
