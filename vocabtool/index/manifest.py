"""One commit of an index as its manifest tells of it: a JSON file that is renamed last.

Everything that a reader looks at is named here by a number, with its size and checksum; paths are
made of these numbers, never taken from the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from math import isfinite
from typing import Any, Final, NamedTuple

from vocabtool.errors import InvalidFile
from vocabtool.index import document_files, row_hashes, sources
from vocabtool.index.configuration import Configuration
from vocabtool.index.deletions import NAME as DELETED
from vocabtool.index.deletions import DeletedFile
from vocabtool.index.document_files import DocumentFile
from vocabtool.index.sources import Source, SourcesFile
from vocabtool.index.vector_file import NAME as VECTORS
from vocabtool.index.vector_file import Written
from vocabtool.index.vectors.codes import MAX_LISTS, CodeFacts
from vocabtool.search.calibration import Calibration

FORMAT: Final = 3  # 1, 2: no checksums of all files, hashes of rows, FILEs that they came from
NUMBERS: Final = (
    *("commit", "generation", "rows", "words", "surfaces"),
    *("coded", "code_commit"),
)
NOT_OURS: Final = "not a manifest of `vocabtool index`"
HEX: Final = re.compile(r"[0-9a-f]{32}")
KEYWORD_FILE: Final = re.compile(r"meta\.json|[0-9a-f]{32}\.[a-z0-9.]{1,32}")
MOST: Final = 1 << 62
NONE_WRITTEN: Final = Written(0, 0)


class Chance(NamedTuple):
    """How near chance brings vectors (``vectors/chance.py``), and how many rows told so."""

    similarity: float
    rows: int


class Load(NamedTuple):
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


@dataclass(frozen=True, slots=True)
class Manifest:
    """A commit. ``index``: what this index is told from others by, 32 hexadecimal digits.

    ``rows``: how many there are, deleted ones too; what lies at or past that number in any file is
    of no commit. ``words``, ``surfaces``: how many terms of each field all rows hold.
    ``codes``: how the approximate search was built, none while it is exact; ``coded``: how many
    rows it covers; ``code_commit``: which commit wrote it; ``code_files``: size and checksum of its
    files, by name. ``keywords``: the CRC-32C of each file of the keyword leg, as
    ``keywords/tantivy_files.py`` notes them; ``model_files``: of each by which the model is known.
    ``calibration``: ``None`` until done. ``chance``: ``None`` in small indexes. ``sources``: the
    FILEs that documents came from, ``row_sources``: which rows of which; ``None``: no row of any.
    """

    index: str
    configuration: Configuration
    commit: int = 0
    generation: int = 0
    rows: int = 0
    deleted: DeletedFile | None = None
    words: int = 0
    surfaces: int = 0
    documents: tuple[DocumentFile, ...] = ()
    vectors: Written = NONE_WRITTEN
    hashes: Written = NONE_WRITTEN
    codes: CodeFacts | None = None
    coded: int = 0
    code_commit: int = 0
    code_files: Mapping[str, Written] = field(default_factory=dict)
    keywords: Mapping[str, int] = field(default_factory=dict)
    model_files: Mapping[str, int] = field(default_factory=dict)
    calibration: Calibration | None = None
    load: Load | None = None
    chance: Chance | None = None
    sources: tuple[Source, ...] = ()
    row_sources: SourcesFile | None = None

    @property
    def live(self) -> int:
        """How many documents there are."""
        return self.rows - (self.deleted.rows if self.deleted else 0)

    @property
    def code_name(self) -> str:
        """What the file of the approximate search is called."""
        return f"codes-{self.code_commit:06}.faiss"

    def files(self) -> frozenset[str]:
        """The names of the files in its generation's folder, but for the keyword leg's."""
        names = [each.name for each in self.documents]
        if self.deleted is not None:
            names.append(DELETED.format(self.deleted.commit))
        if self.row_sources is not None:
            names.append(sources.NAME.format(self.row_sources.commit))
        return frozenset((*names, *self.code_files, VECTORS, row_hashes.NAME))

    def to_json(self) -> bytes:
        """As it is kept, with a checksum; the same commit gives the same bytes."""
        held = {"vocabtool_index": FORMAT, **_plain(self)}
        return json.dumps({**held, "crc32c": _crc(held)}, indent=1).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes) -> Manifest:
        """Raises :class:`InvalidFile` for what :meth:`to_json` did not write."""
        try:
            held = json.loads(data)
            crc = held.pop("crc32c")
            version = held.pop("vocabtool_index")
            if version != FORMAT:
                raise InvalidFile(
                    f"written by another vocabtool: version {version!r}, wanted {FORMAT}; index "
                    "the documents again: `vocabtool index` as it was made, with --force"
                )
            manifest = _manifest(held)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            what = error.what if isinstance(error, InvalidFile) else str(error)
            raise InvalidFile(f"{NOT_OURS}: {what}") from error
        if manifest.to_json() != data or type(crc) is not int:
            raise InvalidFile(f"{NOT_OURS}, or damaged: its checksum does not fit")
        return manifest


def _plain(manifest: Manifest) -> dict[str, Any]:
    held: dict[str, Any] = {}
    for each in fields(Manifest):
        held[each.name] = getattr(manifest, each.name)
    for name in ("configuration", "codes", "calibration"):
        held[name] = None if held[name] is None else asdict(held[name])
    return held


def _crc(held: Mapping[str, Any]) -> int:
    import google_crc32c

    return int(google_crc32c.value(json.dumps(held).encode()))


def _manifest(held: dict[str, Any]) -> Manifest:
    told = {each.name: held.pop(each.name) for each in fields(Manifest)}
    if held:
        raise InvalidFile(f"{next(iter(held))!r} is in it")
    numbers = [told[name] for name in NUMBERS]
    manifest = Manifest(
        **told
        | {
            "configuration": Configuration.of(told["configuration"]),
            "deleted": DeletedFile(*told["deleted"]) if told["deleted"] else None,
            "documents": tuple(DocumentFile(*each) for each in told["documents"]),
            "vectors": Written(*told["vectors"]),
            "hashes": Written(*told["hashes"]),
            "codes": CodeFacts(**told["codes"]) if told["codes"] else None,
            "code_files": {name: Written(*each) for name, each in told["code_files"].items()},
            "calibration": Calibration.of(told["calibration"]) if told["calibration"] else None,
            "load": _load(told["load"]) if told["load"] else None,
            "chance": _chance(told["chance"]) if told["chance"] else None,
            "sources": tuple(Source.of(each) for each in told["sources"]),
            "row_sources": SourcesFile(*told["row_sources"]) if told["row_sources"] else None,
        }
    )
    numbers += [*(manifest.deleted or ()), *manifest.vectors, *manifest.hashes]
    numbers += [*(manifest.row_sources or ())]
    numbers += [number for each in manifest.code_files.values() for number in each]
    numbers += [*manifest.keywords.values(), *manifest.model_files.values()]
    if not all(type(number) is int and 0 <= number < MOST for number in numbers):
        raise InvalidFile("a number is not whole, or out of range")
    _check(manifest)
    return manifest


def _load(told: list[Any]) -> Load:
    load = Load(*told)
    if tuple(map(type, load)) != (str, int, bool, bool, bool) or not 0 <= load.documents < MOST:
        raise InvalidFile("the entry 'load' does not describe a load")
    return load


def _chance(told: list[Any]) -> Chance:
    chance = Chance(*told)
    similarity, rows = chance
    if type(similarity) is not float or not isfinite(similarity) or type(rows) is not int:
        raise InvalidFile("the entry 'chance' does not hold two numbers")
    return chance


def _check(manifest: Manifest) -> None:
    """What the numbers promise together."""
    if not HEX.fullmatch(manifest.index):
        raise InvalidFile("the index is not named by 32 digits")
    if not all(map(KEYWORD_FILE.fullmatch, manifest.keywords)):
        raise InvalidFile("a keyword file of another name")
    if manifest.model_files.keys() != manifest.configuration.model_files:
        raise InvalidFile("files of the model of other names")
    if manifest.vectors.size != manifest.rows * manifest.configuration.vector_bytes:
        raise InvalidFile(f"{manifest.rows:,} rows, and {manifest.vectors.size:,} bytes of vectors")
    if manifest.hashes.size != manifest.rows * row_hashes.ROW_BYTES:
        raise InvalidFile(f"{manifest.rows:,} rows, and {manifest.hashes.size:,} bytes of hashes")
    document_files.check(manifest.documents)
    if sum(each.rows for each in manifest.documents) != manifest.rows:
        raise InvalidFile(f"{manifest.rows:,} rows, and other documents")
    if manifest.coded > manifest.rows or (manifest.coded > 0) != (manifest.codes is not None):
        raise InvalidFile(f"{manifest.rows:,} rows, and codes of {manifest.coded:,}")
    if {*manifest.code_files} != ({manifest.code_name} if manifest.coded else set()):
        raise InvalidFile("files of codes of other names")
    if manifest.codes is not None and not _are_facts(manifest.codes):
        raise InvalidFile("the entry 'codes' does not describe codes")
    if manifest.codes is not None and manifest.codes.dim != manifest.configuration.dim:
        raise InvalidFile("codes of other vectors")
    if manifest.live < 0:
        raise InvalidFile("more rows are deleted than there are")


def _are_facts(codes: CodeFacts) -> bool:
    """Whether these came out of a build: numbers above nothing, and shares."""
    counts = (codes.lists, codes.probes, codes.candidates, codes.sample, codes.coded)
    numbers = (*counts, codes.queries, codes.seed)
    shares = (codes.recall_asked, codes.recall)
    return (
        all(type(number) is int and 0 <= number < MOST for number in numbers)
        and min(counts) > 0
        and codes.lists <= MAX_LISTS
        and all(type(share) is float and 0 <= share <= 1 for share in shares)
        and type(codes.seconds) is float
        and type(codes.given) is bool
    )
