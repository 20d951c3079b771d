"""The numbers behind the figures: neighbors against accuracy and time, test samples before and after learning.

What the table's own cells hold (objective, predictions) is drawn from them; nothing is fitted twice.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from spdsl.estimators import pairwise_sqdist
from spdsl.evaluation.cells import LEARNED, RESULT_VERSION, SEED, Cells, Experiment, Settings, cell_of, unpack
from spdsl.evaluation.identity import told
from spdsl.evaluation.jobs import Job, key_of, run_jobs
from spdsl.evaluation.methods import METHODS
from spdsl.evaluation.results import Results
from spdsl.evaluation.runner import jobs_on
from spdsl.evaluation.store import Store
from spdsl.learning.progress import Progress, Quiet

FORMAT = 2
METRICS = {"lem": "LEM", "aim": "AIM", "stein": "Stein"}
BETWEEN: tuple[int | str, ...] = (*range(1, 9), 20, 100, "all")  # the paper's Fig. 6
SWEEP_DRAWS = 3  # over which accuracies are averaged; one draw of few samples says little
MAX_PAIRS = 4096  # under AIM and Stein every pair costs a factorization in every iteration
MAX_SURVEY = 1e11  # and finding neighbors costs N^2/2 factorizations of n x n matrices, n^3 each
SHOWN = 300  # test samples in the similarity matrices and embeddings
FEWEST = 8  # below which these show nothing


@dataclass(frozen=True)
class SweepPoint:
    """SPDSL with v_b = `n_between` ("all" is the full graph): accuracy, and median seconds of an iteration."""

    metric: str
    n_between: int | str
    draw: int
    accuracy: float
    seconds: float


@dataclass(frozen=True)
class Space:
    """Test samples of the first draw under a distance.

    `similarity` is exp(-d2 / s) (k, k) in 256 levels, s the tenth percentile of d2, so that the nearest pairs stand out
    whatever the scale of the distance; `embedding` (k, 2) keeps near ones near (t-SNE); `closer` is how often two samples
    of a class are closer than two of different classes.
    """

    similarity: np.ndarray
    embedding: np.ndarray
    closer: float


@dataclass(frozen=True)
class Samples:
    """The samples shown, sorted by class (`labels`: places in `FigureData.classes`), before and after learning."""

    labels: np.ndarray
    before: Space
    after: Space


@dataclass(frozen=True)
class FigureData:
    """All of them. `missing` says what could not be found, and why."""

    classes: list[str]
    sweep: list[SweepPoint] = field(default_factory=list)
    samples: Samples | None = None
    missing: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        """All of it as JSON."""
        content = {
            "spdsl-figures": FORMAT,
            "classes": self.classes,
            "sweep": [asdict(point) for point in self.sweep],
            "samples": None if self.samples is None else samples_to_row(self.samples),
            "missing": self.missing,
        }
        return json.dumps(content, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> FigureData:
        """The numbers from `to_json`, or a ValueError that says what is wrong with the text."""
        try:
            content = json.loads(text)
            if content.pop("spdsl-figures") != FORMAT:
                raise ValueError("another version of spdsl wrote them")
            found = cls(
                content["classes"],
                [SweepPoint(**point) for point in content["sweep"]],
                None if content["samples"] is None else samples_from_row(content["samples"]),
                content["missing"],
            )
            found._check()
            return found
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError, zlib.error) as error:
            raise ValueError(f"not figures of spdsl, or edited ({error}); run `spdsl reproduce` again") from None

    def _check(self) -> None:
        """Raise a ValueError where the numbers are not those of a run."""
        texts = [*self.classes, *self.missing]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("a name is not a text")
        for point in self.sweep:
            figures = (point.accuracy, point.seconds)
            counts = isinstance(point.draw, int) and (point.n_between == "all" or isinstance(point.n_between, int))
            if (
                not counts
                or point.metric not in METRICS.values()
                or not all(isinstance(x, int | float) for x in figures)
            ):
                raise ValueError("a point of the sweep is damaged")
        if self.samples is not None and self.samples.labels.max(initial=-1) >= len(self.classes):
            raise ValueError("a sample of a class that is not there")


def samples_to_row(samples: Samples) -> dict[str, Any]:
    """Samples as plain JSON values."""
    return {
        "labels": samples.labels.tolist(),
        "before": _space_row(samples.before),
        "after": _space_row(samples.after),
    }


def samples_from_row(row: dict[str, Any]) -> Samples:
    """The samples again."""
    labels = np.array(row["labels"], int)
    if labels.ndim != 1 or not len(labels) or labels.min() < 0:
        raise ValueError("labels of samples are damaged")
    return Samples(labels, _read_space(row["before"], len(labels)), _read_space(row["after"], len(labels)))


def _space_row(space: Space) -> dict[str, Any]:
    """Similarities packed: a matrix of 300 x 300 numbers in words would fill half a megabyte."""
    levels = np.round(255 * space.similarity).astype(np.uint8)
    packed = base64.b64encode(zlib.compress(levels.tobytes(), 9)).decode()
    return {"similarity": packed, "embedding": np.round(space.embedding, 3).tolist(), "closer": space.closer}


def _read_space(row: dict[str, Any], k: int) -> Space:
    levels = np.frombuffer(zlib.decompress(base64.b64decode(row["similarity"])), np.uint8)
    embedding = np.array(row["embedding"], float)
    if embedding.shape != (k, 2) or not np.isfinite(embedding).all() or not 0 <= row["closer"] <= 1:
        raise ValueError("the embedding of samples is damaged")
    return Space(levels.reshape(k, k) / 255, embedding, row["closer"])


# ----------------------------------------------------------------------------------------------------------- finding them


def find_figures(
    experiment: Experiment,
    store: Store,
    results: Results,
    *,
    sweep: bool = True,
    device: str | None = None,
    n_jobs: int | None = -1,
    verbose: bool = True,
) -> FigureData:
    """Find what the figures need beside the cells of the table; what the store holds is not found again.

    Parameters
    ----------
    experiment : Experiment
    store : Store
        With the cells of `results`.
    results : Results
    sweep : bool
        Fit SPDSL with many numbers of neighbors on the first draws, which can take as long as the table.
    device : str, optional
        Device of these fits, in this process, one after the other.
    n_jobs : int, optional
        Processes; what is timed runs alone.
    verbose : bool
        Show progress on standard error.
    """
    n_jobs = jobs_on(device, n_jobs)
    plan = _Plan(experiment, store, results, sweep, device)
    jobs = [job for wave in plan.waves for job in wave]
    missing = len({job.key for job in jobs if job.key not in store})
    points: dict[str, SweepPoint] = {}
    samples, errors = None, []
    with Progress(missing, "Figures") if verbose and missing else Quiet() as progress:
        for wave, processes in zip(plan.waves, (1, n_jobs), strict=True):
            known = {job.key for job in wave if job.key in store}
            for done in run_jobs(wave, store, n_jobs=processes):
                words = plan.words[done.key]
                if done.error:
                    errors.append(f"{words}: {done.error}")
                elif done.key in plan.points:
                    points[done.key] = plan.point(done)
                else:
                    samples = samples_from_row(done.row)
                if done.key not in known:
                    progress.step(words)
    return FigureData(results.classes, [points[key] for key in plan.points if key in points], samples, errors)


class _Plan:
    """Which jobs the figures of a run ask for, and what their rows mean."""

    def __init__(
        self, experiment: Experiment, store: Store, results: Results, sweep: bool, device: str | None = None
    ) -> None:
        self.experiment = experiment
        self.cells = Cells(experiment, Settings("none", seed=SEED, device=device))
        self.labels = np.unique(experiment.y, return_inverse=True)[1]
        self.words: dict[str, str] = {}
        self.points: dict[str, tuple[str, int | str, int]] = {}
        draws = range(len(experiment.splits))[:SWEEP_DRAWS] if sweep else range(0)
        timed = [self._point(draw, *place) for draw in draws[:1] for place in self._places(draw)]
        others = [self._point(draw, *place) for draw in draws[1:] for place in self._places(draw)]
        self.waves = [timed, [*others, *self._samples(store, results)]]

    def _places(self, draw: int) -> Iterator[tuple[str, int | str]]:
        return ((metric, count) for metric in METRICS for count in self._counts(metric, draw))

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

    def _point(self, draw: int, metric: str, count: int | str) -> Job:
        """A cell with so many neighbors of other classes; v_w is the smallest class as in the paper, or all where v_b is."""
        name = METRICS[metric]
        given = {"n_between": count, "n_within": "all" if count == "all" else None}
        job = self.cells.job(METHODS[f"SPDSL-{name}"], draw, given)
        self.points[job.key] = (name, count, draw)
        self.words[job.key] = f"{name}, v_b = {count}"
        return job

    def point(self, done: Any) -> SweepPoint:
        """What a cell of the sweep says."""
        name, count, draw = self.points[done.key]
        cell = cell_of(done, f"SPDSL-{name}", draw)
        seconds = [spent for _, spent in cell.history[1:]]
        return SweepPoint(name, count, draw, cell.accuracy, float(np.median(seconds)) if seconds else 0.0)

    def _samples(self, store: Store, results: Results) -> list[Job]:
        """The samples of the first draw's test part, under the W of the table's cell."""
        key = next((c.key for c in results.cells if c.method == LEARNED and c.split == 0 and not c.error), "")
        if key not in store or "components" not in store[key]:
            return []
        e = self.experiment
        content = {"samples": key, "version": RESULT_VERSION, "data": self.cells.data, "test": told(e.splits[0][1])}
        job = Job(key_of(content), find_samples, (e.X, self.labels, e.splits[0][1], store[key]["components"]))
        self.words[job.key] = "before and after"
        return [job]


def find_samples(X: np.ndarray, labels: np.ndarray, test: np.ndarray, components: dict[str, Any]) -> dict[str, Any]:
    """Test samples under the plain and under the learned distance: a row."""
    each = max(1, SHOWN // (int(labels.max()) + 1))
    shown = np.concatenate([test[labels[test] == k][:each] for k in np.unique(labels)])[:SHOWN]
    if len(shown) < FEWEST:
        raise ValueError(f"{len(shown)} test samples are too few for a picture; it takes {FEWEST}")
    W = unpack(components)
    reduced = W.T @ X[shown] @ W
    spaces = [space_of(pairwise_sqdist(P, metric="lem"), labels[shown]) for P in (X[shown], (reduced + reduced.mT) / 2)]
    return samples_to_row(Samples(labels[shown], *spaces))


def space_of(d2: np.ndarray, labels: np.ndarray) -> Space:
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
    centered = d2 - d2.mean(axis=0) - d2.mean(axis=1)[:, None] + d2.mean()
    w, V = np.linalg.eigh(-centered / 2)
    start = V[:, [-1, -2]] * np.sqrt(np.maximum(w[[-1, -2]], 0))
    start = 1e-4 * start / max(float(np.std(start)), 1e-300)  # the width that the method starts with by itself
    perplexity = min(30.0, (k - 1) / 3)
    model = TSNE(metric="precomputed", init=start.astype(np.float32), perplexity=perplexity, random_state=SEED)
    return np.asarray(model.fit_transform(np.sqrt(d2)), float)
