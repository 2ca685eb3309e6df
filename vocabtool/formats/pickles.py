"""Files that hold no words, or hold them in a way that is not read: recognised and refused.

A pickle is a program that runs when it is loaded, so none is: neither a bare one, nor those inside
PyTorch's, joblib's and NumPy's files. Each refusal says how to write the words in another format.
Layouts: CPython, Lib/pickletools.py; PyTorch, torch/serialization.py; huggingface/safetensors,
README; NumPy, numpy/lib/format.py.
"""

from __future__ import annotations

import bz2
import io
import lzma
import pickletools
import re
import zlib
from collections.abc import Callable
from itertools import islice
from typing import Final, NamedTuple, NoReturn

from vocabtool.errors import UnsupportedFormat
from vocabtool.formats.reader import Reader, Source

PROGRAM: Final = "which is a program: it is not run"
SAVE_TEXT: Final = 'write the words in a file with one on each line: `"\\n".join(words)`'


class _Refused(NamedTuple):
    """What a file is, and what to do instead."""

    what: str
    instead: str


PICKLE: Final = _Refused(f"a pickle, {PROGRAM}", f"Load it where you trust it and {SAVE_TEXT}.")
GENSIM: Final = _Refused(
    f"a model saved by gensim, a pickle, {PROGRAM}",
    "Load it where you trust it and save its words with `model.wv.save_word2vec_format(FILE)` "
    "(`KeyedVectors.save_word2vec_format`), then pass that file.",
)
SKLEARN: Final = _Refused(
    f"a pickle of scikit-learn, {PROGRAM}",
    "Load it where you trust it and write `vectorizer.get_feature_names_out()` in a file, one "
    "word on each line.",
)
TORCH: Final = _Refused(
    f"a file of PyTorch with a pickle in it, {PROGRAM}",
    "The words of such a model lie in the tokenizer's files beside it (tokenizer.json, vocab.txt, "
    "tokenizer.model): pass those, or the folder.",
)
JOBLIB: Final = _Refused(
    f"a compressed file of joblib with a pickle in it, {PROGRAM}",
    f"Load it where you trust it and {SAVE_TEXT}.",
)
SAFETENSORS: Final = _Refused(
    "a safetensors file, which holds numbers and no words",
    "Pass the tokenizer's file beside it (tokenizer.json, vocab.txt, tokenizer.model), or the "
    "folder.",
)
HDF5: Final = _Refused(
    "an HDF5 file, which is not read",
    "Load the Keras model and export it as a SavedModel with `model.export(FOLDER)`, or save it "
    'with `model.save("model.keras")`, and pass that.',
)
NUMPY_OBJECTS: Final = _Refused(
    f"a NumPy array of objects, a pickle, {PROGRAM}",
    f"Load it where you trust it and {SAVE_TEXT}.",
)
NUMPY: Final = _Refused(
    "a NumPy array, which is not read by itself",
    f"Where it holds words, load it and {SAVE_TEXT}; where it holds vectors, put their words in a "
    "file of the same name that ends in .txt.",
)
NUMPY_ARCHIVE: Final = _Refused(
    "an archive of NumPy arrays (.npz) other than `words` and `vectors`, which is not read",
    "Where it holds words and their vectors, save it with "
    "`numpy.savez(FILE, words=words, vectors=vectors)`.",
)

HDF5_MAGIC: Final = b"\x89HDF\r\n\x1a\n"
NUMPY_MAGIC: Final = b"\x93NUMPY"
ZIP_MAGIC: Final = b"PK\x03\x04"
TORCH_MEMBER: Final = re.compile(rb"PK\x03\x04.{26}[\w./-]{0,200}?data\.pkl", re.DOTALL)
TORCH_LEGACY: Final = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # a number pickled alone
MAX_SAFETENSORS_HEADER: Final = 100_000_000  # bytes, by its specification

PROTOCOLS: Final = b"\x02\x03\x04\x05"
OPCODES: Final = 64  # of a pickle that are looked at
LEAST_OPCODES: Final = 3
ARGUMENTS: Final = (["MARK"], ["EMPTY_TUPLE"])
CONTAINERS: Final = (["MARK"], ["EMPTY_LIST"], ["EMPTY_DICT"])
PUTS: Final = frozenset(("PUT", "BINPUT", "LONG_BINPUT"))  # of protocols 0 and 1

UNPACKED: Final = 64  # bytes that a compressed head is unpacked to
MAX_MEMORY: Final = 1 << 26  # of LZMA, whose file asks for as much as it likes


def recognise(source: Source) -> str | None:
    """``None`` for a file that :func:`read` refuses, else why it is none of these."""
    if _refused(source) is not None:
        return None
    return "no pickle, and no file of PyTorch, joblib, safetensors, HDF5 or NumPy"


def read(source: Source) -> NoReturn:
    """Raise :class:`UnsupportedFormat`, saying what the file is and how to export its words."""
    raise UnsupportedFormat(refusal(source))


def refusal(source: Source) -> str:
    """What a file is that :func:`read` refuses, and how to export its words."""
    refused = _refused(source) or PICKLE
    return f"{refused.what}. {refused.instead}"


def _refused(source: Source) -> _Refused | None:
    head = source.head
    if head.startswith(HDF5_MAGIC):
        return HDF5
    if head.startswith(NUMPY_MAGIC):
        return _numpy(head)
    if head.startswith(ZIP_MAGIC):
        return _zip(head)
    if _is_safetensors(head, source.size):
        return SAFETENSORS
    if head.startswith(TORCH_LEGACY):
        return TORCH
    if _is_pickle(head, whole=source.size <= len(head)):
        return _pickle(head)
    return JOBLIB if _is_compressed_pickle(head) else None


def _numpy(head: bytes) -> _Refused:
    """The header is a Python dictionary in ASCII, with the type of the values."""
    return NUMPY_OBJECTS if b"|O'" in head[:4096] else NUMPY


def _zip(head: bytes) -> _Refused | None:
    """Told by the names of the first members."""
    if TORCH_MEMBER.search(head):
        return TORCH
    name = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    return NUMPY_ARCHIVE if name.endswith(b".npy") else None


def _is_safetensors(head: bytes, size: int) -> bool:
    length = int.from_bytes(head[:8], "little")
    within = 2 <= length <= min(size - 8, MAX_SAFETENSORS_HEADER)
    return within and head[8:10] in (b'{"', b"{}")


def _pickle(head: bytes) -> _Refused:
    """Whose pickle it is, by the names of the classes in it."""
    for name, refused in ((b"gensim", GENSIM), (b"sklearn", SKLEARN), (b"torch", TORCH)):
        if name in head:
            return refused
    return PICKLE


def _is_pickle(head: bytes, *, whole: bool) -> bool:
    """Whether opcodes of a pickle stand here; nothing is done that they say."""
    file = io.BytesIO(head)
    opcodes: list[tuple[str, object]] = []
    try:
        for opcode, argument, _ in islice(pickletools.genops(file), OPCODES):
            opcodes.append((opcode.name, argument))
        sound = len(opcodes) == OPCODES or file.tell() == len(head)
    except Exception:  # noqa: BLE001 - what it raises on other bytes is not documented
        sound = not whole and file.tell() == len(head)  # cut off with the head
    if head[:1] == b"\x80" and head[1:2] in PROTOCOLS:
        return len(opcodes) >= LEAST_OPCODES
    return sound and _begins_old_pickle(opcodes)


def _begins_old_pickle(opcodes: list[tuple[str, object]]) -> bool:
    """Whether ``Pickler`` begins so in protocols 0 and 1, which have no mark at their head.

    Any letter may be an opcode, and lines of words many of them. But what comes first is a
    container, or a class and its arguments; and the first object is stored as number 0 (1 in
    Python 2), which no list of words says there.
    """
    names = [name for name, _ in opcodes[:3]]
    is_class = names[:1] == ["GLOBAL"] and names[2:] in ARGUMENTS
    begins = is_class or names[:1] in CONTAINERS
    return begins and any(name in PUTS and put in (0, 1) for name, put in opcodes[1:5])


def _is_compressed_pickle(head: bytes) -> bool:
    for magic, unpack in _UNPACKERS:
        if head.startswith(magic):
            try:
                start = unpack(head)
            except (zlib.error, OSError, lzma.LZMAError, ValueError, EOFError):
                return False
            return start[:1] == b"\x80" and start[1:2] in PROTOCOLS and len(start) > 2
    return False


def _inflated(head: bytes) -> bytes:
    return zlib.decompressobj(wbits=47).decompress(head, UNPACKED)  # 47: zlib's header or gzip's


def _bunzipped(head: bytes) -> bytes:
    return bz2.BZ2Decompressor().decompress(head, UNPACKED)


def _unlzma(head: bytes) -> bytes:
    return lzma.LZMADecompressor(memlimit=MAX_MEMORY).decompress(head, UNPACKED)


_UNPACKERS: Final[tuple[tuple[bytes, Callable[[bytes], bytes]], ...]] = (
    (b"\x78", _inflated),
    (b"\x1f\x8b", _inflated),
    (b"BZh", _bunzipped),
    (b"\xfd7zXZ\x00", _unlzma),
    (b"\x5d\x00\x00", _unlzma),
)

READER: Final = Reader("pickle or array file", recognise, read)
