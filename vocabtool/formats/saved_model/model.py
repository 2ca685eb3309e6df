"""A SavedModel or a frozen graph, read as a whole: graphs, checkpoint, assets, Keras' metadata.

Each part is read by a file of its own; here they meet. What cannot be read becomes a warning, so
that one damaged part does not hide the rest; only a broken ``saved_model.pb`` itself is an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vocabtool.errors import NotFound, VocabtoolError, reading
from vocabtool.formats.model import LEAST, Model, PassedOver, distinct
from vocabtool.formats.saved_model.assets import AssetFolder, read_file, read_unlinked
from vocabtool.formats.saved_model.constants import read_constants
from vocabtool.formats.saved_model.fills import Fill, read_fills
from vocabtool.formats.saved_model.graph_tokenizers import read_tokenizers
from vocabtool.formats.saved_model.linking import Linker, Table
from vocabtool.formats.saved_model.meta_graph import MetaGraph
from vocabtool.formats.saved_model.saved_tables import (
    needs_checkpoint,
    read_saved_tables,
    read_variables,
)
from vocabtool.formats.saved_model.tables import TableDescriber
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Vocabulary

if TYPE_CHECKING:
    from vocabtool.formats.keras_layers import LookupLayer
    from vocabtool.formats.saved_model.checkpoint import Checkpoint

KERAS_METADATA: Final = "keras_metadata.pb"
LEAST_OF_ALL: Final = 2


@dataclass
class _Findings:
    vocabularies: list[Vocabulary] = field(default_factory=list)
    passed_over: list[PassedOver] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, found: Iterable[Vocabulary | PassedOver]) -> None:
        for item in found:
            if isinstance(item, Vocabulary):
                self.vocabularies.append(item)
            else:
                self.passed_over.append(item)


def read_model(
    graphs: tuple[MetaGraph, ...], path: Path, kind: str, *, beside: Path, frozen: bool, small: bool
) -> Model:
    """Everything that the parts of a model hold.

    ``path``: what to call the model, and ``kind``: its format.
    ``beside``: the folder of the graph's file, where ``assets/`` and ``variables/`` are.
    ``frozen``: the graph stands for itself: of what lies beside, only assets that it names are
    read.
    ``small``: take constants of fewer than ten strings for vocabularies too.
    """
    found = _Findings()
    assets = AssetFolder(beside)
    folder = None if frozen else beside
    layers = _keras_layers(folder, found)
    for graph in graphs:
        linker = Linker(graph)
        checkpoint = _checkpoint(linker, folder, found)
        _read_graph(linker, checkpoint, assets, layers, found, LEAST_OF_ALL if small else LEAST)
    if folder is not None:
        found.vocabularies += _configured(layers)
        _read_unlinked_assets(assets, found)
    vocabularies = distinct(found.vocabularies)
    warnings = tuple(dict.fromkeys(found.warnings))
    return Model(str(path), kind, vocabularies, tuple(dict.fromkeys(found.passed_over)), warnings)


def _read_graph(
    linker: Linker,
    checkpoint: Checkpoint | None,
    assets: AssetFolder,
    layers: tuple[LookupLayer, ...],
    found: _Findings,
    least: int,
) -> None:
    describer = TableDescriber(linker, layers, found.warnings)
    fills = _fills(linker, checkpoint, assets, found)
    if checkpoint is not None:
        found.add(read_variables(checkpoint, found.warnings))
    filled = {constant for fill in fills for constant in fill.constants}
    found.add(vocabulary for _, vocabulary in _described(describer, fills, found))
    found.vocabularies += read_tokenizers(linker, found.warnings)
    found.add(
        read_constants(
            linker,
            filled,
            least=least,
            variables_read=checkpoint is not None,
            warnings=found.warnings,
        )
    )


def _fills(
    linker: Linker, checkpoint: Checkpoint | None, assets: AssetFolder, found: _Findings
) -> list[Fill]:
    """What fills the tables of one graph, from constants, files and the checkpoint."""
    fills = list(read_fills(linker, assets.read, found.warnings))
    if checkpoint is not None:
        for item in read_saved_tables(checkpoint, linker, found.warnings):
            if isinstance(item, Fill):
                fills.append(item)
            else:
                found.passed_over.append(item)
    return fills


def _described(
    describer: TableDescriber, fills: Iterable[Fill], found: _Findings
) -> Iterator[tuple[Table, Vocabulary]]:
    for fill in fills:
        for content in fill.contents:
            try:
                yield fill.table, describer.vocabulary(fill.table, content)
            except VocabtoolError as error:
                found.warnings.append(f"table {describer.label(fill.table)}: {error}")


def read_tables(linker: Linker, *, beside: Path, frozen: bool) -> dict[bytes, Vocabulary]:
    """The vocabulary of each table of one graph, by the table's key, as :func:`read_model` has it.

    What cannot be read is left out: :func:`read_model` says so.
    """
    found = _Findings()
    folder = None if frozen else beside
    layers = _keras_layers(folder, found)
    fills = _fills(linker, _checkpoint(linker, folder, found), AssetFolder(beside), found)
    describer = TableDescriber(linker, layers, found.warnings)
    return {table.key: vocabulary for table, vocabulary in _described(describer, fills, found)}


def _checkpoint(linker: Linker, folder: Path | None, found: _Findings) -> Checkpoint | None:
    """The checkpoint, opened only where the graph keeps words in it."""
    if not needs_checkpoint(linker):
        return None
    from vocabtool.formats.saved_model.checkpoint import Checkpoint

    try:
        if folder is None:
            raise NotFound("a frozen graph has no checkpoint")
        return Checkpoint.open(folder / "variables" / "variables")
    except VocabtoolError as error:
        found.warnings.append(f"words in variables or growing tables are not read: {error}")
        return None


def _keras_layers(folder: Path | None, found: _Findings) -> tuple[LookupLayer, ...]:
    path = folder / KERAS_METADATA if folder else None
    if path is None or not os.path.lexists(path):
        return ()
    from vocabtool.formats.saved_model import keras_metadata

    try:
        with reading(KERAS_METADATA):
            return keras_metadata.read(read_file(path, KERAS_METADATA))
    except VocabtoolError as error:
        found.warnings.append(str(error))
        return ()


def _configured(layers: tuple[LookupLayer, ...]) -> Iterator[Vocabulary]:
    """The lists that layers were given when they were made; adapted ones are not in the file."""
    for layer in layers:
        if layer.vocabulary:
            yield Vocabulary(
                name=layer.name,
                kind="config",
                stored=ByteStrings.of(layer.vocabulary),
                entry_type=layer.entry_type,
                places=(Place(KERAS_METADATA, layer.path),),
            )


def _read_unlinked_assets(assets: AssetFolder, found: _Findings) -> None:
    try:
        paths = list(assets.unread())
    except VocabtoolError as error:
        found.warnings.append(str(error))
        return
    for path in paths:
        try:
            found.add([read_unlinked(path)])
        except VocabtoolError as error:
            found.warnings.append(str(error))
