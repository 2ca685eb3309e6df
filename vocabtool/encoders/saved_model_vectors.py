"""Which function of a loaded model, and which of its outputs, gives a vector for each text.

It is found by types and shapes alone, or named by the caller; what is no vector is listed with the
reason. How texts become the function's input is in ``saved_model_inputs.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import UnsupportedFormat
from vocabtool.tokenization.checked_model import import_tensorflow
from vocabtool.tokenization.model_functions import (
    MODEL_CALLS,
    SERVING,
    ModelFunction,
    functions_of,
    methods_of,
    sizes,
)

Tensor: TypeAlias = Any  # TensorFlow carries no types

# The signature of a module of TensorFlow 1's hub, and there the output that stands for all.
DEFAULT: Final = "default"
FLOATS: Final = ("float16", "bfloat16", "float32", "float64")


class Output(NamedTuple):
    """An output of a function. ``leaf``: which of its answer's leaves; ``spec``: TensorFlow's.

    ``per_text``: whether the function takes a single text only, so that one row is all there is.
    """

    name: str
    leaf: int
    spec: Any
    per_text: bool

    def __str__(self) -> str:
        shape = getattr(self.spec, "shape", "")
        return f"{self.name!r} of shape {shape}"

    @property
    def dtype(self) -> str:
        """The name of its numbers' type, or of its own where it is no dense tensor."""
        if not _is_dense(self.spec):
            return type(self.spec).__name__
        return str(self.spec.dtype.name)

    @property
    def dim(self) -> int | None:
        """How many numbers a vector has; ``None`` where the graph does not say."""
        size = sizes(self.spec.shape)[-1] if self.spec.shape.rank else -1
        return size if size > 0 else None

    @property
    def why_not(self) -> str | None:
        """Why it is no vector for each text; ``None`` where it may be one."""
        if not _is_dense(self.spec):
            return "no dense tensor: rows of different lengths are no vectors"
        if self.dtype not in FLOATS:
            return "no floating-point numbers"
        rank = self.spec.shape.rank
        if rank is None or rank == 2 or (rank == 1 and self.per_text):
            return None
        return "one number for each text" if rank < 2 else "several vectors for each text"

    def read(self, answer: Any, texts: int) -> Vectors:
        """The vectors in an answer to so many texts: float32, shape (texts, dim).

        Raises :class:`UnsupportedFormat` for another shape.
        """
        found = import_tensorflow().nest.flatten(answer)[self.leaf].numpy()
        if self.per_text and found.ndim == 1:
            found = found[None]
        if found.ndim != 2 or len(found) != texts:
            raise UnsupportedFormat(
                f"output {self.name!r} has the shape {found.shape} for {texts:,} texts; "
                f"wanted a vector for each, ({texts}, dim)"
            )
        return found if found.dtype == np.float32 else _as_float32(found)


class Source(NamedTuple):
    """Where a model's vectors come from."""

    function: ModelFunction
    output: Output

    def __str__(self) -> str:
        return f"{self.function}, output {self.output}"


def choose_source(loaded: Any, signature: str | None, output: str | None) -> Source:
    """The function and the output to take; texts as input go before ids.

    ``serving_default`` or ``default`` before other signatures, a single one of these before the
    model called. Raises :class:`UnsupportedFormat`, with all that the model has, where there is
    none of the names given, none that gives vectors, or several.
    """
    functions = list(functions_of(loaded))
    named = functions if signature is None else _of_name(loaded, functions, signature)
    for takes in (_takes_texts, _takes_ids):
        sources = [
            Source(function, found)
            for function in filter(takes, named)
            for found in outputs_of(function)
            if found.why_not is None and output in (None, found.name)
        ]
        if sources:
            return _preferred(sources)
    raise UnsupportedFormat(_nothing_to_take(named, output))


def outputs_of(function: ModelFunction) -> list[Output]:
    """The outputs of a function, in the order of the leaves of its answer."""
    flatten = import_tensorflow().nest.flatten
    given = function.concrete.structured_outputs
    if isinstance(given, dict):  # flattened in the order of its names
        parts = {name: flatten(part) for name, part in sorted(given.items())}
        named = [
            (name if len(leaves) == 1 else f"{name}_{i}", leaf)
            for name, leaves in parts.items()
            for i, leaf in enumerate(leaves)
        ]
    else:
        named = [(str(i), leaf) for i, leaf in enumerate(flatten(given))]
    per_text = _takes_one(function)
    return [Output(name, i, leaf, per_text) for i, (name, leaf) in enumerate(named)]


def is_ids(spec: Any) -> bool:
    """Whether an input is of token ids: a row of them for each text."""
    if not _is_dense(spec) or spec.dtype.name not in ("int32", "int64"):
        return False
    return bool(spec.shape.rank == 2)


def _as_float32(found: NDArray[Any]) -> Vectors:
    with np.errstate(over="ignore"):  # what is too large is told as what is not finite
        return found.astype(np.float32)


def _takes_texts(function: ModelFunction) -> bool:
    return function.text_shape is not None


def _takes_ids(function: ModelFunction) -> bool:
    return len(function.inputs) == 1 and is_ids(function.inputs[0])


def _takes_one(function: ModelFunction) -> bool:
    """Whether a call is for a single text."""
    shape = function.text_shape
    if shape is None:
        shape = sizes(function.inputs[0].shape) if _takes_ids(function) else (-1,)
    return shape[:1] in ((), (1,))


def _is_dense(spec: Any) -> bool:
    tensorflow = import_tensorflow()
    # A graph of TF1 gives its tensors themselves.
    return isinstance(spec, tensorflow.TensorSpec | tensorflow.Tensor)


def _of_name(loaded: Any, functions: Sequence[ModelFunction], name: str) -> list[ModelFunction]:
    """The functions that a caller means: a signature, or a method of the model."""
    found = [function for function in functions if function.name == name]
    if not found and name.isidentifier():
        found = sorted(methods_of(loaded, name), key=lambda each: each.in_training)
    if not found:
        raise UnsupportedFormat(f"no signature {name!r}. There are:{_listed(functions)}")
    return found


def _preferred(sources: Sequence[Source]) -> Source:
    """The one to take of several. Raises :class:`UnsupportedFormat` where that is not clear."""
    functions = [source.function for source in sources]
    names = dict.fromkeys(f.name for f in functions if f.signature)
    ranks = [SERVING, DEFAULT, *([*names] if len(names) == 1 else []), *MODEL_CALLS]
    first = next((name for name in ranks if any(f.name == name for f in functions)), None)
    if first is None and len(names) > 1:
        several = functions
        raise UnsupportedFormat(
            f"several signatures give vectors; say which with --signature:{_listed(several)}"
        )
    ways = [f for f in functions if first in (None, f.name)]
    function = min(ways, key=lambda f: (f.in_training, _takes_one(f)))
    own = [source for source in sources if source.function is function]
    default = [source for source in own if source.output.name == DEFAULT]
    if len(own) > 1 and not default:
        raise UnsupportedFormat(
            f"several outputs are vectors; say which with --output:{_listed([function])}"
        )
    return (default or own)[0]


def _nothing_to_take(functions: Sequence[ModelFunction], output: str | None) -> str:
    what = "a vector" if output is None else f"an output {output!r} that is a vector"
    return (
        f"no function of the model takes one text, or one row of ids, and gives {what} for each. "
        f"It has:{_listed(functions)}"
    )


def _listed(functions: Sequence[ModelFunction]) -> str:
    """Every function with what it wants and gives, a line each."""
    lines = (f"\n  - {line}" for function in functions for line in _told(function))
    return "".join(dict.fromkeys(lines)) or " no function"


def _told(function: ModelFunction) -> Iterator[str]:
    yield f"{function} wants {function.wants}"
    for output in outputs_of(function):
        why = f": {output.why_not}" if output.why_not else ""
        yield f"{function} gives {output}, {output.dtype}{why}"
