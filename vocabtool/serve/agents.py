"""A server of the Model Context Protocol (MCP), with tools by which agents search indexes.

The server uses the official SDK, over standard input and output or over streamable HTTP. Every
answer contains structured data, and a short text that says the same. The tools only read.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass
from inspect import cleandoc
from typing import Annotated, Any, Final

from fastapi import FastAPI
from mcp.server.mcpserver import Context, MCPServer, ResourceSecurity
from mcp.server.mcpserver.exceptions import (
    ResourceError,
    ResourceNotFoundError,
    ToolError,
    UnexpectedToolError,
)
from mcp.server.mcpserver.tools import Tool
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, InputRequiredResult, Resource, TextContent, ToolAnnotations
from pydantic import Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

import vocabtool
from vocabtool.choices import Fusion
from vocabtool.errors import VocabtoolError
from vocabtool.index.documents import MAX_ID_BYTES
from vocabtool.index.index import Index
from vocabtool.search.conditions import MAX_CHARACTERS
from vocabtool.serve import problems
from vocabtool.serve.agent_results import (
    DocumentResult,
    ExplainResult,
    IndexesResult,
    IndexInfo,
    Result,
    SearchResult,
    WordsResult,
    explain_result,
    index_info,
    search_result,
    short_fields,
    uri_of,
    words_result,
)
from vocabtool.serve.catalog import Catalog, document_of
from vocabtool.serve.guard import Guard, Protection
from vocabtool.serve.limits import check_condition
from vocabtool.serve.observe import Metrics, Observer, observe_routes, print_logs
from vocabtool.serve.problems import UnknownDocument, UnknownIndex, faults_told, told_outside
from vocabtool.serve.request_facts import note_search
from vocabtool.serve.schemas import DEFAULT, MAX_DEPTH, MAX_NAME, MAX_QUERY
from vocabtool.serve.server import ServeOptions, catalog_of, serve, settings
from vocabtool.system.messages import tell

MAX_HITS: Final = 50
MAX_RESULT_CHARACTERS: Final = 40_000  # of texts, in one answer of a tool
MAX_EXCERPT: Final = 2_000  # characters
MAX_RESOURCE_CHARACTERS: Final = 1_000_000  # of a text that is read as a resource
MAX_LISTED: Final = 100  # resources; of more documents, none is listed
MAX_TEXT: Final = 100_000  # characters whose words are looked up
URI: Final = "vocabtool://{index}/{id}"
PATH: Final = "/mcp"
CORS_HEADERS: Final = ("Authorization", "Content-Type", "Mcp-Protocol-Version", "Mcp-Session-Id")

INSTRUCTIONS: Final = """Search the user's documents. Begin with `list_indexes` if you do not know
what there is. `search` returns excerpts; `get_document` reads on. Words that the embedding model
does not know count more in a search, so names and product codes may be used as they are. If a
search finds nothing useful, look at `unknown_words` and `absent_words` of its result, and ask with
other words."""

Name = Annotated[
    str,
    Field(max_length=MAX_NAME, description="Name of the index; may be left out if there is one."),
]
Id = Annotated[str, Field(min_length=1, max_length=MAX_ID_BYTES, description="Id of the document.")]
Query = Annotated[
    str,
    Field(
        max_length=MAX_QUERY,
        description="Words or a question. A quoted phrase must occur, -word must not. Empty, with "
        "`where`: list the documents that satisfy it.",
    ),
]
Where = Annotated[
    str,
    Field(
        max_length=MAX_CHARACTERS,
        description="A condition on fields, such as: year >= 2020 and lang = 'en'",
    ),
]
Fused = Annotated[
    Fusion,
    Field(
        description="How hits by meaning (vectors) and by words are combined. keyword: only words; "
        "dense: only meaning."
    ),
]


def answer(result: Result) -> CallToolResult:
    content = TextContent(type="text", text=result.as_text())
    return CallToolResult(content=[content], structured_content=result.model_dump(mode="json"))


@dataclass(frozen=True)
class Tools:
    """Methods that agents call as tools. Agents see the docstrings and argument types."""

    catalog: Catalog

    async def open(self, name: str) -> tuple[str, Index]:
        """Return the name of an index, and a copy of the index that stays at its commit.

        ``name`` may be empty if there is only one index.
        """
        if not name and len(self.catalog.indexes) > 1:
            raise UnknownIndex(
                f"the argument 'index' is missing; pass one of {', '.join(self.catalog.indexes)}"
            )
        name = name or next(iter(self.catalog.indexes))
        return name, copy(await self.catalog.open(name))

    async def search(
        self,
        query: Query,
        index: Name = "",
        k: Annotated[int, Field(ge=1, le=MAX_HITS, description="Number of hits.")] = 10,
        where: Where = "",
        fusion: Fused = DEFAULT.fusion,
        offset: Annotated[
            int, Field(ge=0, le=MAX_DEPTH, description="Number of hits before the first one.")
        ] = 0,
        characters: Annotated[
            int, Field(ge=40, le=MAX_EXCERPT, description="Length of each excerpt.")
        ] = 300,
    ) -> Annotated[CallToolResult, SearchResult]:
        """Find the documents that answer a query best, by meaning and by words.

        Each hit has its id, an excerpt and fields. The result also says which words of the query
        the embedding model does not know, and which are in no document. Read more of a document
        with get_document. k times characters may be at most 40,000.
        """
        if k * characters > MAX_RESULT_CHARACTERS:
            told = f"k {k} times characters {characters} is more than {MAX_RESULT_CHARACTERS:,}"
            raise ValueError(f"{told}; pass a smaller k, and get more hits with offset")
        if where:
            check_condition(where)
        name, opened = await self.open(index)
        asked: dict[str, Any] = {"k": k, "where": where or None, "offset": offset}

        def run() -> SearchResult:
            found = opened.search(query or None, fusion=fusion, explain=bool(query), **asked)
            note_search([found])
            return search_result(found, name, opened.manifest.commit, characters, offset)

        return answer(await self.catalog.run(run))

    async def get_document(
        self,
        id: Id,  # noqa: A002 - the name of the argument for agents
        index: Name = "",
        offset: Annotated[int, Field(ge=0, description="First character to return.")] = 0,
        characters: Annotated[
            int, Field(ge=1, le=MAX_RESULT_CHARACTERS, description="Characters to return.")
        ] = 4_000,
    ) -> Annotated[CallToolResult, DocumentResult]:
        """Read a document, or a part of a long one.

        `left` is the number of characters after this part. To go on, pass the offset after the last
        character of this part. The `start` of a hit of search can be passed as an offset, too.
        """
        name, opened = await self.open(index)
        document = await self.catalog.run(lambda: document_of(opened, name, id))
        length = len(document.text)
        if offset > length:
            raise ValueError(f"offset {offset:,} is too large: the text has {length:,} characters")
        text = document.text[offset : offset + characters]
        return answer(
            DocumentResult(
                index=name,
                id=document.id,
                uri=uri_of(name, document.id),
                fields=short_fields(document.fields, document.fields),
                text=text,
                offset=offset,
                length=length,
                left=length - offset - len(text),
            )
        )

    async def unknown_words(
        self,
        text: Annotated[str, Field(max_length=MAX_TEXT, description="Any text.")],
        index: Name = "",
    ) -> Annotated[CallToolResult, WordsResult]:
        """Tell which words of a text the embedding model of an index does not know.

        For a subword model, the result also contains the pieces of these words, and the known
        words that are split into many pieces. The model cannot tell the meaning of such words, so
        search for them as they are written.
        """
        name, opened = await self.open(index)
        return answer(await self.catalog.run(lambda: words_result(opened, name, text)))

    async def explain(
        self,
        query: Query,
        id: Id,  # noqa: A002 - as above
        index: Name = "",
        where: Where = "",
        fusion: Fused = DEFAULT.fusion,
    ) -> Annotated[CallToolResult, ExplainResult]:
        """Tell why a document is found for a query at its rank, or why it is not found.

        Pass the arguments of the search. The facts of a word are whether the model knows it, how
        many documents contain it, and how much it counts.
        """
        if where:
            check_condition(where)
        name, opened = await self.open(index)

        def run() -> ExplainResult:
            document_of(opened, name, id)
            return explain_result(opened, name, query, id, where or None, fusion)

        return answer(await self.catalog.run(run))

    async def list_indexes(self) -> Annotated[CallToolResult, IndexesResult]:
        """List the indexes, each with its number of documents, its fields and its model.

        Fields are listed with frequent values, and may be used in `where` of the other tools.
        """
        found = []
        for name in self.catalog.indexes:
            try:
                opened = await self.catalog.open(name)
                found.append(await self.catalog.run(lambda: index_info(name, opened)))  # noqa: B023 - runs at once
            except VocabtoolError as error:
                found.append(IndexInfo(name=name, problem=told_outside(error)))
        return answer(IndexesResult(indexes=found))


class AgentServer(MCPServer[None]):
    """An MCP server that searches the indexes of a catalog."""

    def __init__(self, catalog: Catalog) -> None:
        @asynccontextmanager
        async def lifespan(_: MCPServer[None]) -> AsyncIterator[None]:
            async with catalog.lifespan():
                yield

        self.tools = Tools(catalog)
        functions = (
            *(self.tools.search, self.tools.get_document, self.tools.unknown_words),
            *(self.tools.explain, self.tools.list_indexes),
        )
        super().__init__(
            "vocabtool",
            version=vocabtool.__version__,
            instructions=INSTRUCTIONS,
            lifespan=lifespan,
            log_level="WARNING",
            subscriptions=False,
            tools=[tool_of(each) for each in functions],
        )
        self.resource(
            URI,
            name="document",
            description="The text of a document. The id is percent-encoded.",
            mime_type="text/plain",
            # An id may look like a path; it is only compared with the ids of the index.
            security=ResourceSecurity(exempt_params={"index", "id"}),
        )(self.document)

    async def document(self, index: str, id: str) -> str:  # noqa: A002 - named in the template
        """Return the text of a document."""
        try:
            name, opened = await self.tools.open(index)
            found = await self.tools.catalog.run(lambda: document_of(opened, name, id))
        except (UnknownIndex, UnknownDocument) as error:
            raise ResourceNotFoundError(str(error)) from error
        except VocabtoolError as error:
            raise ResourceError(told_outside(error)) from error
        if (length := len(found.text)) > MAX_RESOURCE_CHARACTERS:
            told = f"the text has {length:,} characters, more than {MAX_RESOURCE_CHARACTERS:,}"
            raise ResourceError(f"{told}; read it in parts with get_document")
        return found.text

    async def list_resources(self) -> list[Resource]:
        """Return the documents of all open indexes; none if there are more than ``MAX_LISTED``."""
        opened = [each for each in self.tools.catalog.indexes.values() if each.index is not None]
        held = [(each.name, each.ready_index()) for each in opened]
        if sum(len(index) for _, index in held) > MAX_LISTED:
            return []
        ids = await self.tools.catalog.run(lambda: [(name, [*index.ids()]) for name, index in held])
        return [
            Resource(uri=uri_of(name, id_), name=id_, mime_type="text/plain")
            for name, found in ids
            for id_ in found
        ]

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool. Messages of errors do not contain the words that the SDK adds."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, ValidationError):
                if isinstance(error, UnexpectedToolError):
                    raise
                raise ToolError(faults_told([*cause.errors()])) from cause
            if isinstance(cause, VocabtoolError | ValueError | TypeError):
                raise ToolError(told_outside(cause)) from cause
            raise

    def http(self, protection: Protection) -> FastAPI:
        """Return the application for streamable HTTP, including the endpoints for monitoring.

        If ``protection`` names hosts, other ``Host`` and ``Origin`` headers are refused.
        """
        hosts = [*(protection.hosts or ())]
        hosts += [f"{each}:*" for each in hosts]
        origins = [f"{scheme}://{each}" for scheme in ("http", "https") for each in hosts]
        app = self.streamable_http_app(
            streamable_http_path=PATH,
            json_response=True,
            stateless_http=True,
            max_request_body_size=protection.limits.body,
            transport_security=TransportSecuritySettings(
                enable_dns_rebinding_protection=protection.hosts is not None,
                allowed_hosts=hosts,
                allowed_origins=[*origins, *protection.origins],
            ),
        )

        @asynccontextmanager
        async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
            async with self.session_manager.run():
                yield {"limits": protection.limits}  # for each connection

        catalog = self.tools.catalog
        metrics = Metrics(catalog)
        # Not GET, which would ask for a stream: there are no messages to wait for.
        route = Route(PATH, app, methods=["POST"])
        outer = FastAPI(lifespan=lifespan, openapi_url=None, redirect_slashes=False, routes=[route])
        outer.include_router(observe_routes(catalog, metrics))
        outer.add_exception_handler(HTTPException, problems.of_refusal)
        outer.add_exception_handler(VocabtoolError, problems.of_error)
        outer.add_middleware(Guard, protection=protection)
        if protection.origins:
            outer.add_middleware(
                CORSMiddleware,
                allow_origins=protection.origins,
                allow_methods=("POST",),
                allow_headers=CORS_HEADERS,
            )
        outer.add_middleware(Observer, metrics=metrics)  # the last is outermost
        return outer


def tool_of(function: Callable[..., Any]) -> Tool:
    """Make a tool from a function. The tool refuses unknown arguments."""
    tool = Tool.from_function(
        function,
        description=cleandoc(function.__doc__ or ""),
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    )
    model = tool.fn_metadata.arg_model
    model.model_config["extra"] = "forbid"
    model.model_rebuild(force=True)
    tool.parameters = model.model_json_schema(by_alias=True)
    return tool


def run(options: ServeOptions, *, http: bool) -> None:
    """Serve agents until the client leaves or a signal stops the server.

    ``http``: whether to use HTTP instead of standard input and output.
    """
    print_logs(options.log_texts)
    logging.getLogger().addHandler(logging.NullHandler())  # or the SDK adds one that prints
    agents = AgentServer(catalog_of(options))
    if not http:
        tell("serving agents on standard input and output")
        agents.run("stdio")  # the SDK sends whatever else is printed to standard error
        return
    serve(settings(agents.http(options.protection)), options, PATH)
