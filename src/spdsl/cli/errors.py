"""Errors of a command: a one-line message with a remedy and an exit code, instead of a traceback."""

from __future__ import annotations

import re
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from spdsl.cli.text import say

INTERRUPTED = 130  # exit code of shells for Ctrl-C
FAILED = 1

Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")]


@contextmanager
def plain_errors(debug: bool = False, *, kept: Path | None = None) -> Iterator[None]:
    """Turn exceptions into a line on standard error and an exit code.

    Parameters
    ----------
    debug : bool
        Do not catch exceptions.
    kept : Path, optional
        The folder in which the command stores completed results; messages then say that it can be resumed.
    """
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    except KeyboardInterrupt:
        again = f": completed results are in {kept}; run the same command again to resume"
        say(f"\ninterrupted{again if kept and _anything_in(kept) else ''}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except (typer.Exit, typer.BadParameter):
        raise
    except Exception as error:
        if debug:
            raise
        say(f"error: {in_words(error, kept)}", err=True)
        raise typer.Exit(FAILED) from None
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Turn warnings into lines on standard error, each shown once."""
    said: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if text not in said:
            said.add(text)
            say(f"warning: {text}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show
        yield


def _interrupt(*_: Any) -> NoReturn:
    """Treat SIGTERM like Ctrl-C."""
    raise KeyboardInterrupt


def _anything_in(folder: Path) -> bool:
    """Whether a command has written anything to the folder."""
    return folder.is_dir() and any(folder.iterdir())


def in_words(error: Exception, kept: Path | None = None) -> str:
    """The one-line message of an error; `kept` as in `plain_errors`."""
    safe = "completed results are kept; " if kept and _anything_in(kept) else ""
    if type(error).__name__ in ("TerminatedWorkerError", "BrokenProcessPool"):
        return f"a worker process died, most likely because memory ran out; {safe}try again with fewer --jobs"
    if type(error).__name__ in ("FutureCancelledError", "CancelledError", "KilledWorker"):
        return f"the Dask cluster was lost ({' '.join(str(error).split())}); {safe}run again when it is back"
    if isinstance(error, ConnectionError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        where = error.filename or kept
        remedy = f"; {safe}fix this, or choose another --out, and run again" if kept else ""
        return f"{where}: {error.strerror}{remedy}" if where else f"{error.strerror}{remedy}"
    known = isinstance(error, ValueError | ImportError | OSError)
    text = " ".join(str(error).split())
    text = re.sub(
        r"register it with spdsl\.register_\w+ before loading", "use --plugin with the module that registers it", text
    )
    return text if known else f"{type(error).__name__}: {text} (use --debug for the traceback)"
