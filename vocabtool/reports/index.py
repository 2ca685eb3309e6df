"""Reports of ``embed``, and of the commands that create, describe, verify or evaluate an index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vocabtool.choices import MEASURES
from vocabtool.errors import NotFound, OtherModel
from vocabtool.index.database import PLAIN
from vocabtool.reports.hits import value_counts
from vocabtool.reports.report import Cell, Column, Report, Section, Table, facts, notes_of
from vocabtool.search.settings import A_OF_PIECES, A_OF_WORDS, Settings
from vocabtool.system.messages import percent, plural
from vocabtool.system.own_files import to_json
from vocabtool.vocabulary import safe

if TYPE_CHECKING:
    from vocabtool.embedding.embed import EmbedReport
    from vocabtool.evaluation.calibrate import TunedWeight, WeightEstimate
    from vocabtool.evaluation.evaluate import Evaluation, HitRate, SelfCheck
    from vocabtool.index.index import Index
    from vocabtool.index.load import LoadReport
    from vocabtool.index.snapshot import IndexStats, VerifyReport

RATED: Final = 100  # documents; below, the time to start dominates the speed
NAMES: Final = 10  # width of the names of facts, in characters
NAMED: Final = 5  # FILEs of an index
REPEATED: Final = ("document with a repeated id", "documents with a repeated id")
REPLACED: Final = "invalid bytes stored as U+FFFD"


def index_report(index: Index, report: LoadReport, seconds: float, calibrating: float) -> Report:
    """Return the report of ``index``. ``seconds``: of all; ``calibrating``: of calibration."""
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
    head = f"{index.name}: {plural(len(index), 'document')}"
    table = facts(_index_facts(index, report, seconds, calibrating), NAMES)
    return Report(sections=lambda: [Section("", table, [head])], data=lambda: data)


def _index_facts(
    index: Index, report: LoadReport, seconds: float, calibrating: float
) -> Iterator[tuple[str, str]]:
    new = report.added + report.updated
    if report.read > report.resumed or report.removed:
        counts = [
            f"{getattr(report, name):,} {name}"
            for name in ("added", "updated", "unchanged", "removed")
            if getattr(report, name)
        ]
        done = f"{', '.join(counts or ['0 added'])} in {seconds:,.1f} s"
        if calibrating:
            done += f", {calibrating:,.1f} s of them calibrating"
        if new >= RATED:
            done += f"; {new / max(report.seconds, 1e-9):,.0f} a second"
        if report.encoded < new and index.can_encode:
            others = plural(new - report.encoded, "vector")
            done += f"; {plural(report.encoded, 'text')} encoded, {others} kept or given"
        yield "done now", done
    elif report.resumed:
        yield "done now", "nothing: the files did not change since they were indexed"
    else:
        yield "done now", "nothing: no documents"
    if report.read > report.resumed > 0:
        resumed = plural(report.resumed, "document")
        yield "resumed", f"{resumed} indexed before, by an interrupted load"
    if report.skipped:
        yield "skipped", plural(report.skipped, "invalid row")
    if report.left_out:
        values = f"{plural(report.left_out, 'value')} that did not fit their field"
        yield "skipped values", f"{values}; the documents were added"
    if report.dropped:
        yield "dropped", plural(report.dropped, *REPEATED)
    if report.zero:
        yield "zero", f"{plural(report.zero, 'vector')}: found by keywords only"
    if report.not_utf8:
        texts = f"{plural(report.not_utf8, 'document')}, {REPLACED}"
        yield "not UTF-8", f"{texts}: perhaps another encoding, or not text"
    yield from _search_facts(index)


def _search_facts(index: Index) -> Iterator[tuple[str, str]]:
    settings, codes = index.configuration, index.manifest.codes
    vectors = f"{settings.dim} numbers, {settings.dtype}, {settings.metric}"
    if codes is None:
        yield "vectors", f"{vectors}; exact search"
    else:
        how = "an index of pgvector"
        if codes.candidates:
            how = f"4-bit codes, {codes.candidates} candidates compared exactly"
        if codes.lists > 1:
            how += f", {codes.probes} of {codes.lists} lists"
        recall = f"recall@10 {codes.recall:.3f} on {codes.queries} queries at build time"
        target = f"(target {codes.recall_asked:g})"
        yield "vectors", f"{vectors}; {how}: {recall} {target}"
    stems = "not stemmed" if settings.language == "none" else settings.language
    yield "keywords", f"{stems}, {plural(index.manifest.words, 'running word')}"
    fields = index.manifest.searched_fields
    if fields:
        yield "fields", f"{safe(' and '.join(fields))} are searched together"
    yield "weight", f"a = {_weight_of(index)}"


def stats_report(index: Index, stats: IndexStats) -> Report:
    head = f"{index.name}: {plural(stats.documents, 'document')}"
    if stats.deleted:
        head += f", {plural(stats.deleted, 'deleted row')}"
    head += f"; commit {stats.commit:,} in generation {stats.generation}"
    if stats.loading:
        head += "; a load is unfinished"
    fields = ["fields"] if stats.fields else []
    for field in stats.fields:
        documents = plural(field.documents, "document")
        line = f"  {safe(field.name)}: {PLAIN[field.kind]}, in {documents}"
        if field.documents:
            line += f", {plural(field.distinct, 'different value')}"
        fields.append(line)
        if field.frequent:
            fields.append(f"      {value_counts(field.frequent)}")
    table = facts(_stats_facts(index, stats), NAMES)
    return Report(
        sections=lambda: [Section("", table, [head]), Section("", text=fields)],
        data=lambda: asdict(stats),
    )


def _stats_facts(index: Index, stats: IndexStats) -> Iterator[tuple[str, str]]:
    from rich.filesize import decimal

    kind = "none: your own vectors" if stats.kind is None else stats.kind
    yield "model", kind if stats.model is None else f"{stats.model} ({kind})"
    yield from _search_facts(index)
    weight = stats.calibration
    if weight is not None and weight.time:
        documents = plural(weight.documents, "document")
        yield "", f"found {weight.time}, when the index had {documents}"
    if stats.tokens is not None and stats.tokens_unknown is not None:
        words = plural(stats.tokens, "running word")
        share = percent(stats.tokens_unknown / max(stats.tokens, 1))
        yield "unknown", f"{stats.tokens_unknown:,} of {words} ({share})"
        if stats.unknown_words:
            yield "", value_counts(stats.unknown_words)
    again, idle = "with the same FILEs and options continues", "If no process is running"
    if stats.loading is not None:
        documents, next_step = "an update", "`vocabtool update DIR` encodes the rest"
        if stats.loading.documents:  # an unfinished update records none
            documents = plural(stats.loading.documents, "document")
            next_step = f"`vocabtool index FILE... -o DIR` {again}"
        yield "unfinished", f"{documents}, since {stats.loading.began}. {idle}: {next_step}"
    if stats.replacement is not None:
        documents = plural(stats.replacement.documents, "document")
        next_step = f"`vocabtool index FILE... -o DIR --force` {again}"
        yield "new index", f"{documents}, since {stats.replacement.began}. {idle}: {next_step}"
    sizes = ", ".join(f"{name} {decimal(size)}" for name, size in stats.files.items())
    yield "disk", f"{decimal(sum(stats.files.values()))}: {sizes}"
    sources = list(stats.sources[:NAMED])
    if len(stats.sources) > NAMED:
        sources.append("...")
    if sources:
        yield "sources", ", ".join(sources)


def _weight_of(index: Index) -> str:
    """Describe the weight of keyword search, and where it comes from."""
    calibration = index.calibration
    if calibration is not None and calibration.judged:
        return f"{calibration.a:.2f}, tuned on {calibration.judged:,} judged queries"
    if calibration is not None:
        return f"{calibration.a:.2f}, an estimate from {calibration.sample:,} documents"
    try:
        knowledge = index.snapshot().known_words
    except (NotFound, OtherModel):  # the model is not here
        return f"{A_OF_WORDS}, or {A_OF_PIECES} for models of pieces, not calibrated"
    weight = Settings().base_weight(knowledge is not None and knowledge.subword)
    return f"{weight}, not calibrated"


def embed_report(report: EmbedReport) -> Report:
    documents = plural(report.counts.documents, "document")
    head = f"{Path(report.folder)}: {documents} in {plural(report.shards, 'shard')}"
    table = facts(_embed_facts(report), NAMES)
    return Report(sections=lambda: [Section("", table, [head])], data=report.to_json)


def _embed_facts(report: EmbedReport) -> Iterator[tuple[str, str]]:
    counts = report.counts
    if report.encoded:
        documents = plural(report.encoded, "document")
        done = f"{documents} in {report.seconds:,.1f} s, {report.rate:,.0f} a second"
        yield "done now", done
    else:
        yield "done now", "nothing: all shards exist already"
    if report.resumed:
        yield "resumed", f"{plural(report.resumed, 'shard')} existed already"
    if report.redone:
        shards = plural(report.redone, "shard")
        yield "redone", f"{shards} of the interrupted run, written again"
    if report.skipped:
        yield "skipped", plural(report.skipped, "invalid row")
    if report.dropped:
        yield "dropped", plural(report.dropped, *REPEATED)
    if counts.empty:
        yield "empty", f"{plural(counts.empty, 'text')} with only whitespace"
    if counts.zero:
        yield "zero", f"{plural(counts.zero, 'vector')}: the model knows no word of the text"
    if counts.not_utf8:
        yield "not UTF-8", f"{plural(counts.not_utf8, 'document')}, {REPLACED}"
    if counts.tokens:
        share = percent(counts.tokens_unknown / counts.tokens)
        yield "unknown", f"{counts.tokens_unknown:,} of {plural(counts.tokens, 'word')} ({share})"


def verify_report(folder: str, check: VerifyReport) -> Report:
    """Return the report on an undamaged index, with the files that do not belong to it."""
    recall = f"recall@10 {check.recall:.3f}" if check.approximate else "all compared"
    documents = plural(check.documents, "document")
    lines = [f"{folder}: no damage: {documents} in both legs, vectors: {recall}"]
    if check.loading:
        lines.append("a load is unfinished; if it was interrupted, run the same command again")
    if check.encoded is not None:
        encoded = plural(check.encoded.documents, "document")
        lowest = f"lowest agreement with the stored vectors {check.encoded.lowest:.6f}"
        lines.append(f"{encoded} encoded again: {lowest}")
    lines += [f"not part of the index: {name}" for name in check.others]
    return Report(sections=lambda: [Section(text=lines)], data=lambda: asdict(check))


# Evaluation.

WEIGHT: Final = "The weight of keywords"
BAR: Final = 30  # length of the longest bar of a curve, in characters
SPLITS: Final = {
    "all": "all queries",
    "unknown": "queries with an unknown word",
    "known": "queries without unknown words",
}


def evaluation_report(evaluation: Evaluation) -> Report:
    """Return the means by fusion and group, each nDCG@10 compared with the default fusion's."""
    return Report(
        title="How well the index ranks",
        sections=lambda: _scores(evaluation),
        data=lambda: to_json(evaluation),
    )


def _scores(evaluation: Evaluation) -> Iterator[Section]:
    unknown = f"{evaluation.unknown:,} with an unknown word"
    yield Section(text=[f"{evaluation.queries:,} judged queries, {unknown}"])
    means = [Column(name, "score") for name in MEASURES]
    for split, title in SPLITS.items():
        scores = [score for score in evaluation.rows if score.split == split]
        rows: list[list[Cell]] = []
        for score in scores:
            gap = score.differences.get(MEASURES[0])
            shown = f"{gap.mean:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})" if gap else ""
            rows.append([score.fusion, *(score.measures[name] for name in MEASURES), shown])
        if scores:
            first = Column(f"{title} ({scores[0].queries:,})")
            yield Section("", Table((first, *means, Column("difference")), rows, MEASURES[0]))
    interval = "with a 95% interval (paired bootstrap)"
    gaps = f"difference: {MEASURES[0]} minus that of {Settings().fusion}, {interval}"
    yield Section(text=[gaps, *notes_of(evaluation.notes)])


def self_check_report(check: SelfCheck) -> Report:
    """Return the report on how often each fusion finds the document from which a query was made."""
    text = [
        f"queries made from {check.sample:,} documents: how often the document is found",
        "ordinary: the model knows all words of a query; unknown: it does not know one of them",
    ]
    return Report(
        title="How often the index finds its own documents",
        sections=lambda: [Section("", _rates(check.rates), text, notes_of(check.notes))],
        data=lambda: to_json(check),
    )


def _rates(rates: Iterable[HitRate]) -> Table:
    rows = [(rate.fusion, rate.kind, rate.queries, rate.first, rate.first_ten) for rate in rates]
    columns = [Column("fusion"), Column("query"), Column("queries", "count")]
    columns += [Column("first", "share"), Column("top ten", "share")]
    return Table(columns, rows, "first")


def calibration_report(estimate: WeightEstimate) -> Report:
    """Return the loss of each weight, and how well vectors alone and keywords alone search."""
    text = [
        f"a = {estimate.a:.3f}, estimated from the documents",
        "a is the minimum weight of keywords; unknown words of a query increase the weight",
        f"from {estimate.sample:,} documents, seed {estimate.seed}",
    ]
    loss = "mean log rank of the document that a query was made from (lower is better)"
    kinds = "title: the query is a title or first sentence; hard: some words of another sentence"
    return Report(
        title=WEIGHT,
        sections=lambda: [
            Section(text=text),
            Section("", _curve(loss, estimate.curve)),
            Section("", _rates(estimate.rates), [kinds], notes_of(estimate.notes)),
        ],
        data=lambda: to_json(estimate),
    )


def tuning_report(tuned: TunedWeight) -> Report:
    """Return the report on a tuned weight, with the quality of ranking on held-out queries."""
    fixed = f"{tuned.fixed:.3f} with the default weight"
    text = [
        f"a = {tuned.a:.2f}, the best for {tuned.queries:,} judged queries",
        f"nDCG@10 {tuned.held_out:.3f} on held-out queries; {fixed}",
    ]
    if tuned.held_out <= tuned.fixed:
        text.append("tuning does not help here: the default weight is as good on held-out queries")
    curve = _curve("nDCG@10", tuned.curve)
    return Report(
        title=WEIGHT,
        sections=lambda: [Section(text=text), Section("", curve, (), notes_of(tuned.notes))],
        data=lambda: to_json(tuned),
    )


def _curve(name: str, values: Mapping[float, float]) -> Table:
    """Return a table of weights ``a``; a bar of # shows how far a value is above the lowest."""
    low, high = min(values.values()), max(values.values())
    rows = [
        (f"{a:.2f}", f"{value:.3f} {'#' * round(BAR * (value - low) / (high - low or 1))}")
        for a, value in values.items()
    ]
    return Table((Column("a"), Column(name)), rows)
