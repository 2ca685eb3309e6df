"""Open an encoder from a path, a name with a prefix, or a Python object.

``python:package.module:attribute`` names a callable. Its module is imported, which runs its code,
so name only modules that you trust.

Other packages can add encoders by entry points of the group ``vocabtool.encoders``. The name
``NAME:MODEL`` calls the function of the entry point NAME with the text MODEL as its argument. The
function returns an :class:`Encoder` of the kind ``python``, or a callable.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import reduce
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from vocabtool.choices import KINDS, MODEL_FORMS, EncoderKind
from vocabtool.encoders.encoder import (
    DEFAULT_BATCH,
    PROBE,
    WRAPPED,
    Encoder,
    EncoderOptions,
    Texts,
    Vectors,
    check_vectors,
    decode_texts,
    with_prompts,
)
from vocabtool.encoders.static import VectorFile
from vocabtool.errors import NotFound, OperatorFailed, VocabtoolError
from vocabtool.tokenization.words import words_of

Model = str | Path | Encoder | VectorFile | Callable[[list[str]], Any]
GROUP: Final = "vocabtool.encoders"

# The options of each kind, besides `kind`.
OPTIONS: Final[Mapping[EncoderKind, frozenset[str]]] = {
    "tensorflow": frozenset(
        (*WRAPPED, "signature", "output", "name", "rule", "trust", "max_batch")
    ),
    "static": frozenset(("rule", "weights", "fitted", "max_batch")),
    "model2vec": frozenset((*WRAPPED, "max_batch")),
    "onnx": frozenset((*WRAPPED, "output", "max_batch", "device")),
    "sentence-transformers": frozenset((*WRAPPED, "trust", "max_batch", "device")),
    "openai": frozenset(
        (*(*WRAPPED, "max_batch", "api_key_env", "timeout", "retries", "requests"),)
    ),
    "python": frozenset((*WRAPPED, "fingerprint", "max_batch")),
}
PLAIN_NAMES: Final[Mapping[EncoderKind, str]] = {
    "tensorflow": "TensorFlow models",
    "static": "word vectors",
    "model2vec": "static embeddings of tokens",
    "onnx": "ONNX models",
    "sentence-transformers": "sentence-transformers models",
    "openai": "models behind HTTP (openai:MODEL@URL)",
    "python": "Python callables",
}
# Module and class of the encoder of each kind but ``python``.
HOMES: Final[Mapping[EncoderKind, str]] = {
    "tensorflow": "saved_model:TensorFlowEncoder",
    "static": "static:StaticEncoder",
    "model2vec": "static:Model2VecEncoder",
    "onnx": "onnx:OnnxEncoder",
    "sentence-transformers": "sentence_transformers:SentenceTransformersEncoder",
    "openai": "openai:OpenAIEncoder",
}


def open_encoder(model: Model, options: EncoderOptions | None = None, **arguments: Any) -> Encoder:
    """Open an encoder from a path, a TensorFlow Hub handle, a name with a prefix, or a callable.

    ``model``: may also be an :class:`Encoder`, or open word vectors. A callable gets a list of
    texts and returns an array with one row per text.
    ``options``: see :class:`EncoderOptions`. Keyword arguments replace its fields.
    ``kind``: by default, the prefix of the name, as in ``static:glove.txt``. Without a prefix, the
    kind is recognised by the content of the model.
    ``vocabulary``: the words that the model knows, only for a model that has no vocabulary.

    To open the same encoder again, use its attribute :attr:`Encoder.options`.

    Raises :class:`VocabtoolError` for:

    - an option that the kind does not support
    - a ``vocabulary`` if the model has its own vocabulary
    - a model of unknown kind; the message lists the formats that were tried

    Also raises the errors of the encoder classes and of :func:`words_of`.
    """
    options = replace(options or EncoderOptions(), **arguments)
    if options.vocabulary is None:
        return _open(model, options)
    encoder = _open(model, replace(options, vocabulary=None, rule=None))
    if encoder.words is not None:
        raise VocabtoolError(
            f"{model}: this model has its own vocabulary, {encoder.words.vocabulary.name}; leave "
            "--vocabulary out. It is for models without a vocabulary, such as python:… and openai:…"
        )
    return encoder.with_words(words_of(options.vocabulary, options.rule))


def _open(model: Model, options: EncoderOptions) -> Encoder:
    """Open an encoder without a ``vocabulary``; see :func:`open_encoder`."""
    values = options.given_options()
    kind = values.pop("kind", None)
    if is_encoder(model):
        return _open_already(model, kind, values)
    if isinstance(model, str | Path):
        prefix, _, rest = str(model).partition(":")
        is_name = rest and not Path(model).exists()
        if is_name and prefix in KINDS and kind in (None, prefix):
            kind, model = prefix, rest
        else:
            names_python = is_name and kind in (None, "python")
            of_packages = [*entry_points(group=GROUP, name=prefix)] if names_python else []
            if of_packages:
                kind, model = "python", of_packages[0].load()(rest)
            elif kind is None:
                from vocabtool.formats import detection  # loads the readers of all formats

                kind = detection.encoder_kind(model)
    elif isinstance(model, VectorFile):
        kind = "static"
    elif kind not in (None, "python"):
        raise VocabtoolError(f"kind {kind!r} needs a path or a name, got {type(model).__name__}")
    kind = cast(EncoderKind, kind or "python")
    options = replace(options, kind=kind)
    refuse_options(kind, options)
    return with_prompts(_open_kind(kind, model, options), options)


def refuse_options(kind: EncoderKind, options: EncoderOptions) -> None:
    """Refuse options that an encoder of this kind would ignore."""
    for option, value in options.given_options().items():
        if option not in ("kind", *OPTIONS[kind]) and value != "":  # "": no prompt
            *most, last = [PLAIN_NAMES[k] for k in KINDS if option in OPTIONS[k]]
            owners = f"{', '.join(most)} and {last}" if most else last
            raise VocabtoolError(
                f"{_flags([option])} is only for {owners}; this model has the kind {kind!r}. Leave "
                "the option out"
            )


def _open_kind(kind: EncoderKind, model: Model, options: EncoderOptions) -> Encoder:
    """Open an encoder of a kind, without prompts. ``model``: has no prefix."""
    if kind != "python":
        module, _, name = HOMES[kind].partition(":")
        encoder_class = getattr(importlib.import_module(f"vocabtool.encoders.{module}"), name)
        return cast(Encoder, encoder_class(model, options))
    # ``source``: the class or function that returned ``fn``, if there is one.
    fn, source = import_named(str(model)) if isinstance(model, str | Path) else (model, None)
    if is_encoder(fn):
        values = options.given_options()
        return _open_already(fn, None, [n for n in ("fingerprint", "max_batch") if n in values])
    if not callable(fn):
        raise VocabtoolError(
            f"wanted an encoder or a callable, got {type(fn).__name__}; {MODEL_FORMS}"
        )
    return PythonEncoder(fn, options, source)


def is_encoder(value: object) -> bool:
    """Return whether an object has the attributes of an :class:`Encoder`, whatever its class."""
    methods = (getattr(value, name, None) for name in ("encode", "encode_queries"))
    return getattr(value, "kind", None) in KINDS and all(map(callable, methods))


def _open_already(encoder: Any, kind: EncoderKind | None, ignored: Iterable[str]) -> Encoder:
    """Return an open encoder. Refuse another ``kind``, and options that would be ignored."""
    if ignored:
        raise VocabtoolError(f"{_flags(ignored)}: not allowed with an encoder that is already open")
    if kind not in (None, encoder.kind):
        raise VocabtoolError(f"expected an encoder of kind {kind!r}, got {encoder.kind!r}")
    return cast(Encoder, encoder)


def _flags(options: Iterable[str]) -> str:
    return ", ".join(f"--{option.replace('_', '-')}" for option in options)


WANTED: Final = "wanted python:package.module:attribute"
SOURCE_ONLY: Final = (
    "the fingerprint covers the source code of {name}, but not what it calls or reads; to "
    "distinguish versions, set an attribute `fingerprint` of the callable (in Python also "
    "fingerprint=)"
)


class PythonEncoder(Encoder):
    """Encodes with a callable ``fn(texts)`` that returns numbers of shape (n, dim).

    ``fn`` must be thread-safe. It receives texts as ``str``, with invalid UTF-8 replaced by U+FFFD.
    """

    kind = "python"

    def __init__(
        self,
        fn: Callable[[list[str]], Any],
        options: EncoderOptions,
        made_by: Callable[[], Any] | None = None,
    ) -> None:
        """Wrap the callable ``fn``, which is called once to find the length of a vector.

        The default ``fingerprint`` is the attribute of ``fn`` or a hash of its source code.
        ``made_by``: the class or function that returned ``fn``, whose source code is hashed
        instead.
        """
        self._fn = fn
        self._name = name_of(fn)
        self.max_batch = options.max_batch or DEFAULT_BATCH
        self.options = replace(options, max_batch=self.max_batch)
        source, version = made_by or fn, options.fingerprint
        if version is None:
            version = getattr(fn, "fingerprint", None)
        if not version:
            self._notes += (SOURCE_ONLY.format(name=name_of(source)),)
            version = _source_fingerprint(source)
        self.fingerprint = hashlib.sha256(f"vocabtool python 1\n{version}".encode()).hexdigest()
        try:
            self.dim = int(self._call([PROBE], None, 0).shape[1])
        except (VocabtoolError, OSError, MemoryError):
            raise
        except Exception as error:  # a callable may raise anything
            what = f"when called with one text, it raised {type(error).__name__}: {error}"
            raise OperatorFailed(self._name, what) from error

    def encode(self, texts: Texts) -> Vectors:
        """Return the vector of each text. Errors of the callable are not caught."""
        decoded = decode_texts(texts)
        vectors = [
            self._call(decoded[start : start + self.max_batch], self.dim, start)
            for start in range(0, len(decoded), self.max_batch)
        ]
        return np.concatenate([np.zeros((0, self.dim), np.float32), *vectors])

    def _call(self, texts: list[str], dim: int | None, start: int) -> Vectors:
        source = f"{self._name}, called with texts {start:,} to {start + len(texts) - 1:,}"
        return check_vectors(self._fn(texts), len(texts), dim, source)


def import_named(name: str) -> tuple[Any, Callable[[], Any] | None]:
    """Import ``package.module:attribute``. The current folder is appended to ``sys.path``.

    Returns the attribute and ``None``, or if it can be called without arguments, the result and it.
    """
    module_name, colon, path = name.partition(":")
    if not (module_name and colon and path):
        raise VocabtoolError(f"python:{name}: {WANTED}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        module: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # a dependency of the module is missing
        raise NotFound(f"python:{module_name}: no module {error.name!r}; {WANTED}") from error
    try:
        value: Any = reduce(getattr, path.split("."), module)
    except AttributeError as error:
        public = ", ".join(sorted(name for name in vars(module) if not name.startswith("_")))
        raise NotFound(
            f"python:{module_name}:{path}: no such attribute; the module has {public}"
        ) from error
    takes_nothing = inspect.isfunction(value) and not inspect.signature(value).parameters
    if inspect.isclass(value) or takes_nothing:
        return value(), value
    return value, None


def _source_fingerprint(source: Callable[..., Any]) -> str:
    """Hash the source code. Refuse a callable whose results depend on more than its source code."""
    plain = inspect.isclass(source) or (
        inspect.isfunction(source) and source.__closure__ is None and "<" not in source.__qualname__
    )
    try:
        if not plain:
            raise TypeError(
                "the results of a lambda, closure or object depend on more than its code"
            )
        code = inspect.getsource(source)
    except (OSError, TypeError) as error:
        raise VocabtoolError(
            f"no fingerprint can be computed for {name_of(source)} ({error}); give it "
            "an attribute `fingerprint` (in Python also fingerprint=), and change it whenever the "
            "vectors change"
        ) from error
    named = f"{source.__module__}\n{source.__qualname__}\n{code}"
    return hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()


def name_of(fn: Callable[..., Any]) -> str:
    named = fn if hasattr(fn, "__qualname__") else type(fn)
    return f"{named.__module__}.{named.__qualname__}"
