"""Finished work on disk: rows that several runs may add to, and that survive a kill at any moment.

A store is a text file of one JSON row a line, each line with a check-sum of itself in front; rows are only ever appended,
whole, under a lock, and pushed to the disk before anybody hears of them. A row that was cut off by a kill is recognized
by its missing line end or its check-sum, reported, and dropped: the work is done again.
"""

from __future__ import annotations

import errno
import json
import os
import threading
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

FORMAT = 1
NAME = "store.jsonl"
_HEADER = json.dumps({"spdsl-store": FORMAT}).encode() + b"\n"


class StoreError(ValueError):
    """A file is no store, or one that this version cannot read; the message names it and the remedy."""


class Store:
    """Rows by key, in `folder / "store.jsonl"`.

    Parameters
    ----------
    folder : str or Path
        Made if need be.

    Attributes
    ----------
    path : Path
    damaged : list of str
        A line for every row that had to be dropped.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from filelock import FileLock  # not above: the core package works without it
        except ImportError as error:
            raise ImportError("a folder of finished work needs filelock: pip install filelock") from error
        self.folder = Path(folder)
        self.path = self.folder / NAME
        self.damaged: list[str] = []
        self._rows: dict[str, Any] = {}
        self._read_to = 0
        self._lines = 0
        self._thread = threading.RLock()  # jobs are drawn in joblib's threads, rows are added in the main one
        self.folder.mkdir(parents=True, exist_ok=True)
        self._claims = self.folder / ".claims"
        self._claims.mkdir(exist_ok=True)
        self._lock = FileLock(self.folder / ".store.lock", thread_local=False)
        with self._lock:
            self._open()

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def __getitem__(self, key: str) -> Any:
        return self._rows[key]

    def refresh(self) -> None:
        """Read what other runs have added."""
        with self._thread, self._file("rb") as file:
            self._read(file)

    def append(self, key: str, row: Any) -> bool:
        """Add a row and wait until the disk has it; False when there already is one of this key."""
        body = json.dumps({"key": key, "row": row}, allow_nan=False, separators=(",", ":")).encode()
        with self._thread, self._lock, self._file() as file:
            self._read(file)
            if key in self._rows:
                return False
            self._write(file, b"%08x %s\n" % (zlib.crc32(body), body))
            self._read(file)
        return True

    def claim(self, key: str) -> Any:
        """A lock that says that this process works on `key`, or None when another one does; a dead process has no claim."""
        from filelock import FileLock, Timeout

        lock = FileLock(self._claims / f"{key}.lock", thread_local=False)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return None
        return lock

    def release(self, lock: Any) -> None:
        """Give a claim up, and leave no file behind."""
        with suppress(OSError):  # Windows removes no open file
            Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()

    def _file(self, mode: str = "r+b") -> Any:
        """The file, unbuffered: a buffer would try again, on closing, to write what a full disk has refused."""
        return self.path.open(mode, buffering=0)

    def _open(self) -> None:
        """Make the file, or check that it is a store, and read it; called under the lock."""
        if not self.path.exists():
            self.path.touch()
        with self._file() as file:
            head = file.readline(len(_HEADER) + 20)
            if len(head) < len(_HEADER) and _HEADER.startswith(head):  # new, or killed in its first moment
                file.truncate(0)
                self._write(file, _HEADER)
            elif head != _HEADER:
                raise StoreError(f"{self.path}: {_wrong_header(head)}")
            self._read_to, self._lines = len(_HEADER), 1
            self._read(file)
            rest = file.seek(0, os.SEEK_END) - self._read_to
            if rest:  # we hold the lock, so nobody is writing it
                self.damaged.append(
                    f"{self.path}: the last row was cut off after {rest} bytes; its cell is found again"
                )
                file.truncate(self._read_to)

    def _read(self, file: Any) -> None:
        """Take in the whole lines that follow what has been read."""
        if file.seek(0, os.SEEK_END) < self._read_to:  # somebody took rows away: what is there counts
            self._rows, self._read_to, self._lines = {}, len(_HEADER), 1
        file.seek(self._read_to)
        data = file.read()
        for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True):
            self._read_to += len(line)
            self._lines += 1
            content = _content(line)
            if content is None:
                self.damaged.append(
                    f"{self.path}: line {self._lines} does not match its check-sum; its cell is found again"
                )
            else:
                self._rows.setdefault(content["key"], content["row"])

    def _write(self, file: Any, line: bytes) -> None:
        """Put a line after the last whole one; on any failure, a full disk for one, the file stays as it was.

        A whole line stays even where the disk has not confirmed it: others may have read it.
        """
        end = self._read_to
        try:
            file.truncate(end)  # a torn row of a run that was killed after this one had started
            file.seek(end)
            left = memoryview(line)
            while left:
                left = left[file.write(left) :]
        except BaseException:
            os.truncate(self.path, end)
            raise
        os.fsync(file.fileno())


class MemoryStore:
    """Rows by key for one run that keeps nothing; with the interface of `Store`."""

    def __init__(self) -> None:
        self._rows: dict[str, Any] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def __getitem__(self, key: str) -> Any:
        return self._rows[key]

    def refresh(self) -> None:
        """No other run adds rows here."""

    def append(self, key: str, row: Any) -> bool:
        """Add a row; False when there already is one of this key."""
        return self._rows.setdefault(key, row) is row

    def claim(self, key: str) -> Any:
        """Nobody else works on `key`."""
        return key

    def release(self, lock: Any) -> None:
        """Nothing to give up."""


def open_early(folder: str | Path) -> Store | None:
    """The store where there is one; else None, and an OSError where none could be made. Nothing is made on disk.

    For a long preparation: better to hear before it than after it that the output folder cannot be used.
    """
    at = Path(folder)
    if (at / NAME).exists():
        return Store(at)
    while not at.exists() and at != at.parent:
        at = at.parent
    if not at.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(at))
    if not os.access(at, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(at))
    return None


def _content(line: bytes) -> Any:
    """Key and row of a line, or None where the line is damaged."""
    try:
        checksum, body = line.rstrip(b"\n").split(b" ", 1)
        if int(checksum, 16) != zlib.crc32(body) or len(checksum) != 8:
            return None
        content = json.loads(body)
        return content if set(content) == {"key", "row"} else None
    except (ValueError, TypeError):
        return None


def _wrong_header(head: bytes) -> str:
    """What is wrong with the first line of a file."""
    try:
        found = json.loads(head)["spdsl-store"]
    except (ValueError, KeyError, TypeError):
        return "not a store of results; move the file away, or choose another output folder"
    return (
        f"a store of format {found}, and this version of spdsl reads format {FORMAT}; choose another output folder, "
        "or use the version that wrote it"
    )
