"""The site and the HTML reports as Chromium shows them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.browser.tab import Tab

PHONE = 390  # CSS pixels
SITE = ("site/index.html", "site/reference/commands.html", "site/reference/python.html")
REPORTS = ("oov.html", "diff.html", "search.html", "eval.html")
PAGES = (*SITE, *REPORTS)
# Whether a text of a table cell is on one line.
ONE_LINE = """((text) => {
    const cell = [...document.querySelectorAll("td")].find((each) => each.textContent === text);
    const range = document.createRange();
    range.selectNodeContents(cell);
    return new Set([...range.getClientRects()].map((each) => each.top)).size === 1;
})"""


def luminance(colour: str) -> float:
    """Return the relative luminance of ``rgb(r, g, b)`` as WCAG defines it, from 0 to 1."""
    shares = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return sum(w * s for w, s in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", [PHONE, 1280])
def test_only_this_host_and_no_errors(tab: Tab, page: str, width: int) -> None:
    """A page requests nothing from other hosts, and its console is empty."""
    tab.open(page, width)
    requests = tab.requests()
    assert tab.server + page in requests
    assert [url for url in requests if not url.startswith((tab.server, "data:"))] == []
    assert tab.errors() == []


@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_wider_than_a_phone(tab: Tab, page: str) -> None:
    """The page does not scroll sideways; boxes inside it may."""
    tab.open(page, PHONE)
    assert tab.run("innerWidth") == PHONE
    assert tab.run("document.documentElement.scrollWidth") <= PHONE


@pytest.mark.parametrize(
    ("page", "word"), [("diff.html", "punctuation"), ("oov.html", "capitalised")]
)
def test_words_stay_whole_on_a_phone(tab: Tab, page: str, word: str) -> None:
    """A narrow column does not split a word."""
    tab.open(page, PHONE)
    assert tab.run(f"{ONE_LINE}({word!r})")


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_scheme(tab: Tab, page: str, scheme: str) -> None:
    """Background and text contrast by at least 7 to 1."""
    tab.open(page, scheme=scheme)  # type: ignore[arg-type] # one of both
    background = tab.wait_for(
        "[document.body, document.documentElement].map((e) => getComputedStyle(e).backgroundColor)"
        ".find((colour) => !colour.startsWith('rgba'))"
    )
    text = tab.run("getComputedStyle(document.querySelector('h1')).color")
    dark, light = sorted(map(luminance, (background, text)))
    assert (light + 0.05) / (dark + 0.05) >= 7
    assert (luminance(background) == dark) is (scheme == "dark")


def test_the_search_box_finds_a_page(tab: Tab) -> None:
    """Typing a word and Enter lists the page of that word."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    tab.open("site/index.html")
    box = tab.driver.find_element(By.CSS_SELECTOR, "input.sidebar-search")
    box.send_keys("fingerprint", Keys.ENTER)
    results = "[...document.querySelectorAll('#search-results li a')].map((each) => each.href)"
    found = tab.wait_for(results)
    assert any("/reference/glossary.html" in address for address in found)
    assert tab.errors() == []
    assert [url for url in tab.requests() if not url.startswith((tab.server, "data:"))] == []
