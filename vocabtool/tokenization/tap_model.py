"""A SavedModel loaded into TensorFlow with its reports, and the function of it that takes texts.

How it is loaded is in ``checked_model.py``; what is checked there holds the reports already.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from vocabtool.errors import reading
from vocabtool.formats.saved_model import graph_files
from vocabtool.tokenization.checked_model import import_tensorflow, load_checked
from vocabtool.tokenization.instrumented_graph import OWN, Report, add_taps, shared_names
from vocabtool.tokenization.model_functions import Entry, choose_entry

Tensor: TypeAlias = Any  # TensorFlow carries no types

_loads: Final = itertools.count()


@dataclass(frozen=True)
class TapModel:
    """A loaded model. ``queues``: per report the queue it fills, ``None`` where nothing calls it.

    ``loaded``: what TensorFlow loaded, which must live as long as its functions are called.
    """

    entry: Entry
    reports: tuple[Report, ...]
    queues: tuple[Tensor | None, ...]
    loaded: Any


def load(
    model: str | Path, *, trust: bool, choose: Callable[[Any], Entry] = choose_entry
) -> TapModel:
    """Load a SavedModel, given by its folder or hub handle; ``choose`` takes its function.

    Raises what ``graph_files.open_graphs``, ``load_checked`` and ``choose`` raise.
    """
    import_tensorflow()
    opened = graph_files.open_graphs(model)
    reports: list[Report] = []
    shared_name = f"{OWN}{next(_loads)}"
    loaded = load_checked(
        opened, trust=trust, change=lambda graph: reports.extend(add_taps(graph, shared_name))
    )
    with reading(str(opened.path)):
        entry = choose(loaded)
    names = shared_names(entry.graph.as_graph_def())
    queues = tuple(_queue(report, names.get(report.queue)) for report in reports)
    return TapModel(entry, tuple(reports), queues, loaded)


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
