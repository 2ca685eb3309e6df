"""Which ops of a model read or write files, use the network or run Python: told without running it.

Every node of the served graph and of all its functions is looked at, whether something calls it
or not: what a loader runs is more than what a signature reaches. Not named are

- ops that TensorFlow does not know: they are not loaded, so they cannot run;
- what restores variables: it reads nothing but checkpoints, and every SavedModel holds it;
- what writes checkpoints (``CHECKPOINT_WRITERS``): every SavedModel holds it too. No output of a
  model can come from it, because it has none; ``checked_model.py`` takes it out
  of the copy that runs, so that no signature can reach it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from vocabtool.formats.saved_model.graph import Body, Node
from vocabtool.formats.saved_model.linker import Linker
from vocabtool.formats.saved_model.meta_graph import MetaGraph, pick_serving
from vocabtool.formats.saved_model.table_contents import FROM_FILE
from vocabtool.vocabulary import printable

CHECKPOINT_WRITERS: Final = frozenset((b"Save", b"SaveSlices", b"SaveV2", b"MergeV2Checkpoints"))

FILES: Final = frozenset(
    b"ReadFile WriteFile MatchingFiles WholeFileReader TextLineReader TFRecordReader LMDBReader "
    b"FixedLengthRecordReader RecordInput ImmutableConst LoadAndRemapMatrix "
    b"GenerateVocabRemapping DumpTensor CalibrationStatisticsSaver DistributedSave "
    b"FileSystemSetConfiguration InitializeTRTResource XlaCustomCall".split()
)
FILE_DATASETS: Final = frozenset(
    b"TextLineDataset TFRecordDataset FixedLengthRecordDataset CSVDataset LMDBDataset SqlDataset "
    b"MatchingFilesDataset CacheDataset LoadDataset SaveDataset SnapshotDataset "
    b"SnapshotDatasetReader SnapshotNestedDatasetReader SnapshotChunkDataset "
    b"ListSnapshotChunksDataset DatasetToTFRecord".split()
)
# A graph in a string, which is then run: whatever it holds.
HIDDEN_GRAPHS: Final = frozenset((b"DatasetFromGraph", b"TfLiteSubgraphExecute", b"TRTEngineOp"))
SUMMARIES: Final = frozenset(
    b"CreateSummaryFileWriter CreateSummaryDbWriter SummaryWriter WriteSummary "
    b"WriteScalarSummary WriteHistogramSummary WriteImageSummary WriteAudioSummary "
    b"WriteGraphSummary WriteRawProtoSummary ImportEvent FlushSummaryWriter "
    b"StatsAggregatorSetSummaryWriter".split()
)
# Each writes to the URLs of an attribute.
DEBUG: Final = frozenset(
    (b"DebugIdentity", b"DebugNanCount", b"DebugNumericSummary", b"Copy", b"CopyHost")
)
NETWORK: Final = frozenset(
    b"RemoteCall RpcCall RpcClient RpcServer RpcServerStart RpcServerRegister Rpc TryRpc "
    b"DataServiceDataset RegisterDataset Send Recv ConfigureDistributedTPU "
    b"ConfigureAndInitializeGlobalTPU ConnectTPUEmbeddingHosts BigtableClient BigQueryReader "
    b"GcsConfigureBlockCache GcsConfigureCredentials".split()
)
PYTHON: Final = frozenset((b"PyFunc", b"PyFuncStateless", b"EagerPyFunc"))
DANGEROUS: Final = FILES | FILE_DATASETS | HIDDEN_GRAPHS | SUMMARIES | DEBUG | NETWORK | PYTHON
COLLECTIVE: Final = b"Collective"

# One op has several names: ExperimentalSqlDataset, _HostSend, TFRecordDatasetV2.
VARIANT: Final = re.compile(rb"^_?(?:Experimental|Host)?(.*?)(?:V\d+)?$", re.DOTALL)
PRINT: Final = b"PrintV2"
PRINT_STREAMS: Final = frozenset((b"", b"stderr", b"stdout")) | {
    b"log(" + level + b")" for level in (b"info", b"warning", b"error")
}


def dangerous_ops(graphs: Sequence[MetaGraph]) -> tuple[str, ...]:
    """Each op of the served graph that reaches beyond the model, with the first place of it.

    An answer reads ``ReadFile at function __inference_f_12/read``; an empty tuple: none.
    """
    graph = graphs[pick_serving([graph.tags for graph in graphs])]
    found: dict[bytes, str] = {}
    linker = Linker(graph)
    for body in graph.bodies:
        for node in body:
            if node.op not in found and _reaches_out(linker, body, node):
                place = graph.place(body, node.name).place
                found[node.op] = f"{printable(node.op)} at {place}"
    return (*found.values(), *_assets_elsewhere(graph))


def _reaches_out(linker: Linker, body: Body, node: Node) -> bool:
    if node.op in FROM_FILE:
        return not _reads_asset(linker, body, node)
    if node.op == PRINT:
        return node.bytes_of(b"output_stream") not in PRINT_STREAMS
    match = VARIANT.match(node.op)
    plain = match[1] if match else node.op
    return node.op in DANGEROUS or plain in DANGEROUS or plain.startswith(COLLECTIVE)


def _reads_asset(linker: Linker, body: Body, node: Node) -> bool:
    """Whether the file that a table is filled from is one of the model's own, or never read."""
    origin = linker.origin(body, node.data_input(1))
    if origin is None:  # of a function that nothing can run, nothing is known either
        callers = linker.callers(body.name)
        return bool(body.name) and not callers and body.name not in linker.graph.objects.captures
    if origin.object_id is not None:
        return linker.graph.objects.kind(origin.object_id) == "asset"
    if origin.node is None or origin.body.name:
        return False
    return linker.graph.asset_of(origin.node.name) is not None


def _assets_elsewhere(graph: MetaGraph) -> Iterator[str]:
    """Assets named by a path that may lead out of ``assets/``."""
    for asset in graph.assets:
        if asset.filename in (b"", b".", b"..") or any(c in asset.filename for c in b"/\\:\0"):
            yield f"the asset {printable(asset.filename)!r}, a path"
