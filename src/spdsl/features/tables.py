"""Tables of numbers from NPY and CSV files."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from spdsl.features.errors import FeatureError
from spdsl.features.numpy_files import read_npy

_CSV_BYTES = 1 << 29  # as text; numbers beyond this belong in a .npy file


def read_table(path: str | Path) -> np.ndarray:
    """Read the numbers of a `.npy` file, or of text with a row a line, split at `;`, `,`, tabs or blanks.

    One header line without any number is allowed in text; an empty cell is NaN.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    ndarray of float64; two-dimensional for text

    Examples
    --------
    >>> from pathlib import Path
    >>> from spdsl.features import read_table
    >>> _ = Path("table.csv").write_text("a, b\\n1, 2\\n3,\\n")
    >>> read_table("table.csv")
    array([[ 1.,  2.],
           [ 3., nan]])
    """
    path = Path(path)
    return _read_npy(path) if path.suffix.lower() == ".npy" else _read_csv(path)


def _read_npy(path: Path) -> np.ndarray:
    array = read_npy(path)
    if array.dtype.kind not in "iuf":
        raise FeatureError(f"{path}: expected an array of real numbers")
    return array.astype(np.float64)


def _read_csv(path: Path) -> np.ndarray:
    if path.stat().st_size > _CSV_BYTES:
        raise FeatureError(f"{path}: larger than {_CSV_BYTES >> 20} MiB; save it as .npy instead")
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise FeatureError(f"{path}: the file is empty")
    delimiter = next((mark for mark in (";", ",", "\t") if mark in lines[-1]), None)
    split = (lambda line: next(csv.reader([line], delimiter=delimiter))) if delimiter else str.split
    rows: list[list[float]] = []
    for number, line in enumerate(lines, start=1):
        try:
            cells = split(line)
        except csv.Error as error:
            raise FeatureError(f"{path}: row {number} cannot be split ({error})") from None
        values = [_number(cell) for cell in cells]
        if None in values:
            if number == 1 and all(_number(cell.replace("_", "")) is None for cell in cells if cell.strip()):
                continue  # a header: names, and not one number
            column = values.index(None)
            raise FeatureError(f"{path}: row {number}, column {column + 1}: {cells[column]!r:.40} is not a number")
        rows.append([value for value in values if value is not None])
        if len(rows[-1]) != len(rows[0]):
            raise FeatureError(f"{path}: row {number} has {len(rows[-1])} columns, those before it {len(rows[0])}")
    if not rows:
        raise FeatureError(f"{path}: a header but no numbers")
    return np.array(rows, dtype=np.float64)


def _number(cell: str) -> float | None:
    """The value of a cell: NaN where it is empty, None where it is text. Underscores are Python's, not a table's."""
    try:
        return None if "_" in cell else float(cell) if cell.strip() else np.nan
    except ValueError:
        return None
