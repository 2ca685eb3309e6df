"""TFLite models: string tensors with a value, tokenizers, the word files packed behind the model.

Tables' words get their ids, other strings are constants of which nothing says what they are for.
Where tensors lie is in ``tflite_schema.py``, tokenizers are in ``tflite_tokenizers.py``, the files
in ``tflite_files.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vocabtool.errors import InvalidFile
from vocabtool.formats.mapped import mapped
from vocabtool.formats.model import MIN_ENTRIES, TOO_FEW, PassedOver
from vocabtool.formats.reader import Reader, ReadResult, Source
from vocabtool.formats.tflite_files import packed_files
from vocabtool.formats.tflite_schema import STRING, Model
from vocabtool.formats.tflite_tables import Filled, filled_tables
from vocabtool.formats.tflite_tokenizers import tokenizers
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Unknown, Vocabulary, in_id_order

IDENTIFIER: Final = b"TFL3"


def recognise(source: Source) -> str | None:
    """``None`` for a flatbuffer with TFLite's identifier, else why not."""
    return None if source.head[4:8] == IDENTIFIER else "no 'TFL3' at byte 4"


def read(source: Source) -> ReadResult:
    """The tables, tokenizers and other strings of a model, and the files of words behind it."""
    model = Model(mapped(source.file))
    warnings: list[str] = []
    read: set[int] = set()  # buffers
    findings: list[Vocabulary | PassedOver] = []
    for table in filled_tables(model):
        place = Place(source.name, f"table filled from tensor {table.keys.name}")
        try:
            findings += _table(model, table, place, read)
        except InvalidFile as error:
            warnings.append(f"{place.place}: {error}: its words are not read")
    findings += tokenizers(model, source.name, warnings)
    findings += _constants(model, source.name, read, warnings)
    findings += packed_files(source, warnings)
    return ReadResult(tuple(findings), tuple(warnings))


def _table(
    model: Model, table: Filled, place: Place, read: set[int]
) -> Iterator[Vocabulary | PassedOver]:
    """The words of one table, whether they are its keys or its values; marks them as ``read``."""
    words, numbers, default = table.keys, table.values, table.default
    inverse = words.type != STRING
    if inverse:
        words, numbers, default = table.values, table.keys, None
    ids = model.integers(numbers)
    if words.type != STRING or ids is None:
        return
    entries = model.strings(words)
    if len(entries) != len(ids):
        raise InvalidFile(f"{len(entries):,} words, but {len(ids):,} ids")
    read.add(words.buffer)
    stored, first_id, in_order = in_id_order(entries, ids)
    yield Vocabulary(
        name=words.name,
        kind="table",
        stored=stored,
        first_id=first_id,
        ids=in_order,
        unknown=None if default is None else Unknown(default),
        places=(place,),
        notes=("gives the entry of an id",) if inverse else (),
    )


def _constants(
    model: Model, file: str, read: set[int], warnings: list[str]
) -> Iterator[Vocabulary | PassedOver]:
    for number, graph in enumerate(model.graphs()):
        for tensor in graph.string_tensors():
            if tensor.buffer in read:
                continue
            read.add(tensor.buffer)
            place = Place(file, f"graph {number}, tensor {tensor.name}")
            try:
                entries = model.strings(tensor)
            except InvalidFile as error:
                warnings.append(f"{place.place}: {error}")
                continue
            if len(entries):
                yield _list_of_strings(entries, tensor.name, place)


def _list_of_strings(entries: ByteStrings, name: str, place: Place) -> Vocabulary | PassedOver:
    if len(entries) < MIN_ENTRIES:
        return PassedOver(name, len(entries), place, TOO_FEW)
    note = "nothing says what these strings are for"
    return Vocabulary(name, "constant", entries, places=(place,), notes=(note,))


READER: Final = Reader("TFLite", recognise, read)
