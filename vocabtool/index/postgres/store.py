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
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

import google_crc32c

from vocabtool.encoders.open_encoder import Model
from vocabtool.errors import InvalidFile, NotFound, VocabtoolError
from vocabtool.index.folder import MODEL_FILE, Configuration, Load, Manifest
from vocabtool.index.generation import cutter_of
from vocabtool.index.model import IndexModel, OpenedModel
from vocabtool.index.postgres.database import (
    NAME_OF_BUILD,
    SCHEMA,
    TABLES,
    Connections,
    one_commit,
    run,
)
from vocabtool.index.postgres.snapshot import PostgresSnapshot, canaries_of
from vocabtool.index.postgres.transaction import PostgresTransaction
from vocabtool.index.snapshot import VerifyReport
from vocabtool.system.messages import Progress
from vocabtool.system.own_files import CACHE, checksum, user_cache, whole_file

MAX_NAME: Final = 200  # characters of the name of an index, without BUILD
BUILD: Final = ".new"  # ends the name of an index that will replace another one
# The length of a text as stored in a posting: the function stored_length in keywords/cutter.py.
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


class PostgresStore:
    """The store of an index in a database, with the methods of ``FolderStore`` (see there).

    One process writes at a time; others wait. ``path``: a folder in the cache for model files.
    """

    exact_below = 5_000  # to compare a vector of 256 numbers takes about a microsecond

    def __init__(
        self,
        connections: Connections,
        index: str,
        n: int,
        model: Model | None,
        options: Mapping[str, Any],
    ) -> None:
        """``index``: the name of the index, and ``n`` its number in the database."""
        self._connections, self._n = connections, n
        self._index, self.is_build = index.removesuffix(BUILD), index.endswith(BUILD)
        self.name = _name_of(connections, self._index)
        manifest = connections.read(lambda opened: connections.read_manifest(opened, n))
        self.path = self._copy_model_files(manifest)
        cutter = cutter_of(self.name, manifest.configuration)
        canaries = partial(  # of the newest commit
            connections.read,
            lambda opened: canaries_of(opened, n, connections.read_manifest(opened, n)),
        )
        opened = IndexModel(self.path, manifest, canaries, model, options, self.name)
        self.snapshot = PostgresSnapshot(connections, n, opened, cutter)
        self.notes: tuple[str, ...] = ()
        if (codes := manifest.codes) is not None and codes.recall < codes.recall_asked:
            self.notes = (
                f"vectors: recall@10 is {codes.recall:.3f} with {codes.probes} of {codes.lists}"
                f" lists, {codes.recall_asked:.3f} was asked for: create the index with"
                " a higher exact_below to compare all vectors",
            )

    @classmethod
    def open(
        cls, address: str | Path, model: Model | None, options: Mapping[str, Any]
    ) -> PostgresStore:
        connections, index = _parse(str(address))
        return cls(connections, index, connections.find_index(index), model, options)

    @classmethod
    def create(
        cls,
        address: str | Path,
        configuration: Configuration,
        opened: OpenedModel,
        *,
        replaces: bool,
        build: str | None,
    ) -> PostgresStore:
        connections, index = _parse(str(address))
        with tempfile.TemporaryDirectory() as folder:
            crcs = opened.save(Path(folder))
            files = {name: (Path(folder) / name).read_bytes() for name in crcs}
        if build is not None:
            files[NAME_OF_BUILD] = build.encode()
        if replaces:
            index += BUILD
            with suppress(NotFound):
                connections.drop_index(connections.find_index(index), index)
        manifest = Manifest(index=uuid.uuid4().hex, configuration=configuration, model_files=crcs)
        n = connections.create_index(index, manifest, files)
        try:
            return cls(connections, index, n, opened.encoder, {"vocabulary": opened.vocabulary})
        except BaseException:
            connections.drop_index(n, index, if_empty=True)
            raise

    @classmethod
    def open_build(
        cls, address: str | Path, build: str, model: Model | None, options: Mapping[str, Any]
    ) -> PostgresStore | None:
        connections, index = _parse(str(address))
        with suppress(VocabtoolError):
            n = connections.find_index(index + BUILD)
            statement = f"SELECT value FROM facts_{n} WHERE name = %s"
            if connections.fetch(statement, NAME_OF_BUILD) == [(build.encode(),)]:
                store = cls(connections, index + BUILD, n, model, options)
                store.snapshot.model.check()
                return store
        return None

    def replacement(self) -> Load | None:
        connections = self._connections
        with suppress(VocabtoolError):  # perhaps it is being removed
            n = connections.find_index(self._index + BUILD)
            return connections.read(lambda opened: connections.read_manifest(opened, n)).load
        return None

    @classmethod
    def remove_at(cls, address: str, *, dry_run: bool) -> list[tuple[str, int | None]]:
        """Remove an index, even a damaged one, and its unfinished replacement.

        Returns each with its number of documents, ``None`` if damaged. Raises :class:`NotFound`.
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

    def refresh(self) -> None:
        self.snapshot.refresh()

    @contextmanager
    def begin(self) -> Iterator[PostgresTransaction]:
        cutter = self.snapshot.cutter
        with closing(PostgresTransaction(self._connections, self._n, cutter)) as transaction:
            yield transaction

    def compact(self, progress: Progress | None = None) -> int:
        with self.begin() as transaction:
            transaction.tidy(progress, again=True)
        return 0

    def verify(self, progress: Progress | None = None) -> VerifyReport:
        self.refresh()
        if progress is not None:
            progress("statistics recounted", 0.0)
        differences = []
        with self._connections.connected() as connection, one_commit(connection):
            for difference, statement in CHECKS:
                ((count,),) = run(connection, statement.replace("{n}", str(self._n)))
                if count:
                    differences.append(difference.format(count))
        if differences:
            raise InvalidFile(f"damaged: {'; '.join(differences)}", file=self.name)
        self.snapshot.model.verify()
        codes = self.snapshot.manifest.codes
        return VerifyReport.of(self.snapshot.manifest, 1.0 if codes is None else codes.recall)

    def put_in_place(self) -> PostgresStore:
        self._connections.replace_index(self._n, self._index)
        self.is_build = False
        self.refresh()
        return self

    def close(self) -> None:
        self._connections.close()

    def remove(self, *, if_empty: bool = False) -> None:
        self.refresh()
        name = self._index + BUILD * self.is_build
        if self._connections.drop_index(self._n, name, if_empty=if_empty):
            shutil.rmtree(self.path, ignore_errors=True)

    def sizes(self) -> dict[str, int]:
        size = "coalesce(pg_total_relation_size(to_regclass(name || %s)), 0)"
        statement = f"SELECT name, {size} FROM unnest(%s::text[]) name"
        names = [*TABLES, "vectors"]  # vectors is an index of documents, and counts in its size
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
            what = f"cannot keep copies of the model's files: {error}"
            hint = f"set ${CACHE} to another folder"
            raise VocabtoolError(f"{self.name}: {what}; {hint}") from error
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


def cache_folder(name: str, manifest: Manifest) -> Path:
    """Return the folder in the user's cache. Raises :class:`InvalidFile` for a bad index id."""
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
    pairs = [parameter.partition("=") for parameter in parameters.split("&") if parameter]
    own = {name: unquote(text) for name, _, text in pairs if name in ("index", "schema")}
    others = "&".join("".join(parameter) for parameter in pairs if parameter[0] not in own)
    index, most = own.get("index", ""), MAX_NAME
    if not 0 < len(index) <= most or not index.isprintable() or index.endswith(BUILD):
        wanted = f"1 to {most} printable characters that do not end in {BUILD!r}"
        raise VocabtoolError(
            f"the address needs index=NAME; NAME must be {wanted}, got {index[:50]!r}. For "
            "example: postgresql://user@host/database?index=articles"
        )
    conninfo = f"postgresql://{server}?{others}"
    return Connections(conninfo, schema=own.get("schema", SCHEMA)), index
