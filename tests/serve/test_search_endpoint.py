"""``POST /v1/indexes/{name}/search`` answers what ``Index.search`` answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.builders.small_indexes import DIM, vector
from tests.conftest import ROOT
from vocabtool import Index

SEARCH = "/v1/indexes/small/search"


@pytest.mark.parametrize(
    "asked",
    [
        {"query": "amber birch", "k": 3, "explain": True},
        {"query": "SKU-10005", "vector": vector(3).tolist(), "explain": True},
        {"query": "cedar", "where": "even", "facets": ["even"], "sort": ["n:desc"]},
        {"vector": vector(7).tolist(), "fusion": "dense", "k": 20},
        {"where": "n > 15"},
    ],
)
def test_search(client: httpx.Client, small: Path, asked: dict[str, Any]) -> None:
    """The answer is the result in Python, with the index and the commit."""
    index = Index.open(small)
    answer = client.post(SEARCH, json=asked)
    assert answer.status_code == 200, answer.text
    expected = index.search(asked.pop("query", None), **asked).to_json()
    expected = json.loads(json.dumps(expected))  # tuples as lists
    commit = index.manifest.commit
    answered = without_told(answer.json())
    assert answered == {**expected, "index": "small", "commit": commit}


def without_told(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer without what only the page needs."""
    answer["query"].pop("remarks", None)
    for word in answer["query"]["words"]:
        for name in ("mark", "facts", "weighs"):
            word.pop(name, None)
    for hit in answer["hits"]:
        for name in ("why", "title", "scores", "extract", "other_fields"):
            hit.get("explanation", {}).pop(name, None)
    return answer


def test_explained_in_words(client: httpx.Client) -> None:
    """An explained answer says what its words and hits are; other answers do not."""
    asked = {"query": "amber the zzz", "k": 1, "fusion": "keyword", "where": "n > 1"}
    found = client.post(SEARCH, json={**asked, "explain": True}).json()
    words = {word["surface"]: word for word in found["query"]["words"]}
    assert [words[word]["mark"] for word in ("amber", "the", "zzz")] == [None, "stop", "absent"]
    assert words["zzz"]["facts"] == ["unknown whether the model knows it", "in no document"]
    why = found["hits"][0]["explanation"]
    assert why["why"].startswith("vectors not searched; keywords rank 1 (")
    assert why["other_fields"] == ["n", "even"]
    plain = client.post(SEARCH, json=asked).json()
    assert "explanation" not in plain["hits"][0]
    assert not {"mark", "facts", "weighs"} & plain["query"]["words"][0].keys()


def test_the_table_of_members(client: httpx.Client) -> None:
    """The reference lists each member with its default and its description."""
    page = (ROOT / "docs" / "reference" / "http-api.md").read_text("utf-8")
    section = page.partition("## A search")[2].partition("## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| .+? \| `?(.+?)`? \| (.+) \|$", section, re.MULTILINE)
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    members = {
        name: (member.get("default"), member["description"])
        for name, member in schemas["SearchRequest"]["properties"].items()
    }
    assert {name: (json.loads(default), text) for name, default, text in rows} == members


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({}, "search needs a text, a vector, 'where', 'sort' or 'facets'"),
        ({"query": "a", "colour": "red"}, "body.colour"),
        ({"query": "a", "vector": [1.0]}, f"vector must have {DIM} numbers"),
        ({"query": "a", "facets": ["n"] * 21}, "body.facets: List should have at most"),
    ],
)
def test_wrong_requests(client: httpx.Client, asked: dict[str, Any], told: str) -> None:
    """A problem document says what is wrong."""
    answer = client.post(SEARCH, json=asked)
    problem = answer.json()
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["status"] == 400
    assert problem["title"] == "Bad Request"
    assert told in problem["detail"]
