"""The document store passes the suites of Haystack; filters agree with Haystack's own filters."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("haystack")

from haystack import Document, Pipeline
from haystack.core.errors import DeserializationError
from haystack.dataclasses import ByteStream, SparseEmbedding
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy, FilterPolicy
from haystack.errors import FilterError
from haystack.testing import document_store as suites
from haystack.testing import document_store_async as async_suites
from haystack.utils.filters import document_matches_filter
from hypothesis import given
from hypothesis import strategies as some

import vocabtool
from tests.builders.small_indexes import temporary_folder
from tests.conftest import ROOT
from vocabtool import FolderInUse, Index, NotFound, VocabtoolError
from vocabtool.integrations.haystack import (
    VocabtoolDocumentEmbedder,
    VocabtoolDocumentStore,
    VocabtoolHybridRetriever,
    VocabtoolTextEmbedder,
)

DIM = 768  # of the suites
GLOVE = str(ROOT / "data" / "small_glove.txt")
NONE, SKIP = DuplicatePolicy.NONE, DuplicatePolicy.SKIP
FAIL, OVERWRITE = DuplicatePolicy.FAIL, DuplicatePolicy.OVERWRITE


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def document_store(tmp_path: Path) -> VocabtoolDocumentStore:
    return VocabtoolDocumentStore(str(tmp_path / "index"), embedding_dim=DIM)


class Equal:
    """Documents in the same order, all but embeddings exactly, and these in float32."""

    @staticmethod
    def assert_documents_are_equal(received: list[Document], expected: list[Document]) -> None:
        assert [replace(each, embedding=None) for each in received] == [
            replace(each, embedding=None) for each in expected
        ]
        for one, other in zip(received, expected, strict=True):
            assert (one.embedding is None) == (other.embedding is None)
            if other.embedding is not None:
                np.testing.assert_allclose(one.embedding, other.embedding, rtol=3e-7)


class TestStore(
    Equal,
    suites.DocumentStoreBaseExtendedTests,
    suites.CountDocumentsByFilterTest,
    suites.CountUniqueMetadataByFilterTest,
    suites.GetMetadataFieldsInfoTest,
    suites.GetMetadataFieldMinMaxTest,
    suites.GetMetadataFieldUniqueValuesTest,
):
    """Every suite of Haystack 3.4."""

    @pytest.fixture
    def document_store(self, tmp_path: Path) -> VocabtoolDocumentStore:
        return VocabtoolDocumentStore(str(tmp_path / "index"), embedding_dim=DIM)

    def test_write_documents(self, document_store: VocabtoolDocumentStore) -> None:
        document = Document(content="test doc")
        assert document_store.write_documents([document]) == 1
        with pytest.raises(DuplicateDocumentError, match=document.id):
            document_store.write_documents([document], NONE)


@pytest.mark.anyio
class TestAsyncStore(
    Equal,
    async_suites.CountDocumentsAsyncTest,
    async_suites.CountDocumentsByFilterAsyncTest,
    async_suites.CountUniqueMetadataByFilterAsyncTest,
    async_suites.DeleteAllAsyncTest,
    async_suites.DeleteByFilterAsyncTest,
    async_suites.DeleteDocumentsAsyncTest,
    async_suites.FilterDocumentsAsyncTest,
    async_suites.GetMetadataFieldMinMaxAsyncTest,
    async_suites.GetMetadataFieldsInfoAsyncTest,
    async_suites.GetMetadataFieldUniqueValuesAsyncTest,
    async_suites.UpdateByFilterAsyncTest,
    async_suites.WriteDocumentsAsyncTest,
):
    """Every asynchronous suite of Haystack 3.4."""

    async def test_write_documents_async(self, document_store: VocabtoolDocumentStore) -> None:
        document = Document(content="test doc")
        assert await document_store.write_documents_async([document]) == 1
        with pytest.raises(DuplicateDocumentError, match=document.id):
            await document_store.write_documents_async([document])


def test_every_suite_is_taken() -> None:
    for module, taken in ((suites, TestStore), (async_suites, TestAsyncStore)):
        there = {
            each
            for name, each in vars(module).items()
            if name.endswith("Test") and each.__module__ == module.__name__
        }
        assert len(there) > 9
        assert {each.__name__ for each in there if not issubclass(taken, each)} == set()
