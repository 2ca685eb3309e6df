"""What an index is created as: shapes, and the model it belongs to.

No later commit changes it, but for the memory that building may take.
The model itself is opened by ``belonging.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast, get_args

from vocabtool.errors import InvalidFile
from vocabtool.index.vectors.metric import Metric, StoredType
from vocabtool.keywords.options import Language

EXACT_BELOW: Final = 20_000  # rows up to which a search of all vectors is quick
RECALL: Final = 0.95
VOCABULARY: Final = "vocabulary-{:.16}.parquet"  # by its fingerprint
WEIGHTS: Final = "weights-{:.16}.json"
TOKENIZER: Final = re.compile("tokenizer-[0-9a-f]{64}")  # by the sha256 of its bytes
FINGERPRINT: Final = re.compile("[0-9a-f]{64}")
MOST_DIMENSIONS: Final = 1 << 16
# What an encoder may be opened with again unasked: nothing that lets a model do more.
OPTIONS: Final = frozenset(
    ("kind", "signature", "output", "name", "rule", "weights", "remove_component", "fingerprint")
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """``dim``: numbers in a vector. ``recall``: wanted of the approximate search, at ten.

    ``exact_below``: up to how many rows vectors are searched exactly. ``memory``: bytes that
    building may take; ``None``: as it comes. ``cutter``: fingerprint of the keyword leg's rule.
    ``model``: the path or name the encoder was opened by, ``options``: with which arguments;
    ``encoder``, ``words``, ``vocabulary``: fingerprints of encoder, word rule and vocabulary;
    ``rule``: the word rule by which the vocabulary alone tells what is known; ``weights``:
    fingerprint of the fitted weights of word vectors. ``None``: there is none.
    """

    dim: int
    metric: Metric
    dtype: StoredType
    language: Language
    cutter: str
    recall: float = RECALL
    exact_below: int = EXACT_BELOW
    memory: int | None = None
    model: str | None = None
    options: Mapping[str, str | bool] = field(default_factory=dict)
    encoder: str | None = None
    words: str | None = None
    vocabulary: str | None = None
    rule: str | None = None
    weights: str | None = None

    @property
    def model_files(self) -> frozenset[str]:
        """The names of the files that its model is known by (``belonging.py``)."""
        kept = ((VOCABULARY, self.vocabulary), (WEIGHTS, self.weights))
        names = {name.format(print_) for name, print_ in kept if print_ is not None}
        rule = str(self.rule or self.options.get("rule")).removeprefix("tokenizer:")
        return frozenset({*names, rule} if TOKENIZER.fullmatch(rule) else names)

    @property
    def vector_bytes(self) -> int:
        """Bytes of a stored vector."""
        return self.dim * (2 if self.dtype == "float16" else 4)

    def bounded(self, memory: int) -> Configuration:
        """The same with another bound. Raises ``ValueError`` for what is none."""
        checked(self.dim, self.metric, self.dtype, self.recall, self.exact_below, memory)
        return replace(self, memory=memory)

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Configuration:
        """Out of a file. Raises :class:`InvalidFile` for what is none."""
        found = cls(**told)
        choices = (
            (found.metric, get_args(Metric)),
            (found.dtype, get_args(StoredType)),
            (found.language, get_args(Language)),
        )
        for value, among in choices:
            if value not in among:
                raise InvalidFile(f"{value!r} is none of {', '.join(among)}")
        texts = (found.cutter, found.model, found.encoder, found.words, found.vocabulary)
        if not all(
            text is None or type(text) is str for text in (*texts, found.rule, found.weights)
        ):
            raise InvalidFile("the entry 'configuration' holds no texts where they are wanted")
        names = (found.vocabulary, found.weights)
        if not all(name is None or FINGERPRINT.fullmatch(name) for name in names):
            raise InvalidFile("a fingerprint is not of its form")
        if not OPTIONS.issuperset(found.options) or not all(
            type(value) in (str, bool) for value in found.options.values()
        ):
            raise InvalidFile("the options of the model are none")
        if type(found.dim) is not int or not 0 < found.dim <= MOST_DIMENSIONS:
            raise InvalidFile(f"{found.dim!r} dimensions")
        numbers = (found.exact_below, found.memory if found.memory is not None else 0)
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise InvalidFile("the configuration's numbers are none")
        if type(found.recall) is not float or not 0 < found.recall <= 1:
            raise InvalidFile(f"a recall of {found.recall!r}")
        return found


def checked(  # what a caller may get wrong
    dim: int, metric: str, dtype: str, recall: float, exact_below: int, memory: int | None
) -> tuple[Metric, StoredType]:
    """The choices as such. Raises ``ValueError`` for wrong ones."""
    numbers = {"dim": dim, "exact_below": exact_below, "memory": memory or 0}
    for name, number in numbers.items():
        if type(number) is not int:  # anything else would not come back out of JSON as it was
            raise ValueError(f"{name}: wanted a whole number, got {number!r}")
    for name, value, among in (("metric", metric, Metric), ("dtype", dtype, StoredType)):
        if value not in get_args(among):
            raise ValueError(f"{name} {value!r}, wanted one of {', '.join(get_args(among))}")
    if not 0 < dim <= MOST_DIMENSIONS:
        raise ValueError(f"dim: wanted 1 to {MOST_DIMENSIONS:,}, got {dim}")
    if not 0 < recall <= 1:
        raise ValueError(f"recall: wanted more than 0, at most 1, got {recall}")
    if exact_below < 0 or (memory is not None and memory < 1):
        raise ValueError(f"wanted no negative number, got {exact_below=}, {memory=}")
    return cast(Metric, metric), cast(StoredType, dtype)
