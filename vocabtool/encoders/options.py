"""What an encoder can be opened with. No heavy import: the command line reads its choices here."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, TypedDict

from vocabtool.choices import WEIGHTINGS, EncoderKind, Weighting

if TYPE_CHECKING:
    from pathlib import Path

    from vocabtool.encoders.word_weights import FittedWeights

STORED: Final = frozenset(
    ("kind", "signature", "output", "name", "rule", "weights", "remove_component", "fingerprint")
)


class EncoderArguments(TypedDict, total=False):
    """:class:`EncoderOptions` as keyword arguments."""

    kind: EncoderKind | None
    signature: str | None
    output: str | None
    name: str | None
    rule: str | None
    exact_words: bool
    trust: bool
    weights: Weighting | None
    remove_component: bool | None
    fitted: FittedWeights | str | Path | None
    fingerprint: str | None
    max_batch: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class EncoderOptions:
    """How an encoder is opened. ``None`` and ``False``: not given.

    ``kind``: what the model is, instead of finding out from its content. ``max_batch``: texts
    encoded at once, at most.

    Of a TensorFlow model: ``signature``: the function, of several that give vectors (or a method's
    name); ``output``: one of its outputs; ``name``: the vocabulary, as ``inspect`` prints it;
    ``exact_words``: let the running model report its words (:meth:`Encoder.encode_with_words`).
    ``rule``: how texts become words, as in ``Words.of``; of a TensorFlow model that takes ids, and
    of word vectors.
    Of word vectors: ``weights`` of the words, ``idf`` unless said; ``remove_component``: take out
    the first component of the corpus; ``fitted``: weights and component that were fitted before, or
    the file that ``embed`` or ``FittedWeights.write`` kept them in.
    ``trust``: run a model though it may read or write files, use the network or run code.
    ``fingerprint``: of a Python callable, any text that changes when its vectors do.
    Raises ``ValueError`` for a value that none of them can have.
    """

    kind: EncoderKind | None = None
    signature: str | None = None
    output: str | None = None
    name: str | None = None
    rule: str | None = None
    exact_words: bool = False
    trust: bool = False
    weights: Weighting | None = None
    remove_component: bool | None = None
    fitted: FittedWeights | str | Path | None = None
    fingerprint: str | None = None
    max_batch: int | None = None

    def __post_init__(self) -> None:
        if self.max_batch is not None and self.max_batch < 1:
            raise ValueError(f"wanted max_batch of at least 1, got {self.max_batch}")
        if self.weights not in (None, *WEIGHTINGS):
            wanted = ", ".join(WEIGHTINGS)
            raise ValueError(f"weights {self.weights!r}, wanted one of {wanted}")

    def given_options(self) -> dict[str, Any]:
        """The options that were given, by name."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: value
            for name, value in values.items()
            if value is not None and (value is not False or name == "remove_component")
        }

    def to_record(self) -> dict[str, str | bool]:
        """The options that a folder may store, and later open the model with unasked.

        Nothing that lets a model do more, and no fitted weights: they have a file of their own.
        """
        return {name: value for name, value in self.given_options().items() if name in STORED}
