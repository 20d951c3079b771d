"""Text from file names and labels, made safe to show in a terminal and to open in a spreadsheet."""

from __future__ import annotations

import unicodedata
from typing import Any

FORMULA = "=+-@＝＋－＠"
REORDERING = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # can make a name look like another


def printable(text: Any, *, keep: str = "") -> str:
    """The text with control characters, except those in `keep`, as escapes such as `\\x1b`."""
    return "".join(
        character
        if character in keep
        or not (unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in REORDERING)
        else character.encode("unicode_escape").decode()
        for character in str(text)
    )


def csv_cell(value: Any) -> Any:
    """A value as a cell of a CSV file: text that a spreadsheet would evaluate as a formula starts with an apostrophe."""
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text[:1] and text[0] in FORMULA and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
