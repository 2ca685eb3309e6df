r"""Files that store one vocabulary: text, JSON, CSV and Parquet.

text     One entry per line, each ending in ``\n``; no ids. Entries with line breaks or invalid
         UTF-8 are backslash-escaped: ``\n``, ``\r``, and ``\xNN`` for an invalid byte. Entries that
         look escaped are escaped, too. Backslashes are doubled, but only in escaped entries.
CSV      Columns ``id``, ``token`` and ``base64``, as pyarrow writes them. ``base64`` is empty, or
         contains an entry that is not UTF-8. The ``token`` of such an entry is escaped for display.
Parquet  Everything: the same columns; in the metadata, the key ``vocabtool`` has the other facts as
         JSON, with a ``fingerprint``. The same version of pyarrow produces the same bytes.
JSON     Everything: the same facts, then the list ``tokens``. ``ids`` is present only if the ids do
         not count up from ``first_id``, and ``base64`` only if an entry is not UTF-8: it maps the
         position of each such entry to its bytes.

JSON, CSV and Parquet are recognised as models. Text is read as a word list (``word_list.py``).
"""

from __future__ import annotations

import json
import re
from array import array
from binascii import a2b_base64, b2a_base64
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, get_type_hints

import numpy as np

from vocabtool.errors import InvalidFile, UnknownFormat, reading
from vocabtool.formats import json_file
from vocabtool.formats.reader import Findings, Reader, Source
from vocabtool.formats.word_list import ESCAPE, INT64, read_lines, unescape
from vocabtool.system.arguments import check_arguments
from vocabtool.system.byte_strings import CHUNK, ByteStrings
from vocabtool.system.own_files import from_json, to_json, whole_file
from vocabtool.vocabulary import Place, Unknown, Vocabulary, is_utf8

FileFormat = Literal["text", "json", "csv", "parquet"]
ENDINGS: Final[dict[str, FileFormat]] = {
    ".txt": "text",
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
}
TYPES: Final = {"id": "int64", "token": "string", "base64": "string"}  # of the columns
# Fields of a vocabulary that JSON and Parquet contain besides the columns and the fingerprint.
FACTS: Final = ("name", "kind", "entry_type", "unknown", "specials", "places", "notes", "marker")
CSV_HEAD: Final = b'"id","token","base64"\n'
PARQUET_KEY: Final = b"vocabtool"


def save(vocabulary: Vocabulary, path: str | Path, format: FileFormat | None = None) -> int:  # noqa: A002 - the name of the option
    """Write a vocabulary to a file atomically; return the number of escaped entries.

    Only the format ``"text"`` escapes entries. Links are followed. Pipes and devices are written to
    directly. ``format``: by default, that of the file extension, or ``"text"`` without one.

    Raises :class:`NotFound` for a missing folder, :class:`UnknownFormat` for an unknown extension.
    """
    format = _format_of(path, format)  # noqa: A001 - the name of the option
    with whole_file(path) as file:
        return write(vocabulary, file, format)


@check_arguments
def read(path: str | Path, format: FileFormat | None = None) -> Vocabulary:  # noqa: A002 - the name of the option
    """Read a file that :func:`save` wrote. ``format``: as in :func:`save`.

    A vocabulary from JSON or Parquet is equal to the saved one, including its name, places and
    notes. A vocabulary from CSV or text has the name of the file and the kind ``asset``. Text
    contains no ids, so the ids count from 0.

    Raises :class:`NotFound` for a missing file, :class:`UnknownFormat` for an unknown extension,
    and :class:`InvalidFile` if the content was not written by :func:`save`.
    """
    path = Path(path)
    format = _format_of(path, format)  # noqa: A001 - the name of the option
    with reading(str(path)):
        data = path.read_bytes()
        if format == "text":
            if data[-1:] not in (b"", b"\n") or b"\r" in data or not is_utf8(data):
                raise InvalidFile(r"truncated or damaged: wanted UTF-8, a final \n and no \r")
            lines = (ESCAPE.sub(unescape, line) for line in read_lines(data))
            return Vocabulary(path.stem, "asset", ByteStrings.of(lines))
        document = _read_document(data, format)
        entries, ids = [], array("q")
        try:
            for id_, token, encoded in zip(*(document[name] for name in TYPES), strict=True):
                ids.append(id_)
                entries.append(a2b_base64(encoded, strict_mode=True) if encoded else token.encode())
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            what = f"row {len(entries) + 1}: wanted {', '.join(TYPES)}: {error}"
            raise InvalidFile(what) from error
        vocabulary = Vocabulary.from_ids(path.stem, "asset", ByteStrings.of(entries), np.array(ids))
        if format == "csv":
            return vocabulary
        vocabulary = with_facts(vocabulary, document)
        if vocabulary.fingerprint != document.get("fingerprint"):
            raise InvalidFile("'fingerprint' does not match the content; the file was changed")
        return vocabulary


def _format_of(path: str | Path, stated: FileFormat | None) -> FileFormat:
    ending = Path(path).suffix
    format_ = stated or ENDINGS.get(ending.lower() or ".txt")
    if format_ is not None and format_ in ENDINGS.values():
        return format_
    raise UnknownFormat(f"{path}: wanted one of {', '.join(ENDINGS)}, got {stated or ending!r}")


def write(vocabulary: Vocabulary, file: BinaryIO, format: FileFormat) -> int:  # noqa: A002 - the name of the option
    """Write to an open file, as :func:`save` does. Equal vocabularies give equal bytes."""
    stored = vocabulary.stored
    if format == "text":
        return _write_text(stored, file)
    encoded = [""] * len(stored)
    for row in stored.not_utf8.tolist():
        encoded[row] = b2a_base64(stored[row], newline=False).decode()
    tokens = [entry.decode("utf-8", "backslashreplace") for entry in stored]
    columns = {"id": vocabulary.id_array().tolist(), "token": tokens, "base64": encoded}
    facts = facts_of(vocabulary)
    if format == "json":
        facts |= {"first_id": vocabulary.first_id, "tokens": tokens}
        if vocabulary.ids is not None:
            facts["ids"] = columns["id"]
        if any(encoded):
            facts["base64"] = {str(row): text for row, text in enumerate(encoded) if text}
        text = json.dumps(facts, ensure_ascii=False, indent=2) + "\n"
        file.write(text.encode("utf-8", "backslashreplace"))  # escapes lone surrogates of names
        return 0
    from pyarrow import csv, parquet, schema, table

    rows = table(columns, schema(TYPES, {PARQUET_KEY: json.dumps(facts)}))
    if format == "csv":
        csv.write_csv(rows, file)
    else:
        parquet.write_table(rows, file, compression="zstd")
    return 0


def facts_of(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return what a file says of a vocabulary besides its entries and ids, for JSON."""
    return {name: to_json(getattr(vocabulary, name)) for name in ("fingerprint", *FACTS)}


def _read_document(data: bytes, format_: FileFormat) -> dict[str, Any]:
    """Return the columns of a file and its facts. CSV has no facts."""
    if format_ == "json":
        document = json_file.expect(json_file.parse(data), dict, "the document")
        tokens = json_file.expect(document.get("tokens"), list, "tokens")
        first = json_file.expect(document.get("first_id"), int, "first_id")
        base64_of = json_file.expect(document.get("base64", {}), dict, "base64")
        encoded = [base64_of.get(str(row), "") for row in range(len(tokens))]
        ids = document.get("ids", range(first, first + len(tokens)))
        return {**document, "id": ids, "token": tokens, "base64": encoded}
    from pyarrow import ArrowException, BufferReader, csv, parquet, schema

    try:
        if format_ == "csv":
            if not data.startswith(CSV_HEAD) or not data.endswith(b"\n"):
                raise ValueError(f"wanted the first line {CSV_HEAD!r}, and a newline at the end")
            read = csv.ReadOptions(block_size=len(data), use_threads=False)  # any row fits
            parse = csv.ParseOptions(newlines_in_values=True)
            convert = csv.ConvertOptions(column_types=schema(TYPES), null_values=[])
            return dict(csv.read_csv(BufferReader(data), read, parse, convert).to_pydict())
        table = parquet.ParquetFile(BufferReader(data)).read()  # read_table imports more
        table.validate(full=True)
        columns = table.cast(schema(TYPES)).to_pydict()
    except (ArrowException, OSError, ValueError) as error:
        raise InvalidFile(f"invalid or damaged {format_} file: {error}") from error
    facts = json_file.parse((table.schema.metadata or {}).get(PARQUET_KEY, b""))
    return {**json_file.expect(facts, dict, "the facts"), **columns}


def with_facts(vocabulary: Vocabulary, document: dict[str, Any]) -> Vocabulary:
    """Add what :func:`facts_of` returned, but for the fingerprint. Raises :class:`InvalidFile`."""
    types = get_type_hints(Vocabulary)
    facts = {name: from_json(types[name], document.get(name), name) for name in FACTS}
    vocabulary = replace(vocabulary, **facts)
    unknown = vocabulary.unknown or Unknown(0)
    numbers = [unknown.id, unknown.count, *(special.id for special in vocabulary.specials)]
    if unknown.count < 1 or any(number not in INT64 for number in numbers):
        raise InvalidFile("wanted ids of 64 bits, and a 'count' of 'unknown' of at least 1")
    return vocabulary


def _write_text(stored: ByteStrings, file: BinaryIO) -> int:
    """Write one entry per line; return the number of escaped entries."""
    escaped = 0
    for at, text in zip(range(0, len(stored), CHUNK), stored.pieces(), strict=True):
        rows = range(at, min(at + CHUNK, len(stored)))
        is_plain = text.count(b"\n") == len(rows) and b"\r" not in text and b"\\" not in text
        if is_plain and is_utf8(text):
            file.write(text)
            continue
        lines = []
        for row in rows:
            entry = line = stored[row]
            if b"\n" in entry or b"\r" in entry or ESCAPE.search(entry) or not is_utf8(entry):
                line = entry.replace(b"\\", rb"\\").replace(b"\n", rb"\n").replace(b"\r", rb"\r")
                line = line.decode("utf-8", "backslashreplace").encode()
                escaped += 1
            lines.append(line)
        file.write(b"\n".join([*lines, b""]))  # at once: `| head` may close the pipe
    return escaped


def _format_in(source: Source) -> FileFormat | None:
    if source.head.startswith(CSV_HEAD):
        return "csv"
    if source.head.startswith(b"PAR1"):
        with source.file.open("rb") as file:
            file.seek(max(source.size - (1 << 20), 0))  # facts are at the end
            return "parquet" if PARQUET_KEY in file.read() else None
    return "json" if re.match(rb'\s*\{\s*"fingerprint":', source.head) else None


def _read_model(source: Source) -> Findings:
    vocabulary = read(source.file, _format_in(source))
    place = Place(source.name, "written by vocabtool extract")
    return Findings([replace(vocabulary, places=(place, *vocabulary.places))])


READER: Final = Reader(
    "file of vocabtool extract",
    lambda source: None if _format_in(source) else "not a JSON, CSV or Parquet file of vocabtool",
    _read_model,
)
