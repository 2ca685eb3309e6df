"""``open_encoder``: an encoder of a path, a name with a prefix, or a Python object.

Without ``kind`` or a prefix, the content of a path decides what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Unpack, cast

from vocabtool.choices import KINDS, EncoderKind
from vocabtool.encoders.encoder import Encoder, EncoderArguments, EncoderOptions
from vocabtool.encoders.python_callable import PythonEncoder, import_named
from vocabtool.errors import NotFound, UnknownFormat, VocabtoolError, reading
from vocabtool.formats import files

Model = str | Path | Encoder | Callable[[list[str]], Any]

# The options of each kind, besides `kind`.
OPTIONS: Final[Mapping[EncoderKind, frozenset[str]]] = {
    "tensorflow": frozenset(
        ("signature", "output", "name", "rule", "exact_words", "trust", "max_batch")
    ),
    "static": frozenset(("rule", "weights", "remove_component", "fitted", "max_batch")),
    "sentence-transformers": frozenset(("trust", "max_batch")),
    "python": frozenset(("fingerprint", "max_batch")),
}
PLAIN_NAMES: Final[Mapping[EncoderKind, str]] = {
    "tensorflow": "TensorFlow models",
    "static": "files of word vectors",
    "sentence-transformers": "sentence-transformers models",
    "python": "Python callables",
}
FORMS: Final = (
    "say what it is: tensorflow:FOLDER-OR-HANDLE, static:FILE, sentence-transformers:FOLDER-OR-"
    "NAME, python:package.module:attribute"
)


def open_encoder(
    model: Model, options: EncoderOptions | None = None, **arguments: Unpack[EncoderArguments]
) -> Encoder:
    """An encoder of a path, a handle, a name with a prefix, a callable, or an encoder itself.

    ``options``, or the same as keyword arguments: see :class:`EncoderOptions`. Without ``kind``, a
    prefix (``static:glove.txt``) or the content decides. What :attr:`Encoder.options` says opens
    the same encoder again at once, as it is, without looking for what lies there.
    Raises :class:`VocabtoolError` for an option that the kind does not have, and for what is none
    of these, with what was tried; besides, what opening raises.
    """
    options = replace(options or EncoderOptions(), **arguments)
    given = options.given_options()
    kind = given.pop("kind", None)
    if is_encoder(model):
        return _open_already(model, kind, given)
    if isinstance(model, str | Path):
        prefix, _, rest = str(model).partition(":")
        if prefix in KINDS and rest and kind in (None, prefix) and not Path(model).exists():
            kind, model = prefix, rest
        elif kind is None:
            kind = _recognise(model)
    elif kind not in (None, "python"):
        raise VocabtoolError(f"kind {kind!r} wants a path or a name, got {type(model).__name__}")
    kind = cast(EncoderKind, kind or "python")
    for option in given:  # what would be ignored
        if option not in OPTIONS[kind]:
            owners = " and ".join(PLAIN_NAMES[k] for k in KINDS if option in OPTIONS[k])
            raise VocabtoolError(
                f"{_flags([option])} is for {owners}; this is of kind {kind!r}: leave it out"
            )
    options = replace(options, kind=kind)
    if kind == "tensorflow":
        from vocabtool.encoders.saved_model import TensorFlowEncoder

        return TensorFlowEncoder(cast(str | Path, model), options)
    if kind == "static":
        from vocabtool.encoders.static import StaticEncoder

        return StaticEncoder.open(cast(str | Path, model), options)
    if kind == "sentence-transformers":
        from vocabtool.encoders.sentence_transformers import SentenceTransformersEncoder

        return SentenceTransformersEncoder(cast(str | Path, model), options)
    value, maker = import_named(str(model)) if isinstance(model, str | Path) else (model, None)
    if is_encoder(value):
        return _open_already(value, None, given)
    if not callable(value):
        raise VocabtoolError(
            f"{type(value).__name__} is no encoder and cannot be called with texts; {FORMS}"
        )
    return PythonEncoder(value, made_by=maker, **given)


def is_encoder(value: object) -> bool:
    """Whether an object is an encoder already: of a kind, with ``encode`` and ``pipe``."""
    methods = (getattr(value, name, None) for name in ("encode", "pipe"))
    return getattr(value, "kind", None) in KINDS and all(map(callable, methods))


def _open_already(value: Any, kind: EncoderKind | None, given: Iterable[str]) -> Encoder:
    if given:
        raise VocabtoolError(f"{_flags(given)}: for models to open, this is an open encoder")
    if kind not in (None, value.kind):
        raise VocabtoolError(f"an encoder of kind {kind!r} is wanted, got {value.kind!r}")
    return cast(Encoder, value)


def _flags(options: Iterable[str]) -> str:
    return ", ".join(f"--{option.replace('_', '-')}" for option in options)


def _recognise(model: str | Path) -> EncoderKind:
    """What kind of model lies there."""
    if isinstance(model, str) and files.is_handle(model):
        return "tensorflow"
    path = Path(model)
    if path.is_file():
        return _recognise_file(path)
    if not path.is_dir():
        raise NotFound(f"{model}: no such file or folder. If it is a name, {FORMS}")
    from vocabtool.encoders.sentence_transformers import MODEL_FILES
    from vocabtool.formats.saved_model import graph_files

    if graph_files.graphs_file_in(path) is not None:
        return "tensorflow"
    if any((path / name).is_file() for name in MODEL_FILES):
        return "sentence-transformers"
    raise UnknownFormat(
        f"{path}: not the folder of a model that makes vectors. {FORMS[0].upper()}{FORMS[1:]}",
        (
            f"tensorflow: none of {', '.join(graph_files.SAVED_MODELS)} in it",
            f"sentence-transformers: neither {' nor '.join(MODEL_FILES)} in it",
        ),
    )


def _recognise_file(file: Path) -> EncoderKind:
    from vocabtool.formats import registry, word_vectors
    from vocabtool.formats.binary_vectors import FASTTEXT, NUMPY, NUMPY_MAGIC, WORD2VEC
    from vocabtool.formats.reader import Source
    from vocabtool.formats.saved_model import graph_files

    vector_readers = (NUMPY, word_vectors.READER, WORD2VEC, FASTTEXT)
    with reading(str(file)):
        source = Source.open(file)
        if source.head.startswith(NUMPY_MAGIC):
            return "static"  # where its words are missing, opening says so
        reader = registry.find(source)
        if reader in vector_readers:
            return "static"
        if reader is graph_files.GRAPH_FILE:
            return "tensorflow"
    tried = tuple(f"{each.format}: {each.recognise(source)}" for each in vector_readers)
    if reader is not graph_files.OTHER_GRAPH:
        what = f"it is read as {reader.format}, which makes no vectors"
        raise UnknownFormat(f"{file}: not a file of word vectors, and no graph; {what}", tried)
    try:
        graph_files.read_graphs(file, file)
    except UnknownFormat as error:
        raise UnknownFormat(error.what, (*error.tried, *tried)) from error
    return "tensorflow"
