"""The inside of ``embed``: slabs, unknown words, files that are being written, the cache's lock."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vocabtool
from tests.counted_letters import encode, write_corpus
from vocabtool import ByteStrings
from vocabtool.documents import Batch
from vocabtool.embedding import shard_files, shard_maker
from vocabtool.embedding.columns import as_utf8
from vocabtool.embedding.shard_files import Rows, write_shard
from vocabtool.embedding.shard_maker import Slab, cut_slabs, unknown_words
from vocabtool.embedding.vector_cache import VectorCache
from vocabtool.encoders.python_callable import PythonEncoder
from vocabtool.errors import ChangedRun
from vocabtool.tokenization.text_arrays import as_bytes, string_array

DOCUMENTS: Final = 2500
SHARD: Final = 1000
TEXTS = st.lists(st.binary(max_size=12), max_size=60)
RULES: Final = ("lower", "keras", "whitespace", "ptb")
WORD_TEXTS: Final = st.lists(
    st.lists(
        st.one_of(
            st.sampled_from([b"the", b"cat", b"The,", b"a.b", b"", b"\xff\xfe", b"sat-cat"]),
            st.text("abc\u00e9. ", max_size=6).map(str.encode),
        ),
        max_size=8,
    ).map(b" ".join),
    max_size=6,
)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """2,500 documents."""
    path = tmp_path / "corpus.jsonl"
    write_corpus(path, DOCUMENTS)
    return path


def batch(texts: list[bytes], first: int) -> Batch:
    """A batch of one source."""
    numbers = np.arange(first, first + len(texts), dtype=np.int64)
    return Batch("f", string_array(texts), numbers)


def cut(texts: list[bytes], splits: list[int], shard_rows: int, batch_size: int) -> list[Slab]:
    """The slabs of texts that come in batches which end at ``splits``."""
    bounds = sorted({0, len(texts), *(split % (len(texts) + 1) for split in splits)})
    batches = [batch(texts[a:b], a + 1) for a, b in pairwise(bounds)]
    return list(cut_slabs(batches, (), shard_rows, batch_size))


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
        patch.setattr(shard_maker, "SLAB_ROWS", 6)
        patch.setattr(shard_maker, "SLAB_BYTES", 40)
        patch.setattr(shard_maker, "SHARD_BYTES", 90)
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
    monkeypatch.setattr(shard_maker, "SLAB_ROWS", 1)
    monkeypatch.setattr(shard_maker, "SHARD_BYTES", 10)
    found = cut([b"a", b"b", b"c", b"0123456789", b"d", b"01234", b"56789", b"e"], [], 3, 1)
    assert [slab.shard for slab in found] == [0, 0, 0, 1, 2, 2, 2, 3]


@given(texts=st.lists(st.one_of(st.binary(max_size=8), st.text(max_size=4).map(str.encode))))
def test_strings_are_made_utf8(texts: list[bytes]) -> None:
    """As Python decodes them, one by one; also where only together they are UTF-8."""
    found, strange = as_utf8(string_array(texts))
    assert found.to_pylist() == [text.decode("utf-8", "replace") for text in texts]
    found.validate(full=True)
    wanted = [text.decode("utf-8", "replace").encode() != text for text in texts]
    assert strange.tolist() == wanted


def test_halves_of_a_character_are_not_joined() -> None:
    """Two strings that are UTF-8 only one behind the other."""
    found, strange = as_utf8(string_array([b"\xc3", b"\xa9"]))
    assert found.to_pylist() == ["\ufffd", "\ufffd"]
    assert strange.tolist() == [True, True]


@pytest.mark.parametrize("rule", RULES)
@given(texts=WORD_TEXTS)
def test_unknown_words_are_those_of_each_text_alone(rule: str, texts: list[bytes]) -> None:
    """Each once, in the order of first appearance; all tokens are counted."""
    known = ByteStrings.of([b"the", b"cat", b"sat", "na\u00efve".encode()])
    words = vocabtool.Words.of(vocabtool.Vocabulary("words", "list", known), rule=rule)
    found = unknown_words(words.look_up(texts))
    values, bounds = as_bytes(found.words.values), found.words.offsets.to_pylist()
    tokens = unknown = 0
    for text, (start, end) in zip(texts, pairwise(bounds), strict=True):
        (alone,) = words.split([text]).to_pylist()
        wanted = [token["word"] for token in alone if not token["known"]]
        assert values[start:end] == list(dict.fromkeys(wanted))
        tokens, unknown = tokens + len(alone), unknown + len(wanted)
    assert (found.tokens, found.tokens_unknown) == (tokens, unknown)


def refused(changes: dict[str, Any], out: Path, **asked: Any) -> tuple[str, ...]:
    """What a run is refused for that differs by ``changes`` from the one that is made first."""
    vocabtool.embed(**asked, output=out)
    with pytest.raises(ChangedRun) as caught:
        vocabtool.embed(**asked | changes, output=out)
    return caught.value.changes


def test_a_worker_of_a_killed_run_cannot_touch_the_next(corpus: Path, tmp_path: Path) -> None:
    """It ends its shard while the next run writes the same one: nothing half appears."""
    out = tmp_path / "out"
    plain = PythonEncoder(encode, dim=4, fingerprint="same")
    vocabtool.embed(corpus, plain, out, shard_rows=SHARD)
    schema, shard = pq.read_schema(out / "shard-000000.parquet"), out / "shard-000000.parquet"
    shard.unlink()
    begun, go_on = threading.Event(), threading.Event()
    failed: list[BaseException] = []

    def rows_of_orphan() -> Iterator[Rows]:
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
        go_on.set()
        orphan.join()
        assert not shard.exists()
        return encode(texts)

    waiting = PythonEncoder(meanwhile, dim=4, fingerprint="same")
    report = vocabtool.embed(corpus, waiting, out, shard_rows=SHARD)
    assert (len(failed), report.redone) == (1, 1)
    vocabtool.Shards.open(out).verify()


def test_threads_end_where_writing_fails(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the error is still being looked at."""

    def full(_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shard_files, "flush", full)
    before = threading.active_count()
    with pytest.raises(OSError, match="No space left") as caught:
        vocabtool.embed(corpus, encode, tmp_path / "out", threads=3, cache=tmp_path / "cache")
    assert caught.tb is not None
    assert threading.active_count() == before
    assert list((tmp_path / "out").glob("*.part")) == []


def test_a_part_that_is_taken_away_is_not_made_anew(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the next run does with what a killed one left: its workers' shards do not appear."""
    opened = shard_files.open_native

    def taken(path: Path) -> object:
        sink = opened(path)
        path.unlink()
        return sink

    monkeypatch.setattr(shard_files, "open_native", taken)
    with pytest.raises(FileNotFoundError):
        vocabtool.embed(corpus, encode, tmp_path / "out")
    assert list((tmp_path / "out").glob("shard-*")) == []


def test_many_may_begin_a_cache_at_once(tmp_path: Path) -> None:
    """Where another one has it for itself just then, this one waits."""
    cache = VectorCache(tmp_path, "f", 4)
    cache.close()
    with closing(sqlite3.connect(cache.file, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode=DELETE")
        other.execute("BEGIN EXCLUSIVE")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(VectorCache, tmp_path, "f", 4)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.2)
            other.execute("COMMIT")
            waiting.result(timeout=30).close()


def test_what_follows_from_another_model_is_not_told(corpus: Path, tmp_path: Path) -> None:
    """Its batch size, words and length of vectors; but a batch size that somebody gave."""
    vocabulary = vocabtool.Vocabulary("words", "list", ByteStrings.of([b"document"]))
    one = PythonEncoder(encode, dim=4, fingerprint="a" * 64)
    two = PythonEncoder(
        lambda texts: encode(texts)[:, :3],
        dim=3,
        fingerprint="b" * 64,
        max_batch=7,
        words=vocabtool.Words.of(vocabulary, rule="lower"),
    )
    models = (
        "the model (its files, signature, output, rule or weights): was "
        f"{one.fingerprint[:16]}, is {two.fingerprint[:16]}"
    )
    asked: dict[str, Any] = {"sources": corpus, "model": one}
    assert refused({"model": two}, tmp_path / "out", **asked) == (models,)
    given = {"model": two, "batch_size": 9}
    sizes = "--batch-size: was 256, is 9"
    assert refused(given, tmp_path / "given", **asked) == (models, sizes)
    same = PythonEncoder(encode, dim=4, fingerprint="a" * 64, max_batch=7)
    sizes = "--batch-size: was 256, is 7"
    assert refused({"model": same}, tmp_path / "same", **asked) == (sizes,)


def test_other_words_are_another_run(corpus: Path, tmp_path: Path) -> None:
    """The column of unknown words depends on them."""
    vocabulary = vocabtool.Vocabulary("words", "list", ByteStrings.of([b"document"]))
    for rule, raises in (("lower", False), ("keras", True)):
        words = vocabtool.Words.of(vocabulary, rule=rule)
        encoder = PythonEncoder(encode, dim=4, fingerprint="same", words=words)
        with pytest.raises(ChangedRun, match="--rule") if raises else nullcontext():
            vocabtool.embed(corpus, encoder, tmp_path / "out")
