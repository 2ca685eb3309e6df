r"""Files that store one vocabulary: text, JSON, CSV and Parquet.

text     One entry per line, each ending in ``\n``; no ids. Entries with line breaks or invalid
         UTF-8 are backslash-escaped: ``\n``, ``\r``, and ``\xNN`` for an invalid byte. Entries that
         look escaped are escaped, too. Backslashes are doubled, but only in escaped entries.
JSON     Everything: name, kind and other facts, then ``tokens``, one per line. ``ids`` is present
         only if the ids are not consecutive from ``first_id``. ``base64`` is present only if some
         entries are not UTF-8. It maps the position of each such entry in ``tokens`` to the bytes
         of the entry; the token is escaped for display.
CSV      The columns ``id,token,base64``, as pyarrow writes them: entries and ids. If an entry is
         not UTF-8, ``base64`` contains its bytes, and ``token`` is empty, without quotes.
Parquet  Everything: the columns ``id``, ``token`` and ``bytes``, and the same facts as JSON in the
         metadata under the key ``vocabtool``. If an entry is not UTF-8, ``bytes`` is set instead
         of ``token``. The same version of pyarrow produces the same bytes.

JSON, CSV and Parquet are recognised as models. Text is read as a word list (``word_list.py``).
"""

from __future__ import annotations

import json
import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal

import numpy as np
import orjson
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, NotFound, UnknownFormat, reading
from vocabtool.formats import json_file
from vocabtool.formats.reader import Findings, Reader, Source
from vocabtool.formats.word_list import ESCAPE, INT64
from vocabtool.system.arguments import check_arguments
from vocabtool.system.byte_strings import CHUNK, ByteStrings
from vocabtool.system.own_files import from_json, whole_file
from vocabtool.vocabulary import (
    EntryType,
    Kind,
    Marker,
    Place,
    Special,
    Unknown,
    Vocabulary,
    is_utf8,
)

if TYPE_CHECKING:
    import pyarrow as pa

FileFormat = Literal["text", "json", "csv", "parquet"]
ENDINGS: Final[dict[str, FileFormat]] = {
    ".txt": "text",
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
}
MEANING: Final = {b"\\": b"\\", b"n": b"\n", b"r": b"\r"}
CSV_HEAD: Final = b'"id","token","base64"\n'
PARQUET_KEY: Final = b"vocabtool"
JSON_BEGINS: Final = re.compile(rb'\s*\{\s*"name":[^\n]*?"?,?\s*"kind":[^\n]*\s*"entry_type":')
FOOTER: Final = 1 << 20  # bytes at the end of a Parquet file that contain its key


@dataclass(frozen=True, slots=True)
class _Facts:
    """A vocabulary without its entries and ids. The fields are in the order of the file."""

    name: str
    kind: Kind
    entry_type: EntryType
    size: int
    sha256: str
    first_id: int
    unknown: Unknown | None
    specials: tuple[Special, ...]
    places: tuple[Place, ...]
    notes: tuple[str, ...]
    marker: Marker | None


def write(vocabulary: Vocabulary, file: BinaryIO, format: FileFormat) -> int:  # noqa: A002 - the name of the option
    """Write ``vocabulary`` to an open file; return the number of escaped entries.

    Only the format ``text`` escapes entries. The same vocabulary always produces the same bytes.
    """
    return _FORMATS[format][0](vocabulary, file) or 0


def save(vocabulary: Vocabulary, path: str | Path, format: FileFormat | None = None) -> int:  # noqa: A002 - the name of the option
    """Write a vocabulary to a file atomically; return the number of escaped entries.

    ``format``: by default, the format that belongs to the file extension, or ``"text"`` if there is
    no extension.

    Entries are escaped only in the format ``"text"``. Links are followed. Pipes and devices are
    written to directly. Raises :class:`NotFound` if the folder does not exist, and
    :class:`UnknownFormat` for an unknown extension.
    """
    format = _format_of(path, format)  # noqa: A001 - the name of the option
    with whole_file(path) as file:
        return write(vocabulary, file, format)


@check_arguments
def read(path: str | Path, format: FileFormat | None = None) -> Vocabulary:  # noqa: A002 - the name of the option
    """Read a file that :func:`save` wrote.

    ``format``: by default, the same as that of :func:`save`.

    A vocabulary from JSON or Parquet is equal to the saved one, including its name, places and
    notes. A vocabulary from CSV or text has the name of the file and the kind ``asset``. Text
    contains no ids, so the ids count from 0.

    Raises :class:`NotFound` for a missing file, :class:`UnknownFormat` for an unknown extension,
    and :class:`InvalidFile` if the content was not written by :func:`save`.
    """
    path = Path(path)
    if not path.is_file():
        raise NotFound(f"{path}: no such file")
    reader = _FORMATS[_format_of(path, format)][1]
    with reading(str(path)):
        return reader(path.read_bytes(), path.stem)


def _format_of(path: str | Path, given: FileFormat | None) -> FileFormat:
    ending = Path(path).suffix
    found = given or ENDINGS.get(ending.lower() or ".txt")
    if found is None or found not in _FORMATS:
        expected = f"expected {', '.join(ENDINGS)}"
        raise UnknownFormat(f"{path}: unknown extension or format {given or ending!r} ({expected})")
    return found


def _facts(vocabulary: Vocabulary) -> dict[str, Any]:
    return {each.name: getattr(vocabulary, each.name) for each in fields(_Facts)} | {
        "unknown": vocabulary.unknown and asdict(vocabulary.unknown),
        "specials": [special._asdict() for special in vocabulary.specials],
        "places": [place._asdict() for place in vocabulary.places],
    }


def _vocabulary(facts: _Facts, stored: ByteStrings, ids: NDArray[np.int64]) -> Vocabulary:
    if (facts.size, facts.sha256) != (len(stored), stored.sha256):
        raise InvalidFile("'size' or 'sha256' does not match the entries; the file was changed")
    numbers = [special.id for special in facts.specials]
    if facts.unknown is not None:
        numbers += [facts.unknown.id, facts.unknown.count]
        if facts.unknown.count < 1:
            raise InvalidFile(f"'count' of 'unknown' must be at least 1, got {facts.unknown.count}")
    if any(number not in INT64 for number in numbers):
        raise InvalidFile("an id does not fit in 64 bits")
    if len(ids) != len(stored):
        raise InvalidFile(f"expected {len(stored):,} ids, got {len(ids):,}")
    found = Vocabulary.from_ids(
        *(facts.name, facts.kind, stored, ids),
        unknown=facts.unknown,
        places=facts.places,
        notes=facts.notes,
        marker=facts.marker,
    )
    return replace(found, specials=facts.specials, entry_type=facts.entry_type)


# Text.


def _write_text(vocabulary: Vocabulary, file: BinaryIO) -> int:
    escaped, stored = 0, vocabulary.stored
    for number, piece in enumerate(stored.pieces()):
        some = range(number * CHUNK, min((number + 1) * CHUNK, len(stored)))
        # NumPy counts frequent bytes faster than bytes.count
        breaks = int(np.count_nonzero(np.frombuffer(piece, np.uint8) == ord("\n")))
        if breaks != len(some) or b"\r" in piece or b"\\" in piece or not is_utf8(piece):
            entries = [stored[i] for i in some]
            lines = [*map(_escape, entries), b""]
            escaped += sum(map(bytes.__ne__, entries, lines))
            piece = b"\n".join(lines)  # noqa: PLW2901 - escaped lines
        file.write(piece)
    return escaped


def _escape(entry: bytes) -> bytes:
    if b"\n" in entry or b"\r" in entry or ESCAPE.search(entry) or not is_utf8(entry):
        entry = entry.replace(b"\\", rb"\\").replace(b"\n", rb"\n").replace(b"\r", rb"\r")
        return entry.decode("utf-8", "backslashreplace").encode()
    return entry


def _read_text(data: bytes, name: str) -> Vocabulary:
    if data and not data.endswith(b"\n"):
        what = "the last line does not end with a newline; the file is truncated"
        raise InvalidFile(what, offset=len(data))
    if b"\r" in data or not is_utf8(data):
        raise InvalidFile("the text has an unescaped carriage return or invalid UTF-8")

    def unescape(line: bytes) -> bytes:
        return ESCAPE.sub(lambda m: MEANING.get(m[1]) or bytes([int(m[1][1:], 16)]), line)

    return Vocabulary(name, "asset", ByteStrings.of(map(unescape, data.split(b"\n")[:-1])))


# JSON.


def _write_json(vocabulary: Vocabulary, file: BinaryIO) -> None:
    stored = vocabulary.stored
    facts = json.dumps(_facts(vocabulary), ensure_ascii=False, indent=2)
    # Lone surrogates (from ``vocabulary.decode``) stay escaped.
    file.write(facts.removesuffix("\n}").encode("utf-8", "backslashreplace"))
    columns: dict[str, Any] = {
        "tokens": [each.decode("utf-8", "backslashreplace") for each in stored]
    }
    if vocabulary.ids is not None:
        columns["ids"] = vocabulary.ids.tolist()
    if strange := stored.not_utf8.tolist():
        columns["base64"] = {str(i): _base64(stored[i]) for i in strange}
    file.write(b"," + orjson.dumps(columns, option=orjson.OPT_INDENT_2).removeprefix(b"{") + b"\n")


def _read_json(data: bytes, _: str) -> Vocabulary:
    document = json_file.expect(json_file.parse(data), dict, "the document")
    tokens, ids, others = (document.pop(key, None) for key in ("tokens", "ids", "base64"))
    facts: _Facts = from_json(_Facts, document, "facts")
    try:
        entries = [token.encode() for token in json_file.expect(tokens, list, "tokens")]
        for at, encoded in (others or {}).items():
            entries[int(at)] = a2b_base64(encoded, strict_mode=True)
        if ids is None:
            ids = range(facts.first_id, facts.first_id + len(entries))
        elif set(map(type, ids)) - {int}:
            raise ValueError("an id is not a whole number")
        numbers = np.array(ids, np.int64)
    except (AttributeError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise InvalidFile(f"invalid 'tokens', 'ids' or 'base64': {error}") from error
    return _vocabulary(facts, ByteStrings.of(entries), numbers)


def _base64(entry: bytes) -> str:
    return b2a_base64(entry, newline=False).decode()


# CSV and Parquet.


def _table(vocabulary: Vocabulary) -> pa.Table:
    """Return the columns ``id``, ``token`` and ``bytes``; the last for entries that are no text."""
    import pyarrow.compute as pc

    table = vocabulary.to_arrow()
    entries, strange = table.column("token"), np.zeros(len(vocabulary), np.bool_)
    strange[vocabulary.stored.not_utf8] = True
    tokens = pc.if_else(strange, None, entries).cast("string")
    others = pc.if_else(strange, entries, None).cast("binary")
    return table.set_column(1, "token", tokens).append_column("bytes", others)


def _columns(table: pa.Table) -> tuple[ByteStrings, NDArray[np.int64]]:
    ids, tokens, others = table.columns
    if ids.null_count:
        raise InvalidFile("every row must have an 'id'")
    pairs = list(zip(tokens.cast("binary").to_pylist(), others.to_pylist(), strict=True))
    if any((token is None) == (other is None) for token, other in pairs):
        raise InvalidFile("every row must have either a token or its bytes")
    entries = ByteStrings.of(other if token is None else token for token, other in pairs)
    return entries, np.asarray(ids.to_numpy(), np.int64)


def _write_csv(vocabulary: Vocabulary, file: BinaryIO) -> None:
    import pyarrow as pa
    from pyarrow import csv

    table = _table(vocabulary)
    others = [each and _base64(each) for each in table.column("bytes").to_pylist()]
    csv.write_csv(table.set_column(2, "base64", [pa.array(others, pa.string())]), file)


def _read_csv(data: bytes, name: str) -> Vocabulary:
    import pyarrow as pa
    from pyarrow import csv

    if not data.startswith(CSV_HEAD) or not data.endswith(b"\n"):
        what = CSV_HEAD.decode().strip()
        raise InvalidFile(f"wanted a first line {what} and a newline at the end")
    try:
        table = csv.read_csv(
            pa.BufferReader(data),
            csv.ReadOptions(block_size=len(data), use_threads=False),
            csv.ParseOptions(newlines_in_values=True),
            csv.ConvertOptions(
                column_types={"id": pa.int64(), "token": pa.string(), "base64": pa.string()},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        encoded = table.column("base64").to_pylist()
        others = [None if each is None else a2b_base64(each, strict_mode=True) for each in encoded]
        stored, ids = _columns(table.set_column(2, "bytes", [pa.array(others, pa.binary())]))
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise InvalidFile(f"invalid or damaged CSV file: {error}") from error
    return Vocabulary.from_ids(name, "asset", stored, ids)


def _write_parquet(vocabulary: Vocabulary, file: BinaryIO) -> None:
    import pyarrow.parquet as pq

    facts = {PARQUET_KEY: json.dumps(_facts(vocabulary)).encode()}
    pq.write_table(_table(vocabulary).replace_schema_metadata(facts), file, compression="zstd")


def _read_parquet(data: bytes, _: str) -> Vocabulary:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(pa.BufferReader(data)) as file:  # read_table imports more of Arrow
            table = file.read()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidFile(f"invalid or damaged Parquet file: {error}") from error
    schema = pa.schema({"id": pa.int64(), "token": pa.string(), "bytes": pa.binary()})
    if not table.schema.equals(schema):
        raise InvalidFile("expected the columns id, token and bytes")
    columns = _columns(table)
    facts = json_file.parse((table.schema.metadata or {}).get(PARQUET_KEY, b""))
    return _vocabulary(from_json(_Facts, facts, "facts"), *columns)


_FORMATS: Final[dict[FileFormat, tuple[Callable[..., int | None], Callable[..., Vocabulary]]]] = {
    "text": (_write_text, _read_text),
    "json": (_write_json, _read_json),
    "csv": (_write_csv, _read_csv),
    "parquet": (_write_parquet, _read_parquet),
}


# Recognised as models.


def _written_as(source: Source) -> FileFormat | None:
    if source.head.startswith(CSV_HEAD):
        return "csv"
    if source.head.startswith(b"PAR1"):
        with source.file.open("rb") as file:
            file.seek(max(source.size - FOOTER, 0))
            return "parquet" if PARQUET_KEY in file.read(FOOTER) else None
    return "json" if JSON_BEGINS.match(source.head) else None


def _read_model(source: Source) -> Findings:
    vocabulary = read(source.file, _written_as(source))
    place = Place(source.name, "written by vocabtool extract")
    return Findings([replace(vocabulary, places=(place, *vocabulary.places))])


READER: Final = Reader(
    "file of vocabtool extract",
    lambda source: (
        None if _written_as(source) else "not a JSON, CSV or Parquet file written by extract"
    ),
    _read_model,
)
