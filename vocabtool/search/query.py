"""A query as it is asked: its words weighed, and the clauses that the keyword leg is asked."""

from __future__ import annotations

from typing import NamedTuple

from vocabtool.keywords.queries import Clause, Term
from vocabtool.search import weighing
from vocabtool.search.corpus import Corpus
from vocabtool.search.settings import Settings
from vocabtool.search.weighing import WeighedWord


class Query(NamedTuple):
    """``counted``: how often the fusion counts each term. ``should``: what is asked, phrases too.

    ``codes``: what the identifier guarantee is for; ``unstemmed``: the same with names in mixed
    case to the last letter, where that tells more. ``required``: phrases that a document holds.
    ``cut``: whether words past the first thousand were left out.
    """

    text: str
    words: list[WeighedWord]
    counted: dict[Term, Clause]
    should: tuple[Clause, ...]
    codes: tuple[Clause, ...]
    unstemmed: tuple[Clause, ...]
    required: tuple[Clause, ...]
    cut: bool

    @property
    def is_unknown(self) -> bool:
        """Whether it has words, and the model knows none of them."""
        unseen = [word.is_unseen for word in self.words if word.counts]
        return bool(unseen) and all(unseen)


def understood(corpus: Corpus, text: str, settings: Settings) -> Query:
    """What a text asks of a corpus."""
    cut = corpus.cutter.query(text)
    asked = cut[: weighing.MOST_WORDS]
    words = weighing.weigh(asked, corpus.knowledge, settings.is_identifier())
    counted = _counted(words, settings, corpus)
    should = tuple(counted.values())
    phrases = weighing.phrases(asked)
    required = phrases if settings.phrases == "required" else ()
    if should and not required:
        should += phrases
    codes = _codes(words, settings)
    unstemmed = weighing.unstemmed(words) if codes else ()
    return Query(text, words, counted, should, codes, unstemmed, required, len(asked) < len(cut))


def _counted(words: list[WeighedWord], settings: Settings, corpus: Corpus) -> dict[Term, Clause]:
    """How often a fusion counts each term: ``coverage`` alone counts some of them more."""
    match settings.fusion:
        case "coverage":
            return weighing.counted(words, settings.boost, settings.code_boost, corpus)
        case "unknown-only":
            return weighing.counted((word for word in words if word.unknown), 0, 0, corpus)
        case "dense":
            return {}
        case _:
            return weighing.counted(words, 0, 0, corpus)


def _codes(words: list[WeighedWord], settings: Settings) -> tuple[Clause, ...]:
    """Of the fusions only; a single leg stays as it is."""
    if not settings.guarantee or settings.fusion in ("dense", "keyword"):
        return ()
    found = weighing.identifiers(words)
    if found or settings.identifier is not None:
        return found
    return weighing.joined_alone(words)
