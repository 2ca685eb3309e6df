"""Damaged, foreign and hostile files: an error that names the file, or the same answers as before.

Each file of an index is cut, emptied, removed, overwritten bit by bit, and swapped with another's.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.builders.small_indexes import (
    DIM,
    WORDS,
    answers,
    contents,
    documents,
    refused,
    vectors,
)
from tests.conftest import ROOT
from vocabtool.documents.reading import Document
from vocabtool.errors import NotFound, VocabtoolError
from vocabtool.index import folder
from vocabtool.index import manifest as manifests
from vocabtool.index.index import Index
from vocabtool.index.manifest import FORMAT, Manifest

ROWS: Final = 200
FLIPS, ALL_FLIPS = 4, 200  # of each file
Answers = dict[Any, Any]


def build(path: Path, docs: list[Document], words: Sequence[str]) -> None:
    """An index with a file of every kind: several segments and documents, codes, deleted rows."""
    model = path.with_suffix(".txt")
    rows = zip(words, vectors(range(len(words))), strict=True)
    model.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in rows))
    texts = [each.text for each in docs]
    index = Index.create(path, model, weights="idf", sample=texts, rule="lower", exact_below=100)
    for start, stop in ((0, 150), (150, len(docs))):
        with index.writer() as writer:
            writer.add(docs[start:stop], vectors(range(start, stop), len(words)))
    with index.writer() as writer:
        writer.delete([docs[len(words)].id, docs[77].id])


def others() -> list[Document]:
    """As many documents, all different."""
    return [
        Document(f"e{each.id}", each.text + " zebra" * (number % 3 + 1), each.fields)
        for number, each in enumerate(documents(range(ROWS), 1))
    ]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two indexes of the same shape, of different documents."""
    path = tmp_path_factory.mktemp("two")
    build(path / "one", documents(range(ROWS)), WORDS)
    build(path / "other", others()[7:] + others()[:7], [*WORDS, "zebra"])
    return path / "one", path / "other"


@pytest.fixture(scope="module")
def right(two: tuple[Path, Path]) -> Answers:
    """What the first one answers."""
    index = Index.open(two[0])
    assert index.verify().approximate
    return answers(index)


SOURCES: Final = ("manifest.json", "vectors.bin", "hashes.bin", "documents-", "deleted-")
OURS: Final = (*SOURCES, "codes-")
READ: Final = ("manifest.json", "deleted-")  # by every writer


def files_of(path: Path) -> list[Path]:
    """Its files, by name: all but the locks, which are empty."""
    return sorted(
        each for each in path.rglob("*") if each.is_file() and not each.name.endswith(".lock")
    )


KINDS: Final = (
    "manifest.json",
    "vocabulary-",
    "weights-",
    "vectors.bin",
    "hashes.bin",
    "documents-",
    "deleted-",
    "codes-",
    "meta.json",
    ".fast",
    ".fieldnorm",
    ".idx",
    ".pos",
    ".store",
    ".term",
)


def of_kind(path: Path, kind: str) -> Path:
    """The first file of a kind."""
    return next(each for each in files_of(path) if kind in each.name)


@contextmanager
def written(file: Path, data: bytes | None) -> Iterator[None]:
    """Other content during the block; ``None``: no file."""
    before = file.read_bytes()
    file.unlink()  # another file, as tests that run before may have this one mapped
    if data is not None:
        file.write_bytes(data)
    try:
        yield
    finally:
        if file.exists() or data is None:
            file.write_bytes(before)


def whole(path: Path) -> Index:
    """The index, opened and looked at."""
    index = Index.open(path)
    index.verify()
    return index


def named(file: Path) -> str:
    """What an error has to name; for the manifest, without which there is no index, the folder."""
    return file.parent.name if file.name == "manifest.json" else file.name


def test_every_file_of_the_folder_is_read(two: tuple[Path, Path], full: bool) -> None:
    """Whatever lies there: a flipped bit anywhere, its first and last byte too, a byte more or
    less, no content, other content, or no file. ``verify`` says which file it is.

    Rows behind those of the commit are no damage: a writer that was killed leaves them.
    """
    appended = ("vectors.bin", "hashes.bin")
    files = files_of(two[0])
    assert all(any(kind in file.name for file in files) for kind in KINDS)
    for file in files:
        data, draw = file.read_bytes(), random.Random(file.suffix)
        places = {0, len(data) - 1, *draw.choices(range(len(data)), k=ALL_FLIPS if full else FLIPS)}
        flipped = [
            data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :] for at in places
        ]
        half = data[: len(data) // 2]
        for other in (*flipped, b"", half, data[:-1], b"\0" + data[:-1], data + b"\0", None):
            with written(file, other):
                if other == data + b"\0" and file.name.startswith(appended):
                    assert whole(two[0])
                else:
                    refused(lambda: whole(two[0]), named(file))


def test_other_files_in_the_folder_are_told(two: tuple[Path, Path], tmp_path: Path) -> None:
    """They are nobody's damage, and nobody reads them."""
    path = tmp_path / "index"
    shutil.copytree(two[0], path)
    (path / "notes.txt").write_text("mine")
    (path / "generation-000000" / "keywords" / ("0" * 32 + ".term")).write_bytes(b"left")
    (path / ".lock").write_text("nothing is read of it")
    assert Index.open(path).verify().others == (
        f"generation-000000/keywords/{'0' * 32}.term",
        "notes.txt",
    )


def test_damage_is_an_error_of_ours_before_anybody_verifies(
    two: tuple[Path, Path], full: bool
) -> None:
    """Opened and searched in a process that is not to die: no traceback, whatever file it is.

    Only vectors and documents, too long to be read whenever an index is opened, may answer wrongly.
    """
    flips = ALL_FLIPS if full else 2 * FLIPS
    command = [sys.executable, "-m", "tests.index_flips", str(two[0]), str(flips)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    assert told["escaped"] == []
    assert {name.partition(".")[0].partition("-")[0] for name in told["other_answers"]} <= {
        "vectors",
        "documents",
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_another_index_is_named(two: tuple[Path, Path], kind: str) -> None:
    """Although it is whole, and of the same shape."""
    file = of_kind(two[0], kind)
    theirs = (each.read_bytes() for each in files_of(two[1]) if kind in each.name)
    foreign = next(data for data in theirs if data != file.read_bytes())
    with written(file, foreign), pytest.raises(VocabtoolError) as caught:
        whole(two[0])
    told = str(caught.value)
    if kind in ("manifest.json", "meta.json"):  # what they name is not there
        assert str(two[0]) in told
    else:
        assert file.name in told


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_damaged_is_never_written_on(
    two: tuple[Path, Path], kind: str, tmp_path: Path
) -> None:
    """Compacting makes codes and keywords anew, and refuses where documents or vectors are damaged.

    Either way no document changes, and no checksum is made of what is damaged.
    """
    path = tmp_path / "index"
    shutil.copytree(two[0], path)
    index = Index.open(path)
    held, file = contents(index), of_kind(path, kind)
    data = file.read_bytes()
    middle = len(data) // 2
    with written(file, data[:middle] + bytes([data[middle] ^ 16]) + data[middle + 1 :]):
        if kind in SOURCES:
            refused(index.compact, named(file))
            refused(lambda: delete(index, "d10"), named(file)) if kind in READ else None
            refused(lambda: whole(path), named(file))
        else:
            with suppress(VocabtoolError):  # where the keyword leg cannot be opened
                index.compact()
    assert contents(whole(path)) == held
    delete(Index.open(path), "d10")  # nothing is locked
    assert {*contents(whole(path))} == {*held} - {"d10"}


def delete(index: Index, id_: str) -> None:
    """Delete a document."""
    with index.writer() as writer:
        assert writer.delete([id_]) == 1


# Manifests that no writer wrote, with checksums that fit


def forged(told: dict[str, Any]) -> bytes:
    """A manifest as a file, whatever is in it."""
    told = {name: told[name] for name in told if name != "crc32c"}
    return json.dumps({**told, "crc32c": manifests._crc(told)}, indent=1).encode() + b"\n"


HUGE: Final = (1 << 61, 1 << 64, 10**30)
WRONG: Final[tuple[object, ...]] = (-1, 1.5, 1e300, "1", None, [], {}, True, float("nan"), *HUGE)
NUMBERS: Final = (
    ("commit",),
    ("generation",),
    ("rows",),
    ("words",),
    ("coded",),
    ("code_commit",),
    ("configuration", "dim"),
    ("configuration", "recall"),
    ("configuration", "exact_below"),
    ("configuration", "memory"),
    ("deleted", 0),
    ("deleted", 1),
    ("vectors", 0),
    ("vectors", 1),
    ("documents", 0, 0),
    ("documents", 0, 1),
    ("documents", 0, 2),
    ("keywords", "meta.json"),
    ("model_files", "weights.json"),
    ("codes", "dim"),
    ("codes", "lists"),
    ("codes", "probes"),
    ("codes", "candidates"),
    ("codes", "coded"),
    ("codes", "recall"),
    ("codes", "seconds"),
)


def put(told: Any, place: tuple[Any, ...], value: object) -> Any:
    """A copy with another value at a place."""
    copy = json.loads(json.dumps(told))
    inner = copy
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    return copy


def differs_in_the_open(index: Index, held: Manifest) -> bool:
    """Whether a forged manifest that opens is one that could be true."""
    found = index.manifest
    return (
        found == held
        or replace(
            found,
            configuration=held.configuration,
            codes=held.codes,
            commit=held.commit,
            code_commit=held.code_commit,
            words=held.words,
        )
        == held
    )


@pytest.mark.parametrize("place", NUMBERS, ids=lambda place: ".".join(map(str, place)))
def test_impossible_numbers_are_no_manifest(two: tuple[Path, Path], place: tuple[Any, ...]) -> None:
    """Nothing else than an error of ours, and no memory by what a file promises.

    A number that may be true (a commit of any number, say) opens, and answers.
    """
    file = two[0] / "manifest.json"
    told, held = json.loads(file.read_bytes()), Index.open(two[0]).manifest
    for value in WRONG:
        with written(file, forged(put(told, place, value))):
            try:
                index = Index.open(two[0])
                index.verify()
                answers(index)
            except VocabtoolError as error:
                assert str(two[0]) in str(error)
                continue
        assert type(value) in (int, float, type(None)), (place, value)
        assert differs_in_the_open(index, held), (place, value)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", "..", "", "a" * 300, "\0", 5, None])
def test_names_in_a_manifest_lead_nowhere(two: tuple[Path, Path], name: Any) -> None:
    """Paths are made of numbers."""
    file = two[0] / "manifest.json"
    told = json.loads(file.read_bytes())
    code = next(iter(told["code_files"].values()))
    forgeries = (
        put(told, ("index",), name),
        {**told, "keywords": {str(name): 1}},
        {**told, "model_files": {str(name): 1}},
        {**told, "code_files": {str(name): code}},
        put(told, ("documents", 0, 0), name),
        put(told, ("deleted", 0), name),
        put(told, ("configuration", "metric"), name),
        put(told, ("configuration", "language"), name),
        put(told, ("configuration", "options"), {str(name): "x"}),
        {**told, str(name): 1},
    )
    for forgery in forgeries:
        with written(file, forged(forgery)):
            refused(lambda: Index.open(two[0]), str(two[0]))


@pytest.mark.parametrize(
    "model",
    [
        *("x" * 5000, "a\0b", "https://tfhub.dev/google/nnlm/1", "words.txt", "static:words.txt"),
        *("python:os:getcwd", "python:/", "static:a\0b"),
    ],
)
def test_a_model_in_a_manifest_leads_nowhere(two: tuple[Path, Path], model: str) -> None:
    """Unless it is a whole path to what is there."""
    file = two[0] / "manifest.json"
    told = json.loads(file.read_bytes())
    with written(file, forged(put(told, ("configuration", "model"), model))):
        index = Index.open(two[0])
        with pytest.raises(NotFound, match="name the model") as caught:
            index.search("amber")
        assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"null",
        b"{}",
        b"[" * 100_000,
        b'{"vocabtool_index": 4, "crc32c": 0}',
        b'{"vocabtool_index": 3, "crc32c": 0}',
        b'{"name": "my web page"}',
        b"\xff\xfe",
        b"1" * 10_000,
    ],
    ids=repr,
)
def test_what_is_no_manifest_is_refused(two: tuple[Path, Path], data: bytes) -> None:
    """Whatever JSON it is, or none."""
    with written(two[0] / "manifest.json", data[:200_000]):
        refused(lambda: Index.open(two[0]), "manifest.json")


def test_another_version_says_so(two: tuple[Path, Path]) -> None:
    """So that nobody thinks that the file is damaged."""
    file = two[0] / "manifest.json"
    told = json.loads(file.read_bytes())
    for version in (1, 2, FORMAT + 1):
        with written(file, forged({**told, "vocabtool_index": version})):
            refused(
                lambda: Index.open(two[0]),
                f"by another vocabtool: version {version}, wanted {FORMAT}",
            )


# What a writer that is killed leaves behind


def leave(path: Path) -> None:
    """Rows, files and folders that no commit holds, as of a writer that was killed."""
    index = Index.open(path)
    manifest = index.manifest
    files = folder.generation(path, manifest.generation)
    held = (path / folder.MANIFEST).read_bytes()
    with index.writer() as writer:  # its files stay, its manifest does not
        writer.add(documents(range(500, 560)), vectors(range(500, 560)))
        kept = {each: each.read_bytes() for each in files_of(path)}
    for file, data in kept.items():
        if not file.exists():
            file.write_bytes(data)
    (path / folder.MANIFEST).write_bytes(held)
    for name in (
        "documents.part",
        "codes-000099.faiss",
        "deleted-000099.bits",
        ".vocabtool-ab.tmp",
    ):
        (files / name).write_bytes(b"left")
    with (files / "vectors.bin").open("ab") as end:
        end.write(b"half a row")
    with of_kind(path, "codes-").open("ab") as end:
        end.write(b"more codes")
    later = folder.generation(path, manifest.generation + 1)
    shutil.copytree(files, later)
    (path / ".vocabtool-cd.tmp").write_bytes(b"left")


def test_what_a_killed_writer_left_is_seen_by_nobody(
    two: tuple[Path, Path], tmp_path: Path
) -> None:
    """The same documents, and vectors at the same distances; ``verify`` finds nothing wrong.

    Keywords weigh by a frequency that may count rows of the killed commit, so their scores move a
    little; which documents hold a word does not.
    """
    path = tmp_path / "index"
    shutil.copytree(two[0], path)
    before = Index.open(path)
    wanted, held = answers(before), contents(before)
    leave(path)
    left = whole(path)
    assert contents(left) == held
    assert left.get("d500") is None
    found = answers(left)
    for key, hits in wanted.items():
        if key[1] == "dense":
            assert found[key] == hits
        if key[1] == "keyword":
            assert [score for _, score in found[key]] == pytest.approx(
                [score for _, score in hits], rel=0.3
            )
    every = {hit.id for hit in left.search("amber", k=500, fusion="keyword")}
    assert every == {id_ for id_, each in held.items() if "amber" in each.text}
    assert not left.search("only00510", k=500, fusion="keyword")
    with left.writer() as writer:
        writer.add(documents([600]), vectors([600]))
    fresh = Index.open(two[0])
    shutil.copytree(two[0], tmp_path / "fresh")
    fresh = Index.open(tmp_path / "fresh")
    with fresh.writer() as writer:
        writer.add(documents([600]), vectors([600]))
    assert contents(left) == contents(fresh)
    names = {each.name for each in files_of(path) if each.parent.name != "keywords"}
    assert names == {
        each.name for each in files_of(tmp_path / "fresh") if each.parent.name != "keywords"
    }
    assert sorted(each.name for each in path.iterdir() if each.is_dir()) == ["generation-000000"]
    assert (of_kind(path, "vectors.bin")).stat().st_size == 2 * DIM * (ROWS + 1)
    assert whole(path).manifest.rows == ROWS + 1
    rows = [row for row, _ in left.snapshot().keywords.rows_and_ids()]
    assert sorted(rows) == [*range(ROWS + 1)]
    left.compact()
    fresh.compact()
    assert answers(left) == answers(fresh)


def test_a_killed_compaction_is_done_again(two: tuple[Path, Path], tmp_path: Path) -> None:
    """Over what it left, whatever that is."""
    path = tmp_path / "index"
    shutil.copytree(two[0], path)
    half = folder.generation(path, 1)
    half.mkdir()
    (half / "vectors.bin").write_bytes(b"half")
    (half / "keywords").mkdir()
    (half / "keywords" / "meta.json").write_bytes(b"half")
    index = whole(path)
    held = contents(index)
    assert index.compact() == 2
    assert contents(index) == held
    assert sorted(each.name for each in path.iterdir() if each.is_dir()) == ["generation-000001"]
    assert whole(path).manifest.rows == ROWS - 2


def test_a_writer_that_finds_damage_holds_no_lock(two: tuple[Path, Path], tmp_path: Path) -> None:
    """The same process writes once the file is back."""
    path = tmp_path / "index"
    shutil.copytree(two[0], path)
    index = Index.open(path)
    for kind in ("deleted-", "vectors.bin", "meta.json"):
        file = of_kind(path, kind)
        with written(file, b""):
            refused(lambda: index.writer().__enter__(), file.name)
    delete(index, "d10")
    assert index.verify().documents == ROWS - 3
