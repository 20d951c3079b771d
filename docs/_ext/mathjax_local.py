"""MathJax in the pages themselves, so that formulas need no network."""

from __future__ import annotations

import shutil
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

PARTS = ("tex-chtml.js", "input/tex", "output/chtml")  # the rest of MathJax, speech and SVG, is 20 MB


def copy(app: Any, failure: Exception | None) -> None:
    """Copy what formulas in TeX need from the package that holds MathJax."""
    if failure or app.builder.format != "html":
        return
    script = next(f for f in distribution("sphinx-mathjax-offline").files or () if f.name == "tex-chtml.js")
    source, target = Path(str(script.locate())).parent, Path(app.outdir) / "_static" / "mathjax"
    for part in PARTS:
        if (source / part).is_dir():
            shutil.copytree(source / part, target / part, dirs_exist_ok=True)
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / part, target / part)


def setup(app: Any) -> dict[str, bool]:
    """Point Sphinx to the copy."""
    app.connect("build-finished", copy)
    app.config.mathjax_path = "mathjax/tex-chtml.js"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
