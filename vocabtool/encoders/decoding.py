"""Texts as Python strings, for models that take no bytes."""

from __future__ import annotations

from typing import Final

from vocabtool.encoders.encoder import Texts
from vocabtool.tokenization.text_arrays import as_bytes, texts_array

DECODED: Final = "bytes that are no UTF-8 reach the model as U+FFFD, the replacement character"


def decoded(texts: Texts) -> list[str]:
    """The texts; what is no UTF-8 in them becomes U+FFFD, as tokenizers of such models do."""
    return [text.decode("utf-8", "replace") for text in as_bytes(texts_array(texts))]
