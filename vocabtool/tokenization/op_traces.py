"""What ops saw while a model ran, as arrays, and put back to the texts that it came from.

Strings of several texts are told apart by their shape, a row for each text or a run of the op for
each, or by the indices of the split that made them of the texts. An answer that does not add up is
no answer: the texts are then run one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.tokenization.checked_model import import_tensorflow
from vocabtool.tokenization.instrumented_graph import OpReport, Role
from vocabtool.tokenization.text_arrays import (
    EMPTY,
    Integers,
    Tokens,
    is_filled,
    starts_of,
    string_array,
)

Tensor: TypeAlias = Any  # TensorFlow carries no types


class TracedOp(NamedTuple):
    """An op that reports. ``function``: where it stands, ``b""`` for the main graph.

    ``live``: whether the function that is called reaches it.
    """

    function: bytes
    node: bytes
    op: str
    live: bool


class Pieces(NamedTuple):
    """What a tokenizer made of m strings, p pieces in all; what its op does not tell is ``None``.

    ``offsets``: shape (m + 1,); the pieces of string ``j`` are ``values[offsets[j]:offsets[j +
    1]]``. ``values``: Arrow ``string`` array of length p. ``ids``: shape (p,). ``starts``,
    ``ends``: shape (p,), where each stands, in bytes of its string.
    """

    offsets: Integers
    values: pa.StringArray | None = None
    ids: Integers | None = None
    starts: Integers | None = None
    ends: Integers | None = None

    def filter(self, strings: NDArray[np.bool_]) -> Pieces:
        """The pieces of some of the strings."""
        lengths = np.diff(self.offsets)
        kept = np.repeat(strings, lengths)
        return Pieces(
            starts_of(lengths[strings]),
            None if self.values is None else self.values.filter(pa.array(kept)),
            None if self.ids is None else self.ids[kept],
            None if self.starts is None else self.starts[kept],
            None if self.ends is None else self.ends[kept],
        )


class OpTrace(NamedTuple):
    """What an op saw of n texts.

    ``tokens``: the strings that it looked up, or cut into pieces, text by text. ``pieces``: of a
    tokenizer.
    """

    op: TracedOp
    tokens: Tokens
    pieces: Pieces | None = None

    def equals(self, other: OpTrace) -> bool:
        """Whether an op saw the same strings of the same texts, and made the same of them."""
        nothing = Pieces(EMPTY)
        ours = (*self.tokens, *(self.pieces or nothing))
        return all(map(_equal, ours, (*other.tokens, *(other.pieces or nothing))))


def _equal(one: object, other: object) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return one is other or (isinstance(one, pa.Array) and one.equals(other))


class Split(NamedTuple):
    """A split that made strings: ``rows``, shape (m,), ascending, are the places in ``inputs``."""

    rows: Integers
    inputs: pa.StringArray

    def bounds(self, texts: Sequence[bytes]) -> Integers | None:
        """As :meth:`RawTrace.bounds`: it tells them where its inputs are the texts."""
        if not self.inputs.equals(string_array(texts)):
            return None
        return np.searchsorted(self.rows, np.arange(len(texts) + 1)).astype(np.int64)


class RawTrace(NamedTuple):
    """What an op saw in one call of the model, all its runs one after the other.

    ``strings``: Arrow ``string`` array of length m. ``shapes``: that of the strings of each run.
    ``pieces``: as in :class:`OpTrace`. ``split``: of the only run.
    """

    strings: pa.StringArray
    shapes: tuple[tuple[int, ...], ...]
    pieces: Pieces | None = None
    split: Split | None = None

    def drop_empty(self) -> pa.StringArray:
        """The strings that are not empty: no padding is among them."""
        return self.strings.filter(pa.array(is_filled(self.strings)))

    def bounds(self, given: Sequence[bytes]) -> Integers | None:
        """Where each text's strings begin and end: (texts + 1,); ``None``: that is not told."""
        total, texts = len(self.strings), len(given)
        sizes = [math.prod(shape) for shape in self.shapes]
        if total == 0:
            return np.zeros(texts + 1, np.int64)
        if texts == 1:
            return np.array([0, total], np.int64)
        if self.split is not None:
            return self.split.bounds(given)
        if len(sizes) == texts:
            return starts_of(sizes)
        if len(sizes) == 1 and self.shapes[0] and self.shapes[0][0] == texts:
            return np.arange(texts + 1, dtype=np.int64) * (total // texts)
        return None

    def bounds_of_runs(self, ends: Sequence[int]) -> Integers:
        """The same where a text's strings are those of so many runs; ``ends``: (texts + 1,)."""
        return starts_of([math.prod(shape) for shape in self.shapes])[np.array(ends, np.int64)]

    def of_texts(self, op: TracedOp, bounds: Integers, *, uncut: bool) -> OpTrace:
        """The same, text by text, without what fills rows up.

        ``uncut``: the op gets each text whole, so that an empty string is an empty text.
        """
        strings, pieces = self.strings, self.pieces
        kept = self._is_no_padding(bounds, uncut=uncut)
        if not kept.all():
            bounds, strings = starts_of(kept)[bounds], strings.filter(pa.array(kept))
            pieces = None if pieces is None else pieces.filter(kept)
        return OpTrace(op, Tokens(strings, bounds), pieces)

    def _is_no_padding(self, bounds: Integers, *, uncut: bool) -> NDArray[np.bool_]:
        """For each string, whether it is more than padding: empty, and last in a row of several."""
        if uncut or all(len(shape) < 2 for shape in self.shapes):
            return np.ones(len(self.strings), np.bool_)
        # The last filled string at or behind each one, within its text.
        last = np.full(len(bounds) - 1, -1, np.int64)
        places = np.flatnonzero(is_filled(self.strings))
        text_of = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        np.maximum.at(last, text_of[places], places)
        kept: NDArray[np.bool_] = np.arange(len(self.strings)) <= last[text_of]
        return kept


def all_bounds(traces: Sequence[RawTrace], texts: Sequence[bytes]) -> list[Integers] | None:
    """The bounds of each op's strings; ``None`` where those of one are not told.

    What looks up exactly the pieces that another op made of its strings has the bounds of these.
    """
    found = [trace.bounds(texts) for trace in traces]
    cuts = [
        (trace.pieces.values, trace.pieces.offsets[bounds])
        for trace, bounds in zip(traces, found, strict=True)
        if bounds is not None and trace.pieces is not None and trace.pieces.values is not None
    ]
    told = []
    for trace, bounds in zip(traces, found, strict=True):
        same = (of_pieces for values, of_pieces in cuts if values.equals(trace.strings))
        known = next(same, None) if bounds is None else bounds
        if known is None:
            return None
        told.append(known)
    return told


def join_traces(parts: Sequence[tuple[OpTrace, ...]]) -> tuple[OpTrace, ...]:
    """The answers for several batches as if they were one, op by op. There is at least one."""
    return tuple(map(_join, zip(*parts, strict=True))) if len(parts) > 1 else parts[0]


def _join(parts: Sequence[OpTrace]) -> OpTrace:
    tokens = Tokens(
        pa.concat_arrays([part.tokens.values for part in parts]),
        _join_offsets([part.tokens.offsets for part in parts]),
    )
    pieces = [part.pieces for part in parts if part.pieces is not None]
    return OpTrace(parts[0].op, tokens, _join_pieces(pieces) if pieces else None)


def _join_pieces(parts: Sequence[Pieces]) -> Pieces:
    values = [part.values for part in parts if part.values is not None]
    return Pieces(
        _join_offsets([part.offsets for part in parts]),
        pa.concat_arrays(values) if values else None,
        _concatenate([part.ids for part in parts]),
        _concatenate([part.starts for part in parts]),
        _concatenate([part.ends for part in parts]),
    )


def _join_offsets(offsets: Sequence[Integers]) -> Integers:
    return starts_of(np.concatenate([np.diff(part) for part in offsets]))


def _concatenate(parts: Sequence[Integers | None]) -> Integers | None:
    told = [part for part in parts if part is not None]
    return np.concatenate(told) if told else None


# TensorFlow's tensors end here.


def read_queue(report: OpReport, queue: Tensor) -> list[list[Tensor]]:
    """What an op reported since the last time: the tensors of each run."""
    tensorflow = import_tensorflow()
    operations = tensorflow.raw_ops
    types = [tensorflow.dtypes.as_dtype(type_) for type_ in report.types]
    with tensorflow.device("CPU"):
        return [
            operations.QueueDequeueV2(handle=queue, component_types=types, timeout_ms=-1)
            for _ in range(queue_size(queue))
        ]


def queue_size(queue: Tensor) -> int:
    """How many runs of an op wait to be read."""
    return int(import_tensorflow().raw_ops.QueueSizeV2(handle=queue))


def raw_trace(report: OpReport, runs: Sequence[Sequence[Tensor]]) -> RawTrace:
    """The runs of an op, as one."""
    if not runs:
        return RawTrace(string_array([]), ())
    shapes = tuple(tuple(run[0].shape.as_list()) for run in runs)
    columns = list(zip(*runs, strict=True))
    strings = _strings(columns[0])
    split = None
    if report.split:
        *columns, indices, inputs = columns
        if len(runs) == 1 and len(indices[0]) == len(strings):
            split = Split(indices[0].numpy()[:, 0], _strings(inputs))
    roles: Mapping[Role, Sequence[Tensor]] = {
        output.role: column
        for output, column in zip(report.signature.outputs, columns[1:], strict=True)
    }
    if "splits" not in roles:  # a lookup
        return RawTrace(strings, shapes, split=split)
    values = roles["values"]
    is_text = values[0].dtype == import_tensorflow().string
    pieces = Pieces(
        starts_of(np.concatenate(list(_lengths(roles["splits"], shapes)))),
        _strings(values) if is_text else None,
        _integers(roles.get("ids", ()) if is_text else values),
        _integers(roles.get("starts", ())),
        _integers(roles.get("ends", ())),
    )
    return RawTrace(strings, shapes, pieces, split)


def _lengths(splits: Sequence[Tensor], shapes: Sequence[tuple[int, ...]]) -> Iterator[Integers]:
    """Row lengths, of row splits or of themselves: an op may tell either."""
    for tensor, shape in zip(splits, shapes, strict=True):
        array: Integers = tensor.numpy().astype(np.int64).ravel()
        yield np.diff(array) if len(array) == math.prod(shape) + 1 else array


def _strings(tensors: Sequence[Tensor]) -> pa.StringArray:
    """String tensors as one Arrow array, without a Python object for each string."""
    tensorflow = import_tensorflow()
    with tensorflow.device("CPU"):
        flat = tensorflow.concat([tensorflow.reshape(each, [-1]) for each in tensors], 0)
        lengths = tensorflow.strings.length(flat).numpy()
        data = tensorflow.strings.reduce_join(flat).numpy()
    offsets = starts_of(lengths).astype(np.int32)
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(data))


def _integers(tensors: Sequence[Tensor]) -> Integers | None:
    """Integer tensors as one array; ``None`` for none, and for those of another type."""
    if not tensors or not tensors[0].dtype.is_integer:
        return None
    return np.concatenate([tensor.numpy().astype(np.int64).ravel() for tensor in tensors])
