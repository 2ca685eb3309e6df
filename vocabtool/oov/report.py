"""The public ``OovReport``: what a model does not know of a corpus, and what it splits.

A subword model splits a word into pieces. The cost of a word is its count times the number of its
pieces beyond the first. Words are untrusted: each search takes time linear in their length.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from os.path import commonprefix
from typing import Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import unicodedataplus

from vocabtool.system.byte_strings import ByteStrings
from vocabtool.system.results import TableResult, as_texts
from vocabtool.tokenization.token_limit import TokenLimit
from vocabtool.vocabulary import Vocabulary, decode, encode, guess_marker, plain_strings

Kind = Literal[
    "random",  # base64, a hash: see is_random(); only for subword models
    "form",  # equal to an entry after NFKC and case folding
    "number",  # digits, no letters
    "code",  # letters with digits; camelCase; C++, C#; parts joined by any of _ / \ @ :: or a dot
    "script",  # most letters are in a script of fewer than 1 in 100 entries with letters
    "misspelling",  # or another variant of a known word: see resembles()
    "name",  # begins with a capital letter
    "emoji",  # no letters, no digits, an emoji
    "symbol",  # no letters, no digits, no emoji
    "other",
]
"""The kind of a word is the first whose definition fits."""
Flags = dict[str, bool]

COMMONEST: Final = 10_000  # words of a list that are classified, and whose pieces are listed
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


class Header(NamedTuple):
    """The model and texts of a report. ``rule``: how texts are split, a line for each step."""

    model: str
    vocabulary: str
    vocabulary_size: int
    rule: tuple[str, ...] = ()
    fingerprint: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CountedWord:
    """A word that the model does not know or splits into several pieces.

    Bytes that are not UTF-8 are decoded with Python's ``surrogateescape``.

    - ``documents``: Number of documents with the word.
    - ``known``: Whether the model knows the word; for a subword model, whether it knows all pieces.
    - ``pieces``: Number of pieces; 0 for a model of whole words.
    - ``kind``: The class of the word; ``None`` if it was not classified.
    - ``like``: An entry of the vocabulary with a similar spelling, or ``None``.
    - ``parts``: The pieces. Empty if they are not known or depend on neighbouring words.
    - ``example``: A part of the first document with the word; empty if no example was kept.
    - ``cut``: Whether the word occurs only in cut-off text, which the model does not read.
    """

    word: str
    count: int
    documents: int
    known: bool = False
    pieces: int = 0
    kind: Kind | None = None
    like: str | None = None
    parts: tuple[str, ...] = ()
    example: str = ""
    cut: bool = False

    @property
    def word_bytes(self) -> bytes:
        """The word as the model looks it up."""
        return encode(self.word)

    @property
    def cost(self) -> int:
        """``count * (pieces - 1)``; 0 for fewer than two pieces."""
        return self.count * max(self.pieces - 1, 0)


COLUMNS: Final = tuple(field.name for field in fields(CountedWord))


def read_words(table: pa.Table) -> list[CountedWord]:
    """Return the rows of a table with the columns ``COLUMNS``."""
    words = []
    for row in table.select(COLUMNS).to_pylist():
        like = None if row["like"] is None else decode(row["like"])
        texts = {"word": decode(row["word"]), "like": like, "example": decode(row["example"])}
        words.append(CountedWord(**{**row, **texts, "parts": tuple(map(decode, row["parts"]))}))
    return words


class KindCount(NamedTuple):
    """Counts of the classified words of one kind: distinct words, occurrences, and their pieces."""

    kind: Kind
    words: int
    tokens: int
    pieces: int


class CurvePoint(NamedTuple):
    """A point of the coverage curve. Shares are from 0 to 1.

    - ``words``: A number n. The point describes the n most frequent words.
    - ``covered``: The share of all tokens that are among these n words.
    - ``known``: The share of all tokens that are among these n words and that the model knows.
    """

    words: int
    covered: float
    known: float


class LanguageCount(NamedTuple):
    """Counts of the texts in one language or script.

    - ``documents``: Number of texts.
    - ``tokens``: Number of words in the texts.
    - ``pieces``: Number of pieces of the words.
    - ``tokens_split3``: Number of words of three or more pieces.
    - ``documents_split3``: Number of texts with a word of three or more pieces.
    """

    name: str
    documents: int
    tokens: int
    pieces: int
    tokens_split3: int
    documents_split3: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitWords:
    """The words that a subword model splits.

    - ``table``: Arrow table whose columns are the fields of :class:`CountedWord`. First come split
      words, then random strings such as hashes, both in descending order of cost. Unknown words of
      at most one piece come last.
    - ``listed``: Number of split words in ``table``, without random strings.
    - ``random``: Number of random strings in ``table``.
    - ``kinds``: Counts of the classified split words, in descending order of pieces.
    - ``pieces``: Number of pieces of all tokens.
    - ``histogram``: Number of tokens with 0, 1, 2, ... pieces. The 33rd number counts the tokens
      with 32 or more pieces.
    - ``languages``: Counts of the texts of each language or script, in descending order of
      documents.
    """

    table: pa.Table
    listed: int
    random: int
    kinds: tuple[KindCount, ...] = ()
    pieces: int = 0
    histogram: tuple[int, ...] = ()
    languages: tuple[LanguageCount, ...] = ()

    @property
    def documents_split3(self) -> int:
        """Number of documents with a word of three or more pieces."""
        return sum(language.documents_split3 for language in self.languages)

    def words(self, start: int = 0, most: int | None = None) -> list[CountedWord]:
        """Return ``most`` rows of the table, by default all, from row ``start``."""
        return read_words(self.table.slice(start, most))


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestedWord:
    """A word to add.

    - ``parts``: The current pieces of the word, as spelled in the vocabulary.
    - ``count``: How often the new token occurs.
    - ``saved``: Number of pieces that the word saves in addition to the words listed before it.
    """

    word: str
    parts: tuple[str, ...]
    count: int
    saved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestions:
    """Words to add to a tokenizer. The word that saves most comes first.

    - ``flags``: The arguments of ``tokenizers.AddedToken`` besides ``content``, the same for all
      words.
    - ``documents``: Number of documents from which the words were chosen.
    - ``before``, ``after``: Number of pieces of these documents without and with the words.
    """

    words: tuple[SuggestedWord, ...]
    flags: Flags
    documents: int
    before: int
    after: int
    notes: tuple[str, ...] = ()


class CutOff(NamedTuple):
    """The parts of the documents that a model does not read.

    A token is a piece for a subword model, and a word for a model of whole words.

    - ``limit``: How many tokens of a text the model reads.
    - ``documents``: Number of documents with more tokens than the model reads.
    - ``tokens``: Number of tokens that are cut off.
    - ``all_tokens``: Number of tokens of all documents.
    """

    limit: TokenLimit
    documents: int
    tokens: int
    all_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OovReport(TableResult):
    """Counts of the words in a corpus that a model does not know.

    - ``documents_unknown``: Number of documents with an unknown word.
    - ``distinct``, ``distinct_unknown``: Number of distinct words, and of those that are unknown.
      If ``full``, only of the words that are listed.
    - ``unknown``: Arrow table of the unknown words, sorted by descending count, then by bytes. The
      columns are the fields of :class:`CountedWord`.
    - ``kinds``: Counts of the classified unknown words, in descending order of tokens.
    - ``full``: Whether the memory for distinct words was too small. Then the words that occurred
      first are listed, with exact counts.
    - ``split``: The words that are split; ``None`` for a model of whole words.
    - ``suggested``: Words to add to the model; ``None`` if suggestions were not asked for.
    - ``used``: Number of vocabulary entries that occurred; ``None`` for a subword model.
    - ``never_used``: The first few entries that did not occur, in id order.
    - ``others``: Reports on the model's other lookups, for example of n-grams.
    - ``cut``: What is cut off of long documents; ``None`` without a limit.
    """

    header: Header
    documents: int
    documents_unknown: int
    tokens: int
    tokens_unknown: int
    distinct: int
    distinct_unknown: int
    unknown: pa.Table
    kinds: tuple[KindCount, ...] = ()
    curve: tuple[CurvePoint, ...] = ()
    full: bool = False
    used: int | None = None
    never_used: tuple[bytes, ...] = ()
    split: SplitWords | None = None
    suggested: Suggestions | None = None
    notes: tuple[str, ...] = ()
    others: tuple[OovReport, ...] = ()
    cut: CutOff | None = None

    def __repr__(self) -> str:
        return (
            f"<OovReport: {self.tokens_unknown:,} of {self.tokens:,} words unknown, "
            f"in {self.documents_unknown:,} of {self.documents:,} documents>"
        )

    @property
    def token_rate(self) -> float:
        """Share of the tokens that are unknown, from 0 to 1; 0 if there are no tokens."""
        return _share(self.tokens_unknown, self.tokens)

    @property
    def distinct_rate(self) -> float:
        """Share of the distinct words that are unknown, from 0 to 1."""
        return _share(self.distinct_unknown, self.distinct)

    @property
    def document_rate(self) -> float:
        """Share of the documents that contain an unknown word, from 0 to 1."""
        return _share(self.documents_unknown, self.documents)

    @property
    def fertility(self) -> float:
        """Pieces per token; 1 for a model of whole words."""
        return 1.0 if self.split is None else _share(self.split.pieces, self.tokens)

    def split_rate(self, pieces: int = 3) -> float:
        """Return the share of the tokens that are split into many pieces, from 0 to 1.

        ``pieces``: minimum number of pieces, up to 32. For a model of whole words, the share is 0.
        """
        return _share(sum(self.split.histogram[pieces:]) if self.split else 0, self.tokens)

    @property
    def cut_rate(self) -> float:
        """Share of the model's tokens that are cut off; 0 without a limit."""
        return 0.0 if self.cut is None else _share(self.cut.tokens, self.cut.all_tokens)

    def to_arrow(self) -> pa.Table:
        """Return a table with a row for each unknown word, frequent words first.

        For a subword model, rows for all split words come first, expensive words first, then rows
        for random strings.

        A word that is UTF-8 is in the column ``word`` (large_string), any other word in the column
        ``bytes`` (large_binary). The other of the two columns is null. The further columns are
        attributes of :class:`CountedWord`. In them, ``parts`` is one text, and bytes that are not
        UTF-8 are escaped.
        """
        return as_texts(self.table(), "word")

    def table(self) -> pa.Table:
        """Return the columns of :meth:`to_arrow`, but texts are large_binary, without ``bytes``."""
        if self.split is None:
            table = self.unknown
        else:
            table = self.split.table
            pieces = np.maximum(table["pieces"].to_numpy(), 1)
            table = table.append_column("cost", pa.array(table["count"].to_numpy() * (pieces - 1)))
            parts = pc.binary_join(table["parts"], pa.scalar(b" ", pa.large_binary()))
            table = table.set_column(table.column_names.index("parts"), "parts", parts)
        return table.select(self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of :meth:`table`."""
        names: tuple[str, ...] = ("word", "count", "documents", "kind", "like", "example")
        if self.split is not None:
            names = ("word", "pieces", "count", "documents", "cost", "known", "kind", "parts")
            names = (*names, "example")
        return names if self.cut is None else (*names, "cut")

    def commonest(self, most: int | None = None) -> list[CountedWord]:
        """Return ``most`` unknown words, by default all. Frequent words come first."""
        return read_words(self.unknown.slice(0, most))

    def cut_words(self) -> list[CountedWord]:
        """Return the unknown and split words that the model never reads, frequent words first.

        They occur only in cut-off text. Random strings come last.
        """
        table = self.unknown if self.split is None else self.split.table
        table = table.filter(table["cut"])
        random = pc.fill_null(pc.equal(table["kind"], "random"), False)
        keys = [("random", "ascending"), ("count", "descending"), ("documents", "descending")]
        keys.append(("word", "ascending"))
        order = pc.sort_indices(table.append_column("random", random), keys)
        return read_words(table.take(order))


def _share(count: int, total: int) -> float:
    return count / total if total else 0.0


# ---- the lists of a report, from counted words


def unknown_table(
    words: pa.Table,
    examples: Mapping[bytes, bytes],
    vocabulary: Vocabulary,
    *,
    random: bool,
) -> tuple[pa.Table, tuple[KindCount, ...]]:
    """Return the unknown words, sorted by descending count, and the counts of their kinds.

    The most frequent words are classified. ``random``: whether random strings get the kind
    ``random``.
    """
    table = words.filter(pc.invert(words["known"]))
    table = table.take(pc.sort_indices(table, [("count", "descending"), ("word", "ascending")]))
    names = table["word"].to_pylist()
    shown = [examples.get(name, b"") for name in names]
    kinds: list[Kind | None] = [None] * len(names)
    like: list[bytes | None] = [None] * len(names)
    some = names[:COMMONEST]
    written = [*map(spelling, some, shown)]
    known = words.filter(pc.and_(words["known"], pc.greater_equal(words["count"], OFTENER)))
    counts = Counter[str]()
    for rows in (known, table.slice(0, COMMONEST)):
        for name, count in zip(rows["word"].to_pylist(), rows["count"].to_pylist(), strict=True):
            counts[fold(name)] += count
    for at, (kind, entry) in enumerate(classify(some, written, vocabulary.stored, counts)):
        kinds[at] = "random" if random and is_random(written[at]) else kind
        like[at] = vocabulary.stored[entry] if entry >= 0 else None
    parts = pa.array([()] * len(names), pa.list_(pa.large_binary()))
    table = _with_columns(table, kinds, like, parts, shown)
    return table, _kind_counts(table, "tokens")


def split_table(
    words: pa.Table,
    unknown: pa.Table,
    examples: Mapping[bytes, bytes],
    vocabulary: Vocabulary,
    spell: Callable[[bytes], tuple[bytes, ...]] | None,
) -> SplitWords:
    """Return the split words and the unknown words, without the totals of all texts."""
    table = words.filter(pc.or_(pc.greater(words["pieces"], 1), pc.invert(words["known"])))
    names, pieces = table["word"].to_pylist(), table["pieces"].to_numpy()
    group = np.where(pieces > 1, SPLIT, UNKNOWN)
    for at in np.flatnonzero(pieces > 1).tolist():
        meaningless = is_symbol(decode(names[at]))
        if not meaningless and pieces[at] >= MIN_RANDOM:
            meaningless = is_random(spelling(names[at], examples.get(names[at], b"")))
        if meaningless:
            group[at] = RANDOM
    table = table.append_column("group", pa.array(group))
    table = table.append_column("cost", pa.array(table["count"].to_numpy() * (pieces - 1)))
    order = [("group", "ascending"), ("cost", "descending"), ("word", "ascending")]
    table = table.take(pc.sort_indices(table, order))
    names, pieces = table["word"].to_pylist(), table["pieces"].to_pylist()
    shown = [examples.get(name, b"") for name in names]
    listed, random = (int(np.count_nonzero(group == number)) for number in (SPLIT, RANDOM))
    kinds: list[Kind | None] = [None] * listed
    for name in names[listed : listed + random]:
        kinds.append("symbol" if is_symbol(decode(name)) else "random")
    entries = vocabulary.stored
    marker = vocabulary.marker or guess_marker(entries)
    if marker in STARTS:
        entries = plain_strings(entries, marker)
    some = [name.strip(b" ") for name in names[: min(listed, COMMONEST)]]
    classified = classify(some, map(spelling, some, shown), entries)
    kinds[: len(some)] = [kind for kind, _ in classified]
    known = dict(zip(unknown["word"].to_pylist(), unknown["kind"].to_pylist(), strict=True))
    kinds += [known[name] for name in names[listed + random :]]
    parts: list[tuple[bytes, ...]] = [()] * len(names)
    for start, end in pairwise((0, listed, listed + random, len(names))):
        for at in range(start, min(end, start + COMMONEST)):
            spelled = spell(names[at]) if spell is not None else ()
            if len(spelled) == pieces[at]:
                parts[at] = spelled
    like = [None] * len(names)
    table = _with_columns(table, kinds, like, pa.array(parts, unknown["parts"].type), shown)
    kind_counts = _kind_counts(table.slice(0, listed + random), "pieces")
    return SplitWords(table=table, listed=listed, random=random, kinds=kind_counts)


def _with_columns(
    table: pa.Table,
    kinds: list[Kind | None],
    like: list[bytes | None] | list[None],
    parts: pa.Array,
    examples: list[bytes],
) -> pa.Table:
    """Return a table with the columns ``COLUMNS``."""
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
        _, *so_far = totals.get(kind, (kind, 0, 0, 0))
        added = zip(so_far, (1, count, count * pieces), strict=True)
        totals[kind] = KindCount(kind, *map(sum, added))
    return tuple(sorted(totals.values(), key=lambda kind: (-getattr(kind, order), kind.kind)))


def coverage(words: pa.Table, tokens: int) -> tuple[CurvePoint, ...]:
    """Return the coverage of the 1, 2, 5, 10, ... most frequent words, and of all listed words."""
    if not tokens:
        return ()
    order = pc.sort_indices(words, [("count", "descending"), ("word", "ascending")]).to_numpy()
    counts = words["count"].to_numpy()[order]
    covered = np.cumsum(counts)
    known = np.cumsum(np.where(words["known"].to_numpy()[order], counts, 0))
    steps = (step * 10**power for power in range(len(str(len(counts)))) for step in (1, 2, 5))
    return tuple(
        CurvePoint(number, int(covered[number - 1]) / tokens, int(known[number - 1]) / tokens)
        for number in (*(step for step in steps if step < len(counts)), len(counts))
        if number
    )


# ---- the spelling of a word


def spelling(word: bytes, example: bytes) -> str:
    """Return a word capitalised as in an example, or unchanged if the example lacks the word."""
    text, line = decode(word).strip(), decode(example)
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


def is_random(written: str) -> bool:
    """Return whether a word looks like base64, a hash or another random string.

    That is 16 or more digits; 8 or more hexadecimal characters that change at least twice between
    letters and digits; or 12 or more base64 characters, including a digit, of which a quarter are
    followed by another kind of character (but not a capital by a small letter).
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

    - ``spellings``: The words with their capitals.
    - ``counts``: How often folded words occur in the texts, known words too. Without it, no word is
      a misspelling.
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
    around: dict[str, list[str]] = {}
    for word in words if counts is not None else ():
        if SINGULAR <= len(word) <= LONGEST:
            for variant in set(_variants(word)):
                around.setdefault(variant, []).append(word)
    forms: dict[str, int] = {}
    near: dict[str, int] = {}
    for position, entry in enumerate(entries):
        folded = fold(entry)
        if folded in words:
            forms.setdefault(folded, position)
        if counts is not None and SINGULAR - 1 <= len(folded) <= LONGEST + 1:
            for variant in _variants(folded):
                for word in around.get(variant, ()):
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
