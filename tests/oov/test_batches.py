"""Counts of whole batches in threads, and of documents one by one: the same report."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vocabtool import ByteStrings, OovCounter, Unknown, Vocabulary, Words
from vocabtool.tokenization.lookup import RuleTokenizer, WordPieceLexicon
from vocabtool.tokenization.named_rules import parse_rule
from vocabtool.tokenization.rule import Rule
from vocabtool.tokenization.text_arrays import string_array
from vocabtool.tokenization.wordpiece import WordPiece

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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", list(ways()))
@pytest.mark.parametrize("threads", [1, 3])
def test_threads_and_batches_change_no_figure(way: str, threads: int) -> None:
    """Words, documents, examples, entries used, pieces; also where nothing fits the budget."""
    words = ways()[way]

    @settings(deadline=None)
    @given(st.lists(TEXTS, max_size=6), st.sampled_from([1, 1 << 20]))
    def check(batches: list[list[str]], budget: int) -> None:
        counting, watching = OovCounter(words, budget=budget), OovCounter(words, budget=budget)
        counting.count(map(string_array, batches), threads=threads)
        for batch in batches:
            assert list(watching.watch(batch)) == batch
        found, expected = counting.report(), watching.report()
        assert found == expected
        assert list(found.commonest()) == list(expected.commonest())

    check()
