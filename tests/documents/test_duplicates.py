"""Ids that repeat: an error that names both places, or the first or last document of each id."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.documents.reading import batches, texts_of
from vocabtool import Document
from vocabtool.documents import DuplicateCounter, OnDuplicate, Repeat, SkipCounter
from vocabtool.errors import InvalidFile


def corpus(path: Path, ids: Sequence[object]) -> str:
    path.write_text("".join(json.dumps({"id": id_, "text": f"{id_}"}) + "\n\n" for id_ in ids))
    return str(path)


def test_the_error_names_both_places(tmp_path: Path) -> None:
    """An id that repeats is an error with the id and both places, across files too."""
    names = [corpus(tmp_path / "a.jsonl", ["x", 7]), corpus(tmp_path / "b.jsonl", ["y", "7", "y"])]
    found = batches(names, id_field="id")
    assert next(found).id_array().to_pylist() == ["x", "7"]
    with pytest.raises(InvalidFile) as caught:
        next(found)
    what_next = "(mend it, or keep one of them with --on-duplicate first or last)"
    place = f"{names[0]}:3"
    assert str(caught.value) == f"{names[1]}:3: the id '7' is also that of {place} {what_next}"


@pytest.mark.parametrize(
    ("on_duplicate", "kept"), [("first", ["a1", "b2", "c5"]), ("last", ["b4", "c5", "a6"])]
)
def test_one_of_repeated(on_duplicate: OnDuplicate, kept: list[str]) -> None:
    """The first or the last of an id stays in its place; others are counted with both places."""
    rows = [{"id": id_, "text": f"{id_}{n}"} for n, id_ in enumerate("abbbca", 1)]
    repeated = DuplicateCounter()
    found = batches(rows, id_field="id", on_duplicate=on_duplicate, repeated=repeated)
    assert texts_of(found) == [text.encode() for text in kept]
    places = [("b", "texts:3", "texts:2"), ("b", "texts:4", "texts:2"), ("a", "texts:6", "texts:1")]
    assert repeated == DuplicateCounter(3, [Repeat(*place) for place in places])
    repeated, many = DuplicateCounter(), [rows[0]] * 1001
    list(batches(many, id_field="id", on_duplicate="first", repeated=repeated))
    assert (repeated.count, len(repeated.first)) == (1000, 10)


@given(
    ids=st.lists(st.sampled_from("abcd"), max_size=12),
    size=st.sampled_from([1, 3, 64]),
    start=st.integers(0, 5),
)
def test_against_python(ids: list[str], size: int, start: int) -> None:
    """What ``dict`` makes of the same ids, first and last, whatever the size of a batch."""
    rows = [{"id": id_, "text": f"{n}"} for n, id_ in enumerate(ids)]
    last = {id_: n for n, id_ in enumerate(ids)}
    first = {id_: n for n, id_ in reversed(list(enumerate(ids)))}
    for on_duplicate, chosen in (("first", first), ("last", last)):
        repeated = DuplicateCounter()
        asked: Any = {"id_field": "id", "on_duplicate": on_duplicate, "repeated": repeated}
        found = batches(rows, size=size, start=start, **asked)
        assert list(map(int, texts_of(found))) == sorted(chosen.values())[start:]
        assert repeated.count == len(ids) - len(set(ids))


def test_the_last_of_repeated_in_files(tmp_path: Path) -> None:
    """Files are read twice for the last ones; bad rows are counted once."""
    names = [corpus(tmp_path / "a.jsonl", ["x", None, "y"]), corpus(tmp_path / "b.jsonl", ["x"])]
    asked: dict[str, Any] = {"id_field": "id", "on_error": "skip", "skipped": SkipCounter()}
    asked |= {"on_duplicate": "last", "repeated": DuplicateCounter()}
    found = [(batch.source, batch.id_array().to_pylist()) for batch in batches(names, **asked)]
    assert found == [(names[0], ["y"]), (names[1], ["x"])]
    assert (asked["repeated"].count, asked["skipped"].count) == (1, 1)


def test_what_is_compared() -> None:
    """Ids of documents are compared; texts without ids are not, and cost nothing."""
    with pytest.raises(InvalidFile, match="texts:2: the id 'a' is also that of texts:1"):
        list(batches(iter([Document("a", "x"), Document("a", "y")])))
    found = list(batches(iter([Document("a", "x")] * 2), on_duplicate=None))
    assert found[0].id_array().to_pylist() == ["a", "a"]
    assert sum(len(batch) for batch in batches(iter(["same"] * 5))) == 5


def test_memory_does_not_grow_with_the_ids() -> None:
    """300,000 ids of 100 bytes are compared in a few MB."""
    rows = ({"id": f"{number:0100}", "text": ""} for number in range(300_000))
    tracemalloc.start()
    count = sum(len(batch) for batch in batches(rows, id_field="id", rows=1000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (count, peak < 4_000_000) == (300_000, True)
