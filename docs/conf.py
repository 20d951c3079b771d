"""How Sphinx builds the documentation: `make docs`."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import warnings
from pathlib import Path

import spdsl

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE / "_ext"))

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two examples run at once

project = "spdsl"
author = "The spdsl developers"
copyright = author
release = version = spdsl.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinx_design",
    "sphinx_copybutton",
    "inventories",
    "mathjax_local",
    "reference",
    "results",
    "theory_figures",
]
exclude_patterns = [
    "_ext",
    "_templates",
    "auto_examples/**/*.ipynb",
    "auto_examples/**/*.md5",
    "**/sg_execution_times.rst",
]


def guide_links() -> dict[str, list[tuple[str, str]]]:
    """The pages of the guide that show a name, for its page in the reference."""
    found: dict[str, list[tuple[str, str]]] = {}
    for page in sorted((HERE / "guide").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        title = re.search(r"^# (.*)", text, re.MULTILINE)
        code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
        for name in spdsl.__all__ if title else ():
            if re.search(rf"\b{name}\b", code):
                found.setdefault(f"spdsl.{name}", []).append((f"guide/{page.stem}", title[1]))
    return found


# ---------------------------------------------------------------------------------------------------------- the text
myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
default_role = "py:obj"  # `name` in a docstring links to the name where there is one, and is code elsewhere
autosummary_context = {"guide": guide_links()}
templates_path = ["_templates"]
autosummary_generate = sorted(f"api/{page.name}" for page in (HERE / "api").glob("*.md"))
autodoc_typehints = "none"  # numpydoc shows the types
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_citation_re = r"[a-zA-Z]+[0-9]{4}"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# -------------------------------------------------------------------------------------------------------- the gallery
FOLDERS = ["basics", "practice", "images", "signals", "extend"]


def source_digest() -> str:
    """Digest of the package: examples run again where it has changed."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def forget_outdated_results() -> None:
    """Remove the executed examples of another version of the package; sphinx-gallery compares the examples only."""
    built, digest = HERE / "auto_examples", source_digest()
    mark = built / ".digest"
    if built.exists() and not (mark.exists() and mark.read_text() == digest):
        shutil.rmtree(built)
    built.mkdir(exist_ok=True)
    mark.write_text(digest)


forget_outdated_results()
warnings.filterwarnings("ignore", message=r".*FigureCanvasAgg is non-interactive.*")

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"(^|/)(?!plot_)[^/]*\.py$",
    "subsection_order": [f"../examples/{name}" for name in FOLDERS] + ["*"],
    "reset_modules": ("gallery_style.reset",),
    "within_subsection_order": "FileNameSortKey",
    "doc_module": ("spdsl",),
    "reference_url": {"spdsl": None},
    "backreferences_dir": "api/backreferences",
    "capture_repr": (),  # what an example says, it prints; a cell may end with `axis.legend()`
    "inspect_global_variables": False,
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "plot_gallery": True,
    "parallel": 2,
    "matplotlib_animations": False,
}

# ----------------------------------------------------------------------------------------------------------- the look
html_theme = "pydata_sphinx_theme"
html_title = "spdsl"
html_static_path = ["_static"]
html_extra_path = ["llms.txt"]
html_css_files = ["site.css"]
html_js_files = ["sortable.js"]
html_context = {"default_mode": "auto"}  # light or dark as the reader's system
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "spdsl"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher", "navbar-icon-links"],
    "header_links_before_dropdown": 7,
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "whats_new": [], "cite": []}
