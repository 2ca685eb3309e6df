"""An index that changes by a rule, so that its content after each commit can be told by anyone.

Run as a module it changes an index until it is killed (``write``), or reads one and compares what
it finds with the rule (``read``).
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool import Document, Index

Vectors = NDArray[np.float32]
DIM: Final = 16
EXACT_BELOW: Final = 300  # rows: so that codes are built and appended to, too
WORDS: Final = ["amber", "birch", "cedar", "delta", "ember"]
Content = Mapping[int, int]  # of each document the version that is there


class Change(NamedTuple):
    """One commit: what is added or written anew (number to version), what is deleted."""

    kind: str
    written: dict[int, int]
    deleted: list[int]


def change(seed: int, commit: int, before: Content) -> Change:
    """The change that leads to a commit from the content of the one before."""
    draw = random.Random(f"{seed} {commit}")
    new = max(before, default=-1) + 1
    kind = draw.choices(["add", "update", "delete", "compact"], [6, 2, 2, 1])[0]
    if kind == "add" or len(before) < 50:
        return Change("add", {new + each: commit for each in range(draw.randint(1, 150))}, [])
    if kind == "update":
        chosen = draw.sample(sorted(before), 20)
        return Change(kind, dict.fromkeys([*chosen, new], commit), [])
    if kind == "delete":
        return Change(kind, {}, draw.sample(sorted(before), 25))
    return Change(kind, {}, [])


def contents(seed: int) -> Iterator[Content]:
    """What the index holds after commit 0, 1, 2, ..."""
    held: dict[int, int] = {}
    commit = 0
    while True:
        yield dict(held)
        commit += 1
        changed = change(seed, commit, held)
        held |= changed.written
        for number in changed.deleted:
            del held[number]


def content(seed: int, commit: int) -> Content:
    """What it holds after one commit."""
    return next(held for at, held in enumerate(contents(seed)) if at == commit)


def document(number: int, version: int) -> Document:
    """A document; its text holds a word of its own."""
    text = f"{WORDS[number % 5]} {WORDS[version % 5]} only{number:05}v{version}"
    return Document(f"d{number}", text, {"version": version})


def vector(number: int, version: int) -> Vectors:
    """Its vector: shape (DIM,)."""
    draw = np.random.default_rng([number, version])
    return draw.standard_normal(DIM).astype(np.float32)


def apply(index: Index, changed: Change) -> None:
    """Make one commit."""
    if changed.kind == "compact":
        index.compact()
        return
    with index.writer() as writer:
        if changed.written:
            pairs = changed.written.items()
            documents = [document(*pair) for pair in pairs]
            writer.update(documents, np.stack([vector(*pair) for pair in pairs]))
        writer.delete(f"d{number}" for number in changed.deleted)


def differs(snapshot: Any, held: Content, draw: random.Random) -> str | None:
    """How a commit differs from what it is to hold; ``None``: it does not.

    All documents by their ids and texts, in both legs by number, and three of them by search.
    """
    stored = {
        each.id: each.text for each in snapshot.fetch_documents(np.flatnonzero(snapshot.live))
    }
    wanted = {f"d{number}": document(number, version).text for number, version in held.items()}
    if stored != wanted:
        return f"holds {len(stored)} documents: {stored.items() ^ wanted.items()}"
    keyword = {
        id_
        for row, id_ in snapshot.keywords.rows_and_ids(snapshot.rows)
        if row < len(snapshot.live) and snapshot.live[row]
    }
    if keyword != set(wanted):
        return f"the keyword leg: {keyword ^ set(wanted)}"
    for number in draw.sample(sorted(held), min(3, len(held))):
        found = snapshot.ids(
            snapshot.vectors.search(unit(vector(number, held[number])), 1, snapshot.live).rows
        )
        if found != [f"d{number}"]:
            return f"the vector leg finds {found} for d{number}"
    return None


def unit(given: Vectors) -> Vectors:
    """Of length 1."""
    return np.asarray(given / np.linalg.norm(given), np.float32)


def write(folder: Path, seed: int, log: Path) -> None:
    """Change the index until someone kills us; each commit is acknowledged by a line."""
    index = Index.open(folder)
    with log.open("a", buffering=1) as lines:
        lines.write(f"at {index.manifest.commit}\n")
        while True:
            commit = index.manifest.commit + 1
            apply(index, change(seed, commit, content(seed, commit - 1)))
            assert index.manifest.commit == commit
            lines.write(f"done {commit}\n")


def read(folder: Path, seed: int, log: Path) -> None:
    """Read whatever commit is there, again and again, and compare it."""
    index = Index.open(folder)
    draw = random.Random(0)
    with log.open("a", buffering=1) as lines:
        while True:
            snapshot = index.snapshot()
            wrong = differs(snapshot, content(seed, snapshot.manifest.commit), draw)
            lines.write(f"commit {snapshot.manifest.commit} {wrong or 'right'}\n")
            index.refresh()


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](
        Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    )
