"""Order the best hits of a search again: by a cross-encoder, or for variety.

The score of a cross-encoder is the logit of its only label, without a sigmoid. A document in a
higher tier stays above all documents in lower tiers.

Sources: Nogueira, Cho: Passage Re-ranking with BERT, arXiv:1901.04085, 2019; Carbonell, Goldstein:
The Use of MMR, Diversity-Based Reranking for Reordering Documents and Producing Summaries, SIGIR
1998.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import EncoderOptions, Vectors, decode_texts
from vocabtool.encoders.open_encoder import import_named, name_of
from vocabtool.encoders.prompts import PROMPTS
from vocabtool.encoders.sentence_transformers import PADDED, WEIGHTS, check_files, load
from vocabtool.errors import OperatorFailed, UnknownFormat, UnsupportedFormat, VocabtoolError
from vocabtool.formats.files import find_folder, split_kind
from vocabtool.formats.static_embedding import CONFIG, find_settings
from vocabtool.search.fusion import NOISE, Candidates, Fused, Places, best_places
from vocabtool.search.settings import Reranker, Settings
from vocabtool.search.store import Store, fetch_candidates

FORMS: Final = (
    "wanted a folder or name of a cross-encoder (also onnx:FOLDER-FILE-OR-NAME, "
    "sentence-transformers:FOLDER-OR-NAME), python:package.module:attribute, or in Python a "
    "function f(query, texts)"
)
HEADS: Final = ("ForSequenceClassification", "ForCausalLM")  # architectures that can score pairs
TRUST: Final = "load it in a function of your own and use --rerank python:MODULE:NAME"
_OPENING: Final = Lock()  # so that several threads do not open the same model


def open_reranker(model: str | Path | Reranker) -> Reranker:
    """Open a cross-encoder from a path or a name, or return a function unchanged.

    - A folder with weights for sentence-transformers is opened with that library. Any other folder
      is opened as ONNX (``model.onnx`` and ``tokenizer.json``).
    - A name refers to a model in the local Hugging Face cache.
    - The prefix ``onnx:`` or ``sentence-transformers:`` chooses the library.
    - ``python:module:attribute`` imports the module, which runs its code. Name only modules that
      you trust.

    The most recently opened model stays in memory for the next call.

    Raises:

    - ``ValueError`` if ``model`` is neither a path, a name nor a function
    - :class:`NotFound` if the model does not exist
    - :class:`UnknownFormat` or :class:`UnsupportedFormat` if the model is not a cross-encoder with
      one label, would run code of its own, or needs a library that is not installed
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
        named: Reranker = import_named(model.removeprefix("python:"))[0]
        if not callable(named):
            raise VocabtoolError(f"{model}: wanted a function f(query, texts), got {named!r}")
        return named
    prefix, name = split_kind(model)
    if prefix not in ("", "onnx:", "sentence-transformers:"):
        raise VocabtoolError(f"{model}: {prefix} does not name a cross-encoder; {FORMS}")
    path = Path(name) if Path(name).exists() else find_folder(name)
    has_weights = any((path / weights).is_file() for weights in WEIGHTS)
    if prefix == "sentence-transformers:" or (not prefix and has_weights):
        return _SentenceTransformersReranker(path)
    try:
        return _OnnxReranker(path)
    except UnknownFormat as error:
        if prefix or path.is_file():
            raise
        lacks = f"nor weights for sentence-transformers, such as {WEIGHTS[0]}"
        raise UnknownFormat(f"{error.what}, {lacks}", error.tried) from error


class _OnnxReranker:
    """Runs an ONNX model on the CPU. Several threads may use it at the same time."""

    def __init__(self, path: Path) -> None:
        from vocabtool.encoders.onnx import OnnxEncoder

        self._model = OnnxEncoder(path, EncoderOptions(kind="onnx"))
        _check_labels(path, self._model.dim)

    def __call__(self, query: str, texts: list[str], /) -> NDArray[np.float32]:
        return self._model.encode_decoded([(query, text) for text in texts])[:, 0]


class _SentenceTransformersReranker:
    """Only one thread at a time runs the model; other threads wait."""

    def __init__(self, folder: Path) -> None:
        check_files(folder, TRUST)
        heads = find_settings((folder,), CONFIG)[1].get("architectures")
        kind = find_settings((folder,), PROMPTS)[1].get("model_type")
        if kind != "CrossEncoder" and not any(
            str(head).endswith(HEADS) for head in (heads if isinstance(heads, list) else ())
        ):  # sentence-transformers would add a head of random numbers
            wanted = " or ".join(f"*{head}" for head in HEADS)
            what = f"not a cross-encoder: its architectures are {heads!s:.80}, not {wanted}"
            raise UnsupportedFormat(what, file=str(folder))
        # The model may name any function of torch as its activation: none is looked up.
        self._model = load(folder, "CrossEncoder", trust=False, activation_fn=lambda logits: logits)
        self._lock = Lock()
        _check_labels(folder, int(self._model.num_labels))

    def __call__(self, query: str, texts: list[str], /) -> Any:
        pairs = [(query, text) for text in texts]
        with self._lock:
            return self._model.predict(pairs, batch_size=PADDED, show_progress_bar=False)


def _check_labels(path: Path, labels: int) -> None:
    if labels != 1:
        what = f"it returns {labels:,} numbers for a query and a text; a cross-encoder returns one"
        raise UnsupportedFormat(what, file=str(path))


def score(reranker: Reranker, query: str, texts: list[str]) -> Fused:
    """Return the score that ``reranker`` gives each text, float64.

    Raises :class:`OperatorFailed` if ``reranker`` raises an error.
    """
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


class BestHits(NamedTuple):
    """The hits, best first: their places among the candidates, and their scores by the fusion.

    - ``reranked``: the score of each hit by ``rerank``, or ``None`` if it has none.
    - ``fused_ranks``: the rank of each hit before ``rerank`` and ``mmr`` changed the order;
      ``None`` if neither was used.
    """

    places: Places
    scores: Fused
    reranked: Sequence[float | None]
    fused_ranks: Sequence[int | None]

    def take(self, order: Places) -> BestHits:
        at = order.tolist()
        columns = ([column[each] for each in at] for column in (self.reranked, self.fused_ranks))
        return BestHits(self.places[order], self.scores[order], *columns)


def best_hits(
    store: Store,
    text: str | None,
    candidates: Candidates,
    scores: Fused,
    tiers: NDArray[np.int8],
    k: int,
    settings: Settings,
    *,
    keywords_alone: bool,
) -> BestHits:
    """Return the best ``k`` candidates, ordered again by the ``rerank`` and ``mmr`` of settings."""
    rows, ids = candidates.rows, store.documents.ids
    is_plain = settings.rerank is None and settings.mmr is None
    count = k if is_plain else max(k, settings.rerank_depth)
    places, best = best_places(rows, scores, tiers, count, ids, keywords_alone=keywords_alone)
    if is_plain:
        none = [None] * len(places)
        return BestHits(places, best, none, none)
    first = places[: settings.rerank_depth]
    order, relevance = np.arange(len(first)), best[: len(first)]
    reranked: list[float | None] = [None] * len(places)
    if settings.rerank is not None:
        reranker = open_reranker(settings.rerank)
        if len(first):
            texts = [each.text for each in fetch_candidates(store, candidates, first)]
            relevance = score(reranker, text or "", texts)
        order, relevance = best_places(rows[first], relevance, tiers[first], len(first), ids)
        reranked[: len(first)] = relevance.tolist()
    by_rank = np.arange(len(places))
    if settings.mmr is not None:
        vectors = store.vectors.take(rows[first[order]])
        by_rank = marginal(relevance, tiers[first[order]], vectors, settings.mmr, k)
        by_rank = np.concatenate((by_rank, np.arange(len(first), len(places))))
    by_rank = by_rank[:k]
    order = np.concatenate((order, np.arange(len(first), len(places))))[by_rank]
    shown = [reranked[place] for place in by_rank.tolist()]
    return BestHits(places[order], best[order], shown, (order + 1).tolist())


def marginal(
    relevance: Fused, tiers: NDArray[np.int8], vectors: Vectors, weight: float, k: int
) -> Places:
    """Choose ``k`` documents by maximal marginal relevance; return their places in this order.

    Documents are chosen one after another. Each time, among the remaining documents of the highest
    tier, the document with the greatest value of this formula is chosen:

        weight * r - (1 - weight) * s

    ``r`` is the ``relevance`` of the document, scaled to 0..1. ``s`` is the highest cosine of its
    vector with the vector of a document chosen before. ``relevance``, ``tiers``: shape (n,), best
    document first. ``vectors``: shape (n, dim).
    """
    span = float(np.ptp(relevance)) if len(relevance) else 0.0
    gain = weight * ((relevance - relevance.min()) / span if span else np.ones(len(relevance)))
    exact = vectors.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", exact, exact))
    exact /= np.where(lengths, lengths, 1)[:, np.newaxis]
    nearest = np.zeros(len(exact))
    chosen: list[int] = []
    left = np.ones(len(exact), np.bool_)
    for _ in range(min(k, len(exact))):
        among = np.flatnonzero(left & (tiers == tiers[left].max()))
        worth = gain[among] - (1 - weight) * nearest[among]
        place = int(among[(worth >= worth.max() - NOISE).argmax()])
        cosines = np.einsum("ij,j->i", exact, exact[place])
        nearest = np.maximum(nearest, cosines) if chosen else cosines
        chosen.append(place)
        left[place] = False
    return np.array(chosen, np.int64)
