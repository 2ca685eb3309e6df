"""``Stream``: elements that pass by, shaped by operators that are lazy and can be put together.

>>> import vocabtool
>>> stream = vocabtool.Stream.of(["a b", "c", "d e f"]).map(str.split).filter(lambda w: len(w) > 1)
>>> list(stream)
[['a', 'b'], ['d', 'e', 'f']]

What each operator does is in ``operators.py``, also where documents come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeVar, cast, get_args, overload

from vocabtool.documents.batch import Document, ReadLog, SkipCounter
from vocabtool.documents.objects import Indexable, is_indexable
from vocabtool.documents.options import ReadOptions
from vocabtool.streams import operators
from vocabtool.streams.frameworks import (
    Encodes,
    Fields,
    InFolder,
    InMemory,
    Layout,
    ray_dataset,
    record_batches,
    tf_dataset,
)
from vocabtool.streams.operators import (
    NEARLY_NONE,
    DocumentSource,
    FromStart,
    Once,
    Passes,
    Size,
    Sized,
    Start,
)
from vocabtool.system.parallel import Workers

if TYPE_CHECKING:
    import pyarrow as pa
    import ray.data
    import tensorflow as tf

    from vocabtool.documents.files import Sources
    from vocabtool.documents.options import Format, OnError

T = TypeVar("T")
R = TypeVar("R")

Weights = Literal["size", "equal"]

LEAST: Final = 0.05  # of a stream's estimated size, until it ends

NO_SIZE = (
    "weights='size' needs to know how large each stream is, and stream {} does not say (filter, "
    "flat_map, iterators and endless streams cannot): mix before them, or say weights='equal' or a "
    "list of numbers"
)


@dataclass(frozen=True, slots=True, eq=False)
class Stream(Generic[T]):
    """Elements in an order; nothing is read until it is iterated, and each pass reads anew.

    Every operator gives a new stream and leaves this one as it is. Each element comes exactly once
    in a pass. Where a pass is given up early, what it opened is closed and its threads end.
    Made by :func:`stream` and :meth:`of`.

    ``start``: gives a pass without the first so many elements, which :meth:`skip` asks for.
    ``size``: how much there is, as far as that is known without reading.
    ``documents``: the sources, where the elements are just their documents.
    """

    start: Start[T]
    size: Sized = Size
    documents: DocumentSource | None = None

    @overload
    @classmethod
    def of(cls, items: Iterable[T]) -> Stream[T]: ...

    @overload
    @classmethod
    def of(cls, items: Indexable) -> Stream[T]: ...

    @classmethod
    def of(cls, items: Iterable[T] | Indexable) -> Stream[T]:
        """The elements of a list, of anything indexable or of an iterable, in its order.

        Of an iterator there is one pass: a second raises :class:`VocabtoolError`.
        Raises ``TypeError`` for one text and for what cannot be iterated.
        """
        if isinstance(items, str | bytes):
            raise TypeError("wanted several texts, got one: put it in a list")
        if is_indexable(items):
            return cls(partial(operators.items, items), partial(operators.size_of, items))
        if not isinstance(items, Iterable):
            raise TypeError(f"wanted what can be iterated or indexed, got {type(items).__name__}")
        start: Start[T] = partial(operators.items, items)
        return cls(Once(start) if iter(items) is items else start)

    def __iter__(self) -> Iterator[T]:
        return self.start(0)

    def map(
        self,
        fn: Callable[[T], R],
        *,
        workers: int = 0,
        ordered: bool = True,
        kind: Workers = "threads",
    ) -> Stream[R]:
        """``fn`` of each element, in their order.

        ``workers``: how many are at work at a time, 0: none but the caller. At most
        ``2 * workers`` elements are taken beyond those given out. ``ordered=False``: as they are
        finished. ``kind="processes"``: for work in Python itself; ``fn``, elements and results are
        pickled, so let an element be a batch. Elements are read in the caller's thread.
        Raises :class:`OperatorFailed` where ``fn`` raises, after the elements before.
        """
        if workers < 0:
            raise ValueError(f"workers: wanted 0 or more, got {workers}")
        if kind not in get_args(Workers):
            raise ValueError(f"kind: wanted one of {get_args(Workers)}, got {kind!r}")
        return Stream(
            partial(operators.map_elements, self.start, fn, workers, ordered, kind), self.size
        )

    def flat_map(self, fn: Callable[[T], Iterable[R]]) -> Stream[R]:
        """What ``fn`` makes of each element, one after the other; errors as those of map."""
        return Stream(FromStart(partial(operators.flat_map, self.start, fn)))

    def filter(self, fn: Callable[[T], object]) -> Stream[T]:
        """The elements of which ``fn`` is true, in their order; errors as those of map."""
        return Stream(FromStart(partial(operators.filter_elements, self.start, fn)))

    def take(self, most: int) -> Stream[T]:
        """The first ``most`` elements; none after them is read."""
        _check("take", most, 0)
        start = partial(operators.take, self.start, most)
        return Stream(start, partial(operators.part, self.size, 0, most))

    def skip(self, left_out: int) -> Stream[T]:
        """The elements after the first ``left_out``.

        These are not read where the source allows it: an indexable, Parquet, Arrow IPC, and text
        lines, whose ends are counted. Operators that keep order and number pass it on (``map``,
        ``take``, ``skip``, ``batch``, ``prefetch``, ``cache``, and ``repeat``, where the number of
        elements is known); the others read what is skipped.
        """
        _check("skip", left_out, 0)
        start = partial(operators.skip, self.start, left_out)
        return Stream(start, partial(operators.part, self.size, left_out, None))

    def repeat(self, times: int | None = None) -> Stream[T]:
        """One pass after the other: ``times``, or for ever (until a pass finds nothing)."""
        if times is not None:
            _check("repeat", times, 0)
        rows = partial(operators.exact_rows, self.size)
        start = partial(operators.repeat, self.start, times, rows)
        if times is None:
            return Stream(start)
        return Stream(start, partial(operators.times, self.size, times))

    def shuffle(self, buffer: int, *, seed: int, reshuffle: bool = False) -> Stream[T]:
        """In random order, by a buffer of so many elements.

        A random element of the buffer is given out and the next one of the stream takes its place,
        to the end: all elements to come pass through it, and none comes more than ``buffer - 1``
        places too early. A buffer as large as the stream makes every order equally likely.
        The same ``seed`` gives the same order in every pass; with ``reshuffle`` each pass has
        another one, the first pass always the same.
        """
        _check("shuffle: buffer", buffer, 1)
        passes = Passes() if reshuffle else None
        shuffled = partial(operators.shuffle, self.start, buffer, seed, passes)
        return Stream(FromStart(shuffled), self.size)

    def shuffle_shards(
        self: Stream[Document], *, seed: int, buffer: int = 10_000, at_once: int = 4
    ) -> Stream[Document]:
        """In random order over files larger than memory.

        The sources are cut into shards: row groups of Parquet, record batches of Arrow IPC, 10,000
        documents of an indexable, other files whole; all of them whole where bad rows
        are passed over. The shards are put in random order;
        ``at_once`` of them are open at a time and give a document in turn, which goes through a
        shuffle buffer of ``buffer`` documents (see :meth:`shuffle`). So documents of one shard
        stay near each other by as much as ``at_once`` shards and the buffer hold. The same
        ``seed`` gives the same order in every pass.
        Raises ``ValueError`` unless this is a stream that :func:`stream` made of such sources.
        """
        if self.documents is None:
            raise ValueError("shuffle_shards comes first, right after vocabtool.stream(...)")
        _check("shuffle_shards: buffer", buffer, 1)
        _check("shuffle_shards: at_once", at_once, 1)
        shuffled = partial(self.documents.shuffled_shards, seed, buffer, at_once)
        return Stream(FromStart(shuffled), self.size)

    def prefetch(self, count: int) -> Stream[T]:
        """The same, read ahead by a thread: at most ``count`` elements beyond those given out."""
        _check("prefetch", count, 1)
        return Stream(partial(operators.prefetch, self.start, count), self.size)

    def cache(self, folder: str | Path | None = None, *, key: str = "") -> Stream[T]:
        """The same, read once: after the first whole pass out of memory, or out of a folder.

        An abandoned pass keeps nothing. In memory later passes give the same objects again.
        In a folder, which later runs find again, are documents, their fields as JSON (a tuple
        comes back as a list), in Arrow IPC. It cannot know whether the sources or operators have
        changed since: ``key`` is kept with it, and another key is refused, so let it tell them.
        Raises :class:`VocabtoolError` for another key, for elements that are no documents and for
        fields that JSON cannot hold, and :class:`InvalidFile` for a damaged cache.
        """
        if folder is None:
            return Stream(InMemory(self.start), self.size)
        start = InFolder(cast("Start[Document]", self.start), Path(folder), key)
        return Stream(cast("Start[T]", start), self.size)

    def batch(self, size: int) -> Stream[list[T]]:
        """Lists of ``size`` elements in their order; only the last may be shorter."""
        _check("batch", size, 1)
        return Stream(
            partial(operators.lists, self.start, size), partial(operators.in_lists, self.size, size)
        )

    def batch_by_length(
        self,
        tokens: int,
        *,
        length: Callable[[T], int] = operators.text_length,
        buffer: int = 10_000,
    ) -> Stream[list[T]]:
        """Lists of about one length, for encoders that pay for padding.

        In each list the longest length times the number of elements is at most ``tokens``; an
        element that is longer than that is a list of its own. ``length``: of an element;
        characters, unless said. So many elements as ``buffer`` says are read, sorted from short to
        long (equal ones in their order) and cut into lists.
        """
        _check("batch_by_length: tokens", tokens, 1)
        _check("batch_by_length: buffer", buffer, 1)
        lists = partial(operators.lists_by_length, self.start, tokens, length, buffer)
        return Stream(FromStart(lists))

    def to_arrow(
        self: Stream[Document], *, batch_size: int = 1024, fields: Fields = None
    ) -> pa.RecordBatchReader:
        """The documents as Arrow record batches, read as they are asked for.

        Columns: ``id`` and ``text``, strings (of bytes that are not UTF-8 where the text had
        such), then the fields. ``fields``: a mapping from names to Arrow types; or names, whose
        columns hold strings as they are and other values as JSON; null where a document has no
        such field. Without: one column ``fields``, all of them as a JSON object.
        Raises :class:`VocabtoolError`, when read, for elements that are no documents and for a
        value that is not of its type.
        """
        import pyarrow as pa

        _check("to_arrow: batch_size", batch_size, 1)
        layout = Layout.of(fields)
        batches = record_batches(self.start, batch_size, layout)
        return pa.RecordBatchReader.from_batches(layout.schema, batches)

    def to_tf_dataset(
        self: Stream[Document],
        batch_size: int | None = None,
        *,
        fields: Mapping[str, str] | None = None,
        encoder: Encodes | None = None,
        drop_remainder: bool = False,
    ) -> tf.data.Dataset:
        """The documents as a ``tf.data.Dataset`` of dictionaries, in order, read as it is iterated.

        ``id`` and ``text``: string scalars, in UTF-8. ``fields``: further scalars by name, with
        their dtype (``{"label": "float32"}``). ``encoder``: adds ``vector``, float32, shape (dim,).
        With ``batch_size`` all of them have one dimension more in front, (None,), or with
        ``drop_remainder`` (batch_size,) without the last smaller batch.

        For training, ``dataset.map(lambda row: (row["vector"], row["label"]))``. For ids beside
        predictions give the model an output that is its input ``id``; Keras ``predict`` then
        returns both, row by row. Where the number of documents is known (lists, Parquet, Arrow
        IPC), the dataset knows it too. Rows cross from Python 1,024 at a time: batches are fast,
        TensorFlow itself takes them apart slowly. TensorFlow's tuner is off, for what is put behind
        this dataset too, as the end of a pass would wait for it; ``with_options`` turns it on. What
        goes wrong while it is read (a missing field names its document) is a TensorFlow error that
        holds the message.
        """
        count = operators.exact_rows(self.size)
        return tf_dataset(self.start, batch_size, fields or {}, encoder, drop_remainder, count)

    def to_ray(
        self: Stream[Document], *, batch_size: int = 1024, fields: Fields = None
    ) -> ray.data.Dataset:
        """The documents as a ``ray.data.Dataset`` with the columns of :meth:`to_arrow`.

        The stream itself is sent to Ray, where one task reads it, ``batch_size`` documents at a
        time, and hands on a block whenever Ray's ``target_max_block_size`` (128 MB, unless its
        ``DataContext`` says otherwise) is full: nothing is gathered here. Work goes to several
        workers by Ray's own ``map_batches``. Files must be where the workers can read them.
        Raises ``ValueError`` where the stream cannot be pickled (of a generator, say).
        """
        _check("to_ray: batch_size", batch_size, 1)
        return ray_dataset(self.start, batch_size, Layout.of(fields))


def stream(
    sources: Sources,
    *,
    field: str | None = None,
    format: Format | None = None,  # noqa: A002 - what it is called on the command line
    id_field: str | None = None,
    on_error: OnError = "raise",
    skipped: SkipCounter | None = None,
) -> Stream[Document]:
    """The documents of files, globs, iterables, queues: see
    :func:`vocabtool.documents.batches` and :class:`vocabtool.documents.ReadOptions`.

    Each pass reads the sources again; those that can be read only once (standard input, an
    iterator, a queue) raise :class:`VocabtoolError` in a second pass.
    """
    options = ReadOptions(field=field, format=format, id_field=id_field, on_error=on_error)
    source = DocumentSource(sources, options, None if skipped is None else ReadLog(skipped))
    if source.only_once():
        return Stream(Once(source))
    return Stream(source, source.size, source)


def interleave(
    streams: Iterable[Iterable[T]], cycle_length: int, block_length: int = 1
) -> Stream[T]:
    """Several streams in turn, ``block_length`` elements of each.

    At most ``cycle_length`` are open at a time; ``streams`` may be lazy and endless. One that ends
    gives the turn to the next, and when its own turn comes again a new one takes its place: the
    order of ``tf.data.Dataset.interleave`` with ``deterministic=True``.
    """
    _check("cycle_length", cycle_length, 1)
    _check("block_length", block_length, 1)
    start = Stream.of(streams).start
    turns = partial(operators.interleave, start, cycle_length, block_length)
    return Stream(FromStart(turns))


def mix(
    streams: Sequence[Iterable[T]], weights: Weights | Sequence[float] = "size", *, seed: int
) -> Stream[T]:
    """Several streams, one of them drawn by chance for each element; all are open at a time.

    ``"size"``: the chance of each is what is left of it, so that proportions hold through the
    whole mixture and all end together. Lists, Parquet and Arrow IPC know their rows: then every
    order of draws is equally likely. Of text files the lines are counted, of those beyond 1 GB in
    blocks all over the file; where that cannot be done (compressed files, TFRecord) each stream has
    a chance in proportion to the bytes of its files until it ends. ``"equal"``: each has the same
    chance until it ends. Numbers: each has a chance in proportion to its own until it ends.
    Each stream's elements keep their order. The same ``seed`` gives the same draws in every pass.
    Raises ``ValueError`` for weights that are no positive numbers, one for each stream, and for
    ``"size"`` where a stream does not know its size; that is looked at when iterated.
    """
    mixed = [each if isinstance(each, Stream) else Stream.of(each) for each in streams]
    numbers: tuple[float, ...] | None = None
    if weights == "size":
        for number, each in enumerate(mixed, 1):
            if each.size is Size:
                raise ValueError(NO_SIZE.format(number))
    elif weights == "equal":
        numbers = (1.0,) * len(mixed)
    elif isinstance(weights, str):
        wanted = f"wanted one of {get_args(Weights)} or numbers"
        raise ValueError(f"weights: {wanted}, got {weights!r}")
    else:
        numbers = tuple(weights)
        if len(numbers) != len(mixed) or not all(0 < each < float("inf") for each in numbers):
            raise ValueError(f"weights: wanted {len(mixed)} positive numbers, got {numbers}")
    sized = tuple(each.size for each in mixed)
    starts = tuple(each.start for each in mixed)
    drawn = partial(operators.draw, starts, partial(_shares, sized, numbers), seed)
    return Stream(FromStart(drawn), partial(operators.all_of, sized))


def _shares(sized: Sequence[Sized], weights: tuple[float, ...] | None) -> list[tuple[float, float]]:
    """What :func:`operators.draw` asks; an estimate may be too small: see :data:`LEAST`."""
    if weights is not None:
        return [(weight, weight) for weight in weights]
    found = [size() for size in sized]
    if all(size.rows is not None for size in found):
        rows = [(size.rows or 0, 0 if size.exact else LEAST) for size in found]
        return [(count, max(count * least, NEARLY_NONE)) for count, least in rows]
    for number, size in enumerate(found, 1):
        if size.bytes is None:
            raise ValueError(NO_SIZE.format(number))
    return [(size.bytes or 0, size.bytes or NEARLY_NONE) for size in found]


def _check(what: str, number: int, least: int) -> None:
    if number < least:
        raise ValueError(f"{what}: wanted {least} or more, got {number}")
