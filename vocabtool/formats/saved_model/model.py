"""A SavedModel or a frozen graph, read as a whole: graphs, checkpoint, assets, Keras' metadata.

Each part is read by a file of its own; here they meet. What cannot be read becomes a warning, so
that one damaged part does not hide the rest; only a broken ``saved_model.pb`` itself is an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from vocabtool.errors import NotFound, VocabtoolError, reading
from vocabtool.formats.model import Finding
from vocabtool.formats.reader import Reader, ReadResult, Source
from vocabtool.formats.saved_model.assets import AssetFolder, read_file, read_unlinked
from vocabtool.formats.saved_model.constants import read_constants
from vocabtool.formats.saved_model.fills import Fill, read_fills
from vocabtool.formats.saved_model.graph_files import (
    Opened,
    graphs_file_in,
    no_model_in,
    read_graphs,
    why_no_graphs,
)
from vocabtool.formats.saved_model.graph_tokenizers import read_tokenizers
from vocabtool.formats.saved_model.linking import Linker, Table
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


@dataclass
class _Findings:
    findings: list[Finding] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read_model(opened: Opened) -> ReadResult:
    """Everything that the parts of a model hold.

    A frozen graph stands for itself: of what lies beside it, only assets that it names are read.
    """
    found = _Findings()
    assets = AssetFolder(opened.file.parent)
    layers = _keras_layers(opened, found)
    for graph in opened.graphs:
        linker = Linker(graph)
        _read_graph(linker, _checkpoint(linker, opened, found), assets, layers, found)
    if not opened.frozen:
        found.findings += _configured(layers)
        _read_unlinked_assets(assets, found)
    return ReadResult(tuple(found.findings), tuple(found.warnings), opened.format)


def _read_graph(
    linker: Linker,
    checkpoint: Checkpoint | None,
    assets: AssetFolder,
    layers: tuple[LookupLayer, ...],
    found: _Findings,
) -> None:
    describer = TableDescriber(linker, layers, found.warnings)
    fills = _fills(linker, checkpoint, assets, found)
    if checkpoint is not None:
        found.findings += read_variables(checkpoint, found.warnings)
    filled = {constant for fill in fills for constant in fill.constants}
    found.findings += (vocabulary for _, vocabulary in _described(describer, fills, found))
    found.findings += read_tokenizers(linker, found.warnings)
    found.findings += read_constants(
        linker, filled, variables_read=checkpoint is not None, warnings=found.warnings
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
                found.findings.append(item)
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


def read_tables(linker: Linker, opened: Opened) -> dict[bytes, Vocabulary]:
    """The vocabulary of each table of one graph, by the table's key, as :func:`read_model` has it.

    What cannot be read is left out: :func:`read_model` says so.
    """
    found = _Findings()
    layers = _keras_layers(opened, found)
    checkpoint = _checkpoint(linker, opened, found)
    fills = _fills(linker, checkpoint, AssetFolder(opened.file.parent), found)
    describer = TableDescriber(linker, layers, found.warnings)
    return {table.key: vocabulary for table, vocabulary in _described(describer, fills, found)}


def _checkpoint(linker: Linker, opened: Opened, found: _Findings) -> Checkpoint | None:
    """The checkpoint, opened only where the graph keeps words in it."""
    if not needs_checkpoint(linker):
        return None
    from vocabtool.formats.saved_model.checkpoint import Checkpoint

    try:
        if opened.frozen:
            raise NotFound("a frozen graph has no checkpoint")
        return Checkpoint.open(opened.file.parent / "variables" / "variables")
    except VocabtoolError as error:
        found.warnings.append(f"words in variables or growing tables are not read: {error}")
        return None


def _keras_layers(opened: Opened, found: _Findings) -> tuple[LookupLayer, ...]:
    path = opened.file.parent / KERAS_METADATA
    if opened.frozen or not os.path.lexists(path):
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
            found.findings.append(read_unlinked(path))
        except VocabtoolError as error:
            found.warnings.append(str(error))


def _why_no_folder(source: Source) -> str | None:
    folder = source.file.is_dir() and graphs_file_in(source.file) is not None
    return None if folder else "no folder with a saved_model.pb"


def _read_folder(source: Source) -> ReadResult:
    file = graphs_file_in(source.file)
    if file is None:
        raise no_model_in(source.file)
    return _read_opened(read_graphs(source.file, file))


def _read_file(source: Source) -> ReadResult:
    return _read_opened(read_graphs(source.file, source.file))


def _read_opened(opened: Opened) -> ReadResult:
    with reading(str(opened.file)):
        return read_model(opened)


GRAPH_FOLDER: Final = Reader("SavedModel", _why_no_folder, _read_folder)
GRAPH_FILE: Final = Reader("graph", why_no_graphs, _read_file)
# Graphs whose first bytes tell nothing: asked last of all readers, and tried on whatever is left.
OTHER_GRAPH: Final = Reader("graph that begins otherwise", lambda _: None, _read_file)
