"""The folder of an index, and what makes a commit of files that are written one after the other.

    manifest.json             the commit: renamed last, it names all that is below by number
    vocabulary-….parquet, weights-….json, tokenizer-SHA256    the model (``belonging.py``)
    .lock                     held by the one process that writes
    .new-0123456789abcdef/    another index on its way (``replacing.py``)
    generation-000000/        until the next compaction:
        vectors.bin               rows are appended; never changed
        documents-….arrow         rows of one commit or of several; never changed
        codes-….faiss                 of the approximate search
        deleted-000007.bits       of one commit
        hashes.bin                of what rows hold; rows are appended
        sources-000007.bin        which row is of which FILE, of one commit
        keywords/                 tantivy's, which knows nothing of commits of ours

Rows are numbered once, in the order of adding, and never again within a generation. A commit puts
its rows into every file, flushes each and their names, and renames the manifest, which holds the
number of rows and names the bitmap of deleted ones. So every file may be ahead of the manifest and
none is behind it:

- A reader takes the rows below the manifest's number that are not in its bitmap, whatever else it
  finds. Tantivy is never told of a deletion: it would be seen before the commit.
- A writer that is killed leaves rows at or past the number. The next writer's first act is to
  remove them from all files (:func:`recover`), so that their numbers are free.
- Deleted rows, and rows that a killed writer left until tantivy merges them away, count in the
  frequencies of words, so in BM25's weights; they are never found.
- Compaction writes the documents that are left into a new generation; the rename makes it the one.
- A reader keeps the files of its commit open. One that finds a file gone while it opens a commit
  reads the manifest again: there is a newer one.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from vocabtool.errors import FolderNotEmpty, InvalidFile, NotFound, reading
from vocabtool.index.manifest import Manifest
from vocabtool.system.whole_file import sync_folder, whole_file

MANIFEST: Final = "manifest.json"
GENERATION: Final = "generation-{:06}"
GENERATIONS: Final = re.compile(r"generation-(\d{6,})")
KEYWORDS: Final = "keywords"
OURS: Final = re.compile(
    r"documents(-\d+-\d+\.arrow|\.part)|codes-\d+\.faiss|deleted-\d+\.bits|sources-\d+\.bin"
    r"|\.vocabtool-.*\.tmp"
)
MOST_BYTES: Final = 1 << 28  # of a manifest
BUILD: Final = re.compile(r"\.new-[0-9a-f]{16}")  # another index on its way
OF_A_MODEL: Final = ("vocabulary-", "weights-", "tokenizer-")
# What a command that is killed while it makes a folder leaves behind.
BEGUN: Final = re.compile(
    r"\.lock|vocabulary-[0-9a-f]{16}\.parquet|weights-[0-9a-f]{16}\.json|tokenizer-[0-9a-f]{64}"
    rf"|generation-\d{{6}}|{BUILD.pattern}|\.vocabtool-.*\.tmp"
)


def read_manifest(path: Path) -> Manifest:
    """The last commit. Raises :class:`NotFound` where there is no index, :class:`InvalidFile`."""
    file = path / MANIFEST
    if not file.is_file():
        what = "no index" if path.is_dir() else "no such folder"
        raise NotFound(f"{path}: {what}: `vocabtool index` makes one")
    with reading(str(file)):
        if file.stat().st_size > MOST_BYTES:
            raise InvalidFile(f"more than {MOST_BYTES:,} bytes")
        return Manifest.from_json(file.read_bytes())


def commit(path: Path, manifest: Manifest) -> None:
    """Make a commit: from now on, and even if the power fails, it is the one.

    The files it names are flushed by who wrote them; their names are flushed here.
    """
    sync_folder(generation(path, manifest.generation))
    sync_folder(path)
    with whole_file(path / MANIFEST) as file:
        file.write(manifest.to_json())
    sync_folder(path)


def generation(path: Path, number: int) -> Path:
    """The folder of a generation."""
    return path / GENERATION.format(number)


def refuse_others(path: Path, *, allow_index: bool = False) -> None:
    """Raise :class:`FolderNotEmpty` for what holds more than an index that was begun.

    ``allow_index``: or an index.
    """
    if not path.exists():
        return
    with reading(str(path)):
        others = sorted(each.name for each in path.iterdir() if not BEGUN.fullmatch(each.name))
    if allow_index:
        others = [name for name in others if name != MANIFEST and not GENERATIONS.fullmatch(name)]
    if MANIFEST in others:
        raise FolderNotEmpty(
            f"{path}: holds an index already: the same command adds to it once it is there (in "
            "Python Index.open), --force (force=True) starts over; or name a new folder"
        )
    if others:
        raise FolderNotEmpty(f"{path}: not empty, it holds {others[0]!r}: name a new folder")


def recover(path: Path, manifest: Manifest) -> None:
    """Remove what no commit holds: other generations, and files beside those of the manifest.

    Rows behind the committed ones inside files are cut off by who opens these to write.
    """
    remove_generations(path, but=manifest.generation)
    for each in path.iterdir():
        of_a_model = each.name.startswith(OF_A_MODEL)
        if BEGUN.fullmatch(each.name) and (
            each.suffix == ".tmp"
            or (of_a_model and each.name not in manifest.configuration.model_files)
        ):
            each.unlink(missing_ok=True)
    current, held = generation(path, manifest.generation), manifest.files()
    for each in current.iterdir() if current.is_dir() else ():
        if OURS.fullmatch(each.name) and each.name not in held:
            each.unlink(missing_ok=True)


def is_index(path: Path) -> bool:
    """Whether a folder looks like an index: others have manifests, too."""
    return (path / MANIFEST).is_file() and any(path.glob("generation-*"))


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


def remove_generations(path: Path, but: int) -> None:
    """Remove the files of all generations but one."""
    for each in path.iterdir():
        if GENERATIONS.fullmatch(each.name) and each != generation(path, but):
            shutil.rmtree(each, ignore_errors=True)  # a name is free again: numbers go on


def home(path: Path) -> Path:
    """The folder that an index is for, also where it is built beside the one that is there."""
    return path.parent if BUILD.fullmatch(path.name) else path
