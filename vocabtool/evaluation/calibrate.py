"""Choose the weight of keyword search in hybrid search.

:func:`calibrate` estimates it without relevance judgements, :func:`tune` needs judged queries.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from math import log
from shlex import quote
from statistics import fmean
from typing import Any, Final, Literal, get_args

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
from vocabtool.index.index import Index
from vocabtool.index.snapshot import IndexSnapshot
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
from vocabtool.system.messages import Progress
from vocabtool.system.parallel import in_batches
from vocabtool.system.ranking import RankedRows, Rows

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

    ``copy``: the document without this part. ``removed``: its start and exclusive end in
    characters.
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
    prose = [at for at, piece in enumerate(pieces) if reads_like_language(piece[:MAX_CHARACTERS])]
    first, *later = prose or range(len(pieces))
    title, title_span = _title_of(document, pieces, first, cutter)
    without_title = _without(document.text, title_span)
    # A later sentence at random or, if none of them has content words, any sentence.
    order = [*generator.permutation(np.array(later, int)).tolist(), first, *range(len(pieces))]
    for at in order:
        content = [word for word in cutter.spans(_words_of(pieces[at], cutter)) if not word.stop]
        if content:
            break
    else:
        return []
    span = _span_of(pieces, at)
    without_sentence = _without(document.text, span)
    other_words = set(cutter.terms([without_sentence])[0].words.split(" "))
    drawn_to_drop = (generator.random(len(content)) < DROP_RATE).tolist()
    query = [
        word.surface
        for word, is_drawn in zip(content, drawn_to_drop, strict=True)
        if not (is_drawn and other_words.issuperset(word.words))
    ]
    if not query:
        query = [content[int(generator.integers(len(content)))].surface]
    if not title or not without_title:
        return []
    return [
        PseudoQuery("title", row, title, without_title, title_span),
        PseudoQuery("hard", row, " ".join(query), without_sentence, span),
    ]


def _title_of(
    document: Document, pieces: Sequence[str], first: int, cutter: Cutter
) -> tuple[str, tuple[int, int]]:
    """Return the title of a document, and the start and the end of what repeats it in the text.

    Without a title in its fields, that is the sentence ``pieces[first]``.
    """
    title = document.fields.get("title")
    if not isinstance(title, str) or not title.strip():
        return _words_of(pieces[first], cutter), _span_of(pieces, first)
    title, body = title.strip(), document.text.strip()
    for _ in range(2):  # the title may stand there twice, for example again as a heading
        if body.casefold().startswith(title.casefold()):
            body = body[len(title) :].lstrip(" .:-\n\t")
    return title, (0, len(document.text.rstrip()) - len(body))


def _span_of(pieces: Sequence[str], place: int) -> tuple[int, int]:
    start = sum(map(len, pieces[:place]))
    return start, start + len(pieces[place])


def _without(text: str, span: tuple[int, int]) -> str:
    return (text[: span[0]] + text[span[1] :]).strip()


def _words_of(text: str, cutter: Cutter) -> str:
    """Return the words of a text, without signs, also inside of identifiers."""
    return " ".join(
        " ".join(RUNS.findall(word.surface)) if word.surfaces else word.surface
        for word in cutter.spans(text[:MAX_CHARACTERS])
    )


def sentences(text: str) -> list[str]:
    """Split a text into sentences or, if it has fewer than three, into parts of twelve words.

    A sentence also ends at a line break. Each part contains a word. The joined parts equal the
    text. Returns an empty list for a text without words.
    """
    head, tail = text[:MAX_CHARACTERS], text[MAX_CHARACTERS:]
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
    return [*pieces[:-1], pieces[-1] + tail]


def reads_like_language(sentence: str) -> bool:
    """Return whether a text looks like a sentence, not like code or a table."""
    shape = sentence.translate(SHAPES)
    without_spaces = shape.count("c") + shape.count("t")  # characters of Chinese, Thai and so on
    if without_spaces > shape.count("a") + shape.count("0"):
        return without_spaces >= MIN_SENTENCE_WORDS
    parts_between_spaces = (text.strip(AROUND) for text in sentence.split())
    tokens = [
        text for text in parts_between_spaces if RUNS.search(text) or (text and text.isascii())
    ]
    words = sum(1 for token in tokens if WORD.fullmatch(token))
    has_words = words >= MIN_SENTENCE_WORDS and words >= WORD_SHARE * len(tokens)
    return has_words and not sentence.rstrip().endswith(CODE_ENDS)


@dataclass(frozen=True, kw_only=True, slots=True)
class ShortenedCopy:
    """A document without the text of a query. In a search it takes the place of the document.

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
        others, tiers = snapshot.legs(query.keywords, vector, limit, snapshot.select([], self.row))
        tier_of = dict(zip(others.rows.tolist(), tiers.tolist(), strict=True))
        # 1 with an identifier of the query, 2 with its exact form: see `Snapshot.legs`.
        tier_of[self.row] = sum(
            any(self._scores(snapshot, query, clauses))
            for clauses in (query.keywords.codes, query.keywords.unstemmed)
        )
        nearest = RankedRows(others.rows[: others.dense], others.similarities[: others.dense])
        similarity = np.float32(np.nan)
        if vector is not None and self.vector.any():
            (similarity,) = similarities(vector, self.vector[np.newaxis], self.metric)
            nearest = self._insert(nearest, similarity, limit)
        similarity_of = dict(zip(others.rows.tolist(), others.similarities.tolist(), strict=True))
        similarity_of[self.row] = float(similarity)
        keyword, listed = self._rank_by_keywords(snapshot, query, others, tier_of, limit)
        of_keyword = np.array([similarity_of[row] for row in keyword.rows.tolist()], np.float32)
        candidates = Candidates.union(nearest, keyword, of_keyword, listed)
        tiers = np.array([tier_of[row] for row in candidates.rows.tolist()], np.int8)
        return candidates, tiers

    def _rank_by_keywords(
        self,
        snapshot: Snapshot,
        query: Query,
        others: Candidates,
        tier_of: Mapping[int, int],
        limit: int,
    ) -> tuple[RankedRows, int]:
        """Return the candidates, best first, and how many have a rank. ``others`` lack the copy."""
        rows, scores = others.rows[others.keyword], others.bm25[others.keyword]
        listed = others.listed
        score = sum(self._scores(snapshot, query, query.keywords.should))
        if not score:
            return RankedRows(rows, scores), listed
        ranked = RankedRows(rows[:listed], scores[:listed])
        ranked = self._insert(ranked, np.float32(score), listed + 1)
        # A document without an identifier is no candidate if it has no rank.
        is_candidate = [
            place < limit or bool(tier_of[row]) for place, row in enumerate(ranked.rows.tolist())
        ]
        keyword = RankedRows(
            np.append(ranked.rows[is_candidate], rows[listed:]),
            np.append(ranked.scores[is_candidate], scores[listed:]),
        )
        return keyword, min(len(ranked.rows), limit)

    def _insert(self, ranked: RankedRows, score: np.float32, limit: int) -> RankedRows:
        """Return the best ``limit`` rows of a ranking and of the copy, which has ``score``."""
        rows, scores = np.append(ranked.rows, self.row), np.append(ranked.scores, score)
        return RankedRows.of(rows, scores, limit)

    def _scores(self, snapshot: Snapshot, query: Query, clauses: Sequence[Clause]) -> list[float]:
        """Return the BM25 score of the copy for each clause, without what its parts score."""
        counts: dict[Field, Counter[str]] = {
            "words": Counter(" ".join((self.terms.words, *self.terms.repeated)).split()),
            "surfaces": Counter(self.terms.surfaces.split()),
        }
        score_of = dict[tuple[Term, ...], float]()  # by the terms of a clause
        for clause in clauses:
            term, *phrase = clause.terms
            count = 0 if phrase else counts[term.field][term.text]
            score = clause.boost * idf(snapshot.rows, query.frequencies[term]) if count else 0.0
            if score and term.field == "words":  # of an identifier, only the idf counts
                score = term_score(score, count, stored_length(self.terms.count), self.mean_length)
            score_of[clause.terms] = score
        scores = []
        for clause in clauses:
            of_parts = sum(score_of.get((term,), 0.0) for term in clause.parts)
            scores.append(max(score_of[clause.terms] - of_parts, 0.0))
        return scores


@dataclass(frozen=True, kw_only=True, slots=True)
class LegScores:
    """The documents that each leg finds for a query. ``m`` is that of :class:`Query`."""

    snapshot: Snapshot
    candidates: Candidates
    tiers: NDArray[np.int8]
    m: float

    def ranking(self, a: float, k: int | None = None) -> Rows:
        """Return the best ``k`` rows, or all, when keyword search has the weight ``a``."""
        rows = self.candidates.rows
        fused = fuse(self.candidates, "coverage", a, self.m)
        places, _ = best_places(
            rows,
            fused.dense + fused.keyword,
            self.tiers,
            len(rows) if k is None else k,
            self.snapshot.ids,
            keywords_alone=fused.weight == 1,
        )
        return rows[places]

    @property
    def nearest(self) -> Rows:
        """The rows that vector search found, best first."""
        return self.candidates.rows[: self.candidates.dense]


def score_legs(
    snapshot: Snapshot,
    text: str,
    vector: Vectors | None,
    settings: Settings = DEFAULTS,
    copy: ShortenedCopy | None = None,
) -> LegScores:
    """Search by vector and by keywords, not fused. ``copy`` takes the place of its document."""
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
        """The estimate in the form that an index stores."""
        return Calibration(self.a, 0, self.sample, self.seed)


def calibrate(
    index: Index,
    *,
    sample: int = CALIBRATION_SAMPLE,
    seed: int = 0,
    progress: Progress | None = None,
) -> WeightEstimate | None:
    """Estimate the weight ``a`` of keyword search from the documents of an index.

    Two queries are made from each document of a random sample. For the search, the text of the
    query is removed from its document. The best weight ranks these documents highest. The estimate
    is not stored.

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
    keyword_rankings: list[Rows] = []
    terms_of = terms_of_copies(snapshot, queries)
    rows = zip(queries, terms_of, of_queries, of_copies, strict=True)
    for query, terms, vector, vector_of_copy in rows:
        copy = ShortenedCopy(
            row=query.row,
            terms=terms,
            vector=vector_of_copy,
            metric=metric,
            mean_length=snapshot.mean_length,
        )
        legs.append(score_legs(snapshot, query.text, vector, deep, copy))
        by_keywords = score_legs(snapshot, query.text, None, ten, copy).candidates
        keyword_rankings.append(by_keywords.rows[by_keywords.keyword])
        show("queries searched to calibrate", len(legs) / len(queries))
    curve, scored = {}, list(zip(queries, legs, strict=True))
    for a in WEIGHTS:  # both kinds of query have the same weight, because they are equally many
        ranks = [rank_of(query.row, scores.ranking(a)) for query, scores in scored]
        curve[a] = fmean(map(log, ranks))
    nearly_best = min(curve.values()) + NEARLY_BEST
    best = fmean(a for a, loss in curve.items() if loss <= nearly_best)
    rates = _rates_of_legs(queries, [scores.nearest[:10] for scores in legs], keyword_rankings)
    return WeightEstimate(best, curve, rates, len(queries) // 2, seed, (ESTIMATE,))


def _rates_of_legs(
    queries: Sequence[PseudoQuery], by_vector: Sequence[Rows], by_keywords: Sequence[Rows]
) -> tuple[HitRate, ...]:
    """Return how often each leg alone finds the document of a query, from the rankings of both."""
    rates: list[HitRate] = []
    for kind in get_args(Kind):
        of_kind = [place for place, query in enumerate(queries) if query.kind == kind]
        for fusion, rankings in (("dense", by_vector), ("keyword", by_keywords)):
            ranks = [rank_of(queries[place].row, rankings[place]) for place in of_kind]
            rates.append(HitRate.of(kind, fusion, ranks))
    return tuple(rates)


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
    """Make two queries from each of ``count`` random documents, or of fewer if most are short."""
    generator = np.random.default_rng(seed)
    rows = generator.permutation(snapshot.rows_in_order())[: READ_PER_SAMPLE * count]
    queries: list[PseudoQuery] = []
    for batch in in_batches(rows.tolist(), count):
        for row, document in zip(batch, snapshot.fetch_documents(np.array(batch)), strict=True):
            queries += pseudo_queries(row, document, snapshot.cutter, generator)
            if len(queries) >= 2 * count:
                return queries[: 2 * count]
    return queries


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
    - ``queries``: the number of queries. ``seed``: the seed of the random folds.
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
    """Choose the weight ``a`` with the highest mean nDCG@10 for judged queries. It is not stored.

    ``queries``: the text of each query by id.
    ``vectors``: vectors of the queries, shape (queries, dim), if the index has no encoder.
    ``seed``: seed of the random folds.

    Raises :class:`VocabtoolError` if fewer than ten queries have a relevant document, or if there
    is neither an encoder nor ``vectors``.
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
    fixed = DEFAULTS.base_weight(known_words is not None and known_words.subword)
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
    best = np.flatnonzero(means >= means.max() - 1e-9)  # equal but for rounding
    return int(best[len(best) // 2])
