"""Reports of ``embed`` and of the commands that create, search, evaluate or verify an index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate
from operator import and_, eq
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vocabtool.errors import VocabtoolError
from vocabtool.index.documents import PLAIN
from vocabtool.reports.model import (
    Block,
    Column,
    Facts,
    Item,
    Notes,
    Paragraph,
    Report,
    Section,
    Table,
    percent,
    safe,
)
from vocabtool.reports.renderers import NOTEBOOK_ROWS, render_fragment
from vocabtool.search.settings import A_OF_PIECES, A_OF_WORDS, Settings
from vocabtool.system.messages import plural

if TYPE_CHECKING:
    from vocabtool.embedding.embed import EmbedReport, Progress
    from vocabtool.evaluation.calibrate import WeightEstimate
    from vocabtool.evaluation.compare import Evaluation, SelfCheck
    from vocabtool.evaluation.tune import TunedWeight
    from vocabtool.index.contents import FieldStats, IndexStats
    from vocabtool.index.index import Index
    from vocabtool.index.load import LoadReport
    from vocabtool.index.maintenance import VerifyReport
    from vocabtool.search.hits import (
        Explanation,
        Hit,
        Hits,
        LegPlace,
        QuerySummary,
        ValueCount,
        WordSummary,
    )

RATED: Final = 100  # documents; below, the time to start dominates the speed
NAMES: Final = 10  # width of the names of facts, in characters
WIDTH: Final = 160  # characters shown of a text
LEAD: Final = 40  # of these, characters before the first word of the query
ROUNDING: Final = 1e-9
NAMED: Final = 5  # FILEs of an index
BAR: Final = 30  # length of the longest bar of a curve, in characters


def _report(data: Callable[[], Mapping[str, Any]], *sections: Iterable[Block]) -> Report:
    return Report(sections=lambda page: [Section("", blocks) for blocks in sections], data=data)


# Creating vectors and indexes.


def index_report(index: Index, report: LoadReport, seconds: float, calibrating: float) -> Report:
    """Return the report of ``index``: what was done, and how the index will be searched.

    ``seconds``: the time of the whole command. ``calibrating``: how much of it calibration took.
    """
    manifest = index.manifest
    data = {
        "folder": str(index.path),
        "documents": len(index),
        **asdict(report),
        "seconds": seconds,
        "seconds_loading": report.seconds,
        "seconds_calibrating": calibrating,
        "commit": manifest.commit,
        "approximate": None if manifest.codes is None else asdict(manifest.codes),
        "calibration": None if manifest.calibration is None else asdict(manifest.calibration),
    }
    head = Paragraph(f"{index.path}: {plural(len(index), 'document', 'documents')}")
    facts = Facts(_index_facts(index, report, seconds, calibrating), NAMES)
    return _report(lambda: data, [head, facts])


def _index_facts(
    index: Index, report: LoadReport, seconds: float, calibrating: float
) -> Iterator[tuple[str, str]]:
    done = "nothing: no documents"
    if report.read > report.resumed or report.removed:
        counts = [
            f"{count:,} {name}"
            for name in ("added", "updated", "unchanged", "removed")
            if (count := getattr(report, name))
        ]
        done = f"{', '.join(counts or ['0 added'])} in {seconds:,.1f} s"
        if calibrating:
            done += f", {calibrating:,.1f} s of them calibrating"
        if (new := report.added + report.updated) >= RATED:
            done += f"; {new / max(report.seconds, 1e-9):,.0f} a second"
    elif report.resumed:
        done = "nothing: the files did not change since they were indexed"
    yield "done now", done
    if report.read > report.resumed > 0:
        there = plural(report.resumed, "document", "documents")
        yield "resumed", f"{there} indexed before the interruption"
    if report.skipped:
        yield "skipped", plural(report.skipped, *SKIPPED)
    if report.left_out:
        values = plural(report.left_out, "value", "values")
        yield "skipped values", f"{values} that did not fit their field; the documents were added"
    if report.dropped:
        yield "dropped", plural(report.dropped, *DROPPED)
    if report.zero:
        vectors = plural(report.zero, "vector", "vectors")
        yield "zero", f"{vectors}: found by keywords only"
    if report.not_utf8:
        texts = plural(report.not_utf8, "document", "documents")
        yield (
            "not UTF-8",
            f"{texts}, invalid bytes stored as U+FFFD: perhaps another encoding, or not text",
        )
    yield from _search_facts(index)


def _search_facts(index: Index) -> Iterator[tuple[str, str]]:
    """Yield how the index is searched."""
    held, codes = index.configuration, index.manifest.codes
    vectors = f"{held.dim} numbers, {held.dtype}, {held.metric}"
    if codes is None:
        yield "vectors", f"{vectors}; exact search"
    else:
        cells = f", {codes.probes} of {codes.lists} lists" if codes.lists > 1 else ""
        yield (
            "vectors",
            f"{vectors}; 4-bit codes, {codes.candidates} candidates compared exactly{cells}: "
            f"recall@10 {codes.recall:.3f} on {codes.queries} queries at build time (target "
            f"{codes.recall_asked:g})",
        )
    words = plural(index.manifest.words, "running word", "running words")
    yield "keywords", f"{'not stemmed' if held.language == 'none' else held.language}, {words}"
    if index.manifest.searched:
        yield "fields", f"{safe(' and '.join(index.manifest.searched))} are searched together"
    yield "weight", f"a = {_weight_of(index)}"


def stats_report(index: Index, found: IndexStats) -> Report:
    """Return the report of ``stats``: what an index contains."""
    documents = plural(found.documents, "document", "documents")
    deleted = f", {plural(found.deleted, 'deleted row', 'deleted rows')}" if found.deleted else ""
    unfinished = "; a load is unfinished" if found.loading else ""
    head = Paragraph(
        f"{index.path}: {documents}{deleted}; commit {found.commit:,} in generation "
        f"{found.generation}{unfinished}"
    )
    fields = (
        Item(
            f"  {safe(each.name)}: {_field_facts(each)}",
            [_values(each.frequent)] if each.frequent else [],
            6,
        )
        for each in found.fields
    )
    facts = Facts(_stats_facts(index, found), NAMES)
    return _report(
        lambda: asdict(found), [head, facts], [Paragraph("fields"), *fields] if found.fields else []
    )


def _stats_facts(index: Index, found: IndexStats) -> Iterator[tuple[str, str]]:
    kind = "none: your own vectors" if found.kind is None else found.kind
    yield "model", kind if found.model is None else f"{found.model} ({kind})"
    yield from _search_facts(index)
    weight = found.calibration
    if weight is not None and weight.time:
        held = plural(weight.documents, "document", "documents")
        yield "", f"found {weight.time}, when the index had {held}"
    if found.tokens is not None and found.tokens_unknown is not None:
        words = plural(found.tokens, "running word", "running words")
        share = percent(found.tokens_unknown / max(found.tokens, 1))
        yield "unknown", f"{found.tokens_unknown:,} of {words} ({share})"
        if found.unknown_words:
            yield "", _values(found.unknown_words)
    sizes = ", ".join(f"{name} {_size(size)}" for name, size in found.files.items())
    yield "disk", f"{_size(sum(found.files.values()))}: {sizes}"
    shown = [*found.sources[:NAMED], *["..."] * (len(found.sources) > NAMED)]
    if shown:
        yield "sources", ", ".join(shown)


def _field_facts(field: FieldStats) -> str:
    told = f"{PLAIN[field.kind]}, in {plural(field.documents, 'document', 'documents')}"
    if field.documents:
        told += f", {plural(field.distinct, 'different value', 'different values')}"
    return told


def _values(counted: Iterable[ValueCount], form: str = "{} {:,}", width: int = LEAD) -> str:
    """Return values and counts on one line. ``form``: how a value and its count are written."""
    shown = []
    for each in counted:
        value = str(each.value).lower() if isinstance(each.value, bool) else str(each.value)
        shown.append(form.format(safe(value)[:width], each.count))
    return ", ".join(shown)


def _size(size: int) -> str:
    """Return a size on disk for people, in decimal units."""
    for unit, most in (("bytes", 1_000), ("kB", 1_000_000), ("MB", 1_000_000_000)):
        if size < most:
            return f"{size / (most // 1_000):,.{0 if unit == 'bytes' else 1}f} {unit}"
    return f"{size / 1e9:,.1f} GB"


def _weight_of(index: Index) -> str:
    """Describe the weight of the keyword leg. May open the model; a missing model is no error."""
    found = index.calibration
    if found is not None and found.judged:
        return f"{found.a:.2f}, tuned on {found.judged:,} judged queries"
    if found is not None:
        return f"{found.a:.2f}, an estimate from {found.sample:,} documents"
    try:
        knowledge = index.snapshot().known_words
    except VocabtoolError:
        return f"{A_OF_WORDS}, or {A_OF_PIECES} for models of pieces, not calibrated"
    weight = Settings().weight(knowledge is not None and knowledge.subword)
    return f"{weight}, not calibrated"


SKIPPED: Final = ("invalid row", "invalid rows")
DROPPED: Final = ("document with a repeated id", "documents with a repeated id")


def embed_report(report: EmbedReport) -> Report:
    """Build the report of ``embed``: what was done, what was skipped, and unknown words."""
    counts = report.counts
    documents = plural(counts.documents, "document", "documents")
    shards = plural(report.shards, "shard", "shards")
    done = "nothing: all shards exist already"
    if report.encoded:
        encoded = plural(report.encoded, "document", "documents")
        done = f"{encoded} in {report.seconds:,.1f} s, {report.rate:,.0f} a second"
    facts = [("done now", done)]
    texts = plural(counts.not_utf8, "document", "documents")
    vectors = plural(counts.zero, "vector", "vectors")
    cached = plural(report.hits, "vector", "vectors")
    resumed = plural(report.resumed, "shard", "shards")
    redone = plural(report.redone, "shard", "shards")
    for name, count, told in (
        ("resumed", report.resumed, f"{resumed} existed already"),
        ("redone", report.redone, f"{redone} of the interrupted run, written again"),
        ("skipped", report.skipped, plural(report.skipped, *SKIPPED)),
        ("dropped", report.dropped, plural(report.dropped, *DROPPED)),
        ("empty", counts.empty, f"{plural(counts.empty, 'text', 'texts')} with only whitespace"),
        ("zero", counts.zero, f"{vectors}: the model knows no word of the text"),
        ("not UTF-8", counts.not_utf8, f"{texts}, invalid bytes stored as U+FFFD"),
        ("cached", report.hits, f"{cached} from the cache"),
    ):
        if count:
            facts.append((name, told))
    if counts.tokens:
        share = percent(counts.tokens_unknown / counts.tokens)
        every = plural(counts.tokens, "word", "words")
        facts.append(("unknown", f"{counts.tokens_unknown:,} of {every} ({share})"))
    head = Paragraph(f"{Path(report.folder)}: {documents} in {shards}")
    return _report(report.to_json, [head, Facts(facts, NAMES)])


def progress_line(progress: Progress) -> str:
    """Format progress: ``12,288 documents, 3,100/s, 2 min left, 4.1% of words unknown``."""
    counts, left = progress.counts, progress.remaining
    parts = [plural(counts.documents, "document", "documents"), f"{progress.rate:,.0f}/s"]
    if left is not None:
        minutes = round(left / 60)
        if left < 60:
            parts.append(f"{left:.0f} s left")
        elif minutes < 60:
            parts.append(f"{minutes} min left")
        else:
            parts.append(f"{minutes // 60} h {minutes % 60:02} min left")
    if counts.tokens:
        parts.append(f"{counts.tokens_unknown / counts.tokens:.1%} of words unknown")
    if progress.hits:
        parts.append(f"{progress.hits / counts.documents:.0%} from the cache")
    return ", ".join(parts)


def verify_report(folder: str, found: VerifyReport) -> Report:
    """Return the report on an undamaged index, with the files that do not belong to the index."""
    near = f"recall@10 {found.recall:.3f}" if found.approximate else "all compared"
    documents = plural(found.documents, "document", "documents")
    lines = [f"{folder}: no damage: {documents} in both legs, vectors: {near}"]
    if found.loading:
        lines.append("a load is unfinished; if it was interrupted, run the same command again")
    if found.encoded is not None:
        again = plural(found.encoded.documents, "document", "documents")
        lowest = f"lowest agreement with the stored vectors {found.encoded.lowest:.6f}"
        lines.append(f"{again} encoded again: {lowest}")
    lines += [f"not part of the index: {name}" for name in found.others]
    return _report(lambda: asdict(found), map(Paragraph, lines))


# Searching.


def hits_report(found: Hits, *, one_of_many: bool = False, is_paged: bool = False) -> Report:
    """Return the report of a query's hits.

    ``one_of_many``: if true, always show the query, too. ``is_paged``: show the cursor, too.
    """
    explained = bool(found.hits) and found.hits[0].explanation is not None
    query: Block = Paragraph(f"query: {found.query.text}")
    answer: list[Block] = [] if found.hits else [Paragraph("nothing found")]
    if found.guesses:
        told = "guesses: the nearest vectors; no word of the query is known or found"
        answer.append(Paragraph(told))
    no_vector = _no_vector(found)
    answer += (_hit(number, hit, no_vector) for number, hit in enumerate(found.hits, 1))
    answer += (_facet(name, counts) for name, counts in found.facets.items())
    answer.append(_notes(found.notes))
    answer += (
        Paragraph(f"{each.word}: did you mean {', '.join(each.spellings)}?")
        for each in found.suggestions
    )
    if is_paged and found.cursor is not None:
        answer.append(Paragraph(f"next page: --after {found.cursor}"))
    if not explained and (found.hits or not found.query.text):
        return _report(found.to_dict, [query] * one_of_many + answer)
    asked = found.query
    codes_first = any(hit.tier for hit in found.hits)
    words = [
        (word.surface, ", ".join(_facts_of(word, asked.fusion, codes_first=codes_first)))
        for word in asked.words
    ]
    blocks = [query, Table((Column(), Column()), words, plain=True)]
    for name, parts in (
        ("left out", asked.excluded),
        ("only with", asked.fields),
        ("one of", asked.alternatives),
    ):
        blocks += [Paragraph(f"  {name}: {', '.join(parts)}")] if parts else []
    if asked.weight is not None:
        blocks.append(Paragraph(f"  weight of keywords {_weight(asked, asked.weight)}"))
    return _report(found.to_dict, blocks, answer)


def hits_html(found: Hits) -> str:
    """Return the best hits as a table for notebooks."""
    rows = [
        (f"{rank}", hit.id[:WIDTH], hit.score, hit.text[:WIDTH] + "…" * (len(hit.text) > WIDTH))
        for rank, hit in enumerate(found.hits[:NOTEBOOK_ROWS], 1)
    ]
    columns = (Column("rank"), Column("id"), Column("score", "score"), Column("text"))
    blocks: list[Block] = [Table(columns, rows), _notes(found.notes)]
    if (more := len(found) - len(rows)) > 0:
        blocks.append(Paragraph(f"… and {more:,} more"))
    title = plural(len(found), "hit", "hits")
    if found.query.text:
        title += f" for {found.query.text[:WIDTH]}"
    return render_fragment(title, blocks)


def _notes(notes: Iterable[str]) -> Notes:
    return Notes(f"note: {note}" for note in notes)


def _weight(asked: QuerySummary, weight: float) -> str:
    """Show the weight of the keyword leg with its formula, or say that a leg found nothing."""
    told = f"{weight:.2f}"
    if asked.a is None:
        return told
    by_formula = asked.a + (1 - asked.a) * (asked.m or 0)
    if abs(weight - by_formula) > ROUNDING:
        return f"{told}: {'vectors' if weight else 'keywords'} found nothing"
    if asked.m is None or all(word.known is None for word in asked.words):
        return told
    share = f"{asked.m:.2f} (m, the idf share of unknown words that documents contain)"
    return f"{told} = {asked.a:.2f} + {1 - asked.a:.2f} x {share}"


def _facts_of(word: WordSummary, fusion: str, *, codes_first: bool) -> Iterator[str]:
    from vocabtool.search.query import is_word

    if not word.counts:
        yield "stop word, not searched"
        return
    if word.known is None:
        yield "unknown whether the model knows it"
    else:
        yield "known" if word.known else "unknown to the model"
    if word.identifier:
        yield "a code: documents with it come first" if codes_first else "a code"
    if word.pieces is not None:
        yield plural(word.pieces, "piece", "pieces")
    if (whole := word.document_frequency) is not None:
        documents = plural(whole, "document", "documents")
        if word.part_frequency in (None, whole):
            yield f"in {documents}"
        else:
            yield f"complete in {documents}, its rarest part in {word.part_frequency:,}"
    if word.weight is not None and word.weight != 1:
        yield f"counted {word.weight:.4g} times"
    says_nothing = not word.identifier and not is_word(word.surface)
    if fusion == "coverage" and word.weight == 1 and word.known is False and says_nothing:
        yield "counted like a known word, because it is a number or one character"


def _no_vector(found: Hits) -> str:
    """Return why a hit has no similarity: because of the query, or else of the document."""
    from vocabtool.search.search import NO_VECTOR, ZERO_VECTOR

    if found.query.fusion == "keyword":
        return "vectors not searched"
    lacks = NO_VECTOR in found.notes or ZERO_VECTOR in found.notes
    return "the query has no vector" if lacks else "the document has no vector"


def _facet(name: str, counts: Iterable[ValueCount]) -> Paragraph:
    """Return the counted values of a field: ``facet lang: en (12), de (3)``."""
    told = _values(counts, "{} ({:,})", WIDTH) or "no document with a value"
    return Paragraph(f"facet {name}: {told}")


def _hit(number: int, hit: Hit, no_vector: str) -> Item:
    is_listed = hit.similarity is None and hit.bm25 is None and not hit.score  # without a query
    told = [] if is_listed else [f"{hit.score:.3f}"]
    if hit.tier:
        told.append("has the code")
    if hit.similarity is not None:
        told.append(f"similarity {hit.similarity:.3f}")
    if hit.bm25 is not None:
        told.append(f"BM25 {hit.bm25:.3f}")
    if hit.rerank is not None:
        told.append(f"rerank {hit.rerank:.3f}")
    if hit.further:
        told.append(f"{hit.further:,} more in its group")
    why = hit.explanation
    # The text around words of the query, which are in brackets.
    text, spans = hit.text, why.highlights if why is not None else ()
    start = at = _start_of_extract(text, why) if why is not None else 0
    end = min(len(text), start + WIDTH)
    shown = "..." * (start > 0)
    for first, last in spans:
        if first < start:
            continue
        if last > end:
            break
        shown += f"{text[at:first]}[{text[first:last]}]"
        at = last
    shown += text[at:end] + "..." * (end < len(text))
    lines = [_field_of_extract(hit, start, end) + " ".join(shown.split())]
    lines += [f"{name}: {safe(str(value))[:WIDTH]}" for name, value in hit.fields.items()]
    if why is not None:
        lines.append(_why(why, no_vector))
    head = f"{number:>2}. {hit.id}" + f"  ({', '.join(told)})" * bool(told)
    return Item(head, lines, indent=4)


def _field_of_extract(hit: Hit, start: int, end: int) -> str:
    """Return ``in title: `` if the extract's first highlight is in a field of less than half."""
    why = hit.explanation
    found = zip(why.highlights, why.highlight_fields, strict=False) if why is not None else ()
    name = next((name for span, name in found if start <= span.start and span.end <= end), "")
    value = hit.fields.get(name)
    is_part = isinstance(value, str) and 2 * len(value) < len(hit.text)
    return f"in {name}: " if is_part else ""


def _start_of_extract(text: str, why: Explanation) -> int:
    """Return the first place whose extract shows the words with the highest scores together."""
    forms = [text[start:end].casefold() for start, end in why.highlights]
    words = [(word.surface.casefold(), word.score) for word in why.words]
    of_form: dict[str, tuple[str, float]] = {}  # a form and its word begin with the same letters
    for form in dict.fromkeys(forms) if words else ():
        near = max(words, key=lambda word: (_common_length(word[0], form), -len(word[0])))
        within = (word for word in words if form in word[0])
        is_near = _common_length(near[0], form) > 0
        of_form[form] = near if is_near else next(within, (form, 0.0))
    best, most, after = 0, -1.0, 0
    for at, (first, _) in enumerate(why.highlights):
        start = max(0, first - LEAD)
        while after < len(forms) and why.highlights[after][1] <= start + WIDTH:
            after += 1
        shown = {of_form.get(form, (form, 1.0)) for form in forms[at:after]}
        score = sum(score for _, score in shown)
        if score > most + ROUNDING:
            best, most = start, score
    return best


def _common_length(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    return sum(accumulate(map(eq, one, other), and_))


def _why(why: Explanation, no_vector: str) -> str:
    """Return the ranks of the hit in both legs, and its rank without keywords."""
    from vocabtool.search.hits import DEEP

    has_keyword = why.words or why.keyword.rank is not None
    keywords = f"keywords {_place(why.keyword)}" if has_keyword else "no keyword match"
    has_vector = (why.dense.rank, why.dense.score) != (None, None)
    told = [f"vectors {_place(why.dense)}" if has_vector else no_vector, keywords]
    if why.words:
        parts = {True: "", False: "parts of "}
        words = [f"{parts[word.whole]}{word.surface} {word.score:.2f}" for word in why.words]
        told.append(f"by {', '.join(words)}")
    without = why.rank_without_keywords
    if without is not None:
        told.append(f"without keywords rank {without:,}")
    elif why.dense.score is not None:
        told.append(f"without keywords below rank {DEEP:,}")
    if why.fused_rank is not None:
        told.append(f"rank {why.fused_rank:,} by the fusion alone")
    return "; ".join(told)


def _place(place: LegPlace) -> str:
    rank = "beyond the candidates" if place.rank is None else f"rank {place.rank:,}"
    return rank if place.score is None else f"{rank} ({place.score:.3f})"


# Evaluation.


def evaluation_report(found: Evaluation) -> Report:
    """Return the report of ``eval``: for each group of queries, the mean measures of each fusion.

    Also shows by how much the nDCG@10 of each fusion differs from that of the default fusion.
    """
    from vocabtool.evaluation.compare import MEASURES, REFERENCE, SPLITS

    unknown = f"{found.unknown:,} with an unknown word"
    sections: list[list[Block]] = [[Paragraph(f"{found.queries:,} judged queries, {unknown}")]]
    widths = (10, *[12] * (len(MEASURES) - 1))
    means = [Column(name, "score", width) for name, width in zip(MEASURES, widths, strict=True)]
    for split in SPLITS:
        rows = [row for row in found.rows if row.split == split]
        cells = []
        for row in rows:
            gap = row.differences.get(MEASURES[0])
            told = f"   {gap.mean:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})" if gap else ""
            cells.append((row.fusion, *(row.measures[name] for name in MEASURES), told))
        if rows:
            table = Table((Column(width=13), *means, Column()), cells, plain=True)
            sections.append([Paragraph(f"{split} ({rows[0].queries:,})"), table])
    told = f"last column: nDCG@10 minus that of {REFERENCE}, with a 95% interval (paired bootstrap)"
    return _report(found.to_dict, *sections, [Paragraph(told), _notes(found.notes)])


FOUND_RATES: Final = (Column("first", "share", 8), Column("top ten", "share", 8))


def self_check_report(found: SelfCheck) -> Report:
    """Return the report on how often each fusion finds the document from which a query was made."""
    columns = (Column(width=13), Column("words", width=10), Column("queries", "count", 8))
    rows = [
        (each.fusion, each.kind, each.queries, each.first, each.first_ten) for each in found.rates
    ]
    blocks: list[Block] = [
        Paragraph(f"queries made from {found.sample:,} documents: how often the document is found"),
        Paragraph(
            "words: ordinary = the model knows all of them; unknown = it does not know one of them"
        ),
        Table((*columns, *FOUND_RATES), rows, plain=True),
    ]
    if found.recall is not None:
        share, queries = found.recall.mean, found.recall.queries
        told = f"recall@10 of the vector leg {share:.3f}, on {queries:,} queries"
        blocks.append(Paragraph(told))
    return _report(found.to_dict, [*blocks, _notes(found.notes)])


def calibration_report(found: WeightEstimate) -> Report:
    """Return the report on an estimated weight, with the loss of each weight that was tried.

    Also shows how often each leg finds the document that a query was made from.
    """
    columns = (Column("query", width=8), Column("leg", width=10), *FOUND_RATES)
    rows = [(each.kind, each.leg, each.first, each.first_ten) for each in found.rates]
    loss = "mean log rank of the document that a query was made from (lower is better)"
    return _report(
        found.to_dict,
        [
            Paragraph(f"a = {found.a:.3f}, estimated from the documents"),
            Paragraph(
                "a is the minimum weight of keywords; unknown words of a query increase the weight"
            ),
            Paragraph(f"from {found.sample:,} documents, seed {found.seed}"),
        ],
        [_curve(loss, [(point.a, point.loss) for point in found.curve])],
        [
            Paragraph(
                "title: the query is a title or first sentence; hard: some words of another "
                "sentence"
            ),
            Table(columns, rows, plain=True),
            _notes(found.notes),
        ],
    )


def tuning_report(found: TunedWeight) -> Report:
    """Return the report on a tuned weight, with the quality of ranking on held-out queries."""
    lines = [
        f"a = {found.a:.2f}, the best for {found.queries:,} judged queries",
        f"nDCG@10 {found.held_out:.3f} on held-out queries; {found.fixed:.3f} with the default "
        "weight",
    ]
    if found.held_out <= found.fixed:
        lines.append("tuning does not help here: the default weight is as good on held-out queries")
    curve = _curve("nDCG@10", [(point.a, point.ndcg) for point in found.curve])
    return _report(found.to_dict, list(map(Paragraph, lines)), [curve, _notes(found.notes)])


def _curve(what: str, points: Sequence[tuple[float, float]]) -> Table:
    """Return a table of pairs (a, value), with bars for how far values are above the lowest."""
    values = [value for _, value in points]
    low, wide = min(values), (max(values) - min(values)) or 1.0
    rows = [
        (f"{a:.2f}", f"{value:.3f} {'#' * round(BAR * (value - low) / wide)}")
        for a, value in points
    ]
    return Table((Column("a", width=6), Column(what)), rows, plain=True)
