"""tiktoken's ranks, SentencePiece models in a file of their own, and plain lists of words."""

from __future__ import annotations

import base64
import random
from pathlib import Path

import pytest

import vocabtool
from tests.reader_checks import ids_and_entries, written
from tests.reader_checks import reason as why
from vocabtool import Place, Unknown, Vocabulary
from vocabtool.errors import InvalidFile, UnsupportedFormat


def ranks(tokens: dict[bytes, int]) -> bytes:
    """A file of ranks as openai/tiktoken writes it (dump_tiktoken_bpe)."""
    lines = (base64.b64encode(token) + b" %d\n" % rank for token, rank in tokens.items())
    return b"".join(lines)


def pairs(vocabulary: Vocabulary) -> list[tuple[bytes, int]]:
    return [(entry, number) for number, entry in ids_and_entries(vocabulary)]


def test_ranks_as_tiktoken_reads_them(tmp_path: Path) -> None:
    """Random tokens in any order, with gaps between ranks: what tiktoken loads, by rank."""
    load = pytest.importorskip("tiktoken.load", reason="the oracle is tiktoken itself")
    rng = random.Random(7)
    tokens = {bytes([byte]): byte for byte in range(256)}
    while len(tokens) < 5_000:
        tokens.setdefault(rng.randbytes(rng.randrange(1, 40)), 2 * len(tokens) + 7)
    shuffled = list(tokens.items())
    rng.shuffle(shuffled)
    vocabulary = read_words(tmp_path, ranks(dict(shuffled)), "tokenizer.model")
    loaded = load.load_tiktoken_bpe(str(tmp_path / "tokenizer.model"))
    assert pairs(vocabulary) == sorted(loaded.items(), key=lambda pair: pair[1])
    assert (vocabulary.kind, vocabulary.marker, vocabulary.unknown) == ("bpe", " ", None)
    assert vocabulary.places == (Place("tokenizer.model", "whole file"),)
    assert vocabulary.notes == (
        "byte-level BPE of tiktoken; special tokens are not in this file",
        "every single byte is a token, so no text is unknown",
    )


@pytest.mark.parametrize(
    "data",
    [
        b"IQ== 0\nIg== 1\n= 2\n",
        b"= 1\nIQ== 0\n",
        b"dGhl 3\nIGE= 0\n== 9",
        b"IQ== 0\r\nIg== 1\r\n\r\n",
        b"IQ== 0\nIg== 1\n\n\n",
    ],
)
def test_empty_tokens_and_lines(tmp_path: Path, data: bytes) -> None:
    """A token of nothing but padding is empty, and blank lines at the end are none, as there."""
    load = pytest.importorskip("tiktoken.load", reason="the oracle is tiktoken itself")
    file = written(tmp_path, data, "tokenizer.model")
    loaded = load.load_tiktoken_bpe(str(file))
    vocabulary = vocabtool.extract(file)
    assert pairs(vocabulary) == sorted(loaded.items(), key=lambda pair: pair[1])
    assert ("empty tokens: 1" in vocabulary.notes) == (b"" in loaded)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b" 1", "line 9,001 has no token"),
        (b"I!== 1", "line 9,001: wanted base64, got 'I!==': "),
        (b"Ig== x", "line 9,001 is b'x', wanted a whole number"),
        (b"Ig== -1", "ranks from -1 to 9,001, wanted 0 to 4,294,967,295"),
        (b"Ig== 1 x", "9,003 spaces in 9,002 lines: wanted one in each line"),
        (b"Ig==", "line 9,001 has 1 columns, wanted at least 2"),
        (b"Ig== 17", "two tokens have rank 17"),
    ],
)
def test_damaged_ranks(tmp_path: Path, line: bytes, message: str) -> None:
    """A line that is wrong behind what recognition looks at is told with its number."""
    data = ranks({b"%d" % rank if rank else b"!": rank for rank in range(9_000)})
    data += line + b"\nIyM= 9001\n"
    with pytest.raises(InvalidFile) as caught:
        read_words(tmp_path, data)
    assert message in str(caught.value)


def read_words(tmp_path: Path, data: bytes, name: str = "words.txt") -> Vocabulary:
    path = written(tmp_path, data, name)
    (vocabulary,) = vocabtool.inspect(path).vocabularies
    return vocabulary


def test_vocab_txt(tmp_path: Path) -> None:
    """BERT's file as Hugging Face's tokenizers reads it: every line is a token, with its id."""
    import tokenizers

    tokens = [
        *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "!", "the", "##s", "naïve", "日", "##日")
    ]
    data = "".join(f"{token}\n" for token in tokens).encode()
    vocabulary = read_words(tmp_path, data, "vocab.txt")
    loaded = tokenizers.models.WordPiece.read_file(str(tmp_path / "vocab.txt"))
    assert dict(zip(vocabulary, vocabulary.id_array().tolist(), strict=True)) == loaded
    assert list(vocabulary) == tokens
    assert (vocabulary.kind, vocabulary.marker) == ("wordpiece", "##")
    assert vocabulary.unknown == Unknown(1)
    assert vocabulary.places == (Place("vocab.txt", "whole lines"),)
    assert vocabulary.notes == (
        "[UNK] is treated as the unknown entry because of its name",
        "the pieces seem to be marked with '##'",
    )


def test_word_list(tmp_path: Path) -> None:
    """Nothing is stripped and nothing but newlines ends a line."""
    words = [b"the", b" of", b"to ", b"\xff\xfe", "\u2028".encode(), "\x85".encode(), b"a\rb", b""]
    vocabulary = read_words(tmp_path, b"\n".join([*words, b"the"]))
    assert list(vocabulary.stored) == [*words, b"the"]
    assert (vocabulary.kind, vocabulary.unknown) == ("list", None)
    assert vocabulary.duplicates == 1
    assert "1 blank lines, kept as entries" in vocabulary.notes


@pytest.mark.parametrize(
    ("data", "unknown", "marker", "note"),
    [
        ("<unk>\n▁the\n▁of\n", 0, "▁", "<unk> is treated as the unknown entry because of its name"),
        ("the\n<UNK>\n", 1, None, "<UNK> is treated as the unknown entry because of its name"),
        ("the\n##s\n", None, "##", "the pieces seem to be marked with '##'"),
        ("class 0\nclass 1\nNew York\n", None, None, "3 lines contain spaces: phrases rather"),
        ("the\t5\nof\t4\nto\n", None, None, "2 lines contain tabs: columns are not split"),
        (
            "C:\\x41\nof\n",
            None,
            None,
            "1 lines look backslash-escaped, as `vocabtool extract` writes them",
        ),
        ("\ufeffthe\nof\n", None, None, "the first entry begins with a byte order mark"),
        ("the\t5\nof\t4\n", None, None, "treated as counts or scores, and the ids are line numb"),
    ],
)
def test_what_lists_say(
    tmp_path: Path, data: str, unknown: int | None, marker: str | None, note: str
) -> None:
    """The unknown entry and the marks of pieces, by what the entries look like."""
    found = read_words(tmp_path, data.encode())
    assert (found.unknown and found.unknown.id, found.marker) == (unknown, marker)
    assert note in "\n".join(found.notes)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"the\0of\n", "not text: byte 0x00 at 3"),
        (b"the\n\x1bof\n", "not text: byte 0x1b at 4"),
        ("the\nof\n".encode("utf-16"), "not text: byte 0x00 at 3"),
        (b"#version: 0.2\nt h\nth e\n", "BPE merge rules: the words are in the vocab.json"),
        (b'"vocab.txt#version: 0.2\nt h\nthe cat\n', "BPE merge rules"),
        ("Ġ t\nh e</w>\nĠt he</w>\n".encode(), "BPE merge rules"),
        (b"#!/bin/sh\necho\n", "a script"),
        (b"<?xml version='1.0'?>\n", "XML"),
        (b"\n<!DOCTYPE html>\n", "HTML"),
        (b"\xef\xbb\xbf{\n", "JSON or similar"),
        (b"[\n{}\n]", "a JSON list"),
        (b"x" * 70_000 + b"\nthe\n", "no line ends in its first 65,536 bytes"),
        (b"\xc4\xcf\xcd\n\xcd\xc9\xd2\n", "most of its lines are not UTF-8: convert it with iconv"),
        (
            b"the quick brown fox\njumps over the dog\nagain\n",
            "most of its lines have 4 or more",
        ),
    ],
)
def test_no_lists(tmp_path: Path, data: bytes, reason: str) -> None:
    """What is plainly something else is not taken for words."""
    assert why(written(tmp_path, data), "list of words").startswith(reason)


NUMBERED: dict[str, tuple[bytes, list[str], str]] = {
    "ids": (b"the 1\n<UNKNOWN> 0\nof 2\n", ["<UNKNOWN>", "the", "of"], "table"),
    "ids behind tabs": (b"New York\t1\r\nParis\t0", ["Paris", "New York"], "table"),
    "ids of pieces": (b"##s 2\n[UNK] 1\n[PAD] 0\n", ["[PAD]", "[UNK]", "##s"], "wordpiece"),
    "counts": (b"the 500\nof 400\nand 400\n", ["the", "of", "and"], "list"),
    "from 1 on": (b"the 1\nof 2\n", ["the", "of"], "list"),
    "scores": ("▁the\t-3.25\n<s>\t0\n▁of\t-4\n".encode(), ["▁the", "<s>", "▁of"], "list"),
    "one line": (b"Apollo 11\n", ["Apollo 11"], "list"),
    "the same word twice": (b"Apollo 11\nApollo 13\n", ["Apollo 11", "Apollo 13"], "list"),
    "the same word by its numbers": (b"step 0\nstep 1\n", ["step 0", "step 1"], "list"),
    "ids behind a mark": (b"\xef\xbb\xbfthe 1\nof 0\n", ["of", "the"], "table"),
    "a line without": (b"the 0\nof\n", ["the 0", "of"], "list"),
    "two in a line": (b"a b 0\nof\n", ["a b 0", "of"], "list"),
    "no number": (b"the 0\nof x\n", ["the 0", "of x"], "list"),
}


@pytest.mark.parametrize("case", NUMBERED)
def test_a_word_and_a_number(tmp_path: Path, case: str) -> None:
    """Numbers from 0 to n-1, each once, are ids; others are left out, and it is said."""
    data, entries, kind = NUMBERED[case]
    vocabulary = read_words(tmp_path, data)
    assert (list(vocabulary), vocabulary.kind) == (entries, kind)
    assert (vocabulary.first_id, vocabulary.ids) == (0, None)
    assert ("each line has a word and its id" in vocabulary.notes) == case.startswith("ids")
    counts = any("counts or scores" in note for note in vocabulary.notes)
    assert counts == (case in ("counts", "from 1 on", "scores"))


def test_a_line_too_long_for_a_word(tmp_path: Path) -> None:
    """A megabyte without a newline is no word."""
    path = written(tmp_path, b"the\n" + b"x" * (1 << 20) + b"y\n")
    with pytest.raises(InvalidFile, match=r"line 2 has 1,048,577 bytes.*\(at byte 4\)"):
        vocabtool.inspect(path)


def test_real_files(shared: Path) -> None:
    """Whisper's ranks as tiktoken reads them; a vocab.txt as it is packed into its TFLite model."""
    load = pytest.importorskip("tiktoken.load", reason="the oracle is tiktoken itself")
    whisper = shared / "files" / "tiktoken" / "multilingual.tiktoken"
    read = sorted(load.load_tiktoken_bpe(str(whisper)).items(), key=lambda pair: pair[1])
    assert pairs(vocabtool.extract(whisper)) == read
    assert read[-1] == (b"", 50256)
    tflite = shared / "files" / "tflite"
    words = vocabtool.extract(tflite / "vocab.txt")
    packed = vocabtool.extract(tflite / "test_model_nl_classifier_with_regex_tokenizer.tflite")
    assert pairs(words) == pairs(packed)
    assert (words.id_of("the"), words.entry_of(2)) == (4, "<UNKNOWN>")
    (roberta,) = vocabtool.vocabularies(shared / "files" / "roberta")  # beside its settings
    assert len(roberta) == 50_265


def test_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that no model has are refused before they are read."""
    path = written(tmp_path, b"IQ== 0\n")
    monkeypatch.setattr("vocabtool.formats.byte_tokens.MAX_FILE", 5)
    with pytest.raises(UnsupportedFormat, match="file of ranks has 7 bytes, wanted at most 5"):
        vocabtool.inspect(path)
    monkeypatch.setattr("vocabtool.formats.word_list.MAX_FILE", 3)
    with pytest.raises(UnsupportedFormat, match="a list of 4 bytes, wanted at most 3"):
        vocabtool.inspect(written(tmp_path, b"the\n"))
