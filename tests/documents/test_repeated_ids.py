"""Repeated ids, compared with what a dictionary of all ids says."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.documents.reading import batches
from vocabtool.documents import Document, OnDuplicate, Repeat, Repeated, Skipped, repeated_ids
from vocabtool.documents.repeated_ids import Places, RepeatedIds
from vocabtool.errors import InvalidFile, VocabtoolError

IDS = st.lists(st.lists(st.sampled_from(["a", "b", "c", "", "é", "texts:1"]) | st.text()))


def add(seen: RepeatedIds, ids: Sequence[str], first: int) -> dict[int, int]:
    """Row to earlier position, for the ids at ``first`` and behind."""
    positions = np.arange(first, first + len(ids), dtype=np.int64)
    repeats = seen.add(pa.array(ids, pa.string()), positions)
    assert repeats.rows.tolist() == sorted(repeats.rows.tolist())
    return dict(zip(repeats.rows.tolist(), repeats.earlier.tolist(), strict=True))


@given(parts=IDS)
def test_against_a_dictionary(parts: list[list[str]]) -> None:
    """Each id that was there before is found, within its batch too, and where it was first."""
    seen, known, position = RepeatedIds(), dict[str, int](), 1
    for ids in parts:
        expected = {}
        for row, id_ in enumerate(ids):
            if known.setdefault(id_, position + row) != position + row:
                expected[row] = known[id_]
        assert add(seen, ids, position) == expected
        position += len(ids)
    assert len(seen) == len(known)
    assert seen.nbytes == 16 * len(known)


def test_many_ids_in_merged_runs() -> None:
    """A million ids in uneven batches: one run repeats every tenth and all others are new."""
    rolled = np.random.default_rng(5)
    order = rolled.permutation(300_000)
    seen, known, position = RepeatedIds(), dict[str, int](), 1
    for ids in np.split(order, np.sort(rolled.choice(300_000, 60, replace=False))):
        again = rolled.choice(order[: position - 1], len(ids) // 10) if position > 1 else order[:0]
        called = [str(id_) for id_ in np.append(ids, again)]
        first = {id_: position + row for row, id_ in reversed(list(enumerate(called)))}
        expected = {
            row: known.get(id_, first[id_])
            for row, id_ in enumerate(called)
            if known.get(id_, first[id_]) != position + row
        }
        assert add(seen, called, position) == expected
        known = first | known
        position += len(called)
    assert (len(seen), seen.nbytes) == (len(known), 16 * len(known))


def test_large_runs_are_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge takes no more than its share of memory, and yet there are few runs."""
    monkeypatch.setattr(repeated_ids, "LEAST_MERGED", 64)
    merged: list[tuple[int, int]] = []
    seen = RepeatedIds()
    merge = repeated_ids._merged

    def watched(one: Any, other: Any) -> Any:
        merged.append((len(one.heads) + len(other.heads), len(seen)))
        return merge(one, other)

    monkeypatch.setattr(repeated_ids, "_merged", watched)
    for at in range(0, 20_000, 8):
        assert add(seen, [f"{n}" for n in range(at, at + 8)], at + 1) == {}
    assert len(merged) > 1000
    assert all(size <= max(64, total // 8) for size, total in merged)
    assert len(seen._runs) < 120
    assert add(seen, ["0", "19999", "20000"], 20_001) == {0: 1, 1: 20_000}


def test_half_is_in_files() -> None:
    """Memory holds 8 bytes an id."""
    held = held_by_half_a_million_ids()
    assert 8 <= held / (1 << 19) < 9


def test_memory_where_no_file_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """All 16 bytes stay in memory."""

    def no_file() -> Any:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(repeated_ids, "TemporaryFile", no_file)
    assert 16 <= held_by_half_a_million_ids() / (1 << 19) < 17


def test_memory_where_a_file_is_cut_short() -> None:
    """A disk that is full one byte before a file's end: all 16 bytes stay in memory."""
    resource = pytest.importorskip("resource", reason="a limit of files stands for a full disk")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 * repeated_ids.LEAST_MAPPED - 1, hard))
    try:
        held = held_by_half_a_million_ids()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert 16 <= held / (1 << 19) < 17


def held_by_half_a_million_ids() -> int:
    """Bytes of memory for ids that are all new, and are then found again."""
    count, step = 1 << 19, 1 << 14
    seen = RepeatedIds()
    tracemalloc.start()
    try:
        for at in range(0, count, step):
            assert add(seen, [f"{n}" for n in range(at, at + step)], at + 1) == {}
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert seen.nbytes == 16 * count
    assert add(seen, ["17", "new", f"{count - 1}"], count + 1) == {0: 18, 2: count}
    return held


def test_hashes_that_agree_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids whose first 64 bits agree are told apart by the 24 that follow."""

    monkeypatch.setattr(repeated_ids, "hash", lambda id_: 1, raising=False)
    monkeypatch.setattr(repeated_ids, "crc32", lambda id_: id_[0] << 24 | id_[0])
    seen = RepeatedIds()
    assert add(seen, ["b", "a", "d"], 1) == {}
    assert add(seen, ["c", "d", "a", "b", "e", "c"], 4) == {1: 3, 2: 2, 3: 1, 5: 4}
    assert len(seen) == 5


def test_places() -> None:
    """Positions go through sources, also through one file that is read twice, and back."""
    places = Places()
    given_ = [
        ("a", [2, 5, 9]),
        ("a", [10, 12]),
        ("b", [1]),
        ("a", [1, 3]),
        ("a", [3, 4]),
        ("c", []),
    ]
    told = [
        (places.add(source, np.array(numbers, np.int64)), source, numbers)
        for source, numbers in given_
    ]
    positions = [int(position) for found, _, _ in told for position in found]
    assert positions == sorted(set(positions))
    named = [f"{source}:{number}" for _, source, numbers in told for number in numbers]
    assert [places.of(position) for position in positions] == named


def test_more_rows_than_positions() -> None:
    """A stream of more rows than a position counts ends in an error, not in a wrong place."""
    places = Places()
    places.add("a", np.array([repeated_ids.MOST_POSITIONS - 1], np.int64))
    with pytest.raises(VocabtoolError, match=r"b: more than 1,099,511,627,776 rows in all"):
        places.add("b", np.array([1], np.int64))


# ---- in streams of documents


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
@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize("start", [0, 1, 2, 3])
def test_one_of_repeated(on_duplicate: OnDuplicate, kept: list[str], size: int, start: int) -> None:
    """The first or the last of an id stays in its place; others are counted with both places."""
    rows = [{"id": id_, "text": f"{id_}{n}"} for n, id_ in enumerate("abbbca", 1)]
    rows[2] = {"id": "b", "text": "b3"}
    repeated = Repeated()
    found = batches(
        rows, id_field="id", on_duplicate=on_duplicate, repeated=repeated, size=size, start=start
    )
    assert [text for batch in found for text in batch.texts.to_pylist()] == kept[start:]
    assert repeated == Repeated(
        3,
        [
            Repeat("b", "texts:3", "texts:2"),
            Repeat("b", "texts:4", "texts:2"),
            Repeat("a", "texts:6", "texts:1"),
        ],
    )


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
        repeated = Repeated()
        found = batches(
            rows,
            id_field="id",
            on_duplicate=cast(OnDuplicate, on_duplicate),
            repeated=repeated,
            size=size,
            start=start,
        )
        texts = [int(text) for batch in found for text in batch.texts.to_pylist()]
        assert texts == sorted(chosen.values())[start:]
        assert repeated.count == len(ids) - len(set(ids))


def test_the_last_of_repeated_in_files(tmp_path: Path) -> None:
    """Files are read twice for the last ones; bad rows are counted once."""
    names = [corpus(tmp_path / "a.jsonl", ["x", None, "y"]), corpus(tmp_path / "b.jsonl", ["x"])]
    skipped, repeated = Skipped(), Repeated()
    found = list(
        batches(
            names,
            id_field="id",
            keep=["text"],
            on_duplicate="last",
            repeated=repeated,
            on_error="skip",
            skipped=skipped,
        )
    )
    assert [(b.source, b.id_array().to_pylist()) for b in found] == [
        (names[0], ["y"]),
        (names[1], ["x"]),
    ]
    assert (repeated.count, skipped.count) == (1, 1)


def test_what_is_compared() -> None:
    """Ids of documents are compared; texts without ids are not, and cost nothing."""
    with pytest.raises(InvalidFile, match="texts:2: the id 'a' is also that of texts:1"):
        list(batches(iter([Document("a", "x"), Document("a", "y")])))
    found = list(batches(iter([Document("a", "x")] * 2), on_duplicate=None))
    assert found[0].id_array().to_pylist() == ["a", "a"]
    assert sum(len(batch) for batch in batches(iter(["same"] * 5))) == 5


def test_the_first_few_are_remembered() -> None:
    """All repeats are counted, ten are remembered."""
    repeated = Repeated()
    rows = [{"id": "a", "text": ""}] * 1001
    found = list(batches(rows, id_field="id", on_duplicate="first", repeated=repeated))
    assert sum(len(batch) for batch in found) == 1
    assert (repeated.count, len(repeated.first)) == (1000, 10)
    assert repeated.first[-1] == Repeat("a", "texts:11", "texts:1")
