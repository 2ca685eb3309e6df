"""A look at an index by known items: queries made of its own documents, which they ought to find.

Of each document drawn: four of its rarest words that the model knows (``ordinary``), and two of
them with one that it does not know (``unknown``). Nothing is taken out of the document, so this
shows whether an index works, not how good it is: that is what ``comparing.py`` and judged queries
are for, and ``calibrating.py`` weighs the legs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

import numpy as np

from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import VocabtoolError
from vocabtool.evaluation.exact_recall import Recall, recall_of
from vocabtool.index.vectors.metric import prepared
from vocabtool.search import weighing
from vocabtool.search.corpus import Corpus, Stored
from vocabtool.search.settings import FUSIONS, Fusion, Settings
from vocabtool.search.weighing import WeighedWord

if TYPE_CHECKING:
    from vocabtool.index.index import Index
    from vocabtool.index.snapshot import Snapshot

Kind = Literal["ordinary", "unknown"]

SAMPLE: Final = 200
ORDINARY: Final = 4
BESIDE_UNKNOWN: Final = 2
RAREST: Final = 12  # known words of a document that queries are drawn from
MOST_CHARACTERS: Final = 20_000  # of a document that is looked at
DEPTH: Final = 10
KEYWORDS: Final[tuple[Fusion, ...]] = ("keyword",)
SHIPPED: Final = Settings()
NO_ENCODER: Final = (
    "the index has no encoder: its queries have no vectors, so only keywords are checked, and "
    "recall is measured with vectors of documents, which are easier than those of queries"
)
NO_KNOWLEDGE: Final = "nothing tells which words the model knows: all count as ordinary"


class KnownItem(NamedTuple):
    """A query and the document it was made of."""

    kind: Kind
    id: str
    text: str


class HitRate(NamedTuple):
    """How often the document that a query was made of comes first, and among the first ten."""

    kind: Kind
    fusion: Fusion
    queries: int
    first: float
    first_ten: float


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
        told = asdict(self)
        told["rates"] = [rate._asdict() for rate in self.rates]
        told["recall"] = None if self.recall is None else self.recall._asdict()
        return told | {"notes": list(self.notes)}


def self_check(index: Index, sample: int = SAMPLE, seed: int = 0) -> SelfCheck:
    """Search an index for documents that are known to be there.

    Raises :class:`VocabtoolError` for an index without a document that holds a word.
    """
    corpus, metric = index.snapshot(), index.configuration.metric
    items = known_items(corpus, sample, seed)
    if not items:
        raise VocabtoolError(f"{index.path}: no document holds a word, so there is nothing to ask")
    texts = [item.text for item in items]
    vectors = None if index.encoder is None else index.encoder.encode(texts)
    rates: list[HitRate] = []
    for fusion in KEYWORDS if vectors is None else FUSIONS:
        found = index.search_many(texts, vectors=vectors, k=DEPTH, fusion=fusion)
        rates += _rates(items, [[hit.id for hit in hits] for hits in found], fusion)
    if vectors is None:
        vectors = _vectors_of_documents(corpus, sample, seed)
    recall = recall_of(corpus, prepared(vectors, metric), metric)
    return SelfCheck(tuple(rates), recall, min(sample, len(index)), seed, _notes(index))


def _notes(index: Index) -> tuple[str, ...]:
    notes = [] if index.encoder is not None else [NO_ENCODER]
    if index.snapshot().knowledge is None:
        notes.append(NO_KNOWLEDGE)
    return tuple(notes)


def known_items(corpus: Snapshot, count: int, seed: int) -> list[KnownItem]:
    """Queries made of so many documents, drawn by chance; one or two of each that holds a word."""
    generator = np.random.default_rng(seed)
    rows = generator.permutation(corpus.live_rows())[:count]
    return [
        item for document in corpus.stored(rows) for item in _items(document, corpus, generator)
    ]


def _items(document: Stored, corpus: Corpus, generator: np.random.Generator) -> Iterable[KnownItem]:
    known, unknown = _words(document.text[:MOST_CHARACTERS], corpus)
    drawn = generator.permutation(known[:RAREST]).tolist()
    if drawn:
        yield KnownItem("ordinary", document.id, " ".join(drawn[:ORDINARY]))
    if unknown:
        word = unknown[int(generator.integers(len(unknown)))]
        yield KnownItem("unknown", document.id, " ".join((word, *drawn[:BESIDE_UNKNOWN])))


def _words(text: str, corpus: Corpus) -> tuple[list[str], list[str]]:
    """The different words of a text that the model knows, rarest first, and those it does not."""
    words = weighing.weigh(corpus.cutter.spans(text), corpus.knowledge, SHIPPED.is_identifier())
    found = {word.word.words: word for word in words if word.counts}
    unknown = [word for word in found.values() if _is_unknown(word, corpus)]
    known = [word for word in found.values() if _is_word(word) and not _is_unknown(word, corpus)]
    known.sort(key=lambda word: _frequency(word, corpus))
    return [word.word.surface for word in known], [word.word.surface for word in unknown]


def _is_unknown(word: WeighedWord, corpus: Corpus) -> bool:
    return word.unknown and corpus.knowledge is not None


def _is_word(word: WeighedWord) -> bool:
    return weighing.is_word(word.word.surface)


def _frequency(word: WeighedWord, corpus: Corpus) -> int:
    return min(map(corpus.document_frequency, word.telling()))


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


def _vectors_of_documents(corpus: Snapshot, count: int, seed: int) -> Vectors:
    rows = np.random.default_rng(seed).permutation(corpus.live_rows())[:count]
    return corpus.vectors.take(rows)
