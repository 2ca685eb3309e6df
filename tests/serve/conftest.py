"""An index of small documents, and a server for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.builders.served import serving
from tests.builders.small_indexes import DIM, add, documents, made, temporary_folder, vector
from vocabtool import Index


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of twenty documents with vectors of its own."""
    folder = tmp_path_factory.mktemp("served") / "small"
    index = Index.create(folder, dim=DIM)
    add(index, documents(range(20)), [vector(number) for number in range(20)])
    return folder


@pytest.fixture(scope="session")
def client(small: Path) -> Iterator[httpx.Client]:
    """A client of a server for this index; nothing may be written."""
    with serving({"small": small}) as client:
        yield client


@pytest.fixture
def folder() -> Iterator[Path]:
    """An index of ten documents with vectors of their own, in one commit."""
    with temporary_folder() as there:
        made(Path(there) / "small")
        yield Path(there) / "small"
