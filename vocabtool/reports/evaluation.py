"""Reports of ``eval`` and ``calibrate``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from vocabtool.reports.model import Block, Column, Paragraph, Report, Table, noted, report_of

if TYPE_CHECKING:
    from vocabtool.evaluation.calibrate import WeightEstimate
    from vocabtool.evaluation.compare import Evaluation, SelfCheck
    from vocabtool.evaluation.tune import TunedWeight

BAR: Final = 30  # length of the longest bar of a curve, in characters


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
    return report_of(found.to_dict, *sections, [Paragraph(told), noted(found.notes)])


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
    return report_of(found.to_dict, [*blocks, noted(found.notes)])


def calibration_report(found: WeightEstimate) -> Report:
    """Return the report on an estimated weight, with the loss of each weight that was tried.

    Also shows how often each leg finds the document that a query was made from.
    """
    columns = (Column("query", width=8), Column("leg", width=10), *FOUND_RATES)
    rows = [(each.kind, each.leg, each.first, each.first_ten) for each in found.rates]
    loss = "mean log rank of the document that a query was made from (lower is better)"
    return report_of(
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
            noted(found.notes),
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
    return report_of(found.to_dict, list(map(Paragraph, lines)), [curve, noted(found.notes)])


def _curve(what: str, points: Sequence[tuple[float, float]]) -> Table:
    """Return a table of pairs (a, value), with bars for how far values are above the lowest."""
    values = [value for _, value in points]
    low, wide = min(values), (max(values) - min(values)) or 1.0
    rows = [
        (f"{a:.2f}", f"{value:.3f} {'#' * round(BAR * (value - low) / wide)}")
        for a, value in points
    ]
    return Table((Column("a", width=6), Column(what)), rows, plain=True)
