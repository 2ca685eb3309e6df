"""Unicode normalization and case folding as tensorflow-text's ops do it, without TensorFlow.

The ops call ICU; the rules are those of Unicode (annex 15, and NFKC_Casefold of section 3.13 of
the standard). Characters younger than Python's own tables stay as they are. BERT's compiled
normalizer is in ``bert.py``.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final, Literal

from vocabtool.tokenization.distinct import changed
from vocabtool.tokenization.text_arrays import Cut

if TYPE_CHECKING:
    import pyarrow as pa

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]

# Default_Ignorable_Code_Point (DerivedCoreProperties.txt): kept for them, assigned or not.
IGNORABLE: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


@dataclass(frozen=True, slots=True)
class NormalizeUtf8:
    """NormalizeUTF8. Bytes that are not UTF-8 stay."""

    form: Form
    local: bool = True  # no character composes with whitespace or moves past it

    def apply(self, cut: Cut) -> Cut:
        """Normalize each string."""
        return cut._replace(values=changed(cut.values, _same, self._normalized))

    def _normalized(self, text: bytes) -> bytes:
        return encoded(unicodedata.normalize(self.form, decoded(text)))

    def describe(self) -> str:
        """In plain words."""
        return f"Unicode normalization {self.form}"


@dataclass(frozen=True, slots=True)
class CaseFold:
    """CaseFoldUTF8: NFKC_Casefold. Bytes that are not UTF-8 stay."""

    local: bool = field(default=True, init=False, repr=False, compare=False)

    def apply(self, cut: Cut) -> Cut:
        """Fold each string."""
        import pyarrow.compute as pc

        return cut._replace(values=changed(cut.values, pc.ascii_lower, _folded))

    def describe(self) -> str:
        """In plain words."""
        return "fold case and compatibility forms, leave out ignorable characters"


def _same(values: pa.StringArray) -> pa.StringArray:
    return values


def _folded(text: bytes) -> bytes:
    return encoded(unicodedata.normalize("NFC", "".join(map(fold, decoded(text)))))


@cache
def fold(character: str) -> str:
    """NFKC_Casefold of one character: fold, leave out and normalize until nothing changes."""
    before, after = "", unicodedata.normalize("NFD", character)
    while before != after:
        before = after
        after = unicodedata.normalize("NFKC", IGNORABLE.sub("", before).casefold())
    return after


def decoded(text: bytes) -> str:
    """UTF-8 as characters; what is not UTF-8 becomes surrogates."""
    return text.decode("utf-8", "surrogateescape")


def encoded(text: str) -> bytes:
    """The bytes that :func:`decoded` read."""
    return text.encode("utf-8", "surrogateescape")
