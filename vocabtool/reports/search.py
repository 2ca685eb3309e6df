"""The answer to a query as a person reads it: hits, and why they stand where they stand.

What ``eval`` and ``calibrate`` tell a person: tables of numbers, and what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from vocabtool.evaluation.compare import MEASURES, REFERENCE, SPLITS
from vocabtool.reports.model import align
from vocabtool.search.hits import (
    DEEP,
    Explanation,
    Hit,
    Hits,
    LegPlace,
    MatchedWord,
    QuerySummary,
    WordSummary,
)
from vocabtool.search.query import is_word
from vocabtool.system.messages import plural
from vocabtool.vocabulary import encode, printable

if TYPE_CHECKING:
    from vocabtool.evaluation.calibrate import Loss, WeightEstimate
    from vocabtool.evaluation.compare import Evaluation, FusionScore
    from vocabtool.evaluation.self_check import SelfCheck
    from vocabtool.evaluation.tune import Gain, TunedWeight

WIDTH: Final = 160  # characters of a text that are shown
ROUNDING: Final = 1e-9
LEAD: Final = 40  # of them before the first word of the query
NOT_FOUND: Final = "nothing found"


def lines(found: Hits, *, one_of_many: bool = False) -> Iterator[str]:
    """The answer, a line each. ``one_of_many``: above it stands which query it is for."""
    explained = bool(found.hits) and found.hits[0].explanation is not None
    if explained or not found.hits:
        yield from _query(found)
    elif one_of_many:
        yield f"query: {_safe(found.query.text)}"
    if not found.hits:
        yield NOT_FOUND
    if found.guesses:
        yield "guesses: the nearest vectors, although no word of the query is known or found"
    for number, hit in enumerate(found.hits, 1):
        yield from _hit(number, hit)
    for note in found.notes:
        yield f"note: {_safe(note)}"
    for each in found.suggestions:
        yield f"{_safe(each.word)}: perhaps {', '.join(map(_safe, each.spellings))}"


def _query(found: Hits) -> Iterator[str]:
    asked = found.query
    yield f"query: {_safe(asked.text)}"
    codes_first = any(hit.tier for hit in found.hits)
    facts = [", ".join(_facts(each, asked.fusion, codes_first=codes_first)) for each in asked.words]
    surfaces = [_safe(word.surface) for word in asked.words]
    yield from (f"  {line}" for line in align([*zip(surfaces, facts, strict=True)]))
    if asked.weight is not None:
        yield f"  keywords weigh {_weight(asked)}"
    yield ""


def _weight(asked: QuerySummary) -> str:
    """The weight, and how it came about: by the formula, or because one leg gave nothing."""
    told = f"{asked.weight:.2f}"
    if asked.a is None or asked.weight is None:
        return told
    by_formula = asked.a + (1 - asked.a) * (asked.m or 0)
    if abs(asked.weight - by_formula) > ROUNDING:
        return f"{told}: {'vectors' if asked.weight else 'keywords'} find nothing here"
    if asked.m is None or all(word.known is None for word in asked.words):
        return told
    share = f"{asked.m:.2f}, the share of the query in unknown words that documents hold"
    return f"{told} = {asked.a:.2f} + {1 - asked.a:.2f} x {share}"


def _facts(word: WordSummary, fusion: str, *, codes_first: bool) -> Iterator[str]:
    if not word.counts:
        yield "not searched for: a stop word"
        return
    if word.known is None:
        yield "nothing tells whether it is known"
    else:
        yield "known" if word.known else "unknown to the model"
    if word.identifier:
        yield "a code: documents that hold it come first" if codes_first else "a code"
    if word.pieces is not None:
        yield plural(word.pieces, "piece", "pieces")
    if word.document_frequency is not None:
        yield _frequency(word.document_frequency, word.part_frequency)
    if word.weight is not None and word.weight != 1:
        yield f"counted {word.weight:.4g} times"
    if fusion == "coverage" and word.weight == 1 and word.known is False and _says_nothing(word):
        yield "counted as a known word is: a number, or one character"


def _frequency(whole: int, of_parts: int | None) -> str:
    documents = "document" if whole == 1 else "documents"
    if of_parts in (None, whole):
        return f"in {whole:,} {documents}"
    return f"whole in {whole:,} {documents}, its rarest part in {of_parts:,}"


def _says_nothing(word: WordSummary) -> bool:
    return not word.identifier and not is_word(word.surface)


def _hit(number: int, hit: Hit) -> Iterator[str]:
    told = [f"{hit.score:.3f}"]
    if hit.tier:
        told.append("holds the code")
    if hit.similarity is not None:
        told.append(f"similarity {hit.similarity:.3f}")
    if hit.bm25 is not None:
        told.append(f"BM25 {hit.bm25:.3f}")
    yield f"{number:>2}. {_safe(hit.id)}  ({', '.join(told)})"
    why = hit.explanation
    yield f"    {_snippet(hit.text, why)}"
    for name, value in hit.fields.items():
        yield f"    {_safe(name)}: {_safe(str(value))[:WIDTH]}"
    if why is not None:
        yield f"    {_why(why)}"


def _why(why: Explanation) -> str:
    has_keyword = why.words or why.keyword.rank is not None
    keywords = f"keywords {_place(why.keyword)}" if has_keyword else "no keyword"
    told = [f"vectors {_place(why.dense)}", keywords]
    if why.words:
        told.append(f"by {', '.join(map(_match, why.words))}")
    without = why.rank_without_keywords
    if without is not None:
        told.append(f"without keywords number {without:,}")
    elif why.dense.score is not None:
        told.append(f"without keywords not among the first {DEEP:,}")
    return "; ".join(told)


def _match(word: MatchedWord) -> str:
    return f"{'' if word.whole else 'parts of '}{_safe(word.surface)} {word.score:.2f}"


def _place(place: LegPlace) -> str:
    rank = "past the end of the list" if place.rank is None else f"number {place.rank:,}"
    return rank if place.score is None else f"{rank} ({place.score:.3f})"


def _snippet(text: str, why: Explanation | None) -> str:
    """The text around the first word of the query, such words between brackets."""
    spans = why.highlights if why is not None else ()
    start = max(0, spans[0].start - LEAD) if spans else 0
    end = min(len(text), start + WIDTH)
    told = "..." * (start > 0) + _with_marks(text, start, end, spans) + "..." * (end < len(text))
    return " ".join(_safe(part) for part in told.split())


def _with_marks(text: str, start: int, end: int, spans: Sequence[tuple[int, int]]) -> str:
    told, at = "", start
    for first, last in spans:
        if last > end:
            break
        told += f"{text[at:first]}[{text[first:last]}]"
        at = last
    return told + text[at:end]


def _safe(text: str) -> str:
    return printable(encode(text))


BAR: Final = 30  # characters of the longest bar of a curve


def evaluation_lines(found: Evaluation) -> Iterator[str]:
    """A table for each split: means, and the difference of nDCG@10 to the default."""
    yield f"{found.queries:,} judged queries, {found.unknown:,} with a word the model does not know"
    for split in SPLITS:
        rows = [row for row in found.rows if row.split == split]
        if rows:
            yield ""
            yield from _scores(split, rows)
    yield ""
    yield f"nDCG@10 less that of {REFERENCE}, with its 95 % interval (paired bootstrap)"
    yield from _notes(found.notes)


def _scores(split: str, rows: list[FusionScore]) -> Iterator[str]:
    head = "  ".join(f"{measure:>10}" for measure in MEASURES)
    yield f"{split} ({rows[0].queries:,})"
    yield f"  {'':<13}{head}"
    for row in rows:
        means = "  ".join(f"{row.measures[measure]:>10.3f}" for measure in MEASURES)
        told = f"  {row.fusion:<13}{means}"
        if MEASURES[0] in row.differences:
            gap = row.differences[MEASURES[0]]
            told += f"   {gap.mean:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})"
        yield told


def self_check_lines(found: SelfCheck) -> Iterator[str]:
    """How often each fusion finds the document that a query was made of."""
    yield f"queries made of {found.sample:,} documents: how often that document is found"
    yield "words: ordinary, all of them known to the model; unknown, with one that it does not know"
    yield f"  {'':<13}{'words':<10}{'queries':>8}{'first':>8}{'in ten':>8}"
    for rate in found.rates:
        counts = f"{rate.queries:>8,}{rate.first:>8.1%}{rate.first_ten:>8.1%}"
        yield f"  {rate.fusion:<13}{rate.kind:<10}{counts}"
    if found.recall is not None:
        share, queries = found.recall.mean, found.recall.queries
        yield f"recall@10 of the vector leg {share:.3f}, on {queries:,} queries"
    yield from _notes(found.notes)


def calibration_lines(found: WeightEstimate) -> Iterator[str]:
    """The weight, how it came about, and that it is an estimate."""
    yield f"a = {found.a:.3f} by the documents"
    yield "keywords weigh at least so much, more where the model does not know words of the query"
    yield f"from {found.sample:,} documents, seed {found.seed}"
    yield ""
    yield "  a     mean logarithm of the rank of the document that a query was made of: low is good"
    yield from _curve(found.curve)
    yield ""
    yield "title: a title or first sentence is asked; hard: some words of another one, if there is"
    yield "one; of sentences that read like language, where a document has any"
    yield f"  {'query':<8}{'leg':<10}{'first':>8}{'in ten':>8}"
    for each in found.rates:
        yield f"  {each.kind:<8}{each.leg:<10}{each.first:>8.1%}{each.first_ten:>8.1%}"
    yield from _notes(found.notes)


def tuning_lines(found: TunedWeight) -> Iterator[str]:
    """The weight, and what it is worth on queries that did not choose it."""
    yield f"a = {found.a:.2f}, the best for {found.queries:,} judged queries"
    yield f"nDCG@10 {found.held_out:.3f} on held-out queries; {found.fixed:.3f} as shipped, untuned"
    if found.held_out <= found.fixed:
        yield "tuning is worth nothing here: the weight as shipped does as well on held-out queries"
    yield ""
    yield "  a     nDCG@10"
    yield from _gains(found.curve)
    yield from _notes(found.notes)


def _curve(curve: Iterable[Loss]) -> Iterator[str]:
    return _bars([(point.a, point.loss) for point in curve])


def _gains(curve: Iterable[Gain]) -> Iterator[str]:
    return _bars([(point.a, point.ndcg) for point in curve])


def _bars(points: Sequence[tuple[float, float]]) -> Iterator[str]:
    """Bars of what lies above the lowest value."""
    values = [value for _, value in points]
    low, wide = min(values), (max(values) - min(values)) or 1.0
    for a, value in points:
        yield f"  {a:.2f}  {value:.3f} {'#' * round(BAR * (value - low) / wide)}".rstrip()


def _notes(notes: Iterable[str]) -> Iterator[str]:
    return (f"note: {note}" for note in notes)
