"""Compare all fusion methods with judged queries, or with queries made from documents.

Files of queries, their vectors and relevance judgements have the layouts of test collections.

Queries (the layout is recognised by the content):

    {"_id": "1", "text": "..."}       BEIR: one JSON object per line (``_id`` or ``id``)
    1<TAB>what makes wings lift       TREC's deep learning track, MS MARCO
    what makes wings lift             one query per line; its id is the line number, from 1

Judgements (the layout is recognised by the number of columns):

    query-id<TAB>corpus-id<TAB>score  BEIR: with or without a line of column names
    301 0 FBIS3-10082 1               TREC: topic, iteration (ignored), document, judgement

Vectors of queries: a matrix in a ``.npy`` file.

The metrics follow trec_eval, like those of BEIR and MTEB. A ranking is a list of distinct document
ids, best first. A document is relevant if its judgement is at least 1. A query without a relevant
document scores 0. The gain in nDCG is the judgement itself (linear, not ``2**rel - 1``), or 0 if
the judgement is negative. The discount in nDCG is log2(rank + 1).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log2, nan
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import FUSIONS, MEASURES, SELF_CHECK_SAMPLE, Fusion, Measure
from vocabtool.documents.vectors import map_npy
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import InvalidFile, VocabtoolError, reading
from vocabtool.index.index import Index
from vocabtool.index.snapshot import IndexSnapshot
from vocabtool.search.hits import Hits
from vocabtool.search.query import is_word, weigh_words
from vocabtool.search.settings import Settings
from vocabtool.system.messages import Progress

Judged = Mapping[str, int]  # judgements of one query by document id

NDCG_DEPTH: Final = 10
RELEVANT: Final = 1

RESAMPLES: Final = 10_000
MAX_DRAWN: Final = 4_000_000  # differences drawn at a time: about 64 MB

MAX_LINE: Final = 1 << 20  # bytes
MAX_RELEVANCE: Final = 1 << 31
BEIR_COLUMNS: Final = 3
TREC_COLUMNS: Final = 4

Qrels = dict[str, dict[str, int]]  # judgements by query id and document id
Line = tuple[str, int]  # text without the line end; offset in the file, in bytes

Kind = Literal["ordinary", "unknown"]
Split = Literal["all", "unknown", "known"]

SPLITS: Final[tuple[Split, ...]] = get_args(Split)
REFERENCE: Final[Fusion] = Settings().fusion
DEPTH: Final = 100  # of a ranking, and of recall
MRR_DEPTH: Final = 10
KEYWORDS: Final[tuple[Fusion, ...]] = ("keyword",)
KEYWORDS_ONLY: Final = (
    "without vectors of the queries only keyword search can be evaluated: pass vectors"
)
ORDINARY: Final = 4  # words in an ordinary query
BESIDE_UNKNOWN: Final = 2  # known words in a query with an unknown word
MAX_CHARACTERS: Final = 20_000  # of a text; the rest is not analysed
RAREST: Final = 12  # known words of a document that queries are drawn from
NEAREST: Final = 10  # hits in which the document of a query is looked for
NO_ENCODER: Final = (
    "the index has no encoder, so queries have no vectors: only keyword search is checked"
)
NO_VOCABULARY: Final = "it is unknown which words the model knows: all count as known"


# ---- measures


def ndcg(ranked: Sequence[str], judged: Judged) -> float:
    """Return normalised discounted cumulative gain at :data:`NDCG_DEPTH`, 0 to 1.

    Source: Järvelin, Kekäläinen: Cumulated Gain-Based Evaluation of IR Techniques, TOIS 2002, with
    trec_eval's discount (``ndcg_cut``).
    """
    gains = (max(judged.get(document, 0), 0) for document in ranked[:NDCG_DEPTH])
    best_gains = sorted((max(gain, 0) for gain in judged.values()), reverse=True)
    return _dcg(gains) / (_dcg(best_gains[:NDCG_DEPTH]) or 1)


def recall(ranked: Sequence[str], judged: Judged) -> float:
    """Return the share of the relevant documents in the first :data:`DEPTH`, 0 to 1."""
    relevant = {document for document, gain in judged.items() if gain >= RELEVANT}
    return len(relevant.intersection(ranked[:DEPTH])) / (len(relevant) or 1)


def reciprocal_rank(ranked: Sequence[str], judged: Judged) -> float:
    """Return 1 / rank of the first relevant document, or 0 if it exceeds :data:`MRR_DEPTH`."""
    for rank, document in enumerate(ranked[:MRR_DEPTH], 1):
        if judged.get(document, 0) >= RELEVANT:
            return 1 / rank
    return 0.0


def _dcg(gains: Iterable[int]) -> float:
    """Return discounted cumulative gain. ``gains``: those of a ranking, best rank first."""
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, 1))


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % confidence interval."""

    mean: float
    low: float
    high: float


def intervals(differences: NDArray[np.float64], *, seed: int = 0) -> list[Interval]:
    """Return the mean of each column with its 95 % confidence interval, by the paired bootstrap.

    ``differences``: shape (queries, columns). The interval of one query is its value.

    Sources: Efron, Tibshirani: An Introduction to the Bootstrap, 1993, chapter 13; Sakai:
    Evaluating Evaluation Metrics based on the Bootstrap, SIGIR 2006.
    """
    low = high = means = differences.mean(axis=0)
    if len(differences) > 1:
        from scipy.stats import bootstrap  # takes a second to load

        low, high = bootstrap(
            (differences,),
            np.mean,
            n_resamples=RESAMPLES,
            batch=max(1, MAX_DRAWN // differences.size),
            method="percentile",
            random_state=np.random.default_rng(seed),
        ).confidence_interval
    return [Interval(*map(float, row)) for row in zip(means, low, high, strict=True)]


@dataclass(frozen=True, slots=True)
class HitRate:
    """How often a fusion method finds the document that a query was made from.

    - ``fusion``: the method. ``keyword`` and ``dense`` use one leg alone.
    - ``first``, ``first_ten``: the share of queries whose document has rank 1, and a rank up to 10.
    """

    kind: str
    fusion: str
    queries: int
    first: float
    first_ten: float

    @classmethod
    def of(cls, kind: str, fusion: str, ranks: Sequence[int]) -> HitRate:
        """Compute the shares from the rank of each query's document."""
        first, first_ten = (fmean(rank <= most for rank in ranks) for most in (1, 10))
        return cls(kind, fusion, len(ranks), first, first_ten)


# ---- queries and judgements


@dataclass(frozen=True, slots=True)
class JudgedQueries:
    """Queries with a relevant document. ``at``: their places among all ``count`` in the file."""

    texts: list[str]
    judged: list[Judged]
    at: list[int]
    count: int
    notes: list[str]

    def vectors(self, index: Index, vectors: NDArray[Any] | None) -> Vectors | None:
        """Return the vectors of these queries, shape (len(texts), dim).

        ``vectors``: one for each query in the file. If it is ``None``, the queries are encoded;
        without an encoder, the result is ``None``. Raises ``ValueError`` if their number is wrong.
        """
        if vectors is None:
            encoder = index.encoder
            return None if encoder is None else encoder.encode_queries(self.texts)
        if len(vectors) != self.count:
            raise ValueError(f"got {len(vectors):,} vectors for {self.count:,} queries")
        return np.asarray(vectors[self.at], np.float32)


def with_judgements(queries: Mapping[str, str], qrels: Qrels) -> JudgedQueries:
    """Keep the queries with a relevant document. Raises :class:`VocabtoolError` if none has."""
    at = [
        place
        for place, name in enumerate(queries)
        if max(qrels.get(name, {}).values(), default=0) >= RELEVANT
    ]
    if not at:
        raise VocabtoolError(
            f"none of the {len(queries):,} queries has a relevant document, but there are "
            f"judgements of {len(qrels):,} queries. Do both files belong to one collection?"
        )
    notes = []
    if len(at) < len(queries):
        left_out = len(queries) - len(at)
        notes.append(f"{left_out:,} queries without a relevant document are skipped")
    without_text = qrels.keys() - queries.keys()
    if without_text:
        notes.append(f"{len(without_text):,} judged queries have no text")
    ids, texts = [*queries], [*queries.values()]
    judged: list[Judged] = [qrels[ids[place]] for place in at]
    return JudgedQueries([texts[place] for place in at], judged, at, len(queries), notes)


def read_queries(path: str | Path) -> dict[str, str]:
    """Return texts by id, in file order. Raises :class:`NotFound` and :class:`InvalidFile`."""
    with reading(str(path)):
        lines = list(_lines(path))
        queries: dict[str, str] = {}
        for name, text, offset in _parse_queries(lines):
            if name in queries:
                raise InvalidFile(f"the query {name!r} occurs twice", offset=offset)
            queries[name] = text
        if not queries:
            raise InvalidFile("contains no query")
    return queries


def _parse_queries(lines: Sequence[Line]) -> Iterator[tuple[str, str, int]]:
    """Yield the id, the text and the byte offset of each query."""
    first = lines[0][0].lstrip() if lines else ""
    if first.startswith("{"):
        for text, offset in lines:
            try:
                row = json.loads(text)
            except (ValueError, RecursionError) as error:  # RecursionError: nested too deeply
                raise InvalidFile(f"not a JSON object: {error}", offset=offset) from error
            name = row.get("_id", row.get("id")) if isinstance(row, dict) else None
            if not isinstance(name, str | int) or not isinstance(row.get("text"), str):
                raise InvalidFile('expected {"_id": ..., "text": "..."}', offset=offset)
            yield str(name), row["text"], offset
    elif first.lower().startswith("<top>"):
        raise InvalidFile("TREC topics: write the id, a tab and the title of each on a line")
    else:
        has_ids = all(text.count("\t") == 1 for text, _ in lines)
        for number, (text, offset) in enumerate(lines, 1):
            name, query = text.split("\t") if has_ids else (str(number), text)
            yield name.strip(), query.strip(), offset


def read_qrels(path: str | Path) -> Qrels:
    """Read the judgements of each query. Raises :class:`NotFound` and :class:`InvalidFile`."""
    qrels: Qrels = {}
    with reading(str(path)):
        for number, (line, offset) in enumerate(_lines(path)):
            columns = line.split("\t")  # ids of BEIR may contain spaces
            if len(columns) != BEIR_COLUMNS:
                columns = line.split()
            try:
                relevance = float(columns[-1])  # some collections write ``1.0``
            except ValueError:
                relevance = nan
            is_number = relevance.is_integer() and abs(relevance) < MAX_RELEVANCE
            if number == 0 and len(columns) == BEIR_COLUMNS and not is_number:
                continue  # column names
            if len(columns) not in (BEIR_COLUMNS, TREC_COLUMNS) or not is_number:
                raise InvalidFile(
                    "expected the columns query, document, judgement (BEIR) or query, iteration, "
                    "document, judgement (TREC); the last one must be an integer",
                    offset=offset,
                )
            query, document = columns[0].strip(), columns[-2].strip()
            judged = qrels.setdefault(query, {})
            if judged.setdefault(document, int(relevance)) != relevance:
                what = f"the document {document!r} is judged twice for the query {query!r}"
                raise InvalidFile(f"{what}, with different grades", offset=offset)
        if not qrels:
            raise InvalidFile("contains no judgement")
    return qrels


def read_query_vectors(path: str | Path) -> NDArray[Any]:
    """Read a ``.npy`` file: a matrix with one row for each query. Pickled arrays are refused.

    Raises :class:`NotFound`, :class:`InvalidFile` and :class:`UnsupportedFormat`.
    """
    with reading(str(path)), Path(path).open("rb") as file:
        matrix = map_npy(file)()
        if matrix.ndim != 2 or not np.issubdtype(matrix.dtype, np.floating):
            got = f"{matrix.dtype}, shape {matrix.shape}"
            raise InvalidFile(f"expected a matrix of floating point numbers, got {got}")
        return matrix


def _lines(path: str | Path) -> Iterator[Line]:
    """Yield the lines of a file that are not blank. Raises :class:`InvalidFile`."""
    with Path(path).open("rb") as file:
        offset = 0
        while raw := file.readline(MAX_LINE + 1):
            if len(raw) > MAX_LINE:
                raise InvalidFile(f"a line has more than {MAX_LINE:,} bytes", offset=offset)
            if raw.strip():
                try:
                    text = raw.decode("utf-8" if offset else "utf-8-sig").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise InvalidFile("not UTF-8", offset=offset + error.start) from error
                yield text, offset
            offset += len(raw)


# ---- comparison


@dataclass(frozen=True, slots=True)
class FusionScore:
    """The mean of each measure for one fusion method on one set of queries.

    - ``split``: the set of queries: all, or those with or without unknown words.
    - ``differences``: the mean difference from the fusion ``coverage`` in each measure, with a 95 %
      confidence interval.
    """

    fusion: Fusion
    split: Split
    queries: int
    measures: Mapping[Measure, float]
    differences: Mapping[Measure, Interval]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of :func:`evaluate`.

    - ``unknown``: the number of queries with a word that the model does not know, although the
      corpus contains it.
    - ``notes``: what was skipped.
    """

    rows: tuple[FusionScore, ...]
    queries: int
    unknown: int
    seed: int
    notes: tuple[str, ...]


def evaluate(
    index: Index | str | Path,
    queries: Mapping[str, str] | str | Path,
    qrels: Qrels | str | Path,
    *,
    vectors: NDArray[Any] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    **settings: Any,
) -> Evaluation:
    """Search for every judged query with every fusion method; return the scores.

    - ``index``: an index, or its path or address.
    - ``queries``: the text of each query by id. ``qrels``: judgements by ids of query and document.
      Both may also be files.
    - ``vectors``: vectors of the queries, shape (queries, dim), if the index has no encoder.
    - ``seed``: seed of the bootstrap for confidence intervals.
    - ``settings``: options of :meth:`Index.search_many` for every search.

    Raises :class:`VocabtoolError` if no query has a relevant document.
    """
    index = index if isinstance(index, Index) else Index.open(index)
    queries = read_queries(queries) if isinstance(queries, str | Path) else queries
    qrels = read_qrels(qrels) if isinstance(qrels, str | Path) else qrels
    chosen = with_judgements(queries, qrels)
    query_vectors = chosen.vectors(index, vectors)
    fusions = FUSIONS if query_vectors is not None else KEYWORDS
    hits: dict[Fusion, list[Hits]] = {}
    for fusion in fusions:
        options = {"literal": True, **settings, "fusion": fusion}  # judged queries: no operators
        hits[fusion] = index.search_many(chosen.texts, vectors=query_vectors, k=DEPTH, **options)
        if progress is not None:
            progress("fusions compared", len(hits) / len(fusions))
    if query_vectors is None:
        chosen.notes.append(KEYWORDS_ONLY)
    relevant = {id_ for row in chosen.judged for id_, gain in row.items() if gain >= RELEVANT}
    missing = [id_ for id_ in sorted(relevant) if id_ not in index]
    if missing:  # perhaps ids of another kind
        what = f"{len(missing):,} of {len(relevant):,} relevant documents are not in the index"
        chosen.notes.append(f"{what}, for example {missing[0]!r}")
    # The measures of each query by fusion: shape (queries, measures).
    measured = {fusion: _measure(answers, chosen.judged) for fusion, answers in hits.items()}
    # Queries with m > 0: an unknown word changed the weight of the keyword leg.
    unknown = np.array([bool(answer.query.m) for answer in hits.get(REFERENCE, hits["keyword"])])
    rows = tuple(_score_fusions(measured, unknown, seed))
    return Evaluation(rows, len(unknown), int(unknown.sum()), seed, tuple(chosen.notes))


eval: Final = evaluate  # noqa: A001 - the name of the command


def _score_fusions(
    measured: Mapping[Fusion, NDArray[np.float64]], unknown: NDArray[np.bool_], seed: int
) -> Iterator[FusionScore]:
    """``measured``: shape (queries, measures). ``unknown``: whether a query has an unknown word."""
    masks = {"all": np.ones(len(unknown), np.bool_), "unknown": unknown, "known": ~unknown}
    for split in SPLITS:
        if not masks[split].any():
            continue
        values = {fusion: measures[masks[split]] for fusion, measures in measured.items()}
        differences: dict[Fusion, Mapping[Measure, Interval]] = {}
        others = [fusion for fusion in values if fusion != REFERENCE and REFERENCE in values]
        if others:  # all differences are resampled together
            columns = np.concatenate([values[name] - values[REFERENCE] for name in others], axis=1)
            bounds = iter(intervals(columns, seed=seed))
            differences = {name: {measure: next(bounds) for measure in MEASURES} for name in others}
        for fusion, measures in values.items():
            means = dict(zip(MEASURES, measures.mean(axis=0).tolist(), strict=True))
            of_fusion = differences.get(fusion, {})
            yield FusionScore(fusion, split, len(measures), means, of_fusion)


def _measure(answers: Sequence[Hits], judgements: Sequence[Judged]) -> NDArray[np.float64]:
    """Return the measures of each query, in the order of :data:`MEASURES`."""
    rows = []
    for hits, judged in zip(answers, judgements, strict=True):
        ids = [hit.id for hit in hits]
        rows.append((ndcg(ids, judged), recall(ids, judged), reciprocal_rank(ids, judged)))
    return np.array(rows)


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """The result of :func:`self_check`: the hit rate of each fusion method and kind of query."""

    rates: tuple[HitRate, ...]
    sample: int
    seed: int
    notes: tuple[str, ...]


def self_check(
    index: Index,
    sample: int = SELF_CHECK_SAMPLE,
    seed: int = 0,
    *,
    progress: Progress | None = None,
) -> SelfCheck:
    """Search an index for a sample of its own documents, to show whether the index works.

    An ``ordinary`` query has four rare words of a document. An ``unknown`` query has two rare words
    and a word that the model does not know. Raises :class:`VocabtoolError` if no document contains
    a word.
    """
    snapshot, generator = index.snapshot(), np.random.default_rng(seed)
    rows = generator.permutation(snapshot.rows_in_order())[:sample]
    items: list[tuple[Kind, str, str]] = []  # the kind of a query, the id of its document, its text
    for document in snapshot.fetch_documents(rows):
        known, unknown = _rare_and_unknown(document.text[:MAX_CHARACTERS], snapshot)
        drawn = generator.permutation(known[:RAREST]).tolist()
        if drawn:
            items.append(("ordinary", document.id, " ".join(drawn[:ORDINARY])))
        if unknown:
            word = unknown[int(generator.integers(len(unknown)))]
            items.append(("unknown", document.id, " ".join((word, *drawn[:BESIDE_UNKNOWN]))))
    if not items:
        raise VocabtoolError(f"{index.name}: its documents have no words, so no query can be made")
    kinds, ids, texts = zip(*items, strict=True)
    vectors = None if index.encoder is None else index.encoder.encode_queries(texts)
    rates: list[HitRate] = []
    fusions = KEYWORDS if vectors is None else FUSIONS
    for done, fusion in enumerate(fusions, 1):
        hits = index.search_many(texts, vectors=vectors, k=NEAREST, fusion=fusion, literal=True)
        for kind in get_args(Kind):
            ranks = [
                next((rank for rank, hit in enumerate(answer, 1) if hit.id == id_), NEAREST + 1)
                for answer, id_, kind_of_query in zip(hits, ids, kinds, strict=True)
                if kind_of_query == kind
            ]
            if ranks:
                rates.append(HitRate.of(kind, fusion, ranks))
        if progress is not None:
            progress("fusions compared", done / len(fusions))
    notes = []
    if vectors is None:
        notes.append(NO_ENCODER)
    if snapshot.known_words is None:
        notes.append(NO_VOCABULARY)
    return SelfCheck(tuple(rates), min(sample, len(index)), seed, tuple(notes))


def _rare_and_unknown(text: str, snapshot: IndexSnapshot) -> tuple[list[str], list[str]]:
    """Return the known words of a text, the rarest in the index first, and its unknown words."""
    words = weigh_words(snapshot.cutter.spans(text), snapshot.known_words)
    distinct = {word.word.words: word for word in words if word.counts}
    known, unknown = [], []
    for word in distinct.values():
        surface = word.word.surface
        if word.unknown and snapshot.known_words is not None:
            unknown.append(surface)
        elif is_word(surface):
            frequencies = snapshot.statistics(word.telling)[0]
            known.append((min(frequencies.values()), surface))
    return [surface for _, surface in sorted(known, key=itemgetter(0))], unknown
