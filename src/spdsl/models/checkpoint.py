"""Snapshots of the solver, from which a killed fit resumes: one file, replaced atomically."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spdsl.learning.solver import Snapshot
from spdsl.models.container import FORMAT, read, write
from spdsl.models.errors import ModelFileError
from spdsl.models.files import check_target

KIND = "checkpoint"
NUMBERS = ("iteration", "idle", "value", "step", "slope", "size")
PARTS = {"W", "g", "H", "old_g"}


class Checkpoint:
    """The snapshots of one fit in a file.

    Parameters
    ----------
    path : str or Path
    identity : mapping
        What determines the fit; the file of another fit is rejected.
    """

    def __init__(self, path: str | Path, identity: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self.identity = json.loads(json.dumps(identity))  # as it is read back from the file
        self._complained = False
        if "\0" in str(path):
            raise ValueError(f"checkpoint={str(path)!r} is not a valid file name")
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                f"checkpoint={str(path)!r}: the folder {self.path.parent} does not exist; create it"
            )
        check_target(self.path)

    def load(self, shape: tuple[int, ...]) -> Snapshot | None:
        """The snapshot for a W of this shape; None if there is no file."""
        if not self.path.exists():
            return None
        header, parts = read(self.path)
        if header.get("kind") != KIND:
            raise ModelFileError(f"{self.path}: a file of spdsl, but not a checkpoint; choose another path")
        differs = [name for name, value in self.identity.items() if header["identity"].get(name) != value]
        if differs:
            raise ValueError(
                f"{self.path}: the checkpoint of another fit ({', '.join(differs)} differ); remove it, or choose another path"
            )
        if not {"W", "g"} <= set(parts) <= PARTS or any(part.shape != shape for part in parts.values()):
            raise ModelFileError(f"{self.path}: the arrays do not fit this model; remove the file")
        return Snapshot(parts, **{name: header[name] for name in NUMBERS}, history=header["history"])

    def save(self, snapshot: Snapshot) -> None:
        """Replace the file. If that fails, e.g. on a full disk, warn once and continue the fit."""
        try:
            self._write(snapshot)
        except OSError as error:
            if not self._complained:
                self._complained = True
                warnings.warn(
                    f"{self.path}: the checkpoint could not be written ({error.strerror}); the fit continues without it",
                    UserWarning,
                    stacklevel=2,
                )

    def _write(self, snapshot: Snapshot) -> None:
        header = {"format": FORMAT, "kind": KIND, "identity": self.identity, "history": snapshot.history}
        write(self.path, header | {name: getattr(snapshot, name) for name in NUMBERS}, snapshot.parts)

    def remove(self) -> None:
        """Remove the file of a finished fit."""
        self.path.unlink(missing_ok=True)


def digest_labels(labels: np.ndarray) -> str:
    """A digest of the labels."""
    return _digest(np.asarray(labels, np.int64))


def told(value: Any) -> str:
    """A string that identifies the value of a parameter; `repr` of a long array shows only its ends."""
    return f"array {value.shape} {_digest(value)}" if isinstance(value, np.ndarray) else repr(value)


def _digest(values: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:16]
