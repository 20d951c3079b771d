"""A headless Chromium at a given width and color scheme, and the pages to look at."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from runs import hostile_results, make_figures, make_results
from spdsl.datasets import load_digit_sets
from spdsl.evaluation.methods import get_methods
from spdsl.evaluation.report import write_report
from spdsl.evaluation.results import Cell

MISSING = (
    "the browser tests need Debian's packages chromium and chromium-driver: apt-get install chromium chromium-driver"
)
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"),
    # a page that is kept for "back" stays the driver's target now and then: "Not attached to an active page"
    "--disable-features=BackForwardCache,RenderDocument,ProactivelySwapBrowsingInstance",
)
SCREENSHOTS = Path(os.environ.get("SPDSL_SCREENSHOTS", "build/screenshots"))


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


class Browser:
    """One browser for all tests; `show` opens a page and forgets what was logged before."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, url):
        """Go to the page; the driver sometimes loses sight of Chromium when it takes a new process, so try again."""
        from selenium.common.exceptions import TimeoutException

        for _ in range(2):
            try:
                return self.driver.get(url)
            except TimeoutException:
                continue
        return self.driver.get(url)

    def show(self, path, width, scheme):
        self.open("about:blank")
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        wishes = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}  # no gliding while a test clicks
        features = [{"name": name, "value": value} for name, value in wishes.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.driver.get_log("browser"), self.driver.get_log("performance")
        self.open(path.as_uri())
        return self.driver

    def screenshot(self, name):
        """The whole page as a picture for people to look at."""
        options = {"format": "png", "captureBeyondViewport": True}
        picture = self.driver.execute_cdp_cmd("Page.captureScreenshot", options)["data"]
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        (SCREENSHOTS / f"{name}.png").write_bytes(b64decode(picture))


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.fail(MISSING, pytrace=False)
    from selenium import webdriver

    os.environ["NO_PROXY"] = ",".join(filter(None, [os.environ.get("NO_PROXY"), "localhost,127.0.0.1"]))
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield Browser(started)
    started.quit()


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A page with all that a page can have: 17 methods, published figures, failures, long words, many classes."""
    methods = {method.name: 0.6 + 0.02 * k for k, method in enumerate(get_methods("paper"))}
    classes = [f"class {k} with a long name" for k in range(14)]
    word = "unbreakable" * 30
    more = {
        "published": {name: (100 * value - 3, 2.5) for name, value in methods.items()},
        "sections": {method.name: str(method.category) for method in get_methods("paper")},
        "title": "A made-up run " * 4,
    }
    results = make_results(10, methods, classes, **more)
    cells = [Cell("NN-LEM", c.split, error=f"ValueError: {word}") if c.method == "NN-LEM" else c for c in results.cells]
    settings = results.settings | {"a very long setting": word, "folds": [2, 3]}
    results = replace(results, cells=cells, settings=settings)
    return next(iter(write_report(results, tmp_path_factory.mktemp("made"), make_figures(classes))))


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    """A page of a run in which every name that comes from a user tries to be more than a name."""
    results = hostile_results()
    return next(iter(write_report(results, tmp_path_factory.mktemp("hostile"), make_figures(results.classes))))


@pytest.fixture(scope="session")
def real(tmp_path_factory):
    """The page of a short run of the program, on five digits."""
    folder = tmp_path_factory.mktemp("real")
    X, y = load_digit_sets()
    kept = np.concatenate([np.flatnonzero(y == digit)[:15] for digit in range(5)])
    train = np.tile(np.arange(15) < 3, 5)
    np.savez(folder / "digits.npz", X=X[kept], y=y[kept], train=train, test=~train)
    options = ["--data", folder / "digits.npz", "--tune", "none", "--methods", "NN-LEM,CDL,LEML,SPDML*-LEM,SPDSL-LEM"]
    command = [sys.executable, "-m", "spdsl.cli", "reproduce", *options, "--draws", "1", "--jobs", "1", "--out", folder]
    subprocess.run([str(part) for part in command], check=True, timeout=600)
    return folder / "report.html"


@pytest.fixture(params=["made", "real", "hostile"])
def page(request):
    """Path of a page under test."""
    return request.getfixturevalue(request.param)
