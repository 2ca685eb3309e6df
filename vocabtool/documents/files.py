"""Find the files of sources, decide which are documents and in which format, open them.

Patterns of files are those of gitignore (git-scm.com/docs/gitignore), without POSIX classes such as
``[[:alpha:]]``.
"""

from __future__ import annotations

import gzip
import os
import re
import sys
import zlib
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from errno import EINVAL, ENAMETOOLONG, ENOENT
from functools import cache
from glob import glob, has_magic
from importlib.util import find_spec
from itertools import count
from os import PathLike, fspath
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, Final, Protocol, cast

import pyarrow as pa

from vocabtool.documents.batch import (
    Document,
    Indexable,
    Item,
    LazyTable,
    Table,
    is_indexable,
    is_table,
)
from vocabtool.documents.options import Format, ReadOptions
from vocabtool.errors import (
    GIT_LFS,
    InvalidFile,
    NotFound,
    UnsupportedFormat,
    VocabtoolError,
    reading,
    refuse_pointer,
)
from vocabtool.system.messages import plural

Name = str | PathLike[str]
Source = Name | Iterable[Item] | Indexable | Table | LazyTable
Sources = Source | Iterable[Name] | Sequence[Source]

ITERABLE: Final = "texts"  # name of unnamed sources in ids and messages
STDIN: Final = "-"
READ_BYTES: Final = 1 << 20  # at a time: a larger buffer takes longer than a small file
UTF_16: Final = 256  # bytes in which UTF-16 has a zero byte, at least in a line end
MAX_READ: Final = 1 << 31  # bytes that Arrow may read at once, for example a record batch
ENDINGS_SHOWN: Final = 8  # suffixes in a message
NAME_SHOWN: Final = 80  # characters of a name that may be a text
MAYBE_TEXTS: Final = ". In Python, a list of strings names files: pass texts as iter(texts)"
DEFAULTS: Final = ReadOptions()
EPUB: Final = ".epub"
# Formats that are read from a file with a name of its own.
WHOLE: Final = {"parquet": "Parquet", "docx": "DOCX"}
NOT_READ: Final = frozenset({".7z", ".br", ".bz2", ".lz4", ".rar", ".xz", ".z", ".zip"})

ENDINGS: Final[dict[Format, str]] = {
    "lines": "txt",
    "jsonl": "jsonl ndjson",
    "csv": "csv",
    "tsv": "tsv",
    "parquet": "parquet pq",
    "arrow": "arrow arrows feather ipc",
    "tfrecord": "tfrecord tfrecords",
    "json": "json",
    "markdown": "md markdown",
    "rst": "rst rest",
    "html": "html htm xhtml",
    "notebook": "ipynb",
    "pdf": "pdf",
    "docx": "docx",
    "python": "py pyi",
    "code": "bash c cc clj cljs cpp cs cxx dart el erl ex exs f90 fish go gradle groovy h hh hpp "
    "hs java jl js jsx kt kts lisp lua m mjs ml mli mm nim php pl pm proto ps1 pyx r rb rs scala "
    "scm sh sql swift tcl tf ts tsx v vb vhd vue zig zsh",
}
SUFFIXES: Final = {f".{end}": kind for kind, ends in ENDINGS.items() for end in ends.split()}
SHARD: Final = re.compile(r"-\d+-of-\d+$")  # as in train.tfrecord-00000-of-00010
CODECS: Final = {".gz": "gzip", ".zst": "zstd"}
# Formats of plain text: a file with a zero byte is not one of them, and lines can be documents.
PLAIN_TEXT: Final = frozenset({"text", "markdown", "rst", "html", "python", "code"})
# Formats whose texts are values of rows.
ROWS: Final = frozenset({"jsonl", "csv", "tsv", "parquet", "arrow", "tfrecord", "json"})
LIBRARIES: Final = {"pdf": "pypdf", "docx": "docx"}  # what reads such a file, if it is installed
HOW: Final = {  # files are read, by their format or ``split``; others by headings
    "lines": "by lines",
    "text": "as text",
    "code": "by blank lines",
    "python": "by definitions",
    "pdf": "by pages",
    "file": "as a whole",
    "heading": "by headings",
    "paragraph": "by paragraphs",
    "tokens": "by size",
}
HEAD: Final = 8000  # bytes in which a binary file has a zero byte, as git looks for it
ARRAY_OF_OBJECTS: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*\{")  # a JSON array of objects
NEVER: Final = "(?!)"  # matches nothing
GITIGNORE: Final = ".gitignore"
MAX_PATTERNS_BYTES: Final = 1 << 20
MAX_PATTERNS: Final = 10_000
BINARY: Final = "binary"
NO_FILE: Final = "pipe or other special file"
OUTSIDE: Final = "link to outside the folder"
IGNORED: Final = "ignored"


class FolderFile(str):
    """The name of a file that was found in a folder, where ``.txt`` is text, not lines."""

    __slots__ = ()


class Readable(Protocol):
    def read(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes. An empty result means the end."""

    def tell(self) -> int:
        """Return the number of bytes read so far; in a compressed file, compressed bytes count."""


class ArrowStream:
    """A stream for Arrow that returns ``start``, then the rest of ``file``, then ``last``.

    After :meth:`close` it returns no bytes, so that the threads of Arrow stop reading ``file``.
    ``count``: number of bytes returned so far.
    """

    def __init__(self, start: bytes, file: Readable, last: bytes = b"") -> None:
        self._start = start
        self._file = file
        self._last = last
        self._lock = Lock()
        self.closed = False
        self.count = 0

    def read(self, size: int) -> bytes:
        if size > MAX_READ:
            raise InvalidFile(
                f"a part of the file has {size:,} bytes (expected at most {MAX_READ:,})"
            )
        with self._lock:
            if self.closed:
                return b""
            data, self._start = self._start[:size], self._start[size:]
            data = data or self._file.read(size)
            if not data:
                data, self._last = self._last[:size], self._last[size:]
            self.count += len(data)
            return data

    def close(self) -> None:
        """Wait for a running read, then close this stream. Its file stays open."""
        with self._lock:
            self.closed = True


def find(name: str, read: ReadOptions = DEFAULTS) -> list[str]:
    """Return the names of the files of a path, a folder or a glob, sorted.

    Raises :class:`NotFound` if no file exists or matches, or if a folder contains no documents.
    """
    if name != STDIN and Path(name).is_dir():
        files = [file for file, why in walk(name, read) if why is None]
        if not files:
            rows_only = read.field_of_rows is not None
            known = " ".join(end for end, kind in SUFFIXES.items() if kind in ROWS or not rows_only)
            raise NotFound(
                f"{name}: the folder contains no documents (expected files that end in {known})"
                + "".join(f"\n{note}" for note in left_out([name], read))
            )
        return sorted(map(FolderFile, files))
    if name == STDIN or Path(name).exists():
        return [name]
    if not has_magic(name):
        raise NotFound(f"{name}: no such file")
    files = [file for file in glob(name, recursive=True) if not Path(file).is_dir()]  # noqa: PTH207 - keeps a leading ./
    if not files:
        raise NotFound(f"{name}: no file matches")
    return sorted(files)


@contextmanager
def reading_documents(name: str) -> Iterator[None]:
    """Put the name of a file into the errors that the ``with`` block raises.

    If there is no such file, the message says that a ``name`` with a blank may be a text.
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
        shown = name if len(name) <= NAME_SHOWN else f"{name[:NAME_SHOWN]}…"
        raise NotFound(f"{str(error).replace(name, shown)}{MAYBE_TEXTS}") from error


def left_out(
    sources: Sources, read: ReadOptions = DEFAULTS, output: Path | None = None
) -> tuple[str, ...]:
    """Return a note for each folder in which some files are not read.

    The note counts the unread files by suffix. ``output``: a folder whose files are not counted.
    """
    output = None if output is None else output.resolve()
    notes = []
    for folder in dict.fromkeys(names_of(sources) or []):
        if not Path(folder).is_dir():
            continue
        reasons = Counter(
            reason
            for file, reason in walk(folder, read)
            if reason is not None
            and not (output and Path(file).parent.resolve().is_relative_to(output))
        )
        ignored = reasons.pop(IGNORED, 0)
        if reasons:
            shown = reasons.most_common(ENDINGS_SHOWN)
            counts = ", ".join(f"{count:,} {reason}" for reason, count in shown)
            if len(reasons) > len(shown):
                counts += f" and {len(reasons) - len(shown)} other suffixes"
            advice = "`index --include '*.ENDING'` reads files of other endings as text lines"
            field = read.field_of_rows
            if field is not None and any(SUFFIXES.get(end, "csv") not in ROWS for end in reasons):
                advice = f"only rows of tables and JSON have the field {field!r}: to read texts "
                advice += "such as .md, omit --field and --id-field, or name several with `text`"
            skipped = plural(reasons.total(), "file", "files")
            notes.append(f"{folder}: {skipped} skipped: {counts}; {advice}")
        if ignored:
            notes.append(
                f"{folder}: {plural(ignored, 'file or folder', 'files and folders')} skipped, "
                f"as {GITIGNORE} excludes them; --no-gitignore reads them"
            )
    return tuple(notes)


def how_read(files: Iterable[str], read: ReadOptions = DEFAULTS) -> str:
    """Return how many files of each ending are read, and how: ``2 .md files by headings``."""
    counts = Counter[tuple[str, str]]()  # by the ending and how such files are read
    for file in files:
        with reading_documents(file):
            kind, _ = kind_of(file, read)
        if kind in ROWS:
            how = "by rows"
        elif kind == "lines":  # ``split`` does not change it
            how = HOW[kind]
        else:
            how = HOW.get(read.split or kind, HOW.get(kind, HOW["heading"]))
        ending = STDIN if file == STDIN else "".join(suffixes_of(file))
        counts[ending, how] += 1
    shown = []
    for (ending, how), number in counts.most_common():
        if ending == STDIN:
            shown.append(f"standard input {how}")
        elif ending:
            shown.append(f"{plural(number, f'{ending} file', f'{ending} files')} {how}")
        else:
            shown.append(f"{plural(number, 'file', 'files')} without a suffix {how}")
    return ", ".join(shown)


def kind_of(name: str, read: ReadOptions) -> tuple[Format, str | None]:
    """Return the format (by ``read`` or the suffix) and the compression of a file.

    A ``.txt`` that was found in a folder is text; one that was named has a document a line.
    """
    suffix, compression = suffixes_of(name)
    if not compression:
        if suffix == EPUB:
            raise UnsupportedFormat("EPUB is not supported: convert the book to HTML or to text")
        if suffix in NOT_READ:
            raise UnsupportedFormat(
                f"{suffix} is not supported; decompress the file, or use {' or '.join(CODECS)}"
            )
    kind = read.format or SUFFIXES.get(suffix, "lines")
    is_page = isinstance(name, FolderFile) and read.format is None and suffix in SUFFIXES
    if kind == "lines" and (is_page or read.split is not None):
        kind = "text"
    if kind in PLAIN_TEXT and read.split == "line":
        kind = "lines"
    if kind in WHOLE and (compression or name == STDIN):
        raise UnsupportedFormat(
            f"{WHOLE[kind]} cannot be read from a stream or a compressed file; save it as a plain "
            "file"
        )
    return kind, CODECS.get(compression)


@contextmanager
def open_file(name: str, codec: str | None) -> Iterator[Readable]:
    """Open a file, or standard input, for reading. A compressed file is decompressed.

    Raises :class:`NotFound`, and :class:`InvalidFile` for a pointer of Git LFS.
    """
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


def read_up_to(file: Readable, size: int) -> bytes:
    """Read ``size`` bytes, or fewer at the end. A pipe may give them in several blocks."""
    blocks, missing = [], size
    while missing:
        block = file.read(min(missing, READ_BYTES))
        if not block:
            break
        blocks.append(block)
        missing -= len(block)
    return b"".join(blocks)


def refuse_utf16(head: bytes) -> None:
    """Raise :class:`InvalidFile` if a file begins like UTF-16: a byte order mark, and some NUL."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) and b"\0" in head[:UTF_16]:
        raise InvalidFile(
            "the encoding is UTF-16 (expected UTF-8); convert it with iconv -f UTF-16 -t UTF-8"
        )


class _Decompressor:
    """The decompressed bytes of a file. ``codec``: ``gzip`` or ``zstd``."""

    def __init__(self, file: BinaryIO, codec: str) -> None:
        self._file = file
        # Python's gzip ignores zero bytes after the end, as tapes add them; Arrow's refuses them.
        self._stream: Any = (
            gzip.GzipFile(fileobj=file)
            if codec == "gzip"
            else pa.CompressedInputStream(file, codec)
        )
        self._codec = codec

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int, /) -> bytes:
        with arrow_errors(f"not {self._codec}, or damaged"):
            data: bytes = self._stream.read(size)
            return data


@contextmanager
def arrow_errors(what: str) -> Iterator[None]:
    """Convert errors of Arrow and gzip into :class:`InvalidFile`. It begins with ``what``."""
    try:
        yield
    except (pa.ArrowException, zlib.error, EOFError, OSError) as error:
        # Arrow's own errors have no number; in older releases, EINVAL is a place outside the file.
        if isinstance(error, OSError) and error.errno not in (None, EINVAL):
            raise
        raise InvalidFile(f"{what}: {error}") from error


def each_source(sources: Sources) -> Iterator[tuple[str, object]]:
    """Yield a name and each source. The names of objects are ``texts``, ``texts2`` and so on."""
    numbers = count(1)
    for source in _flat(sources):
        if isinstance(source, str | PathLike):
            yield fspath(source), fspath(source)
        else:
            number = next(numbers)
            yield ITERABLE if number == 1 else f"{ITERABLE}{number}", source


def names_of(sources: Sources) -> list[str] | None:
    """Return a list of names; ``None`` if ``sources`` is neither a name nor a list of names."""
    if isinstance(sources, str | PathLike):
        return [fspath(sources)]
    if isinstance(sources, list | tuple) and all(isinstance(s, str | PathLike) for s in sources):
        return [fspath(name) for name in sources]
    return None


def is_repeatable(source: object) -> bool:
    """Return whether a source can be read twice. Pipes and iterators cannot."""
    if not isinstance(source, str):
        return not isinstance(source, Iterator)
    path = Path(source)
    with reading_documents(source):
        return source != STDIN and (path.is_file() or path.is_dir() or not path.exists())


def _flat(sources: object) -> Iterator[object]:
    """Yield the single sources of nested lists. A list of documents is one source."""
    names, documents = str | PathLike, bytes | Document | Mapping
    if not isinstance(sources, list | tuple) or not sources or isinstance(sources[0], documents):
        yield sources
        return
    # Names, or at least one container of documents.
    if all(isinstance(source, names) for source in sources) or any(
        is_indexable(source) or is_table(source) or isinstance(source, Iterable)
        for source in sources
        if not isinstance(source, names | documents)
    ):
        for source in sources:
            if isinstance(source, documents):
                got = f"{type(source).__name__} among sources"
                raise ValueError(f"a list must contain either sources or documents, got {got}")
            yield from _flat(source)
    else:
        yield sources


# ---- files that are read again


@dataclass(frozen=True, slots=True)
class Input:
    """An input file: its size in bytes, and its modification time in nanoseconds."""

    name: str
    size: int
    changed: int


def files_outside(sources: Sources, folder: Path | None, read: ReadOptions) -> list[str] | None:
    """Return the files in order, without those in ``folder``; ``None`` for Python objects.

    Raises :class:`VocabtoolError` for a source in ``folder``, and the errors of :func:`find`.
    """
    names = names_of(sources)
    if names is None:
        return None
    output = None if folder is None else folder.resolve()
    files: list[str] = []
    for name in names:
        if output and name != STDIN and Path(name).resolve().is_relative_to(output):
            raise VocabtoolError(
                f"{name}: is in the output folder {folder}: choose a source outside"
            )
        with reading_documents(name):
            files += find(name, read)
    if output is None:
        return files
    resolve = cache(os.path.realpath)  # many files have the same folder
    return [
        name
        for name in files
        if name == STDIN or not Path(resolve(os.path.dirname(name))).is_relative_to(output)  # noqa: PTH120 - quicker, for many files
    ]


def can_be_read_again(files: Iterable[str] | None) -> bool:
    """Return whether files can be read twice. Pipes and Python objects (``None``) cannot."""
    return files is not None and all(map(is_repeatable, files))


def facts_of(files: Iterable[str]) -> tuple[Input, ...]:
    """Return an :class:`Input` for each file that is not a stream."""
    facts = []
    for name in files:
        if is_repeatable(name):
            with reading_documents(name):
                stat = Path(name).stat()
            facts.append(Input(name, stat.st_size, stat.st_mtime_ns))
    return tuple(facts)


def changes(before: tuple[Input, ...], now: tuple[Input, ...]) -> tuple[str, ...]:
    """Return a line for each added, removed or changed file, or one line for a changed order."""
    old, new = ({file.name: file for file in files} for files in (before, now))
    lines = [f"{name}: is no longer among the inputs" for name in old if name not in new]
    lines += [f"{name}: is new among the inputs" for name in new if name not in old]
    for name, file in new.items():
        if name not in old or old[name] == file:
            continue
        if old[name].size != file.size:
            lines.append(f"{name}: had {old[name].size:,} bytes, now has {file.size:,}")
        else:
            lines.append(f"{name}: its modification time changed")
    if not lines and [file.name for file in before] != [file.name for file in now]:
        lines.append("the order of the inputs changed")
    return tuple(lines)


# ---- folders


class Rules:
    """The patterns of a ``.gitignore`` or of an option. The last pattern that matches decides.

    Paths are relative to the folder that is walked. ``above``: the path to this folder from a
    ``.gitignore`` above it, such as ``docs/``. ``below``: the path from this folder to that of a
    ``.gitignore`` below it.

    The library pathspec reads other files than git for 104 of 1,039 lists of patterns.
    """

    def __init__(self, lines: Iterable[str], above: str = "", below: str = "") -> None:
        rules = [rule for rule in map(_rule, lines) if rule is not None]
        any_pattern = "|".join(pattern.pattern for pattern, _, _ in rules)
        self._any = re.compile(any_pattern or NEVER, re.DOTALL)
        self._last_first = rules[::-1]
        self._above, self._cut = above, len(below)

    @classmethod
    def read(cls, file: Path, above: str = "", below: str = "") -> Rules:
        """Read a ``.gitignore``. Raises :class:`InvalidFile` if it is too long."""
        with reading(str(file)), file.open("rb") as opened:
            data = opened.read(MAX_PATTERNS_BYTES + 1)
            text = data.removeprefix(BOM_UTF8)  # git skips it, too
            lines = text.decode("utf-8", "surrogateescape").split("\n")
            if len(data) > MAX_PATTERNS_BYTES or len(lines) > MAX_PATTERNS:
                raise InvalidFile(
                    f"has more than {MAX_PATTERNS_BYTES:,} bytes or {MAX_PATTERNS:,} lines. To "
                    "read the folder without .gitignore, use --no-gitignore (gitignore=False)"
                )
        return cls(lines, above, below)

    def decide(self, path: str, *, is_folder: bool) -> bool | None:
        """Return whether a path is ignored; ``None`` if no pattern matches it."""
        path = self._above + path[self._cut :]
        if self._any.fullmatch(path) is not None:
            for pattern, is_negated, is_of_folders in self._last_first:
                if (is_folder or not is_of_folders) and pattern.fullmatch(path):
                    return not is_negated
        return None


def _rule(line: str) -> tuple[re.Pattern[str], bool, bool] | None:
    """Return the regular expression of a line, whether it is negated, and only for folders.

    ``None`` if the line is blank, a comment or invalid.
    """
    text = re.sub(r"(?<!\\) +$", "", line.rstrip("\r\n"))
    if not text or text.startswith("#"):
        return None
    is_negated, is_of_folders = text.startswith("!"), text.endswith("/")
    text = text.removeprefix("!").removesuffix("/")
    # A pattern without a slash matches a name in any folder.
    names = text.removeprefix("/").split("/") if "/" in text else ["**", text]
    groups: list[list[str]] = [[]]  # of names; between two groups, ** stands for any folders
    for name in names:
        if len(name) > 1 and not name.strip("*"):
            groups.append([])
        else:
            groups[-1].append(_name_regex(name))
    pattern = "/".join(groups[0])
    if len(groups) > 1:
        *middle, last = groups[1:]
        pattern += "/" if groups[0] else ""
        pattern += "".join(f"(?>(?:[^/]+/)*?{'/'.join(group)}/)" for group in middle if group)
        pattern += f"(?:[^/]+/)*{'/'.join(last)}" if last else ".+"
    try:
        return re.compile(pattern, re.DOTALL), is_negated, is_of_folders
    except re.error:  # such as [z-a], which matches nothing
        return None


NAME_SIGN: Final = re.compile(
    r"(?P<stars>\*+)|(?P<any>\?)|\[(?P<negated>[!^]?+)(?P<signs>\]?+(?>(?:\\.|[^\]\\])*))\]"
    r"|\\?(?P<sign>.)",
    re.DOTALL,
)
CLASS_RANGE: Final = re.compile(r"\\?(.)(?:-\\?(.))?", re.DOTALL)


def _name_regex(glob: str) -> str:
    """Return the regular expression of one name of a pattern, such as ``*.md``."""
    literals = [""]  # between stars
    for match in NAME_SIGN.finditer(glob):
        if match["stars"]:
            literals.append("")
        elif match["any"]:
            literals[-1] += "[^/]"
        elif match["signs"] is not None:
            inside = "".join(
                re.escape(first) + (f"-{re.escape(last)}" if last else "")
                for first, last in CLASS_RANGE.findall(match["signs"])
            )
            literals[-1] += f"(?!/)[{'^' if match['negated'] else ''}{inside}]"
        elif match[0] == "[":  # a class without an end
            return NEVER
        else:
            literals[-1] += re.escape(match["sign"])
    first, *middle = literals
    if not middle:
        return first
    last = middle.pop()
    # Each star takes the shortest text and, being atomic, is never tried again: linear time.
    return first + "".join(f"(?>[^/]*?{name})" for name in middle) + f"[^/]*{last}"


def walk(folder: str, read: ReadOptions) -> Iterator[tuple[str, str | None]]:
    """Yield the files in a folder and its subfolders, each with the reason if it is not read.

    The reason is the suffix, or a word such as ``binary`` or ``ignored``; it is ``None`` for a file
    that is read. Pipes, devices and links to files outside the folder are not read. A folder that
    ``.gitignore`` excludes is yielded like a file. Hidden files, hidden folders and links to
    folders are not yielded.
    """
    include = Rules(read.include) if read.include else None
    exclude = Rules(read.exclude)
    real_folder = os.path.realpath(folder)
    # Subfolders to walk: the path, the .gitignores that count in it, whether it is included.
    pending: list[tuple[str, tuple[Rules, ...], bool]]
    pending = [("", _rules_above(folder) if read.gitignore else (), include is None)]
    while pending:
        inside, gitignores, is_included = pending.pop()
        here = Path(folder, inside)
        with os.scandir(here) as scanned:
            entries = [*scanned]
        before = "" if here == Path() else os.path.join(here, "")  # noqa: PTH118 - quicker below
        if read.gitignore and any(entry.name == GITIGNORE and entry.is_file() for entry in entries):
            gitignores = (*gitignores, Rules.read(here / GITIGNORE, below=inside))
        for entry in entries:
            path, is_folder = inside + entry.name, entry.is_dir(follow_symlinks=False)
            if entry.name.startswith(".") or (not is_folder and entry.is_dir()):
                continue
            if exclude.decide(path, is_folder=is_folder):
                continue
            included = is_included or bool(include and include.decide(path, is_folder=is_folder))
            name = before + entry.name
            # The .gitignore in the nearest folder decides first.
            decisions = (rules.decide(path, is_folder=is_folder) for rules in reversed(gitignores))
            if next((is_ignored for is_ignored in decisions if is_ignored is not None), False):
                yield name, IGNORED
            elif is_folder:
                pending.append((f"{path}/", gitignores, included))
            elif included:
                yield name, _why_not_read(entry, real_folder, read)


def _rules_above(folder: str) -> tuple[Rules, ...]:
    """Read each ``.gitignore`` in the folders from the root of the git repository to ``folder``."""
    start = Path(os.path.abspath(folder))  # noqa: PTH100 - links stay
    root = next((up for up in (start, *start.parents) if (up / ".git").exists()), start)
    return tuple(
        Rules.read(up / GITIGNORE, above=f"{start.relative_to(up).as_posix()}/")
        for up in reversed(start.parents)
        if up.is_relative_to(root) and (up / GITIGNORE).is_file()
    )


def _why_not_read(entry: os.DirEntry[str], real_folder: str, read: ReadOptions) -> str | None:
    """See :func:`walk`. ``real_folder``: the walked folder, without links."""
    if entry.is_symlink() and not Path(os.path.realpath(entry.path)).is_relative_to(real_folder):
        return OUTSIDE
    if not entry.is_file():
        return NO_FILE
    suffix, compression = suffixes_of(entry.name)
    ending, kind = suffix + compression, SUFFIXES.get(suffix)
    if kind is None:  # --include reads files of any ending
        return None if read.include else ending or "without a suffix"
    if kind in LIBRARIES and find_spec(LIBRARIES[kind]) is None:
        return ending
    readable = ROWS if read.format is None else {*ROWS, "lines"}
    if read.field_of_rows is not None and not read.include and kind not in readable:
        return ending
    if compression:  # it would have to be unpacked to see whether JSON is an array
        return ending if kind in ("json", "docx") else None
    if kind not in (*PLAIN_TEXT, "json", "notebook"):
        return None
    with reading(entry.path), open(entry.path, "rb", 0) as opened:  # noqa: PTH123 - quicker, for many files
        head = opened.read(HEAD)
    if kind == "json":
        return None if ARRAY_OF_OBJECTS.match(head) else ending
    return BINARY if b"\0" in head else None


def suffixes_of(name: str) -> tuple[str, str]:
    """Return the suffix of a file name that tells its format, and that of its compression.

    Both are in lower case, and ``""`` if missing: ``(".csv", ".gz")``. The number of a shard, such
    as ``-00000-of-00010``, is left out.
    """
    endings = name.rpartition("/")[2].lstrip(".").lower().split(".")  # quicker than Path.suffixes
    if name.endswith("."):
        return "", ""
    suffixes = [SHARD.sub("", f".{ending}") for ending in endings[1:]]
    compression = suffixes.pop() if suffixes and suffixes[-1] in CODECS else ""
    return suffixes[-1] if suffixes else "", compression
