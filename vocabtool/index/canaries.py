"""Check that the model of an index is still the same: encode some documents (canaries) again.

The fingerprint of the encoder is not enough: it stays the same if a server runs another model under
the same name.

The agreement of a stored vector a and a new vector b is ``2 a·b / (a·a + b·b)``. It is the cosine
if both have the same length; otherwise it is nearer to zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import Metric
from vocabtool.documents.batch import Batch
from vocabtool.encoders.encoder import Encoder, Vectors
from vocabtool.errors import ChangedModel, OtherModel
from vocabtool.index.raw_vectors import prepare
from vocabtool.system.ranking import Rows

ENCODED: Final = -1  # source of a row without a FILE whose vector the index's model made
CANARIES: Final = 8
CANDIDATES: Final = 64  # rows from which canaries are chosen
MAX_CHARACTERS: Final = 4_000  # of a canary, if shorter ones exist: a server is paid by length
REPLACED: Final = "\ufffd"  # the model may have seen the bytes that this character replaces
# Measured with all-MiniLM-L6-v2, 1 minus the lowest cosine: 3e-13 for other batches (1 text instead
# of 32), 0 for other threads, 3e-8 for float16 in the index, 1e-6 for a model in float16, 6e-5 in
# bfloat16. The limit is well above these.
MIN_AGREEMENT: Final = 0.999
# In int8 with dynamic ranges, other batches alone make 5e-2: such noise is measured when needed.
NAME_IT: Final = (
    "Name the model that made the vectors, with its prompts (--prompt-document, --prompt-query), "
    "or index the documents with this model (in a new folder, or with --force)"
)
NOISES: Final = 4  # a stored vector is from a larger batch than the canaries are


@dataclass(frozen=True, slots=True)
class Agreement:
    """The result of a comparison of new vectors with stored vectors of the same documents.

    - ``documents``: number of compared documents.
    - ``lowest``: the lowest agreement; 1 if there are no documents. If texts may have changed
      since they were encoded, ``lowest`` is the lower median of the agreements instead.
    """

    documents: int
    lowest: float


class Canaries(NamedTuple):
    """Documents of an index that may be encoded again, to check its model.

    - ``vectors``: the stored vectors, shape (n, dim); zeros for a document without a vector.
    - ``may_be_stale``: whether a text may have changed after it was encoded. If so, more than
      half of the new vectors must agree with the stored ones; otherwise, all must agree.
    """

    ids: list[str]
    texts: list[str]
    vectors: Vectors
    may_be_stale: bool = False


def compare_canaries(name: str, among: Canaries, encoder: Encoder, metric: Metric) -> Agreement:
    """Encode up to 8 documents of an index again and compare their vectors.

    ``name``: the name of the index, for messages. Raises :class:`ChangedModel` if the vectors
    differ.
    """
    ids, texts, vectors, may_be_stale = among
    held = vectors.astype(np.float64)
    chosen = _usable(texts, held)
    told, texts = [ids[at] for at in chosen], [texts[at] for at in chosen]
    return _compare(name, told, texts, held[chosen], encoder, metric, may_be_stale=may_be_stale)


def compare_with_given(
    name: str, among: Canaries, encoder: Encoder, metric: Metric, dim: int
) -> None:
    """Check that a model makes the vectors of an index that was created without a model.

    ``dim``: the length of the index's vectors. Raises :class:`OtherModel` if the vectors differ.
    """
    if encoder.dim != dim:
        what = f"it makes vectors of {encoder.dim:,} numbers, but the index needs {dim:,}"
        raise OtherModel(name, "model", "", encoder.fingerprint, advice=f"{what}. {NAME_IT}")
    with _other_model(encoder):
        compare_canaries(name, among, encoder, metric)


def compare_given(
    name: str, batch: Batch, vectors: Vectors, encoder: Encoder, metric: Metric
) -> Agreement:
    """Check that a model makes the ``vectors`` that the user passed for ``batch``.

    ``vectors``: shape (n, dim). Raises :class:`OtherModel` if the model makes other vectors.
    """
    rows = spread(len(batch), CANDIDATES)
    texts = [batch.texts[row].as_buffer().to_pybytes().decode("utf-8", "replace") for row in rows]
    held = prepare(vectors[rows], metric).astype(np.float64)
    chosen = _usable(texts, held)
    ids = [batch.id_of(int(rows[at])) for at in chosen]
    with _other_model(encoder):
        return _compare(name, ids, [texts[at] for at in chosen], held[chosen], encoder, metric)


@contextmanager
def _other_model(encoder: Encoder) -> Iterator[None]:
    try:
        yield
    except ChangedModel as found:
        what = (
            f"document {found.document[:100]!r} (text {found.number} of {found.count}): the "
            f"agreement of this model's vector with the given vector is {found.agreement:.4f} (the "
            "cosine; lower if the norms of the two vectors differ). It must be "
            f"{found.wanted:.4g} or more. {NAME_IT}"
        )
        given = OtherModel(found.index, "model", "", encoder.fingerprint, advice=what)
        raise given from found


def _compare(
    name: str,
    ids: list[str],
    texts: list[str],
    held: NDArray[np.float64],
    encoder: Encoder,
    metric: Metric,
    *,
    may_be_stale: bool = False,
) -> Agreement:
    if not texts:
        return Agreement(0, 1.0)
    made = prepare(encoder.encode(texts), metric).astype(np.float64)
    agreements, wanted = _agreements(held, made), MIN_AGREEMENT
    order = agreements.argsort()
    lowest = int(order[(len(order) - 1) // 2 if may_be_stale else 0])  # of those that must agree
    if agreements[lowest] < wanted:  # is this model so inexact that batches explain it?
        alone = prepare(np.concatenate([encoder.encode([text]) for text in texts]), metric)
        noise = 1 - float(_agreements(made, alone.astype(np.float64)).min())
        wanted = min(wanted, 1 - NOISES * noise)
    if agreements[lowest] < wanted:
        raise ChangedModel(
            name,
            document=ids[lowest],
            number=lowest + 1,
            count=len(texts),
            agreement=float(agreements[lowest]),
            wanted=wanted,
        )
    return Agreement(len(texts), min(float(agreements[lowest]), 1.0))


def _agreements(some: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    squares = (some**2 + others**2).sum(axis=1)
    agreements = np.ones(len(squares))
    np.divide(2 * (some * others).sum(axis=1), squares, out=agreements, where=squares > 0)
    return agreements


def _usable(texts: list[str], held: NDArray[np.float64]) -> list[int]:
    there = np.flatnonzero(held.any(axis=1)).tolist()
    usable = [at for at in there if texts[at].strip() and REPLACED not in texts[at]]
    short = [at for at in usable if len(texts[at]) <= MAX_CHARACTERS]
    if usable and not short:
        short = [min(usable, key=lambda at: len(texts[at]))]
    return [short[at] for at in spread(len(short), CANARIES)]


def spread(count: int, most: int) -> Rows:
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))
