"""Indexes of a few documents in memory's reach, and the textbook's BM25 of their words."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from math import log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vocabtool import Document, Index

K1, B = 1.2, 0.75


class Doc(NamedTuple):
    """``vector``: ``()`` for none."""

    id: str
    text: str
    vector: tuple[float, ...] = ()
    fields: Mapping[str, Any] = {}


def index_of(
    folder: Path, docs: Sequence[Doc], known: Collection[str] | None, language: str = "none"
) -> Index:
    """Similarity is the inner product of two numbers; the model knows these words, lower-cased."""
    index = Index.create(
        Path(tempfile.mkdtemp(dir=folder)) / "index",
        dim=2,
        metric="inner-product",
        dtype="float32",
        language=language,  # type: ignore[arg-type] # one of the languages
        vocabulary=known and list(known),
        rule="lower" if known else None,
    )
    vectors = np.array([doc.vector or (0, 0) for doc in docs], np.float32).reshape(len(docs), 2)
    with index.writer() as writer:
        writer.add([Document(doc.id, doc.text, doc.fields) for doc in docs], vectors)
    return index


def idf(frequency: int, documents: int = 4) -> float:
    """Of the textbook."""
    return log(1 + (documents - frequency + 0.5) / (frequency + 0.5))


def bm25(docs: Sequence[Doc], word: str, row: int) -> float:
    """The textbook's score of one unstemmed word."""
    texts = [re.findall(r"\w+", doc.text.lower()) for doc in docs]
    count, frequency = texts[row].count(word), sum(word in text for text in texts)
    mean = sum(map(len, texts)) / len(texts)
    norm = K1 * (1 - B + B * len(texts[row]) / mean)
    return idf(frequency, len(docs)) * count * (K1 + 1) / (count + norm)
