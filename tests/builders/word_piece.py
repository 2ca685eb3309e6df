"""A WordPiece tokenizer of given entries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def tokenizer_of(entries: Iterable[str], *, strip_accents: bool | None = None) -> Any:
    """It lower-cases and cuts as BERT does; what is in no entry is ``[UNK]``."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    ids = {entry: number for number, entry in enumerate(entries)}
    made: Any = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=strip_accents)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return made
