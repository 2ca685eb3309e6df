"""Neighbouring words joined into one string, as the op StringNGrams does it, on Arrow arrays.

Layout of the padding: tensorflow/core/kernels/string_ngrams_op.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vocabtool.tokenization.text_arrays import Cut, as_strings

if TYPE_CHECKING:
    import pyarrow as pa

Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NGrams:
    """StringNGrams: of each text all runs of ``widths[0]`` words joined, then of ``widths[1]`` ...

    ``pad_width``: so many pads stand before and behind a text, at most one less than the width;
    -1: just as many. ``preserve_short``: a text too short for any run is one run.
    """

    separator: bytes
    widths: tuple[int, ...]
    left_pad: bytes = b""
    right_pad: bytes = b""
    pad_width: int = 0
    preserve_short: bool = False
    local: bool = field(default=False, init=False, repr=False, compare=False)

    def apply(self, cut: Cut) -> Cut:
        """Join the strings of each text; where all texts are empty there are no pads either."""
        import pyarrow as pa

        if not len(cut.values):
            return Cut(cut.values, np.zeros_like(cut.offsets))
        runs = list(self._runs(cut))
        texts = np.concatenate([text for text, _ in runs])
        order = np.argsort(texts, kind="stable")
        joined = pa.chunked_array([values for _, values in runs], pa.binary()).combine_chunks()
        counts = np.bincount(texts, minlength=len(cut.offsets) - 1)
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        return Cut(as_strings(joined.take(pa.array(order))), offsets)

    def _runs(self, cut: Cut) -> Iterator[tuple[Places, pa.BinaryArray]]:
        """For each width, and for each length of texts that are too short: whose, and the runs."""
        import pyarrow as pa

        pads = pa.array([self.left_pad, self.right_pad], pa.binary())
        words = pa.chunked_array([cut.values.view(pa.binary()), pads]).combine_chunks()
        lengths = np.diff(cut.offsets)
        every = np.arange(len(lengths))
        short = lengths > 0
        yield every[:0], words[:0]
        for width in self.widths:
            pad = width - 1 if self.pad_width < 0 else min(self.pad_width, width - 1)
            short &= lengths + 2 * pad < width
            yield self._joined(words, cut, every, width, pad)
        pad = max(self.pad_width, 0)
        for length in np.unique(lengths[short]).tolist() if self.preserve_short else ():
            texts = every[short & (lengths == length)]
            yield self._joined(words, cut, texts, length + 2 * pad, pad)

    def _joined(
        self, words: pa.BinaryArray, cut: Cut, texts: Places, width: int, pad: int
    ) -> tuple[Places, pa.BinaryArray]:
        """The runs of some texts; the pads are the last two of ``words``."""
        import pyarrow as pa
        import pyarrow.compute as pc

        begins, ends = cut.offsets[:-1][texts], cut.offsets[1:][texts]
        counts = np.maximum(ends - begins + 2 * pad - width + 1, 0)
        owners = np.repeat(np.arange(len(texts)), counts)
        before = np.cumsum(counts) - counts
        starts = np.arange(len(owners)) - before[owners] + begins[owners] - pad
        left, right = len(words) - 2, len(words) - 1

        def column(at: int) -> pa.BinaryArray:
            places = np.where(starts + at < begins[owners], left, starts + at)
            places = np.where(starts + at >= ends[owners], right, places)
            return words.take(pa.array(places))

        separator = pa.scalar(self.separator, pa.binary())
        runs = reduce(
            lambda run, at: pc.binary_join_element_wise(run, column(at), separator),
            range(1, width),
            column(0),
        )
        return texts[owners], runs

    def describe(self) -> str:
        """In plain words."""
        widths = ", ".join(map(str, self.widths))
        return f"join runs of {widths} words with {self.separator.decode('utf-8', 'replace')!r}"
