"""What becomes of a text, for people and for programs: the steps, then each word with its id."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from vocabtool.vocabulary import decode, is_utf8, printable

if TYPE_CHECKING:
    from vocabtool.words.model_words import Words

SOURCES: Final = {
    "recovered": "the model's own rule, read off its files",
    "named": "a rule that you named",
    "exact": "the model itself, which is run",
}
UNKNOWN: Final = "unknown"


def to_text(words: Words, texts: Sequence[str], *, tabs: bool) -> str:
    """The steps as numbered lines, then the words of each text in columns."""
    lines = list(_head(words))
    for text, row in zip(texts, words.split(texts).to_pylist(), strict=True):
        lines += ["", _quoted(text)]
        table = [_columns(words, word) for word in row] or [["(no words)"]]
        lines += _aligned(table, tabs)
    return "\n".join(lines) + "\n"


def to_json(words: Words, texts: Sequence[str]) -> str:
    """The same as JSON: ``vocabulary``, ``how``, ``rule``, ``fingerprint``, ``texts``."""
    rows = words.split(texts).to_pylist()
    shown = {
        **_facts(words),
        "others": [_facts(other) for other in words.others],
        "texts": [
            {"text": text, "words": [_word(words, word) for word in row]}
            for text, row in zip(texts, rows, strict=True)
        ],
    }
    return json.dumps(shown, ensure_ascii=False, indent=2)


def rule_line(words: Words) -> str:
    """The same in one line, for what goes with a report."""
    steps = "; ".join(words.describe())
    name = printable(words.vocabulary.name.encode())
    return f"{name}, rule {_short(words)}: {steps}"


def _short(words: Words) -> str:
    return words.fingerprint[:16]


def rule_lines(words: Words) -> Iterator[str]:
    """How a text becomes words, a line for each step, and the fingerprint."""
    yield f"How a text becomes words ({SOURCES[words.how]}):"
    for number, step in enumerate(words.describe(), 1):
        yield f"  {number}. {step}"
    yield f"rule {_short(words)}"


def _head(words: Words) -> Iterator[str]:
    yield _title(words)
    yield from rule_lines(words)
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


def _word(words: Words, word: dict[str, Any]) -> dict[str, Any]:
    shown = {"word": _readable(decode(word["word"]))}
    if not is_utf8(word["word"]):
        shown["base64"] = base64.b64encode(word["word"]).decode()
    pieces = words.pieces(word["word"])
    told = {"pieces": [_readable(piece) for piece in pieces]} if pieces else {}
    return {**shown, "id": word["id"], "known": word["known"], **told}


def _readable(text: str) -> str:
    """Text that any encoding of Unicode can carry."""
    return text.encode("utf-8", "backslashreplace").decode()


def _columns(words: Words, word: dict[str, Any]) -> list[str]:
    count = word["pieces"]
    split = f"split in {count}" if word["known"] and count is not None and count > 1 else ""
    verdict = split or ("known" if word["known"] else UNKNOWN)
    number = str(word["id"]) if word["id"] is not None else ""
    row = [_quoted(decode(word["word"])), number, verdict]
    if count is None:
        return row
    return [*row, " ".join(_quoted(piece) for piece in words.pieces(word["word"]))]


def _quoted(text: str) -> str:
    """A word or a text on one line; blanks at its ends and nothing at all are made visible."""
    shown = printable(text.encode("utf-8", "surrogateescape"))
    return repr(shown) if not shown.strip() or shown != shown.strip() else shown


def _aligned(table: Sequence[Sequence[str]], tabs: bool) -> Iterator[str]:
    if tabs:
        yield from ("\t".join(row) for row in table)
        return
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield ("  " + "  ".join(cells)).rstrip()
