"""What a sample of a corpus says of words: how much each weighs, and a component to take out.

``idf``  ln((1 + N) / (1 + n(w))) + 1, where n(w) of N documents hold the word. Source: smoothed idf
         of scikit-learn's TfidfTransformer; Manning, Raghavan, Schütze: Introduction to
         Information Retrieval, 6.2.1.
``sif``  a / (a + p(w)), a = 0.001, p(w) the word's share of all known words. Source: Arora, Liang,
         Ma: A Simple but Tough-to-Beat Baseline for Sentence Embeddings, ICLR 2017.
``none`` 1.

Also the JSON file that keeps them: the same sample makes the same bytes. How they are found in a
sample is in ``static_fitting.py``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, assert_never, get_args

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat, reading
from vocabtool.formats import json_parsing
from vocabtool.system.whole_file import whole_file

Weighting = Literal["none", "idf", "sif"]
WEIGHTINGS: Final[tuple[Weighting, ...]] = get_args(Weighting)
SIF_A: Final = 1e-3
FORMAT: Final = "vocabtool fitted weights 1"
UNIT: Final = 1e-3  # a component in a file is that near to unit length
SHA256: Final = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, eq=False)
class FittedWeights:
    """Weights of words and a component, fitted on a sample.

    ``documents``, ``words``: how many the sample has; words count where the vectors hold them.
    ``positions``: int64, shape (k,), ascending: the rows of the words that the sample holds.
    ``counts``: int64, shape (k,): for idf in how many documents each is, else how often it stands.
    ``component``: float32, shape (dim,), unit length, or ``None``.
    ``vectors``, ``rule``: fingerprints of what they were fitted with.
    """

    weights: Weighting
    documents: int
    words: int
    positions: NDArray[np.int64]
    counts: NDArray[np.int64]
    component: NDArray[np.float32] | None
    vectors: str
    rule: str

    def of_rows(self, count: int) -> NDArray[np.float32] | None:
        """The weight of each of ``count`` rows, shape (count,); ``None``: all weigh the same."""
        counts = np.zeros(count, np.int64)
        counts[self.positions] = self.counts
        match self.weights:
            case "none":
                return None
            case "idf":
                return (np.log((1 + self.documents) / (1 + counts)) + 1).astype(np.float32)
            case "sif":
                return (SIF_A / (SIF_A + counts / self.words)).astype(np.float32)
            case _:
                assert_never(self.weights)

    def check(self, count: int, dim: int) -> None:
        """Raise :class:`InvalidFile` where they are no weights of a matrix of this shape."""
        last = int(self.positions[-1])
        if last >= count or (self.component is not None and self.component.shape != (dim,)):
            raise InvalidFile(
                f"fitted weights do not fit a matrix of shape ({count:,}, {dim:,}): row {last:,}, "
                f"{0 if self.component is None else len(self.component):,} numbers of a component"
            )

    @property
    def fingerprint(self) -> str:
        """Hexadecimal sha256 of all of it."""
        return hashlib.sha256(self._bytes()).hexdigest()

    def write(self, path: str | Path) -> None:
        """Write one JSON file, wholly or not at all. Raises :class:`NotFound`."""
        with reading(str(path)), whole_file(path) as file:
            file.write(self._bytes())

    @classmethod
    def read(cls, path: str | Path) -> FittedWeights:
        """Read what :meth:`write` wrote.

        Raises :class:`NotFound`, :class:`InvalidFile` or :class:`UnsupportedFormat`.
        """
        with reading(str(path)):
            with Path(path).open("rb") as file:
                data = file.read(json_parsing.MAX_FILE + 1)
            if len(data) > json_parsing.MAX_FILE:
                raise UnsupportedFormat(f"more than {json_parsing.MAX_FILE:,} bytes of JSON")
            return _checked(json_parsing.parse(data))

    def _bytes(self) -> bytes:
        told = {
            "format": FORMAT,
            "weights": self.weights,
            "documents": self.documents,
            "words": self.words,
            "positions": self.positions.tolist(),
            "counts": self.counts.tolist(),
            "component": None if self.component is None else self.component.tolist(),
            "vectors": self.vectors,
            "rule": self.rule,
        }
        return json.dumps(told, indent=None, separators=(",", ":")).encode() + b"\n"


def _checked(told: Any) -> FittedWeights:
    """The weights of a parsed file. Raises :class:`InvalidFile`."""
    if not isinstance(told, Mapping) or told.get("format") != FORMAT:
        raise InvalidFile(f"not a file of fitted weights: wanted an object of format {FORMAT!r}")
    fitted = FittedWeights(
        _weighting(told.get("weights")),
        _whole(told.get("documents"), "documents"),
        _whole(told.get("words"), "words"),
        _wholes(told.get("positions"), "positions"),
        _wholes(told.get("counts"), "counts"),
        _component(told.get("component")),
        _sha256(told.get("vectors"), "vectors"),
        _sha256(told.get("rule"), "rule"),
    )
    _check_counts(fitted)
    return fitted


def _check_counts(fitted: FittedWeights) -> None:
    """Refuse numbers that no sample has."""
    positions, counts = fitted.positions, fitted.counts
    if len(positions) != len(counts) or not len(counts):
        raise InvalidFile(f"{len(positions):,} positions and {len(counts):,} counts")
    if int(positions[0]) < 0 or bool((np.diff(positions) <= 0).any()):
        raise InvalidFile("positions are not ascending from 0 on")
    most = fitted.documents if fitted.weights == "idf" else fitted.words
    if int(counts.min()) < 1 or int(counts.max()) > most:
        raise InvalidFile(f"counts from {counts.min():,} to {counts.max():,}, wanted 1 to {most:,}")


def _weighting(value: object) -> Weighting:
    for known in WEIGHTINGS:
        if value == known:
            return known
    raise InvalidFile(f"weights {value!r}, wanted one of {', '.join(WEIGHTINGS)}")


def _whole(value: object, what: str) -> int:
    if type(value) is not int or not 1 <= value < 1 << 62:
        raise InvalidFile(f"{what} is no whole number from 1 on")
    return value


def _wholes(value: object, what: str) -> NDArray[np.int64]:
    if not isinstance(value, list) or not all(type(each) is int for each in value):
        raise InvalidFile(f"{what} is no list of whole numbers")
    try:
        return np.array(value, np.int64)
    except OverflowError as error:
        raise InvalidFile(f"{what} holds a number of more than 64 bits") from error


def _component(value: object) -> NDArray[np.float32] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(type(each) is float for each in value):
        raise InvalidFile("component is no list of numbers")
    component = np.array(value, np.float64)
    if not abs(float(component @ component) - 1) <= UNIT:
        raise InvalidFile("component is not of unit length")
    return component.astype(np.float32)


def _sha256(value: object, what: str) -> str:
    if not isinstance(value, str) or not SHA256.fullmatch(value):
        raise InvalidFile(f"{what} is no hexadecimal sha256")
    return value
