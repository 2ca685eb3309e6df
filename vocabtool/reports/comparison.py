"""Reports on comparisons, which ``diff`` prints and :func:`save_diff` writes.

``docs/reference/formats.md`` lists the keys of JSON and the columns of complete lists. A complete
list has a row for each entry: first the entries in both vocabularies, then the entries only in A,
then the entries only in B.
"""

from __future__ import annotations

import unicodedata
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, Final, get_args

from vocabtool.choices import Fold, Only
from vocabtool.comparison.compare import COLUMNS, Pairs
from vocabtool.comparison.cuts import PIECES, Cuts
from vocabtool.comparison.diff import Diff, Order, Part
from vocabtool.comparison.entries import FoldOrAll
from vocabtool.comparison.use import CARRYING, SideName, Use
from vocabtool.reports import plots, renderers
from vocabtool.reports.model import (
    Block,
    Column,
    Exact,
    Facts,
    Figure,
    Figures,
    Notes,
    Paragraph,
    Plot,
    Report,
    Row,
    Rows,
    Section,
    Table,
    Type,
    as_text,
    percent,
    short_names,
)
from vocabtool.reports.renderers import Format as DiffFormat
from vocabtool.system.messages import plural
from vocabtool.tokenization.rule import tokenizer_file
from vocabtool.vocabulary import decode, is_utf8

CHUNK: Final = 1 << 14
KNOWN: Final = "known to A: the word that the rule makes is an entry of A; the same for B"
PARTS: Final[tuple[Part, ...]] = get_args(Part)
HELD_BY: Final[Mapping[Only, Part]] = {"a": "only_a", "b": "only_b", "both": "common"}
SIDES: Final[tuple[SideName, ...]] = ("a", "b")
FOLDS: Final[dict[FoldOrAll, str]] = {
    "case": "case",
    "nfkc": "Unicode forms (NFKC)",
    "markers": "piece markers",
    "all": "all of these",
}
ORDERS: Final[dict[Order, str]] = {
    "frequency": "seem to be in order of frequency: the first entries are shorter",
    "alphabet": "are in alphabetical order: ranks say nothing about frequency",
    "unclear": "are in no order that could be determined",
}
ROW: Final[dict[str, Type]] = {
    "token": "entry",
    **dict.fromkeys(("in_a", "in_b"), "flag"),
    **dict.fromkeys(("id_a", "id_b"), "integer"),
    **dict.fromkeys(("kind_a", "kind_b"), "text"),
    **dict.fromkeys(("rank_a", "rank_b"), "integer"),
    "shift": "number",
}
CUT_FIGURES: Final = ("tokens", "pieces", "blanks", "fertility", "split", "unknown")
JSON_SHIFTS: Final = 100
JSON_WORDS: Final = 1_000  # of a corpus that only one side knows or keeps whole
TERMINAL_ENTRIES: Final = 8  # of each list, by default
PAGE_ENTRIES: Final = 24
PAGE_SHIFTS: Final = 20
PAGE_WORDS: Final = 40
TERMINAL_EXAMPLES: Final = 2


def save_diff(
    comparison: Diff,
    path: str | Path,
    format: DiffFormat | None = None,  # noqa: A002 - as the option is called
    *,
    most: int | None = None,
    only: Only | None = None,
) -> None:
    """Write the report on a comparison to a file, atomically.

    ``format``: by default, the format of the file's ending, or ``text`` for other endings.
    ``most``: maximum number of entries in each list. By default, ``json``, ``csv`` and ``parquet``
    contain all entries, and ``text`` and ``html`` contain a few.
    ``only``: write only one complete list: the entries only in A (``a``), the entries only in B
    (``b``), or the entries in both (``both``).

    Raises ``ValueError`` if ``only`` is given for ``json`` or ``html``, and :class:`NotFound` if
    the file's folder does not exist.
    """
    chosen = format or renderers.format_of(path)
    if only is not None and chosen in ("json", "html"):
        raise ValueError(f"`only` does not work with {chosen}, which contains the whole comparison")
    report = diff_report(comparison, most, only)
    renderers.save(report, path, chosen, renderers.FILE_WIDTH if only is None else None)


def diff_report(comparison: Diff, most: int | None = None, only: Only | None = None) -> Report:
    """Return the report on a comparison. For ``most`` and ``only``, see :func:`save_diff`."""
    parts = PARTS if only is None else (HELD_BY[only],)
    return Report(
        title=" and ".join(short_names(comparison.a.label, comparison.b.label)),
        sections=partial(_sections, comparison, most),
        data=partial(_data, comparison),
        lists={part: partial(_entries, comparison, part, most) for part in PARTS},
        rows=[Rows(tuple(ROW), partial(_chunks, comparison, parts, most), tuple(ROW.values()))],
    )


def diff_html(comparison: Diff) -> str:
    a, b = short_names(comparison.a.label, comparison.b.label)
    return renderers.render_summary(replace(diff_report(comparison), title=f"A: {a}, B: {b}"))


# For programs.


def _chunks(comparison: Diff, parts: Sequence[Part], most: int | None) -> Iterator[Any]:
    for part in parts:
        places = comparison.places(part, most)
        for at in range(0, len(places), CHUNK):
            columns = comparison.to_arrow(places[at : at + CHUNK]).columns
            yield list(zip(*(column.to_pylist() for column in columns), strict=True))


def _entries(comparison: Diff, part: Part, most: int | None) -> Iterator[dict[str, Any]]:
    names = [name for name in ROW if name not in ("in_a", "in_b")]
    for chunk in _chunks(comparison, (part,), most):
        for token, _, _, *values in chunk:
            row = dict(zip(names, (as_text(token), *values), strict=True))
            if not is_utf8(token):
                row["base64"] = b64encode(token).decode()
            yield {name: value for name, value in row.items() if value is not None}


def _data(comparison: Diff) -> dict[str, Any]:
    gains = []
    for gain in comparison.gains:
        values = gain._asdict()
        examples = [{"a": as_text(a), "b": as_text(b)} for a, b in values.pop("examples")]
        gains.append({**values, "jaccard": gain.jaccard, "examples": examples})
    shifts = comparison.shifts(JSON_SHIFTS)
    return {
        "a": comparison.a._asdict(),
        "b": comparison.b._asdict(),
        "fold": list(comparison.fold),
        **{name: getattr(comparison, name) for name in (*PARTS, "jaccard")},
        "kinds": [kind._asdict() for kind in comparison.kinds],
        "gains": gains,
        "ranks": {
            "words": len(comparison.ranks),
            "rho": comparison.ranks.rho,
            "largest": [{**each._asdict(), "token": as_text(each.token)} for each in shifts],
        },
        "use": None if comparison.use is None else _use_data(comparison.use),
        "cuts": None if comparison.cuts is None else _cuts_data(comparison.cuts),
        "notes": list(_notes(comparison)),
    }


def _use_data(use: Use) -> dict[str, Any]:
    known = {
        **{"a": use.known_a, "b": use.known_b},
        **{name: getattr(use, name) for name in ("both", "only_a", "only_b", "neither")},
    }
    data: dict[str, Any] = {
        "rule": {"name": use.rule_name, "steps": list(use.rule), "fingerprint": use.fingerprint},
        "sources": list(use.sources),
        "documents": use.documents,
        "tokens": {"all": use.tokens, **known},
        "shares": {name: use.share(tokens) for name, tokens in known.items()},
        "words_both": use.words_both,
    }
    for side in SIDES:
        words = use.words(side)
        some = words.slice(0, JSON_WORDS).to_pylist()
        data[f"only_{side}"] = {
            "words": len(words),
            "carriers": use.carriers(side)._asdict(),
            "commonest": [{**each, "word": as_text(each["word"])} for each in some],
        }
    return data


def _cuts_data(cuts: Cuts) -> dict[str, Any]:
    data: dict[str, Any] = {"sources": list(cuts.sources), "documents": cuts.documents}
    for side, cut in zip(SIDES, (cuts.a, cuts.b), strict=True):
        rows = cut.kept.slice(0, JSON_WORDS).to_pylist()
        for row in rows:
            row["word"] = as_text(row["word"])
            row.update({name: list(map(as_text, row[name])) for name in PIECES})
        data[side] = {
            "rule": {"steps": list(cut.rule), "fingerprint": cut.fingerprint},
            **{name: getattr(cut, name) for name in CUT_FIGURES},
            "kept": {"words": len(cut.kept), "tokens": cut.kept_tokens, "commonest": rows},
        }
    return data


# For people.


def _sections(comparison: Diff, most: int | None, page: bool) -> Iterator[Section]:
    entries = (PAGE_ENTRIES if page else TERMINAL_ENTRIES) if most is None else most
    facts = list(_facts(comparison))
    use = comparison.use
    if page:
        yield Section("", [*_overlap(comparison, page), Facts(facts[: 3 + comparison.by_text])])
    else:
        yield Section("", [Facts(facts)])
        yield Section("", _overlap(comparison, page))
    if page and use is not None:
        rule = f"Both vocabularies use one rule for words, {use.rule_name}: {'; '.join(use.rule)}."
        blocks = [*_known_shares(use, page), Paragraph(rule, small=True)]
        blocks += (block for side in SIDES for block in _carriers(use, side, PAGE_WORDS))
        yield Section("What this means for the corpus", blocks)
    if page and comparison.cuts is not None:
        blocks = [*_cut_tables(comparison.cuts, PAGE_WORDS)]
        yield Section("What this means for the corpus", blocks)
    if comparison.kinds:
        columns = (Column("kind"), *_counts("A", "B", "only in A", "only in B"))
        plot = [Plot(lambda: plots.kinds(comparison.kinds))] * page
        yield Section("Kinds of entries", [*plot, Table(columns, comparison.kinds)])
    yield Section("What folding would make common", _gains(comparison, page))
    if len(comparison.ranks):
        rho, count = comparison.ranks.rho, len(comparison.ranks)
        sentence = "too few common entries to compare ranks"
        if rho is not None:
            sentence = f"Spearman's rho {rho:.3f} over the ranks of {count:,} common entries"
        columns = (Column("largest differences of rank"), *_counts("rank in A", "rank in B"))
        shifts = comparison.shifts(PAGE_SHIFTS if page else entries)
        noted = page and bool(shifts)
        blocks = [
            *[Plot(lambda: plots.ranks(comparison.ranks))] * page,
            Paragraph(sentence + "." * page),
            *[Paragraph("; ".join(_orders(comparison)) + ".", small=True)] * page,
            Table((*columns, Column("doublings", "doublings")), shifts),
            *[Paragraph("doublings: log2 of rank in B / rank in A", small=True)] * noted,
        ]
        yield Section("Rank against rank", blocks)
    names = short_names(comparison.a.label, comparison.b.label)
    for part, name, label in zip(PARTS[1:], "AB", names, strict=True):
        rows = []  # a row for each kind, the largest first, with its highest-ranked entries
        for kind in sorted(comparison.kinds, key=lambda kind: -getattr(kind, part)):
            if count := getattr(kind, part):
                sample = comparison.sample(part, entries, kind=kind.kind)
                shown = [part for entry in sample for part in ("  ", entry)][1:]
                rows.append((kind.kind, count, tuple(shown)))
        first = Column("kind" if page else f"only in {name}")
        columns = (first, *_counts("entries"), Column("lowest ids first"))
        yield Section(f"Only in {name}: {label}", [Table(columns, rows)])
    if use is not None and not page:
        yield Section("", _known_shares(use, page))
        yield from (Section("", _carriers(use, side, entries)) for side in SIDES)
    if comparison.cuts is not None and not page:
        yield from (Section("", [block]) for block in _cut_tables(comparison.cuts, entries))
    notes = Notes(_notes(comparison, page))
    rest = facts[3 + comparison.by_text :] if page else []
    yield Section("What was compared, and how", [*[Facts(rest)] * bool(rest), notes])


def _facts(comparison: Diff) -> Iterator[tuple[str, str]]:
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        name = "" if side.label == side.name else f"{side.name}, "
        marks = "" if side.marker is None else f", pieces marked with {side.marker!r}"
        yield letter, f"{side.label}: {name}{side.size:,} entries{marks}"
    yield "entries compared", _describe_folds(comparison.fold)
    if comparison.by_text:
        yield "", "▁ marks entries that can be a whole word; others are parts of words"
    use, cuts = comparison.use, comparison.cuts
    counted = use or cuts
    for number, source in enumerate(counted.sources if counted else ()):
        yield "corpus" if number == 0 else "", source
    if use is not None:
        yield "rule for both", use.rule_name
        yield from (("", step) for step in use.rule)
        yield "rule's fingerprint", use.fingerprint
    if cuts is not None:
        for letter, cut in (("A", cuts.a), ("B", cuts.b)):
            for number, step in enumerate(cut.rule):
                yield "" if number else f"rule of {letter}", step
            yield "its fingerprint", cut.fingerprint


def _describe_folds(folds: tuple[Fold, ...]) -> str:
    folded = ", ".join(FOLDS[fold] for fold in folds)
    return f"without {folded}" if folded else "as they are stored"


def _overlap(comparison: Diff, page: bool) -> Iterator[Block]:
    common, only_a, only_b = comparison.common, comparison.only_a, comparison.only_b
    if page:
        sizes = (("common", common), ("only in A", only_a), ("only in B", only_b))
        figures = [Figure(name, Exact(name, n, f"{n:,}"), ("entries",)) for name, n in sizes]
        index = Exact("jaccard", comparison.jaccard, f"{comparison.jaccard:.4f}")
        yield Figures([*figures, Figure("Jaccard index", index, ("0 to 1",))])
        parts = (("only A", only_a), ("both", common), ("only B", only_b))
        yield Plot(lambda: plots.one_bar("overlap", parts))
        return
    a, b = comparison.a.distinct, comparison.b.distinct
    rows = (
        ("common", common, common / a if a else None, common / b if b else None),
        ("only in A", only_a, only_a / a if a else None, None),
        ("only in B", only_b, None, only_b / b if b else None),
    )
    shares = (Column("of A", "percent"), Column("of B", "percent"))
    yield Table((Column(), *_counts("entries"), *shares), rows)
    yield Paragraph(f"Jaccard index {comparison.jaccard:.4f}")


def _counts(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, "count") for name in names)


def _gains(comparison: Diff, page: bool) -> Iterator[Block]:
    columns = (
        Column("ignoring"),
        *_counts("A also in B", "B also in A"),
        Column("Jaccard", "ratio"),
        Column("for example"),
    )

    def code_points(entry: bytes, other: bytes) -> str:
        """Return the code points of ``entry`` that are not in ``other``.

        ``other``: an entry that looks the same.
        """
        text = decode(entry)
        if not page or not is_utf8(entry) or unicodedata.is_normalized("NFKC", text):
            return ""
        differing = [char for char in text if not char.isascii() and char not in decode(other)]
        return " ".join(f"U+{ord(char):04X}" for char in differing)

    rows = []
    for gain in comparison.gains:
        parts: list[str | bytes] = []
        for a, b in gain.examples[: None if page else TERMINAL_EXAMPLES]:
            if parts:
                parts.append(", " if page else " ")
            of_a, of_b = code_points(a, b), code_points(b, a)
            parts += [a, f" ({of_a}) = " if of_a else " = ", b, f" ({of_b})" if of_b else ""]
        rows.append((FOLDS[gain.fold], gain.entries_a, gain.entries_b, gain.jaccard, tuple(parts)))
    yield Table(columns, rows)
    if page:
        base = "without piece markers" if comparison.by_text else "as stored"
        remark = f"For the entries {base}; folding is applied only with --fold."
        yield Paragraph(remark, small=True)


def known_to(use: Use) -> tuple[tuple[str, int], ...]:
    return ("A", use.known_a), ("B", use.known_b), ("both", use.both), ("neither", use.neither)


def _known_shares(use: Use, page: bool) -> list[Block]:
    parts = (
        *(("only A", use.only_a), ("both", use.both)),
        *(("only B", use.only_b), ("neither", use.neither)),
    )
    if not page:
        columns = (Column("known to"), *_counts("tokens"), Column("share", "percent"))
        rows = [(name, n, use.share(n)) for name, n in (*known_to(use)[:2], *parts)]
        return [Table(columns, rows), Paragraph(KNOWN)]
    figures = []
    for name, tokens in known_to(use):
        share = use.share(tokens)
        figure = Exact(name, share, percent(share))
        figures.append(Figure(f"known to {name}", figure, (f"{tokens:,} tokens",)))
    return [Figures(figures), Paragraph(KNOWN + "."), Plot(lambda: plots.one_bar("use", parts))]


def _cut_tables(cuts: Cuts, most: int) -> Iterator[Block]:
    columns = (
        *(Column("own rule"), *_counts("words", "pieces")),
        *(Column("pieces per word", "mean"), Column("in 2 or more pieces", "percent")),
        *_counts("unknown"),
    )
    sides = (("A", "B", cuts.a), ("B", "A", cuts.b))
    figures = [
        (name, cut.tokens, cut.pieces, cut.fertility, cut.split_rate, cut.unknown)
        for name, _, cut in sides
    ]
    yield Table(columns, figures)
    yield Paragraph("unknown: words with a part for which the model has no piece", small=True)
    for keeps, splits, cut in sides:
        if not len(cut.kept):
            yield Paragraph(f"{splits} cuts no word that {keeps} keeps whole")
            continue
        yield Paragraph(
            f"{plural(len(cut.kept), 'word', 'words')} that {splits} cuts and {keeps} keeps whole: "
            f"{cut.kept_tokens:,} of the {cut.tokens:,} words of {keeps}"
        )
        rows: list[Row] = []
        for row in cut.kept.slice(0, most).to_pylist():
            spaced = (
                tuple(part for piece in row[name] for part in (" ", piece))[1:] for name in PIECES
            )
            rows.append((row["word"], row["count"], *spaced))
        columns = (Column(f"only {keeps} keeps whole"), *_counts("count"))
        yield Table((*columns, Column("pieces of A"), Column("pieces of B")), rows)


def _carriers(use: Use, side: SideName, most: int) -> list[Block]:
    knows, misses = ("A", "B") if side == "a" else ("B", "A")
    carriers = use.carriers(side)
    if not carriers.words:
        return [Paragraph(f"{misses} knows all words of this corpus that {knows} knows")]
    least = f"{CARRYING:.0%}" if carriers.share < 1 else "all"
    count = carriers.words
    words = "one word makes" if count == 1 else f"the {count:,} commonest words make"
    every = use.only_a if side == "a" else use.only_b
    sentence = (
        f"{words} up {least} of the tokens that only {knows} knows "
        f"({every:,} of {use.tokens:,} tokens)"
    )
    some = use.words(side).slice(0, most).to_pylist()
    columns = (Column(f"only {knows} knows"), *_counts("count"))
    return [Paragraph(sentence), Table(columns, [(each["word"], each["count"]) for each in some])]


def _orders(comparison: Diff) -> Iterator[str]:
    for name, side in (("A", comparison.a), ("B", comparison.b)):
        yield f"the ids of {name} {ORDERS[side.order]}"


def _notes(comparison: Diff, page: bool = False) -> Iterator[str]:
    yield from comparison.notes
    for name, side in (("A", comparison.a), ("B", comparison.b)):
        if side.duplicates:
            yield f"repeated entries of {name}, which count once: {side.duplicates:,}"
        if side.merged:
            yield f"entries of {name} that folding made equal to an earlier one: {side.merged:,}"
    if not (page and len(comparison.ranks)):
        yield from _orders(comparison)
    use = comparison.use
    if use is not None:
        if not use.tokens:
            yield "the corpus contains no words"
        marked = comparison.a.marker or comparison.b.marker
        if marked and tokenizer_file(use.rule_name) is None:
            yield (
                "only pieces that can be whole words were looked up in the corpus, without their "
                "marker: a model may build other words from several pieces"
            )
        yield from use.notes
    if comparison.cuts is not None:
        yield from comparison.cuts.notes


# More than two vocabularies: a table of their pairs. JSON: ``labels``, ``fold``, ``pairs``, each
# with the fields of ``Pair``, and ``notes``; complete lists: a row for each pair.


def pairs_report(pairs: Pairs) -> Report:
    """Return the report that compares several vocabularies, two at a time."""

    def sections(page: bool) -> Iterator[Section]:
        columns = (
            *(Column("A"), Column("B")),
            *_counts("in A", "in B", "common", "only in A", "only in B"),
            *(Column("Jaccard", "ratio"), Column("rho", "ratio")),
        )
        names = [(each.a, each.b) for each in pairs.pairs]
        if page:
            numbers = [str(number) for number in range(1, len(pairs.labels) + 1)]
            names = [*combinations(numbers, 2)]
            labels = zip(numbers, pairs.labels, strict=True)
            folds = ("entries compared", _describe_folds(pairs.fold))
            yield Section("", [Facts([*labels, folds])])
        rows = [
            (a, b, *each[2:8], "" if each.rho is None else f"{each.rho:.3f}")
            for (a, b), each in zip(names, pairs.pairs, strict=True)
        ]
        yield Section("", [Table(columns, rows), *([Notes(pairs.notes)] * page)])

    types: tuple[Type, ...] = ("text",) * 2 + ("integer",) * 5 + ("number",) * 2
    return Report(
        title="Vocabularies compared",
        sections=sections,
        data=lambda: {**pairs._asdict(), "pairs": [pair._asdict() for pair in pairs.pairs]},
        rows=[Rows(COLUMNS, lambda: iter([pairs.pairs]), types)],
    )
