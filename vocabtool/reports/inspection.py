"""What ``inspect`` shows of a model: every vocabulary, and what was not taken for one.

What becomes of a text, for people and for programs: the steps, then each word with its id.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vocabtool.formats.reader import Model, PassedOver
from vocabtool.reports.model import (
    Cell,
    Column,
    Paragraph,
    Report,
    Row,
    Rows,
    Section,
    Table,
    align,
    as_text,
    render_text,
    short,
    tabs,
)
from vocabtool.vocabulary import Place, Vocabulary, encode, is_utf8, printable

if TYPE_CHECKING:
    from vocabtool.tokenization.words import Words

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
    return render_text(report, width) if width else "".join(tabs(report))


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
    text = short(entry, MAX_ENTRY_WIDTH)
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


SOURCES: Final = {
    "recovered": "the model's own rule, read off its files",
    "named": "a rule that you named",
    "exact": "the model itself, which is run",
}
UNKNOWN: Final = "unknown"


class _Word(NamedTuple):
    """A word of a text. ``split``: in how many pieces, ``None`` for whole words.

    ``pieces``: each, and whether it is known; none where nothing tells them.
    """

    word: bytes
    id: int | None
    known: bool
    split: int | None
    pieces: list[tuple[bytes, bool]]


def words_to_text(words: Words, texts: Sequence[str], *, tabs: bool) -> str:
    """The steps as numbered lines, then the words of each text in columns."""
    lines = list(_head(words))
    for text, row in zip(texts, _rows(words, texts), strict=True):
        lines += ["", _quote_word(encode(text))]
        table = [_columns(word) for word in row] or [["(no words)"]]
        lines += map("\t".join, table) if tabs else (f"  {line}" for line in align(table))
    return "\n".join(lines) + "\n"


def words_to_json(words: Words, texts: Sequence[str]) -> str:
    """The same as JSON: ``vocabulary``, ``how``, ``rule``, ``fingerprint``, ``texts``.

    ``unknown_pieces``: which of a word's ``pieces`` the model does not know, from 0 on.
    """
    rows = _rows(words, texts)
    shown = {
        **_facts(words),
        "others": [_facts(other) for other in words.others],
        "texts": [
            {"text": text, "words": [_word(word) for word in row]}
            for text, row in zip(texts, rows, strict=True)
        ],
    }
    return json.dumps(shown, ensure_ascii=False, indent=2)


def rule_line(words: Words) -> str:
    """The rule in one line, for what goes with a report."""
    name = printable(words.vocabulary.name.encode())
    return f"{name}, rule {words.fingerprint[:16]}: {'; '.join(words.describe())}"


def _head(words: Words) -> Iterator[str]:
    yield _title(words)
    yield f"How a text becomes words ({SOURCES[words.how]}):"
    for number, step in enumerate(words.describe(), 1):
        yield f"  {number}. {step}"
    yield f"rule {words.fingerprint[:16]}"
    for other in words.others:
        yield ""
        yield f"Looked up apart from these: {_title(other)}"
        yield from (f"  {step}" for step in other.describe())
    yield from words.notes


def _title(words: Words) -> str:
    vocabulary = words.vocabulary
    unknown = vocabulary.unknown
    end = ""
    if unknown is not None:
        many = unknown.count > 1
        ids = f"{unknown.id}..{unknown.id + unknown.count - 1}" if many else f"{unknown.id}"
        end = f"; unknown words get id {ids}"
    return f"{printable(vocabulary.name.encode())}: {len(vocabulary):,} entries{end}"


def _facts(words: Words) -> dict[str, Any]:
    return {
        "vocabulary": words.vocabulary.name,
        "size": len(words.vocabulary),
        "how": words.how,
        "rule": list(words.describe()),
        "fingerprint": words.fingerprint,
        "notes": list(words.notes),
    }


def _rows(words: Words, texts: Sequence[str]) -> list[list[_Word]]:
    """The words of each text, with the pieces that the model makes of them there."""
    from vocabtool.tokenization.text_arrays import as_bytes  # loads pyarrow

    judged = words.look_up(texts)
    ids = [None if number < 0 else number for number in judged.ids.tolist()]
    counts = [None] * len(ids) if judged.pieces is None else judged.pieces.tolist()
    spelled = [judged.spelled.of_word(at) if judged.spelled else [] for at in range(len(ids))]
    distinct = as_bytes(judged.distinct)
    each = list(map(_Word, distinct, ids, judged.known.tolist(), counts, spelled))
    codes, bounds = judged.codes.tolist(), judged.offsets.tolist()
    return [[each[code] for code in codes[start:end]] for start, end in pairwise(bounds)]


def _word(word: _Word) -> dict[str, Any]:
    shown: dict[str, Any] = {"word": as_text(word.word)}
    if not is_utf8(word.word):
        shown["base64"] = base64.b64encode(word.word).decode()
    shown |= {"id": word.id, "known": word.known}
    if word.pieces:
        shown["pieces"] = [as_text(piece) for piece, _ in word.pieces]
        shown["unknown_pieces"] = [at for at, (_, known) in enumerate(word.pieces) if not known]
    return shown


def _columns(word: _Word) -> list[str]:
    verdict = "known" if word.known else UNKNOWN
    if word.known and word.split is not None and word.split > 1:
        verdict = f"split in {word.split}"
    row = [_quote_word(word.word), "" if word.id is None else str(word.id), verdict]
    if word.split is not None:
        marks = ((piece, "" if known else f"({UNKNOWN})") for piece, known in word.pieces)
        row.append(" ".join(_quote_word(piece) + mark for piece, mark in marks))
    return row


def _quote_word(entry: bytes) -> str:
    """A word or a text on one line; blanks at its ends and nothing at all are made visible."""
    shown = printable(entry)
    return repr(shown) if not shown.strip() or shown != shown.strip() else shown
