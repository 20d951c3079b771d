"""A fit that was killed goes on: snapshots of the solver in one file, replaced whole or not at all."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spdsl.models.container import FORMAT, read, write
from spdsl.models.errors import ModelFileError
from spdsl.solver import Snapshot
from spdsl.writing import check_target

KIND = "checkpoint"
NUMBERS = ("iteration", "idle", "value", "step", "slope", "size")
PARTS = {"W", "g", "H", "old_g"}


class Checkpoint:
    """The snapshot of one fit in a file.

    Parameters
    ----------
    path : str or Path
    identity : mapping
        What determines the fit; a file of another fit is refused.
    """

    def __init__(self, path: str | Path, identity: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self.identity = json.loads(json.dumps(identity))  # as it reads back from the file
        self._complained = False
        if "\0" in str(path):
            raise ValueError(f"checkpoint={str(path)!r} can be the name of no file")
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"checkpoint={str(path)!r}: the folder {self.path.parent} does not exist; make it")
        check_target(self.path)

    def load(self, shape: tuple[int, int]) -> Snapshot | None:
        """The snapshot of a W of that shape; None where there is no file."""
        if not self.path.exists():
            return None
        header, parts = read(self.path)
        if header.get("kind") != KIND:
            raise ModelFileError(f"{self.path}: a file of spdsl, but no checkpoint; choose another path")
        differs = [name for name, value in self.identity.items() if header["identity"].get(name) != value]
        if differs:
            raise ValueError(
                f"{self.path}: the checkpoint of another fit ({', '.join(differs)} differ); remove it, or choose another path"
            )
        if not {"W", "g"} <= set(parts) <= PARTS or any(part.shape != shape for part in parts.values()):
            raise ModelFileError(f"{self.path}: not the arrays of a checkpoint of this fit; remove it")
        return Snapshot(parts, **{name: header[name] for name in NUMBERS}, history=header["history"])

    def save(self, snapshot: Snapshot) -> None:
        """Replace the file. Where that fails, on a full disk for instance, say so once: the fit is worth more."""
        try:
            self._write(snapshot)
        except OSError as error:
            if not self._complained:
                self._complained = True
                warnings.warn(
                    f"{self.path}: the checkpoint could not be written ({error.strerror}); the fit goes on without",
                    UserWarning,
                    stacklevel=2,
                )

    def _write(self, snapshot: Snapshot) -> None:
        header = {"format": FORMAT, "kind": KIND, "identity": self.identity, "history": snapshot.history}
        write(self.path, header | {name: getattr(snapshot, name) for name in NUMBERS}, snapshot.parts)

    def remove(self) -> None:
        """The fit is done."""
        self.path.unlink(missing_ok=True)


def digest_labels(labels: np.ndarray) -> str:
    """What tells one set of labels from another."""
    return _digest(np.asarray(labels, np.int64))


def told(value: Any) -> str:
    """What tells one value of a parameter from another; of a long array `repr` shows the ends only."""
    return f"array {value.shape} {_digest(value)}" if isinstance(value, np.ndarray) else repr(value)


def _digest(values: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:16]
