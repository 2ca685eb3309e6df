"""The functions of a loaded model: what each wants and gives, and how it is called.

How a model is loaded is in ``checked_model.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from vocabtool.errors import UnsupportedFormat
from vocabtool.tokenization.checked_model import import_tensorflow

Tensor: TypeAlias = Any  # TensorFlow carries no types
Call: TypeAlias = Callable[[Tensor], Any]

SERVING: Final = "serving_default"
MODEL_CALLS: Final = ("__call__", "serve")


@dataclass(frozen=True, slots=True)
class ModelFunction:
    """A function of a model. ``name``: of the signature, or of the method.

    ``call``: takes the only tensor that it wants, gives tensors in any structure.
    ``concrete``: TensorFlow's account of it.
    """

    name: str
    signature: bool
    call: Call
    concrete: Any

    def __str__(self) -> str:
        return f"signature {self.name}" if self.signature else self.name

    @property
    def inputs(self) -> list[Any]:
        """What it wants: TensorFlow's specs."""
        tensorflow = import_tensorflow()
        leaves = tensorflow.nest.flatten(self.concrete.structured_input_signature)
        return [leaf for leaf in leaves if isinstance(leaf, tensorflow.TypeSpec)]

    @property
    def wants(self) -> str:
        """The same in a message: ``text: string (None, 1)``."""
        told = []
        for spec in self.inputs:
            dtype = getattr(getattr(spec, "dtype", None), "name", type(spec).__name__)
            name = getattr(spec, "name", None) or "a tensor"
            told.append(f"{name}: {dtype} {getattr(spec, 'shape', '')}")
        return ", ".join(told) or "nothing"

    @property
    def text_shape(self) -> tuple[int, ...] | None:
        """The shape of the only input, where it is of strings, -1 where any size goes.

        ``None`` where it cannot hold texts: all but the first size must be 1, or any.
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
        """Whether it was traced with an argument ``True``, as ``training`` is."""
        tensorflow = import_tensorflow()
        leaves = tensorflow.nest.flatten(self.concrete.structured_input_signature)
        return any(leaf is True for leaf in leaves)


@dataclass(frozen=True, slots=True)
class Entry:
    """The function of a model that takes texts. ``shape``: of its texts, -1 where any size goes.

    ``call``: takes a string tensor of that shape, gives tensors in any structure.
    """

    name: str
    call: Call
    shape: tuple[int, ...]
    graph: Tensor

    @classmethod
    def of(cls, function: ModelFunction, shape: tuple[int, ...]) -> Entry:
        """A function that takes texts in that shape."""
        return cls(str(function), function.call, shape, function.concrete.graph)

    @property
    def one_by_one(self) -> bool:
        """Whether it takes a single text only."""
        return not self.shape or self.shape[0] == 1

    def tensor(self, texts: Sequence[bytes]) -> Tensor:
        """Texts as it wants them; one only where it takes no more."""
        tensorflow = import_tensorflow()
        if not texts:
            flat = tensorflow.zeros([0], tensorflow.string)
        else:
            # Without a shape TensorFlow takes a list of bytes in a tenth of the time.
            flat = tensorflow.constant(list(texts), tensorflow.string)
        if len(self.shape) == 1:
            return flat
        shape = [len(texts), *(1 for _ in self.shape[1:])] if self.shape else []
        return tensorflow.reshape(flat, shape)

    def feed(self, texts: Sequence[bytes]) -> Any:
        """Call it with texts; one only where it takes no more."""
        return self.call(self.tensor(texts))


def choose_entry(loaded: Any) -> Entry:
    """The function that takes texts.

    ``serving_default`` where one text is all it wants, else the first signature of that kind,
    else what the model does when it is called. Raises :class:`UnsupportedFormat` where there is
    none, with what each of them wants.
    """
    wants: list[str] = []
    for function in functions_of(loaded):
        shape = function.text_shape
        if shape is not None and shape[:1] in ((), (-1,), (1,)):
            return Entry.of(function, shape)
        wants.append(f"\n  - {function} wants {function.wants}")
    raise UnsupportedFormat(
        "no function of the model takes one text, and nothing else:"
        f"{''.join(dict.fromkeys(wants)) or ' it has no function'}"
    )


def functions_of(loaded: Any) -> Iterator[ModelFunction]:
    """What can be called: the signatures, ``serving_default`` first, then the model itself.

    Of the ways to call the model those come first that are not for training.
    """
    signatures = dict(getattr(loaded, "signatures", {}))
    for name in sorted(signatures, key=lambda name: name != SERVING):
        concrete = signatures[name]
        keywords = list(concrete.structured_input_signature[1])
        yield ModelFunction(name, True, partial(_call_signature, concrete, keywords), concrete)
    for name in MODEL_CALLS:
        yield from sorted(methods_of(loaded, name), key=lambda each: each.in_training)


def _call_signature(signature: Any, keywords: Sequence[str], texts: Tensor) -> Any:
    return signature(**dict.fromkeys(keywords, texts))


def methods_of(loaded: Any, name: str) -> Iterator[ModelFunction]:
    """The ways to call a method of a model; none where it has no such method."""
    method = getattr(loaded, name, None)
    for concrete in getattr(method, "concrete_functions", ()):
        yield ModelFunction(name, False, partial(_call_method, method, concrete), concrete)


def _call_method(method: Any, concrete: Any, texts: Tensor) -> Any:
    """As it was traced: its other arguments are not tensors (``training=False``)."""
    tensorflow = import_tensorflow()
    args, keywords = tensorflow.nest.map_structure(
        lambda leaf: texts if isinstance(leaf, tensorflow.TypeSpec) else leaf,
        concrete.structured_input_signature,
    )
    return method(*args, **keywords)


def sizes(shape: Any) -> tuple[int, ...]:
    """A TensorFlow shape with -1 where any size goes; ``(-1,)`` where not even the rank is set."""
    if shape.rank is None:
        return (-1,)
    return tuple(-1 if size is None else int(size) for size in shape)
