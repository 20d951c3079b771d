"""The command line: `spdsl COMMAND`. The commands are in `spdsl.commands`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

INTERRUPTED = 130  # as in `spdsl.commands.errors`, which is not imported yet when this is needed


def main() -> None:
    """Run the command line; Ctrl-C before a command has begun is no reason for a traceback."""
    try:
        with _quick_exit():
            app = _prepared()
        app()
    except KeyboardInterrupt:
        _leave()


def _prepared() -> Any:
    """The command line, once everything that it needs is imported."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # where a terminal knows no ±, a table with ? is better than none
    try:
        import typer  # noqa: F401
    except ImportError:
        sys.exit("The command line needs typer and rich: pip install 'spdsl[cli]'")
    from spdsl.commands.app import app

    return app


@contextmanager
def _quick_exit() -> Iterator[None]:
    """End at once on Ctrl-C: an exception in the midst of an import may be swallowed there, or come out as another."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # ignored, for instance in the background of a script
        yield
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _leave(*_: Any) -> NoReturn:
    """Say so and end; nothing has begun that would have to be tidied up."""
    with suppress(OSError):
        os.write(2, b"\ninterrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
