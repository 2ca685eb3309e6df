"""How a text becomes the terms of the keyword leg, by our own Unicode rule.

The model's rule would delete digits, join ``quick-brown`` or give pieces; it only decides which
words are known. Where words stand is in ``tokens.py``; here they are folded and stemmed:

- field *words*: every run of letters, digits and marks, folded and stemmed, words
  with a digit folded only. On ASCII text these are the runs ``[a-z0-9]+`` of the lower-cased text.
  Of scripts without blanks (Han, kana, Thai, ...) overlapping pairs of characters. Behind all of
  them the humps of runs in mixed case, so that phrases are found as if there were none:
  ``parse http header`` finds ``parseHttpHeader``; and such a run with its own ending, where its
  stem has another: ``DataFrame`` tells itself from ``DataFrames``.
- field *surfaces*: compound tokens whole and in segments.

A corpus is cut at the speed of a look-up for each chunk between blanks, since most chunks were met
before: no token reaches over a blank, so a chunk's terms are the same in every text.

The language of a corpus: the stems of its words, and the stop words among them.

Stems are Snowball's. Stop words say nothing about a text's subject: they are flagged in queries,
and indexed all the same. English is a list of its own, with what is left of shortened words
(``don't`` is ``don`` and ``t``); for other languages tantivy's lists are asked, where it has one.

Where in a text the words of a query stand, by the same cut that indexed it.

Words meet by their terms, so every form of a word is found. An identifier is marked as a whole
where it stands whole, and by its words elsewhere. Which words are worth a mark, the caller decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from string import punctuation
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import unicodedataplus

from vocabtool.choices import LANGUAGES, Language
from vocabtool.errors import UnsupportedFormat
from vocabtool.keywords.bm25 import Term
from vocabtool.keywords.tokens import (
    MAX_TERM,
    Span,
    Token,
    case_folded,
    humps,
    is_without_blanks,
    runs_of,
    surfaces_of,
    tokens,
    without_marks,
)

if TYPE_CHECKING:
    import tantivy

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
    """.split()  # noqa: SIM905  # read as lines of a kind, not as two hundred strings
)
_SAME_LANGUAGE: Final = {"porter": "english", "dutch_porter": "dutch"}


class Stems:
    """The stemmer of one language. Several threads may ask at a time.

    ``version`` names the stemmer and its release, since another release may stem otherwise.
    """

    def __init__(self, language: Language) -> None:
        if language not in LANGUAGES:
            raise ValueError(f"no such language: {language!r}; there are {', '.join(LANGUAGES)}")
        self._stemmer: Any = None  # the library has no types
        self._one_at_a_time = Lock()  # a stemmer of Snowball's keeps its word in itself
        self.version = "none"
        if language == "none":
            return
        try:
            import Stemmer
        except ImportError as error:
            what = "stemming needs PyStemmer; pip install PyStemmer, or choose the language 'none'"
            raise UnsupportedFormat(what) from error
        release = f"PyStemmer {Stemmer.version()}"
        if language not in Stemmer.algorithms():
            raise UnsupportedFormat(f"{release} has no stemmer for {language}")
        self._stemmer = Stemmer.Stemmer(language)
        self.version = f"{release} {language}"

    def stem(self, word: str) -> str:
        """The stem of a case-folded word."""
        if self._stemmer is None:
            return word
        with self._one_at_a_time:
            return str(self._stemmer.stemWord(word))


def is_stop_word(word: str, language: str) -> bool:
    """Whether a word, as it is written, is one of a language's stop words."""
    folded, language = case_folded(word), _SAME_LANGUAGE.get(language, language)
    if language == "english":
        return folded in _ENGLISH
    analyzer = _analyzer(language)
    return analyzer is not None and not analyzer.analyze(folded)


@cache
def _analyzer(language: str) -> tantivy.TextAnalyzer | None:
    import tantivy

    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw())
    try:
        return builder.filter(tantivy.Filter.stopword(language)).build()
    except ValueError:  # no list for this language
        return None


RULE: Final = 2  # counts the versions of the rule: another one, another index

MAX_REMEMBERED: Final = 1 << 17  # chunks, about 25 MB
MAX_REMEMBERED_LENGTH: Final = 64  # characters of a chunk; longer ones hardly come again

# No text holds it after cutting, so it can tell the kinds of terms apart in what is remembered.
_BETWEEN: Final = "\0"

# Punctuation that no token begins or ends with.
_NEVER_FIRST: Final = "".join(set(punctuation) - set("._#@/\\$"))
_NEVER_LAST: Final = "".join(set(punctuation) - set("+#_"))

# Between two quotes of any kind that stand at the edges of words: 5" is no quote.
_QUOTED: Final = re.compile(r'(?<!\w)["“”„«»]([^"“”„«»]*)["“”„«»](?!\w)')


_OPENING: Final = re.compile(r'(?<!\w)["“”„«»](?=\w)')


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one text in its order, each field joined by single blanks, and how many.

    ``words``: what runs in mixed case add stands behind all others.
    """

    words: str
    surfaces: str
    count: int
    surface_count: int


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word, or an identifier with all its parts, where it stands in a text.

    ``surface``: as it is written, from ``start`` to before ``end`` (characters).
    ``words``: its terms of the field "words", at least one (``SKU-48007-H``: sku, 48007, h).
    ``humps``: more terms of the field "words", of runs in mixed case (``parseHttp``: pars, http).
    ``unstemmed``: of such runs themselves, where their stems are others (``DataFrame``: dataframe).
    ``surfaces``: its terms of the field "surfaces", whole first; none for a plain word.
    ``stop``: whether it is a stop word of the language.
    ``phrase``: which quoted phrase of the query it stands in.
    """

    surface: str
    start: int
    end: int
    words: tuple[str, ...]
    humps: tuple[str, ...]
    unstemmed: tuple[str, ...]
    surfaces: tuple[str, ...]
    stop: bool
    phrase: int | None

    @property
    def exact(self) -> Term:
        """The one term that finds it most exactly: the whole surface, or the one word.

        Words with a digit are not stemmed, so codes without punctuation are found exactly too.
        Of a longer run of a script without blanks it is the first pair of characters.
        """
        if self.surfaces:
            return Term("surfaces", self.surfaces[0])
        return Term("words", self.words[0])


class Cutter:
    """Cuts texts in one language. Several threads may use it at a time.

    ``fingerprint``: tells whether another cutter makes the same terms, readable.
    """

    def __init__(self, language: Language = "english") -> None:
        self.language: Language = language
        self._stems = Stems(language)
        self._remembered = _Chunks(self)
        unicode = unicodedataplus.unidata_version
        self.fingerprint = f"words {RULE}, Unicode {unicode}, {self._stems.version}"

    def terms(self, texts: Sequence[str]) -> list[Terms]:
        """The terms of each text."""
        return [self._terms(text) for text in texts]

    def query(self, text: str) -> list[QueryWord]:
        """The words of a query; those between quotes stand in a phrase."""
        quoted = [found.span(1) for found in _QUOTED.finditer(text)]
        words = self.spans(text)
        return list(_in_phrases(words, quoted)) if quoted else words

    def spans(self, text: str) -> list[QueryWord]:
        """The words of a text; quotes are nothing special."""
        words = (self._query_word(text, token) for token in tokens(text))
        return [word for word in words if word.words]

    def places(self, text: str) -> Iterator[tuple[str, Span]]:
        """Every term of the field "words" with the characters that it was made of."""
        for token in tokens(text):
            for run in token.runs:
                yield from self._places(text, run)
                written = _run_text(text, run)
                if found := humps(written):
                    for hump, term in zip(found, self._humps(written), strict=True):
                        yield term, Span(run.start + hump.start, run.start + hump.end)
                    for term in self._whole_words(written):
                        yield term, run

    def chunk_terms(self, chunk: str) -> list[str]:
        """Every term of what stands between two blanks, of both fields."""
        return self._remembered[chunk].replace(_BETWEEN, "").split(" ")[:-1]

    def _terms(self, text: str) -> Terms:
        joined = "".join(map(self._remembered.__getitem__, text.split()))
        if _BETWEEN not in joined:
            return Terms(joined[:-1], "", joined.count(" "), 0)
        parts = joined.split(_BETWEEN)
        words, surfaces = "".join(parts[0::3] + parts[1::3]), "".join(parts[2::3])
        return Terms(words[:-1], surfaces[:-1], words.count(" "), surfaces.count(" "))

    def chunk(self, chunk: str) -> str:
        """What is remembered of a chunk: each term with a blank behind it, words, humps, surfaces.

        The kinds are set apart where there is more than words.
        """
        core = chunk.rstrip(_NEVER_LAST).lstrip(_NEVER_FIRST)
        if core.isascii() and core.isalnum() and len(core) <= MAX_TERM:  # as below, but quickly
            word = f"{self._stemmed(core.lower())} "
            if not humps(core):
                return word
            parts = "".join(f"{part} " for part in self._humps(core) + self._whole_words(core))
            return f"{word}{_BETWEEN}{parts}{_BETWEEN}{_BETWEEN}"
        cut = self.spans(chunk)
        words = "".join(f"{word} " for each in cut for word in each.words)
        parts = "".join(f"{part} " for each in cut for part in each.humps + each.unstemmed)
        surfaces = "".join(f"{surface} " for each in cut for surface in each.surfaces)
        if parts or surfaces:
            return f"{words}{_BETWEEN}{parts}{_BETWEEN}{surfaces}{_BETWEEN}"
        return words

    def _query_word(self, text: str, token: Token) -> QueryWord:
        start, end = token.whole
        surface = text[start:end]
        if surface.isascii():  # as below, but quickly
            words = tuple(self._stemmed(_run_text(text, run).lower()) for run in token.runs)
        else:
            words = tuple(word for run in token.runs for word, _ in self._places(text, run))
        surfaces = surfaces_of(surface) if token.is_compound and words else ()
        stop = not token.is_compound and is_stop_word(surface, self.language)
        mixed = [] if surface.islower() else [_run_text(text, run) for run in token.runs]
        parts = tuple(hump for run in mixed for hump in self._humps(run))
        unstemmed = tuple(whole for run in mixed for whole in self._whole_words(run))
        return QueryWord(surface, start, end, words, parts, unstemmed, surfaces, stop, None)

    def _humps(self, run: str) -> list[str]:
        return [self._stemmed(run[hump.start : hump.end].lower()) for hump in humps(run)]

    def _whole_words(self, run: str) -> list[str]:
        whole = run.lower()
        return [whole] if humps(run) and self._stemmed(whole) != whole else []

    def _places(self, text: str, run: Span) -> Iterator[tuple[str, Span]]:
        written = _run_text(text, run)
        if written.isascii():
            yield self._stemmed(written.lower()), run
        elif is_without_blanks(written):
            yield from _pairs(text, run)
        else:
            for word in self._words(written):
                yield word, run

    def _words(self, run: str) -> list[str]:
        """Folded and stemmed; several where folding brings in what cuts (one half is 1, 2)."""
        folded = case_folded(run)
        apart = [folded] if folded.isascii() else runs_of(folded)
        pieces: list[str] = []
        for word in apart:
            bare = without_marks(self._stemmed(word[:MAX_TERM]))
            # Taking off marks may leave what is no letter or digit.
            pieces += [bare] if bare.isascii() and bare else runs_of(bare)
        return [piece[:MAX_TERM] for piece in pieces]

    def _stemmed(self, word: str) -> str:
        if word.isalpha() or not any(map(str.isdigit, word)):
            return self._stems.stem(word)
        return word


class _Chunks(dict[str, str]):
    """Remembers what a cutter makes of chunks; forgets all when it is full."""

    def __init__(self, cutter: Cutter) -> None:
        super().__init__()
        self._cut = cutter.chunk

    def __missing__(self, chunk: str) -> str:
        terms = self._cut(chunk)
        if len(chunk) <= MAX_REMEMBERED_LENGTH:
            if len(self) >= MAX_REMEMBERED:
                self.clear()
            self[chunk] = terms
        return terms


def _run_text(text: str, run: Span) -> str:
    return text[run.start : min(run.end, run.start + MAX_TERM)]


def _pairs(text: str, run: Span) -> Iterator[tuple[str, Span]]:
    """Overlapping pairs of characters, or the only one."""
    last = max(run.end - 1, run.start + 1)
    for start in range(run.start, last):
        place = Span(start, min(start + 2, run.end))
        pair = "".join(without_marks(case_folded(text[place.start : place.end])).split())
        if pair:
            yield pair, place


def _in_phrases(
    words: Sequence[QueryWord], quoted: Sequence[tuple[int, int]]
) -> Iterator[QueryWord]:
    phrases = iter(enumerate(quoted))
    number, (start, end) = next(phrases, (0, (0, 0)))
    for word in words:
        while end and word.start >= end:
            number, (start, end) = next(phrases, (0, (0, 0)))
        yield replace(word, phrase=number) if start <= word.start and word.end <= end else word


def open_quote(query: str) -> int | None:
    """Which character is a quote that is never closed, from 0 on; ``None``: there is none."""
    spans = [found.span() for found in _QUOTED.finditer(query)]
    for found in _OPENING.finditer(query):
        if not any(start <= found.start() < end for start, end in spans):
            return found.start()
    return None


__all__ = ["Span", "highlights"]

_CHUNK: Final = re.compile(r"\S+")


def highlights(text: str, words: Sequence[QueryWord], cutter: Cutter) -> list[Span]:
    """The places (start, end in characters) of a query's words, ascending, none overlapping."""
    terms = {term for word in words for term in word.words}
    surfaces = {surface for word in words for surface in word.surfaces[:1]}
    return _merge_overlaps(sorted(_places(text, terms, surfaces, cutter)))


def _places(text: str, terms: set[str], surfaces: set[str], cutter: Cutter) -> Iterator[Span]:
    either = terms | surfaces
    for chunk in _CHUNK.finditer(text):
        if either.isdisjoint(cutter.chunk_terms(chunk.group())):
            continue
        for place in _in_chunk(chunk.group(), terms, surfaces, cutter):
            yield Span(chunk.start() + place.start, chunk.start() + place.end)


def _in_chunk(chunk: str, terms: set[str], surfaces: set[str], cutter: Cutter) -> Iterator[Span]:
    for word in cutter.spans(chunk):
        if not surfaces.isdisjoint(word.surfaces[:1]):
            yield Span(word.start, word.end)
    for term, place in cutter.places(chunk):
        if term in terms:
            yield place


def _merge_overlaps(places: Sequence[Span]) -> list[Span]:
    """Places that overlap become one; those that only touch stay apart."""
    united: list[Span] = []
    for place in places:
        if united and place.start < united[-1].end:
            united[-1] = Span(united[-1].start, max(place.end, united[-1].end))
        else:
            united.append(place)
    return united
