"""Drawn requests, right and wrong, get only answers that the OpenAPI document describes.

``schemathesis`` draws them from the document, and is the oracle of the answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any, TypeAlias

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.builders.served import serving
from tests.builders.small_indexes import DIM
from vocabtool import Settings

Case: TypeAlias = schemathesis.Case[Any]
CASES, ALL_CASES = 300, 5_000
CHECKS = [
    *(not_a_server_error, status_code_conformance),
    *(content_type_conformance, response_schema_conformance),
]
# What a drawn text would hardly ever be.
KNOWN = {"name": "small", "id": "d3", "document_id": "d3"}
SEARCH = "POST /v1/indexes/{name}/search"
WRITE = "POST /v1/indexes/{name}/documents"
VECTOR = ", ".join(["1"] * DIM)
BATCHES = [
    f'{{"id": "{each}", "text": "amber", "vector": [{VECTOR}], "n": {each}}}\n' for each in "123"
]
ASKED = [
    *({"query": "amber birch", "explain": True}, {"query": "SKU-10003", "k": 2}),
    *({"vector": [1.0] * DIM, "sort": ["n:desc"]}, {"where": "n > 3", "facets": ["even"]}),
]


def send(case: Case, batch: str) -> Case:
    """The case with a batch that can be written."""
    case.body = batch
    return case


def ask(case: Case, asked: dict[str, Any]) -> Case:
    """The case with a question that has an answer, and the drawn settings."""
    drawn = case.body if isinstance(case.body, dict) else {}
    names = Settings.__dataclass_fields__
    case.body = {name: value for name, value in drawn.items() if name in names} | asked
    return case


@schemathesis.serializer("application/x-ndjson")
def as_sent(_: schemathesis.SerializationContext, body: object) -> bytes:
    """The body of a batch: a drawn text, now and then one that can be written."""
    return str(body).encode("utf-8", "surrogatepass")


@pytest.fixture
def client(small: Path, tmp_path: Path) -> Iterator[httpx.Client]:
    """A client of a server that may write to a copy of the index."""
    copytree(small, tmp_path / "small")
    with serving({"small": tmp_path / "small"}, writable=True) as client:
        yield client


def test_described_answers(client: httpx.Client, full: bool) -> None:
    """Status, media type and schema of each answer are described, and none is 5xx but 503."""
    url = str(client.base_url).rstrip("/")
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    operations = [each.ok() for each in schema.get_all_operations()]  # type: ignore[union-attr] # an invalid one has no ok()
    operations.sort(key=lambda each: each.label == SEARCH)  # last: has as many cases as are left
    total = ALL_CASES if full else CASES
    sent: dict[int, int] = {}
    with requests.Session() as session:
        for operation in operations:
            known = {
                each.name: KNOWN[each.name]
                for each in operation.path_parameters
                if each.name in KNOWN
            }
            cases = [
                operation.as_strategy(mode, path_parameters=path)
                for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
                for path in (known, None)
            ]
            if operation.label == WRITE:
                drawn = operation.as_strategy(path_parameters=known)
                cases += [st.builds(send, drawn, st.sampled_from(BATCHES))] * 4
            if operation.label == SEARCH:
                settings_of_any = operation.as_strategy(path_parameters=known)
                cases += [st.builds(ask, settings_of_any, st.sampled_from(ASKED))] * 4

            share = -(-total // len(operations))
            left = total - sum(sent.values())

            @settings(
                max_examples=left if operation.label == SEARCH else share,
                deadline=None,
                database=None,
                derandomize=not full,
                suppress_health_check=list(HealthCheck),
            )
            @given(case=st.one_of(cases))
            def check(case: Case) -> None:
                answer = case.call_and_validate(base_url=url, session=session, checks=CHECKS)
                sent[answer.status_code] = sent.get(answer.status_code, 0) + 1

            check()
    assert {200, 400} <= set(sent), sent
    assert sum(sent.values()) >= total * 0.9, sent  # fewer where there are not as many cases
