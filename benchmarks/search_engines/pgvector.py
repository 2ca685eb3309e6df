"""PostgreSQL with pgvector (from the wheel ``pgserver``): IVFFlat, GIN, and RRF written in SQL.

Its HNSW stays below a recall of 0.95 on these hard queries. Its keyword ranking does not use
document frequencies. There are two variants: ``all words``, from pgvector's documentation, finds a
document only if it contains every word; ``any word`` must rank all documents with any of the words.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from coded_corpus import DIM
from search_corpus import Corpus

from search_engines import PROBES, TOP, Found, Hybrid, Vector, library, lists

SHARED: Final = "1GB"  # memory for shared buffers and for building
TABLE: Final = f"""
    create table documents (
        id int primary key, text text, vector vector({DIM}),
        words tsvector generated always as (to_tsvector('simple', text)) stored
    )"""
FUSED: Final = """
    with near as (
        select id, row_number() over (order by vector <=> %(vector)s::vector) as place
        from documents order by vector <=> %(vector)s::vector limit 50
    ), worded as (
        {worded}
    ), fused as (
        select id, sum(1.0 / (60 + place)) as score
        from (select * from near union all select * from worded) as legs
        group by id order by score desc limit {top}
    ) select id, text from fused join documents using (id) order by score desc"""
RANKED: Final = """
        select id, row_number() over (order by ts_rank_cd(words, query) desc) as place
        from documents, {query} as query where words @@ query
        order by ts_rank_cd(words, query) desc limit 50"""


class Driver:
    """A new PostgreSQL server."""

    efforts = PROBES

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        psycopg = library("psycopg")
        self.server = library("pgserver").get_server(folder)
        self._start_again_with_memory(psycopg)
        self.db: Any = psycopg.connect(self.server.get_uri(), autocommit=True)
        self.db.execute("create extension vector")
        self.version = self._one(
            "select current_setting('server_version') || ' + ' || extversion"
            " from pg_extension where extname = 'vector'"
        )
        self.index = "IVFFlat"

    def _start_again_with_memory(self, psycopg: Any) -> None:
        with psycopg.connect(self.server.get_uri(), autocommit=True) as db:
            db.execute(f"alter system set shared_buffers = '{SHARED}'")
        self.server.cleanup()
        self.server = library("pgserver").get_server(self.folder)

    def build(self, corpus: Corpus) -> None:
        number = lists(corpus.documents)
        self.db.execute(TABLE)
        with self.db.cursor().copy("copy documents (id, text, vector) from stdin") as copy:
            for block in corpus.blocks():
                for name, text, vector in block.rows():
                    copy.write_row((name, text, written(vector)))
        self.db.execute(f"set maintenance_work_mem = '{SHARED}'")
        self.db.execute("create index on documents using gin (words)")
        self.db.execute(
            f"create index on documents using ivfflat (vector vector_cosine_ops)"
            f" with (lists = {number})"
        )
        self.db.execute("analyze documents")
        self.index = f"IVFFlat, {number} lists, float32"

    def tune(self, effort: int) -> str:
        self.db.execute(f"set ivfflat.probes = {effort}")
        return f"{effort} probes"

    def nearest(self, vector: Vector) -> Found:
        sql = f"select id, text from documents order by vector <=> %s::vector limit {TOP}"
        return [str(row[0]) for row in self.db.execute(sql, (written(vector),)).fetchall()]

    def hybrids(self) -> dict[str, Hybrid]:
        return {
            "RRF, any word": self._fused("to_tsquery('simple', %(words)s)", " | "),
            "RRF, all words": self._fused("to_tsquery('simple', %(words)s)", " & "),
        }

    def _fused(self, query: str, between: str) -> Hybrid:
        sql = FUSED.format(worded=RANKED.format(query=query), top=TOP)

        def search(text: str, vector: Vector) -> Found:
            words = between.join(f"'{word}'" for word in text.split())
            values = {"vector": written(vector), "words": words}
            return [str(row[0]) for row in self.db.execute(sql, values).fetchall()]

        return search

    def disk(self) -> int:
        """Return the bytes of the table and its indexes, without log and catalogue."""
        return int(self._one("select pg_total_relation_size('documents')"))

    def memory(self) -> int:
        """Return the peak memory of the server's largest process, including shared memory."""
        pids = [row[0] for row in self.db.execute("select pid from pg_stat_activity").fetchall()]
        return max(map(peak, pids))

    def _one(self, sql: str) -> Any:
        return self.db.execute(sql).fetchone()[0]

    def close(self) -> None:
        self.db.close()
        self.server.cleanup()


def written(vector: Vector) -> str:
    """Return a vector in the text format of pgvector."""
    return "[" + ",".join(map("{:.7g}".format, vector.tolist())) + "]"


def peak(pid: int) -> int:
    """Return the peak resident set of a process in bytes; 0 if the system does not report it."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    return 0


def end(folder: Path) -> None:
    """Stop a server whose driver was killed before it could stop it."""
    with suppress(OSError, ValueError, IndexError):
        os.kill(int((folder / "postmaster.pid").read_text("utf-8").splitlines()[0]), signal.SIGQUIT)
