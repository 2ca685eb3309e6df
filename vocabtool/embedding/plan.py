"""What a run is: everything that decides the bytes of its shards, and what differs from another.

Kept as ``_run.json`` in the folder before the first shard is there. How a run is done (threads,
processes, Ray, a cache) is no part of it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

from vocabtool.documents.reading import Format
from vocabtool.embedding.inputs import Input, changes, is_count
from vocabtool.embedding.options import Check, Dtype
from vocabtool.errors import InvalidFile
from vocabtool.formats import json_parsing

Keeps = Literal["first", "last"]

FORMAT: Final = 1
NAMES: Final = {
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
OF_THE_MODEL: Final = frozenset({"words", "dim"})  # with another model they are others, too
NO_CHECKSUMS: Final = " (the run noted times, no checksums: it cannot compare content)"
TIME_ALONE: Final = " (only a run begun with --check content tells whether its content did, too)"


@dataclass(frozen=True, slots=True)
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
    keeps: Keeps
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
        held = asdict(self) | {"inputs": [each._asdict() for each in self.inputs]}
        return json.dumps({"vocabtool_run": FORMAT, **held}, indent=1).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes) -> Plan:
        """Raises :class:`InvalidFile` for what :meth:`to_json` did not write."""
        held = json_parsing.parse(data)
        try:
            if held.pop("vocabtool_run") != FORMAT:
                raise InvalidFile(f"written by another vocabtool: wanted version {FORMAT}")
            held["inputs"] = tuple(Input(**each) for each in held["inputs"])
            held["keep"] = tuple(held["keep"])
            plan = cls(**held)
        except (TypeError, KeyError, AttributeError) as error:
            raise InvalidFile(f"not the description of a run: {error}") from error
        if not plan._is_of_its_types() or plan.to_json() != data:
            raise InvalidFile("not the description of a run: it was changed by hand")
        return plan

    def _is_of_its_types(self) -> bool:
        """Whether the values, which may come out of a file, are what their types promise."""
        optional = (self.words, self.source, self.field, self.id_field)
        return (
            all(type(each) is str for each in (self.encoder, *self.keep))
            and all(each is None or type(each) is str for each in optional)
            and all(type(each) is bool for each in (self.text, self.exact))
            and all(map(is_count, (self.dim, self.shard_rows, self.batch_size)))
            and self.format in (None, *get_args(Format))
            and self.keeps in get_args(Keeps)
            and self.dtype in get_args(Dtype)
            and self.check in get_args(Check)
            and all(each.is_of_its_types() for each in self.inputs)
        )

    def differences(self, now: Plan, *, batch_size_given: bool = True) -> tuple[str, ...]:
        """What another plan would do differently, a line each.

        Another model is told without what follows from it: its words, the length of its vectors,
        and the batch size where nobody gave one.
        """
        follows = OF_THE_MODEL if batch_size_given else OF_THE_MODEL | {"batch_size"}
        named = NAMES if self.encoder == now.encoder else NAMES.keys() - follows
        told = [
            self._difference(name, now)
            for name in NAMES
            if name in named and getattr(self, name) != getattr(now, name)
        ]
        if self.check == now.check:
            told += changes(self.inputs, now.inputs, TIME_ALONE)
        return tuple(told)

    def _difference(self, name: str, now: Plan) -> str:
        why = NO_CHECKSUMS if name == "check" and now.check == "content" else ""
        return f"{NAMES[name]}: was {self._shown(name)}, is {now._shown(name)}{why}"

    def _shown(self, name: str) -> str:
        """A value as its option has it: ``text`` is the opposite of --no-text."""
        value = getattr(self, name)
        return _shown(not value if name == "text" else value)


def _shown(value: Any) -> str:
    match value:
        case None | False:
            return "not given"
        case True:
            return "given"
        case str() if len(value) == len(hashlib.sha256().hexdigest()):
            return value[:16]
        case tuple():
            return ", ".join(map(str, value)) or "nothing"
    return str(value)
