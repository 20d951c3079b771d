"""Turn many files into one array: in parallel, with one stored result per file, which is reused."""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from spdsl.datasets.files import fingerprint
from spdsl.features.errors import FeatureError
from spdsl.features.images import frame_files
from spdsl.features.recipes import Recipe
from spdsl.models.files import written_whole

PART = re.compile(r"[0-9a-f]{24}\.npz")  # a fingerprint
_CV2_NO_MEMORY = -4  # cv2.Error.StsNoMem


@dataclass(frozen=True)
class Outcome:
    """What became of one sample: where its matrices are, a note for the report, or the error."""

    sample: Path
    part: Path
    note: str = ""
    error: str = ""
    fresh: bool = True  # False when it was found finished
    lasting: bool = False  # an error that lies in the file's content: trying again while it is unchanged is no use


Progress = Callable[[Outcome, int, int], None]  # outcome, how many are done, of how many


def extract(
    root: str | Path,
    samples: Sequence[Path],
    recipe: Recipe,
    store: str | Path,
    *,
    jobs: int = 1,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Apply a recipe to every sample, keeping each result in the folder `store` as soon as it is there.

    A sample that fails is reported in its outcome, and the others continue. Stored results of unchanged samples are
    reused, so that a killed run resumes where it stopped.

    Parameters
    ----------
    root : str or Path
        Folder of the dataset.
    samples : sequence of Path
        Files in it, relative to `root`.
    recipe : Recipe
        What to do with each.
    store : str or Path
        Folder for the results, one file a sample.
    jobs : int
        Worker processes; 1 works in this process. A script that asks for more needs `if __name__ == "__main__":`.
    progress : callable, optional
        Called with `(outcome, done, total)` after each sample.

    Returns
    -------
    list of Outcome, in the order of `samples`
    """
    if jobs < 1:
        raise ValueError(f"jobs={jobs} is out of range: it must be at least 1")
    root, store = Path(root), Path(store)
    store.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(store)
    parts = {sample: store / f"{fingerprint(root, sample, recipe)}.npz" for sample in samples}
    outcomes: dict[Path, Outcome] = {}

    def record(outcome: Outcome) -> None:
        outcomes[outcome.sample] = outcome
        if progress is not None:
            progress(outcome, len(outcomes), len(parts))

    pending = []
    for sample, part in parts.items():
        note = _finished(part)
        if note is None:
            pending.append((root, sample, part, recipe))
        else:
            record(Outcome(sample, part, note, fresh=False))
    for outcome in _run_here(pending) if jobs == 1 else _run_pool(pending, jobs):
        record(outcome)
    return [outcomes[sample] for sample in parts]


Task = tuple[Path, Path, Path, Recipe]


def _do(task: Task) -> Outcome:
    """One sample, in whichever process: compute, write, and never raise."""
    root, sample, part, recipe = task
    try:
        matrices, note = recipe(root / sample)
        with written_whole(part, durable=False) as file:
            np.savez(file, X=matrices, note=np.array(note))
        return Outcome(sample, part, note)
    except ImportError:
        raise  # a missing library concerns every file alike
    except MemoryError:
        return Outcome(sample, part, error=f"{root / sample}: out of memory")
    except Exception as error:
        message = str(error) or type(error).__name__
        message = message if str(sample.name) in message else f"{root / sample}: {message}"
        return Outcome(sample, part, error=message, lasting=_lies_in_content(error, root / sample))


def _lies_in_content(error: BaseException, path: Path) -> bool:
    """Whether a failure is the content's fault, and not that of permissions, the disk or the memory at that moment."""
    if not isinstance(error, FeatureError):
        return False
    behind: BaseException | None = error
    while behind is not None:
        if isinstance(behind, (OSError, MemoryError)) or getattr(behind, "code", None) == _CV2_NO_MEMORY:
            return False
        behind = behind.__cause__ or behind.__context__
    try:  # OpenCV says of a file it may not read only that it cannot open it
        for file in frame_files(path) if path.is_dir() else [path]:
            with open(file, "rb") as opened:
                opened.read(1)
    except OSError:
        return False
    return True


def _finished(part: Path) -> str | None:
    """The note of a finished result, None when there is none that can be read."""
    try:
        with np.load(part, allow_pickle=False) as saved:
            X = saved["X"]
            whole = X.ndim in (3, 4) and X.shape[-2] == X.shape[-1] and X.dtype.kind == "f"
            return str(saved["note"]) if whole else None
    except Exception:  # missing, or damaged by something else than us: do it again
        return None


def _remove_leftovers(store: Path) -> None:
    """Temporary files of a run that was killed; those of a run beside this one are younger than a minute."""
    for path in store.glob(".*.tmp"):
        try:
            if time.time() - path.stat().st_mtime > 60:
                path.unlink()
        except OSError:
            continue


# --------------------------------------------------------------------------------------------------------- processes


def _run_here(tasks: Sequence[Task]) -> Iterator[Outcome]:
    return map(_do, tasks)


def _run_pool(tasks: Sequence[Task], jobs: int) -> Iterator[Outcome]:
    """Outcomes as they come. A sample that takes its worker process down is found by trying the suspects one by one."""
    waiting = list(reversed(tasks))
    suspects: list[Task] = []
    while waiting:
        started = False
        running: dict[Future[Outcome], Task] = {}
        with _pool(jobs) as pool:
            try:
                pool.submit(_nothing).result()
                started = True
                while waiting or running:
                    while (
                        waiting and len(running) < 2 * jobs
                    ):  # a short queue: what is lost with a dead worker is little
                        running[pool.submit(_do, waiting[-1])] = waiting[-1]
                        waiting.pop()
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        yield future.result()
                        del running[future]
            except BrokenProcessPool:
                if not started:  # the workers die before they see a file, so no file is to blame
                    raise RuntimeError(
                        "the worker processes do not start, most likely because each of them runs the calling script "
                        "again; put the call under `if __name__ == '__main__':`, or use jobs=1"
                    ) from None
                suspects += running.values()
    for task in suspects:
        with _pool(1) as pool:
            try:
                yield pool.submit(_do, task).result()
            except BrokenProcessPool:
                root, sample, part, _ = task
                yield Outcome(
                    sample, part, error=f"{root / sample}: reading it crashed the process; the file may be damaged"
                )


def _nothing() -> None:
    """What a worker does first, to show that it has started."""


def _pool(jobs: int) -> ProcessPoolExecutor:
    # spawn: a fork would copy the threads of BLAS and OpenCV in an undefined state
    return ProcessPoolExecutor(
        jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker, initargs=(os.getpid(),)
    )


def _start_worker(parent: int) -> None:
    """One thread a worker, since the workers are the parallelism; and no worker outlives its parent."""
    try:
        import cv2

        cv2.setNumThreads(1)
    except ImportError:
        pass  # recipes that need it will say so
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def _follow(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


# ------------------------------------------------------------------------------------------------------------ the stack


def common_shape(outcomes: Sequence[Outcome]) -> tuple[list[Outcome], list[Outcome]]:
    """Split outcomes into those of the most frequent matrix size, and the rest, which get an error that says so."""
    shapes = {o.sample: _shape(o.part) for o in outcomes if not o.error}
    if not shapes:
        return [], list(outcomes)
    sizes = [shape[1:] for shape in shapes.values()]
    usual = max(sorted(set(sizes)), key=sizes.count)
    good, bad = [], [o for o in outcomes if o.error]
    for o in outcomes:
        if o.error:
            continue
        size = shapes[o.sample][1:]
        if size == usual:
            good.append(o)
        else:
            error = f"{o.sample}: {_times(size)}, but most of the others are {_times(usual)}"
            bad.append(Outcome(o.sample, o.part, error=error, lasting=True))
    return good, bad


def _times(size: tuple[int, ...]) -> str:
    return " x ".join(map(str, size))


def write_stack(file: IO[bytes], outcomes: Sequence[Outcome]) -> list[int]:
    """Write all samples (N, n, n) or (N, b, n, n) to an open file in NPY format, part by part; returns how many each has."""
    shapes = [_shape(outcome.part) for outcome in outcomes]
    counts = [shape[0] for shape in shapes]
    header = {
        "descr": "<f8",
        "fortran_order": False,
        "shape": (sum(counts), *(shapes[0][1:] if shapes else (0, 0))),
    }
    np.lib.format.write_array_header_1_0(file, header)
    for outcome in outcomes:
        with np.load(outcome.part, allow_pickle=False) as saved:
            file.write(np.ascontiguousarray(saved["X"], dtype="<f8").tobytes())
    return counts


def _shape(part: Path) -> tuple[int, ...]:
    """(k, n, n) or (k, b, n, n) of a result, from its header alone."""
    with zipfile.ZipFile(part) as archive, archive.open("X.npy") as member:
        np.lib.format.read_magic(member)
        shape: tuple[int, ...] = np.lib.format.read_array_header_1_0(member)[0]
    return shape


def restore_parts(
    store: Path, X: np.ndarray, parts: Sequence[str], counts: Sequence[int], notes: Sequence[str]
) -> None:
    """Put the rows of a finished stack back into a store, so that a dataset that grew costs only what is new.

    Names that are not of our making could lead out of the folder: nothing is taken from a file that holds one.
    """
    if not all(isinstance(name, str) and PART.fullmatch(name) for name in parts):
        return
    store.mkdir(parents=True, exist_ok=True)
    at = 0
    for name, count, note in zip(parts, counts, notes, strict=True):
        if not (store / name).exists():
            with written_whole(store / name, durable=False) as file:
                np.savez(file, X=X[at : at + count], note=np.array(note))
        at += count


def discard(store: Path) -> None:
    """Remove a store whose results have been stacked."""
    shutil.rmtree(store, ignore_errors=True)
