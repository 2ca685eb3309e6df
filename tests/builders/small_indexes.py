"""Indexes so small that a person can tell what they answer, and their answers as plain values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, get_args, get_type_hints

import numpy as np
import pytest
from numpy.typing import NDArray

from vocabtool import Document, Hits, Index, LoadReport, Settings, VocabtoolError
from vocabtool.index.database import DatabaseWriter
from vocabtool.index.folder import Manifest, read_commit
from vocabtool.index.generation import FolderSnapshot

Vectors = NDArray[np.float32]
FUSIONS: Final = get_args(get_type_hints(Settings)["fusion"])
DIM: Final = 4
WORDS: Final = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove")
QUERIES: Final = ("amber birch", "only00003", "cedar delta", "grove", "SKU-10005")
Scored = list[tuple[str, float]]


def temporary_folder() -> TemporaryDirectory[str]:
    """A folder for indexes.

    It may stay: right after an index is opened, a thread of tantivy may put a lock file into a
    folder that is being removed.
    """
    return TemporaryDirectory(ignore_cleanup_errors=True)


def document(number: int, version: int = 0) -> Document:
    """Document ``d3``: two common words, a word and a code of its own."""
    words = (WORDS[number % 7], WORDS[(number + version) % 5])
    text = f"{' '.join(words)} only{number:05} SKU-{10000 + number}"
    return Document(f"d{number}", text, {"n": number, "even": number % 2 == 0})


def documents(numbers: Iterable[int], version: int = 0) -> list[Document]:
    """Several of them."""
    return [document(number, version) for number in numbers]


def vector(number: int, version: int = 0) -> Vectors:
    """Its vector: small whole numbers, no two alike in direction."""
    draw = np.random.default_rng([number, version])
    return np.asarray(draw.integers(-50, 51, DIM) + np.array([0.5, 0, 0, 0]), np.float32)


def vectors(numbers: Iterable[int], version: int = 0) -> Vectors:
    """Several of them: shape (n, DIM)."""
    return np.stack([vector(number, version) for number in numbers])


def made(path: Path, numbers: Sequence[int] = range(10), **options: Any) -> Index:
    """An index of these documents with their vectors."""
    index = Index.create(path, dim=DIM, **options)
    with index.writer() as writer:
        writer.add(documents(numbers), vectors(numbers))
    return index


def write_rows(path: Path, rows: Iterable[Mapping[str, object]]) -> Path:
    """Write JSON lines."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def snapshot_of(index: Index) -> FolderSnapshot:
    """The commit that an index in a folder reads."""
    snapshot = index.snapshot()
    assert isinstance(snapshot, FolderSnapshot)
    return snapshot


def add(index: Index, given: Any, numbers: Any = None, **options: Any) -> int:
    """Add documents in one commit, with these vectors."""
    with index.writer() as writer:
        return writer.add(given, numbers, **options)


def delete(index: Index, given: str | Iterable[str]) -> int:
    """Delete documents in one commit."""
    with index.writer() as writer:
        return writer.delete(given)


def set_manifest(path: Path, manifest: Manifest) -> None:
    """Make a manifest that of the last commit, whatever it says; no row may be deleted."""
    database = DatabaseWriter(read_commit(path).folder)
    database.commit(manifest.encode(), bytes(-(-manifest.rows // 8)))
    database.close()


def scored(hits: Hits) -> Scored:
    """Ids and scores."""
    return [(hit.id, hit.score) for hit in hits]


def ids(hits: Hits) -> list[str]:
    """The ids alone."""
    return [hit.id for hit in hits]


def answers(index: Index, queries: Sequence[str] = QUERIES) -> dict[tuple[str, str], Scored]:
    """What every fusion answers to some queries, each with a vector of its own."""
    return {
        (text, fusion): scored(
            index.search(text, k=8, vector=vector(-at - 1 & 0xFF), fusion=fusion)
        )
        for at, text in enumerate(queries)
        for fusion in FUSIONS
    }


def contents(index: Index) -> dict[str, Document]:
    """All documents by id, as both legs find them."""
    snapshot = index.snapshot()
    found = {}
    for each in snapshot.fetch_documents(np.flatnonzero(snapshot.live)):
        found[each.id] = Document(each.id, each.text, dict(each.fields))
        assert index.get(each.id) == found[each.id]
    assert len(found) == len(index)
    return found


def texts(index: Index) -> dict[str, str]:
    """The texts by id, as both legs find them."""
    return {id_: each.text for id_, each in contents(index).items()}


def counts(report: LoadReport) -> tuple[int, int, int, int]:
    """What became of the documents."""
    return report.added, report.updated, report.unchanged, report.removed


def refused(act: Callable[[], object], name: str) -> None:
    """Something raises an error of ours that names a file."""
    with pytest.raises(VocabtoolError) as caught:
        act()
    assert name in str(caught.value)
