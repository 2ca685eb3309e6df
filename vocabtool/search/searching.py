"""Search: a query weighed, both legs asked, their scores fused, the best documents fetched.

What only an explanation needs is in ``explaining.py``, but for similarities, which every answer
has at hand: rank fusion does without them.

Here and in what is called, ``np.count_nonzero`` stands for ``any`` and ``all``: of short arrays it
takes a fraction of their time, together 2 % of a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from vocabtool.encoders.encoder import Vectors
from vocabtool.search import fusion, legs, weighing
from vocabtool.search.candidates import Candidates, mask_of
from vocabtool.search.corpus import Among, Corpus
from vocabtool.search.empty_hands import respelled, suggestions
from vocabtool.search.explaining import asked_words, explanations, with_frequencies
from vocabtool.search.fusion import Fused
from vocabtool.search.hits import Asked, Explanation, Hit, Hits
from vocabtool.search.legs import KeywordLeg
from vocabtool.search.ordering import Ordered, best
from vocabtool.search.query import Query, understood
from vocabtool.search.settings import Fusion, Settings

__all__ = ["Fusion", "Settings", "search"]

SHIPPED: Final = Settings()
NO_DOCUMENTS: Final = "there are no documents to be found"
NO_WORDS: Final = "the query has no word to search for"
NO_VECTOR: Final = "the query has no vector: only keywords are searched"
BLIND: Final = "the query's vector is zero: by vectors nothing is found"
NO_MATCH: Final = "no document fulfils the condition"
NO_PHRASE: Final = "no document that may be found holds what is quoted"
LONG: Final = f"only the first {weighing.MOST_WORDS:,} words of the query are searched"
BY_CHANCE: Final = (
    "no document that may be found holds a word of the query, and the nearest is no nearer to it "
    "than by chance"
)
NOTHING: Final = "the model knows no word of the query, and no document that may be found holds one"
GUESSES: Final = f"{NOTHING}: these are guesses, the documents nearest to the query's vector"
PIECES: Final = "the model cuts words into pieces and so knows nearly all of them: m = 0"
UNTOLD: Final = "nothing tells which words the model knows: m = 0, every code counts as unknown"


class Asking(NamedTuple):
    """One search. ``vector``: ``None`` where the dense leg is not asked, or blind."""

    corpus: Corpus
    query: Query
    vector: Vectors | None
    k: int
    settings: Settings
    among: Among | None
    explain: bool

    @property
    def limit(self) -> int:
        """How many documents a leg gives."""
        return max(self.settings.limit(self.corpus.documents), self.k)


class Found(NamedTuple):
    """What came of it. ``m``, ``weight`` of the keyword leg: ``None`` where the fusion has none."""

    candidates: Candidates
    tiers: Sequence[int]
    order: Ordered
    m: float | None
    weight: float | None


def search(
    corpus: Corpus,
    text: str | None,
    vector: Vectors | None,
    *,
    k: int = 10,
    settings: Settings = SHIPPED,
    where: str | None = None,
    explain: bool = False,
    chance: float | None = None,
) -> Hits:
    """The best ``k`` documents of a corpus for a query.

    ``text``: ``None`` where only the vector is searched. ``vector``: float32, shape (dim,), the
    query's; without, or where it is zero, only keywords are searched. ``where``: a condition on
    fields; no other document is found. ``chance``: a similarity which vectors reach by chance.
    The order is by tier, score and id. It does not depend on the order in which documents came
    into the corpus, unless scores tie where a leg's list ends.
    Raises ``ValueError`` for ``k`` < 1, for a vector that is no such row of numbers, for a
    condition that is no text, and for the fusion ``dense`` without a vector or ``keyword`` without
    a text.
    """
    _check(vector, k, where, settings)
    if text is None and settings.fusion == "keyword":
        raise ValueError("fusion='keyword': wanted a text, got none")
    query = understood(corpus, text or "", settings)
    allowed = _allowed(corpus, query, where)
    seeing = vector if vector is not None and np.count_nonzero(vector) else None
    if settings.fusion == "keyword":
        seeing = None
    asking = Asking(corpus, query, seeing, k, settings, allowed, explain)
    notes = _notes(asking, vector)
    if text is not None and not query.words:
        notes.append(NO_WORDS)
    leg = legs.ask_keywords(corpus, query, asking.limit, allowed)
    if query.codes and not len(leg.holders.rows):
        notes.append(_not_held(query))
    if settings.fusion != "dense" and query.is_unknown and not len(leg.found.rows):
        return _empty_handed(asking, leg, notes, where)
    found = _found(asking, leg)
    if chance is not None and query.words and settings.fusion in ("coverage", "convex", "rrf"):
        notes += _no_better(found.candidates, chance)
    return _hits(asking, found, notes)


def _no_better(candidates: Candidates, chance: float) -> list[str]:
    """What to say where no keyword is found, and vectors find what they find of nonsense."""
    if len(candidates.keyword.rows):
        return []
    nearest = candidates.dense.scores[:1].tolist()
    if not nearest or nearest[0] > chance:
        return []
    return [f"{BY_CHANCE}: similarity {nearest[0]:.3f}; a nonsense query reaches {chance:.3f}"]


def _check(vector: Vectors | None, k: int, where: str | None, settings: Settings) -> None:
    if k < 1:
        raise ValueError(f"k: wanted 1 or more, got {k}")
    if where is not None and not isinstance(where, str):
        wanted = "where: wanted a condition as one text, as \"year >= 2020 and lang = 'en'\""
        raise ValueError(f"{wanted}, got {where!r}")
    if vector is None:
        if settings.fusion == "dense":
            raise ValueError("fusion='dense': wanted the query's vector, got none")
    elif vector.ndim != 1 or not np.isfinite(vector).all():
        raise ValueError(f"vector: wanted a row of finite numbers, got shape {vector.shape}")


def _allowed(corpus: Corpus, query: Query, where: str | None) -> Among | None:
    """Which rows may be found: those that fulfil the condition and hold what is quoted."""
    allowed = None if where is None else corpus.where(where)
    if query.required:
        allowed = mask_of(corpus.matching(query.required, allowed))
    return allowed


def _notes(asking: Asking, vector: Vectors | None) -> list[str]:
    """What a person should know of the answer before there is one."""
    query, pure = asking.query, asking.settings.fusion == "keyword"
    notes = []
    if query.cut:
        notes.append(LONG)
    if asking.among is not None and not asking.among.any():
        notes.append(NO_PHRASE if query.required else NO_MATCH)
    if not asking.corpus.documents:
        notes.append(NO_DOCUMENTS)
    if asking.vector is None and not pure:
        notes.append(NO_VECTOR if vector is None else BLIND)
    if asking.explain:
        notes += _standing(asking.corpus)
    return notes


def _not_held(query: Query) -> str:
    """Codes that nobody has are not what the first hits are about."""
    asking = [word for word in query.words if word.counts]
    named = [word for word in asking if word.identifier] or asking
    codes = dict.fromkeys(word.word.surface for word in named)
    return f"no document that may be found holds {' or '.join(codes)}"


def _standing(corpus: Corpus) -> list[str]:
    """What is true of every query to this corpus."""
    if corpus.knowledge is None:
        return [UNTOLD]
    return [PIECES] if corpus.knowledge.subword else []


def _found(asking: Asking, leg: KeywordLeg) -> Found:
    """The best candidates of both legs."""
    corpus, query = asking.corpus, asking.query
    candidates = legs.candidates(corpus, asking.vector, leg, asking.limit, asking.among)
    m, weight = _weight(asking, candidates)
    tiers = legs.tiers(corpus, query, leg, candidates)
    scores = _scores(asking, candidates, weight)
    order = best(candidates.rows, scores, tiers, asking.k, corpus.ids, keywords_alone=weight == 1)
    return Found(candidates, tiers[order.places].tolist(), order, m, weight)


def _weight(asking: Asking, candidates: Candidates) -> tuple[float | None, float | None]:
    """``m`` and the weight of the keyword leg; a leg that gave nothing leaves it to the other."""
    settings, knowledge = asking.settings, asking.corpus.knowledge
    if settings.fusion in ("dense", "keyword", "rrf"):
        return None, None
    a, m = settings.weight(knowledge is not None and knowledge.subword), None
    if settings.fusion == "coverage":
        m = weighing.unknown_share(asking.query.words, asking.corpus)
        a = fusion.coverage_weight(a, m)
    if not len(candidates.dense.rows):
        return m, 1.0
    return m, a if len(candidates.keyword.rows) else 0.0


def _scores(asking: Asking, candidates: Candidates, weight: float | None) -> Fused:
    """By the fusion, one for each candidate."""
    if asking.settings.fusion == "dense":
        return candidates.dense.scores.astype(np.float64)
    if asking.settings.fusion == "keyword":
        return candidates.keyword.scores.astype(np.float64)
    if weight is None:
        ranks = candidates.dense_ranks(), candidates.keyword_ranks()
        return fusion.reciprocal_ranks(*ranks, asking.settings.k_rrf)
    return fusion.weighted(candidates.similarities, candidates.bm25(), weight)


def _hits(asking: Asking, found: Found, notes: Sequence[str]) -> Hits:
    """The documents fetched, and explained where that is wanted."""
    order = found.order
    stored = asking.corpus.stored(found.candidates.rows[order.places])
    why: Sequence[Explanation | None] = [None] * len(stored)
    asked = _asked(asking, found.m, found.weight)
    if asking.explain:
        asked = with_frequencies(asked, asking.query, asking.corpus)
        why = _explanations(asking, found, [document.text for document in stored])
    raw = found.candidates.raw_scores(order.places)
    told = zip(stored, order.scores.tolist(), found.tiers, raw, why, strict=True)
    hits = tuple(
        Hit(document.id, document.text, document.fields, score, int(tier), *scores, reason)
        for document, score, tier, scores, reason in told
    )
    return Hits(hits, asked, tuple(notes))


def _explanations(asking: Asking, found: Found, texts: Sequence[str]) -> list[Explanation]:
    return explanations(
        asking.corpus,
        asking.query,
        asking.vector,
        asking.among,
        found.candidates,
        found.order.places,
        texts,
    )


def _asked(asking: Asking, m: float | None, weight: float | None) -> Asked:
    settings, knowledge = asking.settings, asking.corpus.knowledge
    a = None
    if weight is not None:
        a = settings.weight(knowledge is not None and knowledge.subword)
    return Asked(asking.query.text, asked_words(asking.query), settings.fusion, a, m, weight)


def _empty_handed(asking: Asking, leg: KeywordLeg, notes: Sequence[str], where: str | None) -> Hits:
    """No word of the query is known, none is in a document: what the caller chose for that."""
    suggested = suggestions(asking.corpus, asking.query)
    if asking.settings.empty == "nearest" and asking.vector is not None:
        guesses = _hits(asking, _found(asking, leg), [*notes, GUESSES])
        return replace(guesses, guesses=True, suggestions=suggested)
    if asking.settings.empty == "spelling" and suggested:
        text = respelled(asking.query, suggested)
        settings = replace(asking.settings, empty="nothing")
        better = search(
            asking.corpus,
            text,
            None,
            k=asking.k,
            settings=settings,
            where=where,
            explain=asking.explain,
        )
        told = f"no document holds a word of the query: searched for {text!r} instead"
        return replace(better, notes=(told, *better.notes), suggestions=suggested)
    asked = _asked(asking, None, None)
    why = () if NO_MATCH in notes else (NOTHING,)
    return Hits((), asked, (*notes, *why), suggestions=suggested)
