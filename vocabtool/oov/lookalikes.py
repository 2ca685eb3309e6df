"""Classify unknown words, and find similar entries.

The kind of a word is the first item of :data:`Kind` whose definition fits the word. Words are
untrusted input: each search takes time linear in their length.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from os.path import commonprefix
from typing import Final, Literal

import unicodedataplus

from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import decode

Kind = Literal[
    "random",  # base64, a hash: see is_random() in report.py; only for subword models
    "form",  # equal to an entry after NFKC and case folding
    "number",  # digits, no letters
    "code",  # letters with digits; camelCase; C++, C#; parts joined by any of _ / \ @ :: or a dot
    "script",  # most letters are in a script of fewer than 1 in 100 entries with letters
    "misspelling",  # four or more characters, and one edit away from an entry of three or more
    "name",  # begins with a capital letter
    "symbol",  # no letters, no digits
    "other",
]
SHORTEST: Final = 4  # fewest characters of a misspelling
LONGEST: Final = 64  # characters; longer words have too many neighbours and are never misspellings
RARE: Final = 100  # a script of fewer than one entry in RARE is a foreign script
SAMPLED: Final = 50_000  # entries at most, evenly spread, that determine a vocabulary's scripts
CODE: Final = re.compile(r"[a-z][A-Z]|\w(?:\+\+?|#)$|\w[_/\\@]\w|\w::\w|\w\w\.\w\w")


def classify(
    words: Sequence[bytes],
    spellings: Iterable[str],
    entries: ByteStrings,
    *,
    misspellings: bool = True,
) -> Iterator[tuple[Kind, int]]:
    """Yield for each word its kind, and the position of the first similar entry, or -1.

    ``spellings``: The words with their capitals.
    """
    folds = [fold(word) for word in words]
    forms, near = _find_similar({*folds} - {""}, entries, misspellings)
    sample = range(0, len(entries), len(entries) // SAMPLED + 1)
    scripts = Counter(main_script(decode(entries[at])) for at in sample)
    del scripts[None]
    common = {script for script, count in scripts.items() if count >= scripts.total() / RARE}
    for written, folded in zip(spellings, folds, strict=True):
        first = next(filter(str.isalpha, written), None)
        if folded in forms:
            yield "form", forms[folded]
        elif first is not None and (any(map(str.isdigit, written)) or CODE.search(written)):
            yield "code", -1
        elif first is None and any(map(str.isnumeric, written)):
            yield "number", -1
        elif first is not None and common and main_script(written) not in common:
            yield "script", -1
        elif folded in near:
            yield "misspelling", near[folded]
        elif first is None:
            yield "symbol", -1
        else:
            yield ("name" if first.isupper() else "other"), -1


def fold(word: bytes) -> str:
    """Return a word after case folding and NFKC; an empty string if it is not UTF-8."""
    try:
        text = word.decode()
    except UnicodeDecodeError:
        return ""
    if text.isascii():
        return text.lower()
    composed = unicodedataplus.normalize("NFKC", text.lstrip("▁")).casefold()  # ▁ begins a word
    return str(unicodedataplus.normalize("NFKC", composed))


def _find_similar(
    words: set[str], entries: Iterable[bytes], misspellings: bool
) -> tuple[dict[str, int], dict[str, int]]:
    """Map folded words to the first entry that folds to the word, and to the first one edit away.

    Without ``misspellings``, the second mapping is empty.
    """
    around: dict[str, list[str]] = {}
    for word in words if misspellings else ():
        if SHORTEST <= len(word) <= LONGEST:
            for variant in set(_variants(word)):
                around.setdefault(variant, []).append(word)
    forms: dict[str, int] = {}
    near: dict[str, int] = {}
    for position, entry in enumerate(entries):
        folded = fold(entry)
        if folded in words:
            forms.setdefault(folded, position)
        if around and SHORTEST - 1 <= len(folded) <= LONGEST + 1:
            for variant in _variants(folded):
                for word in around.get(variant, ()):
                    if word not in near and one_edit(word, folded):
                        near[word] = position
    return forms, near


def _variants(word: str) -> list[str]:
    return [word, *(word[:at] + word[at + 1 :] for at in range(len(word)))]


def one_edit(one: str, other: str) -> bool:
    """Return whether one insertion, deletion, substitution or swap makes the words equal."""
    start = len(commonprefix((one, other)))  # noqa: RUF071 - of characters
    one, other = one[start:], other[start:]
    swapped = one[1:2] + one[:1] + one[2:]
    return one != other and (one[1:] in (other, other[1:]) or other[1:] == one or other == swapped)


def main_script(text: str) -> str | None:
    """Return the most frequent script of a text's letters, such as Latin; ``None`` without any."""
    if text.isascii():
        return "Latin" if any(map(str.isalpha, text)) else None
    letters = filter(str.isalpha, unicodedataplus.normalize("NFKC", text))
    scripts = Counter(map(unicodedataplus.script, letters))
    return scripts.most_common(1)[0][0] if scripts else None
