"""The public ``OovReport``: what a model does not know of a corpus, and what it splits.

A subword model splits a word into pieces. The cost of a word is its count times the number of its
pieces beyond the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vocabtool.system.messages import percent, plural
from vocabtool.system.results import TableResult, as_texts
from vocabtool.tokenization.token_limit import TokenLimit
from vocabtool.vocabulary import decode, encode, short

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
NextStep = Literal["another model", "shorter texts", "words to add", "hybrid search", "none"]

UNKNOWN_COLUMNS: Final = ("word", "count", "documents", "kind", "like", "example")
COMMONEST: Final = 10_000  # words of a list that are classified, and whose pieces are listed
# From which figures a step is the next one. The first step whose figure is reached is named.
MANY: Final = 0.2  # unknown words: of a sentence of ten words, two are missing
COSTLY: Final = 2.0  # pieces per word that is no code: a text fills the limit twice as fast
CUT_OFF: Final = 0.05  # of the tokens: the end of a text is really not seen
SAVED: Final = 0.1  # of the pieces: the model must be trained further for it
CODES: Final = 0.01  # of the words of a subword model: queries for codes want exactly these
RARE: Final = 0.001  # unknown words: hardly a query has one
ADDED: Final = 100  # words whose addition is estimated without --suggest
COMPARE: Final = "`vocabtool diff A B --corpus FILE` compares two on these texts"
CODE_KINDS: Final[tuple[Kind, ...]] = ("code", "random", "number", "symbol")
LABELS: Final[dict[Kind, str]] = {
    "random": "random strings",
    "form": "known words in another case or Unicode form",
    "number": "numbers",
    "code": "identifiers and codes",
    "script": "words in another script",
    "misspelling": "misspellings, plurals and singulars",
    "name": "capitalised words",
    "emoji": "emoji",
    "symbol": "punctuation",
    "other": "ordinary words",
}


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


class Verdict(NamedTuple):
    """The sentences with which a report begins, and what to do next.

    - ``how_much``: How much is unknown or split.
    - ``where``: Which words these are; ``""`` if the texts contain no words.
    - ``advice``: What to do, and why; ``""`` if the texts contain no words.
    - ``next_step``: Name of the step that ``advice`` describes.
    """

    how_much: str
    where: str
    advice: str
    next_step: NextStep


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

    @property
    def verdict(self) -> Verdict:
        """Three sentences and the next step. They depend only on the figures of the report."""
        return _verdict(self)

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
        names: tuple[str, ...] = UNKNOWN_COLUMNS
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


# ---- the verdict


def _verdict(report: OovReport) -> Verdict:
    """Return the verdict; for a subword model :func:`_subword_verdict`. Symbols do not count."""
    if not report.tokens:
        return Verdict("The documents contain no words.", "", "", "none")
    punctuation = sum(kind.tokens for kind in report.kinds if kind.kind == "symbol")
    words = report.tokens - punctuation
    unknown = report.tokens_unknown - punctuation
    missing = unknown / max(words, 1)
    if report.split is not None:
        return _subword_verdict(report, report.split, unknown, missing)
    documents = f"{report.documents_unknown:,} of {report.documents:,} documents."
    how_much = f"The model does not know {unknown:,} of {words:,} words ({percent(missing)})"
    if punctuation:  # a document may hold nothing else unknown
        how_much += (
            f", {punctuation:,} unknown symbols left out; the words are in up to {documents}"
        )
    else:
        how_much += f"; they are in {documents}"
    kinds = _examples(report, report.kinds)
    where = f"Most of the unknown words are {kinds}." if kinds else "No unknown word stands out."
    if missing > MANY:
        step: NextStep = "another model"
        why = f"{percent(missing)} of the words are unknown"
        advice = f"Next step: take another model ({COMPARE}), because {why}."
    elif missing >= RARE:
        step = "hybrid search"
        advice = (
            "Next step: search by vectors and keywords together (`vocabtool index`, then "
            "`vocabtool search`), because all unknown words are the same to this model, and "
            "keywords tell them apart."
        )
    else:
        step = "none"
        advice = f"Next step: none, because fewer than {percent(RARE)} of the words are unknown."
    return Verdict(how_much, where, advice, step)


def _subword_verdict(report: OovReport, split: SplitWords, unknown: int, missing: float) -> Verdict:
    """Return a subword model's verdict. ``missing``: share of ``unknown`` words; no symbols."""
    unknown_words = "no word is unknown"
    if unknown:
        be = "is" if unknown == 1 else "are"
        share = f"{percent(missing)}, without symbols"
        unknown_words = f"{plural(unknown, 'word')} ({share}) {be} unknown"
    how_much = (
        f"The model splits {percent(report.split_rate(2))} of the words into pieces: "
        f"{report.tokens:,} words become {split.pieces:,} pieces ({report.fertility:.2f} per "
        f"word), and {unknown_words}; a split word is not unseen, but it costs tokens."
    )
    kinds = _examples(report, split.kinds)
    where = f"Most additional pieces come from {kinds}" if kinds else "No word is split"
    if report.cut:
        where += f"; {percent(report.cut_rate)} of all pieces are past the model's limit"
    step, advice = _subword_step(report, split, unknown, missing)
    return Verdict(how_much, f"{where}.", f"Next step: {advice}.", step)


def _subword_step(
    report: OovReport, split: SplitWords, unknown: int, missing: float
) -> tuple[NextStep, str]:
    """Return the next step, and the advice. Arguments: as of :func:`_subword_verdict`."""
    codes = [kind for kind in split.kinds if kind.kind in CODE_KINDS]
    other_tokens = report.tokens - sum(kind.tokens for kind in codes)
    other_pieces = split.pieces - sum(kind.pieces for kind in codes)
    per_word = other_pieces / max(other_tokens, 1)
    identifiers = sum(kind.tokens for kind in codes if kind.kind == "code")
    if report.suggested is not None:
        added = f"{len(report.suggested.words):,} suggested"
        saved = 1 - report.suggested.after / max(report.suggested.before, 1)
    else:
        table = split.table.slice(0, min(ADDED, split.listed))
        costs = pc.multiply(table["count"], pc.subtract(table["pieces"], 1))
        added = f"{len(table):,} costliest"
        saved = (pc.sum(costs).as_py() or 0) / max(split.pieces, 1)
    if missing > MANY or per_word > COSTLY:
        step: NextStep = "another model"
        why = f"even without codes and numbers, a word takes {per_word:.2f} pieces"
        if missing > MANY:
            why = f"{percent(missing)} of the words are unknown"
        advice = f"take another model ({COMPARE}), because {why}"
    elif report.cut_rate >= CUT_OFF:
        step = "shorter texts"
        why = f"the model does not read {percent(report.cut_rate)} of the pieces"
        how = "`vocabtool index` does it for files, and with `--split tokens` for rows"
        advice = f"cut the texts to size ({how}), because {why}"
    elif saved >= SAVED:
        step = "words to add"
        advice = f"add words to the tokenizer (`--suggest {ADDED}`) and train the model further"
    elif identifiers >= CODES * report.tokens or missing >= RARE:
        step = "hybrid search"
        why = f"{identifiers:,} words are split identifiers or codes, which keywords find exactly"
        if missing >= RARE:
            why = f"{unknown:,} words are unknown, which keywords find"
        advice = f"search by vectors and keywords together (`vocabtool index`), because {why}"
    else:
        step, advice = "none", "none, because the texts suit the model"
    if split.listed:
        advice += f"; the {added} words as entries would save {percent(saved)} of the pieces"
    return step, advice


def _examples(report: OovReport, kinds: Sequence[KindCount]) -> str:
    """Name the two largest kinds, but not symbols and random strings, with up to three words."""
    table = report.unknown if report.split is None else report.split.table
    meaningful = [kind for kind in kinds if kind.kind not in ("symbol", "random")]
    names = []
    for kind in meaningful[:2]:
        words = table.filter(pc.equal(table["kind"], kind.kind))["word"][:3].to_pylist()
        examples = ", ".join(short(word.strip()) for word in words)
        number = f"{kind.tokens:,}"
        if report.split is not None:
            number = f"{kind.pieces - kind.tokens:,} pieces"
        names.append(f"{LABELS[kind.kind]} ({number}, such as {examples})")
    return " and ".join(names)
