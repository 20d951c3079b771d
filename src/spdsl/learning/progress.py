"""Progress on standard error: a bar with the estimated remaining time in a terminal, plain lines elsewhere."""

from __future__ import annotations

import importlib.util
import sys
import time
from types import TracebackType
from typing import Any, Self

LINE_SECONDS = 5.0  # shortest time between plain lines


class Progress:
    """Count `total` steps of a job; a context manager with a method `step`."""

    def __init__(self, total: int, title: str) -> None:
        self.total, self.title = total, title
        self.done = 0
        self._began = self._last_line = time.monotonic()
        self._bar: Any = None
        self._task: Any = None
        if sys.stderr.isatty() and importlib.util.find_spec("rich") is not None:
            self._open_bar()

    def _open_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task(self.title, total=self.total, note="")
        self._bar.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def finish(self, note: str) -> None:
        """Finish the job, perhaps before its last step; `note` says why."""
        if self._bar is not None:
            self._bar.update(self._task, total=self.done, completed=self.done, note=note)
        else:
            seconds = time.monotonic() - self._began
            print(f"{self.title}: {self.done} of at most {self.total} in {seconds:.1f} s, {note}", file=sys.stderr)

    def step(self, note: str = "") -> None:
        """Count one step, and show `note` next to it."""
        self.done += 1
        if self._bar is not None:
            self._bar.update(self._task, advance=1, note=note)
            return
        now = time.monotonic()
        if now - self._last_line >= LINE_SECONDS or self.done == self.total:
            left = (now - self._began) / self.done * (self.total - self.done)
            line = f"{self.title}: {self.done}/{self.total}, about {left:.0f} s left" + (f", {note}" if note else "")
            print(line, file=sys.stderr)
            self._last_line = now


class Quiet:
    """A progress display that shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def step(self, note: str = "") -> None:
        """Show nothing."""

    def finish(self, note: str) -> None:
        """Show nothing."""
