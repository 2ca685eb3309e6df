"""Vocabularies in files: what is written as others read it, what is read, what is refused.

The oracles are Python's json and csv modules, pyarrow, and bytes written down by hand.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.vocabularies import vocabulary as vocabulary_of
from tests.conftest import ROOT
from vocabtool import InvalidFile, NotFound, Place, Unknown, UnknownFormat, Vocabulary, read, save
from vocabtool.vocabulary import Special

Format = Literal["text", "json", "csv", "parquet"]
FORMATS: tuple[Format, ...] = ("text", "json", "csv", "parquet")
KINDS = ("table", "bpe", "asset", "variable", "constant", "vectors")
NASTY = (
    *(b"", b" ", b"\t", b"\n", b"\r", b"\r\n", b"a\nb\n", b"\x00", b"a\x00", b"\x1b[31m", b"\x7f"),
    *(b"\\", b"\\\\", b"\\n", b"\\r", b"\\x41", b"\\xFF", b"\\x4", b"\\\\n", b"a\\", b"\\\n"),
    *(b"C:\\foo", b"C:\\new", b"C:\\new\n", b"\\xff\xff", b"\\udcff", b"\\u0041"),
    *(b'"', b'""', b'a"b', b",", b"a,b", b"'", b"{", b'{"name":', b"id,token,base64", b"PAR1"),
    *("é".encode(), "\x85".encode(), "\u2028".encode(), "\ufeffa".encode(), "𝄞".encode()),
    *(b"\xff", b"\xc3", b"\xe2\x82", b"caf\xe9", b"\xed\xa0\x80", b"\xc0\x80", b"\xff\n\xfe\r"),
)


ENTRIES = st.lists(st.one_of(st.binary(max_size=8), st.sampled_from(NASTY)), max_size=12)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.one_of(
    st.text(max_size=5), st.binary(max_size=5).map(lambda b: b.decode("utf-8", "surrogateescape"))
)
SPECIAL = st.builds(Special, INT64, TEXT, st.sampled_from(("mask", "unknown")))
unhurried = settings(deadline=None)  # pyarrow is imported by whichever example comes first


@st.composite
def vocabularies(draw: st.DrawFn) -> Vocabulary:
    """Any vocabulary, its ids counting on from the first or ascending in another way."""
    entries = draw(ENTRIES)
    size = len(entries)
    ascending = st.lists(INT64, min_size=size, max_size=size).map(sorted)
    made = vocabulary_of(
        entries,
        draw(st.integers(-(1 << 63), (1 << 63) - 1 - size)),
        draw(st.none() | ascending.map(lambda ids: np.array(ids, np.int64))),
        draw(st.none() | st.builds(Unknown, INT64, st.integers(1, 9))),
        tuple(draw(st.lists(SPECIAL, max_size=2))),
        tuple(draw(st.lists(st.builds(Place, TEXT, TEXT), max_size=2))),
        draw(st.sampled_from(("text", "integer"))),
        tuple(draw(st.lists(TEXT, max_size=2))),
        name=draw(TEXT),
    )
    return replace(made, kind=draw(st.sampled_from(KINDS)))


def words(*entries: bytes, first_id: int = 0) -> Vocabulary:
    return vocabulary_of(entries, first_id)


def written(vocabulary: Vocabulary, format_: Format) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        save(vocabulary, Path(folder) / "words.file", format_)
        return (Path(folder) / "words.file").read_bytes()


def back(data: bytes, format_: Format) -> Vocabulary:
    """What a file of these bytes is read as."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "words.file"
        path.write_bytes(data)
        return read(path, format_)


@pytest.mark.parametrize("format_", ["json", "parquet"])
@unhurried
@given(vocabulary=vocabularies())
def test_json_and_parquet_keep_everything(format_: Format, vocabulary: Vocabulary) -> None:
    """An equal vocabulary comes back, with the same name, kind, places and notes."""
    found = back(written(vocabulary, format_), format_)
    assert found == vocabulary
    for fact in ("name", "kind", "places", "notes", "entry_type", "specials", "unknown"):
        assert getattr(found, fact) == getattr(vocabulary, fact)


@given(vocabularies())
def test_csv_keeps_entries_and_ids(vocabulary: Vocabulary) -> None:
    """Entries and ids come back, under the name of the file."""
    found = back(written(vocabulary, "csv"), "csv")
    assert list(found.stored) == list(vocabulary.stored)
    assert found.id_array().tolist() == vocabulary.id_array().tolist()
    assert found.name == "words"


@given(ENTRIES)
def test_text_keeps_entries(entries: list[bytes]) -> None:
    """Every entry comes back, whatever bytes are in it."""
    assert list(back(written(words(*entries), "text"), "text").stored) == entries


@pytest.mark.parametrize("format_", FORMATS)
def test_the_same_vocabulary_gives_the_same_bytes(format_: Format) -> None:
    """Output is stable, however the entries are held."""
    one = words(*NASTY)
    stored = words(*NASTY[::-1]).stored.take(np.arange(len(NASTY))[::-1])
    assert written(one, format_) == written(replace(one, stored=stored), format_)


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        (b"a\nb", rb"a\nb"),
        (b"caf\xe9", rb"caf\xe9"),
        (rb"C:\new", rb"C:\\new"),
        (b"a\\\n", rb"a\\\n"),
    ],
)
def test_what_text_escapes(entry: bytes, line: bytes, tmp_path: Path) -> None:
    """What a line cannot hold, or what would read as if it were escaped."""
    assert save(words(b"the", entry), tmp_path / "words.txt") == 1
    assert (tmp_path / "words.txt").read_bytes() == b"the\n" + line + b"\n"


def test_json_as_it_is_written() -> None:
    """The JSON, whole."""
    vocabulary = vocabulary_of(
        [b"the", b"\xff"],
        2,
        np.array([2, 5]),
        Unknown(1),
        (Special(0, "", "mask"), Special(1, "[UNK]", "unknown")),
        (Place("saved_model.pb", "graph/words"),),
        "text",
        ("a note",),
    )
    assert json.loads(written(vocabulary, "json")) == {
        "fingerprint": vocabulary.fingerprint,
        "name": "words",
        "kind": "table",
        "entry_type": "text",
        "unknown": {"id": 1, "count": 1},
        "specials": [
            {"id": 0, "entry": "", "role": "mask"},
            {"id": 1, "entry": "[UNK]", "role": "unknown"},
        ],
        "places": [{"file": "saved_model.pb", "place": "graph/words"}],
        "notes": ["a note"],
        "marker": None,
        "first_id": 2,
        "tokens": ["the", "\\xff"],
        "ids": [2, 5],
        "base64": {"1": base64.b64encode(b"\xff").decode()},
    }


def test_csv_and_parquet_as_they_are_written() -> None:
    """As Python's csv module and pyarrow read them; facts are JSON in Parquet's metadata."""
    vocabulary = words(b"a,b", b'"', b"x\ny", b"\xff", first_id=3)
    data = written(vocabulary, "csv")
    assert list(csv.reader(io.StringIO(data.decode(), newline=""))) == [
        ["id", "token", "base64"],
        ["3", "a,b", ""],
        ["4", '"', ""],
        ["5", "x\ny", ""],
        ["6", "\\xff", "/w=="],
    ]
    table = pq.read_table(pa.BufferReader(written(vocabulary, "parquet")))
    assert table.to_pydict() == {
        "id": [3, 4, 5, 6],
        "token": ["a,b", '"', "x\ny", "\\xff"],
        "base64": ["", "", "", "/w=="],
    }
    assert json.loads(table.schema.metadata[b"vocabtool"])["name"] == "words"


def test_format_by_ending(tmp_path: Path) -> None:
    """Without a format the ending of the file tells, in either case; others are refused."""
    for ending, format_ in zip((".TXT", ".json", ".csv", ".parquet"), FORMATS, strict=True):
        path = tmp_path / f"words{ending}"
        save(words(b"the"), str(path))
        assert path.read_bytes() == written(words(b"the"), format_)
        assert read(str(path)).tokens == ["the"]
    path = tmp_path / "words.xls"
    path.write_bytes(b"")
    wanted = r"words\.xls: wanted one of \.txt, \.json, \.csv, \.parquet, got '\.xls'$"
    with pytest.raises(UnknownFormat, match=wanted):
        read(path)
    with pytest.raises(UnknownFormat, match=wanted):
        save(words(b"the"), path)
    assert path.read_bytes() == b""
    save(words(b"the"), path, "text")
    assert path.read_bytes() == b"the\n"


def test_where_it_is_written(tmp_path: Path) -> None:
    """A link is followed and stays one; a pipe is not replaced; a folder must be there."""
    target, link, pipe = tmp_path / "words.txt", tmp_path / "link.txt", tmp_path / "pipe"
    target.write_bytes(b"old\n")
    link.symlink_to(target)
    save(words(b"new"), link)
    assert link.is_symlink()
    assert target.read_bytes() == b"new\n"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        save(words(b"the", b"fox"), pipe)
        assert reader.stdout is not None
        assert reader.stdout.read() == b"the\nfox\n"
    assert not pipe.is_file()
    with pytest.raises(NotFound, match="nowhere: the folder does not exist"):
        save(words(), tmp_path / "nowhere" / "words.txt")


def test_a_killed_save_leaves_the_old_file(tmp_path: Path) -> None:
    """kill -9 at any moment leaves the old file or the new one, never a part."""
    path = tmp_path / "words.txt"
    old, new = b"old\n", b"".join(b"word%d\n" % i for i in range(200_000))
    code = (
        "import sys, pathlib\n"
        "from tests.builders.vocabularies import vocabulary\n"
        "from vocabtool import save\n"
        "words = vocabulary(b'word%d' % i for i in range(200_000))\n"
        "print('ready', flush=True)\n"
        "while True: save(words, pathlib.Path(sys.argv[1]), 'text')\n"
    )
    for delay in (0.0, 0.003, 0.01, 0.03, 0.08):
        path.write_bytes(old)
        with subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, cwd=ROOT
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(delay)
            os.kill(process.pid, signal.SIGKILL)
        assert path.read_bytes() in (old, new)


def changed(**facts: Any) -> bytes:
    """A JSON file with some members replaced; ``...`` removes one."""
    document = json.loads(written(words(b"the", b"fox"), "json")) | facts
    return json.dumps({k: v for k, v in document.items() if v is not ...}).encode()


def parquet(table: dict[str, Any], **metadata: str) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(table).replace_schema_metadata(metadata), file)
    return file.getvalue()


HEAD = b'"id","token","base64"\n'
ROW = {"id": [1], "token": ["a"], "base64": [""]}


@pytest.mark.parametrize(
    ("format_", "data", "message"),
    [
        ("json", b"", "JSON: "),
        ("json", b"[]", "the document is a list, wanted an object"),
        ("json", changed(tokens=...), "tokens is null, wanted a list"),
        ("json", changed(tokens=["the", 1]), "row 2: wanted id, token, base64"),
        ("json", changed(tokens=["the", "cat"]), "'fingerprint' does not match"),
        ("json", changed(fingerprint=...), "'fingerprint' does not match"),
        ("json", changed(kind="other"), "kind must be "),
        ("json", changed(ids=[1]), "row 2: wanted id, token, base64: "),
        ("json", changed(ids=[0, 1.0]), "row 2: wanted id"),
        ("json", changed(ids=[0, 1 << 63]), "row 2: wanted id"),
        ("json", changed(first_id="0"), "first_id is a text, wanted"),
        ("json", changed(base64={"1": "?"}), "row 2: wanted id"),
        ("json", changed(unknown={"id": 1, "count": 0}), "'count' of 'unknown' of at least 1"),
        ("json", changed(unknown={"id": 1 << 63, "count": 1}), "wanted ids of 64 bits"),
        ("csv", b"id,word\n", """wanted the first line b'"id","token","base64"\\n'"""),
        ("csv", HEAD + b"1,the,\nx,fox,\n", "conversion error to int64"),
        ("csv", HEAD + b",the,\n", "conversion error to int64"),
        ("csv", HEAD + b"1,\xff,\n", "invalid UTF8 data"),
        ("csv", HEAD + b"1,a,?\n", "row 1: wanted id"),
        ("text", b"\xff\n", "wanted UTF-8, a final"),
        ("text", b"a\r\n", "wanted UTF-8, a final"),
        ("text", b"a\nb", "wanted UTF-8, a final"),
        ("parquet", written(words(b"the"), "parquet")[:-9], "invalid or damaged parquet"),
        ("parquet", parquet({"id": [1], "token": ["a"]}), "invalid or damaged parquet"),
        ("parquet", parquet(ROW), "JSON: "),
        ("parquet", parquet(ROW, vocabtool="[]"), "the facts is a list, wanted an object"),
        ("parquet", parquet(ROW, vocabtool="{}"), "name must be str"),
        ("parquet", parquet(ROW | {"id": ["x"]}, vocabtool="{}"), "invalid or damaged parquet"),
        ("parquet", parquet(ROW | {"id": [None]}, vocabtool="{}"), "row 1: wanted id"),
        ("parquet", parquet(ROW | {"token": [None]}, vocabtool="{}"), "row 1: wanted id"),
    ],
)
def test_malformed(format_: Format, data: bytes, message: str) -> None:
    """What write does not write is refused, with what is wrong and in which file."""
    with pytest.raises(InvalidFile, match=re.escape(message)) as caught:
        back(data, format_)
    assert "words.file: " in str(caught.value)


@pytest.mark.parametrize("format_", ["json", "csv", "parquet"])
def test_files_cut_anywhere(format_: Format) -> None:
    """A file that is cut anywhere is refused, or (CSV, between rows) read as far as it goes."""
    data = written(words(b"the", b"\xff", b"fox"), format_)
    for size in range(len(data) - 2):
        try:
            found = back(data[:size], format_)
        except InvalidFile:
            continue
        assert format_ == "csv"
        assert list(found.stored) == [b"the", b"\xff", b"fox"][: len(found)]
