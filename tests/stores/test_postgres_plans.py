"""Conditions use the indexes of PostgreSQL's tables, by its own plans."""

from __future__ import annotations

from typing import Any, Final

from tests.stores.test_conditions import copied, database
from vocabtool import Document
from vocabtool.search.conditions import Where

__all__ = ["database"]  # a fixture

INDEXES: Final = {
    "n = 5": "Index Cond: (field_0 = '5'::",
    "name = 'v5'": "Index Cond: (\"left\"(field_1, 128) = 'v5'",
    "name in ('v5', 'v6')": 'Index Cond: ("left"(field_1, 128) = ANY',
    "name >= 'v5' and name < 'v6'": "Index Cond: ((\"left\"(field_1, 128) >= 'v5'",
    "day = 2024-01-05": "Index Cond: ((field_2_instant >= ",
    "tags has 't5'": "Index Cond: (field_3_items && ",
    "tags has any ('t5', 3) and name != 'x'": "Index Cond: (field_3_items && ",
}


def test_indexes_are_used(database: Any) -> None:
    """By PostgreSQL's own plan, where a scan of all rows is the last resort."""
    fields = [
        {"n": n, "name": f"v{n}", "day": f"2024-01-{n:02}", "tags": [f"t{n}"]} for n in range(1, 29)
    ]
    documents = [Document(str(each["n"]), "x", each) for each in fields]
    with copied(documents, database) as both, database.transaction():
        database.execute("SET LOCAL enable_seqscan = off")
        store: Any = both.engine.snapshot()
        for condition, index in INDEXES.items():
            asked = store.select([Where.of(condition)])
            explained = (
                f"EXPLAIN SELECT doc FROM vocabtool.documents_{store.n} d WHERE {asked.text}"
            )
            plan = database.execute(explained, asked.values).fetchall()
            assert index in "\n".join(line for (line,) in plan)
