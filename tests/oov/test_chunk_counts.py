"""Chunks remembered from batch to batch. The oracles: a dict, and the same count without memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vocabtool.oov.chunk_counts import ChunkCounts
from vocabtool.oov.counter import OovCounter
from vocabtool.oov.counts import OovCounts
from vocabtool.oov.report import OovReport
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.tokenization.chunk_table import LONGEST, ChunkTable
from vocabtool.tokenization.lookup import RuleTokenizer, WordPieceLexicon
from vocabtool.tokenization.named_rules import parse_rule
from vocabtool.tokenization.rule import Rule
from vocabtool.tokenization.text_arrays import string_array
from vocabtool.tokenization.wordpiece import WordPiece
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import Unknown, Vocabulary

KNOWN = (b"cat", b"the", b"a", b",", b"##s", b"un", b"##able")
TEXTS = st.lists(
    st.lists(
        st.sampled_from(
            (
                *("cat", "Cat", "the", "The,", "a", "dogs", "dog,", "--", "it's", "un-able"),
                *("x" * 14, "x" * 15, "y" * 40, "naïve", "\ta", "a\n", " ", "", "a\0b"),
                *("cats", "unable"),
            )
        ),
        max_size=5,
    ).map(" ".join),
    min_size=1,
    max_size=6,
)
unhurried = settings(deadline=None)


def packed(chunks: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """One buffer with all chunks, and their bounds."""
    bounds = np.cumsum([0, *map(len, chunks)])
    return np.frombuffer(b"".join(chunks), np.uint8), bounds


@unhurried
@given(
    st.lists(
        st.dictionaries(
            st.binary(max_size=LONGEST + 3).filter(lambda chunk: b"\0" not in chunk),
            st.integers(-1, 1 << 30),
        ),
        max_size=4,
    )
)
def test_a_table_is_a_dict_that_may_forget(batches: list[dict[bytes, int]]) -> None:
    """What is found is the number that was given first; so few chunks are all found."""
    table = ChunkTable(20)
    held: dict[bytes, int] = {}
    for batch in batches:
        table.add(*packed(list(batch)), np.array(list(batch.values()), np.int32))
        for chunk, number in batch.items():
            if 0 < len(chunk) <= LONGEST and number >= 0:
                held.setdefault(chunk, number)
        asked = sorted({chunk for each in batches for chunk in each})
        data, bounds = packed([*asked, b" " * 16])
        found = table.find(data, bounds)[:-1].tolist()
        assert found == [held.get(chunk, -1) for chunk in asked]


def test_a_table_that_grows_keeps_nearly_all() -> None:
    """Half a million numbers: none is wrong, and 19 of 20 are there."""
    chunks = [b"chunk %d" % n for n in range(500_000)]
    table = ChunkTable(20)
    for at in range(0, len(chunks), 50_000):
        part = chunks[at : at + 50_000]
        table.add(*packed(part), np.arange(at, at + len(part), dtype=np.int32))
    found = table.find(*packed([*chunks, b" " * 16]))[:-1]
    right = found == np.arange(len(chunks))
    assert set(found[~right].tolist()) <= {-1}
    assert right.mean() > 0.95


def test_the_end_of_a_buffer_is_not_read() -> None:
    """Chunks with fewer than sixteen bytes behind their start are not found, and harm nothing."""
    table = ChunkTable(20)
    table.add(*packed([b"ab"]), np.array([7], np.int32))
    assert table.find(*packed([b"ab", b"ab", b" " * 14])).tolist() == [7, 7, -1]
    assert table.find(*packed([b"ab", b"ab", b" " * 13])).tolist() == [7, -1, -1]
    assert table.find(*packed([b"ab"])).tolist() == [-1]
    assert table.find(*packed([])).tolist() == []


def ways() -> dict[str, Words]:
    """Words by several rules, and by pieces."""
    vocabulary = Vocabulary("words", "table", ByteStrings.of(KNOWN), unknown=Unknown(9))
    whole = [entry for entry in KNOWN if not entry.startswith(b"##")]
    plain = Vocabulary("words", "table", ByteStrings.of(whole), unknown=Unknown(9))
    found = {rule: Words.of(plain, rule=rule) for rule in ("whitespace", "lower", "keras", "ptb")}
    ids = {entry: i for i, entry in enumerate(KNOWN)}
    lexicon = WordPieceLexicon(vocabulary, WordPiece(ids))
    found["pieces"] = Words(vocabulary, "named", RuleTokenizer(Rule(parse_rule("lower")), lexicon))
    return found


def remembering(words: Words, batches: Sequence[list[str]], budget: int, threads: int) -> OovReport:
    counter = OovCounter(words, budget=budget)
    counter.count(map(string_array, batches), threads=threads)
    return counter.report()


def forgetting(words: Words, batches: Sequence[list[str]], budget: int) -> OovReport:
    """The same count, each batch looked at as if it were the first."""
    counter = OovCounter(words, budget=budget)
    for batch in batches:
        for _ in counter.watch(iter(batch)):
            pass
        assert counter.report().documents >= 0  # counts what waits
    return counter.report()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", list(ways()))
@pytest.mark.parametrize("threads", [1, 3])
def test_memory_changes_no_figure(way: str, threads: int) -> None:
    """A count with memory is one without: words, documents, examples, entries used, pieces."""
    words = ways()[way]

    @unhurried
    @given(st.lists(TEXTS, max_size=6), st.sampled_from([1, 1 << 20]))
    def check(batches: list[list[str]], budget: int) -> None:
        found = remembering(words, batches, budget, threads)
        expected = forgetting(words, batches, budget)
        assert found == expected
        assert list(found.commonest()) == list(expected.commonest())

    check()


def test_what_was_met_is_found() -> None:
    """A second look at the same texts finds every chunk of one word, in any case of the first."""
    counts = OovCounts(len(KNOWN))
    judge = ways()["keras"].tokenizer
    assert isinstance(judge, RuleTokenizer)
    chunks = ChunkCounts(judge, counts.tally)
    texts = string_array(["The cat, it's a DOG!", " " * 20])
    batch, new = chunks.count(texts)
    assert sorted(batch.words) == [b"a", b"cat", b"dog", b"its", b"the"]
    assert new is not None
    chunks.remember(new, counts.add_counted(batch, texts))
    batch, new = chunks.count(texts)
    assert (batch.words, batch.counts.tolist()) == ([], [1, 1, 1, 1, 1])
    assert new is not None
    assert new.chunks.strings.to_pylist() == []
