"""Texts cut into chunks, where a tokenizer makes of each chunk alone what it makes of it there.

A corpus has far fewer different chunks than chunks, so each is looked at once in a batch.
``behind``: cut behind each ASCII blank, for tokenizers whose first cut takes all white space out.
``before``: cut before a blank that stands alone between printable ASCII characters, for those that
keep a blank with the word behind it. Which tokenizers these are is said in
``hf_tokenizer_steps.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from numpy.typing import NDArray

from vocabtool.tokenization.rule import chunks, text_bounds

if TYPE_CHECKING:
    import pyarrow as pa

Way = Literal["behind", "before"]
DOUBTFUL: Final = b"\0\v\f"  # blanks to some tokenizers, and to others not
SPACE: Final = ord(" ")
FIRST, LAST = ord("!"), ord("~")  # of the printable characters of ASCII


def chunked(texts: pa.StringArray, way: Way) -> tuple[pa.StringArray, NDArray[np.int64]] | None:
    """The chunks of all texts, and offsets of shape (n + 1,) into them; no copy is made.

    ``None`` where these texts may not be cut that way.
    """
    if way == "before":
        return _before_blanks(texts)
    bounds = text_bounds(texts)
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[bounds[0] : bounds[-1]]
    if any(bool((data == byte).any()) for byte in DOUBTFUL):
        return None
    return chunks(texts)


def _before_blanks(texts: pa.StringArray) -> tuple[pa.StringArray, NDArray[np.int64]]:
    import pyarrow as pa

    bounds = text_bounds(texts)
    first, last = int(bounds[0]), int(bounds[-1])
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[first:last]
    printed = (data >= FIRST) & (data <= LAST)
    begins = np.zeros(last - first + 1, np.bool_)
    if len(data) > 2:
        begins[1:-2] = (data[1:-1] == SPACE) & printed[:-2] & printed[2:]
    begins[np.maximum(bounds[1:] - first - 1, 0)] = False  # what follows is another text's
    begins[bounds - first] = True
    cuts = np.flatnonzero(begins)
    offsets = np.searchsorted(cuts, bounds - first)
    places = pa.py_buffer((cuts + first).astype(np.int32))
    return pa.StringArray.from_buffers(len(cuts) - 1, places, texts.buffers()[2]), offsets
