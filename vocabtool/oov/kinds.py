"""Lists of the words that are unknown or split, and the kinds of these words.

Unknown words are ordered by frequency, split words by cost.

Words are untrusted: each search takes time linear in their length.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from os.path import commonprefix
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import unicodedataplus

from vocabtool.oov.report import COLUMNS, COMMONEST, CurvePoint, Kind, KindCount, SplitWords
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Vocabulary, decode, guess_marker, plain_strings

MIN_RANDOM: Final = 4  # pieces of a random string
SPLIT, RANDOM, UNKNOWN = range(3)  # the groups of words, in the order of a table
HEXADECIMAL: Final = re.compile(r"(?:0x)?(?:[0-9a-f]{8,}|[0-9A-F]{8,})")
BASE64: Final = re.compile(r"(?=[^0-9]*[0-9])[A-Za-z0-9_+/=-]{12,}")
CHANGE: Final = re.compile(r"[a-z](?=[A-Z0-9])|[0-9](?=[A-Za-z])|[A-Z](?=[0-9])")
SHORTEST: Final = 6  # fewest characters of a misspelling: most short words have real neighbours
LONGEST: Final = 64  # characters; longer words have too many neighbours and are never misspellings
SINGULAR: Final = 4  # fewest characters of a word with a plural; not `it` and `its`
OFTENER: Final = 10  # a misspelling is so many times rarer than the word that is meant
RARE: Final = 100  # a script of fewer than one entry in RARE is a foreign script
SAMPLED: Final = 50_000  # entries at most, evenly spread, that determine a vocabulary's scripts
CODE: Final = re.compile(r"[a-z][A-Z]|\w(?:\+\+?|#)$|\w[_/\\@]\w|\w::\w|\w\w\.\w\w")
STARTS: Final = ("▁", "Ġ", " ")  # markers of entries that begin a word


# ---- the lists of a report, from counted words


def unknown_table(
    words: pa.Table, examples: Mapping[bytes, bytes], vocabulary: Vocabulary, *, random: bool
) -> tuple[pa.Table, tuple[KindCount, ...]]:
    """Return the unknown words, sorted by descending count, and the counts of their kinds.

    Only the most frequent are classified. ``random``: whether random strings are a kind.
    """
    table = words.filter(pc.invert(words["known"]))
    table = table.take(pc.sort_indices(table, [("count", "descending"), ("word", "ascending")]))
    names = table["word"].to_pylist()
    examples_of_names = [examples.get(name, b"") for name in names]
    # How often words occur, to find misspellings. Rare known words cannot be what is meant.
    known = words.filter(pc.and_(words["known"], pc.greater_equal(words["count"], OFTENER)))
    counts = Counter[str]()
    for rows in (known, table.slice(0, COMMONEST)):
        for name, count in zip(rows["word"].to_pylist(), rows["count"].to_pylist(), strict=True):
            counts[fold(name)] += count
    commonest = names[:COMMONEST]
    spellings = [*map(spelling, commonest, examples_of_names)]
    kinds: list[Kind | None] = [None] * len(names)
    like: list[bytes | None] = [None] * len(names)
    classified = classify(commonest, spellings, vocabulary.stored, counts)
    for row, (kind, entry) in enumerate(classified):
        kinds[row] = "random" if random and is_random(spellings[row]) else kind
        like[row] = vocabulary.stored[entry] if entry >= 0 else None
    no_pieces = pa.array([()] * len(names), pa.list_(pa.large_binary()))
    table = _with_columns(table, kinds, like, no_pieces, examples_of_names)
    return table, _kind_counts(table, "tokens")


def split_table(
    words: pa.Table,
    unknown: pa.Table,
    examples: Mapping[bytes, bytes],
    vocabulary: Vocabulary,
    spell: Callable[[bytes], tuple[bytes, ...]] | None,
) -> SplitWords:
    """Return split and unknown words, without totals. ``unknown``: see :func:`unknown_table`."""
    # Sort the words by group, and each group by cost.
    table = words.filter(pc.or_(pc.greater(words["pieces"], 1), pc.invert(words["known"])))
    names, pieces = table["word"].to_pylist(), table["pieces"].to_numpy()
    group = np.where(pieces > 1, SPLIT, UNKNOWN)
    for row in np.flatnonzero(pieces > 1).tolist():
        name = names[row]
        is_meaningless = is_symbol(decode(name))
        if not is_meaningless and pieces[row] >= MIN_RANDOM:
            is_meaningless = is_random(spelling(name, examples.get(name, b"")))
        if is_meaningless:
            group[row] = RANDOM
    table = table.append_column("group", pa.array(group))
    table = table.append_column("cost", pa.array(table["count"].to_numpy() * (pieces - 1)))
    order = [("group", "ascending"), ("cost", "descending"), ("word", "ascending")]
    table = table.take(pc.sort_indices(table, order))
    names, pieces = table["word"].to_pylist(), table["pieces"].to_pylist()
    listed, random = (int(np.count_nonzero(group == number)) for number in (SPLIT, RANDOM))
    random_end = listed + random

    # The kinds. The unknown words have theirs already; rare split words get none.
    examples_of_names = [examples.get(name, b"") for name in names]
    entries = vocabulary.stored
    marker = vocabulary.marker or guess_marker(entries)
    if marker in STARTS:
        entries = plain_strings(entries, marker)
    costly = [name.strip(b" ") for name in names[: min(listed, COMMONEST)]]
    classified = classify(costly, map(spelling, costly, examples_of_names), entries)
    kinds: list[Kind | None] = [kind for kind, _ in classified]
    kinds += [None] * (listed - len(costly))
    for name in names[listed:random_end]:
        kinds.append("symbol" if is_symbol(decode(name)) else "random")
    kind_of = dict(zip(unknown["word"].to_pylist(), unknown["kind"].to_pylist(), strict=True))
    kinds += [kind_of[name] for name in names[random_end:]]

    # The pieces of the first words of each group, unless they depend on neighbouring words.
    pieces_of_names: list[tuple[bytes, ...]] = [()] * len(names)
    for start, end in pairwise((0, listed, random_end, len(names))):
        for row in range(start, min(end, start + COMMONEST)):
            spelled = spell(names[row]) if spell is not None else ()
            if len(spelled) == pieces[row]:
                pieces_of_names[row] = spelled
    like = [None] * len(names)
    piece_lists = pa.array(pieces_of_names, unknown["parts"].type)
    table = _with_columns(table, kinds, like, piece_lists, examples_of_names)
    kind_counts = _kind_counts(table.slice(0, random_end), "pieces")
    return SplitWords(table=table, listed=listed, random=random, kinds=kind_counts)


def _with_columns(
    table: pa.Table,
    kinds: list[Kind | None],
    like: list[bytes | None] | list[None],
    parts: pa.Array,
    examples: list[bytes],
) -> pa.Table:
    columns = {
        "kind": pa.array(kinds, pa.string()),
        "like": pa.array(like, pa.large_binary()),
        "parts": parts,
        "example": pa.array(examples, pa.large_binary()),
    }
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table.select(COLUMNS).combine_chunks()


def _kind_counts(table: pa.Table, order: str) -> tuple[KindCount, ...]:
    """Return the counts of each kind, in descending order of ``tokens`` or ``pieces``."""
    rows = table.filter(pc.is_valid(table["kind"]))
    totals: dict[Kind, KindCount] = {}  # Arrow's group_by takes 0.3 seconds to load
    columns = (rows[name].to_pylist() for name in ("kind", "count", "pieces"))
    for kind, count, pieces in zip(*columns, strict=True):
        _, words, tokens, all_pieces = totals.get(kind, KindCount(kind, 0, 0, 0))
        totals[kind] = KindCount(kind, words + 1, tokens + count, all_pieces + count * pieces)
    return tuple(sorted(totals.values(), key=lambda kind: (-getattr(kind, order), kind.kind)))


def coverage(words: pa.Table, tokens: int) -> tuple[CurvePoint, ...]:
    """Return the coverage of the 1, 2, 5, 10, ... most frequent words, and of all listed words."""
    if not tokens or not len(words):
        return ()
    order = pc.sort_indices(words, [("count", "descending"), ("word", "ascending")]).to_numpy()
    counts = words["count"].to_numpy()[order]
    covered = np.cumsum(counts)
    known = np.cumsum(np.where(words["known"].to_numpy()[order], counts, 0))
    powers = [10**digits for digits in range(len(str(len(counts))))]
    sizes = [step * power for power in powers for step in (1, 2, 5) if step * power < len(counts)]
    return tuple(
        CurvePoint(size, int(covered[size - 1]) / tokens, int(known[size - 1]) / tokens)
        for size in (*sizes, len(counts))
    )


# ---- the spelling of a word


def spelling(word: bytes, example: bytes) -> str:
    """Return a word capitalised as in an example, or unchanged if the example lacks the word."""
    text, line = decode(word).strip(), decode(example)
    lower_text, lower_line = text.lower(), line.lower()
    if not text or len(lower_line) != len(line) or len(lower_text) != len(text):
        return text  # lower-casing changed positions
    at = lower_line.find(lower_text)
    while at >= 0:
        end = at + len(lower_text)
        neighbours = lower_line[at - 1 : at] + lower_line[end : end + 1]
        if not any(map(str.isalnum, neighbours)):
            return line[at:end]
        at = lower_line.find(lower_text, at + 1)
    return text


def is_random(written: str) -> bool:
    """Return whether a word looks like base64, a hash or another random string.

    That is 16 or more digits; 8 or more hexadecimal characters that change at least twice between
    letters and digits; or 12 or more base64 characters with a digit, a quarter of them followed by
    one of another kind. A small letter after a capital does not count.
    """
    if written.isdigit():
        return len(written) >= 16
    changes = len(CHANGE.findall(written))
    if HEXADECIMAL.fullmatch(written):
        return changes >= 2
    return bool(BASE64.fullmatch(written)) and 4 * changes >= len(written)


# ---- the kind of a word, and similar entries


def is_symbol(written: str) -> bool:
    """Return whether a word has neither letters nor digits nor emoji, such as ``=====``."""
    return not any(
        char.isalnum() or unicodedataplus.is_emoji_presentation(char) for char in written
    )


def classify(
    words: Sequence[bytes],
    spellings: Iterable[str],
    entries: ByteStrings,
    counts: Mapping[str, int] | None = None,
) -> Iterator[tuple[Kind, int]]:
    """Yield for each word its kind, and the position of the first similar entry, or -1.

    ``spellings``: with capitals. ``counts``: of folded words in the texts, known words too. Without
    it, no word is a misspelling.
    """
    folds = [fold(word) for word in words]
    forms, near = _find_similar({*folds} - {""}, entries, counts)
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
            yield ("symbol" if is_symbol(written) else "emoji"), -1
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
    words: set[str], entries: Iterable[bytes], counts: Mapping[str, int] | None
) -> tuple[dict[str, int], dict[str, int]]:
    """Map folded words to the first entry that folds to the word, and to the first it resembles.

    Without ``counts``, the second mapping is empty.
    """
    # Words that are one edit apart have a variant in common.
    by_variant: dict[str, list[str]] = {}
    for word in words if counts is not None else ():
        if SINGULAR <= len(word) <= LONGEST:
            for variant in set(_variants(word)):
                by_variant.setdefault(variant, []).append(word)
    forms: dict[str, int] = {}
    near: dict[str, int] = {}
    for position, entry in enumerate(entries):
        folded = fold(entry)
        if folded in words:
            forms.setdefault(folded, position)
        if counts is not None and SINGULAR - 1 <= len(folded) <= LONGEST + 1:
            for variant in _variants(folded):
                for word in by_variant.get(variant, ()):
                    if word not in near and resembles(word, folded, counts):
                        near[word] = position
    return forms, near


def resembles(word: str, entry: str, counts: Mapping[str, int]) -> bool:
    """Return whether a word is a variant or a misspelling of an entry one edit away.

    Variant: the plural or singular by ``s``, or the same letters and digits with other punctuation.
    Misspelling: six or more characters, and the entry is ten times as frequent in the texts.
    Without these conditions ``tasks`` resembles ``talks``, and ``hand`` resembles ``and``.
    """
    if not one_edit(word, entry):
        return False
    short, long = sorted((word, entry), key=len)
    if len(short) >= SINGULAR and short[-1] != "s" and long == short + "s":
        return True
    if list(filter(str.isalnum, word)) == list(filter(str.isalnum, entry)):
        return True
    return len(word) >= SHORTEST and counts.get(entry, 0) >= OFTENER * counts.get(word, 1)


def _variants(word: str) -> list[str]:
    """Return a word, and the word without each of its characters."""
    return [word, *(word[:at] + word[at + 1 :] for at in range(len(word)))]


def one_edit(one: str, other: str) -> bool:
    """Return whether one insertion, deletion, substitution or swap makes the words equal."""
    start = len(commonprefix((one, other)))  # noqa: RUF071 - of characters
    one, other = one[start:], other[start:]
    swapped = one[1:2] + one[:1] + one[2:]
    same_after_one = one[1:] in (other, other[1:])  # deletion, substitution
    return one != other and (same_after_one or other[1:] == one or other == swapped)


def main_script(text: str) -> str | None:
    """Return the most frequent script of a text's letters, such as Latin; ``None`` without any."""
    if text.isascii():
        return "Latin" if any(map(str.isalpha, text)) else None
    letters = filter(str.isalpha, unicodedataplus.normalize("NFKC", text))
    scripts = Counter(map(unicodedataplus.script, letters))
    return scripts.most_common(1)[0][0] if scripts else None
