"""Keras' lookup layers, as the JSON configuration of a model describes them.

A description is ``{"class_name": ..., "config": {...}}``, as ``get_config`` of the layers in
keras/src/layers/preprocessing and tf_keras/src/layers/preprocessing gives it. Where configurations
lie is for ``keras_metadata.py`` and ``keras_archive.py``; tables of a graph are not read here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from vocabtool.errors import InvalidFile
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import EntryType, printable

Token = str | int | None

MASK_AND_OOV: Final[dict[str, tuple[Token, Token]]] = {  # the constructors' defaults
    "TextVectorization": ("", "[UNK]"),
    "StringLookup": (None, "[UNK]"),
    "IntegerLookup": (None, -1),
}
TOKEN: Final = (str, int, type(None))
OLD_MODES: Final = {None: "int", "binary": "multi_hot", "tf-idf": "tf_idf"}

# Python needs up to 240 bytes for each of these, but a file only two or three.
MAX_CONTAINERS: Final = 1 << 17
MAX_KEYS: Final = 1 << 19
MAX_ITEMS: Final = 1 << 20  # a model's vocabulary stands in it twice: 500,000 words


@dataclass(frozen=True, slots=True)
class LookupLayer:
    """A layer that looks words or numbers up.

    ``path``: in the object graph, as ``root.layer-0``; the parent's if the layer has none.
    ``vocabulary``: without mask and unknown entries, numbers as decimal text; ``None`` when the
    file does not hold it.
    ``mask_token``: the entry with id 0, ``None`` without one: only the mode ``int`` has it.
    ``inverse``: words come out, and ids go in.
    """

    path: str
    name: str
    class_name: str
    vocabulary: tuple[bytes, ...] | None
    entry_type: EntryType
    mask_token: Token
    oov_token: Token
    num_oov_indices: int
    output_mode: str
    inverse: bool = False

    @property
    def first_id(self) -> int:
        """The id of the first entry of the vocabulary: mask and unknown entries come before."""
        return self.first_oov_id + self.num_oov_indices

    @property
    def first_oov_id(self) -> int:
        """The id of the first of ``num_oov_indices`` unknown entries."""
        return int(self.mask_token is not None)

    @property
    def identity(self) -> tuple[str, str]:
        """What the same layer has in common wherever it is described."""
        return self.class_name, self.name


def parse(path: str, metadata: bytes) -> dict[str, Any]:
    """The JSON object of a configuration; ``path``: what messages call it.

    Raises :class:`InvalidFile` where it is none, or would need far more memory than bytes.
    """
    what = f"the configuration of {path!r}"
    containers = metadata.count(b"{") + metadata.count(b"[")
    keys, items = metadata.count(b":"), metadata.count(b",")
    if containers > MAX_CONTAINERS or keys > MAX_KEYS or items > MAX_ITEMS:
        raise InvalidFile(
            f"{what} has {containers:,} lists and objects, {keys:,} keys and {items:,} items, "
            f"wanted at most {MAX_CONTAINERS:,}, {MAX_KEYS:,} and {MAX_ITEMS:,}"
        )
    try:
        parsed = json.loads(metadata.decode())
    except (ValueError, RecursionError) as error:
        raise InvalidFile(f"{what} is not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise InvalidFile(f"{what} is a {type(parsed).__name__}, wanted an object")
    return parsed


def is_object(value: dict[str, Any]) -> bool:
    """Whether a JSON object describes an object of Keras: a layer, a model, an initializer."""
    return isinstance(value.get("class_name"), str) and isinstance(value.get("config"), dict)


def lookup_layer(path: str, description: dict[str, Any]) -> LookupLayer:
    """The layer that is described at ``path``; its class is one of ``MASK_AND_OOV``.

    Raises :class:`InvalidFile` where a setting is not as Keras writes it.
    """
    class_name, config = description["class_name"], description["config"]

    def setting(key: str, default: Token, *kinds: type) -> Any:
        value = config.get(key, default)
        if type(value) not in kinds:
            got, wanted = type(value).__name__, kinds[0].__name__
            raise InvalidFile(f"{key} of {path!r} is a {got}, wanted {wanted}")
        if isinstance(value, str) and _utf8(value) is None:
            raise InvalidFile(f"{key} of {path!r} holds half a surrogate pair, wanted text")
        return value

    mask, oov = MASK_AND_OOV[class_name]
    mode = setting("output_mode", "int", str, type(None))
    mode = OLD_MODES.get(mode, mode)
    mask = setting("mask_token", config.get("mask_value", mask), *TOKEN)
    num_oov_indices = setting("num_oov_indices", 1, int)
    if num_oov_indices < 0:
        raise InvalidFile(f"num_oov_indices of {path!r} is {num_oov_indices}, wanted 0 or more")
    layer = LookupLayer(
        path=path,
        name=printable(setting("name", "", str).encode()),
        class_name=class_name,
        vocabulary=None,
        entry_type="integer" if class_name == "IntegerLookup" else "text",
        mask_token=mask if mode == "int" else None,
        oov_token=setting("oov_token", config.get("oov_value", oov), *TOKEN),
        num_oov_indices=num_oov_indices,
        output_mode=mode,
        inverse=setting("invert", False, bool),
    )
    vocabulary = config.get("vocabulary")
    if isinstance(vocabulary, dict) and vocabulary.get("class_name") == "__tuple__":
        vocabulary = vocabulary.get("items")
    if isinstance(vocabulary, list):
        entries = _entries(layer, vocabulary)
        return replace(layer, vocabulary=tuple(entries[leading_specials(layer, entries) :]))
    # A text is the path of a file on the training machine: nobody else's business.
    if vocabulary is not None and not isinstance(vocabulary, str):
        got = type(vocabulary).__name__
        raise InvalidFile(f"vocabulary of {path!r} is a {got}, wanted a list")
    return layer


def _entries(layer: LookupLayer, values: list[Any]) -> list[bytes]:
    """The entries as bytes; written over ``values``, so that each text is freed as it goes."""
    for position, value in enumerate(values):
        if isinstance(value, dict) and value.get("class_name") == "__bytes__":
            value = value.get("value")  # noqa: PLW2901 - the same entry, unwrapped
        entry = _entry(layer, value)
        if entry is None:
            raise InvalidFile(
                f"entry {position:,} of the vocabulary of {layer.path!r} is a "
                f"{type(value).__name__}, wanted {layer.entry_type}"
            )
        values[position] = entry
    return values


def _entry(layer: LookupLayer, value: object) -> bytes | None:
    if layer.entry_type == "integer":
        return b"%d" % value if type(value) is int else None
    return _utf8(value) if isinstance(value, str) else None


def _utf8(text: str) -> bytes | None:
    try:
        return text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can spell
        return None


def leading_specials(layer: LookupLayer, entries: Sequence[bytes] | ByteStrings) -> int:
    """How many entries at the front are the layer's own, mask and unknown: all of them, or 0.

    Keras drops these where a vocabulary begins with them.
    """
    if layer.first_id > len(entries):
        return 0
    mask, oov = _entry(layer, layer.mask_token), _entry(layer, layer.oov_token)
    alike = all(
        entry == (mask if position < layer.first_oov_id else oov)
        for position, entry in enumerate(islice(entries, layer.first_id))
    )
    return layer.first_id if alike else 0
