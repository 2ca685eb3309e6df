"""Make one shard from its documents, in a thread, a process or an actor.

The documents are divided into shards, and each shard into slabs. A slab is encoded as a whole.
Slabs depend only on the documents, so a batch of the encoder contains the same texts in every run.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from threading import Condition, Lock
from time import monotonic, sleep
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.documents.batch import Batch, bounds
from vocabtool.embedding.plan import Plan
from vocabtool.embedding.shard_files import (
    ID,
    REPLACE,
    TEXT,
    UNKNOWN,
    VECTOR,
    Counts,
    Rows,
    Shard,
    as_utf8,
    shard_schema,
    vector_array,
    write_shard,
)
from vocabtool.encoders.encoder import Encoder, Vectors
from vocabtool.errors import InvalidFile, NotFound, OperatorFailed, VocabtoolError, reading
from vocabtool.system.parallel import closed_after, parallel_map
from vocabtool.tokenization.lookup import WordLookup, without_blanks
from vocabtool.tokenization.text_arrays import as_bytes
from vocabtool.tokenization.token_limit import count_cut

SLAB_ROWS: Final = 1024  # or one batch of the encoder, if that is larger
SLAB_BYTES: Final = 4 << 20  # of text, unless a single text is longer
SHARD_BYTES: Final = 256 << 20  # of text at which a shard ends, even with few rows
AHEAD: Final = 4  # slabs encoded ahead while a row group is written
BLANKS: Final = " \t\n\v\f\r"

OnSlab = Callable[[Counts, int], None]
"""Called for each written slab with its counts and the number of vectors found in the cache."""


@dataclass(frozen=True, slots=True)
class Slab:
    """Consecutive documents of one shard, encoded together.

    ``table``: the columns ``id``, ``text`` and the kept fields. Each has the type ``string`` and
    one chunk, and may contain invalid UTF-8. ``full``: whether the shard ends after this slab.
    """

    shard: int
    table: pa.Table
    full: bool
    unknown: Future[Unknown] | None = None

    @property
    def texts(self) -> pa.StringArray:
        return self.table.column(TEXT).chunk(0)


def cut_slabs(
    batches: Iterable[Batch], keep: Sequence[str], shard_rows: int, batch_size: int
) -> Iterator[Slab]:
    slab_rows = batch_size * max(1, SLAB_ROWS // batch_size)
    shard = rows = size = 0  # number, rows and text bytes of the current shard
    names = [ID, TEXT, *keep]
    rest = pa.table([pa.array([], pa.string()) for _ in names], names=names)
    for batch in chain(batches, (None,)):
        if batch is not None:
            columns = [batch.id_array(), batch.texts, *(batch.columns[name] for name in keep)]
            table = pa.table(columns, names=names)
            rest = pa.concat_tables([rest, table]).combine_chunks() if len(rest) else table
        start = 0
        ends = bounds(rest.column(TEXT).chunk(0)) if len(rest) else np.zeros(1, np.int32)
        while start < len(rest):
            most = start + min(slab_rows, shard_rows - rows)
            full = int(np.searchsorted(ends, int(ends[start]) + SLAB_BYTES, "right")) - 1
            end = min(most, max(full, start + 1), len(rest))
            if end == len(rest) != most and batch is not None:
                break  # the next batch continues the slab
            rows += end - start
            size += int(ends[end]) - int(ends[start])
            is_full = rows == shard_rows or size >= SHARD_BYTES
            yield Slab(shard, rest.slice(start, end - start).combine_chunks(), is_full)
            if is_full:
                shard, rows, size = shard + 1, 0, 0
            start = end
        rest = rest.slice(start)


@dataclass(frozen=True, slots=True)
class Unknown:
    """The unknown words of n texts.

    ``words``: Arrow list of ``string``, length n: the distinct unknown words of each text in order
    of first appearance. The words may be invalid UTF-8. ``tokens`` and ``tokens_unknown``: number
    of words and of unknown words, including repetitions.
    """

    words: pa.ListArray
    tokens: int
    tokens_unknown: int
    too_long: int = 0
    tokens_cut: int = 0


def unknown_words(words: WordLookup, max_tokens: int | None = None) -> Unknown:
    cut = count_cut(words, max_tokens)
    words = without_blanks(words)
    texts = np.repeat(np.arange(len(words.offsets) - 1), np.diff(words.offsets))
    codes, distinct = words.codes, words.distinct
    if not words.unique:
        encoded = distinct.view(pa.binary()).dictionary_encode()
        codes, distinct = encoded.indices.to_numpy()[codes], encoded.dictionary.view(pa.string())
    missing = ~words.known[words.codes]
    texts, codes = texts[missing], codes[missing].astype(np.int64)
    # The first occurrence of each word in each text.
    span = int(codes.max(initial=0)) + 1
    first = np.sort(np.unique(texts * span + codes, return_index=True)[1])
    offsets = np.searchsorted(texts[first], np.arange(len(words.offsets))).astype(np.int32)
    values = distinct.take(pa.array(codes[first]))
    lists = pa.ListArray.from_arrays(pa.array(offsets), values)
    return Unknown(lists, len(words.codes), int(np.count_nonzero(missing)), *cut)


@dataclass(frozen=True)
class Work:
    folder: Path
    plan: Plan
    encoder: Encoder
    cache: Path | None
    threads: int


@dataclass(frozen=True, slots=True)
class ShardResult:
    shard: Shard
    hits: int


class ShardMaker:
    def __init__(self, work: Work) -> None:
        encoder, plan = work.encoder, work.plan
        if encoder.fingerprint != plan.encoder:
            raise VocabtoolError("the model changed during the run: start over with --force")
        self._work, self._encoder, self._plan = work, encoder, plan
        self._schema = shard_schema(
            plan.dim, plan.dtype, plan.keep, words=encoder.words is not None, text=plan.text
        )
        self._cache = None
        if work.cache is not None:
            self._cache = VectorCache(work.cache, encoder.fingerprint, encoder.dim)
        self._words = encoder.words
        self._lookups = ThreadPoolExecutor(1)

    def close(self) -> None:
        self._lookups.shutdown(cancel_futures=True)
        if self._cache is not None:
            self._cache.close()

    def prepare(self, slab: Slab) -> Slab:
        """Start to look up a slab's words in the background. Thread-safe."""
        if self._words is None:
            return slab
        look_up, most = self._words.look_up, self._encoder.max_tokens
        unknown = self._lookups.submit(lambda: unknown_words(look_up(slab.texts), most))
        return replace(slab, unknown=unknown)

    def make(
        self, number: int, slabs: Iterable[Slab], on_slab: OnSlab | None = None
    ) -> ShardResult:
        hits = 0

        def count_hits() -> Iterator[Rows]:
            nonlocal hits
            threads = self._work.threads
            encoded = parallel_map(self._encode, slabs, workers=threads, ahead=threads + AHEAD)
            with closed_after(encoded):
                for rows in encoded:
                    yield rows
                    hits += rows.hits
                    if on_slab is not None:
                        on_slab(rows.counts, rows.hits)

        with closed_after(count_hits()) as rows:
            shard = write_shard(
                self._work.folder, number, self._plan.fingerprint, self._schema, rows
            )
        return ShardResult(shard, hits)

    def _encode(self, slab: Slab) -> Rows:
        texts, hits = slab.texts, 0
        encode, size = self._encoder.encode_batches, self._plan.batch_size
        unknown: Unknown | None = None
        try:
            if self._cache is not None:
                cached, hits = self._cache.vectors(
                    texts, lambda new: np.concatenate(encode(new, size))
                )
                vectors = [cached]
            else:
                vectors = encode(texts, size)
        except (VocabtoolError, OSError, MemoryError):
            raise
        except Exception as error:  # a user's function may raise anything; say where
            ids = slab.table.column(ID).chunk(0).view("binary")
            first, last = (ids[at].as_py().decode("utf-8", REPLACE) for at in (0, -1))
            what = f"the model raised {type(error).__name__}: {error}"
            raise OperatorFailed(f"{first} to {last}", what) from error
        if slab.unknown is not None:
            unknown = slab.unknown.result()
        table, replaced = self._table(slab.table, vectors, unknown)
        lengths = pc.binary_length(pc.ascii_trim(texts, BLANKS)).to_numpy()
        counts = Counts(
            documents=len(texts),
            empty=len(texts) - int(np.count_nonzero(lengths)),
            zero=sum(int(np.count_nonzero(~part.any(axis=1))) for part in vectors),
            not_utf8=replaced,
            tokens=unknown.tokens if unknown else 0,
            tokens_unknown=unknown.tokens_unknown if unknown else 0,
            too_long=unknown.too_long if unknown else 0,
            tokens_cut=unknown.tokens_cut if unknown else 0,
        )
        return Rows(table, counts, hits)

    def _table(
        self, documents: pa.Table, vectors: list[Vectors], unknown: Unknown | None
    ) -> tuple[pa.Table, int]:
        replaced: NDArray[np.bool_] = np.zeros(documents.num_rows, np.bool_)
        columns: list[pa.Array | pa.ChunkedArray] = []
        for field in self._schema:
            if field.name == VECTOR:
                dtype = self._plan.dtype
                columns.append(pa.chunked_array([vector_array(part, dtype) for part in vectors]))
            elif field.name == UNKNOWN and unknown is not None:
                words, _ = as_utf8(unknown.words.values)
                columns.append(pa.ListArray.from_arrays(unknown.words.offsets, words))
            else:
                column, strange = as_utf8(documents.column(field.name).chunk(0))
                columns.append(column)
                replaced |= strange
        return pa.Table.from_arrays(columns, schema=self._schema), int(np.count_nonzero(replaced))


KEY_BYTES: Final = 16
MAX_KEYS: Final = 500  # in one query, below the limit of any SQLite
WAIT_SECONDS: Final = 60.0  # for a lock that another process holds
PAUSE_SECONDS: Final = 0.01
TABLE: Final = "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL)"

Encode = Callable[[pa.StringArray], Vectors]


class VectorCache:
    """A cache of the vectors of one encoder, in an SQLite file in a folder; thread-safe."""

    def __init__(self, folder: Path, fingerprint: str, dim: int) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NotFound(f"{folder}: cannot create the cache folder: {error.strerror}") from error
        self.file = folder / f"{hashlib.sha256(fingerprint.encode()).hexdigest()}.sqlite"
        self._dim = dim
        self._lock = Lock()
        self._claimed: set[bytes] = set()  # keys whose texts a thread is encoding
        self._changed = Condition()
        end = monotonic() + WAIT_SECONDS
        with _errors(self.file):
            self._connection = sqlite3.connect(
                self.file, timeout=WAIT_SECONDS, check_same_thread=False
            )
            try:
                # Several processes may start at once, but SQLite's timeout does not cover this.
                while not self._enter_wal_mode():
                    if monotonic() > end:
                        raise sqlite3.OperationalError("another process keeps the file locked")
                    sleep(PAUSE_SECONDS)
                self._connection.execute("PRAGMA synchronous=NORMAL")  # a kill loses nothing
                self._connection.execute(TABLE)
            except sqlite3.DatabaseError:
                self._connection.close()
                raise

    def _enter_wal_mode(self) -> bool:
        try:
            self._connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            return False
        return True

    def close(self) -> None:
        self._connection.close()

    def vectors(self, texts: pa.StringArray, encode: Encode) -> tuple[Vectors, int]:
        """Return the vectors of texts, and the number of texts that needed no encoding.

        The vectors are float32, shape (n, dim).

        ``encode`` is called with the distinct texts that are not in the cache, in order.
        """
        keys = [hashlib.sha256(text).digest()[:KEY_BYTES] for text in as_bytes(texts)]
        first = {key: row for row, key in reversed([*enumerate(keys)])}
        distinct = sorted(first, key=first.__getitem__)
        found, encoded = self._read(distinct), 0
        while missing := [key for key in distinct if key not in found]:
            # If two threads have the same new text, one encodes it and the other waits.
            with self._changed:
                own = [key for key in missing if key not in self._claimed]
                self._claimed.update(own)
                while not own and not self._claimed.isdisjoint(missing):
                    self._changed.wait()
            try:
                found |= self._read(own or missing)  # another thread may have stored them meanwhile
                new = [key for key in own if key not in found]
                if new:
                    made = encode(texts.take(np.array([first[key] for key in new])))
                    rows = (vector.tobytes() for vector in made.astype("<f4", copy=False))
                    with self._transaction() as connection:
                        connection.executemany(
                            "INSERT OR IGNORE INTO vectors VALUES (?, ?)",
                            zip(new, rows, strict=True),
                        )
                    found |= zip(new, made, strict=True)
                encoded += len(new)
            finally:
                with self._changed:
                    self._claimed.difference_update(own)
                    self._changed.notify_all()
        vectors = np.empty((len(keys), self._dim), np.float32)
        for row, key in enumerate(keys):
            vectors[row] = found[key]
        return vectors, len(keys) - encoded

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, Vectors]:
        found: dict[bytes, Vectors] = {}
        with self._transaction() as connection:
            for at in range(0, len(keys), MAX_KEYS):
                part = keys[at : at + MAX_KEYS]
                marks = ",".join("?" * len(part))
                query = f"SELECT key, vector FROM vectors WHERE key IN ({marks})"  # noqa: S608 - question marks only
                for key, held in connection.execute(query, part):
                    if not isinstance(held, bytes) or len(held) != self._dim * 4:
                        what = f"a vector that is not {self._dim * 4} bytes long"
                        raise InvalidFile(f"damaged: it contains {what}")
                    found[key] = np.frombuffer(held, "<f4")
                    if not np.isfinite(found[key]).all():
                        raise InvalidFile("damaged: a vector in it has a number that is not finite")
        return found

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, _errors(self.file), self._connection:
            yield self._connection


@contextmanager
def _errors(file: Path) -> Iterator[None]:
    try:
        with reading(str(file)):
            yield
    except sqlite3.DatabaseError as error:
        what = f"the cache of vectors cannot be used: {error}"
        raise InvalidFile(what, file=str(file)) from error
