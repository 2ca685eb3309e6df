"""Endpoints that write and delete documents. ``commits.py`` commits the changes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import blake2b
from http import HTTPStatus
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import unquote_to_bytes

import numpy as np
import orjson
from fastapi import APIRouter, Depends, Header, Path, Query
from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from vocabtool.choices import OnExisting
from vocabtool.documents.batch import BadRow, Batch, Document
from vocabtool.documents.objects import numbers_of
from vocabtool.documents.text_files import BLANK, BOM
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import VocabtoolError
from vocabtool.index.contents import VECTOR
from vocabtool.index.documents import ID, MAX_FIELDS, TEXT, Item, batches_of
from vocabtool.index.index import Index
from vocabtool.index.raw_vectors import as_stored, prepare
from vocabtool.index.writer import WHAT_NEXT, Writer
from vocabtool.serve import schemas
from vocabtool.serve.catalog import Catalog
from vocabtool.serve.commits import Change, Commits, RequestKey
from vocabtool.serve.problems import (
    Busy,
    Refusal,
    ServeError,
    TooLarge,
    UnknownDocument,
    wrong_arguments,
)
from vocabtool.serve.schemas import MAX_NAME, Answer, Problem, Strict, Vector, json_answer

# Bytes of all batches that are being read or wait to be written; a single one may be larger.
MAX_HELD: Final = 128 << 20
MAX_LINES: Final = 10_000  # of a batch
FIELDS: Final = "fields"  # the member of a document that has its fields
MAX_KEY: Final = 200  # characters of an idempotency key
# A page of another site can send other types without asking the server first, but not these.
LINES: Final = ("application/x-ndjson", "application/jsonl")
EXAMPLE: Final = (
    '{"id": "d1", "text": "how to install Xapian", "year": 2024}\n'
    '{"id": "d2", "text": "an introduction to search"}\n'
)
REFUSED: Final = schemas.REFUSED | {
    code: {"model": Problem, "description": told}
    for code, told in {
        403: "The server was started without `--writable`, or the key may only read.",
        409: "Another process writes to the index, or a document is there already.",
        422: "The idempotency key belongs to another request.",
    }.items()
}


class ReadOnly(ServeError):
    """The server was started without permission to write."""

    status = HTTPStatus.FORBIDDEN


class ExistingDocument(ServeError):
    """A document is already in the index, but the request requires a new document."""

    status = HTTPStatus.CONFLICT


class DocumentBody(Strict):
    """A document without its id."""

    model_config = Strict.model_config | ConfigDict(
        json_schema_extra={
            "examples": [{"text": "how to install Xapian", "fields": {"year": 2024}}]
        }
    )

    text: str = Field(description="Its text.")
    fields: dict[str, Any] = Field({}, description="Its fields.")
    vector: Vector | None = Field(
        None, description="Your own vector; null: the model of the index makes it."
    )


class WriteAnswer(Answer):
    """What a request wrote."""

    added: int = Field(description="Number of new documents.")
    replaced: int = Field(description="Number of documents that replaced one with the same id.")
    skipped: int = Field(
        description="Number of lines skipped because their id is in the index or in another line."
    )
    commit: int = Field(description="The number of the commit that has the changes.")


class DeleteAnswer(Answer):
    """What a request deleted."""

    deleted: int = Field(description="Number of deleted documents.")
    commit: int = Field(description="The number of the commit that has the change.")


Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=MAX_KEY,
        description="Any key. A request that is repeated with the same key changes nothing.",
    ),
]
Id = Annotated[str, Path(min_length=1, max_length=MAX_NAME, description="The document's id.")]


class Row(NamedTuple):
    """A document to write.

    ``line``: the number of its line, from 1. If the body is a single document, 0.
    """

    line: int
    id: str
    item: Item
    vector: object

    @property
    def place(self) -> str:
        return f"body:{self.line}" if self.line else "body"


def rows_of(body: bytes, on_existing: OnExisting) -> tuple[list[Row], int]:
    """Parse JSON lines. Return their documents, and the number of lines that are left out.

    If several lines have the same id, only the last is returned. With ``on_existing="skip"``, only
    the first is returned.

    Raises :class:`ServeError` if a line is invalid. With ``on_existing="error"``, also raises
    :class:`ServeError` if two lines have the same id.
    """
    lines = body.removeprefix(BOM)
    if lines.count(b"\n") - lines.endswith(b"\n") >= MAX_LINES:
        raise TooLarge(f"the body has more than {MAX_LINES:,} lines; send them in several requests")
    rows: dict[str, Row] = {}
    repeated = 0
    for number, line in enumerate(lines.split(b"\n"), 1):
        if not line.strip(BLANK):
            continue
        row = row_of(number, line)
        earlier = rows.get(row.id)
        if earlier is not None:
            repeated += 1
            if on_existing == "error":
                raise ServeError(f"{row.place}: the id {row.id!r} is already in {earlier.place}")
        if earlier is None or on_existing == "update":
            rows[row.id] = row
    if not rows:
        raise ServeError('the body has no document: send lines like {"id": "1", "text": "..."}')
    return [*rows.values()], repeated


def row_of(number: int, line: bytes) -> Row:
    """Return the document of a line. Raises :class:`ServeError` if the line is invalid."""
    place = f"body:{number}"
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ServeError(f"{place}: not JSON in UTF-8: {error}") from None
    if not isinstance(value, dict):
        raise ServeError(f"{place}: expected an object with id and text, got {str(value)[:50]}")
    if ID not in value:
        raise ServeError(f"{place}: no field 'id'")
    id_ = value[ID]
    id_ = str(id_) if type(id_) is int else id_
    if not isinstance(id_, str) or not 0 < len(id_) <= MAX_NAME:
        wanted = f"a string of 1 to {MAX_NAME:,} characters, or an integer"
        raise ServeError(f"{place}: field 'id': expected {wanted}, got {str(id_)[:50]!r}")
    value[ID] = id_
    vector = value.pop(VECTOR, None)
    given = value.pop(FIELDS, {})  # as PUT takes and GET returns them
    if not isinstance(given, dict):
        raise ServeError(f"{place}: member 'fields': expected an object, got {str(given)[:50]!r}")
    if both := given.keys() & {ID, TEXT, *value}:
        told = f"{place}: {min(both)[:50]!r} is in the line and in its member 'fields'"
        raise ServeError(f"{told}; write it once")
    return Row(number, id_, value | given, vector)


def vectors_of(rows: Sequence[Row], index: Index) -> Vectors | None:
    """Return the vectors of documents, shape (n, dim), or ``None`` if the model must make them.

    Raises :class:`ServeError` if a vector is missing or invalid.
    """
    without = next((row for row in rows if row.vector is None), None)
    if without is not None and index.can_encode and all(row.vector is None for row in rows):
        return None
    held = index.configuration
    if without is not None:
        why = "other documents have one" if index.can_encode else "the index has no model"
        raise ServeError(f"{without.place}: wanted a vector of {held.dim:,} numbers, because {why}")
    found = []
    for row in rows:
        try:
            vector = numbers_of(row.vector, VECTOR)
            if len(vector) != held.dim:
                raise BadRow(f"the vector must have {held.dim:,} numbers, got {len(vector):,}")
            as_stored(prepare(vector[np.newaxis], held.metric), held.dtype)  # as the writer does
        except ValueError as error:
            raise ServeError(f"{row.place}: {error}") from None
        found.append(vector)
    return np.stack(found)


def addition(
    index: Index,
    rows: Sequence[Row],
    on_existing: OnExisting,
    asked: RequestKey,
    repeated: int = 0,
) -> Change:
    """Return the change that writes these documents. ``repeated``: number of lines left out.

    Raises :class:`ServeError` if a document is invalid. Conflicts with documents in the index are
    found later, when the change is made.
    """
    vectors = vectors_of(rows, index)
    try:
        batches = [*batches_of([row.item for row in rows], place=lambda at: rows[at].place)]
    except ValueError as error:
        raise ServeError(str(error)) from None
    parts: list[tuple[Batch, Vectors | None]] = []
    first = 0
    for batch in batches:
        end = first + len(batch)
        numbers = np.array([row.line for row in rows[first:end]], np.int64)
        named = replace(batch, source="body", numbers=numbers) if rows[0].line else batch
        parts.append((named, None if vectors is None else vectors[first:end]))
        first = end

    columns = [column for batch, _ in parts for column in batch.columns.items()]
    names = frozenset(name for name, _ in columns)
    with_values = frozenset(name for name, values in columns if values.null_count < len(values))

    def make(writer: Writer) -> dict[str, int]:
        try:
            for batch, _ in parts:
                writer.of_kinds(batch, "raise")
        except VocabtoolError as error:
            raise ServeError(str(error).removesuffix(f". {WHAT_NEXT}")) from error
        fields = {*writer.manifest.fields, *names}
        if len(fields) > MAX_FIELDS:
            raise ServeError(
                f"the index would have {len(fields):,} fields, but the limit is {MAX_FIELDS}"
            )
        there = writer.find_existing([row.id for row in rows])
        if there and on_existing == "error":
            row = next(row for row in rows if row.id in there)
            told = f"{row.place}: the index has a document {row.id!r} already"
            raise ExistingDocument(
                f"{told}; pass on_existing=update to replace it, or on_existing=skip to keep it"
            )
        for batch, given in parts:
            writer.add_batch(batch, given, on_existing=on_existing, on_error="raise")
        replaced = len(there) if on_existing == "update" else 0
        skipped = repeated + len(there) - replaced
        return {"added": len(rows) - len(there), "replaced": replaced, "skipped": skipped}

    return Change(make=make, asked=asked, names=with_values)


def digest_of(*asked: object) -> bytes:
    """Return a hash of what a request asks for."""
    return blake2b(orjson.dumps(asked), digest_size=32).digest()


class Writes:
    """The endpoints that change indexes. All requests are refused if the catalog is not writable.

    ``most``: the maximum size of all bodies in memory, in bytes.
    """

    def __init__(self, catalog: Catalog, most: int) -> None:
        self._catalog = catalog
        self._most = most
        self._held = 0  # bytes of batches
        self._commits = {name: Commits(each) for name, each in catalog.indexes.items()}

    def close(self) -> None:
        """Commit all waiting changes."""
        for each in self._commits.values():
            each.close()

    @asynccontextmanager
    async def _batch(self, request: Request) -> AsyncIterator[bytes]:
        """Read the body. Its bytes count towards the limit until the ``with`` block ends.

        Raises :class:`ServeError` if the media type is wrong, or if memory has too many bodies.
        """
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in LINES:
            got = kind[:50] or "none"
            told = f"wanted Content-Type: {' or '.join(LINES)}, got {got}"
            raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, told)
        body = bytearray()
        try:
            async for part in request.stream():
                body += part
                self._held += len(part)
                if self._held > self._most:
                    raise Busy(
                        f"more than {self._most:,} bytes of documents are waiting; try again"
                    )
            yield bytes(body)
        finally:
            self._held -= len(body)

    async def _check(self, request: Request) -> None:
        if not self._catalog.writable:
            raise ReadOnly("the server was started without --writable")
        try:
            unquote_to_bytes(request.scope.get("raw_path", b"")).decode()
        except UnicodeDecodeError:
            raise ServeError("the path is not UTF-8") from None

    async def _write(self, name: str, change: Callable[[Index], Change]) -> Response:
        index = self._catalog.find(name).ready_index()
        made = await self._catalog.run(lambda: change(index))
        return json_answer(await self._commits[name].make(made))

    def routes(self) -> APIRouter:
        """Return the endpoints that write and delete documents."""
        routes = APIRouter(
            prefix="/v1/indexes/{name}/documents",
            tags=["write"],
            responses=REFUSED,
            dependencies=[Depends(self._check)],
        )
        about_lines = {415: "The body is not of type `application/x-ndjson`."}
        about_lines |= {413: f"The body is too long, or has over {MAX_LINES:,} lines."}

        @routes.put("/{id:document}", summary="Write a document", response_model=WriteAnswer)
        async def put(name: str, id: Id, body: DocumentBody, key: Key = None) -> Response:  # noqa: A002
            """Add or replace the document with this id. The answer comes after the commit."""
            with wrong_arguments():  # a field that is not Unicode
                asked = RequestKey(digest_of("PUT", id, body.model_dump_json()), key)

            def change(index: Index) -> Change:
                document = Document(id, body.text, body.fields)
                rows = [Row(0, id, document, body.vector)]
                return addition(index, rows, "update", asked)

            return await self._write(name, change)

        @routes.delete("/{id:document}", summary="Delete a document", response_model=DeleteAnswer)
        async def delete(name: str, id: Id, key: Key = None) -> Response:  # noqa: A002
            """Delete a document. The answer comes after the commit."""

            def make(writer: Writer) -> dict[str, int]:
                deleted = writer.delete(id)
                if not deleted:
                    raise UnknownDocument(f"index {name!r}: no document has the id {id!r}")
                return {"deleted": deleted}

            asked = RequestKey(digest_of("DELETE", id), key)
            return await self._write(name, lambda _: Change(make=make, asked=asked))

        @routes.post(
            "",
            summary="Write many documents",
            response_model=WriteAnswer,
            responses={
                code: {"model": Problem, "description": told} for code, told in about_lines.items()
            },
            openapi_extra={
                "requestBody": {
                    "required": True,
                    "content": {LINES[0]: {"schema": {"type": "string"}, "example": EXAMPLE}},
                }
            },
        )
        async def post(
            name: str,
            request: Request,
            on_existing: Annotated[
                OnExisting, Query(description="What to do if the index has the id already.")
            ] = "update",
            key: Key = None,
        ) -> Response:
            """Write all documents in one commit, or none of them.

            Each line is an object with `id` and `text`, and optionally `vector` and `fields` (an
            object). All other members are fields, too. Of lines with the same id, the last is
            written, or the first with `on_existing=skip`; the others count as `skipped`. If a line
            is wrong, the problem names the line. The answer comes after the commit.
            """
            async with self._batch(request) as body:

                def change(index: Index) -> Change:
                    rows, repeated = rows_of(body, on_existing)
                    digest = blake2b(body, digest_size=32, key=on_existing.encode()).digest()
                    asked = RequestKey(digest, key)
                    return addition(index, rows, on_existing, asked, repeated)

                return await self._write(name, change)

        return routes
