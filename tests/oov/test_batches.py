"""Counts of whole batches in threads, and of documents one by one: the same report."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vocabtool import ByteStrings, OovCounter, Unknown, Vocabulary, Words

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


def words_by(way: str, folder: Path) -> Words:
    """Words by a rule, or by pieces."""
    if way == "pieces":
        tokenizers = pytest.importorskip("tokenizers", reason="its tokenizer has pieces")
        entries = ["[UNK]", *(entry.decode() for entry in KNOWN)]
        ids = {entry: number for number, entry in enumerate(entries)}
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(ids, unk_token="[UNK]"))
        tokenizer.normalizer = tokenizers.normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        tokenizer.save(str(folder / "tokenizer.json"))
        return Words.of(folder / "tokenizer.json")
    whole = [entry for entry in KNOWN if not entry.startswith(b"##")]
    plain = Vocabulary("words", "table", ByteStrings.of(whole), unknown=Unknown(9))
    return Words.of(plain, rule=way)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", ["whitespace", "lower", "keras", "ptb", "pieces"])
@pytest.mark.parametrize("threads", [1, 3])
def test_threads_and_batches_change_no_figure(way: str, threads: int, tmp_path: Path) -> None:
    """Words, documents, examples, entries used, pieces; also where nothing fits the budget."""
    words = words_by(way, tmp_path)

    @settings(deadline=None)
    @given(st.lists(TEXTS, max_size=6), st.sampled_from([1, 1 << 20]))
    def check(batches: list[list[str]], budget: int) -> None:
        counting, watching = OovCounter(words, budget=budget), OovCounter(words, budget=budget)
        counting.count(map(pa.array, batches), threads=threads)
        for batch in batches:
            assert list(watching.watch(batch)) == batch
        found, expected = counting.report(), watching.report()
        assert found == expected
        assert list(found.commonest()) == list(expected.commonest())
        if batches and budget > 1:
            together = OovCounter(words)
            together.count([pa.array([text for batch in batches for text in batch], pa.string())])
            assert together.report() == found

    check()
