"""The words of a model as the model itself makes them: it is run, and says what it looks up.

Needs TensorFlow. How the graph is made to tell is in ``graph_taps.py``, how it is loaded in
``tap_model.py``, what it tells in ``tap_reports.py``; whose word is whose, when many texts are run
at once, in ``op_traces.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import UnsupportedFormat
from vocabtool.tokenization import op_traces
from vocabtool.tokenization.checked_model import gist, import_tensorflow
from vocabtool.tokenization.instrumented_graph import Report
from vocabtool.tokenization.model_functions import Entry, choose_entry
from vocabtool.tokenization.op_traces import (
    MARK,
    Integers,
    OpTrace,
    Pieces,
    RawTrace,
    TracedOp,
    joined,
)
from vocabtool.tokenization.tap_model import TapModel, load
from vocabtool.tokenization.tap_reports import arrays, drained, seen
from vocabtool.tokenization.text_arrays import Cut, string_array

if TYPE_CHECKING:
    import pyarrow as pa

Tensor: TypeAlias = Any  # TensorFlow carries no types
T = TypeVar("T")
Rows: TypeAlias = NDArray[Any]
Read: TypeAlias = Callable[[Any, int], Rows]
"""Makes an array of what the model answers to so many texts: a row for each."""

Way = Literal["shapes", "marks", "alone"]
"""How the strings of several texts are put back to their texts; ``alone``: run one by one."""

BATCH: Final = 512  # texts run at once
BATCH_BYTES: Final = 1 << 22  # of a batch whose texts are all as long as the longest
# Texts that show how a model runs a batch, and whether one text changes what becomes of another.
PROBES: Final = (
    b"qzproba qzprobb qzprobc",
    b"qzprobd",
    b"Qzprobe, (qz-probf) QZ 'qz_probg'; qz/qz: qz.",
    "qz\u00fcrich \u6771\u4eac \u0421\u0430\u043c qz\u2019s \u00df".encode(),
    b"42",
    b"-7",
)


class TracedRun(NamedTuple):
    """One run of the model on n texts. ``rows``: what was read of its answers, shape (n, ...).

    ``tapped``: what each live op saw of the texts.
    """

    rows: Rows
    traces: tuple[OpTrace, ...]


class InstrumentedModel:
    """A loaded model that tells what it looks up. Threads that use it wait for each other.

    ``ops``: every op that looks strings up or cuts them, whether it is reached or not.
    ``entry``: the name of the function that texts are given to.
    """

    def __init__(self, model: TapModel) -> None:
        self._model = model
        self._lock = RLock()  # the queues of reports are filled and emptied by one call at a time
        self.ops = tuple(map(_op, model.reports, model.queues))
        self.entry = model.entry.name
        self._way: Way | None = None
        self._whole: tuple[bool, ...] = (False,) * len(self._live)
        self._marks: tuple[pa.StringArray, ...] = ()

    @classmethod
    def load(
        cls,
        model: str | Path,
        *,
        trust: bool = False,
        choose: Callable[[Any], Entry] = choose_entry,
    ) -> InstrumentedModel:
        """Load the SavedModel in a folder, or that of a hub handle in the local cache.

        ``trust``: run it though it may read or write files, use the network or run Python.
        ``choose``: takes the function that texts are given to.
        Raises :class:`UnsupportedFormat` where that is needed and not given, where TensorFlow is
        missing or does not load it, or where no function of it takes one text; and what reading
        a model raises.
        """
        return cls(load(model, trust=trust, choose=choose))

    @property
    def _live(self) -> list[tuple[Report, Tensor]]:
        pairs = zip(self._model.reports, self._model.queues, strict=True)
        return [(report, queue) for report, queue in pairs if queue is not None]

    def run(self, texts: Sequence[bytes]) -> tuple[OpTrace, ...]:
        """What each live op sees of the texts, in the order of ``ops``.

        The answer for a text does not depend on the others, unless the model itself mixes them.
        Raises :class:`UnsupportedFormat` where the model fails at a text.
        """
        batches = list(_batches(texts))
        if batches:
            return self.run_batches(batches, _unread).traces
        with self._lock:
            self._learn()
            return _with_ids(self._nothing())

    def run_batches(self, batches: Sequence[Sequence[bytes]], read: Read) -> TracedRun:
        """The same for batches that are given, with what ``read`` makes of the model's answers.

        There is at least one batch, and none is empty. The model is run once for each; where
        ``way`` is ``marks`` with a mark beside each text, whose row is left out; where it is
        ``alone``, and for a batch whose answer does not add up, once for each text.
        """
        with self._lock:
            self._learn()
            runs = [self._batch(batch, read) for batch in batches]
        rows = np.concatenate([run.rows for run in runs]) if len(runs) > 1 else runs[0].rows
        return TracedRun(rows, _with_ids(_joined([run.traces for run in runs])))

    @property
    def way(self) -> Way:
        """How the strings of several texts are put back to their texts: learnt at first."""
        with self._lock:
            self._learn()
            return self._way or "alone"

    def outputs(self, texts: Sequence[bytes]) -> dict[str, NDArray[Any]]:
        """What the model answers to the texts, by the names of its outputs.

        They are run at once, as they are, where the model takes several; else each output is an
        array of objects, one for each text. The numbers are those of the untouched model, bit for
        bit. Outputs without a name are called by their position.
        Raises :class:`UnsupportedFormat` where the model fails.
        """
        if not self._model.entry.one_by_one:
            return arrays(self._call(texts))
        answers = [arrays(self._call([text])) for text in texts]
        names = answers[0] if answers else ()
        return {name: _objects([answer[name] for answer in answers]) for name in names}

    def _call(self, texts: Sequence[bytes]) -> Any:
        return self.call_untraced(lambda: self._feed(texts))

    def call_untraced(self, call: Callable[[], T]) -> T:
        """What a call of the model gives, whose reports are thrown away."""
        with self._lock:
            try:
                return call()
            finally:
                self._drain()

    def _feed(self, texts: Sequence[bytes]) -> Any:
        tensorflow = import_tensorflow()
        try:
            return self._model.entry.feed(texts)
        except (tensorflow.errors.OpError, UnicodeDecodeError) as error:
            # The second is how Python meets a message of TensorFlow's that is not UTF-8.
            self._drain()
            what = gist(error)
            whom = f"the text {texts[0][:80]!r}" if len(texts) == 1 else f"{len(texts)} texts"
            raise UnsupportedFormat(f"the model fails at {whom}: {what}") from error

    def _drain(self) -> list[list[list[Tensor]]]:
        """What each live op reported since the last time: its runs, each of several tensors."""
        return [list(drained(report, queue)) for report, queue in self._live]

    def _look(self, texts: Sequence[bytes], read: Read) -> tuple[Rows, list[RawTrace]]:
        """Run the model; what it answers, and what each live op saw of all the texts."""
        answer = self._feed(texts)
        reports = [report for report, _ in self._live]
        found = list(map(seen, reports, self._drain()))
        return read(answer, len(texts)), found

    # Whose is whose.

    def _learn(self) -> None:
        """Find how this model runs a batch: the cheapest way that equals one text at a time."""
        if self._way is not None:
            return
        self._way = "alone"
        texts = [text for text in PROBES if self._takes(text)]
        alone = [self._alone(text, _unread).traces for text in texts]
        self._whole = tuple(
            all(len(found[i].cut.values) == 1 for found in alone) for i in range(len(self._whole))
        )
        if not self._model.entry.one_by_one and len(texts) > 1:
            self._way = next(filter(functools.partial(self._agrees, texts), self._ways()), "alone")

    def _ways(self) -> Iterator[Way]:
        """The ways to run a batch, cheapest first."""
        yield "shapes"
        if self._takes(MARK):
            self._marks = tuple(each.cut.values for each in self._alone(MARK, _unread).traces)
            yield "marks"

    def _takes(self, text: bytes) -> bool:
        try:
            self._call([text])
        except UnsupportedFormat:
            return False
        return True

    def _agrees(self, texts: Sequence[bytes], way: Way) -> bool:
        """Whether a way finds for several texts, in two orders, what they give one by one."""
        for ordered in (texts, texts[::-1]):
            found = self._together(ordered, way, _unread)
            if found is None:
                return False
            if not all(map(_same, found.traces, self._each_alone(ordered, _unread).traces)):
                return False
        return True

    def _batch(self, texts: Sequence[bytes], read: Read) -> TracedRun:
        if self._way is not None and self._way != "alone" and len(texts) > 1:
            found = self._together(texts, self._way, read)
            if found is not None:
                return found
        return self._each_alone(texts, read)

    def _each_alone(self, texts: Sequence[bytes], read: Read) -> TracedRun:
        runs = [self._alone(text, read) for text in texts]
        return TracedRun(
            np.concatenate([run.rows for run in runs]), _joined([r.traces for r in runs])
        )

    def _alone(self, text: bytes, read: Read) -> TracedRun:
        rows, found = self._look([text], read)
        bounds = [op_traces.all_of_one(each) for each in found]
        return TracedRun(rows, self._told(found, bounds, marked=False))

    def _together(self, texts: Sequence[bytes], way: Way, read: Read) -> TracedRun | None:
        """Run texts at once; ``None`` where what comes back does not add up."""
        marked = way == "marks"
        fed = [fed for text in texts for fed in (text, MARK)] if marked else texts
        try:
            rows, found = self._look(fed, read)
        except UnsupportedFormat:  # one of them may be the cause, or that they are several
            return None
        bounds = self._marked_bounds(found, len(texts)) if marked else _bounds(found, len(texts))
        told = [each for each in bounds if each is not None]
        if len(told) < len(bounds):
            return None
        return TracedRun(rows[:: 2 if marked else 1], self._told(found, told, marked=marked))

    def _marked_bounds(self, seen: Sequence[RawTrace], texts: int) -> list[Integers | None]:
        """For each op the bounds of texts and marks, believed only where the marks are there."""
        found: list[Integers | None] = []
        for each, mark, whole in zip(seen, self._marks, self._whole, strict=True):
            ways = (
                op_traces.shape_bounds(each, 2 * texts),
                op_traces.mark_bounds(each, mark, texts),
            )
            right = (
                bounds
                for bounds in ways
                if bounds is not None and op_traces.holds_marks(each, bounds, mark, whole=whole)
            )
            found.append(next(right, None))
        return _with_pieces(seen, found)

    def _told(
        self, seen: Sequence[RawTrace], bounds: Sequence[Integers], *, marked: bool
    ) -> tuple[OpTrace, ...]:
        leave_out = op_traces.without_marks if marked else op_traces.without_padding
        ops = [op for op in self.ops if op.live]
        told = []
        for op, each, where, whole in zip(ops, seen, bounds, self._whole, strict=True):
            own, offsets = leave_out(each, where, whole=whole)
            told.append(OpTrace(op, Cut(own.strings, offsets), own.ids, own.default, own.pieces))
        return tuple(told)

    def _nothing(self) -> tuple[OpTrace, ...]:
        """What is seen of no text."""
        live = [op for op in self.ops if op.live]
        nothing = [RawTrace(string_array([]), ())] * len(live)
        return self._told(nothing, [np.zeros(1, np.int64)] * len(live), marked=False)


def _unread(answer: Any, texts: int) -> Rows:
    """Nothing of the answers."""
    return np.empty((texts, 0))


def _objects(items: Sequence[NDArray[Any]]) -> NDArray[Any]:
    array = np.empty(len(items), object)
    for i, item in enumerate(items):
        array[i] = item
    return array


def _joined(parts: Sequence[tuple[OpTrace, ...]]) -> tuple[OpTrace, ...]:
    """The answers for several batches, op by op."""
    return tuple(map(joined, zip(*parts, strict=True)))


def _op(report: Report, queue: Tensor | None) -> TracedOp:
    return TracedOp(report.function, report.node, report.op, queue is not None)


def _batches(texts: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """At most so many texts at once, fewer where one is long: models fill rows up to the longest.

    One text may be longer than a whole batch.
    """
    batch: list[bytes] = []
    longest = 0
    for text in texts:
        longest = max(longest, len(text))
        if batch and (len(batch) == BATCH or (len(batch) + 1) * longest > BATCH_BYTES):
            yield batch
            batch, longest = [], len(text)
        batch.append(text)
    if batch:
        yield batch


def _bounds(seen: Sequence[RawTrace], texts: int) -> list[Integers | None]:
    return _with_pieces(seen, [op_traces.shape_bounds(each, texts) for each in seen])


def _with_pieces(
    seen: Sequence[RawTrace], bounds: Sequence[Integers | None]
) -> list[Integers | None]:
    """Bounds for ops without, where they look up the pieces of an op that has them."""
    known = [pair for pair in zip(seen, bounds, strict=True) if pair[1] is not None]
    found = list(bounds)
    for i, each in enumerate(seen):
        if found[i] is None:
            ways = (
                op_traces.piece_bounds(each, cut, where)
                for cut, where in known
                if where is not None
            )
            found[i] = next((way for way in ways if way is not None), None)
    return found


def _with_ids(tapped: tuple[OpTrace, ...]) -> tuple[OpTrace, ...]:
    """Give pieces whose op tells no ids those of the lookup that was asked for them."""
    lookups = [each for each in tapped if each.pieces is None]
    return tuple(_looked_up(each, lookups) for each in tapped)


def _looked_up(tapped: OpTrace, lookups: Sequence[OpTrace]) -> OpTrace:
    if tapped.ids is not None or tapped.pieces is None or tapped.pieces.values is None:
        return tapped
    same = (each for each in lookups if each.cut.values.equals(tapped.pieces.values))
    lookup = next(same, None)
    return tapped if lookup is None else tapped._replace(ids=lookup.ids)


def _same(one: OpTrace, other: OpTrace) -> bool:
    """Whether an op saw the same strings of the same texts, and made the same of them."""
    return (
        one.cut.values.equals(other.cut.values)
        and np.array_equal(one.cut.offsets, other.cut.offsets)
        and _equal(one.ids, other.ids)
        and (one.pieces is None) == (other.pieces is None)
        and (one.pieces is None or other.pieces is None or _same_pieces(one.pieces, other.pieces))
    )


def _same_pieces(one: Pieces, other: Pieces) -> bool:
    values = one.values is None or (other.values is not None and one.values.equals(other.values))
    return values and np.array_equal(one.offsets, other.offsets)


def _equal(one: Integers | None, other: Integers | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))
