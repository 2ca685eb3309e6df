"""Split texts into the terms of the keyword index.

``tokens.py`` finds the words of a text. This module folds the words and stems them with Snowball.
The keyword index has two fields:

- *words*: every run of letters, digits and marks, folded and stemmed. Words with a digit are only
  folded. Texts in Han, kana and Hangul are split into characters, texts in Thai, Lao, Khmer and
  Myanmar into overlapping pairs of characters. These additional terms come last:

  - the parts of mixed-case runs, so that ``parse http header`` finds ``parseHttpHeader``; and the
    whole run without stemming, if stemming changes it;
  - for a run with accents, the stem of its accented spelling, or this spelling itself if both
    spellings have one stem;
  - the overlapping pairs of characters of Han, kana and Hangul.

- *surfaces*: whole identifiers, folded. An identifier is a token that is more than a single run,
  such as ``foo.bar`` or ``C++``. Parts of an identifier that are identifiers themselves are added.
  So is the stem of the word that its parts make together, if it has no digit: ``email`` for
  ``e-mail``.

**Accents.** The rules of Snowball use accents: without them, forms of a word do not meet. With
them, ``résumé`` and ``resume`` do not meet. So each word is stemmed in both spellings. All words
contain the stem without accents, in the order of the text.

Stop words are flagged in queries, but still indexed.

If a text is several fields of a document joined, a weight multiplies the frequencies of a field's
terms before the formula of BM25 dampens them (Robertson, Zaragoza and Taylor, Simple BM25 Extension
to Multiple Weighted Fields, 2004): with the weight W, the index contains each of its terms W times.

**BM25** of one term, as tantivy computes it: Robertson and Zaragoza, The Probabilistic Relevance
Framework: BM25 and Beyond (2009), with the inverse document frequency of Lucene and tantivy:

    idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5))
    score(t, d) = idf(t) tf (k1 + 1) / (tf + k1 (1 - b + b |d| / mean |d|))

Here |d| is the length of a text as :func:`stored_length` returns it; the mean is of exact lengths.
A phrase counts as one term; its idf is the sum of the idfs of its terms. The score of an identifier
is only its idf, because texts have too few identifiers for a meaningful length.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, pairwise
from os.path import commonprefix
from string import punctuation
from threading import Lock
from typing import Final, Literal, NamedTuple, TypeVar

import unicodedataplus

from vocabtool.choices import LANGUAGES, Language
from vocabtool.documents.options import BETWEEN, TEXT, weights_of
from vocabtool.errors import UnsupportedFormat
from vocabtool.keywords.tokens import (
    MAX_TERM,
    SHAPES,
    Span,
    boundaries,
    canonical,
    canonical_text,
    case_folded,
    folded_character,
    humps,
    in_one_word,
    runs_of,
    surfaces_of,
    tokens,
    without_marks,
)

_ENGLISH: Final = frozenset(
    """
    a an the this that these those
    i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his
    himself she her hers herself it its itself they them their theirs themselves
    who whom whose which what when where why how
    am is are was were be been being have has had having do does did doing done
    can could may might must shall should will would ought cannot
    and or but nor if then else than because while until although though whether so as
    of at by for with without about against between among into through during before after above
    below to from up down in out on off over under upon onto via per within toward towards
    again further once here there all any both each few more most other others some such no not
    only own same too very just also ever never either neither every much many
    s t d m ll re ve don didn doesn isn aren wasn weren hasn haven hadn won wouldn shouldn couldn
    mustn needn shan mightn ain
    """.split()  # noqa: SIM905  # more readable than two hundred strings
)
_SAME_LANGUAGE: Final = {"porter": "english", "dutch_porter": "dutch"}


RULE: Final = 4  # version of the rule; an index with another version must be rebuilt

MORE_FORMS: Final = 2 / 3  # the share of the term that matches more forms of a word with accents

MAX_SPLIT: Final = 4  # places where letters and digits meet in a word; each costs a phrase

MAX_REMEMBERED: Final = 1 << 17  # cached chunks, about 25 MB
KEPT_RUNS: Final = 1 << 12  # cached runs, mostly of queries
MAX_REMEMBERED_LENGTH: Final = 64  # characters of a chunk or a run; longer ones rarely repeat

# Separates the kinds of terms in the cache; no term contains it.
_BETWEEN: Final = "\0"

# Punctuation that no token begins with, and that no token ends with.
_NEVER_FIRST: Final = "".join(set(punctuation) - set("._#@/\\$"))
_NEVER_LAST: Final = "".join(set(punctuation) - set("+#_"))

# Text between two quotation marks of any kind at the edges of words; 5" does not count as one.
QUOTED: Final = re.compile(r'(?<!\w)["\uff02“”„«»]([^"\uff02“”„«»]*)["\uff02“”„«»](?!\w)')

_DIGIT: Final = re.compile(r"\d")
OPENING: Final = re.compile(r'(?<!\w)["\uff02“”„«»](?=\w)')


Field = Literal["words", "surfaces"]
Cached = TypeVar("Cached")


class Term(NamedTuple):
    """A term of a field: a folded and stemmed word (``words``) or an identifier (``surfaces``)."""

    field: Field
    text: str


class Clause(NamedTuple):
    """One term, or a phrase: several consecutive words of the field ``words``.

    ``parts``: for a clause with an identifier, the terms of the identifier's parts. The score of
    the clause is the larger of the identifier's score and the sum of the parts' scores.
    """

    terms: tuple[Term, ...]
    boost: float = 1.0
    parts: tuple[Term, ...] = ()


class KeywordQuery(NamedTuple):
    """A query: the score of a document is the sum of the scores of its clauses.

    A search finds the documents that match every clause of ``must``. If ``must`` is empty, the
    search finds the documents that match any clause of ``should``. The tiers of a search need more:

    - ``codes``: a clause for each identifier. Documents that match any of these clauses rank first.
    - ``unstemmed``: the clauses of ``codes``, but names in mixed case are not stemmed:
      ``DataFrames`` does not match ``DataFrame``. Empty if stemming changes no such name.
    """

    should: tuple[Clause, ...]
    must: tuple[Clause, ...] = ()
    codes: tuple[Clause, ...] = ()
    unstemmed: tuple[Clause, ...] = ()


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one text.

    - ``words``, ``surfaces``: the terms of each field in text order, joined by spaces. In
      ``words``, the additional terms come last.
    - ``count``: the number of terms of the field "words", including ``repeated``.
    - ``repeated``: more terms of the field "words". If a part of the text has the weight W, its
      terms are repeated here W - 1 times.
    """

    words: str
    surfaces: str
    count: int
    repeated: tuple[str, ...] = ()


class QueryWord(NamedTuple):
    """A word or identifier in a text, with its position and its terms.

    - ``words``: the terms of the field "words", at least one (``SKU-48007-H``: sku, 48007, h).
    - ``in_a_row``: what a text with the word contains one after another: its single characters in
      Han, kana and Hangul, otherwise ``words``.
    - ``humps``: more terms of "words", for parts of mixed-case runs (``parseHttp``: pars, http).
    - ``unstemmed``: mixed-case runs, folded but not stemmed (``DataFrame``: dataframe). Runs that
      stemming does not change are left out.
    - ``accented``: more terms of "words", for runs with accents.
    - ``shares``: the shares of both terms of each run with accents in the weight of the word. The
      term that matches more forms of the word has ``MORE_FORMS``, the other one has the rest.
    - ``surfaces``: the terms of the field "surfaces", beginning with the whole identifier. Empty
      for a plain word.
    - ``stop``: whether the word is a stop word.
    - ``spellings``: in queries, other spellings of the word, each a sequence of terms: ``wifi`` and
      ``Wi-Fi``, ``iphone15`` and ``iPhone 15``.
    - ``phrase``: the number, from 0, of the quoted phrase that contains the word, or ``None``.
    """

    surface: str
    start: int
    end: int
    words: tuple[str, ...]
    in_a_row: tuple[str, ...]
    humps: tuple[str, ...]
    unstemmed: tuple[str, ...]
    accented: tuple[str, ...]
    shares: tuple[tuple[str, float], ...]
    surfaces: tuple[str, ...]
    stop: bool
    spellings: tuple[tuple[Term, ...], ...]
    phrase: int | None = None


class _Cut(NamedTuple):
    """The terms of a run or a token: attributes of :class:`QueryWord`, in the same order."""

    words: tuple[str, ...]
    in_a_row: tuple[str, ...]
    humps: tuple[str, ...] = ()
    unstemmed: tuple[str, ...] = ()
    accented: tuple[str, ...] = ()
    shares: tuple[tuple[str, float], ...] = ()


class Cutter:
    """Splits texts into terms. Thread-safe. Cutters of equal ``fingerprint`` give equal terms."""

    def __init__(self, language: Language = "english") -> None:
        if language not in LANGUAGES:
            raise ValueError(
                f"unknown language {language!r}; the languages are {', '.join(LANGUAGES)}"
            )
        self.language: Language = language
        self._stem: Callable[[str], str] = str
        self._one_at_a_time = Lock()  # Snowball stemmers are not thread-safe
        stemmer = "none"
        if language != "none":
            try:
                import Stemmer
            except ImportError as error:
                raise UnsupportedFormat(
                    "stemming needs PyStemmer: pip install PyStemmer, or choose the language 'none'"
                ) from error
            stemmer = f"PyStemmer {Stemmer.version()}"
            if language not in Stemmer.algorithms():
                raise UnsupportedFormat(f"{stemmer} has no stemmer for {language}")
            self._stem = Stemmer.Stemmer(language, 0).stemWord  # its own cache is slow
            stemmer += f" {language}"
        self._is_stop_word = _stop_words(_SAME_LANGUAGE.get(language, language))
        self._remembered = _Cache(self._chunk, MAX_REMEMBERED)
        self._cuts = _Cache(self._cut, KEPT_RUNS)
        self.lacks_stop_words = language != "none" and self._is_stop_word is _is_none
        unicode = unicodedataplus.unidata_version
        self.fingerprint = f"words {RULE}, Unicode {unicode}, {stemmer}"

    def terms(self, texts: Sequence[str]) -> list[Terms]:
        """Return the terms of each text. Each chunk between white space is cut only once."""
        remembered, terms = self._remembered, []
        for text in texts:
            chunks = (text if text.isascii() else canonical_text(text)).split()
            joined = "".join(map(remembered.__getitem__, chunks))
            words, surfaces = joined, ""
            if _BETWEEN in joined:
                # In turn: words, additional words, surfaces, each of one or several chunks.
                groups = joined.split(_BETWEEN)
                words, surfaces = "".join(groups[0::3] + groups[1::3]), "".join(groups[2::3])
            terms.append(Terms(words[:-1], surfaces[:-1], words.count(" ")))
        return terms

    def query(self, text: str) -> list[QueryWord]:
        """Return the words of a query. A word in quotation marks has the number of its phrase."""
        words = self.spans(text)
        quoted = [phrase.span(1) for phrase in QUOTED.finditer(text)]
        for at, word in enumerate(words if quoted else ()):
            phrase = bisect_right(quoted, (word.start, len(text))) - 1
            if phrase >= 0 and word.end <= quoted[phrase][1]:
                words[at] = word._replace(phrase=phrase)
        for at, word in enumerate(words if _DIGIT.search(text) else ()):
            near = words[max(at - 1, 0) : at + 2]
            if not word.surfaces and _DIGIT.search(text, near[0].start, near[-1].end):
                spellings = tuple(self._with_digits(text, word, pairwise(near)))
                words[at] = word._replace(spellings=spellings)
        return words

    def _with_digits(
        self, text: str, word: QueryWord, beside: Iterable[tuple[QueryWord, QueryWord]]
    ) -> Iterator[tuple[Term, ...]]:
        """Yield other spellings of a plain word, if letters and digits meet in them.

        ``beside``: the word together with the one before it, and with the one after it.
        """
        token = canonical(word.surface).text
        bounds = boundaries(token)
        if not bounds:
            yield from word.spellings
        elif len(bounds) <= MAX_SPLIT:
            for cuts in {bounds, *((bound,) for bound in bounds)}:
                runs = [token[start:end] for start, end in pairwise((0, *cuts, len(token)))]
                yield tuple(Term("words", self.term(run)) for run in runs)
            # A phrase contains no identifiers, so "WIFI6" finds every "Wi-Fi", not only "Wi-Fi 6".
            yield (Term("surfaces", self.term(token[: bounds[0]])),)
        for pair in beside:
            edges = (text[pair[0].end - 1] + text[pair[1].start]).translate(SHAPES)
            meets = edges in ("a0", "0a") and text[pair[0].end : pair[1].start].isspace()
            if meets and all(one.spellings or not one.surfaces for one in pair):
                first, second = ["".join(runs_of(canonical(one.surface).text)) for one in pair]
                if len(first) in boundaries(first + second):
                    yield (Term("words", self.term(first + second)),)

    def spans(self, text: str) -> list[QueryWord]:
        """Return the words of a text. Quotation marks have no effect."""
        words, read = [], canonical(text)
        for whole, token, cut, surfaces, joined in self._tokens(read.text):
            spellings: tuple[tuple[Term, ...], ...] = ()
            if joined:
                spellings = ((Term("words", joined),),)
            elif not surfaces:
                spellings = ((Term("surfaces", cut.words[0]),),)
            start, end = whole if read.places is None else read.source(whole)
            stop = not surfaces and self._is_stop_word(case_folded(token))
            words.append(QueryWord(text[start:end], start, end, *cut, surfaces, stop, spellings))
        return words

    def _tokens(self, text: str) -> list[tuple[Span, str, _Cut, tuple[str, ...], str]]:
        """Cut a text in canonical form. Return for each token its span, itself, the terms of its
        runs, its surfaces, and the term of the word that its parts make together, or "".
        """
        cut_tokens = []
        for whole, spans in tokens(text):
            token, surfaces, joined = text[whole.start : whole.end], tuple[str, ...](), ""
            if spans == (whole,):
                cut = self._cuts[token]
            else:
                runs = [text[run.start : run.end] for run in spans]
                cuts = zip(*map(self._cuts.__getitem__, runs), strict=True)
                cut = _Cut(*[tuple(chain.from_iterable(terms)) for terms in cuts])
                surfaces, joined = surfaces_of(token), self.term(in_one_word(token, runs))
                if joined.isalpha():
                    surfaces += (joined,)
            if cut.words:
                cut_tokens.append((whole, token, cut, surfaces, joined))
        return cut_tokens

    def places(self, text: str) -> list[tuple[str, Span]]:
        """Return every term of the field "words" with its position in the text."""
        read, term_places = canonical(text), list[tuple[str, Span]]()
        for start, end in chain.from_iterable(runs for _, runs in tokens(read.text)):
            run = read.text[start:end]
            cut = self._cuts[run]
            places = [(term, start, end) for term in cut.unstemmed + cut.accented]
            spans = zip(cut.humps, humps(run[:MAX_TERM]), strict=True)
            places += [(term, start + first, start + last) for term, (first, last) in spans]
            if run[0].translate(SHAPES) in "ct":
                at = [at for at, character in enumerate(run, start) if folded_character(character)]
                pairs = zip(cut.words, at, at[1:] or at, strict=False)
                places += [(term, first, last + 1) for term, first, last in pairs]
                if cut.in_a_row != cut.words:
                    singles = zip(cut.in_a_row, at, strict=True)
                    places += [(term, first, first + 1) for term, first in singles]
            else:
                places += [(term, start, end) for term in cut.words]
            term_places += [(term, read.source(Span(first, last))) for term, first, last in places]
        return term_places

    def _chunk(self, chunk: str) -> str:
        """Return the terms of a chunk in canonical form as one string, in the format of the cache.

        There are three groups: words, additional words, surfaces. A space follows each term, and
        ``_BETWEEN`` follows each group. If only words exist, ``_BETWEEN`` is left out.
        """
        core = chunk.rstrip(_NEVER_LAST).lstrip(_NEVER_FIRST)
        if core[1:].islower():
            core = core[0].lower() + core[1:]
        if core != chunk:  # a word at the beginning or the end of a sentence
            return self._remembered[core]
        if core.isascii() and core.isalnum() and not humps(core):  # equivalent, but faster
            return self._stemmed(core[:MAX_TERM].lower()) + " "
        words, more, surfaces = list[str](), list[str](), list[str]()
        for *_, cut, own, _ in self._tokens(chunk):
            words += cut.in_a_row
            more += cut.humps + cut.unstemmed + cut.accented
            if cut.words != cut.in_a_row:
                more += cut.words
            surfaces += own
        joined = [" ".join((*terms, "")) for terms in (words, more, surfaces)]
        return _BETWEEN.join((*joined, "")) if more or surfaces else joined[0]

    def _cut(self, run: str) -> _Cut:
        """Return the terms of a run, which has one kind of characters."""
        if run.isascii():
            lower = run[:MAX_TERM].lower()
            whole = self._stemmed(lower)
            places = [] if run == lower else humps(run[:MAX_TERM])
            if not places:
                return _Cut((whole,), (whole,))
            stems = tuple([self._stemmed(lower[place.start : place.end]) for place in places])
            return _Cut((whole,), (whole,), stems, (lower,) if whole != lower else ())
        shape = run[0].translate(SHAPES)
        if shape in "ct":  # without spaces between words, so pairs of characters are the terms
            folded = tuple(filter(None, map(folded_character, run)))
            pairs = tuple([one + other for one, other in pairwise(folded)]) or folded
            return _Cut(pairs, folded if shape == "c" else pairs)
        # A word with an accent gets a second term, with the accent; the shares divide its weight.
        words, accented, shares = list[str](), list[str](), list[tuple[str, float]]()
        # Folding may insert a separator, and so give several words (one half: 1 and 2).
        for word in runs_of(case_folded(run[:MAX_TERM])):
            plain = without_marks(word[:MAX_TERM])
            plain_stems = [without_marks(self._stemmed(own)) for own in runs_of(plain)]
            # After marks are removed, characters other than letters and digits may remain.
            terms = [own[:MAX_TERM] for stem in plain_stems for own in runs_of(stem)]
            words += terms
            if plain != word and len(terms) == 1:
                stem = self._stemmed(word)
                share = MORE_FORMS if without_marks(stem) == terms[0] else 1 - MORE_FORMS
                other = (stem if stem != terms[0] else word)[:MAX_TERM]
                accented.append(other)
                shares += [(terms[0], share), (other, 1 - share)]
        return _Cut((*words,), (*words,), accented=(*accented,), shares=(*shares,))

    def term(self, word: str) -> str:
        """Return the term of a run that is no part of a text, such as ``email`` of ``e-mail``."""
        return next(iter(self._cut(word).words), "")

    def _stemmed(self, word: str) -> str:
        # Identifiers keep their spelling. Most words have only letters, which is faster to see.
        if not word.isalpha() and any(map(str.isdigit, word)):
            return word
        with self._one_at_a_time:
            stem = self._stem(word)
        # Some stemmers add an accent: the Turkish "agac" becomes "agaç".
        return without_marks(stem) if not stem.isascii() and word.isascii() else stem


class _Cache(dict[str, Cached]):
    """What ``cut`` returns for strings without whitespace. It is emptied when it has ``most``."""

    def __init__(self, cut: Callable[[str], Cached], most: int) -> None:
        self._cut, self._most = cut, most

    def __missing__(self, text: str) -> Cached:
        terms = self._cut(text)
        if len(text) <= MAX_REMEMBERED_LENGTH:
            if len(self) >= self._most:
                self.clear()
            self[text] = terms
        return terms


@cache
def _stop_words(language: str) -> Callable[[str], bool]:
    if language == "english":
        return _ENGLISH.__contains__
    import tantivy

    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw())
    try:
        analyzer = builder.filter(tantivy.Filter.stopword(language)).build()
    except ValueError:  # no list for this language
        return _is_none
    return lambda word: not analyzer.analyze(word)


def _is_none(word: str) -> bool:
    return False


K1: Final = 1.2
B: Final = 0.75


def idf(documents: int, frequency: int) -> float:
    """Return the idf of Lucene's ``BM25Similarity``. ``frequency`` includes deleted documents."""
    frequency = min(frequency, documents)
    return math.log1p((documents - frequency + 0.5) / (frequency + 0.5))


def stored_length(length: int) -> int:
    """Return the number of words of a text as tantivy stores it, in one byte.

    Numbers below 40 are exact. A larger one is rounded down: 24 is subtracted, and only the four
    highest bits of the rest are kept. Source: Lucene's ``SmallFloat.intToByte4``.
    """
    rest = max(length - 24, 0)
    dropped = max(rest.bit_length() - 4, 0)
    return min(length, 24) + (rest >> dropped << dropped)


def term_score(idf: float, count: int, length: float, mean_length: float) -> float:
    """Return the BM25 score of a term. ``length``: the words of the text, or its stored length."""
    return idf * count * (K1 + 1) / (count + K1 * (1 - B + B * length / mean_length))


_CHUNK: Final = re.compile(r"\S+")
MARKED: Final = 4096  # characters of a text in which highlights are sought
WINDOW: Final = 1024  # characters
MARGIN: Final = 64  # characters before and after a window, for words at its edges
WINDOWS_OF_WORD: Final = 256  # that are compared
SOUGHT: Final = 1 << 25  # characters of a text, times the number of sought spellings


def highlights(text: str, words: Sequence[QueryWord], cutter: Cutter) -> list[Span]:
    """Return the spans of a text to highlight for ``words``, ascending, without overlaps.

    All forms of a word are highlighted. If the text contains a whole identifier, such as
    ``os.path``, separate occurrences of its parts (``path``) are not highlighted. In a text of more
    than 4,096 characters, only words in its best windows are highlighted: see :func:`_windows`.
    """
    # A text repeats its chunks.
    cut_places, cut_spans = cache(cutter.places), cache(cutter.spans)
    terms = _search_terms(words)
    surfaces = {surface for word in words for surface in word.surfaces[:1]}
    joined = {text for word in words for (field, text), *_ in word.spellings if field == "surfaces"}
    wholes = set[str]()  # the identifiers of the query that the text contains
    places, term_places = list[Span](), list[tuple[str, Span]]()
    chunks = [
        (chunk.group(), chunk.start())
        for start, end in _windows(text, words)
        for chunk in _CHUNK.finditer(text, start, end)
        # The edges of a window cut words, which the margin has whole.
        if chunk.end() - chunk.start() > MARGIN
        or not (0 < start == chunk.start() or chunk.end() == end < len(text))
    ]
    for chunk, first in chunks:
        (cut,) = cutter.terms([chunk])
        is_word = not terms.isdisjoint(cut.words.split())
        is_surface = not (surfaces | joined).isdisjoint(cut.surfaces.split())
        for term, (start, end) in cut_places(chunk) if is_word else ():
            if term in terms:
                term_places.append((term, Span(first + start, first + end)))
        for word in cut_spans(chunk) if is_surface else ():
            if not (surfaces.isdisjoint(word.surfaces[:1]) and joined.isdisjoint(word.surfaces)):
                wholes.add(word.surfaces[0])
                places.append(Span(first + word.start, first + word.end))
    terms = _search_terms([word for word in words if wholes.isdisjoint(word.surfaces[:1])])
    places += [place for term, place in term_places if term in terms]
    united: list[Span] = []
    for place in sorted(places):
        if united and place.start < united[-1].end:  # adjacent spans are not merged
            united[-1] = Span(united[-1].start, max(place.end, united[-1].end))
        else:
            united.append(place)
    return united


def _windows(text: str, words: Sequence[QueryWord]) -> list[Span]:
    """Return the parts of a text in which highlights are sought: the best windows of a long text.

    They contain the most words of the query; a word in few windows counts more. Words are sought by
    their beginnings, as they are spelled in the query: a million characters take a millisecond.
    """
    if len(text) <= MARKED:
        return [Span(0, len(text))]
    text = text.lower() if text.isascii() else text
    spellings = [_beginnings(word, has_capitals=not text.isascii()) for word in words]
    end = SOUGHT // max(1, sum(map(len, spellings)))
    scores: Counter[int] = Counter()
    for beginnings in spellings:
        there: set[int] = set()
        for beginning in beginnings:
            at = text.find(beginning, 0, end)
            while at >= 0 and len(there) < WINDOWS_OF_WORD:
                there.add(at // WINDOW)
                at = text.find(beginning, (at // WINDOW + 1) * WINDOW, end)
        for window in there:
            scores[window] += WINDOWS_OF_WORD // len(there)
    most = MARKED // WINDOW // (1 if text.isascii() else 2)  # other characters take twice the time
    best = sorted(scores, key=lambda window: (-scores[window], window))[:most]
    spans: list[Span] = []
    for window in sorted(best or range(most)):
        start, end = max(0, window * WINDOW - MARGIN), (window + 1) * WINDOW + MARGIN
        if spans and start <= spans[-1].end:
            start = spans.pop().start
        spans.append(Span(start, min(end, len(text))))
    return spans


def _beginnings(word: QueryWord, *, has_capitals: bool) -> set[str]:
    """Return how the forms of a word begin, in lower case, and perhaps with capitals."""
    surface = word.surface.lower()
    folded = without_marks(case_folded(surface))
    lower: set[str] = set()
    for term in word.words:
        begin = term if term in folded else commonprefix((term, folded))  # noqa: RUF071 - of characters
        at = folded.find(begin)
        lower |= {begin, surface[at : at + len(begin)]} - {""}
    if not has_capitals:
        return lower
    return {*lower, *map(str.upper, lower), *map(str.capitalize, lower)}


def _search_terms(words: Iterable[QueryWord]) -> set[str]:
    """Return all terms of the field "words" that are searched for words, without humps."""
    spelled = (term for word in words for spelling in word.spellings for term in spelling)
    terms = {term for word in words for term in word.words + word.accented}
    return terms | {term.text for term in spelled if term.field == "words"}


def places_of(
    text: str, values: Mapping[str, object], searched: tuple[str, ...]
) -> list[tuple[str, int, int]]:
    """Return (field, start, exclusive end) of the ``searched`` fields in the text of a document.

    The part that no other field covers is the field named "text". Returns an empty list if the text
    is not the joined ``values``. This is possible for documents that are added in Python.
    """
    names, texts = [*weights_of(searched)], dict[str, str]()
    for name in names:
        value = values.get(name)
        if isinstance(value, str) and name != TEXT:
            texts[name] = value if value.isascii() else text_in_utf8(value)
    if TEXT in names:
        at = names.index(TEXT)
        before = sum(len(texts[name]) + len(BETWEEN) for name in names[:at] if texts.get(name))
        after = sum(len(texts[name]) + len(BETWEEN) for name in names[at + 1 :] if texts.get(name))
        texts[TEXT] = text[before : max(before, len(text) - after)]
    places, start = list[tuple[str, int, int]](), 0
    for name in filter(texts.get, names):  # without empty fields
        end = start + len(texts[name])
        places.append((name, start, end))
        start = end + len(BETWEEN)
    joined = BETWEEN.join(texts[name] for name, *_ in places)
    return places if joined == text else []


def text_in_utf8(value: str) -> str:
    """Replace bytes that are not UTF-8 by U+FFFD."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def weighted_terms(
    cutter: Cutter,
    texts: Sequence[str],
    values: Iterable[Mapping[str, object]],
    searched: tuple[str, ...],
    removed: Sequence[tuple[int, int]] = (),
) -> list[Terms]:
    """Return the terms of texts. Each term of a field with weight W counts W times.

    ``removed``: for each text, the start and the exclusive end of a span that is left out.
    Each repetition is a separate string, so that no phrase matches across two repetitions.
    """
    spans, weights = removed or [(0, 0)] * len(texts), weights_of(searched)
    shortened = [text[:start] + text[end:] for text, (start, end) in zip(texts, spans, strict=True)]
    terms = cutter.terms(shortened)
    if max(weights.values(), default=1) == 1:
        return terms
    values_to_repeat: list[tuple[int, int, str]] = []  # index of the text, weight, value
    for number, (text, fields, span) in enumerate(zip(texts, values, spans, strict=True)):
        for name, start, end in places_of(text, fields, searched):
            if weights[name] > 1:
                value = text[start : min(span[0], end)] + text[max(start, span[1]) : end]
                values_to_repeat.append((number, weights[name], value))
    cuts = cutter.terms([value for _, _, value in values_to_repeat])
    for (number, weight, _), cut in zip(values_to_repeat, cuts, strict=True):
        if cut.words:
            repeated = terms[number].repeated + (cut.words,) * (weight - 1)
            count = terms[number].count + cut.count * (weight - 1)
            terms[number] = replace(terms[number], repeated=repeated, count=count)
    return terms
