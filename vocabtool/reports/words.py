"""What becomes of a text, for people and for programs: the steps, then each word with its id."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vocabtool.reports.model import as_text
from vocabtool.reports.terminal import align
from vocabtool.tokenization.text_arrays import as_bytes
from vocabtool.vocabulary import encode, is_utf8, printable

if TYPE_CHECKING:
    from vocabtool.tokenization.words import Words

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


def to_text(words: Words, texts: Sequence[str], *, tabs: bool) -> str:
    """The steps as numbered lines, then the words of each text in columns."""
    lines = list(_head(words))
    for text, row in zip(texts, _rows(words, texts), strict=True):
        lines += ["", _quote(encode(text))]
        table = [_columns(word) for word in row] or [["(no words)"]]
        lines += map("\t".join, table) if tabs else (f"  {line}" for line in align(table))
    return "\n".join(lines) + "\n"


def to_json(words: Words, texts: Sequence[str]) -> str:
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
    row = [_quote(word.word), "" if word.id is None else str(word.id), verdict]
    if word.split is not None:
        marks = ((piece, "" if known else f"({UNKNOWN})") for piece, known in word.pieces)
        row.append(" ".join(_quote(piece) + mark for piece, mark in marks))
    return row


def _quote(entry: bytes) -> str:
    """A word or a text on one line; blanks at its ends and nothing at all are made visible."""
    shown = printable(entry)
    return repr(shown) if not shown.strip() or shown != shown.strip() else shown
