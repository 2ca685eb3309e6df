"""Static encoders: the weighted mean of the vectors of a text's words, from a file of such vectors.

Reading the formats of those files is in ``formats/word_vectors.py``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow.compute as pc

from vocabtool.choices import Weighting
from vocabtool.encoders.encoder import Encoder, EncoderOptions, Texts, Vectors
from vocabtool.encoders.word_weights import MAX_TEXTS, FittedWeights, KnownRows, Means, fit_weights
from vocabtool.errors import NotFound, VocabtoolError, reading
from vocabtool.formats.word_vectors import WordVectors
from vocabtool.tokenization.text_arrays import texts_array
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import Vocabulary

if TYPE_CHECKING:
    import pyarrow as pa

MAX_BATCH: Final = 1_024
# Rare words tell texts apart: idf finds more than sif and none on each collection measured, with
# and without the component (benchmarks/word_weights.py).
DEFAULT_WEIGHTS: Final[Weighting] = "idf"

MIN_CAPITALS: Final = 0.01  # of the entries; fewer are names of markers such as <UNK>
MARKS: Final = (b",", b".")
CASED_WITH_MARKS: Final = r"regex:[^\s!-/:-@\[-`{-~]+|[!-/:-@\[-`{-~]"
CASED: Final = r"regex:[^\s!-/:-@\[-`{-~]+"

CACHE: Final = "VOCABTOOL_CACHE"
CACHE_HOME: Final = "XDG_CACHE_HOME"  # XDG Base Directory Specification
NEEDED: Final = "the vectors have to be converted once"
NAME_ONE: Final = f"name a folder for that in ${CACHE}"
HASHED_BYTES: Final = 1 << 24  # of the matrix at a time


class StaticEncoder(Encoder):
    """Weighted means of word vectors, of unit length. Safe for several threads; can be pickled.

    A text without a known word gets the zero vector, exactly; so does one of whose mean nothing is
    left when the component is taken out. Open one with :meth:`open`.
    """

    kind = "static"
    words: Words

    def __init__(
        self,
        vectors: VectorFile,
        options: EncoderOptions,
        fitted: FittedWeights | None,
        notes: tuple[str, ...] = (),
        words: Words | None = None,
    ) -> None:
        """Use :meth:`open`. ``words``: of the file by the rule, where they are known already."""
        self._vectors = vectors
        self._chosen = notes
        self._notes = (*notes, *vectors.notes)
        self.fitted = fitted
        self.options = replace(options, fitted=fitted)
        self.dim = int(vectors.matrix.shape[1])
        self.max_batch = options.max_batch or MAX_BATCH
        self.words = words or Words.of(vectors.words, rule=options.rule)
        self._means = Means(vectors.matrix)
        weights, component = options.weights, options.remove_component
        # Whether weights or a component are asked for that were not fitted yet.
        self.needs_fit = fitted is None and (weights != "none" or bool(component))
        if fitted is None:
            return
        if weights != fitted.weights:
            raise VocabtoolError(f"weights {weights!r} are wanted, {fitted.weights!r} were fitted")
        if component != (fitted.component is not None):
            part = "without" if fitted.component is None else "with"
            raise VocabtoolError(f"remove_component={component}, but the fit is {part} one")
        if fitted.vectors != vectors.fingerprint:
            raise VocabtoolError(
                f"{vectors.file}: the weights were fitted with other word vectors "
                f"({fitted.vectors[:12]}, these are {vectors.fingerprint[:12]}): fit anew"
            )
        if fitted.rule != self.words.tokenizer.fingerprint:
            raise VocabtoolError(
                f"the weights were fitted with another rule than {options.rule!r}: name the "
                "rule that was used then, or fit anew"
            )
        self._means = fitted.means(vectors.matrix)

    @classmethod
    def open(cls, path: str | Path, options: EncoderOptions) -> StaticEncoder:
        """Open a file of word vectors, as :meth:`WordVectors.open` does, memory-mapped.

        A file that holds no plain matrix of float32 is converted once, into the user's cache
        (``$VOCABTOOL_CACHE``, else ``vocabtool`` in ``$XDG_CACHE_HOME`` or ``~/.cache``; ``notes``
        say), unless :meth:`WordVectors.matrix` made one beside it. Without a rule, the entries
        decide how texts become words. Weights and component need :meth:`fit`, or ``fitted``, which
        then says what they are. Raises :class:`VocabtoolError`.
        """
        fitted = options.fitted
        if isinstance(fitted, str | Path):
            fitted = FittedWeights.read(fitted)
        weights, component = options.weights, options.remove_component
        if weights is None:
            weights = fitted.weights if fitted is not None else DEFAULT_WEIGHTS
        if component is None:
            component = fitted is not None and fitted.component is not None
        vectors, rule = VectorFile(path), options.rule
        notes: tuple[str, ...] = ()
        if rule is None:
            rule, reason = guess_rule(vectors.words)
            notes = (f"no rule was named: {rule} is taken, for {reason}",)
        chosen = replace(
            options,
            rule=rule,
            weights=weights,
            remove_component=component,
            max_batch=options.max_batch or MAX_BATCH,
        )
        return cls(vectors, chosen, fitted, notes)

    @property
    def vectors_fingerprint(self) -> str:
        """Of the word vectors alone, however they are weighted."""
        return self._vectors.fingerprint

    @cached_property
    def fingerprint(self) -> str:
        """Hexadecimal sha256 of words, matrix, rule, weights and component; reads the matrix."""
        options = self.options
        fitted = self.fitted.fingerprint if self.fitted is not None else "not fitted"
        parts = (
            "vocabtool static 1",
            self._vectors.fingerprint,
            self.words.tokenizer.fingerprint,
            f"{options.weights} {options.remove_component} {fitted}",
        )
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def encode(self, texts: Texts) -> Vectors:
        """The vector of each text: float32, shape (n, dim), unit length or zero.

        Raises :class:`VocabtoolError` where weights are not fitted yet, and where a vector in the
        file is not finite.
        """
        if self.needs_fit:
            raise VocabtoolError(
                f"{self._vectors.file}: weights ({self.options.weights}) and component are fitted "
                "on a sample of the corpus first: encoder.fit(texts) gives an encoder to use"
            )
        array = texts_array(texts)
        starts = range(0, max(len(array), 1), self.max_batch)
        parts = [
            self._means.unit(self._known_rows(array.slice(start, self.max_batch)))
            for start in starts
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def fit(self, texts: Iterable[str | bytes], *, most: int = MAX_TEXTS) -> StaticEncoder:
        """An encoder with weights and component of a sample: the first ``most`` of ``texts``.

        One pass, in 4 bytes for each word of the sample; the same texts give the same bits. Where
        nothing is to be fitted it is the encoder itself.
        Raises :class:`VocabtoolError` where none of them holds a known word.
        """
        weights, component = self.options.weights, bool(self.options.remove_component)
        if weights is None or (weights == "none" and not component):
            return self
        fitted = fit_weights(
            texts,
            self._known_rows,
            self._vectors.matrix,
            weights=weights,
            remove_component=component,
            vectors=self._vectors.fingerprint,
            rule=self.words.fingerprint,
            most=most,
        )
        return self.with_weights(fitted)

    def with_weights(self, fitted: FittedWeights) -> StaticEncoder:
        """An encoder with weights that were fitted before.

        Raises :class:`VocabtoolError` where other ones are asked for here, and where they were
        fitted with other vectors or another rule.
        """
        return StaticEncoder(self._vectors, self.options, fitted, self._chosen, self.words)

    def __reduce__(self) -> tuple[Any, ...]:
        """The file and the options."""
        return StaticEncoder, (self._vectors, self.options, self.fitted, self._chosen)

    def _known_rows(self, texts: pa.StringArray) -> KnownRows:
        """The rows of the known words of each text; of a tokenizer's words, those of the pieces."""
        judged = self.words.tokenizer.look_up(texts)
        if judged.spelled is None:
            rows, offsets = judged.positions[judged.codes], judged.offsets
        else:
            pieces, known, starts = judged.spelled
            entries = self.words.vocabulary.positions
            pairs = zip(pieces, known, strict=True)
            positions = [entries.get(piece, -1) if is_known else -1 for piece, is_known in pairs]
            counts = np.diff(starts)[judged.codes]
            ends = np.cumsum(counts)
            first = np.repeat(starts[judged.codes] - (ends - counts), counts)
            rows = np.array(positions, np.int64)[first + np.arange(len(first))]
            offsets = np.append(0, ends)[judged.offsets]
        kept = rows >= 0
        before = np.append(0, np.cumsum(kept)).astype(np.int64)
        return KnownRows(rows[kept].astype(np.int32), before[offsets])


def guess_rule(vocabulary: Vocabulary) -> tuple[str, str]:
    """The rule by which texts become words that fits the entries best, and the reason.

    Files of word vectors do not say how their texts were cut. Entries with capitals want texts as
    they are; entries that are punctuation marks want marks as words.
    """
    has_capitals = False
    if len(vocabulary):
        entries = vocabulary.to_arrow().column("token")
        share = np.mean(pc.match_substring_regex(entries, "[A-Z]").to_numpy())
        has_capitals = bool(share > MIN_CAPITALS)
    has_marks = all(mark in vocabulary for mark in MARKS)
    reason = (
        f"entries have {'capitals' if has_capitals else 'no capitals'}, "
        f"{'punctuation marks' if has_marks else 'no punctuation marks'} are entries"
    )
    if has_capitals:
        return CASED_WITH_MARKS if has_marks else CASED, reason
    return "ptb" if has_marks else "keras", reason


class VectorFile:
    """Words and their vectors, memory-mapped. Pickled it is a path: the file is opened again.

    ``words``: a word's position is its row. ``matrix``: float32, shape (words, dim), read-only.
    ``notes``: where the matrix is, if it was converted just now.
    """

    def __init__(self, file: str | Path) -> None:
        """Raises what :meth:`WordVectors.open` and :meth:`WordVectors.matrix` raise."""
        self.file = Path(file)
        with reading(str(self.file)):
            facts = self.file.stat()
        vectors = WordVectors.open(self.file)
        self.words = vectors.words
        # What a fingerprint that was computed before is good for.
        self._state = (facts.st_size, facts.st_mtime_ns, self.words.fingerprint)
        # Beside the file, where a converted matrix is already.
        folder, beside = None, vectors.matrix_file()
        if beside is not None and not beside.exists():
            home = os.environ.get(CACHE_HOME, "")
            if named := os.environ.get(CACHE):
                cache = Path(named).absolute()
            elif Path(home).is_absolute():  # others are to be ignored
                cache = Path(home) / "vocabtool"
            else:
                try:
                    cache = Path.home() / ".cache" / "vocabtool"
                except RuntimeError as error:
                    told = f"there is no home folder, and {NEEDED}: {NAME_ONE}"
                    raise NotFound(told) from error
            # Files of other folders may have its name, size and time; so may one in its place.
            key = f"{os.fspath(self.file.resolve())} {facts.st_ino} {facts.st_ctime_ns}"
            folder = cache / "vectors" / hashlib.sha256(os.fsencode(key)).hexdigest()[:16]
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                what = f"cannot be made ({error.strerror or error}), and {NEEDED}: {NAME_ONE}"
                raise NotFound(f"{folder}: {what}") from error
        converted = vectors.matrix_file(folder)
        is_new = converted is not None and not converted.exists()
        self.matrix: Vectors = np.asarray(vectors.matrix(folder))
        note = f"the vectors were converted once, to {converted}, which can be deleted"
        self.notes = (note,) if is_new else ()

    @cached_property
    def fingerprint(self) -> str:
        """Hexadecimal sha256 of words and vectors, whatever file they lie in; reads all."""
        digest = hashlib.sha256(f"vocabtool vectors 1 {self.matrix.shape}\n".encode())
        digest.update(self.words.fingerprint.encode())
        step = max(HASHED_BYTES // (4 * self.matrix.shape[1]), 1)
        for start in range(0, len(self.matrix), step):
            digest.update(self.matrix[start : start + step].astype("<f4", copy=False).data)
        return digest.hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        """The path, and the fingerprint, if it is known: it holds while the file is the same."""
        return _open_again, (self.file, self._state, vars(self).get("fingerprint"))

    def reuse_fingerprint(self, state: tuple[int, int, str], fingerprint: str) -> None:
        """Take a fingerprint that was computed before, if the file is as it was then."""
        if self._state == state:
            self.fingerprint = fingerprint


def _open_again(file: Path, state: tuple[int, int, str], fingerprint: str | None) -> VectorFile:
    vectors = VectorFile(file)
    if fingerprint is not None:
        vectors.reuse_fingerprint(state, fingerprint)
    return vectors
