"""Open the graph file of a SavedModel or a frozen graph, and read all parts of the model.

``read_model`` combines the parts: graphs, checkpoint, assets, Keras metadata. A part that cannot be
read becomes a warning, so that the other parts are read nevertheless. Only a damaged graph file is
an error.
"""

from __future__ import annotations

import mmap
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vocabtool.errors import (
    GIT_LFS,
    InvalidFile,
    NotFound,
    UnknownFormat,
    UnsupportedFormat,
    reading,
)
from vocabtool.formats import files, wire
from vocabtool.formats.reader import Findings, Reader, Source
from vocabtool.formats.saved_model.contents import (
    GROWING,
    AssetFolder,
    read_asset,
    read_constants,
    read_contents,
    read_saved_contents,
    read_variables,
)
from vocabtool.formats.saved_model.graph import (
    DT_INT8,
    DT_STRING,
    DT_UINT8,
    PHRASE_OP,
    PIECE_OP,
    STRING_TYPE,
    TABLE_OP,
    Body,
    Node,
)
from vocabtool.formats.saved_model.meta_graph import (
    TABLES,
    Linker,
    MetaGraph,
    read_frozen_graph,
    read_saved_model,
)
from vocabtool.formats.saved_model.tables import TableDescriber
from vocabtool.formats.sentencepiece import KINDS, SENTENCEPIECE, pieces_of
from vocabtool.formats.wire import LEN
from vocabtool.formats.word_list import MAX_FILE
from vocabtool.vocabulary import Vocabulary, is_utf8, printable

if TYPE_CHECKING:
    from vocabtool.formats.keras import LookupLayer
    from vocabtool.formats.saved_model.checkpoint import Checkpoint

HEAD: Final = 4096
SPACY: Final = "vocab/strings.json"

SCHEMA_VERSION: Final = b"\x08\x01"  # SavedModel {1: version 1, 2: MetaGraphDef}
META_GRAPH: Final = b"\x12"  # ... without a version
NODE: Final = b"\x0a"  # GraphDef {1: NodeDef {1: name, 2: op}}
OP_NAME: Final = re.compile(rb"[\w.>]+")

# Text format escapes control characters; every binary graph has some at its beginning.
CONTROLS: Final = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")

# Beginning of a SavedModel or GraphDef in text format, after white space and comments.
TEXT_PROTO: Final = re.compile(
    rb"(?:\s|#[^\n]*\n)*"
    rb"(?:(saved_model_schema_version|meta_graphs)|node|library|versions?)\s*(?:[:{<]|$)"
)
CHUNKED: Final = ".cpb"
RIEGELI: Final = b"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f"
# Files passed by mistake: their first bytes, and a message that says what to do.
REFUSED: Final[dict[bytes, str]] = {
    b"PK\x03\x04": "a zip archive, but not a .keras file. "
    "Unpack it and pass the folder that contains the model.",
    b"\x1f\x8b": "a gzip archive. Unpack it with `gunzip FILE`, or a .tar.gz with "
    "`mkdir model && tar xzf FILE -C model`, and pass the unpacked file or folder.",
    RIEGELI: "a chunked SavedModel (saved_model.cpb, Riegeli records), not supported. "
    "Save the model again in less than 2 GB, with large weights as variables.",
}
VARIABLES: Final = frozenset((b"VarHandleOp", b"VariableV2", b"Variable"))
UNREADABLE: Final = (GIT_LFS[0], RIEGELI)  # no other reader accepts these


@dataclass(frozen=True, slots=True)
class GraphFile:
    """The open graphs of a model. ``path``: model or cache folder. ``file``: of the graphs."""

    path: Path
    file: Path
    graphs: tuple[MetaGraph, ...]
    frozen: bool  # a bare GraphDef, without checkpoint and metadata


def open_graphs(model: str | Path) -> GraphFile:
    """Open the graphs of a folder, a file or a TensorFlow Hub handle."""
    with reading(str(model)):
        path = files.find_model(model)
        file = files.graphs_file_in(path) if path.is_dir() else path
        if file is None:
            raise no_model_in(path)
    with reading(str(file)):
        if not file.is_file():
            raise NotFound(f"{path}: neither a file nor a folder; wanted a model's folder or file")
        with file.open("rb") as opened:
            head = opened.read(HEAD)
            _refuse_other(file, head)
            buffer = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            graphs = read_saved_model(buffer, file.name)
            return GraphFile(path, file, graphs, frozen=False)
        except InvalidFile as error:
            if head.startswith((SCHEMA_VERSION, META_GRAPH)):
                raise
            not_saved_model = f"SavedModel: {error}"
        try:
            graphs = read_frozen_graph(buffer, file.name)
            return GraphFile(path, file, graphs, frozen=True)
        except InvalidFile as error:
            if _begins_with_node(head):
                raise
            raise UnknownFormat(
                f"{file}: not a model that vocabtool reads; it begins {head[:12].hex(' ')}",
                (not_saved_model, f"frozen GraphDef: {error}"),
            ) from error


def no_model_in(folder: Path, tried: tuple[str, ...] = ()) -> UnknownFormat:
    """Make the error for a folder without a model. ``tried``: the problems with its files."""
    below = sorted(
        str(path.parent)
        for name in (*files.SAVED_MODELS, SPACY)
        for pattern in (f"*/{name}", f"*/*/{name}")
        for path in folder.glob(pattern)
    )
    if below:
        what = f"{folder}: contains models in subfolders. Pass one of them:"
        return UnknownFormat(what, files.first_few(below))
    names = sorted(path.name for path in folder.iterdir())
    if not names:
        return UnknownFormat(f"{folder}: an empty folder; wanted one with a saved_model.pb")
    listed = ", ".join(files.first_few(names))
    return UnknownFormat(
        f"{folder}: no saved_model.pb and no vocabulary in it; it contains {listed}. "
        "Pass the folder of a SavedModel or of a tokenizer, or a frozen graph's file itself.",
        files.first_few(tried),
    )


def why_no_graphs(source: Source) -> str | None:
    """Return ``None`` also for a file that :func:`open_graphs` rejects with a helpful message."""
    head = source.head[:HEAD]
    if not head or source.file.suffix == CHUNKED or head.startswith(UNREADABLE):
        return None
    if _is_text(head):
        begins = TEXT_PROTO.match(head) is not None
    else:
        begins = head.startswith((SCHEMA_VERSION, META_GRAPH)) or _begins_with_node(head)
    return None if begins else "does not begin like a graph"


def _is_text(head: bytes) -> bool:
    return not CONTROLS.search(head) and is_utf8(head, cut=len(head) == HEAD)


def _refuse_other(file: Path, head: bytes) -> None:
    """Raise an error if ``head``, the first bytes, shows that the file is no binary graph."""
    if file.suffix == CHUNKED:  # TensorFlow, too, decides by the suffix
        head = RIEGELI
    if not head:
        raise InvalidFile("an empty file; wanted a model or a vocabulary")
    magic, what, instead = GIT_LFS
    if head.startswith(magic):
        raise UnknownFormat(f"{file}: {what}. {instead}")
    for magic, what in REFUSED.items():
        if head.startswith(magic):
            raise UnsupportedFormat(what)
    if not _is_text(head):
        return
    proto = TEXT_PROTO.match(head)
    if proto is None:
        what = f"a text file, not a model; it begins '{printable(head[:40])}'. Wanted a SavedModel,"
        raise UnknownFormat(f"{file}: {what} a frozen graph or a vocabulary file")
    message = "GraphDef" if proto[1] is None else "SavedModel"
    parse = "parse it with google.protobuf.text_format"
    write = f"write its SerializeToString() to {file.with_suffix('.pb').name}"
    raise UnsupportedFormat(f"a {message} in protobuf's text format: {parse}, and {write}")


def _begins_with_node(head: bytes) -> bool:
    if not head.startswith(NODE):
        return False
    # Other protobufs have the same first byte. The node may be cut off, but its name and op come
    # first.
    try:
        length, start = wire.varint(head, 1, len(head))
        behind = min(start + length, len(head))
        for number, wire_type, begin, end in wire.fields(head, start, behind):
            if number == 2:
                return wire_type == LEN and OP_NAME.fullmatch(head[begin:end]) is not None
    except InvalidFile:
        pass  # cut off before the op
    return False


KERAS: Final = "keras_metadata.pb"
PHRASES: Final = "a PhraseTokenizer, whose words are not read"
GraphTables = tuple[Linker, dict[bytes, Vocabulary]]  # the vocabularies by table key


def read_model(opened: GraphFile) -> tuple[Findings, list[GraphTables]]:
    """Read all parts of a model; for a frozen graph, only the assets that the graph names."""
    findings, folder = Findings(), opened.file.parent
    assets = AssetFolder(folder / "assets")
    layers: tuple[LookupLayer, ...] = ()
    if not opened.frozen and os.path.lexists(folder / KERAS):
        with findings.warning(), reading(KERAS):
            from vocabtool.formats.keras import read_metadata  # needed by few models

            layers = read_metadata(files.read_linkless(folder / KERAS, KERAS, MAX_FILE))
    graphs = []
    for graph in opened.graphs:
        linker = Linker(graph)
        checkpoint = _checkpoint(linker, opened, findings)
        describer = TableDescriber(linker, layers, findings)
        contents = list(read_contents(linker, assets, findings))
        if checkpoint is not None:
            contents += read_saved_contents(checkpoint, linker, findings)
            read_variables(checkpoint, findings)
        tables = list(describer.vocabularies(contents, findings))
        graphs.append((linker, {table.key: vocabulary for table, vocabulary in tables}))
        findings.lists += (vocabulary for _, vocabulary in tables)
        pieces_of_model: dict[bytes, Vocabulary] = {}
        for body in graph.bodies:
            for node in body.nodes_with(PIECE_OP):
                if node.op in KINDS:
                    with findings.warning(f"tokenizer {graph.place(body, node.name).place}"):
                        tokenizer = read_tokenizer(linker, body, node, pieces_of_model)
                        findings.lists.append(tokenizer)
            for node in body.nodes_with(PHRASE_OP):
                if node.op.endswith(PHRASE_OP):
                    where = graph.place(body, node.name).place
                    findings.warnings.append(f"tokenizer {where}: {PHRASES}")
        in_tables = {constant for content in contents for constant in content.constants}
        read_constants(linker, in_tables, findings, variables_read=checkpoint is not None)
    if not opened.frozen:
        with findings.warning():
            for path in list(assets.unread()):
                with findings.warning():
                    findings.lists.append(read_asset(path))
    findings.format = "GraphDef" if opened.frozen else "SavedModel"
    return findings, graphs


def read_tokenizer(
    linker: Linker, body: Body, node: Node, pieces_of_model: dict[bytes, Vocabulary]
) -> Vocabulary:
    """Return the vocabulary of one tokenizer op; add that of a new model to ``pieces_of_model``."""
    if node.op == SENTENCEPIECE:
        data = node.bytes_of(b"model")
        if not data:
            raise InvalidFile("the tokenizer's model is not in the graph: words not read")
    else:
        data = buffer_of(linker, body, node)
    if data not in pieces_of_model:
        pieces_of_model[data] = pieces_of(node.op, data)
    # The op's scope is the name of the tokenizer.
    name = printable(node.name).rpartition("/")[0] or printable(node.name)
    place = linker.graph.place(body, node.name)
    return replace(pieces_of_model[data], name=name, places=(place,))


def buffer_of(linker: Linker, body: Body, node: Node) -> bytes:
    """Return the bytes of the constant that is the model of a tokenizer op."""
    for reference in node.data_inputs:
        origin = linker.origin(body, reference)
        tensor = origin.node.tensor_of(b"value") if origin and origin.node else None
        if tensor is not None and tensor.dtype in (DT_UINT8, DT_INT8):
            return tensor.raw_bytes()
    raise InvalidFile("the tokenizer's model is not a constant: words not read")


def _checkpoint(linker: Linker, opened: GraphFile, findings: Findings) -> Checkpoint | None:
    """Open the checkpoint if the graph has variables or tables whose words only it contains."""
    if not any(
        (node.op in TABLES and GROWING in node.op)
        or (node.op in VARIABLES and node.integer_of(b"dtype") == DT_STRING)
        for body in linker.graph.bodies
        for node in (*body.nodes_with(TABLE_OP), *body.nodes_with(STRING_TYPE))
    ):
        return None
    with findings.warning("words in variables or mutable tables are not read"):
        if opened.frozen:
            raise NotFound("a frozen graph has no checkpoint")
        from vocabtool.formats.saved_model.checkpoint import Checkpoint  # needed by few models

        return Checkpoint.open(opened.file.parent / "variables" / "variables")
    return None


def read(path: Path) -> Findings:
    opened = open_graphs(path)
    with reading(str(opened.file)):
        return read_model(opened)[0]


GRAPH_FILE: Final = Reader("graph", why_no_graphs, lambda source: read(source.file))
# Accepts every file: the last reader, for graphs that cannot be recognised by their first bytes.
OTHER_GRAPH: Final = Reader("graph with unusual first bytes", lambda _: None, GRAPH_FILE.read)
