"""Random SavedModels, well framed and ill connected: a result or one of our errors, always.

Where bytes are damaged (``fuzzing.py``), most of what is tried stops at the framing. Here framing
is right and the rest is drawn: ops that readers know, inputs that exist, attributes of any type,
functions that call each other and objects that capture each other, in circles too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vocabtool
from tests.builders import saved_model_bytes as b
from tests.fuzzing import show

WORDS = tuple(b"word%d" % number for number in range(12))
NODES = tuple(b"n%d" % number for number in range(16))
ARGUMENTS = (b"a0", b"a1", b"a2")
FUNCTIONS = (b"f0", b"f1", b"f2")
OUTPUTS = (b"o0", b"o1")
EDGES = (0, 1, 2, 3, 5, -1, -2, 12, 1 << 31, 1 << 40, 1 << 62, (1 << 63) - 1, -(1 << 63))
TEXTS = (b"", b"a", b"\xff", b"words.txt", b"../x", b"[UNK]", b"##", b"\t", b"\x1b[2J", b"\0")
OPS = (
    *(b"Const", b"Const", b"Const", b"Const", b"HashTableV2", b"LookupTableImportV2"),
    *(b"HashTableV2", b"LookupTableImportV2", b"LookupTableFindV2", b"Placeholder", b"Identity"),
    *(b"Cast", b"Reshape", b"Switch"),
    *(b"HashTable", b"HashTableV2", b"MutableHashTableV2", b"MutableDenseHashTableV2"),
    *(b"LookupTableImportV2", b"LookupTableImport", b"InitializeTableV2", b"LookupTableInsertV2"),
    *(b"InitializeTableFromTextFileV2", b"InitializeTableFromDataset", b"LookupTableExportV2"),
    *(b"LookupTableFindV2", b"LookupTableFind", b"LookupTableSizeV2", b"Range", b"Pack", b"Equal"),
    *(b"StringToHashBucketFast", b"AsString", b"FloorMod", b"AddV2", b"SelectV2", b"SaveV2"),
    *(b"PartitionedCall", b"StatefulPartitionedCall", b"If", b"While", b"Assert", *FUNCTIONS),
    *(b"VarHandleOp", b"VariableV2", b"AssignVariableOp", b"RestoreV2", b"NoSuchOp"),
    *(b"SentencepieceOp", b"WordpieceTokenizeWithOffsets"),
    *(b"TFText>FastSentencepieceTokenize", b"FastWordpieceTokenizeWithOffsets"),
)
CALLS = (b"PartitionedCall", b"StatefulPartitionedCall", *FUNCTIONS)
COPIES = (b"Identity", b"Cast", b"Reshape", b"Switch")
# What can be an input of each sort, as far as its op says ...
SOURCES = {
    "table": (*(op for op in OPS if op.endswith((b"HashTable", b"HashTableV2"))), *CALLS),
    "list": (b"Const", *COPIES, *CALLS),
    "ids": (b"Const", b"Range", *CALLS),
    "word": (b"Placeholder", b"AsString", b"Identity"),
    "number": (b"StringToHashBucketFast", b"FloorMod", b"LookupTableSizeV2", b"Const"),
    "yes": (b"Equal",),
    "any": (),
}
# ... what each op takes, and which attributes it needs.
FILL, TEXT_FILL = ("table", "list", "ids"), ("table", "list")
TAKES: dict[bytes, tuple[str, ...]] = {
    **dict.fromkeys((b"LookupTableImportV2", b"LookupTableImport", b"InitializeTableV2"), FILL),
    **dict.fromkeys((b"LookupTableInsertV2",), FILL),
    **dict.fromkeys((b"InitializeTableFromTextFileV2", b"InitializeTableFromDataset"), TEXT_FILL),
    **dict.fromkeys((b"LookupTableFindV2", b"LookupTableFind"), ("table", "word", "list")),
    **dict.fromkeys((b"LookupTableSizeV2", b"LookupTableExportV2"), ("table",)),
    **dict.fromkeys((b"StringToHashBucketFast", b"AsString"), ("word",)),
    **dict.fromkeys(COPIES, ("list",)),
    **dict.fromkeys(CALLS, ("any", "table", "list")),
    b"Range": ("list", "list", "list"),
    b"Equal": ("word", "list"),
    b"FloorMod": ("word", "list"),
    b"AddV2": ("number", "number"),
    b"SelectV2": ("yes", "list", "number"),
    b"WordpieceTokenizeWithOffsets": ("word", "table"),
    b"TFText>FastSentencepieceTokenize": ("word", "list"),
    b"FastWordpieceTokenizeWithOffsets": ("word", "list"),
    b"AssignVariableOp": ("any", "list"),
    b"Const": (),
}
NEEDS = {
    b"Const": {"value", "dtype"},
    b"SentencepieceOp": {"model"},
    b"StringToHashBucketFast": {"num_buckets"},
    b"InitializeTableFromTextFileV2": {"key_index", "value_index"},
    b"WordpieceTokenizeWithOffsets": {"use_unknown_token", "unknown_token"},
    b"PartitionedCall": {"f"},
    b"StatefulPartitionedCall": {"f"},
    b"If": {"f"},
    b"While": {"f"},
}
# A table with a lookup, where nothing is wrong: op and node, which goes by its place in NODES.
SHARED = b.field(2, b"shared")
START = (
    (b"Const", b.const(b"n0", b.string_tensor(WORDS))),
    (b"Const", b.const(b"n1", b.int64_tensor(range(1, 1 + len(WORDS))))),
    (b"HashTableV2", b.node(b"n2", b"HashTableV2", shared_name=SHARED)),
    (b"LookupTableImportV2", b.node(b"n3", b"LookupTableImportV2", b"n2", b"n0", b"n1")),
    (b"Placeholder", b.node(b"n4", b"Placeholder")),
    (b"Const", b.const(b"n5", b.scalar_tensor(0))),
    (b"LookupTableFindV2", b.node(b"n6", b"LookupTableFindV2", b"n2", b"n4", b"n5")),
)
LOCAL_NAMES = (b"lookup_table", b"_lookup_layer", b"_create_resource", b"_initialize", b"t", b"")
Bytes = st.SearchStrategy[bytes]

integers = st.sampled_from(EDGES)
texts = st.sampled_from(TEXTS)
numbers = st.lists(integers, max_size=12)
words = st.lists(st.sampled_from(WORDS), max_size=12)
any_bytes = st.binary(max_size=40)


def joined(parts: Bytes, most: int) -> Bytes:
    """Up to so many of the parts, one behind the other."""
    return st.lists(parts, max_size=most).map(b"".join)


def fields(number: int, payload: Bytes) -> Bytes:
    """A length-delimited field of what is drawn."""
    return payload.map(lambda drawn: b.field(number, drawn))


def varints(number: int, values: st.SearchStrategy[int]) -> Bytes:
    """A varint field of what is drawn."""
    return values.map(lambda drawn: b.number(number, drawn))


@st.composite
def odd_tensors(draw: st.DrawFn) -> bytes:
    """A TensorProto of any dtype and shape, with values that need not fit either."""
    sizes = draw(st.lists(integers, max_size=3))
    values = fields(draw(st.sampled_from((4, 5, 7, 8, 10))), any_bytes)
    dtype = b.number(1, draw(st.sampled_from((3, 4, 6, 7, 9, 1, 0, 99))))
    return dtype + b.field(2, b.shape(*sizes)) + draw(joined(values, 3))


tensors: Bytes = st.one_of(
    st.just(b.string_tensor(WORDS)),
    st.just(b.int64_tensor(range(len(WORDS)))),
    words.map(b.string_tensor),
    numbers.map(b.int64_tensor),
    texts.map(b.scalar_tensor),
    integers.map(b.scalar_tensor),
    odd_tensors(),
)
values: dict[str, Bytes] = {
    "value": fields(8, tensors),
    "dtype": varints(6, st.sampled_from((7, 9, 3, 20, 107))),
    "key_dtype": varints(6, st.sampled_from((7, 9, 3))),
    "value_dtype": varints(6, st.sampled_from((7, 9, 3, 1))),
    **dict.fromkeys(
        ("key_index", "value_index", "vocab_size", "offset", "num_buckets"), varints(3, integers)
    ),
    **dict.fromkeys(
        ("shared_name", "delimiter", "unknown_token", "suffix_indicator"), fields(2, texts)
    ),
    **dict.fromkeys(
        ("use_unknown_token", "use_node_name_sharing"), varints(5, st.sampled_from((0, 1)))
    ),
    "f": fields(10, fields(1, st.sampled_from(FUNCTIONS))),
    "model": fields(2, any_bytes),
}
stray: Bytes = st.one_of(fields(8, tensors), varints(3, integers), fields(2, texts), any_bytes)


@st.composite
def references(draw: st.DrawFn, fitting: Sequence[bytes] = ()) -> bytes:
    """An input: a node or an argument, one of its outputs, or an order of execution.

    ``fitting``: names that would make sense, preferred but for every fifth time.
    """
    if fitting and draw(st.sampled_from((True, True, True, True, False))):
        return draw(st.sampled_from(fitting))
    name = draw(st.sampled_from((*NODES, *ARGUMENTS, b"")))
    end = draw(
        st.sampled_from((b"", b"", b"", b":0", b":1", b":out:0", b":out:3", b":a:b:c", b":"))
    )
    return draw(st.sampled_from((b"", b"", b"", b"^"))) + name + end


@st.composite
def nodes(draw: st.DrawFn, name: bytes, op: bytes, names: dict[str, list[bytes]]) -> bytes:
    """A node; what its op needs is there as a rule, and of the right type.

    ``names``: the nodes and arguments of its body that can be an input of each sort.
    """
    keys = draw(st.sets(st.sampled_from(sorted(values)), max_size=3)) | NEEDS.get(op, set())
    mistaken = draw(st.sampled_from((*sorted(values), *[""] * 40)))
    drawn = {key: draw(stray if key == mistaken else values[key]) for key in sorted(keys)}
    inputs = [draw(references(names[sort])) for sort in TAKES.get(op, ())]
    more = draw(st.lists(references(), max_size=0 if op in TAKES else 3))
    return b.node(name, op, *inputs, *more, **drawn)


@st.composite
def bodies(draw: st.DrawFn, most: int, arguments: Sequence[bytes] = ()) -> list[bytes]:
    """Nodes with names of their own, but for one at times; as a rule a table is among them."""
    start = draw(st.sampled_from((START, START, START, ())))
    ops = [op for op, _ in start] + draw(st.lists(st.sampled_from(OPS), min_size=1, max_size=most))
    pairs = list(zip(NODES, ops, strict=False))
    names = {
        sort: [name for name, op in pairs if op in sources] + list(arguments)
        for sort, sources in SOURCES.items()
    }
    made = [draw(nodes(name, op, names)) for name, op in pairs]
    for position, (_, good) in enumerate(start):
        if draw(st.sampled_from((*[True] * 11, False))):
            made[position] = good
    return made + made[: draw(st.sampled_from((0, 0, 0, 0, 0, 1)))]


@st.composite
def functions(draw: st.DrawFn, name: bytes) -> bytes:
    """A FunctionDef with arguments and returns."""
    arguments = draw(st.sampled_from((ARGUMENTS[:0], ARGUMENTS[:1], ARGUMENTS)))
    signature = b.field(1, name) + b"".join(b.field(2, b.field(1, a)) for a in arguments)
    signature += b"".join(b.field(3, b.field(1, output)) for output in OUTPUTS)
    returns = [b.field(1, output) + b.field(2, draw(references())) for output in OUTPUTS]
    body = draw(bodies(5, arguments))
    parts = [b.field(1, signature), *(b.field(3, node) for node in body)]
    return b"".join([*parts, *(b.field(4, pair) for pair in returns)])


object_ids = st.sampled_from((0, 1, 2, 3, 4, 5, 6, -1, 99))
child = st.tuples(object_ids, st.sampled_from(LOCAL_NAMES)).map(
    lambda pair: b.number(1, pair[0]) + b.field(2, pair[1])
)
kinds: Bytes = st.one_of(
    st.just(b""),
    fields(5, varints(1, object_ids)),  # an asset
    fields(6, fields(1, st.sampled_from(FUNCTIONS))),
    fields(7, varints(1, st.sampled_from((7, 1)))),  # a variable
    fields(9, fields(1, st.sampled_from(NODES))),  # a constant
    st.just(b.field(10, b"")),  # a resource
)
objects: Bytes = st.tuples(joined(fields(1, child), 3), kinds).map(b"".join)


@st.composite
def object_graphs(draw: st.DrawFn) -> bytes:
    """A SavedObjectGraph: objects, and what each function captured of them."""
    captured = st.lists(object_ids, max_size=3).map(lambda ids: b"".join(map(b.varint, ids)))
    captures = [
        b.field(2, b.field(1, name) + b.field(2, b.field(2, draw(captured)))) for name in FUNCTIONS
    ]
    return draw(joined(fields(1, objects), 7)) + b"".join(captures)


@st.composite
def meta_graphs(draw: st.DrawFn) -> bytes:
    """A MetaGraphDef without its tags."""
    graph = b.graph(
        *draw(bodies(len(NODES) - len(START))),
        functions=[draw(functions(name)) for name in FUNCTIONS],
    )
    tensor = b.field(1, b.field(1, draw(st.sampled_from(NODES)) + b":0"))
    asset = b.field(6, tensor + b.field(2, draw(texts)))
    return b.field(2, graph) + b.field(7, draw(object_graphs())) + asset


saved_models: Bytes = st.lists(meta_graphs(), min_size=1, max_size=2).map(
    lambda drawn: b.number(1, 1) + b"".join(b.field(2, meta) for meta in drawn)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's folder with one asset; each example replaces the model."""
    made = tmp_path_factory.mktemp("drawn")
    (made / "assets").mkdir()
    (made / "assets" / "words.txt").write_bytes(b"a\t1\nb\t2\n" * 8)
    return made


def law(folder: Path) -> Callable[[bytes], None]:
    """What must hold of any file: a model that can be shown and asked, or our own error."""

    def holds(data: bytes) -> None:
        (folder / "saved_model.pb").write_bytes(data)
        try:
            model = vocabtool.inspect(folder, small=True)
        except vocabtool.VocabtoolError:
            return
        show(folder, ("json", "table"))
        for vocabulary in model.vocabularies:
            assert len(vocabulary.id_array()) == len(vocabulary.stored)
            assert vocabulary.fingerprint
            vocabulary.entries()

    return holds


def test_the_start_is_good(folder: Path) -> None:
    """What most of the drawn graphs begin with is a table that is read, words, ids and unknown."""
    graph = b.graph(*(node for _, node in START))
    (folder / "saved_model.pb").write_bytes(b.saved_model(graph))
    (table,) = [v for v in vocabtool.vocabularies(folder) if v.kind == "table"]
    assert tuple(table.stored) == WORDS
    assert (table.first_id, table.unknown) == (1, vocabtool.Unknown(0))


def test_any_graph_is_read_or_refused(folder: Path, full: bool) -> None:
    """A SavedModel of known ops in any order is a result or a VocabtoolError, never another."""
    examples = settings(
        max_examples=5_000 if full else 50,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    examples(given(saved_models)(law(folder)))()
