"""A vocabulary written to a file of its own and read back: text, JSON, CSV and Parquet.

JSON and Parquet lose nothing; CSV keeps entries and ids, text the entries. Only files that
:func:`write` makes are read here; word lists of other programs are for ``formats/``.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Final, Literal, assert_never, get_args

from vocabtool.errors import NotFound, UnknownFormat, reading
from vocabtool.system.whole_file import whole_file
from vocabtool.vocabulary import Vocabulary

FileFormat = Literal["text", "json", "csv", "parquet"]
ENDINGS: Final[dict[str, FileFormat]] = {
    ".txt": "text",
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
}


def write(vocabulary: Vocabulary, file: BinaryIO, format: FileFormat) -> int:  # noqa: A002 - as the option is called
    """Write ``vocabulary`` to an open file; return how many entries had to be escaped.

    Only ``text`` escapes. The same vocabulary always gives the same bytes.
    """
    match format:
        case "text":
            from vocabtool.formats.vocabulary_files import text

            return text.write(vocabulary, file)
        case "json":
            from vocabtool.formats.vocabulary_files import json_file

            json_file.write(vocabulary, file)
        case "csv":
            from vocabtool.formats.vocabulary_files import csv_file

            csv_file.write(vocabulary, file)
        case "parquet":
            from vocabtool.formats.vocabulary_files import parquet_file

            parquet_file.write(vocabulary, file)
        case _:
            assert_never(format)
    return 0


def save(vocabulary: Vocabulary, path: str | Path, format: FileFormat | None = None) -> int:  # noqa: A002 - as the option is called
    """Write a file wholly or not at all; return what :func:`write` returns.

    Without ``format`` the ending of the file tells; a file without one is ``text``. A link is
    followed; what is no regular file (a pipe, a device) is written to as it is. Raises
    :class:`NotFound` where there is no folder to write in, and :class:`UnknownFormat` for another
    ending.
    """
    ending = Path(path).suffix.lower()
    format = _checked(format or (_by_ending(path) if ending else "text"))  # noqa: A001 - as the option is called
    with whole_file(path) as file:
        return write(vocabulary, file, format)


def read(path: str | Path, format: FileFormat | None = None) -> Vocabulary:  # noqa: A002 - as the option is called
    """Read a file that :func:`save` made; without ``format``, its ending tells.

    JSON and Parquet give back an equal vocabulary with the same name, places and notes. CSV and
    text hold none of these: the name is the file's, the kind ``asset``, and in text ids count
    from 0. Raises :class:`NotFound`, :class:`UnknownFormat` for another ending, and
    :class:`InvalidFile` where the content is not as :func:`save` writes it.
    """
    path = Path(path)
    if not path.is_file():
        raise NotFound(f"{path}: no such file")
    known = format or _by_ending(path)
    data = path.read_bytes()
    with reading(str(path)):
        match _checked(known):
            case "text":
                from vocabtool.formats.vocabulary_files import text

                return text.read(data, path.stem)
            case "json":
                from vocabtool.formats.vocabulary_files import json_file

                return json_file.read(data)
            case "csv":
                from vocabtool.formats.vocabulary_files import csv_file

                return csv_file.read(data, path.stem)
            case "parquet":
                from vocabtool.formats.vocabulary_files import parquet_file

                return parquet_file.read(data)


def _by_ending(path: str | Path) -> FileFormat:
    ending = Path(path).suffix
    if ending.lower() not in ENDINGS:
        raise UnknownFormat(f"{path}: wanted {', '.join(ENDINGS)}, got {ending!r}")
    return ENDINGS[ending.lower()]


def _checked(format_: FileFormat) -> FileFormat:
    if format_ not in get_args(FileFormat):
        raise UnknownFormat(f"wanted one of {', '.join(get_args(FileFormat))}, got {format_!r}")
    return format_
