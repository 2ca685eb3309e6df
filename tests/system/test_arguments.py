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
        "k must be a whole number, got '5'",
    ),
    "k is no whole number": (lambda index: index.search("a", k=1.5), "k must be .* got 1.5"),
    "k is None": (lambda index: index.search("a", k=None), "k must be .* got None"),
    "k is true": (lambda index: index.similar("d1", k=True), "k must be .* got True"),
    "the text": (lambda index: index.search(5), "text must be a string or None, got 5"),
    "the condition": (lambda index: index.search("a", where=5), "where must be .* got 5"),
    "sort": (lambda index: index.search("a", sort=[1]), "sort must be .*list of strings, got 1"),
    "facets": (
        lambda index: index.search("a", facets=5),
        "facets must be .*list of strings, got 5",
    ),
    "a setting": (lambda index: index.search("a", depth="9"), "depth must be .* got '9'"),
    "explain": (lambda index: index.search("a", explain="no"), "explain must be True or False"),
    "texts": (lambda index: index.search_many([5]), "texts must be a list of strings, got 5"),
    "an id": (lambda index: index.get(1), "id_ must be a string, got 1"),
    "ids": (lambda index: index.get_many(1), "ids must be a list of strings, got 1"),
    "deleted ids": (lambda index: index.delete([1]), "ids must be .* got 1"),
    "a path": (lambda _: Index.open(None), "path must be a string or a path, got None"),  # type: ignore[arg-type] # as all here
    "an inherited option": (
        lambda index: Index.open(index.path, fitted=5),  # type: ignore[arg-type]
        "fitted must be a FittedWeights or a string or a path or None, got 5",
    ),
    "a weight": (lambda _: Settings(a="high"), "a must be a number or None, got 'high'"),  # type: ignore[arg-type]
    "a list of words": (lambda _: diff(["a"], ["b"]), r"a must be .*, got \['a'\]"),  # type: ignore[arg-type]
    "a model": (lambda _: vocabtool.inspect(5), "model must be a string or a path, got 5"),  # type: ignore[arg-type]
    "words of a list": (lambda _: Words.of(["a"]), "model must be .*, got"),  # type: ignore[arg-type]
    "words": (lambda _: OovCounter("model"), "words must be a Words, got 'model'"),  # type: ignore[arg-type]
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
    numpy: dict[str, Any] = {"k": np.int64(2), "explain": np.bool_(False)}
    assert index.search("amber", **numpy) == first
    assert [*index.get_many(iter(["d1"]))] == [*index.get_many(np.array(["d1"]))] == ["d1"]
    assert index.search("amber", k=2, sort=()) == first
    assert isinstance(index.path, Path)
    with Index.open(str(index.path)) as again:
        assert again.search("amber", k=2) == first
