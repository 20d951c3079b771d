"""How figures look, and how they become files: one drawing, readable on white and on dark paper, in colour and in grey."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# The colours of the drawing on white paper. In a report each becomes a style-sheet variable `--fig-NAME`, so that the page
# can choose another for dark paper; no two names may share a colour. Hues from the set of Okabe and Ito, which people who
# do not tell red from green can tell apart; lines differ in marker and dashes as well.
COLOURS = {
    "ink": "#1c2127",
    "muted": "#5b6672",
    "faint": "#dfe3e8",
    "paper": "#fefefe",
    "blue": "#0072b2",
    "orange": "#c04f00",
    "green": "#00795a",
}
INK, MUTED, FAINT, PAPER = (COLOURS[name] for name in ("ink", "muted", "faint", "paper"))
HEAT = "cividis"  # even steps of lightness, so that it means the same in grey
WIDTH = 4.6  # inches; with 10-point letters still legible on a telephone
PNG_DPI = 160
_STYLE: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],  # comes with matplotlib
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
    "svg.fonttype": "path",
    "svg.hashsalt": "spdsl",
}


@contextmanager
def styled() -> Iterator[None]:
    """matplotlib's settings of these figures, for as long as it lasts; an ImportError where matplotlib is missing."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'spdsl[report]'") from error
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()  # not what a user's own file says
        settings: Any = matplotlib.rcParams
        settings.update(_STYLE)
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")  # a box stands for it
        yield


def new_figure(height: float, width: float = WIDTH) -> tuple[Any, Any]:
    """A figure that belongs to no window, and its axes; call inside `styled`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def to_svg(figure: Any) -> str:
    """The drawing as a file of its own, on white; the same drawing gives the same text. Call inside `styled`."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def to_png(figure: Any) -> bytes:
    """The drawing in pixels, on white; call inside `styled`."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=PNG_DPI, metadata={"Software": None})
    return file.getvalue()


def inline(svg: str, name: str) -> str:
    """The `<svg>` element for a page that holds several: names of its own, the page's colours, the page's width."""
    element = svg[svg.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", element, flags=re.DOTALL)
    element = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', element)
    element = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', element)
    element = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", element)
    for colour, value in COLOURS.items():
        element = element.replace(value, f"var(--fig-{colour}, {value})")
    head, rest = element.split(">", 1)
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)
    return f'{head} aria-hidden="true" focusable="false">{rest}'.strip()
