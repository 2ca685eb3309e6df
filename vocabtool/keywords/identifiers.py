"""Which words look like codes: the few that the identifier guarantee of a search is about.

At least one letter, two digits and five characters: measured, a looser rule costs quality (gene
names such as ``IL-6`` are ordinary words where they are common). Numbers, dates, times, prices,
decades and ordinals are none, with units and names of months as they are usually written.
"""

from __future__ import annotations

import re
from typing import Final

LETTERS, DIGITS, CHARACTERS = 1, 2, 5  # at least

_MONTH: Final = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    "|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_NUMBER: Final = r"[\d.,:/\-]+"
_NO_CODES: Final = re.compile(
    rf"""
    [+-]?{_NUMBER} (?: e[+-]?\d+ )?                        # 1,000.5  1.5e-10  12:30  2024-01-02
    | {_NUMBER} (?: st|nd|rd|th )                          # 1024th
    | '?\d+ '?s                                            # 1990s
    | {_NUMBER} (?: am|pm|h|hrs?|z )                       # 10:30pm
    | \d{{4}}-\d\d-\d\dt[\d:.]+ (?: z|[+-][\d:]+ )?        # 2024-01-02T10:30:00Z
    | \d{{1,2}}[-/.]?{_MONTH}[-/.]?\d{{2,4}}               # 02-Jan-2024
    | \d{{4}}[-/.]?{_MONTH}[-/.]?\d{{1,2}}                 # 2024-Jan-02
    | {_MONTH}[-/.]?\d{{1,2}} (?: [-/.]\d{{2,4}} )?        # Jan-02
    | (?: us|au|ca )?[$£€¥]?{_NUMBER} (?: usd|eur|gbp|chf|jpy|k|m|bn )?  # 100usd
    | (?: usd|eur|gbp|chf|jpy ){_NUMBER}                   # EUR100
    """,
    re.VERBOSE | re.IGNORECASE,
)
_LONGEST: Final = 200  # characters: what is longer is no code that anybody types


def is_code_like(word: str) -> bool:
    """Whether a word as it is written looks like a code: ``SKU-48007-H``, ``0x80070005``."""
    letters = sum(map(str.isalpha, word))
    digits = sum(map(str.isdigit, word))
    if letters < LETTERS or digits < DIGITS or not CHARACTERS <= len(word) <= _LONGEST:
        return False
    return _NO_CODES.fullmatch(word) is None
