"""Write files atomically."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

BINARY = getattr(os, "O_BINARY", 0)  # on Windows


@contextmanager
def written_whole(path: Path, *, durable: bool = True) -> Iterator[IO[bytes]]:
    """A binary file that appears under its name only when it is complete; after an error nothing is left behind.

    Links are followed, and a file that is replaced keeps its permissions. An existing path that is not a regular file (a
    folder, a device, a pipe) is an OSError. With `durable` the data is flushed to the disk, so that it survives a loss of
    power, at the cost of a few milliseconds.
    """
    path = check_target(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    name = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        # a new file has the permissions that the umask leaves; what is to be private is so from the start
        handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY, 0o666 if mode is None else 0o600)
    except OSError as error:
        error.filename = str(path)
        raise
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if mode is not None:
            os.chmod(name, mode)
        os.replace(name, path)
    except BaseException as error:
        name.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(name), name):
            error.filename = str(path)  # the name that the user knows; the error of a full disk has none
        raise


def check_target(path: str | Path) -> Path:
    """The path with links followed; an OSError if a file cannot be created there. Lets long commands fail early."""
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        # an administrator could replace a device by a file, which is never intended
        code = errno.EISDIR if path.is_dir() else errno.EINVAL
        raise OSError(code, "is a folder" if path.is_dir() else "exists but is not a regular file", str(path))
    above = next(folder for folder in path.parents if folder.exists())
    if not above.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, f"{above} is not a folder", str(path))
    if not os.access(above, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, f"the folder {above} is not writable", str(path))
    return path


def check_not_input(path: str | Path | None, *inputs: str | Path | None) -> None:
    """Raise if a file to write is one of the files to read, also through a link; None and missing files are not."""
    for source in inputs:
        if path is None or source is None or not os.path.exists(path) or not os.path.exists(source):
            continue
        if os.path.samefile(path, source):
            raise ValueError(f"{path} is an input; choose another output")
