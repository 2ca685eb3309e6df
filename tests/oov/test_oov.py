"""Counts of unknown words, compared with Python's Counter and manual sums."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.word_piece import tokenizer_of
from tests.cli.running import environment, run
from tests.some_reports import Texts, judged, lines, vocabulary
from vocabtool import ByteStrings, OovCounter, Unknown, Vocabulary, Words
from vocabtool.oov import counter as oov
from vocabtool.oov.counter import MOST_PIECES, OovCounts, count_batch
from vocabtool.oov.report import Header
from vocabtool.tokenization.text_arrays import string_array
from vocabtool.vocabulary import decode

HEADER = Header("a model", "words", 3)
VOCABULARY = {b"the": 0, b"cat": 1, b"sat": 2}
WORDS = st.sampled_from([*VOCABULARY, b"dog", b"mat", b"\xff", b"", "naïve".encode(), b"The"])
TEXTS = st.lists(st.lists(WORDS, max_size=6), max_size=8)
unhurried = settings(deadline=None)  # the first example imports pyarrow


def counted(texts: Texts, **options: Any) -> OovCounts:
    counter = OovCounts(vocabulary(VOCABULARY))
    counter.add(count_batch(judged(texts, VOCABULARY, **options)), lines(texts))
    return counter


def test_pieces_by_hand() -> None:
    """For a subword model there are counts of pieces, but not of used entries."""
    texts = [[b"the", b"dogs", b"dogs"], [b"unthinkable", b"ab"]]
    pieces = {b"the": 1, b"dogs": 2, b"unthinkable": 40, b"ab": 2}
    report = counted(texts, pieces=pieces).report(HEADER)
    assert report.split is not None
    assert report.commonest(1) == report.commonest()[:1]
    assert report.fertility == (1 + 2 + 2 + 40 + 2) / 5
    assert report.split.pieces == 47
    assert report.split.histogram == (0, 1, 3, *[0] * (MOST_PIECES - 3), 1)
    assert (report.used, report.never_used) == (None, ())


@unhurried
@given(TEXTS, st.booleans())
def test_counts_are_those_of_a_counter(texts: Texts, repeated: bool) -> None:
    """Counts equal those of a Counter, ties by bytes, also if equal words have several codes."""
    report = counted(texts, repeated=repeated).report(HEADER)
    counts = Counter(word for text in texts for word in text)
    documents = Counter(word for text in texts for word in set(text))
    unknown = [word for word in counts if word not in VOCABULARY]
    unknown.sort(key=lambda word: (-counts[word], word))
    found = [(word.word_bytes, word.count, word.documents) for word in report.commonest()]
    assert found == [(word, counts[word], documents[word]) for word in unknown]
    assert report.tokens == counts.total()
    assert report.tokens_unknown == sum(counts[word] for word in unknown)
    assert (report.distinct, report.distinct_unknown) == (len(counts), len(unknown))
    assert report.documents_unknown == sum(not VOCABULARY.keys() >= set(text) for text in texts)
    assert report.used == len(VOCABULARY.keys() & counts)
    for word in report.commonest():
        first = next(text for text in texts if word.word_bytes in text)
        assert word.example == decode(b" ".join(first))
    order = sorted(counts, key=lambda word: (-counts[word], word))
    for point in report.curve:
        some = order[: point.words]
        assert point.covered == sum(counts[word] for word in some) / report.tokens
        known = sum(counts[word] for word in some if word in VOCABULARY)
        assert point.known == known / report.tokens


def test_past_the_budget_the_first_words_are_listed() -> None:
    """Their counts and all totals are exact, however the texts are cut into batches."""
    ranks = np.random.default_rng(1).zipf(1.2, 60_000) % (1 << 40)
    words = [b"w%d" % rank for rank in ranks.tolist()]
    texts = [words[at : at + 10] for at in range(0, len(words), 10)]
    known = {b"w%d" % rank: 0 for rank in range(1, 200)}
    pieces = {word: 1 + len(word) % 4 for word in words}
    counts = Counter(words)
    documents = Counter(word for text in texts for word in set(text))
    reports = []
    for size in (1_000, 3_500):
        counter = OovCounts(vocabulary([b"w1"]), budget=400_000)
        for at in range(0, len(texts), size):
            some = texts[at : at + size]
            counter.add(count_batch(judged(some, known, pieces)), lines(some))
        reports.append(counter.report(HEADER))
    assert reports[0].commonest() == reports[1].commonest()
    report = reports[0]
    assert report.full
    listed = [*dict.fromkeys(words)][: report.distinct]  # in order of first occurrence
    assert 1_000 < len(listed) < len(counts)
    assert sum(len(word) + oov.WORD_COST for word in listed) <= 400_000
    assert report.tokens == len(words)
    assert report.tokens_unknown == sum(counts[word] for word in counts if word not in known)
    assert report.documents_unknown == sum(not known.keys() >= set(text) for text in texts)
    found = {word.word_bytes: (word.count, word.documents) for word in report.commonest()}
    assert found == {w: (counts[w], documents[w]) for w in listed if w not in known}
    split = report.split
    assert split is not None
    assert {word.word_bytes for word in split.words()} == {
        word for word in listed if pieces[word] > 1 or word not in known
    }
    assert report.split_rate(3) == sum(pieces[word] >= 3 for word in words) / len(words)
    late = len(words) - sum(counts[word] for word in listed)
    assert f"the {len(listed):,} words that occurred first are listed" in report.notes[0]
    assert f"({late:,} tokens)" in report.notes[0]
    assert report.curve[-1].words == len(listed)
    assert report.curve[-1].covered == (len(words) - late) / len(words)


def test_notes(tmp_path: Path) -> None:
    """Notes on the budget of examples and on texts that are not UTF-8."""
    texts = [[b"w%d" % number] for number in range(100)]
    counter = OovCounts(vocabulary(VOCABULARY), budget=100 * 200)
    counter.add(count_batch(judged(texts, VOCABULARY)), lines(texts))
    report = counter.report(HEADER)
    kept = [word for word in report.commonest() if word.example]
    assert 0 < len(kept) == 100 * 200 // oov.EXAMPLES_SHARE // oov.EXAMPLE_COST
    assert all(word.example == word.word for word in kept)
    assert not report.full
    assert report.notes == (oov.TOO_MANY_EXAMPLES,)
    (tmp_path / "words.txt").write_bytes(b"the\ncat\n")
    words = Words.of(str(tmp_path / "words.txt"), rule="whitespace")
    mixed: list[bytes] = [b"the", b"\xff", b"", b"the \xc3", b"\xa9 cat", "né".encode()]
    counting = OovCounter(words)
    with pytest.raises(TypeError, match=r"batches.* write \[texts\]"):
        counting.count(["one", "two"])
    counting.count([mixed[:2], string_array(mixed)[2:], string_array([])])
    note = "3 of 6 documents are not UTF-8"
    assert any(note in told for told in counting.report().notes)
    counting.count([string_array([b"unknown words"] * oov.FEW)])
    assert oov.MOSTLY_UNKNOWN in counting.report().notes


@pytest.mark.parametrize("name", ["texts.txt", "texts.jsonl"])
def test_a_text_that_is_too_long(name: str, tmp_path: Path) -> None:
    """A text of 8 MiB is counted; a longer one is an invalid row, because its words fill memory."""
    texts = ["a " * (1 << 22), "b " * (1 << 22) + "b", "c"]
    lines = texts if name.endswith(".txt") else [f'"{text}"' for text in texts]
    (tmp_path / name).write_text("\n".join(lines))
    (tmp_path / "list.txt").write_text("a\n")
    command = ("oov", "list.txt", name, "--rule", "lower", "--format", "json")
    done = run(*command, cwd=tmp_path)
    assert done.returncode == 3
    told = (
        f"{name}:2: a text of 8,388,609 bytes (allowed: 8,388,608; cut it into several documents)"
    )
    assert told in done.stderr.decode()
    done = run(*command, "--on-error", "skip", cwd=tmp_path)
    assert json.loads(done.stdout)["tokens"]["all"] == (1 << 22) + 1
    assert told in done.stderr.decode()


MILLIONS = """
import sys
import numpy as np, pyarrow as pa
from tests.fuzzing import peak_mb
from tests.some_reports import vocabulary
from vocabtool.oov.counter import OovCounts, count_batch
from vocabtool.oov.report import Header
from vocabtool.tokenization.lookup import WordLookup
counter = OovCounts(vocabulary([b"w"]), budget=int(sys.argv[1]) << 20)
d = 100_000
def add(batch):
    distinct = pa.array([b"word%012d" % n for n in range(batch * d, batch * d + d)], pa.binary())
    counter.add(count_batch(WordLookup(
        np.arange(d, dtype=np.int32), np.arange(d + 1, dtype=np.int64), distinct.view(pa.string()),
        np.zeros(d, bool), np.zeros(d, np.int64), np.full(d, -1),
    )), distinct.view(pa.string()))
    assert counter.documents == (batch + 1) * d
last = int(sys.argv[2])
for batch in range(min(10, last)):
    add(batch)
early = peak_mb()
for batch in range(10, last):
    add(batch)
print(int(early), int(peak_mb()))
print(counter.tokens, counter.report(Header("", "", 0)).distinct)
"""


def run_millions(budget: int, batches: int) -> tuple[int, ...]:
    """Return the early and late peak memory in MiB, tokens and distinct words of a process."""
    command = [sys.executable, "-c", MILLIONS, str(budget), str(batches)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
    return tuple(map(int, done.stdout.split()))


def test_memory_is_bounded(full: bool) -> None:
    """Beyond the budget, words use almost no memory; within it, no more than allowed."""
    batches = 40 if full else 15
    early, late, tokens, distinct = run_millions(32, batches)
    assert tokens == batches * 100_000
    assert 150_000 < distinct < 32 * 1024 * 1024 / 176  # as many as fit
    assert late - early < 16  # MiB; 500,000 words would take 115
    exact = 10 if full else 3
    budget = 21 * exact  # MiB; a word with its example takes 220 bytes
    small = run_millions(1, exact)[0]
    assert run_millions(budget, exact)[0] - small < budget * 1.25 + 16


ENTRIES = (b"cat", b"the", b"a", b",", b"##s", b"un", b"##able")
BATCHES = st.lists(
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
    """Return words by a rule, or by pieces."""
    if way == "pieces":
        pytest.importorskip("tokenizers", reason="its tokenizer has pieces")
        entries = ["[UNK]", *(entry.decode() for entry in ENTRIES)]
        tokenizer_of(entries).save(str(folder / "tokenizer.json"))
        return Words.of(folder / "tokenizer.json")
    whole = [entry for entry in ENTRIES if not entry.startswith(b"##")]
    plain = Vocabulary("words", "table", ByteStrings.of(whole), unknown=Unknown(9))
    return Words.of(plain, rule=way)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", ["whitespace", "lower", "keras", "ptb", "pieces"])
@pytest.mark.parametrize("threads", [1, 3])
def test_threads_and_batches_change_no_figure(way: str, threads: int, tmp_path: Path) -> None:
    """Words, documents, examples, used entries, pieces; also if nothing fits the budget."""
    words = words_by(way, tmp_path)

    @settings(deadline=None)
    @given(st.lists(BATCHES, max_size=6), st.sampled_from([1, 1 << 20]))
    def check(batches: list[list[str]], budget: int) -> None:
        counting, together = OovCounter(words, budget=budget), OovCounter(words, budget=budget)
        counting.count(batches, threads=threads)
        found = counting.report()
        if batches:
            together.count([pa.array([text for batch in batches for text in batch], pa.string())])
        expected = together.report()
        assert found.commonest() == expected.commonest()
        assert found == expected

    check()
