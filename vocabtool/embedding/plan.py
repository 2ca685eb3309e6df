"""What a run is: everything that decides the bytes of its shards, and what differs from another.

Kept as ``_run.json`` in the folder before the first shard is there. How a run is done (threads,
processes, Ray, a cache) is no part of it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final, Literal

from vocabtool.documents.options import Format
from vocabtool.embedding.inputs import Input, changes
from vocabtool.embedding.options import Check, Dtype
from vocabtool.errors import InvalidFile
from vocabtool.formats import json_file
from vocabtool.system.records import from_json, to_json

VERSION: Final = 1
OPTIONS: Final = {  # what a difference is called in a message
    "encoder": "the model (its files, signature, output, rule or weights)",
    "words": "the words of the model (--name, --rule)",
    "dim": "the length of the vectors",
    "field": "--field",
    "format": "--input-format",
    "id_field": "--id-field",
    "keep": "--keep",
    "text": "--no-text",
    "exact": "--exact-words",
    "keeps": "--on-duplicate",
    "shard_rows": "--shard-rows",
    "batch_size": "--batch-size",
    "dtype": "--dtype",
    "check": "--check",
    "source": "source=",
}
NO_CHECKSUMS: Final = " (the run noted times, no checksums: it cannot compare content)"
TIME_ALONE: Final = " (only a run begun with --check content tells whether its content did, too)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``encoder``, ``words``: their fingerprints; ``source``: what a caller calls a stream.

    ``keeps``: which of documents with one id. That they, or bad rows, are an error is no part of
    it: where none was met so far, what was made is what leaving them out would have made.
    """

    encoder: str
    words: str | None
    dim: int
    inputs: tuple[Input, ...]
    source: str | None
    field: str | None
    format: Format | None
    id_field: str | None
    keep: tuple[str, ...]
    text: bool
    exact: bool
    keeps: Literal["first", "last"]
    shard_rows: int
    batch_size: int
    dtype: Dtype
    check: Check

    @property
    def fingerprint(self) -> str:
        """Hexadecimal sha256 of all of it."""
        return hashlib.sha256(self.to_json()).hexdigest()

    def to_json(self) -> bytes:
        """As it is kept: the same plan gives the same bytes."""
        return json.dumps({"vocabtool_run": VERSION, **to_json(self)}, indent=1).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes) -> Plan:
        """Raises :class:`InvalidFile` for what :meth:`to_json` did not write."""
        record = json_file.parse(data)
        if not isinstance(record, dict) or record.pop("vocabtool_run", None) != VERSION:
            raise InvalidFile(f"not the description of a run of version {VERSION}")
        return from_json(cls, record, "run")

    def differences(self, now: Plan, *, batch_size_given: bool = True) -> tuple[str, ...]:
        """What another plan would do differently, a line each.

        Another model is told without what follows from it: its words, the length of its vectors,
        and the batch size where nobody gave one.
        """
        passed_over = set()
        if self.encoder != now.encoder:
            passed_over = {"words", "dim"} if batch_size_given else {"words", "dim", "batch_size"}
        lines = [
            self._difference(name, now)
            for name in OPTIONS
            if name not in passed_over and getattr(self, name) != getattr(now, name)
        ]
        if self.check == now.check:
            lines += changes(self.inputs, now.inputs, TIME_ALONE)
        return tuple(lines)

    def _difference(self, name: str, now: Plan) -> str:
        why = NO_CHECKSUMS if name == "check" and now.check == "content" else ""
        before, after = getattr(self, name), getattr(now, name)
        if name == "text":  # the opposite of its option
            before, after = not before, not after
        return f"{OPTIONS[name]}: was {_show_value(before)}, is {_show_value(after)}{why}"


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
