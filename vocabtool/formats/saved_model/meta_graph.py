"""MetaGraphDef: one saved graph with its tags, its assets' names and its object graph.

Layout: tensorflow/core/protobuf/meta_graph.proto. A SavedModel holds one or several, each a full
copy. The files behind the asset names are not opened here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from vocabtool.errors import InvalidFile
from vocabtool.formats import wire
from vocabtool.formats.saved_model.graph import GRAPH_NODE, Body, read_graph
from vocabtool.formats.saved_model.object_graph import ObjectGraph, read_object_graph
from vocabtool.formats.wire import LEN, Buffer, Span
from vocabtool.vocabulary import Place, printable

SERVE: Final = "serve"


class Asset(NamedTuple):
    """``node``: the graph node that holds the path; ``filename``: below ``assets/``, untrusted."""

    node: bytes
    filename: bytes


@dataclass(frozen=True)
class MetaGraph:
    """``assets``: as ``asset_file_def`` orders them, then those that only a collection names.

    ``file`` and ``label`` begin the places of what is found: which file, which of several graphs.
    """

    file: str
    main: Body
    functions: dict[bytes, Body]
    objects: ObjectGraph
    assets: tuple[Asset, ...] = ()
    tags: tuple[str, ...] = ()
    label: str = ""

    def place(self, body: Body, node: bytes) -> Place:
        """Where a node stands: ``graph/NODE`` or ``function FUNCTION/NODE``."""
        scope = f"function {printable(body.name)}" if body.name else "graph"
        return Place(self.file, f"{self.label}{scope}/{printable(node)}")

    @property
    def bodies(self) -> Iterator[Body]:
        """The main graph, then every function."""
        yield self.main
        yield from self.functions.values()

    def asset_of(self, node: bytes) -> bytes | None:
        """The file name of the asset whose path a node of the main graph holds."""
        return next((asset.filename for asset in self.assets if asset.node == node), None)


def serving(tags: Sequence[Sequence[str]]) -> int:
    """Which of several graphs is run: the one tagged ``serve`` alone, else with others, else the
    first. ``tags``: those of each graph.
    """
    return min(range(len(tags)), key=lambda i: (list(tags[i]) != [SERVE], SERVE not in tags[i]))


def read_saved_model(buffer: Buffer, file: str) -> tuple[MetaGraph, ...]:
    """Open a SavedModel. Raises :class:`InvalidFile` where the framing is broken or empty."""
    graphs = tuple(
        _read_meta_graph(buffer, span, file) for span in wire.messages(buffer, (0, len(buffer)), 2)
    )
    if not any(graph.main.has_ops() for graph in graphs):
        raise InvalidFile("no graph in it: not a SavedModel, or cut off at its beginning")
    if len(graphs) == 1:
        return graphs
    return tuple(
        replace(graph, label=f"meta graph {number} [{', '.join(graph.tags)}] ")
        for number, graph in enumerate(graphs)
    )


def read_frozen_graph(buffer: Buffer, file: str) -> tuple[MetaGraph, ...]:
    """Open a bare GraphDef, as a frozen ``.pb`` holds it. Raises :class:`InvalidFile`."""
    main, functions = read_graph(buffer, (0, len(buffer)))
    if not main.has_ops():
        raise InvalidFile("no node in it: not a GraphDef, or cut off at its beginning")
    return (MetaGraph(file, main, functions, ObjectGraph(buffer)),)


def _read_meta_graph(buffer: Buffer, span: Span, file: str) -> MetaGraph:
    main, functions = Body(buffer, GRAPH_NODE), dict[bytes, Body]()
    objects = ObjectGraph(buffer)
    tags: tuple[str, ...] = ()
    assets: list[Asset] = []
    collected: list[Asset] = []
    for number, wire_type, start, end in wire.fields(buffer, *span):
        part = (start, end)
        if wire_type != LEN:
            continue
        if number == 1:
            tags = tuple(printable(bytes(buffer[i:j])) for i, j in wire.messages(buffer, part, 4))
        elif number == 2:
            main, functions = read_graph(buffer, part)
        elif number == 4:
            collected += _collected_assets(buffer, part)
        elif number == 6:
            assets.append(_read_asset(buffer, part))
        elif number == 7:
            objects = read_object_graph(buffer, part)
    return MetaGraph(file, main, functions, objects, (*assets, *collected), tags)


def _read_asset(buffer: Buffer, span: Span) -> Asset:
    """Read an AssetFileDef {1: TensorInfo {1: name}, 2: filename}."""
    info = b""
    for tensor_info in wire.messages(buffer, span, 1):
        info = bytes(wire.last_bytes(buffer, tensor_info, 1))
    return Asset(info.partition(b":")[0], bytes(wire.last_bytes(buffer, span, 2)))


def _collected_assets(buffer: Buffer, entry: Span) -> Iterator[Asset]:
    """The AssetFileDefs in the collection ``saved_model_assets``: all that TF1 writes of them.

    CollectionDef.5 = AnyList {1: Any {2: value}}.
    """
    if wire.last_bytes(buffer, entry, 1) != b"saved_model_assets":
        return
    for collection in wire.messages(buffer, entry, 2):
        for any_list in wire.messages(buffer, collection, 5):
            for any_ in wire.messages(buffer, any_list, 1):
                for value in wire.messages(buffer, any_, 2):
                    yield _read_asset(buffer, value)
