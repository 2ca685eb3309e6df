"""What ``Tokenizer.to_json()`` of Keras writes: its words with their ids, and how it cuts texts.

Layout and meaning: keras-team/tf-keras, tf_keras/src/preprocessing/text.py. The object ``config``
holds the settings, and ``word_index`` as JSON in a text. People also write the settings alone, or
nothing but ``{"word_index": {...}}``: then nothing says how a text is cut. Ids begin at 1; words
whose id is ``num_words`` or more are there and never looked up, so they are left out here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from vocabtool.errors import InvalidFile
from vocabtool.formats import json_file
from vocabtool.formats.reader import JsonReader, ReadResult, Source
from vocabtool.vocabulary import Place, Unknown, Vocabulary

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
    json_file.ids(ids, f"{WORDS}: the id")
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
        json_file.ids(kept, WORDS),
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
