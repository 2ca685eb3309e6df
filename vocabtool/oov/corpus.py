"""Count the unknown words of documents: the public :func:`oov`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, Unpack

import pyarrow as pa

from vocabtool.documents.options import ReadArguments, ReadOptions
from vocabtool.documents.reading import ReadLog, Sources, batches, extent, left_out, names_of
from vocabtool.errors import VocabtoolError, no_documents
from vocabtool.oov import suggest as suggestions
from vocabtool.oov.counter import BUDGET, OovCounter
from vocabtool.oov.report import OovReport
from vocabtool.system.arguments import check_arguments
from vocabtool.system.messages import Progress, documents_done, measure_speed
from vocabtool.tokenization.token_limit import GIVEN, TokenLimit
from vocabtool.tokenization.words import Words, words_of
from vocabtool.vocabulary import Vocabulary

COUNT_BYTES: Final = 1 << 20  # bytes of text per batch; larger batches take more memory


@check_arguments
def oov(
    model: Words | Vocabulary | str | Path,
    sources: Sources,
    read: ReadOptions | None = None,
    *,
    rule: str | None = None,
    limit: int | None = None,
    suggest: int | None = None,
    budget: int = BUDGET,
    log: ReadLog | None = None,
    progress: Progress | None = None,
    **more: Unpack[ReadArguments],
) -> OovReport:
    """Report which words of documents a model does not know, as the command ``oov`` does.

    - ``model``: a model, ``MODEL#NAME`` for one of its vocabularies, or its words.
    - ``sources``, ``read``, ``log``: as in :func:`vocabtool.documents.batches`. A list of
      strings names files, so pass texts as ``iter(texts)``. The fields of ``read`` may also be
      keyword arguments.
    - ``rule``: as in :meth:`Words.of`.
    - ``limit``: maximum number of tokens that the model reads of a text; by default as its files
      state.
    - ``suggest``: number of words to suggest for a tokenizer, see :func:`vocabtool.suggest`.
    - ``budget``: number of bytes for distinct words, see :class:`OovCounter`.
    - ``progress``: is called with a line that says how many documents were read, and the share.

    Raises :class:`NotFound` if there is no document, and :class:`VocabtoolError` for other errors.
    """
    words = words_of(model, rule)
    if suggest is not None:
        suggestions.suggest(words, (), suggest)  # refuses a model before any document is read
    token_limit, unclear = token_limit_of(words, limit)
    read, log = replace(read or ReadOptions(), **more), log or ReadLog()
    whole = extent(sources, read=read).bytes if progress is not None else None
    first_texts: list[pa.StringArray] = []  # from which words are suggested

    def texts() -> Iterator[pa.StringArray]:
        size, count, speed = 0, 0, measure_speed()
        for batch in batches(sources, read, log=log, size=COUNT_BYTES):
            if suggest is not None and size <= suggestions.MAX_TEXT:
                first_texts.append(batch.texts)
                size += batch.texts.nbytes
            yield batch.texts
            count += len(batch)
            if progress is not None:
                step = f"{documents_done(count, speed(count))}, {log.bytes / 1e6:,.0f} MB"
                progress(step, min(log.bytes / whole, 1) if whole else 0)

    files = names_of(sources) or []
    counter = OovCounter(words, budget=budget, limit=token_limit)
    counter.count(texts())
    if isinstance(model, str | Path):
        name = str(model)
    else:
        name = words.vocabulary.name if words.source is None else str(words.source[0])
    report = counter.report(model=name, sources=tuple(files))
    if not report.documents:
        raise no_documents(files or ["the texts"], log.skipped.first)
    notes = (*report.notes, *left_out(files, read), *log.notes, *unclear)
    if suggest is None:
        return replace(report, notes=notes)
    suggested = suggestions.suggest(words, first_texts, suggest)
    return replace(report, notes=(*notes, *suggested.notes), suggested=suggested)


def token_limit_of(
    words: Words, limit: int | None = None
) -> tuple[TokenLimit | None, tuple[str, ...]]:
    """Return the limit of the model of these words, and notes on settings that cannot be read."""
    if words.source is None:
        return None if limit is None else TokenLimit(limit, source=GIVEN), ()
    try:
        return TokenLimit.of(words.source[0], words, limit), ()
    except VocabtoolError as error:
        why = f"how many tokens the model reads is unknown: {error}"
        return None, (f"{why}; pass --limit N",)
