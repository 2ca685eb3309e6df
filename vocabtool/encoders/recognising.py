"""Which kind of encoder lies at a path, told by what is there."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from vocabtool.encoders.encoder import FORMS, EncoderKind
from vocabtool.encoders.sentence_transformers_files import MARKS, is_model
from vocabtool.errors import UnknownFormat, reading
from vocabtool.formats import (
    binary_vectors,
    fasttext_bin,
    numpy_array,
    numpy_vectors,
    registry,
    text_vectors,
)
from vocabtool.formats.reader import Source
from vocabtool.formats.saved_model import graph_files
from vocabtool.formats.saved_model.model import GRAPH_FILE, OTHER_GRAPH

WORD_VECTORS: Final = (
    numpy_vectors.READER,
    text_vectors.READER,
    binary_vectors.READER,
    fasttext_bin.READER,
)


def kind_of(path: Path) -> EncoderKind:
    """Of a folder or file that is there.

    Raises :class:`UnknownFormat`, with what was tried, :class:`InvalidFile` for what is damaged.
    """
    return _of_folder(path) if path.is_dir() else _of_file(path)


def _of_folder(folder: Path) -> EncoderKind:
    if graph_files.graphs_file_in(folder) is not None:
        return "tensorflow"
    if is_model(folder):
        return "sentence-transformers"
    raise UnknownFormat(
        f"{folder}: not the folder of a model that makes vectors. {FORMS[0].upper()}{FORMS[1:]}",
        (
            f"tensorflow: none of {', '.join(graph_files.SAVED_MODELS)} in it",
            f"sentence-transformers: neither {' nor '.join(MARKS)} in it",
        ),
    )


def _of_file(file: Path) -> EncoderKind:
    with reading(str(file)):
        source = Source.open(file)
        if source.head.startswith(numpy_array.MAGIC):
            return "static"  # where its words are not there, that is said on opening
        reader = registry.find(source)
        if reader in WORD_VECTORS:
            return "static"
        if reader is GRAPH_FILE:
            return "tensorflow"
    tried = tuple(f"{each.format}: {each.recognise(source)}" for each in WORD_VECTORS)
    if reader is not OTHER_GRAPH:
        told = f"it is read as {reader.format}, which makes no vectors"
        raise UnknownFormat(f"{file}: not a file of word vectors, and no graph; {told}", tried)
    try:
        graph_files.read_graphs(file, file)
    except UnknownFormat as error:
        raise UnknownFormat(error.what, (*error.tried, *tried)) from error
    return "tensorflow"
