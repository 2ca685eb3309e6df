"""How much the keyword leg should weigh in one index, found without a single judgement.

Documents are drawn, queries made of each and searched where the document is a copy without what was
asked, so that finding it proves something. The weight with which the documents are found best is
the estimate. How a copy takes the place of its document, and tuning by judged queries instead, is
in ``tune.py``.

Queries are made of what reads like language, where a document holds any: people ask in sentences,
also for code, and a model may know the one well and the other badly.

Sentences, and whether they read like language, are told by marks, line breaks and letters alone: a
line of code that is made of words, as ``import numpy as np``, passes for language.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice, pairwise
from math import log
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np

from vocabtool.choices import CALIBRATION_SAMPLE
from vocabtool.documents.batch import Document
from vocabtool.errors import VocabtoolError
from vocabtool.evaluation.tune import DEFAULTS, WEIGHTS, CopyStore, score_legs
from vocabtool.index.raw_vectors import prepare
from vocabtool.keywords.cutter import Cutter
from vocabtool.keywords.tokens import SHAPES
from vocabtool.search.settings import Calibration, Settings
from vocabtool.system.ranking import Rows

if TYPE_CHECKING:
    from vocabtool.index.generation import Snapshot
    from vocabtool.index.index import Index

Kind = Literal["title", "hard"]

MIN_WORDS: Final = 15
DROP_RATE: Final = 0.5

ENDS: Final = re.compile(r"(?<=[.!?]\s)|(?<=[。！？\n])")  # noqa: RUF001 - full-width
RUNS: Final = re.compile(r"[^\W_]+")  # letters and digits
WINDOW: Final = 12  # words that count as a sentence where a text has none
MIN_SENTENCES: Final = 3
MAX_CHARACTERS: Final = 20_000  # of a text that is looked at

# What ASCII has besides letters is what code, tables and formulas are full of.
_LETTERS: Final = r"[^\x00-@\[-`{-\x7f]+"
WORD: Final = re.compile(rf"{_LETTERS}(?:['-]{_LETTERS})*")
AROUND: Final = "\"'(),.:;!?"
MIN_SENTENCE_WORDS: Final = 4  # words of one that reads like language; letters, without blanks
WORD_SHARE: Final = 0.8  # of what stands between blanks that is words
CODE_ENDS: Final = (":", ";", "{")  # lines of code end so; sentences only to announce others

MIN_SAMPLE: Final = 10  # sampled documents, below which nothing is concluded
READ_PER_SAMPLE: Final = 20  # documents that are read for one that is long enough, at most
ABSENT: Final = 1_000  # the rank of a document that is not found
NEARLY_BEST: Final = 0.02  # losses that are no more than this above the lowest are as good
ESTIMATE: Final = (
    "an estimate without relevance judgements. It can be worse than the default weight; "
    "judged queries show it"
)


@dataclass(frozen=True, slots=True)
class PseudoQuery:
    """``row``: the document that is looked for; ``copy``: its text without what was asked."""

    kind: Kind
    row: int
    text: str
    copy: str


def pseudo_queries(
    row: int, document: Document, cutter: Cutter, generator: np.random.Generator
) -> list[PseudoQuery]:
    """A query of each kind, or none of a document that is too short to do without a part.

    ``title``: the title and the text without it, also where it is said again; else the first
    sentence. ``hard``: the content words of a later sentence that has any, drawn by chance, each
    that the rest of the document repeats dropped by the toss of a coin; and the text without it.
    """
    parts = sentences(document.text)
    words = sum(1 for _ in islice(RUNS.finditer(document.text), MIN_WORDS))
    if len(parts) < MIN_SENTENCES or words < MIN_WORDS:
        return []
    language = [at for at, part in enumerate(parts) if reads_like_language(part[:MAX_CHARACTERS])]
    first, *later = language or range(len(parts))
    title = document.fields.get("title")
    if isinstance(title, str) and title.strip():
        title, left = title.strip(), document.text.strip()
        for _ in range(2):
            if left.casefold().startswith(title.casefold()):
                left = left[len(title) :].lstrip(" .:-\n\t")
    else:
        title, left = _words_of(parts[first], cutter), _without(parts, first)
    order = [*generator.permutation(np.array(later, int)).tolist(), first, *range(len(parts))]
    for at in order:
        content = [word for word in cutter.spans(_words_of(parts[at], cutter)) if not word.stop]
        if content:
            break
    else:
        return []
    rest = _without(parts, at)
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
    return [PseudoQuery("title", row, title, left), PseudoQuery("hard", row, hard, rest)]


def _without(parts: Sequence[str], place: int) -> str:
    return "".join((*parts[:place], *parts[place + 1 :])).strip()


def _words_of(part: str, cutter: Cutter) -> str:
    """Nothing but words, of compounds the parts: as people ask for what they do not quote."""
    return " ".join(
        " ".join(RUNS.findall(word.surface)) if word.surfaces else word.surface
        for word in cutter.spans(part[:MAX_CHARACTERS])
    )


def sentences(text: str) -> list[str]:
    """Parts of a text that each hold a word; windows of twelve words where there are under three.

    A line break ends a sentence, too: it stands between lines of code, and between items. What
    follows the first 20,000 characters belongs to the last one. Put together again they are the
    text; there are none where those characters hold no word.
    """
    head, rest = text[:MAX_CHARACTERS], text[MAX_CHARACTERS:]
    parts: list[str] = []
    for part in ENDS.split(head):
        if parts and not (RUNS.search(part) and RUNS.search(parts[-1])):
            parts[-1] += part  # what holds no word belongs to the part before
        else:
            parts.append(part)
    starts = [word.start() for word in RUNS.finditer(head)]
    if not starts:
        return []
    if len(parts) < MIN_SENTENCES:
        places = [0, *starts[::WINDOW][1:], len(head)]
        parts = [head[start:end] for start, end in pairwise(places)]
    return [*parts[:-1], parts[-1] + rest]


def reads_like_language(sentence: str) -> bool:
    """Whether it is words between blanks, four or more, little else, and ends as language does.

    In scripts without blanks: whether most of its letters and digits are of them, four or more.
    """
    shape = sentence.translate(SHAPES)
    without_blanks = shape.count("c")
    if without_blanks > shape.count("a") + shape.count("0"):
        return without_blanks >= MIN_SENTENCE_WORDS
    pieces = [piece for each in sentence.split() if (piece := each.strip(AROUND))]
    between = [piece for piece in pieces if piece.isascii() or RUNS.search(piece)]
    words = sum(1 for piece in between if WORD.fullmatch(piece))
    enough = words >= MIN_SENTENCE_WORDS and words >= WORD_SHARE * len(between)
    return enough and not sentence.rstrip().endswith(CODE_ENDS)


@dataclass(frozen=True, slots=True)
class Loss:
    """``loss``: mean ln rank of the documents that queries were made of, with the weight ``a``."""

    a: float
    loss: float


@dataclass(frozen=True, slots=True)
class LegRate:
    """How often one leg alone finds the document a pseudo-query of this kind was made of."""

    kind: Kind
    leg: str
    first: float
    first_ten: float


@dataclass(frozen=True, slots=True)
class WeightEstimate:
    """``a``: the weight of the keyword leg, 0 to 1.

    It is the mean of the weights whose loss is nearly the lowest of ``curve``. ``rates``: what each
    leg finds by itself. ``sample``: documents that queries were made of. ``seed``: with it the same
    index gives the same.
    """

    a: float
    curve: tuple[Loss, ...]
    rates: tuple[LegRate, ...]
    sample: int
    seed: int
    notes: tuple[str, ...]

    @property
    def calibration(self) -> Calibration:
        """As an index keeps it."""
        return Calibration(self.a, 0, self.sample, self.seed)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        facts = asdict(self)
        facts["found"] = list(facts.pop("rates"))
        return {**facts, "curve": list(facts["curve"]), "notes": list(self.notes)}


def calibrate(
    index: Index, *, sample: int = CALIBRATION_SAMPLE, seed: int = 0
) -> WeightEstimate | None:
    """Estimate the weight ``a`` of an index from its documents; nothing is stored.

    Needs the encoder: 2 ``sample`` documents and as many short texts are encoded, and searched.
    ``None`` where fewer than ten documents have three sentences and 15 words: they tell nothing.
    Raises :class:`VocabtoolError` for an index without an encoder, ``ValueError`` for a smaller
    ``sample``.
    """
    if sample < MIN_SAMPLE:
        raise ValueError(f"sample must be at least {MIN_SAMPLE} documents, got {sample}")
    encoder = index.encoder
    if encoder is None:
        raise VocabtoolError(
            f"{index.path}: calibration encodes changed documents, but this index contains your "
            "own vectors and has no encoder. Tune with judged queries instead"
        )
    snapshot, metric = index.snapshot(), index.configuration.metric
    queries = sample_queries(snapshot, sample, seed)
    if len(queries) < 2 * MIN_SAMPLE:
        return None
    texts = [query.copy for query in queries]
    vectors = prepare(encoder.encode([query.text for query in queries]), metric)
    copied = prepare(encoder.encode(texts), metric)
    # As searches are, but that lists go down as far as ranks count.
    deep = replace(DEFAULTS, depth=max(ABSENT, DEFAULTS.limit(snapshot.rows)))
    ten = Settings(fusion="keyword", depth=10)
    legs, words = [], []
    for query, terms, vector, copy in zip(
        queries, snapshot.cutter.terms(texts), vectors, copied, strict=True
    ):
        store = CopyStore(snapshot, query.row, terms, copy, metric, snapshot.mean_lengths[0])
        legs.append(score_legs(store, query.text, vector, deep))
        words.append(score_legs(store, query.text, None, ten))
    curve = []
    for a in WEIGHTS:  # both kinds of query counted alike: there are as many of both
        ranks = [
            rank_of(query.row, scores.ranking(a))
            for query, scores in zip(queries, legs, strict=True)
        ]
        curve.append(Loss(a, fmean(map(log, ranks))))
    lowest = min(point.loss for point in curve)
    best = fmean(point.a for point in curve if point.loss <= lowest + NEARLY_BEST)
    rates: list[LegRate] = []
    for kind in get_args(Kind):
        of_kind = [place for place, query in enumerate(queries) if query.kind == kind]
        found = {
            "dense": [legs[place].nearest[:10] for place in of_kind],
            "keyword": [words[place].keyword_rows for place in of_kind],
        }
        for leg, lists in found.items():
            rows = [queries[place].row for place in of_kind]
            ranks = [rank_of(row, ranking) for row, ranking in zip(rows, lists, strict=True)]
            first, first_ten = (fmean(rank <= most for rank in ranks) for most in (1, 10))
            rates.append(LegRate(kind, leg, first, first_ten))
    return WeightEstimate(best, tuple(curve), tuple(rates), len(queries) // 2, seed, (ESTIMATE,))


def sample_queries(snapshot: Snapshot, count: int, seed: int) -> list[PseudoQuery]:
    """Two queries for each of so many documents, drawn by chance among those long enough."""
    generator = np.random.default_rng(seed)
    rows = generator.permutation(np.flatnonzero(snapshot.live))[: READ_PER_SAMPLE * count]
    queries: list[PseudoQuery] = []
    for start in range(0, len(rows), count):
        part = rows[start : start + count]
        for row, document in zip(
            part.tolist(), snapshot.documents.fetch_documents(part), strict=True
        ):
            queries += pseudo_queries(row, document, snapshot.cutter, generator)
            if len(queries) == 2 * count:
                return queries
    return queries


def rank_of(row: int, ranking: Rows) -> int:
    """From 1; 1,000 where it is not found or stands behind that."""
    places = np.flatnonzero(ranking[: ABSENT - 1] == row)
    return int(places[0]) + 1 if len(places) else ABSENT
