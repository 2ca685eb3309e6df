"""WordLookup words made by hand: texts are lists of words, and known is what a dict holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from vocabtool.tokenization.lookup import WordLookup
from vocabtool.tokenization.text_arrays import string_array

Texts = Sequence[Sequence[bytes]]


def judged(
    texts: Texts,
    vocabulary: Mapping[bytes, int],
    pieces: Mapping[bytes, int] | None = None,
    *,
    repeated: bool = False,
) -> WordLookup:
    """``vocabulary``: the position of each known word. ``repeated``: each token has its own code,
    and there are words that stand nowhere."""
    flat = [word for text in texts for word in text]
    distinct = [b"nowhere", *flat] if repeated else list(dict.fromkeys(flat))
    places = {word: place for place, word in enumerate(distinct)}
    codes = np.arange(1, len(distinct)) if repeated else np.array([places[word] for word in flat])
    positions = np.array([vocabulary.get(word, -1) for word in distinct], np.int64)
    counted = None if pieces is None else np.array([pieces.get(w, 1) for w in distinct], np.int32)
    return WordLookup(
        codes.astype(np.int32),
        np.cumsum([0, *map(len, texts)], dtype=np.int64),
        string_array(distinct),
        positions >= 0,
        positions,
        positions,
        counted,
    )


def lines(texts: Texts) -> pa.StringArray:
    """The texts that words of :func:`judged` were made of."""
    return string_array(b" ".join(text) for text in texts)
