"""Reports of ``eval`` and ``calibrate``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from vocabtool.reports.model import (
    Block,
    Cell,
    Column,
    Paragraph,
    Plot,
    Report,
    Section,
    Table,
    notes_of,
)
from vocabtool.reports.plots import curve

if TYPE_CHECKING:
    from vocabtool.evaluation.calibrate import WeightEstimate
    from vocabtool.evaluation.compare import Evaluation, SelfCheck
    from vocabtool.evaluation.tune import TunedWeight

WEIGHT: Final = "The weight of keywords"
BAR: Final = 30  # length of the longest bar of a curve, in characters


SPLITS: Final = {
    "all": "All queries",
    "unknown": "Queries with an unknown word",
    "known": "Queries without unknown words",
}
RATES: Final = (Column("first", "share", 8), Column("top ten", "share", 8))


def evaluation_report(found: Evaluation) -> Report:
    """Return the report of ``eval``: the mean of each measure, by fusion and group of queries.

    It also compares the nDCG@10 of each fusion with that of the default fusion.
    """
    return Report(
        title="How well the index ranks",
        subtitle=f"{found.queries:,} judged queries, {found.unknown:,} with an unknown word",
        sections=lambda page: _scores(found, page=page),
        data=found.to_dict,
    )


def _scores(found: Evaluation, *, page: bool) -> Iterator[Section]:
    from vocabtool.evaluation.compare import MEASURES, REFERENCE

    if not page:
        unknown = f"{found.unknown:,} with an unknown word"
        yield Section("", [Paragraph(f"{found.queries:,} judged queries, {unknown}")])
    widths = (10, *[12] * (len(MEASURES) - 1))
    means = [Column(name, "score", width) for name, width in zip(MEASURES, widths, strict=True)]
    gaps = f"nDCG@10 minus that of {REFERENCE}, with a 95% interval (paired bootstrap)"
    for split, title in SPLITS.items():
        rows = [row for row in found.rows if row.split == split]
        cells: list[list[Cell]] = []
        for row in rows:
            gap = row.differences.get(MEASURES[0])
            told = f"{gap.mean:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})" if gap else ""
            measures = [row.measures[name] for name in MEASURES]
            cells.append([row.fusion, *measures, told if page or not told else f"   {told}"])
        if not rows:
            continue
        if page:
            columns = (Column("fusion"), *means, Column("difference"))
            shown = Table(columns, cells, bars=MEASURES[0], longest=1.0)
            yield Section(f"{title} ({rows[0].queries:,})", [shown])
        else:
            table = Table((Column(width=13), *means, Column()), cells, plain=True)
            yield Section("", [Paragraph(f"{split} ({rows[0].queries:,})"), table])
    told = f"difference: {gaps}" if page else f"last column: {gaps}"
    yield Section("", [Paragraph(told), notes_of(found.notes)])


def self_check_report(found: SelfCheck) -> Report:
    """Return the report on how often each fusion finds the document from which a query was made."""
    return Report(
        title="How often the index finds its own documents",
        sections=lambda page: [Section("", _hit_rates(found, page=page))],
        data=found.to_dict,
    )


def _hit_rates(found: SelfCheck, *, page: bool) -> Iterator[Block]:
    name = Column("fusion" if page else "", width=13)
    columns = (name, Column("words", width=10), Column("queries", "count", 8), *RATES)
    rows = [
        (each.fusion, each.kind, each.queries, each.first, each.first_ten) for each in found.rates
    ]
    yield Paragraph(
        f"queries made from {found.sample:,} documents: how often the document is found"
    )
    yield Paragraph(
        "words: ordinary = the model knows all of them; unknown = it does not know one of them"
    )
    bars = "first" if page else None
    yield Table(columns, rows, bars=bars, longest=1.0, plain=True)
    if found.recall is not None:
        share, queries = found.recall.mean, found.recall.queries
        yield Paragraph(f"recall@10 of the vector leg {share:.3f}, on {queries:,} queries")
    yield notes_of(found.notes)


def calibration_report(found: WeightEstimate) -> Report:
    """Return the report on an estimated weight, with the loss of each weight that was tried.

    The report also shows how often vector search alone and keyword search alone find the document
    that a query was made from.
    """
    columns = (Column("query", width=8), Column("leg", width=10), *RATES)
    rows = [(each.kind, each.leg, each.first, each.first_ten) for each in found.rates]
    loss = "mean log rank of the document that a query was made from (lower is better)"
    points = [(point.a, point.loss) for point in found.curve]
    about = [
        f"a = {found.a:.3f}, estimated from the documents",
        "a is the minimum weight of keywords; unknown words of a query increase the weight",
        f"from {found.sample:,} documents, seed {found.seed}",
    ]
    kinds = "title: the query is a title or first sentence; hard: some words of another sentence"
    return Report(
        title=WEIGHT,
        sections=lambda page: [
            Section("", map(Paragraph, about)),
            Section("", _curve("loss", loss, "mean log rank", points, page=page)),
            Section(
                "", [Paragraph(kinds), Table(columns, rows, plain=True), notes_of(found.notes)]
            ),
        ],
        data=found.to_dict,
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
    points = [(point.a, point.ndcg) for point in found.curve]
    return Report(
        title=WEIGHT,
        sections=lambda page: [
            Section("", map(Paragraph, lines)),
            Section(
                "",
                [*_curve("ndcg", "nDCG@10", "nDCG@10", points, page=page), notes_of(found.notes)],
            ),
        ],
        data=found.to_dict,
    )


def _curve(
    name: str, what: str, label: str, points: Sequence[tuple[float, float]], *, page: bool
) -> Iterator[Block]:
    """Yield a plot and a table of ``points``. In text, yield bars instead.

    ``points``: pairs of a weight ``a`` and its value. A bar shows how far a value is above the
    lowest value.
    """
    if page:
        yield Plot(partial(curve, name, points, label))
        rows = [(f"{a:.2f}", value) for a, value in points]
        yield Table((Column("a"), Column(what, "score")), rows)
        return
    values = [value for _, value in points]
    low, wide = min(values), (max(values) - min(values)) or 1.0
    bars = [
        (f"{a:.2f}", f"{value:.3f} {'#' * round(BAR * (value - low) / wide)}")
        for a, value in points
    ]
    yield Table((Column("a", width=6), Column(what)), bars, plain=True)
