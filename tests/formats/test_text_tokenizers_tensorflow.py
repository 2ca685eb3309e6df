"""TensorFlow Text's own buffers: the pieces read from them are those that it returns."""

# own process: TensorFlow

from __future__ import annotations

import os
import random
import struct
import warnings
from collections.abc import Sequence

import pytest

from tests.formats.test_sentencepiece import OPTIONS
from tests.formats.test_text_tokenizers import (
    SENTENCEPIECE_OP,
    WORDPIECE_OP,
    buffer_of,
    read,
    unknown_id,
)
from tests.tokenization.test_sentencepiece_words import train
from vocabtool import Vocabulary
from vocabtool.formats import wire

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
INSTALL = "the oracle: pip install '.[dev]'"
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # TensorFlow's own deprecations
    tf = pytest.importorskip("tensorflow", reason=INSTALL)
    text = pytest.importorskip("tensorflow_text", reason=INSTALL)
sentencepiece = pytest.importorskip("sentencepiece", reason=INSTALL)

PYBINDS = "tensorflow_text.core.pybinds.pywrap_"
wordpiece_builder = pytest.importorskip(
    f"{PYBINDS}fast_wordpiece_tokenizer_model_builder", reason=INSTALL
)
model_converter = pytest.importorskip(f"{PYBINDS}model_converter", reason=INSTALL)

LETTERS = "abcdefghijklmnopqrstuvwxyzéïß日本語"
PUNCTUATION = frozenset("[]!#日本語<>")  # what TensorFlow Text splits at, of what is used here
WORDS = (
    *("[PAD]", "[UNK]", "the", "great", "##est", "##ly", "they", "'", "##re", "re", "naïve", "日"),
)


def ids_and_entries(vocabulary: Vocabulary) -> dict[int, str]:
    ids = vocabulary.id_array().tolist()
    return dict(zip(ids, (entry.decode() for entry in vocabulary.stored), strict=True))


def wordpiece_buffer(
    words: Sequence[str], suffix: str = "##", end_to_end: bool = True, listed: bool = False
) -> bytes:
    """Let TensorFlow Text compile a vocabulary; ``listed``: its words are kept too."""
    buffer: bytes = wordpiece_builder.build_fast_wordpiece_model(
        list(words), 100, suffix, "[UNK]", not end_to_end, listed
    )
    return buffer


def sentencepiece_buffer(model: bytes) -> bytes:
    buffer: bytes = model_converter.convert_sentencepiece_model(model)
    return buffer


def words_of(seed: int, suffix: str, count: int = 3000) -> list[str]:
    """A vocabulary with all that is special in it, and many random words."""
    dice = random.Random(seed)
    words = dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", suffix, "!", "#", f"{suffix}#", f"{suffix}!"])
    while len(words) < count:
        word = "".join(dice.choices(LETTERS, k=dice.randint(1, 9)))
        words[word if dice.random() < 0.7 else suffix + word] = None
    return list(words)


def can_be_produced(word: str, suffix: str) -> bool:
    """Whether a tokenizer that splits at punctuation can return a word."""
    is_suffix = word.startswith(suffix) and word != suffix
    rest = word.removeprefix(suffix) if is_suffix else word
    return not PUNCTUATION & set(rest) or (len(rest) == 1 and not is_suffix)


@pytest.mark.parametrize("suffix", ["##", "<suf>", "foo#", "日本"])
@pytest.mark.parametrize(("end_to_end", "listed"), [(False, False), (False, True), (True, True)])
def test_whole_wordpiece_vocabulary(suffix: str, end_to_end: bool, listed: bool) -> None:
    """A tokenizer of single words, or one that can detokenize, holds its whole vocabulary."""
    words = words_of(1, suffix)
    found = read(WORDPIECE_OP, wordpiece_buffer(words, suffix, end_to_end, listed))
    assert ids_and_entries(found) == dict(enumerate(words))
    assert (found.first_id, found.ids) == (0, None)
    assert unknown_id(found) == 1


@pytest.mark.parametrize("suffix", ["##", "<suf>", "foo#", "日本"])
def test_wordpieces_that_can_be_produced(suffix: str) -> None:
    """A tokenizer that splits text by itself holds all that it can return, and two more.

    These are the unknown token and the indicator, which have fields of their own.
    """
    words = words_of(2, suffix)
    found = ids_and_entries(read(WORDPIECE_OP, wordpiece_buffer(words, suffix)))
    assert found == {
        id_: word
        for id_, word in enumerate(words)
        if can_be_produced(word, suffix) or word in ("[UNK]", suffix)
    }


def test_indicator_cut_in_two() -> None:
    """BERT has "#" and "###" but no "##": the id of "###" is not taken for that of "##"."""
    words = ("[PAD]", "[UNK]", "a", "##b", "#", "###")
    found = ids_and_entries(read(WORDPIECE_OP, wordpiece_buffer(words)))
    assert found == {1: "[UNK]", 2: "a", 3: "##b", 4: "#", 5: "###"}


def test_no_indicator() -> None:
    """Without an indicator there are no suffixes; the empty word alone is missing."""
    words = words_of(3, "")
    found = read(WORDPIECE_OP, wordpiece_buffer(words, "", end_to_end=False))
    assert ids_and_entries(found) == {id_: word for id_, word in enumerate(words) if word}
    assert found.notes[-1] == (
        f"ids not in the buffer: 1 ({words.index('')}), pieces that can never be produced"
    )


@pytest.mark.parametrize("listed", [False, True])
def test_wordpieces_as_returned(listed: bool) -> None:
    """The tokenizer gives text the ids of the buffer, and the unknown id to all else."""
    tokenizer = text.FastWordpieceTokenizer(
        list(WORDS), token_out_type=tf.int32, support_detokenization=listed
    )
    found = read(WORDPIECE_OP, wordpiece_buffer(WORDS, listed=listed))
    entries = ids_and_entries(found)
    returned = tokenizer.tokenize("they'they the greatestly re naïve日there").numpy().tolist()
    assert [entries[id_] for id_ in returned] == [
        *("they", "'", "they", "the", "great", "##est", "##ly", "re", "naïve", "日", "the", "##re")
    ]
    assert tokenizer.tokenize("xyz!").numpy().tolist() == [unknown_id(found)] * 2


@pytest.mark.parametrize("name", ["unigram", "symbols", "other ids"])
def test_sentencepieces(name: str) -> None:
    """The buffer holds the pieces of its model under their ids, but for unknown and control."""
    model = train(**OPTIONS[name])
    found = read(SENTENCEPIECE_OP, sentencepiece_buffer(model))
    owner = sentencepiece.SentencePieceProcessor(model_proto=model)
    assert ids_and_entries(found) == {
        id_: owner.id_to_piece(id_)
        for id_ in range(owner.get_piece_size())
        if not owner.is_control(id_) and not owner.is_unknown(id_)
    }
    assert unknown_id(found) == owner.unk_id()


def shifted(buffer: bytes, offset: int) -> bytes:
    """Write an encoder's buffer again, to shift the ids."""
    old = wire.flatbuffer_root(buffer)
    (penalty,) = struct.unpack("<i", struct.pack("<f", -100.0))
    trie, scores = {0: old.table(6).vector(0, "<u4")}, old.vector(7, "<f4")
    numbers = {3: old.integer(3, -1), 4: penalty, 5: offset, 8: 1, 9: 1, 10: 1}
    return buffer_of({**numbers, 6: trie, 7: scores})


def test_shifted_sentencepieces_as_returned() -> None:
    """An offset moves every id that the tokenizer returns, but not the unknown id."""
    model = train()
    buffer = shifted(sentencepiece_buffer(model), 1000)
    tokenizer = text.FastSentencepieceTokenizer(model)
    tokenizer._converted_model = tf.constant(list(buffer), tf.uint8)
    found = read(SENTENCEPIECE_OP, buffer)
    entries = ids_and_entries(found)
    owner = sentencepiece.SentencePieceProcessor(model_proto=model)
    for sentence in ("alpha gamma running", "beta ☃ is naïve", "日本語 alpha"):
        returned = tokenizer.tokenize(sentence).numpy().tolist()
        ids = owner.encode(sentence)
        assert returned == [0 if id_ == owner.unk_id() else id_ + 1000 for id_ in ids]
        assert [entries.get(id_, "<unk>") for id_ in returned] == owner.id_to_piece(ids)
    assert unknown_id(found) == 0
    assert found.notes[-1] == "ids are shifted by 1000"
