"""RFC 4180 with the columns ``id,token,base64``: entries and ids.

Only an entry that is not UTF-8 has a ``base64``, and its ``token`` is empty.
"""

from __future__ import annotations

import csv
import io
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import BinaryIO, Final

import numpy as np

from vocabtool.errors import InvalidFile
from vocabtool.system.byte_strings import CHUNK, ByteStrings
from vocabtool.vocabulary import Vocabulary, numbering

COLUMNS: Final = ["id", "token", "base64"]


def write(vocabulary: Vocabulary, file: BinaryIO) -> None:
    """Write entries and ids; no more than ``CHUNK`` of them are Python objects at a time."""
    file.write(_rows([COLUMNS]))
    ids, stored = vocabulary.id_array(), vocabulary.stored
    for at in range(0, len(stored), CHUNK):
        numbers = ids[at : at + CHUNK].tolist()
        entries = (stored[i] for i in range(at, at + len(numbers)))
        file.write(_rows([number, *_cells(e)] for number, e in zip(numbers, entries, strict=True)))


def _cells(entry: bytes) -> tuple[str, str]:
    try:
        return entry.decode(), ""
    except UnicodeDecodeError:
        return "", b64encode(entry).decode()


def _rows(rows: Iterable[list[int | str] | list[str]]) -> bytes:
    """Line ends as RFC 4180 has them: with others, Python 3.11 would not quote a lone CR."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()


def read(data: bytes, name: str) -> Vocabulary:
    """Read what :func:`write` wrote. Raises :class:`InvalidFile` for anything else."""
    if data and not data.endswith(b"\n"):
        raise InvalidFile("the last row has no end: the file is cut off", offset=len(data))
    ids: list[int] = []
    entries: list[bytes] = []
    limit = csv.field_size_limit(len(data) + 1)  # it is the process's: put back below
    try:
        rows = csv.reader(io.StringIO(data.decode(), newline=""), strict=True)
        if next(rows, None) != COLUMNS:
            raise InvalidFile(f"wanted the columns {','.join(COLUMNS)}")
        for number, token, encoded in rows:
            if token and encoded:
                raise InvalidFile(f"row {len(ids) + 1:,}: both token and base64")
            ids.append(int(number))
            entries.append(b64decode(encoded, validate=True) if encoded else token.encode())
        numbers = np.array(ids, np.int64)
    except InvalidFile:
        raise
    except (ValueError, OverflowError, csv.Error) as error:
        raise InvalidFile(f"row {len(ids) + 1:,}: {error}") from error
    finally:
        csv.field_size_limit(limit)
    if bool((numbers[1:] < numbers[:-1]).any()):
        raise InvalidFile("ids must ascend")
    first_id, uneven = numbering(numbers)
    return Vocabulary(name, "asset", ByteStrings.of(entries), first_id, uneven)
