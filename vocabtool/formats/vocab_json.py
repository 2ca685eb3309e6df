"""Vocabularies that are plain JSON: an object of ids, a list of texts, a list of scored pieces.

``vocab.json``: ``save_vocabulary`` of the tokenizers in huggingface/transformers, with
``merges.txt`` beside it for BPE (``BPE::read_file`` in huggingface/tokenizers,
tokenizers/src/models/bpe/model.rs: a line is two pieces with a blank between; one that begins with
``#version`` is none). Merges are only counted. ``added_tokens.json`` is such an object too: tokens
that were added to the vocabulary beside it, which is read apart from them.

``strings.json``: ``StringStore.to_disk`` in explosion/spaCy, spacy/strings.pyx. spaCy's own ids
are hashes of the strings and are not stored: here an id is a position. A list of words that anybody
else wrote as JSON is the same to us.

Scored pieces: tensorflow/tfjs-models, universal-sentence-encoder/src/tokenizer: a list of
[piece, score], a piece's id is its position, and the first stands for what no piece covers. Some
scores are null. Scores are left out, as they are of every format.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats import json_file, text_file
from vocabtool.formats.files import read_file
from vocabtool.formats.markers import guess_marker
from vocabtool.formats.reader import JsonReader, ReadResult, Source
from vocabtool.vocabulary import Place, Unknown, Vocabulary

MERGES: Final = "merges.txt"
ADDED: Final = "added_tokens.json"
MAX_MERGES_FILE: Final = 1 << 28
MAX_SETTINGS: Final = 100
# A name of several words, as settings have it.
SETTING: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]*)+")
SPECIAL_ID: Final = "_token_id"
MAX_SPREAD: Final = 2  # ids that are spread wider than this many times their number may be counts
POSITIONS: Final = "ids are positions in the list (in spaCy, hashes of the strings)"
SCORES: Final = (int, float, type(None))
UNKNOWNS: Final = ("\N{REPLACEMENT CHARACTER}".encode(), b"<unk>")


def _why_no_ids(document: object) -> str | None:
    if not isinstance(document, dict):
        return f"{json_file.kind(document)}, wanted an object of entries and their ids"
    if not document:
        return "an object without any key"
    try:
        ids = np.sort(json_file.ids(document, "the id"))
    except InvalidFile as error:
        return error.what
    same = ids[1:][ids[1:] == ids[:-1]]
    if len(same):
        return f"two keys have the value {same[0]:,}: these are no ids"
    if _are_settings(document, ids):
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
    if all(key.endswith(SPECIAL_ID) for key in document):
        return True
    names = sum(SETTING.fullmatch(key) is not None for key in document)
    apart = values[-1] - values[0] >= len(values)
    return bool(apart and len(values) < MAX_SETTINGS and 2 * names >= len(values))


def _read_ids(document: Any, source: Source) -> ReadResult:
    ids = json_file.ids(document, "the id")
    entries = json_file.strings(document, "key")
    file, notes, warnings = source.file.with_name(MERGES), [], []
    added, merged = source.file.name == ADDED, False
    if added:
        notes.append("tokens that were added to another vocabulary: that of the files beside it")
    elif file.is_file():
        merged = True
        try:
            notes.append(f"BPE with {_count_merges(file):,} merges in {MERGES}")
        except (InvalidFile, UnsupportedFormat) as error:
            warnings.append(f"{MERGES}: {error}")
        except OSError as error:
            warnings.append(f"{MERGES}: {error.strerror}")
    if not added and source.file.with_name(ADDED).is_file():
        notes.append(f"more tokens stand in {ADDED}")
    if not added and int(ids.max()) + 1 > MAX_SPREAD * len(ids):
        notes.append(f"{len(ids):,} ids up to {ids.max():,}: these may be counts of words")
    vocabulary = Vocabulary.from_ids(
        source.name,
        "bpe" if merged else "table",
        entries,
        ids,
        places=(Place(source.name, "whole object"),),
        notes=tuple(notes),
        marker=guess_marker(entries),
    )
    return ReadResult((vocabulary,), tuple(warnings))


def _count_merges(file: Path) -> int:
    """How many lines are merges. Raises :class:`InvalidFile` for one that is none."""
    count = 0
    for number, line in enumerate(text_file.read_lines(read_file(file, MAX_MERGES_FILE)), 1):
        if line.startswith(b"#version"):
            continue
        if line.count(b" ") != 1:
            raise InvalidFile(f"line {number:,} is no merge, wanted two pieces, a blank between")
        count += 1
    return count


def why_no_texts(document: object) -> str | None:
    """Whether a document is a list of nothing but texts."""
    if not isinstance(document, list):
        return f"{json_file.kind(document)}, wanted a list of texts"
    if not document:
        return "an empty list"
    for number, value in enumerate(document):
        if not isinstance(value, str):
            return f"item {number:,} is {json_file.kind(value)}, wanted a text"
    return None


def _read_texts(document: Any, source: Source) -> ReadResult:
    place = Place(source.name, "whole list")
    stored = json_file.strings(document, "text")
    found = Vocabulary(source.name, "list", stored, places=(place,), notes=(POSITIONS,))
    return ReadResult((found,))


def _why_no_scores(document: object) -> str | None:
    if not isinstance(document, list):
        return f"{json_file.kind(document)}, wanted a list of pieces and scores"
    if not document:
        return "an empty list"
    for number, pair in enumerate(document):
        if not isinstance(pair, list) or len(pair) != 2:
            return f"item {number:,} is {json_file.kind(pair)}, wanted a piece and its score"
        if not isinstance(pair[0], str) or type(pair[1]) not in SCORES:
            got = f"{json_file.kind(pair[0])} and {json_file.kind(pair[1])}"
            return f"item {number:,} holds {got}, wanted a text and a number"
    return None


def _read_pieces(document: Any, source: Source) -> ReadResult:
    stored = json_file.strings([piece for piece, _ in document], "piece")
    scores = sum(score is not None for _, score in document)
    vocabulary = Vocabulary(
        source.name,
        "unigram",
        stored,
        unknown=Unknown(0) if stored[0] in UNKNOWNS else None,
        places=(Place(source.name, "whole list"),),
        notes=(f"{scores:,} pieces have a score",),
        marker=guess_marker(stored),
    )
    return ReadResult((vocabulary,))


IDS: Final = JsonReader("JSON object of ids (Hugging Face vocab.json)", _why_no_ids, _read_ids)
PIECES: Final = JsonReader(
    "JSON list of pieces and scores (TensorFlow.js)", _why_no_scores, _read_pieces
)
TEXTS: Final = JsonReader("JSON list of texts (spaCy strings.json)", why_no_texts, _read_texts)
