"""Documents as datasets of frameworks: ``tf.data.Dataset`` and ``ray.data.Dataset``.

To TensorFlow whole batches cross from Python, not one row at a time. To Ray the stream itself
travels, and is read there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.documents.batch import Document
from vocabtool.errors import UnsupportedFormat, VocabtoolError
from vocabtool.streams.arrow_out import TAKEN, Layout, need_documents, record_batches
from vocabtool.streams.operators import Start
from vocabtool.system.native_import import import_library
from vocabtool.system.parallel import closed_after, in_batches
from vocabtool.tokenization.text_arrays import text_bytes

if TYPE_CHECKING:
    import ray.data
    import tensorflow as tf

ROWS: Final = 1024  # that cross together to TensorFlow; more would only take memory
VECTOR: Final = "vector"
NOT_SENT: Final = (
    "the stream cannot be sent to Ray ({}): wanted one that reads files or a list, with functions "
    "that can be pickled; put .cache(FOLDER) behind an iterator, read it once, and stream that"
)


class Encodes(Protocol):
    """What is asked of an encoder here."""

    @property
    def dim(self) -> int: ...

    def encode(self, texts: Sequence[str | bytes]) -> NDArray[np.float32]: ...


def tf_dataset(
    start: Start[Document],
    batch_size: int | None,
    fields: Mapping[str, str],
    encoder: Encodes | None,
    drop_remainder: bool,
    count: int | None,
) -> tf.data.Dataset:
    """See :meth:`Stream.to_tf_dataset`. ``count``: how many documents there are, where known."""
    try:
        tf = import_library("tensorflow")
    except ImportError as error:
        wanted = "tensorflow is not installed: pip install '.[tensorflow]'"
        raise UnsupportedFormat(wanted) from error
    if taken := {*TAKEN, VECTOR} & fields.keys():
        raise ValueError(f"fields: the names {sorted(taken)} are taken")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"wanted at least one document in a batch, got {batch_size}")
    columns = {name: tf.as_dtype(dtype) for name, dtype in fields.items()}
    kinds = {"id": tf.string, "text": tf.string, **columns}
    signature = {name: tf.TensorSpec((None,), kind) for name, kind in kinds.items()}
    if encoder is not None:
        signature[VECTOR] = tf.TensorSpec((None, encoder.dim), tf.float32)
    # Without TensorFlow's tuner, which has nothing to tune here: it sleeps for 10 ms, then for
    # twice as long each time, and the end of every other pass waits until it wakes (2.21).
    untuned = tf.data.Options()
    untuned.autotune.enabled = False
    dataset = tf.data.Dataset.from_generator(
        lambda: _tf_batches(start, columns, encoder), output_signature=signature
    )
    if batch_size is None:
        dataset = dataset.unbatch()
    else:
        dataset = dataset.rebatch(batch_size, drop_remainder)
    dataset = dataset.with_options(untuned)
    if count is None:
        return dataset
    size = batch_size or 1
    elements = count // size if drop_remainder else -(-count // size)  # Keras counts epochs by it
    return dataset.apply(tf.data.experimental.assert_cardinality(elements))


def _tf_batches(
    start: Start[Document], columns: Mapping[str, Any], encoder: Encodes | None
) -> Iterator[dict[str, NDArray[Any]]]:
    with closed_after(in_batches(start(0), ROWS)) as batches:
        for documents in batches:
            need_documents(documents, "TensorFlow")
            texts = [text_bytes(document.text) for document in documents]
            batch = {
                "id": np.array([text_bytes(document.id) for document in documents], object),
                "text": np.array(texts, object),
            }
            for name, dtype in columns.items():
                batch[name] = _column(documents, name, dtype.as_numpy_dtype)
            if encoder is not None:
                batch[VECTOR] = encoder.encode(texts)
            yield batch


def _column(documents: Sequence[Document], name: str, dtype: type[np.generic]) -> NDArray[Any]:
    """One field of all documents; strings as bytes."""
    column = np.empty(len(documents), dtype)
    for row, document in enumerate(documents):
        try:
            value: Any = document.fields[name]
            column[row] = text_bytes(value) if dtype is np.object_ else value
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            found = f"got {document.fields[name]!r:.80}" if name in document.fields else "none"
            wanted = "string" if dtype is np.object_ else np.dtype(dtype).name
            raise VocabtoolError(
                f"{document.id}: field {name!r}: wanted {wanted}, {found}"
            ) from error
    return column


def ray_dataset(start: Start[Document], rows: int, layout: Layout) -> ray.data.Dataset:
    """See :meth:`Stream.to_ray`."""
    try:
        import ray.data
        from ray.data import block, datasource
    except ImportError as error:
        wanted = "ray is not installed: pip install '.[ray]'"
        raise UnsupportedFormat(wanted) from error
    library: Any = ray  # of which only a part says its types
    tasks: Any = datasource
    read = partial(_ray_tables, start, rows, layout)
    try:
        library.cloudpickle.dumps(read)
    except (TypeError, AttributeError, ValueError) as error:
        raise ValueError(NOT_SENT.format(error)) from error
    nothing_known = block.BlockMetadata(
        num_rows=None, size_bytes=None, input_files=None, exec_stats=None
    )
    # One task that reads the stream. The class is made here, since Ray is imported on use; such a
    # class travels to workers by value.
    methods: dict[str, Callable[..., Any]] = {
        "estimate_inmemory_data_size": lambda _: None,
        "get_read_tasks": lambda *_, **__: [tasks.ReadTask(read, nothing_known)],
    }
    source = type("StreamDatasource", (tasks.Datasource,), methods)()
    dataset: ray.data.Dataset = library.data.read_datasource(source, override_num_blocks=1)
    return dataset


def _ray_tables(start: Start[Document], rows: int, layout: Layout) -> Iterator[pa.Table]:
    for batch in record_batches(start, rows, layout):
        yield pa.Table.from_batches([batch])
