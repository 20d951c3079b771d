"""Check every link, picture, style and script of the built pages: `python docs/check_links.py build/docs`.

A link inside must lead to a file, and to a place in it where it names one; what a page needs to be shown must lie in
the folder, so that the pages open from disk.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("img", "src"), ("script", "src"), ("source", "src"), ("iframe", "src")}  # a browser asks for these by itself


class Page(HTMLParser):
    """Targets and places of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.places |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag == "link" and "stylesheet" in found.get("rel", ""):
            self.loaded.append(found.get("href", ""))
        self.loaded += [found[name] for kind, name in LOADED if kind == tag and name in found]


def faults(root: Path) -> tuple[list[str], int, int]:
    """What is wrong, the number of pages, and the number of links inside."""
    pages = {
        path: Page(path.read_text(encoding="utf-8"))
        for path in sorted(root.rglob("*.html"))
        if "_static" not in path.parts
    }
    found, inside = [], 0
    for path, page in pages.items():
        for target in page.loaded:
            if urlsplit(target).scheme not in ("", "data"):
                found.append(f"{path.relative_to(root)}: needs the network for {target}")
        for target in page.links + page.loaded:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            inside += 1
            other = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            other = other / "index.html" if other.is_dir() else other
            if not other.exists():
                found.append(f"{path.relative_to(root)}: {target} does not exist")
            elif parts.fragment and other in pages and unquote(parts.fragment) not in pages[other].places:
                found.append(f"{path.relative_to(root)}: {target} names no place of that page")
    for target in re.findall(r"\]\(([^)]+)\)", (root / "llms.txt").read_text(encoding="utf-8")):
        inside += 1
        if not (root / target).exists():
            found.append(f"llms.txt: {target} does not exist")
    return found, len(pages), inside


def main(root: Path) -> int:
    """Print what is wrong; the exit status."""
    found, pages, inside = faults(root.resolve())
    print("\n".join(dict.fromkeys(found)), end="\n" if found else "")
    print(f"{pages} pages, {inside} links inside, {len(set(found))} broken")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
