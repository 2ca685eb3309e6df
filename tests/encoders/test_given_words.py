"""Words for encoders that have none: from which files, and who refuses them."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.builders import embedding_server
from tests.builders.word_piece import tokenizer_of
from tests.counted_letters import encode
from tests.encoder_cases import MATRIX, PIECES, WORDS, write_vectors
from vocabtool import Encoder, Words, embed, extract, open_encoder
from vocabtool.errors import FolderNotEmpty, NotFound, VocabtoolError

TEXTS = ["I love Xapian", "question", "to use lucene?", "日本"]
# Which of their words an entry-by-entry comparison does not find: of pieces, of whole words.
OF_PIECES = [[], [], ["lucene"], []]
OF_WORDS = [[], ["question"], ["lucene?"], []]


def tokenizer_json(folder: Path) -> Any:
    tokenizer_of(PIECES).save(str(folder / "tokenizer.json"))
    return str(folder / "tokenizer.json")


def bert(folder: Path) -> Any:
    """A vocab.txt whose settings are beside it."""
    (folder / "vocab.txt").write_text("\n".join(PIECES), "utf-8")
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder / "vocab.txt"


def word_list(folder: Path) -> Any:
    (folder / "words.txt").write_text("\n".join(WORDS), "utf-8")
    return folder / "words.txt"


def vectors(folder: Path) -> Any:
    return f"{write_vectors(folder / 'v.npz', WORDS, MATRIX)}#words"


SOURCES: dict[str, tuple[Callable[[Path], Any], str | None, list[list[str]]]] = {
    "tokenizer.json": (tokenizer_json, None, OF_PIECES),
    "vocab.txt": (bert, None, OF_PIECES),
    "vocab.txt by name": (bert, "bert-uncased", OF_PIECES),
    "word list": (word_list, "lower", OF_WORDS),
    "Words": (lambda folder: Words.of(word_list(folder), rule="lower"), None, OF_WORDS),
    "Vocabulary": (lambda folder: extract(word_list(folder)), "lower", OF_WORDS),
    "word vectors": (vectors, "lower", OF_WORDS),
    "entries": (lambda folder: WORDS, "lower", OF_WORDS),
}


def unknown(encoder: Encoder) -> list[list[str]]:
    assert encoder.words is not None
    return [[word.lower() for word in encoder.words.unknown(text)] for text in TEXTS]


@pytest.mark.parametrize("name", SOURCES)
def test_where_words_come_from(name: str, tmp_path: Path) -> None:
    """Also after pickling. Vectors and fingerprint do not depend on them."""
    make, rule, wanted = SOURCES[name]
    bare = open_encoder(encode)
    encoder = open_encoder(encode, vocabulary=make(tmp_path), rule=rule)
    assert bare.words is None
    assert unknown(encoder) == wanted
    again = pickle.loads(pickle.dumps(encoder))
    assert unknown(again) == wanted
    assert encoder.fingerprint == bare.fingerprint == again.fingerprint
    assert np.array_equal(encoder.encode(TEXTS), bare.encode(TEXTS))


def test_a_server_has_them_too() -> None:
    """In a worker as well, which gets a pickle; the entries need no rule."""
    pytest.importorskip("urllib3", reason="the extra http is not installed")
    with embedding_server.serve() as server:
        encoder = open_encoder(server.model, vocabulary=["love", "to", "use", "i"])
        for each in (encoder, pickle.loads(pickle.dumps(encoder))):
            assert unknown(each) == [["xapian"], ["question"], ["lucene"], ["日本"]]


def test_refused(tmp_path: Path) -> None:
    """Models with words of their own; lists without a rule; words that have one; no such file."""
    own = write_vectors(tmp_path / "v.npz", WORDS, MATRIX)
    with pytest.raises(VocabtoolError, match=r"v\.npz: .* own vocabulary.*--vocabulary"):
        open_encoder(own, vocabulary=WORDS)
    with pytest.raises(VocabtoolError, match="own vocabulary"):
        open_encoder(open_encoder(own), vocabulary=WORDS)
    with pytest.raises(VocabtoolError, match=r"words\.txt.*--rule"):
        open_encoder(encode, vocabulary=word_list(tmp_path))
    with pytest.raises(VocabtoolError, match="'keras'"):
        open_encoder(encode, vocabulary=Words.of(own, rule="lower"), rule="keras")
    with pytest.raises(NotFound, match=r"none\.json"):
        open_encoder(encode, vocabulary=tmp_path / "none.json")
    with pytest.raises(VocabtoolError, match="--rule"):  # alone, it is not for callables
        open_encoder(encode, rule="lower")


def test_unknown_words_of_shards(tmp_path: Path) -> None:
    """As the encoder tells them. Other words are another run, which is told."""
    (tmp_path / "corpus.txt").write_text("\n".join(TEXTS), "utf-8")
    corpus, out = str(tmp_path / "corpus.txt"), tmp_path / "out"
    encoder = open_encoder(encode, vocabulary=tokenizer_json(tmp_path))
    report = embed(corpus, encoder, out)
    assert (report.counts.tokens, report.counts.tokens_unknown) == (10, 1)
    (shard,) = out.glob("*.parquet")
    assert pq.read_table(shard)["unknown"].to_pylist() == OF_PIECES
    with pytest.raises(FolderNotEmpty, match="--vocabulary"):
        embed(corpus, open_encoder(encode, vocabulary=WORDS), out)


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
