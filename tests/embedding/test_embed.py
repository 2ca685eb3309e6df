"""``vocabtool.embed``: shards of vectors, gone on with after a stop, verified when opened."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import vocabtool
from tests.counted_letters import LOG, SECONDS, encode, files_of, logged, write_corpus
from vocabtool.errors import (
    FolderInUse,
    FolderNotEmpty,
    InvalidFile,
    NoSpace,
    NotFound,
    OperatorFailed,
    VocabtoolError,
)

DOCUMENTS: Final = 2500
SHARD: Final = 1000


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    write_corpus(path, DOCUMENTS)
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def cats(tmp_path: Path) -> Path:
    path = tmp_path / "v.npz"
    np.savez(path, words=np.array(["cat", "sat"]), vectors=np.eye(2, dtype="f4"))
    return path


def rows(folder: Path) -> pa.Table:
    """All rows that shards hold, by a reader that is not ours."""
    return pa.concat_tables([pq.read_table(f) for f in sorted(folder.glob("shard-*.parquet"))])


def test_every_document_is_in_a_shard_with_its_vector(corpus: Path, out: Path) -> None:
    """Rows are in the order of the documents, shards have their size, and nothing is rounded."""
    report = vocabtool.embed(
        corpus, encode, out, id_field="id", keep=["title", "n"], shard_rows=SHARD
    )
    given = [json.loads(line) for line in corpus.read_text().splitlines()]
    texts = [row["text"] for row in given]
    table = rows(out)
    assert table.column_names == ["id", "vector", "text", "title", "n"]
    for name in ("id", "text", "title", "n"):
        assert table[name].to_pylist() == [row[name] for row in given]
    assert table["vector"].to_pylist() == encode(texts).tolist()
    sizes = [pq.read_metadata(f).num_rows for f in sorted(out.glob("*.parquet"))]
    assert sizes == [SHARD, SHARD, DOCUMENTS - 2 * SHARD]
    assert (report.shards, report.counts.documents, report.encoded) == (3, DOCUMENTS, DOCUMENTS)
    assert (report.resumed, report.redone, report.skipped) == (0, 0, 0)
    found = list(vocabtool.Shards.open(out).documents())
    assert [(d.id, d.text, d.fields["title"]) for d in found] == [
        (row["id"], row["text"], row["title"]) for row in given
    ]
    vectors = np.array([document.fields["vector"] for document in found])
    assert vectors.tolist() == encode(texts).tolist()
    pandas = pytest.importorskip("pandas", reason="pandas belongs to the tests")
    assert len(pandas.read_parquet(out)) == pq.read_table(out).num_rows == DOCUMENTS


def test_the_same_bytes_however_it_is_done(corpus: Path, out: Path, tmp_path: Path) -> None:
    """Any number of threads makes the same folder."""
    vocabtool.embed(corpus, encode, out, shard_rows=SHARD)
    ways: tuple[Any, ...] = ({"threads": 1}, {"threads": 3}, {"batch_size": 64, "threads": 2})
    for number, how in enumerate(ways):
        vocabtool.embed(corpus, encode, tmp_path / f"{number}", shard_rows=SHARD, **how)
        assert files_of(tmp_path / f"{number}") == files_of(out), how


def test_a_finished_run_reads_nothing(corpus: Path, out: Path) -> None:
    """Asked again, not even the documents are read: size and time say that they are the same."""
    vocabtool.embed(corpus, encode, out, shard_rows=SHARD)
    before, facts = files_of(out), corpus.stat()
    corpus.write_bytes(b"x" * facts.st_size)
    os.utime(corpus, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    report = vocabtool.embed(corpus, encode, out, shard_rows=SHARD)
    assert (report.encoded, report.resumed, report.counts.documents) == (0, 3, DOCUMENTS)
    assert files_of(out) == before


def test_a_shard_that_is_missing_is_made_again(corpus: Path, out: Path) -> None:
    """Also in a finished run, and what a kill left is removed."""
    vocabtool.embed(corpus, encode, out, shard_rows=SHARD)
    before = files_of(out)
    (out / "shard-000001.parquet").unlink()
    with pytest.raises(NotFound, match=r"shard-000001\.parquet"):
        vocabtool.Shards.open(out)
    report = vocabtool.embed(corpus, encode, out, shard_rows=SHARD)
    assert (report.encoded, report.resumed) == (SHARD, 2)
    for name in (".shard-000001.parquet.0123456789ab.part", ".shard-000002.parquet.8eab7bcd.part"):
        (out / name).write_bytes(b"PAR1")
    assert vocabtool.embed(corpus, encode, out, shard_rows=SHARD).redone == 2
    assert files_of(out) == before
    for file in out.glob("shard-*"):
        file.unlink()  # what the manifest tells would be lost by another run
    with pytest.raises(FolderNotEmpty, match="--dtype: was float32, is float16"):
        vocabtool.embed(corpus, encode, out, shard_rows=SHARD, dtype="float16")


# What changed is told.


CHANGES: Final[list[tuple[dict[str, Any], str]]] = [
    ({"shard_rows": 500}, "--shard-rows: was 1000, is 500"),
    ({"batch_size": 7}, "--batch-size: was 64, is 7"),
    ({"keep": ["title"]}, "--keep: was nothing, is title"),
    ({"quotes": False}, "--quotes: was given, is not given"),
]


@pytest.mark.parametrize(("change", "told"), CHANGES, ids=[told for _, told in CHANGES])
def test_a_run_that_changed_is_refused(
    change: dict[str, Any], told: str, corpus: Path, out: Path
) -> None:
    """Whatever would change the shards is named; --force starts over."""
    asked: dict[str, Any] = {"sources": corpus, "model": encode, "shard_rows": SHARD}
    vocabtool.embed(**asked, output=out)
    before = files_of(out)
    asked |= change
    with pytest.raises(FolderNotEmpty, match=told) as caught:
        vocabtool.embed(**asked, output=out)
    assert len(caught.value.changes) == 1
    assert files_of(out) == before
    report = vocabtool.embed(**asked, output=out, force=True)
    assert report.resumed == 0
    assert vocabtool.Shards.open(out).counts.documents == report.counts.documents


def test_changed_files_are_named(corpus: Path, out: Path) -> None:
    """Time, size and number of files count."""
    vocabtool.embed(corpus, encode, out)
    before = files_of(out)
    with pytest.raises(FolderNotEmpty, match=r"is new among the inputs|the order of the inputs"):
        vocabtool.embed([str(corpus), str(corpus)], encode, out)
    os.utime(corpus, ns=(1, 1))
    with pytest.raises(FolderNotEmpty, match="its modification time changed"):
        vocabtool.embed(corpus, encode, out)
    with corpus.open("a") as file:
        file.write('{"text": "more"}\n')
    with pytest.raises(FolderNotEmpty, match=r"had .* bytes, now has"):
        vocabtool.embed(corpus, encode, out)
    assert files_of(out) == before


def test_the_order_of_the_fields_of_a_plan_does_not_matter(corpus: Path, out: Path) -> None:
    """Its fingerprint is a hash of the sorted record, as anybody can compute it from the file."""
    vocabtool.embed(corpus, encode, out)
    plan = json.loads((out / "_run.json").read_text())["record"]
    wanted = hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()
    assert json.loads((out / "_manifest.json").read_text())["record"]["run"] == wanted


def test_a_stream_cannot_be_gone_on_with(out: Path, tmp_path: Path) -> None:
    """Unless its caller gives it a name, and so says that it is the same."""
    vocabtool.embed(iter(["a", "b"]), encode, out)
    with pytest.raises(FolderNotEmpty, match="cannot be read again"):
        vocabtool.embed(iter(["a", "b"]), encode, out)
    vocabtool.embed(iter(["a", "b"]), encode, tmp_path / "named", source="two letters")
    report = vocabtool.embed(iter(["a", "b"]), encode, tmp_path / "named", source="two letters")
    assert (report.resumed, report.encoded) == (1, 0)


def test_a_stream_that_fails_leaves_nothing(out: Path) -> None:
    """Nobody can use the vectors that a slow model has made of it."""

    def slow(texts: list[str]) -> Any:
        time.sleep(0.1)
        return encode(texts)

    def stream() -> Iterator[str]:
        yield from map(str, range(1024))
        raise VocabtoolError("it ends")

    encoder = vocabtool.open_encoder(slow, fingerprint="slow")
    with pytest.raises(VocabtoolError, match="it ends"):
        vocabtool.embed(stream(), encoder, out, batch_size=128)
    assert not out.exists()


# A run without a shard is none to protect.


def test_a_run_that_failed_at_once_claims_no_folder(
    corpus: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The corrected command is not refused, and makes the folder as if nothing had been before."""
    monkeypatch.setitem(sys.modules, "ray", None)  # as where it is not installed
    mistakes: list[dict[str, Any]] = [{"id_field": "skuu"}, {"ray": 1}]
    for mistake in mistakes:
        with pytest.raises(VocabtoolError):
            vocabtool.embed(corpus, encode, out, **mistake, dtype="float16")
        assert not out.exists()
    out.mkdir()  # one that was there stays, with what a run begins with
    with pytest.raises(VocabtoolError):
        vocabtool.embed(corpus, encode, out, id_field="skuu", dtype="float16")
    assert (out / "_run.json").exists()
    vocabtool.embed(corpus, encode, out, id_field="id")
    vocabtool.embed(corpus, encode, tmp_path / "plain", id_field="id")
    assert files_of(out) == files_of(tmp_path / "plain")


def test_a_folder_of_another_version_is_refused(corpus: Path, out: Path) -> None:
    """The message says what to do; --force starts over."""
    vocabtool.embed(corpus, encode, out)
    for name in ("_manifest.json", "_run.json"):
        record = json.loads((out / name).read_text())
        (out / name).write_text(json.dumps(record | {"version": 1}))
        told = rf"{name}: .*version 1 of .* expected 3; embed the documents again, with --force"
        with pytest.raises(InvalidFile, match=told):
            vocabtool.Shards.open(out)
        with pytest.raises(InvalidFile, match=told):
            vocabtool.embed(corpus, encode, out)
        vocabtool.embed(corpus, encode, out, force=True)
    vocabtool.Shards.open(out).verify()


# Folders that are not as they were left.


def damage(out: Path, how: str, strange: bytes) -> str:
    """Damage a finished folder; what the error must say."""
    first, second = out / "shard-000000.parquet", out / "shard-000001.parquet"
    match how:
        case "cut":
            first.write_bytes(first.read_bytes()[:-100])
            return r"shard-000000\.parquet: truncated"
        case "swapped":
            first.write_bytes(second.read_bytes())
            return r"shard-000000\.parquet: contains shard 1,"
        case "strange":
            second.write_bytes(strange)
            return r"shard-000001\.parquet: a shard of another run"
        case "manifest":
            (out / "_manifest.json").write_text("{}")
            return r"_manifest\.json: not a file of `vocabtool manifest of embed`"
    (out / "_run.json").write_text("[]")
    return r"_run\.json: not a file of `vocabtool plan of embed`"


@pytest.mark.parametrize("how", ["cut", "swapped", "strange", "manifest", "run"])
def test_damage_is_named(how: str, corpus: Path, tmp_path: Path) -> None:
    """By opening and by going on; nothing is overwritten unasked."""
    out, other = tmp_path / "out", tmp_path / "other"
    vocabtool.embed(corpus, encode, out, shard_rows=SHARD)
    vocabtool.embed(corpus, encode, other, shard_rows=SHARD, dtype="float16")
    told = damage(out, how, (other / "shard-000001.parquet").read_bytes())
    before = files_of(out)
    with pytest.raises(InvalidFile, match=told):
        vocabtool.Shards.open(out)
    with pytest.raises(InvalidFile, match=told):
        vocabtool.embed(corpus, encode, out, shard_rows=SHARD)
    assert files_of(out) == before
    assert vocabtool.embed(corpus, encode, out, shard_rows=SHARD, force=True).encoded == DOCUMENTS


def test_one_changed_bit_is_found(corpus: Path, out: Path) -> None:
    """By reading, by verifying, and before a run that stood still is finished."""
    vocabtool.embed(corpus, encode, out, shard_rows=SHARD)
    vocabtool.Shards.open(out).verify()
    file = out / "shard-000000.parquet"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    shards = vocabtool.Shards.open(out)
    with pytest.raises(InvalidFile, match=r"shard-000000\.parquet: damaged"):
        list(shards.batches())
    with pytest.raises(InvalidFile, match=r"shard-000000\.parquet: damaged: CRC-32C"):
        shards.verify()
    for name in ("_manifest.json", "shard-000002.parquet"):
        (out / name).unlink()
    with pytest.raises(InvalidFile, match=r"shard-000000\.parquet: damaged"):
        vocabtool.embed(corpus, encode, out, shard_rows=SHARD)
    file.unlink()
    vocabtool.embed(corpus, encode, out, shard_rows=SHARD)
    vocabtool.Shards.open(out).verify()


def test_force_removes_only_what_is_ours(corpus: Path, out: Path, tmp_path: Path) -> None:
    """A file that somebody put there stays, for a misspelt input or model all, and a folder that is
    no run's, though it has a file .lock."""
    vocabtool.embed(corpus, encode, out, shard_rows=100)
    (out / "notes.txt").write_text("mine")
    before = files_of(out)
    for sources, model in ((corpus.with_name("missing"), encode), (corpus, "nowhere")):
        with pytest.raises(NotFound):
            vocabtool.embed(sources, model, out, force=True)
    assert files_of(out) == before
    vocabtool.embed(corpus, encode, out, shard_rows=SHARD, force=True)
    assert (out / "notes.txt").read_text() == "mine"
    assert len(list(out.glob("shard-*"))) == 3
    mine = tmp_path / "mine"
    mine.mkdir()
    for name in (".lock", "thesis.txt"):
        (mine / name).write_text("precious")
    before = files_of(mine)
    for force in (False, True):
        with pytest.raises(VocabtoolError, match=r"thesis\.txt"):
            vocabtool.embed(corpus, encode, mine, force=force)
    assert files_of(mine) == before


@pytest.mark.parametrize("content", [b"precious " * 100, None])
def test_a_link_among_the_shards_is_not_followed(
    content: bytes | None, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody's folder may name any file as the vectors of a shard; the file is not changed."""
    monkeypatch.setenv(SECONDS, "0.1")  # so slow that vectors are kept until their shard is written
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    few, mine = tmp_path / "few.txt", tmp_path / "mine"
    few.write_text("cat\nsat\n")
    vocabtool.embed(few, logged, out)
    before = files_of(out)
    (out / "shard-000000.parquet").unlink()
    if content is not None:
        mine.write_bytes(content)
    (out / ".shard-000000.parquet.vectors").symlink_to(mine)
    vocabtool.embed(few, logged, out)
    assert files_of(out) == before
    assert (mine.read_bytes() if mine.exists() else None) == content


def test_two_cannot_write_at_once(corpus: Path, out: Path) -> None:
    """The second is told so."""
    refused = []

    def second(texts: list[str]) -> Any:
        if out.exists():
            with pytest.raises(FolderInUse):
                vocabtool.embed(corpus, encode, out)
            refused.append(len(texts))
        return encode(texts)

    encoder = vocabtool.open_encoder(second, fingerprint="same")
    assert vocabtool.embed(corpus, encoder, out).encoded == sum(refused) == DOCUMENTS


# Inputs that are not what they seem.


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Path]:
    """A named pipe that 100 documents come out of, once."""
    path = tmp_path / "pipe.txt"
    os.mkfifo(path)
    text = "".join(f"text {number}\n" for number in range(100))
    code = f"open({str(path)!r}, 'w').write({text!r})"
    writer = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    yield path
    writer.kill()
    writer.wait()


def test_a_pipe_is_read_once(pipe: Path, tmp_path: Path) -> None:
    """Not for its checksum first, which would leave nothing for the vectors; it is a stream."""
    report = vocabtool.embed(pipe, encode, tmp_path / "out")
    assert report.counts.documents == 100
    with pytest.raises(FolderNotEmpty, match="cannot be read again"):
        vocabtool.embed(pipe, encode, tmp_path / "out")


def test_weights_are_not_fitted(cats: Path, pipe: Path, tmp_path: Path) -> None:
    """On a pipe, whose sample would be lost, on nothing, and by a wrong field: that is said."""
    encoder = vocabtool.open_encoder(cats, rule="lower", weights="idf")
    with pytest.raises(VocabtoolError, match="but a stream is read once"):
        vocabtool.embed(pipe, encoder, tmp_path / "out")
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(NotFound, match=r"empty\.txt: no document in it$"):
        vocabtool.embed(tmp_path / "empty.txt", encoder, tmp_path / "out")
    write_corpus(tmp_path / "corpus.jsonl", 3)
    with pytest.raises(InvalidFile, match=r"corpus\.jsonl:1: no field 'body'"):
        vocabtool.embed(tmp_path / "corpus.jsonl", encoder, tmp_path / "out", field="body")


def test_own_shards_are_no_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder may be read that the output lies in; but not the output, which --force removes."""
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "a.jsonl").write_text('"one"\n' * 20)
    (tmp_path / "b.jsonl").write_text('"two"\n')
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "out")
    for out in ("out", "out", "link"):
        report = vocabtool.embed(["first", "."], encode, out, shard_rows=5)
        assert report.counts.documents == 41
    assert report.encoded == 0
    before = files_of(tmp_path / "out")
    for source in ("out", "out/*.parquet"):
        with pytest.raises(VocabtoolError, match="is in the output folder out: choose a source"):
            vocabtool.embed(source, encode, "out", force=True)
    assert files_of(tmp_path / "out") == before


def test_an_input_that_changes_on_the_way_is_told(corpus: Path, tmp_path: Path) -> None:
    """No manifest is written of shards that may be of both."""

    def changing(texts: list[str]) -> Any:
        if (tmp_path / "out").exists():
            os.utime(corpus, ns=(1, 1))
        return encode(texts)

    encoder = vocabtool.open_encoder(changing, fingerprint="same")
    with pytest.raises(VocabtoolError, match=r"changed while it was read: .*corpus\.jsonl"):
        vocabtool.embed(corpus, encoder, tmp_path / "out")
    assert not (tmp_path / "out" / "_manifest.json").exists()


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [(8, 10, "shard 1 contains 3 documents, but would now contain 5"), (10, 4, "now contain 0")],
)
def test_a_stream_that_is_not_what_its_name_says(
    before: int, now: int, told: str, out: Path
) -> None:
    """No document is lost behind a shard that was the last one, and none is left over."""
    vocabtool.embed(map(str, range(before)), encode, out, shard_rows=5, source="numbers")
    (out / "shard-000000.parquet").unlink()
    with pytest.raises(VocabtoolError, match=told):
        vocabtool.embed(map(str, range(now)), encode, out, shard_rows=5, source="numbers")


# Models that fail.


def test_what_a_model_raises_is_told_with_the_documents(corpus: Path, tmp_path: Path) -> None:
    """No thread is left behind."""
    encoder = vocabtool.open_encoder(fails_at_1500, fingerprint="fails")
    before = threading.active_count()
    with pytest.raises(OperatorFailed, match="the model raised ValueError: no") as e:
        vocabtool.embed(corpus, encoder, tmp_path / "out", id_field="id")
    assert e.value.place == "d1024 to d2047"
    assert threading.active_count() == before


def fails_at_1500(texts: list[str]) -> Any:
    if any(text.startswith("document 1500 ") for text in texts):
        raise ValueError("no")
    return encode(texts)


# What is counted, and how it is stored.


def test_what_is_counted(tmp_path: Path) -> None:
    """Blank texts, zero vectors, bytes that are not UTF-8, bad rows."""
    lines = [b'{"text": "a b"}', b'{"text": ""}', b'{"text": " \\t"}', b'{"nothing": 1}']
    lines.append(b'{"text": "\\ud83d"}')
    file = tmp_path / "corpus.jsonl"
    file.write_bytes(b"\n".join(lines) + b"\n")
    report = vocabtool.embed(file, encode, tmp_path / "out", on_error="skip")
    counts = report.counts
    assert (counts.documents, counts.empty, counts.zero, counts.not_utf8) == (4, 2, 1, 1)
    assert (report.skipped, report.first_skipped[0].place) == (1, f"{file}:4")
    assert rows(tmp_path / "out")["text"].to_pylist() == ["a b", "", " \t", "\ufffd" * 3]
    again = vocabtool.embed(file, encode, tmp_path / "out", on_error="skip")
    assert again.counts == counts
    assert (again.skipped, again.first_skipped) == (1, report.first_skipped)


def test_half_precision(corpus: Path, tmp_path: Path) -> None:
    """float16 is what was asked for; what it cannot hold is refused, not made infinite."""
    vocabtool.embed(corpus, encode, tmp_path / "out", dtype="float16")
    assert rows(tmp_path / "out").schema.field("vector").type.value_type == pa.float16()
    vectors = np.concatenate(list(vocabtool.Shards.open(tmp_path / "out").vectors()))
    assert vectors.dtype == np.float32
    texts = [json.loads(line)["text"] for line in corpus.read_text().splitlines()]
    assert vectors.tolist() == encode(texts).tolist()
    huge = vocabtool.open_encoder(lambda texts: encode(texts) * 1e9, fingerprint="huge")
    with pytest.raises(InvalidFile, match="--dtype float32"):
        vocabtool.embed(corpus, huge, tmp_path / "huge", dtype="float16")


def test_kept_fields_keep_their_types(out: Path, tmp_path: Path) -> None:
    """Of JSON and of Arrow, also in several files; values of CSV are texts."""
    day, moment = date(2026, 11, 29), datetime(2026, 11, 29, 12, tzinfo=UTC)
    values: dict[str, list[Any]] = {
        "n": [1, None], "x": [1, 0.5], "yes": [True, False], "code": ["007", "1"],
        "mixed": [1, "a"], "long": [1 << 70, 1], "list": [[1], None],
    }  # fmt: skip
    kept = [*values, "day", "moment", "price"]
    lines = [{"text": "a"} | {name: values[name][row] for name in values} for row in range(2)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = pa.table({"text": ["b"], "day": [day], "moment": [moment], "price": [Decimal("1.10")]})
    pq.write_table(table, tmp_path / "b.parquet")
    encoder = vocabtool.open_encoder(encode, fingerprint="same")
    sources = [str(tmp_path / name) for name in ("a.jsonl", "b.parquet")]
    vocabtool.embed(sources, encoder, out, keep=kept, shard_rows=2)
    written = rows(out)
    wanted = values | {"x": [1.0, 0.5], "mixed": ["1", "a"], "long": [str(1 << 70), "1"]}
    wanted |= {"list": ["[1]", None]}
    assert {name: written[name].to_pylist() for name in values} == {
        name: [*column, None] for name, column in wanted.items()
    }
    last = written.slice(2).to_pylist()[0]
    assert (last["day"], last["moment"], last["price"]) == (day, moment, Decimal("1.10"))
    index = vocabtool.Index.create(tmp_path / "index", encoder)
    index.load(str(out))
    assert index.manifest.fields["n"] == "integer"
    assert index.manifest.fields["x"] == "number"
    assert index.manifest.fields["yes"] == "boolean"
    (tmp_path / "c.csv").write_text("text,n\na,1.10\n")
    vocabtool.embed(tmp_path / "c.csv", encoder, tmp_path / "csv", keep=["n"])
    assert rows(tmp_path / "csv")["n"].to_pylist() == ["1.10"]


def test_a_later_value_of_another_type_is_an_error_or_left_out(out: Path, tmp_path: Path) -> None:
    """The message names its row, and the run goes on when asked to leave such values out."""
    lines = [{"text": "a" * 1024, "n": n} for n in range(3000)]
    lines += [{"text": "b", "n": n} for n in (7, "seven", None, 2.5, 8)]
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(line) + "\n" for line in lines))
    encoder = vocabtool.open_encoder(encode, fingerprint="same")
    asked: dict[str, Any] = {"keep": ["n"], "shard_rows": 500}
    with pytest.raises(InvalidFile, match=r"corpus\.jsonl:3002: .*'n' .* int64 .*'seven'"):
        vocabtool.embed(corpus, encoder, out, **asked)
    report = vocabtool.embed(corpus, encoder, out, on_error="skip", **asked)
    assert report.resumed > 0
    assert any("2 values" in note and "corpus.jsonl:3002" in note for note in report.notes)
    assert rows(out)["n"].to_pylist() == [*range(3000), 7, None, None, None, 8]
    lines = [{"text": "a" * 1024, "yes": True}] * 3000
    lines += [{"text": "b", "yes": value} for value in (False, 1, "true", None, 0)]
    corpus.write_text("".join(json.dumps(line) + "\n" for line in lines))
    vocabtool.embed(corpus, encoder, out, on_error="skip", keep=["yes"], force=True)
    assert rows(out)["yes"].to_pylist()[3000:] == [False, None, True, None, None]


def test_a_kept_field_that_no_document_has_is_noted(tmp_path: Path) -> None:
    """However far in the first value is; names with dots too, and a run that is gone on with."""
    corpus, out = tmp_path / "corpus.jsonl", tmp_path / "out"
    rows = [{"text": "a", "null": None} for _ in range(50)] + [{"text": "b", "late.one": 0}]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked: dict[str, Any] = {"keep": ["nope", "late.one", "null"], "shard_rows": 20}
    notes = (
        "no document has a value in the field 'nope'",
        "no document has a value in the field 'null'",
    )
    encoder = vocabtool.open_encoder(encode, fingerprint="same")
    report = vocabtool.embed(corpus, encoder, out, **asked)
    assert report.notes == (*encoder.notes, *notes)
    (out / "shard-000000.parquet").unlink()
    report = vocabtool.embed(corpus, encoder, out, **asked)
    assert report.notes == (*encoder.notes, *notes)


def test_unknown_words_stand_beside_the_vector(cats: Path, tmp_path: Path) -> None:
    """Of a static encoder: the words it does not know; vectors are zero where it knows none."""
    (tmp_path / "corpus.txt").write_text("Cat sat on Cat\nDogs on mats on dogs\n\ncat\n")
    encoder = vocabtool.open_encoder(cats, rule="lower", weights="none")
    report = vocabtool.embed(tmp_path / "corpus.txt", encoder, tmp_path / "out")
    table = rows(tmp_path / "out")
    assert table["unknown"].to_pylist() == [["on"], ["dogs", "on", "mats"], []]
    counts = report.counts
    assert (counts.tokens, counts.tokens_unknown, counts.zero) == (10, 6, 1)
    half = np.sqrt(0.2)
    wanted = [[2 * half, half], [0, 0], [1, 0]]
    assert np.allclose(np.array(table["vector"].to_pylist()), wanted, atol=1e-6)


def test_weights_are_fitted_once(cats: Path, tmp_path: Path) -> None:
    """They are kept beside the shards; those of a run without a shard are not."""
    corpus, out = tmp_path / "corpus.txt", tmp_path / "out"
    corpus.write_text("cat sat\ncat\ncat cat\n")
    encoder: Any = vocabtool.open_encoder(cats, rule="lower", weights="idf")
    vocabtool.embed(corpus, encoder, out, shard_rows=1)
    before = files_of(out)
    for name in ("shard-000001.parquet", "_manifest.json"):
        (out / name).unlink()
    vocabtool.embed(corpus, encoder, out, shard_rows=1)
    assert files_of(out) == before
    weights = np.log(4 / (1 + np.array([3, 1]))) + 1
    vector = weights / np.linalg.norm(weights)
    assert np.allclose(rows(out)["vector"].to_pylist()[0], vector, atol=1e-6)
    for model in (encoder.fit(["sat"]), encode):
        with pytest.raises(FolderNotEmpty, match="the model"):
            vocabtool.embed(corpus, model, out, shard_rows=1)
    assert files_of(out) == before
    vocabtool.embed(corpus, encode, out, force=True)
    assert "_weights.json" not in files_of(out)
    begun = tmp_path / "begun"
    begun.mkdir()
    stale = encoder.fit(["sat"]).fitted
    stale.write(begun / "_weights.json")
    vocabtool.embed(corpus, encoder, begun, shard_rows=1)
    assert files_of(begun) == before


# Laziness, and what is wrong with documents.


def test_an_endless_stream_is_written_as_it_comes(tmp_path: Path) -> None:
    """A shard appears as soon as its last document came: none waits for the next or the end."""
    out, came = tmp_path / "out", 0

    def endless() -> Iterator[str]:
        nonlocal came
        while not (out / "shard-000002.parquet").exists():
            yield f"text {came}"
            came += 1
        raise EOFError

    with pytest.raises(EOFError):
        vocabtool.embed(endless(), encode, out, shard_rows=5000)
    assert len(list(out.glob("shard-*.parquet"))) == came // 5000
    assert list(out.glob("*.part")) == []


def test_a_bad_row_far_in_costs_little(out: Path, tmp_path: Path) -> None:
    """The shards before it stay, and asked to leave such rows out the run goes on from there."""
    corpus = tmp_path / "corpus.jsonl"
    with corpus.open("wb") as file:
        for number in range(12_000):
            text = b'"' if number == 11_990 else b'"%d %s"' % (number, b"a" * 1000)
            file.write(b'{"text": %s}\n' % text)
    with pytest.raises(InvalidFile, match=r"corpus\.jsonl:11991"):
        vocabtool.embed(corpus, encode, out, shard_rows=SHARD)
    there = len(list(out.glob("shard-*.parquet")))
    assert there > 3
    with pytest.raises(NotFound, match="not finished"):
        vocabtool.Shards.open(out)
    report = vocabtool.embed(corpus, encode, out, shard_rows=SHARD, on_error="skip")
    assert (report.resumed, report.skipped, report.counts.documents) == (there, 1, 11_999)
    vocabtool.embed(corpus, encode, tmp_path / "whole", shard_rows=SHARD, on_error="skip")
    assert files_of(out) == files_of(tmp_path / "whole")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"keep": ["vector"]}, "'vector' is reserved for a column of every shard"),
    ({"keep": ["n", "n"]}, "a field may be named only once, got n, n"),
    *(({n: 0}, f"{n}: wanted at least 1") for n in ("shard_rows", "ray")),
    ({"ray_address": "x"}, "ray_address needs ray"),
]


@pytest.mark.parametrize(("wrong", "told"), WRONG)
def test_wrong_arguments(wrong: dict[str, Any], told: str, corpus: Path, out: Path) -> None:
    """Nothing is begun with them: a number, or a field that would be a column of every shard."""
    with pytest.raises(ValueError, match=told):
        vocabtool.embed(corpus, encode, out, **wrong)
    assert not out.exists()


def test_threads_end_where_writing_fails(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the error is still being looked at."""

    def full(_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vocabtool.embedding.shards.flush", full)
    before = threading.active_count()
    with pytest.raises(NoSpace, match="no space left") as caught:
        vocabtool.embed(corpus, encode, tmp_path / "out", threads=3)
    assert caught.tb is not None
    assert threading.active_count() == before
    assert list((tmp_path / "out").glob("*.part")) == []
