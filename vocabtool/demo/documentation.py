"""The text that every Python has: its own documentation, as documents.

What `help` says on topics, and the docstrings of the standard library, which are read out of its
source files: nothing of it is imported or run. So docstrings are there under ``python -OO``, too.
Long texts are cut into passages, ``topics.types#2``. What is made of the documents is not known
here.
"""

from __future__ import annotations

import ast
import sys
import sysconfig
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from vocabtool.documents.reading import Document
from vocabtool.errors import NotFound

SHORTEST: Final = 60  # characters of a docstring: "Return x." says nothing
PASSAGE: Final = 200  # words of a passage, of which a word that stands once is still a part
MOST: Final = 10_000  # documents
FEWEST: Final = 1_000  # that vectors of words can be made of
LARGEST: Final = 4 << 20  # bytes of a source file
# What others installed, and what tests the library instead of documenting it.
LEFT_OUT: Final = frozenset({"site-packages", "dist-packages", "test", "tests", "idle_test"})
STRIPPED: Final = (
    "this Python runs with -OO, which strips docstrings; "
    "they are read from the source files instead"
)
NO_SOURCES: Final = (
    "this Python comes without the source files of its standard library (or with few of them), "
    "so there are no docstrings to read"
)
NO_TOPICS: Final = "this Python comes without the texts of `help` (pydoc_data), so they are missing"

Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Documentation(NamedTuple):
    """``documents``: in a fixed order, ids are unique; ``notes``: what is missing, and why."""

    documents: tuple[Document, ...]
    notes: tuple[str, ...]


def documentation(library: Path | None = None) -> Documentation:
    """What this Python says about itself; ``library``: a folder other than its standard library.

    Raises :class:`NotFound` where that is too little to show anything with.
    """
    library = library or Path(sysconfig.get_path("stdlib"))
    documents = [*_help_topics(_topics()), *_docstrings(library)][:MOST]
    notes = tuple(_notes(documents))
    if len(documents) < FEWEST:
        said = "".join(f"\n  - {note}" for note in notes)
        raise NotFound(
            f"{library}: wanted Python's own documentation, {FEWEST:,} texts or more, found "
            f"{len(documents):,}:{said}\nRun the demo with a Python that has its standard library "
            "as .py files (python.org, a distribution's full package, pyenv, conda)"
        )
    return Documentation(tuple(documents), notes)


def _notes(documents: list[Document]) -> Iterator[str]:
    if sys.flags.optimize >= 2:
        yield STRIPPED
    if not any(document.id.startswith("topics.") for document in documents):
        yield NO_TOPICS
    if sum(not document.id.startswith("topics.") for document in documents) < FEWEST:
        yield NO_SOURCES


def _topics() -> Mapping[str, str]:
    """What `help` says on a topic; a distribution may leave it out."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        return {}
    return topics


def _help_topics(topics: Mapping[str, str]) -> Iterator[Document]:
    for name in sorted(topics):
        yield from _passages(f"topics.{name}", topics[name].strip(), "topics")


def _docstrings(library: Path) -> Iterator[Document]:
    """Of what is defined twice under one name the first."""
    seen = set()
    for file, module in _modules(library):
        top = module.partition(".")[0]
        for name, text in _described(file, module):
            if len(text) >= SHORTEST and name not in seen:
                seen.add(name)
                yield from _passages(name, text, top)


def _passages(name: str, text: str, module: str) -> Iterator[Document]:
    """A text below its name; a long one cut between paragraphs, each part below the name."""
    parts: list[list[str]] = [[]]
    words = 0
    for paragraph in text.split("\n\n"):
        words += len(paragraph.split())
        if parts[-1] and words > PASSAGE:
            parts.append([])
            words = len(paragraph.split())
        parts[-1].append(paragraph)
    for number, part in enumerate(parts, 1):
        id_ = f"{name}#{number}" if len(parts) > 1 else name
        yield Document(id_, "\n\n".join([name, *part]), {"module": module})


def _modules(library: Path) -> list[tuple[Path, str]]:
    """The source files of a folder with their modules' names, by name."""
    found = []
    for file in library.rglob("*.py"):
        inside = file.relative_to(library)
        if LEFT_OUT.isdisjoint(inside.parts):
            parts = inside.parent.parts if file.stem == "__init__" else inside.with_suffix("").parts
            found.append((file, ".".join(parts)))
    return sorted(found, key=lambda pair: pair[1])


def _described(file: Path, module: str) -> Iterator[tuple[str, str]]:
    """The names that a file defines and their docstrings; of a file that is no Python, none."""
    if file.stat().st_size > LARGEST:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some files have escapes that Python warns of
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError):  # templates, and what lib2to3 translates
            return
    for name, definition in _definitions(tree, module):
        text = ast.get_docstring(definition)
        if text:
            yield name, text


def _definitions(definition: Definition, name: str) -> Iterator[tuple[str, Definition]]:
    """A module or class and what stands in it, also below an ``if``; nothing inside functions."""
    yield name, definition
    if isinstance(definition, ast.Module | ast.ClassDef):
        for inner in _inner(definition.body):
            yield from _definitions(inner, f"{name}.{inner.name}")


def _inner(
    statements: list[ast.stmt],
) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    for statement in statements:
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement
        elif isinstance(statement, ast.If | ast.Try):
            handlers = statement.handlers if isinstance(statement, ast.Try) else []
            inside = [*statement.body, *statement.orelse]
            yield from _inner([*inside, *(line for each in handlers for line in each.body)])
