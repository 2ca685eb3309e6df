"""Reports on comparisons, which ``diff`` prints and :func:`save_diff` writes.

``docs/reference/formats.md`` lists the keys of JSON and the columns of complete lists. A complete
list has a row for each entry: first the entries in both vocabularies, then the entries only in A,
then the entries only in B.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

from vocabtool.choices import Only
from vocabtool.comparison.compare import Diff, Part, Side
from vocabtool.comparison.corpus import PIECES, Cuts, Use
from vocabtool.reports.report import (
    CHUNK,
    FILE_WIDTH,
    Column,
    Kind,
    Report,
    Section,
    Table,
    arrow_rows,
    as_text,
    counts,
    facts,
    format_of,
    save,
    short_names,
)
from vocabtool.reports.report import Format as DiffFormat
from vocabtool.system.messages import plural
from vocabtool.vocabulary import encode, is_utf8

PARTS: Final[tuple[Part, ...]] = get_args(Part)
PART_OF: Final[Mapping[Only, Part]] = {"a": "only_a", "b": "only_b", "both": "common"}
FOLDS: Final = {"case": "case", "nfkc": "Unicode forms (NFKC)"}
ROW: Final[dict[str, Kind]] = {
    "token": "entry",
    **dict.fromkeys(("in_a", "in_b"), "flag"),
    **dict.fromkeys(("id_a", "id_b"), "integer"),
    **dict.fromkeys(("kind_a", "kind_b"), "text"),
}
JSON_WORDS: Final = 1_000  # of a corpus that only one side knows or keeps whole
SHOWN_ENTRIES: Final = 8  # of each list, by default


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
    ``only``: write only one complete list: entries only in A (``a``), only in B, or in ``both``.

    Raises ``ValueError`` if ``only`` is given for ``json`` or ``html``, and :class:`NotFound` if
    the file's folder does not exist.
    """
    chosen = format or format_of(path)
    if only is not None and chosen in ("json", "html"):
        raise ValueError(f"`only` does not work with {chosen}, which contains the whole comparison")
    report = diff_report(comparison, most, only)
    save(report, path, chosen, FILE_WIDTH if only is None else None)


def diff_report(comparison: Diff, most: int | None = None, only: Only | None = None) -> Report:
    """Return the report on a comparison. For ``most`` and ``only``, see :func:`save_diff`."""
    parts = PARTS if only is None else (PART_OF[only],)
    columns = [Column(name, kind) for name, kind in ROW.items()]
    return Report(
        title="A: {}, B: {}".format(*short_names(comparison.a.label, comparison.b.label)),
        sections=partial(_sections, comparison, SHOWN_ENTRIES if most is None else most),
        data=partial(_data, comparison, most),
        lists=lambda: [Table(columns, _rows(comparison, parts, most))],
    )


def diff_html(comparison: Diff) -> str:
    return diff_report(comparison).summary()


def _rows(comparison: Diff, parts: Sequence[Part], most: int | None) -> Iterator[tuple[Any, ...]]:
    for part in parts:
        places = comparison.places(part, most)
        for start in range(0, len(places), CHUNK):
            yield from arrow_rows(comparison.table(places[start : start + CHUNK]))


def _entries(comparison: Diff, part: Part, most: int | None) -> Iterator[dict[str, Any]]:
    for token, _, _, *values in _rows(comparison, (part,), most):
        row = {"token": as_text(token)}
        for name, value in zip(("id_a", "id_b", "kind_a", "kind_b"), values, strict=True):
            if value is not None:
                row[name] = value
        if not is_utf8(token):
            row["base64"] = b64encode(token).decode()
        yield row


def _data(comparison: Diff, most: int | None) -> dict[str, Any]:
    return {
        "a": _side_data(comparison.a),
        "b": _side_data(comparison.b),
        "fold": list(comparison.fold),
        **{name: getattr(comparison, name) for name in (*PARTS, "jaccard")},
        "kinds": [kind._asdict() for kind in comparison.kinds],
        "use": None if comparison.use is None else _use_data(comparison.use),
        "cuts": None if comparison.cuts is None else _cuts_data(comparison.cuts),
        "notes": list(_notes(comparison)),
        "entries": {part: _entries(comparison, part, most) for part in PARTS},
    }


def _side_data(side: Side) -> dict[str, Any]:
    names = ("label", "name", "marker", "size", "distinct", "duplicates", "merged")
    return {name: getattr(side, name) for name in names} | {"kind": side.vocabulary.kind}


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
    for side, words in (("a", use.words_a), ("b", use.words_b)):
        rows = words.slice(0, JSON_WORDS).to_pylist()
        commonest = [{"word": as_text(row["word"]), "count": row["count"]} for row in rows]
        data[f"only_{side}"] = {"words": len(words), "commonest": commonest}
    return data


def _cuts_data(cuts: Cuts) -> dict[str, Any]:
    data: dict[str, Any] = {"sources": list(cuts.sources), "documents": cuts.documents}
    for side, cut in (("a", cuts.a), ("b", cuts.b)):
        rows = cut.kept.slice(0, JSON_WORDS).to_pylist()
        for row in rows:
            row["word"] = as_text(row["word"])
            row.update({name: list(map(as_text, row[name])) for name in PIECES})
        figures = ("tokens", "pieces", "blanks", "fertility", "split", "unknown")
        data[side] = {
            "rule": {"steps": list(cut.rule), "fingerprint": cut.fingerprint},
            **{name: getattr(cut, name) for name in figures},
            "kept": {"words": len(cut.kept), "tokens": cut.kept_tokens, "commonest": rows},
        }
    return data


def _sections(comparison: Diff, most: int) -> Iterator[Section]:
    yield Section("What was compared, and how", facts(_facts(comparison)))
    a, b = comparison.a.distinct, comparison.b.distinct
    common, only_a, only_b = comparison.common, comparison.only_a, comparison.only_b
    rows = (
        ("common", common, common / a if a else None, common / b if b else None),
        ("only in A", only_a, only_a / a if a else None, None),
        ("only in B", only_b, None, only_b / b if b else None),
    )
    columns: tuple[Column, ...]
    columns = (Column(), *counts("entries"), Column("of A", "percent"), Column("of B", "percent"))
    index = f"Jaccard index {comparison.jaccard:.4f}"
    yield Section("Common entries", Table(columns, rows, "entries"), (), [index])
    columns = (Column("kind"), *counts("A", "B", "only in A", "only in B"))
    yield Section("Kinds of entries", Table(columns, comparison.kinds))
    names = short_names(comparison.a.label, comparison.b.label)
    for part, letter, label in zip(PARTS[1:], "AB", names, strict=True):
        lists = []  # a row for each kind, the largest first, with its first entries
        kinds = [kind for kind in comparison.kinds if getattr(kind, part)]
        for kind in sorted(kinds, key=lambda kind: -getattr(kind, part)):
            entries = map(encode, comparison.sample(part, most, kind=kind.kind))
            lists.append((kind.kind, getattr(kind, part), _join_entries(entries, "  ")))
        columns = (Column(f"only in {letter}"), *counts("entries"), Column("lowest ids first"))
        yield Section(f"Only in {letter}: {label}", Table(columns, lists, "entries"))
    if comparison.use is not None:
        yield from _use_sections(comparison.use, most)
    if comparison.cuts is not None:
        yield from _cut_sections(comparison.cuts, most)
    yield Section("Notes", notes=_notes(comparison))


def _join_entries(entries: Iterable[bytes], blanks: str) -> tuple[str | bytes, ...]:
    """Return the content of a cell: entries with blanks between them."""
    cells = [cell for entry in entries for cell in (blanks, entry)]
    return tuple(cells[1:])


def _facts(comparison: Diff) -> Iterator[tuple[str, str]]:
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        name = "" if side.label == side.name else f"{side.name}, "
        marks = "" if side.marker is None else f", pieces marked with {side.marker!r}"
        yield letter, f"{side.label}: {name}{side.size:,} entries{marks}"
    ignored = [FOLDS[fold] for fold in comparison.fold]
    if comparison.by_text:
        ignored.append("piece markers")
    compared = f"without {', '.join(ignored)}" if ignored else "as they are stored"
    yield "entries compared", compared
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


def known_to(use: Use) -> tuple[tuple[str, int], ...]:
    return ("A", use.known_a), ("B", use.known_b), ("both", use.both), ("neither", use.neither)


def _use_sections(use: Use, most: int) -> Iterator[Section]:
    known = (*known_to(use), ("only A", use.only_a), ("only B", use.only_b))
    rows = [(name, tokens, use.share(tokens)) for name, tokens in known]
    columns = (Column("known to"), *counts("tokens"), Column("share", "percent"))
    note = "known to A: the word that the rule makes is an entry of A; the same for B"
    yield Section("What the corpus uses", Table(columns, rows, "tokens"), (), [note])
    for knows, misses, words in (("A", "B", use.words_a), ("B", "A", use.words_b)):
        if not len(words):
            text = f"{misses} knows all words of this corpus that {knows} knows"
            yield Section(f"Words of the corpus that only {knows} knows", text=[text])
            continue
        some = [(row["word"], row["count"]) for row in words.slice(0, most).to_pylist()]
        table = Table((Column(f"only {knows} knows"), *counts("count")), some, "count")
        notes = [f"These are {len(some):,} of {len(words):,} such words."]
        yield Section(f"Words of the corpus that only {knows} knows", table, (), notes)


def _cut_sections(cuts: Cuts, most: int) -> Iterator[Section]:
    sides = (("A", "B", cuts.a), ("B", "A", cuts.b))
    figures = [
        (name, cut.tokens, cut.pieces, cut.fertility, cut.split_rate, cut.unknown)
        for name, _, cut in sides
    ]
    columns: tuple[Column, ...] = (
        *(Column("own rule"), *counts("words", "pieces")),
        *(Column("pieces per word", "mean"), Column("in 2 or more pieces", "percent")),
        *counts("unknown"),
    )
    note = "unknown: words with a part for which the model has no piece"
    yield Section("What the corpus costs", Table(columns, figures), (), [note])
    for keeps, splits, cut in sides:
        title = f"Words that {splits} cuts and {keeps} keeps whole"
        if not len(cut.kept):
            yield Section(title, text=[f"{splits} cuts no word that {keeps} keeps whole"])
            continue
        rows = []
        for row in cut.kept.slice(0, most).to_pylist():
            pieces = [_join_entries(row[name], " ") for name in PIECES]
            rows.append((row["word"], row["count"], *pieces))
        columns = (Column(f"only {keeps} keeps whole"), *counts("count"))
        columns += (Column("pieces of A"), Column("pieces of B"))
        text = (
            f"{plural(len(cut.kept), 'word')} that {splits} cuts and {keeps} keeps whole: "
            f"{cut.kept_tokens:,} of the {cut.tokens:,} words of {keeps}"
        )
        yield Section(title, Table(columns, rows, "count"), [text])


def _notes(comparison: Diff) -> Iterator[str]:
    yield from comparison.notes
    for name, side in (("A", comparison.a), ("B", comparison.b)):
        if side.duplicates:
            yield f"repeated entries of {name}, which count once: {side.duplicates:,}"
        if side.merged:
            yield f"entries of {name} that folding made equal to an earlier one: {side.merged:,}"
    use = comparison.use
    if use is not None:
        if not use.tokens:
            yield "the corpus contains no words"
        if comparison.a.marker or comparison.b.marker:
            yield (
                "only pieces that can be whole words were looked up in the corpus, without their "
                "marker: a model may build other words from several pieces"
            )
        yield from use.notes
    if comparison.cuts is not None:
        yield from comparison.cuts.notes
