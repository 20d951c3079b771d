"""Progress of a long command: a bar with the estimated remaining time in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from spdsl.datasets.extraction import Outcome
from spdsl.datasets.extraction import Progress as Callback
from spdsl.models.text import printable

_EVERY = 10.0  # seconds between plain lines


@contextmanager
def shown(title: str) -> Iterator[Callback]:
    """A callback for `extract` that shows progress and failures on standard error."""
    console = Console(file=sys.stderr)
    if console.is_terminal:
        columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        bar = Progress(*columns, console=console)
        task = bar.add_task(title, total=None)

        def update(outcome: Outcome, done: int, total: int) -> None:
            bar.start()  # only when there is something to show
            bar.update(task, completed=done, total=total)
            if outcome.error:
                bar.console.print(printable(outcome.error), style="red", markup=False, highlight=False)

        try:
            yield update
        finally:
            bar.stop()
    else:
        yield _plain(title)


def _plain(title: str) -> Callback:
    started = last = time.monotonic()
    fresh = 0

    def update(outcome: Outcome, done: int, total: int) -> None:
        nonlocal last, fresh
        fresh += outcome.fresh
        if outcome.error:
            print(f"failed: {printable(outcome.error)}", file=sys.stderr, flush=True)
        now = time.monotonic()
        if done == total or now - last >= _EVERY:
            last = now
            left = (total - done) * (now - started) / max(fresh, 1)
            print(f"{title}: {done} of {total}, about {left:.0f} s left", file=sys.stderr, flush=True)

    return update
