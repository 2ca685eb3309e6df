"""RFC 4180, a row per unknown word: ``word,base64,count,documents,error,kind,like,example``.

Only a word that is not UTF-8 has a ``base64``, and its ``word`` is empty. The fields are those of
``UnknownWord``; an example is escaped where it is not UTF-8.
"""

from __future__ import annotations

import csv
import io
from base64 import b64encode
from collections.abc import Iterable
from itertools import islice
from typing import BinaryIO, Final

from vocabtool.oov.report import OovReport, UnknownWord

COLUMNS: Final = ("word", "base64", "count", "documents", "error", "kind", "like", "example")
CHUNK: Final = 4_096


def write(report: OovReport, file: BinaryIO) -> None:
    """Write all unknown words, the commonest first."""
    file.write(_rows([COLUMNS]))
    words = report.commonest()
    while rows := _rows(map(_row, islice(words, CHUNK))):
        file.write(rows)


def _row(word: UnknownWord) -> tuple[object, ...]:
    example = word.example.decode("utf-8", "backslashreplace")
    like = (word.like or b"").decode("utf-8", "backslashreplace")
    numbers = (word.count, word.documents, word.error)
    return (*_cells(word.word), *numbers, word.kind or "", like, example)


def _cells(word: bytes) -> tuple[str, str]:
    try:
        return word.decode(), ""
    except UnicodeDecodeError:
        return "", b64encode(word).decode()


def _rows(rows: Iterable[tuple[object, ...]]) -> bytes:
    """Line ends as RFC 4180 has them: with others, Python 3.11 would not quote a lone CR."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()
