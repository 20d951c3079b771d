"""What `spdsl reproduce --plan` prints."""

from __future__ import annotations

import os

from spdsl.cli.text import say
from spdsl.evaluation.plan import Plan
from spdsl.models.text import printable


def show_plan(plan: Plan, jobs: int | None, device: str | None) -> None:
    """Print seconds by method, memory, and what more cores or a device change."""
    width = max(len("method"), *(len(method.name) for method in plan.methods))
    say(f"{'method':{width}}  cells  each      in all    on a device")
    for method in plan.methods:
        if method.error:
            say(f"{method.name:{width}}  {method.cells:5}  fails: {printable(method.error)}")
            continue
        where = "yes" if method.on_device else "host alone"
        say(
            f"{method.name:{width}}  {method.cells:5}  {_duration(method.first):8}  {_duration(method.seconds):8}  {where}"
        )
    mine = 1 if device is not None else jobs or os.cpu_count() or 1
    counts = sorted({1, 2, 4, 8, 16, mine})
    told = ", ".join(f"{_duration(plan.on_cores(count))} with {count}" for count in counts)
    say(
        f"\nIn all {_duration(plan.seconds)} of work; this run, with -j {mine}: about {_duration(plan.on_cores(mine))}."
    )
    say(f"By processes, of one core each: {told}.")
    say(f"Memory: about {plan.bytes / 1e9:.2g} GB a process.")
    if device is None and any(method.on_device for method in plan.methods):
        say(
            "--device cuda computes the methods marked in one process; what that saves, `--plan --device cuda` measures."
        )
    say(f"Extrapolated from small cells in {_duration(plan.spent)}; nothing else was computed, and nothing is stored.")


def _duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
