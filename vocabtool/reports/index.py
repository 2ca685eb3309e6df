"""Reports of ``embed``, and of the commands that create, describe, verify or evaluate an index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vocabtool.errors import NotFound, OtherModel
from vocabtool.index.documents import PLAIN
from vocabtool.reports.hits import value_counts
from vocabtool.reports.report import (
    Cell,
    Column,
    Report,
    Section,
    Table,
    facts,
    notes_of,
    percent,
    safe,
)
from vocabtool.search.settings import A_OF_PIECES, A_OF_WORDS, Settings
from vocabtool.system.messages import plural
from vocabtool.system.own_files import to_json

if TYPE_CHECKING:
    from vocabtool.embedding.embed import EmbedReport, Progress
    from vocabtool.evaluation.calibrate import TunedWeight, WeightEstimate
    from vocabtool.evaluation.compare import Evaluation, SelfCheck
    from vocabtool.evaluation.judgements import HitRate
    from vocabtool.index.contents import IndexStats
    from vocabtool.index.index import Index
    from vocabtool.index.load import LoadReport
    from vocabtool.index.maintenance import VerifyReport

RATED: Final = 100  # documents; below, the time to start dominates the speed
NAMES: Final = 10  # width of the names of facts, in characters
NAMED: Final = 5  # FILEs of an index


def index_report(index: Index, report: LoadReport, seconds: float, calibrating: float) -> Report:
    """Return the report of ``index``: what was done, and how the index will be searched.

    ``seconds``: the duration of the whole command. ``calibrating``: the seconds of calibration.
    """
    manifest = index.manifest
    data = {
        "folder": index.name,
        "documents": len(index),
        **asdict(report),
        "seconds": seconds,
        "seconds_loading": report.seconds,
        "seconds_calibrating": calibrating,
        "commit": manifest.commit,
        "approximate": None if manifest.codes is None else asdict(manifest.codes),
        "calibration": None if manifest.calibration is None else asdict(manifest.calibration),
    }
    head = f"{index.name}: {plural(len(index), 'document', 'documents')}"
    table = facts(_index_facts(index, report, seconds, calibrating), NAMES)
    return Report(sections=lambda: [Section("", table, [head])], data=lambda: data)


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
        if report.encoded < new and index.can_encode:
            kept = plural(new - report.encoded, "vector", "vectors")
            done += f"; {plural(report.encoded, 'text', 'texts')} encoded, {kept} kept or given"
    elif report.resumed:
        done = "nothing: the files did not change since they were indexed"
    yield "done now", done
    if report.read > report.resumed > 0:
        there = plural(report.resumed, "document", "documents")
        yield "resumed", f"{there} indexed before, by an interrupted load"
    values = plural(report.left_out, "value", "values")
    vectors = plural(report.zero, "vector", "vectors")
    texts = plural(report.not_utf8, "document", "documents")
    for name, count, told in (
        ("skipped", report.skipped, plural(report.skipped, *SKIPPED)),
        (
            "skipped values",
            report.left_out,
            f"{values} that did not fit their field; the documents were added",
        ),
        ("dropped", report.dropped, plural(report.dropped, *DROPPED)),
        ("zero", report.zero, f"{vectors}: found by keywords only"),
        (
            "not UTF-8",
            report.not_utf8,
            f"{texts}, invalid bytes stored as U+FFFD: perhaps another encoding, or not text",
        ),
    ):
        if count:
            yield name, told
    yield from _search_facts(index)


def _search_facts(index: Index) -> Iterator[tuple[str, str]]:
    """Yield facts on how the index is searched, as pairs of a name and a text."""
    held, codes = index.configuration, index.manifest.codes
    vectors = f"{held.dim} numbers, {held.dtype}, {held.metric}"
    if codes is None:
        yield "vectors", f"{vectors}; exact search"
    else:
        how = "4-bit codes" if codes.lists else "an index of pgvector"
        cells = f", {codes.probes} of {codes.lists} lists" if codes.lists > 1 else ""
        yield (
            "vectors",
            f"{vectors}; {how}, {codes.candidates} candidates compared exactly{cells}: "
            f"recall@10 {codes.recall:.3f} on {codes.queries} queries at build time (target "
            f"{codes.recall_asked:g})",
        )
    words = plural(index.manifest.words, "running word", "running words")
    yield "keywords", f"{'not stemmed' if held.language == 'none' else held.language}, {words}"
    if searched := index.manifest.searched_fields:
        yield "fields", f"{safe(' and '.join(searched))} are searched together"
    yield "weight", f"a = {_weight_of(index)}"


def stats_report(index: Index, found: IndexStats) -> Report:
    """Return the report of ``stats``: what an index contains."""
    documents = plural(found.documents, "document", "documents")
    deleted = f", {plural(found.deleted, 'deleted row', 'deleted rows')}" if found.deleted else ""
    unfinished = "; a load is unfinished" if found.loading else ""
    head = (
        f"{index.name}: {documents}{deleted}; commit {found.commit:,} in generation "
        f"{found.generation}{unfinished}"
    )
    fields = ["fields"] if found.fields else []
    for field in found.fields:
        holders = plural(field.documents, "document", "documents")
        of_field = f"  {safe(field.name)}: {PLAIN[field.kind]}, in {holders}"
        if field.documents:
            of_field += f", {plural(field.distinct, 'different value', 'different values')}"
        fields.append(of_field)
        if field.frequent:
            fields.append(f"      {value_counts(field.frequent)}")
    table = facts(_stats_facts(index, found), NAMES)
    return Report(
        sections=lambda: [Section("", table, [head]), Section("", text=fields)],
        data=lambda: asdict(found),
    )


def _stats_facts(index: Index, found: IndexStats) -> Iterator[tuple[str, str]]:
    from rich.filesize import decimal

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
            yield "", value_counts(found.unknown_words)
    sizes = ", ".join(f"{name} {decimal(size)}" for name, size in found.files.items())
    yield "disk", f"{decimal(sum(found.files.values()))}: {sizes}"
    shown = [*found.sources[:NAMED], *["..."] * (len(found.sources) > NAMED)]
    if shown:
        yield "sources", ", ".join(shown)


def _weight_of(index: Index) -> str:
    """Describe the weight of keyword search, and where it comes from."""
    found = index.calibration
    if found is not None and found.judged:
        return f"{found.a:.2f}, tuned on {found.judged:,} judged queries"
    if found is not None:
        return f"{found.a:.2f}, an estimate from {found.sample:,} documents"
    try:
        knowledge = index.snapshot().known_words
    except (NotFound, OtherModel):  # the model is not here
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
    pairs = [("done now", done)]
    texts = plural(counts.not_utf8, "document", "documents")
    vectors = plural(counts.zero, "vector", "vectors")
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
    ):
        if count:
            pairs.append((name, told))
    if counts.tokens:
        share = percent(counts.tokens_unknown / counts.tokens)
        every = plural(counts.tokens, "word", "words")
        pairs.append(("unknown", f"{counts.tokens_unknown:,} of {every} ({share})"))
    head = f"{Path(report.folder)}: {documents} in {shards}"
    table = facts(pairs, NAMES)
    return Report(sections=lambda: [Section("", table, [head])], data=report.to_json)


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
    return ", ".join(parts)


def verify_report(folder: str, found: VerifyReport) -> Report:
    """Return the report on an undamaged index.

    The report also lists files that do not belong to the index.
    """
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
    return Report(sections=lambda: [Section(text=lines)], data=lambda: asdict(found))


# Evaluation.

WEIGHT: Final = "The weight of keywords"
BAR: Final = 30  # length of the longest bar of a curve, in characters
SPLITS: Final = {
    "all": "all queries",
    "unknown": "queries with an unknown word",
    "known": "queries without unknown words",
}


def evaluation_report(found: Evaluation) -> Report:
    """Return the report of ``eval``: the mean of each measure, by fusion and group of queries.

    It also compares the nDCG@10 of each fusion with that of the default fusion.
    """
    return Report(
        title="How well the index ranks",
        sections=lambda: _scores(found),
        data=lambda: to_json(found),
    )


def _scores(found: Evaluation) -> Iterator[Section]:
    from vocabtool.evaluation.compare import MEASURES, REFERENCE

    unknown = f"{found.unknown:,} with an unknown word"
    yield Section(text=[f"{found.queries:,} judged queries, {unknown}"])
    means = [Column(name, "score") for name in MEASURES]
    for split, title in SPLITS.items():
        rows = [row for row in found.rows if row.split == split]
        cells: list[list[Cell]] = []
        for row in rows:
            gap = row.differences.get(MEASURES[0])
            shown = f"{gap.mean:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})" if gap else ""
            cells.append([row.fusion, *(row.measures[name] for name in MEASURES), shown])
        if rows:
            first = Column(f"{title} ({rows[0].queries:,})")
            yield Section("", Table((first, *means, Column("difference")), cells, MEASURES[0]))
    gaps = (
        f"difference: {MEASURES[0]} minus that of {REFERENCE}, with a 95% interval (paired "
        "bootstrap)"
    )
    yield Section(text=[gaps, *notes_of(found.notes)])


def self_check_report(found: SelfCheck) -> Report:
    """Return the report on how often each fusion finds the document from which a query was made."""
    text = [
        f"queries made from {found.sample:,} documents: how often the document is found",
        "ordinary: the model knows all words of a query; unknown: it does not know one of them",
    ]
    notes = notes_of(found.notes)
    return Report(
        title="How often the index finds its own documents",
        sections=lambda: [Section("", _rates(found.rates), text, notes)],
        data=lambda: to_json(found),
    )


def _rates(rates: Iterable[HitRate]) -> Table:
    rows = [(each.fusion, each.kind, each.queries, each.first, each.first_ten) for each in rates]
    columns = [Column("fusion"), Column("query"), Column("queries", "count")]
    columns += [Column("first", "share"), Column("top ten", "share")]
    return Table(columns, rows, "first")


def calibration_report(found: WeightEstimate) -> Report:
    """Return the report on an estimated weight, with the loss of each weight that was tried.

    The report also shows how often vector search alone and keyword search alone find the document
    that a query was made from.
    """
    text = [
        f"a = {found.a:.3f}, estimated from the documents",
        "a is the minimum weight of keywords; unknown words of a query increase the weight",
        f"from {found.sample:,} documents, seed {found.seed}",
    ]
    loss = "mean log rank of the document that a query was made from (lower is better)"
    kinds = "title: the query is a title or first sentence; hard: some words of another sentence"
    return Report(
        title=WEIGHT,
        sections=lambda: [
            Section(text=text),
            Section("", _curve(loss, found.curve)),
            Section("", _rates(found.rates), [kinds], notes_of(found.notes)),
        ],
        data=lambda: to_json(found),
    )


def tuning_report(found: TunedWeight) -> Report:
    """Return the report on a tuned weight, with the quality of ranking on held-out queries."""
    text = [
        f"a = {found.a:.2f}, the best for {found.queries:,} judged queries",
        f"nDCG@10 {found.held_out:.3f} on held-out queries; {found.fixed:.3f} with the default "
        "weight",
    ]
    if found.held_out <= found.fixed:
        text.append("tuning does not help here: the default weight is as good on held-out queries")
    curve = _curve("nDCG@10", found.curve)
    return Report(
        title=WEIGHT,
        sections=lambda: [Section(text=text), Section("", curve, (), notes_of(found.notes))],
        data=lambda: to_json(found),
    )


def _curve(name: str, values: Mapping[float, float]) -> Table:
    """Return a table of weights ``a`` and their values.

    A bar of # shows how far a value is above the lowest value.
    """
    low, high = min(values.values()), max(values.values())
    rows = [
        (f"{a:.2f}", f"{value:.3f} {'#' * round(BAR * (value - low) / (high - low or 1))}")
        for a, value in values.items()
    ]
    return Table((Column("a"), Column(name)), rows)
