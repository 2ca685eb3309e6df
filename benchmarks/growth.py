"""What a document costs in PostgreSQL, as an index grows: seconds, bytes, and time of a search.

    python benchmarks/growth.py                      5,000, 20,000 and 50,000 documents
    python benchmarks/growth.py --sizes 1000,100000

The documents are those of ``search.py``. Every vector is in pgvector's index, whatever the size.
``docs/explanation/a-hundred-million.md`` shows the tables. It needs what ``stores.py`` needs.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from coded_corpus import DIM, vocabulary
from postgres import server
from results import Table, report
from search import QUERIES, prepare
from search_corpus import Asked, Corpus, corpus
from search_engines import TOP, library

if TYPE_CHECKING:
    from vocabtool import Index

SIZES: Final = "5000,20000,50000"
ASKED: Final = 100  # queries of each kind
WAYS: Final = {"both legs": "coverage", "vectors alone": "dense", "keywords alone": "keyword"}
WANTED: Final = 100_000_000  # documents of the plan
GIVEN: Final = "texts, as given"
PARTS: Final = {
    GIVEN: "sum(octet_length(text))",
    "rows of documents": "pg_table_size('{schema}.documents_{n}')",
    "indexes of documents, but for vectors": "pg_indexes_size('{schema}.documents_{n}')"
    " - pg_relation_size('{schema}.vectors_{n}')",
    "index of vectors": "pg_relation_size('{schema}.vectors_{n}')",
    "postings": "pg_total_relation_size('{schema}.postings_{n}')",
    "terms and counts": "pg_total_relation_size('{schema}.terms_{n}')",
}


class Grown(NamedTuple):
    """What was measured of an index.

    ``plain``: seconds of a load whose vectors are not indexed; ``postings``: their number;
    ``parts``: bytes; ``times``: milliseconds, by way.
    """

    documents: int
    plain: float
    seconds: float
    postings: int
    parts: dict[str, int]
    recall: float
    setting: str
    times: dict[str, list[float]]


def loaded(address: str, of: Corpus, exact_below: int) -> tuple[Index, float]:
    """Return a new index of the corpus, and the seconds of its load."""
    from vocabtool import Index

    index = Index.create(address, dim=DIM, vocabulary=vocabulary(), exact_below=exact_below)
    began = time.perf_counter()
    with index.writer() as writer:
        for block in of.blocks():
            writer.add(block.documents, block.vectors)
    return index, time.perf_counter() - began


def measured(uri: str, of: Corpus) -> Grown:
    name = f"growth_{of.documents}"
    index, plain = loaded(f"{uri}&index={name}", of, of.documents)
    index.remove()
    index, seconds = loaded(f"{uri}&index={name}", of, 0)
    codes: Any = index.manifest.codes
    with library("psycopg").connect(uri, autocommit=True) as db:
        db.execute("vacuum analyze")
        (n,) = db.execute("select number from vocabtool.indexes where name = %s", [name]).fetchone()
        asked = ", ".join(PARTS.values()).format(schema="vocabtool", n=n)
        sizes = db.execute(f"select {asked} from vocabtool.documents_{n}").fetchone()
        (postings,) = db.execute(f"select count(*) from vocabtool.postings_{n}").fetchone()
    times = {way: spent(index, of.queries()[:ASKED], fusion) for way, fusion in WAYS.items()}
    parts = dict(zip(PARTS, map(int, sizes), strict=True))
    setting = f"{codes.probes} of {codes.lists} lists"
    index.remove()
    return Grown(of.documents, plain, seconds, postings, parts, codes.recall, setting, times)


def spent(index: Any, queries: Sequence[Asked], fusion: str) -> list[float]:
    """Return milliseconds of each query, of the second time that it is asked."""
    for is_kept in (False, True):
        times = []
        for one in queries:
            began = time.perf_counter()
            index.search(
                "" if fusion == "dense" else one.text,
                vector=None if fusion == "keyword" else one.vector,
                k=TOP,
                fusion=fusion,
            )
            times.append((time.perf_counter() - began) * 1e3)
        if is_kept:
            return times
    raise AssertionError


def tables(options: argparse.Namespace) -> Iterator[Table]:
    found = []
    with server(options.work / "growth_server") as uri:
        for size in map(int, options.sizes.split(",")):
            of = corpus(options.work, size)
            prepare(of, QUERIES)
            found.append(measured(uri, of))
    columns = ("", *(f"{one.documents:,} documents" for one in found))
    yield Table(
        title=f"Bytes a document in PostgreSQL, vectors of {DIM} numbers in half precision",
        columns=columns,
        rows=(
            *(
                (part, *(f"{one.parts[part] / one.documents:,.0f}" for one in found))
                for part in PARTS
            ),
            ("**all but the texts as given**", *(f"{stored(one):,.0f}" for one in found)),
            ("number of postings", *(f"{one.postings / one.documents:.1f}" for one in found)),
        ),
    )
    yield Table(
        title="Time of a load into PostgreSQL, one writer",
        columns=columns,
        rows=(
            ("load, vectors not indexed", *(f"{one.plain:.1f} s" for one in found)),
            ("a document", *(f"{milliseconds(one):.2f} ms" for one in found)),
            ("index of vectors, with its recall", *(f"{of_vectors(one):.1f} s" for one in found)),
            ("a document ", *(f"{of_vectors(one) / one.documents * 1e3:.2f} ms" for one in found)),
            ("kind and setting", *(one.setting for one in found)),
            ("recall@10 at the build", *(f"{one.recall:.3f}" for one in found)),
        ),
    )
    yield Table(
        title=f"Milliseconds of a search in PostgreSQL, one client, {ASKED} queries",
        columns=columns,
        rows=tuple(
            (f"{way}, {name}", *(f"{of(one.times[way]):.1f} ms" for one in found))
            for way in WAYS
            for name, of in (("p50", median), ("p99", p99))
        ),
    )
    yield planned(found[-1])


def planned(one: Grown) -> Table:
    """What the figures of one size are, multiplied."""
    bytes_of = {part: size / one.documents for part, size in one.parts.items()}
    days = WANTED / 1e3 / 86_400
    rows = [
        (f"{part}, {each:,.0f} bytes", f"{each * WANTED / 1e9:,.0f} GB")
        for part, each in bytes_of.items()
    ]
    rows.append(
        (
            f"all but the texts as given, {stored(one):,.0f} bytes",
            f"{stored(one) * WANTED / 1e12:.2f} TB",
        )
    )
    rows.append(
        (f"load by one writer, {milliseconds(one):.2f} ms", f"{milliseconds(one) * days:.1f} days")
    )
    title = f"{WANTED:,} documents: what a document costs at {one.documents:,}, multiplied"
    return Table(title=title, columns=("", f"x {WANTED:,}"), rows=tuple(rows))


def stored(one: Grown) -> float:
    """Return bytes a document on disk."""
    return (sum(one.parts.values()) - one.parts[GIVEN]) / one.documents


def milliseconds(one: Grown) -> float:
    return one.plain / one.documents * 1e3


def of_vectors(one: Grown) -> float:
    return one.seconds - one.plain


def p99(times: Sequence[float]) -> float:
    return quantiles(times, n=100, method="inclusive")[98]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--work", type=Path, default=Path(__file__).parent / ".work")
    parser.add_argument("--json", type=Path, help="write the tables to this file")
    options = parser.parse_args()
    options.work = options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("VOCABTOOL_CACHE", str(options.work / "stores_cache"))
    report(tables(options), options.json)


if __name__ == "__main__":
    main()
