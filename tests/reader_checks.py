"""What the tests of every reader share: a file as its reader gets it, files of other formats, and
what must hold of damaged ones."""

from __future__ import annotations

import json
import pickle
import struct
from pathlib import Path
from typing import Final, NamedTuple

from tests.fuzzing import damages
from vocabtool.errors import VocabtoolError
from vocabtool.formats.model import PassedOver
from vocabtool.formats.reader import Reader, ReadResult, Source
from vocabtool.formats.wire import varint_of
from vocabtool.vocabulary import Vocabulary


class Found(NamedTuple):
    """What a reader found, vocabularies and others apart."""

    vocabularies: tuple[Vocabulary, ...]
    passed_over: tuple[PassedOver, ...] = ()
    warnings: tuple[str, ...] = ()
    format: str | None = None

    @classmethod
    def of(cls, result: ReadResult) -> Found:
        vocabularies = tuple(each for each in result.findings if isinstance(each, Vocabulary))
        passed_over = tuple(each for each in result.findings if isinstance(each, PassedOver))
        return cls(vocabularies, passed_over, result.warnings, result.format)


def source_of(path: Path) -> Source:
    """A file as readers get it."""
    return Source.open(path)


def found_in(reader: Reader, path: Path) -> Found:
    """What a reader finds in a file that it must recognise."""
    source = source_of(path)
    assert reader.recognise(source) is None
    return Found.of(reader.read(source))


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited field of a protobuf."""
    return varint_of(number << 3 | 2) + varint_of(len(payload)) + payload


_PIECE = field(1, "▁the".encode()) + b"\x15" + struct.pack("<f", -1.5)
_NODE = field(1, b"words") + field(2, b"Const")
FILES: Final[dict[str, bytes]] = {
    "empty": b"",
    "zeros": bytes(1000),
    "ff": b"\xff" * 1000,
    "gguf": b"GGUF" + struct.pack("<IQQ", 3, 0, 0),
    "saved_model": b"\x08\x01" + field(2, field(2, field(1, _NODE))),
    "graph_def": field(1, _NODE) + field(4, b"\x08\x16"),
    "sentencepiece": field(1, _PIECE) * 9,
    "onnx": b"\x08\x08" + field(7, field(1, field(4, b"Add")) + field(2, b"graph")),
    "tflite": struct.pack("<I", 16) + b"TFL3" + bytes(24),
    "tiktoken": b"IQ== 0\nIg== 1\nIyM= 2\n",
    "json": json.dumps({"model": {"vocab": {"the": 0}}}, indent=1).encode(),
    "json_list": b'["the", "of"]',
    "vectors": b"the 0.25 -0.5 1.0 0.125\nof 0.25 -0.5 1.0 0.125\n",
    "sentences": b"the quick brown fox jumps\nover the lazy dog today\n",
    "pickle_0": pickle.dumps({"the": 0}, 0),
    "pickle_1": pickle.dumps({"the": 0}, 1),
    "pickle_2": pickle.dumps({"the": 0}, 2),
    "pickle_5": pickle.dumps({"the": 0}, 5),
    "zip": b"PK\x03\x04" + bytes(22) + struct.pack("<HH", 8, 0) + b"the.jpeg" + bytes(50),
    "hdf5": b"\x89HDF\r\n\x1a\n" + bytes(99),
    "safetensors": struct.pack("<Q", 17) + b'{"__metadata__":{}'[:17] + bytes(9),
    "png": b"\x89PNG\r\n\x1a\n" + bytes(99),
    "word_list": b"the\nof\nand\n",
    "vocab.txt": b"[PAD]\n[UNK]\nthe\n##s\n",
}
REFUSED: Final = frozenset(("pickle_0", "pickle_1", "pickle_2", "pickle_5", "hdf5", "safetensors"))


def recognised(reader: Reader, folder: Path) -> set[str]:
    """Which of ``FILES`` a reader takes for its own; of each other it must say why not."""
    taken = set()
    for name, data in FILES.items():
        file = folder / "file"
        file.write_bytes(data)
        why_not = reader.recognise(source_of(file))
        if why_not is None:
            taken.add(name)
        else:
            assert why_not
    return taken


def survives(reader: Reader, data: bytes, folder: Path, *, every: int, flips: int) -> int:
    """Damage a file again and again: a result or our own error; how often there was a result."""
    file = folder / "damaged"
    fine = 0
    for damaged in damages(data, every, flips, reader.format):
        file.write_bytes(damaged)
        source = source_of(file)
        reader.recognise(source)
        try:
            for vocabulary in Found.of(reader.read(source)).vocabularies:
                vocabulary.id_array()
                assert vocabulary.fingerprint
        except VocabtoolError:
            continue
        fine += 1
    return fine
