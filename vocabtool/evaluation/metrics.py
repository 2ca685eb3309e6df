"""How good one ranking is, given what was judged relevant: pure functions, as trec_eval counts.

A ranking is document ids, best first, each once. Means over queries are the caller's.

trec_eval's conventions, which BEIR and MTEB share: nDCG's gain is the judgement itself (linear, not
``2**rel - 1``) and its discount log2(rank + 1); a negative judgement gains nothing; a document is
relevant from 1 on; what was not judged is not; a query without a relevant document scores 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import log2
from typing import Final

Judged = Mapping[str, int]  # of one query: the judgement by document id

NDCG_DEPTH: Final = 10
RECALL_DEPTH: Final = 100
RELEVANT: Final = 1


def ndcg(ranked: Sequence[str], judged: Judged, depth: int = NDCG_DEPTH) -> float:
    """The gain of the first ``depth`` documents as a share of the best possible, 0 to 1.

    Source: Järvelin, Kekäläinen: Cumulated Gain-Based Evaluation of IR Techniques, TOIS 2002, with
    trec_eval's discount (``ndcg_cut``).
    """
    best = sorted((max(gain, 0) for gain in judged.values()), reverse=True)
    ideal = _dcg(best[:depth])
    return _dcg(max(judged.get(document, 0), 0) for document in ranked[:depth]) / (ideal or 1.0)


def recall(ranked: Sequence[str], judged: Judged, depth: int = RECALL_DEPTH) -> float:
    """The share of the relevant documents that stand among the first ``depth``, 0 to 1."""
    relevant = {document for document, gain in judged.items() if gain >= RELEVANT}
    return len(relevant.intersection(ranked[:depth])) / (len(relevant) or 1)


def reciprocal_rank(ranked: Sequence[str], judged: Judged, depth: int | None = None) -> float:
    """1 / the rank of the first relevant document, 0 where none is among the first ``depth``.

    Without ``depth`` the whole ranking counts, as in trec_eval's ``recip_rank``. Its mean is MRR.
    """
    for rank, document in enumerate(ranked[:depth], 1):
        if judged.get(document, 0) >= RELEVANT:
            return 1 / rank
    return 0.0


def hit(ranked: Sequence[str], judged: Judged, depth: int) -> float:
    """1 where a relevant document stands among the first ``depth``, else 0 (``success``)."""
    return float(any(judged.get(document, 0) >= RELEVANT for document in ranked[:depth]))


def _dcg(gains: Iterable[int]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, 1))
