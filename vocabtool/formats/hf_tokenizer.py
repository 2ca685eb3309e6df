"""Read ``tokenizer.json``: the entries of a Hugging Face tokenizer, and its added tokens.

Layout: huggingface/tokenizers, tokenizers/src/models/*/serialization.rs and
tokenizers/src/tokenizer/{serialization,added_vocabulary}.rs. In a Unigram model, ``model.vocab`` is
a list of [piece, score], and the id of a piece is its position. In other models, ``model.vocab`` is
an object that maps entries to ids.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import numpy as np

from vocabtool.errors import InvalidFile
from vocabtool.formats import json_file
from vocabtool.formats.reader import Findings, JsonReader
from vocabtool.vocabulary import Kind, Marker, Place, Unknown, Vocabulary

KINDS: Final[dict[str, Kind]] = {
    "WordLevel": "table",
    "WordPiece": "wordpiece",
    "BPE": "bpe",
    "Unigram": "unigram",
}
# Steps, and the keys under which a Sequence lists its parts.
STEPS: Final = ("normalizer", "pre_tokenizer", "decoder")
SEQUENCES: Final = ("normalizers", "pretokenizers", "decoders")
BYTE_LEVEL: Final[Marker] = "Ġ"
META: Final[Marker] = "▁"
OWN_MARKS: Final[tuple[tuple[str, Marker], ...]] = (
    ("end_of_word_suffix", "</w>"),
    ("continuing_subword_prefix", "##"),
)

Json = dict[str, Any]


def recognise(document: object) -> str | None:
    """Return ``None`` for the content of a ``tokenizer.json``, otherwise the reason why not."""
    if not isinstance(document, dict):
        return f"{json_file.kind(document)}, wanted an object"
    model = document.get("model")
    if not isinstance(model, dict):
        return "it has no object model"
    return None if isinstance(model.get("vocab"), dict | list) else "its model has no vocab"


def parts(step: object) -> Iterator[Json]:
    """Yield the parts of a step in order. A ``Sequence`` is replaced by its parts."""
    waiting = [step]
    while waiting:
        current = waiting.pop()
        if not isinstance(current, dict):
            continue
        inner = next(
            (current[key] for key in SEQUENCES if isinstance(current.get(key), list)), None
        )
        if inner is None:
            yield current
        else:
            waiting += reversed(inner)


def vocabulary(document: Any, name: str) -> Vocabulary:
    model = document["model"]
    model_type = _type(model)
    entries: Collection[Any]
    if model_type == "Unigram":
        entries, what = _pieces(model["vocab"]), "piece"
        ids = np.arange(len(entries))
        # Of equal pieces, the last one counts.
        id_of = {piece: at for at, piece in enumerate(entries) if isinstance(piece, str)}
    else:
        entries = id_of = json_file.expect(model["vocab"], dict, "model.vocab")
        ids, what = json_file.parse_ids(id_of, "model.vocab: the id"), "entry"
    new, added_notes = _find_added(document.get("added_tokens", []), id_of, len(entries))
    unknown, unknown_notes = _unknown(model, model_type, {**id_of, **new}, len(entries))
    marker, marker_notes = _marker(document, model)
    stored = json_file.strings([*entries, *new], f"model.vocab: {what}")
    ids = np.append(ids, np.array([*new.values()], np.int64))
    note = f"byte-level {model_type}" if marker == BYTE_LEVEL else model_type
    merges = model.get("merges")
    if isinstance(merges, list):
        note += f" with {len(merges):,} merges"
    if model.get("byte_fallback") is True:
        note += ", byte fallback: text that no piece covers becomes bytes, never unknown"
    return Vocabulary.from_ids(
        name,
        KINDS[model_type],
        stored,
        ids,
        unknown=unknown,
        places=(Place(name, "model.vocab and added_tokens" if new else "model.vocab"),),
        notes=(note, *marker_notes, *unknown_notes, *added_notes),
        marker=marker,
    )


READER: Final = JsonReader(
    "Hugging Face tokenizer.json",
    recognise,
    lambda document, source: Findings([vocabulary(document, source.name)]),
)


def _type(model: Json) -> str:
    """Return the type of a model, one of :data:`KINDS`; old files do not state it."""
    model_type = model.get("type")
    if model_type is None:  # guessed as Hugging Face's library does
        if isinstance(model["vocab"], list):
            return "Unigram"
        if "merges" in model:
            return "BPE"
        return "WordPiece" if "max_input_chars_per_word" in model else "WordLevel"
    if not isinstance(model_type, str) or model_type not in KINDS:
        got = json_file.show_value(model_type)
        raise InvalidFile(f"model.type is {got!r}, wanted one of {', '.join(KINDS)}")
    return model_type


def _pieces(vocab: object) -> list[Any]:
    """Return the pieces of a Unigram model, whose scores are checked; the pieces are not."""
    listed = json_file.expect(vocab, list, "model.vocab")
    for number, item in enumerate(listed):
        if not isinstance(item, list) or len(item) != 2:
            raise InvalidFile(f"model.vocab: item {number:,} is not a list [piece, score]")
        if type(item[1]) not in (int, float):
            got = json_file.kind(item[1])
            raise InvalidFile(f"model.vocab: the score of piece {number:,} is {got}, not a number")
    return [piece for piece, _ in listed]


def _find_added(
    tokens: object, id_of: Mapping[str, int], entries: int
) -> tuple[dict[str, int], list[str]]:
    """Return the ids of the added tokens that are not entries of the model, and notes.

    As the tokenizers library numbers them: an entry of the model keeps its id, and the others
    follow the entries of the model in the order of the file, whatever id is stated.
    """
    new: dict[str, int] = {}
    special, misstated = [], []
    seen = {""}
    listed = json_file.expect(tokens, list, "added_tokens")
    if len(listed) > json_file.MAX_ADDED:
        wanted = f"wanted at most {json_file.MAX_ADDED:,}"
        raise InvalidFile(f"added_tokens: {len(listed):,} tokens, {wanted}")
    for number, token in enumerate(listed):
        what = f"added_tokens: item {number:,}"
        fields = json_file.expect(token, dict, what)
        content = json_file.expect(fields.get("content"), str, f"{what}: its content")
        stated = fields.get("id")
        if not json_file.is_id(stated):
            raise InvalidFile(
                f"{what}, {json_file.show(content)!r}: wanted an id from 0 to {json_file.MAX_ID:,}"
            )
        if content in seen:
            continue
        seen.add(content)
        if fields.get("special") is True:
            special.append(content)
        own = id_of.get(content)
        if own is None:
            own = new[content] = entries + len(new)
        if stated != own:
            misstated.append((content, stated, own))
    notes = []
    if new:
        notes.append(f"{len(new):,} added tokens are not entries of the model")
    if special:
        notes.append(f"{len(special):,} special: {json_file.show_some(special)}")
    if misstated:
        content, stated, own = misstated[0]
        example = f"{json_file.show(content)!r}: {stated} in added_tokens, but {own}"
        notes.append(
            f"{len(misstated):,} added tokens have another id, which the tokenizers library gives: "
            f"{example}"
        )
    return new, notes


def _unknown(
    model: Json, model_type: str, id_of: Mapping[str, int], entries: int
) -> tuple[Unknown | None, tuple[str, ...]]:
    """Return the stated id of unknown words, and notes. ``id_of`` also has the added tokens."""
    token = model.get("unk_id" if model_type == "Unigram" else "unk_token")
    if token is None:
        return None, ()
    if model_type == "Unigram":
        if not json_file.is_id(token) or token >= entries:
            raise InvalidFile(f"model.unk_id: wanted an id below {entries:,}, the number of pieces")
        return Unknown(token), ()
    if json_file.expect(token, str, "model.unk_token") in id_of:
        return Unknown(id_of[token]), ()
    return None, (f"the unknown token {json_file.show(token)!r} is not an entry",)


def _marker(document: Json, model: Json) -> tuple[Marker | None, tuple[str, ...]]:
    """Return the marker of the pieces, if it is a usual one, and notes on what else is known."""
    byte_level, blanks = False, []  # blanks: what stands for a space
    for step in [step for name in STEPS for step in parts(document.get(name))]:
        if step.get("type") == "ByteLevel":
            byte_level = True
        pattern, content = step.get("pattern"), step.get("content")
        replaced = pattern.get("String") if isinstance(pattern, dict) else None
        if step.get("type") == "Metaspace":
            replacement = step.get("replacement")
            blanks.append(replacement if isinstance(replacement, str) else META)
        elif step.get("type") == "Replace" and (replaced, content) in ((" ", META), (META, " ")):
            blanks.append(META)
    for key, usual in OWN_MARKS:
        mark = model.get(key)
        if mark and isinstance(mark, str):
            notes = []
            if mark != usual:
                notes.append(f"the {key} of pieces is {json_file.show(mark)!r}")
            if byte_level:
                notes.append("byte-level: every byte is shown as a character")
            return usual if mark == usual else None, tuple(notes)
    if byte_level:
        return BYTE_LEVEL, ()
    if META in blanks:
        return META, ()
    return None, tuple(
        f"{json_file.show(blank)!r} stands for a space" for blank in dict.fromkeys(blanks)
    )
