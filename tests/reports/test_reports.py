"""What reports on words and comparisons promise alike, in every format."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.html_page import HTML_TAGS, Page, check_inert
from tests.some_reports import (
    FORMATS,
    NASTY,
    compared,
    nasty_diff,
    nasty_words,
    save,
    saved,
    unknown_words,
    vocabulary,
)
from vocabtool import ByteStrings, NotFound, Vocabulary
from vocabtool.search.hits import Hit, Hits, QuerySummary

MAKERS: dict[str, Any] = {
    "words": lambda: replace(nasty_words(pieces=True), others=(nasty_words(),), notes=("<u>",)),
    "diff": nasty_diff,
}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Any:
    """Makes a report full of what strangers may put into it, each time anew."""
    return MAKERS[request.param]


@pytest.mark.parametrize("form", [*FORMATS, "text"])
def test_the_same_report_gives_the_same_bytes(form: str, make: Any, tmp_path: Path) -> None:
    """Twice counted and written: equal, and nothing is left beside; of nothing, too."""
    data = saved(make(), tmp_path, form)
    assert saved(make(), tmp_path, form) == data
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    nothing = vocabulary([], "nothing")
    assert saved(compared(nothing, nothing, []), tmp_path, form)
    assert saved(unknown_words([], []), tmp_path, form)


@pytest.mark.parametrize(
    ("ending", "form"),
    [
        *((f".{form}", form) for form in FORMATS),
        *((".htm", "html"), (".txt", "text"), ("", "text"), (".JSON", "json")),
    ],
)
def test_the_ending_tells_the_format(ending: str, form: str, make: Any, tmp_path: Path) -> None:
    """Without a format the file's ending decides; an unknown one means text."""
    path = tmp_path / f"entries{ending}"
    save(make(), path)
    assert path.read_bytes() == saved(make(), tmp_path, form)


def test_no_folder_to_write_in(make: Any, tmp_path: Path) -> None:
    """The message names the folder."""
    with pytest.raises(NotFound, match="no/such: the folder does not exist"):
        save(make(), tmp_path / "no" / "such" / "report", "json")


def test_parquet_holds_the_other_figures(make: Any, tmp_path: Path) -> None:
    """Its metadata is what JSON says, without the lists."""
    whole = json.loads(saved(make(), tmp_path, "json"))
    some = [
        f"{kind}_words{of}" for kind in ("unknown", "split") for of in ("", "_listed", "_in_all")
    ]
    listed = ("entries", *some, "random_words")
    rest = {key: value for key, value in whole.items() if key not in listed}
    schema = pq.read_schema(io.BytesIO(saved(make(), tmp_path, "parquet")))
    assert json.loads(schema.metadata[b"vocabtool"]) == rest


SHOWN = {
    "words": ("<script>alert(1)</script>", "</style>", "models/<b>", "<i>.txt", "$x^2$", "<u>"),
    "diff": ("models/<i>", "<b>one</b>", "<u>.txt", "</style>", "$x^2$"),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_the_page_is_inert_and_well_formed(kind: str, tmp_path: Path) -> None:
    """Entries, names and sources make no tag, no handler, and nothing that is loaded."""
    text = saved(MAKERS[kind](), tmp_path, "html").decode()
    shown = check_inert(text)
    assert [word for word in (*SHOWN[kind], "\\u202eabc") if word not in shown] == []
    assert "\u202e" not in text
    ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))


def found_hits(count: int) -> Hits:
    query = QuerySummary("<script>alert(1)</script>", (), "rrf", None, None, None)
    hits = (Hit(f"<b>{i}", "</td> $x^2$ " * 100, {}, 1 / (1 + i), 0) for i in range(count))
    return Hits(tuple(hits), query, notes=("<u>",))


NOTEBOOK: dict[str, tuple[Any, set[str]]] = {
    "vocabulary": (vocabulary(NASTY, "<b>one</b>"), {"id", "entry", "0", "</style>", "\\u202eabc"}),
    "uneven": (
        Vocabulary("v", "list", ByteStrings.of([b"a", b"<i>"]), ids=np.array([3, 9])),
        {"9"},
    ),
    "large": (vocabulary([b"<script>"] * 2_000), {"<script>", "…", "1999"}),
    "words": (MAKERS["words"](), {"What <b> does not know", "unknown", "split word", "tokens"}),
    "diff": (nasty_diff(), {"A: <i>, B: two & more", "of A", "only in B", "punctuation"}),
    "hits": (found_hits(12), {"<b>0", "1.000", "note: <u>\n… and 2 more"}),
    "nothing": (found_hits(0), {"0 hits for <script>alert(1)</script>"}),
    "empty": (vocabulary([]), {"Vocabulary v: 0 entries, list"}),
}


@pytest.mark.parametrize("kind", NOTEBOOK)
def test_notebooks_show_short_tables(kind: str) -> None:
    """The HTML is well-formed, short and inert; MathJax must skip it."""
    found, facts = NOTEBOOK[kind]
    assert len(repr(found)) < 120  # notebooks store it beside the HTML
    text = found._repr_html_()
    (root,) = ElementTree.fromstring(f"<body>{text}</body>")
    assert "mathjax_ignore" in root.attrib["class"]
    page = Page(text)
    assert page.tags <= {*HTML_TAGS}
    assert {name for name, _ in page.attributes} <= {"class", "style", "value", "title"}
    texts = {"".join(each.itertext()) for each in root.iter()}
    assert facts <= texts
    assert sum(each.tag == "tr" for each in root.iter()) <= 2 * 11 + 1
    assert len(text) < 20_000
