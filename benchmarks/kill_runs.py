"""Kill `spdsl reproduce --quick`, or `spdsl compare` of draws of groups, at random times, and resume.

The table at the end is compared with that of an uninterrupted run.

    python benchmarks/kill_runs.py [--compare] [--kills 20] [--seed 0] [--tiny]

Every second kill takes the whole process group, the others the parent alone, whose workers then outlive it for a moment
while the next run has already begun. A run that is through before its kill is compared and begun anew. Then two runs at
once share a store, twice: both left alone, and one of them killed.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from pathlib import Path

import numpy as np

from spdsl.datasets import load_digit_sets

QUICK = "NN-AIM,NN-Stein,NN-LEM,CDL,LEK-poly,LEK-gauss,SPDSL-LEM"
WAIT = 3600.0  # seconds after which a run is taken to hang


def start(folder: Path, options: list[str]) -> subprocess.Popen[bytes]:
    """The command in a process group of its own; killed workers leave their scratch files in a folder that goes away."""
    command = [sys.executable, "-m", "spdsl.cli", *options]
    if options[0] == "compare":
        command += ["--folder", str(folder), "-o", str(folder / "table.csv")]
    else:
        command += ["--quick", "--no-report", "-o", str(folder)]
    scratch = os.environ | {"JOBLIB_TEMP_FOLDER": str(folder.parent / "scratch")}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, start_new_session=True, env=scratch, **quiet)


def finish(process: subprocess.Popen[bytes]) -> None:
    if process.wait(WAIT):
        raise SystemExit(f"a run ended with exit code {process.returncode}")


def kill(process: subprocess.Popen[bytes], group: bool) -> None:
    if group:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def rows(folder: Path) -> Counter[str]:
    """How often each key is in the store, by whole lines with a right check-sum; read without the library."""
    path = folder / "store.jsonl"
    found: Counter[str] = Counter()
    for line in path.read_bytes().splitlines(keepends=True)[1:] if path.exists() else []:
        checksum, _, body = line.rstrip(b"\n").partition(b" ")
        if line.endswith(b"\n") and int(checksum, 16) == zlib.crc32(body):
            found[json.loads(body)["key"]] += 1
    return found


def doubled(found: Counter[str]) -> int:
    return sum(count - 1 for count in found.values())


def table(folder: Path) -> list[list[str]]:
    """The table without the seconds that each run took."""
    lines = list(csv.reader((folder / "table.csv").read_text().splitlines()))
    kept = [k for k, name in enumerate(lines[0]) if not name.endswith("_seconds")]
    return [[line[k] for k in kept] for line in lines]


def grouped_digits(path: Path) -> Path:
    """Image sets of digits in twelve groups, as a file."""
    X, y = load_digit_sets()
    np.savez(path, X=X[::4], y=y[::4], groups=np.arange(len(y[::4])) % 12)
    return path


class Trial:
    """The uninterrupted run, and what others are compared with."""

    def __init__(self, place: Path, options: list[str]) -> None:
        self.place, self.options = place, options
        began = time.perf_counter()
        finish(start(place / "whole", options))
        self.seconds = time.perf_counter() - began
        self.table = table(place / "whole")
        self.keys = rows(place / "whole")

    def verdict(self, folder: Path) -> str:
        found = rows(folder)
        same = table(folder) == self.table
        lost = len(self.keys - found)
        return f"{'identical' if same else 'DIFFERENT'}, {lost} rows lost, {doubled(found)} doubled"

    def kills(self, count: int, chance: random.Random) -> list[str]:
        """Kill that many runs, each resuming the last; the verdict of every run that came to its end."""
        verdicts, done, round_ = [], 0, 0
        print(f"{'kill':>4}  {'of':<7}{'after':>7}{'rows before':>13}{'rows after':>12}{'doubled':>9}")
        while done < count:
            folder = self.place / f"killed{round_}"
            before = len(rows(folder))
            process = start(folder, self.options)
            delay = chance.uniform(0, self.seconds)
            try:
                process.wait(delay)
            except subprocess.TimeoutExpired:
                kill(process, group := done % 2 == 0)
                done += 1
                found = rows(folder)
                line = f"{done:>4}  {'group' if group else 'parent':<7}{delay:>5.1f} s{before:>13}{len(found):>12}"
                print(f"{line}{doubled(found):>9}", flush=True)
                continue
            verdicts.append(self.verdict(folder))
            round_ += 1
        folder = self.place / f"killed{round_}"
        finish(start(folder, self.options))
        return [*verdicts, self.verdict(folder)]

    def at_once(self, name: str, killed_after: float | None = None) -> str:
        """Two runs on one store."""
        folder = self.place / name
        pair = [start(folder, self.options) for _ in range(2)]
        if killed_after is not None:
            time.sleep(killed_after)
            kill(pair.pop(), group=True)
        for process in pair:
            finish(process)
        return self.verdict(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compare", action="store_true", help="compare on draws of groups instead of reproduce")
    parser.add_argument("--tiny", action="store_true", help="two methods in one process, one kill, one pair of runs")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        command = ["reproduce"]
        if options.compare:
            data = grouped_digits(Path(name) / "grouped.npz")
            command = ["compare", str(data), "--no-tune", "--splits", "4", "--methods", QUICK]
        tiny = ["--methods", "NN-LEM,CDL", "-j", "1"] if options.tiny else []
        trial = Trial(Path(name), [*command, *tiny])
        print(f"uninterrupted: {len(trial.keys)} rows in {trial.seconds:.1f} s")
        verdicts = trial.kills(1 if options.tiny else options.kills, chance)
        for k, verdict in enumerate(verdicts):
            print(f"run {k + 1} that came to its end after kills: {verdict}")
        once = trial.at_once("together")
        print(f"two runs at once: {once}")
        verdicts.append(once)
        if not options.tiny:
            survivor = trial.at_once("survivor", chance.uniform(0.3, 0.8) * trial.seconds)
            print(f"two runs at once, one killed: {survivor}")
            verdicts.append(survivor)
    if set(verdicts) != {"identical, 0 rows lost, 0 doubled"}:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
