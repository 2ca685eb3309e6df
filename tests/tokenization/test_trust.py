"""Models that use files, the network or Python are detected from their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.builders import saved_model_bytes as b
from vocabtool.formats.saved_model.graph_files import open_graphs
from vocabtool.tokenization.checked_model import dangerous_ops

CONST = b.const(b"path", b.scalar_tensor(b"/etc/passwd"))
TABLE = b.node(b"table", b"HashTableV2")

REACH_OUT = (
    *("ReadFile", "WriteFile", "MatchingFiles", "WholeFileReaderV2", "TFRecordReaderV2"),
    *("TextLineDataset", "TFRecordDatasetV2", "FixedLengthRecordDatasetV2", "CSVDataset"),
    *("ExperimentalSqlDataset", "SaveDatasetV2", "SnapshotDatasetV2", "CacheDatasetV2", "PyFunc"),
    *("PyFuncStateless", "EagerPyFunc", "ImmutableConst", "LoadAndRemapMatrix"),
    *("CreateSummaryFileWriter", "WriteScalarSummary", "DebugIdentityV3", "DumpTensor"),
    *("RpcCall", "RemoteCall", "CollectiveReduceV2", "CollectiveGather", "_Send", "_HostRecv"),
    *("DataServiceDatasetV4", "DatasetFromGraph", "DebugNumericSummaryV2", "XlaCustomCallV2"),
)
STAY_INSIDE = (
    *("LookupTableFindV2", "StringSplitV2", "ScalarSummary", "MergeSummary", "TensorSummaryV2"),
    *("RestoreV2", "Restore", "RestoreSlice", "ShardedFilename", "Print", "Assert"),
    *("TensorSliceDataset", "MapDataset", "ParseExampleV2", "DecodeCSV", "ReadVariableOp"),
    *("TensorArrayWriteV3", "SendTPUEmbeddingGradients", "MyOwnOp", "DecodePyramid", "Recover"),
    # Every SavedModel contains one of these; they are removed from the copy that runs.
    *("SaveV2", "MergeV2Checkpoints", "Save", "SaveSlices"),
)


def named_ops(model: Path) -> tuple[str, ...]:
    return dangerous_ops(open_graphs(model).graphs)


def saved(folder: Path, *nodes: bytes, functions: Sequence[bytes] = (), tail: bytes = b"") -> Path:
    graph = b.graph(*(nodes or (CONST,)), functions=functions)
    (folder / "saved_model.pb").write_bytes(b.saved_model(graph, tail=tail))
    return folder


def filled(name: bytes) -> tuple[bytes, ...]:
    """Return nodes that fill a table from the file that a node names."""
    return TABLE, b.node(b"fill", b"InitializeTableFromTextFileV2", b"table", name)


def asset(filename: bytes) -> bytes:
    """Return an AssetFileDef {1: TensorInfo {1: name}, 2: filename} of a MetaGraphDef."""
    return b.field(6, b.field(1, b.field(1, b"path:0")) + b.field(2, filename))


@pytest.mark.parametrize("op", [*REACH_OUT, *STAY_INSIDE])
def test_an_op_that_reaches_out_is_named_with_its_place(op: str, tmp_path: Path) -> None:
    """Ops with similar names, unknown ops, and ops that restore variables are allowed."""
    named = named_ops(saved(tmp_path, CONST, b.node(b"a/node", op.encode(), b"path")))
    assert named == ((f"{op} at graph/a/node",) if op in REACH_OUT else ())


def test_functions_are_looked_into_whether_called_or_not(tmp_path: Path) -> None:
    """One line for each op, with its first location."""
    functions = [
        b.function(b"f", [b"x"], b.node(b"read", b"ReadFile", b"x")),
        b.function(b"g", [b"x"], b.node(b"again", b"ReadFile", b"x"), b.node(b"py", b"PyFunc")),
    ]
    named = named_ops(saved(tmp_path, functions=functions))
    assert named == ("ReadFile at function f/read", "PyFunc at function g/py")


@pytest.mark.parametrize("stream", [b"stderr", b"log(info)", b"", b"file:///tmp/out"])
def test_printing_is_writing_where_it_goes_to_a_file(stream: bytes, tmp_path: Path) -> None:
    """An attribute contains the destination of the text."""
    node = b.node(b"print", b"PrintV2", b"path", output_stream=b.field(2, stream))
    wanted = ("PrintV2 at graph/print",) if stream.startswith(b"file:") else ()
    assert named_ops(saved(tmp_path, CONST, node)) == wanted


def test_a_table_is_filled_from_an_asset_only(tmp_path: Path) -> None:
    """The model's own file is allowed; constant or computed paths are not."""
    assert named_ops(saved(tmp_path, CONST, *filled(b"path"), tail=asset(b"words.txt"))) == ()
    joined = b.node(b"joined", b"StringJoin", b"path", b"path")
    for name in (b"path", b"joined"):
        named = named_ops(saved(tmp_path, CONST, joined, *filled(name)))
        assert named == ("InitializeTableFromTextFileV2 at graph/fill",)


@pytest.mark.parametrize("filename", [b"../words.txt", b"/etc/passwd", b"a\\b", b"C:x", b"..", b""])
def test_an_asset_may_not_lie_elsewhere(filename: bytes, tmp_path: Path) -> None:
    """An asset name that is a path is reported."""
    (named,) = named_ops(saved(tmp_path, CONST, tail=asset(filename)))
    assert named.startswith("the asset ")


def test_the_graph_that_is_served_is_looked_at(tmp_path: Path) -> None:
    """A second graph, for training, may read files."""

    def meta_graph(tag: bytes, op: bytes) -> bytes:
        tags = b.field(1, b.field(4, tag))
        return b.field(2, tags + b.field(2, b.graph(CONST, b.node(b"node", op, b"path"))))

    graphs = [meta_graph(b"train", b"TextLineReaderV2"), meta_graph(b"serve", b"Identity")]
    (tmp_path / "saved_model.pb").write_bytes(b.number(1, 1) + b"".join(graphs))
    assert named_ops(tmp_path) == ()
    (tmp_path / "saved_model.pb").write_bytes(b.number(1, 1) + graphs[0])
    assert named_ops(tmp_path) == ("TextLineReaderV2 at graph/node",)
