"""Read documents of an index in PostgreSQL, their ids, and the values of their fields."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.batch import Document, Kind
from vocabtool.index.commit_store import DocumentsChanged
from vocabtool.index.database import text_hash
from vocabtool.keywords.bm25 import Clause, Term
from vocabtool.search.store import Combination, FieldColumn, FieldValue, ValueCount, ValueCounts
from vocabtool.stores.postgres.condition_sql import storable, value_of_column
from vocabtool.stores.postgres.connection import Connections
from vocabtool.stores.postgres.keywords import Part, select_part
from vocabtool.stores.postgres.schema import Tables, key_of
from vocabtool.system.ranking import Rows

if TYPE_CHECKING:
    from psycopg import Connection

MAX_IDS: Final = 1 << 16  # ids of documents that are kept

Answers = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class DocumentColumns:
    """The columns that have the text and the fields of a document.

    - ``names``: the columns in SQL, the text first.
    - ``fields``: the names of the fields, in the same order.
    """

    names: Sequence[str]
    fields: Sequence[str]

    @classmethod
    def of(cls, fields: Mapping[str, Kind]) -> DocumentColumns:
        kept = {f"d.field_{at}": name for at, name in enumerate(fields) if fields[name] != "null"}
        return cls(["d.text", *kept], [*kept.values()])

    def document(self, id_: str, text: str, *values: Any) -> Document:
        """Make a document from its id, its text and the values of its other columns."""
        named = zip(self.fields, map(value_of_column, values), strict=True)
        return Document(id_, text, {name: value for name, value in named if value is not None})


class PostgresDocuments(ABC):
    """Finds documents by their rows, ids or texts. Threads may share an object.

    ``connection``: runs all statements. Its transaction must see only one commit. Default: the
    connections of the pool run the statements.
    """

    def __init__(
        self, connections: Connections, tables: Tables, connection: Connection | None = None
    ) -> None:
        self.connections, self.tables, self._connection = connections, tables, connection
        self._ids: dict[int, str] = {}
        self._settings: WeakKeyDictionary[Any, Sequence[str]] = WeakKeyDictionary()

    @property
    @abstractmethod
    def fields(self) -> Mapping[str, Kind]: ...

    def _ask(self, *parts: Part, settings: Sequence[str] = ()) -> list[Answers]:
        """Run statements in one round trip; return the rows of each statement.

        ``settings``: the settings for SET, such as ``name = value``. They are skipped if the
        connection has them already.
        """

        def work(connection: Any) -> list[Answers]:
            if settings and self._settings.get(connection) != settings:
                for each in settings:
                    connection.execute(f"SET {each}".encode())
                self._settings[connection] = settings
            if len(parts) == 1:
                (only,) = parts
                found = connection.execute(only.text, only.values, binary=True)
                return [found.fetchall()]
            with connection.pipeline(), connection.transaction():
                cursors = [
                    connection.execute(each.text, each.values or None, binary=bool(each.values))
                    for each in parts
                ]
            return [each.fetchall() if each.description else [] for each in cursors]

        held = self._connection
        return self.connections.read(work) if held is None else work(held)

    def only(self, rows: Rows) -> Part:
        return Part("d.doc = ANY(%s)", (rows.tolist(),))

    def ids(self, rows: Rows) -> list[str]:
        """Return the ids of rows. The ids of a search's candidates are read from memory."""
        wanted = rows.tolist()
        kept = self._ids
        if any(row not in kept for row in wanted):
            statement = f"SELECT doc, id FROM documents_{self.tables.number:d} d WHERE "
            (found,) = self._ask(Part(statement).then(self.only(rows)))
            kept = dict(found)
            self._keep_ids([*kept], [*kept.values()])
        try:
            return [kept[row] for row in wanted]
        except KeyError as error:
            raise self._change_error(error.args[0]) from None

    def _keep_ids(self, docs: Sequence[int], ids: Sequence[str]) -> None:
        # Another thread may still read the old dictionary, so it is replaced, never cleared.
        if len(self._ids) + len(docs) > MAX_IDS:
            self._ids = {}
        self._ids.update(zip(docs, ids, strict=True))

    def fetch_documents(self, rows: Rows) -> list[Document]:
        """Return documents. Fields that are null are left out.

        Raises :class:`DocumentsChanged` if a document was deleted meanwhile.
        """
        columns, n = DocumentColumns.of(self.fields), self.tables.number
        names = ", ".join(columns.names)
        statement = f"SELECT d.doc, d.id, {names} FROM documents_{n} d WHERE "
        (found,) = self._ask(Part(statement).then(self.only(rows)))
        held = {row: columns.document(*each) for row, *each in found}
        try:
            return [held[row] for row in rows.tolist()]
        except KeyError as error:
            raise self._change_error(error.args[0]) from None

    def _change_error(self, row: int) -> DocumentsChanged:
        where = self.connections.where
        return DocumentsChanged(f"{where}: document {row:,} was deleted meanwhile: search again")

    def row_of(self, id_: str) -> int | None:
        return self.rows_of([id_]).get(id_)

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the row of each id. Unknown ids are left out."""
        by_key = {key_of(id_): id_ for id_ in ids}
        statement = f"SELECT key, doc FROM documents_{self.tables.number:d} WHERE key = ANY(%s)"
        (found,) = self._ask(Part(statement, ([*by_key],)))
        return {by_key[key]: doc for key, doc in found}

    def fetch_stored(self, ids: Sequence[str]) -> dict[str, tuple[int, list[Any]]]:
        by_key = {key_of(id_): id_ for id_ in ids}
        kinds = enumerate(self.fields.values())
        columns = "".join(", NULL" if kind == "null" else f", field_{at}" for at, kind in kinds)
        statement = f"SELECT key, doc, text{columns} FROM documents_{self.tables.number:d}"
        (found,) = self._ask(Part(f"{statement} WHERE key = ANY(%s)", ([*by_key],)))
        return {
            by_key[key]: (row, [text, *map(value_of_column, values)])
            for key, row, text, *values in found
        }

    def rows_of_texts(self, texts: Sequence[bytes]) -> Rows:
        n = self.tables.number
        statement = (
            "SELECT given.place, max(d.doc) FROM unnest(%s::bigint[], %s::text[]) WITH ORDINALITY"
            f" AS given(hash, text, place) JOIN documents_{n} d ON d.text_hash = given.hash"
            " AND d.text = given.text AND d.source > 0 GROUP BY given.place"
        )
        held = [*map(storable, texts)]
        hashes = [text_hash(text.encode()) for text in held]
        (found,) = self._ask(Part(statement, (hashes, held)))
        rows = np.full(len(texts), -1, np.int64)
        for place, doc in found:
            rows[place - 1] = doc
        return rows

    # Values of fields

    def value_ranks(self, name: str, rows: Rows) -> NDArray[np.int64]:
        """Return the rank of each row's value among the values of all ``rows``, or -1 for null."""
        found = np.full(len(rows), -1, np.int64)
        if self.fields[name] == "null":
            return found
        column = f"field_{[*self.fields].index(name)}"
        statement = (
            f"SELECT doc, dense_rank() OVER (ORDER BY {column}) - 1"
            f" FROM documents_{self.tables.number:d} d WHERE {column} IS NOT NULL AND "
        )
        (ranks,) = self._ask(Part(statement).then(self.only(rows)))
        held: dict[int, int] = dict(ranks)
        return np.array([held.get(row, -1) for row in rows.tolist()], np.int64)

    def count_values(
        self, names: Sequence[str], terms: Sequence[Term], among: Part, limit: int
    ) -> dict[str, ValueCounts]:
        """Count the values of fields in one round trip. List elements are counted in Python."""
        if terms:
            holding = tuple(Clause((term,)) for term in terms)
            among = among & select_part(self.tables, Combination("any", holding), {})
        n, places = self.tables.number, [*self.fields]
        counted = [name for name in names if self.fields[name] != "null"]
        statements = []
        for name in counted:
            column = f"field_{places.index(name)}"
            grouped = Part(
                f"WITH g AS MATERIALIZED (SELECT {column} AS v, count(*) AS c"
                f" FROM documents_{n} d WHERE {column} IS NOT NULL AND "
            ).then(among, " GROUP BY 1)")
            is_list = "EXISTS (SELECT FROM g WHERE v ^@ '[')"
            fewer = (
                "%s" if self.fields[name] != "string" else f"CASE WHEN NOT {is_list} THEN %s END"
            )
            best = f" SELECT v, c, (SELECT count(*) FROM g) FROM g ORDER BY c DESC, v LIMIT {fewer}"
            statements.append(grouped.then(Part(best, (limit,))))
        answers = self._ask(*statements) if statements else []
        found = dict.fromkeys(names, ValueCounts((), 0))
        for name, answer in zip(counted, answers, strict=True):
            found[name] = _count_parts(answer, self.fields[name], limit)
        return found

    def value_facts(self, name: str, limit: int) -> tuple[int, ValueCounts]:
        kind = self.fields[name]
        if kind == "null":
            return 0, ValueCounts((), 0)
        at = [*self.fields].index(name)
        counts = (
            f"SELECT field_{at} AS value, count(*) AS n FROM documents_{self.tables.number}"
            f" WHERE field_{at} IS NOT NULL GROUP BY 1"
        )
        totals, frequent = self._ask(
            Part(f"SELECT coalesce(sum(n), 0)::bigint, count(*) FROM ({counts}) c"),
            Part(
                f"SELECT value, n FROM ({counts}) c WHERE n > 1 ORDER BY n DESC, value LIMIT %s",
                (limit,),
            ),
        )
        ((documents, distinct),) = totals
        values = [ValueCount(cast(FieldValue, value_of_column(value)), n) for value, n in frequent]
        return documents, ValueCounts((*values,), distinct)


def _count_parts(answer: Answers, kind: Kind, limit: int) -> ValueCounts:
    values: list[Any] = [value_of_column(value) for value, *_ in answer]
    counts = [count for _, count, _ in answer]
    if not any(isinstance(value, str) and value.startswith("[") for value in values):
        pairs = zip(values[:limit], counts[:limit], strict=True)
        distinct = answer[0][2] if answer else 0
        return ValueCounts(tuple(ValueCount(value, count) for value, count in pairs), distinct)
    order = sorted(range(len(values)), key=values.__getitem__)
    column = FieldColumn.of(
        np.arange(len(values), dtype=np.int32), [values[at] for at in order], kind
    )
    return column.count(np.repeat(np.arange(len(values)), [counts[at] for at in order]), limit)
