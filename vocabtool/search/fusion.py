"""Combine the scores of vector search (the dense leg) and keyword search (the keyword leg).

The functions that fuse are pure. Their arrays have one element for each candidate:

- ``similarities``: similarity to the query's vector, NaN without a vector.
- ``bm25``: BM25 score, 0 if keyword search did not find the candidate.

A cross-encoder may order the first candidates again. Its score is the logit of its only label,
without a sigmoid. A document in a higher tier stays above all documents in lower tiers.

A higher score is better. Sources: Cormack, Clarke, Büttcher: Reciprocal Rank Fusion, SIGIR 2009;
Bruch, Gai, Ingber: An Analysis of Fusion Functions for Hybrid Retrieval, TOIS 2023 (the convex
combination); Nogueira, Cho: Passage Re-ranking with BERT, arXiv:1901.04085, 2019.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import Fusion
from vocabtool.encoders.encoder import decode_texts
from vocabtool.encoders.open_encoder import import_named, name_of
from vocabtool.errors import OperatorFailed, VocabtoolError
from vocabtool.formats.files import find_folder
from vocabtool.search.settings import Reranker
from vocabtool.system.ranking import RankedRows, Rows, Scores

Fused = NDArray[np.float64]
Places = NDArray[np.int64]

K_RRF: Final = 60  # the constant of Cormack, Clarke and Büttcher
NOISE: Final = 1e-6  # scores that differ by less, or by less than this share of the best, tie


@dataclass(frozen=True, slots=True)
class Candidates:
    """The documents that vector search or keyword search found.

    - ``dense``: the number of documents that vector search found. They come first, best first.
    - ``keyword``: the indices of the documents that keyword search found, best first.
    - ``listed``: how many documents of ``keyword`` have a rank in keyword search. They come first.
      The rest have none: they are candidates only because they contain an identifier.
    """

    rows: Rows
    similarities: Scores
    bm25: Scores
    dense: int
    keyword: Places
    listed: int

    @classmethod
    def union(
        cls, dense: RankedRows, keyword: RankedRows, similarities_of_keyword: Scores, listed: int
    ) -> Candidates:
        """``similarities_of_keyword``: of ``keyword.rows``, NaN without a vector."""
        order = dense.rows.argsort()
        ascending = dense.rows[order]
        at = ascending.searchsorted(keyword.rows)
        at[at == len(ascending)] = 0
        new = ascending[at] != keyword.rows if len(ascending) else np.ones(len(at), np.bool_)
        rows = np.concatenate((dense.rows, keyword.rows[new]))
        # New rows follow the rows of vector search; each other one is at its place among those.
        places = len(ascending) - 1 + new.cumsum()
        places[~new] = order[at[~new]]
        bm25 = np.zeros(len(rows), np.float32)
        bm25[places] = keyword.scores
        similarities = np.concatenate((dense.scores, similarities_of_keyword[new]))
        return cls(rows, similarities, bm25, len(dense.rows), places, listed)

    def ranks(self) -> tuple[Places, Places]:
        """Return each candidate's rank in each leg, from 1 (0: none). Equal scores share one."""
        dense, keyword = np.zeros((2, len(self.rows)), np.int64)
        dense[: self.dense] = first_of_ties(self.similarities[: self.dense]) + 1
        places = self.keyword[: self.listed]
        keyword[places] = first_of_ties(self.bm25[places]) + 1
        return dense, keyword


class FusedScores(NamedTuple):
    """What each leg adds to the score of each candidate.

    ``weight``: the final weight of keyword search; ``None`` for fusions without weights.
    """

    dense: Fused
    keyword: Fused
    weight: float | None


def fuse(candidates: Candidates, fusion: Fusion, a: float, m: float) -> FusedScores:
    """Compute the scores of candidates; with weights, similarities and BM25 are scaled to 0..1.

    ``a``: the weight of keyword search. ``m``: the share of the query's idf that comes from unknown
    words. The fusion ``coverage`` has the final weight a + (1 - a) m.
    """
    near = candidates.similarities.astype(np.float64)
    lexical = candidates.bm25.astype(np.float64)
    match fusion:
        case "dense":
            return FusedScores(near, np.zeros(len(near)), None)
        case "keyword":
            return FusedScores(np.zeros(len(near)), lexical, None)
        case "rrf":  # 1 / (k + rank); a candidate without a rank gets nothing
            dense, keyword = (
                np.divide(1.0, K_RRF + ranks, out=np.zeros(len(ranks)), where=ranks > 0)
                for ranks in candidates.ranks()
            )
            return FusedScores(dense, keyword, None)
    weight = a + (1 - a) * m if fusion == "coverage" else a
    if not candidates.dense:
        weight = 1.0
    elif not len(candidates.keyword):
        weight = 0.0
    if len(near):
        low, high = np.fmin.reduce(near), np.fmax.reduce(near)
        if high > low:
            near -= low
            near /= high - low
            np.fmax(near, 0, out=near)  # NaN becomes 0
        else:  # all are equal, or all are NaN
            near = np.equal(near, high).astype(np.float64)
    best = float(lexical.max(initial=0))
    if best > 0:
        lexical /= best
    return FusedScores((1 - weight) * near, weight * lexical, weight)


def first_of_ties(scores: NDArray[np.floating], tiers: NDArray[np.int8] | None = None) -> Places:
    """Return, for each of falling ``scores``, the index of its first tie in the same tier."""
    places = np.arange(len(scores))
    if len(scores) < 2:
        return places
    scale = max(1.0, abs(float(scores[0])), abs(float(scores[-1])))
    tied = scores[:-1] - scores[1:] <= NOISE * scale
    if tiers is not None:
        tied &= tiers[1:] == tiers[:-1]
    places[1:][tied] = 0
    return np.maximum.accumulate(places)


def best_places(
    rows: Rows,
    scores: Fused,
    tiers: NDArray[np.int8],
    k: int,
    ids: Callable[[Rows], list[str]],
    *,
    keywords_alone: bool = False,
) -> tuple[Places, Fused]:
    """Return the indices and the scores of the best ``k`` candidates, best first.

    The order is by tier, score and id. Scores that differ only by rounding become equal.
    ``keywords_alone``: whether only keywords count; candidates with score 0 are then dropped.
    """
    order = scores.argsort()[::-1]  # ties in any order
    if keywords_alone:
        order = order[: int(np.count_nonzero(scores > 0))]
    if np.count_nonzero(tiers):
        order = order[np.argsort(-tiers[order], kind="stable")]
    sorted_scores = scores[order]
    first = first_of_ties(sorted_scores, tiers[order])
    ties_with_previous = first != np.arange(len(first))
    if np.count_nonzero(ties_with_previous[: k + 1]):
        # Ties are put in the order of their ids, down to the last score that ties with the k-th.
        end = int(np.searchsorted(first, first[min(k, len(first)) - 1], "right"))
        is_tied = ties_with_previous | np.append(ties_with_previous[1:], False)
        tied = np.flatnonzero(is_tied[:end])
        keys = list(zip(first[tied].tolist(), ids(rows[order[tied]]), strict=True))
        order[tied] = order[tied][sorted(range(len(tied)), key=keys.__getitem__)]
        sorted_scores = sorted_scores[first]
    return order[:k], sorted_scores[:k]


# The first candidates again, by a cross-encoder.

FORMS: Final = (
    "wanted a folder or name of a cross-encoder of sentence-transformers, "
    "python:package.module:attribute, or in Python a function f(query, texts)"
)
_OPENING: Final = Lock()  # so that several threads do not open the same model


def open_reranker(model: str | Path | Reranker) -> Reranker:
    """Open a cross-encoder from a path or a name, or return a function unchanged.

    - A folder, or a name in the local Hugging Face cache, is opened with sentence-transformers.
    - ``python:module:attribute`` imports the module, which runs its code. Name only modules that
      you trust.

    The most recently opened model stays in memory for the next call.

    Raises:

    - ``ValueError`` if ``model`` is neither a path, a name nor a function
    - :class:`NotFound` if the model does not exist
    - :class:`UnsupportedFormat` if the model is not a cross-encoder with one label, would run code
      of its own, or needs a library that is not installed
    - :class:`VocabtoolError` for damaged files
    """
    if isinstance(model, str | Path):
        with _OPENING:
            return _open(str(model))
    if not callable(model):
        raise ValueError(f"rerank: {FORMS}; got {model!r}")
    return model


@lru_cache(maxsize=1)
def _open(model: str) -> Reranker:
    if model.startswith("python:") and not Path(model).exists():
        reranker: Reranker = import_named(model.removeprefix("python:"))[0]
        if not callable(reranker):
            raise VocabtoolError(f"{model}: wanted a function f(query, texts), got {reranker!r}")
        return reranker
    from vocabtool.encoders.sentence_transformers import CrossEncoder  # few searches need it

    return CrossEncoder(Path(model) if Path(model).exists() else find_folder(model))


def score(reranker: Reranker, query: str, texts: list[str]) -> Fused:
    """Return a float64 for each text. Raises :class:`OperatorFailed` if ``reranker`` fails."""
    name, called = f"rerank, {name_of(reranker)}", f"called with a query and {len(texts):,} texts"
    try:
        scores = np.asarray(reranker(decode_texts([query])[0], texts), np.float64)
    except (VocabtoolError, OSError, MemoryError):
        raise
    except Exception as error:  # a callable may raise anything
        what = f"{called}, it raised {type(error).__name__}: {error}"
        raise OperatorFailed(name, what) from error
    if scores.shape != (len(texts),):
        what = f"it returned an array of shape {scores.shape}, wanted ({len(texts):,},)"
        raise VocabtoolError(f"{name}: {called}, {what}")
    bad = np.flatnonzero(~np.isfinite(scores))
    if len(bad):
        what = f"it returned {scores[bad[0]]} for text {bad[0]:,}, wanted a finite number"
        raise VocabtoolError(f"{name}: {called}, {what}")
    return scores


def rerank(
    reranker: Reranker,
    query: str,
    texts: list[str],
    rows: Rows,
    tiers: NDArray[np.int8],
    ids: Callable[[Rows], list[str]],
) -> tuple[Places, list[float | None]]:
    """Order the first candidates again, by the scores of their ``texts``; the others follow.

    Returns the indices of all ``rows`` in the new order, and their scores, ``None`` for the others.
    """
    count, order, scores = len(texts), np.arange(0), np.zeros(0)
    if count:
        scores = score(reranker, query, texts)
        order, scores = best_places(rows[:count], scores, tiers[:count], count, ids)
    others = np.arange(count, len(rows))
    return np.concatenate((order, others)), [*scores.tolist(), *[None] * len(others)]
