"""Generate documents of which one in twenty contains a code that its vector does not encode.

Documents have 20 to 59 words, drawn by Zipf's law; a code (``SKU-48007-H``) is in one document
only. A document's vector is the mean of its words' vectors plus half of its topic's vector, so the
code has no effect on it. A query's vector is the mean of its three ordinary words' vectors.
``search.py`` uses this corpus to measure speed, ``retrieval.py`` to measure ranking.

The same seed gives the same documents, and a smaller corpus is the start of a larger one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

DIM: Final = 256
WORDS: Final = 20_000
TOPICS: Final = 200
BLOCK: Final = 50_000
SHORTEST: Final = 20  # words of a document
LONGEST: Final = 59
EVERY: Final = 20  # one document in EVERY contains a code
SYLLABLES: Final = (
    *("ba", "ke", "lo", "mi", "nu", "ra", "se", "ti"),
    *("vo", "zu", "pha", "gre", "sto", "lin", "mar", "dex"),
)

Vectors = NDArray[np.float32]


class Documents(NamedTuple):
    """``codes``: one per document, empty if it has none; ``vectors``: (n, 256), unit length."""

    ids: list[str]
    texts: list[str]
    codes: list[str]
    vectors: Vectors


class Queries(NamedTuple):
    """``right``: the id of the only document that contains the query's code."""

    texts: list[str]
    vectors: Vectors
    right: list[str]


class Meaning(NamedTuple):
    """The vectors of the words, most frequent first, and of the topics."""

    words: Vectors
    topics: Vectors


def vocabulary() -> list[str]:
    """Return the words that have vectors, most frequent first; no code is among them."""
    generator = np.random.default_rng(0)
    found: dict[str, None] = {}
    while len(found) < WORDS:
        found["".join(generator.choice(SYLLABLES, size=generator.integers(2, 5)))] = None
    return list(found)


def meaning() -> Meaning:
    """Return random vectors, the same for every corpus."""
    generator = np.random.default_rng(1)
    return Meaning(
        generator.standard_normal((WORDS, DIM), dtype=np.float32),
        generator.standard_normal((TOPICS, DIM), dtype=np.float32),
    )


def documents(n: int, seed: int = 0) -> Documents:
    """Return ``n`` documents with vectors; a million take about 15 seconds and 2 GB."""
    made = Documents([], [], [], np.empty((n, DIM), np.float32))
    for block in blocks(n, seed):
        made.vectors[len(made.ids) : len(made.ids) + len(block.ids)] = block.vectors
        made.ids.extend(block.ids)
        made.codes.extend(block.codes)
        made.texts.extend(block.texts)
    return made


def blocks(n: int, seed: int = 0, longest: int = LONGEST) -> Iterator[Documents]:
    """Yield ``n`` documents of 20 to ``longest`` words, 50,000 at a time."""
    words, seen = vocabulary(), meaning()
    for start in range(0, n, BLOCK):
        lengths, drawn, places = _drawn(seed, start, longest)
        lengths = lengths[: n - start]
        numbers = range(start, start + len(lengths))
        codes = [code(number) for number in numbers]
        yield Documents(
            [str(number) for number in numbers],
            _texts(words, lengths, drawn, codes, places),
            codes,
            _vectors(seen, lengths, drawn[: int(lengths.sum())], start),
        )


def code(number: int) -> str:
    """Return the code of a document, or an empty string."""
    return f"SKU-{48_000 + number}-{'ABCDEFGH'[number % 8]}" if number % EVERY == 7 else ""


def queries(
    n: int = 200, *, among: int, seed: int = 1, absent: bool = False, corpus_seed: int = 0
) -> Queries:
    """Return ``n`` queries ``word word CODE word`` for codes of the first ``among`` documents.

    ``absent``: the right document contains none of the three ordinary words; otherwise it may.
    ``corpus_seed``: the seed of the documents.
    """
    generator = np.random.default_rng(seed)
    words, seen = vocabulary(), meaning()
    right = generator.choice(np.arange(7, among, EVERY), n, replace=False)
    ordinary = generator.integers(20, 2000, (n, 3))
    if absent:
        held = _words_of(right.tolist(), corpus_seed)
        for row, number in enumerate(right.tolist()):
            while not held[number].isdisjoint(ordinary[row].tolist()):
                ordinary[row] = generator.integers(20, 2000, 3)
    texts = [
        f"{words[a]} {words[b]} {code(number)} {words[c]}"
        for (a, b, c), number in zip(ordinary.tolist(), right.tolist(), strict=True)
    ]
    return Queries(texts, _unit(seen.words[ordinary].mean(axis=1)), list(map(str, right.tolist())))


def _drawn(
    seed: int, start: int, longest: int = LONGEST
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Draw the number of words of each document of a block, the words, and the code positions."""
    generator = np.random.default_rng((seed, start))
    lengths = generator.integers(SHORTEST, longest + 1, BLOCK)
    cumulated = np.cumsum(1 / np.arange(1, WORDS + 1))
    places = generator.random(int(lengths.sum())) * cumulated[-1]
    return lengths, np.searchsorted(cumulated, places), generator.random(BLOCK)


def _texts(
    words: Sequence[str],
    lengths: NDArray[np.int64],
    drawn: NDArray[np.int64],
    codes: Sequence[str],
    places: NDArray[np.float64],
) -> list[str]:
    shown = np.array(words, dtype=object)[drawn].tolist()
    made, start = [], 0
    for length, own, place in zip(
        lengths[: len(codes)].tolist(), codes, places[: len(codes)].tolist(), strict=True
    ):
        text = shown[start : start + length]
        if own:
            text.insert(int(place * length), own)
        made.append(" ".join(text))
        start += length
    return made


def _vectors(
    seen: Meaning, lengths: NDArray[np.int64], drawn: NDArray[np.int64], start: int
) -> Vectors:
    """Return the mean of the word vectors plus half of the topic vector, at unit length."""
    from scipy.sparse import csr_matrix

    ends = np.concatenate(([0], np.cumsum(lengths)))
    weights = np.repeat((1 / lengths).astype(np.float32), lengths)
    means = csr_matrix((weights, drawn, ends), shape=(len(lengths), WORDS))
    topics = seen.topics[np.arange(start, start + len(lengths)) % TOPICS]
    return _unit(np.asarray(means @ seen.words) + np.float32(0.5) * topics)


def _words_of(numbers: Sequence[int], seed: int) -> dict[int, set[int]]:
    """Return the word indexes of the documents with these numbers."""
    found = {}
    for start in sorted({number // BLOCK * BLOCK for number in numbers}):
        lengths, drawn, _ = _drawn(seed, start)
        ends = np.cumsum(lengths)
        for number in numbers:
            if start <= number < start + BLOCK:
                end = int(ends[number - start])
                found[number] = set(drawn[end - int(lengths[number - start]) : end].tolist())
    return found


def _unit(vectors: Vectors) -> Vectors:
    scaled: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled
