"""Choose the weight of keyword search in hybrid search.

- :func:`calibrate` estimates it without relevance judgements. Queries are made from a sample of
  documents. For the search, the text of the query is removed from its document. The best weight
  ranks these documents highest.
- :func:`tune` needs judged queries. The weight with the highest mean nDCG@10 is chosen.
  Cross-validation estimates its nDCG@10 on new queries.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from math import log
from shlex import quote
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import CALIBRATION_SAMPLE, Metric
from vocabtool.documents.batch import Document
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import VocabtoolError
from vocabtool.evaluation.evaluate import (
    MAX_CHARACTERS,
    NDCG_DEPTH,
    HitRate,
    Qrels,
    ndcg,
    with_judgements,
)
from vocabtool.index.vectors import prepare, similarities
from vocabtool.keywords.cutter import (
    Clause,
    Cutter,
    Field,
    Term,
    Terms,
    idf,
    stored_length,
    term_score,
    weighted_terms,
)
from vocabtool.keywords.tokens import SHAPES
from vocabtool.search.fusion import Candidates, best_places, fuse
from vocabtool.search.query import Query, parse_query
from vocabtool.search.settings import Calibration, Settings
from vocabtool.search.store import Snapshot
from vocabtool.streams.stream import Stream
from vocabtool.system.ranking import Near, RankedRows, Rows

if TYPE_CHECKING:
    from vocabtool.index.index import Index
    from vocabtool.index.snapshot import IndexSnapshot
    from vocabtool.system.messages import Progress

Kind = Literal["title", "hard"]

STEPS: Final = 20
FOLDS: Final = 5
MIN_QUERIES: Final = 10
DEFAULTS: Final = Settings(literal=True)  # judged queries are texts, without operators
WEIGHTS: Final = tuple(step / STEPS for step in range(STEPS + 1))  # 0, 0.05, .. 1

MIN_WORDS: Final = 15
DROP_RATE: Final = 0.5

ENDS: Final = re.compile(r"(?<=[.!?]\s)|(?<=[。！？\n])")  # noqa: RUF001 - full-width
RUNS: Final = re.compile(r"[^\W_]+")  # letters and digits
WINDOW: Final = 12  # words in each part of a text with too few sentences
MIN_SENTENCES: Final = 3

# Letters: no other ASCII characters, which are frequent in code, tables and formulas.
_LETTERS: Final = r"[^\x00-@\[-`{-\x7f]+"
WORD: Final = re.compile(rf"{_LETTERS}(?:['-]{_LETTERS})*")
AROUND: Final = "\"'(),.:;!?"
MIN_SENTENCE_WORDS: Final = 4  # in scripts without spaces: characters
WORD_SHARE: Final = 0.8  # minimum share of words among the parts between spaces
CODE_ENDS: Final = (":", ";", "{")  # ends of lines of code, rare in sentences

MIN_SAMPLE: Final = 10  # documents; an estimate from fewer is useless
ENCODED_TOGETHER: Final = 256  # texts, after which progress is shown
READ_PER_SAMPLE: Final = 20  # documents read at most for each that is long enough
ABSENT: Final = 1_000  # the rank of a document that is not found
NEARLY_BEST: Final = 0.02  # losses up to this much above the lowest count as equally good
ESTIMATE: Final = (
    "an estimate without relevance judgements. It can be worse than the default weight; "
    "only judged queries show whether it is"
)


@dataclass(frozen=True, slots=True)
class PseudoQuery:
    """A query made from a part of the document in ``row``.

    ``copy``: the text of the document without this part. ``removed``: the start and the exclusive
    end of this part in the document, in characters.
    """

    kind: Kind
    row: int
    text: str
    copy: str
    removed: tuple[int, int]


def pseudo_queries(
    row: int, document: Document, cutter: Cutter, generator: np.random.Generator
) -> list[PseudoQuery]:
    """Make a ``title`` and a ``hard`` query from a document.

    - ``title``: the title of the document, or its first sentence if the document has no title.
    - ``hard``: content words of a random later sentence. A word that also occurs elsewhere in the
      document is dropped with probability one half.

    Returns an empty list if the document is too short.
    """
    pieces = sentences(document.text)
    words = sum(1 for _ in islice(RUNS.finditer(document.text), MIN_WORDS))
    if len(pieces) < MIN_SENTENCES or words < MIN_WORDS:
        return []
    language = [
        at for at, sentence in enumerate(pieces) if reads_like_language(sentence[:MAX_CHARACTERS])
    ]
    first, *later = language or range(len(pieces))
    title = document.fields.get("title")
    if isinstance(title, str) and title.strip():
        title, left = title.strip(), document.text.strip()
        for _ in range(2):
            if left.casefold().startswith(title.casefold()):
                left = left[len(title) :].lstrip(" .:-\n\t")
        span = 0, len(document.text.rstrip()) - len(left)
    else:
        title, span = _words_of(pieces[first], cutter), _span_of(pieces, first)
        left = _without(document.text, span)
    order = [*generator.permutation(np.array(later, int)).tolist(), first, *range(len(pieces))]
    for at in order:
        content = [word for word in cutter.spans(_words_of(pieces[at], cutter)) if not word.stop]
        if content:
            break
    else:
        return []
    removed = _span_of(pieces, at)
    rest = _without(document.text, removed)
    repeated = set(cutter.terms([rest])[0].words.split(" "))
    tossed = generator.random(len(content)) < DROP_RATE
    kept = [
        word.surface
        for word, drop in zip(content, tossed.tolist(), strict=True)
        if not (drop and repeated.issuperset(word.words))
    ]
    hard = " ".join(kept or [content[int(generator.integers(len(content)))].surface])
    if not title or not left:
        return []
    return [
        PseudoQuery("title", row, title, left, span),
        PseudoQuery("hard", row, hard, rest, removed),
    ]


def _span_of(parts: Sequence[str], place: int) -> tuple[int, int]:
    start = sum(map(len, parts[:place]))
    return start, start + len(parts[place])


def _without(text: str, span: tuple[int, int]) -> str:
    return (text[: span[0]] + text[span[1] :]).strip()


def _words_of(text: str, cutter: Cutter) -> str:
    return " ".join(
        " ".join(RUNS.findall(word.surface)) if word.surfaces else word.surface
        for word in cutter.spans(text[:MAX_CHARACTERS])
    )


def sentences(text: str) -> list[str]:
    """Split a text into sentences or, if it has fewer than three, into parts of twelve words.

    A sentence also ends at a line break. Each part contains a word. The joined parts equal the
    text. Returns an empty list for a text without words.
    """
    head, rest = text[:MAX_CHARACTERS], text[MAX_CHARACTERS:]
    pieces: list[str] = []
    for sentence in ENDS.split(head):
        if pieces and not (RUNS.search(sentence) and RUNS.search(pieces[-1])):
            pieces[-1] += sentence  # without a word: belongs to the sentence before
        else:
            pieces.append(sentence)
    starts = [word.start() for word in RUNS.finditer(head)]
    if not starts:
        return []
    if len(pieces) < MIN_SENTENCES:
        places = [0, *starts[::WINDOW][1:], len(head)]
        pieces = [head[start:end] for start, end in pairwise(places)]
    return [*pieces[:-1], pieces[-1] + rest]


def reads_like_language(sentence: str) -> bool:
    """Return whether a text looks like a sentence, not like code or a table."""
    shape = sentence.translate(SHAPES)
    without_blanks = shape.count("c") + shape.count("t")
    if without_blanks > shape.count("a") + shape.count("0"):
        return without_blanks >= MIN_SENTENCE_WORDS
    pieces = [piece.strip(AROUND) for piece in sentence.split()]
    between = [piece for piece in pieces if RUNS.search(piece) or (piece and piece.isascii())]
    words = sum(1 for piece in between if WORD.fullmatch(piece))
    enough = words >= MIN_SENTENCE_WORDS and words >= WORD_SHARE * len(between)
    return enough and not sentence.rstrip().endswith(CODE_ENDS)


@dataclass(frozen=True, kw_only=True, slots=True)
class ShortenedCopy:
    """A document without the text of a query. In a search it takes the place of the document.

    - ``row``: the row of the document.
    - ``terms``, ``vector``: those of the copy; the vector is zero if the copy has none.
    - ``mean_length``: the mean length of the field ``words``.

    Document frequencies stay those of the index. The copy matches no phrase.
    """

    row: int
    terms: Terms
    vector: Vectors
    metric: Metric
    mean_length: float

    def legs(
        self, snapshot: Snapshot, query: Query, vector: Vectors | None, limit: int
    ) -> tuple[Candidates, NDArray[np.int8]]:
        """Return the result of ``snapshot.legs`` with the copy in the place of its document."""
        candidates, tiers = snapshot.legs(
            query.keywords, vector, limit, snapshot.select([], self.row)
        )
        similarity = np.float32(np.nan)
        nearest = RankedRows(
            candidates.rows[: candidates.dense], candidates.similarities[: candidates.dense]
        )
        if vector is not None and self.vector.any():
            (similarity,) = similarities(vector, self.vector[np.newaxis], self.metric)
            nearest = self._insert(nearest, similarity, limit)
        tier_of = dict(zip(candidates.rows.tolist(), tiers.tolist(), strict=True))
        of_words = (
            self._scores(snapshot, query, query.keywords.codes),
            self._scores(snapshot, query, query.keywords.unstemmed),
        )
        tier_of[self.row] = sum(any(scores) for scores in of_words)
        rows = candidates.rows[candidates.keyword]
        keyword = RankedRows(rows, candidates.bm25[candidates.keyword])
        others = candidates.similarities[candidates.keyword]
        listed = candidates.listed
        score = sum(self._scores(snapshot, query, query.keywords.should))
        if score:
            ranked = self._insert(
                RankedRows(rows[:listed], keyword.scores[:listed]), np.float32(score), listed + 1
            )
            similarity_of = dict(zip(rows.tolist(), others.tolist(), strict=True))
            similarity_of[self.row] = float(similarity)
            # A document without an identifier is no candidate if it has no rank.
            has_place = [
                place < limit or bool(tier_of[row])
                for place, row in enumerate(ranked.rows.tolist())
            ]
            keyword = RankedRows(
                np.append(ranked.rows[has_place], rows[listed:]),
                np.append(ranked.scores[has_place], keyword.scores[listed:]),
            )
            others = np.array([similarity_of[row] for row in keyword.rows.tolist()], np.float32)
            listed = min(len(ranked.rows), limit)
        candidates = Candidates.union(Near(nearest, others), keyword, listed)
        tiers = np.array([tier_of[row] for row in candidates.rows.tolist()], np.int8)
        return candidates, tiers

    def _insert(self, ranked: RankedRows, score: np.float32, limit: int) -> RankedRows:
        rows, scores = np.append(ranked.rows, self.row), np.append(ranked.scores, score)
        return RankedRows.of(rows, scores, limit)

    def _scores(self, snapshot: Snapshot, query: Query, clauses: Sequence[Clause]) -> list[float]:
        """Return the BM25 score of the copy for each clause."""
        counts: dict[Field, Counter[str]] = {
            "words": Counter(" ".join((self.terms.words, *self.terms.repeated)).split()),
            "surfaces": Counter(self.terms.surfaces.split()),
        }
        of_terms = dict[tuple[Term, ...], float]()
        for clause in clauses:
            term, *more = clause.terms
            count = 0 if more else counts[term.field][term.text]
            score = clause.boost * idf(snapshot.rows, query.frequencies[term]) if count else 0.0
            if score and term.field == "words":  # of an identifier, only the idf counts
                score = term_score(score, count, stored_length(self.terms.count), self.mean_length)
            of_terms[clause.terms] = score
        own = []
        for clause in clauses:
            of_parts = sum(of_terms.get((term,), 0.0) for term in clause.parts)
            own.append(max(of_terms[clause.terms] - of_parts, 0.0))
        return own


@dataclass(frozen=True, kw_only=True, slots=True)
class LegScores:
    """The documents that vector search and keyword search found for a query, with their scores."""

    snapshot: Snapshot
    candidates: Candidates
    tiers: NDArray[np.int8]
    m: float

    def ranking(self, a: float, k: int | None = None) -> Rows:
        """Return the best rows when keyword search has the weight ``a``.

        ``k``: number of rows; ``None`` for all.
        """
        rows = self.candidates.rows
        near, by_words, weight = fuse(self.candidates, "coverage", a, self.m)
        scores = near + by_words
        most, ids, alone = len(rows) if k is None else k, self.snapshot.ids, weight == 1
        places, _ = best_places(rows, scores, self.tiers, most, ids, keywords_alone=alone)
        return rows[places]

    @property
    def nearest(self) -> Rows:
        return self.candidates.rows[: self.candidates.dense]


def score_legs(
    snapshot: Snapshot,
    text: str,
    vector: Vectors | None,
    settings: Settings = DEFAULTS,
    copy: ShortenedCopy | None = None,
) -> LegScores:
    """Search by vector and by keywords. Return the scores of both, not fused.

    ``copy``: takes the place of its document.
    """
    query = parse_query(snapshot, text, settings)
    used = vector if vector is not None and vector.any() else None
    limit = settings.limit(snapshot.rows)
    if copy is None:
        candidates, tiers = snapshot.legs(query.keywords, used, limit, snapshot.live)
    else:
        candidates, tiers = copy.legs(snapshot, query, used, limit)
    return LegScores(snapshot=snapshot, candidates=candidates, tiers=tiers, m=query.m)


@dataclass(frozen=True, slots=True)
class WeightEstimate:
    """The estimated weight of keyword search.

    - ``a``: the weight, 0 to 1. It is the mean of the weights in ``curve`` whose loss is nearly the
      lowest.
    - ``curve``: for each weight that was tried the loss: the mean of ln(rank), where rank is the
      rank of a query's own document.
    - ``rates``: how often each kind of search alone finds the documents.
    - ``sample``: the number of documents that queries were made from.
    - ``seed``: the seed of the random sample.
    """

    a: float
    curve: Mapping[float, float]
    rates: tuple[HitRate, ...]
    sample: int
    seed: int
    notes: tuple[str, ...]

    @property
    def calibration(self) -> Calibration:
        """Return the estimate in the form that an index stores."""
        return Calibration(self.a, 0, self.sample, self.seed)


def calibrate(
    index: Index,
    *,
    sample: int = CALIBRATION_SAMPLE,
    seed: int = 0,
    progress: Progress | None = None,
) -> WeightEstimate | None:
    """Estimate the weight ``a`` of keyword search from the documents of an index.

    Two queries are made from each document of a random sample. The estimate is not stored.

    - ``sample``: number of documents in the sample.
    - ``progress``: a function that gets the name of a step and its finished share, 0 to 1.

    Returns ``None`` if fewer than ten documents have three sentences and 15 words. Raises
    :class:`VocabtoolError` for an index without an encoder, and ``ValueError`` if ``sample`` is
    less than ten.
    """
    if sample < MIN_SAMPLE:
        raise ValueError(f"sample must be at least {MIN_SAMPLE} documents, got {sample}")
    encoder = index.encoder
    if encoder is None:
        raise VocabtoolError(
            f"{index.name}: calibration must encode new texts, but this index was made from your "
            "own vectors and has no encoder. Tune with judged queries instead"
        )
    snapshot, metric = index.snapshot(), index.configuration.metric
    queries = sample_queries(snapshot, sample, seed)
    if len(queries) < 2 * MIN_SAMPLE:
        return None
    show = progress or (lambda step, share: None)
    encoded: list[Vectors] = []
    done = 0
    for encode, texts in (
        (encoder.encode_queries, [query.text for query in queries]),
        (encoder.encode, [query.copy for query in queries]),
    ):
        batches = Stream.of(texts).batch(ENCODED_TOGETHER)
        for vectors in batches.map(encode, workers=encoder.threads):
            encoded.append(vectors)
            done += len(vectors)
            show("texts encoded to calibrate", done / (2 * len(queries)))
    of_queries, of_copies = np.split(prepare(np.concatenate(encoded), metric), [len(queries)])
    # The default settings, except for lists that contain all ranks that count.
    deep = replace(DEFAULTS, depth=max(ABSENT, DEFAULTS.limit(snapshot.rows)))
    ten = replace(DEFAULTS, fusion="keyword", depth=10)
    legs: list[LegScores] = []
    words: list[Rows] = []
    terms_of = terms_of_copies(snapshot, queries)
    rows = zip(queries, terms_of, of_queries, of_copies, strict=True)
    for query, terms, vector, of_copy in rows:
        copy = ShortenedCopy(
            row=query.row,
            terms=terms,
            vector=of_copy,
            metric=metric,
            mean_length=snapshot.mean_length,
        )
        legs.append(score_legs(snapshot, query.text, vector, deep, copy))
        by_words = score_legs(snapshot, query.text, None, ten, copy).candidates
        words.append(by_words.rows[by_words.keyword])
        show("queries searched to calibrate", len(legs) / len(queries))
    curve = {}
    for a in WEIGHTS:  # both kinds of query have the same weight, because they are equally many
        ranks = [
            rank_of(query.row, scores.ranking(a))
            for query, scores in zip(queries, legs, strict=True)
        ]
        curve[a] = fmean(map(log, ranks))
    nearly_best = min(curve.values()) + NEARLY_BEST
    best = fmean(a for a, loss in curve.items() if loss <= nearly_best)
    rates: list[HitRate] = []
    for kind in get_args(Kind):
        of_kind = [place for place, query in enumerate(queries) if query.kind == kind]
        dense = [rank_of(queries[place].row, legs[place].nearest[:10]) for place in of_kind]
        keyword = [rank_of(queries[place].row, words[place]) for place in of_kind]
        rates += [HitRate.of(kind, "dense", dense), HitRate.of(kind, "keyword", keyword)]
    return WeightEstimate(best, curve, tuple(rates), len(queries) // 2, seed, (ESTIMATE,))


def terms_of_copies(snapshot: IndexSnapshot, queries: Sequence[PseudoQuery]) -> list[Terms]:
    """Return the terms of each query's ``copy``, counted with the weights of the fields."""
    documents = snapshot.fetch_documents(np.array([query.row for query in queries]))
    return weighted_terms(
        snapshot.cutter,
        [document.text for document in documents],
        [document.fields for document in documents],
        snapshot.searched_fields,
        [query.removed for query in queries],
    )


def sample_queries(snapshot: IndexSnapshot, count: int, seed: int) -> list[PseudoQuery]:
    generator = np.random.default_rng(seed)
    rows = generator.permutation(snapshot.rows_in_order())[: READ_PER_SAMPLE * count]

    def queries_of(batch: list[int]) -> Iterator[PseudoQuery]:
        for row, document in zip(batch, snapshot.fetch_documents(np.array(batch)), strict=True):
            yield from pseudo_queries(row, document, snapshot.cutter, generator)

    return [*Stream.of(rows.tolist()).batch(count).flat_map(queries_of).take(2 * count)]


def rank_of(row: int, ranking: Rows) -> int:
    """Return the rank of a row, 1 to 1,000. A row that is absent has rank 1,000."""
    places = np.flatnonzero(ranking[: ABSENT - 1] == row)
    return int(places[0]) + 1 if len(places) else ABSENT


@dataclass(frozen=True, slots=True)
class TunedWeight:
    """The weight of keyword search with the highest mean nDCG@10.

    - ``a``: the weight, 0 to 1. If several are best, the middle one.
    - ``curve``: the mean nDCG@10 with each weight.
    - ``held_out``: the mean nDCG@10 in five-fold cross-validation.
    - ``fixed``: the mean nDCG@10 with the default weight.
    """

    a: float
    curve: Mapping[float, float]
    held_out: float
    fixed: float
    queries: int
    seed: int
    notes: tuple[str, ...]

    @property
    def calibration(self) -> Calibration:
        return Calibration(self.a, self.queries, 0, self.seed)


def tune(
    index: Index,
    queries: Mapping[str, str],
    qrels: Qrels,
    *,
    vectors: NDArray[Any] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> TunedWeight:
    """Choose the weight ``a`` of keyword search with judged queries. It is not stored.

    ``queries``: the text of each query by id.
    ``vectors``: vectors of the queries, shape (queries, dim), if the index has no encoder.
    ``seed``: seed of the random folds. Raises :class:`VocabtoolError` if fewer than ten queries
    have a relevant document, or if there is neither an encoder nor ``vectors``.
    """
    chosen = with_judgements(queries, qrels)
    if len(chosen.texts) < MIN_QUERIES:
        raise VocabtoolError(
            f"tuning needs {MIN_QUERIES} queries with a relevant document, got "
            f"{len(chosen.texts)}; calibrate without judgements instead: `vocabtool calibrate "
            f"{quote(index.name)}`"
        )
    of_queries = chosen.vectors(index, vectors)
    if of_queries is None:
        raise VocabtoolError(
            f"{index.name}: the index has no encoder; pass the vectors of the queries"
        )
    snapshot = index.snapshot()
    gains = np.empty((len(chosen.texts), len(WEIGHTS)))
    prepared = prepare(of_queries, index.configuration.metric)
    for place, (text, vector) in enumerate(zip(chosen.texts, prepared, strict=True)):
        legs = score_legs(snapshot, text, vector)
        for column, a in enumerate(WEIGHTS):
            ids = snapshot.ids(legs.ranking(a, NDCG_DEPTH))
            gains[place, column] = ndcg(ids, chosen.judged[place])
        if progress is not None:
            progress("queries searched", (place + 1) / len(gains))
    # Score each query with the weight that is best for the queries of the other folds.
    fold = np.random.default_rng(seed).permutation(len(gains)) % FOLDS
    held_out = [gains[fold == at][:, _best(gains[fold != at])] for at in range(FOLDS)]
    means = gains.mean(axis=0)
    known_words = snapshot.known_words
    fixed = DEFAULTS.weight(known_words is not None and known_words.subword)
    return TunedWeight(
        a=WEIGHTS[_best(gains)],
        curve=dict(zip(WEIGHTS, means.tolist(), strict=True)),
        held_out=float(np.concatenate(held_out).mean()),
        fixed=float(means[WEIGHTS.index(fixed)]),
        queries=len(gains),
        seed=seed,
        notes=tuple(chosen.notes),
    )


def _best(gains: NDArray[np.float64]) -> int:
    """Return the column with the highest mean. If several are best, return the middle one."""
    means = gains.mean(axis=0)
    best = np.flatnonzero(means >= means.max() - 1e-9)
    return int(best[len(best) // 2])
