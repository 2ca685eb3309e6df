"""Every format that is one file, in the order in which a file is shown to their readers.

What a few first bytes tell comes first, then JSON, then text; plain words, which nearly any text
could be, come last. Importing this imports them all: do it only for a file that needs one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from vocabtool.formats import (
    binary_vectors,
    exports,
    fasttext_bin,
    gguf,
    json_text,
    keras_archive,
    numpy_vectors,
    onnx,
    pickles,
    rwkv_vocab,
    sentencepiece_file,
    text_vectors,
    tflite,
    tiktoken_ranks,
    word_list,
)
from vocabtool.formats.reader import HEAD, Reader, Source
from vocabtool.vocabulary import printable

WORD_LIST: Final = word_list.READER
NEVER_READ: Final = pickles.READER
READERS: Final[tuple[Reader, ...]] = (
    gguf.READER,
    keras_archive.READER,
    numpy_vectors.READER,
    NEVER_READ,
    tflite.READER,
    fasttext_bin.READER,
    sentencepiece_file.READER,
    onnx.READER,
    binary_vectors.READER,
    exports.READER,
    json_text.READER,
    rwkv_vocab.READER,
    text_vectors.READER,
    tiktoken_ranks.READER,
    WORD_LIST,
)


def source_of(file: Path) -> Source:
    """A file as readers get it, called by its bare name."""
    with file.open("rb") as opened:
        head = opened.read(HEAD)
    name = printable(os.fsencode(file.name))
    return Source(file, name, head, file.stat().st_size)


def find(source: Source) -> Reader | None:
    """The first reader that recognises a file."""
    return next((reader for reader in READERS if reader.recognise(source) is None), None)


def reasons(source: Source) -> tuple[str, ...]:
    """Why each reader that does not recognise a file says no."""
    told = ((reader.format, reader.recognise(source)) for reader in READERS)
    return tuple(f"{format_}: {reason}" for format_, reason in told if reason is not None)
