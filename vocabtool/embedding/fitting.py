"""Weights of word vectors, fitted once on a sample of the documents and kept beside the shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from vocabtool.documents.reading import Format, ReadLog, ReadOptions, batches
from vocabtool.embedding.inputs import can_be_read_again
from vocabtool.encoders.encoder import Encoder
from vocabtool.encoders.static import StaticEncoder
from vocabtool.encoders.word_weights import FittedWeights
from vocabtool.errors import InvalidFile, NotFound, VocabtoolError
from vocabtool.tokenization.text_arrays import as_bytes

SAMPLE: Final = 20_000  # documents that weights are fitted on
SAMPLE_BYTES: Final = 1 << 20  # read at a time for it


def fitted(
    encoder: Encoder,
    kept: FittedWeights | None,
    files: Sequence[str] | None,
    field: str | None,
    format: Format | None,  # noqa: A002 - what it is called on the command line
) -> Encoder:
    """The encoder with its weights: those that were ``kept``, else of a sample of the files."""
    if not isinstance(encoder, StaticEncoder) or not encoder.needs_fit:
        return encoder
    if kept is not None:
        return encoder.with_weights(kept)
    if files is None or not can_be_read_again(files):
        raise VocabtoolError(
            "weights are fitted on a sample of the documents, and a stream is read once: give "
            "weights fitted on files before (--fitted _weights.json), or choose --weights none"
        )
    return encoder.fit(not_empty(sample(files, field, format), files))


def weights_of(encoder: Encoder) -> FittedWeights | None:
    """What was fitted, to be kept beside the shards; ``None``: nothing."""
    return encoder.fitted if isinstance(encoder, StaticEncoder) else None


def not_empty(texts: Iterator[bytes], files: Sequence[str]) -> Iterator[bytes]:
    """The texts. Raises :class:`NotFound` at their end where there was none."""
    empty = True
    for text in texts:
        empty = False
        yield text
    if empty:
        raise NotFound(f"{', '.join(files)}: no document in it")


def sample(
    files: Sequence[str],
    field: str | None,
    format: Format | None,  # noqa: A002 - what it is called on the command line
) -> Iterator[bytes]:
    """The first texts of each file, as many of each.

    Bad rows are left out; but where all are bad, what is wrong with the first is what is raised.
    """
    each = -(-SAMPLE // max(len(files), 1))
    for file in files:
        log = ReadLog()
        options = ReadOptions(field=field, format=format, on_error="skip")
        found = batches(file, options, log=log, size=SAMPLE_BYTES)
        texts = (text for batch in found for text in as_bytes(batch.texts))
        some = False
        for text in islice(texts, each):
            some = True
            yield text
        if log.skipped.first and not some:
            first = log.skipped.first[0]
            raise InvalidFile(first.reason, file=first.place)
