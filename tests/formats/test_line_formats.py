"""tiktoken's ranks, Mistral's tekken.json, and plain lists of words."""

from __future__ import annotations

import base64
import random
import re
from base64 import b64encode
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import vocabtool
from tests.reader_checks import ids_and_entries, only, written
from tests.reader_checks import reason as why
from vocabtool import Place, Unknown, Vocabulary
from vocabtool.errors import InvalidFile, UnsupportedFormat, VocabtoolError


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
    vocabulary = only(tmp_path, ranks(dict(shuffled)), "tokenizer.model")
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
        b"dGhl 3\nIGE= 0\n== 9",
        b"IQ== 0\r\nIg== 1\r\n\r\n",
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
        (b"Ig== 1 x", "9,003 spaces in 9,002 lines: wanted one in each line"),
        (b"Ig== -1", "ranks from -1 to 9,001, wanted 0 to 4,294,967,295"),
        (b"Ig==", "line 9,001 has 1 columns, wanted at least 2"),
        (b"Ig== 17", "two tokens have rank 17"),
    ],
)
def test_damaged_ranks(tmp_path: Path, line: bytes, message: str) -> None:
    """A line that is wrong behind what recognition looks at is told with its number."""
    data = ranks({b"%d" % rank if rank else b"!": rank for rank in range(9_000)})
    data += line + b"\nIyM= 9001\n"
    with pytest.raises(InvalidFile) as caught:
        only(tmp_path, data)
    assert message in str(caught.value)


def test_vocab_txt(tmp_path: Path) -> None:
    """BERT's file as Hugging Face's tokenizers reads it: every line is a token, with its id."""
    import tokenizers

    tokens = [
        *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "!", "the", "##s", "naïve", "日", "##日")
    ]
    data = "".join(f"{token}\n" for token in tokens).encode()
    vocabulary = only(tmp_path, data, "vocab.txt")
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
    vocabulary = only(tmp_path, b"\n".join([*words, b"the"]))
    assert list(vocabulary.stored) == [*words, b"the"]
    assert (vocabulary.kind, vocabulary.unknown) == ("list", None)
    assert vocabulary.duplicates == 1
    assert "1 blank lines, kept as entries" in vocabulary.notes


@pytest.mark.parametrize(
    ("data", "unknown", "marker", "note"),
    [
        ("<unk>\n▁the\n▁of\n", 0, "▁", "<unk> is treated as the unknown entry because of its name"),
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
    found = only(tmp_path, data.encode())
    assert (found.unknown and found.unknown.id, found.marker) == (unknown, marker)
    assert note in "\n".join(found.notes)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"the\0of\n", "not text: byte 0x00 at 3"),
        (b"the\n\x1bof\n", "not text: byte 0x1b at 4"),
        (b"#version: 0.2\nt h\nth e\n", "BPE merge rules: the words are in the vocab.json"),
        (b"#!/bin/sh\necho\n", "a script"),
        (b"<?xml version='1.0'?>\n", "XML"),
        (b"\xef\xbb\xbf{\n", "JSON or similar"),
        (b"[\n{}\n]", "a JSON list"),
        (b"x" * 70_000 + b"\nthe\n", "no line ends in its first 65,536 bytes"),
        (b"\xc4\xcf\xcd\n\xcd\xc9\xd2\n", "most of its lines are not UTF-8: convert it with iconv"),
        (b"the quick brown fox\njumps over the dog\nagain\n", "most of its lines have 4 or more"),
    ],
)
def test_no_lists(tmp_path: Path, data: bytes, reason: str) -> None:
    """What is plainly something else is not taken for words."""
    assert why(written(tmp_path, data), "list of words").startswith(reason)


NUMBERED: dict[str, tuple[bytes, list[str], str]] = {
    "ids": (b"the 1\n<UNKNOWN> 0\nof 2\n", ["<UNKNOWN>", "the", "of"], "table"),
    "ids behind tabs": (b"New York\t1\r\nParis\t0", ["Paris", "New York"], "table"),
    "ids of pieces": (b"##s 2\n[UNK] 1\n[PAD] 0\n", ["[PAD]", "[UNK]", "##s"], "wordpiece"),
    "ids of a space": (b"<blk> 0\n  2\n_ 1\n", ["<blk>", "_", " "], "table"),
    "ids of spaces and tabs": (b"a\t1\n\t\t0\n  \t2\n", ["\t", "a", "  "], "table"),
    "counts": (b"the 500\nof 400\nand 400\n", ["the", "of", "and"], "list"),
    "scores": ("▁the\t-3.25\n<s>\t0\n▁of\t-4\n".encode(), ["▁the", "<s>", "▁of"], "list"),
    "the same word twice": (b"Apollo 11\nApollo 13\n", ["Apollo 11", "Apollo 13"], "list"),
    "ids behind a mark": (b"\xef\xbb\xbfthe 1\nof 0\n", ["of", "the"], "table"),
    "a line without": (b"the 0\nof\n", ["the 0", "of"], "list"),
}


@pytest.mark.parametrize("case", NUMBERED)
def test_a_word_and_a_number(tmp_path: Path, case: str) -> None:
    """Numbers from 0 to n-1, each once, are ids; others are left out, and it is said."""
    data, entries, kind = NUMBERED[case]
    vocabulary = only(tmp_path, data)
    assert (list(vocabulary), vocabulary.kind) == (entries, kind)
    assert (vocabulary.first_id, vocabulary.ids) == (0, None)
    assert ("each line has a word and its id" in vocabulary.notes) == case.startswith("ids")
    counts = any("counts or scores" in note for note in vocabulary.notes)
    assert counts == (case in ("counts", "scores"))


WRITTEN = st.text(
    st.sampled_from("""ab01:#'"\\▁é\t -?%@`[]{},&*!|>~=<.\x07\x85\xa0\u2028😀""")
    | st.characters(codec="utf-8"),
    max_size=6,
)


@settings(deadline=None)
@example(
    ["</s>", "<unk>", "▁the", "▁,", '"', "'", "\\", "null", "yes", "1", "~", "a: b", "", "a #"],
    True,
)
@given(st.lists(WRITTEN, min_size=3, unique=True), st.booleans())
def test_yaml_of_marian(entries: list[str], plain: bool) -> None:
    """What PyYAML writes and reads, quoted as it likes or always, is read alike or refused."""
    yaml = pytest.importorskip("yaml", reason="the oracle is a YAML library")
    style, wide = None if plain else '"', {"sort_keys": False, "width": 1 << 30}
    ids = {entry: number for number, entry in enumerate(entries)}
    text = "".join(
        yaml.dump({entry: number}, **wide)
        if plain
        else yaml.dump(entry, default_style=style, **wide).rstrip("\n") + f": {number}\n"
        for entry, number in ids.items()
    )
    with TemporaryDirectory() as folder:
        file = written(Path(folder), text, "vocab.yml")
        try:
            found = vocabtool.extract(file)
        except VocabtoolError:
            assert plain  # such as an entry of two lines, or without quotes
            return
    wanted = yaml.load(text, yaml.BaseLoader)
    assert {entry: str(found.id_of(entry)) for entry in found} == wanted


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("a: 0\nb: 1\nc: [2]\n", "line 3 is 'c: [2]', wanted an entry and its own id"),
        ("a: 0\nb: 1\nc: 1\n", "line 3 is 'c: 1'"),
        ('a: 0\nb: 1\n"\\q": 2\n', "line 3 is"),
        ('a: 0\nb: 1\n"\\UFFFFFFFF": 2\n', "line 3 is"),
        ("a: 0\nb: 1\n? c\n: 2\n", "line 3 is '? c'"),
        ("a: 0\nb: 1\nc: 999999999999999999\n", "line 3 is"),
        ("a: 0\nb: 1\n&x c: 2\n", "line 3 is '&x c: 2'"),
        ("a: 0\n" * 2_000_000, "a vocab.yml of 2,000,000 lines, wanted at most 1,048,576"),
        ("a: 1\nb: 2\n\n\n", "no entry has id 0, wanted 0 to 1"),
    ],
    ids=lambda given: given[-20:],
)
def test_other_yaml(tmp_path: Path, lines: str, why: str) -> None:
    with pytest.raises(UnsupportedFormat, match=re.escape(why)):
        vocabtool.inspect(written(tmp_path, lines, "vocab.yml"))


def test_a_line_too_long_for_a_word(tmp_path: Path) -> None:
    """Four megabytes without a newline are no word."""
    path = written(tmp_path, b"the\n" + b"x" * (1 << 22) + b"y\n")
    with pytest.raises(InvalidFile, match=r"line 2 has 4,194,305 bytes.*\(at byte 4\)"):
        vocabtool.inspect(path)


def test_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that no model has are refused before they are read."""
    path = written(tmp_path, b"IQ== 0\n")
    monkeypatch.setattr("vocabtool.formats.word_list.MAX_FILE", 3)
    with pytest.raises(UnsupportedFormat, match="file of ranks has 7 bytes, wanted at most 3"):
        vocabtool.inspect(path)
    with pytest.raises(UnsupportedFormat, match="a list of 4 bytes, wanted at most 3"):
        vocabtool.inspect(written(tmp_path, b"the\n"))


# Mistral's tekken.json.

BYTES = [bytes([byte]) for byte in range(256)]
TEKKEN_TOKENS = [*BYTES, b"th", b" the", b"\xff\xfe", "naïve".encode(), b"too far", b"cut off"]
SPECIAL = ["<unk>", "<s>", "</s>", "[INST]", "é"]
PATTERN = r"\S+|\s+"


def tekken(version: str = "v13", **more: Any) -> dict[str, Any]:
    """A tekken.json of the layout that mistral-common reads: 4 of 6 merged tokens are kept."""
    vocab = [
        {"rank": i, "token_bytes": b64encode(token).decode(), "token_str": None}
        for i, token in enumerate(TEKKEN_TOKENS)
    ]
    special = [{"rank": i, "token_str": text, "is_control": True} for i, text in enumerate(SPECIAL)]
    config = {
        "pattern": PATTERN,
        "num_vocab_tokens": len(TEKKEN_TOKENS),
        "default_vocab_size": 260 + 30,
        "default_num_special_tokens": 30,
        "version": version,
    }
    return {"config": config, "vocab": vocab, "special_tokens": special, **more}


@pytest.mark.parametrize("version", ["v3", "v13"])
def test_tekken(version: str, tmp_path: Path) -> None:
    """Special tokens, those that have no name yet, and as many others as the model has."""
    vocabulary = only(tmp_path, tekken(version), "file.json")
    fillers = [f"<SPECIAL_{number}>" for number in range(5, 30)]
    wanted = [*(text.encode() for text in (*SPECIAL, *fillers)), *TEKKEN_TOKENS[:260]]
    assert list(vocabulary.stored) == wanted
    assert (vocabulary.first_id, vocabulary.ids, vocabulary.unknown) == (0, None, None)
    assert (vocabulary.name, vocabulary.kind, vocabulary.marker) == ("file.json", "bpe", " ")
    assert vocabulary.places == (Place("file.json", "special_tokens and vocab"),)
    assert vocabulary.notes == (
        f"byte-level BPE of Mistral, version {version}",
        "special tokens, 5: <unk>, <s>, </s>, [INST], é",
        "special tokens from id 5 to 29 have no name",
        "the model uses the first 260 of its 262 tokens",
        "every single byte is a token, so no text is unknown",
    )


@pytest.mark.parametrize("version", ["v3", "v7"])
def test_implied_special_tokens(version: str, tmp_path: Path) -> None:
    """Old files leave out the special tokens that all had; new ones must list theirs."""
    document = tekken(version)
    del document["special_tokens"]
    vocabulary = only(tmp_path, document)
    assert vocabulary.tokens[:4] == ["<unk>", "<s>", "</s>", "[INST]"]
    assert vocabulary.tokens[19:21] == ["[TOOL_CONTENT]", "<SPECIAL_20>"]
    assert vocabulary.id_of("th") == 30 + 256
    document["config"]["version"] = "v11"
    with pytest.raises(InvalidFile, match="special_tokens is missing, but version v11 requires it"):
        only(tmp_path, document)


def test_words_of_tekken(tmp_path: Path) -> None:
    """A file without its pattern does not tell how a text is cut: that is said, with what to do."""
    document = tekken()
    document["config"].pop("pattern", None)
    file = written(tmp_path, document)
    said = r"subword pieces.*--rule tokenizer:FILE"
    with pytest.raises(VocabtoolError, match=said) as refused:
        vocabtool.Words.of(file)
    assert "whitespace" not in str(refused.value)  # which would be refused next


MORE = [{"rank": number, "token_str": f"{number}"} for number in range(5, 31)]
Change = tuple[str, int | str | slice, object]
DAMAGED: dict[str, tuple[Change, str]] = {
    "a small size": (
        ("config", "default_vocab_size", 29),
        "_size is 29, wanted at least default_num_special_tokens, which is 30",
    ),
    "huge room": (("config", "default_num_special_tokens", 1 << 40), "default_num_special_tokens "),
    "no room": (("special_tokens", slice(5, 5), MORE), "31 special tokens,"),
    "no object": (("vocab", 3, 5), "vocab: item 3: token_bytes is missing"),
    "rank": (("vocab", 3, {"rank": 4, "token_bytes": "IQ=="}), "item 3 has rank '4', wanted 3"),
    "base64": (("vocab", 3, {"rank": 3, "token_bytes": "!"}), "item 3 is '!', wanted base64"),
    "special": (("special_tokens", 1, {"rank": 1}), "_tokens: item 1: token_str is missing"),
    "twice": (("special_tokens", 1, {"rank": 1, "token_str": "<unk>"}), "special tokens are the"),
    "half": (("special_tokens", 1, {"rank": 1, "token_str": "\ud800"}), "a lone surrogate"),
}


@pytest.mark.parametrize(("change", "message"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_tekken(change: Change, message: str, tmp_path: Path) -> None:
    """A number that does not fit what is there, or an item, is named by its place."""
    key, at, value = change
    document = tekken()
    document[key][at] = value
    with pytest.raises(InvalidFile, match=message):
        only(tmp_path, document)
