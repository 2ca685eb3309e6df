"""RFC 4180, a row an entry: those that both vocabularies hold, then those of A only, of B only.

``token,base64,in_a,in_b,id_a,id_b,kind_a,kind_b,rank_a,rank_b,shift``: only a token that is not
UTF-8 has a ``base64``, and its ``token`` is empty; ``in_a`` and ``in_b`` are 0 or 1; what a side
does not have is empty.
"""

from __future__ import annotations

import csv
import io
from base64 import b64encode
from collections.abc import Iterable
from itertools import islice
from typing import BinaryIO, Final

from vocabtool.comparison.diff import Diff
from vocabtool.reports.comparison.rows import CHUNK, Only, Row, parts, rows

COLUMNS: Final = ("token", "base64", *Row._fields[1:])


def write(found: Diff, file: BinaryIO, most: int | None = None, only: Only | None = None) -> None:
    """Write every entry, or the first ``most`` of each part; ``only``: of one part."""
    file.write(_lines([COLUMNS]))
    for part in parts(only):
        some = rows(found, part, most)
        while lines := _lines(map(_cells, islice(some, CHUNK))):
            file.write(lines)


def _cells(row: Row) -> tuple[object, ...]:
    token, in_a, in_b, *others = row
    try:
        shown = (token.decode(), "")
    except UnicodeDecodeError:
        shown = ("", b64encode(token).decode())
    return (*shown, int(in_a), int(in_b), *others)


def _lines(some: Iterable[tuple[object, ...]]) -> bytes:
    """Line ends as RFC 4180 has them: with others, Python 3.11 would not quote a lone CR."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(some)
    return text.getvalue().encode()
