"""What every kind of encoder promises: one contract, run for each, against values of an oracle."""

# own process: TensorFlow, PyTorch

from __future__ import annotations

import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.encoder_cases import BUILDERS, MAX_BATCH, Case
from vocabtool import Encoder, open_encoder
from vocabtool.errors import VocabtoolError

TEXTS = [
    *("I love to use Xapian!", "", "love", "I", "nothing known hereabouts", "love", "use use use"),
    "to use, or not to use: that is the question that naïve people ask in 日本",
    "I love to use xapian to use love",
]


@pytest.fixture(scope="module", params=sorted(BUILDERS))
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return BUILDERS[request.param](tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def encoder(case: Case) -> Encoder:
    return case.open()


def as_given(encoder: Encoder, texts: list[str]) -> Any:
    """Vectors, made sure to be what the interface says."""
    vectors = encoder.encode(texts)
    for found in (vectors, encoder.encode_queries(texts)):
        assert found.dtype == np.float32
        assert found.shape == (len(texts), encoder.dim)
        assert np.isfinite(found).all()
    return vectors


@pytest.mark.parametrize("size", [0, 1, MAX_BATCH, MAX_BATCH + 1, len(TEXTS)])
def test_values(case: Case, encoder: Encoder, size: int) -> None:
    """Vectors are the oracle's, for no texts, for one, and for more than go at once."""
    wanted = case.oracle([text.encode() for text in TEXTS[:size]])
    np.testing.assert_allclose(as_given(encoder, TEXTS[:size]), wanted, rtol=0, atol=1e-6)


def test_limit(case: Case, encoder: Encoder) -> None:
    """The last token that is used changes the vector, those behind it do not."""
    if case.kind in ("static", "python", "openai", "tensorflow"):
        assert encoder.max_tokens is None
        pytest.skip("this kind has no limit, or does not know it")
    most = {"model2vec": 12, "onnx": 10, "sentence-transformers": 254}[case.kind]
    assert encoder.max_tokens == most
    before = "i " * (most - 1)
    love, to, more = as_given(encoder, [f"{before}love", f"{before}to", f"{before}love to use"])
    np.testing.assert_allclose(more, love, rtol=0, atol=1e-6)
    assert np.abs(to - love).max() > 1e-5


def test_forms(encoder: Encoder) -> None:
    """Strings, bytes and Arrow arrays of any type of string, sliced or not, are the same texts."""
    wanted = as_given(encoder, TEXTS)
    sliced = pa.array(["left out", *TEXTS, "left out"]).slice(1, len(TEXTS))
    for texts in (
        [text.encode() for text in TEXTS],
        tuple(TEXTS),
        pa.array(TEXTS),
        pa.array(TEXTS, pa.large_string()),
        pa.array([text.encode() for text in TEXTS]),
        sliced,
    ):
        assert np.array_equal(encoder.encode(texts), wanted)


def test_batches_do_not_matter(case: Case, encoder: Encoder) -> None:
    """What stands beside a text, and where, does not change its vector."""
    wanted = as_given(encoder, TEXTS)
    alone = np.concatenate([as_given(encoder, [text]) for text in TEXTS])
    np.testing.assert_allclose(alone, wanted, rtol=0, atol=case.tolerance)
    backwards = as_given(encoder, TEXTS[::-1])[::-1]
    np.testing.assert_allclose(backwards, wanted, rtol=0, atol=case.tolerance)
    assert TEXTS[2] == TEXTS[5]
    np.testing.assert_allclose(wanted[2], wanted[5], rtol=0, atol=case.tolerance)


def test_bytes_that_are_no_text(case: Case, encoder: Encoder) -> None:
    """Bytes that are not UTF-8, NUL and lone surrogates are texts as good as others."""
    given = [b"\xff\xfe love", b"", b"a\0b", b"\xed\xa0\x80"]
    vectors = encoder.encode(given)
    np.testing.assert_allclose(vectors, case.oracle(given), rtol=0, atol=1e-6)
    assert np.array_equal(encoder.encode(["\ud800"]), encoder.encode([b"\xed\xa0\x80"]))


def test_pickled(encoder: Encoder) -> None:
    """An encoder that was sent to another process is as good as this one, to the bit."""
    other: Encoder = pickle.loads(pickle.dumps(encoder))
    assert other.fingerprint == encoder.fingerprint
    for name in ("kind", "dim", "max_batch", "notes"):
        assert getattr(other, name) == getattr(encoder, name)
    assert np.array_equal(other.encode(TEXTS), encoder.encode(TEXTS))


def test_pickled_notes() -> None:
    """The rule that was guessed is then an option, but it was guessed all the same."""
    encoder = open_encoder("data/small_glove.txt", weights="none")
    assert "no --rule given" in encoder.notes[0]
    assert pickle.loads(pickle.dumps(encoder)).notes == encoder.notes


def test_threads(encoder: Encoder) -> None:
    """Several threads may encode at once: each gets what one alone would."""
    batches = [TEXTS[at:] + TEXTS[:at] for at in range(len(TEXTS))]
    alone = [encoder.encode(batch) for batch in batches]
    with ThreadPoolExecutor(2) as pool:
        for wanted, found in zip(alone, pool.map(encoder.encode, batches), strict=True):
            assert np.array_equal(found, wanted)


def test_fingerprint(case: Case, encoder: Encoder) -> None:
    """Equal for the same model opened again, another for another."""
    assert re.fullmatch("[0-9a-f]{64}", encoder.fingerprint)
    assert case.open().fingerprint == encoder.fingerprint
    assert case.other().fingerprint != encoder.fingerprint


def test_what_is_refused(case: Case, encoder: Encoder) -> None:
    """One text, a null, a number are no list of texts; no batch of none."""
    with pytest.raises(ValueError, match="got 0"):
        case.open(max_batch=0)
    with pytest.raises(TypeError, match="put it in a list"):
        encoder.encode("love")
    with pytest.raises(VocabtoolError, match="null"):
        encoder.encode(pa.array(["love", None]))
    with pytest.raises(TypeError, match="expected a text"):
        encoder.encode([17])


def test_told(case: Case, encoder: Encoder) -> None:
    """The kind, the batch that was asked for, notes for a person; words, where there are any.

    Looked up twice, they are the same words.
    """
    assert (encoder.kind, encoder.max_batch) == (case.kind, MAX_BATCH)
    assert all(isinstance(note, str) and note for note in encoder.notes)
    if encoder.words is not None:
        assert encoder.words.split(["love"]).to_pylist()[0]
        assert re.fullmatch("[0-9a-f]{64}", encoder.words.fingerprint)
        one, again = (encoder.words.look_up(TEXTS) for _ in range(2))
        assert len(one.offsets) == len(TEXTS) + 1
        assert np.array_equal(again.known[again.codes], one.known[one.codes])
