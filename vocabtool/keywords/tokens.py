r"""Where the words of a text stand, which belong together as one identifier, how they are folded.

A *run* is a maximal run of letters, digits and marks. A *token* is a run, or runs that joiners
hold together:

| where           | what                                          | so these stay whole      |
|-----------------|-----------------------------------------------|--------------------------|
| between runs    | one of ``. : / \ - @ # & $``; ``+``, ``++``;  | ``SKU-48007-H``          |
|                 | ``_`` any number, also after ``. :: ->``;     | ``std::vector``          |
|                 | ``::``, ``->``, ``://``;                      | ``ptr->next``            |
|                 | ``\\``, ``:\``, ``:\\``                       | ``C:\Windows\system32``  |
| before them     | ``_`` any number; ``#``, ``@``;               | ``#hashtag``, ``@name``  |
|                 | before a letter: ``.`` (one), ``/ \ $``       | ``.NET``, ``/usr/lib``   |
| after them      | ``_`` any number;                             | ``__init__``             |
|                 | after a letter: ``+``, ``++``, ``#``          | ``C++``, ``C#``          |

Everything else cuts: brackets, quotes and apostrophes, commas, semicolons, ``? ! = * < > |``, and
joiners that join nothing, such as the full stop of a sentence. So ``foo.bar()`` is ``foo.bar``, and
``didn't`` is ``didn`` and ``t``, as in the setting that was measured (``[a-z0-9]+``); both pieces
are stop words. Of scripts without blanks a run is a token of its own, never joined to others.

Patterns match over *shapes*, texts with one ASCII letter for each character:

| shape  | stands for                                                            |
|--------|-----------------------------------------------------------------------|
| ``a``  | letters and marks of scripts that write blanks, letter-like numbers   |
| ``0``  | digits and other numbers                                              |
| ``c``  | letters and marks of scripts without blanks (Han, kana, Thai, ...)    |
| ``f``  | invisible format characters: soft hyphen, joiners                     |
| itself | what may join the parts of an identifier: ``. : / \\ - _ @ # & + $ >`` |
| blank  | everything else: cuts                                                 |

Categories and scripts are those of ``unicodedataplus``, whatever Python's own tables are.

*Folding* makes spellings of one word meet: case, width, ligatures, accents. NFKC and case folding
come before a stemmer sees the word (Snowball's rules know accents), marks come off after it where
they are an addition to a letter: combining marks of no script of their own (accents, Arabic vowel
signs) and Hebrew points. Vowel signs of Indic scripts are letters and stay. Latin letters that
Unicode does not take apart (``ł``, ``ø``, ``æ``) become those that stand for them in ASCII, as in
the folding of Lucene (ASCIIFoldingFilter); ``ß`` is ``ss`` by case folding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

import unicodedataplus

MAX_TERM: Final = 1_000  # characters; longer ones are found by their beginning

JOINERS: Final = frozenset(r".:/\-_@#&+$>")
WITHOUT_BLANKS: Final = frozenset(
    ("Han", "Hiragana", "Katakana", "Bopomofo", "Yi", "Thai", "Lao", "Khmer", "Myanmar")
)
_HYPHEN: Final = "\u2010"  # what NFKC makes of the hyphen that does not break
_LONG_KANA: Final = "\u30fc"  # lengthens a vowel in either kana, so its script is "Common"

# Over shapes. A run begins with a visible character. No repetition is tried twice at one place, or
# from within, so matching is linear. No group is possessive: Python before 3.11.5 matches such
# groups wrongly (gh-106052).
_RUN: Final = r"[a0][a0f]*+"
_JOINER: Final = r"(?:_++|://|(?:::|->|\.)_*+|:?\\{1,2}+|\+{1,2}+|[:/\-@#&$])"
_LEAD: Final = r"(?:(?<!_)_++(?=[a0])|(?<!\.)\.(?=a)|[/\\$](?=a)|[#@](?=[a0]))?"
_TRAIL: Final = r"(?:(?<=[af])(?:\+{1,2}+|#)(?![a0])|_++)?"
_TOKEN: Final = re.compile(rf"{_LEAD}{_RUN}(?:{_JOINER}{_RUN})*{_TRAIL}|c[cf]*+")
_RUNS: Final = re.compile(rf"{_RUN}|c[cf]*+")
_HUMP: Final = re.compile(r"[A-Z]+[0-9]*s?(?![a-z])|[A-Z]?[a-z]+[0-9]*")  # over texts

# How surfaces are cut, ever finer: at ``: @ # & + $`` (``file.py:12``), at ``/ \\ :: ->`` too, then
# at hyphens (``foo.bar-like``) or full stops.
_CUTS: Final = (
    re.compile(r"(?:[^:@#&+$]|(?<!:)::(?!:))+"),
    re.compile(r"(?:[^:@#&+$/\\\->]|-(?!>))+"),
    re.compile(r"[^:@#&+$/\\\->]+"),
    re.compile(r"(?:[^:@#&+$/\\\->.]|-(?!>))+"),
)
_ONE_KIND: Final = re.compile(r"[a0f]++([.\-_/\\@#&$])[a0f]++(?:\1[a0f]++)*+")  # holds no other
_JOINS: Final = re.compile(r"[.\-_/\\@:#&+$]")  # an arrow holds a hyphen
_AT_EDGES: Final = "./\\-"
_AROUND: Final = _AT_EDGES + "_#@$+"

# Small letters only: capitals have met case folding before.
_LATIN: Final = str.maketrans(
    dict(zip("łøđðıȷħŧŋĸƒƀɓƈɖɗɛɠǥɨƙƚɲƞɔɵƥʈƭʉʋƴƶ", "loddijhtnqfbbcddeggiklnnoopttuvyz", strict=True))
    | {"æ": "ae", "œ": "oe", "þ": "th"}
)
_VOICING: Final = frozenset("\u3099\u309a")  # kana: another sound, not an addition


class _Shapes(dict[int, str]):
    """A table for ``str.translate`` that learns each character when it first meets it."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        plain = unicodedataplus.normalize("NFKC", character)
        category = unicodedataplus.category(character)
        if plain == _HYPHEN:
            shape = "-"
        elif plain in JOINERS:
            shape = plain
        elif category[0] == "N":
            shape = "0"
        elif category[0] in "LM":
            is_kana = plain[0] == _LONG_KANA
            shape = "c" if is_kana or unicodedataplus.script(plain[0]) in WITHOUT_BLANKS else "a"
        else:
            shape = "f" if category == "Cf" else " "
        self[code] = shape
        return shape


SHAPES: Final = _Shapes()


class Span(NamedTuple):
    """Of a text: from ``start`` to before ``end``, in characters."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Token:
    """``whole``: with what joins; ``runs``: its words, at least one; of a compound there is more
    to it than one word.
    """

    whole: Span
    runs: tuple[Span, ...]
    is_compound: bool


def tokens(text: str) -> Iterator[Token]:
    """Every token of a text, in order."""
    shape = text.translate(SHAPES)
    for found in _TOKEN.finditer(shape):
        whole = Span(*found.span())
        if found[0].isalnum():  # nothing joins: one run, and most are
            yield Token(whole, (whole,), False)
        else:
            runs = tuple(Span(*run.span()) for run in _RUNS.finditer(shape, *whole))
            yield Token(whole, runs, runs != (whole,))


def runs_of(text: str) -> list[str]:
    """Every run of a text, in order."""
    return [text[slice(*run.span())] for run in _RUNS.finditer(text.translate(SHAPES))]


def humps(run: str) -> list[Span]:
    """The words that capitals part in an ASCII run in mixed case: of ``parseHTTPHeader`` three.

    Single characters are none, and one hump alone is no part (``mRNA``, ``iPhone``, ``SNPs``).
    """
    if run[1:].islower() or run.isupper() or not run.isascii():
        return []
    found = [Span(*hump.span()) for hump in _HUMP.finditer(run)]
    longer = [hump for hump in found if hump.end - hump.start > 1]
    return longer if len(longer) > 1 else []


def surfaces_of(token: str) -> tuple[str, ...]:
    """The exact surface of a compound token, folded, and those of the compound segments in it.

    ``/usr/lib/python3.11/os.py`` is itself, ``python3.11`` and ``os.py``; ``john.doe@example.com``
    is itself, ``john.doe`` and ``example.com``. Segments that are plain words are found by these.
    """
    shape = token.translate(SHAPES)
    if _ONE_KIND.fullmatch(shape):
        return (_fold(token),)
    places = [_strip(shape, 0, len(shape), _AROUND)]
    for cut in _CUTS:
        for found in cut.finditer(shape):
            places.append(_strip(shape, *found.span(), _AT_EDGES))  # ``__init__`` keeps its own
    inner = (token[start:end] for start, end in places if _JOINS.search(shape, start, end))
    return tuple(dict.fromkeys(map(_fold, (token, *inner))))


def _strip(shape: str, start: int, end: int, characters: str) -> tuple[int, int]:
    inner = shape[start:end]
    return end - len(inner.lstrip(characters)), start + len(inner.rstrip(characters))


def _fold(segment: str) -> str:
    """Case-folded and without accents, blanks that folding made left out."""
    folded = without_marks(case_folded(segment[:MAX_TERM])).replace(_HYPHEN, "-")
    return (folded if folded.isascii() else "".join(folded.split()))[:MAX_TERM]


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
