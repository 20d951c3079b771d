"""The documentation in a browser, as `make docs` has built it: widths, colors, search, tables; opened from disk."""

import json
from pathlib import Path

import pytest
from test_report_page import CONTRAST, OVERFLOW, SCHEMES, WIDTHS

SITE = Path(__file__).parents[2] / "build" / "docs"
PAGES = [
    "index.html",
    "guide/choosing.html",
    "theory/geometry.html",
    "theory/gradients.html",
    "api/generated/spdsl.SPDSL.html",
    "api/generated/spdsl.estimators.LogVectorClassifier.html",
    "api/commands.html",
    "benchmarks.html",
    "auto_examples/index.html",
    "auto_examples/basics/plot_learned_distance.html",
]
pytestmark = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="run `make docs` first")
# texts that reach beyond the window where nothing scrolls; the page itself hides what overflows
CUT = """
const scrolls = e => !e.matches(".bd-article")
  && (/auto|scroll/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
return [...document.querySelectorAll(".bd-article *, .bd-sidebar-secondary code")]
  .filter(e => e.checkVisibility() && !e.closest("mjx-assistive-mml") && e.getBoundingClientRect().right > innerWidth + 1)
  .filter(e => !e.closest(".bd-article") || !scrolls(e)).map(e => e.textContent.trim().slice(0, 40));
"""
SETTLED = "(window.MathJax?.startup?.promise ?? Promise.resolve()).then(() => arguments[0]())"
FOUND = "return [...document.querySelectorAll('#search-results li a')].map(a => a.getAttribute('href'))"
COLUMN = "return [...document.querySelector(`.sortable tbody`).rows].map(row => row.cells[2].innerText)"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_stands_out_and_needs_no_network(browser, page, width, scheme):
    driver = browser.show(SITE / page, width, scheme)
    driver.execute_async_script(SETTLED)
    browser.screenshot(f"site-{Path(page).stem}-{width}-{scheme}")
    assert driver.execute_script(OVERFLOW) == 0
    assert driver.execute_script(CUT) == []
    assert [line for line in driver.get_log("browser") if line["level"] == "SEVERE"] == []
    events = [json.loads(line["message"])["message"] for line in driver.get_log("performance")]
    asked = {e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"}
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    found = driver.execute_script(CONTRAST)
    assert (found["page"] < 0.05) if scheme == "dark" else (found["page"] > 0.9)
    assert found["poor"] == []


@pytest.mark.parametrize(
    ("words", "page"),
    [("ridge", "guide/choosing.html"), ("groups", "guide/groups.html"), ("save", "api/generated/spdsl.save.html")],
)
def test_search_finds_the_page_of_the_guide(browser, words, page):
    driver = browser.show(SITE / "search.html", 1280, "light")
    driver.get(f"{(SITE / 'search.html').as_uri()}?q={words}")
    from selenium.webdriver.support.ui import WebDriverWait

    links = WebDriverWait(driver, 20).until(lambda d: len(d.execute_script(FOUND)) > 3 and d.execute_script(FOUND))
    assert any(link.startswith(page) for link in links[:6]), links[:6]


def test_a_click_on_a_heading_sorts(browser):
    driver = browser.show(SITE / "benchmarks.html", 1280, "light")
    before = driver.execute_script(COLUMN)
    driver.execute_script("document.querySelectorAll('.sortable thead th')[2].click()")
    after = driver.execute_script(COLUMN)
    assert sorted(before) == sorted(after)
    numbers = [float(text.split()[0]) for text in after[:-1] if text]
    assert numbers == sorted(numbers, reverse=True)
