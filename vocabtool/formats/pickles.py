"""Refuse pickles and files without words. The message says how to export the words.

A pickle is a program that runs when it is loaded. So pickles are never loaded, not even pickles
inside files of PyTorch, joblib and NumPy. Layouts: CPython, Lib/pickletools.py; PyTorch,
torch/serialization.py; huggingface/safetensors, README; NumPy, numpy/lib/format.py.
"""

from __future__ import annotations

import bz2
import io
import lzma
import pickletools
import re
import zlib
from contextlib import suppress
from itertools import islice
from typing import Final, NoReturn

from vocabtool.errors import UnsupportedFormat
from vocabtool.formats.reader import Reader, Source

PROGRAM: Final = "which is a program: it is not run"
SAVE_TEXT: Final = 'write the words in a file with one on each line: `"\\n".join(words)`'
LOAD: Final = "Load it where you trust it and"

# Descriptions of files, with the next step.
PICKLE: Final = f"a pickle, {PROGRAM}. {LOAD} {SAVE_TEXT}."
TORCH: Final = (
    f"a PyTorch file with a pickle in it, {PROGRAM}. The words of such a model are in the "
    "tokenizer's files beside it (tokenizer.json, vocab.txt, tokenizer.model): pass those, or the "
    "folder."
)
PICKLES: Final = {  # by a module name in the pickle
    b"gensim": f"a model saved by gensim, a pickle, {PROGRAM}. {LOAD} save its words with "
    "`model.wv.save_word2vec_format(FILE)` (`KeyedVectors.save_word2vec_format`), then pass that "
    "file.",
    b"sklearn": f"a pickle of scikit-learn, {PROGRAM}. {LOAD} write "
    "`vectorizer.get_feature_names_out()` in a file, one word on each line.",
    b"torch": TORCH,
}
JOBLIB: Final = f"a compressed joblib file with a pickle in it, {PROGRAM}. {LOAD} {SAVE_TEXT}."
SAFETENSORS: Final = (
    "a safetensors file, which contains numbers but no words. Pass the tokenizer's file beside it "
    "(tokenizer.json, vocab.txt, tokenizer.model), or the folder."
)
NUMPY_ARCHIVE: Final = (
    "an archive of NumPy arrays (.npz) other than `words` and `vectors`, which is not read. If it "
    "contains words and their vectors, save it with "
    "`numpy.savez(FILE, words=words, vectors=vectors)`."
)
BEGINNINGS: Final = (  # the first match counts
    (
        re.compile(rb"\x89HDF\r\n\x1a\n"),
        "an HDF5 file, which is not read. Load the Keras model and export it as a SavedModel with "
        '`model.export(FOLDER)`, or save it with `model.save("model.keras")`, and pass that.',
    ),
    (
        re.compile(rb"\x93NUMPY.{0,4000}\|O'", re.DOTALL),
        f"a NumPy array of objects, a pickle, {PROGRAM}. {LOAD} {SAVE_TEXT}.",
    ),
    (
        re.compile(rb"\x93NUMPY"),
        f"a NumPy array, which is not read by itself. If it contains words, load it and "
        f"{SAVE_TEXT}; if it contains vectors, put their words in a file of the same name that "
        "ends in .txt.",
    ),
    (re.compile(rb"(?s:PK\x03\x04.*)?PK\x03\x04(?s:.{26})[\w./-]{0,200}?data\.pkl"), TORCH),
    (re.compile(rb"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19\."), TORCH),  # legacy magic
)
MAX_SAFETENSORS_HEADER: Final = 100_000_000  # bytes, by its specification

MODERN: Final = re.compile(rb"\x80[\x02-\x05]")  # beginning of a pickle of protocols 2 to 5
MAX_OPCODES: Final = 64  # of a pickle that are examined

UNPACKED: Final = 64  # bytes to decompress
MAX_MEMORY: Final = 1 << 26  # for LZMA, where the file sets the need


def refusal(source: Source) -> str:
    """Return a message that says what a refused file is and how to export its words.

    Returns ``""`` if the file is not refused.
    """
    head = source.head
    for beginning, refused in BEGINNINGS:
        if beginning.match(head):
            return refused
    if head.startswith(b"PK\x03\x04"):
        name = head[30 : 30 + int.from_bytes(head[26:28], "little")]
        return NUMPY_ARCHIVE if name.endswith(b".npy") else ""
    length = int.from_bytes(head[:8], "little")
    if 2 <= length <= min(source.size - 8, MAX_SAFETENSORS_HEADER) and head[8:10] in (b'{"', b"{}"):
        return SAFETENSORS
    if _is_pickle(head, whole=source.size <= len(head)):
        return next((refused for name, refused in PICKLES.items() if name in head), PICKLE)
    unpacked = b""  # the beginning of a compressed joblib file
    with suppress(zlib.error, OSError, lzma.LZMAError, ValueError, EOFError):
        if head.startswith((b"\x78", b"\x1f\x8b")):
            unpacked = zlib.decompressobj(wbits=47).decompress(head, UNPACKED)  # 47: zlib or gzip
        elif head.startswith(b"BZh"):
            unpacked = bz2.BZ2Decompressor().decompress(head, UNPACKED)
        elif head.startswith((b"\xfd7zXZ\x00", b"\x5d\x00\x00")):
            unpacked = lzma.LZMADecompressor(memlimit=MAX_MEMORY).decompress(head, UNPACKED)
    return JOBLIB if MODERN.match(unpacked) and len(unpacked) > 2 else ""


def _is_pickle(head: bytes, *, whole: bool) -> bool:
    # Opcodes are parsed, never executed. Protocols 0 and 1 have no magic bytes, and lines of words
    # may be valid opcodes. But a pickle begins with a container, or a class and its arguments, and
    # stores its first object in the memo as number 0 (1 in Python 2). No word list looks like that.
    file = io.BytesIO(head)
    names: list[str] = []
    stores_first = False
    try:
        for opcode, argument, _ in islice(pickletools.genops(file), MAX_OPCODES):
            stores = opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and argument in (0, 1)
            stores_first |= stores and 1 <= len(names) < 5
            names.append(opcode.name)
        sound = len(names) == MAX_OPCODES or file.tell() == len(head)
    except Exception:  # noqa: BLE001 - what it raises on other bytes is not documented
        sound = not whole and file.tell() == len(head)  # an opcode truncated by the head
    if MODERN.match(head):
        return len(names) >= 3
    is_class = names[:1] == ["GLOBAL"] and len(names) > 2 and names[2] in ("MARK", "EMPTY_TUPLE")
    return sound and stores_first and (is_class or names[0] in ("MARK", "EMPTY_LIST", "EMPTY_DICT"))


def _recognise(source: Source) -> str | None:
    others = "no pickle, and not a file of PyTorch, joblib, safetensors, HDF5 or NumPy"
    return None if refusal(source) else others


def _read(source: Source) -> NoReturn:
    raise UnsupportedFormat(refusal(source) or PICKLE)


READER: Final = Reader("pickle or array file", _recognise, _read)
