"""Classify unknown words, and find similar entries and example texts.

The kind of a word is the first item of :data:`Kind` whose definition fits the word.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from vocabtool.system.byte_strings import ByteStrings

Kind = Literal[
    "random",  # base64, a hash: see is_random(); only for subword models
    "form",  # equal to an entry after NFKC and case folding
    "number",  # digits, no letters
    "code",  # letters with digits; camelCase; C++, C#; parts joined by any of _ / \ @ :: or a dot
    "script",  # most letters are in a script of fewer than 1 in 100 entries with letters
    "misspelling",  # four or more characters, and one edit away from an entry of three or more
    "name",  # begins with a capital letter
    "symbol",  # no letters, no digits
    "other",
]
COMMONEST: Final = 10_000  # number of unknown words that a report classifies
SHORTEST: Final = 4  # fewest characters of a misspelling
LONGEST: Final = 64  # characters; longer words have too many neighbours and are never misspellings
LONG_NUMBER: Final = 16  # digits that are a random string
RARE: Final = 100  # a script of fewer than one entry in RARE is a foreign script
SAMPLED: Final = 50_000  # entries, evenly spread, that determine a vocabulary's scripts
MARKER: Final = "\u2581"  # SentencePiece's marker of the start of a word

# Words are untrusted input: each search takes time linear in their length.
_CODE: Final = re.compile(
    r"""[a-z][A-Z]              # camelCase
    | \w(\+\+?|\#)$            # C++, C#
    | \w[_/\\@]\w              # snake_case, a/b, a@b
    | \w::\w                   # std::map
    | \w\w\.\w\w               # os.path, but not e.g.
    """,
    re.VERBOSE,
)

_HEXADECIMAL: Final = re.compile(r"(?:0x)?(?:[0-9a-f]{8,}|[0-9A-F]{8,})")
_BASE64: Final = re.compile(r"(?=[^0-9]*[0-9])[A-Za-z0-9_+/=-]{12,}")
_CHANGE: Final = re.compile(r"[a-z](?=[A-Z0-9])|[0-9](?=[A-Za-z])|[A-Z](?=[0-9])")


class Likeness(NamedTuple):
    """The kind of a word. ``entry``: position of a similar entry in the vocabulary, or -1."""

    kind: Kind
    entry: int = -1


def classify(
    words: Sequence[bytes],
    entries: ByteStrings,
    examples: Sequence[bytes] = (),
    *,
    misspellings: bool = True,
) -> list[Likeness]:
    """Return the kind of each word, and the similar entry with the lowest id.

    ``examples``: for each word, a text that may contain the word with its original capitals.
    """
    folds = [fold(word) for word in words]
    forms, near = _find_similar(folds, entries, misspellings)
    step = max(len(entries) // SAMPLED, 1)
    scripts = Counter(main_script(_text(entries[i])) for i in range(0, len(entries), step))
    del scripts[None]
    enough = scripts.total() / RARE
    common = {script for script, count in scripts.items() if count >= enough}
    spellings = map(spelling, words, examples) if examples else map(_text, words)
    found = []
    for written, folded in zip(spellings, folds, strict=True):
        kind = _shape(written, common)
        if folded is not None and folded in forms:
            found.append(Likeness("form", forms[folded]))
        elif folded is not None and folded in near and kind not in ("number", "code", "script"):
            found.append(Likeness("misspelling", near[folded]))
        else:
            found.append(Likeness(kind))
    return found


def _shape(written: str, common: set[str | None]) -> Kind:
    first = next(filter(str.isalpha, written), None)
    if first is None:
        return "number" if any(map(str.isnumeric, written)) else "symbol"
    if any(map(str.isdigit, written)) or _CODE.search(written):
        return "code"
    script = main_script(written)
    if script is not None and common and script not in common:
        return "script"
    return "name" if first.isupper() else "other"


def is_random(written: str) -> bool:
    """Return whether a word looks like base64, a hash or another random string.

    Such a word is one of:

    - 8 or more hexadecimal characters that change at least twice between letters and digits.
    - 16 or more digits.
    - 12 or more base64 characters, including a digit. At least a quarter of the characters are
      followed by a character of another kind (small letter, capital or digit). A capital followed
      by a small letter does not count.
    """
    if written.isdigit():
        return len(written) >= LONG_NUMBER
    if _HEXADECIMAL.fullmatch(written):
        return len(_CHANGE.findall(written)) >= 2
    return bool(_BASE64.fullmatch(written)) and 4 * len(_CHANGE.findall(written)) >= len(written)


def _text(word: bytes) -> str:
    return word.decode("utf-8", "replace")


def spelling(word: bytes, example: bytes) -> str:
    """Return a word capitalised as in an example, or unchanged if the example lacks the word."""
    text, line = _text(word), _text(example)
    small, lowered = text.lower(), line.lower()
    if not text or len(lowered) != len(line) or len(small) != len(text):
        return text
    at = lowered.find(small)
    while at >= 0:
        end = at + len(small)
        if not any(map(str.isalnum, lowered[at - 1 : at] + lowered[end : end + 1])):
            return line[at:end]
        at = lowered.find(small, at + 1)
    return text


def fold(word: bytes) -> str | None:
    """Return a word after case folding and NFKC; ``None`` if it is not UTF-8."""
    try:
        text = word.decode()
    except UnicodeDecodeError:
        return None
    if text.isascii():
        return text.lower()
    composed = unicodedata.normalize("NFKC", text.lstrip(MARKER)).casefold()
    return unicodedata.normalize("NFKC", composed)


def _find_similar(
    folds: Iterable[str | None], entries: Iterable[bytes], misspellings: bool
) -> tuple[dict[str, int], dict[str, int]]:
    """Return two mappings from a folded word to the first similar entry.

    In the first mapping, the entry is equal to the word after folding. In the second, it is one
    edit away; without ``misspellings``, this mapping is empty.
    """
    wanted = {folded for folded in folds if folded}
    around: dict[str, list[str]] = {}
    for word in wanted if misspellings else ():
        if SHORTEST <= len(word) <= LONGEST:
            for variant in set(_variants(word)):
                around.setdefault(variant, []).append(word)
    forms: dict[str, int] = {}
    near: dict[str, int] = {}
    for position, entry in enumerate(entries):
        folded = fold(entry)
        if not folded:
            continue
        if folded in wanted:
            forms.setdefault(folded, position)
        if around and SHORTEST - 1 <= len(folded) <= LONGEST + 1:
            for variant in _variants(folded):
                for word in around.get(variant, ()):
                    if word not in near and one_edit(word, folded):
                        near[word] = position
    return forms, near


def _variants(word: str) -> list[str]:
    return [word, *(word[:i] + word[i + 1 :] for i in range(len(word)))]


def one_edit(one: str, other: str) -> bool:
    """Return whether one insertion, deletion, substitution or swap makes the words equal."""
    if len(one) < len(other):
        one, other = other, one
    if len(one) - len(other) > 1 or one == other:
        return False
    at = next((i for i, c in enumerate(other) if c != one[i]), len(other))
    if len(one) > len(other):
        return one[at + 1 :] == other[at:]
    if one[at + 1 :] == other[at + 1 :]:
        return True
    swapped = one[at + 1 : at + 2] + one[at]
    return swapped == other[at : at + 2] and one[at + 2 :] == other[at + 2 :]


def main_script(text: str) -> str | None:
    """Return the most frequent script among the letters of a text; ``None`` without letters."""
    if text.isascii():
        return "LATIN" if any(map(str.isalpha, text)) else None
    scripts = Counter(map(script_of, filter(str.isalpha, unicodedata.normalize("NFKC", text))))
    return scripts.most_common(1)[0][0] if scripts else None


@lru_cache(maxsize=4096)
def script_of(letter: str) -> str:
    """Return the first word of a letter's Unicode name, such as LATIN, CYRILLIC or CJK."""
    return unicodedata.name(letter, "UNNAMED").partition(" ")[0]


# ---- the position of a word in its text

WIDTH: Final = 120  # bytes of an example, without ellipses
CUT: Final = "…".encode()
LETTERS: Final = frozenset(byte for byte in range(256) if byte >= 0x80 or chr(byte).isalnum())


def find_word(text: bytes, word: bytes) -> int:
    """Return the position of a word in a text, or -1.

    These matches are tried in order: a whole word with the same case, a whole word with another
    case, a part of a word with the same case, and a part of a word with another case.
    """
    at = _by_itself(text, word)
    if at >= 0:
        return at
    lower, folded = text.lower(), word.lower()
    at = _by_itself(lower, folded)
    if at < 0:
        at = text.find(word)
    return at if at >= 0 else lower.find(folded)


def _by_itself(text: bytes, word: bytes) -> int:
    """Return the position of ``word`` as a whole word, or -1. Non-ASCII bytes count as letters."""
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if not LETTERS.intersection(text[max(at - 1, 0) : at] + text[end : end + 1]):
            return at
        at = text.find(word, at + 1)
    return at


def clip(data: bytes | memoryview, start: int, end: int, middle: int, width: int = WIDTH) -> bytes:
    """Return about ``width`` bytes of ``data[start:end]`` around the position ``middle``.

    Text that is left out is marked by an ellipsis. UTF-8 characters are not split.
    """
    low = max(min(middle - width // 2, end - width), start)
    high = min(low + width, end)
    while start < low < high and data[low] & 0xC0 == 0x80:
        low += 1
    while high < end and data[high] & 0xC0 == 0x80 and high - low < width + 3:
        high += 1
    return CUT * (low > start) + bytes(data[low:high]) + CUT * (high < end)
