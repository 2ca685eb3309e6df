"""Damaged and hostile input: the right answer or one clear error, in bounded time and memory."""

# own process: TensorFlow

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import vocabtool
from tests.builders import saved_model_bytes as b
from tests.conftest import ROOT
from tests.fuzzing import show
from tests.reader_checks import written
from vocabtool import InvalidFile, NoVocabulary, UnknownFormat, UnsupportedFormat, VocabtoolError

WORDS = tuple(b"word%d" % number for number in range(12))
GOOD = b.saved_model(b.graph(*b.table_nodes(WORDS)))
NOTHING = b.node(b"n", b"NoOp")
MODEL = ROOT / "data" / "sentence_encoder"

# The limits of the reader.
MAX_NODES, MAX_FUNCTIONS = 400_000, 100_000
MAX_RANK, MAX_REPEATED = 254, 1 << 16


@pytest.fixture
def model(tmp_path: Path) -> Callable[[bytes], Path]:
    """Write a saved_model.pb and give its folder."""
    return lambda data: written(tmp_path, data, "saved_model.pb").parent


Writer = Callable[[bytes], Path]


def graph(*nodes: bytes, functions: Sequence[bytes] = (), tail: bytes = b"") -> bytes:
    """A SavedModel of one graph."""
    return b.saved_model(b.graph(*nodes, functions=functions), tail=tail)


def orphan(tensor: bytes) -> bytes:
    """A SavedModel whose only string constant is ``tensor``."""
    return graph(b.const(b"words", tensor))


def strings(values: bytes, *shape: int) -> bytes:
    """The same with a string tensor of this shape, its values as they are encoded."""
    return orphan(b.number(1, b.STRING) + b.field(2, b.shape(*shape)) + values)


def filled(table: bytes, keys: bytes, ids: bytes, name: bytes = b"fill") -> tuple[bytes, bytes]:
    """A table and the node that fills it."""
    return b.node(table, b"HashTableV2"), b.node(name, b"LookupTableImportV2", table, keys, ids)


REFUSED: dict[str, tuple[bytes, type[Exception], str]] = {
    "empty": (b"", InvalidFile, "an empty file"),
    "zip": (b"PK\x03\x04" + b"\0" * 99, UnsupportedFormat, "a zip archive.*Unpack"),
    "gzip": (b"\x1f\x8b\x08" + b"\0" * 99, UnsupportedFormat, "a gzip archive"),
    "ff": (b"\xff" * 1000, UnknownFormat, "not a model"),
    "cut in half": (GOOD[: len(GOOD) // 2], InvalidFile, "past the end"),
    "meta graphs": (b"\x08\x01" + b"\x12\0" * 1_001, InvalidFile, "more than 1,000 meta graphs"),
    "group": (b"\x08\x01\x12\x02\x13\x14", InvalidFile, "wire type 3 does not exist"),
    "git-lfs-pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
        *(UnknownFormat, "a pointer of Git LFS.*git lfs pull"),
    ),
}


@pytest.mark.parametrize(("data", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(data: bytes, error: type[Exception], message: str, model: Writer) -> None:
    """A file that is no model is refused with what it is, never read as an empty one."""
    with pytest.raises(error, match=f"(?s){message}") as caught:
        vocabtool.vocabularies(model(data))
    assert "saved_model.pb" in str(caught.value)


def test_chunked_saved_model(tmp_path: Path) -> None:
    """saved_model.cpb is recognised and refused, saying what to do."""
    for data in (bytes.fromhex("83af70d10d884a3f") + bytes(56), b"", b"anything"):
        with pytest.raises(UnsupportedFormat, match=r"saved_model\.cpb.*Save the model again"):
            vocabtool.vocabularies(written(tmp_path, data, "saved_model.cpb").parent)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (strings(b.field(8, b"boom"), 1 << 40), "627,776 elements, but the file stores only 1"),
        (orphan(b.string_tensor(WORDS, -5)), r"invalid shape of a tensor: \[-5\]"),
        (strings(b.field(4, b"\x01" * 12 + b"abc"), 12), "strings need 24 bytes, got 15"),
        (
            strings(b.field(4, b"\xff\xff\xff\xff\x0f" + b"\x01" * 20), 12),
            "a string is longer than the whole list, which has 25 bytes",
        ),
    ],
)
def test_a_lying_tensor_is_said(data: bytes, message: str, model: Writer) -> None:
    """One constant that cannot be read makes the result incomplete, and is named."""
    found = vocabtool.inspect(model(data))
    assert (found.complete, found.vocabularies) == (False, ())
    (warning,) = found.warnings
    assert "constant graph/words" in warning
    with pytest.raises(NoVocabulary, match=f"(?s)no vocabulary found.*{message}"):
        vocabtool.extract(model(data))


def from_file(filename: bytes) -> bytes:
    """A SavedModel with a table filled from the asset ``filename``."""
    asset = b.field(1, b.field(1, b"path:0")) + b.field(2, filename)
    return graph(*b.file_table(b"/home/somebody/words.txt"), tail=b.field(6, asset))


@pytest.mark.parametrize("name", [b"../../secret.txt", b"/etc/passwd", b"..", b"a\\b", b"C:x"])
def test_asset_outside_is_not_opened(name: bytes, model: Writer) -> None:
    """An asset's name that is a path is refused, and said."""
    folder = model(from_file(name))
    (folder.parent / "secret.txt").write_bytes(b"secret\n" * 20)
    found = vocabtool.inspect(folder)
    assert found.vocabularies == ()
    assert not found.complete
    assert "names a file by the path" in found.warnings[0]


def test_folder_one_level_too_high(tmp_path: Path) -> None:
    """The folder above a model names the model."""
    (tmp_path / "4").mkdir()
    (tmp_path / "4" / "saved_model.pb").write_bytes(GOOD)
    with pytest.raises(UnknownFormat, match=r"(?s)contains models in subfolders. Pass one of .*4$"):
        vocabtool.vocabularies(tmp_path)


def deep(levels: int) -> bytes:
    """An attribute that calls a function with an attribute that calls a function ..."""
    value = b.field(2, b"end")
    for _ in range(levels):
        value = b.field(10, b.field(1, b"f") + b.field(2, b.field(1, b"k") + b.field(2, value)))
    return b.node(b"n", b"PartitionedCall", f=value)


SECONDS = 60  # of the processor: most take one or two, and machines are shared


def many(count: int, ids: Sequence[int], words: Callable[[int], Sequence[bytes]]) -> bytes:
    """A GraphDef of ``count`` tables, each with words of its own."""
    nodes = [b.const(b"ids", b.int64_tensor(ids))]
    for i in range(count):
        keys = b"words%d" % i
        nodes += [b.const(keys, b.string_tensor(words(i)))]
        nodes += filled(b"table%d" % i, keys, b"ids", b"fill%d" % i)
    return b.graph(*nodes)


def counted(start: int, delta: int) -> bytes:
    """A table whose ids are a ``Range``."""
    ends = {b"start": start, b"limit": 5, b"delta": delta}
    nodes = [b.const(name, b.scalar_tensor(value)) for name, value in ends.items()]
    nodes += [b.node(b"ids", b"Range", *ends), b.const(b"words", b.string_tensor(WORDS))]
    return graph(*nodes, *filled(b"hash_table", b"words", b"ids"))


def packed_ints(count: int) -> bytes:
    """An int64 tensor of one byte per number."""
    return b.number(1, b.INT64) + b.field(2, b.shape(count)) + b.field(10, bytes(count))


def two_million_pieces() -> bytes:
    """Distinct keys without end, ids that are a range, and a WordPiece op on the table."""
    count = 2_000_000
    words = b"".join(b"\x42\x03" + i.to_bytes(3, "little") for i in range(count))
    keys = b.const(b"words", b.number(1, b.STRING) + b.field(2, b.shape(count)) + words)
    unknown = {"use_unknown_token": b.number(5, 1), "unknown_token": b.field(2, b"[UNK]")}
    op = b"WordpieceTokenizeWithOffsets"
    pieces = b.node(b"pieces", op, b"x", b"hash_table", **unknown)
    return graph(keys, *b.table_nodes(WORDS)[1:], pieces)


def long_chain(length: int, fills: int) -> bytes:
    """Many fills with what comes out at the end of one chain of copies."""
    chain = [b.node(b"i%d" % (i + 1), b"Identity", b"i%d" % i) for i in range(length)]
    last = b"i%d" % length
    ends = [b.node(b"f%d" % i, b"LookupTableImportV2", b"h", last, last) for i in range(fills)]
    return graph(b.node(b"i0", b"Placeholder"), b.node(b"h", b"HashTableV2"), *chain, *ends)


def resource(path: bytes, captures: bytes = b"") -> bytes:
    """The object graph of one resource at ``path``, made by the function ``creator``."""
    objects = (
        b.field(1, b.number(1, 1) + b.field(2, path)),
        b.field(1, b.number(1, 2) + b.field(2, b"_create_resource")) + b.field(10, b""),
        b.field(6, b.field(1, b"creator")),
    )
    saved = b"".join(b.field(1, each) for each in objects)
    return b.field(7, saved + (b.field(2, captures) if captures else b""))


def inverse_at(first: int) -> bytes:
    """A table from ids to words where Keras keeps a layer's, with ids from ``first`` on."""
    shared = b.field(2, b"shared")
    nodes = (
        b.const(b"ids", b.int64_tensor(range(first, first + len(WORDS)))),
        b.const(b"words", b.string_tensor(WORDS)),
        b.node(b"hash_table", b"HashTableV2", shared_name=shared),
        b.node(b"fill", b"LookupTableImportV2", b"hash_table", b"ids", b"words"),
        b.node(b"x", b"Placeholder"),
        b.const(b"default", b.scalar_tensor(b"[UNK]")),
        b.node(b"find", b"LookupTableFindV2", b"hash_table", b"x", b"default"),
    )
    handle = b.node(b"h", b"HashTableV2", shared_name=shared)
    creator = b.function(b"creator", [], handle, returns=[b"h:table_handle:0"])
    return graph(*nodes, functions=[creator], tail=resource(b"lookup_table"))


# Some just below the limits, so that what is behind them runs; each was slow, large or fatal once.
HOSTILE: dict[str, Callable[[], bytes]] = {
    "empty meta graphs": lambda: b"\x08\x01" + b"\x12\x00" * 5_000_000,
    "empty functions of one name": lambda: b.saved_model(
        b.graph(NOTHING) + b.field(2, b"\x0a\x00" * 5_000_000)
    ),
    "empty parts of a function": lambda: graph(NOTHING, functions=[b"\x0a\x00" * 4_000_000]),
    "every string different": lambda: orphan(
        b.string_tensor([b"%05x" % number for number in range(1_450_000)])
    ),
    "deep nesting": lambda: graph(deep(2_000)),
    "strings just under the limit": lambda: strings(b"\x42\x01\xff" * 3_300_000, 3_300_000),
    "nodes just under the limit": lambda: b.saved_model(
        b.graph(NOTHING) + b"\n\0" * (MAX_NODES - 1)
    ),
    "functions just under the limit": lambda: graph(
        NOTHING, functions=[b.function(b"f%d" % i, [b"a"]) for i in range(MAX_FUNCTIONS)]
    ),
    "ten million integers as keys": lambda: graph(
        b.const(b"k", packed_ints(10_000_000)), *filled(b"h", b"k", b"k")
    ),
    "a node of 2.6 million inputs": lambda: graph(
        NOTHING + b"\x1a\x02ab" * 2_600_000, *b.table_nodes(WORDS)
    ),
    "an asset of bytes that are not UTF-8": lambda: from_file(b"words.txt"),
    "nodes searched by name": lambda: b.saved_model(
        many(80, [0], lambda i: [b"%d" % i])
        + b"".join(b.field(1, b.field(1, b"%06x" % i)) for i in range(MAX_NODES - 500))
    ),
    "two million pieces": two_million_pieces,
    "captures just under the limit": lambda: graph(
        NOTHING,
        tail=b.field(
            7, b.field(2, b.field(1, b"g") + b.field(2, b.field(2, b"\xff\x03" * MAX_NODES)))
        ),
    ),
    "objects just under the limit": lambda: graph(NOTHING, tail=b.field(7, b"\n\0" * MAX_NODES)),
    "a string that repeats just under the limit": lambda: strings(
        b.field(8, b"x" * 1_000), MAX_REPEATED
    ),
    "one input 400,000 times": lambda: graph(
        *b.table_nodes(WORDS), b.node(b"p", b"Pack", *[b"x"] * MAX_NODES)
    ),
    "fills at the end of a chain": lambda: long_chain(1_000, 1_000),
    "tables with equal ends": lambda: b.saved_model(
        many(2_000, [0, 1, 2], lambda i: [b"a", b"%05d" % i, b"z"])
    ),
    "an inverse table at 2^40": lambda: inverse_at(1 << 40),
    "300 dimensions": lambda: strings(b.field(8, b"x"), *[1 << 62] * 300),
    "a name of 3,000 scopes": lambda: graph(
        b.const(b"words", b.string_tensor(WORDS)),
        b.const(b"ids", b.int64_tensor(range(len(WORDS)))),
        *filled(b"x" + b"/table" * 3_000, b"words", b"ids"),
    ),
    "ids past the largest, by 2": lambda: counted((1 << 63) - 2, 2),
}

VECTORS = b"the 0.418 0.24968 -0.41242\nof 0.70853 0.57088 -0.4716\n. . . 1.5e-05 -1 0.3\n"
# Files of word vectors, and how many words are read.
HOSTILE_VECTORS: dict[str, tuple[bytes, int]] = {
    "blanks in words": ((b" " * 40 + b" 1 .5\n") * 230_000, 230_000),
    "a word of digits": (VECTORS + b"x " + b"1" * 4_000_000 + b" 0.125" * 3 + b"\n", 4),
    "a vector of a million numbers": (b"x" + b" .1" * 1_300_000 + b"\n", 0),
}

# These must be read: a limit that came down would leave what is behind it untried.
UNDER_LIMITS = {
    *(name for name in HOSTILE if name.endswith("just under the limit")),
    "nodes searched by name",
    "one input 400,000 times",
    "two million pieces",
    "tables with equal ends",
}

CHILD = """
import re, resource, sys, time
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[3]), int(sys.argv[3])))
import vocabtool
from tests.fuzzing import show
began = time.perf_counter()
try:
    model = vocabtool.inspect(sys.argv[1], small=True)
    for vocabulary in model.vocabularies[:3]:
        vocabulary.last_id, vocabulary.unknown, vocabulary.id_array()
        vocabtool.save(vocabulary, sys.argv[2], "text")
    found = len(model.vocabularies), sum(map(len, model.vocabularies))
    del model
    show(sys.argv[1], ("json", "table"))
    print("read", *found)
except vocabtool.VocabtoolError as error:
    print("refused", str(error)[:200].replace("\\n", " "))
print(time.perf_counter() - began)
print(int(re.search("VmHWM:\\\\s*(\\\\d+)", open("/proc/self/status").read())[1]) / 1024)
"""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in UNDER_LIMITS else pytest.mark.sampled(10))
        for name in sorted(HOSTILE)
    ],
)
def test_ten_megabytes_of_malice(name: str, tmp_path: Path) -> None:
    """A hostile file of 10 MB costs at most 256 MB and a minute; never a traceback."""
    file = tmp_path / "saved_model.pb"
    file.write_bytes(HOSTILE[name]())
    if "asset" in name:
        (tmp_path / "assets").mkdir()
        (tmp_path / "assets" / "words.txt").write_bytes(b"\xff\n" * 5_000_000)
    answer = read_in_child(tmp_path, tmp_path / "out")
    assert answer.startswith("read" if name in UNDER_LIMITS else ("read", "refused")), answer


@pytest.mark.parametrize("name", HOSTILE_VECTORS)
def test_hostile_vectors(name: str, tmp_path: Path) -> None:
    """Ten megabytes of word vectors are within the same bounds, and every word is there."""
    data, words = HOSTILE_VECTORS[name]
    answer = read_in_child(written(tmp_path, data, "vectors.txt"), tmp_path / "out")
    assert answer.startswith(f"read 1 {words}" if words else "refused"), answer


def read_in_child(model: Path, out: Path) -> str:
    """What a process says that reads a model: it has 256 MB, and ``SECONDS`` of the processor."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(model), str(out), str(SECONDS)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=10 * SECONDS,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    answer, _, peak = done.stdout.splitlines()
    assert float(peak) < 256, (answer, peak)
    return answer


def fuzz(models: list[Path], full: bool, part: int = 10) -> list[dict[str, Any]]:
    """Damage the models in a child process: every 97th byte and 2,000 bits, or a part of it."""
    every, flips = (97, 2000) if full else (97 * part, 2000 // part)
    command = [sys.executable, "-m", "tests.fuzzing", *map(str, models)]
    command += ["--every", str(every), "--flips", str(flips)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout.splitlines()) == len(models) > 0
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(results: list[dict[str, Any]]) -> None:
    """Only our errors came out, within bounds."""
    for result in results:
        assert result["escaped"] == [], result
        assert (result["slowest"] < 20, result["peak_mb"] < 256) == (True, True), result


def test_fuzz_models(tmp_path: Path, full: bool) -> None:
    """The model in data/, and models written byte by byte, cut and flipped."""
    folders = [MODEL]
    for name, data in {
        "table": GOOD,
        "constant": orphan(b.string_tensor(WORDS)),
        "asset": from_file(b"words.txt"),
        "graph": b.graph(*b.table_nodes(WORDS)),
    }.items():
        folder = tmp_path / name
        (folder / "assets").mkdir(parents=True)
        (folder / "saved_model.pb").write_bytes(data)
        (folder / "assets" / "words.txt").write_bytes(b"the\nfox\r\n" * 8)
        folders.append(folder)
    check(fuzz(folders, full))


def test_fuzz_models_of_tensorflow(tmp_path_factory: pytest.TempPathFactory, full: bool) -> None:
    """One model per hiding place, built by TensorFlow, likewise; by default one in ten of them."""
    pytest.importorskip("tensorflow", reason="it builds the models")
    pytest.importorskip("tensorflow_text", reason="some models hold its tokenizers")
    pytest.importorskip("tf_keras", reason="some models are built by Keras 2")
    from tests.builders.tensorflow_models import CASES, build_all

    built = build_all(tmp_path_factory.mktemp("fuzzed"), [*CASES][:: 1 if full else 10])
    check(fuzz([path for path, _ in built.values()], full, part=30))


# Well framed and ill connected: of a message's fields some are dropped, doubled, exchanged or
# replaced, at any depth, so that what is read behind the framing is tried.
EDGES = (0, 1, 2, 3, 7, -1, -2, 12, 1 << 31, 1 << 40, 1 << 62, (1 << 63) - 1, -(1 << 63))
TEXTS = (b"", b"a", b"\xff", b"words.txt", b"../x", b"##", b"\x1b[2J", b"x", b"fill", b"creator")
OPS = (
    *(b"Const", b"Identity", b"HashTableV2", b"MutableHashTableV2", b"MutableDenseHashTableV2"),
    *(b"LookupTableImportV2", b"InitializeTableFromTextFileV2", b"LookupTableFindV2", b"Range"),
    *(b"PartitionedCall", b"If", b"Switch", b"Assert", b"SaveV2", b"RestoreV2", b"VarHandleOp"),
    *(b"SelectV2", b"Equal", b"StringToHashBucketFast", b"FloorMod", b"AddV2", b"creator"),
    *(b"SentencepieceOp", b"WordpieceTokenizeWithOffsets", b"TFText>FastSentencepieceTokenize"),
)


def mutated(message: bytes, chance: random.Random) -> bytes:
    """A message with one field changed, in itself or in a message inside it."""
    fields = b.fields(message)
    if not fields:
        return chance.choice(OPS if message in OPS else TEXTS)
    ends = [end for *_, end in fields]
    parts = [message[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    at, other = chance.randrange(len(parts)), chance.randrange(len(parts))
    number, wire_type, start, end = fields[at]
    if wire_type == 2 and chance.random() < 0.9:
        parts[at] = b.field(number, mutated(message[start:end], chance))
    elif wire_type == 0 and chance.random() < 0.5:
        parts[at] = b.number(number, chance.choice(EDGES))
    elif chance.random() < 0.3:
        del parts[at]
    elif chance.random() < 0.5:
        parts.insert(other, parts[at])
    else:
        parts[at], parts[other] = parts[other], parts[at]
    return b"".join(parts)


def connected() -> bytes:
    """A model with tables, a call, captures and a tokenizer, all of them right."""
    handle = b.node(b"h", b"HashTableV2", shared_name=b.field(2, b"shared"))
    creator = b.function(b"creator", [b"a"], handle, returns=[b"h:table_handle:0"])
    captures = b.field(1, b"creator") + b.field(2, b.number(2, 1))
    unknown = {"use_unknown_token": b.number(5, 1), "unknown_token": b.field(2, WORDS[0])}
    nodes = (
        *b.table_nodes(WORDS),
        b.node(b"pieces", b"WordpieceTokenizeWithOffsets", b"x", b"hash_table", **unknown),
        b.node(b"bucket", b"StringToHashBucketFast", b"x", num_buckets=b.number(3, 3)),
        b.node(b"hit", b"Equal", b"find", b"default"),
        b.node(b"id", b"SelectV2", b"hit", b"bucket", b"find"),
        b.node(b"call", b"PartitionedCall", b"words", f=b.field(10, b.field(1, b"creator"))),
        *b.file_table(b"words.txt")[::2],
    )
    return graph(*nodes, functions=[creator], tail=resource(b"lookup_table", captures))


def test_any_connections(model: Writer, full: bool) -> None:
    """Whatever is changed between nodes, functions and objects: a model or our own error."""
    chance, start = random.Random(7), connected()
    folder = model(start)
    (folder / "assets").mkdir()
    (folder / "assets" / "words.txt").write_bytes(b"a\t1\nb\t2\n" * 8)
    assert any(v.kind == "table" for v in vocabtool.vocabularies(folder))
    for _ in range(20_000 if full else 400):
        data = start
        for _ in range(chance.choice((1, 2, 4, 8))):
            data = mutated(data, chance)
        model(data)
        try:
            found = vocabtool.inspect(folder, small=True)
            show(folder, ("json", "table"))
        except VocabtoolError:
            continue
        for vocabulary in found.vocabularies:
            assert len(vocabulary.id_array()) == len(vocabulary.stored)
            assert vocabulary.fingerprint
            vocabulary.entries()
