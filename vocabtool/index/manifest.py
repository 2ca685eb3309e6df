"""One commit of an index as its database records it: what it was created as, and what is in it.

Paths are made of numbers and fingerprints, never taken from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, cast, get_args

from vocabtool.index.fields import Kind
from vocabtool.index.options import EXACT_BELOW, RECALL, Metric, StoredType
from vocabtool.index.sources import Source
from vocabtool.index.vectors.codes import CodeFacts
from vocabtool.keywords.options import Language
from vocabtool.search.settings import Calibration
from vocabtool.system.records import decode_record, encode_record

KIND: Final = "index"
FORMAT: Final = 4  # 1 to 3: folders of version 0.1.0, which have no database
ADVICE: Final = "index the documents again: `vocabtool index` as it was made, with --force"
MAX_DIMENSIONS: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """How much of a file is committed: bytes, and their CRC-32C."""

    size: int = 0
    crc32c: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What an index is created as; only ``memory`` may be another later.

    ``dim``: numbers in a vector. ``recall``: wanted of the approximate search, at ten.
    ``exact_below``: up to how many rows vectors are searched exactly. ``memory``: bytes that
    building may take; ``None``: as it comes. ``cutter``: fingerprint of the keyword leg's rule.
    ``model``: the path or name the encoder was opened by, ``kind``: what it is, ``options``: with
    which arguments; ``encoder``, ``words``, ``vocabulary``, ``weights``: fingerprints of encoder,
    word rule, vocabulary and the fitted weights of word vectors; ``rule``: the word rule by which
    the vocabulary alone tells what is known. ``None``: there is none.
    """

    dim: int
    metric: Metric
    dtype: StoredType
    language: Language
    cutter: str
    recall: float = RECALL
    exact_below: int = EXACT_BELOW
    memory: int | None = None
    model: str | None = None
    kind: str | None = None
    options: Mapping[str, str | bool] = field(default_factory=dict)
    encoder: str | None = None
    words: str | None = None
    vocabulary: str | None = None
    rule: str | None = None
    weights: str | None = None

    def with_memory(self, memory: int) -> Configuration:
        """The same with another bound. Raises ``ValueError`` for what is none."""
        check_numbers(self.dim, self.recall, self.exact_below, memory)
        return replace(self, memory=memory)


def check_numbers(dim: int, recall: float, exact_below: int, memory: int | None) -> None:
    """Raise ``ValueError`` for numbers of a caller that no index can have."""
    for name, number in {"dim": dim, "exact_below": exact_below, "memory": memory or 0}.items():
        if type(number) is not int:  # anything else would not come back out of JSON as it was
            raise ValueError(f"{name}: wanted a whole number, got {number!r}")
    if not 0 < dim <= MAX_DIMENSIONS:
        raise ValueError(f"dim: wanted 1 to {MAX_DIMENSIONS:,}, got {dim}")
    if not 0 < recall <= 1:
        raise ValueError(f"recall: wanted more than 0, at most 1, got {recall}")
    if exact_below < 0 or (memory is not None and memory < 1):
        raise ValueError(f"wanted no negative number, got {exact_below=}, {memory=}")


def check_choices(metric: str, dtype: str) -> tuple[Metric, StoredType]:
    """The choices as such. Raises ``ValueError`` for wrong ones."""
    for name, value, among in (("metric", metric, Metric), ("dtype", dtype, StoredType)):
        if value not in get_args(among):
            raise ValueError(f"{name} {value!r}, wanted one of {', '.join(get_args(among))}")
    return cast(Metric, metric), cast(StoredType, dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """How near chance brings vectors (``vectors/chance.py``), and how many rows told so."""

    similarity: float
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The last load of documents from files.

    ``plan``: what tells it from others; ``documents``: how many are in; ``finished``: whether that
    is all. ``alone``: whether every row of the index is of this load. ``synced``: whether what
    these FILEs no longer held was removed.
    """

    plan: str
    documents: int
    finished: bool
    alone: bool
    synced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A commit. ``index``: the id of the index, 32 hexadecimal digits.

    ``rows``: how many there are, deleted ones too; what lies at or past that number in any file is
    of no commit. ``words``, ``surfaces``: how many terms of each field all rows hold.
    ``deleted``: how many rows are deleted. ``fields``: the kind of each kept field, in the order of
    the columns of the database. ``vectors``: the file of them. ``codes``: how the approximate
    search was built, none while it is exact; ``coded``: how many rows it covers; ``code_commit``:
    which commit built it; ``code_files``: its files. ``keywords``: the CRC-32C of each file of the
    keyword leg, as ``keywords/tantivy_files.py`` notes them; ``model_files``: of each by which the
    model is known. ``calibration``: ``None`` until done. ``chance``: ``None`` in small indexes.
    ``sources``: the FILEs that documents came from; row numbers of the k-th say ``k + 1``.
    """

    index: str
    configuration: Configuration
    commit: int = 0
    rows: int = 0
    deleted: int = 0
    words: int = 0
    surfaces: int = 0
    fields: Mapping[str, Kind] = field(default_factory=dict)
    vectors: FileFacts = FileFacts()
    codes: CodeFacts | None = None
    coded: int = 0
    code_commit: int = 0
    code_files: Mapping[str, FileFacts] = field(default_factory=dict)
    keywords: Mapping[str, int] = field(default_factory=dict)
    model_files: Mapping[str, int] = field(default_factory=dict)
    calibration: Calibration | None = None
    load: Load | None = None
    chance: Chance | None = None
    sources: tuple[Source, ...] = ()

    @property
    def live(self) -> int:
        """How many documents there are."""
        return self.rows - self.deleted

    @property
    def code_name(self) -> str:
        """What the file of the approximate search is called."""
        return f"codes-{self.code_commit:06}.faiss"

    def encode(self) -> bytes:
        """As it is kept, with version and checksum; the same commit gives the same bytes."""
        return encode_record(self, kind=KIND, version=FORMAT)

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """Raises :class:`InvalidFile` for what :meth:`encode` did not write."""
        return decode_record(data, cls, kind=KIND, version=FORMAT, advice=ADVICE)
