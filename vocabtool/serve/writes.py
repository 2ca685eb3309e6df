"""Endpoints that write and delete documents.

Each request is one commit. The requests of an index wait for each other. A request that is sent
twice, such as a PUT by id, does no harm.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import unquote_to_bytes

import numpy as np
import orjson
from fastapi import APIRouter, Depends, Path
from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from vocabtool.documents.batch import BadRow, Batch, Document, numbers_of
from vocabtool.documents.options import ID, TEXT, VECTOR
from vocabtool.documents.row_files import BLANK, BOM, LONG
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import VocabtoolError
from vocabtool.index.database import MAX_FIELDS
from vocabtool.index.documents import Item, batches_of
from vocabtool.index.index import Index
from vocabtool.index.vectors import as_stored, prepare
from vocabtool.index.writer import WHAT_NEXT, Writer
from vocabtool.serve import answers
from vocabtool.serve.answers import (
    LOG,
    MAX_NAME,
    ServeError,
    json_answer,
    message_for_clients,
    not_ready,
    without_folders,
    wrong_arguments,
)
from vocabtool.serve.catalog import Catalog, ServedIndex, unknown_document
from vocabtool.serve.guard import LINES
from vocabtool.serve.reads import Strict, Vector

MAX_LINES: Final = 10_000  # of a batch
FIELDS: Final = "fields"  # the member of a document that has its fields
EXAMPLE: Final = (
    '{"id": "d1", "text": "how to install Xapian", "year": 2024}\n'
    '{"id": "d2", "text": "an introduction to search"}\n'
)
REFUSED: Final = answers.REFUSED | {
    403: {"description": "The server was started without `--writable`, or the key may only read."},
    409: {"description": "Another process writes to the index."},
}


class DocumentBody(Strict):
    """A document without its id."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"text": "how to install Xapian", "fields": {"year": 2024}}]
        }
    )

    text: str = Field(description="Its text.")
    fields: dict[str, Any] = Field({}, description="Its fields.")
    vector: Vector | None = Field(
        None, description="Your own vector; null: the model of the index makes it."
    )


# Changes an index, and returns the answer without the number of the commit.
Change = Callable[[Writer], dict[str, int]]
Id = Annotated[str, Path(min_length=1, max_length=MAX_NAME, description="The document's id.")]


class Row(NamedTuple):
    """A document to write. ``line``: from 1, or 0 if the body is a single document."""

    line: int
    id: str
    item: Item
    vector: object

    @property
    def place(self) -> str:
        return f"body:{self.line}" if self.line else "body"


def rows_of(body: bytes) -> list[Row]:
    """Parse JSON lines. Raises :class:`ServeError` for an invalid line or a repeated id."""
    lines = body.removeprefix(BOM)
    if lines.count(b"\n") - lines.endswith(b"\n") >= MAX_LINES:
        what = f"the body has more than {MAX_LINES:,} lines; send them in several requests"
        raise ServeError(what, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    rows: dict[str, Row] = {}
    for number, line in enumerate(lines.split(b"\n"), 1):
        if not line.strip(BLANK):
            continue
        row = row_of(number, line)
        if row.id in rows:
            raise ServeError(f"{row.place}: the id {row.id!r} is already in {rows[row.id].place}")
        rows[row.id] = row
    if not rows:
        raise ServeError('the body has no document: send lines like {"id": "1", "text": "..."}')
    return [*rows.values()]


def row_of(number: int, line: bytes) -> Row:
    """Return the document of a line. Raises :class:`ServeError` if the line is invalid."""
    place = f"body:{number}"
    try:
        value = orjson.loads(line)
        if LONG.search(line):  # orjson may have rounded a number
            value = json.loads(line)
    except (ValueError, RecursionError) as error:
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
    fields = value.pop(FIELDS, {})  # as PUT takes and GET returns them
    if not isinstance(fields, dict):
        raise ServeError(f"{place}: member 'fields': expected an object, got {str(fields)[:50]!r}")
    repeated = fields.keys() & {ID, TEXT, *value}
    if repeated:
        what = f"{place}: {min(repeated)[:50]!r} is in the line and in its member 'fields'"
        raise ServeError(f"{what}; write it once")
    return Row(number, id_, value | fields, vector)


def vectors_of(rows: Sequence[Row], index: Index) -> Vectors | None:
    """Return the vectors of documents, shape (n, dim), or ``None`` if the model must make them.

    Raises :class:`ServeError` if a vector is missing or invalid.
    """
    if index.can_encode and all(row.vector is None for row in rows):
        return None
    settings = index.configuration
    for row in rows:
        if row.vector is None:
            why = "other documents have one" if index.can_encode else "the index has no model"
            wanted = f"wanted a vector of {settings.dim:,} numbers, because {why}"
            raise ServeError(f"{row.place}: {wanted}")
    vectors = []
    for row in rows:
        try:
            vector = numbers_of(row.vector, VECTOR)
            if len(vector) != settings.dim:
                raise BadRow(f"the vector must have {settings.dim:,} numbers, got {len(vector):,}")
            # Raises now what the writer would raise later.
            as_stored(prepare(vector[np.newaxis], settings.metric), settings.dtype)
        except ValueError as error:
            raise ServeError(f"{row.place}: {error}") from None
        vectors.append(vector)
    return np.stack(vectors)


def addition(index: Index, rows: Sequence[Row]) -> Change:
    """Return the change that writes these documents.

    Raises :class:`ServeError` if one is invalid. Only the change shows whether its fields fit.
    """
    vectors = vectors_of(rows, index)
    try:
        text_batches = [*batches_of([row.item for row in rows], place=lambda at: rows[at].place)]
    except ValueError as error:
        raise ServeError(str(error)) from None
    batches: list[Batch] = []
    first = 0
    for batch in text_batches:
        end = first + len(batch)
        # Errors of the writer then name the line; a single document has none.
        numbers = np.array([row.line for row in rows[first:end]], np.int64)
        named = replace(batch, source="body", numbers=numbers) if rows[0].line else batch
        batches.append(replace(named, vectors=None if vectors is None else vectors[first:end]))
        first = end

    def change(writer: Writer) -> dict[str, int]:
        try:
            for batch in batches:  # before the first of them is written
                writer.of_kinds(batch, "raise")
        except VocabtoolError as error:  # without its advice on options, which a client lacks
            raise ServeError(str(error).removesuffix(f". {WHAT_NEXT}")) from error
        fields = {*writer.transaction.manifest.fields}.union(*(batch.columns for batch in batches))
        if len(fields) > MAX_FIELDS:
            raise ServeError(
                f"the index would have {len(fields):,} fields, but the limit is {MAX_FIELDS}"
            )
        replaced = len(writer.transaction.find_existing([row.id for row in rows]))
        for batch in batches:
            writer.add_batch(batch, on_existing="update", on_error="raise")
        return {"added": len(rows) - replaced, "replaced": replaced}

    return change


def write_routes(catalog: Catalog) -> APIRouter:
    """Return the endpoints. All requests are refused if the catalog is not writable."""

    async def check(request: Request) -> None:
        if not catalog.writable:
            raise ServeError("the server was started without --writable", HTTPStatus.FORBIDDEN)
        try:
            unquote_to_bytes(request.scope.get("raw_path", b"")).decode()
        except UnicodeDecodeError:
            raise ServeError("the path is not UTF-8") from None

    routes = APIRouter(
        prefix="/v1/indexes/{name}/documents",
        tags=["write"],
        responses=REFUSED,
        dependencies=[Depends(check)],
    )

    async def commit(name: str, change: Change) -> Response:
        """Make a change in a commit of its own. Return the answer after the commit."""
        served = catalog.find(name)
        return json_answer(await catalog.write(name, lambda: _commit(served, change)))

    @routes.put("/{id:document}", summary="Write a document", response_model=dict[str, int])
    async def put(name: str, id: Id, body: DocumentBody) -> Response:  # noqa: A002 - as the path names it
        """Add or replace the document with this id. The answer comes after the commit.

        It has the number of documents that were `added` and `replaced`, and of the `commit`.
        """
        index = catalog.find(name).ready_index()
        with wrong_arguments():  # a field that is not Unicode
            body.model_dump_json()
        row = Row(0, id, Document(id, body.text, body.fields), body.vector)
        return await commit(name, await catalog.run(lambda: addition(index, [row])))

    @routes.delete("/{id:document}", summary="Delete a document", response_model=dict[str, int])
    async def delete(name: str, id: Id) -> Response:  # noqa: A002 - as above
        """Delete a document. The answer comes after the commit.

        It has the number of documents that were `deleted`, and of the `commit`.
        """

        def change(writer: Writer) -> dict[str, int]:
            deleted = writer.delete(id)
            if not deleted:
                raise unknown_document(name, id)
            return {"deleted": deleted}

        return await commit(name, change)

    @routes.post(
        "",
        summary="Write many documents",
        response_model=dict[str, int],
        responses={
            413: {"description": f"The body is too long, or has over {MAX_LINES:,} lines."},
            415: {"description": "The body is not of type `application/x-ndjson`."},
        },
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {LINES[0]: {"schema": {"type": "string"}, "example": EXAMPLE}},
            }
        },
    )
    async def post(name: str, request: Request) -> Response:
        """Add or replace all documents in one commit, or none of them.

        Each line is an object with `id` and `text`, and optionally `vector` and `fields` (an
        object). All other members are fields, too. If a line is wrong, or has the id of an
        earlier line, the problem names the line. The answer comes after the commit; it has the
        numbers of documents `added` and `replaced`, and of the `commit`.
        """
        index = catalog.find(name).ready_index()
        body = await request.body()
        return await commit(name, await catalog.run(lambda: addition(index, rows_of(body))))

    return routes


def _commit(served: ServedIndex, change: Change) -> dict[str, int]:
    """Make a change in one commit. Return its answer with the number of the commit."""
    index = served.ready_index()
    try:
        index.refresh()
    except Exception as error:
        # It was replaced; the catalog opens it again.
        raise not_ready(f"{message_for_clients(error)}; try again") from error
    try:
        with index.writer() as writer:
            answer = change(writer)
            writer.commit()
            return {"commit": writer.transaction.manifest.commit, **answer}
    except OSError as error:
        if isinstance(error, VocabtoolError):  # its class says whose fault it is
            raise
        LOG.error("%s: the change was not written: %s", index.name, error)
        what = f"the change was not written: {without_folders(str(error))}"
        raise ServeError(what, HTTPStatus.SERVICE_UNAVAILABLE) from error
