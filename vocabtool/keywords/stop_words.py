"""Words that say nothing about a text's subject: flagged in queries, indexed all the same.

English is a list of its own, with what is left of shortened words (``don't`` is ``don`` and ``t``).
For other languages tantivy's own lists are asked, where it has one.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from vocabtool.keywords.folding import case_folded

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


def is_stop_word(word: str, language: str) -> bool:
    """Whether a word, as it is written, is one of a language's stop words."""
    return _is_listed(case_folded(word), _SAME_LANGUAGE.get(language, language))


@cache
def _analyzer(language: str) -> tantivy.TextAnalyzer | None:
    import tantivy

    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw())
    try:
        return builder.filter(tantivy.Filter.stopword(language)).build()
    except ValueError:  # no list for this language
        return None


def _is_listed(word: str, language: str) -> bool:
    if language == "english":
        return word in _ENGLISH
    analyzer = _analyzer(language)
    return analyzer is not None and not analyzer.analyze(word)
