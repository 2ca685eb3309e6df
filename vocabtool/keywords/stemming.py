"""The language of a corpus: the stems of its words, and the stop words among them.

Stems are Snowball's. Stop words say nothing about a text's subject: they are flagged in queries,
and indexed all the same. English is a list of its own, with what is left of shortened words
(``don't`` is ``don`` and ``t``); for other languages tantivy's lists are asked, where it has one.
"""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from vocabtool.errors import UnsupportedFormat
from vocabtool.keywords.options import LANGUAGES, Language
from vocabtool.keywords.tokens import case_folded

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
