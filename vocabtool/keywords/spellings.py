"""Words of a corpus that are spelled nearly like another one.

Distance counts letters that are changed, left out, added, or swapped with their neighbour (optimal
string alignment, of Damerau and Levenshtein): one in words of up to five letters, two in longer
ones, none in words of one or two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from vocabtool.keywords.cutter import Cutter


def allowed_distance(word: str) -> int:
    """How many letters may differ from a word."""
    return 0 if len(word) < 3 else 1 if len(word) < 6 else 2


def nearest(word: str, frequencies: Mapping[str, int], limit: int) -> list[str]:
    """Other words near to this one: nearest first, then most frequent, then by the alphabet."""
    found = list(_near(word, frequencies))
    return [other for *_, other in sorted(found)[:limit]]


def as_written(term: str, texts: Iterable[str], cutter: Cutter) -> str | None:
    """How texts write a term of the field "words": the most frequent way, in lower case."""
    ways: Counter[str] = Counter()
    for text in texts:
        for found, place in cutter.places(text):
            if found == term:
                ways[text[place.start : place.end].lower()] += 1
    return max(ways, key=lambda way: (ways[way], way), default=None)


def _near(word: str, frequencies: Mapping[str, int]) -> Iterator[tuple[int, int, str]]:
    most, letters = allowed_distance(word), frozenset(word)
    for other, frequency in frequencies.items():
        if (
            abs(len(other) - len(word)) > most
            or len(letters.symmetric_difference(other)) > 2 * most
        ):
            continue
        distance = _distance(word, other)
        if 0 < distance <= most:
            yield distance, -frequency, other


def _distance(a: str, b: str) -> int:
    before: list[int] = []
    above = list(range(len(b) + 1))
    for i in range(1, len(a) + 1):
        row = [i]
        for j in range(1, len(b) + 1):
            changed = above[j - 1] + (a[i - 1] != b[j - 1])
            best = min(changed, above[j] + 1, row[j - 1] + 1)
            if i > 1 and j > 1 and a[i - 2 : i] == b[j - 2 : j][::-1]:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        before, above = above, row
    return above[-1]
