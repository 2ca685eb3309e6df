"""What ``inspect`` shows of a model: every vocabulary, and what was not taken for one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from vocabtool.formats.model import Model, PassedOver
from vocabtool.reports import terminal
from vocabtool.reports.model import Cell, Column, Paragraph, Report, Row, Rows, Section, Table
from vocabtool.vocabulary import Place, Vocabulary, printable

ENDS: Final = 5  # entries from either end, in JSON
MAX_PLACES: Final = 5
MAX_ENTRY_WIDTH: Final = 16  # characters
COLUMNS: Final = (
    *("name", "kind", "size", "ids", "unknown", "entries", "specials", "duplicates", "not_utf8"),
    *("sha256", "where", "notes"),
)
PASSED_OVER: Final = ("passed over", "size", "why", "where")


def to_json(model: Model, *, passed_over: bool) -> str:
    """The model as a JSON object; ``passed_over``: with what was not taken for a vocabulary."""
    return json.dumps(_data(model, passed_over), ensure_ascii=False, indent=2)


def to_text(model: Model, *, passed_over: bool, width: int | None = None) -> str:
    """Tables ``width`` columns wide for a person, or tab-separated columns for a program."""
    report = view(model, passed_over=passed_over)
    return terminal.render(report, width) if width else "".join(terminal.tabs(report))


def view(model: Model, *, passed_over: bool) -> Report:
    """The model as tables, data and lists."""
    rows = [(*_short_row(each), *_long_cells(each)) for each in model.vocabularies]
    skipped = [_passed_over_row(each) for each in model.passed_over] if passed_over else []
    lists = [Rows(COLUMNS, lambda: iter([rows]))]
    if skipped:
        shown = [(name, f"{size:,}", *others) for name, size, *others in skipped]
        lists.append(Rows(PASSED_OVER, lambda: iter([shown])))
    return Report(
        sections=partial(_sections, model, skipped),
        data=partial(_data, model, passed_over),
        rows=lists,
    )


def nothing_found(model: Model) -> str:
    """What to say of a model without a vocabulary."""
    count = len(model.passed_over)
    return f"{model.path}: no vocabulary found ({model.format}; {count} lists passed over)"


def _data(model: Model, passed_over: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "model": model.path,
        "format": model.format,
        "complete": model.complete,
        "warnings": list(model.warnings),
        "vocabularies": [_vocabulary_data(vocabulary) for vocabulary in model.vocabularies],
    }
    if passed_over:
        data["passed_over"] = [
            {"name": each.name, "size": each.size, "why": each.why, "place": _place(each.place)}
            for each in model.passed_over
        ]
    return data


def _vocabulary_data(vocabulary: Vocabulary) -> dict[str, Any]:
    stored, unknown = vocabulary.stored, vocabulary.unknown
    entries = range(len(stored))
    return {
        "name": vocabulary.name,
        "kind": vocabulary.kind,
        "linked": vocabulary.linked,
        "entry_type": vocabulary.entry_type,
        "marker": vocabulary.marker,
        "size": len(vocabulary),
        "sha256": vocabulary.sha256,
        "places": [_place(place) for place in vocabulary.places],
        "first_id": vocabulary.first_id,
        "last_id": vocabulary.last_id,
        "contiguous": vocabulary.ids is None,
        "unknown": None if unknown is None else {"id": unknown.id, "count": unknown.count},
        "specials": [
            {"id": special.id, "entry": special.entry, "role": special.role}
            for special in vocabulary.specials
        ],
        "duplicates": vocabulary.duplicates,
        "not_utf8": len(stored.not_utf8),
        "first": [printable(stored[i]) for i in entries[:ENDS]],
        "last": [printable(stored[i]) for i in entries[-ENDS:]],
        "notes": list(vocabulary.notes),
    }


def _place(place: Place) -> dict[str, str]:
    return {"file": place.file, "place": place.place}


def _sections(model: Model, skipped: Sequence[Row], page: bool) -> Iterator[Section]:
    if model.vocabularies:
        columns = [Column(name, "count" if name == "size" else "text") for name in COLUMNS[:6]]
        yield Section("", [Table(tuple(columns), map(_short_row, model.vocabularies))])
        for vocabulary in model.vocabularies:
            lines = "\n".join((vocabulary.name, *(f"  {each}" for each in _details(vocabulary))))
            yield Section("", [Paragraph(lines)])
    columns = [Column(name, "count" if name == "size" else "text") for name in PASSED_OVER]
    yield Section("", [Table(tuple(columns), skipped)])


def _short_row(vocabulary: Vocabulary) -> tuple[Cell, ...]:
    unknown = ""
    if vocabulary.unknown is not None:
        first, count = vocabulary.unknown.id, vocabulary.unknown.count
        unknown = f"{first}" + f"..{first + count - 1}" * (count > 1)
    kind, ids = vocabulary.kind, vocabulary.id_range
    return (vocabulary.name, kind, len(vocabulary), ids, unknown, _ends(vocabulary))


def _long_cells(vocabulary: Vocabulary) -> tuple[Cell, ...]:
    return (
        _specials(vocabulary),
        vocabulary.duplicates,
        len(vocabulary.stored.not_utf8),
        vocabulary.sha256,
        "; ".join(f"{place.file}: {place.place}" for place in vocabulary.places),
        "; ".join(vocabulary.notes),
    )


def _passed_over_row(item: PassedOver) -> tuple[str, int, str, str]:
    return (item.name, item.size, item.why, f"{item.place.file}: {item.place.place}")


def _ends(vocabulary: Vocabulary) -> str:
    """The first entries and the last one, short; quoted where blanks would mislead."""
    stored = vocabulary.stored
    shown = [_quote(stored[i]) for i in range(min(3, len(stored)))]
    if len(stored) > 3:
        shown += ["…", _quote(stored[len(stored) - 1])]
    return " ".join(shown)


def _quote(entry: bytes) -> str:
    text = terminal.short(entry, MAX_ENTRY_WIDTH)
    return f"'{text}'" if not text or " " in text else text


def _specials(vocabulary: Vocabulary) -> str:
    return " ".join(f"{special.id}={special.entry!r}" for special in vocabulary.specials)


def _details(vocabulary: Vocabulary) -> Iterator[str]:
    """What is too long for the table."""
    places = [f"{place.file}: {place.place}" for place in vocabulary.places]
    yield from places[:MAX_PLACES]
    if len(places) > MAX_PLACES:
        yield "..."
    yield f"sha256 {vocabulary.sha256}"
    if vocabulary.specials:
        yield f"added by the layer: {_specials(vocabulary)}"
    if vocabulary.marker:
        yield f"pieces are marked by {vocabulary.marker!r}"
    if vocabulary.duplicates:
        yield f"{vocabulary.duplicates:,} entries repeat earlier ones"
    if len(vocabulary.stored.not_utf8):
        yield f"{len(vocabulary.stored.not_utf8):,} entries are not UTF-8"
    yield from vocabulary.notes
