"""Two indexes of one collection."""

from __future__ import annotations

import pytest

from tests.builders.judged_collection import with_encoder, without_encoder
from vocabtool import Index


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return with_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return without_encoder(tmp_path_factory.mktemp("own"))
