"""Press Ctrl-C at random moments of what `make demo` runs; exit code, message, state of the store; go on to the end.

python benchmarks/interrupt_runs.py [--times 10] [--seed 0] [--tiny]
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kill_runs import doubled, rows


def start(folder: Path, options: list[str]) -> subprocess.Popen[str]:
    """The command as a shell in a terminal starts it: a process group that hears Ctrl-C as one."""
    command = [sys.executable, "-m", "spdsl.cli", "reproduce", "-o", str(folder), *options]
    return subprocess.Popen(
        command,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear,
    )


def hear() -> None:
    """A script in the background of a shell ignores Ctrl-C, and so would what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    options = ["--quick", "--no-report", "--methods", "NN-LEM,CDL", "-j", "1"] if given.tiny else []
    rng = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as place:
        began = time.perf_counter()
        whole = Path(place) / "whole"
        if start(whole, options).wait():
            raise SystemExit("the run left alone failed")
        seconds = time.perf_counter() - began
        print(f"left alone: {seconds:.0f} s, {len(rows(whole))} rows")
        print(f"{'Ctrl-C':>7}{'after':>8}{'exit':>6}{'rows':>6}{'doubled':>9}  last line")
        folder = Path(place) / "interrupted"
        k, times = 0, 1 if given.tiny else given.times
        while k < times:
            process = start(folder, options)
            after = rng.uniform(0.1, 0.5 if given.tiny else 0.3) * seconds
            try:
                process.wait(after)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGINT)
            said = process.communicate()[1].strip().splitlines() or [""]
            if process.returncode == 0 and not given.tiny:  # it had ended before: begin anew
                shutil.rmtree(folder)
                continue
            k += 1
            found = rows(folder)
            line = said[-1].replace(str(folder), "FOLDER")
            print(
                f"{k:7d}{after:6.1f} s{process.returncode:6d}{len(found):6d}{doubled(found):9d}  {line[:110]}",
                flush=True,
            )
        code = start(folder, options).wait()
        same = (folder / "table.csv").read_bytes() == (whole / "table.csv").read_bytes()
        lost = len(rows(whole) - rows(folder))
        print(f"gone on to the end: exit {code}, table {'identical' if same else 'DIFFERENT'}, {lost} rows lost")
    if code or not same or lost:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
