"""Open sources: expand globs, detect the format of a file by its suffix, decompress it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from errno import ENAMETOOLONG, ENOENT
from glob import glob, has_magic
from itertools import count
from os import PathLike, fspath
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final, NamedTuple, Protocol, cast

import pyarrow as pa

from vocabtool.documents.batch import Document
from vocabtool.documents.folders import (
    BY_LINE,
    CODECS,
    GITIGNORE,
    IGNORED,
    ROWS,
    SUFFIXES,
    suffixes_of,
    walk,
)
from vocabtool.documents.objects import (
    Indexable,
    Item,
    LazyTable,
    Queue,
    Table,
    is_indexable,
    is_queue,
    is_table,
)
from vocabtool.documents.options import RULES, Format, ReadOptions
from vocabtool.errors import (
    GIT_LFS,
    InvalidFile,
    NotFound,
    UnsupportedFormat,
    reading,
    refuse_pointer,
)
from vocabtool.system.messages import plural

Name = str | PathLike[str]
Source = Name | Iterable[Item] | Indexable | Queue | Table | LazyTable
Sources = Source | Iterable[Name] | Sequence[Source]

ITERABLE: Final = "texts"  # name of unnamed sources in ids and messages
STDIN: Final = "-"
HEAD: Final = 256  # bytes in which UTF-16 has a zero byte, at least in a line end
MAX_READ: Final = 1 << 31  # bytes that Arrow may read at once, for example a record batch
MAX_ENDINGS: Final = 8  # suffixes in a message
MAX_SHOWN: Final = 80  # characters of a name that may be a text
MAYBE_TEXTS: Final = ". In Python, a list of strings names files: pass texts as iter(texts)"
DEFAULTS: Final = ReadOptions()
# Formats that are read from a file with a name of its own.
WHOLE: Final = {"parquet": "Parquet", "docx": "DOCX", "epub": "EPUB"}
NOT_READ: Final = frozenset({".7z", ".br", ".bz2", ".lz4", ".rar", ".xz", ".z", ".zip"})


class Readable(Protocol):
    def read(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes. An empty result means the end."""

    def tell(self) -> int:
        """Return the number of bytes read so far; in a compressed file, compressed bytes count."""


class ArrowStream:
    """A stream for Arrow that returns ``held``, then the rest of ``file``, then ``last``.

    After :meth:`close` it returns no bytes, so that the threads of Arrow stop reading ``file``.
    """

    def __init__(self, held: bytes, file: Readable, last: bytes = b"") -> None:
        self._held = held
        self._file = file
        self._last = last
        self._lock = Lock()
        self.closed = False

    def read(self, size: int) -> bytes:
        if size > MAX_READ:
            raise InvalidFile(
                f"a part of the file has {size:,} bytes (expected at most {MAX_READ:,})"
            )
        with self._lock:
            if self.closed:
                return b""
            held, self._held = self._held[:size], self._held[size:]
            if data := held or self._file.read(size):
                return data
            last, self._last = self._last[:size], self._last[size:]
            return last

    def close(self) -> None:
        """Wait for a running read, then close this stream. Its file stays open."""
        with self._lock:
            self.closed = True


class Kind(NamedTuple):
    format: Format
    codec: str | None


def find(name: str, options: ReadOptions = DEFAULTS) -> list[str]:
    """Return the names of the files of a path, a folder or a glob, sorted.

    Raises :class:`NotFound` if a folder contains no documents, or no file matches a glob.
    """
    if name != STDIN and Path(name).is_dir():
        found = [file for file, why in walk(name, options) if why is None]
        if not found:
            known, others = " ".join(SUFFIXES), left_out([name], options)
            raise NotFound(
                f"{name}: the folder contains no documents (expected files that end in {known})"
                + "".join(f"\n{note}" for note in others)
            )
        return sorted(found)
    if name == STDIN or not has_magic(name) or Path(name).exists():
        return [name]
    found = [file for file in glob(name, recursive=True) if not Path(file).is_dir()]  # noqa: PTH207 - keeps a leading ./
    if not found:
        raise NotFound(f"{name}: no file matches")
    return sorted(found)


@contextmanager
def reading_documents(name: str) -> Iterator[None]:
    """Put the name of a file into the errors that the ``with`` block raises.

    If there is no such file and ``name`` contains a blank, the message says that ``name`` may be a
    text.
    """
    try:
        with reading(name):
            yield
    except NotFound as error:
        cause = error.__cause__
        if isinstance(cause, OSError):
            is_missing = cause.errno in (ENOENT, ENAMETOOLONG)
        else:
            is_missing = not Path(name).exists()
        if " " not in name or not is_missing:
            raise
        shown = name if len(name) <= MAX_SHOWN else f"{name[:MAX_SHOWN]}…"
        raise NotFound(f"{str(error).replace(name, shown)}{MAYBE_TEXTS}") from error


def left_out(
    sources: Sources, options: ReadOptions = DEFAULTS, own: Path | None = None
) -> tuple[str, ...]:
    """Return a note for each folder in which some files are not read.

    The note counts the unread files by suffix. ``own``: the output folder, which is not counted.
    """
    own = None if own is None else own.resolve()
    notes = []
    for folder in dict.fromkeys(names_of(sources) or []):
        if not Path(folder).is_dir():
            continue
        whys = Counter(
            why
            for file, why in walk(folder, options)
            if why is not None and not (own and Path(file).parent.resolve().is_relative_to(own))
        )
        ignored = whys.pop(IGNORED, 0)
        if whys:
            most = whys.most_common(MAX_ENDINGS)
            shown = ", ".join(f"{count:,} {ending}" for ending, count in most)
            others = len(whys) - len(most)
            more = f" and {others} other suffixes" if others else ""
            files = "file" if whys.total() == 1 else "files"
            notes.append(
                f"{folder}: {whys.total():,} {files} skipped: {shown}{more}; "
                "--include '*.ENDING' reads files of other endings as text lines"
            )
        if ignored:
            notes.append(
                f"{folder}: {plural(ignored, 'file or folder', 'files and folders')} skipped, "
                f"as {GITIGNORE} excludes them; --no-gitignore reads them"
            )
    return tuple(notes)


def kind_of(name: str, options: ReadOptions) -> Kind:
    """Return the format (by ``options`` or the suffix) and the compression of a file."""
    suffixes = suffixes_of(name)
    last = suffixes.pop() if suffixes else ""
    if last in NOT_READ:
        raise UnsupportedFormat(
            f"{last} is not supported; decompress the file, or use {' or '.join(CODECS)}"
        )
    if last in CODECS:
        codec, last = CODECS[last], suffixes.pop() if suffixes else ""
    else:
        codec = None
    found = options.format or SUFFIXES.get(last, "lines")
    if options.rules < RULES and options.format is None and found not in ROWS:
        found = "lines"
    if found == "lines" and options.split not in (None, "line"):
        found = "text"
    if found in BY_LINE and options.split == "line":
        found = "lines"
    if found in WHOLE and (codec or name == STDIN):
        raise UnsupportedFormat(
            f"{WHOLE[found]} cannot be read from a stream or a compressed file; save it as a plain "
            "file"
        )
    return Kind(found, codec)


@contextmanager
def open_file(name: str, codec: str | None) -> Iterator[Readable]:
    if name == STDIN:
        yield cast(Readable, sys.stdin.buffer)
        return
    try:
        opened = Path(name).open("rb")  # noqa: SIM115 - an error of the block is not of the name
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        raise NotFound(f"{name}: no such file") from error
    with opened as file:
        refuse_pointer(file.peek(len(GIT_LFS[0])))
        if codec is None:
            yield file
        else:
            yield _Decompressor(file, codec)


def refuse_utf16(head: bytes) -> None:
    """Raise ``InvalidFile`` if a file that begins with ``head`` is UTF-16."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) and b"\0" in head[:HEAD]:
        raise InvalidFile(
            "the encoding is UTF-16 (expected UTF-8); convert it with iconv -f UTF-16 -t UTF-8"
        )


class _Decompressor:
    def __init__(self, file: BinaryIO, codec: str) -> None:
        self._file = file
        self._stream = pa.CompressedInputStream(file, codec)
        self._codec = codec

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int, /) -> bytes:
        with arrow_errors(f"not {self._codec}, or damaged"):
            piece: bytes = self._stream.read(size)
            return piece


@contextmanager
def arrow_errors(what: str) -> Iterator[None]:
    """Convert errors of Arrow into :class:`InvalidFile`. The message begins with ``what``."""
    try:
        yield
    except pa.ArrowException as error:
        raise InvalidFile(f"{what}: {error}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise InvalidFile(f"{what}: {error}") from error


class Files(NamedTuple):
    name: str


class Container(NamedTuple):
    """A Python object that contains documents, and a unique ``name`` for it."""

    name: str
    source: object


def each_source(sources: Sources) -> Iterator[Files | Container]:
    """Yield each source. Python objects get the names ``texts``, ``texts2`` and so on."""
    numbers = count(1)
    for source in _flat(sources):
        if isinstance(source, str | PathLike):
            yield Files(fspath(source))
        else:
            number = next(numbers)
            yield Container(ITERABLE if number == 1 else f"{ITERABLE}{number}", source)


def names_of(sources: Sources) -> list[str] | None:
    """Return a list of names; ``None`` if ``sources`` is neither a name nor a list of names."""
    if isinstance(sources, str | PathLike):
        return [fspath(sources)]
    if isinstance(sources, list | tuple) and all(isinstance(s, str | PathLike) for s in sources):
        return [fspath(name) for name in sources]
    return None


def can_be_read_again(source: Files | Container) -> bool:
    """Return whether a source can be read twice. Pipes, iterators and queues cannot."""
    if isinstance(source, Container):
        held = source.source
        return not isinstance(held, Iterator) and (is_table(held) or not is_queue(held))
    path = Path(source.name)
    with reading_documents(source.name):
        return source.name != STDIN and (path.is_file() or path.is_dir() or not path.exists())


def _flat(sources: object) -> Iterator[object]:
    """Yield the single sources of nested lists. A list of documents is one source."""
    names, documents = str | PathLike, bytes | Document | Mapping
    if (
        not isinstance(sources, list | tuple)
        or not sources
        or isinstance(sources[0], documents)
        or not (all(isinstance(s, names) for s in sources) or any(map(_is_container, sources)))
    ):
        yield sources
        return
    for source in sources:
        if isinstance(source, documents):
            wanted = "a list must contain either sources or documents"
            raise ValueError(f"{wanted}, got {type(source).__name__} among sources")
        yield from _flat(source)


def _is_container(one: object) -> bool:
    if isinstance(one, str | bytes | Document | Mapping):
        return False
    return is_queue(one) or is_indexable(one) or is_table(one) or isinstance(one, Iterable)
