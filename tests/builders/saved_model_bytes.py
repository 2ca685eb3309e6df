"""A second hand: SavedModels written byte by byte, by code that shares nothing with the reader."""

from __future__ import annotations

import struct
from collections.abc import Sequence

STRING, INT64, UINT8, FLOAT = 7, 9, 4, 1


def varint(value: int) -> bytes:
    """A varint; a negative value is written as its 64-bit two's complement, as protobuf does."""
    value &= (1 << 64) - 1
    out = b""
    while value > 127:
        out += bytes([value % 128 + 128])
        value //= 128
    return out + bytes([value])


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited field."""
    return varint(number * 8 + 2) + varint(len(payload)) + payload


def number(number_: int, value: int) -> bytes:
    """A varint field."""
    return varint(number_ * 8) + varint(value)


def fields(message: bytes) -> list[tuple[int, int, int, int]]:
    """Number, wire type, start and end of each field; empty if it is no message."""
    spans, at = [], 0
    while at < len(message):
        key, at = _read_varint(message, at)
        start, end = at, {1: at + 8, 5: at + 4}.get(key % 8, at)
        if key % 8 == 0:
            end = _read_varint(message, at)[1]
        elif key % 8 == 2:
            length, start = _read_varint(message, at)
            end = start + length
        if key < 8 or not at < end <= len(message):
            return []
        spans.append((key // 8, key % 8, start, end))
        at = end
    return spans


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    """Its value and its end, which is 0 if it has none."""
    value = 0
    for end in range(at, min(at + 10, len(message))):
        value += message[end] % 128 << 7 * (end - at)
        if message[end] < 128:
            return value, end + 1
    return 0, 0


def shape(*sizes: int) -> bytes:
    """TensorShapeProto {2: Dim {1: size}}."""
    return b"".join(field(2, number(1, size)) for size in sizes)


def string_tensor(words: Sequence[bytes], *sizes: int) -> bytes:
    """A TensorProto of strings as TensorFlow writes it; ``sizes`` default to one dimension."""
    dims = shape(*(sizes or (len(words),)))
    return number(1, STRING) + field(2, dims) + b"".join(field(8, word) for word in words)


def int64_tensor(values: Sequence[int]) -> bytes:
    """A TensorProto of int64 in ``tensor_content``."""
    content = struct.pack(f"<{len(values)}q", *values)
    return number(1, INT64) + field(2, shape(len(values))) + field(4, content)


def scalar_tensor(value: bytes | int) -> bytes:
    """A TensorProto without dimensions."""
    if isinstance(value, bytes):
        return number(1, STRING) + field(2, b"") + field(8, value)
    return number(1, INT64) + field(2, b"") + field(10, varint(value))


def node(name: bytes, op: bytes, *inputs: bytes, **attributes: bytes) -> bytes:
    """A NodeDef; attribute values are serialised AttrValues."""
    body = field(1, name) + field(2, op) + b"".join(field(3, i) for i in inputs)
    for key, value in attributes.items():
        body += field(5, field(1, key.encode()) + field(2, value))
    return body


def const(name: bytes, tensor: bytes) -> bytes:
    """A Const node; its attribute ``dtype`` repeats that of the tensor."""
    dtype = INT64 if tensor.startswith(number(1, INT64)) else STRING
    return node(name, b"Const", dtype=number(6, dtype), value=field(8, tensor))


def graph(*nodes: bytes, functions: Sequence[bytes] = ()) -> bytes:
    """A GraphDef."""
    library = b"".join(field(1, function) for function in functions)
    return b"".join(field(1, n) for n in nodes) + (field(2, library) if functions else b"")


def function(
    name: bytes, arguments: Sequence[bytes], *nodes: bytes, returns: Sequence[bytes] = ()
) -> bytes:
    """A FunctionDef; ``returns``: a tensor for each output."""
    outputs = [b"out%d" % i for i in range(len(returns))]
    signature = field(1, name) + b"".join(field(2, field(1, argument)) for argument in arguments)
    signature += b"".join(field(3, field(1, output)) for output in outputs)
    pairs = zip(outputs, returns, strict=True)
    returned = b"".join(field(4, field(1, output) + field(2, value)) for output, value in pairs)
    return field(1, signature) + b"".join(field(3, n) for n in nodes) + returned


def saved_model(*graphs: bytes, tail: bytes = b"") -> bytes:
    """A SavedModel with one MetaGraphDef per GraphDef; ``tail`` ends each MetaGraphDef."""
    return number(1, 1) + b"".join(field(2, field(2, g) + tail) for g in graphs)


def table_nodes(words: Sequence[bytes], name: bytes = b"words") -> tuple[bytes, ...]:
    """A table filled from a constant, ids from a range, and its lookup with default -1."""
    return (
        const(name, string_tensor(words)),
        const(b"range/start", scalar_tensor(0)),
        const(b"range/limit", scalar_tensor(len(words))),
        const(b"range/delta", scalar_tensor(1)),
        node(b"range", b"Range", b"range/start", b"range/limit", b"range/delta"),
        node(b"hash_table", b"HashTableV2", shared_name=field(2, b"shared")),
        node(b"fill", b"LookupTableImportV2", b"hash_table", name, b"range"),
        node(b"x", b"Placeholder"),
        const(b"default", scalar_tensor(-1)),
        node(b"find", b"LookupTableFindV2", b"hash_table", b"x", b"default"),
    )


def file_table(filename: bytes, **attributes: bytes) -> tuple[bytes, ...]:
    """A table filled from the whole lines of a file, or as its attributes say."""
    whole = {"key_index": number(3, -2), "value_index": number(3, -1)}
    return (
        const(b"path", scalar_tensor(filename)),
        node(b"hash_table", b"HashTableV2", shared_name=field(2, b"shared")),
        node(
            *(b"fill", b"InitializeTableFromTextFileV2", b"hash_table", b"path"),
            **whole | attributes,
        ),
    )


def tokenizer(op: bytes, buffer: bytes) -> bytes:
    """A SavedModel with one op of TensorFlow Text, and the buffer that it takes as its model."""
    tensor = number(1, UINT8) + field(2, shape(len(buffer))) + field(4, buffer)
    model = node(b"model", b"Const", dtype=number(6, UINT8), value=field(8, tensor))
    return saved_model(graph(model, node(b"cutter/op", op, b"texts", b"model")))
