"""A SavedModel or a frozen graph, read as a whole: graphs, checkpoint, assets, Keras' metadata.

Each part is read by a file of its own; here they meet. What cannot be read becomes a warning, so
that one damaged part does not hide the rest; only a broken ``saved_model.pb`` itself is an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from vocabtool.errors import NotFound, reading
from vocabtool.formats.reader import Findings, Reader, ReadResult, Source
from vocabtool.formats.saved_model.assets import AssetFolder, read_asset, read_file
from vocabtool.formats.saved_model.constants import read_constants, read_variables
from vocabtool.formats.saved_model.graph_files import (
    GraphFile,
    graphs_file_in,
    no_model_in,
    read_graphs,
    why_no_graphs,
)
from vocabtool.formats.saved_model.linker import Linker, Table
from vocabtool.formats.saved_model.table_contents import (
    TableContents,
    needs_checkpoint,
    read_contents,
    read_saved_contents,
)
from vocabtool.formats.saved_model.tables import TableDescriber
from vocabtool.formats.saved_model.tokenizers import read_tokenizers
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Vocabulary

if TYPE_CHECKING:
    from vocabtool.formats.keras_layers import LookupLayer
    from vocabtool.formats.saved_model.checkpoint import Checkpoint

KERAS: Final = "keras_metadata.pb"


def read_model(opened: GraphFile) -> ReadResult:
    """Everything that the parts of a model hold, lists of few strings too.

    Of what lies beside a frozen graph, only assets that it names are read.
    """
    findings = Findings()
    assets = AssetFolder(opened.folder)
    layers = _keras_layers(opened, findings)
    for graph in opened.graphs:
        linker = Linker(graph)
        checkpoint = _checkpoint(linker, opened, findings)
        describer = TableDescriber(linker, layers, findings)
        contents = _table_contents(linker, checkpoint, assets, findings)
        if checkpoint is not None:
            read_variables(checkpoint, findings)
        for _, vocabulary in _tables(describer, contents, findings):
            findings.add(vocabulary)
        read_tokenizers(linker, findings)
        filling = {constant for content in contents for constant in content.constants}
        read_constants(linker, filling, findings, variables_read=checkpoint is not None)
    if not opened.frozen:
        for layer in layers:
            if layer.vocabulary:  # given to the constructor: what was adapted is in no file
                vocabulary = Vocabulary(
                    name=layer.name,
                    kind="config",
                    stored=ByteStrings.of(layer.vocabulary),
                    entry_type=layer.entry_type,
                    places=(Place(KERAS, layer.path),),
                )
                findings.add(vocabulary)
        with findings.warning():
            for path in list(assets.unread()):
                with findings.warning():
                    findings.add(read_asset(path))
    return ReadResult(tuple(findings.found), tuple(findings.warnings), opened.format)


def read_tables(linker: Linker, opened: GraphFile) -> dict[bytes, Vocabulary]:
    """The vocabulary of each table of one graph, by the table's key, as :func:`read_model` has it.

    What cannot be read is left out: :func:`read_model` says so.
    """
    unsaid = Findings()
    checkpoint = _checkpoint(linker, opened, unsaid)
    describer = TableDescriber(linker, _keras_layers(opened, unsaid), unsaid)
    contents = _table_contents(linker, checkpoint, AssetFolder(opened.folder), unsaid)
    return {table.key: vocabulary for table, vocabulary in _tables(describer, contents, unsaid)}


def _table_contents(
    linker: Linker, checkpoint: Checkpoint | None, assets: AssetFolder, findings: Findings
) -> list[TableContents]:
    """What fills the tables of one graph, from constants, files and the checkpoint."""
    contents = list(read_contents(linker, assets, findings))
    if checkpoint is not None:
        contents += read_saved_contents(checkpoint, linker, findings)
    return contents


def _tables(
    describer: TableDescriber, contents: list[TableContents], findings: Findings
) -> Iterator[tuple[Table, Vocabulary]]:
    for content in contents:
        with findings.warning(f"table {describer.label(content.table)}"):
            yield content.table, describer.vocabulary(content)


def _checkpoint(linker: Linker, opened: GraphFile, findings: Findings) -> Checkpoint | None:
    """The checkpoint, opened only where the graph keeps words in it."""
    if not needs_checkpoint(linker):
        return None
    from vocabtool.formats.saved_model.checkpoint import Checkpoint

    with findings.warning("words in variables or growing tables are not read"):
        if opened.frozen:
            raise NotFound("a frozen graph has no checkpoint")
        return Checkpoint.open(opened.folder / "variables" / "variables")
    return None


def _keras_layers(opened: GraphFile, findings: Findings) -> tuple[LookupLayer, ...]:
    path = opened.folder / KERAS
    if opened.frozen or not os.path.lexists(path):
        return ()
    from vocabtool.formats.saved_model import keras_metadata

    with findings.warning(), reading(KERAS):
        return keras_metadata.read(read_file(path, KERAS))
    return ()


def _why_no_folder(source: Source) -> str | None:
    folder = source.file.is_dir() and graphs_file_in(source.file) is not None
    return None if folder else "no folder with a saved_model.pb"


def _read(source: Source) -> ReadResult:
    """Read a folder that holds a file of graphs, or such a file."""
    file = graphs_file_in(source.file) if source.file.is_dir() else source.file
    if file is None:
        raise no_model_in(source.file)
    opened = read_graphs(source.file, file)
    with reading(str(opened.file)):
        return read_model(opened)


GRAPH_FOLDER: Final = Reader("SavedModel", _why_no_folder, _read)
GRAPH_FILE: Final = Reader("graph", why_no_graphs, _read)
# Graphs whose first bytes tell nothing: asked last of all readers, and tried on whatever is left.
OTHER_GRAPH: Final = Reader("graph that begins otherwise", lambda _: None, _read)
