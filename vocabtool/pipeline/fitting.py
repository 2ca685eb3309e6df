"""Weights of word vectors, fitted once on a sample of the documents and kept beside the shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from vocabtool.documents import Format, Skipped, Sources, batches
from vocabtool.encoders.encoder import Encoder
from vocabtool.encoders.static import StaticEncoder
from vocabtool.encoders.static_weights import FittedWeights
from vocabtool.errors import VocabtoolError
from vocabtool.pipeline.folder import WEIGHTS, Folder
from vocabtool.pipeline.inputs import can_be_read_again, files_of
from vocabtool.words.cut import as_bytes

SAMPLE: Final = 20_000  # documents that weights are fitted on
SAMPLE_BYTES: Final = 1 << 20  # read at a time for it


def fitted(
    encoder: Encoder,
    folder: Folder,
    sources: Sources,
    field: str | None,
    format: Format | None,  # noqa: A002 - what it is called on the command line
) -> Encoder:
    """The encoder with its weights: those in the folder, else of a sample of the documents."""
    if not isinstance(encoder, StaticEncoder):
        return encoder
    kept = folder.path / WEIGHTS
    if encoder.needs_fit and folder.plan() is not None:
        return encoder.with_weights(FittedWeights.read(kept))
    if encoder.needs_fit:
        if not can_be_read_again(sources):
            raise VocabtoolError(
                "weights are fitted on a sample of the documents, and a stream is read once: "
                "fit them on other texts and give them, or choose no weights"
            )
        encoder = encoder.fit(_sample(files_of(sources) or [], field, format))
    if encoder.fitted is not None:
        encoder.fitted.write(kept)
    return encoder


def _sample(
    files: Sequence[str],
    field: str | None,
    format: Format | None,  # noqa: A002 - what it is called on the command line
) -> Iterator[bytes]:
    """The first texts of each file, as many of each."""
    each = -(-SAMPLE // max(len(files), 1))
    for file in files:
        found = batches(
            file, field=field, format=format, on_error="skip", skipped=Skipped(), size=SAMPLE_BYTES
        )
        texts = (text for batch in found for text in as_bytes(batch.texts))
        yield from islice(texts, each)
