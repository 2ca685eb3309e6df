"""The public ``Words`` and ``OovCounter`` on a real model with obvious words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vocabtool
from tests.conftest import ROOT
from vocabtool import OovCounter, Words
from vocabtool.errors import NotFound, NoVocabulary, VocabtoolError

MODEL = ROOT / "data" / "sentence_encoder"
FINGERPRINT = "196101afdd2a72c5c8e3ce77e24636d711e7f18ff468a234b5619c6eb008a21e"
TEXT = "I love to use Xapian!"
SPLIT = pa.list_(
    pa.struct(
        [("word", pa.binary()), ("id", pa.int64()), ("known", pa.bool_()), ("pieces", pa.int32())]
    )
)


@pytest.fixture(scope="module")
def words() -> Words:
    """The words of the model in data/."""
    return Words.of(MODEL)


@pytest.fixture(scope="module")
def vocabulary() -> frozenset[bytes]:
    """Its entries, as ``extract`` returns them."""
    return frozenset(vocabtool.extract(MODEL).stored)


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same entries as a list of words."""
    path = tmp_path_factory.mktemp("listed") / "words.parquet"
    vocabtool.save(vocabtool.extract(MODEL), path)
    return path


# Words


def test_what_a_model_tells(words: Words) -> None:
    """The vocabulary, and the rule in plain words."""
    assert (words.vocabulary.name, len(words.vocabulary)) == ("Embeddings_words", 2000)
    assert (words.how, words.others, words.notes) == ("recovered", (), ())
    assert words.describe() == (
        "lower-case (every script)",
        r"replace every match of '([^\pL\pM\pN_\s])' by ' \1 '",
        "split at whitespace",
    )
    # Indexes store it, so it must not change.
    assert words.fingerprint == FINGERPRINT


def test_split(words: Words) -> None:
    """Each text is a list of words with id and known."""
    found = words.split([TEXT, "", b"caf\xc3\xa9 \xff", "<UNK>"])
    assert found.type == SPLIT
    ids = [84, 1931, 16, 187, 0, 286]
    keys = [b"i", b"love", b"to", b"use", b"xapian", b"!"]
    row = [
        {"word": word, "id": number, "known": number != 0, "pieces": None}
        for word, number in zip(keys, ids, strict=True)
    ]
    unknown = {"id": 0, "known": False, "pieces": None}
    assert found.to_pylist()[:2] == [row, []]
    assert found.to_pylist()[2][0] == {"word": "café".encode(), **unknown}
    assert [word["word"] for word in found.to_pylist()[3]] == [b"<", b"unk", b">"]
    assert words.unknown(TEXT) == words.unknown(TEXT.encode()) == ["xapian"]
    assert words.look_up([TEXT]).ids.tolist() == ids


@given(st.lists(st.text(st.sampled_from("theI love.,!é \n\0日"), max_size=12), max_size=5))
def test_known_and_unknown_are_all_words(
    words: Words, vocabulary: frozenset[bytes], texts: list[str]
) -> None:
    """A word is known only if the vocabulary contains it; ids are the vocabulary's."""
    ids = dict(zip(words.vocabulary.stored, words.vocabulary.id_array().tolist(), strict=True))
    for text, row in zip(texts, words.split(texts).to_pylist(), strict=True):
        for word in row:
            assert word["known"] == (word["word"] in vocabulary)
            assert word["id"] == ids.get(word["word"], 0)
        missing = [word["word"].decode() for word in row if not word["known"]]
        assert words.unknown(text) == missing


def test_texts_of_every_kind(words: Words) -> None:
    """Lists, generators and Arrow arrays of any string type, sliced or chunked, are texts."""
    texts = ["I love", "xapian", "", "to use"]
    wanted = words.split(texts)
    array = pa.array(texts)
    for kind in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary()):
        assert words.split(array.cast(kind)).equals(wanted)
        assert words.split(array.cast(kind).slice(1)).to_pylist() == wanted.to_pylist()[1:]
    nul = pa.array(["Zyx", "I love\0", "To use"], pa.large_string())
    assert words.split(nul.slice(1)).to_pylist() == words.split(nul).to_pylist()[1:]
    assert words.split(iter(texts)).equals(wanted)
    assert words.split(tuple(text.encode() for text in texts)).equals(wanted)
    assert words.split(pa.chunked_array([array[:1], array[1:]])).equals(wanted)
    assert words.split([]).to_pylist() == []


def test_what_is_no_texts(words: Words) -> None:
    """A single text and a null are rejected."""
    for text in ("a text", b"a text"):
        with pytest.raises(TypeError, match="expected several texts, got one"):
            words.split(text)
    with pytest.raises(VocabtoolError, match="text is null"):
        words.split(pa.array(["a", None]))


def test_a_text_that_is_too_long(words: Words) -> None:
    """The limit and its message are those of files."""
    text = "a " * (4 << 20)
    assert len(words.look_up(["b", text]).codes) == 1 + (4 << 20)
    message = r"a text of 8,388,609 bytes \(allowed: 8,388,608; cut it into several documents\)"
    for look_up in (words.look_up, words.split, lambda texts: OovCounter(words).count([texts])):
        with pytest.raises(VocabtoolError, match=message):
            look_up(["b", text + "a"])


def test_a_list_of_words_and_a_rule(words: Words, listed: Path) -> None:
    """A list needs a rule; then it knows the same words as the model."""
    with pytest.raises(VocabtoolError, match=r"words\.\w+: .*--rule"):
        Words.of(listed)
    by_rule = Words.of(listed, rule="lower")
    assert (by_rule.how, by_rule.vocabulary) == ("named", words.vocabulary)
    assert by_rule.unknown("I love to use Xapian") == words.unknown("I love to use Xapian")
    assert by_rule.unknown(TEXT) == ["xapian!"]
    assert Words.of(MODEL, rule="lower").split([TEXT]).equals(by_rule.split([TEXT]))
    assert Words.of(str(listed), rule="keras").unknown(TEXT) == ["xapian"]


def test_errors() -> None:
    """Errors have the expected types."""
    with pytest.raises(NotFound, match="nowhere"):
        Words.of("nowhere")
    with pytest.raises(
        NoVocabulary, match=r"(?s)no words in a vocabulary named 'x'.*\n  Embeddings_words"
    ):
        Words.of(MODEL, name="x")


# OovCounter


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_counting_is_lazy(threads: int, words: Words) -> None:
    """Batches are read as they are counted, also from an endless stream that fails."""
    taken = 0

    def batches() -> Iterator[pa.StringArray]:
        nonlocal taken
        for _ in range(50):
            taken += 1
            yield pa.array(["love xapian"])
        raise KeyboardInterrupt

    counter = OovCounter(words)
    with pytest.raises(KeyboardInterrupt):
        counter.count(batches(), threads=threads)
    assert taken == 50
    counted = counter.report().documents
    assert taken - 2 * threads - 1 <= counted <= taken  # as far ahead as parallel_map takes
    with pytest.raises(VocabtoolError, match="null"):
        counter.count(iter([pa.array(["a"]), pa.array([None], pa.string())]), threads=threads)


# Words of real models.

# Expected steps, read from the graphs manually, or the unsupported op.
RULES: dict[str, tuple[str, ...] | str] = {
    "babyweight_estimate": ("drop empty strings",),
    "tfdf_adult_rf": (),
    "tftext_segmenter": ("split into characters", "replace every match of '\\s' by '[SPACE]'"),
    "tfx_taxi_tft": ("drop empty strings",),
    "serving_tftext": "its words are constants.* --rule tokenizer:FILE",
    "tfx_taxi_serving_tf1": "ParseExampleV2",
    "tfx_keras_serving": "it takes serialised tf.Examples, not texts; it contains no vocabulary",
    "use_lite_2": r"it takes ids, not texts \(inputs: .*use --rule tokenizer:.*spm.model$",
}


@pytest.mark.parametrize("name", RULES)
def test_rules_of_real_models(name: str, shared: Path) -> None:
    """The steps of the graph, or an error that names the op."""
    wanted = RULES[name]
    if isinstance(wanted, str):
        with pytest.raises(VocabtoolError, match=wanted):
            Words.of(shared / "models" / name)
    else:
        shown = Words.of(shared / "models" / name).describe()
        assert shown == (wanted or ("the whole text is one word",))


def test_the_words_of_use_lite_are_those_of_its_tokenizer(shared: Path) -> None:
    """A model that takes ids: with its tokenizer as the rule, pieces and unknown words."""
    model = shared / "models" / "use_lite_2"
    with pytest.raises(NoVocabulary, match="--rule"):
        Words.of(model)
    words = Words.of(model, rule=f"tokenizer:{model}/assets/universal_encoder_8k_spm.model")
    assert words.unknown("I love to use 日本 ☃") == ["日本", "☃"]
    assert words.pieces("Xapian") == ["▁X", "ap", "ian"]
