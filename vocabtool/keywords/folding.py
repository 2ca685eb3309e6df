"""How a word is folded, so that spellings of one word meet: case, width, ligatures, accents.

NFKC and case folding come before a stemmer sees the word (Snowball's rules know accents), marks
come off after it. Invisible format characters (soft hyphen, joiners) come off first.

Marks come off where they are an addition to a letter: combining marks of no script of their own
(accents, Arabic vowel signs) and Hebrew points. Vowel signs of Indic scripts are letters and stay.
Latin letters that Unicode does not take apart (``ł``, ``ø``, ``æ``) become those that stand for
them in ASCII, as in the folding of Lucene (ASCIIFoldingFilter); ``ß`` is ``ss`` by case folding.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import unicodedataplus

# Small letters only: capitals have met case folding before.
_LATIN: Final = str.maketrans(
    dict(zip("łøđðıȷħŧŋĸƒƀɓƈɖɗɛɠǥɨƙƚɲƞɔɵƥʈƭʉʋƴƶ", "loddijhtnqfbbcddeggiklnnoopttuvyz", strict=True))
    | {"æ": "ae", "œ": "oe", "þ": "th"}
)
_VOICING: Final = frozenset("\u3099\u309a")  # kana: another sound, not an addition


def case_folded(text: str) -> str:
    """NFKC and case folding, format characters left out."""
    if text.isascii():
        return text.lower()
    visible = "".join(character for character in text if not _is_format(character))
    return str(unicodedataplus.normalize("NFKC", visible)).casefold()


def without_marks(text: str) -> str:
    """A case-folded text without accents and points, plain Latin letters, composed (NFKC)."""
    if text.isascii():
        return text
    apart = unicodedataplus.normalize("NFKD", text)
    bare = "".join(character for character in apart if not _is_addition(character))
    return str(unicodedataplus.normalize("NFKC", bare.translate(_LATIN)))


@cache
def _is_format(character: str) -> bool:
    return bool(unicodedataplus.category(character) == "Cf")


@cache
def _is_addition(character: str) -> bool:
    if unicodedataplus.category(character) not in {"Mn", "Me"} or character in _VOICING:
        return False
    return unicodedataplus.script(character) in {"Inherited", "Hebrew"}
