"""Of each text the words that a model does not know, held against judging it anew each time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocabtool.embedding import unknown_words
from vocabtool.embedding.unknown_words import UnknownWords, unknown_of
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.tokenization.text_arrays import as_bytes, string_array
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import Vocabulary

KNOWN: Final = (b"the", b"cat", b"sat", "naïve".encode())
RULES: Final = ("lower", "keras", "whitespace", "ptb")
# Long chunks, which no table holds, and bytes that are no UTF-8, among words of a few letters.
CHUNKS: Final = st.one_of(
    st.sampled_from([b"the", b"cat", b"The,", b"a.b", b"", b"x" * 20, b"\xff\xfe", b"sat-cat"]),
    st.text("abcé. ", max_size=6).map(str.encode),
)
TEXTS: Final = st.lists(st.lists(CHUNKS, max_size=8).map(b" ".join), max_size=6)


def words(rule: str) -> Words:
    """A vocabulary of four words under a rule."""
    return Words.of(Vocabulary("words", "list", ByteStrings.of(KNOWN)), rule=rule)


def expected(model: Words, text: bytes) -> list[bytes]:
    """The distinct unknown words of one text, by judging it alone."""
    judged = model.look_up([text])
    found = as_bytes(judged.distinct.take(judged.codes[~judged.known[judged.codes]]))
    return list(dict.fromkeys(found))


def test_by_hand() -> None:
    """Each unknown word once, in the order of first appearance; all tokens are counted."""
    found = UnknownWords(words("lower")).of(string_array(["The dog sat on a dog", "", "cat"]))
    assert as_lists(found.words) == [[b"dog", b"on", b"a"], [], []]
    assert (found.tokens, found.tokens_unknown) == (7, 4)


def as_lists(lists: object) -> list[list[bytes]]:
    """The words of each text."""
    values = as_bytes(lists.values)  # type: ignore[attr-defined] # Arrow carries no types
    bounds = lists.offsets.to_pylist()  # type: ignore[attr-defined] # the same
    return [values[start:end] for start, end in pairwise(bounds)]


@pytest.mark.parametrize("rule", RULES)
@given(batches=st.lists(TEXTS, max_size=5))
def test_what_was_seen_before_changes_nothing(rule: str, batches: list[list[bytes]]) -> None:
    """Batch after batch, the answers are those of each text alone."""
    model = words(rule)
    passing = UnknownWords(model)
    for texts in batches:
        found = passing.of(string_array(texts))
        assert as_lists(found.words) == [expected(model, text) for text in texts]
        judged = model.look_up(texts)
        assert found.tokens == len(judged.codes)
        assert found.tokens_unknown == int((~judged.known[judged.codes]).sum())
        at_once = unknown_of(judged)
        assert as_lists(at_once.words) == as_lists(found.words)
        assert at_once[1:] == found[1:]


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Little is remembered."""
    monkeypatch.setattr(unknown_words, "MOST_WORDS", 3)
    monkeypatch.setattr(unknown_words, "MOST_CHUNKS", 5)
    yield


def test_forgetting_changes_nothing(forgetful: None) -> None:
    """Where memory is full all is forgotten, and the answers stay the same."""
    model = words("keras")
    passing = UnknownWords(model)
    for number in range(50):
        texts = [f"the {'xyz'[number % 3]}{number} cat, {number % 7}", "sat q"]
        found = as_lists(passing.of(string_array(texts)).words)
        assert found == [expected(model, text.encode()) for text in texts]


def test_long_words_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered is bounded by bytes too: a text may be one word of a megabyte."""
    monkeypatch.setattr(unknown_words, "MOST_BYTES", 1000)
    passing = UnknownWords(words("lower"))
    for number in range(10):
        long = b"%d" % number * 600
        assert as_lists(passing.of(string_array([long])).words) == [[long]]
        assert sum(map(len, passing._spelled)) <= 1600
