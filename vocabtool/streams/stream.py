"""``Stream``: a lazy sequence of elements, transformed by operators that can be chained.

>>> import vocabtool
>>> stream = vocabtool.Stream.of(["a b", "c", "d e f"]).map(str.split).filter(lambda w: len(w) > 1)
>>> list(stream)
[['a', 'b'], ['d', 'e', 'f']]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    TypeVar,
    Unpack,
    cast,
    get_args,
    overload,
)

import pyarrow as pa

from vocabtool.documents.batch import Document, Indexable, ReadLog, SkipCounter, is_indexable
from vocabtool.documents.files import Sources, each_source, is_repeatable
from vocabtool.documents.options import Format, OnError, ReadOptions, SplitArguments
from vocabtool.streams import operators
from vocabtool.streams.frameworks import (
    Encodes,
    Fields,
    InMemory,
    cached_in_folder,
    ray_dataset,
    record_batches,
    schema_of,
    tf_dataset,
)
from vocabtool.streams.operators import (
    NEARLY_NONE,
    DocumentSource,
    Passes,
    Size,
    Sized,
    Start,
)
from vocabtool.system.parallel import Workers

if TYPE_CHECKING:
    import ray.data
    import tensorflow as tf

T = TypeVar("T")
R = TypeVar("R")

Weights = Literal["size", "equal"]

READ_AHEAD: Final = 16  # items of each generator that a thread reads
LEAST: Final = 0.05  # a stream's minimum weight, as a fraction of its estimated size

NO_SIZE = (
    "weights='size' needs the size of each stream, but that of stream {} is unknown (as after "
    "filter or flat_map, for iterators and for endless streams): mix before these operators, or "
    "pass weights='equal' or a list of numbers"
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Stream(Generic[T]):
    """An ordered sequence of elements, read lazily. Each iteration (a pass) reads the source again.

    Create a stream with :func:`stream` or :meth:`of`. Every operator returns a new stream and
    leaves this stream unchanged. A pass yields each element exactly once. When a pass is abandoned
    early, its files are closed and its threads end.

    ``start``: a function that begins a pass after the first n elements, for :meth:`skip`.
    ``size``: a function that returns the size, as far as it is known without reading all elements.
    ``documents``: the sources, if the elements are exactly the documents of these sources.
    ``stages``: the source and the operators as text, one line each.
    ``has_names``: whether all documents are from files, so that their ids name a file.
    """

    start: Start[T]
    size: Sized = Size
    documents: DocumentSource | None = None
    stages: tuple[str, ...] = ()
    has_names: bool = False

    def __repr__(self) -> str:
        """Return one line for the source and one for each operator, without any element."""
        return "\n  .".join(self.stages)

    @overload
    @classmethod
    def of(cls, items: Iterable[T]) -> Stream[T]: ...

    @overload
    @classmethod
    def of(cls, items: Indexable) -> Stream[T]: ...

    @classmethod
    def of(cls, items: Iterable[T] | Indexable) -> Stream[T]:
        """Return a stream of the elements of an iterable or a sequence, in order.

        An iterator allows one pass; a second pass raises :class:`VocabtoolError`.
        Raises ``TypeError`` for a single text and for an object that cannot be iterated or indexed.
        """
        if isinstance(items, str | bytes):
            raise TypeError("wanted an iterable of texts, got one text: put it in a list")
        stages = (_stage("Stream.of", items),)
        start: Start[T] = partial(operators.items, items)
        if is_indexable(items):
            return cls(start, partial(operators.size_of, items), stages=stages)
        if not isinstance(items, Iterable):
            raise TypeError(f"wanted an iterable or an indexable, got {type(items).__name__}")
        if iter(items) is items:
            start = partial(operators.once, start, Passes())
        return cls(start, stages=stages)

    @overload
    @classmethod
    def from_generator(cls, make: Callable[[], Iterable[T]]) -> Stream[T]: ...

    @overload
    @classmethod
    def from_generator(
        cls, make: Callable[[int, int], Iterable[T]], *, workers: int
    ) -> Stream[T]: ...

    @classmethod
    def from_generator(
        cls, make: Callable[..., Iterable[T]], *, workers: int | None = None
    ) -> Stream[T]:
        """Return a stream of the items of a generator function, which each pass calls again.

        ``workers``: number of generators that are read at the same time, each in a thread. The
        generators are ``make(0, workers)``, ``make(1, workers)`` and so on; each must yield its
        share of the items. Without ``workers``, ``make()`` is read in the caller's thread.

        The order is the same in every pass: the first item of each generator, then the second of
        each, and so on. Threads help where generators wait, as for a network or a disk.

        Items are not changed. A document keeps its id, except as :func:`interleave` says. For
        other items, ``vocabtool.stream(stream)`` makes documents: an id is the value of ``"id"``
        of a mapping, and otherwise the position in this order (``texts:1``).
        """
        stages = (_stage("Stream.from_generator", make, workers=workers),)
        if workers is None:
            return cls(partial(operators.begin, make), stages=stages)
        _check("workers", workers, 1)
        generators = [partial(make, number, workers) for number in range(workers)]
        threads = [cls.from_generator(generator).prefetch(READ_AHEAD) for generator in generators]
        return replace(interleave(threads, workers), stages=stages)

    @classmethod
    def from_indexable(cls, sequence: Indexable, *, workers: int = 0) -> Stream[Any]:
        """Return a stream of ``sequence[0]``, ``sequence[1]`` and so on, in this order.

        ``workers``: number of threads that read items, as for :meth:`map`. With 0, items are read
        in the caller's thread. Items are not changed; for their ids, see :meth:`from_generator`.
        """
        numbers: Stream[int] = Stream.of(range(len(sequence)))
        items: Stream[Any] = numbers.map(sequence.__getitem__, workers=workers)
        return replace(items, stages=(_stage("Stream.from_indexable", sequence, workers=workers),))

    def _then(self, stage: str, start: Start[R], size: Sized = Size) -> Stream[R]:
        """Return the stream after one more operator. ``stage``: the operator as text."""
        return Stream(start, size, None, (*self.stages, stage), self.has_names)

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
        """Replace each element by ``fn(element)``.

        ``workers``: number of threads or processes. With 0, ``fn`` runs in the caller's thread. At
        most ``2 * workers`` elements are read ahead, in the caller's thread.
        ``ordered``: whether results are in the order of the elements. Otherwise each result is
        yielded when its call finishes.
        ``kind``: ``"threads"``, or ``"processes"`` for a pure Python ``fn``. Processes pickle
        ``fn``, elements and results, so batch the elements first.
        If ``fn`` raises an error, the results of earlier elements are yielded first. Then
        :class:`OperatorFailed` is raised, or a :class:`VocabtoolError` of ``fn`` unchanged.
        """
        if workers < 0:
            raise ValueError(f"workers: wanted 0 or more, got {workers}")
        if kind not in get_args(Workers):
            raise ValueError(f"kind: wanted one of {get_args(Workers)}, got {kind!r}")
        start = partial(operators.map_elements, self.start, fn, workers, ordered, kind)
        return self._then(_stage("map", fn, workers=workers), start, self.size)

    def flat_map(self, fn: Callable[[T], Iterable[R]]) -> Stream[R]:
        """Replace an element by the items of ``fn(element)``. Raises the errors of :meth:`map`."""
        start = partial(operators.begin, partial(operators.flat_map, self.start, fn))
        return self._then(_stage("flat_map", fn), start)

    def interleave(
        self, fn: Callable[[T], Iterable[R]], cycle_length: int, block_length: int = 1
    ) -> Stream[R]:
        """Replace an element by the items of ``fn(element)``, of several elements in turn.

        See :func:`interleave`. Raises the errors of :meth:`map`.
        """
        stage = _stage("interleave", fn, cycle_length, block_length)
        turns = interleave(self.map(fn), cycle_length, block_length)
        return replace(turns, stages=(*self.stages, stage))

    def filter(self, fn: Callable[[T], object]) -> Stream[T]:
        """Keep elements for which ``fn`` returns a true value. Raises the errors of :meth:`map`."""
        start = partial(operators.begin, partial(operators.filter_elements, self.start, fn))
        return self._then(_stage("filter", fn), start)

    def take(self, most: int) -> Stream[T]:
        """Keep the first ``most`` elements. The other elements are not read."""
        _check("take", most, 0)
        start = partial(operators.take, self.start, most)
        size = partial(operators.sliced, self.size, 0, most)
        return self._then(_stage("take", most), start, size)

    def skip(self, left_out: int) -> Stream[T]:
        """Drop the first ``left_out`` elements.

        The dropped elements are not read if two conditions hold:

        - The source is a list (or another object with ``len`` and ``[]``), Parquet, Arrow IPC, or
          text lines (line ends are counted).
        - The only operators before ``skip`` are ``map``, ``take``, ``skip``, ``batch``,
          ``prefetch``, ``cache``, and ``repeat`` of a known number of elements.
        """
        _check("skip", left_out, 0)
        start = partial(operators.skip, self.start, left_out)
        size = partial(operators.sliced, self.size, left_out, None)
        return self._then(_stage("skip", left_out), start, size)

    def repeat(self, times: int | None = None) -> Stream[T]:
        """Repeat the stream ``times`` times. With ``None``, it ends only after an empty pass."""
        if times is not None:
            _check("repeat", times, 0)
        rows = partial(operators.exact_rows, self.size)
        start = partial(operators.repeat, self.start, times, rows)
        size = Size if times is None else partial(operators.times, self.size, times)
        return self._then(_stage("repeat", times), start, size)

    def shuffle(self, buffer: int, *, seed: int, reshuffle: bool = False) -> Stream[T]:
        """Shuffle within a buffer of ``buffer`` elements.

        A random element of the buffer is yielded and replaced by the next element of the stream,
        until the stream ends. An element is yielded at most ``buffer - 1`` places earlier than in
        the stream. With a buffer as large as the stream, every order is equally likely.

        The same ``seed`` gives the same order in every pass. If ``reshuffle`` is true, each pass
        has a different order, which depends only on ``seed`` and the number of the pass.
        """
        _check("shuffle: buffer", buffer, 1)
        passes = Passes() if reshuffle else None
        shuffled = partial(operators.shuffle, self.start, buffer, seed, passes)
        stage = _stage("shuffle", buffer, seed=seed)
        return self._then(stage, partial(operators.begin, shuffled), self.size)

    def shuffle_shards(
        self: Stream[Document], *, seed: int, buffer: int = 10_000, at_once: int = 4
    ) -> Stream[Document]:
        """Shuffle documents of files larger than memory.

        The sources are cut into shards: row groups of Parquet, record batches of Arrow IPC, 10,000
        documents of an indexable. Any other file is one shard. If bad rows are skipped, every
        source is one shard. The shards are put in random order. ``at_once`` shards are open at a
        time, and each open shard yields one document in turn. These documents pass through a
        shuffle buffer of ``buffer`` documents (see :meth:`shuffle`).

        The same ``seed`` gives the same order in every pass. Raises ``ValueError`` if
        :func:`stream` did not create this stream, or if its sources cannot be cut into shards.
        """
        if self.documents is None:
            raise ValueError("shuffle_shards must come right after vocabtool.stream(...)")
        _check("shuffle_shards: buffer", buffer, 1)
        _check("shuffle_shards: at_once", at_once, 1)
        shuffled = partial(self.documents.shuffled_shards, seed, buffer, at_once)
        stage = _stage("shuffle_shards", seed=seed)
        return self._then(stage, partial(operators.begin, shuffled), self.size)

    def prefetch(self, count: int) -> Stream[T]:
        """Read elements in a thread before they are requested, at most ``count`` ahead."""
        _check("prefetch", count, 1)
        start = partial(operators.prefetch, self.start, count)
        return self._then(_stage("prefetch", count), start, self.size)

    def cache(self, folder: str | Path | None = None, *, key: str = "") -> Stream[T]:
        """Cache the elements of the first complete pass, in memory or in ``folder``.

        A pass that is abandoned caches nothing. With a cache in memory, later passes yield the same
        objects. A cache in a folder can also be read by later runs. It stores documents in Arrow
        IPC, with fields as JSON, which turns a tuple into a list.

        The cache does not notice changed sources or operators. A folder stores ``key`` and can be
        read only with the same key. Choose a key that contains the sources and operators.

        Raises :class:`VocabtoolError` if the folder has another key, for elements that are not
        documents, and for fields that JSON cannot represent. Raises :class:`InvalidFile` for a
        damaged cache.
        """
        if folder is None:
            return self._then("cache()", InMemory(self.start), self.size)
        source = cast("Start[Document]", self.start)
        start = partial(cached_in_folder, source, Path(folder), key)
        return self._then(_stage("cache", folder), cast("Start[T]", start), self.size)

    def batch(self, size: int) -> Stream[list[T]]:
        """Group the elements into lists of ``size``, in order; only the last may be shorter."""
        _check("batch", size, 1)
        start = partial(operators.lists, self.start, size)
        lists = partial(operators.sliced, self.size, 0, None, size)
        return self._then(_stage("batch", size), start, lists)

    def batch_by_length(
        self,
        tokens: int,
        *,
        length: Callable[[T], int] = operators.text_length,
        buffer: int = 10_000,
    ) -> Stream[list[T]]:
        """Group elements of similar length into lists, for encoders that pad their batches.

        In each list, the longest length times the number of elements is at most ``tokens``. An
        element longer than ``tokens`` forms its own list. Elements are read into a buffer, sorted
        by length (shortest first, stable) and cut into lists.

        ``length``: a function that returns the length of an element; by default the number of
        characters.
        ``buffer``: number of elements in the buffer.
        """
        _check("batch_by_length: tokens", tokens, 1)
        _check("batch_by_length: buffer", buffer, 1)
        lists = partial(operators.lists_by_length, self.start, tokens, length, buffer)
        return self._then(_stage("batch_by_length", tokens), partial(operators.begin, lists))

    def to_arrow(
        self: Stream[Document], *, batch_size: int = 1024, fields: Fields = None
    ) -> pa.RecordBatchReader:
        """Return the documents as Arrow record batches, read lazily.

        Columns: ``id`` and ``text`` of type string, then the fields. Text that is not UTF-8 stays
        as it is.

        ``fields``: a mapping from names to Arrow types, or only names. With only names, the columns
        have type string, and a value that is not a string becomes JSON. A missing field is null.
        With ``None``, one column ``fields`` contains all fields of a document as a JSON object.

        Reading raises :class:`VocabtoolError` for elements that are not documents and for a value
        of the wrong type.
        """
        _check("to_arrow: batch_size", batch_size, 1)
        batches = record_batches(self.start, batch_size, fields)
        return pa.RecordBatchReader.from_batches(schema_of(fields), batches)

    def to_tf_dataset(
        self: Stream[Document],
        batch_size: int | None = None,
        *,
        fields: Mapping[str, str] | None = None,
        encoder: Encodes | None = None,
        drop_remainder: bool = False,
    ) -> tf.data.Dataset:
        """Return the documents as a ``tf.data.Dataset`` of dictionaries, in order, read lazily.

        In each dictionary, ``id`` and ``text`` are string scalars, in UTF-8.

        ``fields``: names and dtypes of fields to add as scalars (``{"label": "float32"}``).
        ``encoder``: an encoder that makes ``vector``, float32, shape (dim,).
        ``batch_size``: documents per batch. By default, documents are not batched. In a batch, all
        values have a leading dimension of static size None.
        ``drop_remainder``: whether to drop a smaller last batch. If true, the static size of the
        leading dimension is ``batch_size``.

        For training, use ``dataset.map(lambda row: (row["vector"], row["label"]))``. To get ids
        with predictions, add the input ``id`` to the outputs of the model: Keras ``predict``
        returns the ids and the predictions in the same order. The dataset states its cardinality if
        the number of documents is known (lists, Parquet, Arrow IPC).

        Rows are passed to TensorFlow 1,024 at a time. With ``batch_size`` this is fast; single rows
        are slow. TensorFlow's autotuning is off, also for later transformations, because it would
        delay the end of a pass. ``with_options`` turns it on. An error while reading,
        such as a missing field, is a TensorFlow error whose message contains the document's id.
        """
        count = operators.exact_rows(self.size)
        return tf_dataset(self.start, batch_size, fields or {}, encoder, drop_remainder, count)

    def to_ray(
        self: Stream[Document], *, batch_size: int = 1024, fields: Fields = None
    ) -> ray.data.Dataset:
        """Return the documents as a ``ray.data.Dataset`` with the columns of :meth:`to_arrow`.

        The stream itself is sent to Ray, so this process reads no documents. One Ray task reads the
        stream, ``batch_size`` documents at a time. The task emits a block when Ray's
        ``target_max_block_size`` (default 128 MB) is reached. To use several workers, call Ray's
        ``map_batches``. The workers must be able to read the files.
        Raises ``ValueError`` if the stream cannot be pickled (for example if it reads a generator).
        """
        _check("to_ray: batch_size", batch_size, 1)
        return ray_dataset(self.start, batch_size, fields)


def stream(
    sources: Sources,
    *,
    field: str | Sequence[str] | None = None,
    format: Format | None = None,  # noqa: A002 - its name in ReadOptions
    id_field: str | None = None,
    on_error: OnError = "raise",
    skipped: SkipCounter | None = None,
    **pieces: Unpack[SplitArguments],
) -> Stream[Document]:
    """Return a stream of the documents of files, globs or iterables.

    ``sources``: as in :func:`vocabtool.documents.batches`. The strings in a list are names of
    files, so pass texts as ``iter(texts)``, or use :meth:`Stream.of`.

    The other options are those of :class:`vocabtool.documents.ReadOptions`. Each pass reads the
    sources again. Standard input and an iterator can be read only once: a second pass raises
    :class:`VocabtoolError`. To read a queue, pass ``iter(queue.get, None)``.
    """
    read = ReadOptions(field=field, format=format, id_field=id_field, on_error=on_error, **pieces)
    read.refuse_weights()
    source = DocumentSource(sources, read, None if skipped is None else ReadLog(skipped))
    stages, inputs = (_stage("stream", sources),), [item for _, item in each_source(sources)]
    has_names = all(isinstance(item, str) for item in inputs)
    if all(map(is_repeatable, inputs)):
        return Stream(source, source.size, source, stages, has_names)
    start = partial(operators.once, source, Passes())
    return Stream(start, stages=stages, has_names=has_names)


def interleave(
    streams: Iterable[Iterable[T]], cycle_length: int, block_length: int = 1
) -> Stream[T]:
    """Return a stream that reads ``block_length`` elements from each of the streams in turn.

    At most ``cycle_length`` streams are open at a time. ``streams`` may be lazy and endless. When a
    stream ends, its turn ends. At its next turn, a new stream is opened in its place. The order is
    that of ``tf.data.Dataset.interleave`` with ``deterministic=True``.

    Ids of documents stay unique. A document without an id of its own, read from an iterable, has
    the id ``texts:1`` in each stream alone. It keeps this id in the first stream; in the second it
    gets the id ``texts2:1``, and so on. This also applies to :func:`mix`.
    """
    _check("cycle_length", cycle_length, 1)
    _check("block_length", block_length, 1)
    turns = partial(operators.interleave, Stream.of(streams).start, cycle_length, block_length)
    stage = _stage("interleave", streams, cycle_length, block_length)
    return Stream(partial(operators.begin, turns), stages=(stage,))


def mix(
    streams: Sequence[Iterable[T]], weights: Weights | Sequence[float] = "size", *, seed: int
) -> Stream[T]:
    """Mix several streams: each element comes from a stream drawn at random. All streams stay open.

    The argument ``weights`` sets the chances of the streams:

    - ``"size"``: chances proportional to the number of remaining elements, so that all streams end
      together. With lists, Parquet and Arrow IPC, whose row counts are exact, every order of draws
      is equally likely. In text files, lines are counted; the number of lines of a file beyond
      1 GB is estimated from a sample of its blocks. If lines cannot be counted (compressed files,
      TFRecord), chances are proportional to the bytes of the files.
    - ``"equal"``: equal chances. A stream that has ended is no longer drawn.
    - numbers: chances proportional to these numbers. A stream that has ended is no longer drawn.

    Each stream's elements keep their order. The same ``seed`` gives the same draws in every pass.
    Raises ``ValueError`` unless the numbers are positive, one for each stream. With ``"size"``,
    raises ``ValueError`` if the size of a stream is unknown. Sometimes this is noticed only during
    iteration.
    """
    mixed = [item if isinstance(item, Stream) else Stream.of(item) for item in streams]
    numbers: tuple[float, ...] | None = None
    if weights == "size":
        for number, item in enumerate(mixed, 1):
            if item.size is Size:
                raise ValueError(NO_SIZE.format(number))
    elif weights == "equal":
        numbers = (1.0,) * len(mixed)
    elif isinstance(weights, str):
        names = get_args(Weights)
        raise ValueError(f"weights: wanted one of {names} or numbers, got {weights!r}")
    else:
        numbers = tuple(weights)
        if len(numbers) != len(mixed) or not all(0 < weight < float("inf") for weight in numbers):
            raise ValueError(f"weights: wanted {len(mixed)} positive numbers, got {numbers}")
    sized = tuple(item.size for item in mixed)
    drawn = partial(operators.draw, mixed, partial(_shares, sized, numbers), seed)
    stages = (_stage("mix", streams, seed=seed),)
    return Stream(partial(operators.begin, drawn), partial(operators.all_of, sized), stages=stages)


def _shares(sized: Sequence[Sized], weights: tuple[float, ...] | None) -> list[tuple[float, float]]:
    """Return the first weight and the minimum weight of each stream, for ``operators.draw``."""
    if weights is not None:
        return [(weight, weight) for weight in weights]
    sizes = [size() for size in sized]
    if all(size.rows is not None for size in sizes):
        # If a size is only estimated, its stream may have more elements, so it stays in the draw.
        rows = [(size.rows or 0, 0 if size.exact else LEAST) for size in sizes]
        return [(count, max(count * least, NEARLY_NONE)) for count, least in rows]
    for number, size in enumerate(sizes, 1):
        if size.bytes is None:
            raise ValueError(NO_SIZE.format(number))
    return [(size.bytes or 0, size.bytes or NEARLY_NONE) for size in sizes]


def _stage(name: str, *arguments: object, **options: object) -> str:
    """Return an operator as one line of text. Numbers and names are shown, other objects not."""
    texts = []
    for option, value in [*(("", value) for value in arguments), *options.items()]:
        text = getattr(value, "__qualname__", type(value).__qualname__)
        if value is None or isinstance(value, str | Path | int):
            text = f"{value!r:.60}"
        texts.append(f"{option}={text}" if option else text)
    return f"{name}({', '.join(texts)})"


def _check(what: str, number: int, least: int) -> None:
    """Raise ``ValueError`` if an argument is too small. ``what``: its name, for the message."""
    if number < least:
        raise ValueError(f"{what}: wanted {least} or more, got {number}")
