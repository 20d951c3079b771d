"""The command line, `spdsl COMMAND`."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from spdsl import __version__

INTERRUPTED = 130  # as in `spdsl.cli.errors`, which may not be imported yet


def main() -> None:
    """Run the command line, without a traceback for Ctrl-C before a command starts."""
    if sys.argv[1:] == ["--version"]:  # without the second that the imports take
        print(f"spdsl {__version__}")
        return
    try:
        with _quick_exit():
            app = _prepared()
        app()
    except KeyboardInterrupt:
        _leave()


def _prepared() -> Any:
    """The command line, once everything that it needs is imported."""
    for name in ("stdout", "stderr"):
        setattr(sys, name, _lasting(getattr(sys, name)))
    try:
        import typer  # noqa: F401
    except ImportError:
        from spdsl.backend.extras import install_hint

        sys.exit(f"The command line needs typer and rich: {install_hint('cli')}")
    from spdsl.cli.app import app

    return app


class _Lasting(io.FileIO):
    """A file whose reader may go away, as in `spdsl reproduce | head`: what is then written is dropped, and work goes on."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            return memoryview(data).nbytes


def _lasting(stream: Any) -> Any:
    """The stream as one that outlives its reader, and that writes ? for a letter which its encoding lacks."""
    if stream is None or not hasattr(stream, "fileno") or not hasattr(stream, "line_buffering"):
        return stream
    stream.flush()
    raw = io.BufferedWriter(_Lasting(stream.fileno(), "wb", closefd=False))
    interactive = stream.line_buffering or stream.isatty() or stream is sys.stderr
    return io.TextIOWrapper(raw, encoding=stream.encoding, errors="replace", line_buffering=interactive)


@contextmanager
def _quick_exit() -> Iterator[None]:
    """Exit at once on Ctrl-C: KeyboardInterrupt during an import may be swallowed or turned into another exception."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # ignored, e.g. in a background process
        yield
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _leave(*_: Any) -> NoReturn:
    """Exit with a message; nothing needs to be cleaned up."""
    with suppress(OSError):
        os.write(2, b"\ninterrupted\n")
    os._exit(INTERRUPTED)
