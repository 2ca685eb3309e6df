"""Compare all statistics of an index with its documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vocabtool.stores.postgres.connection import one_commit
from vocabtool.stores.postgres.schema import STORED_LENGTH, Tables

if TYPE_CHECKING:
    from psycopg import Connection

# Of each document the pairs of its terms and their frequencies; of "surfaces" only the terms.
HELD: Final = """
WITH cut AS (SELECT doc, words, part::int AS term FROM {documents},
        unnest(string_to_array(btrim(replace(sequence, '|', '')), ' ')) part WHERE part <> ''),
    held AS (SELECT doc, term, count(*) AS frequency FROM cut GROUP BY doc, term
        UNION ALL SELECT doc, unnest(identifiers), NULL FROM {documents})
"""
CHECKS: Final = (
    (
        "{0:,} documents whose number of words differs from their sequence",
        HELD
        + "SELECT count(*) FROM {documents} d LEFT JOIN (SELECT doc, count(*) AS words FROM cut"
        " GROUP BY doc) c USING (doc) WHERE d.words <> coalesce(c.words, 0)",
    ),
    (
        "{0:,} postings that are missing, too many, or have another frequency or length",
        HELD
        + "SELECT count(*) FROM (SELECT h.doc, h.term, h.frequency, "
        + STORED_LENGTH.format("d.words")
        + " AS length FROM held h"
        " JOIN {documents} d USING (doc)) h FULL JOIN {postings} p USING (doc, term)"
        " WHERE h.doc IS NULL OR p.doc IS NULL OR p.frequency <> coalesce(h.frequency, p.frequency)"
        " OR p.length <> h.length",
    ),
    (
        "{0:,} terms with another number of documents",
        "SELECT count(*) FROM (SELECT term, sum(documents) AS n FROM {counts} GROUP BY term) c"
        " FULL JOIN (SELECT term, count(*) AS n FROM {postings} GROUP BY term) p USING (term)"
        " WHERE coalesce(c.n, 0) <> coalesce(p.n, 0)",
    ),
    (
        "{0:,} numbers of terms that no term has",
        "SELECT count(DISTINCT term) FROM {postings} p LEFT JOIN {terms} t USING (term)"
        " WHERE t.term IS NULL",
    ),
    (
        "{0:,} totals that differ: documents, words or surfaces",
        "SELECT (t.documents <> d.documents)::int + (t.words <> d.words)::int"
        " + (t.surfaces <> d.surfaces)::int FROM (SELECT coalesce(sum(documents), 0) AS documents,"
        " coalesce(sum(words), 0) AS words, coalesce(sum(surfaces), 0) AS surfaces"
        " FROM {totals}) t, (SELECT count(*) AS documents, coalesce(sum(words), 0) AS words,"
        " coalesce(sum(surfaces), 0) AS surfaces FROM {documents}) d",
    ),
    (
        "{0:,} ids that occur more than once",
        "SELECT count(*) - count(DISTINCT id) FROM {documents}",
    ),
)


def recount(connection: Connection, tables: Tables) -> list[str]:
    """Return a sentence for each kind of difference; an empty list if all statistics are right."""
    differences = []
    with one_commit(connection):
        for told, statement in CHECKS:
            (count,) = connection.execute(tables.sql(statement)).fetchone() or (1,)
            if count:
                differences.append(told.format(count))
    return differences
