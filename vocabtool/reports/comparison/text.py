"""A comparison as text: tables for a terminal, or a tab-separated row an entry for a program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from vocabtool.comparison.diff import Diff, Part
from vocabtool.reports.comparison.plain_words import (
    FOLDS,
    carried,
    correlation,
    described,
    knowing,
    remarks,
    shares,
    shifted,
)
from vocabtool.reports.comparison.rows import Only, Row, parts, rows
from vocabtool.reports.oov.plain_words import percent
from vocabtool.reports.text_tables import drawn, listed, short
from vocabtool.vocabulary import encode, printable

if TYPE_CHECKING:
    from vocabtool.comparison.use import SideName, Use


SHOWN: Final = 8  # entries of each list, where a reader has not said how many
COLUMNS: Final = ("token", "id_a", "id_b", "kind_a", "kind_b", "rank_a", "rank_b", "shift")
NUMBERS: Final = frozenset(
    (
        *("entries", "of A", "of B", "A", "B", "only in A", "only in B", "more of A", "more of B"),
        *("Jaccard", "rank in A", "rank in B", "doublings", "tokens", "share", "count"),
    )
)


def to_text(found: Diff, width: int, most: int | None = None) -> str:
    """Tables in ``width`` columns of text, with ``most`` entries of each list."""
    most = SHOWN if most is None else most
    sections = [
        "".join(listed(described(found))),
        _overlap(found, width),
        _kinds(found, width),
        _gains(found, width),
        _ranks(found, width, most),
        _only(found, "only_a", width, most),
        _only(found, "only_b", width, most),
        "" if found.use is None else _use(found.use, width, most),
        "".join(f"{printable(encode(remark))}\n" for remark in remarks(found)),
    ]
    return "\n".join(section for section in sections if section)


def to_rows(found: Diff, most: int | None = None, only: Only | None = None) -> Iterator[str]:
    """A line of column names, then one for each entry: those that both hold, A's, B's.

    ``most``: of each of the three; ``only``: one of them. Tokens are escaped where they are not
    printable.
    """
    yield "\t".join(COLUMNS) + "\n"
    for part in parts(only):
        yield from map(_tabbed, rows(found, part, most))


def _tabbed(row: Row) -> str:
    cells = ("" if cell is None else str(cell) for cell in row[3:])
    return "\t".join((printable(row.token), *cells)) + "\n"


def _overlap(found: Diff, width: int) -> str:
    a, b = found.a.distinct, found.b.distinct
    lines = [
        ("common", f"{found.common:,}", _share(found.common, a), _share(found.common, b)),
        ("only in A", f"{found.only_a:,}", _share(found.only_a, a), ""),
        ("only in B", f"{found.only_b:,}", "", _share(found.only_b, b)),
    ]
    table = drawn(("", "entries", "of A", "of B"), lines, width, NUMBERS)
    return f"{table}Jaccard index {found.jaccard:.4f}\n"


def _share(part: int, whole: int) -> str:
    return percent(part / whole) if whole else ""


def _kinds(found: Diff, width: int) -> str:
    if not found.kinds:
        return ""
    lines = ((kind, *(f"{count:,}" for count in counts)) for kind, *counts in found.kinds)
    return drawn(("kind", "A", "B", "only in A", "only in B"), lines, width, NUMBERS)


def _gains(found: Diff, width: int) -> str:
    lines = (
        (
            FOLDS[gain.fold],
            f"{gain.entries_a:,}",
            f"{gain.entries_b:,}",
            f"{gain.jaccard:.4f}",
            " ".join(f"{short(a)} = {short(b)}" for a, b in gain.examples[:2]),
        )
        for gain in found.gains
    )
    columns = ("common if without", "more of A", "more of B", "Jaccard", "for example")
    return drawn(columns, lines, width, NUMBERS)


def _ranks(found: Diff, width: int, most: int) -> str:
    if not len(found.ranks):
        return ""
    lines = (
        (short(token), f"{rank_a:,}", f"{rank_b:,}", shifted(shift))
        for token, rank_a, rank_b, shift in found.shifts(most)
    )
    columns = ("ranks apart most", "rank in A", "rank in B", "doublings")
    return f"{correlation(found)}\n" + drawn(columns, lines, width, NUMBERS)


def _only(found: Diff, part: Part, width: int, most: int) -> str:
    """A row for each kind, the largest first, with the entries that rank highest."""
    name = "only in A" if part == "only_a" else "only in B"
    counts = [(getattr(count, part), count.kind) for count in found.kinds]
    lines = (
        (kind, f"{count:,}", "  ".join(map(short, found.sample(part, most, kind=kind))))
        for count, kind in sorted(counts, key=lambda pair: -pair[0])
        if count
    )
    table = drawn((name, "entries", "lowest ids first"), lines, width, NUMBERS - {name})
    return table if getattr(found, part) else ""


def _use(use: Use, width: int, most: int) -> str:
    known = (*knowing(use)[:2], *shares(use))
    lines = ((name, f"{tokens:,}", percent(use.share(tokens))) for name, tokens in known)
    table = drawn(("known to", "tokens", "share"), lines, width, NUMBERS)
    return table + "".join(_carriers(use, side, width, most) for side in ("a", "b"))


def _carriers(use: Use, side: SideName, width: int, most: int) -> str:
    table = use.words(side).slice(0, most)
    words, counts = (table[name].to_pylist() for name in ("word", "count"))
    lines = [(short(word), f"{count:,}") for word, count in zip(words, counts, strict=True)]
    title = f"only {side.upper()} knows"
    sentence = f"{carried(use, side)}\n"
    return f"\n{sentence}" + (drawn((title, "count"), lines, width, NUMBERS) if lines else "")
