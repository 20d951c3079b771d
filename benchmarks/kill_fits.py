"""Kill a checkpointed fit at random moments (SIGKILL), go on, and compare the end with that of a fit left alone.

python benchmarks/kill_fits.py            # 10 kills
python benchmarks/kill_fits.py --tiny
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FIT = """
import sys, warnings
import numpy as np
import spdsl
warnings.simplefilter("ignore")
path, n, iterations = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = np.random.default_rng(0)
y = np.arange(120) % 6
A = rng.standard_normal((120, n, 2 * n)) * (1 + 0.5 * rng.random((6, n))[y])[:, :, None]
X = A @ A.mT / (2 * n)
model = spdsl.SPDSL(max(2, n // 4), tol=0.0, max_iter=iterations, checkpoint=path)
def report(row, W):
    print("at", row["iteration"], flush=True)
model.set_params(callback=report).fit(X, y)
print("ended", repr(model.cost_), flush=True)
"""


def run(path: Path, n: int, iterations: int, kill_at: int | None = None, delay: float = 0.0) -> list[str]:
    """The lines of one process, killed `delay` seconds after the line of iteration `kill_at`."""
    command = [sys.executable, "-c", FIT, str(path), str(n), str(iterations)]
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.strip())
            if lines[-1] == f"at {kill_at}":
                time.sleep(delay)
                process.kill()
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    kills, n, iterations = (2, 12, 60) if options.tiny else (options.kills, 60, 400)
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        whole = float(run(Path(folder) / "whole", n, iterations)[-1].split()[1])
        print(f"left alone: cost {whole!r} after {iterations} iterations")
        worst = 0.0
        for kill in range(kills):
            path = Path(folder) / f"killed-{kill}"
            killed = ["ended"]
            while killed[-1].startswith("ended"):  # the kill came too late: the fit had ended by then
                at, delay = rng.randrange(1, iterations - 20), rng.uniform(0, 0.02)
                killed = run(path, n, iterations, at, delay)
            resumed = run(path, n, iterations)
            difference = abs(float(resumed[-1].split()[1]) / whole - 1)
            worst = max(worst, difference)
            print(
                f"kill {kill + 1:2d} after iteration {killed[-1].split()[1]:>3}: went on with {resumed[0].split()[1]:>3}, "
                f"relative difference of the final cost {difference:.1e}; file left: {path.exists()}"
            )
        print(f"largest difference {worst:.1e}")


if __name__ == "__main__":
    main()
