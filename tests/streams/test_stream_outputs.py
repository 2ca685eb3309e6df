"""Streams handed on to TensorFlow and Ray, and TensorFlow as the judge of ``interleave``."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from vocabtool import Document, Stream, interleave

COUNT = 2500


def documents(count: int) -> list[Document]:
    return [Document(f"é{n}", f"text {n}", {"label": n % 7, "tag": f"t{n}"}) for n in range(count)]


class Lengths:
    """A fake encoder: the vector of a text is how many bytes it has, and a one."""

    dim = 2

    def encode(self, texts: Any) -> NDArray[np.float32]:
        return np.array([[len(text), 1] for text in texts], np.float32).reshape(-1, 2)


@pytest.fixture(scope="module")
def tf() -> Any:
    return pytest.importorskip("tensorflow", reason="a tf.data.Dataset needs TensorFlow")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 6), max_size=6), st.integers(1, 5), st.integers(1, 4))
def test_interleave_is_that_of_tensorflow(lengths: list[int], cycle: int, block: int) -> None:
    """The order is that of ``tf.data.Dataset.interleave``, streams of any lengths."""
    tf = pytest.importorskip("tensorflow", reason="the judge is TensorFlow")
    ours = interleave([[10 * n + k for k in range(x)] for n, x in enumerate(lengths)], cycle, block)
    pairs = tf.data.Dataset.from_tensor_slices(
        np.array([*enumerate(lengths)], np.int64).reshape(-1, 2)
    )
    theirs = pairs.interleave(
        lambda pair: tf.data.Dataset.range(10 * pair[0], 10 * pair[0] + pair[1]),
        cycle_length=cycle,
        block_length=block,
    )
    assert list(ours) == [int(number) for number in theirs]


def test_a_dataset_of_documents(tf: Any) -> None:
    """Scalars with their dtypes, in order, again; lazily; what goes wrong names the document."""
    held = [*documents(COUNT), Document("last", "a\udcffb", {"label": 0.5, "tag": "ü"})]
    fields = {"label": "float32", "tag": "string"}
    dataset = Stream.of(held).to_tf_dataset(fields=fields, encoder=Lengths())
    assert dataset.element_spec == {
        "id": tf.TensorSpec((), tf.string),
        "text": tf.TensorSpec((), tf.string),
        "label": tf.TensorSpec((), tf.float32),
        "tag": tf.TensorSpec((), tf.string),
        "vector": tf.TensorSpec((2,), tf.float32),
    }
    for _ in range(2):
        rows = list(dataset.as_numpy_iterator())
        assert [row["id"].decode() for row in rows] == [document.id for document in held]
        assert [row["tag"].decode() for row in rows] == [d.fields["tag"] for d in held]
        assert [row["label"] for row in rows] == [d.fields["label"] for d in held]
    assert rows[-1]["text"] == b"a\xffb"
    assert rows[-1]["vector"].tolist() == [3, 1]
    endless = Stream.of(documents(3)).repeat().prefetch(10)
    lazy = endless.to_tf_dataset(5).take(2)
    assert [len(batch["id"]) for batch in lazy] == [5, 5]
    assert [thread for thread in threading.enumerate() if "_read" in thread.name] == []
    broken = [*documents(2), Document("broken", "", {"label": "x"})]
    wrong = Stream.of(broken).to_tf_dataset(fields={"label": "int64"})
    with pytest.raises(tf.errors.OpError, match="broken: field 'label': wanted int64, got 'x'"):
        list(wrong)
    wrong = Stream.of(broken).to_tf_dataset(fields={"year": "int64"})
    with pytest.raises(tf.errors.OpError, match="é0: field 'year': wanted int64, got none"):
        list(wrong)
    with pytest.raises(ValueError, match=r"the names \['vector'\] are reserved"):
        Stream.of(documents(1)).to_tf_dataset(fields={"vector": "int64"})
    with pytest.raises(ValueError, match=r"batch_size: wanted at least one document.*, got 0"):
        Stream.of(documents(1)).to_tf_dataset(0)


@pytest.mark.parametrize("size", [3, 1000, 4000])
def test_a_dataset_in_batches(tf: Any, size: int) -> None:
    """Batches of one size, the last smaller, or left out so that shapes are wholly static."""
    stream = Stream.of(documents(COUNT))
    dataset = stream.to_tf_dataset(size, encoder=Lengths())
    assert dataset.element_spec["vector"] == tf.TensorSpec((None, 2), tf.float32)
    batches = [batch["id"] for batch in dataset.as_numpy_iterator()]
    whole, left = divmod(COUNT, size)
    assert [len(batch) for batch in batches] == [size] * whole + [left] * (left > 0)
    ids = np.concatenate(batches).tolist()
    assert ids == [document.id.encode() for document in stream]
    static = stream.to_tf_dataset(size, encoder=Lengths(), drop_remainder=True)
    assert static.element_spec["id"] == tf.TensorSpec((size,), tf.string)
    assert static.element_spec["vector"] == tf.TensorSpec((size, 2), tf.float32)
    assert [len(batch["id"]) for batch in static.as_numpy_iterator()] == [size] * whole


# Ray sets options of its own that it calls deprecated, whenever it makes a context.
of_ray = pytest.mark.filterwarnings(r"ignore:`use_\w+` is deprecated:DeprecationWarning")


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    ray = pytest.importorskip("ray", reason="a ray.data.Dataset needs Ray")
    pytest.importorskip("ray.data", reason="and its extra for data")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    ray.data.DataContext.get_current().target_max_block_size = 2000
    yield ray
    ray.shutdown()


@of_ray
def test_to_ray(ray: Any) -> None:
    """In Ray's process, in order, block by block of an endless stream; not of a generator."""
    held = documents(300)
    dataset = Stream.of(held).filter(lambda d: d.fields["label"] != 3).to_ray(batch_size=64)
    rows = dataset.take_all()
    assert [row["id"] for row in rows] == [d.id for d in held if d.fields["label"] != 3]
    assert rows[0] == {"id": "é0", "text": "text 0", "fields": '{"label": 0, "tag": "t0"}'}
    endless = Stream.of(documents(10)).repeat().to_ray(batch_size=16)
    first = [row["id"] for row in islice(endless.iter_rows(), 40)]
    assert first == [f"é{n % 10}" for n in range(40)]
    once = Stream.of(document for document in documents(3))
    with pytest.raises(ValueError, match=r"cannot be sent to Ray.*append \.cache\(FOLDER\)"):
        once.to_ray()
