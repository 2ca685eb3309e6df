"""Which files of a folder are read: git is the oracle of ``.gitignore``."""

from __future__ import annotations

import gzip
import os
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.documents.reading import write
from vocabtool.documents import ReadOptions, batches, left_out
from vocabtool.errors import InvalidFile, NotFound

ENVIRONMENT = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
PATHS = (
    *("a.md", "b.md", "a b.md", "aa.md", "#x.md", "!x.md", "[a].md", "docs/a.md", "docs/b.rst"),
    *("docs/deep/a.md", "docs/deep/er/c.md", "build/a.md", "build/docs/a.md", "deep/docs/x/b.md"),
)


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, env=ENVIRONMENT
    )
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working tree of git with files at several depths."""
    folder = tmp_path_factory.mktemp("tree")
    git(folder, "init", "-q")
    for path in PATHS:
        write(folder / path, "text\n")
    return folder


def read(folder: Path, root: Path, **options: object) -> list[str]:
    """The files of ``folder`` that are read, relative to ``root``."""
    try:
        rows = [*batches(str(folder), ReadOptions(**options))]  # type: ignore[arg-type] # some options
    except NotFound:  # all of its files are ignored
        rows = []
    places = {batch.place(row) for batch in rows for row in range(len(batch))}
    names = {Path(place.rpartition(":")[0]) for place in places}
    return sorted(name.relative_to(root).as_posix() for name in names)


def untracked(folder: Path) -> list[str]:
    listed = git(folder, "ls-files", "-z", "--others", "--exclude-standard").split("\0")
    return sorted(path for path in listed if path and "/." not in f"/{path}")


KNOWN = (
    *("*.md", "/a.md", "docs/", "docs/*\n!docs/a.md", "/*\n!/docs", "/*\n!/docs/\ndocs/deep/*"),
    *("**/deep", "docs/**", "docs/**/a.md", "a/**/b", "**/docs/**", "*\n!*/\n!*.rst", "[ab].md"),
    *("[!a].md", "[^a].md", "\\[a\\].md", "\\#x.md", "\\!x.md", "# comment", "a\\ b.md"),
    *("a b.md  ", "[a-", "[z-a].md", "?.md", "a?.md", "build\n!build/a.md", "*.md\n!docs/"),
    *("deep/docs", "d*s/*.md", "a*.md\n\n!aa.md\r", "**", "/", "//", "docs//a.md", "***/a.md"),
    *("[]a].md", "[a\\]].md", "do\\cs", "\ufeffa.md"),  # a byte order mark is no part
)


@pytest.mark.parametrize("rules", KNOWN)
def test_patterns_are_gits(tree: Path, rules: str) -> None:
    """Each feature of a pattern ignores the files that git ignores."""
    (tree / ".gitignore").write_bytes(rules.encode())
    assert read(tree, tree) == untracked(tree)


@pytest.mark.sampled(2)
@given(
    rules=st.lists(
        st.text(st.sampled_from("ab*?!/[]-docseprt.m \\"), min_size=1, max_size=10), max_size=4
    )
)
def test_any_patterns_are_gits(tree: Path, rules: list[str]) -> None:
    """Whatever the patterns."""
    (tree / ".gitignore").write_text("\n".join(rules))
    assert read(tree, tree) == untracked(tree)


def test_inner_and_outer_patterns(tree: Path, tmp_path: Path) -> None:
    """The innermost file decides; those above the folder count inside a working tree only."""
    (tree / ".gitignore").write_text("a.md\ndeep/\n")
    write(tree / "docs" / ".gitignore", "!a.md\n*.rst\n")
    try:
        assert read(tree, tree) == untracked(tree)
        wanted = [path for path in untracked(tree) if path.startswith("docs/")]
        assert read(tree / "docs", tree) == wanted == ["docs/a.md"]
        assert "docs/b.rst" in read(tree / "docs", tree, gitignore=False)
        assert left_out(tree / "docs") == (
            f"{tree / 'docs'}: 2 files and folders skipped, as .gitignore excludes them; "
            "--no-gitignore reads them",
        )
    finally:
        (tree / "docs" / ".gitignore").unlink()
    write(tmp_path / ".gitignore", "*.md\n")  # no working tree
    write(tmp_path / "x" / "a.md", "text\n")
    assert read(tmp_path / "x", tmp_path) == ["x/a.md"]


def test_include_and_exclude(tmp_path: Path) -> None:
    """Patterns choose among the files; those of unknown endings are read as lines."""
    for path in ("a.md", "b.py", "notes.org", "docs/c.md", "docs/deep/d.org", "old/e.md", ".f.md"):
        write(tmp_path / path, "one\ntwo\n")
    known = ["a.md", "b.py", "docs/c.md", "old/e.md"]
    assert read(tmp_path, tmp_path) == known
    assert read(tmp_path, tmp_path, exclude=["old/", "*.py"]) == ["a.md", "docs/c.md"]
    assert read(tmp_path, tmp_path, include=["*.org"]) == ["docs/deep/d.org", "notes.org"]
    assert read(tmp_path, tmp_path, include=["docs/"], exclude=["deep"]) == ["docs/c.md"]
    assert read(tmp_path, tmp_path, include=["/*.md", "b.*"]) == ["a.md", "b.py"]
    rows = batches(str(tmp_path), ReadOptions(include=["*.org"]))
    assert [text for batch in rows for text in batch.texts.to_pylist()] == ["one", "two"] * 2
    assert left_out(tmp_path, ReadOptions(exclude=["*.org"])) == ()
    with pytest.raises(NotFound, match="contains no documents"):
        list(batches(str(tmp_path), ReadOptions(include=["*.nothing"])))


def test_files_that_are_not_read(tmp_path: Path) -> None:
    """Binary files, JSON that is no array of objects, pipes, and links that lead elsewhere."""
    (tmp_path / "video.ts").write_bytes(b"G\0" * 100)
    (tmp_path / "late.c").write_bytes(b"int a;\n" * 2000 + b"\0")
    write(tmp_path / "package.json", '{"name": "x"}')
    write(tmp_path / "numbers.json", "[1, 2]")
    write(tmp_path / "rows.json", ' [ {"text": "a"}]')
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "inside.c").symlink_to("late.c")
    (tmp_path / "outside.md").symlink_to(Path(__file__))
    assert read(tmp_path, tmp_path) == ["inside.c", "late.c", "rows.json"]
    (note,) = left_out(tmp_path)
    for told in ("5 files skipped: 2 .json", "1 binary", "1 pipe or ", "1 link to outside"):
        assert told in note


def test_hostile_patterns(tmp_path: Path) -> None:
    """Many stars need no exponential time, and a file of patterns has a limit."""
    long, deep = f"{'a' * 250}.md", "a/" * 200 + "a.md"
    for name in (long, deep):
        write(tmp_path / name, "text")
    rules = ("*a" * 60 + "b", "**/a/" * 60 + "b", "[" * 1000, "(" * 1000 + "*")
    write(tmp_path / ".gitignore", "\n".join(rules))
    began = time.process_time()
    assert read(tmp_path, tmp_path) == [deep, long]
    assert time.process_time() - began < 5
    write(tmp_path / ".gitignore", "a\n" * 10_001)
    with pytest.raises(InvalidFile, match=r"\.gitignore: has more than .*--no-gitignore"):
        list(batches(str(tmp_path)))
    assert read(tmp_path, tmp_path, gitignore=False) == [deep, long]


def test_rows_with_fields_are_read_without_the_texts_beside_them(tmp_path: Path) -> None:
    """A folder of tables may have a README; compressed JSON is left out, as it may be no array."""
    write(tmp_path / "a.jsonl", '{"id": "x", "body": "b"}')
    write(tmp_path / "README.md", "# Read me")
    with gzip.open(tmp_path / "package.json.gz", "wt") as file:
        file.write('{"name": "x"}')
    options = ReadOptions(field="body", id_field="id")
    assert [batch.id_of(0) for batch in batches(str(tmp_path), options)] == ["x"]
    (note,) = left_out(tmp_path, options)
    assert "2 files skipped: " in note and "1 .md" in note and "1 .json.gz" in note
    assert "the field 'body'" in note and "omit --field and --id-field" in note
    assert "--field" not in left_out(tmp_path)[0]  # package.json.gz alone
    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(NotFound, match=r"end in \.jsonl [^)]*\.json\)\n.*1 \.md.*omit --field"):
        [*batches(str(tmp_path), ReadOptions(field="text"))]
    with pytest.raises(InvalidFile, match="has no field 'body'"):
        [*batches(str(tmp_path / "README.md"), options)]


def test_a_text_has_no_markup(tmp_path: Path) -> None:
    """What looks like reStructuredText in a .txt stays, but for the titles of its pieces."""
    text = "Title\n=====\nSee `World <http://x>`_ and :b:`x`."
    write(tmp_path / "a.txt", text)
    assert [row for batch in batches(tmp_path) for row in batch.texts.to_pylist()] == [text]
