"""A look at an index by known items: queries made of its own documents, which they ought to find.

Of each document drawn: four of its rarest words that the model knows (``ordinary``), and two of
them with one that it does not know (``unknown``). Nothing is taken out of the document, so this
shows whether an index works, not how good it is: that is what ``compare.py`` and judged queries
are for, and ``calibrate.py`` weighs the legs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np

from vocabtool.choices import SELF_CHECK_SAMPLE, Metric
from vocabtool.documents.batch import Document
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import VocabtoolError
from vocabtool.index.raw_vectors import prepare
from vocabtool.index.vector_leg import Block, merge_best
from vocabtool.search.query import WeighedWord, is_word, weigh_words
from vocabtool.search.settings import FUSIONS, Fusion, Settings
from vocabtool.system.ranking import RankedRows

if TYPE_CHECKING:
    from vocabtool.index.generation import Snapshot
    from vocabtool.index.index import Index

Kind = Literal["ordinary", "unknown"]

ORDINARY: Final = 4
BESIDE_UNKNOWN: Final = 2
RAREST: Final = 12  # known words of a document that queries are drawn from
MAX_CHARACTERS: Final = 20_000  # of a document that is looked at
DEPTH: Final = 10
ALIKE: Final = 1e-6  # similarities that differ by less, relatively, are tied
MAX_RECALL_QUERIES: Final = 100  # each is compared with every vector
KEYWORDS: Final[tuple[Fusion, ...]] = ("keyword",)
DEFAULTS: Final = Settings()
NO_ENCODER: Final = (
    "the index has no encoder: its queries have no vectors, so only keywords are checked, and "
    "recall is measured with vectors of documents, which are easier than those of queries"
)
NO_VOCABULARY: Final = "nothing tells which words the model knows: all count as ordinary"


@dataclass(frozen=True, slots=True)
class KnownItem:
    """A query and the document it was made of."""

    kind: Kind
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class HitRate:
    """How often the document that a query was made of comes first, and among the first ten."""

    kind: Kind
    fusion: Fusion
    queries: int
    first: float
    first_ten: float


@dataclass(frozen=True, slots=True)
class Recall:
    """``mean``: share of the ten nearest that are found, 0 to 1. ``queries``: vectors asked for."""

    mean: float
    queries: int


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """``rates``: of each fusion and leg, on each kind of query there is.

    ``recall``: of the ten nearest vectors how many the index finds; ``None`` where none was asked
    for. ``sample``: documents drawn, with ``seed``.
    """

    rates: tuple[HitRate, ...]
    recall: Recall | None
    sample: int
    seed: int
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        facts = asdict(self)
        return {**facts, "rates": list(facts["rates"]), "notes": list(self.notes)}


def self_check(index: Index, sample: int = SELF_CHECK_SAMPLE, seed: int = 0) -> SelfCheck:
    """Search an index for documents that are known to be there.

    Raises :class:`VocabtoolError` for an index without a document that holds a word.
    """
    snapshot, metric = index.snapshot(), index.configuration.metric
    items = known_items(snapshot, sample, seed)
    if not items:
        raise VocabtoolError(f"{index.path}: no document holds a word, so there is nothing to ask")
    texts = [item.text for item in items]
    vectors = None if index.encoder is None else index.encoder.encode(texts)
    rates: list[HitRate] = []
    for fusion in KEYWORDS if vectors is None else FUSIONS:
        found = index.search_many(texts, vectors=vectors, k=DEPTH, fusion=fusion)
        rates += _rates(items, [[hit.id for hit in hits] for hits in found], fusion)
    if vectors is None:
        vectors = _vectors_of_documents(snapshot, sample, seed)
    recall = measure_recall(snapshot, prepare(vectors, metric), metric)
    return SelfCheck(tuple(rates), recall, min(sample, len(index)), seed, _notes(index))


def _notes(index: Index) -> tuple[str, ...]:
    notes = [] if index.encoder is not None else [NO_ENCODER]
    if index.snapshot().known_words is None:
        notes.append(NO_VOCABULARY)
    return tuple(notes)


def known_items(snapshot: Snapshot, count: int, seed: int) -> list[KnownItem]:
    """Queries made of so many documents, drawn by chance; one or two of each that holds a word."""
    generator = np.random.default_rng(seed)
    rows = generator.permutation(np.flatnonzero(snapshot.live))[:count]
    return [
        item
        for document in snapshot.documents.fetch_documents(rows)
        for item in _items(document, snapshot, generator)
    ]


def _items(
    document: Document, snapshot: Snapshot, generator: np.random.Generator
) -> Iterable[KnownItem]:
    known, unknown = _words(document.text[:MAX_CHARACTERS], snapshot)
    drawn = generator.permutation(known[:RAREST]).tolist()
    if drawn:
        yield KnownItem("ordinary", document.id, " ".join(drawn[:ORDINARY]))
    if unknown:
        word = unknown[int(generator.integers(len(unknown)))]
        yield KnownItem("unknown", document.id, " ".join((word, *drawn[:BESIDE_UNKNOWN])))


def _words(text: str, snapshot: Snapshot) -> tuple[list[str], list[str]]:
    """The different words of a text that the model knows, rarest first, and those it does not."""
    words = weigh_words(snapshot.cutter.spans(text), snapshot.known_words, DEFAULTS.is_identifier())
    found = {word.word.words: word for word in words if word.counts}
    unknown = [word for word in found.values() if _is_unknown(word, snapshot)]
    known = [
        word
        for word in found.values()
        if is_word(word.word.surface) and not _is_unknown(word, snapshot)
    ]
    known.sort(key=lambda word: _frequency(word, snapshot))
    return [word.word.surface for word in known], [word.word.surface for word in unknown]


def _is_unknown(word: WeighedWord, snapshot: Snapshot) -> bool:
    return word.unknown and snapshot.known_words is not None


def _frequency(word: WeighedWord, snapshot: Snapshot) -> int:
    return min(snapshot.keywords.document_frequencies(word.telling).values())


def _rates(
    items: Sequence[KnownItem], found: Sequence[Sequence[str]], fusion: Fusion
) -> list[HitRate]:
    rates = []
    for kind in get_args(Kind):
        ranks = [
            ids.index(item.id) + 1 if item.id in ids else DEPTH + 1
            for item, ids in zip(items, found, strict=True)
            if item.kind == kind
        ]
        if ranks:
            first = fmean(rank == 1 for rank in ranks)
            rates.append(
                HitRate(kind, fusion, len(ranks), first, fmean(rank <= DEPTH for rank in ranks))
            )
    return rates


def _vectors_of_documents(snapshot: Snapshot, count: int, seed: int) -> Vectors:
    rows = np.random.default_rng(seed).permutation(np.flatnonzero(snapshot.live))[:count]
    return snapshot.vectors.raw.take(rows)


def measure_recall(snapshot: Snapshot, vectors: Vectors, metric: Metric) -> Recall | None:
    """How many of the nearest an index finds, against comparing every vector with them.

    Of the first hundred ``vectors`` (prepared, shape (n, dim)) that are not zero; ``None`` where
    there is none. Documents as near as the tenth are as good as it.
    """
    used = vectors[vectors.any(axis=1)][:MAX_RECALL_QUERIES]
    best = [RankedRows.none()] * len(used)
    for first, block_vectors in snapshot.vectors.raw.blocks():  # the file is read once
        rows = np.arange(first, first + len(block_vectors))
        block = Block.of(rows, block_vectors, metric).among(snapshot.live)
        best = [
            merge_best((held, block.best(vector, DEPTH, metric)), DEPTH)
            for held, vector in zip(best, used, strict=True)
        ]
    shares = []
    for vector, exact in zip(used, best, strict=True):
        if len(exact.rows):
            found = snapshot.vectors.search(vector, DEPTH, snapshot.live)
            tenth = float(exact.scores[-1])
            as_good = found.scores >= tenth - ALIKE * max(1.0, abs(tenth))
            shares.append(int(as_good.sum()) / len(exact.rows))
    return Recall(float(np.mean(shares)), len(shares)) if shares else None
