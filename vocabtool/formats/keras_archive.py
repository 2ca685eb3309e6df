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
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from vocabtool.errors import InvalidFile, reading
from vocabtool.formats import word_list
from vocabtool.formats.files import MAGIC, ZipArchive
from vocabtool.formats.keras_json import (
    MASK_AND_OOV,
    LookupLayer,
    is_object,
    leading_specials,
    lookup_layer,
    parse,
)
from vocabtool.formats.reader import Findings, PassedOver, Reader, ReadResult, Source
from vocabtool.formats.saved_model import table_contents
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
BROKEN: Final = (
    "some entries hold characters at which Keras, when it loads the archive, breaks lines too: it "
    "then knows other entries than were saved"
)
UNDESCRIBED: Final = (
    "no layer of config.json is described for this file: mask and unknown entries may be among the "
    "first"
)


@dataclass(frozen=True, slots=True)
class _Description:
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
    findings = Findings()
    with ZipArchive(source.file) as archive:
        if CONFIG not in archive.names:
            raise InvalidFile("a zip archive without config.json: not a Keras model, or cut off")
        described = list(_descriptions(parse(CONFIG, archive.read(CONFIG))))
        adapted = _read_assets(archive, source.name, described, findings)
    given = {item.layer.identity for item in described if item.layer.vocabulary is not None}
    for item in described:
        layer = item.layer
        path = printable(item.path.encode("utf-8", "replace"))
        place = Place(source.name, f"{CONFIG}: {path}")
        if layer.vocabulary is not None:
            findings.add(_vocabulary(layer, ByteStrings.of(layer.vocabulary), place))
        elif item.elsewhere:
            findings.warnings.append(
                f"layer {layer.name} ({layer.class_name}): its words are not in the archive, "
                "which holds only the path of a vocabulary file; read that file instead"
            )
        elif layer.identity not in given | adapted:  # else one that two models share
            why = f"a {layer.class_name} without words: nothing was adapted or given to it"
            findings.add(PassedOver(layer.name, 0, place, why))
    return ReadResult(tuple(findings.found), tuple(findings.warnings))


READER: Final = Reader("Keras archive", recognise, read)


def _descriptions(config: dict[str, Any]) -> Iterator[_Description]:
    if not is_object(config):
        raise InvalidFile(f"{CONFIG} describes no model: wanted class_name and config in it")
    waiting: list[tuple[str, Any]] = [("", config)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict) and is_object(value):
            if value["class_name"] in MASK_AND_OOV:
                elsewhere = isinstance(value["config"].get("vocabulary"), str)
                yield _Description(path, lookup_layer(path, value), elsewhere)
                continue
            value = value["config"]  # what the object is made of
        waiting += reversed(list(_children(path, value)))


def _children(path: str, value: dict[str, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    """What may hold layers, each with its path: by attribute, or by class where several are.

    A path too long to be of a member is cut, and fits none.
    """
    counts: dict[str, int] = {}
    for key, child in value.items() if isinstance(value, dict) else enumerate(value):
        if not isinstance(child, dict | list):
            continue
        name = key
        if isinstance(value, list):
            name = "container"
            if isinstance(child, dict) and is_object(child):
                name = _snake_case(child["class_name"])
            number = counts[name] = counts.get(name, -1) + 1
            name = f"{name}_{number}" if number else name
        yield f"{path}/{name}"[:MAX_PATH].removeprefix("/"), child


def _snake_case(class_name: str) -> str:
    """``TextVectorization`` as Keras spells it in a path: ``text_vectorization``."""
    name = re.sub(r"\W+", "", class_name[:MAX_PATH])
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


def _read_assets(
    archive: ZipArchive, file: str, described: list[_Description], findings: Findings
) -> set[tuple[str, str]]:
    """Read each asset; return which layers have their words in one."""
    layers = {item.path: item.layer for item in described}
    adapted: set[tuple[str, str]] = set()
    for name in archive.names:
        if not name.startswith(ASSETS):
            continue
        shown = printable(name.encode("utf-8", "surrogateescape"))
        place = Place(file, shown)
        with findings.warning():
            data = archive.read(name)
            with reading(shown):
                if data.count(b"\n") > len(data) // 2 + 1:  # each line costs eight bytes
                    raise InvalidFile("most of its lines are empty: no vocabulary looks like that")
                layer = layers.get(_layer_path(name))
                if not name.endswith(WORDS):
                    asset = PurePosixPath(shown).name
                    findings.add(table_contents.classify_asset(asset, place, data))
                elif layer is None or layer.vocabulary is not None:
                    own, stored = PurePosixPath(_layer_path(shown)).name, word_list.read_lines(data)
                    notes: tuple[str, ...] = (UNDESCRIBED,)
                    findings.add(Vocabulary(own, "asset", stored, places=(place,), notes=notes))
                else:
                    adapted.add(layer.identity)
                    odd = MORE_BREAKS.search(data.replace(b"\r\n", b"\n")) is not None
                    notes = (BROKEN,) if odd else ()
                    findings.add(_vocabulary(layer, _lines(layer, data), place, notes))
    return adapted


def _layer_path(name: str) -> str:
    """The path of the layer that saved ``assets/layers/string_lookup/vocabulary.txt``."""
    path = name.removeprefix(ASSETS).removesuffix(WORDS).removesuffix(INNER)
    return "/".join(LAYERS if part == OLD_LAYERS else part for part in path.split("/"))


def _lines(layer: LookupLayer, data: bytes) -> ByteStrings:
    """The entries of a ``vocabulary.txt`` without the layer's own, as Keras takes them."""
    lines = word_list.read_lines(data)
    count = len(lines)
    while count and lines.starts[count - 1] == lines.ends[count - 1]:
        count -= 1  # Keras drops empty lines at the end
    stored = ByteStrings(data, lines.starts[:count], lines.ends[:count])
    if layer.entry_type == "integer":
        stored = ByteStrings.of(b"%d" % number for number in word_list.integers(stored).tolist())
    own = leading_specials(layer, stored)
    return ByteStrings(stored.data, stored.starts[own:], stored.ends[own:])


def _vocabulary(
    layer: LookupLayer, stored: ByteStrings, place: Place, notes: tuple[str, ...] = ()
) -> Vocabulary:
    if layer.num_oov_indices > MAX_UNKNOWN:
        raise InvalidFile(
            f"layer {layer.name} has {layer.num_oov_indices:,} ids for unknown words, wanted "
            f"{MAX_UNKNOWN:,} at most"
        )
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
        notes=(f"Keras' {layer.class_name}", *notes),
    )
