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
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        # taking the name of a device away would be possible for an administrator, and never what was meant
        code = errno.EISDIR if path.is_dir() else errno.EINVAL
        raise OSError(code, "is a folder" if path.is_dir() else "is there and is no plain file", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """Permissions that new files do not get; reading it means setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
