"""Static encoders: the weighted mean of the vectors of a text's words, from a file of such vectors.

Reading those files is in ``static_vectors.py``. How texts become words without a rule named is in
``static_rules.py``, weights and their file in ``static_weights.py``, fitting them in
``static_fitting.py``, the mean itself in ``static_means.py``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from vocabtool.encoders.encoder import EncoderKind, Texts, Vectors
from vocabtool.encoders.inexact import Inexact
from vocabtool.encoders.piping import Piping
from vocabtool.encoders.static_fitting import MOST_TEXTS, Fit
from vocabtool.encoders.static_lookup import RowLookup
from vocabtool.encoders.static_means import Means
from vocabtool.encoders.static_rules import guessed_rule
from vocabtool.encoders.static_vectors import MappedVectors
from vocabtool.encoders.static_weights import WEIGHTINGS, FittedWeights, Weighting
from vocabtool.errors import VocabtoolError
from vocabtool.tokenization.text_arrays import texts_array
from vocabtool.tokenization.words import Words

if TYPE_CHECKING:
    import pyarrow as pa

MAX_BATCH: Final = 1_024
# Rare words tell texts apart: idf finds more than sif and none on each collection measured, with
# and without the component (benchmarks/word_weights.py).
WEIGHTS: Final[Weighting] = "idf"


class Options(NamedTuple):
    """How words become a vector. ``notes``: what was chosen where nobody said."""

    rule: str
    weights: Weighting
    remove_component: bool
    fitted: FittedWeights | None
    max_batch: int
    notes: tuple[str, ...] = ()


class StaticEncoder(Piping, Inexact):
    """Weighted means of word vectors, of unit length. Safe for several threads; can be pickled.

    A text without a known word gets the zero vector, exactly; so does one of whose mean nothing is
    left when the component is taken out. Open one with :meth:`open`.
    """

    kind: EncoderKind = "static"

    def __init__(self, vectors: MappedVectors, options: Options) -> None:
        self._vectors = vectors
        self._options = options
        self._words = Words.of(vectors.words, rule=options.rule)
        self._lookup = RowLookup(self._words)
        self._means = self._of_fitted()

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        rule: str | None = None,
        weights: Weighting | None = None,
        remove_component: bool | None = None,
        fitted: FittedWeights | None = None,
        max_batch: int = MAX_BATCH,
    ) -> StaticEncoder:
        """Open a file of word vectors, as :meth:`WordVectors.open` does, memory-mapped.

        A file that holds no plain matrix of float32 is converted once, into the user's cache
        (``$VOCABTOOL_CACHE``, else ``vocabtool`` in ``$XDG_CACHE_HOME`` or ``~/.cache``; ``notes``
        say), unless :meth:`WordVectors.matrix` made one beside it.
        ``rule``: how texts become words (see ``words/named.py``); without, the entries tell.
        ``weights``: ``idf`` unless said; ``remove_component``: take out the first component of the
        corpus. Both need :meth:`fit`, or ``fitted``, which then says what they are.
        Raises :class:`VocabtoolError`, ``ValueError`` for a wrong argument.
        """
        if weights not in (None, *WEIGHTINGS):
            raise ValueError(f"weights {weights!r}, wanted one of {', '.join(WEIGHTINGS)}")
        if max_batch < 1:
            raise ValueError(f"wanted max_batch of at least 1, got {max_batch}")
        if fitted is not None:
            _check_asked(fitted, weights, remove_component)
            weights, remove_component = fitted.weights, fitted.component is not None
        vectors = MappedVectors(path)
        notes: tuple[str, ...] = ()
        if rule is None:
            rule, reason = guessed_rule(vectors.words)
            notes = (f"no rule was named: {rule} is taken, for {reason}",)
        options = Options(
            rule, weights or WEIGHTS, bool(remove_component), fitted, max_batch, notes
        )
        return cls(vectors, options)

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        return int(self._vectors.matrix.shape[1])

    @property
    def vectors_fingerprint(self) -> str:
        """Of the word vectors alone, however they are weighted."""
        return self._vectors.fingerprint

    @property
    def max_batch(self) -> int:
        """Texts that are worked on at once."""
        return self._options.max_batch

    @property
    def words(self) -> Words:
        """The words of the file, found by the rule."""
        return self._words

    @property
    def rule(self) -> str:
        """How texts become words, by its name (see ``words/named.py``)."""
        return self._options.rule

    @property
    def notes(self) -> tuple[str, ...]:
        """What was chosen, and where the matrix is."""
        return (*self._options.notes, *self._vectors.notes)

    @property
    def fitted(self) -> FittedWeights | None:
        """The weights and the component, where there are any."""
        return self._options.fitted

    @property
    def needs_fit(self) -> bool:
        """Whether weights or a component are asked for that were not fitted yet."""
        options = self._options
        return options.fitted is None and (options.weights != "none" or options.remove_component)

    @cached_property
    def fingerprint(self) -> str:
        """Hexadecimal sha256 of words, matrix, rule, weights and component; reads the matrix."""
        options = self._options
        fitted = options.fitted.fingerprint if options.fitted is not None else "not fitted"
        told = (
            "vocabtool static 1",
            self._vectors.fingerprint,
            self._words.fingerprint,
            f"{options.weights} {options.remove_component} {fitted}",
        )
        return hashlib.sha256("\n".join(told).encode()).hexdigest()

    def encode(self, texts: Texts) -> Vectors:
        """The vector of each text: float32, shape (n, dim), unit length or zero.

        Raises :class:`VocabtoolError` where weights are not fitted yet, and where a vector in the
        file is not finite.
        """
        if self.needs_fit:
            raise VocabtoolError(
                f"{self._vectors.file}: weights ({self._options.weights}) and component are fitted "
                "on a sample of the corpus first: encoder.fit(texts) gives an encoder to use"
            )
        array = texts_array(texts)
        starts = range(0, max(len(array), 1), self.max_batch)
        parts = [self._unit(array.slice(start, self.max_batch)) for start in starts]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def fit(self, texts: Iterable[str | bytes], *, most: int = MOST_TEXTS) -> StaticEncoder:
        """An encoder with weights and component of a sample: the first ``most`` of ``texts``.

        One pass, in 4 bytes for each word of the sample; the same texts give the same bits. Where
        nothing is to be fitted it is the encoder itself.
        Raises :class:`VocabtoolError` where none of them holds a known word.
        """
        options = self._options
        if options.weights == "none" and not options.remove_component:
            return self
        fit = Fit(
            self._vectors.matrix,
            self._lookup,
            options.weights,
            options.remove_component,
            self._vectors.fingerprint,
            self._words.fingerprint,
        )
        return StaticEncoder(self._vectors, options._replace(fitted=fit.on(texts, most)))

    def with_weights(self, fitted: FittedWeights) -> StaticEncoder:
        """An encoder with weights that were fitted before.

        Raises :class:`VocabtoolError` where other ones are asked for here, and where they were
        fitted with other vectors or another rule.
        """
        options = self._options
        _check_asked(fitted, options.weights, options.remove_component)
        return StaticEncoder(self._vectors, options._replace(fitted=fitted))

    def __reduce__(self) -> tuple[type[StaticEncoder], tuple[MappedVectors, Options]]:
        """Without what is remembered: it changes no answer."""
        return StaticEncoder, (self._vectors, self._options)

    def _unit(self, texts: pa.StringArray) -> Vectors:
        return self._means.unit(self._lookup.rows(texts))

    def _of_fitted(self) -> Means:
        matrix, fitted = self._vectors.matrix, self._options.fitted
        if fitted is None:
            return Means(matrix)
        if fitted.vectors != self._vectors.fingerprint:
            raise VocabtoolError(
                f"{self._vectors.file}: the weights were fitted with other word vectors "
                f"({fitted.vectors[:12]}, these are {self._vectors.fingerprint[:12]}): fit anew"
            )
        if fitted.rule != self._words.fingerprint:
            raise VocabtoolError(
                f"the weights were fitted with another rule than {self._options.rule!r}: name the "
                "rule that was used then, or fit anew"
            )
        fitted.check(*matrix.shape)
        return Means(matrix, fitted.of_rows(len(matrix)), fitted.component)


def _check_asked(
    fitted: FittedWeights, weights: Weighting | None, remove_component: bool | None
) -> None:
    """Refuse options that contradict what was fitted."""
    if weights not in (None, fitted.weights):
        raise VocabtoolError(f"weights {weights!r} are wanted, {fitted.weights!r} were fitted")
    if remove_component is not None and remove_component != (fitted.component is not None):
        held = "without" if fitted.component is None else "with"
        raise VocabtoolError(f"remove_component={remove_component}, but the fit is {held} one")
