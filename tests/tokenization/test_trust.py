"""Which models reach for files, the network or Python: told from their bytes alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.builders import saved_model_bytes as b
from vocabtool.errors import NotFound
from vocabtool.formats.saved_model.graph_files import open_graphs
from vocabtool.formats.saved_model.meta_graph import pick_serving
from vocabtool.tokenization.trust import dangerous_ops

CONST = b.const(b"path", b.scalar_tensor(b"/etc/passwd"))
TABLE = b.node(b"table", b"HashTableV2")

REACH_OUT = (
    *(b"ReadFile", b"WriteFile", b"MatchingFiles", b"WholeFileReaderV2", b"TFRecordReaderV2"),
    *(b"TextLineDataset", b"TFRecordDatasetV2", b"FixedLengthRecordDatasetV2", b"CSVDataset"),
    *(b"ExperimentalSqlDataset", b"SaveDatasetV2", b"SnapshotDatasetV2", b"CacheDatasetV2"),
    *(b"PyFunc", b"PyFuncStateless", b"EagerPyFunc", b"ImmutableConst", b"LoadAndRemapMatrix"),
    *(b"CreateSummaryFileWriter", b"WriteScalarSummary", b"DebugIdentityV3", b"DumpTensor"),
    *(
        b"RpcCall",
        b"RemoteCall",
        b"CollectiveReduceV2",
        b"CollectiveGather",
        b"_Send",
        b"_HostRecv",
    ),
    *(b"DataServiceDatasetV4", b"DatasetFromGraph", b"DebugNumericSummaryV2", b"XlaCustomCallV2"),
)
STAY_INSIDE = (
    *(
        b"LookupTableFindV2",
        b"StringSplitV2",
        b"ScalarSummary",
        b"MergeSummary",
        b"TensorSummaryV2",
    ),
    *(b"RestoreV2", b"Restore", b"RestoreSlice", b"ShardedFilename", b"Print", b"Assert"),
    *(b"TensorSliceDataset", b"MapDataset", b"ParseExampleV2", b"DecodeCSV", b"ReadVariableOp"),
    *(
        b"TensorArrayWriteV3",
        b"SendTPUEmbeddingGradients",
        b"MyOwnOp",
        b"DecodePyramid",
        b"Recover",
    ),
)


def named_ops(model: Path) -> tuple[str, ...]:
    return dangerous_ops(open_graphs(model).graphs)


def saved(folder: Path, *nodes: bytes, functions: Sequence[bytes] = (), tail: bytes = b"") -> Path:
    graph = b.graph(*(nodes or (CONST,)), functions=functions)
    (folder / "saved_model.pb").write_bytes(b.saved_model(graph, tail=tail))
    return folder


def filled(name: bytes) -> tuple[bytes, ...]:
    """Nodes that fill a table from the file that a node names."""
    return TABLE, b.node(b"fill", b"InitializeTableFromTextFileV2", b"table", name)


def asset(filename: bytes) -> bytes:
    """An AssetFileDef {1: TensorInfo {1: name}, 2: filename} of a MetaGraphDef."""
    return b.field(6, b.field(1, b.field(1, b"path:0")) + b.field(2, filename))


@pytest.mark.parametrize("op", REACH_OUT)
def test_an_op_that_reaches_out_is_named_with_its_place(op: bytes, tmp_path: Path) -> None:
    """In the graph."""
    named = named_ops(saved(tmp_path, CONST, b.node(b"a/node", op, b"path")))
    assert named == (f"{op.decode()} at graph/a/node",)


@pytest.mark.parametrize("op", STAY_INSIDE)
def test_an_op_that_stays_inside_is_not_named(op: bytes, tmp_path: Path) -> None:
    """Ops with similar names, ops of no library that is loaded, and what restores variables."""
    assert named_ops(saved(tmp_path, CONST, b.node(b"node", op, b"path"))) == ()


def test_functions_are_looked_into_whether_called_or_not(tmp_path: Path) -> None:
    """One name an op, with the first place where it stands."""
    functions = [
        b.function(b"f", [b"x"], b.node(b"read", b"ReadFile", b"x")),
        b.function(b"g", [b"x"], b.node(b"again", b"ReadFile", b"x"), b.node(b"py", b"PyFunc")),
    ]
    named = named_ops(saved(tmp_path, functions=functions))
    assert named == ("ReadFile at function f/read", "PyFunc at function g/py")


@pytest.mark.parametrize("op", [b"SaveV2", b"MergeV2Checkpoints", b"Save", b"SaveSlices"])
def test_writers_of_checkpoints_are_not_named(op: bytes, tmp_path: Path) -> None:
    """Every SavedModel holds one; the tap takes them out of what it runs."""
    model = saved(tmp_path, CONST, b.node(b"save", op, b"path"))
    assert named_ops(model) == ()


@pytest.mark.parametrize(
    ("stream", "named"),
    [
        (b"stderr", ()),
        (b"log(info)", ()),
        (b"", ()),
        (b"file:///tmp/out", ("PrintV2 at graph/print",)),
    ],
)
def test_printing_is_writing_where_it_goes_to_a_file(
    stream: bytes, named: tuple[str, ...], tmp_path: Path
) -> None:
    """An attribute says where the text goes."""
    node = b.node(b"print", b"PrintV2", b"path", output_stream=b.field(2, stream))
    assert named_ops(saved(tmp_path, CONST, node)) == named


def test_a_table_may_be_filled_from_an_asset(tmp_path: Path) -> None:
    """The model's own files are its own affair."""
    assert named_ops(saved(tmp_path, CONST, *filled(b"path"), tail=asset(b"words.txt"))) == ()


@pytest.mark.parametrize("name", [b"path", b"joined"])
def test_a_table_may_not_be_filled_from_elsewhere(name: bytes, tmp_path: Path) -> None:
    """A path in a constant, or a computed one, leads anywhere."""
    joined = b.node(b"joined", b"StringJoin", b"path", b"path")
    named = named_ops(saved(tmp_path, CONST, joined, *filled(name)))
    assert named == ("InitializeTableFromTextFileV2 at graph/fill",)


@pytest.mark.parametrize("filename", [b"../words.txt", b"/etc/passwd", b"a\\b", b"C:x", b"..", b""])
def test_an_asset_may_not_lie_elsewhere(filename: bytes, tmp_path: Path) -> None:
    """A name that is a path is told, whatever reads it."""
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


def test_nothing_there(tmp_path: Path) -> None:
    """A path that does not exist is said to be none."""
    with pytest.raises(NotFound, match="no such file or folder"):
        named_ops(tmp_path / "missing")


@pytest.mark.parametrize(
    ("tags", "wanted"),
    [
        ([["serve", "gpu"], ["serve"]], 1),
        ([["train"], ["serve", "gpu"]], 1),
        ([["train"], ["eval"]], 0),
        ([[]], 0),
    ],
)
def test_which_graph_is_run(tags: list[list[str]], wanted: int) -> None:
    """Rules, the tap and its check look at the same one: ``serve`` alone comes first."""
    assert pick_serving(tags) == wanted
