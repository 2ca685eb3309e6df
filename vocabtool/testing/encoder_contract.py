"""What every encoder promises, as tests by values.

class TestMyEncoder(EncoderContract):
    def new_encoder(self) -> Encoder:
        return vocabtool.open_encoder("mine:model")
"""

from __future__ import annotations

import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
import pytest

from vocabtool.encoders.encoder import Encoder, Vectors

TEXTS: Final = (
    *("I love to use Xapian!", "", "love", "nothing known hereabouts", "love", "use use use"),
    *(
        "to use, or not to use: that is the question",
        "naïve 日本 😀",
        " \t\n",
        "a\0b",
        "word " * 50,
    ),
)


class EncoderContract:
    """Derive a class of tests from it, and write :meth:`new_encoder`.

    ``tolerance``: how much a number may differ where other texts are in the same batch.
    """

    tolerance = 1e-5

    def new_encoder(self) -> Encoder:
        """Open the encoder; each call opens it again."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def encoder(cls) -> Encoder:
        return cls().new_encoder()

    def test_shapes(self, encoder: Encoder) -> None:
        """For no text, one text, and more than go at once."""
        for count in (0, 1, 2, encoder.max_batch + 1):
            texts = [TEXTS[at % len(TEXTS)] for at in range(min(count, 600))]
            for vectors in (encoder.encode(texts), encoder.encode_queries(texts)):
                assert isinstance(vectors, np.ndarray)
                assert vectors.dtype == np.float32
                assert vectors.shape == (len(texts), encoder.dim)
                assert np.isfinite(vectors).all()

    def test_batches_and_order(self, encoder: Encoder) -> None:
        """A vector depends on its text alone, and is at the place of its text."""
        wanted = encoder.encode(TEXTS)
        self._near(np.concatenate([encoder.encode([text]) for text in TEXTS]), wanted)
        self._near(encoder.encode(TEXTS[::-1])[::-1], wanted)
        self._near(wanted[TEXTS.index("love", 3)], wanted[TEXTS.index("love")])
        self._near(np.stack([*encoder.pipe(iter(TEXTS), batch_size=3, workers=2)]), wanted)
        assert len({vector.tobytes() for vector in wanted}) > 1  # texts make a difference

    def test_bytes(self, encoder: Encoder) -> None:
        """Texts may be bytes, and bytes that are no UTF-8 do not fail."""
        self._near(encoder.encode([text.encode() for text in TEXTS]), encoder.encode(TEXTS))
        assert np.isfinite(encoder.encode([b"\xff\xfe love", b"\xed\xa0\x80", "\ud800"])).all()

    def test_same_again(self, encoder: Encoder) -> None:
        """Opened again, or sent to another process, it is the same model."""
        wanted = encoder.encode(TEXTS)
        again = self.new_encoder()
        for other in (again, pickle.loads(pickle.dumps(encoder))):  # noqa: S301 - our own bytes
            assert other.fingerprint == encoder.fingerprint
            assert (other.kind, other.dim, other.max_batch) == (
                *(encoder.kind, encoder.dim, encoder.max_batch),
            )
            self._near(other.encode(TEXTS), wanted)
        assert re.fullmatch("[0-9a-f]{64}", encoder.fingerprint)

    def test_threads(self, encoder: Encoder) -> None:
        """Several threads at once get what one alone gets."""
        batches = [TEXTS[at:] + TEXTS[:at] for at in range(len(TEXTS))]
        alone = [encoder.encode(batch) for batch in batches]
        with ThreadPoolExecutor(4) as pool:
            for found, wanted in zip(pool.map(encoder.encode, batches), alone, strict=True):
                self._near(found, wanted)

    def test_words(self, encoder: Encoder) -> None:
        """If it has words, each is found in its vocabulary by its rule, and has a fingerprint."""
        words = encoder.words
        if words is None:
            pytest.skip("no words: open it with vocabulary= to weigh unknown ones")
        found = words.look_up(TEXTS)
        assert len(found.offsets) == len(TEXTS) + 1
        assert re.fullmatch("[0-9a-f]{64}", words.fingerprint)
        assert self.new_encoder().words is not None
        again = words.look_up(TEXTS)
        assert np.array_equal(again.known[again.codes], found.known[found.codes])

    def _near(self, found: Vectors, wanted: Vectors) -> None:
        np.testing.assert_allclose(found, wanted, rtol=0, atol=self.tolerance)
