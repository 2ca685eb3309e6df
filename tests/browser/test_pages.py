"""The site and the HTML reports as Chromium shows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

PHONE = 390  # CSS pixels
HEIGHT = 900
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


class Visit(NamedTuple):
    """A page, what it requested, and the warnings and errors of its console."""

    page: Page
    requests: list[str]
    errors: list[str]


Visits = Callable[..., Visit]


@pytest.fixture
def visit(chromium: Browser, server: str) -> Iterator[Visits]:
    """Opens a page of the server in a tab of its own."""
    visits: list[Visit] = []

    def opened(name: str, width: int = 1280, scheme: Any = "light") -> Visit:
        size: Any = {"width": width, "height": HEIGHT}
        page = chromium.new_page(viewport=size, is_mobile=width < 600, color_scheme=scheme)
        page.set_default_timeout(120_000)  # large pages on busy machines
        visits.append(visit := Visit(page, [], []))
        page.on("request", lambda request: visit.requests.append(request.url))
        page.on("websocket", lambda socket: visit.requests.append(socket.url))
        page.on("pageerror", lambda error: visit.errors.append(str(error)))

        def note(line: ConsoleMessage) -> None:
            if line.type in ("error", "warning"):
                visit.errors.append(line.text)

        page.on("console", note)
        page.goto(server + name)
        page.wait_for_load_state("networkidle")
        return visit

    yield opened
    for each in visits:
        each.page.close()


def check_alone(visit: Visit, server: str) -> None:
    """A page requests nothing from other hosts, and its console is empty."""
    assert [url for url in visit.requests if not url.startswith((server, "data:"))] == []
    assert visit.errors == []


def test_obvious_words_find_their_page(visit: Visits) -> None:
    """The site's search shows the page of each of them first."""
    pages = {
        "hybrid search": "tutorials/search",
        "out-of-vocabulary": "tutorials/unknown-words",
        "unknown words": "tutorials/unknown-words",
        "extract vocabulary": "how-to/extract",
        "GPU": "how-to/choose-an-encoder",
        "ONNX": "how-to/choose-an-encoder",
        "PostgreSQL": "how-to/postgresql",
        "LangChain": "how-to/langchain",
        "resume": "how-to/embed-a-corpus",
        "filter": "how-to/filter-a-search",
        "MCP": "how-to/connect-an-agent",
        "custom encoder": "how-to/own-vectors",
        "export ONNX": "how-to/choose-an-encoder",
        "BM25": "explanation/fusion",
    }
    page = visit("site/search.html").page
    first = {}
    for words in pages:
        page.goto(f"{page.url.partition('?')[0]}?q={words}")
        link = page.locator("#search-results ul.search > li a").first
        first[words] = (link.get_attribute("href") or "").partition(".html")[0]
    assert first == pages


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", [PHONE, 1280])
def test_only_this_host_and_no_errors(visit: Visits, server: str, page: str, width: int) -> None:
    found = visit(page, width)
    assert server + page in found.requests
    check_alone(found, server)


@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_wider_than_a_phone(visit: Visits, page: str) -> None:
    """The page does not scroll sideways; boxes inside it may."""
    shown = visit(page, PHONE).page
    assert shown.evaluate("innerWidth") == PHONE
    assert shown.evaluate("document.documentElement.scrollWidth") <= PHONE


@pytest.mark.parametrize(
    ("page", "word"), [("diff.html", "punctuation"), ("oov.html", "capitalised")]
)
def test_words_stay_whole_on_a_phone(visit: Visits, page: str, word: str) -> None:
    """A narrow column does not split a word."""
    assert visit(page, PHONE).page.evaluate(ONE_LINE, word)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_scheme(visit: Visits, page: str, scheme: str) -> None:
    """Background and text contrast by at least 7 to 1."""
    shown = visit(page, scheme=scheme).page
    background = shown.evaluate(
        "[document.body, document.documentElement].map((e) => getComputedStyle(e).backgroundColor)"
        ".find((colour) => !colour.startsWith('rgba'))"
    )
    text = shown.evaluate("getComputedStyle(document.querySelector('h1')).color")
    dark, light = sorted(map(luminance, (background, text)))
    assert (light + 0.05) / (dark + 0.05) >= 7
    assert (luminance(background) == dark) is (scheme == "dark")


def test_the_search_box_finds_a_page(visit: Visits, server: str) -> None:
    """Typing a word and Enter lists the page of that word."""
    found = visit("site/index.html")
    found.page.fill("input.sidebar-search", "fingerprint")
    found.page.press("input.sidebar-search", "Enter")
    found.page.wait_for_selector("#search-results li a[href*='reference/glossary.html']")
    check_alone(found, server)
