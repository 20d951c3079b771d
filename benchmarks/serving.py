"""How long one prediction takes: a single matrix, or an image file, to its label.

    python benchmarks/serving.py                          # a minute or two
    python benchmarks/serving.py --before ../older/src    # beside another version, in turns
    python benchmarks/serving.py --tiny

Every version is measured in processes of its own, which take turns; a line gives median and 95 % quantile over all their
calls, in milliseconds. pyRiemann sees the same matrices. The process is held to `--threads` threads.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROUNDS = 2
SECONDS = 1.0  # that the calls of a contender may take in a round
SIZES = ((128, 100, 50), (401, 20, 30))  # size of the matrices, training matrices, calls a round
TINY = ((12, 20, 3),)
Contender = tuple[str, Callable[[], Any], int]  # name, one prediction, calls a round


def contenders(sizes: tuple[tuple[int, int, int], ...], side: int, folder: Path) -> Iterator[Contender]:
    """What is measured of the installed version."""
    import numpy as np

    from spdsl import SPDSL

    rng = np.random.default_rng(0)
    for n, count, calls in sizes:
        y = np.arange(count) % 10
        maps = np.eye(n) + 0.3 / np.sqrt(n) * rng.standard_normal((10, n, n))
        frames = maps[y] @ rng.standard_normal((count, n, 2 * n))
        X = frames @ frames.swapaxes(1, 2) / (2 * n)
        for name, options in (("nearest neighbor", {"classifier": "nn"}), ("default classifier", {})):
            model = SPDSL(max_iter=5, **options).fit(X, y)
            yield f"{n} x {n}, SPDSL, {name}", lambda model=model, X=X: model.predict(X[:1]), calls
        for name, peer in peers():
            peer.fit(X, y)
            yield f"{n} x {n}, {name}", lambda peer=peer, X=X: peer.predict(X[:1]), calls
    yield from files(side, folder, 3 if side < 400 else 15)


def peers() -> list[tuple[str, Any]]:
    """pyRiemann's usual two, with means that are faster to find, since only predictions are measured."""
    from pyriemann.classification import MDM
    from pyriemann.tangentspace import TangentSpace
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    tangent = make_pipeline(TangentSpace({"mean": "logeuclid", "map": "riemann"}), LogisticRegression(max_iter=50))
    return [
        ("pyRiemann MDM", MDM({"mean": "logeuclid", "distance": "riemann"})),
        ("pyRiemann TangentSpace + LogisticRegression", tangent),
    ]


def files(side: int, folder: Path, calls: int) -> Iterator[Contender]:
    """From the file of an image to its label."""
    import cv2
    import numpy as np

    from spdsl import SPDSL
    from spdsl.features import material_covariance

    rng = np.random.default_rng(1)
    paths = [str(folder / f"{k}.png") for k in range(8)]
    for k, path in enumerate(paths):
        cv2.imwrite(path, cv2.GaussianBlur(rng.integers(0, 256, (side, side)).astype(np.uint8), (0, 0), 1 + k % 2))

    def features() -> Any:
        return material_covariance(paths[0], size=side)

    X = np.stack([material_covariance(path, size=side) for path in paths])
    for name, options in (("nearest neighbor", {"classifier": "nn"}), ("default classifier", {})):
        model = SPDSL(max_iter=5, **options).fit(X, np.arange(8) % 2)
        yield f"{side} x {side} image file to label, {name}", lambda m=model: m.predict(features()[None]), calls
    yield f"{side} x {side} image file to matrix", features, calls


def measure(sizes: tuple[tuple[int, int, int], ...], side: int) -> dict[str, Any]:
    """Seconds of every call, by contender; and predictions a second with several threads of the caller."""
    warnings.simplefilter("ignore")
    times: dict[str, list[float]] = {}
    rates: dict[str, dict[int, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, predict, calls in contenders(sizes, side, Path(folder)):
            once = min(timed(predict) for _ in range(3))
            calls = max(3, min(calls, int(SECONDS / once)))
            times[name] = [timed(predict) for _ in range(calls)]
            if "pyRiemann" not in name:
                rates[name] = {threads: rate(predict, threads, calls) for threads in (1, 2)}
    return {"times": times, "rates": rates}


def timed(function: Callable[[], Any]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def rate(function: Callable[[], Any], threads: int, calls: int) -> float:
    """Calls a second from several threads at a time."""
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: None, range(threads)))
        began = time.perf_counter()
        list(pool.map(lambda _: function(), range(calls)))
        return calls / (time.perf_counter() - began)


def measured(source: str | None, tiny: bool, threads: int) -> dict[str, Any]:
    """What a process says that uses the version in `source`."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = os.environ | dict.fromkeys(names, str(threads)) | ({"PYTHONPATH": source} if source else {})
    command = [sys.executable, __file__, "--worker", *(["--tiny"] if tiny else [])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the process that measures {source or 'the installed version'} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", help="sources of another version, a folder that holds spdsl/")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tiny", action="store_true", help="a run of a few seconds")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    sizes, side = (TINY, 48) if args.tiny else (SIZES, 400)
    if args.worker:
        print(json.dumps(measure(sizes, side)))
        return
    versions = {"now": None} | ({"before": args.before} if args.before else {})
    rounds = [
        {version: measured(source, args.tiny, args.threads) for version, source in versions.items()}
        for _ in range(1 if args.tiny else ROUNDS)
    ]
    import numpy as np

    def cell(version: str, name: str) -> str:
        values = 1e3 * np.concatenate([found[version]["times"][name] for found in rounds])
        return f"{np.median(values):.2f} ({np.quantile(values, 0.95):.2f})"

    print(f"| milliseconds, median (95 %), {args.threads} thread{'s'[: args.threads > 1]} | {' | '.join(versions)} |")
    print("|---|" + "---|" * len(versions))
    for name in rounds[0]["now"]["times"]:
        print(f"| {name} |", " | ".join(cell(version, name) for version in versions), "|")
    print("\n| predictions a second, caller's threads | 1 | 2 |\n|---|---|---|")
    for name in rounds[0]["now"]["rates"]:
        found = [[found["now"]["rates"][name][k] for found in rounds] for k in ("1", "2")]
        print(f"| {name} |", " | ".join(f"{np.median(values):.0f}" for values in found), "|")


if __name__ == "__main__":
    main()
