"""A SavedModel loaded into TensorFlow with its reports, and the function of it that takes texts.

The model's own files stay as they are: what is loaded is a copy of its graph in a temporary
folder, with links to the variables and the assets. What is checked for danger is that very copy.
"""

from __future__ import annotations

import importlib
import itertools
import re
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias

from vocabtool.errors import InvalidFile, UnsupportedFormat, reading
from vocabtool.formats import graph_files
from vocabtool.formats.meta_graph import read_saved_model, serving
from vocabtool.vocabulary import printable
from vocabtool.words.graph_taps import OWN, Report, add_taps, shared_names
from vocabtool.words.trust import dangerous_in, served

Tensor: TypeAlias = Any  # TensorFlow carries no types
Proto: TypeAlias = Any

BINARY: Final = "saved_model.pb"
FOLDERS: Final = ("variables", "assets", "assets.extra")
MAX_PROTO: Final = (1 << 31) - 1  # protobuf's own limit
UNREGISTERED: Final = re.compile(r"Op type not registered '([^']+)'")
GRAPH_FAILS: Final = "Graph execution error:"
MAX_LINE: Final = 500
SERVING: Final = "serving_default"
MODEL_CALLS: Final = ("__call__", "serve")

_loads = itertools.count()


@dataclass(frozen=True, slots=True)
class Entry:
    """The function of a model that takes texts. ``shape``: of its texts, -1 where any size goes.

    ``call``: takes a string tensor of that shape, gives tensors in any structure.
    """

    name: str
    call: Callable[[Tensor], Any]
    shape: tuple[int, ...]
    graph: Tensor

    @property
    def one_by_one(self) -> bool:
        """Whether it takes a single text only."""
        return not self.shape or self.shape[0] == 1

    def feed(self, texts: Sequence[bytes]) -> Any:
        """Call it with texts; one only where it takes no more."""
        tensorflow = import_tensorflow()
        flat = tensorflow.constant(list(texts), tensorflow.string, [len(texts)])
        shape = [len(texts), *(1 for _ in self.shape[1:])] if self.shape else []
        return self.call(tensorflow.reshape(flat, shape))


@dataclass(frozen=True)
class TapModel:
    """A loaded model. ``queues``: per report the queue it fills, ``None`` where nothing calls it.

    ``loaded``: what TensorFlow loaded, which must live as long as its functions are called.
    """

    entry: Entry
    reports: tuple[Report, ...]
    queues: tuple[Tensor | None, ...]
    loaded: Any


def load(model: str | Path, *, trust: bool) -> TapModel:
    """Load a SavedModel, given by its folder or hub handle.

    Raises what ``graph_files.open_graphs`` raises, and :class:`UnsupportedFormat` for a model that
    reaches out of itself (unless ``trust``), that TensorFlow does not load, or that no single text
    can be given to.
    """
    import_tensorflow()
    opened = graph_files.open_graphs(model)
    with reading(str(opened.path)):
        data, reports = _rewritten(opened)
        dangers = dangerous_in(served(read_saved_model(data, BINARY)))
        if dangers and not trust:
            raise UnsupportedFormat(_refusal(dangers))
        loaded = _load_copy(data, opened.file.parent, keep=bool(dangers))
        entry = choose_entry(loaded)
    names = shared_names(entry.graph.as_graph_def())
    queues = tuple(_queue(report, names.get(report.queue)) for report in reports)
    return TapModel(entry, reports, queues, loaded)


def import_tensorflow() -> ModuleType:
    """TensorFlow. Raises :class:`UnsupportedFormat` where it is not installed."""
    return _import("tensorflow", "exact words need")


def _import(library: str, purpose: str) -> ModuleType:
    try:
        return importlib.import_module(library)
    except ImportError as error:
        what = f"{purpose} {library}, which cannot be imported ({error})"
        raise UnsupportedFormat(f"{what}: pip install 'vocabtool[tensorflow]'") from error


def _rewritten(opened: graph_files.Opened) -> tuple[bytes, tuple[Report, ...]]:
    """The SavedModel with its reports, in binary form, and what it reports."""
    saved = _parse(opened)
    reports = add_taps(saved.meta_graphs[0], f"{OWN}{next(_loads)}")
    if saved.ByteSize() > MAX_PROTO:
        raise UnsupportedFormat(
            "with what reports its words, the graph is larger than 2 GB, which protobuf does not "
            "write; save the model again with its large constants as variables"
        )
    return saved.SerializeToString(), reports


def _parse(opened: graph_files.Opened) -> Proto:
    """The SavedModel as TensorFlow's protobuf, with only the graph that is run."""
    from google.protobuf import message, text_format
    from tensorflow.core.protobuf import saved_model_pb2

    if opened.frozen:
        raise UnsupportedFormat(
            "a frozen graph, which says not where its texts go in; exact words need a SavedModel"
        )
    saved = saved_model_pb2.SavedModel()
    data = opened.file.read_bytes()
    try:
        if opened.format == "SavedModel":
            saved.ParseFromString(data)
        else:
            text_format.Parse(data, saved)
    except (message.DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise InvalidFile(f"TensorFlow does not read it: {gist(error)}") from error
    number = serving([list(graph.meta_info_def.tags) for graph in saved.meta_graphs])
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
    folder = tempfile.mkdtemp(prefix=OWN)
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
            what = gist(error).replace(f"{folder}/", "")
            raise UnsupportedFormat(f"TensorFlow does not load it: {what}") from error
    _import("tensorflow_text", f"its op {missing[1]} needs")
    try:
        return tensorflow.saved_model.load(folder)
    except Exception as error:
        missing = UNREGISTERED.search(str(error))
        what = gist(error).replace(f"{folder}/", "")
        if missing is not None:
            what = f"its op {missing[1]} is unknown"
        raise UnsupportedFormat(f"TensorFlow does not load it: {what}") from error


def gist(error: Exception) -> str:
    """The line that says what is wrong, of what TensorFlow says: there may be pages.

    Where a graph fails, a stack comes first, then the reason, then where it was met.
    """
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if line and not line.startswith("[[")]
    line = told[-1 if told[:1] == [GRAPH_FAILS] else 0] if told else type(error).__name__
    return printable(line[:MAX_LINE].encode("utf-8", "replace"))


def choose_entry(loaded: Any) -> Entry:
    """The function that takes texts.

    ``serving_default`` where one text is all it wants, else the first signature of that kind,
    else what the model does when it is called. Raises :class:`UnsupportedFormat` where there is
    none, with what each of them wants.
    """
    wants: list[str] = []
    for name, call, concrete in _functions(loaded):
        specs = _specs(concrete)
        shape = _text_shape(specs)
        if shape is not None:
            return Entry(name, call, shape, concrete.graph)
        wants.append(f"\n  - {name} wants {', '.join(map(_shown, specs)) or 'nothing'}")
    raise UnsupportedFormat(
        "no function of the model takes one text, and nothing else:"
        f"{''.join(dict.fromkeys(wants)) or ' it has no function'}"
    )


def _functions(loaded: Any) -> Iterator[tuple[str, Callable[[Tensor], Any], Any]]:
    """What can be called: name, a call with one tensor, the concrete function."""
    signatures = dict(getattr(loaded, "signatures", {}))
    for name in sorted(signatures, key=lambda name: name != SERVING):
        yield f"signature {name}", _keyword_call(signatures[name]), signatures[name]
    for name in MODEL_CALLS:
        function = getattr(loaded, name, None)
        for concrete in getattr(function, "concrete_functions", ()):
            yield name, _structured_call(function, concrete), concrete


def _keyword_call(signature: Any) -> Callable[[Tensor], Any]:
    keywords = list(signature.structured_input_signature[1])
    return lambda texts: signature(**dict.fromkeys(keywords, texts))


def _structured_call(function: Any, concrete: Any) -> Callable[[Tensor], Any]:
    """A call as it was traced: its other arguments are not tensors (``training=False``)."""
    tensorflow = import_tensorflow()

    def call(texts: Tensor) -> Any:
        args, keywords = tensorflow.nest.map_structure(
            lambda leaf: texts if isinstance(leaf, tensorflow.TypeSpec) else leaf,
            concrete.structured_input_signature,
        )
        return function(*args, **keywords)

    return call


def _specs(concrete: Any) -> list[Any]:
    tensorflow = import_tensorflow()
    leaves = tensorflow.nest.flatten(concrete.structured_input_signature)
    return [leaf for leaf in leaves if isinstance(leaf, tensorflow.TypeSpec)]


def _text_shape(specs: Sequence[Any]) -> tuple[int, ...] | None:
    """The shape of the only input, where it is of strings, one for each text."""
    tensorflow = import_tensorflow()
    if len(specs) != 1 or not isinstance(specs[0], tensorflow.TensorSpec):
        return None
    (spec,) = specs
    if spec.dtype != tensorflow.string:
        return None
    if spec.shape.rank is None:
        return (-1,)
    shape = tuple(-1 if size is None else int(size) for size in spec.shape)
    return shape if all(size in (-1, 1) for size in shape) else None


def _shown(spec: Any) -> str:
    """An input in a message: ``text: string (None, 1)``."""
    shape = getattr(spec, "shape", "")
    dtype = getattr(getattr(spec, "dtype", None), "name", type(spec).__name__)
    return f"{getattr(spec, 'name', None) or 'a tensor'}: {dtype} {shape}"


def _queue(report: Report, shared_name: str | None) -> Tensor | None:
    """The handle of a queue, by the name that it is shared under."""
    tensorflow = import_tensorflow()
    if shared_name is None:
        return None
    with tensorflow.device("CPU"):
        # tf.queue.FIFOQueue would make a queue of its own: it ignores the name.
        return tensorflow.raw_ops.FIFOQueueV2(
            component_types=[tensorflow.dtypes.as_dtype(type_) for type_ in report.types],
            shapes=[],
            capacity=-1,
            container="",
            shared_name=shared_name,
        )
