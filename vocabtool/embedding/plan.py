"""The plan of a run: everything that decides the bytes of its shards, stored in ``_run.json``.

How a run is executed (by threads or on Ray) is not part of the plan.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final

from vocabtool.choices import Dtype, Split
from vocabtool.documents.files import STDIN, find, reading_documents
from vocabtool.documents.options import Format, ReadOptions
from vocabtool.documents.reading import ReadLog, Sources, batches, names_of
from vocabtool.errors import InvalidFile, NotFound, VocabtoolError
from vocabtool.system.own_files import decode_record, encode_record
from vocabtool.tokenization.text_arrays import as_bytes

SAMPLE_ROWS: Final = 20_000  # documents used to fit weights of word vectors
SAMPLE_BYTES: Final = 1 << 20  # of text read at a time for the sample


@dataclass(frozen=True, slots=True)
class Input:
    """An input file: its size in bytes, and its modification time in nanoseconds."""

    name: str
    size: int
    changed: int


def files_of(sources: Sources, options: ReadOptions) -> list[str] | None:
    """Return the files of ``sources`` in order; ``None`` if ``sources`` are Python objects."""
    names = names_of(sources)
    if names is None:
        return None
    files = []
    for name in names:
        with reading_documents(name):
            files += find(name, options)
    return files


def files_outside(sources: Sources, folder: Path, options: ReadOptions) -> list[str] | None:
    """Return the files of ``sources`` that are outside the output ``folder``."""
    files = files_of(sources, options)
    if files is None:
        return None
    own = folder.resolve()
    resolved = cache(os.path.realpath)
    for name in names_of(sources) or []:
        if name != STDIN and Path(name).resolve().is_relative_to(own):
            raise VocabtoolError(
                f"{name}: is in the output folder {folder}: choose a source outside"
            )
    return [
        name
        for name in files
        if name == STDIN or not Path(resolved(os.path.dirname(name))).is_relative_to(own)  # noqa: PTH120 - quicker, for many files
    ]


def can_be_read_again(files: Iterable[str] | None) -> bool:
    """Return whether files can be read twice. Pipes and Python objects (``None``) cannot."""
    return files is not None and not any(map(_is_stream, files))


def facts_of(files: Iterable[str]) -> tuple[Input, ...]:
    """Return an :class:`Input` for each file that is not a stream."""
    facts = []
    for name in files:
        if not _is_stream(name):
            with reading_documents(name):
                stat = Path(name).stat()
            facts.append(Input(name, stat.st_size, stat.st_mtime_ns))
    return tuple(facts)


def _is_stream(name: str) -> bool:
    return name == STDIN or (Path(name).exists() and not Path(name).is_file())


def changes(before: tuple[Input, ...], now: tuple[Input, ...]) -> tuple[str, ...]:
    """Return a line for each added, removed or changed file, or one line for a changed order."""
    old, new = ({each.name: each for each in facts} for facts in (before, now))
    lines = [f"{name}: is no longer among the inputs" for name in old if name not in new]
    lines += [f"{name}: is new among the inputs" for name in new if name not in old]
    for name in filter(old.__contains__, new):
        was, is_now = old[name], new[name]
        if was.size != is_now.size:
            lines.append(f"{name}: had {was.size:,} bytes, now has {is_now.size:,}")
        elif was != is_now:
            lines.append(f"{name}: its modification time changed")
    if not lines and [each.name for each in before] != [each.name for each in now]:
        lines.append("the order of the inputs changed")
    return tuple(lines)


def sample(files: Sequence[str], options: ReadOptions) -> Iterator[bytes]:
    """Yield texts for fitting word weights: equally many from the start of each file."""
    options = replace(options, id_field=None, keep=(), on_error="skip", on_duplicate="error")
    is_empty = True
    for file in files:
        log, is_bad = ReadLog(), True
        found = batches(file, options, log=log, size=SAMPLE_BYTES)
        texts = (text for batch in found for text in as_bytes(batch.texts))
        for text in islice(texts, -(-SAMPLE_ROWS // len(files))):
            is_empty = is_bad = False
            yield text
        if log.skipped.first and is_bad:
            first = log.skipped.first[0]
            raise InvalidFile(first.reason, file=first.place)
    if is_empty:
        raise NotFound(f"{', '.join(files)}: no document in it")


VERSION: Final = 2
KIND: Final = "plan of embed"
AGAIN: Final = "embed the documents again, with --force (force=True)"
OPTIONS: Final = {  # names of the fields in a message
    "encoder": "the model (its files, signature, output, rule or weights)",
    "words": "the words of the model (--name, --rule, --vocabulary)",
    "dim": "the length of the vectors",
    "field": "--field",
    "format": "--input-format",
    "id_field": "--id-field",
    "keep": "--keep",
    "split": "--split",
    "split_size": "--split-size",
    "overlap": "overlap=",
    "text": "text=False",
    "shard_rows": "--shard-rows",
    "batch_size": "--batch-size",
    "dtype": "--dtype",
    "source": "source=",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that decides the bytes of the shards of a run.

    ``encoder``, ``words``: fingerprints of the encoder and of its words. ``source``: the name that
    the caller gave to a stream."""

    encoder: str
    words: str | None
    dim: int
    inputs: tuple[Input, ...]
    source: str | None
    field: str | Sequence[str] | None
    format: Format | None
    id_field: str | None
    keep: tuple[str, ...]
    text: bool
    shard_rows: int
    batch_size: int
    dtype: Dtype
    split: Split | None = None
    split_size: int | None = None
    overlap: int = 0

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.to_json()).hexdigest()

    def to_json(self) -> bytes:
        """Return the content of ``_run.json``; equal plans give equal bytes."""
        return encode_record(self, kind=KIND, version=VERSION)

    @classmethod
    def from_json(cls, data: bytes) -> Plan:
        return decode_record(data, cls, kind=KIND, version=VERSION, advice=AGAIN)

    def differences(self, now: Plan, *, batch_size_given: bool = True) -> tuple[str, ...]:
        """Return a line for each difference between this plan and ``now``.

        If the models differ, differences that follow from the model are not listed.
        """
        implied = set()
        if self.encoder != now.encoder:
            implied = {"words", "dim"} if batch_size_given else {"words", "dim", "batch_size"}
        lines = []
        for name, option in OPTIONS.items():
            was, is_now = getattr(self, name), getattr(now, name)
            if name in implied or was == is_now:
                continue
            if name == "text":  # the name in the message is its opposite
                was, is_now = not was, not is_now
            lines.append(f"{option}: was {_show_value(was)}, is {_show_value(is_now)}")
        return (*lines, *changes(self.inputs, now.inputs))


def _show_value(value: Any) -> str:
    match value:
        case None | False:
            return "not given"
        case True:
            return "given"
        case str() if len(value) == 64:  # a fingerprint
            return value[:16]
        case tuple():
            return ", ".join(map(str, value)) or "nothing"
    return str(value)
