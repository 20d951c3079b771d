"""What many fits in one process leave behind: memory, threads, open files, child processes; and what an import costs.

python benchmarks/soak.py            # 1,000 fits
python benchmarks/soak.py --tiny
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np

import spdsl

IMPORT = """
import threading, time
began = time.perf_counter()
{}
print(time.perf_counter() - began, threading.active_count())
"""


def state() -> str:
    """Memory in MiB, threads, open files and child processes of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    memory = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    files, children = len(os.listdir("/proc/self/fd")), len(multiprocessing.active_children())
    return f"{memory:9.1f}{threading.active_count():9d}{files:7d}{children:10d}"


def one_fit(k: int, folder: Path) -> None:
    """A learner of one kind or another on fresh data, used, saved, read again."""
    rng = np.random.default_rng(k)
    A = rng.standard_normal((24, 12, 30))
    X, y = A @ A.mT / 30, np.arange(24) % 3
    kind, head = ((spdsl.SPDSL, "nn"), (spdsl.SPDML, "lda"), (spdsl.SPDSL, "svm"))[k % 3]
    metric = ("lem", "stein", "aim", "lem")[k % 4]
    model = kind(4, metric=metric, n_between=3, max_iter=12, checkpoint=folder / "state", classifier=head)
    model.fit(X, y)
    model.save(folder / "model")
    spdsl.load(folder / "model").predict(X)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=1000)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    fits = 12 if options.tiny else options.fits
    warnings.simplefilter("ignore")
    print(f"{'fits':>6}{'MiB':>9}{'threads':>9}{'files':>7}{'children':>10}{'seconds':>9}")
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for k in range(fits + 1):
            if k in (0, 1, fits // 10, fits // 2, fits):
                print(f"{k:6d}{state()}{time.perf_counter() - began:9.1f}")
            one_fit(k, Path(folder))
        print(f"files left by the fits: {', '.join(sorted(os.listdir(folder)))}")
    for line in ("import spdsl", "from spdsl import SPDSL"):
        command = [sys.executable, "-c", IMPORT.format(line)]
        times = [
            subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
            for _ in range(1 if options.tiny else 7)
        ]
        print(f"{line}: {min(float(t[0]) for t in times):.2f} s (best of {len(times)}), {times[0][1]} thread(s)")


if __name__ == "__main__":
    main()
