"""Finding the files of a dataset, and knowing whether they changed."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spdsl.features.images import IMAGE_SUFFIXES, frame_files, natural_key, readable_kind
from spdsl.features.recipes import Recipe

INDEX = "spdsl-index.json"  # names a folder as one of our caches
REPORT = ".report.csv"  # follows the name of an .npz file in that of its report


def find_samples(folder: str | Path, recipe: Recipe) -> list[Path]:
    """Every sample under `folder` that the recipe takes, relative to it, in natural order of name.

    Links are followed, each folder once, so that a link to a folder above ends instead of running in circles. Hidden
    files are left out, and so are our own reports, pipes, sockets and devices. For clips, a folder that directly holds
    images is one sample.
    """
    root = Path(folder)
    found: list[Path] = []
    for at, folders, files in _walk(root):
        names = [name for name in files if Path(name).suffix.lower() in recipe.suffixes]
        found += [at / name for name in names if readable_kind(at / name)]
        if recipe.folders and at != root and any(Path(name).suffix.lower() in IMAGE_SUFFIXES for name in files):
            found.append(at)
        folders.sort()
    return sorted((path.relative_to(root) for path in found), key=lambda path: natural_key(path.as_posix()))


def _walk(root: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """`os.walk` that follows links but enters no folder twice."""
    seen: set[tuple[int, int]] = set()
    for at, folders, files in os.walk(root, followlinks=True):
        status = os.stat(at)
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        if INDEX in files:  # a cache that was put among the data
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield (
            Path(at),
            folders,
            [name for name in files if not name.startswith(".") and not name.endswith(f".npz{REPORT}")],
        )


def fingerprint(root: Path, sample: Path, recipe: Recipe) -> str:
    """Digest of a sample's name, and of the size and times of every file it depends on.

    The time of change (ctime) cannot be set back, so a file that was replaced by one of the same size and time of
    modification is noticed; so is, at the price of working on it again, one that was only moved or copied.
    """
    path = root / sample
    files = frame_files(path) if path.is_dir() else [path]
    lines = [sample.as_posix()]
    for file in [*files, *recipe.companions(path)]:
        try:
            status = os.stat(file)
            lines.append(f"{file.name} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}")
        except OSError:
            lines.append(f"{file.name} missing")  # a dangling link: reading it will say so
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()[:24]


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process works in `folder`, which is made if need be; a process that dies lets go of it.

    Where the system or the disk knows no locks on folders (Windows, some network disks), nobody waits. Nor does a worker
    that is still importing the script: its parent may hold the lock, and waits for it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = None
    try:
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            raise OSError("importing")
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
    except (ImportError, OSError):
        pass
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)
