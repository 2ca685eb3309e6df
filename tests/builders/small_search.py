"""Indexes of a few documents in memory's reach, and the textbook's BM25 of their words."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Sequence
from math import log
from pathlib import Path

import numpy as np

from tests.builders.small_corpus import Doc, PlainBM25
from vocabtool import Document, Index
from vocabtool.keywords.bm25 import Clause, KeywordQuery, Term
from vocabtool.keywords.cutter import Cutter


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
    terms = Cutter("none").terms([doc.text for doc in docs])
    return PlainBM25(terms).score(row, KeywordQuery((Clause((Term("words", word),)),)))
