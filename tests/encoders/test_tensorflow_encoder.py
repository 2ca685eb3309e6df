"""The TensorFlow encoder gives what TensorFlow gives when it is called directly."""

# own process: TensorFlow

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tensorflow", reason="what is tested runs TensorFlow")

import tensorflow as tf

from tests.builders.encoder_models import build, direct, loaded
from tests.builders.tensorflow_models import quiet
from tests.conftest import ROOT
from vocabtool import Encoder, open_encoder
from vocabtool.errors import InvalidFile, NotFound, UnsupportedFormat, VocabtoolError

USE = ROOT / "data" / "sentence_encoder"
TEXTS = (
    *("the quick brown fox", "", "Lazy dog zzz", "fox fox fox over the dog", "nothing known"),
    *("the", "naïve 日本", "jumps over the lazy dog and the fox and the dog again", "zzz"),
)
BYTES = tuple(text.encode() for text in TEXTS)
# Each takes texts and gives them vectors: those whose words are told apart in each of the ways.
ANY_BATCH = (
    *("serving", "columns", "tf1_graph", "keras", "called", "one_signature"),
    *("padded", "hub_module"),
)
ONE_BY_ONE = ("scalar", "single")

Built = Callable[[str], Path]
Opened = Callable[[str], Any]


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """TensorFlow and Keras warn about what they do themselves."""
    with quiet():
        yield


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Saves a model of ``encoder_models.py`` when it is first asked for."""
    folder = tmp_path_factory.mktemp("encoder_models")

    def find(name: str) -> Path:
        if not (folder / name).exists():
            build(name, folder / name)
        return folder / name

    return find


@pytest.fixture(scope="session")
def opened(built: Built) -> Opened:
    """Opens a model when it is first asked for."""
    kept: dict[str, Encoder] = {}

    def find(name: str) -> Encoder:
        if name not in kept:
            path = USE if name == "use" else built(name)
            kept[name] = open_encoder(path)
        return kept[name]

    return find


def rows(folder: Path, texts: Sequence[bytes]) -> NDArray[Any]:
    """What TensorFlow gives for each text alone, by the shape that the signature wants."""
    with loaded(folder) as model:
        call = model.signatures["serving_default"]
        (spec,) = call.structured_input_signature[1].values()
        given = [tf.reshape(tf.constant([text]), [1] * spec.shape.rank) for text in texts]
        return np.array([np.ravel(call(each)["vectors"].numpy()) for each in given], np.float32)


# Vectors.


@pytest.mark.parametrize(
    "name",
    [
        "serving",
        "padded",
        "tf1_graph",
        "one_signature",
        "use",
        "columns",
        "cubes",
        "keras",
        "called",
    ],
)
def test_vectors_are_those_of_tensorflow_to_the_bit(
    name: str, built: Built, opened: Opened
) -> None:
    """In columns as Keras wants them, not in training."""
    given: Any = [[text] for text in BYTES] if name in ("columns", "keras") else BYTES
    given = [[[text]] for text in BYTES] if name == "cubes" else given
    if name == "called":
        with loaded(built(name)) as model:
            wanted = model(tf.constant(given), training=False).numpy()
    else:
        signature = "embed" if name == "one_signature" else "serving_default"
        path = USE if name == "use" else built(name)
        (wanted,) = direct(path, tf.constant(given), signature).values()
    encoder = opened(name)
    assert np.array_equal(encoder.encode(TEXTS), wanted)
    assert encoder.dim == wanted.shape[1]


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_a_model_of_one_text_is_called_for_each(name: str, built: Built, opened: Opened) -> None:
    """To the bit, and it is said."""
    encoder = opened(name)
    assert np.array_equal(encoder.encode(TEXTS), rows(built(name), BYTES))
    assert "the model accepts one text per call" in encoder.notes
    assert encoder.max_batch == 64


@pytest.mark.parametrize("name", ["float64", "bfloat16"])
def test_other_numbers_become_float32(name: str, built: Built, opened: Opened) -> None:
    """As NumPy rounds them, and it is said."""
    wanted = direct(built(name), tf.constant(BYTES))["vectors"].astype(np.float32)
    got = opened(name).encode(TEXTS)
    assert got.dtype == np.float32
    assert np.array_equal(got, wanted)
    assert f"its vectors are {name}, converted to float32" in opened(name).notes


@pytest.mark.parametrize("name", [*ANY_BATCH, *ONE_BY_ONE, "use"])
def test_a_vector_does_not_depend_on_its_batch(name: str, opened: Opened) -> None:
    """Alone, reversed, and among many and long others: within 1e-6; no texts are no rows."""
    encoder = opened(name)
    wanted = encoder.encode(TEXTS)
    assert encoder.encode([]).shape == (0, wanted.shape[1])
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    many = encoder.encode([*TEXTS, "fox " * 300, *TEXTS[::-1] * 40])
    assert np.allclose(alone, wanted, rtol=0, atol=1e-6)
    assert np.allclose(encoder.encode(TEXTS[::-1])[::-1], wanted, rtol=0, atol=1e-6)
    assert np.allclose(many[: len(TEXTS)], wanted, rtol=0, atol=1e-6)
    assert np.allclose(many[-len(TEXTS) :][::-1], wanted, rtol=0, atol=1e-6)


# Which function and output.


def test_a_signature_and_an_output_can_be_chosen(built: Built) -> None:
    """Each by its name; the model's call, too."""
    first, second = (
        open_encoder(built("two_signatures"), signature=name) for name in ("first", "second")
    )
    assert np.array_equal(first.encode(TEXTS) * 2, second.encode(TEXTS))
    one, twice = (open_encoder(built("two_outputs"), output=name) for name in ("vectors", "twice"))
    assert np.array_equal(one.encode(TEXTS) * 2, twice.encode(TEXTS))
    plain = open_encoder(built("default_output"))  # one that is named so is taken unasked
    assert plain.notes[0] == "signature serving_default, output 'default' of shape (None, 6)"
    called = open_encoder(f"tensorflow:{USE}", signature="__call__")
    assert called.notes[0].startswith("__call__, output '0'")
    kept = open_encoder(built("two_signatures"), signature="kept_second")
    assert np.array_equal(kept.encode(TEXTS), second.encode(TEXTS))


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("two_signatures", {}, r"(?s)several.*--signature.*first returns.*second returns"),
        ("two_outputs", {}, r"(?s)several.*--output.*'twice' of shape \(None, 6\).*'vectors'"),
        ("serving", {"signature": "other"}, "(?s)no signature 'other'.*serving_default accepts"),
        ("with_scores", {"output": "scores"}, r"'scores' of shape \(None,\), .* one number for"),
        ("rank_3", {}, r"\(None, 1, 6\), float32: several vectors for each text"),
        ("ragged", {}, "not a dense tensor.* different lengths"),
        ("two_inputs", {}, r"answer: string \(None,\), question: string \(None,\)"),
        ("batch_of_4", {}, r"(?s)such as ids, .*python:MODULE:NAME.*texts: string \(4,\)"),
    ],
)
def test_what_cannot_be_taken_is_listed(
    name: str, given: dict[str, Any], told: str, built: Built
) -> None:
    """With all that the model has, and the model's path."""
    with pytest.raises(UnsupportedFormat, match=told) as caught:
        open_encoder(built(name), **given)
    assert str(caught.value).startswith(f"{built(name)}: ")


def test_the_text_that_a_model_fails_at_is_named(built: Built, opened: Opened) -> None:
    """Out of a whole batch, also for a vector not finite; others are encoded as before."""
    with pytest.raises(UnsupportedFormat, match=r"shape \(1, 6\) for 9 texts"):
        opened("one_row").encode(TEXTS)  # not a row for each
    encoder = open_encoder(built("numbers_looked_up"))
    texts = [str(number) for number in range(1, 200)]
    for _ in range(2):
        with pytest.raises(UnsupportedFormat, match=r"for the text b'x y': .*: x y"):
            encoder.encode([*texts, "x y", "3"])
    assert encoder.encode(texts)[:, 0].tolist() == list(range(1, 200))
    with pytest.raises(UnsupportedFormat, match=r"nan in the vector of the text b'0\.0'"):
        encoder.encode(["1", "2", "0.0", "3"])


# Words.


def test_words_are_recovered_or_of_a_rule(built: Built, opened: Opened) -> None:
    """Without running the model; a rule is the caller's; what is not understood is said."""
    recovered, named = opened("use").words, open_encoder(built("serving"), rule="keras").words
    assert recovered is not None
    assert named is not None
    assert (recovered.how, named.how) == ("recovered", "named")
    assert recovered.unknown("I love to use Xapian!") == ["xapian"]
    with pytest.raises(VocabtoolError, match=r"'kreas'.*mean keras"):
        open_encoder(built("serving"), rule="kreas")
    encoder = open_encoder(built("by_hash"))
    assert encoder.words is None
    (note,) = (each for each in encoder.notes if "words of the model are unknown" in each)
    assert "--rule" in note


# What is not run.


def test_models_that_reach_out_need_trust(built: Built, tmp_path: Path) -> None:
    """Files and Python; what is refused is named with its place."""
    with pytest.raises(UnsupportedFormat, match=r"(?s)ReadFile at function .*--trust"):
        open_encoder(built("reading_files"))
    with pytest.raises(UnsupportedFormat, match="PyFunc at function"):
        open_encoder(built("running_python"))
    (tmp_path / "note.txt").write_text("the quick fox")
    trusted = open_encoder(built("reading_files"), trust=True)
    wanted = open_encoder(built("serving")).encode(["the quick fox"])
    assert np.allclose(trusted.encode([str(tmp_path / "note.txt")]), wanted, rtol=0, atol=1e-6)


def test_no_signature_writes_a_checkpoint(tmp_path: Path) -> None:
    """What every SavedModel holds to save its variables does nothing in the copy that runs."""
    target = tmp_path / "written"
    vectors = tf.Variable(np.eye(4, dtype=np.float32))

    def serve(texts: Any) -> Any:
        saving = tf.raw_ops.SaveV2(
            prefix=str(target), tensor_names=["x"], shape_and_slices=[""], tensors=[texts]
        )
        with tf.control_dependencies([saving]):
            return {"vectors": tf.gather(vectors, tf.strings.length(texts))}

    module = tf.Module()
    module.vectors = vectors
    spec = tf.TensorSpec([None], tf.string)
    module.serve = tf.function(serve, input_signature=[spec], autograph=False)
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.serve)
    encoder = open_encoder(tmp_path / "model")
    assert encoder.encode(["", "ab"]).tolist() == [[1, 0, 0, 0], [0, 0, 1, 0]]
    assert list(tmp_path.glob("written*")) == []


def test_other_files_are_refused(tmp_path: Path) -> None:
    """A Keras archive with how to export it; nothing at all as everywhere."""
    (tmp_path / "model.keras").write_bytes(b"PK\x03\x04")
    with pytest.raises(UnsupportedFormat, match=r"model\.export\(FOLDER\)"):
        open_encoder(tmp_path / "model.keras", kind="tensorflow")
    with pytest.raises(NotFound, match="no such file or folder"):
        open_encoder(tmp_path / "missing")


def test_a_missing_tensorflow_is_named_with_the_extra() -> None:
    """Before anything is read."""
    code = "import sys; sys.modules['tensorflow'] = None; import vocabtool as v; v.open_encoder"
    command = [sys.executable, "-c", f"{code}(sys.argv[1])", str(USE)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert "tensorflow, which cannot be imported" in done.stderr
    assert "pip install '.[tensorflow]'" in done.stderr


# Fingerprints and pickles.


def changed(folder: Path, file: str) -> None:
    """Another byte at the end, which TensorFlow does not look at or does not mind."""
    with (folder / file).open("ab") as opened:
        opened.write(b" ")


def test_the_fingerprint_is_that_of_the_content(built: Built, tmp_path: Path) -> None:
    """Not of the folder, of batches, of trust, or of a file that says nothing."""
    wanted = open_encoder(built("serving"))
    assert len(bytes.fromhex(wanted.fingerprint)) == hashlib.sha256().digest_size
    copy = shutil.copytree(built("serving"), tmp_path / "copy")
    (copy / "fingerprint.pb").unlink()
    os.utime(copy / "saved_model.pb", (0, 0))
    for other in (
        open_encoder(copy),
        open_encoder(copy, max_batch=3),
        open_encoder(copy, trust=True),
        open_encoder(copy, signature="serving_default", output="vectors"),
    ):
        assert other.fingerprint == wanted.fingerprint


def test_all_that_decides_vectors_is_in_the_fingerprint(built: Built, tmp_path: Path) -> None:
    """Variables, assets, the signature, the output."""
    copy = shutil.copytree(built("serving"), tmp_path / "copy")
    two, outputs = built("two_signatures"), built("two_outputs")
    prints = [open_encoder(two, signature=name).fingerprint for name in ("first", "kept_first")]
    prints += [open_encoder(outputs, output=name).fingerprint for name in ("vectors", "twice")]
    prints.append(open_encoder(copy).fingerprint)
    changed(copy, "variables/variables.data-00000-of-00001")
    prints.append(open_encoder(copy).fingerprint)
    for text in ("cat", "dog"):
        (copy / "assets").mkdir(exist_ok=True)
        (copy / "assets" / "words.txt").write_text(text)
        prints.append(open_encoder(copy).fingerprint)
    assert len({*prints}) == len(prints)


def test_an_encoder_is_opened_again_where_it_is_unpickled(
    built: Built, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With all its options, from another working folder; another model in its place is not."""
    (tmp_path / "elsewhere").mkdir()
    copy = shutil.copytree(built("two_signatures"), tmp_path / "copy")
    monkeypatch.chdir(tmp_path)
    encoder = open_encoder("copy", signature="second", max_batch=7)
    pickled = pickle.dumps(encoder)
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = pickle.loads(pickled)
    assert np.array_equal(again.encode(TEXTS), encoder.encode(TEXTS))
    assert (again.fingerprint, again.max_batch) == (encoder.fingerprint, 7)
    changed(copy, "variables/variables.data-00000-of-00001")
    with pytest.raises(InvalidFile, match="changed since"):
        pickle.loads(pickled)


# Handles.


def test_a_handle_is_found_in_the_cache(
    built: Built, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also by a pickle, on a machine with another cache. Nothing is downloaded."""
    handle = "https://host/module"
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path))
    with pytest.raises(NotFound, match=r"(?s)not in the local cache.*To download it"):
        open_encoder(handle)
    shutil.copytree(built("hub_module"), tmp_path / hashlib.sha1(handle.encode()).hexdigest())
    encoder = open_encoder(handle)
    assert np.array_equal(encoder.encode(TEXTS), open_encoder(built("hub_module")).encode(TEXTS))
    assert pickle.loads(pickle.dumps(encoder)).fingerprint == encoder.fingerprint
    assert encoder.__reduce__()[1][0] == handle
