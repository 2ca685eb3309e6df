"""A SavedModel in memory that is run: calls of its function, and which text it fails at.

Which function and output: ``saved_model_vectors.py``; what it is fed: ``saved_model_inputs.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from vocabtool.encoders.encoder import Vectors
from vocabtool.encoders.saved_model_inputs import Fed, IdInput, Input
from vocabtool.encoders.saved_model_vectors import Source, choose_source
from vocabtool.errors import UnsupportedFormat, VocabtoolError
from vocabtool.formats.saved_model import graph_files
from vocabtool.tokenization.checked_model import import_tensorflow, load_checked, reason_of
from vocabtool.tokenization.instrumented_model import InstrumentedModel
from vocabtool.tokenization.lookup import WordLookup
from vocabtool.tokenization.model_functions import Entry

SAME: Final = 1e-6  # as much may a vector change with what stands beside its text


class Options(NamedTuple):
    """What was asked for on opening."""

    signature: str | None
    output: str | None
    name: str | None
    rule: str | None
    exact_words: bool
    trust: bool
    max_batch: int


class Loaded(NamedTuple):
    """A model in memory. ``keep``: what must live as long as its functions are called."""

    source: Source
    tap: InstrumentedModel | None
    keep: Any

    def call(self, tensor: Any) -> Any:
        """Call the function; what a tap reports of it is thrown away."""
        if self.tap is None:
            return self.source.function.call(tensor)
        return self.tap.call_untraced(lambda: self.source.function.call(tensor))

    def run(self, given: Input, texts: Sequence[bytes]) -> Vectors:
        """The vectors of texts. Raises :class:`UnsupportedFormat` with the one that it fails at."""
        tensorflow = import_tensorflow()
        try:
            return self._collected(given.feed(texts), len(texts))
        except (tensorflow.errors.OpError, UnicodeDecodeError) as error:
            # The second is how Python meets a message of TensorFlow's that is not UTF-8.
            if len(texts) > 1:  # in one half it may fail again, and so at one text
                middle = len(texts) // 2
                self.run(given, texts[:middle])
                self.run(given, texts[middle:])
            whom = f"the text {texts[0][:80]!r}" if len(texts) == 1 else f"{len(texts)} texts"
            raise UnsupportedFormat(f"the model fails at {whom}: {reason_of(error)}") from error

    def run_judged(self, given: IdInput, judged: WordLookup) -> Vectors:
        """The vectors of texts, at least one, whose words are known already.

        Raises :class:`UnsupportedFormat` where the model fails.
        """
        tensorflow = import_tensorflow()
        texts = len(judged.offsets) - 1
        try:
            return self._collected(given.feed_judged(judged), texts)
        except tensorflow.errors.OpError as error:
            raise UnsupportedFormat(
                f"the model fails at {texts} texts: {reason_of(error)}"
            ) from error

    def _collected(self, calls: Iterable[Fed], texts: int) -> Vectors:
        """What calls give that hold each of the texts once, and at least one."""
        vectors: Vectors | None = None
        for call in calls:
            found = self.source.output.read(self.call(call.tensor), call.rows)
            if call.rows == texts and isinstance(call.texts, slice):  # all in one call
                return found
            if vectors is None:
                vectors = np.empty((texts, found.shape[1]), np.float32)
            vectors[call.texts] = found[: len(vectors[call.texts])]
        assert vectors is not None, "there is a call for at least one text"  # noqa: S101 - for mypy
        return vectors

    def is_changed_by_padding(self, ids: IdInput) -> bool:
        """Whether a row of ids gets another vector where it is filled up.

        Raises :class:`UnsupportedFormat` where the model does not take the vocabulary's last id.
        """
        vocabulary = ids.words.vocabulary
        last = max(vocabulary.last_id, 0)
        word = max(vocabulary.first_id, 0) if last == ids.pad else last
        tensorflow = import_tensorflow()
        try:
            short = self._of_row(ids, [word] * 2)
            long = self._of_row(ids, [word] * 2 + [ids.pad] * 2)
        except tensorflow.errors.OpError as error:
            raise UnsupportedFormat(
                f"the model fails at the id {word} of {vocabulary.name}, {vocabulary.id_range}: "
                f"{reason_of(error)}. --name takes another vocabulary"
            ) from error
        return not np.allclose(short, long, rtol=0, atol=SAME)

    def _of_row(self, ids: IdInput, row: list[int]) -> Vectors:
        """The vector of a row of ids, in as many rows of that length as the model takes."""
        rows, length = ids.shape
        length = length if length > 0 else len(row)
        filled = [(row + [ids.pad] * length)[:length]] * max(rows, 1)
        return self.source.output.read(self.call(ids.rows(filled)), len(filled))


def load(opened: graph_files.Opened, options: Options) -> Loaded:
    """Load a model, with its tap where exact words are wanted and it takes texts.

    Raises what ``load_checked`` and ``choose_source`` raise, and :class:`VocabtoolError` where
    exact words do not go with the rest of the options or with the model.
    """
    found: list[Source] = []

    def choose(loaded: Any) -> Entry:
        found[:] = [choose_source(loaded, options.signature, options.output)]
        return Entry.of(found[0].function, found[0].function.text_shape or ())

    if options.exact_words:
        tap = InstrumentedModel.load(opened.path, trust=options.trust, choose=choose)
        shape = found[0].function.text_shape
        if shape is not None:
            _refuse_exact(shape, options)
            return Loaded(found[0], tap, None)
    loaded = load_checked(opened, trust=options.trust)
    choose(loaded)
    return Loaded(found[0], None, loaded)


def _refuse_exact(shape: tuple[int, ...], options: Options) -> None:
    if options.rule is not None:
        raise VocabtoolError("exact words are the model's own: name no rule")
    if shape[:1] not in ((), (-1,), (1,)):
        raise UnsupportedFormat(
            f"it takes {shape[0]} texts at a time and no fewer; exact words need a model that "
            "takes one, or any number. Open it without exact words"
        )
