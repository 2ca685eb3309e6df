"""Streams: what each operator gives, what it reads, and what it says when it cannot."""

# own process: TensorFlow

from __future__ import annotations

import gc
import io
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, islice, product
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pyarrow import parquet

from tests.conftest import ROOT
from tests.documents.reading import Indexed
from vocabtool import Document, Stream, interleave, mix, stream
from vocabtool.documents import SkipCounter
from vocabtool.errors import InvalidFile, OperatorFailed, VocabtoolError


class Endless:
    """Numbers from 0 on, anew in each pass; knows how many were read, and if it was closed."""

    def __init__(self) -> None:
        self.read = 0
        self.closed = 0

    def __iter__(self) -> Iterator[int]:
        try:
            for number in count():
                self.read += 1
                yield number
        finally:
            self.closed += 1


def doubled(number: int) -> int:
    return 2 * number


def odd(number: int) -> int:
    return number % 2


def documents(count: int) -> list[Document]:
    return [Document(f"d{n}", f"text {n}", {"label": n, "tag": f"t{n}"}) for n in range(count)]


# Each lazy operator on an endless stream: how many elements the first three results may cost.
ON_ENDLESS: dict[str, tuple[Callable[[Stream[int]], Stream[Any]], int]] = {
    "map": (lambda s: s.map(doubled), 3),
    "map in threads": (lambda s: s.map(doubled, workers=2), 3 + 4),
    "map unordered": (lambda s: s.map(doubled, workers=2, ordered=False), 3 + 4),
    "flat_map": (lambda s: s.flat_map(range), 4),
    "filter": (lambda s: s.filter(odd), 6),
    "interleave": (lambda s: interleave([s, s], 2), 3),
    "mix": (lambda s: mix([s, s], "equal", seed=1), 3),
    "shuffle": (lambda s: s.shuffle(10, seed=1), 13),
    "take": (lambda s: s.take(5), 3),
    "skip": (lambda s: s.skip(4), 7),
    "repeat": (lambda s: s.repeat(), 3),
    "prefetch": (lambda s: s.prefetch(4), 3 + 4),
    "cache": (lambda s: s.cache(), 3),
    "batch": (lambda s: s.batch(2), 6),
    "batch_by_length": (lambda s: s.batch_by_length(3, length=lambda _: 1, buffer=9), 9),
}


@pytest.mark.parametrize("name", ON_ENDLESS)
def test_operators_are_lazy(name: str) -> None:
    """Nothing is read before a pass begins, little beyond what is asked, and closing closes all."""
    operator, most = ON_ENDLESS[name]
    source = Endless()
    shaped = operator(Stream.of(source))
    assert source.read == 0
    threads = threading.active_count()
    elements = iter(shaped)
    assert len(list(islice(elements, 3))) == 3
    assert source.read <= most
    opened = source.closed
    elements.close()  # type: ignore[attr-defined] # a generator has it
    assert source.closed > opened
    assert threading.active_count() == threads


def test_a_stream_is_read_again() -> None:
    """Each pass reads anew, here or in another process; one text is no stream."""
    numbers = [1, 2]
    shaped = Stream.of(numbers).map(doubled)
    assert list(shaped) == [2, 4]
    numbers.append(3)
    assert list(shaped) == [2, 4, 6]
    sent = shaped.repeat(7).shuffle(5, seed=1, reshuffle=True).batch(3).prefetch(2)
    assert list(pickle.loads(pickle.dumps(sent))) == list(sent)
    with pytest.raises(TypeError, match="iterable of texts, got one text: put it in a list"):
        Stream.of("a b")
    with pytest.raises(TypeError, match="wanted an iterable or an indexable, got int"):
        Stream.of(3)  # type: ignore[call-overload] # what is refused


def test_an_iterator_is_read_once() -> None:
    """A second pass is an error, not an empty stream or a wait for ever; a cache helps."""
    once_only: list[Callable[[], Stream[Any]]] = [lambda: Stream.of(iter([1, 2]))]
    once_only += [lambda: stream(iter("ab")), lambda: Stream.of(io.StringIO("a\nb"))]
    for make in once_only:
        once = make()
        assert len(list(once)) == 2
        with pytest.raises(VocabtoolError, match=r"read only once.*append \.cache\(\)"):
            list(once)
        cached = make().cache()
        assert list(cached) == list(cached)


def fail_at_two(number: int) -> int:
    if number == 2:
        raise KeyError("no")
    return number


HOW = [{"workers": 0}, {"workers": 2}, {"workers": 1, "kind": "processes"}]


@pytest.mark.parametrize("how", HOW, ids=str)
def test_a_function_that_fails_names_the_element(how: dict[str, Any]) -> None:
    """The elements before come first; then the error says which one, and what was raised."""
    elements = iter(Stream.of([0, 1, 2, 3]).map(fail_at_two, **how))
    assert [next(elements), next(elements)] == [0, 1]
    with pytest.raises(OperatorFailed) as failed:
        next(elements)
    assert str(failed.value) == "element 3: fail_at_two raised KeyError: 'no'"
    if "kind" in how:
        assert 'raise KeyError("no")' in str(failed.value.__cause__)
    else:
        assert isinstance(failed.value.__cause__, KeyError)


def fail_at_all(element: object) -> None:
    raise KeyError(repr(element))


def test_a_function_that_fails_names_the_documents_of_a_batch() -> None:
    """By the ids of a batch, or by the number in the whole stream, skipped ones included."""
    for size, place in ((1, "d0"), (2, "d0 to d1"), (3, "d0 to d2"), (9, "d0 to d2")):
        batches = Stream.of(documents(3)).batch(size)
        with pytest.raises(OperatorFailed, match=rf"^{place}: fail_at_all raised KeyError"):
            list(batches.map(fail_at_all, workers=2))
    numbers = Stream.of(range(4))
    for failing in (numbers.map(fail_at_two), numbers.filter(lambda n: fail_at_two(n) < 9)):
        for skipped in (0, 1):
            with pytest.raises(OperatorFailed, match=r"^element 3:"):
                list(failing.skip(skipped))

    def parts(number: int) -> Iterator[float]:
        yield number
        yield 1 / number

    elements = iter(Stream.of([2, 0]).flat_map(parts))
    assert [next(elements) for _ in range(3)] == [2, 0.5, 0]
    with pytest.raises(OperatorFailed, match=r"element 2: .*parts raised ZeroDivisionError"):
        next(elements)


SKIPPED_UNREAD: list[Callable[[Stream[int]], Stream[Any]]] = [
    *(lambda s: s.skip(6), lambda s: s.skip(2).skip(4), lambda s: s.take(8).skip(6)),
    *(lambda s: s.map(doubled).skip(6), lambda s: s.map(doubled, workers=2).skip(6)),
    *(lambda s: s.prefetch(2).skip(6), lambda s: s.batch(2).skip(3)),
    lambda s: s.repeat(2).skip(16).take(2),
]
FROM_INDEXABLE: list[Callable[[Indexed], Stream[Any]]] = [
    Stream.of,
    Stream.from_indexable,
    partial(Stream.from_indexable, workers=2),
]


def test_what_is_skipped_is_not_read() -> None:
    """Operators that keep order and number pass on what is skipped to an indexable."""
    for make, operator in product(FROM_INDEXABLE, SKIPPED_UNREAD):
        source = Indexed(range(10))
        assert list(operator(make(source)))
        assert min(source.read) == 6


def test_cache_in_memory() -> None:
    """After a whole pass the source is not read again; what is left early does not count."""
    source = Indexed(range(3))
    cached: Stream[int] = Stream.of(source).cache()
    assert list(islice(cached, 2)) == [0, 1]
    assert list(cached) == [0, 1, 2]
    source.read.clear()
    assert list(cached) == [0, 1, 2]
    assert list(cached.skip(2)) == [2]
    assert source.read == []
    assert list(Stream.of([1, 2]).repeat().skip(3).take(3)) == [2, 1, 2]
    assert list(Stream.of([]).repeat()) == []


def test_cache_in_a_folder(tmp_path: Path) -> None:
    """A later run reads the folder only; what JSON or Arrow cannot hold is refused."""
    half = {"list": [1, {"a": None}], "half": "\ud83d é", "\udc80": "\udcff"}
    held = [*documents(3000), Document("\udcff", "a\udc80b", half)]
    folder = tmp_path / "deep" / "cache"
    cached = Stream.of(held).cache(folder, key="first")
    assert list(islice(cached, 2000)) == held[:2000]
    gc.collect()
    assert list(folder.iterdir()) == []
    assert list(cached) == held
    never = Stream.of([Document("other", "")]).cache(folder, key="first")
    assert list(never) == held
    assert list(never.skip(2500)) == held[2500:]
    with pytest.raises(VocabtoolError, match="key of the cache is 'first', not 'b'"):
        list(Stream.of(documents(1)).cache(folder, key="b"))
    assert list(Stream.of([]).cache(tmp_path / "empty")) == []
    assert list(Stream.of(documents(1)).cache(tmp_path / "empty")) == []
    with pytest.raises(VocabtoolError, match="Arrow needs documents, got int: convert"):
        list(Stream.of([1]).cache(tmp_path / "none"))
    with pytest.raises(VocabtoolError, match=r"^d: fields: .*bytes is not .*JSON cannot represent"):
        list(Stream.of([Document("d", "", {"a": b""})]).cache(tmp_path / "none"))
    assert list((tmp_path / "none").iterdir()) == []


def test_a_damaged_cache(tmp_path: Path) -> None:
    """A cache that holds something else, or is cut, is told with its name."""
    file = tmp_path / "documents.arrow"
    for columns, message in (
        ({"id": ["i"]}, "wanted the columns id, text, fields, got"),
        ({"id": ["i"], "text": ["t"], "fields": ["[]"]}, "JSON object"),
        ({"id": [None, "i"], "text": ["t"] * 2, "fields": ["{}"] * 2}, "a document lacks its id"),
    ):
        table = pa.table(columns).replace_schema_metadata({"vocabtool.key": ""})
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        with pytest.raises(InvalidFile, match=f"documents.arrow: .*{message}"):
            list(Stream.of(documents(1)).cache(tmp_path))
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(InvalidFile, match=r"documents.arrow: not Arrow IPC, or damaged"):
        list(Stream.of(documents(1)).cache(tmp_path))


def test_batch_by_length() -> None:
    """Lists by length, padded to at most so many; one that is too long is alone; ties in order."""
    words = ["aaaa", "b", "ccccccc", "dd", "e", "ff", ""]
    batches = list(Stream.of(words).batch_by_length(6))
    assert batches == [["b", "e", ""], ["dd", "ff"], ["aaaa"], ["ccccccc"]]
    small = Stream.of(words).batch_by_length(6, buffer=2)
    assert list(small) == [["b"], ["aaaa"], ["dd"], ["ccccccc"], ["e", "ff"], [""]]
    assert list(Stream.of(documents(2)).batch_by_length(12)) == [documents(2)]
    with pytest.raises(TypeError, match=r"wanted a text or a document, got int: .*\(length=\)"):
        list(Stream.of([1]).batch_by_length(6))


def test_interleave() -> None:
    """A block of each in turn; no more than the cycle are open, of an endless supply too."""
    assert "".join(interleave(["aaaa", "b", "ccc", "dd"], 2, 2)) == "aabaacccdd"
    opened: set[int] = set()
    most = 0

    def one(number: int) -> Iterator[int]:
        nonlocal most
        opened.add(number)
        most = max(most, len(opened))
        yield from (number, number)
        opened.remove(number)

    assert list(interleave(map(one, count()), 3).take(10)) == [0, 1, 2, 0, 1, 2, 3, 4, 5, 3]
    assert most == 3


def letters() -> Iterator[str]:
    yield from "abc"


def share(worker: int, workers: int) -> Iterator[int]:
    yield from range(worker, 10, workers)


def test_a_generator_is_read_again_and_in_parallel() -> None:
    """Each pass calls the function; the items of the workers come in turn."""
    assert list(Stream.from_generator(letters).repeat(2)) == [*"abcabc"]
    shared = Stream.from_generator(share, workers=3)
    assert list(shared) == list(range(10))
    assert list(shared.skip(4)) == list(range(4, 10))
    assert [document.id for document in stream(Stream.from_generator(letters)).repeat(1)] == [
        "texts:1",
        "texts:2",
        "texts:3",
    ]
    met = threading.Barrier(2, timeout=60)

    def waiting(worker: int, _: int) -> Iterator[int]:
        yield worker
        met.wait()  # passes only if both generators run

    assert sorted(Stream.from_generator(waiting, workers=2)) == [0, 1]
    with pytest.raises(ValueError, match="workers: wanted 1 or more, got 0"):
        Stream.from_generator(share, workers=0)


def test_ids_stay_with_the_elements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mapping keeps its id; unnamed sources that are read together get numbers."""
    items: list[dict[str, object]] = [{"id": "a", "text": "x"}, {"id": 7, "text": "y"}]
    assert [document.id for document in stream(iter(items))] == ["a", "7"]
    assert [document.id for document in stream([{"text": "x"}, *items])] == ["texts:1", "a", "7"]
    others = [{"id": None, "text": "x"}, {"id": 1.5, "text": "y"}]  # these cannot be ids
    assert [document.id for document in stream(others)] == ["texts:1", "texts:2"]
    same = [stream(letters()) for _ in range(4)]
    ids = [document.id for document in interleave(same, 4)]
    assert ids[:5] == ["texts:1", "texts2:1", "texts3:1", "texts4:1", "texts:2"]
    nested = [interleave([stream([letters(), letters()]), stream(letters())], 2) for _ in range(2)]
    ids = [document.id for document in mix(nested, "equal", seed=1)]
    assert len(set(ids)) == len(ids) == 18
    own = [stream(iter(items)).map(lambda document: document.id) for _ in range(2)]
    assert list(interleave(own, 2)) == ["a", "a", "7", "7"]
    (tmp_path / "texts").write_text("x\n")  # a file with the name of unnamed sources keeps its ids
    monkeypatch.chdir(tmp_path)
    file = stream("texts").filter(bool)
    turns = interleave([stream(iter("ab")), file], 2)
    for together in (turns, mix([stream(iter("ab")), file], "equal", seed=1)):
        ids_of = {document.text: document.id for document in together}
        assert ids_of == {"a": "texts:1", "b": "texts:2", "x": "texts:1"}


def test_repr_shows_stages() -> None:
    """One line for each stage, and no content."""
    texts = ["secret words"] * 9
    shaped = Stream.of(texts).map(len, workers=2).cache().shuffle(5, seed=1).batch(3)
    assert len(list(shaped)) == 3
    assert repr(shaped).splitlines() == [
        "Stream.of(list)",
        "  .map(len, workers=2)",
        "  .cache()",
        "  .shuffle(5, seed=1)",
        "  .batch(3)",
    ]
    turns = Stream.of(texts).interleave(iter, 2)
    assert "".join(turns.take(4)) == "sseecc"[:4]
    shaped_ways: list[Stream[Any]] = [
        turns,
        interleave([texts], 1),
        mix([texts], seed=1),
        stream(iter(texts)),
        Stream.from_indexable(texts),
        Stream.from_generator(share, workers=2),
        stream(iter(texts)).repeat(2).take(3).skip(1).prefetch(1).filter(repr),
        Stream.of(texts).flat_map(iter).batch_by_length(20),
    ]
    for one in shaped_ways:
        assert "secret" not in repr(one)
        assert len(repr(one).splitlines()) == len(one.stages) > 0


def test_mix(tmp_path: Path) -> None:
    """Each stream's order stays; sizes are rows, or weights that are checked."""
    lists = {name: [(name, n) for n in range(50 * place)] for place, name in enumerate("abc", 1)}
    streams = [Stream.of(held) for held in lists.values()]
    found = list(mix(streams, seed=3))
    assert {name: [item for item in found if item[0] == name] for name in "abc"} == lists
    assert found == list(mix(streams, seed=3))
    assert found != list(mix(streams, seed=4))
    (tmp_path / "one.txt").write_text("a" * 300_000 + "\n" + "a\n" * 2999)
    (tmp_path / "two.txt").write_text("b\n" * 1000)
    mixed = list(mix([stream(tmp_path / "one.txt"), stream(tmp_path / "two.txt")], seed=1))
    assert len(mixed) == 4000
    tenths = [sum("two" in d.id for d in mixed[at : at + 400]) for at in range(0, 4000, 400)]
    # 400 of 4,000 drawn without putting back, 1,000 of them from the second file: 100 +- 5 * 8.2
    assert all(59 <= count <= 141 for count in tenths)
    known, unknown = Stream.of([1]), Stream.of([1, 2]).filter(odd)
    with pytest.raises(ValueError, match=r"stream 2 is unknown .* pass weights='equal'"):
        mix([known, unknown], seed=1)
    with pytest.raises(ValueError, match="size of each stream, but that of stream 1 is unknown"):
        mix([known.repeat(), known], seed=1)
    assert sorted(mix([known, unknown], "equal", seed=1)) == [1, 1]
    with pytest.raises(ValueError, match=r"wanted 1 positive numbers, got \(1, 2\)"):
        mix([known], [1, 2], seed=1)
    with pytest.raises(ValueError, match="wanted 2 positive numbers"):
        mix([known, known], [1, 0], seed=1)
    with pytest.raises(ValueError, match="weights: wanted one of"):
        mix([known], "sizes", seed=1)  # type: ignore[arg-type] # what is refused
    weighed = list(mix([[1] * 5, [2] * 100], [1e-12, 1], seed=1))
    assert weighed == [2] * 100 + [1] * 5


ROWS: list[tuple[Callable[[Stream[int]], Stream[Any]], int | None]] = [
    (lambda s: s, 10),
    (lambda s: s.map(doubled).shuffle(3, seed=1).prefetch(2).cache(), 10),
    *((lambda s: s.take(4), 4), (lambda s: s.skip(4), 6), (lambda s: s.skip(14), 0)),
    *((lambda s: s.repeat(3), 30), (lambda s: s.repeat(10**15), 10**16)),
    *((lambda s: s.batch(3), 4), (lambda s: mix([s, s], seed=1), 20)),
    *((lambda s: s.filter(odd), None), (lambda s: s.flat_map(range), None)),
    *((lambda s: s.repeat(), None), (lambda s: s.filter(odd).take(3), None)),
    (lambda s: s.batch_by_length(3), None),
]


def test_sizes(tmp_path: Path) -> None:
    """Known as far as operators keep count; of a file rows are estimated and bytes known."""
    for shaped, rows in ROWS:
        assert shaped(Stream.of(range(10))).size() == (rows, rows is not None, None)
    file = tmp_path / "a.jsonl"
    file.write_text("".join(f'{{"text": "t{n}", "n": {n}, "key": "k{n}"}}\n' for n in range(3)))
    found = stream(file, id_field="key").map(lambda d: (d.id, d.text, d.fields["n"]))
    assert list(found) == [("k0", "t0", 0), ("k1", "t1", 1), ("k2", "t2", 2)]
    assert stream(file).size() == (3, False, file.stat().st_size)


def test_shuffle() -> None:
    """The same order in every pass, unless asked otherwise; a new run is as the one before."""
    numbers = Stream.of(range(100))
    shuffled = numbers.shuffle(20, seed=7)
    first = list(shuffled)
    assert sorted(first) == list(range(100)) != first
    assert list(shuffled) == first
    assert list(numbers.shuffle(20, seed=8)) != first
    shuffled = numbers.shuffle(100, seed=7, reshuffle=True)
    passes = [tuple(shuffled) for _ in range(3)]
    assert len(set(passes)) == 3
    again = list(numbers.shuffle(100, seed=7, reshuffle=True).repeat(3))
    assert again == [n for one in passes for n in one]


def test_shuffle_shards(tmp_path: Path) -> None:
    """Row groups apart by the seed, each document once; what has no parts is refused."""
    rows = [f"text {n}" for n in range(300)]
    table = pa.table({"text": rows})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=60)
    with pa.ipc.new_file(tmp_path / "b.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=50)
    (tmp_path / "c.txt").write_text("\n".join(rows))
    plain = stream(tmp_path)
    shuffled = plain.shuffle_shards(seed=5, buffer=10, at_once=2)
    found = list(shuffled)
    assert sorted(d.id for d in found) == sorted(d.id for d in plain)
    assert {d.id: d for d in found} == {d.id: d for d in plain}
    assert found == list(shuffled)
    assert found != list(plain.shuffle_shards(seed=6, buffer=10, at_once=2))
    groups = [int(d.text[5:]) // 60 for d in found if "a.parquet" in d.id]
    assert groups != sorted(groups)
    assert list(shuffled.skip(890)) == found[890:]
    gaps = [None if n % 7 == 0 else f"text {n}" for n in range(100)]
    parquet.write_table(pa.table({"text": gaps}), tmp_path / "gaps.parquet", row_group_size=30)
    shuffled = stream(tmp_path / "gaps.parquet", on_error="skip", skipped=SkipCounter())
    left = sorted(d.text for d in shuffled.shuffle_shards(seed=5))
    assert left == sorted(row for row in gaps if row)
    ids = sorted(d.id for d in stream(documents(100)).shuffle_shards(seed=1))
    assert ids == sorted(d.id for d in documents(100))
    with pytest.raises(ValueError, match="shuffle_shards needs files, or an object with a length"):
        list(stream({1: "a"}.values()).shuffle_shards(seed=1))
    with pytest.raises(ValueError, match="shuffle_shards must come right after"):
        Stream.of(documents(1)).shuffle_shards(seed=1)
    with pytest.raises(ValueError, match="either files or one source in memory, got several"):
        list(stream([documents(1), documents(1)]).shuffle_shards(seed=1))


def test_wrong_arguments() -> None:
    """What makes no sense is refused when it is said, not when it is iterated."""
    s: Stream[int] = Stream.of([1])
    wrong: dict[str, Callable[[], object]] = {
        **{"take": lambda: s.take(-1), "workers": lambda: s.map(doubled, workers=-1)},
        **{"shuffle: buffer": lambda: s.shuffle(0, seed=1), "prefetch": lambda: s.prefetch(0)},
        **{"batch": lambda: s.batch(0), "tokens": lambda: s.batch_by_length(0)},
        "block_length": lambda: interleave([s], 1, 0),
        "batch_size": lambda: Stream.of(documents(1)).to_arrow(batch_size=0),
    }
    for name, call in wrong.items():
        with pytest.raises(ValueError, match=f"{name}: wanted [01] or more, got (0|-1)"):
            call()
    with pytest.raises(ValueError, match="kind: wanted one of"):
        s.map(doubled, kind="actors")  # type: ignore[arg-type] # what is refused


def test_to_arrow() -> None:
    """Batches of ids, texts and the JSON of all fields, read as they are asked for."""
    taken: list[str] = []

    def noted(document: Document) -> Document:
        taken.append(document.id)
        return document

    reader = Stream.of(documents(5)).map(noted).to_arrow(batch_size=2)
    assert taken == []
    first = reader.read_next_batch()
    assert taken == ["d0", "d1"]
    assert first.to_pydict() == {
        "id": ["d0", "d1"],
        "text": ["text 0", "text 1"],
        "fields": ['{"label": 0, "tag": "t0"}', '{"label": 1, "tag": "t1"}'],
    }
    assert [batch.num_rows for batch in reader] == [2, 1]


def test_to_arrow_with_fields() -> None:
    """Typed columns, strings and JSON, null where missing; wrong values and names are told."""
    held = [Document("a", "x", {"n": 1, "s": "one", "l": [1]}), Document("b", "\udcff")]
    named = Stream.of(held).to_arrow(fields=["n", "s", "l"]).read_all()
    assert named.drop_columns(["text"]).to_pydict() == {
        **{"id": ["a", "b"], "n": ["1", None], "s": ["one", None], "l": ["[1]", None]}
    }
    assert named["text"].combine_chunks().view(pa.binary()).to_pylist() == [b"x", b"\xff"]
    kinds = {"n": pa.float32(), "l": pa.list_(pa.int8())}
    typed = Stream.of(held).to_arrow(fields=kinds).read_all()
    assert typed.schema.types == [pa.string(), pa.string(), pa.float32(), pa.list_(pa.int8())]
    assert typed["n"].to_pylist() == [1.0, None]
    assert typed["l"].to_pylist() == [[1], None]
    wrong = [Document("a", "", {"n": 1}), Document("b", "", {"n": "one"})]
    reader = Stream.of(wrong).to_arrow(fields={"n": pa.int32()})
    with pytest.raises(VocabtoolError, match=r"^b: field 'n': wanted int32, got 'one'"):
        reader.read_all()
    with pytest.raises(ValueError, match=r"the names \['id', 'text'\] are reserved"):
        Stream.of(wrong).to_arrow(fields=["text"])
    with pytest.raises(ValueError, match="put it in a list"):
        Stream.of(wrong).to_arrow(fields="tag")


# Streams handed on to TensorFlow and Ray, and TensorFlow as the judge of ``interleave``.


LABELLED = 2500


def labelled(count: int) -> list[Document]:
    return [Document(f"é{n}", f"text {n}", {"label": n % 7, "tag": f"t{n}"}) for n in range(count)]


class Lengths:
    """A fake encoder: the vector of a text is how many bytes it has, and a one."""

    dim = 2

    def encode(self, texts: Any) -> NDArray[np.float32]:
        return np.array([[len(text), 1] for text in texts], np.float32).reshape(-1, 2)


@pytest.fixture(scope="module")
def tf() -> Any:
    return pytest.importorskip("tensorflow", reason="a tf.data.Dataset needs TensorFlow")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 6), max_size=6), st.integers(1, 5), st.integers(1, 4))
def test_interleave_is_that_of_tensorflow(lengths: list[int], cycle: int, block: int) -> None:
    """The order is that of ``tf.data.Dataset.interleave``, streams of any lengths."""
    tf = pytest.importorskip("tensorflow", reason="the judge is TensorFlow")
    ours = interleave([[10 * n + k for k in range(x)] for n, x in enumerate(lengths)], cycle, block)
    pairs = tf.data.Dataset.from_tensor_slices(
        np.array([*enumerate(lengths)], np.int64).reshape(-1, 2)
    )
    theirs = pairs.interleave(
        lambda pair: tf.data.Dataset.range(10 * pair[0], 10 * pair[0] + pair[1]),
        cycle_length=cycle,
        block_length=block,
    )
    assert list(ours) == [int(number) for number in theirs]


def test_a_dataset_of_documents(tf: Any) -> None:
    """Scalars with their dtypes, in order, again; lazily; what goes wrong names the document."""
    held = [*labelled(LABELLED), Document("last", "a\udcffb", {"label": 0.5, "tag": "ü"})]
    fields = {"label": "float32", "tag": "string"}
    dataset = Stream.of(held).to_tf_dataset(fields=fields, encoder=Lengths())
    assert dataset.element_spec == {
        "id": tf.TensorSpec((), tf.string),
        "text": tf.TensorSpec((), tf.string),
        "label": tf.TensorSpec((), tf.float32),
        "tag": tf.TensorSpec((), tf.string),
        "vector": tf.TensorSpec((2,), tf.float32),
    }
    for _ in range(2):
        rows = list(dataset.as_numpy_iterator())
        assert [row["id"].decode() for row in rows] == [document.id for document in held]
        assert [row["tag"].decode() for row in rows] == [d.fields["tag"] for d in held]
        assert [row["label"] for row in rows] == [d.fields["label"] for d in held]
    assert rows[-1]["text"] == b"a\xffb"
    assert rows[-1]["vector"].tolist() == [3, 1]
    endless = Stream.of(labelled(3)).repeat().prefetch(10)
    lazy = endless.to_tf_dataset(5).take(2)
    assert [len(batch["id"]) for batch in lazy] == [5, 5]
    assert [thread for thread in threading.enumerate() if "_read" in thread.name] == []
    broken = [*labelled(2), Document("broken", "", {"label": "x"})]
    wrong = Stream.of(broken).to_tf_dataset(fields={"label": "int64"})
    with pytest.raises(tf.errors.OpError, match="broken: field 'label': wanted int64, got 'x'"):
        list(wrong)
    wrong = Stream.of(broken).to_tf_dataset(fields={"year": "int64"})
    with pytest.raises(tf.errors.OpError, match="é0: field 'year': wanted int64, got none"):
        list(wrong)
    with pytest.raises(ValueError, match=r"the names \['vector'\] are reserved"):
        Stream.of(labelled(1)).to_tf_dataset(fields={"vector": "int64"})
    with pytest.raises(ValueError, match=r"batch_size: wanted at least one document.*, got 0"):
        Stream.of(labelled(1)).to_tf_dataset(0)


@pytest.mark.parametrize("size", [3, 1000, 4000])
def test_a_dataset_in_batches(tf: Any, size: int) -> None:
    """Batches of one size, the last smaller, or left out so that shapes are wholly static."""
    stream = Stream.of(labelled(LABELLED))
    dataset = stream.to_tf_dataset(size, encoder=Lengths())
    assert dataset.element_spec["vector"] == tf.TensorSpec((None, 2), tf.float32)
    batches = [batch["id"] for batch in dataset.as_numpy_iterator()]
    whole, left = divmod(LABELLED, size)
    assert [len(batch) for batch in batches] == [size] * whole + [left] * (left > 0)
    ids = np.concatenate(batches).tolist()
    assert ids == [document.id.encode() for document in stream]
    static = stream.to_tf_dataset(size, encoder=Lengths(), drop_remainder=True)
    assert static.element_spec["id"] == tf.TensorSpec((size,), tf.string)
    assert static.element_spec["vector"] == tf.TensorSpec((size, 2), tf.float32)
    assert [len(batch["id"]) for batch in static.as_numpy_iterator()] == [size] * whole


# In a process of its own: Ray ends a process that has no contact with its servers for a minute.
RAY: Final = """
import json
from itertools import islice
import ray
from tests.streams.test_stream import labelled
from vocabtool import Stream

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
ray.data.DataContext.get_current().enable_progress_bars = False
ray.data.DataContext.get_current().target_max_block_size = 2000
dataset = Stream.of(labelled(300)).filter(lambda d: d.fields["label"] != 3).to_ray(batch_size=64)
endless = Stream.of(labelled(10)).repeat().to_ray(batch_size=16)
first = [row["id"] for row in islice(endless.iter_rows(), 40)]
print(json.dumps([dataset.take_all(), first]))
"""


def test_to_ray() -> None:
    """In Ray's process, in order, block by block of an endless stream; not of a generator."""
    pytest.importorskip("ray", reason="a ray.data.Dataset needs Ray")
    pytest.importorskip("ray.data", reason="and its extra for data")
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", RAY]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rows, first = json.loads(done.stdout.splitlines()[-1])
    wanted = [d.id for d in labelled(300) if d.fields["label"] != 3]
    assert [row["id"] for row in rows] == wanted
    assert rows[0] == {"id": "é0", "text": "text 0", "fields": '{"label": 0, "tag": "t0"}'}
    assert first == [f"é{n % 10}" for n in range(40)]
    once = Stream.of(document for document in labelled(3))
    with pytest.raises(ValueError, match=r"cannot be sent to Ray.*append \.cache\(FOLDER\)"):
        once.to_ray()
