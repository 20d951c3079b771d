"""Errors of a command: one line that says what to do, and an exit code, instead of a traceback."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

INTERRUPTED = 130  # what shells give for Ctrl-C
FAILED = 1

Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]


@contextmanager
def plain_errors(debug: bool = False, *, kept: Path | None = None) -> Iterator[None]:
    """Turn what goes wrong inside into a line on the error stream and an exit code.

    Parameters
    ----------
    debug : bool
        Let errors through with their tracebacks.
    kept : Path, optional
        The folder in which the command keeps finished work; messages then say that it can go on from there.
    """
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    except KeyboardInterrupt:
        again = f": what is finished is kept in {kept}; the same command again goes on from there"
        typer.echo(f"\ninterrupted{again if kept and _anything_in(kept) else ''}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except (typer.Exit, typer.BadParameter):
        raise
    except Exception as error:
        if debug:
            raise
        typer.echo(f"error: {in_words(error, kept)}", err=True)
        raise typer.Exit(FAILED) from None
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Turn warnings inside into lines on the error stream, each once."""
    said: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if text not in said:
            said.add(text)
            typer.echo(f"warning: {text}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show
        yield


def _interrupt(*_: Any) -> NoReturn:
    """Treat a polite request to end like Ctrl-C."""
    raise KeyboardInterrupt


def _anything_in(folder: Path) -> bool:
    """Whether a command has got as far as to write there."""
    return folder.is_dir() and any(folder.iterdir())


def in_words(error: Exception, kept: Path | None = None) -> str:
    """One line about an error; `kept` as in `plain_errors`."""
    safe = "finished work is kept: " if kept and _anything_in(kept) else ""
    if type(error).__name__ in ("TerminatedWorkerError", "BrokenProcessPool"):
        return f"a worker process died, most likely for want of memory; {safe}try again with fewer --jobs"
    if type(error).__name__ in ("FutureCancelledError", "CancelledError", "KilledWorker"):
        return f"the Dask cluster was lost ({' '.join(str(error).split())}); {safe}run again when it is back"
    if isinstance(error, ConnectionError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        where = error.filename or kept
        remedy = f"; {safe}mend that, or choose another --out, and run again" if kept else ""
        return f"{where}: {error.strerror}{remedy}" if where else f"{error.strerror}{remedy}"
    known = isinstance(error, ValueError | ImportError | OSError)
    text = " ".join(str(error).split())
    return text if known else f"{type(error).__name__}: {text} (--debug shows where)"
