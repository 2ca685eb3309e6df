r"""Find the words of a text, join them into identifiers, and fold them.

A *run* is a maximal sequence of letters, digits and marks. A *token* is a run, or several runs
connected by joiners:

| position        | joiners                                       | examples of one token    |
|-----------------|-----------------------------------------------|--------------------------|
| between runs    | one of ``. : / \ - @ # & $``, ``+`` or ``++`` | ``SKU-48007-H``          |
| between runs    | any number of ``_``                           | ``snake_case``           |
| between runs    | one of ``. :: ->``, then any number of ``_``  | ``foo.__init__``         |
| between runs    | ``::``, ``->``, ``://``                       | ``std::vector``          |
| between runs    | ``\\``, ``:\``, ``:\\``                       | ``C:\Windows\system32``  |
| before the runs | any number of ``_``; one ``#`` or ``@``       | ``#hashtag``, ``@name``  |
| before a letter | one ``.``, ``/``, ``\`` or ``$``              | ``.NET``, ``/usr/lib``   |
| after the runs  | any number of ``_``                           | ``__init__``             |
| after a letter  | ``+``, ``++``, ``#``                          | ``C++``, ``C#``          |

Everything else separates tokens: for example brackets, quotation marks, or the full stop of a
sentence. So ``foo.bar()`` has the token ``foo.bar``, and ``didn't`` has the tokens ``didn`` and
``t``. In scripts without spaces, a run is always a token of its own.

The patterns match the *shape* of a text: each character is replaced by an ASCII character.

| shape  | stands for                                                            |
|--------|-----------------------------------------------------------------------|
| ``a``  | letters and marks of scripts with spaces between words                |
| ``0``  | digits and other numbers                                              |
| ``c``  | letters and marks of scripts without spaces (Han, kana, Thai, ...)    |
| ``f``  | invisible format characters: soft hyphen, zero-width joiner           |
| itself | possible joiners of an identifier: ``. : / \\ - _ @ # & + $ >``        |
| space  | everything else: a separator                                          |

Categories and scripts come from ``unicodedataplus``, so they do not depend on Python's version.

*Folding* removes differences of case, width, ligatures and accents: ``Café`` becomes ``cafe``.
NFKC and case folding come before stemming, because the rules of Snowball use accents. After
stemming, marks that modify a letter are removed: accents, Arabic vowel signs, Hebrew points.
Vowel signs of Indic scripts stay. Latin letters that Unicode does not decompose (``ł``, ``ø``,
``æ``) become ASCII letters, as in Lucene's ASCIIFoldingFilter. Case folding turns ``ß`` to ``ss``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

import unicodedataplus

MAX_TERM: Final = 1_000  # characters; longer terms are truncated

JOINERS: Final = frozenset(r".:/\-_@#&+$>")
WITHOUT_BLANKS: Final = frozenset(
    ("Han", "Hiragana", "Katakana", "Bopomofo", "Yi", "Thai", "Lao", "Khmer", "Myanmar")
)
_HYPHEN: Final = "\u2010"  # NFKC of the non-breaking hyphen
_LONG_KANA: Final = "\u30fc"  # used in both kana scripts, so its own script is "Common"

# These patterns match shapes. A run begins with a visible character. Repetitions are possessive or
# unambiguous, so matching takes linear time. Groups are not possessive: Python before 3.11.5
# matches such groups wrongly (gh-106052).
_RUN: Final = r"[a0][a0f]*+"
_JOINER: Final = r"(?:_++|://|(?:::|->|\.)_*+|:?\\{1,2}+|\+{1,2}+|[:/\-@#&$])"
_LEAD: Final = r"(?:(?<!_)_++(?=[a0])|(?<!\.)\.(?=a)|[/\\$](?=a)|[#@](?=[a0]))?"
_TRAIL: Final = r"(?:(?<=[af])(?:\+{1,2}+|#)(?![a0])|_++)?"
_TOKEN: Final = re.compile(rf"{_LEAD}{_RUN}(?:{_JOINER}{_RUN})*{_TRAIL}|c[cf]*+")
_RUNS: Final = re.compile(rf"{_RUN}|c[cf]*+")
_HUMP: Final = re.compile(r"[A-Z]+[0-9]*s?(?![a-z])|[A-Z]?[a-z]+[0-9]*")  # matches texts

# Segments of identifiers, from coarse to fine: split at ``: @ # & + $`` (``file.py:12``), also at
# ``/ \\ :: ->``, then also at hyphens (``foo.bar-like``) or full stops.
_CUTS: Final = (
    re.compile(r"(?:[^:@#&+$]|(?<!:)::(?!:))+"),
    re.compile(r"(?:[^:@#&+$/\\\->]|-(?!>))+"),
    re.compile(r"[^:@#&+$/\\\->]+"),
    re.compile(r"(?:[^:@#&+$/\\\->.]|-(?!>))+"),
)
_ONE_KIND: Final = re.compile(r"[a0f]++([.\-_/\\@#&$])[a0f]++(?:\1[a0f]++)*+")  # one joiner only
_JOINS: Final = re.compile(r"[.\-_/\\@:#&+$]")  # the hyphen also covers "->"
_AT_EDGES: Final = "./\\-"
_AROUND: Final = _AT_EDGES + "_#@$+"

# Lower-case letters suffice: case folding comes first.
_LATIN: Final = str.maketrans(
    dict(zip("łøđðıȷħŧŋĸƒƀɓƈɖɗɛɠǥɨƙƚɲƞɔɵƥʈƭʉʋƴƶ", "loddijhtnqfbbcddeggiklnnoopttuvyz", strict=True))
    | {"æ": "ae", "œ": "oe", "þ": "th"}
)
_VOICING: Final = frozenset("\u3099\u309a")  # kana voicing marks: they make another letter


class _Shapes(dict[int, str]):
    """A table for ``str.translate`` that maps each character to its shape, an ASCII character."""

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
    """A part of a text, ``text[start:end]``, in characters."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a text.

    ``whole``: the span of the token. ``runs``: the spans of its runs. ``is_compound``: whether the
    token is more than a single run.
    """

    whole: Span
    runs: tuple[Span, ...]
    is_compound: bool


def tokens(text: str) -> Iterator[Token]:
    shape = text.translate(SHAPES)
    for found in _TOKEN.finditer(shape):
        whole = Span(*found.span())
        if found[0].isalnum():  # fast path: a single run, like most tokens
            yield Token(whole, (whole,), False)
        else:
            runs = tuple(Span(*run.span()) for run in _RUNS.finditer(shape, *whole))
            yield Token(whole, runs, runs != (whole,))


def runs_of(text: str) -> list[str]:
    return [text[slice(*run.span())] for run in _RUNS.finditer(text.translate(SHAPES))]


def humps(run: str) -> list[Span]:
    """Return the spans of the parts of a mixed-case ASCII run.

    The parts of ``parseHTTP`` are ``parse`` and ``HTTP``. Parts of one character are left out. The
    result is empty if fewer than two parts remain, as for ``iPhone``.
    """
    if run[1:].islower() or run.isupper() or not run.isascii():
        return []
    found = [Span(*hump.span()) for hump in _HUMP.finditer(run)]
    longer = [hump for hump in found if hump.end - hump.start > 1]
    return longer if len(longer) > 1 else []


def surfaces_of(token: str) -> tuple[str, ...]:
    """Fold a compound token; return it, and also its compound parts.

    For ``/usr/lib/python3.11/os.py``: the whole token, ``python3.11`` and ``os.py``.
    """
    shape = token.translate(SHAPES)
    if _ONE_KIND.fullmatch(shape):
        return (_fold(token),)
    places = [_strip(shape, 0, len(shape), _AROUND)]
    for cut in _CUTS:
        for found in cut.finditer(shape):
            places.append(_strip(shape, *found.span(), _AT_EDGES))  # keeps ``__init__`` whole
    inner = (token[start:end] for start, end in places if _JOINS.search(shape, start, end))
    return tuple(dict.fromkeys(map(_fold, (token, *inner))))


def _strip(shape: str, start: int, end: int, characters: str) -> tuple[int, int]:
    inner = shape[start:end]
    return end - len(inner.lstrip(characters)), start + len(inner.rstrip(characters))


def _fold(segment: str) -> str:
    folded = without_marks(case_folded(segment[:MAX_TERM])).replace(_HYPHEN, "-")
    return (folded if folded.isascii() else "".join(folded.split()))[:MAX_TERM]


def case_folded(text: str) -> str:
    """Apply NFKC and case folding, and remove format characters."""
    if text.isascii():
        return text.lower()
    visible = "".join(character for character in text if not _is_format(character))
    return str(unicodedataplus.normalize("NFKC", visible)).casefold()


def without_marks(text: str) -> str:
    """Remove accents and vowel points from a case-folded text; the result is in NFKC."""
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
