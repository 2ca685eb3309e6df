"""Check a SavedModel for dangerous ops, and load it into TensorFlow.

A dangerous op reads or writes files, uses the network or runs Python. Every node of the served
graph and of all its functions is checked, because TensorFlow runs some ops while it loads a model.
These ops are not reported:

- Ops that TensorFlow does not know. TensorFlow refuses to load a model with such an op.
- Ops that restore variables. They read only checkpoints, and every SavedModel contains them.
- Ops that write checkpoints (``CHECKPOINT_WRITERS``). They are removed before the model is loaded.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias

from vocabtool.errors import InvalidFile, UnsupportedFormat, reading
from vocabtool.formats.saved_model import graph_files
from vocabtool.formats.saved_model.graph import Body, Node
from vocabtool.formats.saved_model.meta_graph import (
    Linker,
    MetaGraph,
    pick_serving,
    read_saved_model,
)
from vocabtool.formats.saved_model.tables import FROM_FILE
from vocabtool.system.native_import import import_library
from vocabtool.vocabulary import printable

Proto: TypeAlias = Any  # TensorFlow's protobufs have no types

BINARY: Final = "saved_model.pb"
FOLDERS: Final = ("variables", "assets", "assets.extra")
COPY: Final = "vocabtool_copy_"
MAX_PROTO: Final = (1 << 31) - 1  # limit of protobuf
UNREGISTERED: Final = re.compile(r"Op type not registered '([^']+)'")
GRAPH_FAILS: Final = "Graph execution error:"
MAX_LINE: Final = 500

CHECKPOINT_WRITERS: Final = frozenset((b"Save", b"SaveSlices", b"SaveV2", b"MergeV2Checkpoints"))

DANGEROUS: Final = frozenset(
    op.encode()
    for ops in (
        # Files, and datasets of files.
        "ReadFile WriteFile MatchingFiles WholeFileReader TextLineReader TFRecordReader LMDBReader",
        "FixedLengthRecordReader RecordInput ImmutableConst LoadAndRemapMatrix DistributedSave",
        "GenerateVocabRemapping DumpTensor CalibrationStatisticsSaver XlaCustomCall",
        "FileSystemSetConfiguration InitializeTRTResource TextLineDataset TFRecordDataset",
        "FixedLengthRecordDataset CSVDataset LMDBDataset SqlDataset MatchingFilesDataset",
        "CacheDataset LoadDataset SaveDataset SnapshotDataset SnapshotDatasetReader",
        "SnapshotNestedDatasetReader SnapshotChunkDataset ListSnapshotChunksDataset",
        "DatasetToTFRecord",
        # A graph stored in a string, which they run.
        "DatasetFromGraph TfLiteSubgraphExecute TRTEngineOp",
        # Summaries, and URLs in an attribute, to which they write.
        "CreateSummaryFileWriter CreateSummaryDbWriter SummaryWriter WriteSummary",
        "WriteScalarSummary WriteHistogramSummary WriteImageSummary WriteAudioSummary",
        "WriteGraphSummary WriteRawProtoSummary ImportEvent FlushSummaryWriter",
        "StatsAggregatorSetSummaryWriter DebugIdentity DebugNanCount DebugNumericSummary Copy",
        "CopyHost",
        # The network.
        "RemoteCall RpcCall RpcClient RpcServer RpcServerStart RpcServerRegister Rpc TryRpc",
        "DataServiceDataset RegisterDataset Send Recv ConfigureDistributedTPU",
        "ConfigureAndInitializeGlobalTPU ConnectTPUEmbeddingHosts BigtableClient BigQueryReader",
        "GcsConfigureBlockCache GcsConfigureCredentials",
        # Python.
        "PyFunc PyFuncStateless EagerPyFunc",
    )
    for op in ops.split()
)
COLLECTIVE: Final = b"Collective"

# Ops have variants: ExperimentalSqlDataset, _HostSend, TFRecordDatasetV2.
VARIANT: Final = re.compile(rb"^_?(?:Experimental|Host)?(.*?)(?:V\d+)?$", re.DOTALL)
PRINT: Final = b"PrintV2"
PRINT_STREAMS: Final = frozenset((b"", b"stderr", b"stdout")) | {
    b"log(" + level + b")" for level in (b"info", b"warning", b"error")
}


def dangerous_ops(graphs: Sequence[MetaGraph]) -> tuple[str, ...]:
    """Return a line for each dangerous op of the served graph, and each asset outside the model.

    Such as ``ReadFile at function __inference_f_12/read``; one op in several places has one line.
    """
    graph = graphs[pick_serving([graph.tags for graph in graphs])]
    lines: dict[bytes, str] = {}
    linker = Linker(graph)
    for body in graph.bodies:
        for node in body:
            if node.op not in lines and _reaches_out(linker, body, node):
                place = graph.place(body, node.name).place
                lines[node.op] = f"{printable(node.op)} at {place}"
    elsewhere = (
        f"the asset {printable(name)!r} is a path, not the name of a file"
        for _, name in graph.assets
        if name in (b"", b".", b"..") or any(c in name for c in b"/\\:\0")
    )
    return (*lines.values(), *elsewhere)


def _reaches_out(linker: Linker, body: Body, node: Node) -> bool:
    """Return whether an op may use files outside the model, the network or Python."""
    if node.op == PRINT:
        return node.bytes_of(b"output_stream") not in PRINT_STREAMS
    if node.op not in FROM_FILE:
        match = VARIANT.match(node.op)
        plain = match[1] if match else node.op
        return node.op in DANGEROUS or plain in DANGEROUS or plain.startswith(COLLECTIVE)
    # The op fills a table from a file, which must be an asset of the model.
    graph = linker.graph
    origin = linker.origin(body, node.data_input(1))
    if origin is None:  # safe only in a function that nothing can call
        is_called = bool(linker.callers(body.name)) or body.name in graph.objects.captures
        return not body.name or is_called
    if origin.object_id is not None:
        return graph.objects.get(origin.object_id).kind != "asset"
    if origin.node is None or origin.body.name:
        return True
    return graph.asset_of(origin) is None


def import_tensorflow() -> ModuleType:
    """Import TensorFlow. Raises :class:`UnsupportedFormat` if it cannot be imported."""
    return _import("tensorflow", "running a model needs")


def _import(library: str, purpose: str) -> ModuleType:
    try:
        return import_library(library)
    except ImportError as error:
        what = f"{purpose} {library}, which cannot be imported ({error})"
        raise UnsupportedFormat(f"{what}: pip install '.[tensorflow]'") from error


def load_checked(opened: graph_files.GraphFile, *, trust: bool) -> Any:
    """Load the served graph of a SavedModel into TensorFlow (see :func:`pick_serving`).

    Raises :class:`InvalidFile` for a damaged model. Raises :class:`UnsupportedFormat` if the model
    cannot be loaded, or if it has dangerous ops and ``trust`` is false.
    """
    import_tensorflow()
    with reading(str(opened.path)):
        saved = _parse(opened)
        if saved.ByteSize() > MAX_PROTO:
            raise UnsupportedFormat(
                "the graph to run is larger than 2 GB, the limit of protobuf; save the model again "
                "with its large constants as variables"
            )
        data: bytes = saved.SerializeToString()
        dangers = dangerous_ops(read_saved_model(data, BINARY))
        if dangers and not trust:
            listed = "".join(f"\n  - {danger}" for danger in dangers)
            raise UnsupportedFormat(
                "the model is not run, because it may use files, the network or Python:"
                f"{listed}\nIf you trust its source, pass --trust (in Python trust=True)."
            )
        # Load from a temporary folder with links to the original variables and assets.
        folder = tempfile.mkdtemp(prefix=COPY)
        try:
            Path(folder, BINARY).write_bytes(data)
            for name in FOLDERS:
                beside = opened.file.parent / name
                if beside.is_dir():
                    Path(folder, name).symlink_to(beside.resolve(), target_is_directory=True)
            loaded = _load(folder)
        except BaseException:
            shutil.rmtree(folder)
            raise
        # Keep the folder while the model is in use, if its functions may read an asset.
        remove = weakref.finalize(loaded, shutil.rmtree, folder, ignore_errors=True)
        if not dangers:
            remove()
        return loaded


def _parse(opened: graph_files.GraphFile) -> Proto:
    """Return the model as a protobuf, with only the served graph, and without ops that write."""
    from google.protobuf import message
    from tensorflow.core.protobuf import saved_model_pb2

    if opened.frozen:
        raise UnsupportedFormat(
            "expected a SavedModel, got a frozen graph, which does not say which input is the text"
        )
    saved = saved_model_pb2.SavedModel()
    try:
        saved.ParseFromString(opened.file.read_bytes())
    except message.DecodeError as error:
        raise InvalidFile(f"TensorFlow cannot read the file: {reason_of(error)}") from error
    number = pick_serving([list(graph.meta_info_def.tags) for graph in saved.meta_graphs])
    del saved.meta_graphs[number + 1 :]
    del saved.meta_graphs[:number]
    graph = saved.meta_graphs[0].graph_def
    # With two functions of the same name, one could be checked and the other one run.
    names = Counter(function.signature.name for function in graph.library.function)
    for name, count in names.most_common(1):
        if count > 1:
            raise InvalidFile(f"{count} functions have the same name {printable(name.encode())!r}")
    for nodes in (graph.node, *(function.node_def for function in graph.library.function)):
        for node in nodes:
            if node.op.encode() in CHECKPOINT_WRITERS:
                name = node.name
                control_inputs = [source for source in node.input if source.startswith("^")]
                node.Clear()
                node.name, node.op = name, "NoOp"
                node.input.extend(control_inputs)
    return saved


def _load(folder: str) -> Any:
    """Load a model. If an op is unknown, import tensorflow_text, which may register it."""
    tensorflow = import_tensorflow()
    for is_last in (False, True):
        try:
            return tensorflow.saved_model.load(folder)
        except Exception as error:
            missing = UNREGISTERED.search(str(error))
            if is_last or missing is None:
                what = reason_of(error).replace(f"{folder}/", "")
                if missing is not None:
                    what = f"the op {missing[1]} is unknown"
                raise UnsupportedFormat(f"TensorFlow cannot load the model: {what}") from error
        _import("tensorflow_text", f"the op {missing[1]} of the model needs")
    raise AssertionError("the loop always returns or raises")


def reason_of(error: Exception) -> str:
    """Return the line of a TensorFlow error's message that states the reason."""
    lines = [line.strip() for line in str(error).splitlines()]
    lines = [line for line in lines if line and not line.startswith("[[")]  # [[nodes]]
    reason = lines[0] if lines else type(error).__name__
    if reason == GRAPH_FAILS:  # a stack trace follows, then the reason
        reason = lines[-1]
    return printable(reason[:MAX_LINE].encode("utf-8", "replace"))
