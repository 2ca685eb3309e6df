"""``tekken.json``: Mistral's byte-level BPE, whose special tokens come first.

Layout: ``Tekkenizer`` in mistralai/mistral-common, tokens/tokenizers/tekken.py. ``vocab`` lists
tokens in base64, each with its rank, which counts from 0; of these the model has the first
``default_vocab_size - default_num_special_tokens``, and their ids are their ranks behind the
special tokens. ``special_tokens`` lists these; files of versions up to 7 may leave it out, and
mean those of :data:`IMPLIED`. The rest, up to ``default_num_special_tokens``, are named by number.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Final

import numpy as np

from vocabtool.errors import InvalidFile
from vocabtool.formats import json_values
from vocabtool.formats.reader import JsonReader, ReadResult, Source
from vocabtool.formats.tiktoken_ranks import byte_level, decoded, special_note
from vocabtool.system.byte_strings import ByteStrings

MAX_SPECIAL: Final = 1 << 20  # a thousand in all files that we know of
FILLER: Final = "<SPECIAL_{}>"
IMPLIED: Final = (
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
)
IMPLIED_UP_TO: Final = 7  # the version


def recognise(document: object) -> str | None:
    """Whether there are a list ``vocab`` and how many of its tokens are meant."""
    if not isinstance(document, dict):
        return f"{json_values.kind(document)}, wanted an object"
    config = document.get("config")
    if not isinstance(document.get("vocab"), list) or not isinstance(config, dict):
        return "no list vocab and object config in it"
    return None if "default_vocab_size" in config else "no default_vocab_size in its config"


def read(document: Any, source: Source) -> ReadResult:
    """The special tokens, then the others. Raises :class:`InvalidFile`."""
    config, listed = document["config"], document["vocab"]
    room = _count(config, "default_num_special_tokens", MAX_SPECIAL)
    size = _count(config, "default_vocab_size", room + len(listed))
    if size < room:
        raise InvalidFile(f"default_vocab_size is {size:,}, for {room:,} special tokens alone")
    version = json_values.shown(str(config.get("version")))
    special = _special(document, version)
    if len(special) > room:
        raise InvalidFile(f"{len(special):,} special tokens, and room for {room:,}")
    fillers = map(FILLER.format, range(len(special), room))
    names = json_values.strings([*special, *fillers], "special token")
    if names.distinct < room:
        raise InvalidFile("two special tokens are the same")
    kept = _in_order(listed[: size - room], "vocab", "token_bytes")
    tokens = ByteStrings.of(chain(names, decoded(kept, "vocab: token_bytes of item")))
    notes = [f"byte-level BPE of Mistral, version {version}", *special_note(special)]
    if len(special) < room:
        notes.append(f"special tokens from id {len(special):,} to {room - 1:,} have no name")
    if len(listed) > len(kept):
        notes.append(f"of its {len(listed):,} tokens the model has the first {len(kept):,}")
    ids = np.arange(size, dtype=np.int64)
    return ReadResult((byte_level(source, tokens, ids, "special_tokens and vocab", notes),))


READER: Final = JsonReader("Mistral tekken.json", recognise, read)


def _count(config: dict[str, Any], key: str, most: int) -> int:
    count = config.get(key)
    if json_values.is_id(count) and count <= most:
        return count
    got = f"{count:,}" if json_values.is_id(count) else json_values.kind(count)
    raise InvalidFile(f"config: {key} is {got}, wanted a whole number from 0 to {most:,}")


def _special(document: dict[str, Any], version: str) -> list[str]:
    listed = document.get("special_tokens")
    if listed is None:
        digits = version.removeprefix("v")
        if digits.isdecimal() and (len(digits) > 4 or int(digits) > IMPLIED_UP_TO):
            raise InvalidFile(f"no special_tokens, which version {version} must list")
        return list(IMPLIED)
    if not isinstance(listed, list):
        raise InvalidFile(f"special_tokens is {json_values.kind(listed)}, wanted a list")
    return _in_order(listed, "special_tokens", "token_str")


def _in_order(listed: list[Any], what: str, key: str) -> list[Any]:
    """What each item has under ``key``. Raises :class:`InvalidFile` where a rank is no position."""
    for number, item in enumerate(listed):
        if not isinstance(item, dict) or not isinstance(item.get(key), str):
            raise InvalidFile(f"{what}: item {number:,} has no text {key}")
        if item.get("rank") != number:
            raise InvalidFile(f"{what}: item {number:,} does not have the rank {number:,}")
    return [item[key] for item in listed]
