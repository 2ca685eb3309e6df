"""What every encoder fulfils: ours, and one that another package adds."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from tests.encoder_cases import MATRIX, WORDS, lengths, write_vectors
from vocabtool import Encoder, Index, NotFound, open_encoder
from vocabtool.encoders.encoder import Vectors

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
    """Tests of an encoder. Derive a class from this one and implement :meth:`new_encoder`.

    ``tolerance``: how much each number in the vector of a text may differ between two batches.
    """

    tolerance = 1e-5

    def new_encoder(self) -> Encoder:
        """Return a newly opened encoder. The tests call this several times."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def encoder(cls) -> Encoder:
        return cls().new_encoder()

    def test_shapes(self, encoder: Encoder) -> None:
        """Vectors have the right shape and type, for no text, a few texts, and many texts."""
        for count in (0, 1, 2, encoder.max_batch + 1):
            texts = [TEXTS[at % len(TEXTS)] for at in range(min(count, 600))]
            for vectors in (encoder.encode(texts), encoder.encode_queries(texts)):
                assert isinstance(vectors, np.ndarray)
                assert vectors.dtype == np.float32
                assert vectors.shape == (len(texts), encoder.dim)
                assert np.isfinite(vectors).all()

    def test_batches_and_order(self, encoder: Encoder) -> None:
        """A vector depends only on its text, and vectors are in the order of the texts."""
        wanted = encoder.encode(TEXTS)
        self._near(np.concatenate([encoder.encode([text]) for text in TEXTS]), wanted)
        self._near(encoder.encode(TEXTS[::-1])[::-1], wanted)
        self._near(wanted[TEXTS.index("love", 3)], wanted[TEXTS.index("love")])
        self._near(np.stack([*encoder.pipe(iter(TEXTS), batch_size=3, workers=2)]), wanted)
        assert len({vector.tobytes() for vector in wanted}) > 1  # texts make a difference

    def test_bytes(self, encoder: Encoder) -> None:
        """Texts may be given as bytes. Invalid UTF-8 raises no error."""
        self._near(encoder.encode([text.encode() for text in TEXTS]), encoder.encode(TEXTS))
        assert np.isfinite(encoder.encode([b"\xff\xfe love", b"\xed\xa0\x80", "\ud800"])).all()

    def test_same_again(self, encoder: Encoder) -> None:
        """An encoder that is opened again or unpickled has the same fingerprint and vectors."""
        wanted = encoder.encode(TEXTS)
        again = self.new_encoder()
        for other in (again, pickle.loads(pickle.dumps(encoder))):
            assert other.fingerprint == encoder.fingerprint
            assert (other.kind, other.dim, other.max_batch) == (
                *(encoder.kind, encoder.dim, encoder.max_batch),
            )
            self._near(other.encode(TEXTS), wanted)
        assert re.fullmatch("[0-9a-f]{64}", encoder.fingerprint)

    def test_threads(self, encoder: Encoder) -> None:
        """Threads that encode at the same time get the same vectors as a single thread."""
        batches = [TEXTS[at:] + TEXTS[:at] for at in range(len(TEXTS))]
        alone = [encoder.encode(batch) for batch in batches]
        with ThreadPoolExecutor(4) as pool:
            for found, wanted in zip(pool.map(encoder.encode, batches), alone, strict=True):
                self._near(found, wanted)

    def test_words(self, encoder: Encoder) -> None:
        """Looking up the same texts twice gives the same result, if the encoder has ``words``."""
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


class TestStatic(EncoderContract):
    """Word vectors."""

    file: Path

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _file(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        cls.file = write_vectors(tmp_path_factory.mktemp("static") / "v.npz", WORDS, MATRIX)

    def new_encoder(self) -> Encoder:
        return open_encoder(self.file, rule="lower", weights="none", max_batch=4)


class TestPython(EncoderContract):
    """A function, with words given to it."""

    def new_encoder(self) -> Encoder:
        return open_encoder(lengths, max_batch=4, vocabulary=WORDS, rule="lower")


COUNTING = """
class Counts:
    def __init__(self, letters):
        self.letters, self.fingerprint = letters, f"counts {letters}"

    def __call__(self, texts):
        return [[text.count(letter) for letter in self.letters] for text in texts]

def opened(letters):
    return Counts(letters)
"""


class TestOfAnotherPackage(EncoderContract):
    """``counts:LETTERS``."""

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _installed(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        """A package, as pip leaves it."""
        site = tmp_path_factory.mktemp("site")
        facts = site / "counting-1.0.dist-info"
        facts.mkdir()
        (site / "counting.py").write_text(COUNTING)
        (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n")
        (facts / "entry_points.txt").write_text("[vocabtool.encoders]\ncounts = counting:opened\n")
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(site)
            yield

    def new_encoder(self) -> Encoder:
        return open_encoder("counts:aeiou", max_batch=4)

    def test_in_an_index(self, tmp_path: Path) -> None:
        """It makes the vectors of documents and queries, and is named at each opening.

        As any name that could import something: an index may be somebody else's.
        """
        encoder = self.new_encoder()
        assert (encoder.kind, encoder.dim) == ("python", 5)
        assert encoder.encode(["banana"]).tolist() == [[3, 0, 0, 0, 0]]
        with Index.create(tmp_path / "index", "counts:aeiou").writer() as writer:
            writer.add(["banana", "sheep"])
        with pytest.raises(NotFound, match="counts:aeiou"):
            _ = Index.open(tmp_path / "index").encoder
        index = Index.open(tmp_path / "index", "counts:aeiou")
        assert index.search("bee", fusion="dense")[0].text == "sheep"
        assert index.encoder is not None
        assert index.encoder.fingerprint == encoder.fingerprint
        with pytest.raises(NotFound, match="counting"):
            open_encoder("counting:aeiou")
