"""What an iteration costs beside its floor and its peers, in one run: a table on the terminal, and a JSON file.

    make bench                               # a few minutes on two cores
    python benchmarks/bench.py --tiny        # a size for continuous integration
    python benchmarks/bench.py --only pairwise --threads 1
    python benchmarks/bench.py --page docs/speed.md     # also put the tables into the page, between its marks

Contenders of one line take turns within every repeat, with a short pause between them, so that what else the machine does
falls on all of them and none spins into the time of the next; a line gives the median over the
repeats and, in brackets, the smallest and the largest. The process is pinned to its threads.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]
PAUSE = 0.2  # seconds: BLAS threads of the one before spin for a while, on the cores of the next


def pin(threads: int) -> None:
    """Hold the process to so many cores and every library to so many threads; before NumPy is imported."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def interleaved(contenders: dict[str, Callable[[], float]], repeats: int) -> dict[str, list[float]]:
    """Seconds that every contender reports, in `repeats` rounds in which all take their turn."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, run in contenders.items():
            time.sleep(PAUSE)
            seconds[name].append(run())
    return seconds


def clocked(work: Callable[[], Any]) -> Callable[[], float]:
    """Seconds that `work` takes."""

    def run() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return run


def middle(values: list[float]) -> float:
    values = sorted(values)
    return (values[len(values) // 2] + values[(len(values) - 1) // 2]) / 2


def row(
    what: str, seconds: list[float], over: list[float] | None = None, want: str = "", **more: Any
) -> dict[str, Any]:
    """One line: median seconds, and the ratio to another contender, round by round."""
    line: dict[str, Any] = {"what": what, "seconds": middle(seconds), "all": seconds, **more}
    if over is not None:
        ratios = [a / b for a, b in zip(seconds, over, strict=True)]
        line |= {"ratio": middle(ratios), "low": min(ratios), "high": max(ratios), "want": want}
    return line


def show(title: str, rows: Rows) -> None:
    print(f"\n{title}")
    for line in rows:
        took = duration(line.get("seconds"))
        print(
            f"  {line['what']:66}{took:>12}{ratio(line):>24}  {line.get('want', ''):8}{line.get('note', '')}".rstrip()
        )
    sys.stdout.flush()


def markdown(found: dict[str, Any], titles: dict[str, str]) -> str:
    """The tables of a run, as Markdown."""
    packages = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    lines = [f"{found['threads']} threads, pinned; {packages}; load of the machine at the start {found['load']:.1f}."]
    for name, rows in found["sections"].items():
        lines += ["", f"**{titles[name]}**", "", "| | time | ratio [low, high] | wanted | |", "|---|---|---|---|---|"]
        for line in rows:
            cells = [
                line["what"],
                duration(line.get("seconds")),
                ratio(line),
                line.get("want", ""),
                line.get("note", ""),
            ]
            lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def marked(page: Path) -> tuple[str, str]:
    """What stands before and after the tables of a page, its marks included."""
    if not page.is_file():
        raise SystemExit(f"{page} is no file; bring a page with the marks <!-- make bench --> and <!-- end -->")
    before, start, rest = page.read_text().partition("<!-- make bench -->\n")
    _, end, after = rest.partition("<!-- end -->")
    if not start or not end:
        raise SystemExit(f"{page} has no marks <!-- make bench --> and <!-- end -->")
    return before + start, end + after


def put_into(page: Path, text: str) -> None:
    """Replace what stands between the marks of a page."""
    before, after = marked(page)
    page.write_text(before + text + after)


def duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{1000 * seconds:.1f} ms" if seconds < 10 else f"{seconds:.1f} s"


def ratio(line: dict[str, Any]) -> str:
    return f"{line['ratio']:.2f} [{line['low']:.2f}, {line['high']:.2f}]" if "ratio" in line else ""


def versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for name in ("numpy", "scipy", "torch", "pymanopt", "pyriemann"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--threads", type=int, default=min(2, cores()))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--only",
        nargs="+",
        help="sections to run: iteration peers paper pairwise aim whole tuning lapack growth precision",
    )
    parser.add_argument("--json", default="build/bench.json")
    parser.add_argument("--page", type=Path, help="a Markdown page that takes the tables between its marks")
    arguments = parser.parse_args()
    if not 1 <= arguments.threads <= cores():
        parser.error(f"--threads {arguments.threads}: this process may run on {cores()} cores")
    if arguments.page:
        marked(arguments.page)  # before the minutes that the run takes, not after
    pin(arguments.threads)
    sys.path.insert(0, str(Path(__file__).parent))
    from sections import SECTIONS  # imports NumPy: after the threads are pinned

    unknown = [name for name in arguments.only or () if name not in SECTIONS]
    if unknown:
        raise SystemExit(f"no section {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    began = time.perf_counter()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    print(f"{arguments.threads} threads, pinned; load at the start {load:.1f}; {versions()}")
    if arguments.tiny:
        print("Tiny sizes, not those that the titles name: no figure here says anything about speed.")
    found: dict[str, Any] = {
        "threads": arguments.threads,
        "tiny": arguments.tiny,
        "load": load,
        "versions": versions(),
        "sections": {},
    }
    for name, (title, section) in SECTIONS.items():
        if arguments.only and name not in arguments.only:
            continue
        rows = section(1 if arguments.tiny else arguments.repeats, arguments.tiny)
        show(title, rows)
        found["sections"][name] = rows
        found["minutes"] = (time.perf_counter() - began) / 60
        Path(arguments.json).parent.mkdir(parents=True, exist_ok=True)
        Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n")  # what is measured stays if the rest fails
    if arguments.page:
        put_into(arguments.page, markdown(found, {name: title for name, (title, _) in SECTIONS.items()}))
    print(f"\n{found['minutes']:.1f} minutes; written to {arguments.json}")


if __name__ == "__main__":
    main()
