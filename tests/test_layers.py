"""Imports point one way: a part may import what stands above it in this table, never below."""

from __future__ import annotations

import ast
import builtins
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter

import pytest

import vocabtool
from tests.conftest import ROOT

PACKAGE = ROOT / "vocabtool"

# Each part of the package, and the parts that it may import.
ORDER = (
    *("errors", "choices", "system", "vocabulary", "formats", "documents", "tokenization"),
    *("streams", "oov", "comparison", "encoders", "embedding", "keywords", "search", "index"),
    *("evaluation", "__init__", "integrations", "reports", "serve", "cli"),
    "__main__",
)
HEAVY = (
    *("tensorflow", "faiss", "pyarrow", "tantivy", "ray", "google.protobuf", "rich", "matplotlib"),
    *("sentencepiece", "re2", "regex", "unicodedataplus", "tokenizers", "pandas"),
    *("langchain_core", "haystack", "llama_index"),
)


# What reads models: an index opens sooner without.
READING = tuple(f"vocabtool.{name}" for name in ("formats.registry", "formats.gguf"))
READING += ("vocabtool.tokenization.infer_rule",)


@cache
def imports() -> dict[str, set[str]]:
    """Of each module of the package, the modules of the package that it imports anywhere."""
    trees = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path.read_bytes()
        for path in PACKAGE.rglob("*.py")
    }
    found: dict[str, set[str]] = {}
    for name, source in trees.items():
        others = set()
        for node in ast.walk(ast.parse(source)):
            for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
                home = node.module or "" if isinstance(node, ast.ImportFrom) else alias.name
                meant = (f"{home}.{alias.name}", home, f"{home}.__init__")
                others.add(next((module for module in meant if module in trees), ""))
        short = name.removeprefix("vocabtool.")
        found[short] = {other.removeprefix("vocabtool.") for other in others - {""}}
    return found


def test_parts_and_public_names() -> None:
    """Each part once, and none that is not there; public is what the package says it exports."""
    assert sorted(ORDER) == sorted({name.partition(".")[0] for name in imports()})
    assert [name for name in vocabtool.__all__ if not hasattr(vocabtool, name)] == []
    assert set(dir(vocabtool)) == {*vocabtool.__all__, "__version__", "eval", "list", "open"}
    assert not {*dir(builtins)} & {*vocabtool.__all__}  # `import *` would take Python's own away
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = vocabtool.nonsense


@pytest.mark.parametrize("part", ORDER)
def test_imports_point_up(part: str) -> None:
    """A part imports only from parts before its own; the public names may come from anywhere."""
    wrong = {
        (name, other)
        for name, others in imports().items()
        for other in others
        if name.partition(".")[0] == part != other.partition(".")[0]
        and part != "__init__"
        and ORDER.index(other.partition(".")[0]) > ORDER.index(part)
    }
    assert wrong == set()

    # and in no circle: each can be read alone, after those that it imports
    inside = {
        name: {other for other in others if other.partition(".")[0] == part and other != name}
        for name, others in imports().items()
        if name.partition(".")[0] == part
    }
    TopologicalSorter(inside).prepare()


@pytest.mark.parametrize(
    ("statement", "modules"),
    [
        *(("import vocabtool", HEAVY), ("import vocabtool.cli.main", HEAVY)),
        ("import vocabtool; vocabtool.extract('data/sentence_encoder')", HEAVY),
        ("from vocabtool import Index", READING),
    ],
)
def test_what_is_imported_on_use(statement: str, modules: tuple[str, ...]) -> None:
    """Heavy libraries, also after an extraction; by an index what reads models."""
    code = f"{statement}\nimport sys\nprint(*(m for m in {modules!r} if m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.split() == []


def test_contributing_names_what_is_there() -> None:
    """Each package and file of the package that CONTRIBUTING.md names is there."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    paths = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")}
    named = set(re.findall(r"`([a-z_/]+\.py)`", text))
    assert len(named) > 40
    gone = {name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in paths)}
    tests = {path.name for path in (ROOT / "tests").rglob("*.py")}
    assert {name for name in gone if name.rpartition("/")[2] not in tests} == set()
    packages = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert packages <= set(re.findall(r"\b([a-z]+)/", text))
