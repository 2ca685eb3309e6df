"""What the tests of every reader share: files of other formats, and what must hold of damaged
ones."""

from __future__ import annotations

import json
import pickle
import struct
from pathlib import Path
from typing import Final

import vocabtool
from tests.fuzzing import damages
from vocabtool import UnknownFormat, VocabtoolError, Vocabulary

FILES: Final[dict[str, bytes]] = {
    "gguf": b"GGUF" + struct.pack("<IQQ", 3, 0, 0),
    "pickle_2": pickle.dumps({"the": 0}, 2),
    "safetensors": struct.pack("<Q", 17) + b'{"__metadata__":{}'[:17] + bytes(9),
    "png": b"\x89PNG\r\n\x1a\n" + bytes(99),
}


def written(folder: Path, data: object, name: str = "file") -> Path:
    """A file that holds some bytes, a text, or any other object as JSON."""
    path = folder / name
    if not isinstance(data, bytes):
        data = (data if isinstance(data, str) else json.dumps(data)).encode()
    path.write_bytes(data)
    return path


def only(folder: Path, data: object, name: str = "file") -> Vocabulary:
    """The one vocabulary of such a file, of which everything is understood."""
    model = vocabtool.inspect(written(folder, data, name))
    (vocabulary,) = model.vocabularies
    assert (model.passed_over, model.warnings) == ((), ())
    return vocabulary


def ids_and_entries(vocabulary: Vocabulary) -> list[tuple[int, bytes]]:
    """Ids and entries, in the order of the vocabulary."""
    return list(zip(vocabulary.id_array().tolist(), vocabulary.stored, strict=True))


def format_of(path: Path) -> str | None:
    """What a file is read as; ``None`` where it is refused."""
    try:
        return vocabtool.inspect(path).format
    except VocabtoolError:
        return None


def reason(path: Path, format_: str) -> str:
    """Why a file that nobody reads is not of a format."""
    try:
        vocabtool.inspect(path)
    except UnknownFormat as error:
        reasons = dict(line.split(": ", 1) for line in error.tried)
        return reasons[format_]
    raise AssertionError("the file is read")


def survives(data: bytes, folder: Path, *, every: int, flips: int, name: str = "damaged") -> int:
    """Damage a file again and again: a result or our own error; how often there was a result."""
    fine = 0
    for damaged in damages(data, every, flips, name):
        try:
            for vocabulary in vocabtool.vocabularies(written(folder, damaged, name)):
                vocabulary.id_array()
                assert vocabulary.fingerprint
        except VocabtoolError:
            continue
        fine += 1
    return fine
