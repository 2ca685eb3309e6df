"""The shape of a text: one ASCII letter for each character, so that it is cut by plain patterns.

| shape  | stands for                                                            |
|--------|-----------------------------------------------------------------------|
| ``a``  | letters and marks of scripts that write blanks, letter-like numbers   |
| ``0``  | digits and other numbers                                              |
| ``c``  | letters and marks of scripts without blanks (Han, kana, Thai, ...)    |
| ``f``  | invisible format characters: soft hyphen, joiners                     |
| itself | what may join the parts of an identifier: ``. : / \\ - _ @ # & + $ >`` |
| blank  | everything else: cuts                                                 |

A shape is as long as its text: places in one are places in the other. Categories and scripts are
those of ``unicodedataplus``, whatever Python's own tables are.
"""

from __future__ import annotations

from typing import Final

JOINERS: Final = frozenset(r".:/\-_@#&+$>")
WITHOUT_BLANKS: Final = frozenset(
    ("Han", "Hiragana", "Katakana", "Bopomofo", "Yi", "Thai", "Lao", "Khmer", "Myanmar")
)
_HYPHEN: Final = "\u2010"  # what NFKC makes of the hyphen that does not break
_LONG_KANA: Final = "\u30fc"  # lengthens a vowel in either kana, so its script is "Common"


class _Shapes(dict[int, str]):
    """A table for ``str.translate`` that learns each character when it first meets it."""

    def __missing__(self, code: int) -> str:
        shape = self[code] = _shape(chr(code))
        return shape


_SHAPES: Final = _Shapes()


def shape_of(text: str) -> str:
    """The shape of a text, as long as the text."""
    return text.translate(_SHAPES)


def _shape(character: str) -> str:
    import unicodedataplus

    plain: str = unicodedataplus.normalize("NFKC", character)
    if plain == _HYPHEN:
        return "-"
    if plain in JOINERS:
        return plain
    return _shape_by_category(character, unicodedataplus.category(character))


def _shape_by_category(character: str, category: str) -> str:
    if category[0] == "N":
        return "0"
    if category[0] in "LM":
        return "c" if _without_blanks(character) else "a"
    return "f" if category == "Cf" else " "


def _without_blanks(character: str) -> bool:
    import unicodedataplus

    plain = unicodedataplus.normalize("NFKC", character)[0]
    return plain == _LONG_KANA or unicodedataplus.script(plain) in WITHOUT_BLANKS
