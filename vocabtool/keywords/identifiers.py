"""Detect identifiers: names and codes, the words that a search guarantees to find.

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
from typing import Final

from vocabtool.keywords.tokens import SHAPES

MIN_LETTERS, MIN_DIGITS, MIN_CHARACTERS = 1, 2, 5

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

# These match shapes (see ``tokens.py``), except _CAMEL_CASE.
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
    return bool(_CAMEL_CASE.fullmatch(word) or _NAME.fullmatch(shape) or _is_path(shape))


def _is_path(shape: str) -> bool:
    if shape.count("/") < 2 and not ("/" in shape and _ENDING.search(shape)):
        return False
    return all(map(_STEP.fullmatch, shape.removeprefix("/").split("/")))


def is_code_like(word: str) -> bool:
    """Whether a word, as written in a text, looks like a code: ``SKU-48007-H``, ``0x80070005``."""
    letters = sum(map(str.isalpha, word))
    digits = sum(map(str.isdigit, word))
    if (
        letters < MIN_LETTERS
        or digits < MIN_DIGITS
        or not MIN_CHARACTERS <= len(word) <= _MAX_LENGTH
    ):
        return False
    return _NO_CODES.fullmatch(word) is None
