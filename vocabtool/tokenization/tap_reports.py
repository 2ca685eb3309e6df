"""What a running model reports and answers, as arrays: TensorFlow's tensors end here."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vocabtool.tokenization.checked_model import import_tensorflow
from vocabtool.tokenization.instrumented_graph import Report, Role
from vocabtool.tokenization.op_traces import Integers, Pieces, RawTrace
from vocabtool.tokenization.text_arrays import string_array

if TYPE_CHECKING:
    import pyarrow as pa

Tensor: TypeAlias = Any  # TensorFlow carries no types


def drained(report: Report, queue: Tensor) -> Iterator[list[Tensor]]:
    """What an op reported since the last time: the tensors of each run."""
    tensorflow = import_tensorflow()
    operations = tensorflow.raw_ops
    types = [tensorflow.dtypes.as_dtype(type_) for type_ in report.types]
    with tensorflow.device("CPU"):
        for _ in range(int(operations.QueueSizeV2(handle=queue))):
            yield operations.QueueDequeueV2(handle=queue, component_types=types, timeout_ms=-1)


def seen(report: Report, runs: Sequence[Sequence[Tensor]]) -> RawTrace:
    """The runs of an op, as one."""
    if not runs:
        return RawTrace(string_array([]), ())
    shapes = tuple(tuple(run[0].shape.as_list()) for run in runs)
    strings = _strings([run[0] for run in runs])
    columns = list(zip(*runs, strict=True))
    if report.tapping.default is not None:
        ids = _integers(columns[1])
        if ids is None or len(ids) != len(strings):
            ids = np.full(len(strings), -1, np.int64)
        default = _integers(columns[2][:1])
        return RawTrace(strings, shapes, ids, int(default[0]) if default is not None else None)
    roles: dict[Role, Sequence[Tensor]] = {
        output.role: column
        for output, column in zip(report.tapping.outputs, columns[1:], strict=True)
    }
    return _cut_seen(strings, shapes, roles)


def _cut_seen(
    strings: pa.StringArray,
    shapes: tuple[tuple[int, ...], ...],
    roles: dict[Role, Sequence[Tensor]],
) -> RawTrace:
    """What a tokenizer saw and made; its values are ids where they are integers."""
    values = roles["values"]
    text = values[0].dtype == import_tensorflow().string
    ids = _integers(roles.get("ids", ())) if text else _integers(values)
    sizes = [math.prod(shape) for shape in shapes]
    lengths = [_lengths(splits, n) for splits, n in zip(roles["splits"], sizes, strict=True)]
    pieces = Pieces(
        np.concatenate([[0], np.cumsum(np.concatenate(lengths))]),
        _strings(values) if text else None,
        _integers(roles.get("starts", ())),
        _integers(roles.get("ends", ())),
    )
    return RawTrace(strings, shapes, ids, None, pieces)


def _lengths(splits: Tensor, strings: int) -> Integers:
    """Row lengths, of row splits or of themselves: an op may tell either."""
    array: Integers = splits.numpy().astype(np.int64).ravel()
    return np.diff(array) if len(array) == strings + 1 else array


def _strings(tensors: Sequence[Tensor]) -> pa.StringArray:
    """String tensors as one Arrow array, without a Python object for each string."""
    import pyarrow as pa

    tensorflow = import_tensorflow()
    with tensorflow.device("CPU"):
        rows = [each if each.ndim == 1 else tensorflow.reshape(each, [-1]) for each in tensors]
        flat = tensorflow.concat(rows, 0) if len(rows) > 1 else rows[0]
        lengths = tensorflow.strings.length(flat).numpy()
        data = tensorflow.strings.reduce_join(flat).numpy()
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(data))


def _integers(tensors: Sequence[Tensor]) -> Integers | None:
    """Integer tensors as one array; ``None`` for none, and for those of another type."""
    if not tensors or not tensors[0].dtype.is_integer:
        return None
    return np.concatenate([tensor.numpy().astype(np.int64).ravel() for tensor in tensors])


def arrays(answer: Any) -> dict[str, NDArray[Any]]:
    """Tensors in any structure as arrays by name, or by position where they have none."""
    tensorflow = import_tensorflow()
    if isinstance(answer, dict):
        named = {name: tensorflow.nest.flatten(part, True) for name, part in answer.items()}
        return {
            name if len(parts) == 1 else f"{name}_{i}": part.numpy()
            for name, parts in named.items()
            for i, part in enumerate(parts)
        }
    return {str(i): part.numpy() for i, part in enumerate(tensorflow.nest.flatten(answer, True))}
