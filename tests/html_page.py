"""A page as a browser takes it apart, and the tags that our pages are made of."""

from __future__ import annotations

import re
from html.parser import HTMLParser


class Page(HTMLParser):
    """Every tag and attribute of a page, and its ``data`` by title."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.numbers: dict[str, list[float]] = {}
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag == "data":
            found = dict(attrs)
            number = float(found["value"] or "")
            self.numbers.setdefault(found["title"] or "", []).append(number)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


HTML_TAGS = {
    *("html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "b", "div", "span", "bdi"),
    *("data", "figure", "table", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd", "ul", "li"),
    *("article", "h3", "mark", "a", "details", "summary"),
}


def check_inert(text: str) -> str:
    """Nothing in a page runs, or is loaded; the text that a browser shows."""
    page = Page(text)
    assert {"table"} <= page.tags <= HTML_TAGS
    assert not [name for name, _ in page.attributes if name.startswith("on") or name == "src"]
    links = [value for name, value in page.attributes if name == "href"]
    assert all(value and value.startswith("#") for value in links)
    assert "@import" not in text
    assert not re.search(r"url\(|https?://", text)
    return "".join(page.text)
