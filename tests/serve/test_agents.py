"""``vocabtool mcp`` answers the client of the MCP SDK what the Python API answers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

import httpx
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, TextContent

from tests.builders.served import serve_process
from tests.builders.small_indexes import DIM, add, made, vectors
from tests.cli.running import environment, output, run
from tests.conftest import ROOT
from vocabtool import Document, Index

GLOVE: Final = ROOT / "data" / "small_glove.txt"
COMMAND: Final = [sys.executable, "-m", "vocabtool", "mcp"]
LONG: Final = (
    " ".join(f"filler{number}" for number in range(2_000)) + " the zanzibar report. The end"
)
STRANGE: Final = "a/b c/Größe?x=1&y#2%20,..\\/../z"
DOCUMENTS: Final = [
    Document("redis", "Redis keeps the sessions in memory", {"year": 2020, "lang": "en"}),
    Document("power", "after a power failure the users log in", {"year": 2021, "lang": "en"}),
    Document("laptop", "the battery of a laptop loses power", {"year": 2022, "lang": "de"}),
    Document(STRANGE, "a text with a strange name", {"note": "x" * 300, "ratio": 0.5, "old": True}),
    Document("long", LONG, {}),
]
MANY_TESTS: Final = " or ".join(["year = 1"] * 101)
TOOLS: Final = ["search", "get_document", "unknown_words", "list_indexes"]


@dataclass(frozen=True)
class Agent:
    """The SDK's client, called from outside its event loop."""

    client: Client
    portal: BlockingPortal

    def ask(self, method: str, *arguments: Any) -> Any:
        """What a method of the client returns."""
        return self.portal.call(getattr(self.client, method), *arguments)

    def call(self, tool: str, **arguments: Any) -> CallToolResult:
        found = self.ask("call_tool", tool, arguments)
        assert isinstance(found, CallToolResult)
        return found

    def result(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured content of a call that succeeds; its text is not empty."""
        found = self.call(tool, **arguments)
        assert not found.is_error, found.content
        assert found.structured_content is not None
        assert text_of(found)
        content: dict[str, Any] = found.structured_content
        return content

    def error(self, tool: str, **arguments: Any) -> str:
        """The message of a call that fails."""
        found = self.call(tool, **arguments)
        assert found.is_error
        assert found.structured_content is None
        return text_of(found)

    def hits_of(self, query: str, **more: Any) -> dict[str, Any]:
        """The first search by words that finds something: a new commit is seen in a moment."""
        until = monotonic() + 60
        while True:
            found = self.call("search", query=query, fusion="keyword", **more).structured_content
            if found is not None and found["hits"]:
                return dict(found)
            assert monotonic() < until
            sleep(0.05)


def text_of(found: CallToolResult) -> str:
    (content,) = found.content
    assert isinstance(content, TextContent)
    return content.text


@contextmanager
def connected(server: Any) -> Iterator[Agent]:
    with start_blocking_portal() as portal:
        client = Client(server, read_timeout_seconds=120)
        with portal.wrap_async_context_manager(client):
            yield Agent(client, portal)


@contextmanager
def over_stdio(*arguments: str | Path) -> Iterator[Agent]:
    command, *rest = [*COMMAND, *map(str, arguments)]
    started = StdioServerParameters(command=command, args=rest, env=environment())
    with connected(started) as agent:
        yield agent


@contextmanager
def listening(*arguments: str | Path) -> Iterator[str]:
    """The address of a server over HTTP."""
    with serve_process("--http", *arguments, name="mcp") as served:
        yield str(served.client.base_url).rstrip("/")
    assert (served.process.returncode, "Traceback" in "".join(served.lines)) == (0, False)


@contextmanager
def over_http(*arguments: str | Path) -> Iterator[Agent]:
    with listening(*arguments) as address, connected(address) as agent:
        yield agent


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An index with a model of whole words, one with subwords, one without a vocabulary."""
    folder = tmp_path_factory.mktemp("agents")
    notes = Index.create(folder / "notes", GLOVE, weights="none")
    add(notes, DOCUMENTS)
    entries = folder / "vocab.txt"
    entries.write_text("\n".join(("[PAD]", "[UNK]", "i", "love", "ant", "##elo", "##pe", "##s")))
    pieces = Index.create(folder / "pieces", dim=DIM, vocabulary=entries, rule="bert-uncased")
    add(pieces, [Document("a", "I love Xapian")], vectors([0]))
    made(folder / "bare", range(150))
    return {name: folder / name for name in ("notes", "pieces", "bare")}


@pytest.fixture(scope="module", params=[over_stdio, over_http], ids=["stdio", "http"])
def agent(request: pytest.FixtureRequest, folders: dict[str, Path]) -> Iterator[Agent]:
    with request.param(*(f"{name}={folder}" for name, folder in folders.items())) as agent:
        yield agent


@pytest.fixture(scope="module")
def notes(folders: dict[str, Path]) -> Index:
    return Index.open(folders["notes"])


def test_tools_are_described(agent: Agent) -> None:
    """Every argument and member has a type; nothing else may be passed; nothing is written."""
    tools = {each.name: each for each in agent.ask("list_tools").tools}
    assert [*tools] == TOOLS
    for each in tools.values():
        assert each.description is not None and len(each.description) > 60
        assert each.annotations.read_only_hint is True
        assert each.input_schema["additionalProperties"] is False
        for argument in each.input_schema["properties"].values():
            assert argument["description"]
        assert each.output_schema["type"] == "object"
    assert tools["search"].input_schema["required"] == ["query"]
    assert "list_indexes" in (agent.client.instructions or "")


@pytest.mark.parametrize(
    "asked",
    [
        {"query": "does Redis lose power", "k": 3},
        {"query": "memory", "fusion": "dense", "k": 2},
        {"query": "power", "where": "lang = 'de' or year < 2021"},
        {"query": "power", "sort": ["year:desc"], "group_by": "lang", "facets": ["lang"]},
        {"query": "power -memory", "literal": True, "guarantee": False, "a": 0.9, "depth": 3},
    ],
)
def test_search(agent: Agent, notes: Index, asked: dict[str, Any]) -> None:
    """Ids and scores are those of Python; the texts are excerpts."""
    asked = dict(asked)
    found = agent.result("search", index="notes", **asked)
    expected = notes.search(asked.pop("query"), **asked, explain=True)
    assert [(hit["id"], hit["score"]) for hit in found["hits"]] == [
        (hit.id, hit.score) for hit in expected
    ]
    texts = {each.id: each.text for each in DOCUMENTS}
    assert all(hit["text"] in texts[hit["id"]] for hit in found["hits"])
    assert all(len(hit["text"]) <= 300 and "explanation" not in hit for hit in found["hits"])
    assert found["total"] == expected.total
    assert found["notes"] == [*expected.notes]
    assert (found["index"], found["commit"]) == ("notes", notes.manifest.commit)


def test_what_the_words_of_a_query_are(agent: Agent) -> None:
    """Words that the model does not know, words in no document, and other spellings."""
    asked = {"query": "Redis power xyzzy", "index": "notes"}
    words = agent.result("search", **asked)["query"]["words"]
    assert [(each["known"], each["document_frequency"]) for each in words] == [
        *((False, 1), (True, 2), (False, 0))
    ]
    told = text_of(agent.call("search", **asked))
    assert "unknown to the model: Redis, xyzzy\nin no document: xyzzy" in told
    assert told.startswith("5 hits of 5 in index 'notes'\n1. id: redis (score ")
    found = agent.result("search", query="zanzibra", index="notes")
    assert found["hits"] == []
    assert found["suggestions"] == [{"word": "zanzibra", "spellings": ["zanzibar"]}]


def test_an_excerpt_is_around_the_word(agent: Agent) -> None:
    """The word stands at the end of a long text; a field that is not in the excerpt is shown."""
    asked: dict[str, Any] = {"query": "zanzibar", "index": "notes", "fusion": "keyword"}
    (hit,) = agent.result("search", characters=60, **asked)["hits"]
    assert "the zanzibar report" in hit["text"]
    assert len(hit["text"]) == 60
    start = LONG.index(hit["text"])
    told = text_of(agent.call("search", characters=60, **asked))
    assert f"(characters {start} to {start + 60} of {len(LONG)})" in told
    assert hit["fields"] == {}
    (hit,) = agent.result("search", query="strange", index="notes", fusion="keyword")["hits"]
    assert hit["fields"] == {"note": "x" * 160 + "…", "ratio": 0.5, "old": True}


def test_pages(agent: Agent, folders: dict[str, Path]) -> None:
    """Offsets lead through all documents of a list."""
    ids: list[str] = []
    total = 1
    while len(ids) < total:
        asked = {"index": "bare", "query": "", "where": "even", "offset": len(ids)}
        page = agent.result("search", **asked)
        ids += [hit["id"] for hit in page["hits"]]
        total = page["total"]
    assert ids == [hit.id for hit in Index.open(folders["bare"]).search(k=200, where="even")]
    told = text_of(agent.call("search", index="bare", query="amber", k=3))
    assert told.endswith("more hits: search again with offset 3")


def test_documents(agent: Agent) -> None:
    """A document with a strange id, and a long one in parts."""
    found = agent.result("get_document", id=STRANGE, index="notes")
    assert found["text"] == "a text with a strange name"
    assert found["fields"] == {"note": "x" * 160 + "…", "ratio": 0.5, "old": True}
    assert (found["offset"], found["length"], found["left"]) == (0, 26, 0)
    text, left = "", 1
    while left:
        found = agent.result(
            "get_document", id="long", index="notes", offset=len(text), characters=7_001
        )
        assert found["offset"] == len(text)
        text += found["text"]
        left = found["left"]
        assert len(text) + left == found["length"] == len(LONG)
    assert text == LONG


def test_unknown_words(agent: Agent) -> None:
    """Whole words, subwords in pieces, and more words than an answer lists."""
    found = agent.result("unknown_words", text="Redis and xyzzy and Redis", index="notes")
    assert [(each["surface"], each["known"], each["pieces"]) for each in found["words"]] == [
        *(("redis", False, None), ("xyzzy", False, None))
    ]
    found = agent.result("unknown_words", text="I love antelopes Xapian", index="pieces")
    assert [(each["surface"], each["known"]) for each in found["words"]] == [
        *(("antelopes", True), ("xapian", False))
    ]
    assert found["words"][0]["pieces"] == ["ant", "##elo", "##pe", "##s"]
    many = " ".join(f"xyzzy{number}q" for number in range(107))
    assert len(agent.result("unknown_words", text=many, index="notes")["words"]) == 100


def test_list_indexes(agent: Agent) -> None:
    notes, pieces, bare = agent.result("list_indexes")["indexes"]
    assert {name: notes[name] for name in ("name", "problem", "status", "documents")} == {
        **{"name": "notes", "problem": None, "status": "ready", "documents": 5}
    }
    assert [(each["name"], each["kind"], each["documents"]) for each in notes["fields"]] == [
        *(("year", "integer", 3), ("lang", "string", 3), ("note", "string", 1)),
        *(("ratio", "number", 1), ("old", "boolean", 1)),
    ]
    assert [counted["value"] for counted in notes["fields"][1]["frequent"]] == ["en"]
    assert [
        (each["model"], each["can_encode"], each["has_vocabulary"]) for each in (notes, pieces)
    ] == [*(("small_glove.txt", True, True), (None, False, True))]
    assert (bare["documents"], bare["has_vocabulary"]) == (150, False)


@pytest.mark.parametrize(
    ("tool", "asked", "told"),
    [
        ("search", {"query": "a", "k": 51}, "k: Input should be less than or equal to 50"),
        ("search", {"query": "a", "limit": 5}, "limit: there is no such member"),
        ("search", {"query": "a", "characters": 2_000, "k": 50}, "get more hits with offset"),
        ("search", {"query": "a", "where": MANY_TESTS}, "at most 100 tests"),
        ("search", {"query": "a", "index": "other"}, "no index 'other'; the indexes are notes, "),
        ("search", {"query": "a", "index": ""}, "'index' is missing; pass one of notes"),
        ("get_document", {"id": "absent"}, "index 'notes': no document has the id 'absent'"),
        ("get_document", {"id": "redis", "offset": 99}, "the text has 34"),
        ("unknown_words", {"text": "a", "index": "bare"}, "has no vocabulary"),
        ("delete", {}, "Unknown tool: delete"),
    ],
)
def test_errors(agent: Agent, tool: str, asked: dict[str, Any], told: str) -> None:
    """A tool's error is our own message."""
    if tool not in ("list_indexes", "delete"):
        asked = {"index": "notes", **asked}
    message = agent.error(tool, **asked)
    assert told in message
    assert not message.startswith("Error executing")
    assert "Traceback" not in message


def test_one_index_and_its_commits(tmp_path: Path) -> None:
    """Its name may be left out; a commit is seen without a restart."""
    index = made(tmp_path / "Größe 1", range(3))
    with over_stdio(index.path) as agent:
        assert agent.result("search", query="amber")["index"] == "Größe 1"
        add(index, [Document("new", "a zanzibar report")], vectors([4]))
        found = agent.hits_of("zanzibar")
        assert found["hits"][0]["id"] == "new"
        assert found["commit"] == index.manifest.commit


def test_an_index_that_cannot_be_opened(tmp_path: Path) -> None:
    """The others can be searched; the problem is told, and gone when it is there."""
    good = made(tmp_path / "good", range(3))
    (tmp_path / "late").mkdir()
    with over_stdio(good.path, f"other={tmp_path / 'late'}") as agent:
        assert agent.result("search", query="amber", index="good")["hits"][0]["id"] == "d0"
        told = agent.error("search", query="amber", index="other")
        assert told == "index 'other': no index; create one with `vocabtool index`; try again"
        found = {each["name"]: each for each in agent.result("list_indexes")["indexes"]}
        assert found["good"]["problem"] is None
        assert found["other"]["problem"] == "no index; create one with `vocabtool index`"
        made(tmp_path / "late", range(2))
        assert agent.hits_of("only00001", index="other")["hits"][0]["id"] == "d1"


def test_standard_output_belongs_to_the_protocol(folders: dict[str, Path]) -> None:
    """Each line is a message; the end of the input ends the server. The older handshake works."""
    client = {"name": "test", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    asked = {"name": "search", "arguments": {"query": "power", "index": "notes", "k": 1}}
    messages = (
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": asked},
        {"id": 3, "method": "tools/call", "params": {**asked, "arguments": {"q": "\ud800"}}},
        {"id": 4, "method": "resources/read", "params": {"uri": f"x://{'a' * 100_000}"}},
        {"id": 5, "method": "prompts/get", "params": {"name": "a" * 100_000}},
        {"id": 6, "method": "a" * 100_000},
        {"id": 7, "method": "tools/call", "params": {"name": "a" * 100_000}},
        {"id": 8, "method": "tools/call", "params": {**asked, "arguments": {"a" * 100_000: 1}}},
    )
    command = [*COMMAND, f"notes={folders['notes']}", f"none={folders['notes'].parent}"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=environment(), text=True,
    ) as server:  # fmt: skip
        assert server.stdin is not None and server.stdout is not None
        for each in messages:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **each}) + "\n")
        server.stdin.flush()
        lines = [server.stdout.readline() for _ in range(8)]
        rest, errors = server.communicate()
    answers = sorted(map(json.loads, lines), key=lambda answer: int(answer["id"]))
    assert [answer["id"] for answer in answers] == [*range(1, 9)]
    assert "hex escape" in answers[2]["error"]["message"]  # a lone surrogate is no Unicode
    for answer in answers[3:]:  # what is long is not sent back
        assert "there is no" in str(answer)
        assert len(str(answer)) < 300
    assert answers[0]["result"]["serverInfo"]["name"] == "vocabtool"
    assert len(answers[1]["result"]["structuredContent"]["hits"]) == 1
    assert (rest, server.returncode) == ("", 0)
    first, *logged = errors.splitlines()
    assert first == "vocabtool: serving agents on standard input and output"
    levels = {json.loads(each)["message"][:12]: json.loads(each)["level"] for each in logged}
    assert levels == {"index 'notes": "info", "index 'none'": "error"}
    assert "Traceback" not in errors


CALL: Final = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ALLOWED: Final = ("--allowed-host", "search.example")
ACCEPTED: Final = {"accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def allowing(
    folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    """A client of a server that another host name may reach, with a key for reading."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    headers = {"authorization": f"Bearer {output('api-key', keys, 'team').strip()}"}
    with (
        listening(*ALLOWED, "--api-keys", keys, folders["bare"]) as address,
        httpx.Client(base_url=address.removesuffix("/mcp"), headers=headers) as client,
    ):
        yield client


def test_requests_are_bounded(allowing: httpx.Client) -> None:
    """No other host, site or key, no large body, no other path or type, no stream that stays."""
    hosts: list[tuple[dict[str, str], int]] = [
        ({}, 200),
        ({"host": "search.example", "origin": "https://search.example"}, 200),
        ({"host": "evil.example"}, 400),
        ({"origin": "https://evil.example"}, 403),
        ({"authorization": "Bearer vocabtool_wrong"}, 401),
        ({"authorization": ""}, 401),
    ]
    for headers, status in hosts:
        answer = allowing.post("/mcp", json=CALL, headers=ACCEPTED | headers)
        assert answer.status_code == status, answer.text
    assert allowing.post("/", json=CALL, headers=ACCEPTED).status_code == 404
    assert allowing.get("/mcp", headers=ACCEPTED).status_code == 405
    assert allowing.get("/ready").json() == {"status": "ready", "indexes": ["bare"]}
    assert 'requests_total{route="/mcp",status="200"} 2.0' in allowing.get("/metrics").text
    assert allowing.post("/mcp", content=b"{}", headers=ACCEPTED).status_code == 415
    large = b" " * ((1 << 20) + 1)
    assert allowing.post("/mcp", content=large, headers=ACCEPTED).status_code == 413
    lone = json.dumps({**CALL, "params": {"q": "\ud800"}}).encode()
    typed = ACCEPTED | {"content-type": "application/json"}
    assert allowing.post("/mcp", content=lone, headers=typed).status_code == 400


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--http", "--host", "0.0.0.0", "x"], "--no-auth"),
        (["--port", "8000", "x"], "--port needs --http"),
        (["a=x", "a=y"], "two indexes have the name 'a'"),
    ],
)
def test_wrong_usage(arguments: list[str], told: str) -> None:
    ran = run("mcp", *arguments)
    assert ran.returncode == 2
    assert told in ran.stderr.decode()
    assert ran.stdout == b""


@pytest.mark.parametrize("command", [["mcp"], ["mcp", "--http"], ["serve"]])
def test_no_such_folder(tmp_path: Path, command: list[str]) -> None:
    """Nothing starts."""
    ran = run(*command, tmp_path / "absent")
    wanted = f"vocabtool: error: {tmp_path / 'absent'}: no such folder; create an index"
    assert (ran.returncode, ran.stdout) == (3, b"")
    assert ran.stderr.decode().startswith(wanted)


def test_without_the_sdk(tmp_path: Path) -> None:
    """The message says what to install."""
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError('no mcp', name='mcp')")
    ran = run("mcp", "x", environ={"PYTHONPATH": str(tmp_path)})
    assert ran.returncode == 3
    assert "pip install '.[mcp]'" in ran.stderr.decode()
