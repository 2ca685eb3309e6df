"""Documents as a ``tf.data.Dataset``: whole batches cross from Python, not one row at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.reading import Document
from vocabtool.errors import UnsupportedFormat, VocabtoolError
from vocabtool.streams.arrow_out import TAKEN, need_documents
from vocabtool.system.native_import import imported
from vocabtool.system.parallel import closed_after, in_batches
from vocabtool.tokenization.text_arrays import text_bytes

if TYPE_CHECKING:
    import tensorflow as tf

ROWS: Final = 1024  # that cross together; more would only take memory
VECTOR: Final = "vector"


class Encodes(Protocol):
    """What is asked of an encoder here."""

    @property
    def dim(self) -> int: ...

    def encode(self, texts: Sequence[str | bytes]) -> NDArray[np.float32]: ...


def to_dataset(
    start: Callable[[int], Iterator[Document]],
    batch_size: int | None,
    fields: Mapping[str, str],
    encoder: Encodes | None,
    drop_remainder: bool,
    count: int | None,
) -> tf.data.Dataset:
    """See :meth:`Stream.to_tf_dataset`. ``count``: how many documents there are, where known."""
    try:
        tf = imported("tensorflow")
    except ImportError as error:
        wanted = "tensorflow is not installed: pip install '.[tensorflow]'"
        raise UnsupportedFormat(wanted) from error

    _check(fields, batch_size)
    columns = {name: tf.as_dtype(dtype) for name, dtype in fields.items()}
    crossing = tf.data.Dataset.from_generator(
        lambda: _batches(start, columns, encoder), output_signature=_signature(columns, encoder)
    )
    if batch_size is None:
        dataset = crossing.unbatch()
    else:
        dataset = crossing.rebatch(batch_size, drop_remainder)
    dataset = dataset.with_options(_untuned())
    if count is None:
        return dataset
    elements = _elements(count, batch_size or 1, drop_remainder)
    return dataset.apply(tf.data.experimental.assert_cardinality(elements))


def _untuned() -> tf.data.Options:
    """Without TensorFlow's tuner, which has nothing to tune here.

    It sleeps for 10 ms, then for twice as long each time, and where an iterator ends TensorFlow
    waits, in half of all passes, until it wakes: these take up to twice as long as their work
    (TensorFlow 2.21).
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return options


def _check(fields: Mapping[str, str], batch_size: int | None) -> None:
    taken = {*TAKEN, VECTOR} & fields.keys()
    if taken:
        raise ValueError(f"fields: the names {sorted(taken)} are taken")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"wanted at least one document in a batch, got {batch_size}")


def _elements(count: int, batch_size: int, drop_remainder: bool) -> int:
    """How many batches there are: Keras wants to know when an epoch ends."""
    return count // batch_size if drop_remainder else -(-count // batch_size)


def _signature(columns: Mapping[str, Any], encoder: Encodes | None) -> dict[str, Any]:
    import tensorflow as tf

    signature = {
        name: tf.TensorSpec((None,), dtype)
        for name, dtype in {"id": tf.string, "text": tf.string, **columns}.items()
    }
    if encoder is not None:
        signature[VECTOR] = tf.TensorSpec((None, encoder.dim), tf.float32)
    return signature


def _batches(
    start: Callable[[int], Iterator[Document]],
    columns: Mapping[str, Any],
    encoder: Encodes | None,
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
