"""Lookup layers in ``keras_metadata.pb``, compared with the layers that tf_keras saved."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocabtool.errors import InvalidFile
from vocabtool.formats.keras_layers import MAX_CONTAINERS, MAX_ITEMS, MAX_KEYS, LookupLayer
from vocabtool.formats.saved_model.keras_metadata import read

LAYER: dict[str, Any] = {
    "class_name": "StringLookup",
    "config": {"name": "words", "vocabulary": ["the", "naïve"]},
}


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited field, written byte by byte."""
    length, count = b"", len(payload)
    while count > 127:
        length += bytes([count & 127 | 128])
        count >>= 7
    return bytes([number << 3 | 2]) + length + bytes([count]) + payload


def node(path: str, metadata: Any) -> bytes:
    """One SavedObject: number, path, identifier and configuration."""
    described = metadata if isinstance(metadata, bytes) else json.dumps(metadata).encode()
    return field(
        1,
        b"\x10\x07" + field(3, path.encode()) + field(4, b"_tf_keras_layer") + field(5, described),
    )


def only(data: bytes) -> LookupLayer:
    (layer,) = read(data)
    return layer


def layer(class_name: str, **config: Any) -> LookupLayer:
    """The layer that a file with nothing but this one describes."""
    return only(node("root.layer-0", {"class_name": class_name, "config": config}))


def model(*layers: Any) -> dict[str, Any]:
    """A Functional or Sequential model that holds these layers."""
    return {"class_name": "Functional", "config": {"name": "m", "layers": list(layers)}}


def test_a_layer_of_its_own() -> None:
    """A layer's node gives path, name, entries as UTF-8 and all that says what ids mean."""
    assert only(node("root.layer-1", LAYER)) == LookupLayer(
        path="root.layer-1",
        name="words",
        class_name="StringLookup",
        vocabulary=(b"the", "naïve".encode()),
        entry_type="text",
        mask_token=None,
        oov_token="[UNK]",
        num_oov_indices=1,
        output_mode="int",
    )


@pytest.mark.parametrize(
    ("class_name", "mask", "oov", "entry_type", "first_id"),
    [
        ("TextVectorization", "", "[UNK]", "text", 2),
        ("StringLookup", None, "[UNK]", "text", 1),
        ("IntegerLookup", None, -1, "integer", 1),
    ],
)
def test_defaults(
    class_name: str, mask: str | None, oov: str | int, entry_type: str, first_id: int
) -> None:
    """What a configuration leaves out is what the constructor takes by default."""
    found = layer(class_name)
    assert (found.mask_token, found.oov_token, found.entry_type) == (mask, oov, entry_type)
    assert (found.first_id, found.first_oov_id) == (first_id, first_id - 1)
    assert (found.vocabulary, found.name) == (None, "")


@pytest.mark.parametrize(
    ("written", "mode"),
    [
        *((mode, mode) for mode in ("one_hot", "multi_hot", "count", "tf_idf")),
        *(("binary", "multi_hot"), ("tf-idf", "tf_idf")),
    ],
)
@pytest.mark.parametrize("class_name", ["TextVectorization", "StringLookup"])
def test_other_modes_have_no_mask(class_name: str, written: str, mode: str) -> None:
    """Only the mode ``int`` gives id 0 to the mask; the old names of modes are understood."""
    config = {} if class_name == "TextVectorization" else {"mask_token": ""}
    found = layer(class_name, output_mode=written, **config)
    assert (found.output_mode, found.mask_token, found.first_id) == (mode, None, 1)


def test_ids_follow_mask_and_unknown() -> None:
    """The first entry's id is behind the mask and every unknown id."""
    found = layer("StringLookup", mask_token="", num_oov_indices=3)
    assert (found.first_oov_id, found.num_oov_indices, found.first_id) == (1, 3, 4)
    assert layer("StringLookup", num_oov_indices=0).first_id == 0


def test_old_names_of_tokens() -> None:
    """TF 2.3 called the tokens of IntegerLookup values."""
    found = layer("IntegerLookup", mask_value=0, oov_value=-2)
    assert (found.mask_token, found.oov_token) == (0, -2)


@pytest.mark.parametrize(
    ("class_name", "config", "vocabulary"),
    [
        (
            "IntegerLookup",
            {"vocabulary": [12, -7, 2**63 - 1]},
            (b"12", b"-7", b"9223372036854775807"),
        ),
        ("StringLookup", {"vocabulary": {"class_name": "__tuple__", "items": ["a"]}}, (b"a",)),
        (
            "StringLookup",
            {"vocabulary": [{"class_name": "__bytes__", "value": "é"}, "b"]},
            ("é".encode(), b"b"),
        ),
        ("StringLookup", {"vocabulary": []}, ()),
        ("StringLookup", {"vocabulary": ["[UNK]", "a"]}, (b"a",)),
        ("StringLookup", {"vocabulary": ["a", "[UNK]"]}, (b"a", b"[UNK]")),
        ("StringLookup", {"vocabulary": ["[UNK]", "a"], "num_oov_indices": 2}, (b"[UNK]", b"a")),
        ("StringLookup", {"vocabulary": ["[UNK]"], "num_oov_indices": 10**18}, (b"[UNK]",)),
        ("StringLookup", {"vocabulary": ["", "[UNK]", "a"], "mask_token": ""}, (b"a",)),
        ("StringLookup", {"vocabulary": ["", "a"], "mask_token": ""}, (b"", b"a")),
        ("TextVectorization", {"vocabulary": ["", "[UNK]", "a"]}, (b"a",)),
        ("TextVectorization", {"vocabulary": ["[UNK]", "a"]}, (b"[UNK]", b"a")),
        ("TextVectorization", {"vocabulary": ["[UNK]", "a"], "output_mode": "count"}, (b"a",)),
        ("IntegerLookup", {"vocabulary": [0, -1, 5], "mask_token": 0}, (b"5",)),
    ],
)
def test_vocabulary(class_name: str, config: dict[str, Any], vocabulary: tuple[bytes, ...]) -> None:
    """Entries are bytes, numbers decimal; mask and unknown at the front are not entries."""
    assert layer(class_name, **config).vocabulary == vocabulary


@given(st.lists(st.text(st.characters(codec="utf-8"))))
def test_words_round_trip(words: list[str]) -> None:
    """Any words come back as their UTF-8."""
    found = layer("StringLookup", vocabulary=words, num_oov_indices=0)
    assert found.vocabulary == tuple(word.encode() for word in words)


@pytest.mark.parametrize(
    "path", ["/home/somebody/data/words.txt", "C:\\data\\words.txt", "words.txt"]
)
def test_vocabulary_file(path: str) -> None:
    """Of a path on the training machine nothing is kept."""
    found = layer("StringLookup", vocabulary=path)
    assert found.vocabulary is None
    assert "words" not in repr(found)


def without_vocabulary(description: dict[str, Any]) -> dict[str, Any]:
    return {**description, "config": {**description["config"], "vocabulary": None}}


def test_the_parent_holds_the_words() -> None:
    """A layer whose own vocabulary is null takes it from the model around it, and is one layer."""
    data = node("root", model(LAYER)) + node("root.layer-1", without_vocabulary(LAYER))
    assert only(data) == only(node("root.layer-1", LAYER))
    data = node("root.layer-1", without_vocabulary(LAYER)) + node("root", model(LAYER))
    assert only(data) == only(node("root.layer-1", LAYER))


def test_the_second_description_of_a_model_takes_nothing_away() -> None:
    """``model_config`` repeats the layers without vocabulary, or as the only place with them."""
    for first, second in ((LAYER, without_vocabulary(LAYER)), (without_vocabulary(LAYER), LAYER)):
        root = model(first) | {"model_config": model(second)}
        data = node("root", root) + node("root.layer-1", without_vocabulary(LAYER))
        assert only(data).vocabulary == (b"the", "naïve".encode())


def test_a_layer_without_a_node() -> None:
    """A layer that only a model mentions is found there, once, with the path of the model."""
    found = only(node("root", model(LAYER) | {"model_config": model(without_vocabulary(LAYER))}))
    assert (found.path, found.name, found.vocabulary) == (
        "root",
        "words",
        (b"the", "naïve".encode()),
    )


def test_equal_names_in_two_models() -> None:
    """Layers of the same name in the models of a model keep their own vocabularies."""
    one, two = LAYER, {**LAYER, "config": {"name": "words", "vocabulary": ["x"]}}
    three = {**LAYER, "config": {"name": "words", "vocabulary": ["y"]}}
    data = b"".join(
        [
            node("root", model(model(one), model(two), three)),
            node("root.layer-0", model(one)),
            node("root.layer-1", model(two)),
            node("root.layer-0.layer-0", without_vocabulary(one)),
            node("root.layer-1.layer-0", without_vocabulary(two)),
            node("root.layer-2", without_vocabulary(three)),
        ]
    )
    assert {layer.path: layer.vocabulary for layer in read(data)} == {
        "root.layer-0.layer-0": (b"the", "naïve".encode()),
        "root.layer-1.layer-0": (b"x",),
        "root.layer-2": (b"y",),
    }


def test_the_lookup_inside_a_text_vectorization_is_the_same_layer() -> None:
    """The StringLookup that a TextVectorization holds is not reported beside it."""
    outer = {"class_name": "TextVectorization", "config": {"name": "tv"}}
    inner = {"class_name": "StringLookup", "config": {"name": "s", "vocabulary": ["a"]}}
    found = only(node("root.layer-0", outer) + node("root.layer-0._lookup_layer", inner))
    assert (found.path, found.name, found.vocabulary) == ("root.layer-0", "tv", (b"a",))
    assert only(node("root.layer-0._lookup_layer", inner)).name == "s"


def test_names_are_safe_to_show() -> None:
    """Control characters in names and paths are escaped."""
    found = only(node("root.\x1b", {**LAYER, "config": {"name": "a\nb"}}))
    assert (found.path, found.name) == ("root.\\x1b", "a\\nb")


def test_other_layers_are_passed_over() -> None:
    """A file without lookup layers holds none; what the others say is not even parsed."""
    dense = {"class_name": "Dense", "config": {"name": "StringLookup"}}
    assert read(node("root", dense) + node("root.layer-0", b"{not JSON")) == ()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no object in it: not a keras_metadata.pb, or cut off at its beginning"),
        (b"\x08\x01\x12\x00", "no object in it: not a keras_metadata.pb"),
        (b"\x0a\x05\x1a", r"field 1 runs 4 bytes past the end of its message \(at byte 2\)"),
        (node("a" * 4097, LAYER), r"a path of 4,097 bytes, wanted 4,096 at most \(at byte 3\)"),
        (node("root", b'["StringLookup"'), "the configuration of 'root' is not JSON: Expecting"),
        (node("root", b'"StringLookup\xff"'), "of 'root' is not JSON: 'utf-8' codec can't decode"),
        (
            node("root", b'["StringLookup"]'),
            "the configuration of 'root' is a list, wanted an object",
        ),
        (
            node("root", b'{"StringLookup": ' + b"[" * 100_000),
            "the configuration of 'root' is not JSON: maximum recursion depth",
        ),
        (
            node("root", b'{"StringLookup": ' + b"[]," * (MAX_CONTAINERS + 1)),
            "the configuration of 'root' has 131,074 lists and objects",
        ),
        (
            node("root", b'{"StringLookup": {' + b'"":0,' * (MAX_KEYS + 1)),
            "the configuration of 'root' has 2 lists and objects, 524,290 keys",
        ),
        (
            node("root", b'{"StringLookup": [' + b"1," * (MAX_ITEMS + 1)),
            "the configuration of 'root' has 2 lists .* and 1,048,577 items, wanted at most",
        ),
        (
            node("root", b'{"StringLookup": ' + b"1" * 5000 + b"}"),
            "the configuration of 'root' is not JSON: Exceeds the limit",
        ),
    ],
)
def test_files_that_are_refused(data: bytes, message: str) -> None:
    """Damaged files, JSON that is none and JSON that would fill the memory are refused."""
    with pytest.raises(InvalidFile, match=message):
        read(data)


@pytest.mark.parametrize(
    ("class_name", "config", "message"),
    [
        ("StringLookup", {"oov_token": "\ud800"}, "oov_token of .* holds half a surrogate pair"),
        ("StringLookup", {"name": 1}, "name of 'root.layer-0' is a int, wanted str"),
        ("StringLookup", {"mask_token": []}, "mask_token of 'root.layer-0' is a list, wanted str"),
        ("StringLookup", {"oov_token": True}, "oov_token of 'root.layer-0' is a bool, wanted str"),
        ("StringLookup", {"num_oov_indices": "1"}, "num_oov_indices of .* is a str, wanted int"),
        ("StringLookup", {"num_oov_indices": -1}, "num_oov_indices of .* is -1, wanted 0 or more"),
        ("StringLookup", {"output_mode": {}}, "output_mode of .* is a dict, wanted str"),
        ("StringLookup", {"vocabulary": 3}, "vocabulary of .* is a int, wanted a list"),
        ("StringLookup", {"vocabulary": {"a": 1}}, "vocabulary of .* is a dict, wanted a list"),
        (
            "StringLookup",
            {"vocabulary": ["a", 1]},
            "entry 1 of the vocabulary of 'root.layer-0' is a int, wanted text",
        ),
        ("StringLookup", {"vocabulary": ["\ud800"]}, "entry 0 of .* is a str, wanted text"),
        (
            "StringLookup",
            {"vocabulary": [{"class_name": "__bytes__"}]},
            "is a NoneType, wanted text",
        ),
        ("IntegerLookup", {"vocabulary": [1, "2"]}, "entry 1 of .* is a str, wanted integer"),
        ("IntegerLookup", {"vocabulary": [True]}, "entry 0 of .* is a bool, wanted integer"),
        ("IntegerLookup", {"vocabulary": [1.5]}, "entry 0 of .* is a float, wanted integer"),
    ],
)
def test_configurations_that_are_refused(
    class_name: str, config: dict[str, Any], message: str
) -> None:
    """A setting of a kind that Keras does not write is refused by name."""
    with pytest.raises(InvalidFile, match=message):
        layer(class_name, **config)


@given(st.binary() | st.binary().map(lambda data: node("root", b'{"StringLookup":' + data)))
def test_any_file_is_read_or_refused(data: bytes) -> None:
    """Whatever the bytes, the answer is layers or InvalidFile."""
    try:
        layers = read(data)
    except InvalidFile:
        return
    assert isinstance(layers, tuple)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=3)
    | st.sampled_from(["__tuple__"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["class_name", "config", "name", "vocabulary", "items", "layers", "model_config"]
            ),
            inner | st.sampled_from(["StringLookup", "TextVectorization", "IntegerLookup"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["class_name", "config", "model_config"]), JSON))
def test_any_configuration_is_read_or_refused(metadata: Any) -> None:
    """Whatever the configuration, the answer is layers or InvalidFile."""
    try:
        layers = read(node("root", metadata | {"StringLookup": 0}))
    except InvalidFile:
        return
    assert isinstance(layers, tuple)


@pytest.fixture(scope="module")
def saved(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[dict[str, Any], dict[str, LookupLayer]]:
    """Layers of tf_keras by name, and what is read of the model that they were saved with."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    tf = pytest.importorskip("tensorflow", reason="the oracle is tf_keras")
    keras = pytest.importorskip("tf_keras", reason="the oracle is tf_keras")
    folder: Path = tmp_path_factory.mktemp("keras")
    (folder / "words.txt").write_text("the\nof\n")
    text, number = keras.Input((1,), dtype=tf.string), keras.Input((1,), dtype=tf.int64)
    vectorization, strings = keras.layers.TextVectorization, keras.layers.StringLookup
    integers = keras.layers.IntegerLookup
    of_text = [
        vectorization(vocabulary=["a", "naïve"], name="tv"),
        vectorization(vocabulary=["", "[UNK]", "a"], name="tv_specials"),
        vectorization(vocabulary=["[UNK]", "a"], output_mode="count", name="tv_count"),
        vectorization(vocabulary=["a"], output_mode="multi_hot", name="tv_multi_hot"),
        strings(vocabulary=["a", "b"], name="sl"),
        strings(vocabulary=("a", "b"), mask_token="", name="sl_tuple"),
        strings(vocabulary=[b"a", b"b"], num_oov_indices=0, name="sl_bytes"),
        strings(
            vocabulary=["", "[UNK]", "[UNK]", "a"], mask_token="", num_oov_indices=2, name="sl_2"
        ),
        strings(vocabulary=["a"], mask_token="", output_mode="multi_hot", name="sl_hot"),
        strings(vocabulary=str(folder / "words.txt"), name="sl_file"),
    ]
    of_numbers = [
        integers(vocabulary=[12, -7], name="il"),
        integers(vocabulary=[0, -1, 5], mask_token=0, name="il_specials"),
        integers(vocabulary=[5, 7], invert=True, name="il_inverse"),
    ]
    adapted = vectorization(name="adapted")
    adapted.adapt(["the quick brown fox"])
    of_text.append(adapted)
    outputs = [made(text) for made in of_text] + [made(number) for made in of_numbers]
    model = keras.Model([text, number], outputs)
    model.save(folder / "model", save_format="tf")
    found = read((folder / "model" / "keras_metadata.pb").read_bytes())
    assert len({layer.name for layer in found}) == len(found)
    return {layer.name: layer for layer in model.layers}, {layer.name: layer for layer in found}


def ids_and_entries(layer: LookupLayer) -> list[Any]:
    """Keras' ``get_vocabulary()``, made of what was read."""
    specials: list[Any] = [] if layer.mask_token is None else [layer.mask_token]
    specials += [layer.oov_token] * layer.num_oov_indices
    convert = int if layer.entry_type == "integer" else bytes.decode
    return specials + [convert(entry) for entry in layer.vocabulary or ()]


def test_layers_as_keras_has_them(saved: tuple[dict[str, Any], dict[str, LookupLayer]]) -> None:
    """Each layer's entries, in id order with the specials, are Keras' own vocabulary."""
    made, found = saved
    assert found.keys() == {name for name in made if not name.startswith("input")}
    without = {"adapted", "sl_file"}
    for name in found.keys() - without:
        assert (name, ids_and_entries(found[name])) == (name, list(made[name].get_vocabulary()))
    assert found["sl_file"].vocabulary is None
    assert found["adapted"].vocabulary is None
    assert [found[name].first_id for name in without] == [
        len(made[name].get_vocabulary())
        - len(made[name].get_vocabulary(include_special_tokens=False))
        for name in without
    ]


def test_paths_are_those_of_the_object_graph(
    saved: tuple[dict[str, Any], dict[str, LookupLayer]],
) -> None:
    """A path names the attribute by which the saved model holds the layer."""
    made, found = saved
    attributes = {name: f"root.layer-{position}" for position, name in enumerate(made)}
    attributes["adapted"] = "root.layer_with_weights-0"  # as Keras counts what it can restore
    assert {name: layer.path for name, layer in found.items()} == {
        name: attributes[name] for name in found
    }
