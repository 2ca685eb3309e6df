"""Byte-level BPE in JSON: Mistral's ``tekken.json``.

mistral-common pins NumPy, so it is not among what the tests install: where it is there, it is the
oracle.
"""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

import vocabtool
from tests.reader_checks import written
from vocabtool import Place, Vocabulary
from vocabtool.errors import InvalidFile, VocabtoolError

BYTES = [bytes([byte]) for byte in range(256)]
TOKENS = [*BYTES, b"th", b" the", b"\xff\xfe", "naïve".encode(), b"too far", b"cut off"]
SPECIAL = ["<unk>", "<s>", "</s>", "[INST]", "é"]
PATTERN = r"\S+|\s+"


def only(document: object, folder: Path) -> Vocabulary:
    file = written(folder, json.dumps(document).encode(), "file.json")
    (vocabulary,) = vocabtool.inspect(file).vocabularies
    return vocabulary


def tekken(version: str = "v13", **more: Any) -> dict[str, Any]:
    """A tekken.json of the layout that mistral-common reads: 4 of 6 merged tokens are kept."""
    vocab = [
        {"rank": i, "token_bytes": b64encode(token).decode(), "token_str": None}
        for i, token in enumerate(TOKENS)
    ]
    special = [{"rank": i, "token_str": text, "is_control": True} for i, text in enumerate(SPECIAL)]
    config = {
        "pattern": PATTERN,
        "num_vocab_tokens": len(TOKENS),
        "default_vocab_size": 260 + 30,
        "default_num_special_tokens": 30,
        "version": version,
    }
    return {"config": config, "vocab": vocab, "special_tokens": special, **more}


@pytest.mark.parametrize("version", ["v3", "v13"])
def test_tekken_as_mistral_reads_it(version: str, tmp_path: Path) -> None:
    """Id for id what mistral-common reads."""
    library = pytest.importorskip(
        "mistral_common.tokens.tokenizers.tekken", reason="the oracle is mistral-common itself"
    )
    vocabulary = only(tekken(version), tmp_path)
    read = library.Tekkenizer.from_file(tmp_path / "file.json")
    keep = library.SpecialTokenPolicy.KEEP
    pieces = [read.id_to_byte_piece(number, keep) for number in range(read.n_words)]
    assert list(vocabulary.stored) == pieces


@pytest.mark.parametrize("version", ["v3", "v7", "v11", "v13", "v15"])
def test_tekken(version: str, tmp_path: Path) -> None:
    """Special tokens, those that have no name yet, and as many others as the model has."""
    vocabulary = only(tekken(version), tmp_path)
    fillers = [f"<SPECIAL_{number}>" for number in range(5, 30)]
    wanted = [*(text.encode() for text in (*SPECIAL, *fillers)), *TOKENS[:260]]
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
    vocabulary = only(document, tmp_path)
    assert vocabulary.tokens[:4] == ["<unk>", "<s>", "</s>", "[INST]"]
    assert vocabulary.tokens[19:21] == ["[TOOL_CONTENT]", "<SPECIAL_20>"]
    assert vocabulary.id_of("th") == 30 + 256
    document["config"]["version"] = "v11"
    with pytest.raises(InvalidFile, match="special_tokens is missing, but version v11 requires it"):
        only(document, tmp_path)


def test_words_of_tekken(tmp_path: Path) -> None:
    """A file without its pattern does not tell how a text is cut: that is said, with what to do."""
    document = tekken()
    document["config"].pop("pattern", None)
    file = written(tmp_path, json.dumps(document).encode())
    said = r"subword pieces.*--rule tokenizer:FILE"
    with pytest.raises(VocabtoolError, match=said) as refused:
        vocabtool.Words.of(file)
    assert "whitespace" not in str(refused.value)  # which would be refused next


MORE = [{"rank": number, "token_str": f"{number}"} for number in range(5, 31)]
Change = tuple[str, int | str | slice, object]
DAMAGED: dict[str, tuple[Change, str]] = {
    "size": (("config", "default_vocab_size", None), "default_vocab_size is null, wanted a whole"),
    "a small size": (
        ("config", "default_vocab_size", 29),
        "_size is 29, wanted at least default_num_special_tokens, which is 30",
    ),
    "huge room": (("config", "default_num_special_tokens", 1 << 40), "default_num_special_tokens "),
    "no room": (("special_tokens", slice(5, 5), MORE), "31 special tokens,"),
    "no object": (("vocab", 3, 5), "vocab: item 3: token_bytes is missing"),
    "rank": (
        ("vocab", 3, {"rank": 4, "token_bytes": "IQ=="}),
        "item 3 has rank '4', wanted 3",
    ),
    "base64": (("vocab", 3, {"rank": 3, "token_bytes": "!"}), "item 3 is '!', wanted base64"),
    "empty": (("vocab", 3, {"rank": 3, "token_bytes": ""}), "item 3 is empty, wanted base64"),
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
        only(document, tmp_path)
