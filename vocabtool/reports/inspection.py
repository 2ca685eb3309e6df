"""Reports of ``inspect`` and ``words``: the vocabularies of a model, and how it splits texts."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from vocabtool.formats.reader import Model
from vocabtool.reports.report import (
    NOTEBOOK_ROWS,
    Cell,
    Column,
    Kind,
    Report,
    Section,
    Table,
    as_text,
    counts,
    render_fragment,
)
from vocabtool.system.messages import plural
from vocabtool.vocabulary import USED, Place, Vocabulary, decode, encode, is_utf8, printable, short

if TYPE_CHECKING:
    from vocabtool.tokenization.words import Word, Words

# Of models.

ENDS: Final = 5  # entries from either end, in JSON
MAX_PLACES: Final = 5
ENTRY_WIDTH: Final = 16  # characters
MAX_STEPS: Final = 8  # of a rule; JSON has all
STEP_WIDTH: Final = 200  # characters of a step; JSON has all
COLUMNS: Final[dict[str, Kind]] = {
    **{"name": "text", "kind": "text", "size": "integer", "ids": "text", "unknown": "text"},
    **{"entries": "text", "specials": "text", "duplicates": "integer", "not_utf8": "integer"},
    **dict.fromkeys(("sha256", "where", "notes"), "text"),
}


def model_report(model: Model, *, passed_over: bool) -> Report:
    """Return the report on a model's vocabularies and, with ``passed_over``, its skipped lists."""
    others: list[Table] = []
    if passed_over and model.passed_over:
        columns = (Column("passed over"), *counts("size"), Column("why"), Column("where"))
        rows = [
            (skipped.name, skipped.size, skipped.why, _place_text(skipped.place))
            for skipped in model.passed_over
        ]
        others.append(Table(columns, rows))
    return Report(
        sections=partial(_sections, model, others),
        data=partial(_data, model, passed_over),
        lists=lambda: [_complete_table(model), *others],
    )


def _complete_table(model: Model) -> Table:
    rows = [
        (
            *_short_row(vocabulary),
            _specials(vocabulary),
            vocabulary.duplicates,
            len(vocabulary.stored.not_utf8),
            vocabulary.sha256,
            "; ".join(map(_place_text, vocabulary.places)),
            "; ".join(vocabulary.notes),
        )
        for vocabulary in model.vocabularies
    ]
    return Table([Column(name, kind) for name, kind in COLUMNS.items()], rows)


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
            skipped._asdict() | {"place": skipped.place._asdict()} for skipped in model.passed_over
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
        "places": [place._asdict() for place in vocabulary.places],
        "first_id": vocabulary.first_id,
        "last_id": vocabulary.last_id,
        "contiguous": vocabulary.ids is None,
        "unknown": None if unknown is None else asdict(unknown),
        "specials": [special._asdict() for special in vocabulary.specials],
        "duplicates": vocabulary.duplicates,
        "not_utf8": len(stored.not_utf8),
        "first": [printable(stored[i]) for i in entries[:ENDS]],
        "last": [printable(stored[i]) for i in entries[-ENDS:]],
        "notes": list(vocabulary.notes),
    }


def _sections(model: Model, others: Sequence[Table]) -> Iterator[Section]:
    columns = (Column("name"), Column("kind"), *counts("size"), Column("ids"), Column("unknown"))
    columns = (*columns, Column("entries"))
    yield Section("", Table(columns, map(_short_row, model.vocabularies)))
    for vocabulary in model.vocabularies:
        details = (f"  {line}" for line in _details(vocabulary))
        yield Section("", text=[vocabulary.name, *details])
    for table in others:
        yield Section("", table)


def _short_row(vocabulary: Vocabulary) -> tuple[Cell, ...]:
    def quote(entry: bytes) -> str:
        text = short(entry, ENTRY_WIDTH)
        return f"'{text}'" if not text or " " in text else text

    stored = vocabulary.stored
    shown = [quote(stored[i]) for i in range(min(3, len(stored)))]
    if len(stored) > 3:
        shown += ["…", quote(stored[len(stored) - 1])]
    kind, ids = vocabulary.kind, vocabulary.id_range
    return (vocabulary.name, kind, len(vocabulary), ids, _unknown_ids(vocabulary), " ".join(shown))


def _unknown_ids(vocabulary: Vocabulary) -> str:
    unknown = vocabulary.unknown
    if unknown is None:
        return ""
    if unknown.count == 1:
        return str(unknown.id)
    return f"{unknown.id}..{unknown.id + unknown.count - 1}"


def _specials(vocabulary: Vocabulary) -> str:
    return " ".join(f"{special.id}={special.entry!r}" for special in vocabulary.specials)


def _place_text(place: Place) -> str:
    return f"{place.file}: {place.place}"


def _details(vocabulary: Vocabulary) -> Iterator[str]:
    yield from map(_place_text, vocabulary.places[:MAX_PLACES])
    if len(vocabulary.places) > MAX_PLACES:
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


def vocabulary_html(vocabulary: Vocabulary) -> str:
    """Return a table for notebooks: the first and last entries, with their ids."""
    size, ids, half = len(vocabulary), vocabulary.ids, NOTEBOOK_ROWS // 2
    first = min(size, half)
    places = [*range(first), *range(max(first, size - half), size)]
    rows: list[tuple[Cell, ...]] = [
        (str(vocabulary.first_id + at if ids is None else ids[at]), vocabulary.stored[at])
        for at in places
    ]
    if size > len(rows):
        rows.insert(half, ("…", "…"))
    entries = plural(size, "entry", "entries")
    title = f"Vocabulary {vocabulary.name}: {entries}, {vocabulary.kind}"
    return render_fragment(title, [Section(table=Table((Column("id"), Column("entry")), rows))])


# Of texts.

SOURCES: Final = {
    "recovered": "the model's own rule, from its files",
    "named": "the rule that you named",
    "guessed": "the rule that fits the entries best",
}
UNKNOWN: Final = "unknown"


# A word of a text, and its pieces, of each whether the model knows it.
_Word: TypeAlias = "tuple[Word, list[tuple[bytes, bool]]]"


def words_report(words: Words, texts: Sequence[str]) -> Report:
    """Return the report: the steps of the rule, then the words of each text."""
    rows = _words_of(words, texts)

    def data() -> dict[str, Any]:
        return {
            **_rule_data(words),
            "others": [_rule_data(other) for other in words.others],
            "texts": [
                {"text": text, "words": [_word_data(*word) for word in row]}
                for text, row in zip(texts, rows, strict=True)
            ],
        }

    def sections() -> Iterator[Section]:
        steps = [
            f"  {number}. {step if len(step) <= STEP_WIDTH else f'{step[:STEP_WIDTH]} ...'}"
            for number, step in enumerate(words.describe(), 1)
        ]
        if len(steps) > MAX_STEPS:
            rest = plural(len(steps) - MAX_STEPS, "more step", "more steps")
            steps[MAX_STEPS:] = [f"  ... {rest} (JSON: all)"]
        yield Section(
            "The rule",
            text=[
                _title(words),
                f"How a text becomes words ({SOURCES[words.how]}):",
                *steps,
                f"rule {words.fingerprint[:16]}",
            ],
            notes=_notes(words),
        )
        for other in words.others:
            indented = [f"  {step}" for step in other.describe()]
            yield Section("", text=[f"Separate lookup: {_title(other)}", *indented])
        for text, row in zip(texts, rows, strict=True):
            cells = [_cells(*word) for word in row] or [["(no words)"]]
            yield Section("", Table([Column() for _ in cells[0]], cells), [_quote(encode(text))])

    return Report(title="Words", sections=sections, data=data)


def _title(words: Words) -> str:
    vocabulary = words.vocabulary
    ids = _unknown_ids(vocabulary)
    end = f"; unknown words get id {ids}" if ids else ""
    return f"{vocabulary.name}: {len(vocabulary):,} entries{end}"


def _rule_data(words: Words) -> dict[str, Any]:
    return {
        "vocabulary": words.vocabulary.name,
        "size": len(words.vocabulary),
        "how": words.how,
        "rule": list(words.describe()),
        "fingerprint": words.fingerprint,
        "notes": list(_notes(words)),
    }


def _notes(words: Words) -> tuple[str, ...]:
    used = (note for note in words.vocabulary.notes if note.startswith(USED))
    return (*words.notes, *used)


def _words_of(words: Words, texts: Sequence[str]) -> list[list[_Word]]:
    from vocabtool.tokenization.text_arrays import as_bytes  # loads pyarrow
    from vocabtool.tokenization.words import Word

    lookup = words.look_up(texts)
    ids = [None if number < 0 else number for number in lookup.ids.tolist()]
    numbers = [None] * len(ids) if lookup.pieces is None else lookup.pieces.tolist()
    names = map(decode, as_bytes(lookup.distinct))
    distinct = map(Word, names, ids, lookup.known.tolist(), numbers)
    pieces = [lookup.spelled.of_word(at) if lookup.spelled else [] for at in range(len(ids))]
    return lookup.rows(list(zip(distinct, pieces, strict=True)))


def _word_data(word: Word, pieces: list[tuple[bytes, bool]]) -> dict[str, Any]:
    shown: dict[str, Any] = {"word": as_text(word.word_bytes)}
    if not is_utf8(word.word_bytes):
        shown["base64"] = b64encode(word.word_bytes).decode()
    shown |= {"id": word.id, "known": word.known}
    if pieces:
        shown["pieces"] = [as_text(piece) for piece, _ in pieces]
        shown["unknown_pieces"] = [at for at, (_, known) in enumerate(pieces) if not known]
    return shown


def _cells(word: Word, pieces: list[tuple[bytes, bool]]) -> list[str]:
    verdict = "known" if word.known else UNKNOWN
    if word.known and word.pieces is not None and word.pieces > 1:
        verdict = f"split in {word.pieces}"
    row = [_quote(word.word_bytes), "" if word.id is None else str(word.id), verdict]
    if word.pieces is None:
        return row
    shown = pieces or [(word.word_bytes, word.known)]
    quoted = [_quote(piece) if known else f"{_quote(piece)}({UNKNOWN})" for piece, known in shown]
    return [*row, " ".join(quoted)]


def _quote(entry: bytes) -> str:
    shown = printable(entry)
    return repr(shown) if not shown.strip() or shown != shown.strip() else shown
