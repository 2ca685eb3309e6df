"""``.keras`` archives that Keras 2 and 3 write here, against what Keras says after loading them.

Damaged and hostile archives are made with ``zipfile``; of the reader only the public verbs are
used.
"""

# own process: TensorFlow

from __future__ import annotations

import io
import json
import re
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import vocabtool
from tests.builders import saved_model_bytes as b
from tests.reader_checks import only, written
from vocabtool import InvalidFile, Unknown, UnsupportedFormat

Library = Any  # keras and tf_keras: what is used here has the same names in both
VERSIONS = {"keras": 3, "tf_keras": 2}


@pytest.fixture(params=list(VERSIONS))
def keras(request: pytest.FixtureRequest) -> Iterator[Library]:
    """Either version of Keras, quiet."""
    pytest.importorskip("tensorflow", reason="Keras' lookup layers are TensorFlow's")
    library = pytest.importorskip(request.param, reason="Keras writes the archives")
    from tests.builders.tensorflow_models import quiet

    with quiet():
        yield library


def lookups(model: Any) -> Iterator[Any]:
    """Every lookup layer of a loaded model, also in models inside it, each once."""
    seen: set[int] = set()
    for layer in model._flatten_layers():
        if hasattr(layer, "get_vocabulary") and id(layer) not in seen:
            seen |= {id(layer), id(getattr(layer, "_lookup_layer", layer))}
            yield layer


def load_archive(keras: Library, file: Path) -> Any:
    """The model in a ``.keras`` archive.

    tf_keras reads weights inside the archive, moving to and fro; Python 3.13.0 loses its way there.
    """
    in_place = zipfile.ZipFile.open

    def whole(archive: zipfile.ZipFile, *arguments: Any, **named: Any) -> io.BytesIO:
        with in_place(archive, *arguments, **named) as member:
            return io.BytesIO(member.read())

    with patch.object(zipfile.ZipFile, "open", whole):
        return keras.models.load_model(file)


def expected(keras: Library, file: Path) -> dict[str, list[str]]:
    """What Keras says of a saved archive: ``get_vocabulary()`` of each layer, by name."""
    loaded = load_archive(keras, file)
    return {layer.name: [str(e) for e in layer.get_vocabulary()] for layer in lookups(loaded)}


def found(file: Path) -> dict[str, list[str]]:
    """The same as we read it."""
    model = vocabtool.inspect(file)
    assert model.warnings == ()
    return {vocabulary.name: vocabulary.entries() for vocabulary in model.vocabularies}


LAYERS = (
    *("vectorization_adapted", "vectorization_list", "vectorization_multi_hot", "lookup_buckets"),
    *("lookup_inverse", "lookup_oov_token", "lookup_integers", "lookup_integers_buckets"),
    "lookup_file",
)


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, keras: Library, tmp_path: Path) -> None:
    """Entries, specials and unknown ids are as Keras loads them; Keras 2 leaves files outside."""
    from tests.builders import tensorflow_models as models

    words = tmp_path / "words.txt"
    words.write_text(models.lines(models.KERAS_LINES), "utf-8")
    layer = models.LAYERS[name](keras.layers, str(words))
    numbers = name in ("lookup_inverse", "lookup_integers", "lookup_integers_buckets")
    given = keras.Input((1,), dtype="int64" if numbers else "string")
    file = tmp_path / "model.keras"
    keras.Model(given, layer(given)).save(file)
    if (keras.__name__, name) == ("tf_keras", "lookup_file"):
        assert vocabtool.inspect(file).vocabularies == ()
        (warning,) = vocabtool.inspect(file).warnings
        assert warning.startswith("layer words (StringLookup): its words are not in the archive")
        return
    assert found(file) == expected(keras, file)
    if name in ("lookup_inverse", "vectorization_multi_hot"):
        return  # ids do not come out
    import tensorflow as tf

    unseen = tf.constant(models.UNSEEN_NUMBERS if numbers else models.UNSEEN)
    answers = load_archive(keras, file)(unseen[:, None])
    (vocabulary,) = vocabtool.vocabularies(file)
    assert vocabulary.unknown is not None
    assert (vocabulary.unknown.id, vocabulary.unknown.count) == models.span(answers.numpy())


def adapted(layer: Any, *words: str) -> Any:
    layer.adapt(list(words))
    return layer


def test_models_inside_models(keras: Library, tmp_path: Path) -> None:
    """Each file of words goes to its own layer, however deep, and a shared layer counts once."""
    layers = keras.layers

    def inner(name: str, *words: str) -> Any:
        """A Sequential with an adapted and a given vocabulary."""
        text = layers.TextVectorization(name=f"{name}_text", standardize=None, split=None)
        model = keras.Sequential(name=name)
        model.add(keras.Input((1,), dtype="string"))
        model.add(adapted(text, *words))
        model.add(layers.IntegerLookup(vocabulary=[3, 2], name=f"{name}_ids"))
        return model

    given = keras.Input((1,), dtype="string")
    shared = adapted(layers.StringLookup(name="shared"), "s1", "s2", "s1")
    nested = inner("first", "a", "b", "a")
    middle = keras.Sequential(name="middle")
    middle.add(keras.Input((1,), dtype="string"))
    middle.add(inner("second", "c", "d", "c", "e"))
    outputs = [
        adapted(layers.StringLookup(name="before", num_oov_indices=2), "x", "y", "x")(given),
        shared(given),
        nested(given),
        middle(given),
        adapted(layers.StringLookup(name="after", mask_token=""), "z", "z", "y")(given),
    ]
    file = tmp_path / "model.keras"
    keras.Model(given, outputs).save(file)
    wanted = expected(keras, file)
    assert len(wanted) == 7
    # The numbers of both inner models are one vocabulary, found twice.
    assert wanted.pop("second_ids") == wanted["first_ids"]
    got = found(file)
    assert {name.replace("second_ids", "first_ids"): words for name, words in got.items()} == wanted


def test_a_layer_that_the_configuration_does_not_describe(keras: Library, tmp_path: Path) -> None:
    """A model of one's own class says nothing of its layers: the file is shown as it is."""

    class Own(keras.Model):  # type: ignore[misc]  # Keras carries no types
        """A model whose configuration is empty."""

        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            self.reader = keras.layers.StringLookup()

        def call(self, texts: Any) -> Any:
            return self.reader(texts)

    import tensorflow as tf

    model = Own()
    model.reader.adapt(["b", "a", "b"])
    model(tf.constant([["a"]]))
    file = tmp_path / "model.keras"
    model.save(file)
    (vocabulary,) = vocabtool.vocabularies(file)
    assert vocabulary.tokens == model.reader.get_vocabulary()
    name = {"keras": "string_lookup", "tf_keras": "reader"}[keras.__name__]
    assert (vocabulary.name, vocabulary.kind) == (name, "asset")
    assert "the first entries may be mask and unknown entries" in vocabulary.notes[0]


HARD = (
    "The cat, the CAT! It's",
    "  a\tb\n c  ",
    "naïve Ünï 日本 x😀y",
    "",
    "the",
    "don't-stop (now) [UNK] \\ ^ _",
    "the cat sat",
)
RULES: dict[str, dict[str, Any]] = {
    "default": {},
    "bigrams": {"ngrams": 2},
    "widths": {"ngrams": (3, 1)},
    "characters": {"split": "character"},
    "characters in pairs": {"split": "character", "ngrams": (2,), "standardize": "lower"},
    "as it is": {"standardize": None},
    "punctuation only": {"standardize": "strip_punctuation"},
    "whole texts": {"split": None, "standardize": "lower"},
    "few": {"max_tokens": 6},
    "counts": {"output_mode": "count"},
}


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("case", RULES)
def test_text_vectorization(case: str, given: bool, keras: Library, tmp_path: Path) -> None:
    """The rule is in config.json: the words, one by one, have the ids that the layer gives."""
    import tensorflow as tf

    settings = RULES[case]
    layer = keras.layers.TextVectorization(**settings)
    layer.adapt([HARD[0], HARD[2], HARD[0], "a b c"])  # an entry with a line break has no file
    if given:
        entries = layer.get_vocabulary(include_special_tokens=False)
        layer = keras.layers.TextVectorization(**settings, vocabulary=entries)
    texts = keras.Input((1,), dtype="string")
    file = tmp_path / "model.keras"
    keras.Model(texts, layer(texts)).save(file)
    words = vocabtool.Words.of(file)
    assert (words.how, words.rule) == ("recovered", None)
    found = [[word["id"] for word in text] for text in words.split(HARD).to_pylist()]
    if case == "counts":
        counts = layer(tf.constant(HARD)[:, None]).numpy()
        wanted = [[int(row[at]) for at in range(len(row))] for row in counts]
        assert [[ids.count(at) for at in range(len(counts[0]))] for ids in found] == wanted
        return
    wanted = [[i for i in row if i] for row in layer(tf.constant(HARD)[:, None]).numpy().tolist()]
    assert [[i for i in ids if i] for ids in found] == wanted


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"standardize": {"class_name": "function", "config": "my_own", "module": "builtins"}},
            "its standardize is 'my_own', which vocabtool does not know",
        ),
        ({"split": "my>split"}, "its split is 'my>split', which vocabtool does not know"),
        ({"standardize": ["lower"]}, "its standardize is 'a list'"),
        ({"ngrams": 10**9}, "its ngrams is"),
        ({"ngrams": [10**9]}, "its ngrams is"),
        ({"ngrams": [64] * 64}, "its ngrams is"),  # 4,096 times the text
        ({"ngrams": {"class_name": "__tuple__", "items": ["2"]}}, "its ngrams is"),
        ({"ngrams": True}, "its ngrams is 'True'"),
    ],
)
def test_functions_are_refused(settings: dict[str, Any], message: str, file: Path) -> None:
    """What is no setting of Keras is named; the words are read all the same."""
    config = {"name": "text", "vocabulary": ["a"], **settings}
    layer = {"class_name": "TextVectorization", "config": config}
    archive(file, ("config.json", described([layer])))
    assert vocabtool.extract(file).tokens == ["a"]
    with pytest.raises(UnsupportedFormat, match=f"layer text: {re.escape(message)}"):
        vocabtool.Words.of(file)


def test_keras_hub(file: Path) -> None:
    """Tokenizers of keras-hub: entries and ids as stored, and no merge rule is a word."""
    ids = {"Ġ": 3, "h": 0, "e": 1, "<|endoftext|>": 4, "he": 2}
    merges = "#version: 0.2\nh e\n" + "a b\n" * 20
    pieces = ["[PAD]", "[UNK]", "un", "##want", "##ed"]
    folder = "assets/layers/byte_pair_tokenizer"
    archive(
        file,
        CONFIG,
        (f"{folder}/vocabulary.json", json.dumps(ids)),
        (f"{folder}/merges.txt", merges),
        ("assets/layers/preprocessor/tokenizer/vocabulary.txt", "\n".join(pieces)),
    )
    model = vocabtool.inspect(file)
    wordpiece, bpe = sorted(model.vocabularies, key=lambda each: each.kind == "bpe")
    assert {entry: bpe.id_of(entry) for entry in bpe} == ids
    assert (bpe.name, bpe.kind, bpe.marker) == ("byte_pair_tokenizer", "bpe", "Ġ")
    assert (wordpiece.tokens, wordpiece.kind, wordpiece.unknown) == (
        pieces,
        "wordpiece",
        Unknown(1),
    )
    assert [skipped.name for skipped in model.passed_over] == ["merges.txt"]
    assert model.complete


# Archives by hand.


def described(layers: Sequence[object]) -> str:
    """The configuration of a Sequential model."""
    return json.dumps({"class_name": "Sequential", "config": {"name": "m", "layers": layers}})


def lookup(name: str = "words", **config: object) -> dict[str, object]:
    return {"class_name": "StringLookup", "config": {"name": name, **config}}


ASSET = "assets/layers/string_lookup/vocabulary.txt"


def archive(file: Path, *members: tuple[str, str | bytes], **how: int) -> Path:
    """A zip of these members, in order; ``how`` as :class:`zipfile.ZipFile` takes it."""
    with zipfile.ZipFile(file, "w", **how) as opened:  # type: ignore[call-overload] # typeshed wants each keyword
        for name, data in members:
            opened.writestr(name, data)
    return file


def small(file: Path, words: str = "[UNK]\na\nb", **config: Any) -> Path:
    """An archive of one layer whose words are in an asset."""
    return archive(file, ("config.json", described([lookup(**config)])), (ASSET, words))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.keras"


@pytest.mark.parametrize(
    ("words", "config", "entries"),
    [
        ("[UNK]\na\nb", {}, ["a", "b"]),
        ("[UNK]\r\na\r\nb", {}, ["a", "b"]),  # written on Windows
        ("[UNK]\na\n\nb", {}, ["a", "", "b"]),
        ("\n[UNK]\na", {"mask_token": ""}, ["a"]),
        ("[UNK]\na", {"num_oov_indices": 10**6}, ["[UNK]", "a"]),
        ("[UNK]", {}, []),
    ],
)
def test_lines(words: str, config: dict[str, Any], entries: list[str], file: Path) -> None:
    """The layer's own entries are dropped from the front, empty lines from the end."""
    (vocabulary,) = vocabtool.vocabularies(small(file, words, **config))
    assert vocabulary.tokens == entries
    assert vocabulary.first_id == int("mask_token" in config) + int(
        str(config.get("num_oov_indices", 1))
    )


@pytest.mark.parametrize(
    ("vocabulary", "config", "entries"),
    [
        ({"class_name": "__tuple__", "items": ["a"]}, {}, ["a"]),
        ([{"class_name": "__bytes__", "value": "é"}, "b"], {}, ["é", "b"]),
        (["[UNK]"], {"num_oov_indices": 10**8}, ["[UNK]"]),
        *(
            (["[UNK]", "a"], {"output_mode": mode, "mask_token": ""}, ["a"])
            for mode in ("one_hot", "multi_hot", "count", "tf_idf", "binary", "tf-idf")
        ),
    ],
)
def test_a_given_vocabulary(
    vocabulary: Any, config: dict[str, Any], entries: list[str], file: Path
) -> None:
    """Words from the constructor are in the configuration, as Keras writes tuples and bytes."""
    archive(file, ("config.json", described([lookup(vocabulary=vocabulary, **config)])))
    assert vocabtool.extract(file).tokens == entries


def test_a_file_elsewhere_is_never_hidden(file: Path) -> None:
    """Words that are not in the archive are missed even where a namesake has its own."""
    inner = {"class_name": "Sequential", "config": {"layers": [lookup(vocabulary="/tmp/w.txt")]}}
    archive(file, ("config.json", described([lookup(vocabulary=["a"]), inner, inner])))
    model = vocabtool.inspect(file)
    assert [v.tokens for v in model.vocabularies] == [["a"]]
    (warning,) = model.warnings
    assert warning.startswith("layer words (StringLookup): its words are not in the archive")
    assert "/tmp" not in warning


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (b"{", "the configuration of 'config.json': not JSON"),
        (b"[]", "the configuration of 'config.json' is a list, wanted an object"),
        (b"[" * 200_000, "needs about 38 MB of memory, which is 200 times its size"),
        (described([lookup(vocabulary=[1])]).encode(), "entry 0 of the vocabulary of .* is a int"),
        (described([lookup(vocabulary=3)]).encode(), "vocabulary of .* is a int, wanted a list"),
        (described([lookup(num_oov_indices=-1)]).encode(), "is -1, wanted 0 or more"),
        (
            described([lookup(vocabulary=["a"], num_oov_indices=10**30)]).encode(),
            "layer words has 1,000,.* ids for unknown words, wanted",
        ),
    ],
)
def test_configurations_that_are_refused(config: bytes, message: str, file: Path) -> None:
    """A configuration that is not as Keras writes it is an error that names it."""
    with pytest.raises(InvalidFile, match=message) as caught:
        vocabtool.vocabularies(archive(file, ("config.json", config)))
    assert str(caught.value).startswith(str(file))


def rewritten(file: Path, old: bytes, new: bytes) -> Path:
    data = file.read_bytes()
    assert old in data
    file.write_bytes(data.replace(old, new))
    return file


def encrypted(file: Path) -> Path:
    """Set the flag of encryption in the headers of the first member."""
    data = bytearray(small(file).read_bytes())
    for magic, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(magic) + at] |= 1
    file.write_bytes(data)
    return file


def with_directory(file: Path, size: int) -> Path:
    """An archive whose end claims a directory of so many bytes."""
    data = bytearray(small(file).read_bytes())
    end = data.rfind(b"PK\x05\x06")
    filling = bytes(max(0, size - end))
    struct.pack_into("<II", data, end + 12, size, 0)
    file.write_bytes(bytes(data[:end]) + filling + bytes(data[end:]))
    return file


CONFIG = ("config.json", described([]))
REFUSED: dict[str, Callable[[Path], Path]] = {
    "config.json is encrypted": encrypted,
    "config.json is compressed by method 14": lambda file: archive(
        file, CONFIG, compression=zipfile.ZIP_LZMA
    ),
    "a zip archive without config.json": lambda file: archive(file, ("metadata.json", "{}")),
    "the path of the member '../../etc/x' leads out of the archive": lambda file: archive(
        file, CONFIG, ("../../etc/x", "a")
    ),
    "two members are named 'config.json'": lambda file: rewritten(
        archive(file, CONFIG, ("config.jsoN", "{}")), b"config.jsoN", b"config.json"
    ),
    "the zip archive is damaged at config.json: Bad CRC-32": lambda file: rewritten(
        archive(file, CONFIG), b"Sequential", b"Sequentiel"
    ),
    "10,001 members, wanted at most 10,000": lambda file: archive(
        file, CONFIG, *((f"x{n}", "") for n in range(10_000))
    ),
    "a zip directory of 3,145,728": lambda file: with_directory(file, 3 << 20),
}


@pytest.mark.parametrize("message", REFUSED)
def test_archives_that_are_refused(message: str, file: Path) -> None:
    """What zipfile reads without a word, and should not."""
    later = ("is encrypted", "by method 14")
    error = UnsupportedFormat if message.endswith(later) else InvalidFile
    with pytest.raises(error, match=message):
        vocabtool.vocabularies(REFUSED[message](file))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_nested_deeply(file: Path) -> None:
    """Models in models without end are read, and never recursed into."""
    config = lookup(vocabulary=["a"])
    for _ in range(300):
        config = {"class_name": "Sequential", "config": {"name": "m", "layers": [config]}}
    archive(file, ("config.json", json.dumps(config)))
    (vocabulary,) = vocabtool.vocabularies(file)
    assert vocabulary.tokens == ["a"]


def test_a_bomb(file: Path) -> None:
    """A member of a gigabyte in a megabyte is not unpacked further than its bound."""
    zeros = zipfile.ZipInfo(ASSET)
    zeros.compress_type = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(file, "w") as opened:
        opened.writestr("config.json", described([lookup()]))
        with opened.open(zeros, "w") as member:
            for _ in range(1 << 8):
                member.write(bytes(1 << 22))
    assert file.stat().st_size < 2 << 20
    tracemalloc.start()
    model = vocabtool.inspect(file)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    (warning,) = model.warnings
    assert "unpacks to more than 11,520,740 bytes" in warning
    assert peak < 64 << 20


def test_nothing_but_empty_lines(file: Path) -> None:
    """Lines cost more than their bytes: a file of empty ones is refused."""
    model = vocabtool.inspect(small(file, "\n" * 1000))
    assert model.vocabularies == ()
    assert model.warnings[0].startswith(f"{ASSET}: most lines of the file are empty")


def test_small_bombs_share_one_bound(file: Path) -> None:
    """Many small bombs are as bounded as one large."""
    words = "[UNK]\n" + "a" * (1 << 20)
    members = [(f"assets/layers/x_{n}/vocabulary.txt", words) for n in range(20)]
    archive(file, ("config.json", described([])), *members, compression=zipfile.ZIP_DEFLATED)
    model = vocabtool.inspect(file)
    assert 0 < len(model.warnings) < 20
    assert all("unpacks to more than" in warning for warning in model.warnings)


# Tokenizer.to_json().

TEXTS = ("The cat sat; the CAT, sat! On the mat.", "It's naïve:\tÉTÉ\x0bend\nthe the ΣΑΣ", "a  b-b")
ALPHABET = "ab A.É-ς\t\n\r\x0b\x1c\xa0'\\]^"
CASES: dict[str, dict[str, Any]] = {
    "default": {},
    "oov": {"oov_token": "<OOV>"},
    "oov that is a word": {"oov_token": "the"},
    "few words": {"num_words": 4, "oov_token": "<OOV>"},
    "case kept": {"lower": False},
    "no filters": {"filters": ""},
    "filters of a class": {"filters": "^]\\-a[é\0"},
    "split at several": {"split": "\\1 "},
    "characters": {"char_level": True, "oov_token": "?"},
}


def fitted(case: str) -> Any:
    text = pytest.importorskip("tf_keras", reason="the oracle is Keras itself").preprocessing.text
    made = text.Tokenizer(**CASES[case])
    made.fit_on_texts(TEXTS)
    return made


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_words(case: str, twice: bool, tmp_path: Path) -> None:
    """The words that it looks up, with their ids; in a file that was encoded twice, too."""
    made = fitted(case)
    told = made.to_json()
    vocabulary = only(tmp_path, json.dumps(told, ensure_ascii=False) if twice else told)
    end, oov = made.num_words or 1 << 60, made.oov_token
    wanted = {word: i for word, i in made.word_index.items() if i < end or word == oov}
    assert dict(zip(vocabulary, vocabulary.id_array().tolist(), strict=True)) == wanted
    assert vocabulary.unknown == (None if oov is None else Unknown(made.word_index[oov]))
    assert (vocabulary.kind, vocabulary.marker) == ("table", None)
    left = len(made.word_index) - len(wanted)
    note = f"num_words is 4: {left} words with higher ids are left out"
    assert (note in vocabulary.notes) == (made.num_words == 4)


@pytest.mark.parametrize("case", CASES)
@example([*TEXTS, "", " ", "Ünknown <OOV> oov", "a\0b. c"])
@given(st.lists(st.text(ALPHABET) | st.text(), min_size=1))
def test_sequences(case: str, texts: list[str]) -> None:
    """The ids that Keras gives, unknown words as it gives them or leaves them out."""
    made = fitted(case)
    with TemporaryDirectory() as folder:
        words = vocabtool.Words.of(written(Path(folder), made.to_json()))
    assert words.how == "recovered"
    found = [
        [word["id"] for word in text if made.oov_token is not None or word["known"]]
        for text in words.split(texts).to_pylist()
    ]
    assert found == made.texts_to_sequences(texts)


def test_known_and_unknown(tmp_path: Path) -> None:
    """Unknown is what has no id below num_words; the rule is told in plain words."""
    words = vocabtool.Words.of(written(tmp_path, fitted("few words").to_json()))
    assert words.unknown("The cat sat on Xapian!") == ["sat", "on", "xapian"]
    assert words.describe() == (
        "lower-case in every script",
        r"""replace every match of '[!"#$%&()*+,\-./:;<=>?@\[\\\]\^_`{|}~\t\n]' by ' '""",
        "split at each ' '",
        "drop empty strings",
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"word_index": "{"}, "not JSON: Expecting property name"),
        ({"word_index": "[1]"}, "word_index is a list, wanted an object"),
        ({"word_index": {"the": -1}}, "word_index: the id of 'the' is -1"),
        ({"word_index": '{"\\ud800": 1}'}, "a lone surrogate is not a character"),
        (
            {"word_index": {}, "num_words": "5"},
            "num_words is a text, wanted null or a whole number",
        ),
        ({"word_index": {}, "oov_token": 1}, "oov_token is a whole number, wanted a text"),
    ],
)
def test_damaged(config: dict[str, Any], message: str, tmp_path: Path) -> None:
    """What contradicts the format is named."""
    with pytest.raises(InvalidFile, match=message):
        only(tmp_path, {"class_name": "Tokenizer", "config": config})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"filters": ["ab"]}, "filters is a list, wanted a text"),
        ({"split": ""}, "split is empty, wanted a text to split at"),
        ({"split": "\ud800"}, "'split' has a lone surrogate"),
    ],
)
def test_settings_that_cut_no_text(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    """The words are there all the same, and the rule is refused."""
    file = written(tmp_path, {"config": {"word_index": {"the": 1}, **settings}})
    assert vocabtool.extract(file).tokens == ["the"]
    with pytest.raises(InvalidFile, match=message):
        vocabtool.Words.of(file)


# keras_metadata.pb of Keras 2; what is in a whole model is compared in test_models_tensorflow.py.

NO_WORDS = b.saved_model(b.graph(b.node(b"x", b"Placeholder")))
LAYER = {"class_name": "StringLookup", "config": {"name": "words"}}


def keras_node(path: str, metadata: Any) -> bytes:
    """One SavedObject: number, path, identifier and configuration."""
    described = metadata if isinstance(metadata, bytes) else json.dumps(metadata).encode()
    identifier = b.field(4, b"_tf_keras_layer")
    return b.field(1, b"\x10\x07" + b.field(3, path.encode()) + identifier + b.field(5, described))


def with_metadata(metadata: bytes) -> vocabtool.Model:
    """A model without words in its graph, and with such a ``keras_metadata.pb``."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "saved_model.pb").write_bytes(NO_WORDS)
        (Path(folder) / "keras_metadata.pb").write_bytes(metadata)
        return vocabtool.inspect(folder)


def metadata_warning(metadata: bytes) -> str:
    found = with_metadata(metadata)
    assert found.vocabularies == ()
    (told,) = found.warnings
    return told


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "contains no object: not a keras_metadata.pb, or truncated near its beginning"),
        (
            keras_node("a" * 4097, LAYER),
            r"a path has 4,097 bytes; wanted at most 4,096 \(at byte 3\)",
        ),
        (
            keras_node("root", b'["StringLookup"'),
            "configuration of 'root': not JSON: Expecting",
        ),
        (keras_node("root", b'"StringLookup\xff"'), "of 'root': JSON that is not UTF-8"),
        (
            keras_node("root", b'{"StringLookup": ' + b"[]," * 131_073),
            "of 'root': this JSON is not a",
        ),
    ],
)
def test_metadata_that_is_refused(data: bytes, message: str) -> None:
    """Damaged files, JSON that is none and JSON that would fill the memory are refused."""
    assert re.search(f"^keras_metadata.pb: .*{message}", metadata_warning(data))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"oov_token": "\ud800"}, "oov_token of .* has a lone surrogate"),
        ({"num_oov_indices": "1"}, "num_oov_indices of .* is a str, wanted int"),
    ],
)
def test_settings_in_metadata_that_are_refused(config: dict[str, Any], message: str) -> None:
    """A setting of a kind that Keras does not write is refused by name."""
    described = {"class_name": "StringLookup", "config": config}
    assert re.search(message, metadata_warning(keras_node("root.layer-0", described)))


@given(st.binary() | st.binary().map(lambda data: keras_node("root", b'{"StringLookup":' + data)))
def test_any_metadata_is_read_or_refused(data: bytes) -> None:
    """Whatever the bytes, the answer is layers or a warning."""
    assert len(with_metadata(data).warnings) <= 1
