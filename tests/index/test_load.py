"""Documents loaded from files, each there once, and kept up to date; nothing is done in vain."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from tests import counted_letters
from tests.builders.small_indexes import add, contents, counts, delete, ids, texts, write_rows
from vocabtool import (
    Document,
    FolderNotEmpty,
    Index,
    InvalidFile,
    LoadReport,
    NotFound,
    OperatorFailed,
    OtherModel,
    VocabtoolError,
    embed,
    open_encoder,
)
from vocabtool.documents import ReadOptions, batches

DIM: Final = counted_letters.DIM
DOCUMENTS: Final = 5000


LONG = " x" * 500  # behind texts of which a thousand are to be read together
asked_of: list[str] = []
fails_at: list[str] = []


def noting(texts: Sequence[str]) -> NDArray[np.float32]:
    """Counts letters and notes each text, but for the one that asks how long a vector is."""
    for text in texts:
        if text in fails_at:
            raise RuntimeError(f"failed at {text}")
    asked_of.extend(text for text in texts if text != "How long is a vector?")
    return counted_letters.encode(texts)


noting.fingerprint = "counted letters"  # type: ignore[attr-defined]  # how a callable tells its version


@pytest.fixture(autouse=True)
def nothing_noted() -> None:
    """Each test starts with a sound encoder."""
    asked_of.clear()
    fails_at.clear()


def before_the_block_of(number: int, path: Path) -> int:
    """How many documents of a file come before the block that a document is in."""
    read = batches(path, ReadOptions(id_field="id"), size=1 << 20)
    starts = [0, *accumulate(len(batch) for batch in read)]
    assert len(starts) > 2  # else the test tests nothing
    return max(start for start in starts if start <= number)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_load_that_stops_is_gone_on_with(tmp_path: Path, threads: int) -> None:
    """What was committed stays, the same call goes on: every document once, in order.

    Nothing is encoded again but what came after the last commit.
    """
    all_texts = counted_letters.write_corpus(tmp_path / "x.jsonl", DOCUMENTS, LONG)
    index = Index.create(tmp_path / "index", noting, exact_below=2000)
    load: dict[str, Any] = {"id_field": "id", "keep": ["n"], "commit_rows": 1, "threads": threads}
    fails_at.append(all_texts[3500])
    named = r"^d\d+ to d\d+: the model raised RuntimeError: failed at document 3500"
    with pytest.raises(OperatorFailed, match=named):
        index.load(tmp_path / "x.jsonl", **load)
    stopped = Index.open(tmp_path / "index")
    held = len(stopped)
    assert before_the_block_of(3500, tmp_path / "x.jsonl") <= held <= 3500
    assert {*texts(stopped)} == {f"d{number}" for number in range(held)}
    assert stopped.verify().documents == held
    fails_at.clear()
    asked_of.clear()
    again = Index.open(tmp_path / "index", noting)
    report = again.load(tmp_path / "x.jsonl", **load)
    assert (report.read, report.resumed, report.added) == (DOCUMENTS, held, DOCUMENTS - held)
    new = [text for text in asked_of if text not in all_texts[:held]]
    assert sorted(new) == sorted(all_texts[held:])
    assert len(asked_of) - len(new) == 8  # the canaries
    assert texts(again) == {f"d{number}": text for number, text in enumerate(all_texts)}
    assert again.verify().approximate
    stored = again.snapshot().ids(np.arange(DOCUMENTS))
    assert stored == [f"d{number}" for number in range(DOCUMENTS)]
    for number in (0, held - 1, held, DOCUMENTS - 1):
        found = again.snapshot().take(np.array([number]))[0]
        wanted = counted_letters.encode([all_texts[number]])[0]
        assert found == pytest.approx(wanted / np.linalg.norm(wanted), abs=1e-3)


def test_the_first_texts_are_few(tmp_path: Path) -> None:
    """A kill must not lose much though nobody knows yet how slow the encoder is."""
    sizes = []

    def counted(texts: list[str]) -> Any:
        sizes.append(len(texts))
        return counted_letters.encode(texts)

    index = Index.create(tmp_path / "index", open_encoder(counted, fingerprint="counted"))
    sizes.clear()
    counted_letters.write_corpus(tmp_path / "x.jsonl", 2000)
    index.load(tmp_path / "x.jsonl", id_field="id", threads=1)
    assert (sizes[0], sum(sizes)) == (4, 2000)


def stop_half_way(tmp_path: Path, **options: Any) -> tuple[Index, list[str]]:
    """An index with the first of 2000 documents, up to some before the 1500th."""
    all_texts = counted_letters.write_corpus(tmp_path / "x.jsonl", 2000, LONG)
    index = Index.create(tmp_path / "index", noting)
    fails_at.append(all_texts[1500])
    with pytest.raises(OperatorFailed, match="failed at"):
        index.load(tmp_path / "x.jsonl", id_field="id", commit_rows=1, threads=1, **options)
    fails_at.clear()
    asked_of.clear()
    return Index.open(tmp_path / "index", noting), all_texts


def append(tmp_path: Path) -> dict[str, Any]:
    with (tmp_path / "x.jsonl").open("a") as file:
        file.write('{"id": "new", "text": "new"}\n')
    os.utime(tmp_path / "x.jsonl", (time.time() + 9,) * 2)  # later than the load began
    return {"id_field": "id"}


@pytest.mark.parametrize(
    "change",
    [append, lambda path: {}, lambda path: {"id_field": "id", "keep": ["n"]}],
    ids=["longer", "other ids", "other fields"],
)
def test_another_load_is_refused_while_one_is_half_done(
    tmp_path: Path, change: Callable[[Path], dict[str, Any]]
) -> None:
    """Else nobody could tell which documents are in. The file that changed is named."""
    index, _ = stop_half_way(tmp_path)
    held = len(index)
    arguments = change(tmp_path)
    with pytest.raises(FolderNotEmpty, match="an earlier load was interrupted") as raised:
        index.load(tmp_path / "x.jsonl", **arguments)
    assert (f"{tmp_path / 'x.jsonl'} is newer" in str(raised.value)) == (change is append)
    with pytest.raises(FolderNotEmpty, match="an earlier load was interrupted"):
        index.load(iter(["text"]))
    assert (len(index), asked_of, index.verify().loading) == (held, [], True)


@pytest.mark.parametrize("compact", [False, True])
def test_other_changes_between_two_parts_of_a_load(tmp_path: Path, compact: bool) -> None:
    """Are kept: what was deleted stays so, what was added may be of an id that comes yet."""
    index, all_texts = stop_half_way(tmp_path)
    with index.writer() as writer:
        writer.delete(["d5"])
        writer.add([Document("d1800", "mine")])
    if compact:
        assert index.compact() == 1
    with pytest.raises(VocabtoolError, match="'d1800' is in the index already"):
        index.load(tmp_path / "x.jsonl", id_field="id")
    report = index.load(tmp_path / "x.jsonl", id_field="id", on_existing="skip")
    assert report.read == 2000
    wanted = {f"d{number}": text for number, text in enumerate(all_texts)} | {"d1800": "mine"}
    del wanted["d5"]
    assert texts(index) == wanted


def test_a_field_keeps_its_kind(tmp_path: Path) -> None:
    """A later word among numbers is refused with its place, or left out and counted."""
    row = {"id": "a", "text": "one", "size": 1, "open": True, "tag": "x"}
    first = write_rows(tmp_path / "first.jsonl", [row])
    rows: list[dict[str, object]] = [
        {"id": "b", "text": "two", "size": 70.5, "open": False, "tag": 3},
        {"id": "c", "text": "three", "size": "big", "open": "ajar", "tag": [1]},
        {"id": "d", "text": "four", "size": None, "open": 1, "tag": None},
    ]
    later = write_rows(tmp_path / "later.jsonl", rows)
    index = Index.create(tmp_path / "index", noting)
    keep = ("size", "open", "tag")
    index.load(first, id_field="id", keep=keep)
    told = r"later\.jsonl:2: the field 'size'"
    with pytest.raises(VocabtoolError, match=told):
        index.load(later, id_field="id", keep=keep)
    assert len(index) == 1
    report = index.load(later, id_field="id", keep=keep, on_error="skip")
    assert (report.added, report.skipped, report.left_out) == (3, 0, 3)
    places = [
        (place.rpartition(":")[2], what.split("'")[1]) for place, what in report.first_left_out
    ]
    assert places == [("2", "size"), ("2", "open"), ("3", "open")]
    assert contents(index)["c"].fields == {"tag": "[1]"}
    assert ids(index.search(vector=np.ones(DIM), where="size > 60")) == ["b"]
    assert ids(index.search(vector=np.ones(DIM), where="size = 1 and open")) == ["a"]


def test_streams_are_loaded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An iterator, standard input; nothing tells one from another, so it is never done."""
    index = Index.create(tmp_path / "index", noting)

    def stream() -> Iterator[Document]:
        for number in range(3000):
            yield Document(f"s{number}", f"document {number}")

    report = index.load(stream(), commit_rows=1000)
    assert (report.read, report.added, len(index)) == (3000, 3000, 3000)
    assert index.manifest.load is None
    with pytest.raises(VocabtoolError, match="in the index already"):
        index.load(stream())
    assert index.load(stream(), on_existing="skip").added == 0
    assert index.load([Document("t", "last")], on_existing="skip").added == 1
    assert {*texts(index)} == {"t", *(f"s{number}" for number in range(3000))}
    with write(tmp_path / "x.jsonl", {"a": "one"}).open() as opened:
        monkeypatch.setattr("sys.stdin", opened)
        assert index.load("-", format="jsonl", id_field="id").read == 1
    assert (texts(index)["a"], index.manifest.load) == ("one", None)


def test_wrong_sources_leave_the_index_as_it_is(tmp_path: Path) -> None:
    """A file that is not there, one in the index itself, an index of own vectors."""
    index = Index.create(tmp_path / "index", noting)
    with pytest.raises(NotFound, match="nothing"):
        index.load(tmp_path / "nothing.jsonl")
    with pytest.raises(VocabtoolError, match="is in the output folder"):
        index.load(tmp_path / "index" / "manifest.json")
    with pytest.raises(ValueError, match="commit_rows"):
        index.load(iter(["text"]), commit_rows=0)
    own = Index.create(tmp_path / "own", dim=4)
    with pytest.raises(VocabtoolError, match="contains your own vectors"):
        own.load(write(tmp_path / "x.jsonl", {"a": "one"}))
    assert (len(index), len(own)) == (0, 0)
    with index.writer():
        pass  # nothing is locked


@pytest.mark.parametrize(
    ("name", "text", "field", "hinted"),
    [
        ("x.csv", "id,text\n1,a\n", None, "id"),
        ("x.csv", "_id,_id,text\n1,2,a\n", None, "_id"),  # which one is asked with --id-field
        ("x.jsonl", '{"id": null, "text": "a"}\n', None, None),
        ("x.csv", "id,other\nlong text,a\n", "id", None),
    ],
)
def test_a_field_that_could_be_the_id_is_named(
    tmp_path: Path, name: str, text: str, field: str | None, hinted: str | None
) -> None:
    """Unless it is the text, or the first document has no value in it."""
    file, notes = tmp_path / name, list[str]()
    file.write_text(text)
    read = ReadOptions(field=field)
    Index.create_for(tmp_path / "index", file, noting, read=read, notify=notes.append)
    assert [note.rpartition(" ")[2] for note in notes if "--id-field" in note] == (
        [] if hinted is None else [hinted]
    )


# Folders of ``vocabtool embed``


def embedded(tmp_path: Path, **options: Any) -> tuple[Path, list[str]]:
    """A folder of shards of 2000 documents."""
    all_texts = counted_letters.write_corpus(tmp_path / "x.jsonl", 2000, LONG)
    file, shards = tmp_path / "x.jsonl", tmp_path / "shards"
    encoder = open_encoder(counted_letters.encode, fingerprint="1")
    embed(file, encoder, shards, id_field="id", keep=["n", "title"], shard_rows=700, **options)
    return shards, all_texts


@pytest.mark.parametrize("model", [True, False])
def test_vectors_of_shards_are_taken_as_they_are(tmp_path: Path, model: bool) -> None:
    """With a model, which is not asked, or as one's own; a load may stop within a shard."""
    shards, all_texts = embedded(tmp_path)
    given: dict[str, Any] = (
        {"model": counted_letters.encode, "fingerprint": "1"} if model else {"dim": DIM}
    )
    index = Index.create(tmp_path / "index", metric="l2", dtype="float32", exact_below=500, **given)

    def tell(what: str, share: float) -> None:
        assert (what[:13], share) in [("700 documents", 0.35), ("1,400 documen", 0.7)]
        if what.startswith("1,400"):
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        index.load(shards, commit_rows=1, progress=tell)
    assert len(Index.open(tmp_path / "index")) == 1400
    report = index.load(shards, commit_rows=500)
    assert (report.read, report.resumed, report.added) == (2000, 1400, 600)
    assert contents(index) == {
        f"d{number}": Document(f"d{number}", text, {"n": number, "title": f"t{number % 10}"})
        for number, text in enumerate(all_texts)
    }
    held = index.snapshot().take(np.arange(2000))
    assert held.tolist() == counted_letters.encode(all_texts).tolist()
    assert index.verify().approximate
    again = index.load(shards, commit_rows=500)
    assert (again.read, again.resumed, again.added) == (2000, 2000, 0)


def test_shards_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """Of another encoder, of other dimensions, without texts, or damaged."""
    shards, _ = embedded(tmp_path)
    other = Index.create(tmp_path / "other", counted_letters.encode, fingerprint="2")
    with pytest.raises(OtherModel, match="encoder"):
        other.load(shards)
    wide = Index.create(tmp_path / "wide", dim=8)
    with pytest.raises(VocabtoolError, match="its vectors have 4 numbers"):
        wide.load(shards)
    assert Index.open(tmp_path / "wide").verify().documents == 0
    (tmp_path / "more").mkdir()
    bare, _ = embedded(tmp_path / "more", text=False)
    own = Index.create(tmp_path / "own", dim=DIM)
    with pytest.raises(VocabtoolError, match="contains no texts"):
        own.load(bare)
    shard = sorted(shards.glob("*.parquet"))[1]
    data = shard.read_bytes()
    shard.write_bytes(data[:-100])
    with pytest.raises(InvalidFile, match=shard.name):
        own.load(shards)
    assert len(Index.open(tmp_path / "own")) == 0


# An index kept up to date with the files that it was made of.


def write(path: Path, rows: Mapping[str, str], **fields: object) -> Path:
    """JSON lines of ids and texts."""
    return write_rows(path, ({"id": id_, "text": text, **fields} for id_, text in rows.items()))


def rows(count: int, prefix: str = "d", end: str = "") -> dict[str, str]:
    """Documents of different texts."""
    return {f"{prefix}{number}": f"{prefix} number {number}{end}" for number in range(count)}


def made(tmp_path: Path, *files: Path, **options: Any) -> Index:
    """An index of files; the texts that were encoded for it are forgotten."""
    index = Index.create(tmp_path / "index", noting)
    index.load([*files], **{"id_field": "id", **options})
    asked_of.clear()
    return index


def test_only_what_changed_is_encoded(tmp_path: Path) -> None:
    """Of a file with a changed row, a new one and one that is gone; the index is whole."""
    held = rows(50)
    file = write(tmp_path / "x.jsonl", held)
    index = made(tmp_path, file)
    del held["d7"]
    write(file, held | {"d3": "another text", "new": "a new text"})
    report = index.update()
    assert counts(report) == (1, 1, 48, 0)
    assert asked_of[8:] == ["another text", "a new text"]  # after the canaries
    assert texts(index) == rows(50) | {"d3": "another text", "new": "a new text"}
    assert counts(index.update(sync=True)) == (0, 0, 50, 1)
    assert texts(index) == held | {"d3": "another text", "new": "a new text"}
    assert index.verify().deleted == 2
    commit = index.manifest.commit
    assert counts(index.update(sync=True)) == (0, 0, 50, 0)  # nothing changed since
    assert index.manifest.commit == commit
    asked_of.clear()
    write(file, held | {"d3": "once more", "new": "a new text"})
    assert counts(index.load(file, id_field="id", on_existing="update")) == (0, 1, 49, 0)
    assert asked_of[8:] == ["once more"]
    write(file, rows(51))
    assert counts(index.load(file, id_field="id", on_existing="skip")) == (2, 0, 49, 0)
    assert texts(index)["d3"] == "once more"


def test_of_a_changed_field_the_vector_stays(tmp_path: Path) -> None:
    """The text is not encoded again; the new value is there, in conditions too."""
    file = write(tmp_path / "x.jsonl", rows(5), year=2020)
    index = made(tmp_path, file, keep=["year"])
    before = index.search("d number 3", where="id = 'd3'")[0].score
    asked_of.clear()
    write(file, rows(5), year=2021)
    assert counts(index.update()) == (0, 5, 0, 0)
    assert asked_of == []
    assert [hit.id for hit in index.search("d number 3", where="year = 2021", k=1)] == ["d3"]
    asked_of.clear()
    assert index.search("d number 3", where="id = 'd3'")[0].score == pytest.approx(before, abs=1e-4)
    write(file, rows(5))
    assert counts(index.update()) == (0, 5, 0, 0)
    assert contents(index)["d1"] == Document("d1", "d number 1", {})


def test_rows_that_are_called_by_their_places_keep_their_vectors(tmp_path: Path) -> None:
    """A line put in front moves all others; only its text is encoded."""
    file = tmp_path / "x.txt"
    file.write_text("aaa\nab\nzz\n")
    index = made(tmp_path, file, id_field=None)
    file.write_text("b\naaa\nab\nzz\n")
    report = index.update()
    assert (report.added, report.updated, asked_of[3:]) == (1, 3, ["b"])  # after three canaries
    assert texts(index)[f"{file}:4"] == "zz"
    assert [hit.id for hit in index.search("zz", fusion="dense", k=1)] == [f"{file}:4"]


def test_an_index_remembers_how_each_file_was_read(tmp_path: Path) -> None:
    """Fields, formats and ids, of two loads; a further file is read as the last."""
    one = write(tmp_path / "one.jsonl", rows(4), lang="en")
    two = tmp_path / "two.csv"
    two.write_text("key,body,year\na,amber,2020\nb,birch,2021\n")
    index = made(tmp_path, one, keep=["lang"])
    index.load(two, field="body", id_field="key", keep=["year"])
    write(one, rows(5), lang="de")
    two.write_text("key,body,year\na,amber,2020\nb,birch,2022\n")
    asked_of.clear()
    assert counts(Index.open(index.path, noting).update()) == (1, 5, 1, 0)
    assert asked_of[6:] == ["d number 4"]  # after six canaries
    index.refresh()
    found = contents(index)
    assert found["d4"].fields == {"lang": "de"}
    assert found["b"].fields == {"year": 2022}
    three = tmp_path / "three.csv"
    three.write_text("key,body,year\nc,cedar,2023\n")
    assert counts(index.update(three)) == (1, 0, 0, 0)
    assert contents(index)["c"] == Document("c", "cedar", {"year": 2023})
    assert counts(index.update(three, sync=True)) == (0, 0, 1, 0)


def test_names_are_kept_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids that are places stay; files are found from another folder, and where all was moved."""
    project = tmp_path / "project"
    (project / "docs").mkdir(parents=True)
    (project / "docs" / "a.jsonl").write_text('"one"\n')
    monkeypatch.chdir(project)
    index = Index.create("index", noting)
    index.load(["docs"])
    assert [*texts(index)] == ["docs/a.jsonl:1"]
    monkeypatch.chdir(tmp_path)
    (project / "docs" / "a.jsonl").write_text('"one"\n"two"\n')
    opened = Index.open(project / "index", noting)
    assert counts(opened.update()) == (1, 0, 1, 0)
    assert {*texts(opened)} == {"docs/a.jsonl:1", "docs/a.jsonl:2"}
    shutil.move(project, tmp_path / "moved")
    (tmp_path / "moved" / "docs" / "b.jsonl").write_text('"three"\n')
    moved = Index.open(tmp_path / "moved" / "index", noting)
    assert counts(moved.update(sync=True)) == (1, 0, 2, 0)
    assert {*texts(moved)} == {"docs/a.jsonl:1", "docs/a.jsonl:2", "docs/b.jsonl:1"}
    assert counts(moved.update(tmp_path / "moved" / "docs", sync=True)) == (0, 0, 3, 0)


@pytest.mark.parametrize("name", ["docs", "docs/*.jsonl"])
def test_a_file_that_is_deleted_from_a_folder_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Its documents came from the folder or glob; what is elsewhere, or has another name, stays."""
    monkeypatch.chdir(tmp_path)
    for part in ("a", "b", "c"):
        write(Path("docs") / f"{part}.jsonl", rows(10, part))
    write(Path("other.jsonl"), rows(3, "o"))
    index = Index.create("index", noting)
    index.load([name], id_field="id")
    index.load("other.jsonl", id_field="id")
    add(index, [Document("mine", "of Python")])
    Path("docs/c.jsonl").rename("docs/d.jsonl")
    assert counts(index.update([name], sync=True)) == (0, 0, 30, 0)
    Path("docs/b.jsonl").unlink()
    Path("other.jsonl").unlink()
    assert counts(index.update([name], sync=True)) == (0, 0, 20, 10)
    wanted = {"mine": "of Python", **rows(10, "a"), **rows(10, "c"), **rows(3, "o")}
    assert texts(index) == wanted
    with pytest.raises(NotFound, match=r"other\.jsonl: does not exist"):
        index.update(sync=True)
    assert texts(index) == wanted


def test_a_row_that_moves_is_of_the_file_that_has_it_now(tmp_path: Path) -> None:
    """It is not removed with what its first file no longer holds."""
    one, two = write(tmp_path / "1.jsonl", rows(10)), write(tmp_path / "2.jsonl", rows(10, "e"))
    index = made(tmp_path, one, two)
    held = rows(10)
    moved = held.pop("d4")
    write(one, held)
    write(two, rows(10, "e") | {"d4": moved})
    assert counts(index.update(two)) == (0, 0, 11, 0)
    assert counts(index.update(one, sync=True)) == (0, 0, 9, 0)
    assert index.compact() == 0
    assert "d4" in texts(index)
    with two.open("a") as file:  # an id twice in one file is still an error
        file.write('{"id": "e1", "text": "again"}\n')
    with pytest.raises(InvalidFile, match=r"2\.jsonl:12: .*'e1'.*2\.jsonl:2 "):
        index.update(two)
    write(two, rows(10, "e"))
    assert counts(index.update(two, sync=True)) == (0, 0, 10, 1)
    assert {*texts(index)} == {*held, *rows(10, "e")}
    assert index.verify().documents == 19


def test_more_than_a_third_is_removed_only_by_force(tmp_path: Path) -> None:
    """A third is; nothing of a refused update is kept."""
    file = write(tmp_path / "x.jsonl", rows(12))
    index = made(tmp_path, file)
    write(file, {"new": "new", **rows(7)})
    with pytest.raises(
        VocabtoolError, match="5 of the 12 documents from these FILEs are no longer"
    ):
        index.update(sync=True)
    assert texts(index) == rows(12)
    write(file, rows(8))
    assert counts(index.update(sync=True)) == (0, 0, 8, 4)
    write(file, {})
    with pytest.raises(VocabtoolError, match="8 of the 8 documents"):
        index.update(sync=True)
    assert counts(index.update(sync=True, force=True)) == (0, 0, 0, 8)
    assert len(index) == 0


def test_a_sync_wants_whole_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No stream, no missing or unreadable file, no bad row, no part of a folder."""
    folder = tmp_path / "docs"
    one, two = write(folder / "1.jsonl", rows(10)), write(folder / "2.jsonl", rows(10, "e"))
    index = made(tmp_path, folder, on_error="skip")
    write(one, rows(9))
    for stream in ("-", iter(["text"])):
        with pytest.raises(
            VocabtoolError, match="a stream cannot be synced: pass the names of files"
        ):
            index.update(stream, sync=True)
    with pytest.raises(NotFound, match=r"nothing\.jsonl: no such file"):
        index.update([folder, tmp_path / "nothing.jsonl"], sync=True)
    with pytest.raises(VocabtoolError, match=r"part of .*docs and cannot .* sync .*docs, or"):
        index.update(one, sync=True)
    two.rename(folder / "2.csv.gz")
    with pytest.raises(InvalidFile, match="not gzip"):
        index.update(sync=True)
    (folder / "2.csv.gz").rename(two)
    with two.open("a") as file:
        file.write("no json\n")
    with pytest.raises(
        VocabtoolError,
        match=r"rows that were skipped as invalid .*2\.jsonl:11.*--force \(force=True",
    ):
        index.update(sync=True)
    assert texts(index) == rows(10) | rows(10, "e")
    assert counts(index.update(sync=True, force=True)) == (0, 0, 19, 1)


def test_of_an_id_in_two_files_the_last_counts(tmp_path: Path) -> None:
    """However they are read; nothing changes where nothing changed, and no id is there twice."""
    for on_error in ("raise", "skip"):
        one = write(tmp_path / "1.jsonl", {"X": "one", "a": "first"})
        two = write(tmp_path / "2.jsonl", {"X": "two", "b": "second"})
        index = Index.create(tmp_path / on_error, noting)
        index.load(one, id_field="id")
        index.load(two, id_field="id", on_error=on_error, on_existing="update")
        for number in range(3):
            write(one, {"X": "one", "a": "first", **rows(number + 1)})
            report = index.update()
            assert (*counts(report), report.dropped) == (1, 0, 3 + number, 0, 1)
            assert texts(index)["X"] == "two"
        write(two, {"X": "too", "b": "second"})
        assert counts(index.update(sync=True)) == (0, 1, 5, 0)
        assert texts(index)["X"] == "too"
        delete(index, [*texts(index)])
        index.compact()
        write(two, {"X": "two", "b": "second"})
        assert counts(index.update()) == (6, 0, 0, 0)
        assert index.verify().documents == len(texts(index)) == 6
        assert texts(index)["X"] == "two"


def test_documents_of_several_files_count_until_the_next_commit(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "index", counted_letters.encode)
    read: list[dict[str, Any]] = [{"id_field": "id"}, {}]
    for number, options in enumerate(read):
        file = write(tmp_path / f"{number}.jsonl", {"a": "old"})
        index.load(file, **options)
        write(file, {"a": "new"})
    before = index.stats().commit
    index.update(commit_rows=2)
    assert index.stats().commit == before + 2


def test_a_load_does_not_go_on_where_an_update_stopped(tmp_path: Path) -> None:
    """An update reads files in another order: the load reads all."""
    one = write(tmp_path / "1.jsonl", rows(2000, end=LONG))
    two = write(tmp_path / "2.jsonl", rows(2000, "e", LONG))
    index = made(tmp_path, one, two)
    write(one, new := {id_: f"{text} anew" for id_, text in rows(2000, end=LONG).items()})
    write(two, rows(1999, "e", LONG))
    fails_at.append(f"d number 1500{LONG} anew")
    with pytest.raises(OperatorFailed, match="failed at"):
        index.update(commit_rows=1000)
    fails_at.clear()
    index = Index.open(index.path, noting)
    report = index.load([one, two], id_field="id", on_existing="update")
    assert (report.read, report.resumed) == (3999, 0)
    assert texts(index) == new | rows(2000, "e", LONG)


def test_a_glob_is_found_in_a_folder_of_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From elsewhere too; a file whose name looks like a glob is that file."""
    folder = tmp_path / "[2024] x"
    write(folder / "a1.jsonl", rows(3))
    write(folder / "b[1].jsonl", rows(3, "e"))
    monkeypatch.chdir(folder)
    index = made(tmp_path, Path("a*.jsonl"), Path("b[1].jsonl"))
    write(folder / "a2.jsonl", {"new": "new"})
    monkeypatch.chdir(tmp_path)
    assert counts(index.update(sync=True)) == (1, 0, 6, 0)


KEEP = ("title", "path", "source", "line")


def write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of documents below the working directory."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "docs"
    write_text(folder / "guide.md", "# Guide\n\nAbout.\n\n## Install\n\napt\n\n## Use\n\nrun it\n")
    write_text(folder / "api.rst", "API\n===\n\nNothing.\n")
    write_text(folder / "code.py", "def first(): ...\n\ndef second(): ...\n")
    write_text(folder / "build" / "x.md", "# Built\n")
    write_text(folder / ".gitignore", "build/\n")
    return folder


def made_of_docs(**read: Any) -> tuple[Index, LoadReport]:
    index = Index.create("index", counted_letters.encode)
    return index, index.load("docs", ReadOptions(keep=KEEP, **read))


def test_an_update_from_anywhere_keeps_the_field_source(
    docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was named at first: nothing has changed."""
    index, _ = made_of_docs()
    before = contents(index)
    assert before["docs/guide.md#Guide > Use"].fields["source"] == "docs/guide.md"
    monkeypatch.chdir("/")
    index = Index.open(docs.parent / "index", counted_letters.encode)
    assert counts(index.update(sync=True)) == (0, 0, 6, 0)
    assert contents(index) == before


@pytest.fixture
def five_words() -> Callable[[], Any]:
    """Opens an encoder that reads five words."""

    def opened() -> Any:
        encoder = open_encoder(counted_letters.encode, vocabulary=["w"])
        encoder.max_tokens = 5
        return encoder

    return opened


def test_no_piece_is_longer_than_the_model_reads(docs: Path, five_words: Callable[[], Any]) -> None:
    """Sizes are those of the model; an overlap needs room."""
    write_text(docs / "long.md", "# Long\n\n" + "w-w, w. " * 50)
    index = Index.create("index", five_words())
    report = index.load("docs", ReadOptions(keep=["path"]))
    assert (report.too_long, report.tokens_cut) == (0, 0)
    long = [document.text for id_, document in contents(index).items() if "#Long" in id_]
    # A w-w is one word, and the path takes one of the five.
    assert (len(long), {*long[1:-1]}) == (26, {"Long\n\nw-w, w. w-w, w."})
    assert embed("docs", five_words(), "shards", split_size=3).counts.too_long == 0
    with pytest.raises(ValueError, match=r"overlap must be less than the length of a piece \(5\)"):
        Index.create("other", five_words()).load("docs", overlap=6)


def test_the_path_is_searched(docs: Path) -> None:
    """The path takes the place of the headings; definitions of Python and rows have none."""
    write_text(docs / "guide.md", "Before.\n\n# Guide\n\n## Install\n\napt\n\n## 2024\n\nrun it\n")
    write_text(docs / "rows.jsonl", '{"id": 1, "path": "a", "text": "apt"}\n')
    write_text(docs / "main.c", "int a;\n")
    index = Index.create("index", counted_letters.encode)
    index.load("docs", exclude=["build/"], split_size=8)
    assert texts(index) == {
        "docs/api.rst#API": "API\n\nNothing.",
        "docs/code.py#first": "def first(): ...",
        "docs/code.py#second": "def second(): ...",
        "docs/guide.md": "Before.",
        "docs/guide.md#Guide > Install": "Guide > Install\n\napt",
        "docs/guide.md#Guide > 2024": "Guide > 2024\n\nrun it",
        "docs/main.c": "int a;",
        "docs/rows.jsonl:1": "apt",
    }
    fields = {id_: each.fields.get("path") for id_, each in contents(index).items()}
    assert fields["docs/guide.md#Guide > Install"] == "Guide > Install"
    assert (fields["docs/main.c"], fields["docs/rows.jsonl:1"]) == (None, None)
    assert index.manifest.searched_fields == index.stats().searched_fields == ("path", "text")
    found = {
        query: {hit.id.rpartition(" ")[2] for hit in index.search(query, fusion="keyword")}
        for query in ("guide", "run")
    }
    assert found == {"guide": {"Install", "2024"}, "run": {"2024"}}
    assert counts(index.update(sync=True)) == (0, 0, 8, 0)


@pytest.mark.parametrize("split", ["file", "paragraph", "tokens"])
def test_other_pieces_have_no_path(docs: Path, split: Any) -> None:
    """Nor have pieces with a field that was asked for, or with vectors of the user's own."""
    index, _ = made_of_docs(split=split)
    assert index.manifest.searched_fields == ()
    assert not [text for text in texts(index).values() if text.startswith("Guide >")]
    plain = Index.create("plain", counted_letters.encode)
    plain.load("docs", field="text")
    assert plain.manifest.searched_fields == ()
    assert texts(plain)["docs/guide.md#Guide > Use"] == "## Use\n\nrun it"
    given = Index.create("given", dim=3)
    given.load("docs", vectors=np.ones((6, 3), np.float32))
    assert texts(given) == texts(plain)
