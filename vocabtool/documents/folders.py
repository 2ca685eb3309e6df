"""Walk folders, and decide which files are documents and which are left out.

Patterns are those of gitignore (git-scm.com/docs/gitignore), without POSIX classes such as
``[[:alpha:]]``.
"""

from __future__ import annotations

import os
import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from vocabtool.documents.options import RULES, Format, ReadOptions
from vocabtool.errors import InvalidFile, reading

SUFFIXES: Final[dict[str, Format]] = {
    ".txt": "lines",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".tfrecord": "tfrecord",
    ".tfrecords": "tfrecord",
    ".json": "json",
    ".md": "markdown",
    ".markdown": "markdown",
    ".rst": "rst",
    ".rest": "rst",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".ipynb": "notebook",
    ".pdf": "pdf",
    ".docx": "docx",
    ".epub": "epub",
    ".py": "python",
    ".pyi": "python",
}
CODE: Final = (
    "bash c cc clj cljs cpp cs cxx dart el erl ex exs f90 fish go gradle groovy h hh hpp hs java "
    "jl js jsx kt kts lisp lua m mjs ml mli mm nim php pl pm proto ps1 pyx r rb rs scala scm sh "
    "sql swift tcl tf ts tsx v vb vhd vue zig zsh"
)
SUFFIXES.update({f".{ending}": "code" for ending in CODE.split()})
SHARD: Final = re.compile(r"-\d+-of-\d+$")  # as in train.tfrecord-00000-of-00010
CODECS: Final = {".gz": "gzip", ".zst": "zstd"}
BY_LINE: Final = frozenset({"text", "markdown", "rst", "html", "python", "code"})
# Formats whose texts are values of rows.
ROWS: Final = frozenset({"jsonl", "csv", "tsv", "parquet", "arrow", "tfrecord", "json"})
LIBRARIES: Final = {"pdf": "pypdf"}  # what reads such a file, if it is installed
HEAD: Final = 8000  # bytes in which a binary file has a zero byte, as git looks for it
ARRAY_OF_OBJECTS: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*\{")  # a JSON array of objects
GITIGNORE: Final = ".gitignore"
MAX_RULES_BYTES: Final = 1 << 20
MAX_RULES: Final = 10_000
NEVER: Final = "(?!)"  # matches nothing
BINARY: Final = "binary"
IGNORED: Final = "ignored"


class Rules:
    """The patterns of a ``.gitignore`` or of an option. The last pattern that matches decides."""

    def __init__(self, lines: Iterable[str]) -> None:
        found = [rule for line in lines if (rule := _rule(line)) is not None]
        every = "|".join(rule.pattern.pattern for rule in found)
        self._any = re.compile(every or NEVER, re.DOTALL)
        self._last_first = found[::-1]

    @classmethod
    def read(cls, file: Path) -> Rules:
        with reading(str(file)), file.open("rb") as opened:
            data = opened.read(MAX_RULES_BYTES + 1)
            text = data.removeprefix(BOM_UTF8)  # git skips it, too
            lines = text.decode("utf-8", "surrogateescape").split("\n")
            if len(data) > MAX_RULES_BYTES or len(lines) > MAX_RULES:
                raise InvalidFile(
                    f"has more than {MAX_RULES_BYTES:,} bytes or {MAX_RULES:,} lines. To read "
                    "the folder without .gitignore, use --no-gitignore (gitignore=False)"
                )
        return cls(lines)

    def decide(self, path: str, *, is_folder: bool) -> bool | None:
        """Return whether a path is ignored; ``None`` if no pattern matches it.

        ``path``: relative to the folder of the patterns, with ``/`` between names.
        """
        if self._any.fullmatch(path) is not None:
            for rule in self._last_first:
                if (is_folder or not rule.of_folders) and rule.pattern.fullmatch(path):
                    return not rule.negated
        return None


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    negated: bool
    of_folders: bool


def _rule(line: str) -> _Rule | None:
    text = re.sub(r"(?<!\\) +$", "", line.rstrip("\r\n"))
    if not text or text.startswith("#"):
        return None
    negated = text.startswith("!")
    of_folders = text.endswith("/")
    text = text[negated:].removesuffix("/")
    names = text.removeprefix("/").split("/") if "/" in text else ["**", text]
    groups: list[list[str]] = [[]]  # names between **
    for name in names:
        if len(name) > 1 and not name.strip("*"):
            groups.append([])
        else:
            groups[-1].append(_of_name(name))
    first, *middle, last = (*groups, None) if len(groups) == 1 else groups
    pattern = "/".join(first or ())
    if last is not None:
        pattern += "/" if first else ""
        pattern += "".join(f"(?>(?:[^/]+/)*?{'/'.join(each)}/)" for each in middle if each)
        pattern += f"(?:[^/]+/)*{'/'.join(last)}" if last else ".+"
    try:
        return _Rule(re.compile(pattern, re.DOTALL), negated, of_folders)
    except re.error:  # such as [z-a], which matches nothing
        return None


def _of_name(glob: str) -> str:
    parts = [""]  # between stars
    at = 0
    while at < len(glob):
        sign = glob[at]
        at += 1
        if sign == "*":
            if parts[-1] or len(parts) == 1:
                parts.append("")
        elif sign == "?":
            parts[-1] += "[^/]"
        elif sign == "[":
            end = at + (glob[at : at + 1] in ("!", "^"))
            end += glob[end : end + 1] == "]"
            while end < len(glob) and glob[end] != "]":
                end += 1 + (glob[end] == "\\")
            if end >= len(glob):
                return NEVER
            parts[-1] += _of_class(glob[at:end])
            at = end + 1
        else:
            if sign == "\\" and at < len(glob):
                sign = glob[at]
                at += 1
            parts[-1] += re.escape(sign)
    first, *middle = parts
    if not middle:
        return first
    last = middle.pop()
    return first + "".join(f"(?>[^/]*?{each})" for each in middle) + f"[^/]*{last}"


def _of_class(inside: str) -> str:
    negated = inside[:1] in ("!", "^")
    signs = [pair[-1] for pair in re.findall(r"\\.|[^\\]|\\$", inside[negated:], re.DOTALL)]
    found, at = "", 0
    while at < len(signs):
        found += re.escape(signs[at])
        if at + 2 < len(signs) and signs[at + 1] == "-":
            found += "-" + re.escape(signs[at + 2])
            at += 2
        at += 1
    return f"(?!/)[{'^' * negated}{found}]"


class FolderFile(NamedTuple):
    """A file in a folder.

    ``why``: ``None`` if the file is read. Otherwise the reason why it is not read: its suffix,
    ``binary`` or ``ignored``.
    """

    name: str
    why: str | None


class _Place(NamedTuple):
    """The patterns of a ``.gitignore``.

    They are matched with ``add + path[cut:]``, which is ``path`` relative to the ``.gitignore``.
    """

    rules: Rules
    add: str
    cut: int


def walk(folder: str, options: ReadOptions) -> Iterator[FolderFile]:
    """Yield the files in a folder and its subfolders, with the reason if a file is not read.

    A folder that ``.gitignore`` excludes is yielded like a file. Hidden files, hidden folders and
    links to folders are not yielded.
    """
    include = Rules(options.include) if options.include else None
    exclude = Rules(options.exclude)
    above = _above(folder) if options.gitignore else ()
    pending: list[tuple[str, tuple[_Place, ...], bool]] = [("", above, include is None)]
    while pending:
        inside, places, is_chosen = pending.pop()
        here = Path(folder, inside)
        with os.scandir(here) as found:
            entries = [*found]
        before = "" if here == Path() else os.path.join(here, "")  # noqa: PTH118 - quicker below
        if options.gitignore and any(each.name == GITIGNORE and each.is_file() for each in entries):
            rules = Rules.read(here / GITIGNORE)
            places = (*places, _Place(rules, "", len(inside)))
        for entry in entries:
            path, is_folder = inside + entry.name, entry.is_dir(follow_symlinks=False)
            if entry.name.startswith(".") or (not is_folder and entry.is_dir()):
                continue
            if exclude.decide(path, is_folder=is_folder):
                continue
            included = is_chosen or bool(include and include.decide(path, is_folder=is_folder))
            name = before + entry.name
            if _is_ignored(path, places, is_folder=is_folder):
                yield FolderFile(name, IGNORED)
            elif is_folder:
                pending.append((f"{path}/", places, included))
            elif included:
                yield FolderFile(name, _why_not(entry, options))


def _above(folder: str) -> tuple[_Place, ...]:
    here = Path(os.path.abspath(folder))  # noqa: PTH100 - links stay
    root = next((each for each in (here, *here.parents) if (each / ".git").exists()), here)
    found = []
    for each in reversed(here.parents):
        if each.is_relative_to(root) and (each / GITIGNORE).is_file():
            add = f"{here.relative_to(each).as_posix()}/"
            found.append(_Place(Rules.read(each / GITIGNORE), add, 0))
    return tuple(found)


def _is_ignored(path: str, places: Iterable[_Place], *, is_folder: bool) -> bool:
    for rules, add, cut in reversed([*places]):
        decided = rules.decide(add + path[cut:], is_folder=is_folder)
        if decided is not None:
            return decided
    return False


def _why_not(entry: os.DirEntry[str], options: ReadOptions) -> str | None:
    any_ending = bool(options.include)
    suffixes = suffixes_of(entry.name)
    ending = "".join(suffixes[-2 if suffixes and suffixes[-1] in CODECS else -1 :])
    is_packed = bool(suffixes) and suffixes[-1] in CODECS
    kind = SUFFIXES.get(ending.removesuffix(suffixes[-1]) if is_packed else ending)
    if kind is None or (kind in LIBRARIES and find_spec(LIBRARIES[kind]) is None):
        return None if any_ending and kind is None else ending or "without a suffix"
    if options.rules < RULES and kind not in {*ROWS, "lines"} - {"json"}:
        return ending
    if (options.field_of_rows is not None and not any_ending and kind not in {*ROWS, "lines"}) or (
        is_packed and kind in ("json", "docx", "epub")  # an array? nor can archives be read
    ):
        return ending
    if is_packed or kind not in (*BY_LINE, "json", "notebook") or not entry.is_file():
        return None
    with reading(entry.path), open(entry.path, "rb", 0) as opened:  # noqa: PTH123 - quicker, for many files
        head = opened.read(HEAD)
    if kind == "json":
        return None if ARRAY_OF_OBJECTS.match(head) else ending
    return BINARY if b"\0" in head else None


def suffixes_of(name: str) -> list[str]:
    """Return the suffixes of a file name in lower case.

    The number of a shard, such as ``-00000-of-00010``, is removed from each suffix.
    """
    parts = name.rpartition("/")[2].lstrip(".").lower().split(".")  # quicker than Path.suffixes
    return [] if name.endswith(".") else [SHARD.sub("", f".{part}") for part in parts[1:]]
