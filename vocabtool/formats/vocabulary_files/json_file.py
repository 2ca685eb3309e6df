"""Everything, as one JSON object: the facts, then ``tokens``, one a line.

``ids`` is there only where they do not count on by one from ``first_id``; ``base64``, by index in
``tokens``, only for entries that are not UTF-8, whose token is escaped for people to read.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile
from vocabtool.formats.vocabulary_files.facts import facts_of, vocabulary_of
from vocabtool.system.byte_strings import CHUNK, ByteStrings
from vocabtool.vocabulary import Vocabulary, numbering


def write(vocabulary: Vocabulary, file: BinaryIO) -> None:
    """Write a vocabulary; no more than ``CHUNK`` entries are Python objects at a time."""
    for key, value in facts_of(vocabulary).items():
        file.write(b"{\n" if key == "name" else b",\n")
        file.write(b'"%b": %b' % (key.encode(), _json(value)))
    _write_list(file, b"tokens", _tokens(vocabulary.stored))
    ids = None if vocabulary.ids is None else numbering(vocabulary.ids)[1]
    if ids is not None:
        _write_list(file, b"ids", (ids[at : at + CHUNK].tolist() for at in _chunks(len(ids))))
    strange = vocabulary.stored.not_utf8
    if len(strange):
        _write_base64(file, vocabulary.stored, strange)
    file.write(b"\n}\n")


def _json(value: object) -> bytes:
    """JSON in UTF-8; a lone surrogate (``vocabulary.decode`` makes some) stays an escape."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _chunks(size: int) -> range:
    return range(0, size, CHUNK)


def _tokens(stored: ByteStrings) -> Iterator[list[str]]:
    for at in _chunks(len(stored)):
        part = ByteStrings(
            stored.data, stored.starts[at : at + CHUNK], stored.ends[at : at + CHUNK]
        )
        yield [entry.decode("utf-8", "backslashreplace") for entry in part]


def _write_list(file: BinaryIO, key: bytes, parts: Iterable[list[Any]]) -> None:
    file.write(b',\n"%b": [' % key)
    separator = "\n"
    for part in parts:
        text = json.dumps(part, ensure_ascii=False, separators=(",\n", ": "))
        file.write((separator + text[1:-1]).encode())
        separator = ",\n"
    file.write(b"\n]")


def _write_base64(file: BinaryIO, stored: ByteStrings, strange: NDArray[np.int64]) -> None:
    file.write(b',\n"base64": {')
    for start in _chunks(len(strange)):
        positions = strange[start : start + CHUNK].tolist()
        part = {str(at): b64encode(stored[at]).decode() for at in positions}
        file.write(b", " * (start > 0) + _json(part)[1:-1])
    file.write(b"}")


def read(data: bytes) -> Vocabulary:
    """Read what :func:`write` wrote. Raises :class:`InvalidFile` for anything else."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidFile(f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise InvalidFile(f"wanted an object, got {type(document).__name__}")
    return vocabulary_of(document, _entries(document), _ids(document.get("ids")))


def _entries(document: dict[str, Any]) -> ByteStrings:
    tokens, beside = document.get("tokens"), document.get("base64", {})
    if not isinstance(tokens, list) or not isinstance(beside, dict):
        raise InvalidFile("tokens: wanted an array, and base64, where it is, an object")
    try:
        entries = [token.encode() for token in tokens]
        for at, encoded in beside.items():
            if not at.isdecimal() or int(at) >= len(entries):
                raise InvalidFile(f"base64: no entry {at}")
            entries[int(at)] = b64decode(encoded, validate=True)
    except InvalidFile:
        raise
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidFile(f"tokens or base64: {error}") from error
    return ByteStrings.of(entries)


def _ids(ids: object) -> NDArray[np.int64] | None:
    if ids is None:
        return None
    if not isinstance(ids, list) or any(type(number) is not int for number in ids):
        raise InvalidFile("ids: wanted an array of integers")
    try:
        return np.array(ids, np.int64)
    except OverflowError as error:
        raise InvalidFile("ids: wanted 64-bit integers") from error
