"""The folder of an index: its generations, model files, and perhaps an index being built.

    .lock                     locked by the one process that writes
    vocabulary-….arrow, weights-….arrow, matrix-….npy, tokenizer-…
                              the model (``model.py``), named by content
    generation-000000/        the index; a compaction replaces it by generation-000001/
        index.db                  documents and the commit (``database.py``)
        vectors.bin               rows are appended, never changed
        codes-….faiss             compressed vectors for approximate search, one file per commit
        keywords/                 files of tantivy, which has its own commits
    generation-000001.part/   a compaction in progress
    .new-0123456789abcdef/    a new index in progress: a folder like this one

A new generation replaces the old one when its folder is renamed.

Deleted rows stay in tantivy, because otherwise readers would see a deletion before the commit. So
document frequencies include deleted rows.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from glob import escape, has_magic
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import (
    EXACT_BELOW,
    LANGUAGES,
    MAX_DIM,
    RECALL,
    Language,
    Metric,
    StoredType,
    list_options,
    option,
)
from vocabtool.documents.batch import Kind
from vocabtool.documents.options import ReadOptions
from vocabtool.encoders.encoder import EncoderOptions
from vocabtool.encoders.open_encoder import Model
from vocabtool.errors import FolderNotEmpty, InvalidFile, NotFound, VocabtoolError, reading
from vocabtool.index.database import NAME, Database, file_state
from vocabtool.index.vectors import CodeFacts, RawVectors, VectorCodes
from vocabtool.keywords.tantivy_index import META
from vocabtool.search.settings import Calibration
from vocabtool.system.arguments import check_options
from vocabtool.system.own_files import (
    compare,
    decode_record,
    encode_record,
    lock_folder,
    sync_folder,
)

if TYPE_CHECKING:
    from vocabtool.documents.files import Sources
    from vocabtool.documents.vectors import Given

KIND: Final = "index"
FORMAT: Final = 8
ADVICE: Final = "index the documents again: run the same `vocabtool index` command with --force"

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Source:
    """A recorded FILE: a file, a folder or a glob, with the ``name`` that the user passed.

    - ``at``: the working directory when the FILE was recorded, absolute.
    - ``beside``: the path from the index to this directory, in case both are moved together.
    """

    name: str
    at: str
    beside: str
    options: ReadOptions

    @property
    def path(self) -> str:
        """The normalized absolute path; equal for two names of the same FILE."""
        return os.path.normpath(self.from_anywhere)

    @property
    def from_anywhere(self) -> str:
        """The absolute path. In a glob, special characters of the working directory are escaped."""
        path = os.path.join(self.at, self.name)  # noqa: PTH118 - globs too
        if has_magic(self.name) and not os.path.exists(path):  # noqa: PTH110 - accepts any text
            return os.path.join(escape(self.at), self.name)  # noqa: PTH118 - a glob
        return path

    @classmethod
    def from_name(cls, name: str, index: Path, options: ReadOptions) -> Source:
        """Record a FILE that was named in the working directory."""
        at = os.getcwd()  # noqa: PTH109 - a string, for names of any bytes
        return cls(name, at, os.path.relpath(at, index), options)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    size: int = 0
    crc32c: int = 0


@list_options
@dataclass(frozen=True, kw_only=True)
class IndexOptions:
    """Options of a new index, besides those of its model.

    They cannot change later. Raises ``ValueError`` for an invalid value.
    """

    metric: Metric = option("cosine", "How the similarity of vectors is measured.")
    dtype: StoredType = option("float16", "Type of the stored vectors.")
    language: Language = option(
        "english",
        f"Language of stems and stop words: {', '.join(LANGUAGES)} (no stems or stop words).",
        metavar="NAME",
    )
    recall: float = option(RECALL, "recall@10 that approximate search must reach.")
    exact_below: int | None = option(
        None,
        "Number of documents up to which a search compares every vector.",
        if_none=f"{EXACT_BELOW:,} in a folder, 5,000 in PostgreSQL",
        least=0,
    )

    def __post_init__(self) -> None:
        check_options(self)
        if not 0 < self.recall <= 1:
            raise ValueError(f"recall must be above 0 and at most 1, got {self.recall}")
        object.__setattr__(self, "recall", float(self.recall))  # a number of NumPy is not stored


@dataclass(frozen=True)
class Opening(EncoderOptions):
    """The arguments of :meth:`Index.open`."""

    path: str | Path
    model: Model | None = None


@dataclass(frozen=True, kw_only=True)
class Creation(IndexOptions, Opening):
    """The arguments of :meth:`Index.create`."""

    sample: Iterable[str | bytes] | None = None
    force: bool = False
    in_place: bool = True
    build: str | None = None


@dataclass(frozen=True)
class CreationForSources(IndexOptions, EncoderOptions):
    """The arguments of :meth:`Index.create_for`."""

    path: str | Path
    sources: Sources
    model: Model | None = None
    _: KW_ONLY
    read: ReadOptions
    vectors: Given | None = None
    notify: Callable[[str], object] | None = None
    force: bool = False
    in_place: bool = True
    build: str | None = None


@dataclass(frozen=True, kw_only=True)
class Configuration(IndexOptions):
    """The settings of an index, as they are stored: its options, and what its model is.

    - ``cutter``: fingerprint of the keyword tokenizer.
    - ``encoder``, ``words``, ``vocabulary``, ``vectors``, ``weights``: fingerprints; ``None`` for a
      part that the index does not have.
    - ``rule``: the rule that splits texts into words; ``None`` if only the model can split them.
    """

    dim: int
    cutter: str
    exact_below: int = EXACT_BELOW
    model: str | None = None
    kind: str | None = None
    options: Mapping[str, str | bool | int] = field(default_factory=dict)
    encoder: str | None = None
    words: str | None = None
    vocabulary: str | None = None
    vectors: str | None = None
    rule: str | None = None
    weights: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, number in {"dim": self.dim, "exact_below": self.exact_below}.items():
            if type(number) is not int:  # other types would not survive JSON
                raise ValueError(f"{name} must be an integer, got {number!r}")
        if not 0 < self.dim <= MAX_DIM:
            raise ValueError(f"dim must be from 1 to {MAX_DIM:,}, got {self.dim}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """The similarity that unrelated vectors reach by chance, measured with ``rows`` rows."""

    similarity: float
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The last load of documents from files.

    - ``plan``: fingerprint of the load's input and settings.
    - ``documents``: number of documents read and committed.
    - ``alone``: whether every row of the index is from this load.
    - ``synced``: whether the load was a sync, and later no document was deleted by id.
    - ``began``: the time at which the load began, in ISO format.
    - ``content``: hash of the settings, and of the first ``begun`` files; documents of later files
      are not committed yet.
    """

    plan: str
    documents: int
    finished: bool
    alone: bool
    synced: bool
    began: str
    content: str = ""
    begun: int = 0

    def after_other_change(self, *, synced: bool = True) -> Load:
        """Adapt the record to a later change. ``synced``: false if documents were deleted by id."""
        return replace(self, alone=False, synced=self.synced and synced)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Description of a commit.

    - ``index``: the id of the index, 32 hexadecimal digits.
    - ``rows``: number of rows, including deleted rows. Further rows in a file are uncommitted.
    - ``words``: number of terms in the keyword field ``words``.
    - ``fields``: the kind of each kept field, in the order of the database columns.
    - ``codes``: how approximate search was built; ``None`` for exact search.
    - ``coded``: number of rows that the codes cover.
    - ``code_commit``: number of the commit that built the codes.
    - ``keywords``, ``model_files``: CRC-32C of each file.
    - ``chance``: the similarity that unrelated vectors reach; ``None`` in small indexes.
    - ``sources``: the FILEs of the documents; the database numbers them from 1.
    - ``searched_fields``: the fields that are joined into one text, with weights, such as
      ``title^2``; empty if a text is a single field.
    """

    index: str
    configuration: Configuration
    commit: int = 0
    rows: int = 0
    deleted: int = 0
    words: int = 0
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
    searched_fields: tuple[str, ...] = ()

    @property
    def live(self) -> int:
        """Number of documents: rows that are not deleted."""
        return self.rows - self.deleted

    @property
    def code_name(self) -> str:
        return f"codes-{self.code_commit:06}.faiss"

    def encode(self) -> bytes:
        return encode_record(self, kind=KIND, version=FORMAT)

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """Read a stored manifest. Raises :class:`InvalidFile` if it is damaged."""
        return decode_record(data, cls, kind=KIND, version=FORMAT, advice=ADVICE)


KEYWORDS: Final = "keywords"
VECTORS: Final = "vectors.bin"
GENERATION: Final = re.compile(r"generation-(\d{6,})")
MODEL_FILE: Final = re.compile(
    r"(vocabulary|weights)-[0-9a-f]{16}-[0-9a-f]{8}\.(arrow|parquet|json)"  # and of format 6
    r"|matrix-[0-9a-f]{16}-[0-9a-f]{8}\.npy"
    r"|tokenizer-[0-9a-f]{64}"
)
CODE_FILE: Final = re.compile(r"codes-\d+\.faiss|\.vocabtool-.*\.tmp")
BUILD: Final = re.compile(r"\.new-[0-9a-f]{16}")
# Files that a command leaves behind if it is killed while it creates an index.
BEGUN: Final = re.compile(
    rf"(?:\.server)?\.lock|{MODEL_FILE.pattern}|{GENERATION.pattern}\.part|{BUILD.pattern}|\.vocabtool-.*\.tmp"
)
# Such as postgresql://user@host/database?index=NAME
ADDRESS: Final = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
INDEX_AGAIN: Final = "index the same FILEs again, with the same options and --force"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of an index. ``is_deleted``: a mask of its deleted rows, shape (rows,)."""

    folder: Path
    database: Database
    manifest: Manifest
    is_deleted: NDArray[np.bool_]


def read_again(
    path: Path, read: Callable[[Commit], Result], earlier: Commit | None = None
) -> Result:
    """Call ``read`` with the last commit, and again if a writer removed its files meanwhile."""
    while True:
        before = _version(path)
        try:
            return read(read_commit(path, earlier))
        except (InvalidFile, NotFound, OSError):
            if _version(path) == before:
                raise


def _version(path: Path) -> tuple[object, ...]:
    """Return a value that differs after each commit and after each change of keyword files."""
    generation = current_generation(path)
    try:
        meta = (generation / KEYWORDS / META).stat()
        state = file_state(generation / NAME)
    except OSError:  # gone, perhaps with its generation
        return (generation.name,)
    return (generation.name, *state, meta.st_ino, meta.st_mtime_ns)


def read_commit(path: Path, earlier: Commit | None = None) -> Commit:
    """Read the last commit. Raises :class:`NotFound` and :class:`InvalidFile`.

    Without the lock of the index, call it by :func:`read_again`. If ``earlier`` is from the same
    file, both commits share its connection.
    """
    generation = current_generation(path)
    if not (generation / NAME).exists():
        what = f"contains no {NAME}, so it is not an index of this version"
        raise InvalidFile(f"{generation}: {what}; {ADVICE}")
    if earlier is not None and earlier.folder == generation and earlier.database.is_there:
        database = earlier.database
    else:
        database = Database(generation)
    with reading(str(database.file)):
        records = database.fetch("SELECT data, deleted FROM record")
        if len(records) != 1 or not all(isinstance(value, bytes) for value in records[0]):
            raise InvalidFile("contains no commit")
        data, bitmap = records[0]
        manifest = Manifest.decode(data)
        if len(bitmap) != -(-manifest.rows // 8):
            raise InvalidFile("damaged: the bitmap of deleted rows has the wrong length")
        bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), count=manifest.rows)
        if np.count_nonzero(bits) != manifest.deleted:
            raise InvalidFile(
                f"damaged: the bitmap of deleted rows must mark {manifest.deleted:,} rows"
            )
    return Commit(generation, database, manifest, bits.astype(np.bool_))


def refuse_another(commit: Commit, earlier: Commit) -> None:
    """Raise :class:`VocabtoolError` if two commits are of different indexes."""
    if commit.manifest.index != earlier.manifest.index:
        name = commit.folder.parent
        raise VocabtoolError(f"{name}: it was replaced by another index; open it again")


def read_manifest(path: Path) -> Manifest:
    """Read the manifest of the last commit. Raises :class:`NotFound` and :class:`InvalidFile`."""
    commit = read_again(path, lambda commit: commit)
    commit.database.close()
    return commit.manifest


def current_generation(path: Path) -> Path:
    """Return the newest folder ``generation-NNNNNN`` of an index. Raises :class:`NotFound`."""
    generations = _generations(path)
    if not generations:
        what = "no index" if path.is_dir() else "no such folder"
        raise NotFound(f"{path}: {what}; create one with `vocabtool index`")
    return generations[max(generations)]


def _generations(path: Path) -> dict[int, Path]:
    """Return the generations in a folder by their numbers; none if there is no such folder."""
    try:
        with reading(str(path)):
            names = [file.name for file in path.iterdir()]
    except NotFound as error:
        if isinstance(error.__cause__, PermissionError):
            raise
        return {}
    return {int(match[1]): path / name for name in names if (match := GENERATION.fullmatch(name))}


def is_index(path: Path) -> bool:
    """Whether a folder looks like an index, even if it is damaged or of another version."""
    return bool(_generations(path))


def raw_vectors(folder: Path, manifest: Manifest) -> RawVectors:
    configuration = manifest.configuration
    return RawVectors(
        folder / VECTORS, dim=configuration.dim, dtype=configuration.dtype, count=manifest.rows
    )


def open_codes(folder: Path, manifest: Manifest) -> VectorCodes:
    """Open the codes of a commit. Raises :class:`InvalidFile` if they are damaged."""
    for name, written in manifest.code_files.items():
        compare(folder / name, written.crc32c)
    file = folder / manifest.code_name
    try:
        return VectorCodes.read(file, manifest.coded)
    except RuntimeError as error:  # from FAISS; perhaps a compaction removed the file
        raise InvalidFile(f"FAISS cannot read it: {error}", file=str(file)) from error


def new_generation(path: Path) -> tuple[Path, Path]:
    """Create an empty folder for the next generation; return its present and final path."""
    number = 1 + max(_generations(path), default=-1)
    final = path / f"generation-{number:06}"
    unfinished = final.with_name(f"{final.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    return unfinished, final


def make_current(unfinished: Path, final: Path) -> None:
    """Rename a complete, flushed generation to ``final``, and remove all others."""
    for folder in (unfinished / KEYWORDS, unfinished, final.parent):
        sync_folder(folder)
    unfinished.rename(final)
    sync_folder(final.parent)
    _remove_generations(final)


def _remove_generations(but: Path) -> None:
    for generation in _generations(but.parent).values():
        if generation != but:
            shutil.rmtree(generation, ignore_errors=True)


def recover(path: Path, commit: Commit) -> None:
    """Remove what interrupted writers left: other generations, and files not in the manifest."""
    _remove_generations(commit.folder)
    for file in path.iterdir():
        is_unfinished = BEGUN.fullmatch(file.name) is not None
        is_model_file = MODEL_FILE.fullmatch(file.name) is not None
        if is_unfinished and file.suffix == ".part":
            shutil.rmtree(file, ignore_errors=True)
        elif (is_unfinished and file.suffix == ".tmp") or (
            is_model_file and file.name not in commit.manifest.model_files
        ):
            file.unlink(missing_ok=True)
    remove_old_codes(commit.folder, commit.manifest)


def remove_old_codes(generation: Path, manifest: Manifest) -> None:
    for file in generation.iterdir():
        if CODE_FILE.fullmatch(file.name) and file.name not in manifest.code_files:
            file.unlink(missing_ok=True)


def refuse_others(path: Path, *, allow_index: bool = False) -> None:
    """Raise :class:`FolderNotEmpty` if a folder has files other than of interrupted writers."""
    if not path.exists():
        return
    with reading(str(path)):
        others = sorted(file.name for file in path.iterdir() if not BEGUN.fullmatch(file.name))
    generations = [name for name in others if GENERATION.fullmatch(name)]
    if generations and not allow_index:
        raise FolderNotEmpty(
            f"{path}: already contains an index. Add to it (in Python: Index.open), start over "
            "with --force (force=True), or name a new folder"
        )
    if allow_index:
        others = [name for name in others if name not in generations]
    if others:
        raise FolderNotEmpty(f"{path}: not empty, it contains {others[0]!r}; name a new folder")


def is_address(path: str | os.PathLike[str]) -> bool:
    """Whether ``path`` is the address of an index; false if a file or folder has this name."""
    return (
        isinstance(path, str) and ADDRESS.match(path) is not None and not os.path.exists(path)  # noqa: PTH110 - accepts any length
    )


def home(path: Path) -> Path:
    """Return the index's folder: ``path``, or its parent if ``path`` is a ``.new-…`` folder."""
    return path.parent if BUILD.fullmatch(path.name) else path


def build_folder(path: Path, build: str) -> Path:
    """Return the folder in which to build an index that will replace the one in ``path``.

    The same name of a ``build`` gives the same folder, so that an interrupted build is resumed.
    Removes the folders of other builds: see :func:`remove_builds`.
    """
    own = path / f".new-{sha256(build.encode()).hexdigest()[:16]}"
    remove_builds(path, but=own)
    return own


def remove_builds(path: Path, but: Path | None = None) -> None:
    """Remove unfinished indexes. Raises :class:`FolderInUse` if a process still builds one."""
    for folder in path.iterdir():
        if BUILD.fullmatch(folder.name) and folder != but:
            with lock_folder(folder):
                shutil.rmtree(folder)


def put_in_place(build: Path) -> Path:
    """Replace the index whose folder contains ``build``; return the path of the index."""
    path = home(build)
    with lock_folder(path), lock_folder(build):
        manifest = read_manifest(build)
        for name in manifest.model_files:  # a file of the same name has the same content
            (build / name).replace(path / name)
        unfinished, final = new_generation(path)
        unfinished.rmdir()
        current_generation(build).rename(unfinished)
        make_current(unfinished, final)
        shutil.rmtree(build)
    return path


def advice(file: str) -> str | None:
    """Return how to repair a damaged file; ``None`` if it is not in an index."""
    path = Path(file)
    for inside in (path, *path.parents[:2]):  # the one whose folder is a generation
        if GENERATION.fullmatch(inside.parent.name):
            if inside.name.startswith(("codes-", KEYWORDS)):
                folder = quote(str(inside.parent.parent))
                return f"`vocabtool compact {folder}` rebuilds it; if that fails, {INDEX_AGAIN}"
            return f"it cannot be repaired: {INDEX_AGAIN}"
    if MODEL_FILE.fullmatch(path.name) and _generations(path.parent):
        return f"it cannot be repaired: {INDEX_AGAIN}"
    return None
