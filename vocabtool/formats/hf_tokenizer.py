"""``tokenizer.json``: the entries of a Hugging Face tokenizer, and the tokens added to them.

Layout: huggingface/tokenizers, tokenizers/src/models/*/serialization.rs and
tokenizers/src/tokenizer/{serialization,added_vocabulary}.rs. ``model.vocab`` is an object of
entries and ids (WordLevel, WordPiece, BPE), or a list of [piece, score] whose ids are positions
(Unigram). Scores, the merges themselves and how a text is cut are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile
from vocabtool.formats import json_file
from vocabtool.formats.reader import JsonReader, ReadResult, Source
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Kind, Marker, Place, Unknown, Vocabulary

KINDS: Final[dict[str, Kind]] = {
    "WordLevel": "table",
    "WordPiece": "wordpiece",
    "BPE": "bpe",
    "Unigram": "unigram",
}
UNIGRAM: Final = "Unigram"
# What may hold parts, and under which key a Sequence of them lists its own.
PARTS: Final = ("normalizer", "pre_tokenizer", "decoder")
SEQUENCES: Final = ("normalizers", "pretokenizers", "decoders")
BYTE_LEVEL: Final[Marker] = "Ġ"
META: Final[Marker] = "▁"
ALSO_BYTE_LEVEL: Final = "byte-level: every byte is shown as a character"
OWN_MARKS: Final[tuple[tuple[str, Marker], ...]] = (
    ("end_of_word_suffix", "</w>"),
    ("continuing_subword_prefix", "##"),
)
MAX_SHOWN: Final = 5  # tokens named in a note

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Entries:
    """The entries of the model in the order of the file, their ids, and where each stands.

    ``id_of``: the model's own object; of a list of pieces, those that are added tokens too.
    """

    stored: ByteStrings
    ids: NDArray[np.int64]
    id_of: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Token:
    content: str
    id: int
    special: bool


@dataclass(slots=True)
class _AddedTokens:
    """What the added tokens come to.

    ``new``: those that are no entries of the model, with their ids. ``special``: the special
    ones. ``misstated``: entries of the model that are listed with another id than its own, which
    is given. ``renumbered``: new ones that the library gives another id, and which.
    """

    new: dict[str, int] = field(default_factory=dict)
    special: list[str] = field(default_factory=list)
    misstated: list[tuple[_Token, int]] = field(default_factory=list)
    renumbered: list[tuple[_Token, int]] = field(default_factory=list)


def recognise(document: object) -> str | None:
    """Whether there is an object ``model`` with a ``vocab``."""
    if not isinstance(document, dict):
        return f"{json_file.kind(document)}, wanted an object"
    model = document.get("model")
    if not isinstance(model, dict):
        return "no object model in it"
    return None if isinstance(model.get("vocab"), dict | list) else "no vocab in its model"


def read(document: Any, source: Source) -> ReadResult:
    """Read a tokenizer. Raises :class:`InvalidFile` where it contradicts the format."""
    return ReadResult((vocabulary(document, source.name),))


READER: Final = JsonReader("Hugging Face tokenizer.json", recognise, read)


def vocabulary(document: Any, name: str) -> Vocabulary:
    """The entries of a tokenizer that :func:`recognise` takes; raises as :func:`read` does."""
    model = document["model"]
    model_type = _type(model)
    tokens = list(_tokens(document.get("added_tokens", [])))
    if model_type == UNIGRAM:
        entries = _pieces(model["vocab"], {token.content for token in tokens})
    elif isinstance(model["vocab"], dict):
        ids = json_file.parse_ids(model["vocab"], "model.vocab: the id")
        stored = json_file.strings(model["vocab"], "model.vocab: entry")
        entries = _Entries(stored, ids, model["vocab"])
    else:
        raise InvalidFile(f"model.vocab is {json_file.kind(model['vocab'])}, wanted an object")
    added = _find_added(tokens, entries)
    unknown, unknown_notes = _unknown(model, model_type, entries, added)
    marker, marker_notes = _marker(document, model)
    notes = (_model_note(model, model_type, marker), *marker_notes, *unknown_notes)
    stored, all_ids = _with_added(entries, added)
    return Vocabulary.from_ids(
        name,
        KINDS[model_type],
        stored,
        all_ids,
        unknown=unknown,
        places=(Place(name, "model.vocab" + " and added_tokens" * bool(added.new)),),
        notes=(*notes, *_added_notes(added)),
        marker=marker,
    )


def _type(model: Json) -> str:
    """The type of a model; old files do not say, and the library tries these in this order."""
    model_type = model.get("type")
    if model_type is None:
        if isinstance(model["vocab"], list):
            return UNIGRAM
        if "merges" in model:
            return "BPE"
        return "WordPiece" if "max_input_chars_per_word" in model else "WordLevel"
    if not isinstance(model_type, str) or model_type not in KINDS:
        text = isinstance(model_type, str)
        got = repr(json_file.show(model_type)) if text else json_file.kind(model_type)
        raise InvalidFile(f"model.type is {got}, wanted one of {', '.join(KINDS)}")
    return model_type


def _pieces(vocab: object, looked_up: set[str]) -> _Entries:
    """The pieces of a Unigram model: a list of [piece, score]. Of equal ones the last counts."""
    if not isinstance(vocab, list):
        raise InvalidFile(f"model.vocab is {json_file.kind(vocab)}, wanted a list")
    for number, item in enumerate(vocab):
        if not isinstance(item, list) or len(item) != 2:
            raise InvalidFile(f"model.vocab: item {number:,} is no list of a piece and its score")
        if type(item[1]) not in (int, float):
            got = json_file.kind(item[1])
            raise InvalidFile(f"model.vocab: the score of piece {number:,} is {got}")
    pieces = [piece for piece, _ in vocab]
    stored = json_file.strings(pieces, "model.vocab: piece")
    id_of = {piece: number for number, piece in enumerate(pieces) if piece in looked_up}
    return _Entries(stored, np.arange(len(pieces), dtype=np.int64), id_of)


def _tokens(tokens: object) -> Iterator[_Token]:
    if not isinstance(tokens, list):
        raise InvalidFile(f"added_tokens is {json_file.kind(tokens)}, wanted a list")
    for number, token in enumerate(tokens):
        what = f"added_tokens: item {number:,}"
        if not isinstance(token, dict):
            raise InvalidFile(f"{what} is {json_file.kind(token)}, wanted an object")
        content, stated = token.get("content"), token.get("id")
        if not isinstance(content, str):
            raise InvalidFile(f"{what}: its content is {json_file.kind(content)}, wanted a text")
        if not json_file.is_id(stated):
            wanted = f"wanted an id from 0 to {json_file.MAX_ID:,}"
            raise InvalidFile(f"{what}, {json_file.show(content)!r}: {wanted}")
        yield _Token(content, stated, token.get("special") is True)


def _find_added(tokens: list[_Token], entries: _Entries) -> _AddedTokens:
    """Which added tokens are new, and where the file is at odds with the library.

    A token that is an entry of the model has the model's id, any other the one that is stated.
    (The library numbers the others itself, behind as many entries as the model has; how, changed
    with its versions. What it wrote itself has these ids.) Of a token that is listed twice the
    first counts, and an empty one does not.
    """
    added = _AddedTokens()
    seen = {""}
    for token in tokens:
        if token.content in seen:
            continue
        seen.add(token.content)
        own = entries.id_of.get(token.content)
        if token.special:
            added.special.append(token.content)
        if own is None:
            given = len(entries.stored) + len(added.new)
            added.new[token.content] = token.id
            if token.id != given:
                added.renumbered.append((token, given))
        elif token.id != own:
            added.misstated.append((token, own))
    return added


def _with_added(entries: _Entries, added: _AddedTokens) -> tuple[ByteStrings, NDArray[np.int64]]:
    """The entries and the new tokens together, and their ids."""
    if not added.new:
        return entries.stored, entries.ids
    new = json_file.strings(added.new, "added_tokens: token")
    data = entries.stored.data
    stored = ByteStrings(
        data + new.data,
        np.concatenate([entries.stored.starts, new.starts + len(data)]),
        np.concatenate([entries.stored.ends, new.ends + len(data)]),
    )
    new_ids = np.fromiter(added.new.values(), np.int64, len(added.new))
    return stored, np.concatenate([entries.ids, new_ids])


def _unknown(
    model: Json, model_type: str, entries: _Entries, added: _AddedTokens
) -> tuple[Unknown | None, tuple[str, ...]]:
    """Which entry stands for what the model does not know, and what is odd about it."""
    if model_type == UNIGRAM:
        unk_id = model.get("unk_id")
        if unk_id is None:
            return None, ()
        if not json_file.is_id(unk_id) or unk_id >= len(entries.stored):
            raise InvalidFile(f"model.unk_id is none of the ids of {len(entries.stored):,} pieces")
        return Unknown(unk_id), ()
    token = model.get("unk_token")
    if token is None:
        return None, ()
    if not isinstance(token, str):
        raise InvalidFile(f"model.unk_token is {json_file.kind(token)}, wanted a text")
    found = entries.id_of.get(token, added.new.get(token))
    if found is None:
        return None, (f"the unknown token {json_file.show(token)!r} is no entry",)
    return Unknown(found), ()


def _marker(document: Json, model: Json) -> tuple[Marker | None, tuple[str, ...]]:
    """How pieces are marked, and what of it no :data:`Marker` says."""
    parts = [part for name in PARTS for part in _parts(document.get(name))]
    byte_level = any(part.get("type") == "ByteLevel" for part in parts)
    for key, usual in OWN_MARKS:
        mark = model.get(key)
        if mark and isinstance(mark, str):
            own = usual if mark == usual else None
            other = () if own else (f"the {key} of pieces is {json_file.show(mark)!r}",)
            return own, other + (ALSO_BYTE_LEVEL,) * byte_level
    if byte_level:
        return BYTE_LEVEL, ()
    blanks = dict.fromkeys(blank for part in parts if (blank := _blank(part)))
    if not blanks or META in blanks:
        return (META, ()) if blanks else (None, ())
    return None, tuple(f"{json_file.show(blank)!r} stands for a blank" for blank in blanks)


def _parts(value: object) -> Iterator[Json]:
    """A part and those inside it, where it is a Sequence."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, dict):
            continue
        yield part
        for key in SEQUENCES:
            inner = part.get(key)
            waiting += inner if isinstance(inner, list) else []


def _blank(part: Json) -> str | None:
    """What a part puts in the place of a blank, or takes for one: Metaspace, or a replacement."""
    if part.get("type") == "Metaspace":
        replacement = part.get("replacement")
        return replacement if isinstance(replacement, str) else META
    pattern, content = part.get("pattern"), part.get("content")
    replaced = pattern.get("String") if isinstance(pattern, dict) else None
    if part.get("type") == "Replace" and {replaced, content} == {" ", META}:
        return META
    return None


def _model_note(model: Json, model_type: str, marker: Marker | None) -> str:
    note = "byte-level " * (marker == BYTE_LEVEL) + model_type
    merges = model.get("merges")
    if isinstance(merges, list):
        note += f" with {len(merges):,} merges"
    if model.get("byte_fallback") is True:
        note += ", byte fallback: text that no piece covers becomes bytes, never unknown"
    return note


def _added_notes(added: _AddedTokens) -> Iterator[str]:
    if added.new:
        yield f"{len(added.new):,} added tokens are no entries of the model"
    if added.special:
        named = ", ".join(map(json_file.show, added.special[:MAX_SHOWN]))
        more = ", ..." * (len(added.special) > MAX_SHOWN)
        yield f"{len(added.special):,} special: {named}{more}"
    for odd, what in (
        (added.misstated, "are listed with another id than the model's, which counts"),
        (added.renumbered, "keep an id that the tokenizers library replaces"),
    ):
        if odd:
            token, other = odd[0]
            shown = json_file.show(token.content)
            yield f"{len(odd):,} added tokens {what}: {shown!r} listed {token.id}, there {other}"
