"""A comparison as one page with plots, for a browser."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from vocabtool.comparison.diff import Diff, Part
from vocabtool.reports.comparison import figures
from vocabtool.reports.comparison.plain_words import (
    FOLDS,
    carried,
    correlation,
    described,
    knowing,
    orders,
    remarks,
    shifted,
)
from vocabtool.reports.oov.plain_words import percent
from vocabtool.reports.pages import data, facts, figure, page, short_name, small, table, text, word
from vocabtool.reports.pages import remarks as list_of
from vocabtool.vocabulary import decode, is_utf8

if TYPE_CHECKING:
    from vocabtool.comparison.use import SideName, Use


SHOWN: Final = 24  # entries of each kind, where a reader has not said how many
SHIFTS: Final = 20
CARRIERS: Final = 40
NUMBERS: Final = frozenset(
    (
        *("entries", "A", "B", "only in A", "only in B", "more of A", "more of B", "Jaccard"),
        *("rank in A", "rank in B", "doublings", "count"),
    )
)


def to_html(found: Diff, most: int | None = None) -> str:
    """The page, with ``most`` entries of each kind."""
    labels = (found.a.label, found.b.label)
    short = tuple(map(short_name, labels))
    a, b = labels if short[0] == short[1] else short
    sections = _sections(found, SHOWN if most is None else most)
    return page(f"{text(a)} and {text(b)}", (small(text(" and ".join(labels))), *sections))


def _sections(found: Diff, most: int) -> Iterator[str]:
    yield f'<div class="rates">{"".join(_overlap(found))}</div>'
    yield figure(figures.overlap(found))
    yield facts(list(described(found))[:3])
    if found.use is not None:
        yield from _use(found.use)
    if found.kinds:
        yield from _kinds(found)
    yield from _gains(found)
    if len(found.ranks):
        yield from _ranks(found)
    yield from _only(found, "only_a", most)
    yield from _only(found, "only_b", most)
    yield "<h2>What was compared, and how</h2>"
    yield facts(described(found))
    yield from list_of(remarks(found))


def _overlap(found: Diff) -> Iterator[str]:
    sides = (("common", found.common), ("only in A", found.only_a), ("only in B", found.only_b))
    for name, entries in sides:
        shown = data(entries, f"{entries:,}", name)
        yield f'<div>{name}<b>{shown}</b><span class="small">entries</span></div>'
    shown = data(found.jaccard, f"{found.jaccard:.4f}", "jaccard")
    yield f'<div>Jaccard index<b>{shown}</b><span class="small">0 to 1</span></div>'


def _use(use: Use) -> Iterator[str]:
    yield "<h2>What that means for the corpus</h2>"
    cards = (
        f"<div>known to {name}<b>{data(use.share(tokens), percent(use.share(tokens)), name)}</b>"
        f'<span class="small">{tokens:,} tokens</span></div>'
        for name, tokens in knowing(use)
    )
    yield f'<div class="rates">{"".join(cards)}</div>'
    yield figure(figures.use(use))
    steps = "; ".join(use.rule)
    yield small(text(f"Words are cut by one rule for both, {use.rule_name}: {steps}."))
    sides: tuple[SideName, ...] = ("a", "b")
    for side in sides:
        yield f"<p>{text(carried(use, side))}</p>"
        some = use.words(side).slice(0, CARRIERS).to_pylist()
        rows = ((word(one["word"]), f"{one['count']:,}") for one in some)
        if some:
            yield table((f"only {side.upper()} knows", "count"), rows, NUMBERS)


def _kinds(found: Diff) -> Iterator[str]:
    yield "<h2>Kinds of entries</h2>"
    yield figure(figures.kinds(found.kinds))
    rows = ((kind, *(data(n, f"{n:,}", kind) for n in counts)) for kind, *counts in found.kinds)
    yield table(("kind", "A", "B", "only in A", "only in B"), rows, NUMBERS)


def _gains(found: Diff) -> Iterator[str]:
    yield "<h2>What would become common</h2>"
    rows = (
        (
            FOLDS[gain.fold],
            f"{gain.entries_a:,}",
            f"{gain.entries_b:,}",
            f"{gain.jaccard:.4f}",
            ", ".join(f"{_spelt(a)} = {_spelt(b)}" for a, b in gain.examples),
        )
        for gain in found.gains
    )
    columns = ("if without", "more of A", "more of B", "Jaccard", "for example")
    yield table(columns, rows, NUMBERS)
    yield small("Of the entries as they are stored; nothing is folded unless it is asked for.")


def _spelt(entry: bytes) -> str:
    """A word, and its characters' numbers where it may look like its own normal form."""
    shown = decode(entry)
    if not is_utf8(entry) or unicodedata.is_normalized("NFKC", shown):
        return word(entry)
    points = text(shown.encode("ascii", "backslashreplace"))
    return f'{word(entry)} <span class="small">{points}</span>'


def _ranks(found: Diff) -> Iterator[str]:
    yield "<h2>Rank against rank</h2>"
    yield figure(figures.ranks(found.ranks))
    yield f"<p>{correlation(found)}.</p>"
    yield small(text("; ".join(orders(found)) + "."))
    rows = (
        (word(token), f"{rank_a:,}", f"{rank_b:,}", shifted(shift))
        for token, rank_a, rank_b, shift in found.shifts(SHIFTS)
    )
    yield table(("ranks apart most", "rank in A", "rank in B", "doublings"), rows, NUMBERS)


def _only(found: Diff, part: Part, most: int) -> Iterator[str]:
    if not getattr(found, part):
        return
    side = "A" if part == "only_a" else "B"
    yield f"<h2>Only in {side}: {text((found.a if side == 'A' else found.b).label)}</h2>"
    counts = [(getattr(count, part), count.kind) for count in found.kinds]
    rows = (
        (kind, f"{count:,}", ", ".join(map(word, found.sample(part, most, kind=kind))))
        for count, kind in sorted(counts, key=lambda pair: -pair[0])
        if count
    )
    yield table(("kind", "entries", "lowest ids first"), rows, NUMBERS)
