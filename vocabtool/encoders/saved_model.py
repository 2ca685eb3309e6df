"""Vectors from a TensorFlow SavedModel or TensorFlow Hub module, of TF1 or TF2.

The vectors are bit-identical to the vectors that TensorFlow returns for the same batch. The types
and shapes of inputs and outputs decide which function of the model is called, unless the caller
names a function and an output. The input of a function is texts, or rows of ids.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import RULE_NAMES
from vocabtool.encoders.encoder import MAX_BATCH, Encoder, EncoderOptions, Texts, Vectors
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
from vocabtool.tokenization.lookup import WordLookup
from vocabtool.tokenization.text_arrays import as_bytes, string_array, text_bytes, texts_array
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import Vocabulary

SERVING: Final = "serving_default"
MODEL_CALLS: Final = ("__call__", "serve")
# In TF1 Hub modules: the name of the main signature, and of its main output.
DEFAULT: Final = "default"
FLOATS: Final = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True, slots=True)
class ModelFunction:
    """A signature or method of a model.

    ``concrete``: the trace that supplies the values of all arguments but the texts.
    """

    name: str
    signature: bool
    method: Any
    concrete: Any

    def __str__(self) -> str:
        return f"signature {self.name}" if self.signature else self.name

    def call(self, texts: Any) -> Any:
        """Run the function on one tensor."""
        if self.signature:
            return self.method(**dict.fromkeys(self.concrete.structured_input_signature[1], texts))
        tensorflow = import_tensorflow()
        args, keywords = tensorflow.nest.map_structure(
            lambda leaf: texts if isinstance(leaf, tensorflow.TypeSpec) else leaf,
            self.concrete.structured_input_signature,
        )
        return self.method(*args, **keywords)

    @property
    def arguments(self) -> list[Any]:
        leaves = import_tensorflow().nest.flatten(self.concrete.structured_input_signature)
        return list(leaves)

    @property
    def inputs(self) -> list[Any]:
        return [leaf for leaf in self.arguments if isinstance(leaf, import_tensorflow().TypeSpec)]

    @property
    def wants(self) -> str:
        inputs = []
        for spec in self.inputs:
            dtype = getattr(getattr(spec, "dtype", None), "name", type(spec).__name__)
            name = getattr(spec, "name", None) or "a tensor"
            inputs.append(f"{name}: {dtype} {getattr(spec, 'shape', '')}")
        return ", ".join(inputs) or "nothing"

    @property
    def text_shape(self) -> tuple[int, ...] | None:
        """The shape of the function's text input, such as ``(-1, 1)``; -1 stands for any size.

        ``None`` if the function has other inputs, or if an input row contains several texts.
        """
        tensorflow = import_tensorflow()
        specs = self.inputs
        if len(specs) != 1 or not isinstance(specs[0], tensorflow.TensorSpec):
            return None
        if specs[0].dtype != tensorflow.string:
            return None
        shape = sizes(specs[0].shape)
        return shape if all(size in (-1, 1) for size in shape[1:]) else None

    @property
    def in_training(self) -> bool:
        return any(leaf is True for leaf in self.arguments)


def functions_of(loaded: Any) -> Iterator[ModelFunction]:
    """Yield the functions of a model in this order:

    - the signature ``serving_default``, then all other signatures
    - the traces of ``__call__``, with traces for training last
    - the traces of ``serve``, with traces for training last
    """
    signatures = dict(getattr(loaded, "signatures", {}))
    for name in sorted(signatures, key=lambda name: name != SERVING):
        concrete = signatures[name]
        yield ModelFunction(name, True, concrete, concrete)
    for name in MODEL_CALLS:
        yield from sorted(methods_of(loaded, name), key=lambda each: each.in_training)


def methods_of(loaded: Any, name: str) -> Iterator[ModelFunction]:
    method = getattr(loaded, name, None)
    for concrete in getattr(method, "concrete_functions", ()):
        yield ModelFunction(name, False, method, concrete)


def sizes(shape: Any) -> tuple[int, ...]:
    """Return a TensorFlow shape as a tuple: -1 for any size, ``(-1,)`` for an unknown rank."""
    if shape.rank is None:
        return (-1,)
    return tuple(-1 if size is None else int(size) for size in shape)


@dataclass(frozen=True, slots=True)
class Output:
    """An output of a function.

    ``leaf``: the index of this output in the flattened result of the function.
    ``spec``: the dtype and shape of this output.
    ``per_text``: whether the function accepts only one text per call.
    """

    function: ModelFunction
    name: str
    leaf: int
    spec: Any
    per_text: bool

    def __str__(self) -> str:
        return f"{self.name!r} of shape {getattr(self.spec, 'shape', '')}"

    @property
    def dtype(self) -> str:
        return str(self.spec.dtype.name) if is_dense(self.spec) else type(self.spec).__name__

    @property
    def dim(self) -> int | None:
        size = sizes(self.spec.shape)[-1] if self.spec.shape.rank else -1
        return size if size > 0 else None

    @property
    def why_not(self) -> str | None:
        """The reason why the output cannot be one vector per text, or ``None``."""
        if not is_dense(self.spec):
            return "not a dense tensor: its rows may have different lengths"
        if self.dtype not in FLOATS:
            return "not floating-point numbers"
        rank = self.spec.shape.rank
        if rank is None or rank == 2 or (rank == 1 and self.per_text):
            return None
        return "one number for each text" if rank < 2 else "several vectors for each text"

    def read(self, answer: Any, texts: int) -> Vectors:
        """Return this output from ``answer``, the result of a call: float32, shape (texts, dim)."""
        array = import_tensorflow().nest.flatten(answer)[self.leaf].numpy()
        if self.per_text and array.ndim == 1:
            array = array[None]
        if array.ndim != 2 or len(array) != texts:
            raise UnsupportedFormat(
                f"output {self.name!r} has the shape {array.shape} for {texts:,} texts; "
                f"wanted one vector per text, ({texts}, dim)"
            )
        with np.errstate(over="ignore"):  # too large values become infinite and are refused later
            vectors: Vectors = array.astype(np.float32, copy=False)
        return vectors


def choose_output(loaded: Any, signature: str | None, output: str | None) -> Output:
    """Choose an output and its function. Functions of texts are preferred to functions of ids.

    If several functions return vectors, the first of these is chosen:

    1. the signature ``serving_default``
    2. the signature ``default``
    3. another signature, if it is the only one
    4. the method ``__call__``, then ``serve``
    """
    functions = list(functions_of(loaded))
    if signature is not None:
        named = [function for function in functions if function.name == signature]
        if not named and signature.isidentifier():  # a method of the model
            named = sorted(methods_of(loaded, signature), key=lambda each: each.in_training)
        if not named:
            listed = _list_functions(functions)
            raise UnsupportedFormat(f"no signature {signature!r}. The model has:{listed}")
        functions = named
    takes_texts = [function for function in functions if function.text_shape is not None]
    for candidates in (takes_texts, [*filter(takes_ids, functions)]):
        outputs = [
            each
            for function in candidates
            for each in outputs_of(function)
            if each.why_not is None and output in (None, each.name)
        ]
        if outputs:
            own = _of_one_function(outputs)
            default = [each for each in own if each.name == DEFAULT]
            if len(own) > 1 and not default:
                raise UnsupportedFormat(
                    "several outputs are vectors; choose one with --output:"
                    f"{_list_functions([own[0].function])}"
                )
            return (default or own)[0]
    what = "a vector" if output is None else f"a vector in an output {output!r}"
    raise UnsupportedFormat(
        f"the model has no function that returns {what} for each text, or for each row of ids. "
        f"The model has:{_list_functions(functions)}"
    )


def outputs_of(function: ModelFunction) -> list[Output]:
    flatten = import_tensorflow().nest.flatten
    structure = function.concrete.structured_outputs
    if isinstance(structure, dict):  # flattened in the order of its keys
        parts = {name: flatten(part) for name, part in sorted(structure.items())}
        named = [
            (name if len(leaves) == 1 else f"{name}_{i}", leaf)
            for name, leaves in parts.items()
            for i, leaf in enumerate(leaves)
        ]
    else:
        named = [(str(i), leaf) for i, leaf in enumerate(flatten(structure))]
    per_text = _takes_one(function)
    return [Output(function, name, i, leaf, per_text) for i, (name, leaf) in enumerate(named)]


def takes_ids(function: ModelFunction) -> bool:
    if len(function.inputs) != 1 or not is_dense(function.inputs[0]):
        return False
    (spec,) = function.inputs
    return spec.dtype.name in ("int32", "int64") and bool(spec.shape.rank == 2)


def is_dense(spec: Any) -> bool:
    """Whether an input or output is a ``TensorSpec``, or a ``Tensor`` (in TF1 graphs)."""
    tensorflow = import_tensorflow()
    return isinstance(spec, tensorflow.TensorSpec | tensorflow.Tensor)


def _takes_one(function: ModelFunction) -> bool:
    shape = function.text_shape
    if shape is None:
        shape = sizes(function.inputs[0].shape) if takes_ids(function) else (-1,)
    return shape[:1] in ((), (1,))


def _of_one_function(outputs: Sequence[Output]) -> list[Output]:
    functions = [output.function for output in outputs]
    signatures = [*dict.fromkeys(f.name for f in functions if f.signature)]
    only = signatures if len(signatures) == 1 else []
    names = {f.name for f in functions}
    first = next((n for n in (SERVING, DEFAULT, *only, *MODEL_CALLS) if n in names), None)
    if first is None and len(signatures) > 1:
        raise UnsupportedFormat(
            "several signatures return vectors; choose one with --signature. There are:"
            f"{_list_functions(functions)}"
        )
    candidates = [f for f in functions if first in (None, f.name)]
    function = min(candidates, key=lambda f: (f.in_training, _takes_one(f)))
    return [output for output in outputs if output.function is function]


def _list_functions(functions: Sequence[ModelFunction]) -> str:
    lines: dict[str, None] = {}
    for function in functions:
        lines[f"\n  - {function} accepts {function.wants}"] = None
        for output in outputs_of(function):
            why = f": {output.why_not}" if output.why_not else ""
            lines[f"\n  - {function} returns {output}, {output.dtype}{why}"] = None
    return "".join(lines) or " no functions"


Integers = NDArray[np.int64]

# Entries assumed to mean unknown words and padding if the vocabulary does not define them.
UNKNOWN_ENTRIES: Final = (b"[UNK]", b"<unk>", b"<UNK>", b"<oov>", b"<OOV>", b"UNK")
PAD_ENTRIES: Final = (b"[PAD]", b"<pad>", b"<PAD>", b"", b"PAD")


# One call of a function: its input; the positions of the texts that the first rows belong to; and
# the number of rows. Rows beyond those of the texts are padding of the batch.
Call = tuple[Any, slice | Integers, int]


class TextInput:
    """Converts texts to the input of the model. ``shape``: of the input; -1 means any size."""

    notes: tuple[str, ...] = ()

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self.size = fixed_size(shape)

    def calls(self, texts: Sequence[bytes]) -> Iterator[Call]:
        size = self.size or len(texts)
        for start in range(0, len(texts), size):
            part = [*texts[start : start + size]]
            positions = slice(start, start + len(part))
            # Fill the batch with the last text, which the model must accept anyway.
            part += part[-1:] * (size - len(part))
            # A list of bytes without a shape is ten times as fast.
            tensor = import_tensorflow().constant(part, "string")
            if len(self._shape) != 1:
                shape = [size, *(1 for _ in self._shape[1:])] if self._shape else []
                tensor = import_tensorflow().reshape(tensor, shape)
            yield tensor, positions, size


class IdInput:
    """Converts texts to rows of ids for the input of the model.

    ``shape``: the shape of the input; -1 means any size. Texts that are too long are truncated, and
    :attr:`notes` says how many.
    ``by_length``: whether each batch contains only texts with the same number of ids. Needed if
    padding changes the vectors.
    """

    def __init__(self, shape: tuple[int, int], dtype: Any, words: Words) -> None:
        vocabulary = words.vocabulary
        self.shape = shape
        self.size = fixed_size(shape)
        self.by_length = False
        self.words = words
        # If a hash selects one of several ids for an unknown word, unknown words are left out.
        unknown = vocabulary.unknown
        self.unknown = next(iter(_ids_of(vocabulary, UNKNOWN_ENTRIES)), None)
        if unknown is not None:
            self.unknown = unknown.id if unknown.count == 1 else None
        masks = [special.id for special in vocabulary.specials if special.role == "mask"]
        self.pad = (*masks, *_ids_of(vocabulary, PAD_ENTRIES), 0)[0]
        self._dtype = dtype
        self._cut_off = 0
        self._lock = Lock()

    def calls(self, texts: Sequence[bytes]) -> Iterator[Call]:
        """Yield calls that together contain each text once. ``texts`` must not be empty."""
        ids, bounds = self._ids(self.words.look_up(string_array(texts)))
        lengths = np.maximum(np.diff(bounds), 1)  # a text without words is a row of padding
        if self.shape[1] > 0:
            with self._lock:
                self._cut_off += int((lengths > self.shape[1]).sum())
            lengths = np.full(len(lengths), self.shape[1])
        groups = np.unique(lengths) if self.by_length else [lengths.max()]
        for length in groups:
            places = np.flatnonzero(lengths == length) if self.by_length else np.arange(len(texts))
            rows = self._pad(ids, bounds, places, int(length))
            size = self.size or len(rows)
            for start in range(0, len(rows), size):
                part = rows[start : start + size]
                filled = np.concatenate([part, np.repeat(part[-1:], size - len(part), axis=0)])
                yield self.tensor(filled), places[start : start + len(part)], size

    def tensor(self, rows: Integers | Sequence[Sequence[int]]) -> Any:
        return import_tensorflow().constant(np.asarray(rows, np.int64), self._dtype)

    def _pad(self, ids: Integers, bounds: Integers, texts: Integers, length: int) -> Integers:
        places = bounds[texts][:, None] + np.arange(length)
        inside = places < bounds[texts + 1][:, None]
        rows = np.full(places.shape, self.pad, np.int64)
        rows[inside] = ids[places[inside]]
        return rows

    def _ids(self, judged: WordLookup) -> tuple[Integers, Integers]:
        # First the ids of the distinct words, concatenated, and the bounds of each word.
        if judged.pieces is None:
            unknown = -1 if self.unknown is None else self.unknown
            found = np.where(judged.ids >= 0, judged.ids, unknown)
            flat, starts = found[found >= 0], np.concatenate([[0], np.cumsum(found >= 0)])
        else:
            positions, all_ids = self.words.vocabulary.positions, self.words.vocabulary.id_array()
            of_words: list[int] = []
            ends = [0]
            for at, word in enumerate(as_bytes(judged.distinct)):
                if judged.spelled is None:
                    pieces = [*self.words.tokenizer.pieces(word)]
                else:
                    pieces = [piece for piece, _ in judged.spelled.of_word(at)]
                for piece in pieces:
                    position = positions.get(piece)
                    id_ = self.unknown if position is None else int(all_ids[position])
                    if id_ is not None:
                        of_words.append(id_)
                ends.append(len(of_words))
            flat, starts = np.array(of_words, np.int64), np.array(ends)
        lengths = np.diff(starts)[judged.codes]
        behind = np.cumsum(lengths)
        first = starts[judged.codes] - (behind - lengths)
        ids = flat[np.repeat(first, lengths) + np.arange(int(lengths.sum()))]
        return ids, np.concatenate([[0], behind]).astype(np.int64)[judged.offsets]

    @property
    def notes(self) -> tuple[str, ...]:
        vocabulary = self.words.vocabulary
        unknown = "left out, because the vocabulary has no single id for them"
        if self.unknown is not None:
            unknown = f"replaced by the id {self.unknown}"
        try:
            entry = f", the entry {vocabulary.entry_of(self.pad)!r}"
        except KeyError:
            entry = ""
        notes = [
            f"the input of the model is ids of the vocabulary {vocabulary.name}; "
            f"rows are padded with the id {self.pad}{entry}",
            f"unknown words are {unknown}",
        ]
        if self.by_length:
            notes.append(
                "padding would change the vectors, so only texts with the same number of ids are "
                "run together"
            )
        if self._cut_off:
            notes.append(
                f"{self._cut_off:,} texts were truncated to {self.shape[1]} ids, the limit of the "
                "model"
            )
        return tuple(notes)


def fixed_size(shape: Sequence[int]) -> int | None:
    """Return how many texts an input of this shape accepts per call; ``None`` for any number."""
    if not shape:
        return 1
    return shape[0] if shape[0] > 0 else None


def _ids_of(vocabulary: Vocabulary, entries: Sequence[bytes]) -> list[int]:
    ids = vocabulary.id_array()
    return [int(ids[vocabulary.positions[e]]) for e in entries if e in vocabulary.positions]


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
        notes = [f"{self._output.function}, output {self._output}"]
        if self._input.size == 1:
            notes.append("the model accepts one text per call")
        elif self._input.size is not None:
            what = f"the model requires {self._input.size} texts per call"
            notes.append(f"{what}; smaller batches are padded")
        notes += self._input.notes
        if self._output.dtype != "float32":
            notes.append(f"its vectors are {self._output.dtype}, converted to float32")
        words, note = self._words_and_note
        notes += [note] if note is not None else []
        return (*notes, *(words.notes if words is not None else ()))

    def encode(self, texts: Texts) -> Vectors:
        """Return the vector of each text. If the model fails, the error message names the text."""
        given: Sequence[bytes]
        if not isinstance(texts, list | tuple):
            given = as_bytes(texts_array(texts))
        elif set(map(type, texts)) <= {bytes}:  # ten times faster
            given = texts
        else:
            given = [text_bytes(text) for text in texts]
        batches = (
            given[start : start + self.max_batch] for start in range(0, len(given), self.max_batch)
        )
        parts = [self._check(self._run(batch), batch) for batch in batches]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty((0, self.dim), np.float32)

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

    def _run(self, texts: Sequence[bytes]) -> Vectors:
        tensorflow = import_tensorflow()
        try:
            vectors = np.empty((len(texts), 0), np.float32)
            for tensor, positions, size in self._input.calls(texts):
                rows = self._output.read(self._output.function.call(tensor), size)
                if size == len(texts) and isinstance(positions, slice):  # all texts in one call
                    return rows
                if not vectors.size:
                    vectors = np.empty((len(texts), rows.shape[1]), np.float32)
                vectors[positions] = rows[: len(vectors[positions])]
            return vectors
        except (tensorflow.errors.OpError, UnicodeDecodeError) as error:
            # UnicodeDecodeError: the message of TensorFlow is not UTF-8.
            if len(texts) > 1:  # bisect, to name a single text
                middle = len(texts) // 2
                self._run(texts[:middle])
                self._run(texts[middle:])
            whom = f"the text {texts[0][:80]!r}" if len(texts) == 1 else f"{len(texts)} texts"
            raise UnsupportedFormat(f"the model fails for {whom}: {reason_of(error)}") from error

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
