"""Slices of texts or words that take all there is: those that may take a part are not followed."""

from __future__ import annotations

from typing import Final

from vocabtool.formats.saved_model import tensors
from vocabtool.formats.saved_model.graph import Body, Reference
from vocabtool.tokenization.graph_trace import MAX_OPS
from vocabtool.tokenization.op import Op

SPLITS: Final = frozenset((b"StringSplitV2", b"StringSplit"))
# What picks the bounds of a row, and what TensorFlow computes row splits of rows with.
PICKS: Final = frozenset(
    (b"Const", b"Identity", b"Cast", b"Reshape", b"Pack", b"ConcatV2", b"StridedSlice")
)
ROW_SPLITS: Final = PICKS | frozenset(
    (
        *(b"Bincount", b"DenseBincount", b"Size", b"Shape", b"Prod", b"Max"),
        *(b"Maximum", b"Minimum", b"Mul", b"AddV2", b"Greater"),
    )
)
SUMS: Final = frozenset((b"Cumsum",))


def takes_all(op: Op) -> bool:
    tensor = op.tensor(3)
    if tensor is None:
        return False
    masks = [op.node.integer_of(key) for key in (b"begin_mask", b"end_mask", b"new_axis_mask")]
    begins, ends, axes = masks
    if op.node.integer_of(b"shrink_axis_mask") or op.node.integer_of(b"ellipsis_mask"):
        return False
    return all(
        axes >> i & 1 or (begins >> i & 1 and ends >> i & 1 and stride == 1)
        for i, stride in enumerate(tensors.integers(tensor).tolist())
    )


def takes_the_row(op: Op) -> bool:
    """``tf.strings.split(text)`` of one text: row 0 of ragged words of which there is one row."""
    split = op.behind(op.node.data_input(0))
    if split is None or split.op not in SPLITS:
        return False
    text = op.here.body.node(split.data_input(0).name)
    if text is None or text.op != b"Pack" or len(text.data_inputs) != 1:
        return False
    bounds = [op.node.data_input(1), op.node.data_input(2)]
    return all(_is_row_bound(op.here.body, bound, split.name) for bound in bounds)


def _is_row_bound(body: Body, bound: Reference, split: bytes) -> bool:
    """Whether a number is made of the rows of ``split`` as TensorFlow computes row splits."""
    waiting, seen, rows = [(bound, PICKS | SUMS)], set[bytes](), False
    while waiting and len(seen) < MAX_OPS:
        reference, ops = waiting.pop()
        node = body.node(reference.name)
        if node is None or reference.name in seen:
            continue
        if node.name == split:
            if reference.part == b"values" or reference.output == 1 or ops != ROW_SPLITS:
                return False
            rows = True
            continue
        if node.op not in ops:
            return False
        seen.add(node.name)
        # Arithmetic belongs to the row splits: behind them it would take a part of the row.
        further = ROW_SPLITS if node.op in SUMS else ops
        waiting += [(source, further) for source in node.data_inputs]
    return rows and not waiting
