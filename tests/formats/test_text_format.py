"""Text format turned into binary, compared with TensorFlow's own protobuf messages."""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocabtool.errors import InvalidFile
from vocabtool.formats import wire
from vocabtool.formats.saved_model import saved_model_schema, text_format
from vocabtool.formats.saved_model.text_format import to_binary

ATTR = b'meta_graphs { graph_def { node { attr { key: "value" value { %s } } } } }'
TENSOR = ATTR % b"tensor { %s }"


def converted(text: bytes) -> bytes:
    return to_binary(io.BytesIO(text))


def inner(text: bytes, path: tuple[int, ...]) -> bytes:
    """The content of the message at ``path`` (field numbers) of the converted text."""
    binary = converted(text)
    for number in path:
        binary = wire.last_bytes(binary, (0, len(binary)), number)
    return binary


def attr(value: bytes) -> bytes:
    """The AttrValue that ``value`` describes, converted."""
    return inner(ATTR % value, (2, 2, 1, 5, 2))


def tensor(fields: bytes) -> bytes:
    """The TensorProto that ``fields`` describe, converted."""
    return inner(TENSOR % fields, (2, 2, 1, 5, 2, 8))


def text_of(literal: bytes) -> bytes:
    """The bytes of one string literal."""
    binary = attr(b"s: " + literal)
    assert binary[:1] == b"\x12"
    return wire.last_bytes(binary, (0, len(binary)), 2)


def test_a_whole_model_byte_by_byte() -> None:
    """A SavedModel becomes the bytes that the wire format prescribes."""
    text = b"""
        saved_model_schema_version: 1
        meta_graphs {  # a comment
          meta_info_def { tags: "serve" stripped_op_list { op { name: "Const" } } }
          graph_def {
            node { name: "c" op: "Const" attr { key: "dtype" value { type: DT_STRING } } }
          }
        }
    """
    attr = b"\x0a\x05dtype" + b"\x12\x02" + b"\x30\x07"
    node = b"\x0a\x01c" + b"\x12\x05Const" + b"\x2a\x0b" + attr
    graph = b"\x0a\x17" + node
    info = b"\x22\x05serve"
    meta_graph = b"\x0a\x07" + info + b"\x12\x19" + graph
    assert converted(text) == b"\x08\x01" + b"\x12\x24" + meta_graph


@pytest.mark.parametrize(
    "text",
    [
        b'meta_graphs{meta_info_def{tags:"a"tags:"b"}}',
        b"meta_graphs<meta_info_def<tags:'a',tags:'b';>;>,",
        b'meta_graphs: { meta_info_def: { tags: ["a", "b"] } }',
        b'meta_graphs: [{ meta_info_def: [{ tags: "\\141" }, { tags: ["b"] tags: [] }] }]',
        b"\xef\xbb\xbf"[3:]
        + b'meta_graphs\n{\r\nmeta_info_def\t{\vtags\f:\n#x\n"a"\ntags: "b" } }',
    ],
)
def test_spellings(text: bytes) -> None:
    """Brackets of both kinds, lists, separators, comments and line ends do not matter."""
    tags = {b"\x12\x08\x0a\x06\x22\x01a\x22\x01b", b"\x12\x0a\x0a\x03\x22\x01a\x0a\x03\x22\x01b"}
    assert converted(text) in tags


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (b'""', b""),
        (b"'it''s'", b"its"),
        (b'"a" "b"\n  \'c\' # d\n"e"', b"abce"),
        (b"\"it's\" '\"'", b"it's\""),
        (rb'"\a\b\f\n\r\t\v\\\'\"\?"', b"\a\b\f\n\r\t\v\\'\"?"),
        (rb'"\0\12\1234\377"', b"\0\n\1234\xff"),
        (rb'"\x1\x41g\xfff\X0a"', b"\x01Ag\xfff\n"),
        (rb'"\u00e9\U0001f680\\u0041"', "é🚀\\u0041".encode()),
        ('"naïve 日本"'.encode(), "naïve 日本".encode()),
        (b'"latin \xe9 1"', b"latin \xe9 1"),
        (b'"# no comment { } \0 \x85"', b"# no comment { } \0 \x85"),
    ],
)
def test_strings(literal: bytes, value: bytes) -> None:
    """Strings may be escaped, cut in parts and of any bytes; they stay bytes."""
    assert text_of(literal) == value


@given(st.binary())
def test_strings_as_protobuf_escapes_them(value: bytes) -> None:
    """What protobuf's own writer escapes is read back."""
    reason = "the oracle is protobuf"
    encoding = pytest.importorskip("google.protobuf.text_encoding", reason=reason)
    assert text_of(b'"' + encoding.CEscape(value, as_utf8=False).encode() + b'"') == value


@pytest.mark.parametrize(
    ("field", "binary"),
    [
        (b"i: 0", b"\x18\x00"),
        (b"i: 300", b"\x18\xac\x02"),
        (b"i: -1", b"\x18" + b"\xff" * 9 + b"\x01"),
        (b"i: 0x1F", b"\x18\x1f"),
        (b"i: -0x1f", b"\x18\xe1" + b"\xff" * 8 + b"\x01"),
        (b"i: 017", b"\x18\x0f"),
        (b"i: -9223372036854775808", b"\x18" + b"\x80" * 9 + b"\x01"),
        (b"b: true b: f b: 1", b"\x28\x01\x28\x00\x28\x01"),
        (b"type: DT_STRING", b"\x30\x07"),
        (b"type: DT_STRING_REF", b"\x30\x6b"),
        (b"type: 9", b"\x30\x09"),
        (
            b"f: 1.5 f: -2 f: 3e1f f: .5F",
            struct.pack("<BfBfBfBf", 0x25, 1.5, 0x25, -2, 0x25, 30, 0x25, 0.5),
        ),
        (b"f: inf f: -Infinity", struct.pack("<BfBf", 0x25, float("inf"), 0x25, float("-inf"))),
        (b"f: -1e300", struct.pack("<Bf", 0x25, float("-inf"))),
        (b"f: nan", struct.pack("<Bf", 0x25, float("nan"))),
    ],
)
def test_numbers(field: bytes, binary: bytes) -> None:
    """Numbers may be decimal, hexadecimal or octal, and enum values named."""
    assert attr(field) == binary


def test_the_key_of_a_map_comes_first() -> None:
    """Where the text has a value before its key, the key is written first all the same."""
    text = b'node { attr { value { type: DT_STRING } key: "old" key: "dtype" } name: "c" }'
    attribute = b"\x0a\x03old" + b"\x0a\x05dtype" + b"\x12\x02\x30\x07"
    binary = inner(b"meta_graphs { graph_def { %s } }" % text, (2, 2, 1))
    assert binary == b"\x2a\x10" + attribute + b"\x0a\x01c"


def test_repeated_numbers_are_packed() -> None:
    """Numbers of one field that follow one another become one packed field, as protobuf writes."""
    assert tensor(b"int_val: 1 int_val: [2, 3] dtype: DT_INT32 int_val: 4") == (
        b"\x3a\x03\x01\x02\x03" + b"\x08\x03" + b"\x3a\x01\x04"
    )
    assert tensor(b"double_val: 1 bool_val: true") == (
        b"\x32\x08" + struct.pack("<d", 1) + b"\x5a\x01\x01"
    )


def test_repeated_strings_keep_their_order() -> None:
    """Each string of a tensor is a field of its own, the empty one too."""
    assert tensor(b'string_val: "b" string_val: ["", "a"]') == b"\x42\x01b\x42\x00\x42\x01a"


def test_any_keeps_the_asset() -> None:
    """The file name survives in the expanded form of an Any, and so does its type."""
    text = b"""meta_graphs { collection_def { key: "saved_model_assets" value { any_list { value {
        [type.googleapis.com/tensorflow.AssetFileDef] {
          tensor_info { name: "Const:0" dtype: DT_STRING } filename: "words.txt" }
    } } } } }"""
    url, asset = b"type.googleapis.com/tensorflow.AssetFileDef", b"\x0a\x0b"
    asset += b"\x0a\x07Const:0\x10\x07" + b"\x12\x09words.txt"
    assert inner(text, (2, 4, 2, 5, 1)) == b"\x0a\x2b" + url + b"\x12\x18" + asset


def test_any_of_another_type_keeps_its_name() -> None:
    """The content of an Any of a type that is not known here is left out."""
    text = b"""meta_graphs { collection_def { key: "x" value { any_list { value {
        [example.com/a.B]: < c: 1 [d.e] { } > } } } } }"""
    assert inner(text, (2, 4, 2, 5, 1)) == b"\x0a\x0fexample.com/a.B"


def test_any_in_its_plain_form() -> None:
    """An Any may also be written as its two fields."""
    text = b"""meta_graphs { collection_def { key: "x" value { any_list { value {
        type_url: "t/a.B" value: "\\001" } } } } }"""
    assert inner(text, (2, 4, 2, 5, 1)) == b"\x0a\x05t/a.B\x12\x01\x01"


def test_unknown_fields_are_left_out() -> None:
    """Fields that are not known may hold anything of the right syntax, nested as it may be."""
    text = b"""
        other: -1.5e3 other: inf 7: DT_STRING other: 'x' "y" [a.b.c]: 3 [a.b/c.d] { }
        other { deep < list: [1, "two", { three: [] }] > ; } other: [ { } , < > ]
        meta_graphs { other {} graph_def { node { name: "n" other: "x" } } }
    """
    assert converted(text) == b"\x12\x07\x12\x05\x0a\x03\x0a\x01n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "no meta_graphs in it, so this is not a SavedModel: nothing is in it"),
        (b" # nothing\n", "no meta_graphs in it, so this is not a SavedModel: nothing is in it"),
        (b"other: 1", "no meta_graphs in it, so this is not a SavedModel: it begins with 'other'"),
        (b'node { name: "n" }', "it begins with 'node' (as a GraphDef does)"),
        (b"the\nof\nand\n", "line 2: wanted ':' or '{' behind 'the', got 'of'"),
        (b"the", "line 1: wanted ':' or '{' behind 'the', got the end of the file"),
        (b"{}", "line 1: wanted the name of a field, got '{'"),
        (b"a-b: 1", "line 1: wanted the name of a field, got 'a-b'"),
        (b"a {\n}\n}", "line 3: wanted the name of a field, got '}'"),
        (b"a {\n>", "line 2: wanted the name of a field, got '>'"),
        (b"meta_graphs {\n graph_def {\n", "line 2: wanted '}', got the end of the file"),
        (b"a: [1", "line 1: wanted ',' or ']', got the end of the file"),
        (b"a: [1 2]", "line 1: wanted ',' or ']', got '2'"),
        (b"a: [[1]]", "line 1: wanted a value, got '['"),
        (b"a: }", "line 1: wanted a value, got '}'"),
        (b"[a.b", "line 1: wanted ']', got the end of the file"),
        (b"meta_graphs: 1", "line 1: wanted '{' of a MetaGraphDef, got '1'"),
        (ATTR % b"s {}", "line 1: wanted bytes, got '{'"),
        (ATTR % b"s 1", "line 1: wanted ':' or '{' behind 's', got '1'"),
        (ATTR % b"s: 1", "line 1: wanted a string, got '1'"),
        (ATTR % b"i: 'a'", "line 1: wanted int64, got \"'a'\""),
        (ATTR % b"i: 1.0", "line 1: wanted int64, got '1.0'"),
        (ATTR % b"i: 08", "line 1: wanted int64, got '08'"),
        (ATTR % b"i: 1_0", "line 1: wanted int64, got '1_0'"),
        (ATTR % b"i: 9223372036854775808", "wanted int64, got '9223372036854775808'"),
        (ATTR % (b"i: " + b"1" * 5000), "wanted int64, got '" + "1" * 40 + "'"),
        (TENSOR % b"int_val: 2147483648", "line 1: wanted int32, got '2147483648'"),
        (TENSOR % b"uint32_val: -1", "line 1: wanted uint32, got '-1'"),
        (TENSOR % b"uint64_val: -1", "line 1: wanted uint64, got '-1'"),
        (TENSOR % b"double_val: one", "line 1: wanted double, got 'one'"),
        (ATTR % b"f: 1_0", "line 1: wanted float, got '1_0'"),
        (ATTR % (b"f: " + b"1" * 401), "line 1: wanted float, got '" + "1" * 40 + "'"),
        (ATTR % b"b: yes", "line 1: wanted bool, got 'yes'"),
        (ATTR % b"type: DT_WORD", "line 1: wanted DataType, got 'DT_WORD'"),
        (ATTR % b"type: STRING", "line 1: wanted DataType, got 'STRING'"),
        (ATTR % b'\ns: "a\nb"', "line 2: a string does not end on its line"),
        (ATTR % b's: "a\\"', "line 1: a string does not end on its line"),
        (ATTR % rb's: "\d"', r"line 1: no such escape: '\\d' in a string"),
        (ATTR % rb's: "\400"', r"line 1: no such escape: '\\400' in a string"),
        (ATTR % rb's: "\ud800"', r"line 1: no such escape: '\\ud800' in a string"),
        (ATTR % rb's: "\U00110000"', r"line 1: no such escape: '\\U00110000' in a string"),
        (ATTR % rb's: "\u12"', r"line 1: no such escape: '\\u' in a string"),
        (b"a: 1\nb: $", "line 2: '$' stands where text format has nothing like it"),
        ("a: 1\nä: 1".encode(), r"line 2: '\xc3' stands where text format has nothing like it"),
        (b"\x08\x01\x12\x00", r"line 1: '\x08' stands where text format has nothing like it"),
        (b"a {" * 100, "line 1: more than 100 messages and lists inside one another"),
        (b"a { b: [{ c {\n" * 40, "line 25: more than 100 messages and lists inside one another"),
    ],
)
def test_errors(text: bytes, message: str) -> None:
    """What is wrong is said with the line, what was wanted and what stands there."""
    with pytest.raises(InvalidFile) as caught:
        converted(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_depth_that_is_allowed() -> None:
    """99 messages inside one another are read."""
    assert converted(b"a {" * 99 + b"}" * 99 + b"meta_graphs {}") == b"\x12\x00"


def test_a_file_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text beyond the limit is refused, also as one line."""
    monkeypatch.setattr(text_format, "MAX_FILE", 1 << 20)
    assert converted(b"meta_graphs {}".ljust(1 << 20)) == b"\x12\x00"
    for filler in (b" ", b"\n"):
        with pytest.raises(InvalidFile, match=r"^a text of more than 1 MB, which is not read$"):
            converted(b"meta_graphs {}" + filler * (1 << 20))


class Endless(io.BytesIO):
    """A file whose first line never ends."""

    def readline(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        assert size > 0, "the whole line would be read into memory"
        return b" " * size


def test_a_line_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than the limit is read from a line."""
    monkeypatch.setattr(text_format, "MAX_FILE", 1 << 20)
    with pytest.raises(InvalidFile, match="a text of more than 1 MB"):
        to_binary(Endless())


def test_the_file_is_read_from_its_beginning() -> None:
    """A file that was looked into before is read as a whole."""
    file = io.BytesIO(b"meta_graphs {}")
    file.read(7)
    assert to_binary(file) == b"\x12\x00"


TOKENS = [
    *(b"meta_graphs", b"graph_def", b"node", b"attr", b"value", b"s", b"i", b"other", b"tensor"),
    *(b"{", b"}", b"<", b">", b"[", b"]", b":", b",", b";", b"/", b"."),
    *(b"1", b"-1", b'"a"', b"'", b'"', b"\\", b"#", b"\n", b" ", b"\0", b"\xff", b"DT_INT64"),
]


@given(st.lists(st.sampled_from(TOKENS)).map(b" ".join) | st.binary())
def test_any_file_is_read_or_refused(text: bytes) -> None:
    """Whatever the file holds, the answer is a SavedModel or InvalidFile."""
    try:
        binary = converted(text)
    except InvalidFile:
        return
    assert list(wire.messages(binary, (0, len(binary)), 2))


@pytest.mark.parametrize(
    "text",
    [
        b"meta_graphs {}" + b" " * 1_000_000,
        b"meta_graphs {}" + b" \t" * 500_000 + b"#" * 1_000_000,
        ATTR % (b's: "' + b"\\\\" * 500_000 + b'"'),
        ATTR % (b"s: " + b'""' * 100_000),
        b"meta_graphs {} a: [" + b"b, " * 100_000 + b"b]",
        b"meta_graphs {} [" + b"a/" * 100_000 + b"]: 1",
    ],
    ids=["blanks", "comment", "backslashes", "empty strings", "list", "type URL"],
)
def test_long_runs_take_no_time(text: bytes) -> None:
    """Runs of one thing, which google.protobuf takes minutes or gigabytes for, are read."""
    assert converted(text).startswith(b"\x12")


def test_nothing_of_protobuf_is_imported() -> None:
    """The reader needs no protobuf library, so TensorFlow's own protos stay undisturbed."""
    source = Path(text_format.__file__).read_text(encoding="utf-8")
    assert "import google" not in source
    assert "from google" not in source


def pruned(message: Any, name: str) -> Any:
    """A message of TensorFlow without the fields that are left out here."""
    known = {key.decode(): field for key, field in text_format._fields(name).items()}
    for descriptor, value in message.ListFields():
        field = known.get(descriptor.name)
        if field is None:
            message.ClearField(descriptor.name)
        elif field.is_message and is_map(descriptor):
            kind = text_format._fields(field.kind)[b"value"].kind
            for entry in value.values() if kind != "bytes" else ():
                pruned(entry, kind)
        elif field.is_message:
            for entry in value if is_repeated(descriptor) else [value]:
                pruned(entry, field.kind)
    return message


def is_map(descriptor: Any) -> bool:
    return bool(descriptor.message_type and descriptor.message_type.GetOptions().map_entry)


def is_repeated(descriptor: Any) -> bool:
    if hasattr(descriptor, "is_repeated"):  # protobuf 6.30 and later
        return bool(descriptor.is_repeated)
    return bool(descriptor.label == descriptor.LABEL_REPEATED)


@pytest.fixture(scope="module")
def saved_model_pb2() -> Any:
    """TensorFlow's own definition of a SavedModel."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    pytest.importorskip("tensorflow", reason="the oracle is TensorFlow")
    from tensorflow.core.protobuf import saved_model_pb2

    return saved_model_pb2


KINDS = {1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 8: "bool", 9: "bytes"}
KINDS |= {12: "bytes", 13: "uint32", 14: "DataType"}  # numbers of FieldDescriptor.type


def fields_of(kind: str, descriptor: Any, seen: set[str]) -> Iterator[tuple[Any, Any]]:
    """Each field of the table beside TensorFlow's, message by message."""
    seen.add(kind)
    for name, field in text_format._fields(kind).items():
        theirs = descriptor.fields_by_name[name.decode()]
        yield field, theirs
        if field.is_message and field.kind not in seen:
            yield from fields_of(field.kind, theirs.message_type, seen)


def test_fields_are_those_of_tensorflow(saved_model_pb2: Any) -> None:
    """Every field has in TensorFlow the same number and kind, and is packed where it is."""
    seen: set[str] = set()
    for ours, theirs in fields_of("SavedModel", saved_model_pb2.SavedModel.DESCRIPTOR, seen):
        assert (theirs.full_name, ours.number) == (theirs.full_name, theirs.number)
        assert ours.is_message == (theirs.message_type is not None)
        if not ours.is_message:
            assert (theirs.full_name, ours.kind) == (theirs.full_name, KINDS[theirs.type])
            packed = is_repeated(theirs) and ours.kind != "bytes"
            assert (theirs.full_name, ours.packed) == (theirs.full_name, packed)
    assert seen == set(saved_model_schema.MESSAGES)


def test_data_types_are_those_of_tensorflow(saved_model_pb2: Any) -> None:
    """Every DataType of TensorFlow is known under its number."""
    from tensorflow.core.framework import types_pb2

    known = {name.decode(): number for name, number in saved_model_schema.DATA_TYPES.items()}
    theirs = dict(types_pb2.DataType.items())
    assert {name: known.get(name) for name in theirs} == theirs


WORDS = [b"the", "naïve".encode(), b"\xff\xfe", b"a\nb", b"", b'"quoted"', b"nul\0", b"\\", b"?"]


@pytest.fixture(scope="module")
def tf1_text(saved_model_pb2: Any, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A TF1 model as TensorFlow writes it in text, with a table, an asset and its collection."""
    import tensorflow as tf
    from tensorflow.python.ops import lookup_ops

    folder = tmp_path_factory.mktemp("tf1")
    (folder / "words.txt").write_bytes(b"the\nof\n")
    tf1 = tf.compat.v1
    with tf.Graph().as_default(), tf1.Session() as session:
        keys, values = tf.constant(WORDS), tf.range(len(WORDS), dtype=tf.int64)
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1)
        tf.identity(table.lookup(tf1.placeholder(tf.string, [None])), name="ids")
        lookup_ops.index_table_from_file(str(folder / "words.txt"))
        session.run(tf1.tables_initializer())
        builder = tf1.saved_model.Builder(str(folder / "model"))
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            assets_collection=tf1.get_collection(tf1.GraphKeys.ASSET_FILEPATHS),
            main_op=tf1.tables_initializer(),
        )
        builder.save(as_text=True)
    return (folder / "model" / "saved_model.pbtxt").read_bytes()


@pytest.fixture(scope="module")
def tf2_text(saved_model_pb2: Any, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A TF2 model with a table, an asset, a variable and functions, in text."""
    import tensorflow as tf
    from google.protobuf import text_format as protobuf

    folder = tmp_path_factory.mktemp("tf2")
    (folder / "words.txt").write_bytes(b"the\nof\n")
    module = tf.Module()
    pairs = tf.lookup.KeyValueTensorInitializer(
        tf.constant(WORDS), tf.range(len(WORDS), dtype=tf.int64)
    )
    file = tf.lookup.TextFileInitializer(str(folder / "words.txt"), "string", -2, "int64", -1)
    module.tables = [tf.lookup.StaticHashTable(pairs, -1), tf.lookup.StaticHashTable(file, -1)]
    module.words = tf.Variable(WORDS)
    signature = [tf.TensorSpec([None], tf.string)]
    module.ids = tf.function(lambda text: [t.lookup(text) for t in module.tables], signature)
    tf.saved_model.save(module, str(folder / "model"))
    binary = (folder / "model" / "saved_model.pb").read_bytes()
    text: str = protobuf.MessageToString(saved_model_pb2.SavedModel.FromString(binary))
    return text.encode()


def assert_same(text: bytes, saved_model_pb2: Any) -> Any:
    """TensorFlow reads from our bytes what it reads from the text; return its message."""
    from google.protobuf import text_format as protobuf

    expected = protobuf.Parse(text.decode(), saved_model_pb2.SavedModel())
    found = saved_model_pb2.SavedModel.FromString(converted(text))
    assert found == pruned(expected, "SavedModel")
    one_line = protobuf.MessageToString(expected, as_one_line=True).encode()
    assert saved_model_pb2.SavedModel.FromString(converted(one_line)) == found
    return found


def test_a_tf1_model_as_tensorflow_reads_it(tf1_text: bytes, saved_model_pb2: Any) -> None:
    """Table and asset of a TF1 model come through; the asset is named by a collection only."""
    found = assert_same(tf1_text, saved_model_pb2)
    graph = found.meta_graphs[0]
    constants = [node.attr["value"].tensor for node in graph.graph_def.node if node.op == "Const"]
    assert [list(c.string_val) for c in constants if len(c.string_val) > 1] == [WORDS]
    (asset,) = graph.collection_def["saved_model_assets"].any_list.value
    from tensorflow.core.protobuf import meta_graph_pb2

    definition = meta_graph_pb2.AssetFileDef()
    assert asset.Unpack(definition)
    assert definition.filename == "words.txt"


def test_a_tf2_model_as_tensorflow_reads_it(tf2_text: bytes, saved_model_pb2: Any) -> None:
    """Functions, object graph, bound inputs and asset of a TF2 model come through."""
    graph = assert_same(tf2_text, saved_model_pb2).meta_graphs[0]
    assert [asset.filename for asset in graph.asset_file_def] == ["words.txt"]
    functions = graph.object_graph_def.concrete_functions.values()
    assert any(len(function.bound_inputs) == 3 for function in functions)
    assert graph.graph_def.library.function
    assert {node.WhichOneof("kind") for node in graph.object_graph_def.nodes} >= {
        *("user_object", "asset", "resource", "constant", "variable", "function"),
    }
