"""Collect the strings that ops processed while a model ran, and assign them to the texts.

If the strings of a batch cannot be assigned to its texts, the model is run on one text at a time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.tokenization.checked_model import import_tensorflow
from vocabtool.tokenization.instrumented_graph import Role, TracedOp
from vocabtool.tokenization.text_arrays import (
    EMPTY,
    Integers,
    Tokens,
    is_filled,
    starts_of,
    string_array,
)

Tensor: TypeAlias = Any  # TensorFlow has no types


class Pieces(NamedTuple):
    """The p pieces of m strings. A field is ``None`` if the op has no such output.

    - ``offsets``: shape (m + 1,). String ``j`` has ``values[offsets[j]:offsets[j + 1]]``.
    - ``starts``, ``ends``: Where each piece begins and ends in its string, in bytes.
    """

    offsets: Integers
    values: pa.StringArray | None = None
    ids: Integers | None = None
    starts: Integers | None = None
    ends: Integers | None = None

    @classmethod
    def join(cls, parts: Sequence[Pieces]) -> Pieces:
        offsets, values, *numbers = zip(*parts, strict=True)
        return cls(
            _join_offsets(offsets),
            None if values[0] is None else pa.concat_arrays(values),
            *(None if part[0] is None else np.concatenate(part) for part in numbers),
        )

    def filter(self, strings: NDArray[np.bool_]) -> Pieces:
        lengths = np.diff(self.offsets)
        kept = np.repeat(strings, lengths)
        _, values, *numbers = self
        return Pieces(
            starts_of(lengths[strings]),
            None if values is None else values.filter(pa.array(kept)),
            *(None if part is None else part[kept] for part in numbers),
        )


class OpTrace(NamedTuple):
    """The strings that an op looked up or split, assigned to texts.

    - ``tokens``: The strings of each text.
    - ``pieces``: The pieces of the strings; ``None`` if the op is not a tokenizer.
    """

    op: TracedOp
    tokens: Tokens
    pieces: Pieces | None = None

    def equals(self, other: OpTrace) -> bool:
        nothing = Pieces(EMPTY)
        ours = (*self.tokens, *(self.pieces or nothing))
        pairs = zip(ours, (*other.tokens, *(other.pieces or nothing)), strict=True)
        return all(
            one is two
            or (isinstance(one, pa.Array) and one.equals(two))
            or (isinstance(one, np.ndarray) and np.array_equal(one, two))
            for one, two in pairs
        )


class RawTrace(NamedTuple):
    """The m strings that an op processed in all its runs, not yet assigned to texts.

    - ``shapes``: The shape of the string tensor of each run.
    - ``inputs``: The input of the op that split texts into ``strings``; ``None`` if there is no
      such op, or if there were several runs.
    - ``rows``: shape (m,), ascending. String ``j`` is a part of ``inputs[rows[j]]``.
    """

    strings: pa.StringArray
    shapes: tuple[tuple[int, ...], ...]
    pieces: Pieces | None = None
    rows: Integers | None = None
    inputs: pa.StringArray | None = None

    def drop_empty(self) -> pa.StringArray:
        return self.strings.filter(pa.array(is_filled(self.strings)))

    def bounds(self, given: Sequence[bytes]) -> Integers | None:
        """Return the offsets of each text's strings: shape (texts + 1,); ``None`` if unknown.

        ``given``: The texts on which the model ran.
        """
        total, texts = len(self.strings), len(given)
        sizes = [math.prod(shape) for shape in self.shapes]
        if total == 0:
            return np.zeros(texts + 1, np.int64)
        if texts == 1:
            return np.array([0, total], np.int64)
        if self.rows is not None:  # the split indices show the texts
            if self.inputs is None or not self.inputs.equals(string_array(given)):
                return None
            return np.searchsorted(self.rows, np.arange(texts + 1)).astype(np.int64)
        if len(sizes) == texts:
            return starts_of(sizes)
        if len(sizes) == 1 and self.shapes[0] and self.shapes[0][0] == texts:
            return np.arange(texts + 1, dtype=np.int64) * (total // texts)
        return None

    def bounds_of_runs(self, ends: Sequence[int]) -> Integers:
        """Return the offsets of each text's strings: shape (texts + 1,).

        The model must have run on each text alone. ``ends``: How many times the op had run before
        the first text, and after each text.
        """
        return starts_of([math.prod(shape) for shape in self.shapes])[np.array(ends, np.int64)]

    def of_texts(self, op: TracedOp, bounds: Integers, *, uncut: bool) -> OpTrace:
        """Return the trace with its strings assigned to texts, without padding.

        ``uncut``: Whether the op's strings are whole texts. If so, empty strings are not padding.
        """
        strings, pieces = self.strings, self.pieces
        if uncut or all(len(shape) < 2 for shape in self.shapes):
            return OpTrace(op, Tokens(strings, bounds), pieces)
        # Padding is empty and comes last in a row: after the last non-empty string of a text.
        last = np.full(len(bounds) - 1, -1, np.int64)
        places = np.flatnonzero(is_filled(strings))
        text_of = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        np.maximum.at(last, text_of[places], places)
        kept = np.arange(len(strings)) <= last[text_of]
        if pieces is not None:
            pieces = pieces.filter(kept)
        return OpTrace(op, Tokens(strings, bounds).filter(kept), pieces)


def all_bounds(traces: Sequence[RawTrace], texts: Sequence[bytes]) -> list[Integers] | None:
    """Return the :meth:`RawTrace.bounds` of all ops; ``None`` if any op remains without bounds.

    If an op's own bounds are unknown, but its strings are the pieces of another op, it gets the
    bounds of these pieces.
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
    if len(parts) == 1:
        return parts[0]
    joined = []
    for same in zip(*parts, strict=True):
        values = pa.concat_arrays([trace.tokens.values for trace in same])
        tokens = Tokens(values, _join_offsets([trace.tokens.offsets for trace in same]))
        pieces = [trace.pieces for trace in same if trace.pieces is not None]
        joined.append(OpTrace(same[0].op, tokens, Pieces.join(pieces) if pieces else None))
    return tuple(joined)


def _join_offsets(offsets: Sequence[Integers]) -> Integers:
    return starts_of(np.concatenate([np.diff(part) for part in offsets]))


def raw_trace(op: TracedOp, runs: Sequence[Sequence[Tensor]]) -> RawTrace:
    if not runs:
        return RawTrace(string_array([]), ())
    shapes = tuple(tuple(run[0].shape.as_list()) for run in runs)
    columns = list(zip(*runs, strict=True))
    strings = _strings(columns[0])
    rows = split = None
    if op.split:
        *columns, indices, inputs = columns
        if len(runs) == 1 and len(indices[0]) == len(strings):
            rows, split = indices[0].numpy()[:, 0], _strings(inputs)
    roles: Mapping[Role, Sequence[Tensor]] = {
        output.role: column
        for output, column in zip(op.signature.outputs, columns[1:], strict=True)
    }
    if "splits" not in roles:  # a lookup
        return RawTrace(strings, shapes, None, rows, split)
    values = roles["values"]
    is_text = values[0].dtype == import_tensorflow().string
    lengths = [tensor.numpy().astype(np.int64).ravel() for tensor in roles["splits"]]
    for at, shape in enumerate(shapes):  # an op may report row splits instead
        if len(lengths[at]) == math.prod(shape) + 1:
            lengths[at] = np.diff(lengths[at])
    pieces = Pieces(
        starts_of(np.concatenate(lengths)),
        _strings(values) if is_text else None,
        _integers(roles.get("ids", ()) if is_text else values),
        _integers(roles.get("starts", ())),
        _integers(roles.get("ends", ())),
    )
    return RawTrace(strings, shapes, pieces, rows, split)


def _strings(tensors: Sequence[Tensor]) -> pa.StringArray:
    tensorflow = import_tensorflow()
    with tensorflow.device("CPU"):
        flat = tensorflow.concat([tensorflow.reshape(each, [-1]) for each in tensors], 0)
        lengths = tensorflow.strings.length(flat).numpy()
        data = tensorflow.strings.reduce_join(flat).numpy()
    offsets = starts_of(lengths).astype(np.int32)
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(data))


def _integers(tensors: Sequence[Tensor]) -> Integers | None:
    if not tensors or not tensors[0].dtype.is_integer:
        return None
    return np.concatenate([tensor.numpy().astype(np.int64).ravel() for tensor in tensors])
