"""What requests write is in the index, once, or nothing of it is."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest

from tests.builders.served import serving, until
from tests.builders.small_indexes import DIM, contents, document, made, vector
from tests.conftest import ROOT
from vocabtool import Document, Index, Writer
from vocabtool.serve import writes
from vocabtool.serve.catalog import Catalog
from vocabtool.serve.guard import Protection

DOCUMENTS = "/v1/indexes/small/documents"
LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
def writer(folder: Path) -> Iterator[httpx.Client]:
    """A client of a server that may change this index."""
    with serving({"small": folder}, writable=True) as client:
        yield client


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx.Client, Path]]:
    """A client as ``writer``, and the folder, for tests that leave the documents as they were."""
    folder = tmp_path_factory.mktemp("refusing") / "small"
    made(folder)
    with serving({"small": folder}, writable=True) as client:
        yield client, folder


def row(number: int, version: int = 0, **more: Any) -> dict[str, Any]:
    """A document as a line of a batch."""
    held = document(number, version)
    found = {"id": held.id, "text": held.text, "vector": vector(number, version).tolist()}
    return {**found, **held.fields, **more}


def lines(*rows: Any) -> bytes:
    """JSON lines; bytes as they are."""
    found = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in rows]
    return b"\n".join(found) + b"\n"


def send(client: httpx.Client, *rows: Any) -> tuple[int, dict[str, Any]]:
    """Send a batch; return status and answer."""
    answer = client.post(DOCUMENTS, content=lines(*rows), headers=LINES)
    return answer.status_code, answer.json()


def put(client: httpx.Client, id_: str, **body: Any) -> httpx.Response:
    """Write one document."""
    return client.put(address_of(id_), json=body)


def address_of(id_: str) -> str:
    """The path of a document: dots, too, are encoded, or a client would shorten it."""
    return f"{DOCUMENTS}/{quote(id_, safe='').replace('.', '%2E')}"


def wrote(added: int, replaced: int, commit: int) -> tuple[int, dict[str, int]]:
    """The status and answer of a batch that was written."""
    return 200, {"added": added, "replaced": replaced, "commit": commit}


def test_one_document(writer: httpx.Client, folder: Path) -> None:
    """A document is added, found at once by words and vector, replaced, and deleted."""
    new = {"text": "heron", "fields": {"n": 77, "even": True}, "vector": vector(77).tolist()}
    answer = put(writer, "d77", **new)
    assert (answer.status_code, answer.json()) == wrote(1, 0, 2)
    search = "/v1/indexes/small/search"
    for asked in ({"query": "heron", "k": 1}, {"vector": vector(77).tolist(), "k": 1}):
        found = writer.post(search, json=asked).json()
        (hit,) = found["hits"]
        assert (hit["id"], hit["text"], hit["fields"]) == ("d77", "heron", new["fields"])
        assert found["commit"] == 2
    answer = put(writer, "d77", text="egret", vector=vector(78).tolist())
    assert (answer.status_code, answer.json()) == wrote(0, 1, 3)
    assert Index.open(folder).get("d77") == Document("d77", "egret", {})
    answer = writer.delete(f"{DOCUMENTS}/d77")
    assert (answer.status_code, answer.json()) == (200, {"deleted": 1, "commit": 4})
    assert writer.post(search, json={"query": "egret", "fusion": "keyword"}).json()["hits"] == []
    answer = writer.delete(f"{DOCUMENTS}/d77")
    assert answer.status_code == 404
    assert "'d77'" in answer.json()["detail"]
    assert Index.open(folder).manifest.commit == 4


@pytest.mark.parametrize(
    "id_",
    ["a/b c", "über 東京", "100%", "a?x=1#y", "//a//", " ", "%2F", "a\nb", "..", "x" * 1000],
)
def test_ids(refusing: tuple[httpx.Client, Path], id_: str) -> None:
    """An id is any text; in the address it is encoded."""
    writer, folder = refusing
    answer = put(writer, id_, text="t", vector=[1, 2, 3, 4]).json()
    assert answer["added"] == 1
    assert writer.get(address_of(id_)).json() == {"id": id_, "text": "t", "fields": {}}
    again = send(writer, {"id": id_, "text": "u", "vector": [1, 2, 3, 4]})
    assert again == wrote(0, 1, answer["commit"] + 1)
    assert writer.delete(address_of(id_)).json()["deleted"] == 1
    assert id_ not in Index.open(folder)


def test_batches(writer: httpx.Client, folder: Path) -> None:
    """A batch is one commit, which replaces what is there already."""
    before = contents(Index.open(folder))
    assert send(writer, row(10), b"", row(3, 1)) == wrote(1, 1, 2)
    assert send(writer, {"id": 15, "text": "n", "vector": [1, 0, 0, 0]}) == wrote(1, 0, 3)
    assert send(writer, row(12, 1)) == wrote(1, 0, 4)
    expected = {f"d{n}": document(n, v) for n, v in ((10, 0), (3, 1), (12, 1))}
    expected |= {"15": Document("15", "n", {})}
    index = Index.open(folder)
    assert contents(index) == before | expected
    row_of = index.snapshot().rows_of(["d12"])["d12"]
    assert row_of is not None
    held = index.snapshot().take(np.array([row_of]))[0]
    wanted = vector(12, 1) / np.linalg.norm(vector(12, 1))
    np.testing.assert_array_equal(held, wanted.astype(np.float16))


def test_fields_of_a_line(writer: httpx.Client) -> None:
    """What GET returns can be sent as a line; members beside its fields are fields, too."""
    held = writer.get(f"{DOCUMENTS}/d3").json()
    assert held["fields"] == document(3).fields
    assert send(writer, {**held, "id": "again", "vector": [1] * DIM, "lang": "en"})[0] == 200
    again = writer.get(f"{DOCUMENTS}/again").json()
    assert again == {**held, "id": "again", "fields": {**held["fields"], "lang": "en"}}


NO_VECTOR = {"id": "x", "text": "t"}
NO_ID = {"text": "t", "vector": [1] * DIM}


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([row(10), b'{"id": "\\ud83d", "text": ""}'], "body:2: not JSON in UTF-8"),
        ([row(10), b"", ["x"]], "body:3: expected an object"),
        ([row(10), NO_ID], "body:2: no field 'id'"),
        ([row(10), row(11), row(10)], "body:3: the id 'd10' is already in body:1"),
        ([{"id": "x" * 1001, "text": "t"}], "body:1: field 'id'"),
        ([{"id": "x", "text": 3, "vector": [1] * DIM}], "body:1: field 'text'"),
        ([row(10), NO_VECTOR], "body:2: wanted a vector of 4 numbers"),
        ([{**NO_VECTOR, "vector": [1, 2]}], "body:1: the vector must have 4 numbers, got 2"),
        ([{**NO_VECTOR, "vector": [1, 2, 3, 1e39]}], "body:1: field 'vector': contains NaN"),
        ([row(10), row(11, n="many")], "body:2: the field 'n' contains whole numbers, got 'many'"),
        ([row(10, **{"": 1})], "body:1: the name of a field"),
        ([row(10, **{f"f{n}": n for n in range(257)})], "body:1: wanted at most 256 fields"),
        ([row(10), row(11, fields={"n": 1})], "body:2: 'n' is in the line and in its member"),
        ([row(10), row(11, fields='{"n": 1}')], "body:2: member 'fields': expected an object"),
        ([], "the body has no document"),
    ],
)
def test_wrong_lines(refusing: tuple[httpx.Client, Path], rows: list[Any], told: str) -> None:
    """The problem names the line; nothing of the batch is written."""
    writer, folder = refusing
    before = Index.open(folder).manifest
    status, problem = send(writer, *rows)
    assert status == 400
    assert told in problem["detail"]
    assert "--" not in problem["detail"]  # no options of the command line
    assert Index.open(folder).manifest == before


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"text": "t"}, "body: wanted a vector of 4 numbers, because the index has no model"),
        ({"text": "t", "vector": [1] * DIM, "colour": "red"}, "body.colour"),
        ({"text": "t", "vector": [1] * DIM, "fields": {"n": "many"}}, "the field 'n' contains"),
    ],
)
def test_wrong_documents(
    refusing: tuple[httpx.Client, Path], body: dict[str, Any], told: str
) -> None:
    """The problem says what is wrong with a document."""
    answer = put(refusing[0], "x", **body)
    assert answer.status_code == 400, answer.text
    assert told in answer.json()["detail"]


def test_refused_requests(writer: httpx.Client) -> None:
    """Of another type, too large, without an id, not in UTF-8."""
    for kind in ("text/plain", "application/json", ""):  # that a page of another site may send
        answer = writer.post(DOCUMENTS, content=lines(row(1)), headers={"Content-Type": kind})
        assert answer.status_code == 415
        assert "application/x-ndjson" in answer.json()["detail"]
    assert send(writer, *[b""] * 10_000, row(1))[0] == 413
    status, problem = send(writer, {"id": "x", "text": "t" * (16 << 20)})
    assert (status, "more than 16,777,216 bytes" in problem["detail"]) == (413, True)
    assert send(writer, row(1))[0] == 200
    assert writer.put(f"{DOCUMENTS}/", json={"text": "t"}).status_code == 400
    assert writer.put(f"{DOCUMENTS}/{'x' * 1001}", json={"text": "t"}).status_code == 400
    answer = writer.delete(f"{DOCUMENTS}/a%FF")
    assert (answer.status_code, answer.json()["detail"]) == (400, "the path is not UTF-8")
    half = b'{"text": "t", "fields": {"s": "\\ud83d"}}'  # of a character
    headers = {"Content-Type": "application/json"}
    assert writer.put(f"{DOCUMENTS}/x", content=half, headers=headers).status_code == 400
    answer = writer.delete("/v1/indexes/other/documents/a")
    assert answer.json()["detail"] == "no index 'other'; the indexes are small"


def test_a_server_that_must_not_write(client: httpx.Client, small: Path) -> None:
    """Every endpoint says so, whatever is sent."""
    answers = [
        client.put(f"{DOCUMENTS}/d1", json=["nonsense"]),
        client.delete(f"{DOCUMENTS}/d1"),
        client.post(DOCUMENTS, content=lines(row(1)), headers=LINES),
    ]
    for answer in answers:
        assert answer.status_code == 403
        assert answer.json()["detail"] == "the server was started without --writable"
    assert Index.open(small).manifest.commit == 1


def test_a_folder_in_use(writer: httpx.Client, folder: Path) -> None:
    """While another one writes, requests are refused; afterwards they are not."""
    with Index.open(folder).writer():
        status, problem = send(writer, row(10))
        assert (status, problem["detail"].startswith("small: ")) == (409, True)
        assert str(folder.parent) not in problem["detail"]
    assert send(writer, row(10)) == wrote(1, 0, 2)


def test_a_failed_commit(
    writer: httpx.Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written; the answer names no folder, and the next request is answered."""

    def fails(*_: Any, **__: Any) -> None:
        raise OSError(5, "Input/output error", str(folder / "index.db"))

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "add_batch", fails)
        status, problem = send(writer, row(10))
    told = "the change was not written: [Errno 5] Input/output error: 'index.db'"
    assert (status, problem["detail"]) == (503, told)
    assert Index.open(folder).manifest.commit == 1
    assert send(writer, row(10)) == wrote(1, 0, 2)


def test_a_replaced_index(writer: httpx.Client, folder: Path) -> None:
    """A request is refused until the server has opened the index that replaced the old one."""
    Index.create(folder, dim=DIM, force=True)
    statuses = [send(writer, row(10))[0]]
    while statuses[-1] == 503:
        time.sleep(0.02)
        statuses.append(send(writer, row(10))[0])
    assert {*statuses} <= {200, 503}
    assert contents(Index.open(folder)) == {"d10": document(10)}


def test_too_many_fields(writer: httpx.Client) -> None:
    """Fields of the index and the batch are counted together."""
    assert send(writer, row(10, **{f"f{n}": n for n in range(254)})) == wrote(1, 0, 2)
    status, problem = send(writer, row(11, new=1))
    assert (status, problem["detail"]) == (
        400,
        "the index would have 257 fields, but the limit is 256",
    )


def test_many_clients(writer: httpx.Client, folder: Path) -> None:
    """Twenty clients write at once: every document is there once."""

    def work(client: int) -> list[int]:
        numbers = range(100 + 10 * client, 110 + 10 * client)
        return [send(writer, row(number))[1]["commit"] for number in numbers]

    with ThreadPoolExecutor(20) as pool:
        told = [*pool.map(work, range(20))]
    index = Index.open(folder)
    numbers = [*range(10), *range(100, 300)]
    assert contents(index) == {f"d{number}": document(number) for number in numbers}
    assert index.manifest.rows == 210
    assert all(each == sorted(each) for each in told)
    assert index.manifest.commit == max(map(max, told)) == 201
    assert index.verify().documents == 210


def test_the_model_makes_the_vectors(tmp_path: Path) -> None:
    """Documents without vectors are encoded by the index's model; the example is such a batch."""
    model = shutil.copy(ROOT / "data" / "small_glove.txt", tmp_path)
    folders = [tmp_path / "served", tmp_path / "small"]
    Index.create(folders[1], model, weights="none")
    with serving({"small": folders[1]}, writable=True) as client:
        described = client.get("/openapi.json").json()["paths"]["/v1/indexes/{name}/documents"][
            "post"
        ]["requestBody"]["content"]["application/x-ndjson"]["example"]
        rows = [json.loads(line) for line in described.splitlines()]
        index = Index.create(folders[0], model, weights="none")
        with index.writer() as changes:
            changes.add(rows)
        answer = client.post(DOCUMENTS, content=described, headers=LINES)
        assert (answer.status_code, answer.json()) == wrote(2, 0, 1)
        mixed = [{**rows[0], "vector": [1, 0, 0, 0]}, rows[1]]
        status, problem = send(client, *mixed)
        assert (status, "body:2: wanted a vector" in problem["detail"]) == (400, True)
        assert send(client, mixed[0]) == wrote(0, 1, 2)
        assert send(client, rows[0]) == wrote(0, 1, 3)
        report = client.get("/v1/indexes/small/report").text
        assert "small_glove.txt" in report and str(tmp_path) not in report
    written = Index.open(folders[1])
    assert contents(written) == contents(index)
    for text in ("how to install Xapian", "search", "introduction"):
        ours, theirs = (
            [(hit.id, hit.score) for hit in each.search(text, fusion="dense")]
            for each in (written, index)
        )
        assert ours == theirs


# Requests that wait until others are written.


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], threading.Event]:
    """The indexes of requests that arrived; their commits wait until the event is set."""
    arrived: list[str] = []
    go, enqueue, commit = threading.Event(), Catalog.write, writes._commit

    async def count(self: Catalog, name: str, function: Any) -> Any:
        arrived.append(name)
        return await enqueue(self, name, function)

    def slowly(*given: Any) -> dict[str, int]:
        assert go.wait(60)
        return commit(*given)

    monkeypatch.setattr(Catalog, "write", count)
    monkeypatch.setattr(writes, "_commit", slowly)
    return arrived, go


def test_requests_that_wait(folder: Path, queue: tuple[list[str], threading.Event]) -> None:
    """Each is a commit of its own; wrong ones are refused, and so is one too many."""
    arrived, go = queue
    requests = [row(20), row(21, n="many"), row(22), row(23)]
    limited = Protection(waiting=4)
    with (
        serving({"small": folder}, writable=True, protection=limited) as writer,
        ThreadPoolExecutor(4) as pool,
    ):
        answers = [pool.submit(send, writer, each) for each in requests]
        until(lambda: len(arrived) == len(requests))
        refused = writer.delete(f"{DOCUMENTS}/d1")
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
        go.set()
        results = [each.result() for each in answers]
    assert [status for status, _ in results] == [200, 400, 200, 200]
    assert {answer["commit"] for status, answer in results if status == 200} == {2, 3, 4}
    assert results[1][1]["detail"].startswith("body:1: the field 'n'")
    index = Index.open(folder)
    assert index.manifest.rows == index.manifest.live == 13


def test_shutdown_commits_what_waits(
    folder: Path, queue: tuple[list[str], threading.Event]
) -> None:
    """A request that was accepted is answered, though the server is told to stop meanwhile."""
    arrived, go = queue
    with ThreadPoolExecutor(1) as pool:
        with serving({"small": folder}, writable=True) as client:
            url = str(client.base_url.join(DOCUMENTS))
            answer = pool.submit(httpx.post, url, content=lines(row(10)), headers=LINES, timeout=60)
            until(lambda: bool(arrived))
            threading.Timer(0.3, go.set).start()  # the server is told to stop before
        assert answer.result().json() == wrote(1, 0, 2)[1]
