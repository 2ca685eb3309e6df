"""``.keras`` archives of Keras 3 and Keras 2: the words of the lookup layers in them.

Layout: keras/src/saving/saving_lib.py, and tf_keras' of the same name: a zip of ``config.json``,
which describes every layer, ``metadata.json``, ``model.weights.h5``, and for each layer that was
adapted ``assets/<path of the layer>/vocabulary.txt``, mask and unknown entries included. Which
layer a path means is worked out as ``_save_state`` there names them. The weights are never read:
no words are in them. Keras 2 keeps of a vocabulary *file* only its path, and so no words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

from vocabtool.errors import InvalidFile, VocabtoolError, reading
from vocabtool.formats import text_file
from vocabtool.formats.keras_layers import (
    MASK_AND_OOV,
    LookupLayer,
    is_container,
    is_object,
    leading_specials,
    lookup_layer,
    parse,
)
from vocabtool.formats.model import PassedOver
from vocabtool.formats.reader import Reader, ReadResult, Source
from vocabtool.formats.saved_model import assets
from vocabtool.formats.zip_archive import MAGIC, ZipArchive
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Special, Unknown, Vocabulary, printable

CONFIG: Final = "config.json"
PARTS: Final = (b"config.json", b"metadata.json", b"model.weights.h5", b"assets/layers/")
MEMBER_NAME: Final = 30  # bytes of a member's header before its name

ASSETS: Final = "assets/"
WORDS: Final = "/vocabulary.txt"
INNER: Final = "/_lookup_layer"  # the lookup inside a TextVectorization: it saves the same file
LAYERS: Final = "layers"
OLD_LAYERS: Final = "_layer_checkpoint_dependencies"  # what Keras 2.12 calls these

MAX_PATH: Final = 4096
MAX_SPECIALS: Final = 1_000
MAX_UNKNOWN: Final = 1 << 32  # so that ids stay far below 64 bits
# Where Python's splitlines breaks a line too; Keras reads its own files with it.
MORE_BREAKS: Final = re.compile(rb"[\r\v\f\x1c-\x1e]|\xc2\x85|\xe2\x80[\xa8\xa9]")


class _Described(NamedTuple):
    """A lookup layer of ``config.json``; ``path``: where its assets lie.

    ``elsewhere``: its words were in a file of the training machine.
    """

    path: str
    layer: LookupLayer
    elsewhere: bool


def recognise(source: Source) -> str | None:
    """A zip archive that begins with one of the parts of a Keras model."""
    if not source.head.startswith(MAGIC):
        return "does not begin as a zip archive"
    for found in re.finditer(re.escape(MAGIC), source.head):
        if source.head.startswith(PARTS, found.start() + MEMBER_NAME):
            return None
    return "a zip archive that does not begin with a Keras model's config.json"


def read(source: Source) -> ReadResult:
    """The vocabularies of all lookup layers, with the ids that they give.

    Raises :class:`InvalidFile` where the archive or its ``config.json`` is damaged, and
    :class:`UnsupportedFormat` where it is encrypted; what is wrong with one asset is a warning.
    """
    with ZipArchive(source.file) as archive:
        if CONFIG not in archive.names:
            raise InvalidFile("a zip archive without config.json: not a Keras model, or cut off")
        described = list(_described(parse(CONFIG, archive.read(CONFIG))))
        found = _Reading(archive, source.name, described)
        found.read_assets()
    found.read_configured()
    warnings = tuple(dict.fromkeys(found.warnings))
    return ReadResult((*found.vocabularies, *found.passed_over), warnings)


def _described(config: dict[str, Any]) -> Iterator[_Described]:
    """Each lookup layer of a model's configuration, in its order."""
    if not is_object(config):
        raise InvalidFile(f"{CONFIG} describes no model: wanted class_name and config in it")
    waiting: list[tuple[str, Any]] = [("", config)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict) and is_object(value):
            if value["class_name"] in MASK_AND_OOV:
                vocabulary = value["config"].get("vocabulary")
                layer = lookup_layer(path, value)
                yield _Described(path, layer, isinstance(vocabulary, str))
                continue
            value = value["config"]  # what the object is made of
        waiting += reversed(list(_children(path, value)))


def _children(path: str, value: dict[str, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    """What may hold layers, each with its path: by attribute, or by class where several are."""
    if isinstance(value, dict):
        for key, child in value.items():
            if is_container(child):
                yield _joined(path, key), child
        return
    counts: dict[str, int] = {}
    for child in value:
        if not is_container(child):
            continue
        name = "container"
        if isinstance(child, dict) and is_object(child):
            name = _snake_case(child["class_name"])
        number = counts[name] = counts.get(name, -1) + 1
        yield _joined(path, f"{name}_{number}" if number else name), child


def _joined(path: str, name: str) -> str:
    """A path below ``path``; one too long to be of a member is cut, and fits none."""
    return f"{path}/{name}"[:MAX_PATH].removeprefix("/")


def _snake_case(class_name: str) -> str:
    """``TextVectorization`` as Keras spells it in a path: ``text_vectorization``."""
    name = re.sub(r"\W+", "", class_name[:MAX_PATH])
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


class _Reading:
    """What one archive gives: first from the assets, then from the configuration."""

    def __init__(self, archive: ZipArchive, file: str, described: list[_Described]) -> None:
        self._archive = archive
        self._file = file
        self._described = described
        self._told: set[tuple[str, str]] = set()  # layers whose words were in an asset
        self.vocabularies: list[Vocabulary] = []
        self.passed_over: list[PassedOver] = []
        self.warnings: list[str] = []

    def read_assets(self) -> None:
        """Read each asset; a copy is one more place of the same vocabulary."""
        layers = {item.path: item.layer for item in self._described}
        known: dict[tuple[str, bytes], int] = {}
        for name in self._archive.names:
            if not name.startswith(ASSETS):
                continue
            shown = printable(name.encode("utf-8", "surrogateescape"))
            try:
                data = self._archive.read(name)
                with reading(shown):
                    _refuse_blank(data)
                    path = _layer_path(name)
                    if (path, data) in known:
                        self._add_place(known[path, data], shown)
                        continue
                    item = self._asset(shown, data, layers.get(path))
            except VocabtoolError as error:
                self.warnings.append(str(error))
                continue
            if isinstance(item, PassedOver):
                self.passed_over.append(item)
            else:
                known[path, data] = len(self.vocabularies)
                self.vocabularies.append(item)

    def _add_place(self, position: int, name: str) -> None:
        vocabulary = self.vocabularies[position]
        places = (*vocabulary.places, Place(self._file, name))
        self.vocabularies[position] = replace(vocabulary, places=places)

    def _asset(self, name: str, data: bytes, layer: LookupLayer | None) -> Vocabulary | PassedOver:
        place = Place(self._file, name)
        if layer is not None and layer.vocabulary is None and name.endswith(WORDS):
            self._told.add(layer.identity)
            return _of_layer(layer, _lines(layer, data), place, _break_notes(data))
        if not name.endswith(WORDS):
            return assets.classify_asset(PurePosixPath(name).name, place, data)
        return Vocabulary(
            name=PurePosixPath(_layer_path(name)).name,
            kind="asset",
            stored=text_file.read_lines(data),
            places=(place,),
            notes=(
                "no layer of config.json is described for this file: mask and unknown entries "
                "may be among the first",
            ),
        )

    def read_configured(self) -> None:
        """Add the lists in ``config.json``; say which layers have no words anywhere."""
        given = {d.layer.identity for d in self._described if d.layer.vocabulary is not None}
        for path, layer, elsewhere in self._described:
            place = Place(self._file, f"{CONFIG}: {printable(path.encode('utf-8', 'replace'))}")
            if layer.vocabulary is not None:
                stored = ByteStrings.of(layer.vocabulary)
                self.vocabularies.append(_of_layer(layer, stored, place))
            elif elsewhere:
                self.warnings.append(
                    f"layer {layer.name} ({layer.class_name}): its words are not in the archive, "
                    "which holds only the path of a vocabulary file; read that file instead"
                )
            elif layer.identity not in given | self._told:  # else one that two models share
                why = f"a {layer.class_name} without words: nothing was adapted or given to it"
                self.passed_over.append(PassedOver(layer.name, 0, place, why))


def _refuse_blank(data: bytes) -> None:
    """Raise :class:`InvalidFile` for mostly empty lines, each of which costs eight bytes."""
    if data.count(b"\n") > len(data) // 2 + 1:
        raise InvalidFile("most of its lines are empty: no vocabulary looks like that")


def _layer_path(name: str) -> str:
    """The path of the layer that saved ``assets/layers/string_lookup/vocabulary.txt``."""
    path = name.removeprefix(ASSETS).removesuffix(WORDS).removesuffix(INNER)
    return "/".join(LAYERS if part == OLD_LAYERS else part for part in path.split("/"))


def _lines(layer: LookupLayer, data: bytes) -> ByteStrings:
    """The entries of a ``vocabulary.txt`` without the layer's own, as Keras takes them."""
    lines = text_file.read_lines(data)
    count = len(lines)
    while count and lines.starts[count - 1] == lines.ends[count - 1]:
        count -= 1  # Keras drops empty lines at the end
    stored = ByteStrings(data, lines.starts[:count], lines.ends[:count])
    if layer.entry_type == "integer":
        stored = ByteStrings.of(b"%d" % number for number in text_file.integers(stored).tolist())
    own = leading_specials(layer, stored)
    return ByteStrings(stored.data, stored.starts[own:], stored.ends[own:])


def _break_notes(data: bytes) -> tuple[str, ...]:
    if MORE_BREAKS.search(data.replace(b"\r\n", b"\n")) is None:
        return ()
    return (
        "some entries hold characters at which Keras, when it loads the archive, breaks lines too: "
        "it then knows other entries than were saved",
    )


def _of_layer(
    layer: LookupLayer, stored: ByteStrings, place: Place, notes: tuple[str, ...] = ()
) -> Vocabulary:
    if layer.num_oov_indices > MAX_UNKNOWN:
        raise InvalidFile(
            f"layer {layer.name} has {layer.num_oov_indices:,} ids for unknown words, wanted "
            f"{MAX_UNKNOWN:,} at most"
        )
    return Vocabulary(
        name=layer.name,
        kind="table",
        stored=stored,
        first_id=layer.first_id,
        unknown=_unknown(layer),
        specials=tuple(_specials(layer)),
        places=(place,),
        entry_type=layer.entry_type,
        notes=(f"Keras' {layer.class_name}", *notes),
    )


def _unknown(layer: LookupLayer) -> Unknown | None:
    if layer.inverse or not layer.num_oov_indices:
        return None
    return Unknown(layer.first_oov_id, layer.num_oov_indices)


def _specials(layer: LookupLayer) -> Iterator[Special]:
    if layer.mask_token is not None:
        yield Special(0, str(layer.mask_token), "mask")
    if layer.oov_token is not None:
        for position in range(min(layer.num_oov_indices, MAX_SPECIALS)):
            yield Special(layer.first_oov_id + position, str(layer.oov_token), "unknown")


READER: Final = Reader("Keras archive", recognise, read)
