"""Writing files whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def written_whole(path: Path, *, durable: bool = True) -> Iterator[IO[bytes]]:
    """A binary file that appears under its name only when it is complete; on an error nothing stays behind.

    A link is followed. What is there but no plain file (a folder, a device, a pipe) is left alone: an OSError. `durable`
    also waits until the disk has it, against a loss of power; that costs milliseconds a file.
    """
    path = check_target(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    except OSError as error:
        error.filename = str(path)
        raise
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, name):
            error.filename = str(path)  # the name that the user knows; a full disk comes without any
        raise


def check_target(path: str | Path) -> Path:
    """The path with links followed; an OSError if a file could not be put there, for commands that work long first."""
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        # taking the name of a device away would be possible for an administrator, and never what was meant
        code = errno.EISDIR if path.is_dir() else errno.EINVAL
        raise OSError(code, "is a folder" if path.is_dir() else "is there and is no plain file", str(path))
    above = next(folder for folder in path.parents if folder.exists())
    if not above.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, f"{above} is no folder", str(path))
    if not os.access(above, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, f"the folder {above} is not writable", str(path))
    return path


def _umask() -> int:
    """Permissions that new files do not get; reading it means setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
