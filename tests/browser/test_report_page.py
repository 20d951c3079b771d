"""The report in a browser: two widths, light and dark, mouse and keyboard."""

import json
from itertools import pairwise

import pytest

WIDTHS = [1280, 390]
SCHEMES = ["light", "dark"]

OVERFLOW = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
COLUMN = "return [...document.querySelectorAll(`#methods tbody tr`)].map(r => r.cells[arguments[0]].innerText.trim())"
VALUES = (
    "return [...document.querySelectorAll(`#methods tbody tr`)].map(r => r.cells[arguments[0]].dataset.value ?? null)"
)
SORT = "return [...document.querySelectorAll(`#methods thead th`)].map(h => h.getAttribute('aria-sort'))"
# contrast of every visible text with what is behind it, as WCAG 2 defines it
CONTRAST = """
const parse = c => (c.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
  if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
const poor = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const e = walk.currentNode.parentElement;
  if (!walk.currentNode.data.trim() || !e.checkVisibility() || e.closest("svg, script, style")) continue;
  const style = getComputedStyle(e), size = parseFloat(style.fontSize);
  const needed = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
  const found = ratio(parse(style.color), behind(e));
  if (found < needed) poor.push([walk.currentNode.data.trim().slice(0, 40), found]);
}
const inks = {};
const root = getComputedStyle(document.documentElement);
const probe = document.createElement("i");
document.body.append(probe);
for (const name of ["ink", "muted", "blue", "orange", "green"]) {
  probe.style.color = `var(--fig-${name})`;
  inks[name] = ratio(parse(getComputedStyle(probe).color), behind(document.body));
}
probe.remove();
return {poor, inks, page: light(behind(document.body))};
"""
INK_USED = """
return [...document.querySelectorAll("svg [style*='--fig-ink']")].slice(0, 50).map(e => getComputedStyle(e).fill)
"""


def heading(driver, name):
    """The button in the head of the column of that name, and the column's place."""
    buttons = driver.find_elements("css selector", "#methods thead th button")
    names = [button.get_attribute("textContent").strip() for button in buttons]
    place = next(k for k, text in enumerate(names) if text.startswith(name))
    return buttons[place], place


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_page_fits_asks_for_nothing_and_complains_of_nothing(browser, page, width, scheme):
    driver = browser.show(page, width, scheme)
    kind = next(kind for kind in ("made", "real", "hostile") if kind in str(page))
    browser.screenshot(f"{kind}-{width}-{scheme}")
    assert driver.execute_script("return innerWidth") == width
    assert driver.execute_script(OVERFLOW) == 0
    assert [line for line in driver.get_log("browser") if line["level"] in ("SEVERE", "WARNING")] == []
    events = [json.loads(line["message"])["message"] for line in driver.get_log("performance")]
    asked = {e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"}
    assert page.as_uri() in asked
    assert [url for url in asked if url != page.as_uri() and not url.startswith("data:")] == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_text_and_lines_stand_out_in_light_and_dark(browser, page, width, scheme):
    driver = browser.show(page, width, scheme)
    found = driver.execute_script(CONTRAST)
    assert (found["page"] < 0.05) if scheme == "dark" else (found["page"] > 0.9)
    assert found["poor"] == []
    assert found["inks"].pop("ink") > 7
    assert min(found["inks"].values()) > 4.5
    used = set(driver.execute_script(INK_USED))
    assert used == {"rgb(232, 236, 240)" if scheme == "dark" else "rgb(28, 33, 39)"}


@pytest.mark.parametrize("width", WIDTHS)
def test_click_sorts_and_sorts_back(browser, made, width):
    driver = browser.show(made, width, "light")
    button, place = heading(driver, "Accuracy")
    before = driver.execute_script(COLUMN, 0)
    button.click()
    values = driver.execute_script(VALUES, place)
    numbers = [float(value) for value in values if value is not None]
    assert numbers == sorted(numbers, reverse=True)
    assert values[-1] is None  # NN-LEM failed
    assert driver.execute_script(SORT)[place] == "descending"
    button.click()
    values = driver.execute_script(VALUES, place)
    numbers = [float(value) for value in values if value is not None]
    assert numbers == sorted(numbers)
    assert values[-1] is None
    assert [order for order in driver.execute_script(SORT) if order] == ["ascending"]
    assert driver.execute_script(COLUMN, 0) != before
    assert sorted(driver.execute_script(COLUMN, 0)) == sorted(before)


def test_words_sort_as_words(browser, made):
    driver = browser.show(made, 1280, "light")
    heading(driver, "Method")[0].click()
    names = driver.execute_script(VALUES, 0)
    assert names[0] == "CDL"
    assert names[-1].startswith("SPDSL")


@pytest.mark.parametrize("key", ["ENTER", "SPACE"])
def test_keyboard_reaches_and_sorts_the_table(browser, made, key):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    driver = browser.show(made, 1280, "light")
    _, place = heading(driver, "p")
    for _ in range(40):
        ActionChains(driver).send_keys(Keys.TAB).perform()
        focused = driver.switch_to.active_element
        if focused.tag_name == "button" and focused.get_attribute("textContent").strip() == "p":
            break
    assert focused.tag_name == "button"
    assert driver.execute_script("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    ActionChains(driver).send_keys(getattr(Keys, key)).perform()
    assert driver.execute_script(SORT)[place] == "ascending"
    values = [float(value) for value in driver.execute_script(VALUES, place) if value is not None]
    assert values == sorted(values)
    assert "Sorted by p, ascending" in driver.find_element("id", "sorted").text


def test_pictures_have_words_and_headings_go_down_one_at_a_time(browser, page):
    driver = browser.show(page, 1280, "light")
    words = driver.execute_script(
        "return [...document.querySelectorAll('img, [role=img]')].map(e => e.alt || e.ariaLabel)"
    )
    assert len(words) >= 9
    assert all(words)
    levels = driver.execute_script("return [...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map(e => +e.tagName[1])")
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("width", WIDTHS)
def test_letters_in_figures_can_be_read_and_buttons_be_hit(browser, page, width):
    driver = browser.show(page, width, "light")
    scales = driver.execute_script(
        "return [...document.querySelectorAll('.drawing svg')]"
        ".map(s => s.getBoundingClientRect().width / s.viewBox.baseVal.width)"
    )
    assert min(scales) * 10 > 9  # letters of ten points
    heights = driver.execute_script(
        "return [...document.querySelectorAll('th button, nav a')]"
        ".filter(b => b.checkVisibility()).map(b => b.getBoundingClientRect().height)"
    )
    assert min(heights) >= 24  # WCAG 2.2, target size


@pytest.mark.parametrize("width", WIDTHS)
def test_names_of_users_do_nothing(browser, hostile, width):
    driver = browser.show(hostile, width, "light")
    assert driver.execute_script("return document.querySelectorAll('script').length") == 1
    assert driver.execute_script("return document.querySelectorAll('img').length") == 0
    shown = driver.execute_script("return document.body.textContent")
    assert "<script>document.title='owned'</script>" in shown
    assert driver.execute_script("return document.title") != "owned"


def test_the_page_works_on_paper(browser, made):
    driver = browser.show(made, 1280, "dark")
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert driver.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
