"""An index in PostgreSQL with pgvector. Its address has this form:

    postgresql://USER:PASSWORD@HOST:PORT/DATABASE?index=NAME&schema=SCHEMA&sslmode=verify-full

``index`` is the name of the index. ``schema`` is the name of the schema with vocabtool's tables
(default: vocabtool). All other parameters are passed to libpq, which also reads PGPASSWORD,
PGPASSFILE and other environment variables.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import quote, unquote
from weakref import ref

import google_crc32c

from vocabtool.encoders.open_encoder import Model
from vocabtool.errors import InvalidFile, NotFound, VocabtoolError
from vocabtool.index.contents import DocumentsChanged
from vocabtool.index.folder import MODEL_FILE, Manifest
from vocabtool.index.generation import Progress, cutter_of
from vocabtool.index.index import Index
from vocabtool.index.maintenance import VerifyReport
from vocabtool.index.model import Canaries, IndexModel, OpenedModel, compare_canaries
from vocabtool.index.writer import Writer
from vocabtool.stores.database import SCHEMA, TABLES, Connections, one_commit, run
from vocabtool.stores.reader import PostgresStore
from vocabtool.stores.writer import PostgresWriter
from vocabtool.system.own_files import CACHE, checksum, user_cache, whole_file

if TYPE_CHECKING:
    from psycopg import Connection

TRIES: Final = 5  # to read documents that others delete meanwhile
MAX_NAME: Final = 200  # characters of the name of an index, without BUILD
BUILD: Final = ".new"  # ends the name of an index that will replace another one
# The length of a text as stored in a posting: the function stored_length in keywords/bm25.py.
BITS: Final = "(29 - position(B'1' IN (d.words - 24)::bit(32)))"  # dropped, from 40 words on
STORED_LENGTH: Final = (
    f"CASE WHEN d.words < 40 THEN d.words ELSE 24 + (d.words - 24 >> {BITS} << {BITS}) END"
)
# Of each document the pairs of its terms and their frequencies; of "surfaces" only the terms.
PAIRS: Final = """
WITH pairs AS (SELECT doc, part::int AS term, count(*) AS frequency FROM documents_{n},
        unnest(string_to_array(btrim(replace(sequence, '|', '')), ' ')) part WHERE part <> ''
        GROUP BY 1, 2
    UNION ALL SELECT doc, unnest(identifiers), NULL FROM documents_{n})
"""
CHECKS: Final = (
    (
        "{0:,} postings that are missing, too many, or have another frequency or length",
        PAIRS
        + f"SELECT count(*) FROM (SELECT h.doc, h.term, h.frequency, {STORED_LENGTH} AS length"
        " FROM pairs h JOIN documents_{n} d USING (doc)) h"
        " FULL JOIN postings_{n} p USING (doc, term)"
        " WHERE h.doc IS NULL OR p.doc IS NULL OR p.frequency <> coalesce(h.frequency, p.frequency)"
        " OR p.length <> h.length",
    ),
    (
        "{0:,} terms with another number of documents, or postings of no term",
        "SELECT count(*) FROM terms_{n} t FULL JOIN (SELECT term, count(*) AS n FROM postings_{n}"
        " GROUP BY term) p USING (term) WHERE t.documents IS DISTINCT FROM coalesce(p.n, 0)",
    ),
    (
        "{0:,} totals that differ: documents or words",
        "SELECT (i.documents <> d.documents)::int + (i.words <> d.words)::int"
        " FROM (SELECT documents, words FROM indexes WHERE number = {n}) i,"
        " (SELECT count(*) AS documents, coalesce(sum(words), 0) AS words FROM documents_{n}) d",
    ),
)

Result = TypeVar("Result")


def _again(read: Callable[..., Result]) -> Callable[..., Result]:
    """Make a method that reads again if another process deletes the documents that it reads."""

    @wraps(read)
    def reads(index: PostgresIndex, *args: Any, **named: Any) -> Result:
        # An iterator is read once, so that it can be passed again.
        args = tuple([*value] if isinstance(value, Iterator) else value for value in args)
        named = {k: [*v] if isinstance(v, Iterator) else v for k, v in named.items()}
        for _ in range(TRIES - 1):
            with suppress(DocumentsChanged):
                return read(index, *args, **named)
        return read(index, *args, **named)

    return reads


class PostgresIndex(Index):
    """An index in a database; made by :meth:`Index.create` and :meth:`Index.open`.

    One process at a time can write; others wait for it. ``path``: a folder in the user's cache,
    with copies of the model's files. ``is_build``: whether the index will replace another index.
    """

    exact_below = 5_000  # to compare a vector of 256 numbers takes about a microsecond

    def __init__(
        self,
        connections: Connections,
        index: str,
        n: int,
        model: Model | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """``index``: the name of the index, and ``n`` its number in the database."""
        self._connections, self._n = connections, n
        self._index, self._is_build = index.removesuffix(BUILD), index.endswith(BUILD)
        self.name = _name_of(connections, self._index)
        manifest = connections.read(lambda given: connections.read_manifest(given, n))
        self.path = self._copy_model_files(manifest)
        cutter = cutter_of(self.name, manifest.configuration)

        def canaries() -> Canaries:  # a strong reference would keep all until a collection
            return cast(PostgresIndex, this()).snapshot().canaries()

        this = ref(self)
        self._model = IndexModel(self.path, manifest, canaries, model, options, self.name)
        # It has the methods of a Snapshot.
        self._snapshot = cast(Any, PostgresStore(connections, n, self._model, cutter))
        self.notes = ()
        if (codes := manifest.codes) is not None and codes.recall < codes.recall_asked:
            self.notes = (
                f"vectors: recall@10 is {codes.recall:.3f} with hnsw.ef_search = "
                f"{codes.candidates}, {codes.recall_asked:.3f} was asked for: create the index with"
                " a higher exact_below to compare all vectors",
            )

    @classmethod
    def create_in(
        cls, address: str, manifest: Manifest, opened: OpenedModel, *, replaces: bool
    ) -> PostgresIndex:
        """Create an empty index. Raises the errors of :meth:`Index.create`.

        ``replaces``: whether :meth:`put_in_place` will replace an existing index by this one.
        """
        connections, index = _parse(address)
        with tempfile.TemporaryDirectory() as folder:
            crcs = opened.save(Path(folder))
            files = {name: (Path(folder) / name).read_bytes() for name in crcs}
        if replaces:
            index += BUILD
            with suppress(NotFound):
                connections.drop_index(connections.find_index(index), index)
        n = connections.create_index(index, replace(manifest, model_files=crcs), files)
        try:
            return cls(connections, index, n, opened.encoder, {"vocabulary": None})
        except BaseException:
            connections.drop_index(n, index, if_empty=True)
            raise

    @classmethod
    def open_at(
        cls, address: str, model: Model | None, options: Mapping[str, Any] | None
    ) -> PostgresIndex:
        """Open an index. Raises the errors of :meth:`Index.open`."""
        connections, index = _parse(address)
        return cls(connections, index, connections.find_index(index), model, options)

    @classmethod
    def remove_at(cls, address: str, *, dry_run: bool) -> list[tuple[str, int | None]]:
        """Remove an index, even a damaged one, and its unfinished replacement.

        Returns what was removed, and its number of documents, or ``None`` if it is damaged.
        ``dry_run``: remove nothing. Raises :class:`NotFound`.
        """
        connections, index = _parse(address)
        removed: list[tuple[str, int | None]] = []
        for name in (index + BUILD, index):
            with suppress(NotFound):
                n = connections.find_index(name)
                documents, copies = None, None
                with suppress(VocabtoolError), connections.connected() as connection:
                    manifest = connections.read_manifest(connection, n)
                    documents = manifest.live
                    copies = cache_folder(connections.where, manifest)
                if not dry_run and connections.drop_index(n, name) and copies:
                    shutil.rmtree(copies, ignore_errors=True)
                what = ":" if name == index else ": its unfinished replacement"
                removed.append((_name_of(connections, index) + what, documents))
        if not removed:
            connections.find_index(index)  # says why not
        return removed

    @property
    def is_build(self) -> bool:
        return self._is_build

    def refresh(self) -> bool:
        before = self.manifest.commit
        return bool(self._newest().manifest.commit != before)

    @contextmanager
    def writer(self, progress: Progress | None = None) -> Iterator[Writer]:
        files = PostgresWriter(self._connections, self._n, self._snapshot.cutter)
        writer = Writer(self.name, cast(Any, files), self._model, progress)
        try:
            yield writer
            writer.commit()
        finally:
            writer.close()
        self.refresh()

    get_many = _again(Index.get_many)
    vectors = _again(Index.vectors)
    similar = _again(Index.similar)
    _search = _again(Index._search)

    def compact(self, progress: Progress | None = None) -> int:
        """Vacuum the tables and index the vectors again.

        Returns 0, because the tables contain no deleted documents.
        """
        files = PostgresWriter(self._connections, self._n, self._snapshot.cutter)
        with closing(files):
            files.tidy(progress, again=True)
        self.refresh()
        return 0

    def verify(self, progress: Progress | None = None, *, model: bool = False) -> VerifyReport:
        encoder = self.encoder if model else None
        self.refresh()
        if progress is not None:
            progress("statistics recounted", 0.0)
        with self._connections.connected() as connection, one_commit(connection):
            differences = recount(connection, self._n)
        if differences:
            raise InvalidFile(f"damaged: {'; '.join(differences)}", file=self.name)
        self._model.verify()
        agreement = None
        if encoder is not None:
            metric = self.configuration.metric
            agreement = compare_canaries(self.name, self._snapshot.canaries(), encoder, metric)
        manifest = self.manifest
        return VerifyReport(
            documents=manifest.live,
            deleted=0,
            commit=manifest.commit,
            recall=1.0 if manifest.codes is None else manifest.codes.recall,
            approximate=manifest.codes is not None,
            loading=manifest.load is not None and not manifest.load.finished,
            others=(),
            encoded=agreement,
        )

    def put_in_place(self) -> PostgresIndex:
        """Give this index the name of the index that it replaces."""
        self._connections.replace_index(self._n, self._index)
        self._is_build = False
        self.refresh()
        return self

    def close(self) -> None:
        self._connections.close()

    def remove(self, *, if_empty: bool = False) -> None:
        """Remove the index from the database, with everything that belongs to it.

        ``if_empty``: remove the index only if nobody has added documents. Raises
        :class:`VocabtoolError` if another index has the name of this index now.
        """
        self._newest()
        name = self._index + BUILD * self.is_build
        if self._connections.drop_index(self._n, name, if_empty=if_empty):
            shutil.rmtree(self.path, ignore_errors=True)

    def _newest(self) -> Any:
        """Return the store. Raises :class:`NotFound` if the index was replaced."""
        store: Any = self._snapshot  # a PostgresStore
        store.refresh()
        return store

    def _sizes(self) -> dict[str, int]:
        """Return the bytes on disk by purpose, such as ``codes`` for the index of vectors."""
        size = "coalesce(pg_total_relation_size(to_regclass(name || %s)), 0)"
        statement = f"SELECT name, {size} FROM unnest(%s::text[]) name"
        names = [*TABLES, "vectors"]
        sizes: dict[str, int] = dict(self._connections.fetch(statement, f"_{self._n}", names))
        return {
            "documents": sizes["documents"] - sizes["vectors"],
            "keywords": sizes["terms"] + sizes["postings"],
            "codes": sizes["vectors"],
            "other": sizes["facts"],
        }

    def _copy_model_files(self, manifest: Manifest) -> Path:
        """Copy the model's files to the user's cache, if they are missing; return the folder."""
        folder = cache_folder(self.name, manifest)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            what = f"cannot keep copies of the model's files: {error}; set ${CACHE} to another"
            raise VocabtoolError(f"{self.name}: {what} folder") from error
        for name, crc32c in manifest.model_files.items():
            if MODEL_FILE.fullmatch(name) is None:
                what = f"not allowed as the name of a model's file: {name[:50]!r}"
                raise InvalidFile(what, file=self.name)
            file = folder / name
            if file.exists() and checksum(file) == crc32c:
                continue
            statement = f"SELECT value FROM facts_{self._n} WHERE name = %s"
            content = b"".join(value for (value,) in self._connections.fetch(statement, name))
            if google_crc32c.value(content) != crc32c:
                what = f"damaged: the model's file {name} is missing or has another checksum"
                raise InvalidFile(what, file=self.name)
            with whole_file(file) as out:
                out.write(content)
        return folder


def recount(connection: Connection, n: int) -> list[str]:
    """Compare the statistics with the documents; return a sentence for each kind of difference."""
    differences = []
    for difference, statement in CHECKS:
        ((count,),) = run(connection, statement.replace("{n}", str(n))).fetchall()
        if count:
            differences.append(difference.format(count))
    return differences


def cache_folder(name: str, manifest: Manifest) -> Path:
    """Return the folder of an index in the user's cache.

    ``name``: the name of the index, for messages. Raises :class:`InvalidFile` if the id of the
    index is invalid.
    """
    if re.fullmatch("[0-9a-f]{32}", manifest.index) is None:  # no path comes from a database
        what = f"damaged: wanted an id of 32 digits 0-9a-f, got {manifest.index[:50]!r}"
        raise InvalidFile(what, file=name)
    return user_cache() / "stores" / manifest.index


def _name_of(connections: Connections, index: str) -> str:
    sign = "&" if "?" in connections.where else "?"
    return f"{connections.where}{sign}index={quote(index)}"


def _parse(address: str) -> tuple[Connections, str]:
    """Return the connections and the index name for an address, or raise an error."""
    server, _, parameters = address.partition("://")[2].partition("?")
    given = [parameter.partition("=") for parameter in parameters.split("&") if parameter]
    own = {name: unquote(text) for name, _, text in given if name in ("index", "schema")}
    others = "&".join("".join(parameter) for parameter in given if parameter[0] not in own)
    index, most = own.get("index", ""), MAX_NAME
    if not 0 < len(index) <= most or not index.isprintable() or index.endswith(BUILD):
        wanted = f"1 to {most} printable characters that do not end in {BUILD!r}"
        raise VocabtoolError(
            f"the address needs index=NAME; NAME must be {wanted}, got {index[:50]!r}. For "
            "example: postgresql://user@host/database?index=articles"
        )
    conninfo = f"postgresql://{server}?{others}"
    return Connections(conninfo, schema=own.get("schema", SCHEMA)), index
