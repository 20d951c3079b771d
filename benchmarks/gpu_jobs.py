"""Whole jobs on a CUDA device, at the sizes of the paper's sets: neighbors, fits, every method, a tuned table.

    python benchmarks/gpu_jobs.py                                   # everything that takes seconds, on one H200
    python benchmarks/gpu_jobs.py --steps table --limit 560         # the tuned table; again to go on where it ended
    python benchmarks/gpu_jobs.py --steps faces --limit 560         # the same at the size of the face set
    python benchmarks/gpu_jobs.py --device host --tiny              # without a card: that it runs

Matrices are synthetic: with structure in their classes, so that there is something to learn and to be near. Every step
has a limit of its own, and what is known is in `--out` at any moment: results.json, and the cells of the tables.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spdsl import METHODS, SPDNearestNeighbor, backend, regularize
from spdsl.datasets import Protocol
from spdsl.evaluation.cells import Experiment
from spdsl.evaluation.figure_data import find_figures
from spdsl.evaluation.methods import get_methods
from spdsl.evaluation.runner import run_experiment
from spdsl.evaluation.store import Store
from spdsl.evaluation.tables import write_outputs
from spdsl.geometry import METRICS

FRAMES = 60
OWN = 1.5  # of the directions of a class: the nearest neighbor under LEM is then right about as often as on HDM05
ALTERNATIVES = ("SPDSL", "TS+LDA", "TS+LR")  # fitted once beside the paper's rows


@dataclass(frozen=True)
class Size:
    """Samples of each class, how many train and test, and the sizes n and m of the matrices."""

    counts: tuple[int, ...]
    protocol: Protocol
    n: int
    m: int


MOTIONS = Size((*(18,) * 128, 17, 16), Protocol(draws=1), 93, 30)  # as HDM05: 1168 + 1169
FACES = Size((9,) * 47, Protocol(3, 6, 1), 401, 40)  # as YTC: 141 + 282
SMALL = Size((12,) * 8, Protocol(draws=1), 40, 12)
TINY = Size((6,) * 4, Protocol(draws=1), 12, 4)


def make_classes(size: Size, seed: int = 0) -> Experiment:
    """Covariances of frames that move along a few directions of their class, and along some of their own."""
    rng = np.random.default_rng(seed)
    scale, X, y = np.geomspace(1, 0.03, size.n), [], []
    for label, count in enumerate(size.counts):
        common = rng.standard_normal((size.n, 12)) * scale[:, None]
        for _ in range(count):
            own = common + OWN * rng.standard_normal(common.shape) * scale[:, None]
            F = own @ rng.standard_normal((12, FRAMES)) + 0.5 * scale[:, None] * rng.standard_normal((size.n, FRAMES))
            X.append(F @ F.T / FRAMES)
            y.append(label)
    labels = np.array(y)
    splits = list(size.protocol.splits(labels, 0))
    name = f"{len(X)} x {size.n} x {size.n}"
    return Experiment(
        f"synthetic-{size.n}", name, "Synthetic.", regularize(np.array(X)), labels, splits, "one draw", size.m
    )


class OutOfTimeError(BaseException):
    """A step has used its time; no handler of ordinary errors may take it for one."""


class Notes:
    """Results by step, printed as they come, and on disk at any moment."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "results.json"
        self.found: dict[str, Any] = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.began = time.perf_counter()

    def keep(self, step: str, **row: Any) -> None:
        """Add to the row of a step."""
        self.found[step] = self.found.get(step, {}) | row
        said = ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
        print(f"[{time.perf_counter() - self.began:6.1f} s] {step}: {said}", flush=True)
        self.path.write_text(json.dumps(self.found, indent=1) + "\n")

    @contextmanager
    def within(self, step: str, seconds: float) -> Iterator[None]:
        """Give a step so many seconds; what goes wrong in it is noted, and where it was."""

        def end(*_: Any) -> None:
            raise OutOfTimeError

        before, began = signal.signal(signal.SIGALRM, end), time.monotonic()
        outer = signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.01))[0]
        try:
            yield
        except OutOfTimeError as error:
            place = [f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
            self.keep(step, ended=f"out of time after {seconds:.0f} s, in {' > '.join(place[-6:])}")
        except Exception as error:
            traceback.print_exc()
            self.keep(step, failed=f"{type(error).__name__}: {error}")
        finally:
            left = max(outer - (time.monotonic() - began), 0.01) if outer else 0.0
            signal.signal(signal.SIGALRM, before)
            signal.setitimer(signal.ITIMER_REAL, left)


class ToldStore(Store):
    """A store that says what it is given."""

    def append(self, key: str, row: Any) -> bool:
        if "method" in row:
            spent = [row[name] for name in ("tune_seconds", "fit_seconds", "predict_seconds")]
            print(
                f"    {row['method']:14} accuracy {100 * row['accuracy']:5.1f}, seconds to tune {spent[0]:.1f}, "
                f"fit {spent[1]:.1f}, predict {spent[2]:.1f}",
                flush=True,
            )
        return super().append(key, row)


@dataclass(frozen=True)
class Bench:
    """What every step is given."""

    device: str | None
    tiny: bool
    notes: Notes
    limit: float
    out: Path
    methods: list[str]

    def clocked(self, work: Callable[[], Any]) -> tuple[float, Any]:
        """Seconds until the device is done, and the result."""
        began = time.perf_counter()
        result = work()
        if self.device not in (None, "cpu"):
            import torch

            torch.cuda.synchronize()
        return time.perf_counter() - began, result


# ------------------------------------------------------------------------------------------------------------ the steps


def neighbors(bench: Bench, e: Experiment) -> None:
    """NN-AIM with bounds and by all pairs."""
    train, test = e.splits[0]
    X, T, y = e.X[train], e.X[test], e.y[train]
    aim, share = METRICS["aim"], [0]
    for k in ("first", "second"):
        seconds, (d2, nearest) = bench.clocked(
            lambda: SPDNearestNeighbor("aim", device=bench.device).fit(X, y).kneighbors(T)
        )
        bench.notes.keep("NN-AIM with bounds (<= 2 s)", **{f"{k} seconds": seconds})
    kind, matched = type(aim), type(aim).matched

    def counted(self: Any, FA: Any, i: Any, FB: Any, j: Any) -> Any:
        share[0] += len(i)
        return matched(self, FA, i, FB, j)

    kind.matched = counted
    try:
        SPDNearestNeighbor("aim", device=bench.device).fit(X, y).kneighbors(T)
    finally:
        kind.matched = matched
    bench.notes.keep("NN-AIM with bounds (<= 2 s)", share=share[0] / (len(X) * len(T)))

    def all_pairs() -> np.ndarray:
        A, B = (aim.factor(backend.to_device(part, bench.device)) for part in (T, X))
        return backend.to_numpy(aim.cross(A, B))

    seconds, full = bench.clocked(all_pairs)
    same = bool(np.array_equal(full.argmin(axis=1), nearest[:, 0]))
    gap = float(np.abs(full.min(axis=1) - d2[:, 0]).max())
    bench.notes.keep("NN-AIM by all pairs", seconds=seconds, **{"same neighbors": same, "largest difference": gap})


def one_fit(bench: Bench, e: Experiment, name: str, wanted: str) -> None:
    """A fit of a method without tuning, its iterations apart from its graph, and the prediction."""
    train, test = e.splits[0]
    title = f"{name}, {wanted}"
    for k in ("first", "second"):
        model = METHODS[name].unfitted(e.n_components, 0, bench.device)
        fit, _ = bench.clocked(lambda model=model: model.fit(e.X[train], e.y[train]))
        predict, labels = bench.clocked(lambda model=model: model.predict(e.X[test]))
        row = {f"{k} fit": fit, f"{k} prediction": predict}
        history = getattr(model, "history_", None)
        if history:
            spent = sum(line["seconds"] for line in history)
            row |= {"iterations": len(history) - 1, "in iterations": spent, "graph and start": fit - spent}
        bench.notes.keep(title, **row, accuracy=float(np.mean(labels == e.y[test])))


def agree(bench: Bench, e: Experiment) -> None:
    """Every method once on the host and on the device, on a small set: predictions that differ."""
    train, test = e.splits[0]
    for method in chosen(bench):
        with bench.notes.within(f"{method.name} on a small set", min(60, bench.limit)):
            found, seconds = [], []
            for device in (None, bench.device):
                model = method.unfitted(e.n_components, 0, device).fit(e.X[train], e.y[train])
                took, labels = bench.clocked(lambda model=model: np.asarray(model.predict(e.X[test])))
                found.append(labels)
                seconds.append(took)
            differ = int(np.sum(found[0] != found[1]))
            bench.notes.keep(f"{method.name} on a small set", **{"predictions that differ": differ, "of": len(test)})


def rows(bench: Bench, e: Experiment) -> None:
    """Every method fitted once without tuning, at full size."""
    for method in chosen(bench):
        with bench.notes.within(f"{method.name}, untuned", min(90, bench.limit)):
            once(bench, e, method)


def once(bench: Bench, e: Experiment, method: Any) -> None:
    train, test = e.splits[0]
    model = method.unfitted(e.n_components, 0, bench.device)
    fit, _ = bench.clocked(lambda: model.fit(e.X[train], e.y[train]))
    predict, labels = bench.clocked(lambda: model.predict(e.X[test]))
    accuracy = float(np.mean(labels == e.y[test]))
    bench.notes.keep(f"{method.name}, untuned", fit=fit, prediction=predict, accuracy=accuracy)


def table(bench: Bench, e: Experiment, step: str) -> None:
    """What `spdsl reproduce` does for one draw, tuned with 5 folds: cells, tables, and the numbers of the figures."""
    store = ToldStore(bench.out / e.name)
    known, began = len(store), time.perf_counter()
    options: dict[str, Any] = {"device": bench.device, "n_jobs": 1 if bench.device else -1, "verbose": False}
    results = run_experiment(e, store, [method.name for method in paper(bench)], tuning="each", n_folds=5, **options)
    row = {cell.method: 100 * cell.accuracy for cell in results.cells if not cell.error}
    bench.notes.keep(step, accuracies=row, errors={c.method: c.error for c in results.cells if c.error})
    spent = time.perf_counter() - began
    bench.notes.keep(step, **{"cells known before": known, "wall now": spent, "of the methods": results.seconds})
    write_outputs(results, store.folder)
    seconds, _ = bench.clocked(lambda: find_figures(e, store, results, device=bench.device, n_jobs=-1, verbose=False))
    bench.notes.keep(step, **{"numbers of the figures": seconds})


def paper(bench: Bench) -> list[Any]:
    """The paper's methods, or those asked for."""
    return get_methods(bench.methods or "paper")


def chosen(bench: Bench) -> list[Any]:
    """The paper's methods and the alternatives, or those asked for."""
    return paper(bench) if bench.methods else [*get_methods("paper"), *get_methods(list(ALTERNATIVES))]


STEPS: dict[str, Callable[[Bench], None]] = {
    "neighbors": lambda bench: neighbors(bench, make_classes(TINY if bench.tiny else MOTIONS)),
    "fit": lambda bench: one_fit(bench, make_classes(TINY if bench.tiny else MOTIONS), "SPDSL-AIM", "fit <= 3 s"),
    "coding": lambda bench: one_fit(bench, make_classes(TINY if bench.tiny else MOTIONS), "RSR", "both <= 4 s"),
    "spdml": lambda bench: one_fit(bench, make_classes(TINY if bench.tiny else MOTIONS), "SPDML-AIM", "works"),
    "agree": lambda bench: agree(bench, make_classes(TINY if bench.tiny else SMALL)),
    "rows": lambda bench: rows(bench, make_classes(TINY if bench.tiny else MOTIONS)),
    "table": lambda bench: table(
        bench, make_classes(TINY if bench.tiny else MOTIONS), "table, size of HDM05 (<= 8 min)"
    ),
    "faces": lambda bench: table(bench, make_classes(TINY if bench.tiny else FACES), "table, size of YTC (<= 10 min)"),
}
QUICK = ("neighbors", "fit", "coding", "spdml", "agree", "rows")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help='"host" is NumPy on the CPU')
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=QUICK)
    parser.add_argument("--methods", nargs="+", default=[], help="of the rows and tables; by default the paper's")
    parser.add_argument("--limit", type=float, default=560.0, help="seconds for all steps together")
    parser.add_argument("--out", type=Path, default=Path("build/gpu-jobs"))
    arguments = parser.parse_args()
    faulthandler.enable()
    arguments.out.mkdir(parents=True, exist_ok=True)
    notes, ends = Notes(arguments.out), time.monotonic() + arguments.limit
    device = None if arguments.device == "host" else arguments.device
    notes.keep("machine", **machine(device))
    warnings.simplefilter("ignore")
    for name in arguments.steps:
        left = ends - time.monotonic()
        bench = Bench(device, arguments.tiny, notes, left, arguments.out, arguments.methods)
        print(f"--- {name}, {left:.0f} s left", flush=True)
        with notes.within(f"step {name}", left):
            STEPS[name](bench)


def machine(device: str | None) -> dict[str, Any]:
    """The device and the versions; on CUDA also the seconds that its first use takes."""
    found: dict[str, Any] = {"device": device or "host", "numpy": np.__version__, "cores": backend.threads()}
    if device not in (None, "cpu"):
        import cupy
        import torch

        began = time.perf_counter()
        backend.eigh(torch.eye(40, dtype=torch.float64, device=device).repeat(64, 1, 1))
        torch.linalg.cholesky(torch.eye(40, dtype=torch.float64, device=device))
        torch.cuda.synchronize()
        found |= {"name": torch.cuda.get_device_name(), "torch": torch.__version__, "cupy": cupy.__version__}
        found["first use"] = time.perf_counter() - began
    return found


if __name__ == "__main__":
    sys.exit(main())
