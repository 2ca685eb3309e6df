"""Reports of ``eval`` and ``calibrate``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from vocabtool.reports.report import Cell, Column, Report, Section, Table, notes_of

if TYPE_CHECKING:
    from vocabtool.evaluation.calibrate import TunedWeight, WeightEstimate
    from vocabtool.evaluation.compare import Evaluation, SelfCheck

WEIGHT: Final = "The weight of keywords"
BAR: Final = 30  # length of the longest bar of a curve, in characters
SPLITS: Final = {
    "all": "all queries",
    "unknown": "queries with an unknown word",
    "known": "queries without unknown words",
}
RATES: Final = (Column("first", "share"), Column("top ten", "share"))


def evaluation_report(found: Evaluation) -> Report:
    """Return the report of ``eval``: the mean of each measure, by fusion and group of queries.

    It also compares the nDCG@10 of each fusion with that of the default fusion.
    """
    return Report(
        title="How well the index ranks",
        sections=lambda: _scores(found),
        data=found.to_dict,
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
    columns = (Column("fusion"), Column("words"), Column("queries", "count"), *RATES)
    rows = [
        (each.fusion, each.kind, each.queries, each.first, each.first_ten) for each in found.rates
    ]
    text = [
        f"queries made from {found.sample:,} documents: how often the document is found",
        "words: ordinary = the model knows all of them; unknown = it does not know one of them",
    ]
    notes = notes_of(found.notes)
    if found.recall is not None:
        share, queries = found.recall.mean, found.recall.queries
        notes.insert(0, f"recall@10 of the vector leg {share:.3f}, on {queries:,} queries")
    return Report(
        title="How often the index finds its own documents",
        sections=lambda: [Section("", Table(columns, rows, "first"), text, notes)],
        data=found.to_dict,
    )


def calibration_report(found: WeightEstimate) -> Report:
    """Return the report on an estimated weight, with the loss of each weight that was tried.

    The report also shows how often vector search alone and keyword search alone find the document
    that a query was made from.
    """
    columns = (Column("query"), Column("leg"), *RATES)
    rows = [(each.kind, each.leg, each.first, each.first_ten) for each in found.rates]
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
            Section("", Table(columns, rows), [kinds], notes_of(found.notes)),
        ],
        data=found.to_dict,
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
        data=found.to_dict,
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
