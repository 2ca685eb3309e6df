"""A server of the Model Context Protocol (MCP), with tools by which agents search indexes.

The server uses the official SDK, over standard input and output or over streamable HTTP. Answers
are those of the HTTP API, with long texts cut. The tools only read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from inspect import Parameter, cleandoc, signature
from math import isfinite
from typing import Annotated, Any, Final, NoReturn

import anyio
import orjson
from fastapi import FastAPI
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    CallToolResult,
    ErrorData,
    InputRequiredResult,
    JSONRPCError,
    TextContent,
    ToolAnnotations,
)
from pydantic import AnyUrl, Field, ValidationError
from starlette.routing import Route

import vocabtool
from vocabtool.errors import VocabtoolError
from vocabtool.index.documents import MAX_ID_BYTES
from vocabtool.index.index import Index
from vocabtool.keywords.cutter import text_in_utf8
from vocabtool.reports.hits import extract, fields_outside, value_counts
from vocabtool.search.hits import Hit, Hits
from vocabtool.serve.answers import (
    MAX_NAME,
    MAX_QUERY,
    MAX_TEXT,
    ServeError,
    describe_faults,
    json_answer,
    message_for_clients,
)
from vocabtool.serve.application import ServeOptions, print_logs, serve, settings, watch
from vocabtool.serve.catalog import Catalog, document_of, known_words, note_search
from vocabtool.serve.guard import Protection, check_condition
from vocabtool.serve.reads import (
    IndexesAnswer,
    SearchAnswer,
    WordsAnswer,
    facts_of,
    request_fields,
    words_of,
)
from vocabtool.system.messages import plural, tell

MAX_RESULT_CHARACTERS: Final = 40_000  # of texts, in one answer of a tool
MAX_WORDS: Final = 100  # in one answer
MAX_FIELDS: Final = 20  # of a document, or of an index
MAX_VALUE: Final = 160  # characters of a value
SPLIT: Final = 3  # pieces of a word that is called split
PATH: Final = "/mcp"

INSTRUCTIONS: Final = """Search the user's documents. Begin with `list_indexes` if you do not know
what there is. `search` returns excerpts; `get_document` reads on. Words that the embedding model
does not know count more in a search, so names and product codes may be used as they are. If a
search finds nothing useful, look at the words of its query that are unknown or in no document, and
ask with other words."""

Name = Annotated[
    str,
    Field(max_length=MAX_NAME, description="Name of the index; may be left out if there is one."),
]


@dataclass(frozen=True, kw_only=True)
class DocumentPart:
    """A part of a document.

    - ``offset``: where the part begins in the text, in characters.
    - ``length``: the length of the whole text.
    - ``left``: the number of characters after this part.
    """

    index: str
    id: str
    fields: Mapping[str, Any]
    text: str
    offset: int
    length: int
    left: int


class AgentServer(MCPServer[None]):
    """An MCP server that searches the indexes of a catalog.

    Agents see the docstrings and argument types of its tools.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        functions = (self.search, self.get_document, self.unknown_words, self.list_indexes)
        tools: list[Tool] = []
        for function in functions:
            tool = Tool.from_function(
                function,
                description=cleandoc(function.__doc__ or ""),
                annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
            )
            model = tool.fn_metadata.arg_model
            model.model_config["extra"] = "forbid"  # unknown arguments are refused
            model.model_rebuild(force=True)
            tool.parameters = model.model_json_schema(by_alias=True)
            tools.append(tool)
        super().__init__(
            "vocabtool",
            version=vocabtool.__version__,
            instructions=INSTRUCTIONS,
            lifespan=catalog.lifespan,
            log_level="WARNING",
            subscriptions=False,
            tools=tools,
        )

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool. Messages of errors do not contain the words that the SDK adds."""
        if len(name) > MAX_NAME:
            raise ToolError(f"there is no tool {name!a:.100}")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, ValidationError):
                if isinstance(error, UnexpectedToolError):  # the tool failed, not its arguments
                    raise
                raise ToolError(describe_faults([*cause.errors()])) from cause
            if isinstance(cause, VocabtoolError | ValueError | TypeError):
                raise ToolError(message_for_clients(cause)) from cause
            raise

    async def read_resource(
        self, uri: AnyUrl | str, context: Context[None, Any] | None = None
    ) -> NoReturn:
        """Refuse to read a resource. The error of the SDK would send a long address back twice."""
        raise MCPError(code=INVALID_PARAMS, message=f"there is no resource {str(uri)!a:.100}")

    async def get_prompt(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        context: Context[None, Any] | None = None,
    ) -> NoReturn:
        """Refuse to get a prompt, as for resources."""
        raise MCPError(code=INVALID_PARAMS, message=f"there is no prompt {name!a:.100}")

    async def run_stdio_async(self) -> None:
        """Serve standard input and output. A request that the SDK cannot read gets an answer."""
        send, receive = anyio.create_memory_object_stream[SessionMessage | Exception]()

        async with stdio_server() as (requests, answers), anyio.create_task_group() as tasks:

            async def forward() -> None:
                async with send:
                    async for request in requests:
                        refusal = _refusal(request)
                        if refusal is None:
                            await send.send(request)
                        else:
                            await answers.send(refusal)

            tasks.start_soon(forward)
            server = self._lowlevel_server
            await server.run(receive, answers, server.create_initialization_options())

    def http(self, protection: Protection) -> FastAPI:
        """Return the application for streamable HTTP, including the endpoints for monitoring."""
        app = self.streamable_http_app(
            streamable_http_path=PATH,
            json_response=True,
            stateless_http=True,
            max_request_body_size=protection.body,
            # The guard checks the headers Host and Origin.
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )

        # Not GET, which would ask for a stream: there are no messages to wait for.
        route = Route(PATH, app, methods=["POST"])
        outer = FastAPI(
            lifespan=lambda _: self.session_manager.run(),
            openapi_url=None,
            redirect_slashes=False,
            routes=[route],
        )
        watch(outer, self.catalog, protection)
        return outer

    # Tools.

    async def _open(self, name: str) -> tuple[str, Index]:
        """Return the name, and a copy at one commit. An empty ``name`` means the only index."""
        if not name and len(self.catalog.indexes) > 1:
            names = ", ".join(self.catalog.indexes)
            raise ServeError(f"the argument 'index' is missing; pass one of {names}")
        name = name or next(iter(self.catalog.indexes))
        return name, copy(await self.catalog.open(name))

    async def search(
        self,
        query: Annotated[
            str,
            Field(
                max_length=MAX_QUERY,
                description="Words or a question. A quoted phrase must occur, -word must not. "
                "Empty, with `where`: list the documents that satisfy it.",
            ),
        ],
        index: Name = "",
        characters: Annotated[
            int, Field(ge=40, le=2_000, description="Length of each excerpt.")
        ] = 300,
        **options: Any,
    ) -> Annotated[CallToolResult, SearchAnswer]:
        """Find the documents that answer a query best, by meaning and by words.

        Each hit has its id, an excerpt as its text, and fields. The words of the query say whether
        the embedding model knows them, and how many documents contain them. Read more of a document
        with get_document. k times characters may be at most 40,000.
        """
        k, offset = options["k"], options["offset"]
        if k * characters > MAX_RESULT_CHARACTERS:
            what = f"k {k} times characters {characters} is more than {MAX_RESULT_CHARACTERS:,}"
            raise ValueError(f"{what}; pass a smaller k, and get more hits with offset")
        options["where"] = options["where"] or None  # agents send empty texts
        if options["where"] is not None:
            check_condition(options["where"])
        name, opened = await self._open(index)

        def run() -> CallToolResult:
            hits = opened.search(query or None, explain=bool(query), **options)
            note_search(hits)
            excerpts = []  # each with the place of its beginning in the text
            for hit in hits:
                start, end, _ = extract(hit, characters)
                outside = {field: hit.fields[field] for field, _ in fields_outside(hit, start, end)}
                fields, text = _short_fields(outside), hit.text[start:end]
                excerpts.append((replace(hit, text=text, fields=fields, explanation=None), start))
            lines = _lines_of(hits, excerpts, name, offset)
            short = replace(
                hits,
                hits=tuple(hit for hit, _ in excerpts),
                query=replace(hits.query, words=hits.query.words[:MAX_WORDS]),
                facets={
                    field: tuple(replace(count, value=_cut(count.value)) for count in counts)
                    for field, counts in hits.facets.items()
                },
            )
            answer = {**short.to_json(), "index": name, "commit": opened.manifest.commit}
            return _result(answer, "\n".join(lines))

        return await self.catalog.run(run)

    async def get_document(
        self,
        id: Annotated[  # noqa: A002 - the name of the argument for agents
            str, Field(min_length=1, max_length=MAX_ID_BYTES, description="Id of the document.")
        ],
        index: Name = "",
        offset: Annotated[int, Field(ge=0, description="First character to return.")] = 0,
        characters: Annotated[
            int, Field(ge=1, le=MAX_RESULT_CHARACTERS, description="Characters to return.")
        ] = 4_000,
    ) -> DocumentPart:
        """Read a document, or a part of a long one.

        `left` is the number of characters after this part. To go on, pass the offset after the last
        character of this part. A hit of search says at which character its excerpt begins.
        """
        name, opened = await self._open(index)
        document = await self.catalog.run(lambda: document_of(opened, name, id))
        length = len(document.text)
        if offset > length:
            raise ValueError(f"offset {offset:,} is too large: the text has {length:,} characters")
        text = document.text[offset : offset + characters]
        return DocumentPart(
            index=name,
            id=document.id,
            fields=_short_fields(document.fields),
            text=text,
            offset=offset,
            length=length,
            left=length - offset - len(text),
        )

    async def unknown_words(
        self,
        text: Annotated[str, Field(max_length=MAX_TEXT, description="Any text.")],
        index: Name = "",
    ) -> WordsAnswer:
        """Tell which words of a text the embedding model of an index does not know.

        At most 100 different words are listed. For a subword model, the result also contains the
        pieces of these words, and the known words that are split into many pieces. The model cannot
        tell the meaning of such words, so search for them as they are written.
        """
        name, opened = await self._open(index)

        answer = await self.catalog.run(lambda: words_of(known_words(opened, name), text))
        distinct = {
            word.surface: word
            for word in answer.words
            if not word.known or len(word.pieces or ()) >= SPLIT
        }
        return replace(answer, words=tuple(distinct.values())[:MAX_WORDS])

    async def list_indexes(self) -> Annotated[CallToolResult, IndexesAnswer]:
        """List the indexes, each with its number of documents, its fields and its model.

        Fields are listed with frequent values, and may be used in `where` of search.
        """
        answers = []
        for name, served in self.catalog.indexes.items():
            with suppress(VocabtoolError):  # the answer says why it is not open
                await self.catalog.open(name)
            answer = await facts_of(self.catalog, served)
            fields = []
            for field in (answer["fields"] or ())[:MAX_FIELDS]:
                frequent = (replace(count, value=_cut(count.value)) for count in field.frequent)
                fields.append(replace(field, frequent=tuple(frequent)))
            answers.append({**answer, "fields": fields})
        return _result({"indexes": answers})


# The options of a search are arguments of its tool. All hits are explained, to choose excerpts.
_SIGNATURE: Final = signature(AgentServer.search, eval_str=True)
_OPTIONS: Final = [
    Parameter(name, Parameter.KEYWORD_ONLY, annotation=hint, default=default)
    for name, (hint, default) in request_fields(k={"le": 50}).items()
    if name != "explain"
]
vars(AgentServer)["search"].__signature__ = _SIGNATURE.replace(
    parameters=[*[*_SIGNATURE.parameters.values()][:-1], *_OPTIONS]  # instead of **options
)


def _refusal(request: SessionMessage | Exception) -> SessionMessage | None:
    """Return the answer to a request that cannot be read, or whose method has a long name.

    A request with a lone surrogate cannot be read, because it is not Unicode. Returns ``None`` for
    all other requests, which the SDK answers.
    """
    try:
        if isinstance(request, ValidationError):
            fault = request.errors()[0]
            id_ = json.loads(fault["input"])["id"]
            json.dumps(id_, ensure_ascii=False).encode()
            code, what = PARSE_ERROR, f"the request cannot be read: {fault['msg']:.200}"
        else:
            message: Any = request.message if isinstance(request, SessionMessage) else None
            if message is None or len(message.method) <= MAX_NAME:
                return None
            code, what = METHOD_NOT_FOUND, f"there is no method {message.method!a:.100}"
            id_ = message.id
    # What has no method, or no id that can be sent back, gets no answer.
    except (ValueError, LookupError, TypeError, RecursionError, AttributeError):
        return None
    failure = ErrorData(code=code, message=what)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=id_, error=failure))


def _result(answer: Mapping[str, Any], text: str = "") -> CallToolResult:
    """Return the result of a tool. ``text``: its form for people; by default, the JSON."""
    content = json_answer(answer).body
    text = text or bytes(content).decode()
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=orjson.loads(content)
    )


def _lines_of(
    hits: Hits, excerpts: Sequence[tuple[Hit, int]], name: str, offset: int
) -> Iterator[str]:
    """Yield the hits as text for people; an excerpt is a short hit and its start in the text."""
    yield f"{plural(len(hits), 'hit', 'hits')} of {hits.total:,} in index {name!r}"
    for suggestion in hits.suggestions:
        yield f"{suggestion.word}: did you mean {', '.join(suggestion.spellings)}?"
    for number, (hit, (excerpt, start)) in enumerate(zip(hits, excerpts, strict=True), offset + 1):
        fields = "".join(f", {field}: {value}" for field, value in excerpt.fields.items())
        yield f"{number}. id: {hit.id} (score {hit.score:.3f}{fields})"
        yield excerpt.text
        if len(excerpt.text) < len(hit.text):
            yield f"(characters {start} to {start + len(excerpt.text)} of {len(hit.text)})"
    words = {word.surface: word for word in hits.query.words[:MAX_WORDS] if word.counts}
    unknown = [surface for surface, word in words.items() if word.known is False]
    absent = [surface for surface, word in words.items() if word.document_frequency == 0]
    if unknown:
        yield f"unknown to the model: {', '.join(unknown)}"
    if absent:
        yield f"in no document: {', '.join(absent)}"
    for field, counts in hits.facets.items():
        yield f"{field}: {value_counts(counts)}"
    yield from (f"note: {note}" for note in hits.notes)
    end_of_page = offset + len(hits)
    if end_of_page < hits.total:
        yield f"more hits: search again with offset {end_of_page}"


def _short_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return at most ``MAX_FIELDS`` fields. Long values are cut."""
    return {name: _cut(fields[name]) for name in [*fields][:MAX_FIELDS]}


def _cut(value: Any) -> Any:
    """Return a value of a field for JSON: a long text is cut, and what JSON lacks is a text."""
    if value is None or isinstance(value, int) or (isinstance(value, float) and isfinite(value)):
        return value
    text = text_in_utf8(str(value))
    return text if len(text) <= MAX_VALUE else text[:MAX_VALUE] + "…"


def run(options: ServeOptions, *, http: bool) -> None:
    """Serve until the client leaves or a signal arrives, over HTTP or the standard streams."""
    print_logs(options.log_texts)
    logging.getLogger().addHandler(logging.NullHandler())  # or the SDK adds one that prints
    agents = AgentServer(options.catalog())
    if not http:
        tell("serving agents on standard input and output")
        agents.run("stdio")  # the SDK sends whatever else is printed to standard error
        return
    serve(settings(agents.http(options.protection)), options, PATH)
