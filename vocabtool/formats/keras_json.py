"""Keras' lookup layers, as the JSON configuration of a model describes them.

A description is ``{"class_name": ..., "config": {...}}``, as ``get_config`` of the layers in
keras/src/layers/preprocessing and tf_keras/src/layers/preprocessing gives it. Where configurations
lie is for ``keras_metadata.py`` and ``keras_archive.py``; tables of a graph are not read here.

What ``Tokenizer.to_json()`` of Keras writes: its words with their ids, and how it cuts texts.

Layout and meaning: keras-team/tf-keras, tf_keras/src/preprocessing/text.py. The object ``config``
holds the settings, and ``word_index`` as JSON in a text. People also write the settings alone, or
nothing but ``{"word_index": {...}}``: then nothing says how a text is cut. Ids begin at 1; words
whose id is ``num_words`` or more are there and never looked up, so they are left out here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from vocabtool.errors import InvalidFile
from vocabtool.formats import json_file
from vocabtool.formats.reader import JsonReader, ReadResult, Source
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import EntryType, Place, Unknown, Vocabulary, printable

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


WORDS: Final = "word_index"
FILTERS: Final = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'  # unless settings say otherwise
SETTINGS: Final = ("filters", "lower", "split", "char_level")


@dataclass(frozen=True, slots=True)
class Settings:
    """How a text is cut: ``filters`` are characters, each of which ``split`` is put in place of.

    With ``char_level`` every character is a word, and neither is looked at.
    """

    filters: str
    lower: bool
    split: str
    char_level: bool


def recognise(document: object) -> str | None:
    """Whether there is a ``word_index``, in a ``config`` or by itself."""
    if not isinstance(document, dict):
        return f"{json_file.kind(document)}, wanted an object"
    return None if isinstance(_config(document).get(WORDS), str | dict) else f"no {WORDS} in it"


def read(document: Any, source: Source) -> ReadResult:
    """The words that are looked up. Raises :class:`InvalidFile`."""
    config = _config(document)
    ids = config[WORDS]
    if isinstance(ids, str):
        ids = json_file.parse_text(ids)
    if not isinstance(ids, dict):
        raise InvalidFile(f"{WORDS} holds {json_file.kind(ids)}, wanted an object")
    json_file.parse_ids(ids, f"{WORDS}: the id")
    oov, end = config.get("oov_token"), config.get("num_words")
    if oov is not None and not isinstance(oov, str):
        raise InvalidFile(f"oov_token is {json_file.kind(oov)}, wanted a text or null")
    if end is not None and not json_file.is_id(end):
        got = json_file.kind(end)
        raise InvalidFile(f"num_words is {got}, wanted a whole number from 0 on, or null")
    kept = {word: id_ for word, id_ in ids.items() if not end or id_ < end or word == oov}
    notes = ["no word has id 0, which pads"] if 0 not in kept.values() else []
    if end and len(kept) < len(ids):
        notes.append(
            f"num_words is {end:,}: {len(ids) - len(kept):,} words with higher ids are left out"
        )
    if oov is not None and oov not in kept:
        notes.append(f"{WORDS} does not hold the oov_token {json_file.show(oov)!r}")
    elif oov is None and "oov_token" in config:
        notes.append("there is no oov_token: unknown words are dropped from a text")
    vocabulary = Vocabulary.from_ids(
        source.name,
        "table",
        json_file.strings(kept, "word"),
        json_file.parse_ids(kept, WORDS),
        unknown=None if oov is None or oov not in kept else Unknown(kept[oov]),
        places=(Place(source.name, WORDS),),
        notes=tuple(notes),
    )
    return ReadResult((vocabulary,))


READER: Final = JsonReader("Keras Tokenizer (to_json)", recognise, read)


def settings_of(document: Any) -> Settings | None:
    """How the tokenizer cuts a text; ``None`` where the document does not say.

    What is missing is as Keras has it by default. Raises :class:`InvalidFile` for settings with
    which Keras fails, and for ``split: null``, which cuts at the white space of Unicode.
    """
    config = _config(document)
    if document.get("class_name") != "Tokenizer" and not any(key in config for key in SETTINGS):
        return None
    filters, split = config.get("filters", FILTERS), config.get("split", " ")
    if config.get("char_level"):
        return Settings("", bool(config.get("lower", True)), "", char_level=True)
    if isinstance(filters, list) and all(isinstance(c, str) and len(c) == 1 for c in filters):
        filters = "".join(filters)
    if not isinstance(filters, str):
        raise InvalidFile(f"filters is {json_file.kind(filters)}, wanted a text of characters")
    if not isinstance(split, str) or not split:
        got = "empty" if split == "" else json_file.kind(split)
        raise InvalidFile(f"split is {got}, wanted a text to cut at")
    if split.encode("utf-8", "ignore").decode() != split:
        raise InvalidFile("split has half a character (a lone surrogate), which no text holds")
    return Settings(filters, bool(config.get("lower", True)), split, char_level=False)


def _config(document: dict[str, Any]) -> dict[str, Any]:
    config = document.get("config")
    return config if WORDS not in document and isinstance(config, dict) else document
