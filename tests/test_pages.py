"""What the README and the examples show runs as it stands."""

import ast
import pkgutil
import re
import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest

import spdsl
from spdsl import check_metric, check_objective
from spdsl.datasets import load_digit_sets

ROOT = Path(__file__).parents[1]


def test_the_python_of_the_readme_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # it writes a file
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len(blocks) >= 2
    scope = {}
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        for block in blocks:
            exec(compile(block, "README.md", "exec"), scope)
    shown = capsys.readouterr().out.split()
    assert float(shown[1]) > float(shown[0])
    assert "(448,20,20)" in "".join(shown)


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/index.md", "docs/models.md"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_python_of_other_pages_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    registries = (spdsl.METRICS, spdsl.OBJECTIVES, spdsl.METHODS)
    before = [dict(registry) for registry in registries]
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert blocks
    scope = {"__name__": "page"}
    try:
        for block in blocks:
            exec(compile(block, page, "exec"), scope)
        if page == "CONTRIBUTING.md":
            assert scope["model"].cost_ < scope["model"].history_[0]["value"]
            assert [row.failed for row in scope["table"].rows] == [0, 0]
            check_metric("inverse")
            check_objective("contrast")
    finally:
        for registry, kept in zip(registries, before, strict=True):  # what a page registers is forgotten
            registry.clear()
            registry.update(kept)


def test_digit_sets_are_covariances_with_mean():
    X, y = load_digit_sets(3, random_state=1)
    assert X.shape[1:] == (65, 65)
    assert len(X) == len(y)
    np.testing.assert_array_equal(np.unique(y), np.arange(10))
    mean = X[0, :64, 64]
    C = X[0, :64, :64] - np.outer(mean, mean)
    assert np.sum(np.linalg.eigvalsh(C) > 0.05 * np.trace(C)) == 2  # three images: rank two above the ridge
    assert X[0, 64, 64] == 1


def test_digit_sets_need_two_images():
    with pytest.raises(ValueError, match="at least 2 images"):
        load_digit_sets(1)


EXAMPLES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "examples").rglob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_have_the_form_of_the_gallery(example):
    """`make docs` runs them all; here: a title, text between the cells, and links to examples that exist."""
    path = ROOT / example
    text = path.read_text()
    title, rule, *_ = ast.get_docstring(ast.parse(text), clean=True).splitlines()
    assert set(rule) == {"="}
    assert len(rule) == len(title)
    assert path.name.startswith("plot_"), "sphinx-gallery runs only these"
    assert (path.parent / "GALLERY_HEADER.rst").exists()
    assert text.count("\n# %%\n#") >= 3
    assert "# What to read next\n" in text
    for folder, name in re.findall(r"sphx_glr_auto_examples_(\w+?)_(plot_\w+)\.py", text):
        assert f"examples/{folder}/{name}.py" in EXAMPLES
    for page in re.findall(r":doc:`/([^`]+)`", text):
        assert (ROOT / "docs" / f"{page}.md").exists()
    for name in re.findall(r"~spdsl\.([\w.]+)`", text):
        pkgutil.resolve_name(f"spdsl.{name}")


def test_an_example_runs(monkeypatch, capsys):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    example = runpy.run_path(str(ROOT / "examples" / "images" / "plot_image_to_label.py"))
    assert type(example["loaded"]) is type(example["model"])
    learned, plain = re.findall(r"([\d.]+) percent of the unseen tiles", capsys.readouterr().out)
    assert float(learned) > float(plain) > 80
    example["plt"].close("all")


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
)
def test_links_between_pages_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        if "://" not in target:
            path = (ROOT / page).parent / name if name else ROOT / page
            assert path.exists(), target
            assert not anchor or anchor in anchors(path), target


def anchors(path):
    """Names of the headings of a page, as GitHub and the site form them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
