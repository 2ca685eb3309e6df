"""An index in PostgreSQL and its writers; run as a program, a loader that others kill.

The loader prints what it is about to commit, and that it did: ``B {"id": text}``, ``C {...}``, one
line each. A text of ``null`` deletes the document.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from vocabtool import Document
from vocabtool.embedding.shards import as_utf8
from vocabtool.index.documents import batches_of
from vocabtool.index.folder import Configuration, Manifest
from vocabtool.index.postgres.database import Connections, run
from vocabtool.index.postgres.store import recount
from vocabtool.index.postgres.transaction import PostgresTransaction
from vocabtool.index.raw_vectors import prepare
from vocabtool.keywords.cutter import Cutter

DIM: Final = 4
IDS: Final = 60  # of each loader
BATCH: Final = 8
Texts = Mapping[str, str | None]


def new_index(address: str, name: str = "test") -> Connections:
    """An empty index in a new database, which gets the extension."""
    connections = Connections(address)
    configuration = Configuration(
        dim=DIM, metric="cosine", dtype="float16", language="english", cutter="test"
    )
    with connections.connect() as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
    connections.create_index(name, Manifest(index="0" * 32, configuration=configuration), {})
    return connections


def open_writer(connections: Connections, name: str = "test") -> PostgresTransaction:
    return PostgresTransaction(connections, connections.find_index(name), Cutter("english"))


def put(writer: PostgresTransaction, documents: Sequence[Document], source: int = 0) -> None:
    """Add documents, in place of those with the same ids; the vector is from the text's length."""
    for batch in batches_of(documents):
        vectors = np.array([[len(str(text)), 1, 2, 3] for text in batch.texts], np.float32)
        ids, texts = as_utf8(batch.id_array())[0], as_utf8(batch.texts)[0]
        writer.delete(np.array([*writer.find_existing(ids.to_pylist()).values()], np.int64))
        utf8 = replace(batch, ids=ids, texts=texts)
        writer.append(utf8, prepare(vectors, "cosine"), [source] * len(utf8))


def delete(writer: PostgresTransaction, ids: Sequence[str]) -> None:
    writer.delete(np.array([*writer.find_existing(ids).values()], np.int64))


def commit(writer: PostgresTransaction, codes: bool = False) -> None:
    manifest = replace(writer.manifest, commit=writer.manifest.commit + 1)
    writer.commit(manifest, codes=codes)


def texts_in(connections: Connections, name: str = "test") -> dict[str, str]:
    """All documents; fails if an id is there twice, or a statistic differs from a recount."""
    with connections.connect() as connection:
        n = connections.find_index(name)
        assert recount(connection, n) == []
        found = run(connection, f"SELECT id, text FROM documents_{n}").fetchall()
    assert len({id_ for id_, _ in found}) == len(found)
    return dict(found)


def load(address: str, owner: str, batches: int) -> None:
    draw = random.Random(owner)
    writer = open_writer(Connections(address))
    for number in range(batches):
        ids = draw.sample(range(IDS), BATCH)
        changed: dict[str, str | None] = {
            f"{owner}-{at}": f"amber {owner} birch{number} SKU-{at}-{number} word{draw.random()}"
            for at in ids
        }
        changed |= dict.fromkeys([f"{owner}-{at}" for at in ids[: BATCH // 4]])
        sys.stdout.write(f"B {json.dumps(changed)}\n")
        sys.stdout.flush()
        put(writer, [Document(id_, text) for id_, text in changed.items() if text is not None])
        delete(writer, [id_ for id_, text in changed.items() if text is None])
        commit(writer)
        sys.stdout.write(f"C {json.dumps(changed)}\n")
        sys.stdout.flush()
    writer.close()


if __name__ == "__main__":
    load(sys.argv[1], sys.argv[2], int(sys.argv[3]))
