"""Vectors from a TensorFlow SavedModel or TensorFlow Hub module, of TF1 or TF2.

The vectors are bit-identical to the vectors that TensorFlow returns for the same batch. The types
and shapes of inputs and outputs decide which function of the model is called, unless the caller
names a function and an output. The input of a function is texts: any number of them, or one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np

from vocabtool.encoders.encoder import (
    DEFAULT_BATCH,
    Encoder,
    EncoderOptions,
    Texts,
    Vectors,
    hash_files,
)
from vocabtool.errors import InvalidFile, UnsupportedFormat, VocabtoolError, reading
from vocabtool.formats import files
from vocabtool.formats.saved_model import graph_files
from vocabtool.tokenization.checked_model import import_tensorflow, load_checked, reason_of
from vocabtool.tokenization.text_arrays import as_bytes, texts_array
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import text_bytes

SERVING: Final = "serving_default"
MODEL_CALLS: Final = ("__call__", "serve")
# In TF1 Hub modules: the name of the main signature, and of its main output.
DEFAULT: Final = "default"
FLOATS: Final = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True, slots=True)
class ModelFunction:
    """A signature or method. ``concrete``: the trace with the values of all arguments but texts."""

    name: str
    signature: bool
    method: Any
    concrete: Any

    def __str__(self) -> str:
        return f"signature {self.name}" if self.signature else self.name

    def call(self, texts: Any) -> Any:
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
        """The specifications of the function's inputs, and the values of all other arguments."""
        return [*import_tensorflow().nest.flatten(self.concrete.structured_input_signature)]

    @property
    def inputs(self) -> list[Any]:
        return [leaf for leaf in self.arguments if isinstance(leaf, import_tensorflow().TypeSpec)]

    @property
    def text_shape(self) -> tuple[int, ...] | None:
        """The shape of the function's text input, such as ``(-1, 1)``; -1 stands for any size.

        ``None`` if the function has other inputs, or neither takes any number of texts nor one.
        """
        tensorflow = import_tensorflow()
        specs = self.inputs
        if len(specs) != 1 or not isinstance(specs[0], tensorflow.TensorSpec):
            return None
        shape = sizes(specs[0].shape)
        takes_texts = specs[0].dtype == tensorflow.string and {*shape} <= {-1, 1}
        return shape if takes_texts else None

    @property
    def takes_one(self) -> bool:
        shape = self.text_shape
        return shape is not None and shape[:1] in ((), (1,))

    @property
    def in_training(self) -> bool:
        return any(leaf is True for leaf in self.arguments)


def functions_of(loaded: Any) -> Iterator[ModelFunction]:
    """Yield ``serving_default``, other signatures, then traces of ``__call__`` and of ``serve``.

    Of each method, traces for training come last.
    """
    signatures = dict(getattr(loaded, "signatures", {}))
    for name in sorted(signatures, key=lambda name: name != SERVING):
        concrete = signatures[name]
        yield ModelFunction(name, True, concrete, concrete)
    for name in MODEL_CALLS:
        yield from methods_of(loaded, name)


def methods_of(loaded: Any, name: str) -> list[ModelFunction]:
    """Return the traces of a method, with traces for training last."""
    method = getattr(loaded, name, None)
    traces = getattr(method, "concrete_functions", ())
    functions = [ModelFunction(name, False, method, concrete) for concrete in traces]
    return sorted(functions, key=lambda function: function.in_training)


def sizes(shape: Any) -> tuple[int, ...]:
    """Return a TensorFlow shape as a tuple: -1 for any size, ``(-1,)`` for an unknown rank."""
    if shape.rank is None:
        return (-1,)
    return tuple(-1 if size is None else int(size) for size in shape)


@dataclass(frozen=True, slots=True)
class Output:
    """An output of a function. ``leaf``: its index in the flattened result."""

    function: ModelFunction
    name: str
    leaf: int
    spec: Any

    def __str__(self) -> str:
        return f"{self.name!r} of shape {getattr(self.spec, 'shape', '')}"

    @property
    def is_dense(self) -> bool:
        tensorflow = import_tensorflow()
        return isinstance(self.spec, tensorflow.TensorSpec | tensorflow.Tensor)  # Tensor in TF1

    @property
    def dtype(self) -> str:
        return str(self.spec.dtype.name) if self.is_dense else type(self.spec).__name__

    @property
    def dim(self) -> int | None:
        size = sizes(self.spec.shape)[-1] if self.spec.shape.rank else -1
        return size if size > 0 else None

    @property
    def why_not(self) -> str | None:
        """The reason why the output cannot be one vector per text, or ``None``."""
        if not self.is_dense:
            return "not a dense tensor: its rows may have different lengths"
        if self.dtype not in FLOATS:
            return "not floating-point numbers"
        rank = self.spec.shape.rank
        if rank is None or rank == 2 or (rank == 1 and self.function.takes_one):
            return None
        return "one number for each text" if rank < 2 else "several vectors for each text"

    def read(self, answer: Any, texts: int) -> Vectors:
        """Return this output from ``answer``, the result of a call: float32, shape (texts, dim)."""
        array = import_tensorflow().nest.flatten(answer)[self.leaf].numpy()
        if self.function.takes_one and array.ndim == 1:
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
    """Choose an output and its function.

    If several functions return vectors, the first of these: the signature ``serving_default``; the
    signature ``default``; another one, if it is the only one; the method ``__call__``; ``serve``.
    """
    functions = list(functions_of(loaded))
    if signature is not None:
        named = [function for function in functions if function.name == signature]
        if not named and signature.isidentifier():  # a method of the model
            named = methods_of(loaded, signature)
        if not named:
            listed = _list_functions(functions)
            raise UnsupportedFormat(f"no signature {signature!r}. The model has:{listed}")
        functions = named
    of_texts = [function for function in functions if function.text_shape is not None]
    outputs = [
        candidate
        for candidate in chain.from_iterable(map(outputs_of, of_texts))
        if candidate.why_not is None and output in (None, candidate.name)
    ]
    if not outputs:
        what = "a vector" if output is None else f"a vector in an output {output!r}"
        raise UnsupportedFormat(
            f"the model has no function that returns {what} for each text. A function of other "
            "inputs, such as ids, can be called by your own callable (python:MODULE:NAME). "
            f"The model has:{_list_functions(functions)}"
        )
    functions = [candidate.function for candidate in outputs]
    names = {function.name for function in functions}
    signatures = {function.name for function in functions if function.signature}
    preferred = (SERVING, DEFAULT, *(signatures if len(signatures) == 1 else ()), *MODEL_CALLS)
    name = next((name for name in preferred if name in names), None)
    if name is None and len(signatures) > 1:
        raise UnsupportedFormat(
            "several signatures return vectors; choose one with --signature. There are:"
            f"{_list_functions(functions)}"
        )
    # Without a preferred name, all functions are traces of one method that the caller named.
    traces = [function for function in functions if name in (None, function.name)]
    chosen = min(traces, key=lambda function: (function.in_training, function.takes_one))
    vectors = [candidate for candidate in outputs if candidate.function is chosen]
    default = [candidate for candidate in vectors if candidate.name == DEFAULT]
    if len(vectors) > 1 and not default:
        raise UnsupportedFormat(
            f"several outputs are vectors; choose one with --output:{_list_functions([chosen])}"
        )
    return (default or vectors)[0]


def outputs_of(function: ModelFunction) -> list[Output]:
    """Return the outputs of a function, in the order in which TensorFlow flattens its result.

    The name of an output is its key in the result. If the value is a structure, a number follows.
    """
    flatten = import_tensorflow().nest.flatten
    structure = function.concrete.structured_outputs
    names: list[str] = []
    if isinstance(structure, dict):  # flattened in the order of its keys
        for key in sorted(structure):
            count = len(flatten(structure[key]))
            names += [key] if count == 1 else [f"{key}_{number}" for number in range(count)]
    leaves = flatten(structure)
    names = names or [str(number) for number in range(len(leaves))]
    named = enumerate(zip(names, leaves, strict=True))
    return [Output(function, name, number, leaf) for number, (name, leaf) in named]


def _list_functions(functions: Sequence[ModelFunction]) -> str:
    """Describe the inputs and outputs of functions, one line each. Equal lines appear once."""
    lines: dict[str, None] = {}
    for function in functions:
        inputs = []
        for spec in function.inputs:
            dtype = getattr(getattr(spec, "dtype", None), "name", type(spec).__name__)
            name = getattr(spec, "name", None) or "a tensor"
            inputs.append(f"{name}: {dtype} {getattr(spec, 'shape', '')}")
        lines[f"\n  - {function} accepts {', '.join(inputs) or 'nothing'}"] = None
        for output in outputs_of(function):
            why = f": {output.why_not}" if output.why_not else ""
            lines[f"\n  - {function} returns {output}, {output.dtype}{why}"] = None
    return "".join(lines) or " no functions"


PROBES: Final = (b"a", b"42", b"")  # texts to try until one gives a vector, to find its length
TOLERANCE: Final = 1e-6  # a vector may change this much with the other texts of its batch
CONTENT: Final = ("variables", "assets", "assets.extra")


class TensorFlowEncoder(Encoder):
    """Encodes texts with a SavedModel."""

    kind = "tensorflow"
    threads = 3  # one batch is tokenized while another is multiplied

    def __init__(self, model: str | Path, options: EncoderOptions) -> None:
        """Open the folder of a SavedModel, or a TensorFlow Hub handle in the local cache."""
        path = files.find_model(model)
        if path.suffix == ".keras" and path.is_file():
            raise UnsupportedFormat(
                f"{path}: a Keras archive; export it as a SavedModel with `model.export(FOLDER)`"
            )
        folder = path.absolute()
        opened = graph_files.open_graphs(folder)  # fails fast if this is no model
        import_tensorflow()
        # Keep the handle: on another machine the model may be in another folder.
        is_handle = isinstance(model, str) and Path(model).absolute() != folder
        self._model = model if is_handle else folder
        self._folder, self.options = folder, options
        with reading(str(opened.path)):
            self._loaded = load_checked(opened, trust=options.trust)
            self._output = choose_output(self._loaded, options.signature, options.output)
            self.max_batch = options.max_batch or DEFAULT_BATCH
            self.dim = self._output.dim or self._probe_dim()
            self.fingerprint = self._digest(opened.file)
        if options.rule is not None:
            _ = self._words_and_note  # refuse an invalid rule now, not at the first word

    def __reduce__(self) -> tuple[Any, ...]:
        return _open_again, (self._model, self.options, self.fingerprint)

    @cached_property
    def words(self) -> Words | None:
        return self._words_and_note[0] or super().words

    @property
    def notes(self) -> tuple[str, ...]:
        notes = [f"{self._output.function}, output {self._output}"]
        if self._output.function.takes_one:
            notes.append("the model accepts one text per call")
        if self._output.dtype != "float32":
            notes.append(f"its vectors are {self._output.dtype}, converted to float32")
        words, note = self._words_and_note
        notes += [note] if note is not None else []
        return (*notes, *(words.notes if words is not None else ()))

    def encode(self, texts: Texts) -> Vectors:
        """Return the vector of each text. If the model fails, the error message names the text."""
        strings: Sequence[bytes]
        if not isinstance(texts, list | tuple):
            strings = as_bytes(texts_array(texts))
        elif set(map(type, texts)) <= {bytes}:  # ten times faster
            strings = texts
        else:
            strings = [text_bytes(text) for text in texts]
        size = 1 if self._output.function.takes_one else self.max_batch
        batches = (strings[start : start + size] for start in range(0, len(strings), size))
        vectors = [self._check(self._run(batch), batch) for batch in batches]
        if len(vectors) == 1:
            return vectors[0]
        return np.concatenate(vectors) if vectors else np.empty((0, self.dim), np.float32)

    # Opening it.

    @cached_property
    def _words_and_note(self) -> tuple[Words | None, str | None]:
        """The words of the model, or a note that says why they are unknown."""
        name, rule = self.options.name, self.options.rule
        try:
            return Words.of(self._folder, name=name, rule=rule), None
        except VocabtoolError as error:
            if rule is not None:
                raise
            return None, f"the words of the model are unknown: {str(error).splitlines()[0]}"

    def _probe_dim(self) -> int:
        """Find the length of a vector by running the model; it may refuse some texts."""
        failed: VocabtoolError | None = None
        for probe in PROBES:
            try:
                return int(self._run([probe]).shape[1])
            except UnsupportedFormat as error:
                failed = failed or error
        raise failed or UnsupportedFormat("the model accepts no text")

    def _digest(self, graph: Path) -> str:
        """Return the fingerprint: a hash of the output's name and of all files of the model."""
        start = ("vocabtool tensorflow encoder 2", str(self._output.function), self._output.name)
        files = [graph]
        for content in CONTENT:
            for parent, folders, names in os.walk(graph.parent / content):
                folders.sort()
                files += [Path(parent, name) for name in sorted(names)]
        return hash_files(repr(start).encode(), files, graph.parent)

    # Running it.

    def _run(self, texts: Sequence[bytes]) -> Vectors:
        """Run the model on one batch. If it fails, find one text for which it fails."""
        tensorflow = import_tensorflow()
        # A list of bytes without a shape is ten times as fast.
        tensor = tensorflow.constant([*texts], "string")
        shape = self._output.function.text_shape
        if not shape:  # one text per call
            tensor = tensorflow.reshape(tensor, [])
        elif len(shape) > 1:
            tensor = tensorflow.reshape(tensor, [len(texts), *[1] * (len(shape) - 1)])
        try:
            return self._output.read(self._output.function.call(tensor), len(texts))
        except (tensorflow.errors.OpError, UnicodeDecodeError) as error:
            # UnicodeDecodeError: the message of TensorFlow is not UTF-8.
            if len(texts) > 1:  # bisect, to name a single text
                middle = len(texts) // 2
                self._run(texts[:middle])
                self._run(texts[middle:])
            whom = f"the text {texts[0][:80]!r}" if len(texts) == 1 else f"{len(texts)} texts"
            raise UnsupportedFormat(f"the model fails for {whom}: {reason_of(error)}") from error

    def _check(self, vectors: Vectors, texts: Sequence[bytes]) -> Vectors:
        """Return the vectors of ``texts``. Refuse a wrong length, infinity and NaN."""
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
