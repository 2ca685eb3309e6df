"""A PostgreSQL server from the package ``pgserver``, and its own hybrid search for ``stores.py``.

Hybrid search is that of pgvector's documentation: reciprocal rank fusion of its HNSW and full-text
search, in the same database. The keyword leg is tsvector, of documents with any word or with all
words of a query, or BM25 by ``pg_textsearch`` where the server has it.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from search_engines import TOP, Found, Vector, library
from search_engines.pgvector import FUSED, RANKED, written

EFFORTS: Final = (64, 100, 200, 400, 700, 1000)  # hnsw.ef_search, at least as long as a leg
ANY: Final = "own: any word"
ALL: Final = "own: all words"
BM25: Final = "own: pg_textsearch"
TABLE: Final = """
    create table documents (id text primary key, text text, vector vector({dim}),
        words tsvector generated always as (to_tsvector('english', text)) stored)"""
ALL_WORDS: Final = "websearch_to_tsquery('english', %(text)s)"
ANY_WORD: Final = f"cast(replace({ALL_WORDS}::text, ' & ', ' | ') as tsquery)"
SCORE: Final = "text <@> to_bm25query(%(text)s, 'documents_bm25')"
WORDED: Final = {
    ANY: RANKED.format(query=ANY_WORD),
    ALL: RANKED.format(query=ALL_WORDS),
    BM25: f"select id, row_number() over (order by {SCORE}) as place from documents"
    f" order by {SCORE} limit 50",
}


def settings() -> dict[str, str]:
    """Return the settings of the server, for the memory of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return {
        "shared_buffers": f"{memory // 4}MB",
        "effective_cache_size": f"{memory // 2}MB",
        "work_mem": "64MB",
        "maintenance_work_mem": f"{memory // 8}MB",
        "max_wal_size": "8GB",
        "random_page_cost": "1.1",
        "jit": "off",
    }


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Start a server with :func:`settings`, give its URI, stop it, and delete its files."""
    warnings.simplefilter("ignore")  # of the package, about folders of its own
    shutil.rmtree(folder, ignore_errors=True)
    for is_last in (False, True):  # shared buffers need a second start
        running = library("pgserver").get_server(folder)
        try:
            uri: str = running.get_uri()
            with library("psycopg").connect(uri, autocommit=True) as db:
                if is_last:
                    db.execute("create extension vector")
                for name, value in settings().items():
                    db.execute(f"alter system set {name} = '{value}'")
            if is_last:
                yield uri
        finally:
            running.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


class OwnHybrid:
    """A table with its indexes. Each thread has a connection of its own."""

    def __init__(self, uri: str, dim: int) -> None:
        self.uri, self.effort, self._held = uri, EFFORTS[0], threading.local()
        self._do("drop table if exists documents")
        self._do(TABLE.format(dim=dim))
        found = "select default_version from pg_available_extensions where name = 'pg_textsearch'"
        self.bm25_version = next(iter(self._do(found)), (None,))[0]
        self.ways = [way for way in WORDED if way != BM25 or self.bm25_version]

    def build(self, rows: Iterable[tuple[str, str, Vector]]) -> dict[str, tuple[float, int]]:
        """Load and index the rows; return seconds and bytes by way.

        Those of ``BM25`` are of its index alone, in the same table.
        """
        began = time.perf_counter()
        with self._db.cursor().copy("copy documents (id, text, vector) from stdin") as copy:
            for name, text, vector in rows:
                copy.write_row((name, text.replace("\0", " "), written(vector)))
        self._do("create index on documents using gin (words)")
        self._do("create index on documents using hnsw (vector vector_cosine_ops)")
        self._do("vacuum analyze documents")
        size = "select pg_total_relation_size('documents')"
        cost = time.perf_counter() - began, int(self._do(size)[0][0])
        costs = {ANY: cost, ALL: cost}
        if self.bm25_version:
            began = time.perf_counter()
            self._do("create extension if not exists pg_textsearch")
            self._do(
                "create index documents_bm25 on documents using bm25(text)"
                " with (text_config = 'english')"
            )
            (of_index,) = self._do("select pg_relation_size('documents_bm25')")[0]
            costs[BM25] = time.perf_counter() - began, int(of_index)
        return costs

    def tune(self, recall: Callable[[], float], wanted: float) -> float:
        """Set the smallest effort that reaches a recall, or the best one; return its recall."""
        found: dict[int, float] = {}
        for self.effort in EFFORTS:
            found[self.effort] = recall()
            if found[self.effort] >= wanted:
                break
        self.effort = max(found, key=lambda effort: found[effort])
        return found[self.effort]

    def nearest(self, text: str, vector: Vector) -> Found:
        sql = f"select id from documents order by vector <=> %s::vector limit {TOP}"
        return [id_ for (id_,) in self._do(sql, (written(vector),))]

    def search(self, way: str, text: str, vector: Vector) -> Found:
        sql = FUSED.format(worded=WORDED[way], top=TOP)
        return [row[0] for row in self._do(sql, {"text": text, "vector": written(vector)})]

    @property
    def _db(self) -> Any:
        """The connection of this thread, with the effort that is set."""
        held = self._held
        if getattr(held, "db", None) is None:
            held.db, held.effort = library("psycopg").connect(self.uri, autocommit=True), 0
        if held.effort != self.effort:
            held.effort = self.effort
            held.db.execute(f"set hnsw.ef_search = {self.effort}")
        return held.db

    def _do(self, sql: str, values: Any = None) -> list[tuple[Any, ...]]:
        cursor = self._db.execute(sql, values)
        return cursor.fetchall() if cursor.description else []
