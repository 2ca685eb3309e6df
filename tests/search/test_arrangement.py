"""Order, pages, groups and facets, compared with brute force over the documents of an index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.small_indexes import add, delete
from vocabtool import Document, Hit, Hits, Index

WORDS = ("amber", "birch", "cedar")
VALUES: dict[str, list[Any]] = {
    "lang": [None, "de", "en", "[x", "é"],
    "year": [None, -2, -1, 0, 1, 2],
    "price": [None, 0.5, -1.5, 2],
    "open": [None, True, False],
    "tags": [None, [], ["a"], ["b", "a", "a"], [1, True, None], ["1", [1]]],
}
FIELDS = sorted(VALUES)
DRAW = Random(28)
DOCUMENTS = [
    Document(
        f"{DRAW.choice('abé')}{n}",
        " ".join(word for word in WORDS for _ in range(DRAW.randrange(4) // 2)),
        {name: DRAW.choice(values) for name, values in VALUES.items()},
    )
    for n in range(60)
]
TEXTS = st.none() | st.sampled_from(["amber", "birch cedar", "amber birch cedar"])
SORTS = st.lists(
    st.builds(str.__add__, st.sampled_from(FIELDS), st.sampled_from(["", ":asc", ":desc"])),
    max_size=2,
)
WHERE = st.none() | st.sampled_from(["year >= 0", "year < 0 or lang is null", "open"])
KEPT: dict[str | None, Callable[[Mapping[str, Any]], bool]] = {
    None: lambda _: True,
    "year >= 0": lambda f: f.get("year") is not None and f["year"] >= 0,
    "year < 0 or lang is null": lambda f: (f.get("year") or 0) < 0 or f.get("lang") is None,
    "open": lambda f: f.get("open") is True,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "index"


def made(folder: Path, documents: Sequence[Document]) -> Index:
    """An index whose vectors are the numbers of the words of each document."""
    index = Index.create(folder, dim=3, language="none", dtype="float32")
    vectors = [
        [each.text.split().count(word) + 0.1 * (n + 1) for word in WORDS]
        for n, each in enumerate(documents)
    ]
    add(index, documents, np.array(vectors, np.float32))
    return index


def numbered(count: int) -> list[Document]:
    """Documents ``d00``, ``d01``, …: all have the word amber, and every third has birch."""
    return [
        Document(f"d{n:02}", "amber" + " birch" * (n % 3 == 0), {"third": n % 3, "n": n})
        for n in range(count)
    ]


def pages(index: Index, text: str | None, sizes: Iterator[int], **asked: Any) -> list[Hits]:
    """All pages of a search, each of the next size."""
    result, shown = [index.search(text, k=next(sizes), **asked)], 0
    while (shown := shown + len(result[-1])) < result[-1].total:
        result.append(index.search(text, k=next(sizes), offset=shown, **asked))
    return result


def in_order(hits: Sequence[Hit], sort: Sequence[str]) -> list[Hit]:
    """Sorted as Python sorts; what lacks the field comes last."""
    ordered = [*hits]
    for each in reversed(sort):
        name, _, way = each.partition(":")
        there = [hit for hit in ordered if hit.fields.get(name) is not None]
        there.sort(key=lambda hit: hit.fields[name], reverse=way == "desc")  # keeps equals in order
        ordered = there + [hit for hit in ordered if hit.fields.get(name) is None]
    return ordered


def in_groups(hits: Sequence[Hit], name: str) -> list[tuple[str, int]]:
    """The first id of each value, and how many more have it."""
    groups: dict[Any, list[str]] = {}
    for hit in hits:
        value = hit.fields.get(name)
        groups.setdefault((name, value) if value is not None else hit.id, []).append(hit.id)
    return [(first, len(more)) for first, *more in groups.values()]


def told(hits: Hits) -> dict[str, list[tuple[Any, int]]]:
    """The facets as pairs."""
    return {name: [(e.value, e.count) for e in counts] for name, counts in hits.facets.items()}


def counted(documents: Sequence[Document], name: str) -> list[tuple[Any, int]]:
    """Facets by a ``Counter`` of what JSON calls equal."""
    counts: Counter[tuple[bool, Any]] = Counter()
    for each in documents:
        value = each.fields.get(name)
        elements = value if isinstance(value, list) else [value]
        plain = [e for e in elements if isinstance(e, str | int | float)]
        counts.update({(isinstance(e, bool), e) for e in plain})
    order = sorted(counts, key=lambda k: (-counts[k], k[0], isinstance(k[1], str), k[1]))
    return [(key[1], counts[key]) for key in order]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """An index of the drawn documents, whose values repeat, or are missing, or are lists."""
    return made(tmp_path_factory.mktemp("drawn") / "index", DOCUMENTS)


@given(
    TEXTS,
    st.sampled_from(["coverage", "keyword", "rrf"]),
    SORTS,
    WHERE,
    st.none() | st.sampled_from(FIELDS),
    st.lists(st.integers(1, 9)),
)
def test_pages_together_are_the_whole_list(
    drawn: Index,
    text: str | None,
    fusion: str,
    sort: list[str],
    where: Any,
    group: Any,
    sizes: list[int],
) -> None:
    """Each once, in the order of Python's sort of what is found; facets are those of a loop."""
    asked: dict[str, Any] = {"where": where, "facets": FIELDS, "fusion": fusion}
    allowed = [each for each in DOCUMENTS if KEPT[where](each.fields)]
    if text is not None:
        asked["vector"] = [1, 0.5, 0]
    plain = drawn.search(text, k=90, **asked)
    if text is None:
        assert [hit.id for hit in plain] == sorted(each.id for each in allowed)
    expected = in_order([*plain], sort)
    ids = [(hit.id, None) for hit in expected] if group is None else in_groups(expected, group)
    found = pages(drawn, text, chain(sizes, repeat(20)), sort=sort, group_by=group, **asked)
    assert [(hit.id, hit.further) for page in found for hit in page] == ids
    scores = {(hit.id, hit.score) for hit in plain}
    assert {(hit.id, hit.score) for page in found for hit in page} <= scores
    if text is not None:
        allowed = [d for d in allowed if not {*text.split()}.isdisjoint(d.text.split())]
    for page in found:
        assert told(page) == {name: counted(allowed, name) for name in FIELDS}


def test_facets_show_the_most_frequent_values(folder: Path) -> None:
    """At most twenty, with a note; booleans and elements of lists are values of their own."""
    documents = [
        Document(f"{n}", "amber", {"n": n, "open": n > 0, "tags": ["x", n % 2, "x"]})
        for n in range(25)
    ]
    hits = made(folder, documents).search("amber", facets="n, open,tags", k=1)
    assert told(hits) == {
        "n": [(n, 1) for n in range(20)],
        "open": [(True, 24), (False, 1)],
        "tags": [("x", 25), (0, 13), (1, 12)],
    }
    assert [note for note in hits.notes if "25 values" in note and "20" in note]


def test_pages_of_a_short_list(folder: Path) -> None:
    """They end where the candidates do; a listing has all documents, whatever the depth."""
    index = made(folder, numbered(10))
    asked: dict[str, Any] = {"fusion": "keyword", "depth": 5}
    whole = pages(index, "amber", iter([2, 2, 2]), **asked)
    assert [(len(page), page.total) for page in whole] == [(2, 5), (2, 5), (1, 5)]
    beyond = index.search("birch", offset=9, **asked)
    assert ([*beyond], beyond.total) == ([], 4)
    listed = pages(index, None, iter([4, 4, 4]), sort="n:desc", depth=1)
    assert [hit.id for page in listed for hit in page] == [f"d{n:02}" for n in range(9, -1, -1)]


def test_fields_that_do_not_exist(folder: Path) -> None:
    """The option and the fields are named, before anything is searched."""
    index = made(folder, numbered(2))
    for option in ("sort", "facets", "group_by"):
        asked: dict[str, Any] = {option: "x"}
        with pytest.raises(ValueError, match=f"{option}: no field 'x'; .* 'third', 'n'"):
            index.search("amber", **asked)
    with pytest.raises(ValueError, match="sort: no field ''"):
        index.search("amber", sort="")
    with pytest.raises(ValueError, match="'where', 'sort' or 'facets'"):
        index.search()
    with pytest.raises(ValueError, match="offset must be at least 0, got -1"):
        index.search("amber", offset=-1)
    with pytest.raises(TypeError, match=r"'order'; .*sort, facets, offset, group_by"):
        index.search("amber", order="n")  # type: ignore[call-arg]


def test_a_listing(folder: Path) -> None:
    """What is found without a query has no score; fields without a value are no error."""
    index = made(folder, numbered(3))
    hits = index.search(where="n >= 1", fusion="dense", explain=True)
    assert [(hit.id, hit.score, hit.similarity, hit.bm25) for hit in hits] == [
        ("d01", 0, None, None),
        ("d02", 0, None, None),
    ]
    assert (hits.notes, hits.query.text, hits.query.words) == ((), "", ())
    assert [note for note in index.search(where="n > 9").notes if "condition" in note]
    empty = Index.create(folder.with_name("empty"), dim=3)
    assert [note for note in empty.search(where="id = 'x'").notes if "no documents" in note]
    delete(index, "d01")
    add(index, [Document("d03", "cedar", {"void": None})], np.ones((1, 3)))
    assert [hit.id for hit in index.search(sort=["void", "n:desc"])] == ["d02", "d00", "d03"]
    assert told(index.search(facets="void,n")) == {"void": [], "n": [(0, 1), (2, 1)]}
