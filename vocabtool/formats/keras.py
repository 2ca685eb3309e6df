"""Read Keras lookup layers (described in JSON), ``.keras`` archives and ``Tokenizer.to_json()``.

Keras describes a layer as ``{"class_name": ..., "config": {...}}``. ``get_config`` in
keras/src/layers/preprocessing and tf_keras/src/layers/preprocessing writes ``config``.

An archive (keras/src/saving/saving_lib.py, and the same file in tf_keras) is a zip of:

- ``config.json``, which describes every layer
- ``metadata.json`` and ``model.weights.h5``, which are not read
- ``assets/<path of the layer>/vocabulary.txt`` for each layer whose ``adapt`` was called. The file
  includes the mask and unknown entries. ``_save_state`` in saving_lib.py forms the path.
- the files of a tokenizer of keras-hub, in a folder of the same form (``save_assets`` in
  keras_hub/src/tokenizers): ``vocabulary.json`` with ``merges.txt`` (BytePairTokenizer),
  ``vocabulary.txt`` (WordPieceTokenizer) or ``vocabulary.spm`` (SentencePieceTokenizer)

If a layer was given a vocabulary *file*, Keras 2 stores only the path of that file.

A SavedModel of Keras 2 describes its layers in ``keras_metadata.pb``: ``SavedMetadata`` in
tf_keras/protobuf/saved_metadata.proto. Each object has a JSON configuration (``python_properties``
in tf_keras/src/saving/legacy/saved_model/layer_serialization.py).

``Tokenizer.to_json()`` (keras-team/tf-keras, tf_keras/src/preprocessing/text.py) writes an object
``config`` with settings and ``word_index``. ``word_index`` is a string with a JSON object that maps
words to ids. A file may also have only the content of ``config``. Ids begin at 1. Words whose ids
are ``num_words`` or higher are left out, because Keras never looks them up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final

import numpy as np

from vocabtool.errors import InvalidFile, reading
from vocabtool.formats import json_file, wire, word_list
from vocabtool.formats.reader import (
    MAX_SPECIALS,
    Finding,
    Findings,
    JsonReader,
    PassedOver,
    Reader,
    Source,
)
from vocabtool.formats.saved_model import tables
from vocabtool.formats.zip_archive import ZIP, ZipArchive
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import (
    EntryType,
    Place,
    Special,
    Unknown,
    Vocabulary,
    guess_marker,
    printable,
)

Token = str | int | None

MASK_AND_OOV: Final[dict[str, tuple[Token, Token]]] = {  # the constructors' defaults
    "TextVectorization": ("", "[UNK]"),
    "StringLookup": (None, "[UNK]"),
    "IntegerLookup": (None, -1),
}
TOKEN: Final = (str, int, type(None))
TEXT_SETTINGS: Final = {  # of a TextVectorization, with the constructor's defaults
    **{"standardize": "lower_and_strip_punctuation", "split": "whitespace", "ngrams": None},
}
OLD_MODES: Final = {None: "int", "binary": "multi_hot", "tf-idf": "tf_idf"}


@dataclass(frozen=True, slots=True)
class LookupLayer:
    """A layer that looks up words or numbers.

    - ``path``: in an archive, of the layer's asset. In a SavedModel, of the object whose
      configuration describes the layer: the layer, such as ``root.layer-0``, or a model that
      contains it.
    - ``vocabulary``: without mask and unknown entries, numbers as decimal text; ``None`` if the
      file does not contain the entries.
    - ``mask_token``: the entry with id 0; always ``None`` if the output mode is not ``int``.
    - ``inverse``: whether the layer maps ids to words.
    - ``text_settings``: of a TextVectorization, :data:`TEXT_SETTINGS`.
    """

    path: str
    name: str
    class_name: str
    vocabulary: tuple[bytes, ...] | None
    entry_type: EntryType
    mask_token: Token
    oov_token: Token
    num_oov_indices: int
    inverse: bool = False
    text_settings: dict[str, Any] = field(default_factory=dict)

    @property
    def first_id(self) -> int:
        """The id of the first entry of the vocabulary, after mask and unknown entries."""
        return self.first_oov_id + self.num_oov_indices

    @property
    def first_oov_id(self) -> int:
        """The first id of unknown words. There are ``num_oov_indices`` such ids."""
        return int(self.mask_token is not None)


def parse(path: str, metadata: bytes) -> dict[str, Any]:
    """Parse the JSON configuration of a layer or model. ``path``: its name in messages."""
    what = f"the configuration of {path!r}"
    try:
        parsed = json_file.parse(metadata)
    except InvalidFile as error:
        raise InvalidFile(f"{what}: {error.what}") from error
    return json_file.expect(parsed, dict, what)


def is_object(value: dict[str, Any]) -> bool:
    """Return whether JSON describes a layer, model or initializer."""
    return isinstance(value.get("class_name"), str) and isinstance(value.get("config"), dict)


def lookup_layer(path: str, description: dict[str, Any]) -> LookupLayer:
    """Make a layer of a class in ``MASK_AND_OOV``. Bytes replace the entries in ``description``."""
    class_name, config = description["class_name"], description["config"]

    def setting(key: str, default: Token, *kinds: type) -> Any:
        value = config.get(key, default)
        if type(value) not in kinds:
            got, wanted = type(value).__name__, kinds[0].__name__
            raise InvalidFile(f"{key} of {path!r} is a {got}, wanted {wanted}")
        if isinstance(value, str) and _utf8(value) is None:
            raise InvalidFile(f"{key} of {path!r} has a lone surrogate, wanted text")
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
        inverse=setting("invert", False, bool),
        text_settings={key: config.get(key, usual) for key, usual in TEXT_SETTINGS.items()},
    )
    values = config.get("vocabulary")
    if isinstance(values, dict) and values.get("class_name") == "__tuple__":
        values = values.get("items")
    if values is None or isinstance(values, str):
        return layer  # a text is the path of a file on the training machine: not opened
    if not isinstance(values, list):
        raise InvalidFile(f"vocabulary of {path!r} is a {type(values).__name__}, wanted a list")
    for position, value in enumerate(values):  # in place, so that each text is freed
        if isinstance(value, dict) and value.get("class_name") == "__bytes__":
            value = value.get("value")  # noqa: PLW2901 - the same entry, unwrapped
        values[position] = _entry(layer, value)
        if values[position] is None:
            what = f"entry {position:,} of the vocabulary of {path!r} is a {type(value).__name__}"
            raise InvalidFile(f"{what}, wanted {layer.entry_type}")
    return replace(layer, vocabulary=tuple(values[_leading_specials(layer, values) :]))


def _entry(layer: LookupLayer, value: object) -> bytes | None:
    """Return the bytes of an entry; ``None`` if it is not of the layer's type."""
    if layer.entry_type == "integer":
        return b"%d" % value if type(value) is int else None
    return _utf8(value) if isinstance(value, str) else None


def _utf8(text: str) -> bytes | None:
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which JSON can express
        return None


def _leading_specials(layer: LookupLayer, entries: Sequence[bytes] | ByteStrings) -> int:
    """Count the mask and unknown entries at the beginning of ``entries``."""
    if layer.first_id > len(entries):
        return 0
    mask, oov = _entry(layer, layer.mask_token), _entry(layer, layer.oov_token)
    alike = all(
        entry == (mask if position < layer.first_oov_id else oov)
        for position, entry in enumerate(islice(entries, layer.first_id))
    )
    return layer.first_id if alike else 0


# keras_metadata.pb of Keras 2.

NODES, NODE_PATH, METADATA = 1, 3, 5  # fields of SavedMetadata and of its SavedObject
MAX_PATH: Final = 4096


def read_metadata(data: bytes) -> dict[str, tuple[str, str]]:
    """Return name and unknown token of each lookup layer by its path; outer layers come last.

    A TextVectorization contains a StringLookup of the same table.
    """
    layers, nodes = [], wire.Message(data, (0, len(data))).spans(NODES)
    if not nodes:
        what = "contains no object: not a keras_metadata.pb, or truncated near its beginning"
        raise InvalidFile(what)
    for span in nodes:
        node = wire.Message(data, span)
        name, metadata = node.value(NODE_PATH), node.value(METADATA)
        if len(name) > MAX_PATH:
            what = f"a path has {len(name):,} bytes; wanted at most {MAX_PATH:,}"
            raise InvalidFile(what, offset=span[0])
        if not any(kind.encode() in metadata for kind in MASK_AND_OOV):
            continue
        path = printable(name)
        described = parse(path, metadata)
        if is_object(described) and described["class_name"] in MASK_AND_OOV:
            described["config"].pop("vocabulary", None)  # the graph has the words
            layers.append(lookup_layer(path, described))
    layers.sort(key=lambda layer: len(layer.path), reverse=True)
    return {layer.path: (layer.name, str(layer.oov_token)) for layer in layers}


# Archives.

CONFIG: Final = "config.json"
PARTS: Final = (b"config.json", b"metadata.json", b"model.weights.h5", b"assets/layers/")
MEMBER_NAME: Final = 30  # bytes of a member's header before its name

ASSETS: Final = "assets/"
VOCABULARY: Final = "/vocabulary.txt"
ENTRIES: Final = "/vocabulary.json"
MERGES: Final = "/merges.txt"
INNER: Final = "/_lookup_layer"  # the lookup layer inside a TextVectorization saves the same file
OLD_LAYERS: Final = "_layer_checkpoint_dependencies"  # Keras 2.12's name of "layers"

UNDESCRIBED: Final = (
    "config.json describes no layer for this file: the first entries may be mask and unknown "
    "entries"
)


def _recognise_archive(source: Source) -> str | None:
    if not source.head.startswith(ZIP):
        return "does not begin like a zip archive"
    for member in re.finditer(re.escape(ZIP), source.head):
        if source.head.startswith(PARTS, member.start() + MEMBER_NAME):
            return None
    return "a zip archive that does not begin with a Keras model's config.json"


def _read_archive(source: Source) -> Findings:
    findings = Findings()
    with ZipArchive(source.file) as archive:
        if CONFIG not in archive.names:
            raise InvalidFile("a zip archive without config.json: not a Keras model, or truncated")
        described = list(_descriptions(parse(CONFIG, archive.read(CONFIG))))
        layers = {layer.path: layer for layer, _ in described}
        for name in archive.names:
            if name.startswith(ASSETS):
                with findings.warning():
                    finding = _read_asset(name, archive.read(name), layers, source.name)
                    findings.lists.append(finding)
    for layer, elsewhere in described:
        if layer.vocabulary is not None:
            path = printable(layer.path.encode("utf-8", "replace"))
            place = Place(source.name, f"{CONFIG}: {path}")
            findings.lists.append(_vocabulary(layer, ByteStrings.of(layer.vocabulary), place))
        elif elsewhere:
            findings.warnings.append(
                f"layer {layer.name} ({layer.class_name}): its words are not in the archive, "
                "which has only the path of a vocabulary file; read that file instead"
            )
    return findings


ARCHIVE: Final = Reader("Keras archive", _recognise_archive, _read_archive)


def _descriptions(config: dict[str, Any]) -> Iterator[tuple[LookupLayer, bool]]:
    """Yield each lookup layer, and whether its vocabulary is in a file outside the archive."""
    if not is_object(config):
        raise InvalidFile(f"{CONFIG} describes no model: class_name or config is missing")
    waiting: list[tuple[str, Any]] = [("", config)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict) and is_object(value):
            if value["class_name"] in MASK_AND_OOV:
                elsewhere = isinstance(value["config"].get("vocabulary"), str)
                yield lookup_layer(path, value), elsewhere
                continue
            value = value["config"]  # the parts of the object
        # No asset matches a path that was cut.
        waiting += reversed(
            [
                (f"{path}/{name}"[:MAX_PATH].removeprefix("/"), child)
                for name, child in (value.items() if isinstance(value, dict) else _items(value))
                if isinstance(child, dict | list)
            ]
        )


def _items(values: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the objects and lists of a list with their names in a path, such as ``dense_1``."""
    counts: Counter[str] = Counter()
    for value in values:
        if isinstance(value, dict | list):
            name = "container"
            if isinstance(value, dict) and is_object(value):
                name = re.sub(r"\W+", "", value["class_name"][:MAX_PATH])  # to snake case
                name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
                name = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
            yield f"{name}_{counts[name]}" if counts[name] else name, value
            counts[name] += 1


def _layer_path(asset: str) -> str:
    """Return the path of the layer to which a vocabulary in ``assets/`` belongs."""
    path = asset.removeprefix(ASSETS).removesuffix(VOCABULARY).removesuffix(INNER)
    return "/".join("layers" if name == OLD_LAYERS else name for name in path.split("/"))


def text_vectorization(file: Path, vocabulary: Vocabulary) -> LookupLayer | None:
    """Return the TextVectorization of an archive that has a vocabulary; ``None`` if none has it."""
    if _recognise_archive(Source.open(file)) is not None:
        return None
    with ZipArchive(file) as archive:
        described = _descriptions(parse(CONFIG, archive.read(CONFIG)))
        layers = {layer.path: layer for layer, _ in described}
    paths = [_layer_path(place.place.removeprefix(f"{CONFIG}: ")) for place in vocabulary.places]
    for path in paths:
        if path in layers and layers[path].class_name == "TextVectorization":
            return layers[path]
    return None


def _read_asset(name: str, data: bytes, layers: dict[str, LookupLayer], file: str) -> Finding:
    shown = printable(name.encode("utf-8", "surrogateescape"))
    place = Place(file, shown)
    with reading(shown):
        if data.count(b"\n") > len(data) // 2 + 1:  # each line takes eight bytes of memory
            raise InvalidFile("most lines of the file are empty: it is not a vocabulary")
        if name.endswith(ENTRIES):
            ids = json_file.expect(json_file.parse(data), dict, "the whole file")
            stored = json_file.strings(ids, "entry")
            name, numbers = PurePosixPath(shown).parent.name, json_file.parse_ids(ids, "the id")
            notes = ("keras-hub's BytePairTokenizer: byte-level BPE",)
            return Vocabulary.from_ids(
                name, "bpe", stored, numbers, places=(place,), notes=notes, marker="Ġ"
            )
        if name.endswith(MERGES):
            return PassedOver(PurePosixPath(shown).name, 0, place, word_list.MERGES)
        if not name.endswith(VOCABULARY):
            return tables.classify_asset(PurePosixPath(shown).name, place, data)
        layer = layers.get(_layer_path(name))
        if layer is not None and layer.vocabulary is None:
            lines = word_list.read_lines(data)
            filled = np.flatnonzero(lines.lengths)  # Keras drops empty lines at the end
            stored = lines.take(slice(int(filled[-1]) + 1 if len(filled) else 0))
            if layer.entry_type == "integer":
                numbers = word_list.integers(stored).tolist()
                stored = ByteStrings.of(b"%d" % number for number in numbers)
            stored = stored.take(slice(_leading_specials(layer, stored), None))
            return _vocabulary(layer, stored, place)
        own = PurePosixPath(shown.removesuffix(VOCABULARY).removesuffix(INNER)).name
        stored, notes = word_list.read_lines(data), (UNDESCRIBED,)
        if guess_marker(stored) == "##":  # of keras-hub's WordPieceTokenizer
            return word_list.words(data, own, place, "asset")
        return Vocabulary(own, "asset", stored, places=(place,), notes=notes)


def _vocabulary(layer: LookupLayer, stored: ByteStrings, place: Place) -> Vocabulary:
    """Make the vocabulary of a layer. ``stored``: its entries without mask and unknown entries."""
    if layer.num_oov_indices > json_file.MAX_ID:
        what = f"layer {layer.name} has {layer.num_oov_indices:,} ids for unknown words"
        raise InvalidFile(f"{what}, wanted at most {json_file.MAX_ID:,}")
    specials = []
    if layer.mask_token is not None:
        specials.append(Special(0, str(layer.mask_token), "mask"))
    if layer.oov_token is not None:
        for position in range(min(layer.num_oov_indices, MAX_SPECIALS)):
            unknown_id = layer.first_oov_id + position
            specials.append(Special(unknown_id, str(layer.oov_token), "unknown"))
    has_unknown = layer.num_oov_indices and not layer.inverse
    return Vocabulary(
        name=layer.name,
        kind="table",
        stored=stored,
        first_id=layer.first_id,
        unknown=Unknown(layer.first_oov_id, layer.num_oov_indices) if has_unknown else None,
        specials=tuple(specials),
        places=(place,),
        entry_type=layer.entry_type,
        notes=(f"Keras' {layer.class_name}",),
    )


# Tokenizer.to_json().

WORDS: Final = "word_index"


def why_no_tokenizer(document: object) -> str | None:
    if not isinstance(document, dict):
        return f"{json_file.kind(document)}, wanted an object"
    return None if isinstance(config_of(document).get(WORDS), str | dict) else f"it has no {WORDS}"


def _read_tokenizer(document: Any, source: Source) -> Findings:
    config = config_of(document)
    ids = config[WORDS]
    if isinstance(ids, str):
        ids = json_file.parse_text(ids)
    ids = json_file.expect(ids, dict, WORDS)
    json_file.parse_ids(ids, f"{WORDS}: the id")
    oov, end = config.get("oov_token"), config.get("num_words")
    if oov is not None:
        json_file.expect(oov, str, "oov_token")
    if end is not None and not json_file.is_id(end):
        got = json_file.kind(end)
        raise InvalidFile(f"num_words is {got}, wanted null or a whole number of at least 0")
    used = {word: id_ for word, id_ in ids.items() if not end or id_ < end or word == oov}
    notes = ["no word has id 0, which is for padding"] if 0 not in used.values() else []
    left_out = len(ids) - len(used)
    if end and left_out:
        notes.append(f"num_words is {end:,}: {left_out:,} words with higher ids are left out")
    if oov is not None and oov not in used:
        notes.append(f"{WORDS} does not contain the oov_token {json_file.show(oov)!r}")
    elif oov is None and "oov_token" in config:
        notes.append("no oov_token: unknown words are removed from a text")
    vocabulary = Vocabulary.from_ids(
        source.name,
        "table",
        json_file.strings(used, "word"),
        json_file.parse_ids(used, WORDS),
        unknown=Unknown(used[oov]) if oov in used else None,
        places=(Place(source.name, WORDS),),
        notes=tuple(notes),
    )
    return Findings([vocabulary])


TOKENIZER: Final = JsonReader("Keras Tokenizer (to_json)", why_no_tokenizer, _read_tokenizer)


def config_of(document: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a tokenizer: ``config``, or the document if it is ``config`` alone."""
    config = document.get("config")
    return config if WORDS not in document and isinstance(config, dict) else document
