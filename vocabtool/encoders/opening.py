"""Opening an encoder by what a user gives: a path, a name, a Python object.

What a path holds is told by its content (``recognising.py``). An option that a kind of encoder does
not have is refused by name. How each kind is opened is in its own file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, assert_never, cast, get_args

from vocabtool.encoders.encoder import FORMS, Encoder, EncoderKind
from vocabtool.encoders.python_callable import PythonEncoder
from vocabtool.encoders.python_names import named_object
from vocabtool.encoders.static_weights import FittedWeights, Weighting
from vocabtool.errors import NotFound, VocabtoolError
from vocabtool.formats import hub_cache

KINDS: Final[tuple[EncoderKind, ...]] = get_args(EncoderKind)
# The options of each kind, by their names in Python.
OPTIONS: Final[Mapping[EncoderKind, frozenset[str]]] = {
    "tensorflow": frozenset(
        ("signature", "output", "name", "rule", "exact_words", "trust", "max_batch")
    ),
    "static": frozenset(("rule", "weights", "remove_component", "fitted", "max_batch")),
    "sentence-transformers": frozenset(("trust", "max_batch")),
    "python": frozenset(("fingerprint", "max_batch")),
}
PLAIN: Final[Mapping[EncoderKind, str]] = {
    "tensorflow": "TensorFlow models",
    "static": "files of word vectors",
    "sentence-transformers": "sentence-transformers models",
    "python": "Python callables",
}

Model = str | Path | Encoder | Callable[[list[str]], Any]


class _Told(NamedTuple):
    """What a model is, and what is left of its name without the prefix that says so."""

    kind: EncoderKind
    model: str | Path


def open_encoder(
    model: Model,
    *,
    kind: EncoderKind | None = None,
    signature: str | None = None,
    output: str | None = None,
    name: str | None = None,
    rule: str | None = None,
    exact_words: bool = False,
    trust: bool = False,
    weights: Weighting | None = None,
    remove_component: bool | None = None,
    fitted: FittedWeights | None = None,
    fingerprint: str | None = None,
    max_batch: int | None = None,
) -> Encoder:
    """An encoder of a path, a handle, a name with a prefix, a callable, or an encoder itself.

    ``kind``: without, a prefix (``static:glove.txt``) or the content tells. The other arguments are
    those of the kinds' own ``open``; see there.
    Raises :class:`VocabtoolError` for an argument that the kind does not have, and for what is none
    of these, with what was tried; besides, what opening raises.
    """
    asked = {
        "signature": signature,
        "output": output,
        "name": name,
        "rule": rule,
        "exact_words": exact_words or None,
        "trust": trust or None,
        "weights": weights,
        "remove_component": remove_component,
        "fitted": fitted,
        "fingerprint": fingerprint,
        "max_batch": max_batch,
    }
    options = {key: value for key, value in asked.items() if value is not None}
    if not isinstance(model, str | Path):
        return _of_object(model, kind, options)
    told = _told(model, kind)
    _check_options(told.kind, options)
    return _opened(told, options)


def _opened(told: _Told, options: Mapping[str, Any]) -> Encoder:
    match told.kind:
        case "tensorflow":
            from vocabtool.encoders.tensorflow import TensorFlowEncoder

            return TensorFlowEncoder.open(told.model, **options)
        case "static":
            from vocabtool.encoders.static import StaticEncoder

            return StaticEncoder.open(told.model, **options)
        case "sentence-transformers":
            from vocabtool.encoders.sentence_transformers import SentenceTransformersEncoder

            return SentenceTransformersEncoder.open(told.model, **options)
        case "python":
            named = named_object(str(told.model))
            if is_encoder(named.value):
                return _of_object(named.value, None, options)
            return _of_callable(named.value, named.maker, options)
        case _:
            assert_never(told.kind)


def is_encoder(value: object) -> bool:
    """Whether an object is an encoder already: of a kind, with ``encode`` and ``pipe``."""
    asked = (getattr(value, name, None) for name in ("encode", "pipe"))
    return getattr(value, "kind", None) in KINDS and all(map(callable, asked))


def _of_object(value: Any, kind: EncoderKind | None, options: Mapping[str, Any]) -> Encoder:
    if is_encoder(value):
        if options:
            raise VocabtoolError(f"{_shown(options)}: for models to open, this is an open encoder")
        if kind not in (None, value.kind):
            raise VocabtoolError(f"an encoder of kind {kind!r} is wanted, got {value.kind!r}")
        return cast(Encoder, value)
    if kind not in (None, "python"):
        raise VocabtoolError(f"kind {kind!r} wants a path or a name, got {type(value).__name__}")
    _check_options("python", options)
    return _of_callable(value, None, options)


def _of_callable(
    value: Any, maker: Callable[[], Any] | None, options: Mapping[str, Any]
) -> Encoder:
    if not callable(value):
        raise VocabtoolError(
            f"{type(value).__name__} is no encoder and cannot be called with texts; {FORMS}"
        )
    return PythonEncoder(value, made_by=maker, **options)


def _check_options(kind: EncoderKind, options: Mapping[str, Any]) -> None:
    """Refuse what would be ignored."""
    for option in options:
        if option not in OPTIONS[kind]:
            owners = " and ".join(PLAIN[other] for other in KINDS if option in OPTIONS[other])
            raise VocabtoolError(
                f"{_shown([option])} is for {owners}; this is of kind {kind!r}: leave it out"
            )


def _shown(options: Mapping[str, Any] | list[str]) -> str:
    return ", ".join(f"--{option.replace('_', '-')}" for option in options)


def _told(model: str | Path, kind: EncoderKind | None) -> _Told:
    prefix, _, rest = str(model).partition(":")
    for known in KINDS:
        if prefix == known and rest and kind in (None, known) and not Path(model).exists():
            return _Told(known, rest)
    if kind is not None:
        return _Told(kind, model)
    if isinstance(model, str) and hub_cache.is_handle(model):
        return _Told("tensorflow", model)
    path = Path(model)
    if path.is_dir() or path.is_file():
        from vocabtool.encoders.recognising import kind_of  # knows every format of models

        return _Told(kind_of(path), path)
    raise NotFound(f"{model}: no such file or folder. If it is a name, {FORMS}")
