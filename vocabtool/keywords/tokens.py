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
``t``. A run of Han, kana, Hangul, Thai or a similar script is always a token of its own: most of
these scripts have no spaces, and in Hangul, particles follow a word without a space.

The patterns match the *shape* of a text: each character is replaced by an ASCII character.

| shape  | stands for                                                            |
|--------|-----------------------------------------------------------------------|
| ``a``  | letters and marks of all other scripts                                |
| ``0``  | digits and other numbers                                              |
| ``c``  | letters and marks of Han, kana, Hangul, ...: one may be a word        |
| ``t``  | letters and marks of Thai, Lao, Khmer and Myanmar                     |
| ``f``  | what is ignored: soft hyphen, zero-width joiner, Arabic tatweel, ...  |
| itself | possible joiners of an identifier: ``. : / \\ - _ @ # & + $ >``        |
| space  | everything else: a separator                                          |

Categories and scripts come from ``unicodedataplus``, so they do not depend on Python's version.

Texts are compared in :func:`canonical_text` form: NFC, with ordinary widths.

*Folding* removes differences of case, width, ligatures, digits and accents: ``Café`` becomes
``cafe``, and ``٣`` becomes ``3``. Marks that modify a letter are removed: accents, Arabic vowel
signs, Hebrew points, nuktas. Vowel signs of Indic scripts stay. Latin letters that Unicode does not
decompose (``ł``, ``ø``, ``æ``) become ASCII letters, as in Lucene's ASCIIFoldingFilter. Case
folding turns ``ß`` to ``ss``.

*Identifiers* are names and codes, the words that a search guarantees to find.

Names:

- parts joined by ``_``, ``.``, ``::`` or ``->``, such as ``os.path``. Each part begins with a
  letter. All parts but the first have at least two characters.
- ``__init__``, and strict camelCase (``parseHttp``);
- paths with two slashes or more, or with a file extension (``/usr/lib``, ``src/main.py``).

Codes have at least one letter, two digits and five characters. Numbers, dates, times, prices,
decades, ordinals and measures (``100km``) in their usual spellings are not codes.

A looser rule made search worse on texts with many gene names, such as ``IL-6``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

import unicodedataplus

MAX_TERM: Final = 1_000  # characters; longer terms are truncated

JOINERS: Final = frozenset(r".:/\-_@#&+$>")
_SYLLABIC: Final = frozenset(("Han", "Hiragana", "Katakana", "Bopomofo", "Yi", "Hangul"))
_WITHOUT_SPACES: Final = frozenset(("Thai", "Lao", "Khmer", "Myanmar"))
_HYPHEN: Final = "\u2010"  # NFKC of the non-breaking hyphen
_VOICING: Final = frozenset("\u3099\u309a")  # kana voicing marks: they make another letter
_KANA: Final = _VOICING | {"\u30fc"}  # used in both kana scripts, so they have none of their own
_BREAK: Final = "\u200b"  # zero-width space
_IGNORED: Final = re.compile(  # Arabic tatweel, and variation selectors
    "[\u0640\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
_NUKTA: Final = 7  # combining class
_CONTINUING: Final = frozenset(("Extend", "SpacingMark", "V", "T"))  # grapheme cluster breaks

# These patterns match shapes. A run begins with a visible character. Repetitions are possessive or
# unambiguous, so matching takes linear time. Groups are not possessive: Python before 3.11.5
# matches such groups wrongly (gh-106052).
_RUN: Final = r"[a0][a0f]*+"
_JOINER: Final = r"(?:_++|://|(?:::|->|\.)_*+|:?\\{1,2}+|\+{1,2}+|[:/\-@#&$])"
_LEAD: Final = r"(?:(?<!_)_++(?=[a0])|(?<!\.)\.(?=a)|[/\\$](?=a)|[#@](?=[a0]))?"
_TRAIL: Final = r"(?:(?<=[af])(?:\+{1,2}+|#)(?![a0])|_++)?"
_TOKEN: Final = re.compile(rf"{_LEAD}{_RUN}(?:{_JOINER}{_RUN})*{_TRAIL}|c[cf]*+|t[tf]*+")
_RUNS: Final = re.compile(rf"{_RUN}|c[cf]*+|t[tf]*+")
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
_ONE_ASCII_KIND: Final = re.compile(r"[A-Za-z0-9]++([.\-_/])[A-Za-z0-9]++(?:\1[A-Za-z0-9]++)*+")
_APART: Final = frozenset(".-/&\u2010\u2011")  # joiners that other spellings of a word leave out
_BOUNDARY: Final = re.compile(r"(?<=a)(?=0)|(?<=0)(?=a)")
_JOINS: Final = re.compile(r"[.\-_/\\@:#&+$]")  # the hyphen also covers "->"
_AT_EDGES: Final = "./\\-"
_AROUND: Final = _AT_EDGES + "_#@$+"

# Lower-case letters suffice: case folding comes first.
_LATIN: Final = str.maketrans(
    dict(zip("łøđðıȷħŧŋĸƒƀɓƈɖɗɛɠǥɨƙƚɲƞɔɵƥʈƭʉʋƴƶ", "loddijhtnqfbbcddeggiklnnoopttuvyz", strict=True))
    | {"æ": "ae", "œ": "oe", "þ": "th"}
)


class _Table(dict[int, str]):
    """A table for ``str.translate`` that is computed when it is used, by a function."""

    def __init__(self, translate: Callable[[str], str]) -> None:
        self._translate = translate

    def __missing__(self, code: int) -> str:
        self[code] = self._translate(chr(code))
        return self[code]


def _shape(character: str) -> str:
    plain = unicodedataplus.normalize("NFKC", character)
    category = unicodedataplus.category(character)
    if plain == _HYPHEN:
        return "-"
    if _IGNORED.match(character):
        return "f"
    if plain in JOINERS:
        return str(plain)
    if category[0] == "N":
        return "0"
    if category[0] in "LM":
        script = unicodedataplus.script(plain[0])
        is_syllabic = script in _SYLLABIC or plain[0] in _KANA
        return "c" if is_syllabic else "t" if script in _WITHOUT_SPACES else "a"
    return "f" if category == "Cf" and character != _BREAK else " "


SHAPES: Final = _Table(_shape)


def _case_folded(character: str) -> str:
    if character.translate(SHAPES) == "f":
        return ""
    if unicodedataplus.category(character) == "Nd":
        return str(unicodedataplus.decimal(character))
    return str(unicodedataplus.normalize("NFKC", character).casefold())


def _without_marks(character: str) -> str:
    apart = unicodedataplus.normalize("NFKD", character)
    bare = "".join(mark for mark in apart if not _is_addition(mark))
    return str(unicodedataplus.normalize("NFKC", bare.translate(_LATIN)))


_FOLDED: Final = _Table(_case_folded)
_UNMARKED: Final = _Table(_without_marks)


class Span(NamedTuple):
    """A part of a text, ``text[start:end]``, in characters."""

    start: int
    end: int


class Canonical(NamedTuple):
    """``places``: where each character was in the text as written; ``None`` for the same places."""

    text: str
    places: Sequence[Span] | None = None

    def source(self, span: Span) -> Span:
        """Return where a part of the text was in the text as written."""
        if self.places is None:
            return span
        return Span(self.places[span.start].start, self.places[span.end - 1].end)


_WIDTHS: Final = {
    code: unicodedataplus.normalize("NFKC", chr(code))
    for code in (0x3000, *range(0xFF01, 0xFFEF))
    if len(unicodedataplus.normalize("NFKC", chr(code))) == 1
}
_WIDE: Final = re.compile("[\u3000\uff01-\uffee]")


def canonical_text(text: str) -> str:
    """Return a text in NFC, with full-width and half-width characters of the ordinary width."""
    wide = text.translate(_WIDTHS) if _WIDE.search(text) else text
    return str(unicodedataplus.normalize("NFC", wide))


def canonical(text: str) -> Canonical:
    if text.isascii() or canonical_text(text) == text:
        return Canonical(text)
    wide = text.translate(_WIDTHS)
    starts = [at for at, character in enumerate(wide) if not at or not _continues(character)]
    composed, places = list[str](), list[Span]()
    for start, end in pairwise([*starts, len(wide)]):
        composed.append(unicodedataplus.normalize("NFC", wide[start:end]))
        places += [Span(start, end)] * len(composed[-1])
    return Canonical("".join(composed), places)


@cache
def _continues(character: str) -> bool:
    """Whether a character may be composed with the one before it."""
    return unicodedataplus.grapheme_cluster_break(character) in _CONTINUING


def tokens(text: str) -> list[tuple[Span, tuple[Span, ...]]]:
    """Return the span of each token, and the spans of its runs: itself, unless it is compound."""
    shape, spans = text.translate(SHAPES), list[tuple[Span, tuple[Span, ...]]]()
    for match in _TOKEN.finditer(shape):
        whole = Span(*match.span())
        if match[0].isalnum():  # fast path: a single run, like most tokens
            spans.append((whole, (whole,)))
        else:
            runs = [Span(*run.span()) for run in _RUNS.finditer(shape, *whole)]
            spans.append((whole, tuple(runs)))
    return spans


def runs_of(text: str) -> list[str]:
    """Return the runs of a case-folded text."""
    if text.isalpha():  # equivalent for letters of one kind, but faster
        return [text]
    return [text[slice(*run.span())] for run in _RUNS.finditer(text.translate(SHAPES))]


def humps(run: str) -> list[Span]:
    """Return the spans of the parts of a mixed-case ASCII run.

    The parts of ``parseHTTP`` are ``parse`` and ``HTTP``. Parts of one character are left out. The
    result is empty if fewer than two parts remain, as for ``iPhone``.
    """
    if run[1:].islower() or run.isupper() or not run.isascii():
        return []
    spans = [Span(*hump.span()) for hump in _HUMP.finditer(run)]
    longer = [span for span in spans if span.end - span.start > 1]
    return longer if len(longer) > 1 else []


@cache
def folded_character(character: str) -> str:
    """Fold a single character; empty if it is ignored."""
    return "".join(without_marks(case_folded(character)).split())


def boundaries(word: str) -> tuple[int, ...]:
    """Return where letters and digits meet in a run: at 6 in ``iphone15``."""
    if word.isalpha() or word.isdecimal():  # equivalent, but faster
        return ()
    shape = word.translate(SHAPES)
    if not re.fullmatch(_RUN, shape):
        return ()
    return tuple(match.start() for match in _BOUNDARY.finditer(shape))


def in_one_word(token: str, runs: Sequence[str]) -> str:
    """Return a compound token without its joiners, ``email`` for ``e-mail``.

    Empty if it has no letter, or other joiners than one of ``. - / &``, or several of these.
    """
    joiner = token[len(runs[0]) : len(runs[0]) + 1]
    joined = "".join(runs)
    is_apart = joiner in _APART and joiner.join(runs) == token and not joined.isdecimal()
    return joined if is_apart else ""


def surfaces_of(token: str) -> tuple[str, ...]:
    """Fold a compound token; return it, and also its compound parts.

    For ``/usr/lib/python3.11/os.py``: the whole token, ``python3.11`` and ``os.py``.
    """
    if _ONE_ASCII_KIND.fullmatch(token):  # equivalent, but faster
        return (token[:MAX_TERM].lower(),)
    shape = token.translate(SHAPES)
    if _ONE_KIND.fullmatch(shape):
        return (_fold(token),)
    places = [_strip(shape, 0, len(shape), _AROUND)]
    for cut in _CUTS:
        for segment in cut.finditer(shape):
            places.append(_strip(shape, *segment.span(), _AT_EDGES))  # keeps ``__init__`` whole
    inner = (token[start:end] for start, end in places if _JOINS.search(shape, start, end))
    return tuple(dict.fromkeys(map(_fold, (token, *inner))))


def _strip(shape: str, start: int, end: int, characters: str) -> tuple[int, int]:
    inner = shape[start:end]
    return end - len(inner.lstrip(characters)), start + len(inner.rstrip(characters))


def _fold(segment: str) -> str:
    folded = without_marks(case_folded(segment[:MAX_TERM])).replace(_HYPHEN, "-")
    return (folded if folded.isascii() else "".join(folded.split()))[:MAX_TERM]


def case_folded(text: str) -> str:
    """Apply NFKC and case folding, make digits ASCII, and remove ignored characters."""
    if text.isascii():
        return text.lower()
    return str(unicodedataplus.normalize("NFKC", text.translate(_FOLDED)))


def without_marks(text: str) -> str:
    """Remove accents, vowel points and nuktas from a case-folded text; the result is in NFKC."""
    if text.isascii():
        return text
    return str(unicodedataplus.normalize("NFKC", text.translate(_UNMARKED)))


def _is_addition(character: str) -> bool:
    if unicodedataplus.category(character) not in {"Mn", "Me"} or character in _VOICING:
        return False
    is_nukta = unicodedataplus.combining(character) == _NUKTA
    return is_nukta or unicodedataplus.script(character) in {"Inherited", "Hebrew"}


MIN_DIGITS, MIN_CHARACTERS = 2, 5

_MONTH: Final = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    "|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_NUMBER: Final = r"[\d.,:/\-]+"
_AMOUNT: Final = r"(?:\d[\d.,]*-)?\d[\d.,]*"  # a number or a range; does not match 48007-H
_UNIT: Final = (  # two letters or more: 12345L is more likely a code
    "(?:[nµmck]m|ft|yds?|mph|kph|kmh|km/h|[mk]g|lbs?|oz|[mcd]l|[kmgt]i?b(?:ps|/s|it)?|[kmg]?hz"
    "|[kmg]w|kwh|m?ah|[mk]v|ms|secs?|mins?|days?|px|dpi|fps|rpm)"
)
_NO_CODES: Final = re.compile(
    rf"""
    [+-]?{_NUMBER} (?: e[+-]?\d{{1,3}} )?                  # 1,000.5  1.5e-10  12:30  2024-01-02
    | \d[\d,]* (?: st|nd|rd|th )                          # 1024th
    | (?: (?:early|mid|late|pre|post)- )? '?\d+ '?s        # 1990s  mid-1990s
    | (?: \d[\d.:]* (?: am|pm|h|hrs?|z ) -? )+            # 10:30pm  9am-5pm
    | \d{{4}}-?\d\d-?\d\dt[\d:.]+ (?: z|[+-][\d:]+ )?      # 2024-01-02T10:30:00Z
    | \d{{1,2}}[-/.]?{_MONTH}[-/.]?\d{{2,4}}               # 02-Jan-2024
    | \d{{4}}[-/.]?{_MONTH} (?: [-/.]?\d{{1,2}} )?         # 2024-Jan-02  2024-Jan
    | {_MONTH}[-/.]?\d{{1,2}} (?: [-/.]\d{{2,4}} )?        # Jan-02-2024
    | {_MONTH}[-/.]?\d{{4}}                                # Jan-2024
    | {_AMOUNT} -?{_UNIT}                                  # 100km  10-20km
    | [1-9]\d{{0,3}}x[1-9]\d{{0,3}}                        # 1920x1080
    | (?: (?:us|au|ca)?[$£€¥] )? {_AMOUNT} (?: usd|eur|gbp|chf|jpy|k|m|bn )?  # $1,000  100usd
    | (?: usd|eur|gbp|chf|jpy ){_AMOUNT}                   # EUR100
    """,
    re.VERBOSE | re.IGNORECASE,
)
_MAX_LENGTH: Final = 200  # characters; nobody types a longer name or code

# These match shapes, except _CAMEL_CASE.
_NAME: Final = re.compile(r"_*+a[a0f]*+(?:(?:_++|(?:\.|::|->)_*+)a[a0f]++)+_*+|__a[a0f]*+__")
_STEP: Final = re.compile(r"[a_][a0f_]++(?:[-.][a0f_]++)*+")  # one component of a path
_ENDING: Final = re.compile(r"\.a+$")
_CAMEL_CASE: Final = re.compile(r"[A-Za-z][a-z]+(?:[A-Z][a-z]+)+")


def is_identifier(word: str) -> bool:
    if word[1:].islower() and word.isalpha():  # fast path: true of most words
        return False
    return is_name(word) or is_code_like(word)


def is_name(word: str) -> bool:
    """Whether a word looks like a name in a program: ``os.path``, ``snake_case``, ``camelCase``."""
    if len(word) > _MAX_LENGTH:
        return False
    shape = word.translate(SHAPES)
    if _CAMEL_CASE.fullmatch(word) or _NAME.fullmatch(shape):
        return True
    if shape.count("/") < 2 and not ("/" in shape and _ENDING.search(shape)):
        return False  # not a path
    return all(map(_STEP.fullmatch, shape.removeprefix("/").split("/")))


def is_code_like(word: str) -> bool:
    """Whether a word, as written in a text, looks like a code: ``SKU-48007-H``, ``0x80070005``."""
    if not MIN_CHARACTERS <= len(word) <= _MAX_LENGTH:
        return False
    has_letters = any(map(str.isalpha, word))
    has_digits = sum(map(str.isdigit, word)) >= MIN_DIGITS
    return has_letters and has_digits and _NO_CODES.fullmatch(word) is None
