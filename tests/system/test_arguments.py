"""Arguments of wrong types: one line with the argument, what was wanted, and what was given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import vocabtool
from tests.builders.small_indexes import made
from vocabtool import Index, OovCounter, Settings, Words, diff

Call = Callable[[Any], object]
WRONG: Final[dict[str, tuple[Call, str]]] = {
    "k is a text": (
        lambda index: index.search("a", k="5"),
        "k: wanted a whole number, got str '5'",
    ),
    "k is no whole number": (lambda index: index.search("a", k=1.5), "k: .* got float 1.5"),
    "k is None": (lambda index: index.search("a", k=None), "k: .* got NoneType None"),
    "k is true": (lambda index: index.similar("d1", k=True), "k: .* got bool True"),
    "the text": (lambda index: index.search(5), "text: wanted a string or None, got int 5"),
    "the condition": (lambda index: index.search("a", where=5), "where: .* got int 5"),
    "sort": (lambda index: index.search("a", sort=[1]), "sort: .*list of strings, got int 1"),
    "facets": (lambda index: index.search("a", facets=5), "facets: .*list of strings, got int 5"),
    "a setting": (lambda index: index.search("a", depth="9"), "depth: .* got str '9'"),
    "explain": (lambda index: index.search("a", explain="no"), "explain: wanted True or False"),
    "texts": (lambda index: index.search_many([5]), "texts: wanted a list of strings, got int 5"),
    "an id": (lambda index: index.get(1), "id_: wanted a string, got int 1"),
    "ids": (lambda index: index.get_many(1), "ids: wanted a list of strings, got int 1"),
    "deleted ids": (lambda index: index.delete([1]), "ids: .* got int 1"),
    "a path": (lambda _: Index.open(None), "path: wanted a string or a path, got NoneType"),  # type: ignore[arg-type] # as all here
    "a weight": (lambda _: Settings(a="high"), "a: wanted a number or None, got str 'high'"),  # type: ignore[arg-type]
    "a list of words": (lambda _: diff(["a"], ["b"]), r"a: wanted .*, got list \['a'\]"),  # type: ignore[arg-type]
    "a model": (lambda _: vocabtool.inspect(5), "model: wanted a string or a path, got int 5"),  # type: ignore[arg-type]
    "words of a list": (lambda _: Words.of(["a"]), "model: wanted .*, got list"),  # type: ignore[arg-type]
    "words": (lambda _: OovCounter("model"), "words: wanted a Words, got str 'model'"),  # type: ignore[arg-type]
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with made(tmp_path_factory.mktemp("arguments") / "index") as index:
        yield index


@pytest.mark.parametrize(("call", "message"), WRONG.values(), ids=WRONG)
def test_wrong_types_are_refused(index: Index, call: Call, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}") as refused:
        call(index)
    assert "\n" not in str(refused.value)


def test_other_forms_of_the_same_are_accepted(index: Index) -> None:
    """Numbers of NumPy, paths, and any list of names."""
    first = index.search("amber", k=2)
    assert index.search("amber", k=np.int64(2), explain=np.bool_(False)) == first
    assert [*index.get_many(iter(["d1"]))] == [*index.get_many(np.array(["d1"]))] == ["d1"]
    assert index.search("amber", k=2, sort=()) == first
    assert isinstance(index.path, Path)
    with Index.open(str(index.path)) as again:
        assert again.search("amber", k=2) == first
