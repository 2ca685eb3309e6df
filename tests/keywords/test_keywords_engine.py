"""The keyword engine against the textbook, and its files against the checksums of their commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.builders.small_corpus import PlainBM25
from vocabtool.errors import InvalidFile
from vocabtool.keywords.cutter import Clause, Cutter, KeywordQuery, Term, Terms, stored_length
from vocabtool.keywords.tantivy_index import (
    META,
    TantivyReader,
    TantivyWriter,
    check_files,
    checksums,
    nearest,
)
from vocabtool.system.ranking import RankedRows

MEMORY = 15_000_000
CUTTER = Cutter("none")
TEXTS = [
    "the quick brown fox jumps over the lazy dog",
    "the quick brown fox jumps over the lazy dog",  # twice
    "a lazy fox is not a quick fox",
    "brown bread, brown rice and quick oats",
    "order SKU-48007-H or SKU-48008-A, both brown",
    "SKU-48007-H",
    "",
    "東京タワー and кошка and café",
    "fox fox fox fox",
    "quick fox brown",
]
# Rounded to 16 bits in the engine; lengths up to 40 words are exact in tantivy, float32 is not.
EXACT, NEXT_TO_NOTHING = 2e-5, 1e-6


def word(text: str, boost: float = 1.0) -> Clause:
    return Clause((Term("words", text),), boost)


def surface(text: str, boost: float = 1.0) -> Clause:
    return Clause((Term("surfaces", text),), boost)


def written(folder: Path, texts: Sequence[str], segments: int = 1) -> Path:
    """An index of texts, row i for text i, in so many commits."""
    for part in np.array_split(np.arange(len(texts)), segments):
        add(folder, part.tolist(), CUTTER.terms([texts[row] for row in part.tolist()]))
    return folder


def add(folder: Path, rows: Sequence[int], terms: Sequence[Terms]) -> None:
    writer = TantivyWriter(folder, memory=MEMORY)
    writer.add(rows, [f"id{row}" for row in rows], terms)
    writer.commit()
    writer.close()


def holding(reader: TantivyReader, clause: Clause, rows: int = len(TEXTS)) -> list[int]:
    found = reader.search(KeywordQuery((), (clause,)), rows, everything(rows))
    return sorted(found.rows.tolist())


@pytest.fixture(scope="module", params=[1, 3], ids=["one segment", "three segments"])
def reader(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TantivyReader]:
    folder = tmp_path_factory.mktemp("keywords")
    yield TantivyReader(written(folder / "made" / "here", TEXTS, request.param))


def everything(rows: int = len(TEXTS)) -> NDArray[np.bool_]:
    return np.ones(rows, np.bool_)


def assert_same(found: RankedRows, wanted: RankedRows) -> None:
    assert found.rows.tolist() == wanted.rows.tolist()
    assert found.scores == pytest.approx(wanted.scores, rel=EXACT, abs=NEXT_TO_NOTHING)
    assert (found.rows.dtype.name, found.scores.dtype.name) == ("int64", "float32")


@pytest.mark.parametrize("share", [1.0, 0.5, 0.02, 0.004, 0.0])
def test_a_strict_mask_still_gives_as_many_as_asked(tmp_path: Path, share: float) -> None:
    """However few rows a mask lets through, the limit is reached when so many match."""
    texts = ["common " * (1 + row % 7) + f"w{row % 13}" for row in range(3000)]
    among = np.random.default_rng(5).random(3000) < share
    query = KeywordQuery((word("common"), word("w3")))
    found = TantivyReader(written(tmp_path, texts)).search(query, 10, among)
    wanted = PlainBM25(CUTTER.terms(texts)).search(query, 3000)
    kept = among[wanted.rows]
    assert_same(found, RankedRows(wanted.rows[kept][:10], wanted.scores[kept][:10]))


WORDS = st.sampled_from(["ant", "bee", "cat", "dog-1", "dog"])


@given(
    texts=st.lists(st.lists(WORDS, max_size=6).map(" ".join), min_size=1, max_size=12),
    should=st.lists(WORDS, max_size=3),
    must=st.lists(WORDS, max_size=2),
)
def test_any_corpus_is_ranked_as_by_the_textbook(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], should: list[str], must: list[str]
) -> None:
    """Small corpora, small queries: every row and score."""

    def clause(text: str) -> Clause:
        return surface(text) if "-" in text else word(text)

    query = KeywordQuery(tuple(map(clause, should)), tuple(map(clause, must)))
    reader = TantivyReader(written(tmp_path_factory.mktemp("any"), texts))
    found = reader.search(query, 50, everything(len(texts)))
    wanted = PlainBM25(CUTTER.terms(texts)).search(query, 50)
    expected = dict(zip(wanted.rows.tolist(), wanted.scores.tolist(), strict=True))
    got = dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True))
    assert got == pytest.approx(expected, rel=EXACT)


def test_documents_are_counted(reader: TantivyReader) -> None:
    """All, those with a term, shorter masks; spellings by distance, frequency, alphabet."""
    assert reader.documents == len(TEXTS)
    counts = {Term("words", "fox"): 5, Term("surfaces", "fox"): 0}
    counts[Term("surfaces", "sku-48007-h")] = 2
    assert reader.document_frequencies(counts) == counts
    assert sorted(row for row, _ in reader.rows_and_ids(2)) == [0, 1]  # not what a kill left behind
    assert sorted(reader.rows_and_ids(len(TEXTS))) == [
        (row, f"id{row}") for row in range(len(TEXTS))
    ]
    assert holding(reader, word("fox"), 3) == [0, 1, 2]
    assert holding(reader, word("fox"), 0) == []
    assert reader.search(KeywordQuery((word("fox"),)), 0, everything()).rows.tolist() == []
    spellings = {"borwn": ["brown"], "fix": ["fox"], "qick": ["quick"], "fox": [], "": []}
    for text, near in spellings.items():
        terms = [Term("words", other) for other in near]
        assert reader.near_spellings(Term("words", text), 5) == terms
    joined = [Term("surfaces", "sku-48007-h")]
    assert reader.near_spellings(Term("surfaces", "sku-48070-h"), 5) == joined
    frequencies = {"xapian": 1, "xapians": 9, "xaipan": 5, "xanadu": 9, "apian": 5, "xpian": 5}
    assert nearest("xapian", frequencies, 9) == ["xapians", "apian", "xaipan", "xpian"]
    assert nearest("xapian", frequencies, 2) == ["xapians", "apian"]
    cats = {"cut": 1, "cute": 1, "at": 2, "ca": 1, "act": 3}
    assert nearest("cat", cats, 9) == ["act", "at", "ca", "cut"]
    assert nearest("at", {"it": 1}, 9) == []
    colours = {"clour": 1, "color": 2, "cooolur": 3, "colonel": 1}
    assert nearest("colour", colours, 9) == ["color", "clour", "cooolur"]


def test_hostile_terms_are_indexed(tmp_path: Path) -> None:
    """A megabyte without a blank, terms longer than tantivy takes, and no term at all."""
    texts = ["x" * 1_000_000, "a-" * 500_000, "東" * 100_000, "", "fox"]
    reader = TantivyReader(written(tmp_path, texts))
    assert reader.documents == 5
    assert holding(reader, word("x" * 1000)) == [0]
    assert holding(reader, word("y" * 100_000)) == []
    add(tmp_path, [5], [Terms("z" * 70_000 + " fox", "z" * 70_000, 2)])
    assert holding(TantivyReader(tmp_path), word("fox")) == [4, 5]


def test_lengths_are_rounded_as_by_tantivy(tmp_path: Path) -> None:
    """At each step below 200 words, and far above."""
    lengths = [*range(1, 200), 1_000, 2_071, 2_072, 65_535, 1_000_000]
    texts = ["fox" + " a" * (length - 1) for length in lengths]
    reader = TantivyReader(written(tmp_path, texts))
    plain = PlainBM25(CUTTER.terms(texts), stored_length)
    found = reader.search(KeywordQuery((word("fox"),)), len(texts), everything(len(texts)))
    assert_same(found, plain.search(KeywordQuery((word("fox"),)), len(texts)))
    assert stored_length(2_072) == 2_072
    assert stored_length(2_071) == 1_944


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return written(tmp_path, ["fox a-b"] * 300)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"segments": [{}]}', b"[" * 100_000])
def test_what_is_no_description_is_refused(content: bytes, folder: Path) -> None:
    """By readers, by writers, and when files are looked at."""
    noted = checksums(folder, {})
    (folder / META).write_bytes(content)
    with pytest.raises(InvalidFile, match=r"meta\.json"):
        check_files(folder, noted)
    with pytest.raises(InvalidFile):
        TantivyReader(folder)
    with pytest.raises(InvalidFile):
        TantivyWriter(folder, memory=MEMORY)
