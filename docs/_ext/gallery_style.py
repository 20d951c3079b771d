"""The look of the pictures in the gallery."""

from __future__ import annotations

from pathlib import Path
from typing import Any

STYLE = Path(__file__).parents[1] / "gallery.mplstyle"


def reset(gallery_conf: dict[str, Any], name: str) -> None:
    """Every example starts with this look, whatever the one before it has set."""
    import matplotlib.pyplot as plt

    plt.close("all")
    plt.rcdefaults()
    plt.style.use(STYLE)
