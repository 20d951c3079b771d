"""Names and messages of users as text of Markdown and LaTeX that shows them as they are."""

from __future__ import annotations

import re

import numpy as np

from spdsl.models.text import printable


def markdown(text: str) -> str:
    """Text that a Markdown table shows as it is."""
    text = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\|*`\[\]])", r"\\\1", text)


def tex(text: str) -> str:
    """Text with LaTeX's special characters made harmless."""
    return "".join(_TEX.get(character, character) for character in printable(text))


def count_matrices(X: np.ndarray) -> str:
    """How many matrices of which size an array holds."""
    n = X.shape[-1]
    if X.ndim == 3:
        return f"{len(X)} {'matrix' if len(X) == 1 else 'matrices'} {n} x {n}"
    return f"{len(X)} {'sample' if len(X) == 1 else 'samples'} of {X.shape[1]} matrices {n} x {n}"


_TEX = {c: rf"\{c}" for c in "%&_#${}"} | {
    "\\": r"\textbackslash{}",
    "^": r"\^{}",
    "~": r"\~{}",
    "<": "$<$",
    ">": "$>$",
    "±": r"$\pm$",
    "−": "$-$",
}
