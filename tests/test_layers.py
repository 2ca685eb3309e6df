"""Imports point one way: a part may import what stands above it in this table, never below."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

import vocabtool
from tests.conftest import ROOT

PACKAGE = ROOT / "vocabtool"

# From the core to the edges. Files in one row may not import each other.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors",),
    ("byte_strings",),
    ("vocabulary",),
    ("model", "vocabulary_files.facts"),
    (
        "vocabulary_files.text",
        "vocabulary_files.json_file",
        "vocabulary_files.csv_file",
        "vocabulary_files.parquet_file",
    ),
    ("vocabulary_files.__init__",),
    ("formats.wire", "formats.saved_model_schema", "formats.string_chains"),
    ("formats.wire_arrays", "formats.flatbuffer", "formats.double_array", "formats.pieces"),
    ("formats.tensors", "formats.text_file", "formats.text_format", "formats.hub_cache"),
    ("formats.leveldb_table", "formats.sentencepiece", "formats.text_tokenizers"),
    ("formats.checkpoint", "formats.keras_metadata", "formats.graph", "formats.object_graph"),
    ("formats.meta_graph",),
    ("formats.linking",),
    ("formats.lookups", "formats.constants", "formats.graph_tokenizers"),
    ("formats.fills", "formats.assets"),
    ("formats.tables", "formats.saved_tables"),
    ("formats.saved_model",),
    ("formats.detect",),
    ("extraction", "inspection"),
    ("__init__", "formats.__init__"),
    ("cli",),
    ("__main__",),
)
HEAVY = ("tensorflow", "faiss", "pyarrow", "tantivy", "ray", "google.protobuf", "rich")


def files() -> dict[str, ast.Module]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found[name] = ast.parse(path.read_text("utf-8"))
    return found


def imported(tree: ast.Module, known: set[str]) -> set[str]:
    """The files of the package that a file imports, at its top or inside a function."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    inside = {name.removeprefix("vocabtool.") for name in names if name.startswith("vocabtool")}
    return inside & known | ({"__init__"} if "vocabtool" in names else set())


def test_the_public_names() -> None:
    """What the package says it exports is there, and nothing else is public."""
    assert [name for name in vocabtool.__all__ if not hasattr(vocabtool, name)] == []
    assert set(dir(vocabtool)) == {*vocabtool.__all__, "__version__"}
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = vocabtool.nonsense


def test_every_file_is_in_the_table() -> None:
    """The table names each file once, and no file that is not there."""
    listed = [name for row in LAYERS for name in row]
    assert sorted(listed) == sorted(files())


@pytest.mark.parametrize("name", sorted(files()))
def test_imports_point_up(name: str) -> None:
    """A file imports only from rows above its own."""
    layer = {file: row for row, names in enumerate(LAYERS) for file in names}
    trees = files()
    wrong = {
        other
        for other in imported(trees[name], set(layer))
        if layer[other] >= layer[name] and name != "__init__"
    }
    assert wrong == set()


@pytest.mark.parametrize(
    "statement",
    [
        "import vocabtool",
        "import vocabtool; vocabtool.extract('data/sentence_encoder')",
        "import vocabtool.cli",
    ],
)
def test_heavy_libraries_are_imported_on_use(statement: str) -> None:
    """Neither the import nor an extraction loads TensorFlow, FAISS, pyarrow, tantivy or Ray."""
    code = f"{statement}\nimport sys\nprint(*sorted(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.split() == []
