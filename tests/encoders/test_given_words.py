"""Words for encoders that have none: from which files, and who refuses them."""

from __future__ import annotations

import base64
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.builders.word_piece import tokenizer_of
from tests.counted_letters import encode
from tests.encoder_cases import MATRIX, PIECES, WORDS, write_vectors
from vocabtool import Encoder, Words, open_encoder
from vocabtool.errors import NotFound, VocabtoolError

TEXTS = ["I love Xapian", "question", "to use lucene?", "日本"]
# Which of their words an entry-by-entry comparison does not find: of pieces, of whole words.
OF_PIECES = [[], [], ["lucene"], []]
OF_WORDS = [[], ["question"], ["lucene?"], []]


def tokenizer_json(folder: Path) -> Any:
    tokenizer_of(PIECES).save(str(folder / "tokenizer.json"))
    return str(folder / "tokenizer.json")


def word_list(folder: Path) -> Any:
    (folder / "words.txt").write_text("\n".join(WORDS), "utf-8")
    return folder / "words.txt"


def unknown(encoder: Encoder) -> list[list[str]]:
    assert encoder.words is not None
    return [[word.lower() for word in encoder.words.unknown(text)] for text in TEXTS]


def test_where_words_come_from(tmp_path: Path) -> None:
    """Also after pickling. Vectors and fingerprint do not depend on them."""
    bare = open_encoder(encode)
    assert bare.words is None
    of_vectors = f"{write_vectors(tmp_path / 'v.npz', WORDS, MATRIX)}#words"
    sources: list[tuple[Any, str | None, list[list[str]]]] = [
        (tokenizer_json(tmp_path), None, OF_PIECES),
        (word_list(tmp_path), "lower", OF_WORDS),
        (Words.of(word_list(tmp_path), rule="lower"), None, OF_WORDS),
        (of_vectors, "lower", OF_WORDS),
    ]
    for source, rule, wanted in sources:
        for model in (encode, bare):  # an open encoder is not changed
            encoder = open_encoder(model, vocabulary=source, rule=rule)
            again = pickle.loads(pickle.dumps(encoder))
            assert unknown(encoder) == unknown(again) == wanted
            assert encoder.fingerprint == bare.fingerprint == again.fingerprint
    assert np.array_equal(encoder.encode(TEXTS), bare.encode(TEXTS))
    assert bare.words is None


def test_refused(tmp_path: Path) -> None:
    """Models with words of their own; lists without a rule; words that have one; no such file."""
    own = write_vectors(tmp_path / "v.npz", WORDS, MATRIX)
    cases: list[tuple[Any, Any, str | None, str]] = [
        (own, WORDS, None, r"v\.npz: .* own vocabulary.*--vocabulary"),
        (open_encoder(own), WORDS, None, "own vocabulary"),
        (encode, word_list(tmp_path), None, r"words\.txt.*--rule"),
        (encode, Words.of(own, rule="lower"), "keras", "'keras'"),
        (encode, tmp_path / "none.json", None, r"none\.json"),
        (encode, None, "lower", "--rule"),  # alone, it is not for callables
    ]
    for model, vocabulary, rule, told in cases:
        with pytest.raises(VocabtoolError, match=told):
            open_encoder(model, vocabulary=vocabulary, rule=rule)


def test_an_encoding_in_the_cache_of_tiktoken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the file in which the library keeps what is at its address; nothing is downloaded."""
    load = pytest.importorskip("tiktoken.load", reason="the oracle is tiktoken itself")
    public = pytest.importorskip("tiktoken_ext.openai_public", reason="it has the addresses")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(NotFound, match=r"tiktoken\.get_encoding\(\"cl100k_base\"\)"):
        open_encoder(encode, vocabulary="tiktoken:cl100k_base")
    with pytest.raises(NotFound, match="o200k_base"):
        open_encoder(encode, vocabulary="tiktoken:gpt5")

    ranks = [*(bytes([byte]) for byte in range(256)), b"lo"]
    lines = [b"%s %d\n" % (base64.b64encode(token), at) for at, token in enumerate(ranks)]
    monkeypatch.setattr(load, "read_file", lambda address: b"".join(lines))
    asked: dict[str, dict[bytes, int]] = {}
    monkeypatch.setattr(
        public, "load_tiktoken_bpe", lambda address, **_: asked.setdefault(address, {})
    )
    public.cl100k_base()
    load.read_file_cached(*asked)
    encoder = open_encoder(encode, vocabulary="tiktoken:cl100k_base", rule="tiktoken:cl100k_base")
    assert encoder.words is not None
    assert encoder.words.pieces("love") == ["lo", "v", "e"]
