"""A slab of documents made into rows of a shard: vectors, unknown words, and what is counted.

How vectors are made is the encoder's business, how rows are written that of ``shard_files.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from vocabtool.embedding.inputs import is_count
from vocabtool.embedding.plan import Dtype, Plan
from vocabtool.embedding.slabs import ID, TEXT, Slab
from vocabtool.embedding.unknown_words import Unknown, UnknownWords, unknown_of
from vocabtool.embedding.utf8 import REPLACED, as_utf8
from vocabtool.embedding.vector_cache import VectorCache
from vocabtool.encoders.encoder import Encoder, Vectors
from vocabtool.errors import InvalidFile, OperatorFailed, VocabtoolError

if TYPE_CHECKING:
    import pyarrow as pa

VECTOR: Final = "vector"
UNKNOWN: Final = "unknown"
OWN: Final = (ID, VECTOR, UNKNOWN, TEXT)  # columns that no kept field may be called
BLANKS: Final = " \t\n\v\f\r"


@dataclass(frozen=True, slots=True)
class Counts:
    """What some rows of shards hold; the same whenever they are made.

    ``empty``: texts of nothing but blanks. ``zero``: vectors that are zero: no word is known.
    ``not_utf8``: documents stored with U+FFFD where bytes were no UTF-8.
    ``tokens``, ``tokens_unknown``: of the words of the model, both 0 where nothing tells them.
    """

    documents: int = 0
    empty: int = 0
    zero: int = 0
    not_utf8: int = 0
    tokens: int = 0
    tokens_unknown: int = 0

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Counts:
        """Out of a file. Raises ``TypeError`` for what is no counts."""
        if not all(map(is_count, told.values())):
            raise TypeError(f"counts that are none: {told}")
        return cls(**told)

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Counts)))


class Rows(NamedTuple):
    """Rows of one shard, ready to be written. ``hits``: vectors that the cache held."""

    shard: int
    table: pa.Table
    counts: Counts
    hits: int


class SlabEncoder:
    """Makes rows of slabs. Several threads may call :meth:`rows`, one :meth:`unknown`."""

    def __init__(self, encoder: Encoder, plan: Plan, cache: VectorCache | None = None) -> None:
        self._encoder = encoder
        self._plan = plan
        self._cache = cache
        self.schema = schema_of(plan, with_words=encoder.words is not None)
        words = None if plan.exact else encoder.words
        self._unknown = UnknownWords(words) if words is not None else None

    def unknown(self, slab: Slab) -> Unknown | None:
        """The unknown words of a slab; ``None`` where the model tells them later, or nothing."""
        return self._unknown.of(_texts(slab)) if self._unknown else None

    def rows(self, slab: Slab, words: Callable[[], Unknown | None]) -> Rows:
        """Encode a slab. Raises :class:`VocabtoolError` where the encoder fails.

        ``words``: gives what :meth:`unknown` told; called when the vectors are there.
        """
        texts, hits = _texts(slab), 0
        told: Unknown | None = None
        with _failures(slab):
            if self._plan.exact:
                vectors, told = self._encode_exactly(texts)
            elif self._cache is not None:
                cached, hits = self._cache.vectors(
                    texts, lambda new: np.concatenate(self._encode(new))
                )
                vectors = [cached]
            else:
                vectors = self._encode(texts)
        unknown = words() if told is None else told
        table, replaced = self._table(slab.table, vectors, unknown)
        counts = Counts(
            len(texts),
            _count_blank(texts),
            sum(int(np.count_nonzero(~part.any(axis=1))) for part in vectors),
            replaced,
            unknown.tokens if unknown else 0,
            unknown.tokens_unknown if unknown else 0,
        )
        return Rows(slab.shard, table, counts, hits)

    def _batches(self, texts: pa.StringArray) -> Iterator[pa.StringArray]:
        size = self._plan.batch_size
        return (texts.slice(at, size) for at in range(0, len(texts), size))

    def _encode(self, texts: pa.StringArray) -> list[Vectors]:
        """The vectors batch by batch: they are stored as they come, without a copy."""
        return [self._encoder.encode(batch) for batch in self._batches(texts)]

    def _encode_exactly(self, texts: pa.StringArray) -> tuple[list[Vectors], Unknown]:
        import pyarrow as pa

        encoded = [self._encoder.encode_with_words(batch) for batch in self._batches(texts)]
        found = [unknown_of(each.words) for each in encoded]
        unknown = Unknown(
            pa.concat_arrays([each.words for each in found]),
            sum(each.tokens for each in found),
            sum(each.tokens_unknown for each in found),
        )
        return [each.vectors for each in encoded], unknown

    def _table(
        self, documents: pa.Table, vectors: list[Vectors], unknown: Unknown | None
    ) -> tuple[pa.Table, int]:
        """The rows as the schema has them, and in how many of them bytes were replaced."""
        import pyarrow as pa

        replaced = np.zeros(documents.num_rows, np.bool_)
        columns: list[pa.Array | pa.ChunkedArray] = []
        for field in self.schema:
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
        return pa.Table.from_arrays(columns, schema=self.schema), int(np.count_nonzero(replaced))


@contextmanager
def _failures(slab: Slab) -> Iterator[None]:
    """What a model raises, with the documents that it was called with."""
    try:
        yield
    except (VocabtoolError, OSError, MemoryError):
        raise
    except Exception as error:  # a callable may raise anything: its user wants to know where
        ids = slab.table.column(ID).chunk(0).view("binary")
        first, last = (ids[at].as_py().decode("utf-8", REPLACED) for at in (0, -1))
        place = f"{first} to {last}"
        raise OperatorFailed(place, f"the model raised {type(error).__name__}: {error}") from error


def schema_of(plan: Plan, *, with_words: bool) -> pa.Schema:
    """The columns of a shard."""
    import pyarrow as pa

    number = pa.float16() if plan.dtype == "float16" else pa.float32()
    vector = pa.list_(pa.field("element", number, nullable=False), plan.dim)
    columns = [pa.field(ID, pa.string(), nullable=False), pa.field(VECTOR, vector, nullable=False)]
    if with_words:
        word = pa.field("element", pa.string(), nullable=False)
        columns.append(pa.field(UNKNOWN, pa.list_(word), nullable=False))
    if plan.text:
        columns.append(pa.field(TEXT, pa.string(), nullable=False))
    return pa.schema([*columns, *(pa.field(name, pa.string()) for name in plan.keep)])


def vector_array(vectors: Vectors, dtype: Dtype) -> pa.FixedSizeListArray:
    """Vectors as a column. Raises :class:`InvalidFile` where float16 does not hold a number."""
    import pyarrow as pa

    if dtype == "float16":
        largest = np.finfo(np.float16).max
        if np.abs(vectors).max(initial=0) > largest:
            raise InvalidFile(f"a vector holds a number beyond {largest}: --dtype float32 holds it")
        vectors = vectors.astype(np.float16)
    numbers = pa.array(vectors.reshape(-1))
    element = pa.field("element", numbers.type, nullable=False)
    return pa.FixedSizeListArray.from_arrays(numbers, type=pa.list_(element, vectors.shape[1]))


def _texts(slab: Slab) -> pa.StringArray:
    return slab.table.column(TEXT).chunk(0)


def _count_blank(texts: pa.StringArray) -> int:
    """Texts of nothing but blanks."""
    import pyarrow.compute as pc

    lengths = pc.binary_length(pc.ascii_trim(texts, BLANKS)).to_numpy()
    return len(texts) - int(np.count_nonzero(lengths))
