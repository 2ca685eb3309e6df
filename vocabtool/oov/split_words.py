"""Words that a subword model splits into pieces, and what they cost a corpus.

The cost of a word is its count times the number of its pieces beyond the first.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.choices import SplitOrder
from vocabtool.oov.lookalikes import COMMONEST, Kind, classify, is_random, script_of, spelling
from vocabtool.tokenization.lookup import WordLookup
from vocabtool.tokenization.text_arrays import as_bytes, starts_of
from vocabtool.vocabulary import Vocabulary, guess_marker, plain_strings

MANY: Final = 3  # pieces: ``split3`` counts words of as many or more
MIN_RANDOM: Final = 4  # pieces of a random string
STARTS: Final = ("▁", "Ġ", " ")  # markers of entries that begin a word


@dataclass(frozen=True, slots=True)
class SplitWord:
    """A word that the model splits into several pieces or does not know.

    - ``pieces``: Number of pieces. An unknown word may have one piece or none.
    - ``count``: Number of occurrences, too high by at most ``error``.
    - ``documents``: Number of documents with the word. Exact if ``error`` is 0.
    - ``known``: Whether the model knows all pieces.
    - ``kind``: The class of the word; ``None`` if it was not classified.
    - ``parts``: The pieces. Empty if they are not known or depend on neighbouring words.
    - ``example``: A part of the first document with the word; empty if no example was kept.
    - ``cut``: Whether the word occurs only in cut-off text, which the model does not read.
    """

    word: bytes
    pieces: int
    count: int
    documents: int
    error: int = 0
    known: bool = True
    kind: Kind | None = None
    parts: tuple[bytes, ...] = ()
    example: bytes = b""
    cut: bool = False

    @property
    def cost(self) -> int:
        """``count * (pieces - 1)``; 0 for fewer than two pieces."""
        return self.count * max(self.pieces - 1, 0)


COLUMNS: Final = tuple(field.name for field in fields(SplitWord))


class SplitKind(NamedTuple):
    """Counts of the classified split words of one kind.

    - ``words``: Number of distinct words.
    - ``tokens``: Number of occurrences of these words.
    - ``pieces``: Number of pieces of all occurrences.
    """

    kind: Kind
    words: int
    tokens: int
    pieces: int


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

    @property
    def fertility(self) -> float:
        """Pieces per word; 0 without words."""
        return self.pieces / self.tokens if self.tokens else 0.0


@dataclass(frozen=True, slots=True)
class SplitWords:
    """The words that a subword model splits.

    - ``table``: Arrow table whose columns are the fields of :class:`SplitWord`. First come split
      words, then random strings such as hashes, both in the chosen order. Unknown words of at most
      one piece come last.
    - ``listed``: Number of split words in ``table``, without random strings.
    - ``random``: Number of random strings in ``table``.
    - ``distinct``: Number of distinct split words, including random strings.
    - ``kinds``: For each kind, totals of the classified split words, in descending order of pieces.
    - ``languages``: For each language or script, totals of the texts, in descending order of
      documents.
    """

    table: pa.Table
    listed: int
    random: int
    distinct: int
    kinds: tuple[SplitKind, ...] = ()
    languages: tuple[LanguageCount, ...] = ()

    @property
    def documents_split3(self) -> int:
        """Number of documents with a word of three or more pieces."""
        return sum(language.documents_split3 for language in self.languages)

    def words(self, start: int = 0, most: int | None = None) -> Iterator[SplitWord]:
        """Yield rows of the table.

        ``start``: the first row. ``most``: the maximum number of rows, by default all.
        """
        for batch in self.table.slice(start, most).to_batches(max_chunksize=4096):
            columns = [column.to_pylist() for column in batch.columns]
            parts = COLUMNS.index("parts")
            columns[parts] = list(map(tuple, columns[parts]))
            yield from map(SplitWord, *columns)


def split_table(
    words: pa.Table,
    unknown: pa.Table,
    examples: Mapping[bytes, bytes],
    *,
    order: SplitOrder,
    vocabulary: Vocabulary | None = None,
    spell: Callable[[bytes], tuple[bytes, ...]] | None = None,
) -> SplitWords:
    """Return the split words and the unknown words. ``languages`` of the result is empty."""
    found = words.filter(pc.or_(pc.greater(words["pieces"], 1), pc.invert(words["known"])))
    names, pieces = found["word"].to_pylist(), found["pieces"].to_numpy()
    shown = [examples.get(name, b"") for name in names]
    part = np.where(pieces > 1, 0, 2)
    for at in np.flatnonzero(pieces >= MIN_RANDOM).tolist():
        part[at] = is_random(spelling(names[at], shown[at]).strip())
    new = {
        **{"part": part, "cost": found["count"].to_numpy() * (pieces - 1)},
        "example": pa.array(shown, pa.large_binary()),
    }
    for name, column in new.items():
        found = found.append_column(name, pa.array(column))
    keys = dict.fromkeys((order, "cost"), "descending")
    order_by = [("part", "ascending"), *keys.items(), ("word", "ascending")]
    found = found.take(pc.sort_indices(found, order_by)).combine_chunks()
    listed, random = (int(np.count_nonzero(part == number)) for number in (0, 1))
    kinds = _kinds(found.slice(0, min(listed, COMMONEST)), vocabulary)
    kinds += [None] * (listed - len(kinds)) + ["random"] * random
    known = dict(zip(unknown["word"].to_pylist(), unknown["kind"].to_pylist(), strict=True))
    kinds += [known[name] for name in found["word"].slice(listed + random).to_pylist()]
    found = found.append_column("kind", pa.array(kinds, pa.string()))
    found = found.append_column("parts", _parts(found, (0, listed, listed + random), spell))
    totals = _totals(found.slice(0, listed + random))
    return SplitWords(found.select(COLUMNS), listed, random, listed + random, totals)


def _kinds(words: pa.Table, vocabulary: Vocabulary | None) -> list[Kind | None]:
    """Return the kind of each split word. Without a vocabulary, every kind is ``None``."""
    if vocabulary is None:
        return [None] * len(words)
    entries = vocabulary.stored
    marker = vocabulary.marker or guess_marker(entries)
    if marker in STARTS:
        entries = plain_strings(entries, marker)
    names = [name.strip(b" ") for name in words["word"].to_pylist()]
    found = classify(names, entries, words["example"].to_pylist(), misspellings=False)
    return [one.kind for one in found]


def _parts(
    words: pa.Table,
    starts: tuple[int, ...],
    spell: Callable[[bytes], tuple[bytes, ...]] | None,
) -> pa.Array:
    parts: list[tuple[bytes, ...]] = [()] * len(words)
    for start, end in pairwise((*starts, len(words))):
        some = words.slice(start, min(end - start, COMMONEST))
        pairs = zip(some["word"].to_pylist(), some["pieces"].to_pylist(), strict=True)
        for at, (word, number) in enumerate(pairs, start):
            pieces = spell(word) if spell is not None else ()
            if len(pieces) == number:
                parts[at] = pieces
    return pa.array(parts, pa.list_(pa.large_binary()))


def _totals(words: pa.Table) -> tuple[SplitKind, ...]:
    rows = words.select(["kind", "count", "pieces"]).filter(pc.is_valid(words["kind"]))
    totals: dict[Kind, list[int]] = {}
    columns = (column.to_pylist() for column in rows.columns)
    for kind, count, pieces in zip(*columns, strict=True):
        total = totals.setdefault(kind, [0, 0, 0])
        for at, figure in enumerate((1, count, count * pieces)):
            total[at] += figure
    found = (SplitKind(kind, *total) for kind, total in totals.items())
    return tuple(sorted(found, key=lambda kind: (-kind.pieces, kind.kind)))


# ---- languages and scripts of texts

NO_LETTERS: Final = "no letters"
LATIN: Final = "Latin, language not recognised"
MIN_HITS: Final = 2  # of the common words below, to recognise the language of a text
MIN_SHARE: Final = 0.05  # of its words in Latin script
# Common words, also counted without accents, because models may remove these. No single letters:
# they are variables in technical texts.
LANGUAGES: Final = {
    "Czech": "na se je že to ze do pro ale jako jsou který které byl od podle také jeho až při",
    "Danish": "og at er en det til på af for med der den som ikke et fra blev har var også",
    "Dutch": "de het een van en in is dat op te zijn met voor niet aan er door ook bij naar",
    "English": "the of and to in is that for it with as this be are on by from or not an",
    "Finnish": "ja on ei se että oli hän mutta kun niin joka ovat myös kuin sekä tai mukaan",
    "French": "le la les de des et un une du en est que dans pour qui sur pas par au il",
    "German": "der die und das den von zu mit ist im des ein eine nicht sich auf für dem",
    "Hungarian": "az és hogy nem is egy van volt ez meg csak de mint már azt által ezt",
    "Indonesian": "yang dan di ini itu dengan untuk dari pada adalah tidak dalam ke oleh",
    "Italian": "il di che la un una per non sono con del della gli nel alla le più si da",
    "Polish": "na do się nie że jest to od jak po dla ale przez oraz są był ich tym która lub",
    "Portuguese": "de que do da em um uma para com não os as no na por mais dos como se foi",
    "Romanian": "și de la în cu pe care din nu este un mai pentru că sunt fost au prin",
    "Spanish": "el la de que en los del las un una por con para es se no su como más al",
    "Swedish": "och att det som en på är av för med den till inte ett om har från var",
    "Turkish": "ve bir bu da de için ile olarak çok daha olan gibi en kadar ne sonra",
    "Vietnamese": "là của và có được trong các một cho không với những này người đã khi",
}


def count_languages(found: WordLookup) -> dict[str, list[int]]:
    """Count the texts of a batch by script, or by language if the script is Latin.

    The script of a word is the script of its first letter. The script of a text is the script of
    most of its words. The language of a text is the language whose common words occur most in the
    text.

    Each name of a language or script is mapped to its counts: the fields of :class:`LanguageCount`
    after ``name``.
    """
    number = len(found.offsets) - 1
    lengths = np.diff(found.offsets)
    texts = np.repeat(np.arange(number), lengths)
    names, scripts = _scripts(found.distinct)
    scripts = scripts[found.codes]
    group, most = np.zeros((2, number), np.int64)
    for code in range(1, len(names)):
        here = np.bincount(texts[scripts == code], minlength=number)
        group[here > most] = code
        most = np.maximum(most, here)
    hits, (common, member) = np.full(number, MIN_HITS - 1), _common_words()
    trimmed = pc.ascii_lower(pc.ascii_trim(found.distinct, " ")).view(pa.binary())
    rows = pc.index_in(trimmed, common).fill_null(-1).to_numpy(zero_copy_only=False)[found.codes]
    of_texts, rows = texts[rows >= 0], rows[rows >= 0]
    latin = group == 1
    for code in range(member.shape[1]):
        here = np.bincount(of_texts[member[rows, code]], minlength=number)
        here[~latin | (here < MIN_SHARE * most)] = 0
        group[latin & (here == hits)] = 1  # two languages: neither
        group[here > hits] = len(names) + code
        hits = np.maximum(hits, here)
    names += LANGUAGES
    pieces = np.zeros(0, np.int64) if found.pieces is None else found.pieces[found.codes]
    sums = [starts_of(each)[found.offsets] for each in (pieces, pieces >= MANY)]
    per_text = [np.ones(number), lengths, *map(np.diff, sums)]
    per_text.append(per_text[-1] > 0)
    totals = [np.bincount(group, each, len(names)).astype(np.int64).tolist() for each in per_text]
    return {name: row for name, *row in zip(names, *totals, strict=True) if row[0]}


def _scripts(words: pa.StringArray) -> tuple[list[str], NDArray[np.int64]]:
    names = {NO_LETTERS: 0, LATIN: 1}
    letters = pc.match_substring_regex(words.view(pa.binary()), "[A-Za-z]")
    scripts = letters.to_numpy(zero_copy_only=False).astype(np.int64)
    others = np.flatnonzero(~pc.string_is_ascii(words).to_numpy(zero_copy_only=False))
    for at, word in zip(others.tolist(), as_bytes(words.take(pa.array(others))), strict=True):
        letter = next(filter(str.isalpha, word.decode("utf-8", "replace")), None)
        script = NO_LETTERS if letter is None else script_of(letter)
        name = {"LATIN": LATIN, "CJK": "Chinese characters"}.get(script, script.capitalize())
        scripts[at] = names.setdefault(NO_LETTERS if letter is None else name, len(names))
    return [*names], scripts


@lru_cache(maxsize=1)
def _common_words() -> tuple[pa.Array, NDArray[np.bool_]]:
    """Return common words, and the languages of each: bool, shape (words, languages)."""
    languages = []
    for listed in LANGUAGES.values():
        bare = "".join(
            c for c in unicodedata.normalize("NFD", listed) if not unicodedata.combining(c)
        )
        languages.append({*listed.split(), *bare.split()})
    every = sorted(set().union(*languages))
    member = np.array([[word in language for language in languages] for word in every])
    return pa.array([word.encode() for word in every], pa.binary()), member
