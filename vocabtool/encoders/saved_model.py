"""Vectors from a TensorFlow SavedModel or TensorFlow Hub module, of TF1 or TF2.

The vectors are bit-identical to the vectors that TensorFlow returns for the same batch.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from vocabtool.choices import RULE_NAMES
from vocabtool.encoders.encoder import Encoder, EncoderOptions, Texts, Vectors
from vocabtool.encoders.saved_model_functions import (
    Call,
    IdInput,
    TextInput,
    choose_output,
    sizes,
)
from vocabtool.errors import (
    InvalidFile,
    NotFound,
    UnsupportedFormat,
    VocabtoolError,
    reading,
)
from vocabtool.formats import files
from vocabtool.formats.saved_model import graph_files
from vocabtool.system.native_import import import_library
from vocabtool.tokenization.checked_model import (
    import_tensorflow,
    load_checked,
    reason_of,
)
from vocabtool.tokenization.text_arrays import as_bytes, text_bytes, texts_array
from vocabtool.tokenization.words import Words

MAX_BATCH: Final = 256
PROBES: Final = (b"a", b"42", b"")  # texts to try until one gives a vector, to find its length
TOLERANCE: Final = 1e-6  # a vector may change this much with the other texts of its batch
CONTENT: Final = ("variables", "assets", "assets.extra")


class TensorFlowEncoder(Encoder):
    """Encodes texts with a SavedModel."""

    kind = "tensorflow"

    def __init__(self, model: str | Path, options: EncoderOptions) -> None:
        """Open the folder of a SavedModel, or a TensorFlow Hub handle (downloaded if needed)."""
        if isinstance(model, str) and files.HANDLE.match(model):
            import_tensorflow()  # download nothing if TensorFlow is missing
        folder = _find_model(model)
        opened = graph_files.open_graphs(folder)  # fails fast if this is no model
        import_tensorflow()
        # Keep the handle: on another machine the model may be in another folder.
        is_handle = isinstance(model, str) and Path(model).absolute() != folder
        self._model = model if is_handle else folder
        self._folder, self.options = folder, options
        with reading(str(opened.path)):
            self._loaded = load_checked(opened, trust=options.trust)
            self._output = choose_output(self._loaded, options.signature, options.output)
            self._input = self._choose_input()
            wanted, size = options.max_batch or MAX_BATCH, self._input.size
            self.max_batch = wanted if size is None or size == 1 else size
            self.dim = self._output.dim or self._probe_dim()
            if isinstance(self._input, IdInput):
                self._input.by_length = self._is_changed_by_padding(self._input)
            self.fingerprint = self._digest(opened.file)
        if options.rule is not None:
            _ = self._words_and_note  # refuse an invalid rule now, not at the first word

    def __reduce__(self) -> tuple[Any, ...]:
        return _open_again, (self._model, self.options, self.fingerprint)

    @cached_property
    def words(self) -> Words | None:
        return self._words_and_note[0] or self.options.words

    @property
    def notes(self) -> tuple[str, ...]:
        notes = [f"{self._output.function}, output {self._output}", *self._input.notes]
        if self._output.dtype != "float32":
            notes.append(f"its vectors are {self._output.dtype}, converted to float32")
        words, note = self._words_and_note
        notes += [note] if note is not None else []
        return (*notes, *(words.notes if words is not None else ()))

    def encode(self, texts: Texts) -> Vectors:
        """Return the vector of each text. If the model fails, the error message names the text."""
        given = _as_byte_list(texts)
        return self._concatenate(
            [self._check(self._run(batch), batch) for batch in self._batches(given)]
        )

    # Opening it.

    def _choose_input(self) -> TextInput | IdInput:
        function = self._output.function
        shape = function.text_shape
        if shape is not None:
            return TextInput(shape)
        if self.options.rule is None:
            raise UnsupportedFormat(
                f"the input of {function} is ids ({function.wants}), so the model does not define "
                f"how texts are split into words: give --rule ({', '.join(RULE_NAMES)}) and, if "
                "the model has several vocabularies, --name"
            )
        words = Words.of(self._folder, name=self.options.name, rule=self.options.rule)
        (spec,) = function.inputs
        rows, length = sizes(spec.shape)
        return IdInput((rows, length), spec.dtype, words)

    @cached_property
    def _words_and_note(self) -> tuple[Words | None, str | None]:
        if isinstance(self._input, IdInput):
            return self._input.words, None
        name, rule = self.options.name, self.options.rule
        try:
            return Words.of(self._folder, name=name, rule=rule), None
        except VocabtoolError as error:
            if rule is not None:
                raise
            return None, f"the words of the model are unknown: {str(error).splitlines()[0]}"

    def _probe_dim(self) -> int:
        failed: VocabtoolError | None = None
        for probe in PROBES:
            try:
                return int(self._run([probe]).shape[1])
            except UnsupportedFormat as error:
                failed = failed or error
        raise failed or UnsupportedFormat("the model accepts no text")

    def _is_changed_by_padding(self, ids: IdInput) -> bool:
        vocabulary = ids.words.vocabulary
        last = max(vocabulary.last_id, 0)
        word = max(vocabulary.first_id, 0) if last == ids.pad else last
        rows, length = ids.shape
        vectors = []
        for row in ([word] * 2, [word] * 2 + [ids.pad] * 2):
            size = length if length > 0 else len(row)
            filled = [(row + [ids.pad] * size)[:size]] * max(rows, 1)
            try:
                answer = self._output.function.call(ids.tensor(filled))
            except import_tensorflow().errors.OpError as error:
                raise UnsupportedFormat(
                    f"the model fails for id {word} of the vocabulary {vocabulary.name}, whose ids "
                    f"are {vocabulary.id_range}: {reason_of(error)}. Choose another vocabulary "
                    "with --name"
                ) from error
            vectors.append(self._output.read(answer, len(filled)))
        short, long = vectors
        return not np.allclose(short, long, rtol=0, atol=TOLERANCE)

    def _digest(self, graph: Path) -> str:
        parts = [str(self._output.function), self._output.name]
        if isinstance(self._input, IdInput):
            words = self._input.words
            parts += [words.fingerprint, words.vocabulary.fingerprint]
            parts += [str(self._input.pad), str(self._input.unknown)]
        digest = hashlib.sha256(b"vocabtool tensorflow encoder 1\n")
        digest.update(repr(tuple(parts)).encode())
        files = [graph]
        for content in CONTENT:
            for parent, folders, names in os.walk(graph.parent / content):
                folders.sort()
                files += [Path(parent, name) for name in sorted(names)]
        for file in files:
            name = os.fsencode(file.relative_to(graph.parent).as_posix())
            with file.open("rb") as opened:
                size = os.fstat(opened.fileno()).st_size
                digest.update(b"\n%d %d\n" % (len(name), size) + name)
                digest.update(hashlib.file_digest(opened, "sha256").digest())
        return digest.hexdigest()

    # Running it.

    def _batches(self, texts: Sequence[bytes]) -> list[Sequence[bytes]]:
        size = self.max_batch
        return [texts[start : start + size] for start in range(0, len(texts), size)]

    def _run(self, texts: Sequence[bytes]) -> Vectors:
        tensorflow = import_tensorflow()
        try:
            return self._collect(self._input.calls(texts), len(texts))
        except (tensorflow.errors.OpError, UnicodeDecodeError) as error:
            # UnicodeDecodeError: the message of TensorFlow is not UTF-8.
            if len(texts) > 1:  # bisect, to name a single text
                middle = len(texts) // 2
                self._run(texts[:middle])
                self._run(texts[middle:])
            whom = f"the text {texts[0][:80]!r}" if len(texts) == 1 else f"{len(texts)} texts"
            raise UnsupportedFormat(f"the model fails for {whom}: {reason_of(error)}") from error

    def _collect(self, calls: Iterable[Call], texts: int) -> Vectors:
        """Run ``calls``. Return the vector of each text, in the order of the texts."""
        vectors = np.empty((texts, 0), np.float32)
        for tensor, positions, size in calls:
            rows = self._output.read(self._output.function.call(tensor), size)
            if size == texts and isinstance(positions, slice):  # all texts in one call
                return rows
            if not vectors.size:
                vectors = np.empty((texts, rows.shape[1]), np.float32)
            vectors[positions] = rows[: len(vectors[positions])]
        return vectors

    def _concatenate(self, batches: Sequence[Vectors]) -> Vectors:
        if len(batches) == 1:
            return batches[0]
        return np.concatenate(batches) if batches else np.empty((0, self.dim), np.float32)

    def _check(self, vectors: Vectors, texts: Sequence[bytes]) -> Vectors:
        if vectors.shape[1] != self.dim:
            raise UnsupportedFormat(
                f"the model returned vectors of length {vectors.shape[1]:,}, but of length "
                f"{self.dim:,} for earlier texts"
            )
        is_finite = np.isfinite(vectors)
        if not is_finite.all():
            first = int(np.flatnonzero(~is_finite.all(axis=1))[0])
            number = vectors[first][~is_finite[first]][0]
            raise UnsupportedFormat(
                f"the model returned {number} in the vector of the text {texts[first][:80]!r}; "
                "leave such texts out, or choose another --output"
            )
        return vectors


def _as_byte_list(texts: Texts) -> Sequence[bytes]:
    if isinstance(texts, list | tuple):
        if set(map(type, texts)) <= {bytes}:  # ten times faster
            return texts
        return [text_bytes(text) for text in texts]
    return as_bytes(texts_array(texts))


def _open_again(model: str | Path, options: EncoderOptions, fingerprint: str) -> TensorFlowEncoder:
    opened = TensorFlowEncoder(model, options)
    if opened.fingerprint != fingerprint:
        raise InvalidFile(
            "the model's files have changed since the encoder was opened", file=f"{model}"
        )
    return opened


def _find_model(model: str | Path) -> Path:
    if not isinstance(model, str) or not files.HANDLE.match(model):
        path = graph_files.path_of(model)
        if path.suffix == ".keras" and path.is_file():
            raise UnsupportedFormat(
                f"{path}: a Keras archive; export it as a SavedModel with `model.export(FOLDER)`"
            )
        return path.absolute()
    try:
        return files.find(model)
    except NotFound as error:
        missing = error
    try:
        hub = import_library("tensorflow_hub")
    except ImportError as error:
        what = f"{missing}\nThe download needs tensorflow_hub, whose import failed ({error})"
        raise NotFound(f"{what}: pip install '.[tensorflow]'") from error
    try:
        return Path(hub.resolve(model))
    except Exception as error:  # network, archives and TensorFlow's files raise many types
        raise NotFound(f"{missing}\nThe download failed: {error}") from error
