"""Open the graph file of a SavedModel or a frozen graph, and read all parts of the model.

``read_model`` combines the parts: tables, tokenizers, constants, checkpoint, assets and metadata.
A part that cannot be read becomes a warning, so that the other parts are read nevertheless. Only a
damaged graph file is an error.

A constant outside tables is followed through copies, calls and captures to the ops that use it. The
constant is skipped if these ops only save, restore, assert, parse examples or initialise a variable
(see ``NOT_VOCABULARY``).
"""

from __future__ import annotations

import mmap
import os
import re
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from vocabtool.errors import (
    GIT_LFS,
    InvalidFile,
    NotFound,
    UnknownFormat,
    UnsupportedFormat,
    reading,
)
from vocabtool.formats import files, wire, word_list
from vocabtool.formats.reader import TOO_FEW, Findings, PassedOver, Reader, Source
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
    COPIES,
    TABLES,
    Linker,
    MetaGraph,
    read_frozen_graph,
    read_saved_model,
)
from vocabtool.formats.saved_model.tables import (
    CHECKPOINT_INDEX,
    GROWING,
    KEYS,
    VALUES,
    AssetFolder,
    Layers,
    TableDescriber,
    read_contents,
    read_saved_contents,
)
from vocabtool.formats.sentencepiece import KINDS, SENTENCEPIECE, pieces_of
from vocabtool.formats.wire import LEN
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Vocabulary, is_utf8, printable

if TYPE_CHECKING:
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
        if not file.is_file():  # a pipe would wait
            raise NotFound(f"{file}: neither a file nor a folder; wanted a model's folder or file")
        with file.open("rb") as opened:
            head = opened.read(HEAD)
            _refuse_other(file, head)
            buffer = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            return GraphFile(path, file, read_saved_model(buffer, file.name), frozen=False)
        except InvalidFile as error:
            if head.startswith((SCHEMA_VERSION, META_GRAPH)):
                raise
            not_saved_model = f"SavedModel: {error}"
        try:
            return GraphFile(path, file, read_frozen_graph(buffer, file.name), frozen=True)
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


# Constants and variables outside lookup tables.

MAX_USES: Final = 500  # tensors followed from one constant
MIN_STRINGS: Final = 2  # a single string is not a list

ASSIGNMENTS: Final = b"Assign AssignVariableOp InitializeVariable"
# Ops whose string inputs are not a vocabulary, and what these strings are.
NOT_VOCABULARY: Final[dict[bytes, str]] = {
    op: strings
    for ops, strings in (
        (
            b"Save SaveV2 SaveSlices Restore RestoreV2 RestoreSlice",
            "tensor names for saving and restoring",
        ),
        (b"MergeV2Checkpoints ShardedFilename ShardedFilespec", "names of checkpoints"),
        (b"Assert Print PrintV2 StringFormat", "messages"),
        (
            b"ParseExample ParseExampleV2 ParseExampleDataset ParseExampleDatasetV2 "
            b"ParseSingleExample ParseSequenceExample ParseSequenceExampleV2 "
            b"ParseSingleSequenceExample DecodeCSV DecodeProtoV2",
            "feature names of an example parser",
        ),
        (b"LookupTableFind LookupTableFindV2", "words to look up"),
        (b"RegexReplace RegexFullMatch RegexSplitWithOffsets", "regular expressions"),
        (ASSIGNMENTS, "initial value of a variable, whose saved value is in the checkpoint"),
    )
    for op in ops.split()
}
IN_ROWS: Final = "strings in several dimensions; a vocabulary has only one"
VARIABLE_ATTRIBUTE: Final = b"/.ATTRIBUTES/VARIABLE_VALUE"
# Metadata that TensorFlow and Keras save as string variables.
BOOKKEEPING: Final = (b"_CHECKPOINTABLE_OBJECT_GRAPH", b"/.ATTRIBUTES/OBJECT_CONFIG_JSON")


def read_constants(
    linker: Linker, in_tables: set[tuple[bytes, bytes]], findings: Findings, *, variables_read: bool
) -> None:
    """Add each constant that is a list of strings to ``findings``, except those ``in_tables``.

    ``in_tables``: (body name, node name) pairs. ``variables_read``: if string variables were read,
    their initial values are added as skipped lists.
    """
    for body in linker.graph.bodies:
        for node in body.nodes_with(STRING_TYPE):
            tensor = node.constant()
            if tensor is None or tensor.dtype != DT_STRING or not tensor.shape:
                continue  # a scalar is not a list
            if (body.name, node.name) in in_tables:
                continue
            name, place = printable(node.name), linker.graph.place(body, node.name)
            with findings.warning(f"constant {place.place}"):
                size = tensor.elements
                use, why_not = _use(linker, body, node.name, variables_read)
                if why_not is None and _in_rows(tensor.shape):
                    why_not = IN_ROWS
                if why_not is None and size < MIN_STRINGS:
                    why_not = TOO_FEW
                if why_not is not None:
                    findings.lists.append(PassedOver(name, size, place, why_not))
                    continue
                entries = tensor.strings()
                stored = unwrap(entries)
                notes = [f"used by {printable(use)}" if use else "nothing in the graph uses it"]
                if stored is not entries:
                    notes.append("each entry was unwrapped from a protobuf message")
                findings.lists.append(
                    Vocabulary(name, "constant", stored, places=(place,), notes=tuple(notes))
                )


def read_variables(checkpoint: Checkpoint, findings: Findings) -> None:
    for key, entry in checkpoint.entries.items():
        if entry.dtype != DT_STRING or key.endswith((KEYS, VALUES)) or key.startswith(b"\0"):
            continue
        name = printable(key.removesuffix(VARIABLE_ATTRIBUTE))
        place = Place(CHECKPOINT_INDEX, printable(key))
        if key.endswith(BOOKKEEPING) or not entry.shape:
            why_not = "a single string, or metadata of TensorFlow"
            findings.lists.append(PassedOver(name, entry.elements, place, why_not))
        elif _in_rows(entry.shape):
            findings.lists.append(PassedOver(name, entry.elements, place, IN_ROWS))
        else:
            with findings.warning(f"variable {name}"):
                stored = unwrap(checkpoint.strings(key))
                findings.lists.append(Vocabulary(name, "variable", stored, places=(place,)))


def _in_rows(shape: tuple[int, ...]) -> bool:
    """Return whether more than one dimension has a length above 1."""
    return sum(length > 1 for length in shape) > 1


def _use(
    linker: Linker, body: Body, name: bytes, variables_read: bool
) -> tuple[bytes | None, str | None]:
    """Follow a constant to the ops that use it; stop at one that may use it as a vocabulary.

    Returns this op or ``None``, and why it is no vocabulary or ``None``; both ``None`` if unused.
    """
    why_not = None
    waiting = deque([(body, name)])
    if body is linker.graph.main:
        waiting.extend(linker.captors.get(name, ()))
    seen: set[tuple[bytes, bytes]] = set()
    while waiting and len(seen) < MAX_USES:
        here, output = waiting.popleft()
        if (here.name, output) in seen:
            continue
        seen.add((here.name, output))
        if any(returned.name == output for returned in here.returns):
            waiting.extend((caller, node.name) for caller, node in linker.callers(here.name))
        for node, position in here.consumers(output):
            if node.op in COPIES:
                waiting.append((here, node.name))
                continue
            # Arguments match the last inputs: the first one of a branch is its condition.
            from_end = len(node.data_inputs) - position
            names = sorted(node.called_functions() & linker.graph.functions.keys())
            called = [linker.graph.functions[name] for name in names]
            called = [function for function in called if from_end <= len(function.arguments)]
            if called:
                waiting.extend((function, function.arguments[-from_end]) for function in called)
            elif node.op not in NOT_VOCABULARY or (node.op in ASSIGNMENTS and not variables_read):
                return node.op, None  # it may use the constant as a vocabulary
            else:
                why_not = NOT_VOCABULARY[node.op]
    return None, why_not


def unwrap(entries: ByteStrings) -> ByteStrings:
    """Return the string in each entry, if every entry is a protobuf message {1: string}.

    A score (field 2, five bytes with its tag) and a type (field 3, two bytes) may follow the
    string. Universal Sentence Encoder Lite stores its SentencePiece pieces as such messages. If any
    entry is not such a message, all entries are returned unchanged.
    """
    if len(entries) < 2 or int(entries.lengths.min()) < 2:
        return entries
    data = np.frombuffer(entries.data, np.uint8)
    tags = entries.starts.astype(np.int64)  # positions of the tags of field 1
    if bool((np.diff(tags) <= 0).any()) or bool((data[tags] != 0x0A).any()):
        return entries
    lengths, starts = wire.lengths_at(data, tags + 1)
    ends = starts + lengths
    # The number of bytes behind the string, less those of a score and of a type.
    rest = entries.ends - ends
    rest -= np.where((rest >= 5) & (data.take(ends, mode="clip") == 0x15), 5, 0)
    rest -= np.where((rest == 2) & (data.take(entries.ends - 2, mode="clip") == 0x18), 2, 0)
    return entries if bool(rest.any()) else ByteStrings(entries.data, starts, ends)


KERAS: Final = "keras_metadata.pb"
PHRASES: Final = "a PhraseTokenizer, whose words are not read"
GraphTables = tuple[Linker, dict[bytes, Vocabulary]]  # the vocabularies by table key


def read_model(opened: GraphFile) -> tuple[Findings, list[GraphTables]]:
    """Read all parts of a model; for a frozen graph, only the assets that the graph names."""
    findings, folder = Findings(), opened.file.parent
    assets = AssetFolder(folder / "assets")
    layers: Layers = {}
    if not opened.frozen and os.path.lexists(folder / KERAS):
        with findings.warning(), reading(KERAS):
            from vocabtool.formats.keras import read_metadata  # needed by few models

            layers = read_metadata(files.read_linkless(folder / KERAS, KERAS, word_list.MAX_FILE))
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
        assets.read_others(findings)
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
        tensor = origin.node.constant() if origin and origin.node else None
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
