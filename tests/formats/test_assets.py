"""Files beside a saved_model.pb: what is read of them, and what is refused and said."""

from __future__ import annotations

from pathlib import Path

import pytest

import vocabtool
from tests.builders import saved_model_bytes as b

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n"
LINES = b"".join(b"word%d\n" % number for number in range(12))
# The first piece <unk> with a score: how a SentencePiece model begins.
PIECE = b.field(1, b.field(1, b"<unk>") + b"\x15\0\0\0\0")
NOTHING = b.saved_model(b.graph(b.node(b"x", b"Placeholder")))


def table_from(filename: bytes) -> bytes:
    """A GraphDef with a table that is filled from a file."""
    whole = {"key_index": b.number(3, -2), "value_index": b.number(3, -1)}
    return b.graph(
        b.const(b"path", b.scalar_tensor(filename)),
        b.node(b"table", b"HashTableV2"),
        b.node(b"fill", b"InitializeTableFromTextFileV2", b"table", b"path", **whole),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model without words, and its empty folder of assets."""
    (tmp_path / "saved_model.pb").write_bytes(NOTHING)
    (tmp_path / "assets").mkdir()
    return tmp_path


def only_warning(folder: Path) -> str:
    (warning,) = vocabtool.inspect(folder).warnings
    return warning


def test_an_asset_that_was_not_fetched(folder: Path) -> None:
    """A pointer of Git LFS is no vocabulary, whether a table names it or not."""
    (folder / "assets" / "words.txt").write_bytes(POINTER)
    expected = "assets/words.txt: a pointer of Git LFS, not the file itself"
    assert only_warning(folder).startswith(expected)
    assert only_warning(folder).endswith("Fetch the file with `git lfs pull`.")
    (folder / "saved_model.pb").write_bytes(b.saved_model(table_from(b"words.txt")))
    assert f": {expected}" in only_warning(folder)
    assert vocabtool.vocabularies(folder) == ()


def test_assets_that_are_a_link(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """assets/ is not listed through a symbolic link, and that is said; so is each link in it."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (folder / "assets" / "words.txt").symlink_to(elsewhere / "words.txt")
    assert only_warning(folder).startswith("assets/words.txt: a symbolic link: it is not opened")
    (folder / "assets" / "words.txt").unlink()
    (folder / "assets").rmdir()
    (folder / "assets").symlink_to(elsewhere)
    assert only_warning(folder).startswith("assets: a symbolic link: it is not opened")


def test_what_may_not_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that may not be read is a warning, and does not hide the others."""
    (folder / "keras_metadata.pb").write_bytes(b"")
    (folder / "assets" / "a.txt").write_bytes(LINES)
    (folder / "assets" / "b.txt").write_bytes(LINES)
    read_bytes = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.name in ("keras_metadata.pb", "a.txt"):
            raise PermissionError(13, "Permission denied")
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    found = vocabtool.inspect(folder)
    assert found.warnings == (
        "keras_metadata.pb: Permission denied",
        "assets/a.txt: Permission denied",
    )
    assert [vocabulary.name for vocabulary in found.vocabularies] == ["b.txt"]


@pytest.mark.parametrize("content", [LINES, PIECE * 3])
@pytest.mark.parametrize("table", [False, True])
def test_a_file_larger_than_the_cap(
    content: bytes, table: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is too large is refused before it is read, whatever it looks like."""
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail("it was read"))
    if table:
        (folder / "saved_model.pb").write_bytes(b.saved_model(table_from(b"a")))
    with (folder / "assets" / "a").open("wb") as file:
        file.write(content * 10_000)
        file.truncate((1 << 30) + 1)  # a hole, which takes no disk
    assert "assets/a: larger than 1,073,741,824 bytes" in only_warning(folder)


def test_a_frozen_graph_reads_assets_beside_it(tmp_path: Path) -> None:
    """Passed as a file or by its folder, a frozen graph finds its assets beside the file."""
    folder = tmp_path / "model"
    for assets_, content in ((tmp_path, b"wrong\n"), (folder, b"right\n")):
        (assets_ / "assets").mkdir(parents=True)
        (assets_ / "assets" / "words.txt").write_bytes(content)
    (folder / "saved_model.pb").write_bytes(table_from(b"words.txt"))
    for path in (folder, folder / "saved_model.pb"):
        (vocabulary,) = vocabtool.vocabularies(path)
        assert vocabulary.tokens == ["right"]


@pytest.mark.parametrize(
    "node",
    [
        b.node(b"t", b"MutableHashTableV2"),
        b.node(b"v", b"VarHandleOp", dtype=b.number(6, b.STRING)),
    ],
)
def test_a_frozen_graph_has_no_checkpoint(node: bytes, tmp_path: Path) -> None:
    """Words that only a checkpoint can hold make a frozen graph incomplete."""
    (tmp_path / "frozen.pb").write_bytes(b.graph(node))
    assert only_warning(tmp_path / "frozen.pb") == (
        "words in variables or mutable tables are not read: a frozen graph has no checkpoint"
    )
