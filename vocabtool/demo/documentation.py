"""The text that every Python has: its own documentation, as documents.

What ``help`` says on topics, and the docstrings of the standard library, which are read out of its
source files: nothing of it is imported or run, and ``python -OO`` does not strip them. Long texts
are cut into passages, ``topics.types#2``.
"""

from __future__ import annotations

import ast
import sysconfig
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from vocabtool.documents import Document
from vocabtool.errors import NotFound

MIN_CHARACTERS: Final = 60  # of a docstring: "Return x." says nothing
PASSAGE_WORDS: Final = 200  # of which a word that stands once is still a part
MAX_DOCUMENTS: Final = 10_000
MIN_DOCUMENTS: Final = 1_000  # that vectors of words can be made of
MAX_FILE_BYTES: Final = 4 << 20
# What others installed, and what tests the library instead of documenting it.
PASSED_OVER: Final = frozenset({"site-packages", "dist-packages", "test", "tests", "idle_test"})


def documentation(library: Path | None = None) -> tuple[Document, ...]:
    """What this Python says about itself, in a fixed order; ids are unique.

    ``library``: a folder other than its standard library.
    Raises :class:`NotFound` where that is too little to show anything with.
    """
    library = library or Path(sysconfig.get_path("stdlib"))
    documents: list[Document] = []
    with suppress(ImportError):  # a distribution may leave it out
        from pydoc_data.topics import topics

        for name in sorted(topics):
            documents += _passages(f"topics.{name}", topics[name].strip(), "topics")
    seen = set()
    for module, file in sorted(_modules(library)):
        for name, text in _docstrings(file, module):
            if len(text) >= MIN_CHARACTERS and name not in seen:
                seen.add(name)
                documents += _passages(name, text, module.partition(".")[0])
    if len(documents) < MIN_DOCUMENTS:
        raise NotFound(
            f"{library}: wanted Python's own documentation, {MIN_DOCUMENTS:,} texts or more, found "
            f"{len(documents):,}. Run the demo with a Python that has its standard library as .py "
            "files (python.org, a distribution's full package, pyenv, conda)"
        )
    return tuple(documents[:MAX_DOCUMENTS])


def _passages(name: str, text: str, module: str) -> Iterator[Document]:
    """A text below its name; a long one cut between paragraphs, each part below the name."""
    parts: list[list[str]] = [[]]
    words = 0
    for paragraph in text.split("\n\n"):
        words += len(paragraph.split())
        if parts[-1] and words > PASSAGE_WORDS:
            parts.append([])
            words = len(paragraph.split())
        parts[-1].append(paragraph)
    for number, part in enumerate(parts, 1):
        id_ = f"{name}#{number}" if len(parts) > 1 else name
        yield Document(id_, "\n\n".join([name, *part]), {"module": module})


def _modules(library: Path) -> Iterator[tuple[str, Path]]:
    for file in library.rglob("*.py"):
        inside = file.relative_to(library)
        if PASSED_OVER.isdisjoint(inside.parts) and file.stat().st_size <= MAX_FILE_BYTES:
            parts = inside.parent.parts if file.stem == "__init__" else inside.with_suffix("").parts
            yield ".".join(parts), file


def _docstrings(file: Path, module: str) -> Iterator[tuple[str, str]]:
    """The names that a file defines and their docstrings; of a file that is no Python, none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some files have escapes that Python warns of
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError):  # templates, and what lib2to3 translates
            return
    yield from _of_definition(tree, module)


def _of_definition(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    """A module or class and what stands in it, also below an ``if``; nothing inside functions."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        if text := ast.get_docstring(node):
            yield name, text
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _of_definition(inner, f"{name}.{inner.name}")
        elif isinstance(inner, ast.If | ast.Try | ast.ExceptHandler):
            yield from _of_definition(inner, name)
