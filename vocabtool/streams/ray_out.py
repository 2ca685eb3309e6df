"""Documents as a ``ray.data.Dataset``: the stream travels to Ray and is read there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from vocabtool.documents.reading import Document
from vocabtool.errors import UnsupportedFormat
from vocabtool.streams.arrow_out import Layout, record_batches

if TYPE_CHECKING:
    import pyarrow as pa
    import ray.data

NOT_SENT = (
    "the stream cannot be sent to Ray ({}): wanted one that reads files or a list, with functions "
    "that can be pickled; put .cache(FOLDER) behind an iterator, read it once, and stream that"
)


def to_dataset(
    start: Callable[[int], Iterator[Document]], rows: int, layout: Layout
) -> ray.data.Dataset:
    """See :meth:`Stream.to_ray`."""
    try:
        import ray.data
    except ImportError as error:
        wanted = "ray is not installed: pip install '.[ray]'"
        raise UnsupportedFormat(wanted) from error

    read = partial(_tables, start, rows, layout)
    library: Any = ray  # of which only a part says its types
    try:
        library.cloudpickle.dumps(read)
    except (TypeError, AttributeError, ValueError) as error:
        raise ValueError(NOT_SENT.format(error)) from error
    dataset: ray.data.Dataset = library.data.read_datasource(_source(read), override_num_blocks=1)
    return dataset


def _tables(
    start: Callable[[int], Iterator[Document]], rows: int, layout: Layout
) -> Iterator[pa.Table]:
    import pyarrow as pa

    for batch in record_batches(start, rows, layout):
        yield pa.Table.from_batches([batch])


def _source(read: Callable[[], Iterator[pa.Table]]) -> Any:
    """One task that reads the stream; Ray takes its tables one after the other."""
    from ray.data import block, datasource

    library: Any = datasource
    nothing_known = block.BlockMetadata(
        num_rows=None, size_bytes=None, input_files=None, exec_stats=None
    )

    def get_read_tasks(*_: object, **__: object) -> list[Any]:
        return [library.ReadTask(read, nothing_known)]

    # Made here, since Ray is imported on use; such a class travels to workers by value.
    methods = {
        "estimate_inmemory_data_size": lambda _: None,
        "get_read_tasks": get_read_tasks,
    }
    return type("StreamDatasource", (library.Datasource,), methods)()
