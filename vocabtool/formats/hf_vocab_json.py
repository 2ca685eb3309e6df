"""``vocab.json``: an object of entries and their ids, with ``merges.txt`` beside it for BPE.

Layout: ``save_vocabulary`` of the tokenizers in huggingface/transformers, and ``BPE::read_file``
in huggingface/tokenizers, tokenizers/src/models/bpe/model.rs: a line of ``merges.txt`` is two
pieces with a blank between; one that begins with ``#version`` is none. Merges are only counted.
``added_tokens.json`` is such an object too: the tokens that were added to the vocabulary beside it,
which is read apart from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat, refuse_pointer
from vocabtool.formats import json_values, text_file
from vocabtool.formats.markers import guess_marker
from vocabtool.formats.reader import JsonReader, ReadResult, Source
from vocabtool.vocabulary import Place, Vocabulary, in_id_order

MERGES: Final = "merges.txt"
ADDED: Final = "added_tokens.json"
MAX_MERGES_FILE: Final = 1 << 28
VERSION: Final = b"#version"
BLANK: Final = b" "
MOST_SETTINGS: Final = 100
JOINED: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]*)+")
OF_SPECIAL: Final = "_token_id"
DENSE: Final = 2  # ids that are spread wider than this many times their number may be counts


class Merges(NamedTuple):
    """What ``merges.txt`` says: how many merges, or why that is not known."""

    number: int = 0
    warning: str | None = None


def recognise(document: object) -> str | None:
    """Whether every key has an id of its own."""
    if not isinstance(document, dict):
        return f"{json_values.kind(document)}, wanted an object of entries and their ids"
    if not document:
        return "an object without any key"
    try:
        ids = json_values.ids(document, "the id")
    except InvalidFile as error:
        return error.what
    ascending = np.sort(ids)
    same = ascending[1:][ascending[1:] == ascending[:-1]]
    if len(same):
        return f"two keys have the value {same[0]:,}: these are no ids"
    if _are_settings(document, ascending):
        return "its keys are names of settings, and their values no ids"
    return None


def _are_settings(document: Mapping[str, object], values: NDArray[np.int64]) -> bool:
    """Whether an object rather holds settings: ``{"model_max_length": 512}``.

    ``values``: ascending. The one word of a vocabulary has the id 0, and a token that was added to
    another is no plain name. Several settings are few, have values far apart, and names of several
    words, half of them at least; or they are the ids of special tokens: ``"bos_token_id": 1``.
    """
    if len(document) == 1:
        return bool(values[0]) and all(map(str.isidentifier, document))
    if all(key.endswith(OF_SPECIAL) for key in document):
        return True
    joined = sum(JOINED.fullmatch(key) is not None for key in document)
    apart = values[-1] - values[0] >= len(values)
    return bool(apart and len(values) < MOST_SETTINGS and 2 * joined >= len(values))


def read(document: Any, source: Source) -> ReadResult:
    """Read an object of ids. Raises :class:`InvalidFile` for half a surrogate pair in a key."""
    ids = json_values.ids(document, "the id")
    stored, first_id, uneven = in_id_order(json_values.strings(document, "key"), ids)
    merges = None if source.file.name == ADDED else _merges(source.file.with_name(MERGES))
    vocabulary = Vocabulary(
        source.name,
        "bpe" if merges else "table",
        stored,
        first_id,
        uneven,
        places=(Place(source.name, "whole object"),),
        notes=tuple(_notes(merges, ids, source.file)),
        marker=guess_marker(stored),
    )
    return ReadResult((vocabulary,), (merges.warning,) if merges and merges.warning else ())


READER: Final = JsonReader("JSON object of ids (Hugging Face vocab.json)", recognise, read)


def _notes(merges: Merges | None, ids: NDArray[np.int64], file: Path) -> Iterator[str]:
    if file.name == ADDED:
        yield "tokens that were added to another vocabulary: that of the files beside it"
        return
    if merges and not merges.warning:
        yield f"BPE with {merges.number:,} merges in {MERGES}"
    if file.with_name(ADDED).is_file():
        yield f"more tokens stand in {ADDED}"
    if int(ids.max()) + 1 > DENSE * len(ids):
        yield f"{len(ids):,} ids up to {ids.max():,}: these may be counts of words"


def _merges(file: Path) -> Merges | None:
    """What stands in the file of merges, ``None`` where there is none."""
    if not file.is_file():
        return None
    try:
        return Merges(_count(_content(file)))
    except (InvalidFile, UnsupportedFormat) as error:
        return Merges(warning=f"{MERGES}: {error}")
    except OSError as error:
        return Merges(warning=f"{MERGES}: {error.strerror}")


def _content(file: Path) -> bytes:
    with file.open("rb") as opened:
        data = opened.read(MAX_MERGES_FILE + 1)
    if len(data) > MAX_MERGES_FILE:
        raise UnsupportedFormat(f"larger than {MAX_MERGES_FILE:,} bytes")
    refuse_pointer(data)
    return data


def _count(data: bytes) -> int:
    """How many lines are merges. Raises :class:`InvalidFile` for one that is none."""
    count = 0
    for number, line in enumerate(text_file.read_lines(data), 1):
        if line.startswith(VERSION):
            continue
        if line.count(BLANK) != 1:
            raise InvalidFile(f"line {number:,} is no merge, wanted two pieces, a blank between")
        count += 1
    return count
