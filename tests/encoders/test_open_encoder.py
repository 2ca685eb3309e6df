"""Opening an encoder: told by content, by prefix or by object; nothing asked for is ignored."""

from __future__ import annotations

import base64
import gzip
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.builders.word_piece import tokenizer_of
from tests.counted_letters import encode
from tests.encoder_cases import MATRIX, PIECES, WORDS, lengths, write_vectors
from vocabtool import Encoder, Index, Words, open_encoder
from vocabtool.errors import NotFound, UnknownFormat, UnsupportedFormat, VocabtoolError


def write_text(path: Path) -> None:
    rows = zip(WORDS, MATRIX.tolist(), strict=True)
    lines = (f"{word} {' '.join(map(repr, row))}\n" for word, row in rows)
    path.write_bytes("".join(lines).encode())


def write_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, MATRIX)
    path.with_suffix(".txt").write_text("\n".join(WORDS) + "\n", "utf-8")


@pytest.mark.parametrize("write", [write_text, write_array])
def test_word_vectors(tmp_path: Path, write: Any) -> None:
    """Formats are told by content, and the same words and numbers are the same encoder."""
    path = tmp_path / "model.pb"
    write(path)
    encoder = open_encoder(path, weights="none", rule="lower")
    assert encoder.kind == "static"
    archive = write_vectors(tmp_path / "archive.npz", WORDS, MATRIX)
    wanted = open_encoder(archive, weights="none", rule="lower")
    assert encoder.fingerprint == wanted.fingerprint
    texts = ["love to", "nothing", "use 日本"]
    assert np.array_equal(encoder.encode(texts), wanted.encode(texts))
    assert open_encoder(f"static:{path}", weights="none").kind == "static"
    assert open_encoder(str(path), kind="static", weights="none").kind == "static"


def test_objects(tmp_path: Path) -> None:
    """An encoder passes through; a function is wrapped; other objects are refused."""
    path = write_vectors(tmp_path / "v.npz", WORDS, MATRIX)
    static = open_encoder(path, weights="none")
    assert open_encoder(static) is static
    assert open_encoder(static, kind="static") is static
    with pytest.raises(VocabtoolError, match=r"'python'.* got 'static'"):
        open_encoder(static, kind="python")
    with pytest.raises(VocabtoolError, match="--trust, --max-batch: "):
        open_encoder(static, trust=True, max_batch=3)
    wrapped = open_encoder(lengths, max_batch=3)
    assert wrapped.fingerprint == open_encoder(lengths).fingerprint
    assert wrapped.max_batch == 3
    with pytest.raises(VocabtoolError, match=r"encoder or a callable, got int"):
        open_encoder(17)  # type: ignore[arg-type] # what is refused
    with pytest.raises(VocabtoolError, match=r"'static'.* got function"):
        open_encoder(lengths, kind="static")


NAMES = {
    "tensorflow": "TensorFlow models",
    "static": "word vectors",
    "model2vec": "static embeddings of tokens",
    "onnx": "ONNX models",
    "sentence-transformers": "sentence-transformers models",
    "openai": "models behind HTTP (openai:MODEL@URL)",
    "python": "Python callables",
}
WRAPPED = [kind for kind in NAMES if kind != "static"]
# An option, a value of it, and the kinds that have it.
OWNERS: list[tuple[str, Any, list[str]]] = [
    *(("signature", "serving_default", ["tensorflow"]), ("name", "words", ["tensorflow"])),
    *(("output", "vectors", ["tensorflow", "onnx"]), ("rule", "lower", ["tensorflow", "static"])),
    *(("trust", True, ["tensorflow", "sentence-transformers"]), ("weights", "idf", ["static"])),
    *(("fitted", "weights.json", ["static"]), ("fingerprint", "v1", ["python"])),
    *(("api_key_env", "KEY", ["openai"]), ("requests", 2, ["openai"])),
    *(("timeout", 5.0, ["openai"]), ("retries", 0, ["openai"])),
    ("device", "cuda", ["onnx", "sentence-transformers"]),
    *(("prompt_query", "q", WRAPPED), ("prompt_document", "d", WRAPPED), ("dim", 2, WRAPPED)),
]


@pytest.mark.parametrize(("option", "value", "kinds"), OWNERS)
def test_options_of_others(tmp_path: Path, option: str, value: Any, kinds: list[str]) -> None:
    """An option that a kind does not have is refused by name, and whose it is is said."""
    flag = f"--{option.replace('_', '-')}"
    for kind in NAMES.keys() - kinds:
        options: Any = {"kind": kind, option: value}
        with pytest.raises(VocabtoolError, match=f"{flag} is only for") as caught:
            open_encoder(tmp_path / "nowhere", **options)
        owners, _, others = str(caught.value).partition("; this model has the kind ")
        assert repr(kind) in others
        assert [other for other, name in NAMES.items() if name in owners] == kinds


def test_it_is_opened_again_by_its_options(tmp_path: Path) -> None:
    """Its kind and what was chosen where nobody said: nothing has to be found out again."""
    path = write_vectors(tmp_path / "v.npz", WORDS, MATRIX)
    encoder: Any = open_encoder(path)
    chosen = {"kind": "static", "rule": "keras", "weights": "idf", "max_batch": 1024}
    assert encoder.options.given_options() == chosen
    fitted = encoder.fit(["love to use"])
    again = open_encoder(path, fitted.options)
    assert again.fingerprint == fitted.fingerprint
    assert again.notes == ()
    assert (
        open_encoder(path, encoder.options, fitted=fitted.fitted).fingerprint == again.fingerprint
    )
    with pytest.raises(TypeError, match="colour"):
        open_encoder(path, colour="red")


@pytest.mark.parametrize(
    ("name", "data", "error", "message"),
    [
        ("words.txt", b"love\nto\nuse\n", UnknownFormat, "format is .* has no vectors.* train"),
        ("vocab.json", b'{"love": 0, "to": 1}', UnknownFormat, "format is JSON object of ids"),
        ("whole.txt", b"love 1 0 0\nuse 0 1 0\n", UnknownFormat, "not a model"),
        ("module.tar.gz", gzip.compress(b"module", mtime=0), UnsupportedFormat, "Unpack it"),
    ],
)
def test_files_that_are_no_model(
    name: str, data: bytes, error: Any, message: str, tmp_path: Path
) -> None:
    """What it is, and what helps where that is known."""
    (tmp_path / name).write_bytes(data)
    with pytest.raises(error, match=message):
        open_encoder(tmp_path / name)


def test_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For no path the forms with a prefix are told; a path that is there is a path."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownFormat, match=r"python:package\.module:attribute") as caught:
        open_encoder(tmp_path)
    assert "saved_model.pb" in caught.value.tried[0]
    assert "modules.json" in caught.value.tried[1]
    with pytest.raises(NotFound, match="sentence-transformers:FOLDER-OR-NAME"):
        open_encoder("all-MiniLM-L6-v2")
    with pytest.raises(NotFound):
        open_encoder("static:v.npz")
    write_vectors(Path("static:v.npz"), WORDS, MATRIX)
    assert open_encoder("static:v.npz", weights="none").dim == MATRIX.shape[1]


COUNTING = """
class Counts:
    def __init__(self, letters):
        self.letters, self.fingerprint = letters, f"counts {letters}"

    def __call__(self, texts):
        return [[text.count(letter) for letter in self.letters] for text in texts]

def opened(letters):
    return Counts(letters)
"""


def test_of_another_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``counts:LETTERS`` of an entry point makes vectors, and is named at each opening.

    As any name that could import something: an index may be somebody else's.
    """
    facts = tmp_path / "site" / "counting-1.0.dist-info"  # a package, as pip leaves it
    facts.mkdir(parents=True)
    (facts.parent / "counting.py").write_text(COUNTING)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[vocabtool.encoders]\ncounts = counting:opened\n")
    monkeypatch.syspath_prepend(facts.parent)
    encoder = open_encoder("counts:aeiou", max_batch=4)
    assert (encoder.kind, encoder.dim, encoder.max_batch) == ("python", 5, 4)
    for each in (encoder, pickle.loads(pickle.dumps(encoder))):
        assert each.encode(["banana"]).tolist() == [[3, 0, 0, 0, 0]]
        assert each.fingerprint == open_encoder("counts:aeiou").fingerprint
    Index.create(tmp_path / "index", "counts:aeiou")
    with pytest.raises(NotFound, match="counts:aeiou"):
        _ = Index.open(tmp_path / "index").encoder
    assert Index.open(tmp_path / "index", "counts:aeiou").encoder is not None
    with pytest.raises(NotFound, match="counting"):
        open_encoder("counting:aeiou")


# Words for encoders that have none.


OF_GIVEN = ["I love Xapian", "question", "to use lucene?", "日本"]
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
    return [[word.lower() for word in encoder.words.unknown(text)] for text in OF_GIVEN]


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
    assert np.array_equal(encoder.encode(OF_GIVEN), bare.encode(OF_GIVEN))
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
