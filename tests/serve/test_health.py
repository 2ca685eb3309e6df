"""What a server tells about itself: health, readiness, metrics, and a line for each request."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.builders.served import begin, serve_process, serving, until
from tests.builders.small_indexes import add, document, documents, made, vector
from vocabtool import Index
from vocabtool.errors import NotFound
from vocabtool.serve.answers import ServeError
from vocabtool.serve.application import JsonLines
from vocabtool.serve.catalog import Catalog, ServedIndex

SEARCH = "/v1/indexes/small/search"
SECRET = "amber mysecretword"


def metrics(client: httpx.Client) -> dict[tuple[str, ...], float]:
    """Values by name and labels, as the parser of Prometheus reads them."""
    return {
        (each.name, *each.labels.values()): each.value
        for family in text_string_to_metric_families(client.get("/metrics").text)
        for each in family.samples
    }


def test_metrics(tmp_path: Path) -> None:
    """Requests by route and status, the time of each step, and the open commit."""
    index = made(tmp_path / "small")
    with serving({"small": tmp_path / "small"}) as client:
        for body in ({"query": "amber"}, {"query": "birch"}, {"k": 0}):
            client.post(SEARCH, json=body)
        client.get("/v1/indexes/other/documents/a/b")
        client.get("/nothing")
        found = metrics(client)
        name = "vocabtool_requests_total"
        assert {key[1:]: each for key, each in found.items() if key[0] == name} == {
            ("/v1/indexes/{name}/search", "200"): 2,
            ("/v1/indexes/{name}/search", "400"): 1,
            ("/v1/indexes/{name}/documents/{id}", "404"): 1,
            ("none", "404"): 1,
        }
        name = "vocabtool_step_seconds_count"
        assert {key[1]: each for key, each in found.items() if key[0] == name} == {
            **{"encode": 2, "search": 2, "wait": 2, "write": 2, "total": 5}
        }
        sums = {step: found["vocabtool_step_seconds_sum", step] for step in ("search", "total")}
        assert 0 < sums["search"] < sums["total"]
        shown = ("ready", "documents", "commit", "generation")
        assert [found[f"vocabtool_index_{each}", "small"] for each in shown] == [1, 10, 1, 0]
        add(index, [document(10)], [vector(10)])
        index.compact()
        commits = "vocabtool_index_commit", "small"
        until(lambda: metrics(client)[commits] == index.manifest.commit)
        found = metrics(client)
        assert [found[f"vocabtool_index_{each}", "small"] for each in shown] == [1, 11, 3, 1]


def test_client_that_leaves(small: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A request whose client leaves before its end is no error of the server."""
    with serving({"small": small}) as client:
        with begin(client, SEARCH, 100) as leaving:
            leaving.sendall(b'{"query":')
        until(lambda: ("vocabtool_requests_total", "none", "499") in metrics(client))
        counted = [key for key in metrics(client) if key[0] == "vocabtool_requests_total"]
    assert "500" not in {key[2] for key in counted}
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        *(("a", True), ("A-1.b_2", True), ("x" * 64, True)),
        *(("", False), ("x" * 65, False), ("a b", False), ('"', False), ("é", False)),
    ],
)
def test_request_id(client: httpx.Client, given: str, kept: bool) -> None:
    """A valid one comes back, whatever the status; else one of ours does."""
    headers = [(b"X-Request-Id", given.encode())]
    for path in ("/health", "/nothing", "/v1/indexes/other"):
        found = client.get(path, headers=headers).headers["x-request-id"]
        assert (found == given) is kept
        assert kept or (len(found) == 16 and int(found, 16) >= 0)
    assert (
        client.get("/health").headers["x-request-id"]
        != client.get("/health").headers["x-request-id"]
    )


@pytest.mark.parametrize("log_texts", [False, True])
def test_log(tmp_path: Path, log_texts: bool) -> None:
    """A line for each request, with a query only if asked for; a document's text never."""
    index = made(tmp_path / "small")
    with serve_process(tmp_path / "small", *["--log-texts"] * log_texts) as served:
        served.until_ready()
        asked = {"query": SECRET, "k": 3}
        found = served.client.post(SEARCH, json=asked, headers={"X-Request-Id": "mine"})
        served.client.post(SEARCH, json={"query": SECRET, "where": "mysecretword > 3"})
        served.client.get("/v1/indexes/small/documents/d3")
        served.client.get("/mysecretword")
        add(index, documents(range(90, 92)), [vector(90), vector(91)])
        until(lambda: "index 'small': commit 2" in "".join(served.lines))
        assert served.stop() == 0
    other = [each["message"] for each in served.logged() if "route" not in each]
    assert other == ["index 'small' is open: 10 documents, commit 1", "index 'small': commit 2"]
    lines = [each for each in served.logged() if each.get("route", "/ready") != "/ready"]
    assert [(each["method"], each["route"], each["status"], each["hits"]) for each in lines] == [
        ("POST", "/v1/indexes/{name}/search", 200, 3),
        ("POST", "/v1/indexes/{name}/search", 400, None),
        ("GET", "/v1/indexes/{name}/documents/{id}", 200, None),
        ("GET", "none", 404, None),
    ]
    assert len(found.json()["hits"]) == 3
    searched = lines[0]
    assert (searched["request"], searched["key"], searched["level"]) == ("mine", None, "info")
    steps = searched["milliseconds"]
    assert [*steps] == ["wait", "encode", "search", "write", "total"]
    assert steps["total"] >= max(steps.values())
    assert searched.get("query") == (SECRET if log_texts else None)
    written = "".join(served.lines)
    assert ("mysecretword" in written) is log_texts
    document_3 = index.get("d3")
    assert document_3 is not None
    assert document_3.text not in written


@pytest.mark.parametrize("log_texts", [False, True])
def test_error_in_the_log(log_texts: bool) -> None:
    """An unexpected error has its type and places; its message may quote a text."""
    try:
        raise RuntimeError(SECRET)
    except RuntimeError as error:
        told = (type(error), error, error.__traceback__)
        record = logging.LogRecord("vocabtool", logging.ERROR, "", 0, "failed", None, told)
    line: dict[str, Any] = json.loads(JsonLines(log_texts).format(record))
    assert (line["level"], line["message"], line["error"]) == ("error", "failed", "RuntimeError")
    assert __file__ in line["places"][0]
    assert line.get("told") == (SECRET if log_texts else None)


def test_library_is_silent(small: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing is printed by a server in a program that did not ask for logs."""
    with serving({"small": small}) as client:
        assert client.post(SEARCH, json={"query": "amber"}).status_code == 200
        assert client.get("/health").json() == {"status": "alive"}
        assert client.get("/ready").json() == {"status": "ready", "indexes": ["small"]}
    assert capfd.readouterr() == ("", "")


def test_not_ready(small: Path, tmp_path: Path) -> None:
    """It is alive, and says which index is not open; when the index appears, it is ready."""
    late = tmp_path / "late"
    late.mkdir()
    with serve_process(small, f"other={late}") as served:
        assert served.client.get("/health").json() == {"status": "alive"}
        until(lambda: b"no index" in served.client.get("/ready").content)
        found = served.client.get("/ready")
        assert (found.status_code, found.headers["retry-after"]) == (503, "1")
        assert found.json()["detail"].startswith("index 'other': no index; create one with")
        facts = served.client.get("/v1/indexes").json()["indexes"]
        assert [(each["name"], each["status"]) for each in facts] == [
            *(("small", "ready"), ("other", "failed"))
        ]
        assert facts[1].pop("problem") == "no index; create one with `vocabtool index`"
        others = {name: each for name, each in facts[1].items() if name not in ("name", "status")}
        assert others.pop("writable") is False
        assert set(others.values()) == {None}
        assert served.client.post(SEARCH, json={"query": "amber"}).status_code == 200
        refused = served.client.post("/v1/indexes/other/search", json={"query": "amber"})
        assert refused.status_code == 503
        made(late)
        served.until_ready()
        expected = Index.open(late).search("amber", k=1).to_json()["hits"]

        def hits() -> object:
            asked = {"query": "amber", "k": 1}
            return served.client.post("/v1/indexes/other/search", json=asked).json()["hits"]

        until(lambda: hits() == expected)  # it may have been opened before its first commit
        served.stop()
    told = [each for each in served.logged() if "'other'" in each["message"]]
    assert [each["level"] for each in told[:2]] == ["error", "info"]  # not twice a second
    assert f"{late}: no index" in told[0]["message"]  # the folder is told in the log only


def test_error_of_a_library(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any error of opening is a problem of this index; the server goes on trying."""

    class Failed(Exception):
        """An error without a message."""

    def fail(*_: Any, **options: Any) -> None:
        raise Failed

    served = ServedIndex("small", small)
    with monkeypatch.context() as patch:
        patch.setattr(Index, "open", fail)
        served.refresh({})
        assert (served.status, served.problem) == ("failed", "Failed")
    served.refresh({})
    assert (served.status, served.problem) == ("ready", None)


# Facts that are computed once for each commit.


def test_once_for_each_version() -> None:
    """Requests at the same time share one computation; a new version is computed again."""
    made: list[int] = []
    go = Event()

    def fail() -> int:
        raise NotFound("gone")

    def make(version: int) -> Callable[[], int]:
        def work() -> int:
            made.append(version)
            go.wait()
            return version

        return work

    async def ask() -> None:
        kept = Catalog({})
        first, same, newer, other = (
            asyncio.create_task(kept.fact(name, "stats", version, make(version)))
            for name, version in (("a", 1), ("a", 1), ("a", 2), ("b", 3))
        )
        await asyncio.sleep(0)
        first.cancel()  # the others still wait for what it began
        go.set()
        assert [*await asyncio.gather(same, newer, other)] == [1, 1, 3]
        assert await kept.fact("a", "stats", 2, make(2)) == 2
        assert await kept.fact("a", "stats", 2, make(2)) == 2
        assert await kept.fact("a", "report", 2, make(4)) == 4
        with pytest.raises(NotFound):
            await kept.fact("a", "failed", 1, fail)
        assert await kept.fact("a", "failed", 1, lambda: 5) == 5  # an error is not kept

    asyncio.run(ask())
    assert sorted(made) == [1, 2, 3, 4]


def test_what_is_long_ends_with_the_server() -> None:
    """It goes on until then."""
    kept = Catalog({})
    kept.go_on("words counted", 0.5)
    kept.stops = True
    with pytest.raises(ServeError):
        kept.go_on("words counted", 0.5)
