"""The page of ``vocabtool serve`` in Chromium: what it shows, requests, and says to axe-core."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from subprocess import run
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlsplit

import numpy as np
import pytest

pytest.importorskip("playwright", reason="it drives the browser")
pytest.importorskip("axe_playwright_python", reason="it checks the page")
pytest.importorskip("httpx", reason="it asks the server")
pytest.importorskip("uvicorn", reason="the extra serve is not installed")

import axe_playwright_python
from playwright.sync_api import Browser, Page, Route, expect

from tests.builders.served import serving
from tests.builders.small_indexes import FUSIONS
from tests.builders.small_indexes import made as made_small
from vocabtool import Document, Index

pytestmark = pytest.mark.skipif(which("chromium") is None, reason="chromium is not installed")

PHONE: Final = 360  # CSS pixels
HEIGHT: Final = 900
KNOWN: Final = ("printer", "paper", "water", "garden", "office", "find")
# Documents without a word that the model knows have a vector of their own kind.
TEXTS: Final = {
    "paper": "The printer in the office needs paper.",
    "garden": "Water the garden in the morning.",
    "hx200": "The printer HX200 is beside the garden.",
    "xapian": "😀 Xapian can find paper & <b>water</b>.",
    "zope": "Zope can find the printer.",
}
SUBJECTS: Final = {"paper": "it's", "garden": "green", "hx200": "it's", "zope": "green"}
# Reports a violation of the policy as an error of the console.
TELL: Final = """addEventListener("securitypolicyviolation", (event) =>
    console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));"""
# How far the page's parts jumped without a key or a click: at most 0.1 is good, says web.dev.
JUMPS: Final = """window.jumps = 0; new PerformanceObserver((list) => {
    for (const each of list.getEntries()) window.jumps += each.hadRecentInput ? 0 : each.value;
}).observe({type: "layout-shift", buffered: true});"""
SCROLLS: Final = "document.documentElement.scrollWidth > innerWidth"
FOCUS: Final = "document.activeElement.id"


def fill(index: Any, texts: dict[str, str]) -> None:
    """Add documents in one commit."""
    documents = [
        Document(name, text, {"subject": SUBJECTS.get(name, "none"), "year": 2020 + len(name)})
        for name, text in texts.items()
    ]
    with index.writer() as writer:
        writer.add(documents)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Word vectors in GloVe's format: a direction for each known word."""
    path = tmp_path_factory.mktemp("model") / "words.txt"
    axes = np.eye(len(KNOWN))
    rows = zip(("<unk>", "the", *KNOWN), (axes.mean(0), axes.mean(0), *axes), strict=True)
    path.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in rows))
    return path


def made(folder: Path, model: Path) -> Path:
    """Make an index of the documents."""
    index = Index.create(folder, str(model), rule="lower", weights="none")
    fill(index, TEXTS)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Path:
    return made(tmp_path_factory.mktemp("page") / "help desk", model)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index without a model."""
    path = tmp_path_factory.mktemp("other") / "small"
    made_small(path)
    return path


@pytest.fixture(scope="module")
def server(folder: Path, other: Path) -> Iterator[str]:
    """The address of a server with two indexes."""
    with serving({"help desk": folder, "small": other}) as client:
        yield str(client.base_url)


@dataclass
class Tab:
    """A page, what it requested, and what its console says."""

    page: Page
    server: str
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def open(self, address: str = "", server: str | None = None) -> None:
        """Open an address of the page, and wait for what it answers."""
        self.page.goto(f"{server or self.server}/{address}")
        self.until("document.querySelector('#index-facts').textContent")
        self.settle()
        assert self.page.evaluate("window.jumps") <= 0.1

    def settle(self) -> None:
        """Wait for the answer to what the address asks for."""
        self.page.wait_for_load_state("networkidle")

    def ids(self, side: str = "first") -> list[str]:
        """The ids of the hits, as shown."""
        return self.page.locator(f"article[id^={side}-] h3 bdi").all_inner_texts()

    def until(self, script: str) -> None:
        """Wait until an expression is true. ``wait_for_function`` is what the policy forbids."""
        end = time.monotonic() + 20
        while not self.page.evaluate(script):
            assert time.monotonic() < end, script
            self.page.wait_for_timeout(20)

    def shows(self, *ids: str) -> None:
        """Wait until the first list has these hits."""
        expect(self.page.locator("article[id^=first-] h3 bdi")).to_have_text([*ids])

    def marks(self) -> dict[str, str]:
        """The words of the query and how they are marked."""
        words = self.page.locator("#words .word")
        found = words.evaluate_all("all => all.map((e) => [e.textContent, e.classList[1] ?? ''])")
        return dict(found)

    def check(self, expected: tuple[str, ...] = ()) -> None:
        """No request to other hosts, no errors of the console, nothing that axe-core finds."""
        script = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text("utf-8")
        self.page.evaluate(script)
        found = self.page.evaluate("axe.run()")["violations"]
        told = [(each["id"], [node["html"] for node in each["nodes"]]) for each in found]
        assert told == []
        here = ("http://127.0.0.1:", "data:", "blob:")
        assert [url for url in self.requests if not url.startswith(here)] == []
        assert [each for each in self.errors if not any(map(each.__contains__, expected))] == []
        assert not self.page.evaluate(SCROLLS)


@pytest.fixture
def tab(chromium: Browser, server: str, request: pytest.FixtureRequest) -> Iterator[Tab]:
    """A tab; its parameters are those of ``Browser.new_page``. It is checked after the test."""
    options = {"viewport": {"width": 1280, "height": HEIGHT}, **getattr(request, "param", {})}
    page = chromium.new_page(**options)
    page.set_default_timeout(20_000)
    tab = Tab(page, server)
    page.add_init_script(TELL + JUMPS)
    page.on("request", lambda each: tab.requests.append(each.url))
    page.on(
        "console",
        lambda each: tab.errors.append(each.text) if each.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda each: tab.errors.append(str(each)))
    yield tab
    page.close()


def query_of(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def test_typing_answers(tab: Tab) -> None:
    """A search runs while one types; the address has it. Every fusion is offered."""
    tab.open()
    assert "Type to search 5 documents." in tab.page.inner_text("#status")
    for side, first in (("first", ()), ("second", ("none",))):
        options = tab.page.locator(f"#{side} option").all_text_contents()
        assert options == [*first, *FUSIONS]
    assert tab.page.evaluate(FOCUS) == "query"
    assert tab.page.locator("details[open]").count() == 0
    tab.check()
    tab.page.keyboard.type("find Xapian", delay=5)
    tab.shows("xapian", "zope", "hx200", "garden", "paper")
    assert query_of(tab.page) == {"index": ["help desk"], "q": ["find Xapian"]}
    assert tab.page.inner_text("#first-1 .lines") == TEXTS["xapian"]
    marked = tab.page.locator("#first-1 mark").all_inner_texts()
    assert marked == ["Xapian", "find"]  # behind a character of two units
    tab.check()


def test_overtaken_requests_are_cancelled(tab: Tab) -> None:
    """An answer that comes late is not shown: its request was given up."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        asked = json.loads(route.request.post_data or "{}")
        held.append(route) if asked["query"] == "garden" else route.continue_()

    failed: list[str] = []
    tab.open()
    tab.page.route("**/search", hold)
    tab.page.on("requestfailed", lambda each: failed.append(each.failure or ""))
    with tab.page.expect_request("**/search"):
        tab.page.fill("#query", "garden")
    with tab.page.expect_event("requestfailed"):
        tab.page.fill("#query", "Zope")
    tab.page.wait_for_selector("#first-1")
    assert tab.ids()[0] == "zope"
    assert len(held) == 1
    assert failed == ["net::ERR_ABORTED"]


def test_words_have_colours_and_reasons(tab: Tab) -> None:
    """A word's kind has a colour and a line; in focus, it says why and what it weighs."""
    tab.open("?q=the+printer+Xapian+HX200+wrod")
    expected = {"the": "stop", "printer": "known", "Xapian": "unknown", "HX200": "code"}
    assert tab.marks() == {**expected, "wrod": "absent"}
    looks = tab.page.locator("#words .word").evaluate_all(
        "all => all.map((e) => { const s = getComputedStyle(e); return [s.backgroundColor,"
        " s.borderBottomStyle + s.textDecorationLine + s.fontFamily + s.borderTopStyle]; })"
    )
    signs = [sign for _, sign in looks]
    assert len(set(signs)) == len(signs) == 5
    assert len({colour for colour, _ in looks}) == 4  # known, unknown, in no document, others
    assert tab.page.locator(".absent").evaluate_all("all => all.map((e) => e.className)") == [
        "word absent",  # one mark, whatever the model knows
        "absent",  # in the legend
    ]
    inside = (
        "e => e.firstElementChild.getBoundingClientRect().left - e.getBoundingClientRect().left"
    )
    assert tab.page.locator("#words").evaluate(inside) >= 5  # the line of the focus is not cut off
    for act in ("focus", "hover"):
        getattr(tab.page.get_by_role("button", name="Xapian: unknown"), act)()
        told = tab.page.inner_text("#word-facts")
        assert re.fullmatch(
            r"Xapian: unknown to the model, in 1 document, counted 1\.5 times, weighs \d\.\d\d",
            told,
        )
    tab.check()


def test_side_by_side(tab: Tab) -> None:
    """Two settings are two lists, and each hit says where it is in the other one."""
    tab.open("?q=find+Xapian&beside=dense&k=3")
    assert tab.page.locator(".beside h2").all_inner_texts() == ["coverage", "dense"]
    first, second = tab.ids(), tab.ids("second")
    assert first != second
    for here, there, side in ((first, second, "first"), (second, first, "second")):
        for rank, name in enumerate(here, 1):
            told = tab.page.inner_text(f"#{side}-{rank} .move")
            if name not in there:
                assert "Only here" in told
            elif there.index(name) + 1 == rank:
                assert "The same rank" in told
            else:
                by = there.index(name) + 1 - rank
                assert f"{abs(by)} {'higher' if by > 0 else 'lower'} than" in told
                assert f"rank {there.index(name) + 1}" in told
    bars = "all => all.map((e) => e.getBoundingClientRect().width / e.parentNode.clientWidth)"
    full = []
    for side in ("first", "second"):
        pieces = tab.page.locator(f"#{side}-1 .bar > span").evaluate_all(bars)
        told = tab.page.inner_text(f"#{side}-1 .gave > p > :last-child")
        full.append(float(told.removeprefix("score ")) / sum(pieces))
    assert full[0] == pytest.approx(full[1], rel=0.01)  # one scale
    title = tab.page.get_attribute("#first-1 .bar", "title") or ""
    assert float(re.findall(r"\d\.\d+", title)[0]) == pytest.approx(full[0], rel=0.01)
    scores = r"vectors \d\.\d{3}\s+keywords \d\.\d{3}\s+score \d\.\d{3}"
    gave = tab.page.locator("#first-1 .gave")
    assert re.fullmatch(scores, gave.inner_text().strip())  # there is no room for the ranks
    tab.page.click("#first-1 button")
    assert "keywords" in gave.inner_text() and "rank" in gave.inner_text()
    tab.check()
    tab.page.click("#settings summary")
    tab.page.select_option("#second select", "")
    tab.page.wait_for_selector(".beside", state="detached")
    assert query_of(tab.page) == {"index": ["help desk"], "q": ["find Xapian"], "k": ["3"]}


def test_bars_show_what_each_leg_gave(tab: Tab) -> None:
    """The parts of a bar are as long as the legs' parts of the score."""
    tab.open("?q=find+Xapian")
    with tab.page.expect_response("**/search") as answered:
        tab.page.reload()
    hits = answered.value.json()["hits"]
    tab.page.wait_for_selector("#first-1")
    widths = "e => [...e.children].map((c) => c.getBoundingClientRect().width / e.clientWidth)"
    sums = [
        sum(hit["explanation"][leg]["part"] or 0 for leg in ("dense", "keyword")) for hit in hits
    ]
    for rank, hit in enumerate(hits, 1):
        why = hit["explanation"]
        expected = [(why[leg]["part"] or 0) / max(sums) for leg in ("dense", "keyword")]
        shown = tab.page.locator(f"#first-{rank} .bar").evaluate(widths)
        assert shown == pytest.approx(expected, abs=0.005)
        told = tab.page.inner_text(f"#first-{rank} .gave")
        vectors = f"rank {why['rank_without_keywords']}, similarity {hit['similarity']:.3f}"
        assert f"vectors {why['dense']['part'] or 0:.3f}: {vectors}" in told
        words = "".join(f", {word['surface']} {word['score']:.2f}" for word in why["words"])
        keywords = f"rank {why['keyword']['rank']}, BM25 {hit['bm25'] or 0:.3f}{words}"
        assert (keywords if why["words"] else "no word found") in told
        assert told.count("rank ") == 1 + bool(why["words"])
        assert f"score {hit['score']:.3f}" in told


def test_a_link_restores_everything(tab: Tab) -> None:
    """What was set by hand is in the address, and there again in a new tab."""
    tab.open()
    tab.page.select_option("#index", "small")
    tab.page.select_option("#index", "help desk")
    tab.page.fill("#query", "printer & paper")
    tab.page.click("#settings summary")
    tab.page.select_option("#first select", "convex")
    tab.page.select_option("#second select", "keyword")
    tab.page.fill("#k", "7")
    tab.page.click("#filters summary")
    tab.page.check("text=it's")
    tab.page.fill("#where", "year > 2000")
    tab.page.wait_for_url("**where*")
    tab.settle()
    tab.page.locator("#first input").fill("0.3")
    tab.page.wait_for_url("**a=0.3*")
    tab.until("document.querySelector('#results').textContent.includes('Keywords weigh 0.30')")
    tab.settle()
    form = "Object.fromEntries([...document.querySelectorAll('#search-form :is(input, select)')]"
    form += ".map((e, at) => [at, e.type === 'checkbox' ? e.checked : e.value]))"
    before, shown = tab.page.evaluate(form), tab.page.inner_html("#results")
    tab.open(f"?{urlsplit(tab.page.url).query}")
    assert tab.page.evaluate(form) == before
    assert tab.page.inner_html("#results") == shown
    assert tab.page.input_value("#index") == "help desk"
    assert set(tab.ids()) == {"paper", "hx200"}
    asked = query_of(tab.page)
    assert asked["filter"] == ['["subject","it\'s"]']
    assert {"fusion", "a", "beside", "k", "where", "index"} < asked.keys()


def test_back_and_forward(tab: Tab) -> None:
    """Changes are steps of the history, letters are not."""
    tab.open("?q=printer")
    tab.page.click("#settings summary")
    tab.page.select_option("#first select", "dense")
    tab.page.wait_for_url("**fusion=dense*")
    tab.page.go_back()
    tab.until("document.querySelector('#first select').value === 'coverage'")


def test_filters(tab: Tab) -> None:
    """Values of a field are alternatives, fields are not; a wrong condition says where."""
    tab.open("?q=the+printer")
    tab.page.click("#filters summary")
    legends = tab.page.locator("#fields legend").all_inner_texts()
    assert legends == ["subject: the 2 most frequent", "year: the 2 most frequent"]
    tab.page.check("text=green")
    tab.until("document.querySelectorAll('article').length === 2")
    assert set(tab.ids()) == {"garden", "zope"}
    tab.page.check("text=it's")
    tab.until("document.querySelectorAll('article').length === 4")
    tab.page.fill("#where", "year >! 3")
    tab.page.wait_for_selector("#where-problem code")
    assert tab.page.inner_text("#where-problem mark") == "!"
    assert tab.page.get_attribute("#where", "aria-invalid") == "true"
    tab.check(("400 (Bad Request)",))
    tab.page.fill("#where", "year = 2025")
    tab.until("document.querySelectorAll('article').length === 2")
    assert tab.page.inner_text("#where-problem") == ""
    assert set(tab.ids()) == {"paper", "hx200"}


def test_the_whole_text(tab: Tab, tmp_path: Path, model: Path) -> None:
    """A long text is cut to some lines; a button shows all of it, with highlights, or less."""
    text = f"{'water ' * 200}Xapian {'paper ' * 200}Zope"
    with Index.create(tmp_path / "long", str(model), rule="lower", weights="none") as index:
        fill(index, {"long": text, "short": "Xapian"})
    with serving({"long": tmp_path / "long"}) as client:
        tab.open("?q=Xapian+Zope", str(client.base_url))
        shown = tab.page.locator("article:has(h3 a:text-is('long')) .lines")
        assert len(shown.inner_text()) < 350
        more = tab.page.get_by_role("button", name="more")
        assert more.count() == 1
        more.click()
        assert shown.inner_text() == text
        assert shown.locator("mark").all_inner_texts() == ["Xapian", "Zope"]
        tab.check()
        tab.page.get_by_role("button", name="less").click()
        assert len(shown.inner_text()) < 350


RST: Final = r"""Printers \s
------------

``HX200``\s of the office
^^^^^^^^^^^^^^^^^^^^^^^^^

.. _hx200:

.. note:: Takes :class:`~office.Paper`, see :ref:`the garden <garden>` and `water <http://x/>`_.
   It **must** be *dry*: ``find(**all)``, a*b*c.

::

   wait(*paper, **water)
"""
RST_READ: Final = """note: Takes Paper, see the garden and water.
   It must be dry: find(**all), a*b*c.

::

   wait(*paper, **water)"""
MARKDOWN: Final = """# Printers

**Find** [the paper](paper.md), `it's *here*`: <img src=x onerror="document.title='run'">

```python
print("__water__")
```"""
MARKDOWN_READ: Final = """Find the paper, it's *here*: <img src=x onerror="document.title='run'">

print("__water__")"""


@pytest.mark.parametrize(
    "tab", [{}, {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}], indirect=True
)
def test_hits_are_short_and_open_documents(tab: Tab, tmp_path: Path, model: Path) -> None:
    """A hit has eight lines, no markup, its headings once, and a link to the whole document."""
    path = "Printers s > HX200s of the office"
    texts = {f"d.rst#{path}": (RST, path), "d.md#Printers": (MARKDOWN, "Printers")}
    texts |= {f"{n}.rst#{path}": (f"{RST}\n{'paper ' * 300}", path) for n in range(8)}
    documents = [Document(id_, text, {"path": at}) for id_, (text, at) in texts.items()]
    index = Index.create(tmp_path / "docs", str(model), rule="lower", weights="none")
    with index, index.writer() as writer:
        writer.add(documents)
    with serving({"docs": tmp_path / "docs"}) as client:
        tab.open("?q=paper+printers", str(client.base_url))
        boxes = tab.page.locator("article").evaluate_all(
            "all => all.map((e) => [e.getBoundingClientRect().top, e.offsetHeight])"
        )
        assert len(boxes) == 10
        assert boxes[0][0] < 400
        assert max(height for _, height in boxes) <= 8 * 24 + 24  # lines and padding
        for file, read, title in (("d.rst", RST_READ, path), ("d.md", MARKDOWN_READ, "Printers")):
            link = tab.page.get_by_role("link", name=file, exact=True)
            hit = tab.page.locator("article").filter(has=link)
            assert hit.locator("h3 bdi").inner_text() == title
            shown = " ".join(hit.locator(".lines").inner_text().split()).removesuffix(" …")
            assert shown and " ".join(read.split()).startswith(shown)
            place = hit.get_attribute("id")
            hit.focus()
            tab.page.keyboard.press("Enter")
            expect(tab.page.locator("#document-text")).to_have_text(read)
            assert tab.page.evaluate(FOCUS) == "document-title"
            assert tab.page.inner_text("#document-title") == f"{file}#{title}"
            tab.check()
            tab.page.keyboard.press("Escape")
            tab.until(f"{FOCUS} === '{place}'")
        assert tab.page.locator("img").count() == 0
        assert tab.page.title().startswith("paper printers")
        tab.open("?document=gone", str(client.base_url))
        expect(tab.page.locator("#document-text")).to_contain_text("gone")
        tab.check(("404",))


def test_more_hits(tab: Tab, tmp_path: Path, model: Path) -> None:
    """Pages follow each other, all hits once; after a commit, the first page comes again."""
    path = made(tmp_path / "index", model)
    with serving({"live": path}) as client:
        tab.open("?q=find+Xapian&k=2", str(client.base_url))
        asked = {"query": "find Xapian"}
        expected = [
            hit["id"] for hit in client.post("/v1/indexes/live/search", json=asked).json()["hits"]
        ]
        tab.shows(*expected[:2])
        tab.page.click("#more")
        tab.shows(*expected[:4])
        assert tab.page.evaluate(FOCUS) == "first-3"
        assert tab.page.inner_text("#status").startswith("4 hits, ")
        fill(Index.open(path), {"new": "A quokka in the garden."})
        while client.post("/v1/indexes/live/search", json=asked).json()["commit"] == 1:
            tab.page.wait_for_timeout(20)
        tab.page.click("#more")
        tab.until("/has changed/.test(document.querySelector('#status').textContent)")
        tab.until("/6 documents/.test(document.body.innerText)")  # the facts follow
        assert len(tab.ids()) == 2
        for count in (4, 6):
            tab.page.click("#more")
            tab.until(f"document.querySelectorAll('article').length === {count}")
        assert set(tab.ids()) == {*TEXTS, "new"}
        assert tab.page.locator("#more").count() == 0
        tab.check(("400 (Bad Request)",))


def test_what_cannot_be_is_told(tab: Tab) -> None:
    """Of an address: another index, another fusion, too many hits. The nearest number is taken."""
    tab.open("?index=gone&q=find&fusion=xyz&beside=abc&k=5000")
    told = tab.page.inner_text("#away")
    assert "There is no index “gone”." in told
    assert "no fusion “xyz”: coverage is used" in told
    assert "no fusion “abc”" in told
    assert "1 to 1000, not “5000”" in told
    values = "[index, k, ...document.querySelectorAll('select[name]')].map((e) => e.value)"
    assert tab.page.evaluate(values) == ["help desk", "1000", "coverage", ""]
    tab.check()
    tab.page.click("#settings summary")
    for given, taken in (("0", "1"), ("5000", "1000"), ("7", "7")):
        tab.page.fill("#k", given)
        tab.page.press("#k", "Tab")
        assert tab.page.input_value("#k") == taken
        tab.page.wait_for_url(f"**k={taken}")
        assert "5000" not in tab.page.inner_text("#away")


def test_nothing_found_offers_spellings(tab: Tab) -> None:
    """A spelling, as documents write it and above the hits, is a link to the query with it."""
    tab.open("?q=Xapain")
    answer = tab.page.inner_text("#results")
    assert re.search(r"For .Xapain., did you mean Xapian\?\s+Nothing found", answer)
    tab.check()
    tab.page.get_by_role("link", name="Xapian").click()
    tab.page.wait_for_selector("#first-1")
    assert query_of(tab.page) == {"index": ["help desk"], "q": ["Xapian"]}
    assert tab.ids() == ["xapian"]


@pytest.mark.parametrize("text", ['it\'s "so" \\ $HOME `id` 😀', "-printer paper", "a\u2028b OR c"])
def test_copies_run(tab: Tab, folder: Path, text: str) -> None:
    """What is copied as Python finds the same; a shell splits the other two as they are meant."""
    tab.open(f"?q={quote(text)}&where={quote('''subject = 'it''s' or year > 2000''')}&a=0.25")
    tab.page.click("#copies summary")
    curl, python, command = tab.page.locator(".snippet pre").all_text_contents()
    words = split(curl)
    assert words[:2] == ["curl", f"{tab.server}/v1/indexes/help%20desk/search"]
    asked = json.loads(words[-1])
    where = "subject = 'it''s' or year > 2000"
    assert asked == {
        **{"query": text, "k": 10, "where": where, "fusion": "coverage", "a": 0.25},
        "explain": True,
    }
    options = ["-k", "10", "--fusion", "coverage", "-a", "0.25", "--where", where, "--explain"]
    assert split(command) == ["vocabtool", "search", *options, "--", "help desk", text]
    done: list[str] = []
    here = python.replace('"help desk"', repr(str(folder)))
    exec(here, {"print": lambda name, *_: done.append(name)})
    assert done == tab.ids()
    tab.check()


def split(command: str) -> list[str]:
    """Split a command as a shell does."""
    shell = run(["sh", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True)
    return shell.stdout.decode().split("\0")[:-1]


def test_keyboard_only(tab: Tab) -> None:
    """/ goes to the box, arrows through the hits and between lists, Escape back."""
    tab.open("?q=printer&beside=keyword")
    tab.page.click("#settings summary")
    press = tab.page.keyboard.press
    tab.page.evaluate("document.activeElement.blur()")
    press("/")
    assert tab.page.evaluate(FOCUS) == "query"
    for key, expected in (
        *(("ArrowDown", "first-1"), ("ArrowDown", "first-2"), ("ArrowRight", "second-2")),
        *(("ArrowUp", "second-1"), ("ArrowLeft", "first-1"), ("ArrowUp", "query")),
        *(("ArrowDown", "first-1"), ("Escape", "query")),
    ):
        press(key)
        assert tab.page.evaluate(FOCUS) == expected
    assert tab.page.input_value("#query") == "printer"
    width = "getComputedStyle(document.activeElement).outlineWidth"
    seen = []
    for _ in range(12):
        press("Tab")
        seen.append(tab.page.evaluate("document.activeElement.tagName"))
        assert tab.page.evaluate(width) == "3px"
    assert {"BUTTON", "SELECT", "INPUT", "SUMMARY", "ARTICLE"} <= set(seen)


DARK: Final = {"color_scheme": "dark"}
SMALL: Final = {"viewport": {"width": PHONE, "height": 740}}
STATES: Final = (
    *("", "?q=the+printer+Xapian+HX200+wrod", "?q=printer&beside=dense", "?q=xapain"),
    *("?tab=model&text=The+printer+Xapian", "?index=small&q=amber", "?index=small&tab=model"),
)


@pytest.mark.parametrize("tab", [{}, DARK, SMALL, {**SMALL, **DARK}], indirect=True)
def test_each_state_is_accessible(tab: Tab) -> None:
    """Light and dark, on a phone too: axe-core finds nothing, nothing scrolls sideways."""
    for address in STATES:
        tab.open(address)
        tab.page.evaluate("document.querySelectorAll('details').forEach((e) => (e.open = true))")
        tab.check()


def test_a_server_that_goes_away(tab: Tab, folder: Path) -> None:
    """The page says so, tries again, and answers by itself when the server is back."""
    with serving({"help desk": folder}) as client:
        tab.open("?q=printer", str(client.base_url))
        port = client.base_url.port
    tab.page.fill("#query", "Xapian")
    tab.until("/trying again/.test(document.querySelector('#away').textContent)")
    tab.check(("ERR_CONNECTION_REFUSED",))
    with serving({"help desk": folder}, port=port or 0):
        tab.until("document.querySelector('#first-1 h3')?.textContent.includes('xapian')")
        assert tab.page.inner_text("#away") == ""
        tab.settle()


def test_a_key_is_asked_for(tab: Tab) -> None:
    """A server that wants a key gets it in a header; the page keeps it for the tab."""
    used: list[str | None] = []

    def guard(route: Route) -> None:
        used.append(route.request.headers.get("authorization"))
        problem = {"title": "Unauthorized", "status": 401, "detail": "send a key"}
        right = used[-1] == "Bearer secret"
        route.continue_() if right else route.fulfill(status=401, json=problem)

    tab.page.route("**/v1/**", guard)
    tab.page.goto(f"{tab.server}/?q=printer")
    tab.page.wait_for_selector("#key:focus")
    assert tab.page.input_value("#k") == "10"  # the form is filled without the server
    assert "as the index" in (tab.page.text_content("#first") or "")
    tab.check(("401",))
    for key in ("wrong", "secret"):
        tab.page.fill("#key", key)
        tab.page.keyboard.press("Enter")
        tab.until("document.querySelector('#key-problem:not(:empty), #first-1')")
    tab.page.wait_for_selector("#first-1")
    assert used[:3] == [None, "Bearer wrong", "Bearer secret"]
    assert "secret" not in tab.page.url
    tab.page.reload()
    tab.page.wait_for_selector("#first-1")
    assert set(used[3:]) == {"Bearer secret"}
    tab.page.goto(f"{tab.server}/?tab=model")
    with tab.page.expect_download() as saved:
        tab.page.click("text=Save the report")
    assert saved.value.suggested_filename == "help desk.html"
    assert "Xapian".lower() in Path(saved.value.path()).read_text("utf-8").lower()


def test_the_model(tab: Tab) -> None:
    """How a text is cut, the rule, the vocabulary by prefix, and the report."""
    tab.open("?tab=model&text=The+printer+😀+Xapian")
    words = tab.page.locator("#cut .word")
    found = words.evaluate_all("all => all.map((e) => [e.textContent, e.classList[1]])")
    assert ["printer", "known"] in found
    assert ["Xapian", "unknown"] in found
    assert "lower" in tab.page.inner_text("#rule")  # few steps: open
    assert "static (a mean of word vectors)" in tab.page.inner_text("#model-facts")
    tab.page.fill("#prefix", "p")
    tab.until("/^2 of 8 words/.test(document.querySelector('#vocabulary-count').textContent)")
    shown = tab.page.locator("#entries li").evaluate_all("all => all.map((e) => e.lastChild.data)")
    assert shown == ["paper", "printer"]
    assert query_of(tab.page)["prefix"] == ["p"]
    tab.page.click("text=Show the report")
    frame = tab.page.frame_locator("iframe")
    frame.locator("table").first.wait_for()
    assert "xapian" in frame.locator("body").inner_text().lower()
    tab.check()


def test_a_large_vocabulary_scrolls(tab: Tab) -> None:
    """Of 400,004 entries only those in view are elements, and the last one can be reached."""
    total, pages = 400_004, []

    def entries(route: Route) -> None:
        asked = parse_qs(urlsplit(route.request.url).query)
        offset, limit = int(asked["offset"][0]), int(asked["limit"][0])
        pages.append(offset)
        rows = [{"id": at, "text": f"word{at}"} for at in range(offset, min(total, offset + limit))]
        facts = {"total": total, "matching": total, "offset": offset, "entries": rows}
        route.fulfill(json=facts)

    tab.page.route("**/vocabulary?*", entries)
    tab.open("?tab=model")
    last = "document.querySelector('#entries li:last-child').textContent"
    for share, expected in ((0.5, r"(19|20)\d{4}word"), (1, "400003word400003"), (0, r"1\dword")):
        tab.page.evaluate(f"entries.scrollTop = {share} * entries.scrollHeight")
        tab.until(f"/^{expected}/.test({last})")
        assert tab.page.locator("#entries li").count() < 20
    assert len(pages) < 8
    tab.check()
