"""Links to other libraries: by their own lists of pages where there is a network, else by the names in inventories.json."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

LISTED = Path(__file__).with_name("inventories.json")
HEAD = """# Sphinx inventory version 2
# Project: {}
# Version:
# The remainder of this file is compressed using zlib.
"""


def write(app: Any, config: Any) -> None:
    """Write the listed names as inventories, and tell intersphinx: first the one on the web, then this."""
    folder = Path(app.doctreedir) / "inventories"
    folder.mkdir(parents=True, exist_ok=True)
    config.intersphinx_timeout = 3  # seconds
    for project, listed in json.loads(LISTED.read_text()).items():
        lines = [
            f"{name} py:{kind} 1 {page.format(name)}#$ -\n"
            for kind, pages in listed["names"].items()
            for page, names in pages.items()
            for name in names
        ]
        path = folder / f"{project}.inv"
        path.write_bytes(HEAD.format(project).encode() + zlib.compress("".join(lines).encode()))
        config.intersphinx_mapping[project] = (listed["url"], (None, str(path)))


def setup(app: Any) -> dict[str, bool]:
    """Run before intersphinx reads its setting."""
    app.connect("config-inited", write, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
