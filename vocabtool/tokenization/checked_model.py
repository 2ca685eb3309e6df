"""A SavedModel loaded into TensorFlow, of which the very bytes that run were checked for danger.

The model's own files stay as they are: what is loaded is a copy of its graph in a temporary
folder, with links to the variables and the assets. That copy holds one graph, no two functions of
one name, and nothing that writes checkpoints. What can be called is in ``model_functions.py``.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias

from vocabtool.errors import InvalidFile, UnsupportedFormat, reading
from vocabtool.formats.saved_model import graph_files
from vocabtool.formats.saved_model.meta_graph import pick_serving, read_saved_model
from vocabtool.system.native_import import import_library
from vocabtool.tokenization.trust import CHECKPOINT_WRITERS, dangerous_ops
from vocabtool.vocabulary import printable

Proto: TypeAlias = Any  # TensorFlow's protobufs carry no types

BINARY: Final = "saved_model.pb"
FOLDERS: Final = ("variables", "assets", "assets.extra")
COPY: Final = "vocabtool_copy_"
MAX_PROTO: Final = (1 << 31) - 1  # protobuf's own limit
UNREGISTERED: Final = re.compile(r"Op type not registered '([^']+)'")
GRAPH_FAILS: Final = "Graph execution error:"
MAX_LINE: Final = 500


def load_checked(
    opened: graph_files.GraphFile, *, trust: bool, change: Callable[[Proto], object] | None = None
) -> Any:
    """Load the graph of a SavedModel that is run; ``change`` is given its MetaGraphDef before.

    Raises :class:`InvalidFile` for what is damaged, :class:`UnsupportedFormat` for a model that
    reaches out of itself (unless ``trust``), that TensorFlow does not load, or that is a frozen
    graph.
    """
    import_tensorflow()
    with reading(str(opened.path)):
        data = _rewrite(opened, change)
        dangers = dangerous_ops(read_saved_model(data, BINARY))
        if dangers and not trust:
            raise UnsupportedFormat(_refusal(dangers))
        return _load_copy(data, opened.file.parent, keep=bool(dangers))


def import_tensorflow() -> ModuleType:
    """TensorFlow. Raises :class:`UnsupportedFormat` where it is not installed."""
    return _import("tensorflow", "running a model needs")


def _import(library: str, purpose: str) -> ModuleType:
    try:
        return import_library(library)
    except ImportError as error:
        what = f"{purpose} {library}, which cannot be imported ({error})"
        raise UnsupportedFormat(f"{what}: pip install '.[tensorflow]'") from error


def _rewrite(opened: graph_files.GraphFile, change: Callable[[Proto], object] | None) -> bytes:
    """The SavedModel as it is to be run, in binary form."""
    saved = _parse(opened)
    _silence_writers(saved.meta_graphs[0])
    if change is not None:
        change(saved.meta_graphs[0])
    if saved.ByteSize() > MAX_PROTO:
        raise UnsupportedFormat(
            "the graph as it would be run is larger than 2 GB, which protobuf does not write; "
            "save the model again with its large constants as variables"
        )
    data: bytes = saved.SerializeToString()
    return data


def _parse(opened: graph_files.GraphFile) -> Proto:
    """The SavedModel as TensorFlow's protobuf, with only the graph that is run."""
    from google.protobuf import message
    from tensorflow.core.protobuf import saved_model_pb2

    if opened.frozen:
        raise UnsupportedFormat(
            "a frozen graph, which says not where its texts go in; wanted a SavedModel to run"
        )
    saved = saved_model_pb2.SavedModel()
    try:
        saved.ParseFromString(opened.file.read_bytes())
    except message.DecodeError as error:
        raise InvalidFile(f"TensorFlow does not read it: {reason_of(error)}") from error
    number = pick_serving([list(graph.meta_info_def.tags) for graph in saved.meta_graphs])
    del saved.meta_graphs[number + 1 :]
    del saved.meta_graphs[:number]
    _refuse_twins(saved.meta_graphs[0])
    return saved


def _refuse_twins(meta_graph: Proto) -> None:
    """Two functions of one name could be checked as the one and run as the other."""
    counted = Counter(f.signature.name for f in meta_graph.graph_def.library.function)
    ((name, times),) = counted.most_common(1) or [("", 0)]
    if times > 1:
        raise InvalidFile(f"{times} functions are called {printable(name.encode())!r}")


def _silence_writers(meta_graph: Proto) -> None:
    """Let what writes checkpoints do nothing: then no signature can reach it."""
    graph = meta_graph.graph_def
    for nodes in (graph.node, *(function.node_def for function in graph.library.function)):
        for node in nodes:
            if node.op.encode() in CHECKPOINT_WRITERS:
                name, waits = node.name, [r for r in node.input if r.startswith("^")]
                node.Clear()
                node.name, node.op = name, "NoOp"
                node.input.extend(waits)


def _refusal(dangers: Sequence[str]) -> str:
    listed = "".join(f"\n  - {danger}" for danger in dangers)
    return (
        "the model reaches for files, the network or Python, so it is not run:"
        f"{listed}\nIf you trust those who made it, say so (--trust, or trust=True)."
    )


def _load_copy(data: bytes, beside: Path, *, keep: bool) -> Any:
    """Load a graph in a temporary folder, with links to what lies beside the original.

    ``keep``: the folder stays as long as what was loaded, which may read an asset when called.
    """
    folder = tempfile.mkdtemp(prefix=COPY)
    try:
        Path(folder, BINARY).write_bytes(data)
        for name in FOLDERS:
            if (beside / name).is_dir():
                Path(folder, name).symlink_to((beside / name).resolve(), target_is_directory=True)
        loaded = _load(folder)
    except BaseException:
        shutil.rmtree(folder)
        raise
    remove = weakref.finalize(loaded, shutil.rmtree, folder, ignore_errors=True)
    if not keep:
        remove()
    return loaded


def _load(folder: str) -> Any:
    """Load with TensorFlow; where it lacks an op, once more with tensorflow-text's ops."""
    tensorflow = import_tensorflow()
    try:
        return tensorflow.saved_model.load(folder)
    except Exception as error:
        missing = UNREGISTERED.search(str(error))
        if missing is None:
            what = reason_of(error).replace(f"{folder}/", "")
            raise UnsupportedFormat(f"TensorFlow does not load it: {what}") from error
    _import("tensorflow_text", f"its op {missing[1]} needs")
    try:
        return tensorflow.saved_model.load(folder)
    except Exception as error:
        missing = UNREGISTERED.search(str(error))
        what = reason_of(error).replace(f"{folder}/", "")
        if missing is not None:
            what = f"its op {missing[1]} is unknown"
        raise UnsupportedFormat(f"TensorFlow does not load it: {what}") from error


def reason_of(error: Exception) -> str:
    """The line that says what is wrong, of what TensorFlow says: there may be pages.

    Where a graph fails, a stack comes first, then the reason, then where it was met.
    """
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if line and not line.startswith("[[")]
    line = told[-1 if told[:1] == [GRAPH_FAILS] else 0] if told else type(error).__name__
    return printable(line[:MAX_LINE].encode("utf-8", "replace"))
