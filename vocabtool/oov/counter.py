"""Count unknown words of a stream of documents in bounded memory.

Counts and totals are exact. But when the memory for distinct words is full, words that occur for
the first time are counted only in the totals, and not listed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import unicodedataplus
from numpy.typing import NDArray

from vocabtool.oov.kinds import coverage, split_table, unknown_table
from vocabtool.oov.report import CutOff, Header, LanguageCount, OovReport
from vocabtool.streams.stream import Stream
from vocabtool.system.arguments import check_arguments
from vocabtool.system.messages import plural
from vocabtool.tokenization.lookup import WordLookup, without_blanks
from vocabtool.tokenization.text_arrays import as_bytes, not_utf8, starts_of, texts_array
from vocabtool.tokenization.token_limit import CutTotals, TokenLimit, cut_off
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import Vocabulary

BUDGET: Final = 64 << 20  # bytes: about 350,000 words
WORD_COST: Final = 176  # bytes per word while words are merged, in addition to the word itself
WAITING_WORDS: Final = 1 << 17
WAITING_BYTES: Final = 16 << 20  # of texts
EXAMPLES_SHARE: Final = 4  # examples may take an additional 1 / EXAMPLES_SHARE of the budget
NEVER_USED: Final = 20  # entries listed in a report
THREADS: Final = 2
MOST_PIECES: Final = 32  # the last bin of the histogram: words of 32 or more pieces
MANY: Final = 3  # pieces: ``split3`` counts words of as many or more
FEW: Final = 100  # fewer tokens say nothing about the language
MOSTLY_UNKNOWN: Final = (
    "most tokens are unknown: the texts may be in another language, or the model may need a step "
    "outside its files, for example a stemmer"
)
NOT_UTF8: Final = "not UTF-8: they may have another encoding or not be text"
TOO_MANY_EXAMPLES: Final = (
    "examples are kept only for the words that occurred first, because of the memory budget"
)

# ``read``: whether the model reads the whole word at least once. ``documents`` is 0 for known words
# in one piece.
FIGURES: Final = np.dtype(
    [("known", "?"), ("read", "?"), ("pieces", "i4"), ("counts", "i8"), ("documents", "i8")],
    align=True,
)


class OovCounter:
    """A counter of the words that one model does not know.

    - ``words``: The result of :meth:`Words.of`.
    - ``budget``: Number of bytes for distinct words. If the words need more, those that occur first
      are listed, and the others are counted only in the totals.
    - ``limit``: How many tokens of a text the model reads (:meth:`TokenLimit.of`). If given, the
      report says what is cut off. ``None`` means that the model reads all tokens.
    """

    @check_arguments
    def __init__(
        self, words: Words, *, budget: int = BUDGET, limit: TokenLimit | None = None
    ) -> None:
        self.words = words
        self.limit = limit
        self._all = (words, *words.others)
        self._counts = [OovCounts(words.vocabulary, budget=budget) for words in self._all]
        self._not_utf8 = self._blanks = 0

    def count(
        self, batches: Iterable[pa.Array | Sequence[str | bytes]], *, threads: int = THREADS
    ) -> None:
        """Count batches, lists or Arrow arrays of texts, in order; up to ``threads`` at once."""
        arrays = Stream.of(map(_batch_array, batches))
        for texts, not_utf8_texts, batch_counts in arrays.map(self._count, workers=threads):
            self._not_utf8 += not_utf8_texts
            self._blanks += batch_counts[0].blanks
            for counts, batch in zip(self._counts, batch_counts, strict=True):
                counts.add(batch, texts)

    def _count(self, texts: pa.StringArray) -> tuple[pa.StringArray, int, list[BatchCounts]]:
        """Return the texts, how many are not UTF-8, and the counts of each vocabulary."""
        counts = [count_batch(self.words.look_up(texts), self.limit)]
        counts += [count_batch(words.look_up(texts)) for words in self.words.others]
        return texts, not_utf8(texts), counts

    def report(self, *, model: str = "", sources: tuple[str, ...] = ()) -> OovReport:
        """Return a report on all texts counted so far. ``model``, ``sources``: names to show."""
        reports = []
        for words, counts in zip(self._all, self._counts, strict=True):
            vocabulary, first = words.vocabulary, words is self.words
            rule, fingerprint = words.describe(), words.fingerprint
            size = len(vocabulary)
            header = Header(model, vocabulary.name, size, rule, fingerprint, sources)
            spell = words.tokenizer.pieces if first else None
            limit = self.limit if first else None
            reports.append(counts.report(header, spell=spell, limit=limit))
        report, notes = reports[0], self.words.notes
        if report.tokens >= FEW and report.tokens_unknown > report.tokens // 2:
            notes += (MOSTLY_UNKNOWN,)
        if self._not_utf8:
            be = "is" if self._not_utf8 == 1 else "are"
            notes += (f"{self._not_utf8:,} of {report.documents:,} documents {be} {NOT_UTF8}",)
        if self._blanks:
            blanks = plural(self._blanks, "token", "tokens")
            notes += (f"skipped {blanks} of spaces only: repeated spaces are not words",)
        return replace(report, notes=(*notes, *report.notes), others=tuple(reports[1:]))


class OovCounts:
    """Counts words, batch by batch, as known or unknown to one vocabulary.

    ``budget``: about how many bytes distinct words may take. Examples may need another quarter.
    """

    def __init__(self, vocabulary: Vocabulary, *, budget: int = BUDGET) -> None:
        self._vocabulary = vocabulary
        self.documents = self.documents_unknown = 0
        self.tokens = self.tokens_unknown = self._pieces = 0
        self._cut = np.zeros(3, np.int64)  # documents, tokens cut off, all tokens
        self._budget = budget
        self._full = False  # whether the budget is used up
        self._words = pa.array([], pa.large_binary())  # distinct, in order of first occurrence
        self._figures = np.zeros(0, FIGURES)  # a row for each of these words
        self._waiting: list[tuple[BatchCounts, pa.StringArray]] = []  # not yet added to the words
        self._waiting_words = self._waiting_bytes = 0
        self._languages: dict[str, NDArray[np.int64]] = {}
        self._examples: dict[bytes, bytes] = {}
        self._too_many_examples = False
        self._used = np.zeros(len(vocabulary), np.bool_)
        self._histogram: NDArray[np.int64] | None = None

    def add(self, batch: BatchCounts, texts: pa.StringArray) -> None:
        """Add the counts of a batch. Its words are merged later, with those of other batches."""
        self.documents += len(texts)
        self.documents_unknown += batch.texts_unknown
        self.tokens += int(batch.counts.sum())
        self.tokens_unknown += int(batch.counts[~batch.known].sum())
        self._used[batch.positions[batch.positions >= 0]] = True
        if batch.pieces is not None:
            self._pieces += int(batch.counts @ batch.pieces)
            if self._histogram is None:
                self._histogram = np.zeros(MOST_PIECES + 1, np.int64)
            np.add.at(self._histogram, np.minimum(batch.pieces, MOST_PIECES), batch.counts)
        if batch.cut is not None:
            self._cut += batch.cut
        for name, figures in batch.languages.items():
            self._languages[name] = np.add(figures, self._languages.get(name, 0))
        self._waiting.append((batch, texts))
        self._waiting_words += len(batch.words)
        self._waiting_bytes += texts.nbytes
        room = min(max(WAITING_WORDS, len(self._words)), self._budget // WORD_COST)
        if self._waiting_words > room or self._waiting_bytes > WAITING_BYTES:
            self._merge()

    def _merge(self) -> None:
        """Add the words of all waiting batches, if they fit, and their figures and examples."""
        if not self._waiting:
            return
        merged = len(self._words)
        arrays = [self._words, *(batch.words.cast(pa.large_binary()) for batch, _ in self._waiting)]
        encoded = pa.concat_arrays(arrays).dictionary_encode()
        words, indices = encoded.dictionary, encoded.indices.to_numpy()
        room = merged  # how many words fit
        if not self._full:
            lengths = pc.binary_length(words).to_numpy()
            room = int(np.searchsorted(np.cumsum(lengths + WORD_COST), self._budget, "right"))
            self._full = room < len(words)
        if room < len(words):
            words = words.take(pa.array(np.arange(room)))
        self._words = words
        self._figures = np.concatenate([self._figures, np.zeros(len(words) - merged, FIGURES)])
        figures, start = self._figures, merged
        has_example = np.arange(len(words)) < merged
        for batch, texts in self._waiting:
            rows_of_batch = indices[start : start + len(batch.words)]
            start += len(rows_of_batch)
            fits = rows_of_batch < room
            rows = rows_of_batch[fits]
            figures["known"][rows] = batch.known[fits]
            if batch.pieces is not None:
                figures["pieces"][rows] = batch.pieces[fits]
            if batch.is_read is not None:
                figures["read"][rows] |= batch.is_read[fits]
            figures["counts"][rows] += batch.counts[fits]
            # The unknown and split words: how many documents have them, and an example.
            listed = np.flatnonzero(fits[batch.listed])  # positions in batch.listed
            listed_rows = rows_of_batch[batch.listed[listed]]
            figures["documents"][listed_rows] += batch.documents[listed]
            new = listed[~has_example[listed_rows]]
            most = max(self._budget // EXAMPLES_SHARE // EXAMPLE_COST - len(self._examples), 0)
            self._too_many_examples |= len(new) > most
            new = new[:most]
            new_words = batch.words.take(pa.array(batch.listed[new])).to_pylist()
            examples = find_examples(texts, new_words, batch.first[new], batch.shares[new])
            self._examples.update(zip(new_words, examples, strict=True))
            has_example[rows] = True
        self._waiting, self._waiting_words, self._waiting_bytes = [], 0, 0

    def report(
        self,
        header: Header,
        *,
        spell: Callable[[bytes], tuple[bytes, ...]] | None = None,
        limit: TokenLimit | None = None,
    ) -> OovReport:
        """Return a report on all batches added so far. ``spell`` returns the pieces of a word."""
        self._merge()
        figures, vocabulary = self._figures, self._vocabulary
        words = pa.table(
            {
                "word": self._words,
                **{name: figures[name] for name in ("known", "pieces", "documents")},
                "count": figures["counts"],
                "cut": ~figures["read"] & (limit is not None),
            }
        )
        subword = self._histogram is not None
        unknown, kinds = unknown_table(words, self._examples, vocabulary, random=subword)
        notes: tuple[str, ...] = ()
        if self._full:
            late = plural(self.tokens - int(figures["counts"].sum()), "token", "tokens")
            notes = (
                f"the memory for distinct words is full: the {len(words):,} words that occurred "
                f"first are listed, with exact counts. The others ({late}) are counted only in "
                "the totals; a larger --budget lists more words",
            )
        if self._too_many_examples:
            notes += (TOO_MANY_EXAMPLES,)
        report = OovReport(
            header=header,
            documents=self.documents,
            documents_unknown=self.documents_unknown,
            tokens=self.tokens,
            tokens_unknown=self.tokens_unknown,
            distinct=len(words),
            distinct_unknown=len(unknown),
            unknown=unknown,
            kinds=kinds,
            curve=coverage(words, self.tokens),
            full=self._full,
            notes=notes,
            cut=None if limit is None else CutOff(limit, *self._cut.tolist()),
        )
        if self._histogram is not None:  # use of entries is unknown for subword models
            split = split_table(words, unknown, self._examples, vocabulary, spell)
            languages = [LanguageCount(name, *n.tolist()) for name, n in self._languages.items()]
            languages.sort(key=lambda language: (-language.documents, language.name))
            histogram = tuple(np.trim_zeros(self._histogram, "b").tolist())
            split = replace(
                split, pieces=self._pieces, histogram=histogram, languages=tuple(languages)
            )
            return replace(report, split=split)
        never_used: list[int] = np.flatnonzero(~self._used)[:NEVER_USED].tolist()
        entries = tuple(vocabulary.stored[at] for at in never_used)
        return replace(report, used=int(self._used.sum()), never_used=entries)


# ---- the words of one batch


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchCounts:
    """The u distinct words of a batch of n texts, in order of first occurrence.

    The arrays ``listed``, ``documents``, ``first`` and ``shares`` have an item for each unknown or
    split word. The other arrays have length u.

    ``positions``: in the vocabulary, -1 if absent. ``pieces``: ``None`` for a model of whole words.
    ``listed``: index in ``words``, ascending. ``documents``: number of texts with the word.
    ``first``: index of the first of them. ``shares``: relative position in it, from 0 to 1.
    ``blanks``: number of skipped words of blanks. ``cut``, ``is_read``: what the token limit cuts
    off, and whether the model reads the word in a text; ``None`` without a limit.
    """

    words: pa.BinaryArray
    positions: NDArray[np.int64]
    known: NDArray[np.bool_]
    pieces: NDArray[np.int32] | None
    counts: NDArray[np.int64]
    listed: NDArray[np.int64]
    documents: NDArray[np.int64]
    first: NDArray[np.int64]
    shares: NDArray[np.float64]
    texts_unknown: int
    languages: Mapping[str, list[int]] = field(default_factory=dict)
    blanks: int = 0
    cut: CutTotals | None = None
    is_read: NDArray[np.bool_] | None = None


def count_batch(with_blanks: WordLookup, limit: TokenLimit | None = None) -> BatchCounts:
    """Count the words of a batch. For a subword model, skip words that are only blanks."""
    lookup = without_blanks(with_blanks)
    cut, is_read = (None, None) if limit is None else cut_off(with_blanks, limit)
    codes = lookup.codes.astype(np.intp, copy=False)  # convert once; indexing expects intp
    if not lookup.unique:  # all equal words get the code of the last of them
        encoded = lookup.distinct.view(pa.binary()).dictionary_encode()
        numbers = encoded.indices.to_numpy(zero_copy_only=False)
        last = np.zeros(len(encoded.dictionary), np.intp)
        last[numbers] = np.arange(len(numbers))
        common_code = last[numbers]
        codes = common_code[codes]
        if is_read is not None:
            read_codes = common_code[is_read]
            is_read = np.zeros(len(is_read), np.bool_)
            is_read[read_codes] = True
    counts = np.bincount(codes, minlength=len(lookup.distinct))
    first_token = np.zeros(len(counts), np.int64)
    first_token[codes[::-1]] = np.arange(len(codes))[::-1]  # the last of equal indices wins
    words = np.flatnonzero(counts)  # the codes of the u words of the result
    words = words[np.argsort(first_token[words])]
    is_listed = ~lookup.known if lookup.pieces is None else ~lookup.known | (lookup.pieces > 1)
    listed = np.flatnonzero(is_listed[words])

    # The distinct pairs of a text and a listed word: the text in the high 32 bits of a number.
    listed_number = np.zeros(len(counts), np.int64)
    listed_number[words[listed]] = np.arange(len(listed))
    token_is_listed = is_listed.take(codes)
    listed_of_text = np.diff(starts_of(token_is_listed)[lookup.offsets])
    texts = np.repeat(np.arange(len(listed_of_text)), listed_of_text)
    pairs = np.sort(texts << np.int64(32) | listed_number.take(codes[token_is_listed]))
    pairs = pairs[np.diff(pairs, prepend=-1) != 0]

    tokens = first_token[words[listed]]
    first = np.searchsorted(lookup.offsets, tokens, "right") - 1
    starts, ends = lookup.offsets[first], lookup.offsets[first + 1]
    unknown_before = starts_of(~lookup.known.take(codes))[lookup.offsets]
    return BatchCounts(
        words=lookup.distinct.view(pa.binary()).take(pa.array(words)),
        positions=lookup.positions[words],
        known=lookup.known[words],
        pieces=None if lookup.pieces is None else lookup.pieces[words],
        counts=counts[words],
        listed=listed,
        documents=np.bincount(pairs & np.int64((1 << 32) - 1), minlength=len(listed)),
        first=first,
        shares=(tokens - starts) / (ends - starts),
        texts_unknown=int(np.count_nonzero(np.diff(unknown_before))),
        languages={} if lookup.pieces is None else count_languages(lookup),
        blanks=len(with_blanks.codes) - len(lookup.codes),
        cut=cut,
        is_read=None if is_read is None else is_read[words],
    )


# ---- examples: the position of a word in its text

WIDTH: Final = 120  # bytes of an example, without ellipses
EXAMPLE_COST: Final = WIDTH + 136  # bytes per example
SEARCHED: Final = 1_024  # bytes searched on either side of the expected position
GOES_ON: Final = b"\xff"  # a letter for find_word, never in UTF-8; stands for skipped text
CUT: Final = "…".encode()
LETTERS: Final = frozenset(byte for byte in range(256) if byte >= 0x80 or chr(byte).isalnum())


def find_word(text: bytes, word: bytes) -> int:
    """Return the position of a word in a text, or -1; non-ASCII bytes count as letters.

    A whole word in the same case comes first, then one in another case, then a part in any case.
    """
    lower, folded = text.lower(), word.lower()
    for line, key in ((text, word), (lower, folded)):
        at = line.find(key)
        while at >= 0:
            end = at + len(key)
            if not LETTERS.intersection(line[max(at - 1, 0) : at] + line[end : end + 1]):
                return at
            at = line.find(key, at + 1)
    return lower.find(folded)


def clip(data: bytes | memoryview, start: int, end: int, middle: int, width: int = WIDTH) -> bytes:
    """Return about ``width`` bytes around ``middle``, with ellipses; UTF-8 is not split."""
    low = max(min(middle - width // 2, end - width), start)
    high = min(low + width, end)
    # Bytes of the form 10xxxxxx continue a character.
    while start < low < high and data[low] & 0xC0 == 0x80:
        low += 1
    while high < end and data[high] & 0xC0 == 0x80 and high - low < width + 3:
        high += 1
    before, behind = CUT if low > start else b"", CUT if high < end else b""
    return before + bytes(data[low:high]) + behind


def find_examples(
    texts: pa.StringArray, words: list[bytes], rows: NDArray[np.int64], shares: NDArray[np.float64]
) -> list[bytes]:
    """Return for each of k words a text that contains the word. Long texts are clipped.

    ``rows``: of the texts, shape (k,). ``shares``: where the word is, about, from 0 to 1.
    """
    _, offsets, content = texts.buffers()
    bounds = np.frombuffer(offsets or b"", np.int32)[texts.offset :][: len(texts) + 1]
    data = memoryview(content if content is not None else b"")
    examples = []
    places = (bounds[rows].tolist(), bounds[rows + 1].tolist(), shares.tolist())
    for word, start, end, share in zip(words, *places, strict=True):
        if end - start <= WIDTH:
            examples.append(bytes(data[start:end]))
            continue
        middle = int(start + share * (end - start))
        low, high = max(start, middle - SEARCHED), min(end, middle + SEARCHED)
        before = GOES_ON if low > start else b""
        behind = GOES_ON if high < end else b""
        at = find_word(before + bytes(data[low:high]) + behind, word)
        if at >= 0:
            middle = low - len(before) + at + len(word) // 2
        examples.append(clip(data, start, end, middle))
    return examples


# ---- languages and scripts of texts

NO_LETTERS: Final = "no letters"
LATIN: Final = "Latin, language not recognised"
# To recognise the language of a text, common words below must make up this share of its words in
# Latin script, and this number of them must be different. Without the second condition, 82 of
# 19,000 paragraphs of English manuals get another language, with it one.
MIN_SHARE: Final = 0.05
MIN_DIFFERENT: Final = 3
# Common words, also counted without accents, because models may remove these. No single letters,
# no `as`, `com`, `do`, `no` and `os` in Portuguese: they are frequent in technical English.
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
    "Portuguese": "de que da em um uma para não na por mais dos como se foi ao são mas pelo ou",
    "Romanian": "și de la în cu pe care din nu este un mai pentru că sunt fost au prin",
    "Spanish": "el la de que en los del las un una por con para es se no su como más al",
    "Swedish": "och att det som en på är av för med den till inte ett om har från var",
    "Turkish": "ve bir bu da de için ile olarak çok daha olan gibi en kadar ne sonra",
    "Vietnamese": "là của và có được trong các một cho không với những này người đã khi",
}


def count_languages(lookup: WordLookup) -> dict[str, list[int]]:
    """Count the texts of a batch by script, or by language if the script is Latin.

    The script of a word is that of its first letter, of a text that of most of its words. The
    language is the one whose common words occur most. The counts are the fields of
    :class:`LanguageCount` after ``name``.
    """
    number = len(lookup.offsets) - 1
    lengths = np.diff(lookup.offsets)
    texts = np.repeat(np.arange(number), lengths)  # the text of each word

    # The script of each text: a position in ``names``.
    names, scripts = _scripts(lookup.distinct)
    scripts = scripts[lookup.codes]
    group = np.zeros(number, np.int64)
    most = np.zeros(number, np.int64)  # words of the text in its script
    for code in range(1, len(names)):
        count = np.bincount(texts[scripts == code], minlength=number)
        group[count > most] = code
        most = np.maximum(most, count)

    # The language of each text in Latin script: a position in ``names`` behind the scripts.
    is_latin = group == 1
    common_words, is_in_language = _common_words()
    trimmed = pc.ascii_lower(pc.ascii_trim(lookup.distinct, " ")).view(pa.binary())
    rows = pc.index_in(trimmed, common_words).fill_null(-1)
    rows = rows.to_numpy(zero_copy_only=False)[lookup.codes]
    texts_of_rows, rows = texts[rows >= 0], rows[rows >= 0]
    pairs = np.unique(texts_of_rows * len(common_words) + rows)
    texts_of_distinct, distinct_rows = np.divmod(pairs, len(common_words))
    best = np.zeros(number, np.int64)  # common words of the language of the text
    for code in range(len(LANGUAGES)):
        count = np.bincount(texts_of_rows[is_in_language[rows, code]], minlength=number)
        different = np.bincount(
            texts_of_distinct[is_in_language[distinct_rows, code]], minlength=number
        )
        count[~is_latin | (count < MIN_SHARE * most) | (different < MIN_DIFFERENT)] = 0
        group[is_latin & (count == best)] = 1  # two languages: neither
        group[count > best] = len(names) + code
        best = np.maximum(best, count)
    names += LANGUAGES

    # The sums over the texts of each script or language.
    pieces = np.zeros(0, np.int64) if lookup.pieces is None else lookup.pieces[lookup.codes]
    pieces_of_text = np.diff(starts_of(pieces)[lookup.offsets])
    split_of_text = np.diff(starts_of(pieces >= MANY)[lookup.offsets])
    per_text = (np.ones(number), lengths, pieces_of_text, split_of_text, split_of_text > 0)
    totals = [
        np.bincount(group, figures, len(names)).astype(np.int64).tolist() for figures in per_text
    ]
    return {name: row for name, *row in zip(names, *totals, strict=True) if row[0]}


def _batch_array(texts: pa.Array | Sequence[str | bytes]) -> pa.StringArray:
    if isinstance(texts, str | bytes):
        raise TypeError("expected batches (lists of texts), got texts: write [texts]")
    return texts_array(texts)


def _scripts(words: pa.StringArray) -> tuple[list[str], NDArray[np.int64]]:
    """Return the names of scripts, and the script of each word as a position in the names."""
    names = {NO_LETTERS: 0, LATIN: 1}
    is_latin = pc.match_substring_regex(words.view(pa.binary()), "[A-Za-z]")  # if it is ASCII
    scripts = is_latin.to_numpy(zero_copy_only=False).astype(np.int64)  # false 0, true 1: see names
    others = np.flatnonzero(~pc.string_is_ascii(words).to_numpy(zero_copy_only=False))
    for at, word in zip(others.tolist(), as_bytes(words.take(pa.array(others))), strict=True):
        letter = next(filter(str.isalpha, word.decode("utf-8", "replace")), None)
        script = NO_LETTERS if letter is None else unicodedataplus.script(letter)
        name = {"Latin": LATIN, "Han": "Chinese characters"}.get(script, script.replace("_", " "))
        scripts[at] = names.setdefault(name, len(names))
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
    words = sorted(set().union(*languages))
    is_in_language = np.array([[word in language for language in languages] for word in words])
    return pa.array([word.encode() for word in words], pa.binary()), is_in_language
