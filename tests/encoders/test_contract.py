"""Our encoders, and one that another package adds, fulfil the contract that we ship."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.encoder_cases import MATRIX, WORDS, lengths, write_vectors
from vocabtool import Encoder, Index, NotFound, open_encoder
from vocabtool.testing import EncoderContract


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
