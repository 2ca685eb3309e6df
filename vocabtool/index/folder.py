"""The folder of an index: generations, the files of its model, and another index on its way.

    .lock                     held by the one process that writes
    vocabulary-….parquet, weights-….json, tokenizer-…    the model (``model.py``), named by content
    generation-000000/        until the next compaction; a number higher is the index from then on
        index.db                  documents and the commit (``database.py``)
        vectors.bin               rows are appended, never changed
        codes-….faiss                 of the approximate search, by the commit that wrote it
        keywords/                 tantivy's, which knows nothing of commits of ours
    generation-000001.part/   a compaction on its way
    .new-0123456789abcdef/    another index on its way: a folder like this one

The commit is a transaction of the database; every other file may be ahead of it and none is behind
it. Tantivy is never told of a deletion: it would be seen before the commit. So deleted rows, and
rows that a killed writer left until tantivy merges them away, count in the frequencies of words;
they are never found. A new generation, of a compaction or of an index that was built beside this
one, becomes the index by the renaming of its folder.

What a commit records of itself is the ``Manifest``. Paths are made of numbers and fingerprints,
never taken from there.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import Final, get_args

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import EXACT_BELOW, RECALL, Language, Metric, StoredType
from vocabtool.documents.batch import Kind
from vocabtool.errors import FolderNotEmpty, InvalidFile, NotFound, reading
from vocabtool.index.database import NAME, Database
from vocabtool.index.sources import Source
from vocabtool.index.vector_codes import CodeFacts
from vocabtool.search.settings import Calibration
from vocabtool.system.own_files import decode_record, encode_record, lock_folder, sync_folder

KIND: Final = "index"
FORMAT: Final = 4  # 1 to 3: folders of version 0.1.0, which have no database
ADVICE: Final = "index the documents again: run the same `vocabtool index` command with --force"
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

    def __post_init__(self) -> None:
        """Raises ``ValueError`` for what no index can be."""
        numbers = {"dim": self.dim, "exact_below": self.exact_below, "memory": self.memory or 0}
        for name, number in numbers.items():
            if type(number) is not int:  # anything else would not come back out of JSON as it was
                raise ValueError(f"{name} must be an integer, got {number!r}")
        if not 0 < self.dim <= MAX_DIMENSIONS:
            raise ValueError(f"dim must be from 1 to {MAX_DIMENSIONS:,}, got {self.dim}")
        if not 0 < self.recall <= 1:
            raise ValueError(f"recall must be above 0 and at most 1, got {self.recall}")
        if self.exact_below < 0 or (self.memory is not None and self.memory < 1):
            got = f"exact_below={self.exact_below}, memory={self.memory}"
            raise ValueError(f"exact_below must be at least 0 and memory at least 1, got {got}")
        for name, value, among in (
            ("metric", self.metric, Metric),
            ("dtype", self.dtype, StoredType),
        ):
            if value not in get_args(among):
                raise ValueError(
                    f"{name} must be one of {', '.join(get_args(among))}, got {value!r}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """How near chance brings vectors (``raw_vectors.py``), and how many rows told so."""

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
    keyword leg, as ``keywords/tantivy_index.py`` notes them; ``model_files``: of each by which the
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


KEYWORDS: Final = "keywords"
VECTORS: Final = "vectors.bin"
OLD_MANIFEST: Final = "manifest.json"  # of version 0.1.0, as the files that it names
OLD_MODEL_FILE: Final = re.compile(r"vocabulary-[0-9a-f]{16}\.parquet|weights-[0-9a-f]{16}\.json")
GENERATION: Final = re.compile(r"generation-(\d{6,})")
MODEL_FILE: Final = re.compile(
    r"vocabulary-[0-9a-f]{16}-[0-9a-f]{8}\.parquet|weights-[0-9a-f]{16}-[0-9a-f]{8}\.json"
    r"|tokenizer-[0-9a-f]{64}"
)
CODE_FILE: Final = re.compile(r"codes-\d+\.faiss|\.vocabtool-.*\.tmp")
BUILD: Final = re.compile(r"\.new-[0-9a-f]{16}")
# What a command that is killed while it makes a folder leaves behind.
BEGUN: Final = re.compile(
    rf"\.lock|{MODEL_FILE.pattern}|{GENERATION.pattern}\.part|{BUILD.pattern}|\.vocabtool-.*\.tmp"
)
AS_IT_WAS: Final = "index the same FILEs again, with the same options and --force"


@dataclass(frozen=True, slots=True)
class Commit:
    """The last commit when it was opened. ``folder``: of its generation.

    ``is_deleted``: shape (rows,).
    """

    folder: Path
    database: Database
    manifest: Manifest
    is_deleted: NDArray[np.bool_]


def read_commit(path: Path, earlier: Commit | None = None) -> Commit:
    """The last commit; of the generation of an ``earlier`` one by the same connection.

    Raises :class:`NotFound` where there is no index, :class:`InvalidFile`.
    """
    while True:
        generation = current_generation(path)
        try:
            if earlier is not None and earlier.folder == generation and earlier.database.is_there:
                database = earlier.database
            else:
                database = Database(generation)
            with reading(str(database.file)):
                found = database.fetch("SELECT data, deleted FROM record")
                if len(found) != 1 or not all(isinstance(each, bytes) for each in found[0]):
                    raise InvalidFile("contains no commit")
                data, bitmap = found[0]
                manifest = Manifest.decode(data)
                if len(bitmap) != -(-manifest.rows // 8):
                    raise InvalidFile("damaged: the bitmap of deleted rows has the wrong length")
                bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), count=manifest.rows)
                if np.count_nonzero(bits) != manifest.deleted:
                    raise InvalidFile(
                        f"damaged: the bitmap must have {manifest.deleted:,} deleted rows"
                    )
            return Commit(generation, database, manifest, bits.astype(np.bool_))
        except (NotFound, InvalidFile):
            if current_generation(path) == generation:
                raise


def read_manifest(path: Path) -> Manifest:
    """The manifest of the last commit; raises what :func:`read_commit` does."""
    commit = read_commit(path)
    commit.database.close()
    return commit.manifest


def current_generation(path: Path) -> Path:
    """The folder of the generation that is the index. Raises :class:`NotFound`."""
    found = _generations(path)
    if not found:
        what = "no index" if path.is_dir() else "no such folder"
        raise NotFound(f"{path}: {what}; create one with `vocabtool index`")
    newest = found[max(found)]
    if not (newest / NAME).exists() and (path / OLD_MANIFEST).exists():
        raise InvalidFile(
            f"written by vocabtool 0.1.0: `vocabtool upgrade {quote(str(path))}` carries its "
            f"documents and vectors over; or {AS_IT_WAS}",
            file=str(path / OLD_MANIFEST),
        )
    return newest


def _generations(path: Path) -> dict[int, Path]:
    try:
        names = [each.name for each in path.iterdir()]
    except OSError:
        return {}
    return {int(match[1]): path / name for name in names if (match := GENERATION.fullmatch(name))}


def is_index(path: Path) -> bool:
    """Whether a folder looks like an index, perhaps a damaged one, or one of version 0.1.0."""
    return bool(_generations(path))


def new_generation(path: Path) -> tuple[Path, Path]:
    """An empty folder to write the next generation in, and the name it is to have then."""
    number = 1 + max(_generations(path), default=-1)
    final = path / f"generation-{number:06}"
    part = final.with_name(f"{final.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    return part, final


def make_current(part: Path, final: Path) -> None:
    """Let a generation that is whole and flushed be the index from now on."""
    for folder in (part / KEYWORDS, part, final.parent):
        sync_folder(folder)
    part.rename(final)
    sync_folder(final.parent)
    _remove_generations(final)


def _remove_generations(but: Path) -> None:
    for generation in _generations(but.parent).values():
        if generation != but:
            shutil.rmtree(generation, ignore_errors=True)


def recover(path: Path, commit: Commit) -> None:
    """Remove what no commit holds: other generations, and files beside those of the manifest.

    Rows behind the committed ones inside files are cut off by who opens these to write.
    """
    _remove_generations(commit.folder)
    for each in path.iterdir():
        is_ours = MODEL_FILE.fullmatch(each.name) and each.name not in commit.manifest.model_files
        is_old = each.name == OLD_MANIFEST or OLD_MODEL_FILE.fullmatch(each.name)
        if each.suffix == ".part" and BEGUN.fullmatch(each.name):
            shutil.rmtree(each, ignore_errors=True)
        elif is_ours or is_old or (each.suffix == ".tmp" and BEGUN.fullmatch(each.name)):
            each.unlink(missing_ok=True)
    for each in commit.folder.iterdir():
        if CODE_FILE.fullmatch(each.name) and each.name not in commit.manifest.code_files:
            each.unlink(missing_ok=True)


def refuse_others(path: Path, *, allow_index: bool = False) -> None:
    """Raise :class:`FolderNotEmpty` for what holds more than an index that was begun.

    ``allow_index``: or an index.
    """
    if not path.exists():
        return
    with reading(str(path)):
        others = sorted(each.name for each in path.iterdir() if not BEGUN.fullmatch(each.name))
    generations = [name for name in others if GENERATION.fullmatch(name)]
    if generations and not allow_index:
        raise FolderNotEmpty(
            f"{path}: already contains an index. Add to it (in Python: Index.open), start over "
            "with --force (force=True), or name a new folder"
        )
    if allow_index:
        ours = {*generations, OLD_MANIFEST} if generations else set()
        others = [
            name for name in others if name not in ours and not OLD_MODEL_FILE.fullmatch(name)
        ]
    if others:
        raise FolderNotEmpty(f"{path}: not empty, it contains {others[0]!r}; name a new folder")


@contextmanager
def removed_if_empty(path: Path) -> Iterator[None]:
    """Remove the index that the block made where it fails before a document is in it."""
    new = not path.exists()
    try:
        yield
    except BaseException:
        if new and is_index(path) and not read_manifest(path).rows:
            shutil.rmtree(path)
        raise


def home(path: Path) -> Path:
    """The folder that an index is for, also where it is built beside the one that is there."""
    return path.parent if BUILD.fullmatch(path.name) else path


def build_folder(path: Path, told: str) -> Path:
    """Where an index is built that takes the place of the one in ``path``.

    ``told``: what tells this build from others; what others left is removed. Raises
    :class:`FolderInUse` where one is at work.
    """
    own = path / f".new-{sha256(told.encode()).hexdigest()[:16]}"
    for each in path.iterdir():
        if BUILD.fullmatch(each.name) and each != own:
            remove_build(each)
    return own


def remove_build(build: Path) -> None:
    """Remove what was built, wholly or not. Raises :class:`FolderInUse`."""
    if build.is_dir():
        with lock_folder(build):
            shutil.rmtree(build)


def put_in_place(build: Path) -> Path:
    """Let an index that was built beside another one take its place, which is returned.

    Until one folder is renamed that is the old index, and writers may change it; readers that have
    it open go on. Raises :class:`FolderInUse` where either is written to.
    """
    path = home(build)
    with lock_folder(path), lock_folder(build):
        manifest = read_manifest(build)
        for name in manifest.model_files:  # what is there of that name has the same bytes
            (build / name).replace(path / name)
        part, final = new_generation(path)
        part.rmdir()
        current_generation(build).rename(part)
        make_current(part, final)
        shutil.rmtree(build)
    return path


def advice(file: str) -> str | None:
    """What to do about a damaged file, by its place alone; ``None``: it is none of an index.

    Codes and keywords follow from vectors and documents; nothing else is there twice.
    """
    path = Path(file)
    for inside in (path, *path.parents[:2]):
        if GENERATION.fullmatch(inside.parent.name):
            if inside.name.startswith(("codes-", KEYWORDS)):
                folder = quote(str(inside.parent.parent))
                return f"`vocabtool compact {folder}` rebuilds it; if that fails, {AS_IT_WAS}"
            return f"it cannot be repaired: {AS_IT_WAS}"
    if MODEL_FILE.fullmatch(path.name) and _generations(path.parent):
        return f"it cannot be repaired: {AS_IT_WAS}"
    return None
