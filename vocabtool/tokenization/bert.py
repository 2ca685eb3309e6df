"""The two ops of tensorflow-text's fast BERT tokenizer that come before the pieces, as steps.

FastBertNormalize changes each character alone; its model (a flatbuffer, schema
fast_bert_normalizer_model.fbs) is a table that was made by Unicode's rules, so only the flag in
it is read, and the rules are applied. FastWordpieceTokenizeWithOffsets cuts texts by itself where
its model says ``end_to_end``. The pieces are in ``wordpiece.py``; the older BertTokenizer is a
chain of ops that all have steps of their own.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

from vocabtool.formats import flatbuffer
from vocabtool.tokenization.distinct import changed, split_once
from vocabtool.tokenization.normalizing import decoded, encoded, fold
from vocabtool.tokenization.text_arrays import Cut, cut_further
from vocabtool.tokenization.tokenizing import BLANKS, cut_at

if TYPE_CHECKING:
    import pyarrow as pa

LOWER: Final = 0  # lower_case_nfd_strip_accents, a field of the model

# fast_wordpiece_tokenizer_utils.h: what is a word of its own. The marks of ASCII are more than
# Unicode's punctuation; the blocks are those of Chinese characters.
ALONE: Final = (
    r"[!-/:-@\[-`{-~\pP\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}"
    r"\x{2B740}-\x{2B81F}\x{2B820}-\x{2CEAF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}]"
)
BOUNDARY: Final = rf"({ALONE}|[{BLANKS}]+)"


@dataclass(frozen=True, slots=True)
class BertNormalize:
    """FastBertNormalize: control and format characters become spaces.

    ``lower``: before that case is folded, marks are taken off. Bytes that are not UTF-8 stay.
    """

    lower: bool
    local: bool = field(default=True, init=False, repr=False, compare=False)

    def apply(self, cut: Cut) -> Cut:
        """Normalize each string."""
        return cut._replace(values=changed(cut.values, self._ascii, self._normalized))

    def _ascii(self, values: pa.StringArray) -> pa.StringArray:
        import pyarrow.compute as pc

        spaced = pc.replace_substring_regex(values, pattern="[\x01-\x1f\x7f]", replacement=" ")
        return pc.ascii_lower(spaced) if self.lower else spaced

    def _normalized(self, text: bytes) -> bytes:
        change = _bare if self.lower else _spaced
        return encoded("".join(map(change, decoded(text))))

    def describe(self) -> str:
        """In plain words."""
        spaced = "control characters become spaces"
        return f"fold case, take off accents, {spaced}" if self.lower else spaced


@cache
def _spaced(character: str) -> str:
    return " " if unicodedata.category(character) in ("Cc", "Cf") else character


@cache
def _bare(character: str) -> str:
    apart = unicodedata.normalize("NFD", fold(character))
    return "".join(_spaced(c) for c in apart if unicodedata.category(c) != "Mn")


def read_bert_normalizer(model: bytes) -> BertNormalize:
    """The step of a normalizer's model. Raises :class:`InvalidFile` where it is damaged."""
    return BertNormalize(bool(flatbuffer.root(model).byte(LOWER)))


@dataclass(frozen=True, slots=True)
class BertSplit:
    """FastWordpieceTokenizeWithOffsets, end to end: how it cuts a text into words.

    At whitespace of Unicode; punctuation and Chinese characters are words, each alone.
    """

    local: bool = field(default=True, init=False, repr=False, compare=False)

    def apply(self, cut: Cut) -> Cut:
        """Cut each string."""
        return cut_further(cut, *split_once(cut.values, self._split))

    def _split(self, text: bytes) -> list[bytes]:
        return cut_at(BOUNDARY, ALONE, text)

    def describe(self) -> str:
        """In plain words."""
        return "split at whitespace; punctuation and Chinese characters are words of their own"
