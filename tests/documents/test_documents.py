"""Documents as other readers make them of the same bytes; names, and ids that repeat."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import os
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.conftest import ROOT
from tests.documents.reading import batches, documents, numbered, skipping, texts_of, write
from vocabtool import Document
from vocabtool.documents import Format, ReadLog
from vocabtool.errors import InvalidFile, NotFound, UnsupportedFormat

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
Factory = pytest.TempPathFactory
SIZES = st.sampled_from([1, 2, 3, 5, 8, 64, 1 << 20])
CUTS = [b"a", b"bc", b"\n", b"\r", b"\r\n", b"\0", b"\xff", "\ufeff".encode(), "\u2028é".encode()]
NASTY = st.lists(st.sampled_from(CUTS)).map(b"".join)


def as_bytes(text: str) -> bytes:
    """A text of a document as it stood in its file."""
    return text.encode("utf-8", "surrogateescape")


def slow_lines(data: bytes) -> list[bytes]:
    """The rule for text lines, written plainly."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    *ended, last = data.split(b"\n")
    return [line.removesuffix(b"\r") for line in ended] + ([last] if last else [])


@given(data=NASTY, size=SIZES)
@example(data=b"\xff\xfe a\nb", size=64)  # begins like UTF-16
def test_lines_are_cut_the_same_whatever_the_size(
    data: bytes, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Blocks that end anywhere, also between CR and LF, change neither bytes nor numbers.

    Blank lines are left out.
    """
    wanted = [(n, line) for n, line in enumerate(slow_lines(data), 1) if line.strip()]
    name = write(tmp_path_factory.mktemp("lines") / "corpus.txt", data)
    assert numbered(batches(name, size=size)) == wanted
    found = [(d.id, as_bytes(d.text), d.fields) for d in documents(name, size=size)]
    assert found == [(f"{name}:{n}", text, {}) for n, text in wanted]


def test_batches_have_about_the_size_asked_for(tmp_path: Path) -> None:
    """No batch holds more text than asked for, unless it is one text; none mixes two sources."""
    data = b"".join(b"x" * (number % 50) + b"\n" for number in range(5000)) + b"y" * 3000
    names = [write(tmp_path / "a.txt", data), write(tmp_path / "b.txt", data)]
    found = list(batches(names, size=1000))
    sizes = [sum(map(len, texts_of([batch]))) for batch in found]
    assert [size for size, batch in zip(sizes, found, strict=True) if size > 1000] == [3000, 3000]
    assert [batch.source for batch in found] == sorted(batch.source for batch in found)
    assert {batch.source for batch in found} == set(names)
    assert texts_of(found) == [*filter(None, slow_lines(data))] * 2


@pytest.mark.parametrize("size", [1, 7, 50])
def test_a_line_that_is_too_long_is_a_bad_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """It is dropped unseen and counted; the lines around it keep their numbers."""
    monkeypatch.setattr("vocabtool.documents.row_files.MAX_LINE_BYTES", 100)
    long = b"x" * 1000
    data = b"a\n" + b"y" * 99 + b"\n" + long + b"\r\nb\n" + long + b"\n\nc\n" + long
    name = write(tmp_path / "long.txt", data)
    found, skipped = skipping(name, size=size)
    assert found == [(1, b"a"), (2, b"y" * 99), (4, b"b"), (7, b"c")]
    assert skipped.count == 3
    assert [skip.place for skip in skipped.first] == [f"{name}:{line}" for line in (3, 5, 8)]
    assert all("100 bytes" in skip.reason for skip in skipped.first)
    with pytest.raises(InvalidFile, match=r"long\.txt:3: .*100 bytes.*--on-error skip"):
        list(batches(name, size=size))
    old_mac = write(tmp_path / "cr.txt", b"a\r" + long + b"\rb\rc\r")
    assert skipping(old_mac, size=size)[0] == [(1, b"a"), (3, b"b"), (4, b"c")]


def test_json_lines(tmp_path: Path) -> None:
    """Objects or strings, a line each; blank lines count, a BOM is none; an array is refused."""
    data = b'\xef\xbb\xbf{"text": "a"}\r\n\n  \n "\\u00e9\\n"\t\n{"id": 7, "text": ""}'
    name = write(tmp_path / "corpus.jsonl", data)
    assert [(d.id, d.text, d.fields) for d in documents(name)] == [
        (f"{name}:1", "a", {}),
        (f"{name}:4", "é\n", {}),
        (f"{name}:5", "", {"id": 7}),
    ]
    array = write(tmp_path / "corpus.json", b'[\n{"text": "a"}]\n')
    assert texts_of(batches(array, format="lines")) == [b"[", b'{"text": "a"}]']
    with pytest.raises(InvalidFile, match=r"corpus\.json: .*'body'"):
        list(batches(array, format="lines", field="body"))


def test_json_array(tmp_path: Path) -> None:
    """An array of objects or texts is read as a whole; anything else is named."""
    name = write(tmp_path / "corpus.json", b'\xef\xbb\xbf[{"text": "\\ud83d", "n": 1}, "b"]')
    found = [(d.id, d.fields) for d in documents(name)]
    assert found == [(f"{name}:1", {"n": 1}), (f"{name}:2", {})]
    assert texts_of(batches(name)) == [b"\xed\xa0\xbd", b"b"]
    for content, reason in (
        (b'[{"text": "a"}', "not JSON"),
        (b'{"text": "a"}', "expected a JSON array.*--input-format jsonl"),
        (b'{"text": "a"}\n{"text": "b"}\n', "Extra data.*--input-format jsonl"),
        (b'["a", 1]', r"corpus\.json:2: .*got a number"),
        (b'[{"body": "a"}]', r"corpus\.json:1: .*'text'.*'body'"),
        (b"\xff\xfe[\0", "UTF-16"),
    ):
        write(tmp_path / "corpus.json", content)
        with pytest.raises(InvalidFile, match=reason):
            list(batches(name))


EXTRA = "JSON: Extra data"
GOT = [
    *((b"null", "null"), (b"1", "a number"), (b"[]", "an array"), (b'{"a": 1}', "an object")),
    (b"true", "true or false"),
]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        *((b'{"text": "a"', "JSON: "), (b'{"text": "a\x01b"}', "JSON: Invalid control")),
        *((b'{"text": "a"} x', EXTRA), (b'{"text": "b"}{"text": "c"}', EXTRA)),
        (b'{"text": "\xff"}', "UTF-8.*byte 10 "),
        (b"[" * 100_000, "nested"),
        (b'{"body": "a", "n": 1}', "'text'.*'body', 'n'"),
        *((b'{"text": %s}' % value, f"'text'.* got {got}") for value, got in GOT),
    ],
)
@pytest.mark.parametrize("read", [batches, documents])
def test_bad_json_lines(tmp_path: Path, line: bytes, reason: str, read: Any) -> None:
    """A bad row is named by file and line and says what was wanted; or it is passed over."""
    name = write(tmp_path / "bad.jsonl", b'{"text": "a"}\n' + line + b'\n{"text": "z"}\n')
    with pytest.raises(InvalidFile) as caught:
        list(read(name))
    assert str(caught.value).startswith(f"{name}:2: ")
    found, skipped = skipping(name)
    assert (found, skipped.count) == ([(1, b"a"), (3, b"z")], 1)
    assert skipped.first[0].place == f"{name}:2"
    for message in (str(caught.value), skipped.first[0].reason):
        assert re.search(reason, message)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'{"text": "a", "text": "b"}', b"b"),
        (b'{"text": "\\ud83d"}', b"\xed\xa0\xbd"),
        (b'{"text": "\\udcff"}', b"\xff"),
        (b'{"text": "\\ud83d\\ude00"}', "😀".encode()),
        (b'{"text": "\\u0000x"}', b"\0x"),
        *((b'{"text": "a", "n": %s}' % number, b"a") for number in (b"9" * 5000, b"1e999", b"NaN")),
        (b'{"text": "2020-01-01", "n": {"text": 1}}', b"2020-01-01"),
    ],
)
def test_odd_json_lines(tmp_path: Path, line: bytes, text: bytes) -> None:
    """Equal keys, lone surrogates and boundless numbers are read, alone or among others."""
    plain = b'{"text": "plain"}\n'
    alone = write(tmp_path / "alone.jsonl", line + b"\n")
    among = write(tmp_path / "among.jsonl", plain + line + b'\n"s"\n')
    assert texts_of(batches(alone)) == [text]
    assert texts_of(batches(among)) == [b"plain", text, b"s"]
    assert [as_bytes(d.text) for d in documents(alone)] == [text]


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
OBJECTS = st.dictionaries(st.text(max_size=5), SCALARS | st.lists(SCALARS, max_size=2), max_size=3)


@given(
    objects=st.lists(st.tuples(st.text(), OBJECTS), max_size=8), ascii_=st.booleans(), size=SIZES
)
def test_json_round_trip(
    objects: list[tuple[str, Any]], ascii_: bool, size: int, tmp_path_factory: Factory
) -> None:
    """What Python's json writes is read back, texts and fields, whatever the size of a block."""
    objects = [(text, {k: v for k, v in rest.items() if k != "text"}) for text, rest in objects]
    written = [json.dumps({**rest, "text": text}, ensure_ascii=ascii_) for text, rest in objects]
    data = "\n".join(written).encode("utf-8", "surrogatepass")
    name = write(tmp_path_factory.mktemp("json") / "corpus.ndjson", data)
    assert texts_of(batches(name, size=size)) == [text.encode() for text, _ in objects]
    found = list(documents(name, size=size))
    assert [(d.text, d.fields) for d in found] == objects


def test_csv(tmp_path: Path) -> None:
    """The first row names the fields; quotes hold line ends, and rows are counted, not lines."""
    data = b'\xef\xbb\xbf\nid,text\r\n1,"a\r\n""b"", c"\r\n\r\n2,\xff \n3,NULL'
    name = write(tmp_path / "corpus.csv", data)
    assert numbered(batches(name)) == [(2, b'a\r\n"b", c'), (3, b"\xff "), (4, b"NULL")]
    assert [(d.id, d.text, d.fields) for d in documents(name, id_field="id")] == [
        ("1", 'a\r\n"b", c', {"id": "1"}),
        ("2", "\udcff ", {"id": "2"}),
        ("3", "NULL", {"id": "3"}),
    ]
    one = write(tmp_path / "one.csv", b'"body"\n\xef\xbb\xbfa\n""\n\nb')
    assert numbered(batches(one)) == [(2, b"\xef\xbb\xbfa"), (3, b""), (4, b"b")]
    for end in (b"", b"\n", b"\r\n", b"\n\n"):
        assert list(batches(write(tmp_path / "header.csv", b"id,text" + end))) == []


def test_bad_csv_rows_are_skipped_over_many_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows behind bad ones keep their numbers; a quote left open is no matter of memory."""
    monkeypatch.setattr("vocabtool.documents.tables.MAX_ROW_BYTES", 64)
    bad = {5, 6, 40, 41, 300, 998, 999, 1000}
    kept = [row for row in range(2, 1001) if row not in bad]
    data = b"id,text\n" + b"".join(
        b"%d\n" % row if row in bad else b"%d,text %d\n" % (row, row) for row in range(2, 1001)
    )
    name = write(tmp_path / "corpus.csv", data)
    found, skipped = skipping(name)
    assert found == [(row, b"text %d" % row) for row in kept]
    places = [f"{name}:{row}" for row in sorted(bad)]
    assert (skipped.count, [skip.place for skip in skipped.first]) == (8, places)
    monkeypatch.setattr("vocabtool.documents.tables.MAX_ROW_BYTES", 1000)
    name = write(tmp_path / "corpus.csv", b'text\na\n"' + b"b\n" * 2000)
    told = r"corpus\.csv:3: .*1,000 bytes.*quote"
    with pytest.raises(InvalidFile, match=told):
        skipping(name)


OPEN = [
    *((b'text\na\n"b\nc\n', 3), (b'text\n"', 2), (b'id,text\n1,"a ""b"""\n2,"open\n3,c', 3)),
    (b'id,text,more\n1,a,"open\n\n3,c,d\n', 2),
]


@pytest.mark.parametrize(("data", "number"), OPEN)
def test_a_quote_left_open_is_told_with_its_row(tmp_path: Path, data: bytes, number: int) -> None:
    """It takes in all that follows: an error, or one row that is left out."""
    name = write(tmp_path / "corpus.csv", data)
    with pytest.raises(InvalidFile, match=f"csv:{number}: .*quote"):
        list(batches(name))
    found, skipped = skipping(name)
    assert [number for number, _ in found] == list(range(2, number))
    assert [skip.place for skip in skipped.first] == [f"{name}:{number}"]


@pytest.mark.parametrize(("kind", "quotes"), [("csv", True), ("csv", False), ("tsv", True)])
@given(
    body=st.lists(st.sampled_from(["a", "b ", ",", "\t", '"', '""', "\n", "\r\n", "\r"])).map(
        "".join
    ),
    size=SIZES,
)
def test_rows_are_read_as_python_reads_them(
    kind: str, quotes: bool, body: str, size: int, tmp_path_factory: Factory
) -> None:
    """Quotes in any place mean what they mean to Python's csv, and rows have the same numbers.

    But for the last row, where a quote is open: the next row would be in it. In TSV, and in CSV if
    an option says so, a quote is a character like others.
    """
    delimiter = "\t" if kind == "tsv" else ","
    plain = kind == "tsv" or not quotes
    if plain:
        body = re.sub(r"\r(?!\n)", "", body)  # where Python's csv ends a row
    data = f"id{delimiter}text\n{body}"

    def read(text: str) -> list[list[str]]:
        quoting: Any = csv.QUOTE_NONE if plain else csv.QUOTE_MINIMAL
        lines = io.StringIO(text, newline="")
        return [row for row in csv.reader(lines, delimiter=delimiter, quoting=quoting) if row]

    table = read(data)
    if read(f"{data}\nend{delimiter}end\n")[-1] != ["end", "end"]:
        del table[-1]
    name = write(tmp_path_factory.mktemp("csv") / f"corpus.{kind}", data.encode())
    found, _ = skipping(name, size=size, quotes=quotes)
    assert found == [
        (number, row[1].encode())
        for number, row in enumerate(table, 1)
        if len(row) == 2 and number > 1
    ]


QUESTIONS = b'id,text\n1,"Dog" is a word\n2,"open\n3,middle\n4,close"\n5,"a\nb"\n'


def test_a_row_of_many_lines_is_told_once(tmp_path: Path) -> None:
    """With the row, and with the option that reads each line as a row."""
    name = write(tmp_path / "questions.csv", QUESTIONS)
    log = ReadLog()
    assert [number for number, _ in numbered(batches(name, log=log))] == [2, 3, 4]
    (note,) = log.notes
    assert (
        note.startswith(f"{name}:3: a row with a text of several lines") and "--no-quotes" in note
    )
    other = ReadLog()
    found = numbered(batches(name, log=other, quotes=False, on_error="skip"))
    assert found[0] == (2, b'"Dog" is a word')
    assert [number for number, _ in found] == [2, 3, 4, 5, 6]
    assert (other.notes, other.skipped.count) == ([], 1)
    joined, product = ReadLog(), write(tmp_path / "products.csv", b'code,text\n"A-1",shoe\n')
    assert texts_of(batches(product, field=("code", "text"), log=joined)) == [b"A-1\n\nshoe"]
    assert joined.notes == []


def latin_page(encoding: str, text: str, prolog: str = "<meta charset={}>") -> bytes:
    return f"{prolog.format(encoding)}<p>{text}</p>".encode(encoding)


HTTP_EQUIV = '<META http-equiv="Content-Type" content="text/html; charset={}">'
TOML = b'+++\ntitle = "T"\ndate = 2020-01-01\n[menu]\nmain = """\nx\n"""\n+++\n'
MADE_ELSEWHERE: dict[str, tuple[str, bytes, list[tuple[str, str]]]] = {
    "bom": ("a.txt", b"\xef\xbb\xbfthe cat\nthe dog\n", [(":1", "the cat"), (":2", "the dog")]),
    "cr lines": ("a.txt", b"one\rtwo\r", [(":1", "one"), (":2", "two")]),
    "cr in lines": ("a.txt", b"10 %\r20 %\ntwo\n", [(":1", "10 %\r20 %"), (":2", "two")]),
    "cr jsonl": ("a.jsonl", b'{"text":"a"}\r{"text":"b"}\r', [(":1", "a"), (":2", "b")]),
    "cr csv": ("a.csv", b"text\ra\rb\r", [(":2", "a"), (":3", "b")]),
    "cr md": ("a.md", b"# A\r\rone\r\r# B\r\rtwo\r", [("#A", "# A\n\none"), ("#B", "# B\n\ntwo")]),
    "cr rst": ("a.rst", b"T\r==\r\rbody\r", [("#T", "T\n==\n\nbody")]),
    "toml": ("a.md", TOML + b"# Head\nbody\n", [("#Head", "# Head\nbody")]),
    "crlf toml": ("a.md", b"+++\r\na = 1\r\n+++\r\nbody\r\n", [("", "body")]),
    "no toml": ("a.md", b"+++\nso so\n+++\nbody\n", [("", "+++\nso so\n+++\nbody")]),
    "latin-1 is windows": ("a.html", latin_page("cp1252", "\u201ccaf\xe9\u201d").replace(
        b"cp1252", b"iso-8859-1"), [("", "\u201ccaf\xe9\u201d")]),
    "http-equiv": ("a.html", latin_page("koi8-r", "\u0442\u0435\u043a\u0441\u0442", HTTP_EQUIV),
        [("", "\u0442\u0435\u043a\u0441\u0442")]),
    "xml": ("a.xhtml", latin_page("iso-8859-15", "\u20ac", '<?xml version="1.0" encoding="{}"?>'),
        [("", "\u20ac")]),
    "japanese": ("a.html", latin_page("shift_jis", "\u6771\u4eac"), [("", "\u6771\u4eac")]),
    "utf-8 in spite of it": ("a.html", "<meta charset=latin1>\xe9".encode(), [("", "\xe9")]),
    "no encoding": ("a.html", b"<meta charset=punycode>\xe9", [("", "\udce9")]),
    "zeros after gzip": ("a.txt.gz", gzip.compress(b"a\n") + gzip.compress(b"b\n") + bytes(512),
        [(":1", "a"), (":2", "b")]),
}  # fmt: skip


@pytest.mark.parametrize(("name", "data", "wanted"), MADE_ELSEWHERE.values(), ids=MADE_ELSEWHERE)
def test_text_that_other_programs_write(
    tmp_path: Path, name: str, data: bytes, wanted: list[tuple[str, str]]
) -> None:
    """Marks, line ends, front matter, encodings and padding as their owners read them."""
    file = write(tmp_path / name, data)
    assert [(each.id.removeprefix(file), each.text) for each in documents(file)] == wanted


def test_toml_states_the_title(tmp_path: Path) -> None:
    (found,) = documents(write(tmp_path / "a.md", TOML + b"# Head\nbody\n"))
    assert (found.fields["title"], found.fields["line"]) == ("T", 9)


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", zstd)])
@pytest.mark.parametrize("kind", ["", ".txt", ".jsonl", ".csv"])
def test_compressed(tmp_path: Path, kind: str, suffix: str, pack: Any) -> None:
    """Members behind each other are one file; what is cut off or not packed names the codec."""
    data = pack(b"text\n" + os.urandom(9999).hex().encode())
    for bad in (b"plain text\n", data[:-9], data + b"more"):
        name = write(tmp_path / f"damaged{kind}{suffix}", bad)
        with pytest.raises(InvalidFile) as caught:
            list(batches(name))
        codec = {".gz": "gzip", ".zst": "zstd"}[suffix]
        assert str(caught.value).startswith(f"{name}: ")
        assert codec in str(caught.value).removeprefix(name)
    if not kind:
        name = write(tmp_path / f"corpus{suffix}", pack(b"a\nb\n") * 2)
        assert texts_of(batches(name, size=2)) == [b"a", b"b"] * 2


def test_globs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A glob stands for its files, sorted, in folders below too; a file's own name is no glob."""
    monkeypatch.chdir(tmp_path)
    Path("sub/deep").mkdir(parents=True)
    for place in ("b.txt", "a.txt", "sub/c.txt", "sub/deep/d.txt", "[x].txt", "x.txt"):
        write(Path(place), place.encode())
    assert texts_of(batches("?.txt")) == [b"a.txt", b"b.txt", b"x.txt"]
    assert texts_of(batches("sub/**/*.txt")) == [b"sub/c.txt", b"sub/deep/d.txt"]
    names: list[str | Path] = ["[x].txt", Path("a.txt")]
    assert texts_of(batches(names)) == [b"[x].txt", b"a.txt"]
    assert [batch.source for batch in batches("./[ab].txt")] == ["./a.txt", "./b.txt"]
    Path("folder").mkdir()
    for name, message in (
        ("*.nothing", r"^\*\.nothing: "),
        ("folder", r"^folder: .*\.txt \.jsonl"),
    ):
        with pytest.raises(NotFound, match=message):
            list(batches(name))


UTF16 = "\ufefftext\n東京" * 2
PACKERS = [(".txt", "bz2"), ("", "zip"), (".jsonl", "xz")]
REFUSED: list[tuple[str, bytes, str]] = [
    ("a.csv", b"", r": the file is empty \(expected a header row\)"),
    ("a.csv", b"id,body\n1,a\n", ": .*'text'.*'id', 'body'.*--field"),
    ("a.csv", b"text,text\n1,a\n", ": .*more than one.*'text'"),
    ("a.csv", b"id,text\n1,a\n2\n", ":3: .*2 values, got 1"),
    ("a.csv", b"id,text\n1,a\n\n2,b,c\n", ":3: .*2 values, got 3"),
    ("a.csv", b"x" * 200_000 + b"\n1\n", ": .*field larger"),
    ("a.csv", b"text" + b",column" * 90_000 + b"\na\n", ": a header row of 524,288 bytes"),
    *((f"a{kind}.{end}", b"x", rf": \.{end} ") for kind, end in PACKERS),
    ("a.parquet.gz", b"x", ": Parquet .*file"),
    ("a.epub", b"PK", ": EPUB is not supported: convert"),
    *(("a." + kind, LFS, ": .*Git LFS") for kind in ("txt", "csv", "parquet", "txt.gz")),
    *(
        (f"a.{kind}", UTF16.encode(f"utf-16-{order}"), ": .*UTF-16.*UTF-8.*iconv")
        for kind in ("txt", "jsonl", "csv", "tsv")
        for order in ("le", "be")
    ),
]


@pytest.mark.parametrize(("name", "data", "message"), REFUSED)
def test_what_is_refused(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    """With the file, and the row where there is one."""
    path = write(tmp_path / name, data)
    with pytest.raises((InvalidFile, UnsupportedFormat)) as caught:
        list(batches(path))
    assert re.match(re.escape(path) + message, str(caught.value))


def test_iterables() -> None:
    """What has an id keeps it; no text is a bad row: all are counted, the first ten remembered."""
    own = Document("d", "é", {"m": 2})
    given_: list[Any] = ["a", b"\xff", {"text": "c", "n": 1}, own, "\ud800"]
    found = list(documents(iter(given_)))
    assert [(d.id, d.text, d.fields) for d in found] == [
        ("texts:1", "a", {}),
        ("texts:2", "\udcff", {}),
        ("texts:3", "c", {"n": 1}),
        ("d", "é", {"m": 2}),
        ("texts:5", "\udced\udca0\udc80", {}),
    ]
    assert found[3] is own
    (batch,) = batches(iter(given_))
    assert texts_of([batch]) == [as_bytes(document.text) for document in found]
    assert [batch.id_of(row) for row in range(5)] == [document.id for document in found]
    items: list[Any] = ["a", None, {"body": "b"}, {"text": 3}, "z", *[None] * 1000]
    left, skipped = skipping(iter(items))
    assert left == [(1, b"a"), (5, b"z")]
    facts = ["Document.* got NoneType", r"'text'.*--field \(field=\)", "'text'.* got a number"]
    for number, (skip, fact) in enumerate(zip(skipped.first, facts, strict=False), 2):
        assert skip.place == f"texts:{number}"
        assert re.search(fact, skip.reason)
    assert (skipped.count, len(skipped.first)) == (1003, 10)


WRONG: list[dict[str, Any]] = [
    *({"on_error": "skip"}, {"on_error": "ignore"}, {"size": 0}, {"size": 1 << 40}, {"start": -1}),
    *({"keep": "title"}, *({"on_duplicate": which} for which in ("all", "first"))),
    *({"split": "words"}, {"split_size": 0}, {"overlap": 8, "split_size": 8}, {"include": "*.md"}),
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_mistakes_of_the_caller(wrong: dict[str, Any]) -> None:
    """Nothing is skipped or dropped uncounted, and sizes have bounds; told before reading."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        next(batches("-", **wrong))


def test_laziness(tmp_path: Path) -> None:
    """A batch takes no more than it holds, and no document waits for the next.

    A source is not touched before its turn: a file may come to be while one before is read.
    """
    taken = (f"text {number}" for number in itertools.count())
    first = next(batches(taken, size=12))
    assert (texts_of([first]), next(taken)) == ([b"text 0", b"text 1"], "text 2")
    assert next(documents([taken, iter(["never"])])).text == "text 3"
    assert next(taken) == "text 4"
    assert len(next(batches(itertools.repeat(b"")))) == 1 << 18
    early, later = write(tmp_path / "early.txt", b"a\n"), tmp_path / "later*.txt"
    found = documents([early, str(later)])
    assert next(found).text == "a"
    (tmp_path / "later1.txt").write_bytes(b"b\n")
    assert [document.text for document in found] == ["b"]


@pytest.mark.parametrize(
    ("kind", "line"), [("csv", b"y" * 99 + b"\n"), ("jsonl", b'"y"\n'), (None, b"y\n")]
)
def test_a_stream_without_end(kind: Format | None, line: bytes, tmp_path: Path) -> None:
    """An endless pipe gives its first batch, and closing the reader ends it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    code = f"import sys\nwhile True: sys.stdout.buffer.write({line!r} * 10000)"
    end = os.open(pipe, os.O_RDWR)  # both ways, so that opening it waits for nobody
    writer = subprocess.Popen([sys.executable, "-c", code], stdout=end, stderr=subprocess.DEVNULL)
    os.close(end)
    try:
        found = batches(str(pipe), format=kind)
        assert len(next(found)) > 1000
        found.close()  # type: ignore[attr-defined]  # it is a generator
    finally:
        writer.kill()
        writer.wait()


CHILD = """
import resource, sys
from tests.documents.reading import batches
next(batches(["texts"[:0].encode()]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
total = sum(int(batch.texts.nbytes) for batch in batches(sys.argv[1]))
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(total > 250_000_000, (after - before) // 1024)
"""


def test_memory_is_constant(tmp_path: Path) -> None:
    """300 MB of text in a small .gz are read in the memory of a few batches."""
    block = gzip.compress((b"the quick brown fox jumps over it" * 3 + b"\n") * 100_000)
    name = write(tmp_path / "corpus.txt.gz", block * 30)
    done = subprocess.run([sys.executable, "-c", CHILD, name], capture_output=True, cwd=ROOT)
    enough, grown = done.stdout.split()
    assert (enough, done.stderr) == (b"True", b"")
    assert int(grown) < 100


def corpus(path: Path, ids: Sequence[object]) -> str:
    path.write_text("".join(json.dumps({"id": id_, "text": f"{id_}"}) + "\n\n" for id_ in ids))
    return str(path)


def test_ids_that_repeat(tmp_path: Path) -> None:
    """With the id, across files too; texts without ids are not compared, and cost nothing."""
    names = [corpus(tmp_path / "a.jsonl", ["x", 7]), corpus(tmp_path / "b.jsonl", ["y", "7", "y"])]
    found = batches(names, id_field="id")
    assert next(found).id_array().to_pylist() == ["x", "7"]
    first, second = (f"{re.escape(name)}:3" for name in names)
    with pytest.raises(InvalidFile, match=f"^{second}: .*'7'.* {first} .*on_duplicate='first'"):
        next(found)
    with pytest.raises(InvalidFile, match=r"texts:2: .*'a'.* texts:1 "):
        list(batches(iter([Document("a", "x"), Document("a", "y")])))
    both = list(batches(iter([Document("a", "x")] * 2), on_duplicate=None))
    assert both[0].id_array().to_pylist() == ["a", "a"]
    assert sum(len(batch) for batch in batches(iter(["same"] * 5))) == 5


@given(
    ids=st.lists(st.sampled_from("abcd"), max_size=12),
    size=st.sampled_from([1, 3, 64]),
    start=st.integers(0, 5),
)
def test_against_python(ids: list[str], size: int, start: int) -> None:
    """What ``dict`` makes of the same ids, whatever the size of a batch."""
    rows = [{"id": id_, "text": f"{n}"} for n, id_ in enumerate(ids)]
    first = {id_: n for n, id_ in reversed(list(enumerate(ids)))}
    log = ReadLog()
    asked: Any = {"id_field": "id", "on_duplicate": "first", "log": log}
    found = batches(rows, size=size, start=start, **asked)
    assert list(map(int, texts_of(found))) == sorted(first.values())[start:]
    assert log.repeated == len(ids) - len(set(ids))


def test_memory_does_not_depend_on_the_length_of_ids() -> None:
    """100,000 ids of 1,000 bytes are compared in less than 200 bytes each."""
    rows = ({"id": f"{number:01000}", "text": ""} for number in range(100_000))
    tracemalloc.start()
    count = sum(len(batch) for batch in batches(rows, id_field="id", rows=1000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (count, peak < 200 * count) == (100_000, True)
