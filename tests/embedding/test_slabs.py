"""The inside of ``embed``: slabs, unknown words, files that are being written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import vocabtool
from tests.counted_letters import encode, write_corpus
from vocabtool.documents import Batch, ReadLog
from vocabtool.documents.batch import as_utf8
from vocabtool.embedding import embed as embedding
from vocabtool.embedding.embed import cut_slabs, tables_of
from vocabtool.embedding.shards import Slab, write_shard
from vocabtool.tokenization.text_arrays import as_bytes, string_array

TEXTS = st.lists(st.binary(max_size=12), max_size=60)


def batch(texts: list[bytes], first: int) -> Batch:
    numbers = np.arange(first, first + len(texts), dtype=np.int64)
    return Batch("f", string_array(texts), numbers)


def cut(texts: list[bytes], splits: list[int], shard_rows: int, batch_size: int) -> list[Slab]:
    """The slabs of texts that come in batches which end at ``splits``."""
    bounds = sorted({0, len(texts), *(split % (len(texts) + 1) for split in splits)})
    batches = [batch(texts[a:b], a + 1) for a, b in pairwise(bounds)]
    tables = tables_of(iter(batches), (), "raise", ReadLog())
    return list(cut_slabs(tables, shard_rows, batch_size))


@given(
    texts=TEXTS,
    splits=st.lists(st.integers(0, 1000), max_size=5),
    shard_rows=st.integers(1, 20),
    batch_size=st.integers(1, 9),
)
def test_how_documents_come_does_not_matter(
    texts: list[bytes], splits: list[int], shard_rows: int, batch_size: int
) -> None:
    """Every document once and in order; the same slabs however the batches were cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedding, "SLAB_ROWS", 6)
        patch.setattr(embedding, "SLAB_BYTES", 40)
        patch.setattr(embedding, "SHARD_BYTES", 90)
        found = cut(texts, splits, shard_rows, batch_size)
        whole = cut(texts, [], shard_rows, batch_size)
    told = [as_bytes(slab.table.column("text").chunk(0)) for slab in found]
    assert [text for part in told for text in part] == texts
    assert [slab.shard for slab in found] == [slab.shard for slab in whole]
    assert all(a.table.equals(b.table) for a, b in zip(found, whole, strict=True))
    ids = [name for slab in found for name in slab.table.column("id").to_pylist()]
    assert ids == [f"f:{number}" for number in range(1, len(texts) + 1)]
    rows = [sum(len(s.table) for s in found if s.shard == n) for n in range(len({*ids}))]
    assert all(count <= shard_rows for count in rows)


def test_shards_end_by_rows_or_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted by hand: shards of 3 rows, or where 10 bytes of text are full."""
    monkeypatch.setattr(embedding, "SLAB_ROWS", 1)
    monkeypatch.setattr(embedding, "SHARD_BYTES", 10)
    found = cut([b"a", b"b", b"c", b"0123456789", b"d", b"01234", b"56789", b"e"], [], 3, 1)
    assert [slab.shard for slab in found] == [0, 0, 0, 1, 2, 2, 2, 3]


@given(texts=st.lists(st.one_of(st.binary(max_size=8), st.text(max_size=4).map(str.encode))))
@example(texts=[b"\xc3", b"\xa9"])
def test_strings_are_made_utf8(texts: list[bytes]) -> None:
    """As Python decodes them, one by one; also where only together they are UTF-8."""
    found, strange = as_utf8(string_array(texts))
    assert found.to_pylist() == [text.decode("utf-8", "replace") for text in texts]
    found.validate(full=True)
    wanted = [text.decode("utf-8", "replace").encode() != text for text in texts]
    assert strange.tolist() == wanted


def test_a_worker_of_a_killed_run_cannot_touch_the_next(tmp_path: Path) -> None:
    """It ends its shard while the next run writes the same one: nothing half appears."""
    corpus, out = tmp_path / "corpus.jsonl", tmp_path / "out"
    write_corpus(corpus, 2500)
    plain = vocabtool.open_encoder(encode, fingerprint="same")
    vocabtool.embed(corpus, plain, out, shard_rows=1000)
    schema, shard = pq.read_schema(out / "shard-000000.parquet"), out / "shard-000000.parquet"
    shard.unlink()
    begun, go_on = threading.Event(), threading.Event()
    failed: list[BaseException] = []

    def rows_of_orphan() -> Iterator[Slab]:
        begun.set()
        go_on.wait()
        yield from ()

    def orphaned() -> None:
        try:
            write_shard(out, 0, "run", schema, rows_of_orphan())
        except FileNotFoundError as error:
            failed.append(error)

    orphan = threading.Thread(target=orphaned)
    orphan.start()
    begun.wait()

    def meanwhile(texts: list[str]) -> Any:
        if len(texts) > 1:  # one text only shows how long a vector is
            go_on.set()
            orphan.join()
            assert not shard.exists()
        return encode(texts)

    waiting = vocabtool.open_encoder(meanwhile, fingerprint="same")
    report = vocabtool.embed(corpus, waiting, out, shard_rows=1000)
    assert (len(failed), report.redone) == (1, 1)
    vocabtool.Shards.open(out).verify()
