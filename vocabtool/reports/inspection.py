"""What ``inspect`` shows of a model: as JSON, as a table for a terminal, as tab-separated text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from vocabtool.formats.model import Model, PassedOver
from vocabtool.reports.text_tables import drawn
from vocabtool.vocabulary import Vocabulary, printable

SHOWN: Final = 5  # entries from either end
SHORT_COLUMNS: Final = ("name", "kind", "size", "ids", "unknown", "entries")
COLUMNS: Final = (
    *SHORT_COLUMNS,
    *("specials", "duplicates", "not_utf8", "sha256", "where", "notes"),
)
NUMBERS: Final = ("size",)
PASSED_OVER_COLUMNS: Final = ("passed over", "size", "why", "where")


def to_json(model: Model, *, passed_over: bool) -> str:
    """The model as a JSON object; ``passed_over``: with what was not taken for a vocabulary."""
    document: dict[str, Any] = {
        "model": model.path,
        "format": model.format,
        "complete": model.complete,
        "warnings": list(model.warnings),
        "vocabularies": [_facts(vocabulary) for vocabulary in model.vocabularies],
    }
    if passed_over:
        document["passed_over"] = [
            {
                "name": item.name,
                "size": item.size,
                "why": item.why,
                "place": {"file": item.place.file, "place": item.place.place},
            }
            for item in model.passed_over
        ]
    return json.dumps(document, ensure_ascii=False, indent=2)


def _facts(vocabulary: Vocabulary) -> dict[str, Any]:
    unknown = vocabulary.unknown
    return {
        "name": vocabulary.name,
        "kind": vocabulary.kind,
        "linked": vocabulary.linked,
        "entry_type": vocabulary.entry_type,
        "marker": vocabulary.marker,
        "size": len(vocabulary),
        "sha256": vocabulary.sha256,
        "places": [{"file": place.file, "place": place.place} for place in vocabulary.places],
        "first_id": vocabulary.first_id,
        "last_id": vocabulary.last_id,
        "contiguous": vocabulary.ids is None,
        "unknown": None if unknown is None else {"id": unknown.id, "count": unknown.count},
        "specials": [
            {"id": special.id, "entry": special.entry, "role": special.role}
            for special in vocabulary.specials
        ],
        "duplicates": vocabulary.duplicates,
        "not_utf8": len(vocabulary.stored.not_utf8),
        "first": _first(vocabulary),
        "last": _last(vocabulary),
        "notes": list(vocabulary.notes),
    }


def _first(vocabulary: Vocabulary) -> list[str]:
    stored = vocabulary.stored
    return [printable(stored[i]) for i in range(min(SHOWN, len(stored)))]


def _last(vocabulary: Vocabulary) -> list[str]:
    stored = vocabulary.stored
    return [printable(stored[i]) for i in range(max(len(stored) - SHOWN, 0), len(stored))]


def to_text(model: Model, *, passed_over: bool, width: int | None = None) -> str:
    """Tables ``width`` columns wide for a person, or tab-separated columns for a program."""
    skipped = [_passed_over_row(item) for item in model.passed_over] if passed_over else []
    if width is None:
        found = _tabbed(COLUMNS, map(_row, model.vocabularies))
        return found + ("\n" + _tabbed(PASSED_OVER_COLUMNS, skipped) if skipped else "")
    parts = []
    if model.vocabularies:
        parts.append(drawn(SHORT_COLUMNS, map(_short_row, model.vocabularies), width, NUMBERS))
        parts += map(_details, model.vocabularies)
    if skipped:
        parts.append(drawn(PASSED_OVER_COLUMNS, skipped, width, NUMBERS))
    return "\n".join(parts)


def nothing_found(model: Model) -> str:
    """What to say of a model without a vocabulary."""
    count = len(model.passed_over)
    return f"{model.path}: no vocabulary found ({model.format}; {count} lists passed over)"


def _row(vocabulary: Vocabulary) -> tuple[str, ...]:
    name, kind, _, *rest = _short_row(vocabulary)
    return (
        *(name, kind, str(len(vocabulary)), *rest),
        _specials(vocabulary),
        str(vocabulary.duplicates),
        str(len(vocabulary.stored.not_utf8)),
        vocabulary.sha256,
        "; ".join(_places(vocabulary)),
        "; ".join(vocabulary.notes),
    )


def _short_row(vocabulary: Vocabulary) -> tuple[str, ...]:
    return (
        vocabulary.name,
        vocabulary.kind,
        f"{len(vocabulary):,}",
        vocabulary.id_range,
        _unknown(vocabulary),
        _ends(vocabulary),
    )


def _passed_over_row(item: PassedOver) -> tuple[str, ...]:
    return (item.name, f"{item.size:,}", item.why, f"{item.place.file}: {item.place.place}")


def _unknown(vocabulary: Vocabulary) -> str:
    unknown = vocabulary.unknown
    if unknown is None:
        return ""
    return f"{unknown.id}" + f"..{unknown.id + unknown.count - 1}" * (unknown.count > 1)


def _ends(vocabulary: Vocabulary) -> str:
    """The first entries and the last one, short; quoted where blanks would mislead."""
    stored = vocabulary.stored
    last = [len(stored) - 1] if len(stored) > 3 else []
    first = [_short(stored[i]) for i in range(min(3, len(stored)))]
    return " ".join([*first, *["…"] * len(last), *(_short(stored[i]) for i in last)])


def _short(entry: bytes) -> str:
    text = printable(entry)
    text = text if len(text) <= 16 else text[:15] + "…"
    return f"'{text}'" if not text or " " in text else text


def _specials(vocabulary: Vocabulary) -> str:
    return " ".join(f"{special.id}={special.entry!r}" for special in vocabulary.specials)


def _places(vocabulary: Vocabulary) -> list[str]:
    return [f"{place.file}: {place.place}" for place in vocabulary.places]


def _tabbed(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "".join("\t".join(row) + "\n" for row in (columns, *rows))


def _details(vocabulary: Vocabulary) -> str:
    """What is long, below the table."""
    places = _places(vocabulary)
    lines = [*places[:SHOWN], *["..."] * (len(places) > SHOWN), f"sha256 {vocabulary.sha256}"]
    if vocabulary.specials:
        lines.append(f"added by the layer: {_specials(vocabulary)}")
    if vocabulary.marker:
        lines.append(f"pieces are marked by {vocabulary.marker!r}")
    if vocabulary.duplicates:
        lines.append(f"{vocabulary.duplicates:,} entries repeat earlier ones")
    if len(vocabulary.stored.not_utf8):
        lines.append(f"{len(vocabulary.stored.not_utf8):,} entries are not UTF-8")
    lines += vocabulary.notes
    return "".join(f"{line}\n" for line in (vocabulary.name, *(f"  {line}" for line in lines)))
