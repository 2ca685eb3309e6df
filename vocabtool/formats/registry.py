"""Every format, in the order in which a file is shown to their readers; the first that fits reads.

What a format is, its content tells and never its name. Graphs come first, then what a few first
bytes tell, then JSON, then text; plain words, which nearly any text could be, come last. Nothing is
unpacked onto the disk and nothing is executed.

Of a folder without a SavedModel every file at its top level is read that a reader recognises; of
files that are nothing but text, only those that are called like vocabularies (``vocab*.txt``,
``words*.txt``, ``tokens*.txt``, ``dict*.txt``, ``*.vocab`` but not beside a ``.model`` that says
the same), so that a README, ``merges.txt`` or a licence is none. Pickles, which are never read, and
weights are passed over. Folders inside are not looked into, and no links are followed but those of
a Hugging Face cache (``../../blobs/<name>``).

The public verbs: ``vocabularies`` lists what a model holds, ``extract`` takes one of them;
``split_name`` tells which one ``FILE#NAME`` means, ``pick`` takes it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from vocabtool.errors import (
    NoVocabulary,
    UnknownFormat,
    UnsupportedFormat,
    VocabtoolError,
    reading,
    refuse_pointer,
)
from vocabtool.formats import json_file
from vocabtool.formats.reader import Findings, JsonReader, Model, PassedOver, Reader, Source
from vocabtool.formats.saved_model import graph_files
from vocabtool.formats.saved_model.graph_files import GRAPH_FILE, GRAPH_FOLDER, OTHER_GRAPH
from vocabtool.vocabulary import Place, Vocabulary, printable

MAX_FILES: Final = 10_000  # of a folder
WORD_LISTS: Final = re.compile(r"(vocab|words|tokens|dict).*\.txt|.*\.vocab", re.IGNORECASE)
WEIGHTS: Final = re.compile(
    r".*\.(safetensors|h5|hdf5|msgpack|pt|pth|ckpt|npz|npy)|(pytorch|tf|flax)_model.*",
    re.IGNORECASE,
)
CACHED: Final = re.compile(r"\.\./\.\./blobs/[0-9A-Za-z]+")  # a link in a Hugging Face cache
MAX_NAMED: Final = 3
MARK: Final = "#"  # before the name of a vocabulary


def readers() -> Iterator[Reader]:
    """Every reader of a file, imported when it is reached: a graph needs none of the others."""
    yield GRAPH_FILE
    yield from other_readers()
    yield OTHER_GRAPH


def other_readers() -> tuple[Reader, ...]:
    """Those of files that are no graphs."""
    from vocabtool.formats import (
        binary_vectors,
        byte_tokens,
        gguf,
        keras,
        onnx,
        pickles,
        sentencepiece,
        tflite,
        vocabulary_files,
        word_list,
        word_vectors,
    )

    return (
        gguf.READER,
        keras.ARCHIVE,
        binary_vectors.NUMPY,
        pickles.READER,
        tflite.READER,
        binary_vectors.FASTTEXT,
        sentencepiece.READER,
        onnx.READER,
        binary_vectors.WORD2VEC,
        vocabulary_files.READER,
        JSON,
        byte_tokens.RWKV,
        word_vectors.READER,
        byte_tokens.RANKS,
        word_list.READER,
    )


def json_readers() -> tuple[JsonReader, ...]:
    """Those of JSON, which is parsed once."""
    from vocabtool.formats import byte_tokens, hf_tokenizer, json_file, keras

    return (
        hf_tokenizer.READER,
        json_file.TENSORFLOW_JS,
        keras.TOKENIZER,
        byte_tokens.TEKKEN,
        byte_tokens.JSON,
        json_file.IDS,
        json_file.PIECES,
        json_file.TEXTS,
    )


def _read_json(source: Source) -> Findings:
    document = json_file.read(source.file)
    reasons = []
    for reader in json_readers():
        reason = reader.recognise(document)
        if reason is None:
            return replace(reader.read(document, source), format=reader.format)
        reasons.append(f"{reader.format}: {reason}")
    raise UnknownFormat(f"{source.name}: JSON, but of no format that vocabtool reads", reasons)


JSON: Final = Reader("JSON", json_file.recognise, _read_json)


def find(source: Source) -> Reader:
    """The first reader that recognises a file."""
    return next(reader for reader in readers() if reader.recognise(source) is None)


def read(model: str | Path) -> tuple[Path, Findings]:
    """Everything in a folder, a file or a TensorFlow Hub handle, and where that lies.

    Raises :class:`NotFound`, :class:`UnknownFormat`, :class:`UnsupportedFormat` or
    :class:`InvalidFile`.
    """
    with reading(str(model)):
        source = Source.open(graph_files.path_of(model))
        if GRAPH_FOLDER.recognise(source) is None:
            return source.file, GRAPH_FOLDER.read(source)
        if source.file.is_dir():
            return source.file, _read_folder(source.file)
        reader = find(source)
        try:
            result = reader.read(source)
        except UnknownFormat as error:
            if reader is GRAPH_FILE:
                raise
            told = ((other.format, other.recognise(source)) for other in other_readers())
            reasons = (f"{format_}: {reason}" for format_, reason in told if reason is not None)
            raise UnknownFormat(error.what, (*error.tried, *reasons)) from error
        return source.file, replace(result, format=result.format or reader.format)


def has_graphs(model: str | Path) -> bool:
    """Whether a model consists of graphs; raises as :func:`read` does."""
    with reading(str(model)):
        source = Source.open(graph_files.path_of(model))
        if source.file.is_dir():
            return GRAPH_FOLDER.recognise(source) is None
        return find(source) in (GRAPH_FILE, OTHER_GRAPH)


def _read_folder(folder: Path) -> Findings:
    """What all files of a folder hold, or the ``vocab`` folder of a spaCy pipeline."""
    from vocabtool.formats import spacy_vocab

    spacy = spacy_vocab.folder_in(folder)
    if spacy is not None:
        return spacy_vocab.read(folder, spacy)
    paths = sorted(folder.iterdir())
    if len(paths) > MAX_FILES:
        raise UnsupportedFormat(f"a folder of more than {MAX_FILES:,} files: pass one of them")
    findings, formats = Findings(), []
    files_of: dict[str, set[str]] = {}  # of each name of a vocabulary
    for path in paths:
        if path.name.startswith(".") or WEIGHTS.fullmatch(path.name) or not path.is_file():
            continue
        name = printable(os.fsencode(path.name))
        try:
            with reading(name):
                result = _read_part(path)
        except UnknownFormat as error:  # JSON of some other kind: settings, an index of weights
            findings.found.append(PassedOver(name, 0, Place(name, "whole file"), error.what))
        except VocabtoolError as error:
            findings.warnings.append(str(error))
        else:
            if result is not None:
                formats.append(result.format or "")
                findings.found += result.found
                findings.warnings += (f"{name}: {warning}" for warning in result.warnings)
    if not formats:
        others = [each for each in findings.found if isinstance(each, PassedOver)]
        passed_over = (f"{each.name}: {each.why}" for each in others)
        raise graph_files.no_model_in(folder, (*findings.warnings, *passed_over))
    for found in findings.found:
        if isinstance(found, Vocabulary):
            files_of.setdefault(found.name, set()).add(found.places[0].file)
    findings.found = [
        replace(found, name=f"{found.places[0].file}/{found.name}")
        if isinstance(found, Vocabulary) and len(files_of[found.name]) > 1
        else found
        for found in findings.found
    ]
    findings.format = f"folder: {', '.join(dict.fromkeys(formats))}"
    return findings


def _read_part(path: Path) -> Findings | None:
    """What a file of a folder holds; ``None`` for a text that is no list of words.

    Raises :class:`UnknownFormat` for what is to be passed over.
    """
    from vocabtool.formats import pickles, word_list

    if path.is_symlink():  # those of a Hugging Face cache lead to a regular file there
        target = os.fspath(path.readlink())
        blob = path.parent / target
        if not CACHED.fullmatch(target) or not blob.is_file() or blob.is_symlink():
            raise UnknownFormat("a symbolic link: it is not followed")
    source = Source.open(path)
    refuse_pointer(source.head)
    reader = next((each for each in other_readers() if each.recognise(source) is None), None)
    if reader is pickles.READER:
        raise UnknownFormat(pickles.refusal(source))
    if reader is word_list.READER:
        # SentencePiece writes its pieces twice: in a .model, and with scores in a .vocab
        scored = path.suffix == ".vocab" and path.with_suffix(".model").is_file()
        if scored or WORD_LISTS.fullmatch(path.name) is None:
            return None
    if reader is None:
        return None
    result = reader.read(source)
    return replace(result, format=result.format or reader.format)


class PickedVocabulary(NamedTuple):
    """What :func:`pick` takes. ``notes``: what was not read, which others there are."""

    vocabulary: Vocabulary
    notes: tuple[str, ...] = ()


def vocabularies(model: str | Path) -> tuple[Vocabulary, ...]:
    """Every vocabulary of a model: a folder, a file, or a TensorFlow Hub handle in the cache.

    Those that the model looks words up in come first, the largest first. Nothing of the model is
    run. Raises :class:`VocabtoolError`; what could be read only in part is told by
    :func:`inspect`.
    """
    return inspect(model).vocabularies


def inspect(model: str | Path, *, small: bool = False) -> Model:
    """Like :func:`vocabularies`, with what was passed over and what could not be read.

    ``small``: take unlinked string constants of fewer than ten entries for vocabularies too.
    """
    path, result = read(model)
    return result.model(path, small=small)


def extract(model: str | Path, name: str | None = None) -> Vocabulary:
    """One vocabulary of a model: by the name that ``inspect`` gives it, or the most likely one.

    Without a name: the largest that words are looked up in, failing that the largest constant,
    failing that the largest list of another kind, but never stop words.
    Raises :class:`NoVocabulary` where there is none, or none of that name.
    """
    return choose(inspect(model, small=name is not None), name)


def pick(spec: str | Path) -> PickedVocabulary:
    """The vocabulary that ``FILE`` or ``FILE#NAME`` means: the one that :func:`extract` takes.

    Raises what :func:`extract` raises.
    """
    path, name = (spec, None) if isinstance(spec, Path) else split_name(spec)
    model = inspect(path, small=name is not None)
    vocabulary, among = choose(model, name), len(model.vocabularies)
    notes = [f"{path}: incomplete: {warning}" for warning in model.warnings]
    if name is None and among > 1:
        taken = f"took {vocabulary.name}, one of {among} vocabularies"
        notes.append(f"{path}: {taken}: {path}{MARK}NAME takes another")
    return PickedVocabulary(vocabulary, tuple(notes))


def split_name(model: str) -> tuple[str, str | None]:
    """``FILE#NAME`` as a path and the name of a vocabulary in it, ``None`` where none is named.

    A path that holds a ``#`` itself is tried as a whole first, then the longest part of it
    that is there.
    """
    if os.path.lexists(model):
        return model, None
    for at in range(len(model) - 1, 0, -1):
        path = model[:at]
        if model[at] == MARK and (os.path.lexists(path) or "://" in path):
            return path, model[at + 1 :]
    return model, None


def choose(model: Model, name: str | None = None) -> Vocabulary:
    """The vocabulary that :func:`extract` takes from what was found."""
    if name is not None:
        names = [found.name for found in model.vocabularies]
        if name in names:
            return model.vocabularies[names.index(name)]
        from difflib import get_close_matches

        close = [known for known in names if name.casefold() in known.casefold()]
        close = close or get_close_matches(name, names, MAX_NAMED)
        meant = f"; did you mean {' or '.join(close[:MAX_NAMED])}?" if close else "."
        listed = "".join(f"\n  {known}" for known in names) or " nothing"
        raise NoVocabulary(f"{model.path}: no vocabulary named {name!r}{meant} It holds:{listed}")
    texts = [v for v in model.vocabularies if v.entry_type == "text" and len(v)]
    texts = [v for v in texts if v.kind != "stop words"]
    if texts:
        # The model has them in this order, but a constant comes before other lists.
        return next((v for v in texts if v.linked or v.kind == "constant"), texts[0])
    count = len(model.passed_over)
    lines = [f"{model.path}: no vocabulary found ({model.format}; {count} lists passed over)."]
    lines += (f"Not read: {warning}" for warning in model.warnings)
    if model.vocabularies:
        others = ", ".join(found.name for found in model.vocabularies)
        lines.append(f"It holds integers or stop words only; take them with --name: {others}")
    if count:
        lines.append("`vocabtool inspect --all` shows what was passed over and why.")
    raise NoVocabulary("\n".join(lines))
