"""The file format: safetensors, with our header and a digest of everything in the metadata."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import numpy as np

from spdsl.backend.extras import install_hint
from spdsl.models.errors import ModelFileError
from spdsl.models.files import written_whole
from spdsl.models.migrations import MIGRATIONS, Header

FORMAT = 2
KEY = "spdsl"  # in the metadata; only one, since safetensors does not keep their order
HEADER_BYTES = 1 << 25  # thousands of times what a model needs; a longer header is not read


def write(path: Path, header: Header, arrays: Mapping[str, np.ndarray]) -> None:
    """Write header and arrays atomically."""
    library = _safetensors("numpy")
    sealed = {**header, "sha256": digest(header, arrays)}
    data = library.save(dict(arrays), metadata={KEY: _text(sealed)})
    if int.from_bytes(data[:8], "little") > HEADER_BYTES:
        raise ModelFileError(
            f"{path}: the header would be longer than {HEADER_BYTES >> 20} MB because of too many labels"
        )
    with written_whole(path) as file:
        file.write(data)


def read(path: Path) -> tuple[Header, dict[str, np.ndarray]]:
    """Header, converted to the current format, and arrays of a file whose digest is correct."""
    library = _safetensors()
    header = _read_header(path)
    version = header.get("format")
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        raise ModelFileError(f"{path}: unknown format {str(version)[:80]!r}")
    if version > FORMAT:
        made = header.get("versions")
        by = f" by spdsl {str(made.get('spdsl'))[:20]}" if isinstance(made, dict) else ""
        raise ModelFileError(
            f"{path}: written{by} in format {version}; this version reads up to {FORMAT}: update spdsl"
        )
    try:
        with library.safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is not a dict
    except Exception as error:  # safetensors, NumPy and the operating system each raise their own
        raise ModelFileError(f"{path}: damaged or not a model file ({error}); copy it again, or fit again") from None
    claimed = header.pop("sha256", None)
    if claimed != _digest_or_none(header, arrays):
        raise ModelFileError(
            f"{path}: was changed after it was written (its digest differs); copy it again, or fit again"
        )
    try:
        for old in range(version, FORMAT):
            header = MIGRATIONS[old](header)
    except (KeyError, TypeError) as error:
        raise ModelFileError(f"{path}: its header (format {version}) lacks {error}") from None
    return header, arrays


def digest(header: Header, arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 over the header and over name, type, shape and bytes of every array."""
    total = hashlib.sha256(_text(header).encode())
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"\n{name}\n{array.dtype.str}\n{array.shape}\n".encode())
        total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def _digest_or_none(header: Header, arrays: Mapping[str, np.ndarray]) -> str | None:
    """The digest, or None if an edited header cannot be written as JSON."""
    try:
        return digest(header, arrays)
    except (ValueError, RecursionError):
        return None


def _text(header: Header) -> str:
    """Serialize a header; equal headers have equal digests."""
    return json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _read_header(path: Path) -> Header:
    """Our header, read before allocating any length that the file claims."""
    if path.is_dir():
        raise ModelFileError(f"{path}: is a folder, not a model file")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or not 2 <= length <= min(size - 8, HEADER_BYTES):
            raise ModelFileError(f"{path}: truncated, or not a model file of spdsl (a safetensors file)")
        raw = file.read(length)
    try:
        text = json.loads(raw)["__metadata__"][KEY]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ModelFileError(f"{path}: not a model file of spdsl (it has no readable spdsl header)") from None
    try:
        header = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise ModelFileError(f"{path}: its header is not JSON; copy it again, or fit again")
    return header


def _safetensors(module: str = "") -> ModuleType:
    """The library, or an error that says how to install it."""
    try:
        return __import__(f"safetensors.{module}" if module else "safetensors", fromlist=["_"])
    except ImportError as error:
        raise ImportError(f"models on disk need safetensors: {install_hint('models')}") from error
