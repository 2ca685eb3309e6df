"""Order the best hits of a search again, by a cross-encoder.

The score of a cross-encoder is the logit of its only label, without a sigmoid. A document in a
higher tier stays above all documents in lower tiers.

Source: Nogueira, Cho: Passage Re-ranking with BERT, arXiv:1901.04085, 2019.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import PROMPTS, decode_texts
from vocabtool.encoders.open_encoder import import_named, name_of
from vocabtool.encoders.sentence_transformers import PADDED, check_files, load
from vocabtool.errors import OperatorFailed, UnsupportedFormat, VocabtoolError
from vocabtool.formats.encoder_files import CONFIG, find_settings
from vocabtool.formats.files import find_folder
from vocabtool.search.fusion import Fused, Places, best_places
from vocabtool.search.settings import Reranker, Settings
from vocabtool.search.store import Snapshot
from vocabtool.system.ranking import Rows

FORMS: Final = (
    "wanted a folder or name of a cross-encoder of sentence-transformers, "
    "python:package.module:attribute, or in Python a function f(query, texts)"
)
HEADS: Final = ("ForSequenceClassification", "ForCausalLM")  # architectures that can score pairs
TRUST: Final = "load it in a function of your own and use --rerank python:MODULE:NAME"
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
        named: Reranker = import_named(model.removeprefix("python:"))[0]
        if not callable(named):
            raise VocabtoolError(f"{model}: wanted a function f(query, texts), got {named!r}")
        return named
    return _CrossEncoder(Path(model) if Path(model).exists() else find_folder(model))


class _CrossEncoder:
    """A model of sentence-transformers. Only one thread at a time runs it; other threads wait."""

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
        labels = int(self._model.num_labels)
        if labels != 1:
            what = (
                f"it returns {labels:,} numbers for a query and a text; a cross-encoder returns one"
            )
            raise UnsupportedFormat(what, file=str(folder))

    def __call__(self, query: str, texts: list[str], /) -> Any:
        pairs = [(query, text) for text in texts]
        with self._lock:
            return self._model.predict(pairs, batch_size=PADDED, show_progress_bar=False)


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


def rerank(
    snapshot: Snapshot, settings: Settings, text: str, rows: Rows, tiers: NDArray[np.int8]
) -> tuple[Places, list[float | None]]:
    """Order the first ``rerank_depth`` of ``rows`` again; the others follow in their order.

    Returns the places of all ``rows`` in the new order, and their scores, ``None`` for the others.
    """
    assert settings.rerank is not None  # noqa: S101 - the caller has checked
    reranker = open_reranker(settings.rerank)
    first, order, scores = rows[: settings.rerank_depth], np.arange(0), np.zeros(0)
    if len(first):
        texts = [document.text for document in snapshot.fetch_documents(first)]
        scores = score(reranker, text, texts)
        tiers = tiers[: len(first)]
        order, scores = best_places(first, scores, tiers, len(first), snapshot.ids)
    others = np.arange(len(first), len(rows))
    return np.concatenate((order, others)), [*scores.tolist(), *[None] * len(others)]
