"""What can be read of an index is what Python and the commands say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pyarrow as pa
import pytest
from tokenizers.models import WordPiece

from tests.builders.served import serving, until
from tests.builders.small_indexes import DIM, WORDS, add, delete, documents, vector
from tests.conftest import ROOT
from vocabtool import Document, Index, OovCounter, Vocabulary, Words
from vocabtool.reports.oov import save_report
from vocabtool.search.settings import Calibration
from vocabtool.serve.answers import without_folders
from vocabtool.serve.guard import REPORT_POLICY
from vocabtool.serve.reads import model_of
from vocabtool.system.byte_strings import ByteStrings

Large = tuple[httpx.Client, list[tuple[str, int]]]  # a client, and the entries with their ids
SEARCH = "/v1/indexes/plain/search"
PIECES = ("[UNK]", "un", "##aff", "##able", "hello", ",", "café")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, small: Path) -> dict[str, Path]:
    """Indexes with a vocabulary, with subword pieces, and without a vocabulary."""
    parent = tmp_path_factory.mktemp("reads")
    index = Index.create(parent / "answers", dim=DIM, vocabulary=[*WORDS, "how"])
    add(index, documents(range(20)), [vector(number) for number in range(20)])
    delete(index, "d7")
    index.store_calibration(Calibration(a=0.25, judged=5, sample=9, seed=0))
    entries = ByteStrings.of(each.encode() for each in PIECES)
    vocabulary = Vocabulary("pieces", "wordpiece", entries, marker="##")
    Index.create(parent / "pieces", dim=DIM, vocabulary=vocabulary, rule="bert-uncased")
    return {name: parent / name for name in ("answers", "pieces")} | {"plain": small}


@pytest.fixture(scope="module")
def client(folders: dict[str, Path]) -> Iterator[httpx.Client]:
    with serving(folders) as client:
        yield client


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
def test_search(client: httpx.Client, folders: dict[str, Path], asked: dict[str, Any]) -> None:
    """The answer is the result in Python, with the index and the commit."""
    index = Index.open(folders["plain"])
    answer = client.post(SEARCH, json=asked)
    assert answer.status_code == 200, answer.text
    expected = index.search(asked.pop("query", None), **asked).to_json()
    expected = json.loads(json.dumps(expected))  # tuples as lists
    commit = index.manifest.commit
    answered = without_told(answer.json())
    assert answered == {**expected, "index": "plain", "commit": commit}


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


def test_an_index(client: httpx.Client, folders: dict[str, Path]) -> None:
    """Its facts are those of the Python objects, by values."""
    index = Index.open(folders["answers"])
    assert index.calibration is not None
    found = client.get("/v1/indexes/answers").json()
    assert found == {
        **{"name": "answers", "status": "ready", "problem": None, "writable": False},
        **{"documents": 19, "deleted": 1, "commit": index.manifest.commit, "generation": 0},
        **{"model": None, "kind": None, "dim": DIM, "metric": "cosine", "dtype": "float16"},
        **{"language": "english", "recall": None, "weight": 0.25, "searched_fields": []},
        **{"can_encode": False, "has_vocabulary": True},
        "calibration": asdict(index.calibration),
        "fields": json.loads(json.dumps([asdict(each) for each in index.stats().fields])),
    }


def test_head(client: httpx.Client) -> None:
    """It answers as GET does, without the body."""
    for path in ("/", "/health", "/v1/indexes/answers", "/v1/indexes/answers/documents/d1"):
        answer, got = client.head(path), client.get(path)
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["content-length"] == str(len(got.content))
    assert client.head("/v1/words").status_code == 405


def test_indexes(client: httpx.Client, folders: dict[str, Path]) -> None:
    """All of them in their order, each as it is shown alone."""
    found = client.get("/v1/indexes").json()["indexes"]
    assert found == [client.get(f"/v1/indexes/{name}").json() for name in folders]
    weights = {each["name"]: (each["weight"], each["has_vocabulary"]) for each in found}
    assert weights["plain"] == (0.5, False)
    assert weights["pieces"][1] is True


def test_facts_follow_commits(tmp_path: Path) -> None:
    """Counts are those of the new commit, once it was picked up; so are the entries of reports."""
    folder = tmp_path / "index"
    index = Index.create(folder, dim=DIM, vocabulary=WORDS)
    add(index, documents(range(3)), [vector(number) for number in range(3)])
    with serving({"index": folder}) as client:
        before = client.get("/v1/indexes/index").json()
        page = client.get("/v1/indexes/index/report")
        assert client.get("/v1/indexes/index/report").text == page.text
        add(index, documents(range(3, 9)), [vector(number) for number in range(3, 9)])
        until(lambda: client.get("/v1/indexes/index").json()["commit"] > before["commit"])
        after = client.get("/v1/indexes/index").json()
        assert (before["documents"], after["documents"]) == (3, 9)
        assert [each["documents"] for each in after["fields"]] == [9, 9]
        assert client.get("/v1/indexes/index/report").text != page.text


def test_documents(client: httpx.Client, folders: dict[str, Path]) -> None:
    """Every document, with its fields; a deleted one is not there."""
    index = Index.open(folders["answers"])
    for id_ in index.ids():
        expected = index.get(id_)
        assert expected is not None
        found = client.get(f"/v1/indexes/answers/documents/{id_}").json()
        assert found == {"id": id_, "text": expected.text, "fields": {**expected.fields}}
    assert client.get("/v1/indexes/answers/documents/d7").status_code == 404


def test_field_that_is_not_utf8(tmp_path: Path) -> None:
    """Its bytes become U+FFFD, in a document and in a hit."""
    index = Index.create(tmp_path / "index", dim=DIM)
    path = b"caf\xe9".decode("utf-8", "surrogateescape")
    add(index, [Document("a", "amber", {"path": path})], [vector(1)])
    with serving({"index": tmp_path / "index"}) as client:
        found = client.get("/v1/indexes/index/documents/a").json()
        (hit,) = client.post("/v1/indexes/index/search", json={"query": "amber"}).json()["hits"]
    assert found["fields"] == hit["fields"] == {"path": "caf�"}


def test_words(client: httpx.Client, folders: dict[str, Path]) -> None:
    """The words of the index' model, with their places in the text."""
    text = "How Amber, xapian!  BIRCH--cedar"
    found = client.post("/v1/words", json={"index": "answers", "text": text}).json()
    known = Index.open(folders["answers"]).snapshot().known_words
    assert known is not None
    (split,) = known.words.split([text]).to_pylist()
    words = found["words"]
    assert [(each["surface"], each["known"]) for each in words] == [
        (each["word"].decode(), each["known"]) for each in split
    ]
    assert [(each["surface"], each["start"], each["end"], each["pieces"]) for each in words] == [
        *(("how", 0, 3, None), ("amber", 4, 9, None), ("xapian", 11, 17, None)),
        ("birchcedar", 20, 32, None),  # the rule deletes punctuation
    ]
    assert found["rule"] == list(known.words.describe())


def test_pieces(client: httpx.Client) -> None:
    """Words of pieces, as the WordPiece of tokenizers cuts them."""
    text = "Unaffable, hello zzz"
    oracle = WordPiece({each: at for at, each in enumerate(PIECES)}, unk_token="[UNK]")
    asked = {"index": "pieces", "text": text}
    words = client.post("/v1/words", json=asked).json()["words"]
    for each in words:
        cut = [token.value for token in oracle.tokenize(each["surface"])]
        assert (each["pieces"], each["known"]) == (cut, cut != ["[UNK]"])
    assert [text[each["start"] : each["end"]] for each in words] == text.replace(",", " ,").split()


def test_report(client: httpx.Client, folders: dict[str, Path], tmp_path: Path) -> None:
    """The page that Python saves for the texts of all documents."""
    index = Index.open(folders["answers"])
    known = index.snapshot().known_words
    assert known is not None
    counter = OovCounter(known.words)
    counter.count([pa.array([each.text for each in index.documents()], pa.string())])
    save_report(counter.report(), tmp_path / "page.html")
    found = client.get("/v1/indexes/answers/report")
    assert found.text == (tmp_path / "page.html").read_text("utf-8")
    assert found.headers["content-type"] == "text/html; charset=utf-8"
    assert found.headers.get_list("content-security-policy") == [REPORT_POLICY]


def test_vocabulary_of_pieces(client: httpx.Client) -> None:
    """A prefix is compared without the marker, which is shown."""
    path = "/v1/indexes/pieces/vocabulary"
    assert client.get(path, params={"prefix": "a"}).json() == {
        **{"total": 7, "matching": 2, "offset": 0},
        "entries": [{"id": 3, "text": "##able"}, {"id": 2, "text": "##aff"}],
    }
    found = client.get(path, params={"prefix": "caf"}).json()["entries"]
    assert found == [{"id": 6, "text": "café"}]


@pytest.fixture(scope="module")
def large(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[httpx.Client, list[tuple[str, int]]]]:
    """A vocabulary of 400,004 entries, some of them not ASCII, some equal but for their end."""
    signs = "etaoinshrdlucmfäß中é"
    entries = ["".join(reversed(word)) for word in islice(product(signs, repeat=5), 400_000)]
    entries += ["e", "et", "zz\tz", "😀"]
    folder = tmp_path_factory.mktemp("large")
    (folder / "words.txt").write_text("".join(f"{each}\n" for each in entries), "utf-8")
    words = Words.of(folder / "words.txt", rule="whitespace")
    assert len(words.vocabulary) == 400_004
    Index.create(folder / "index", dim=DIM, vocabulary=words)
    with serving({"large": folder / "index"}) as client:
        yield client, sorted(zip(entries, range(len(entries)), strict=True))


@pytest.mark.parametrize("prefix", ["", "e", "et", "eta", "äß", "中", "😀", "zz", "etaoi", "none"])
def test_large_vocabulary(large: Large, prefix: str) -> None:
    """The same entries as a filter over all of them."""
    client, entries = large
    matching = [(entry, id_) for entry, id_ in entries if entry.startswith(prefix)]
    for offset, limit in ((0, 1000), (1, 3), (399_999, 10), (500_000, 1)):
        asked: dict[str, Any] = {"prefix": prefix, "offset": offset, "limit": limit}
        found = client.get("/v1/indexes/large/vocabulary", params=asked).json()
        assert found == {
            **{"total": 400_004, "matching": len(matching), "offset": offset},
            "entries": [
                {"id": id_, "text": entry.replace("\t", "\\t")}
                for entry, id_ in matching[offset : offset + limit]
            ],
        }


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "told"),
    [
        ("GET", "nothing", None, 404, "no such path: /v1/nothing; see /openapi.json"),
        ("PATCH", "indexes/a/documents/b", None, 405, "documents/b; allowed: DELETE, GET, PUT"),
        ("POST", "../page/main.js", None, 405, "/page/main.js; allowed: GET"),
        ("GET", "indexes/other", None, 404, "no index 'other'; the indexes are answers"),
        ("GET", "indexes/answers/documents/none", None, 404, "no document has the id 'none'"),
        ("GET", "indexes/answers/vocabulary?limit=1001", None, 400, "query.limit"),
        ("POST", "words", {"index": "plain", "text": "a"}, 404, "has no vocabulary"),
        ("POST", SEARCH[4:], {}, 400, "search needs a text, a vector, 'where', 'sort' or 'facets'"),
        ("POST", SEARCH[4:], {"query": "a", "colour": "red"}, 400, "body.colour"),
        ("POST", SEARCH[4:], {"query": "a", "vector": [1.0]}, 400, f"must have {DIM} numbers"),
        ("POST", SEARCH[4:], {"query": "a", "facets": ["n"] * 21}, 400, "body.facets: List should"),
        ("POST", "words", {"index": "answers", "text": "a" * 100_001}, 400, "body.text"),
    ],
)
def test_wrong_requests(
    client: httpx.Client, method: str, path: str, body: Any, status: int, told: str
) -> None:
    """A problem document says what is wrong."""
    found = client.request(method, f"/v1/{path}", json=body)
    assert (found.status_code, found.json()["status"]) == (status, status)
    assert found.headers["content-type"] == "application/problem+json"
    assert told in found.json()["detail"]
    assert status != 405 or told.endswith(f"allowed: {found.headers['allow']}")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (None, ""),
        ("/srv/models/minilm", "minilm"),
        ("static:/srv/words.vec", "static:words.vec"),
        ("openai:small@http://10.0.0.7:8000/v1", "openai:small"),
    ],
)
def test_names_of_models(name: str | None, shown: str) -> None:
    """No folder and no address of the server's network is told."""
    index = SimpleNamespace(configuration=SimpleNamespace(model=name))
    assert model_of(cast(Index, index)) == shown


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("/srv/data/answers: damaged", "answers: damaged"),
        ("run `vocabtool compact /srv/a/`; see 'x/y'", "run `vocabtool compact a`; see 'x/y'"),
        ("[Errno 28] full: '/srv/data/a/b.bin'", "[Errno 28] full: 'b.bin'"),
        ("http://10.0.0.7:8000/v1: no such server", "[address]: no such server"),
        ("1/2 of (http://a/b).", "1/2 of ([address])."),
    ],
)
def test_folders_are_not_told(told: str, shown: str) -> None:
    """Only the last part of a path is left."""
    assert without_folders(told) == shown


def test_examples_and_descriptions(client: httpx.Client) -> None:
    """Every example of the OpenAPI document is answered; every endpoint is described."""
    described = client.get("/openapi.json").json()
    schemas, sent = described["components"]["schemas"], 0
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            assert operation.get("summary") and operation.get("description"), path
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            name = body.get("schema", {}).get("$ref", "").rpartition("/")[2]
            schema = schemas.get(name, {})
            assert not name or schema["examples"], name
            for example in schema.get("examples", ()):
                place = path.replace("{name}", "answers")
                found = client.request(method, place, json=example)
                assert found.status_code == (403 if method == "put" else 200), found.text
                sent += 1
    assert sent >= 3
