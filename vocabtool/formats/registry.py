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
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from vocabtool.errors import (
    NotFound,
    UnknownFormat,
    UnsupportedFormat,
    VocabtoolError,
    reading,
    refuse_pointer,
)
from vocabtool.formats import json_file
from vocabtool.formats.model import Finding, PassedOver
from vocabtool.formats.reader import Findings, JsonReader, Reader, ReadResult, Source
from vocabtool.formats.saved_model import graph_files
from vocabtool.formats.saved_model.model import GRAPH_FILE, GRAPH_FOLDER, OTHER_GRAPH
from vocabtool.vocabulary import Place, Vocabulary, printable

MAX_FILES: Final = 10_000  # of a folder
WORD_LISTS: Final = re.compile(r"(vocab|words|tokens|dict).*\.txt|.*\.vocab", re.IGNORECASE)
WEIGHTS: Final = re.compile(
    r".*\.(safetensors|h5|hdf5|msgpack|pt|pth|ckpt|npz|npy)|(pytorch|tf|flax)_model.*",
    re.IGNORECASE,
)
CACHED: Final = re.compile(r"\.\./\.\./blobs/[0-9A-Za-z]+")  # a link in a Hugging Face cache


def readers() -> Iterator[Reader]:
    """Every reader of a file, imported when it is reached: a graph needs none of the others."""
    yield GRAPH_FILE
    yield from other_readers()
    yield OTHER_GRAPH


def other_readers() -> tuple[Reader, ...]:
    """Those of files that are no graphs."""
    from vocabtool.formats import (
        binary_vectors,
        fasttext_bin,
        gguf,
        keras_archive,
        numpy_vectors,
        onnx,
        pickles,
        rwkv,
        sentencepiece,
        text_vectors,
        tflite,
        tiktoken,
        vocabulary_files,
        word_list,
    )

    return (
        gguf.READER,
        keras_archive.READER,
        numpy_vectors.READER,
        pickles.READER,
        tflite.READER,
        fasttext_bin.READER,
        sentencepiece.READER,
        onnx.READER,
        binary_vectors.READER,
        vocabulary_files.READER,
        JSON,
        rwkv.READER,
        text_vectors.READER,
        tiktoken.READER,
        word_list.READER,
    )


def json_readers() -> tuple[JsonReader, ...]:
    """Those of JSON, which is parsed once."""
    from vocabtool.formats import hf_tokenizer, keras_tokenizer, tfjs, tiktoken, vocab_json

    return (
        hf_tokenizer.READER,
        tfjs.READER,
        keras_tokenizer.READER,
        tiktoken.TEKKEN,
        tiktoken.JSON,
        vocab_json.IDS,
        vocab_json.PIECES,
        vocab_json.TEXTS,
    )


def _read_json(source: Source) -> ReadResult:
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


def read(model: str | Path) -> tuple[Path, ReadResult]:
    """Everything in a folder, a file or a TensorFlow Hub handle, and where that lies.

    Raises :class:`NotFound`, :class:`UnknownFormat`, :class:`UnsupportedFormat` or
    :class:`InvalidFile`.
    """
    with reading(str(model)):
        path = graph_files.path_of(model)
        source = _source(path)
        if GRAPH_FOLDER.recognise(source) is None:
            return path, GRAPH_FOLDER.read(source)
        return path, _read_folder(path) if path.is_dir() else _read_file(source)


def has_graphs(model: str | Path) -> bool:
    """Whether a model consists of graphs; raises as :func:`read` does."""
    with reading(str(model)):
        source = _source(graph_files.path_of(model))
        if source.file.is_dir():
            return GRAPH_FOLDER.recognise(source) is None
        return find(source) in (GRAPH_FILE, OTHER_GRAPH)


def _source(path: Path) -> Source:
    if not path.is_file() and not path.is_dir():
        raise NotFound(f"{path}: wanted a model's folder or file, found neither")
    return Source.open(path)


def _read_file(source: Source) -> ReadResult:
    reader = find(source)
    try:
        result = reader.read(source)
    except UnknownFormat as error:
        if reader is GRAPH_FILE:
            raise
        told = ((other.format, other.recognise(source)) for other in other_readers())
        reasons = (f"{format_}: {reason}" for format_, reason in told if reason is not None)
        raise UnknownFormat(error.what, (*error.tried, *reasons)) from error
    return replace(result, format=result.format or reader.format)


def _read_folder(folder: Path) -> ReadResult:
    """What all files of a folder hold, or the ``vocab`` folder of a spaCy pipeline."""
    from vocabtool.formats import spacy_vocab

    spacy = spacy_vocab.folder_in(folder)
    if spacy is not None:
        return spacy_vocab.read(folder, spacy)
    findings, formats = Findings(), []
    for path in _files(folder):
        name = printable(os.fsencode(path.name))
        try:
            with reading(name):
                result = _read_part(path)
        except UnknownFormat as error:  # JSON of some other kind: settings, an index of weights
            findings.add(PassedOver(name, 0, Place(name, "whole file"), error.what))
        except VocabtoolError as error:
            findings.warnings.append(str(error))
        else:
            if result is not None:
                formats.append(result.format or "")
                findings.found += result.findings
                findings.warnings += (f"{name}: {warning}" for warning in result.warnings)
    if not formats:
        others = [each for each in findings.found if isinstance(each, PassedOver)]
        passed_over = (f"{each.name}: {each.why}" for each in others)
        raise graph_files.no_model_in(folder, (*findings.warnings, *passed_over))
    kinds = ", ".join(dict.fromkeys(formats))
    found = _named_by_file(findings.found)
    return ReadResult(found, tuple(findings.warnings), f"folder: {kinds}")


def _files(folder: Path) -> Iterator[Path]:
    """The files to look at, by name. Raises :class:`UnsupportedFormat` for too many."""
    paths = sorted(folder.iterdir())
    if len(paths) > MAX_FILES:
        raise UnsupportedFormat(f"a folder of more than {MAX_FILES:,} files: pass one of them")
    for path in paths:
        if not path.name.startswith(".") and not WEIGHTS.fullmatch(path.name) and path.is_file():
            yield path


def _read_part(path: Path) -> ReadResult | None:
    """What a file of a folder holds; ``None`` for a text that is no list of words.

    Raises :class:`UnknownFormat` for what is to be passed over.
    """
    from vocabtool.formats import pickles, word_list

    if path.is_symlink() and not _is_cached(path):
        raise UnknownFormat("a symbolic link: it is not followed")
    source = Source.open(path)
    refuse_pointer(source.head)
    reader = next((each for each in other_readers() if each.recognise(source) is None), None)
    if reader is None or (reader is word_list.READER and not _is_word_list(path)):
        return None
    if reader is pickles.READER:
        raise UnknownFormat(pickles.refusal(source))
    result = reader.read(source)
    return replace(result, format=result.format or reader.format)


def _is_word_list(path: Path) -> bool:
    """Whether a file is called like a list of words.

    SentencePiece writes its pieces twice: in a ``.model``, and with scores in a ``.vocab``.
    """
    scored = path.suffix == ".vocab" and path.with_suffix(".model").is_file()
    return not scored and WORD_LISTS.fullmatch(path.name) is not None


def _is_cached(link: Path) -> bool:
    """Whether a link is one of a Hugging Face cache, and leads to a regular file there."""
    target = os.fspath(link.readlink())
    if CACHED.fullmatch(target) is None:
        return False
    blob = link.parent / target
    return blob.is_file() and not blob.is_symlink()


def _named_by_file(findings: list[Finding]) -> tuple[Finding, ...]:
    """Put its file before a name that vocabularies of several files have."""
    vocabularies = [found for found in findings if isinstance(found, Vocabulary)]
    files = {(vocabulary.name, vocabulary.places[0].file) for vocabulary in vocabularies}
    counts = Counter(name for name, _ in files)
    return tuple(
        replace(found, name=f"{found.places[0].file}/{found.name}")
        if isinstance(found, Vocabulary) and counts[found.name] > 1
        else found
        for found in findings
    )
