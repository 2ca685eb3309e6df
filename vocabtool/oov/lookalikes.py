"""What an unknown word looks like, and which entry it resembles.

One kind a word; the first of :data:`Kind` whose definition fits. Made for the commonest unknown
words of a report; what is known is not decided here.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from vocabtool.system.byte_strings import ByteStrings

Kind = Literal[
    "form",  # an entry, but for case or Unicode form: equal after NFKC and case folding
    "number",  # digits, and no letters
    "code",  # letters with digits; camelCase; C++ and C#; joined by any of _ / \ @ :: or a dot
    "script",  # most letters of a script that fewer than 1 in 100 worded entries is in
    "misspelling",  # four or more characters, and one edit away from an entry of three or more
    "name",  # a capital letter first
    "symbol",  # no letters and no digits
    "other",
]
COMMONEST: Final = 10_000  # unknown words that a report classifies
SHORTEST: Final = 4  # characters of a word that may be a misspelling
LONGEST: Final = 64  # characters: a longer one has too many neighbours, and is none
RARE: Final = 100  # a script of fewer than one entry in so many is another script
SAMPLED: Final = 50_000  # entries, evenly spread, that tell a vocabulary's scripts
MARKER: Final = "\u2581"  # SentencePiece puts it where a word begins

# Searched for in untrusted words: nothing here takes longer than their length.
_CODE: Final = re.compile(
    r"""[a-z][A-Z]              # camelCase
    | \w(\+\+?|\#)$            # C++, C#
    | \w[_/\\@]\w              # snake_case, a/b, a@b
    | \w::\w                   # std::map
    | \w\w\.\w\w               # os.path, but not e.g.
    """,
    re.VERBOSE,
)


class Likeness(NamedTuple):
    """``entry``: the position in the vocabulary of what a word resembles, -1 where nothing."""

    kind: Kind
    entry: int = -1


def classify(
    words: Sequence[bytes], entries: ByteStrings, examples: Sequence[bytes] = ()
) -> list[Likeness]:
    """What each word looks like; ``entries``: a vocabulary in id order, the lowest id wins.

    ``examples``: for each word a text that may hold it as it was written, with its capitals.
    """
    folds = [fold(word) for word in words]
    forms, near = _find_similar(folds, entries)
    common = _scripts(entries)
    spellings = map(spelling, words, examples) if examples else map(_text, words)
    return [
        _likeness(written, folded, forms, near, common)
        for written, folded in zip(spellings, folds, strict=True)
    ]


def _likeness(
    written: str,
    folded: str | None,
    forms: dict[str, int],
    near: dict[str, int],
    common: frozenset[str],
) -> Likeness:
    if folded is not None and folded in forms:
        return Likeness("form", forms[folded])
    kind = _shape(written, common)
    if kind in ("number", "code", "script"):
        return Likeness(kind)
    if folded is not None and folded in near:
        return Likeness("misspelling", near[folded])
    return Likeness(kind)


def _shape(written: str, common: frozenset[str]) -> Kind:
    """The kind as far as the word itself tells."""
    letters = any(map(str.isalpha, written))
    if not letters:
        return "number" if any(map(str.isnumeric, written)) else "symbol"
    if any(map(str.isdigit, written)) or _CODE.search(written):
        return "code"
    script = main_script(written)
    if script is not None and common and script not in common:
        return "script"
    return "name" if _first_letter(written).isupper() else "other"


def _first_letter(written: str) -> str:
    return next(filter(str.isalpha, written))


def _text(word: bytes) -> str:
    return word.decode("utf-8", "replace")


def spelling(word: bytes, example: bytes) -> str:
    """A word as the example writes it; as it is where the example does not hold it."""
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
    """A word without its case and Unicode form; ``None`` where it is not UTF-8."""
    try:
        text = word.decode()
    except UnicodeDecodeError:
        return None
    if text.isascii():
        return text.lower()
    composed = unicodedata.normalize("NFKC", text.lstrip(MARKER)).casefold()
    return unicodedata.normalize("NFKC", composed)


def _find_similar(
    folds: Iterable[str | None], entries: Iterable[bytes]
) -> tuple[dict[str, int], dict[str, int]]:
    """For each folded word the first entry that is equal to it, and the first one edit away.

    Two words are at most one edit apart only where one of them, or of what it becomes without
    one of its characters, is so of the other: the vocabulary is read through once.
    """
    wanted = {folded for folded in folds if folded}
    around = _neighbourhood(wanted)
    forms: dict[str, int] = {}
    near: dict[str, int] = {}
    for position, entry in enumerate(entries):
        folded = fold(entry)
        if not folded:
            continue
        if folded in wanted:
            forms.setdefault(folded, position)
        if SHORTEST - 1 <= len(folded) <= LONGEST + 1:
            for word in _near(folded, around):
                near.setdefault(word, position)
    return forms, near


def _neighbourhood(words: Iterable[str]) -> dict[str, list[str]]:
    around: dict[str, list[str]] = {}
    for word in words:
        if SHORTEST <= len(word) <= LONGEST:
            for variant in {word, *_shorter(word)}:
                around.setdefault(variant, []).append(word)
    return around


def _shorter(word: str) -> Iterator[str]:
    """The word without one character, for each of them."""
    return (word[:i] + word[i + 1 :] for i in range(len(word)))


def _near(entry: str, around: dict[str, list[str]]) -> Iterator[str]:
    """The words of a neighbourhood that are one edit from an entry, some more than once."""
    for i in range(-1, len(entry)):
        variant = entry[:i] + entry[i + 1 :] if i >= 0 else entry
        for word in around.get(variant, ()):
            if one_edit(word, entry):
                yield word


def one_edit(one: str, other: str) -> bool:
    """Whether an insertion, deletion, substitution or swap of neighbours makes one the other."""
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


def _scripts(entries: ByteStrings) -> frozenset[str]:
    """The scripts that entries are in, without the rare ones; from an even sample of many."""
    step = max(len(entries) // SAMPLED, 1)
    found = Counter(main_script(_text(entries[i])) for i in range(0, len(entries), step))
    del found[None]
    enough = found.total() / RARE
    return frozenset(script for script, count in found.items() if script and count >= enough)


def main_script(text: str) -> str | None:
    """The script of most letters of a text, of the first among equals; ``None``: no letters."""
    if text.isascii():
        return "LATIN" if any(map(str.isalpha, text)) else None
    scripts = Counter(map(_script, filter(str.isalpha, unicodedata.normalize("NFKC", text))))
    return scripts.most_common(1)[0][0] if scripts else None


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    """The first word of the character's Unicode name: LATIN, CYRILLIC, CJK, HIRAGANA."""
    return unicodedata.name(letter, "UNNAMED").partition(" ")[0]
