"""What unjudged queries of people move the weight by, against arithmetic by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.builders.small_corpus import Doc, SmallCorpus
from vocabtool.evaluation.query_shift import Shift, by_keywords, by_vectors, covered, nearest
from vocabtool.keywords.plain_bm25 import idf

DOCS = [
    Doc("a", "red apple", (1.0, 0.0)),
    Doc("b", "green apple", (0.6, 0.8)),
    Doc("c", "blue sky"),
]


def test_a_query_is_covered_as_far_as_its_best_document_holds_it() -> None:
    """By idf; a query without a word does not count, one that matches nothing counts 0."""
    corpus = SmallCorpus(DOCS)
    red, cloud = idf(3, 1), idf(3, 0)
    queries = ["red cloud", "red apple", "cloud", "!"]
    shares = covered((query, corpus) for query in queries)
    assert shares == pytest.approx([red / (red + cloud), 1.0, 0.0])


def test_the_nearest_document_of_each_query_that_has_a_vector() -> None:
    """Whatever its words are."""
    corpus = SmallCorpus(DOCS)
    vectors = np.array([[1, 0], [0, 1], [0, 0]], np.float32)
    assert nearest((one, corpus) for one in vectors) == pytest.approx([1.0, 0.8])


def test_keywords_raise_the_weight_where_people_are_understood_better() -> None:
    """Half of the difference of the means."""
    assert by_keywords([0.5, 0.9], [0.4, 0.6, 0.5]) == pytest.approx(0.5 * (0.7 - 0.5))


def test_vectors_lower_the_weight_where_people_are_understood_better() -> None:
    """One and a half times the difference of the means; of fewer than ten queries nothing."""
    assert by_vectors([0.7] * 10, [0.6] * 10) == pytest.approx(-0.15)
    assert by_vectors([0.7] * 10, [0.8] * 12) == pytest.approx(0.15)
    assert by_vectors([0.7] * 9, [0.6] * 10) is None
    assert by_vectors([0.7] * 10, [0.6] * 9) is None


def test_a_shift_stays_within_what_an_index_keeps() -> None:
    """From -1 to 1."""
    assert Shift(0.1, -0.3, 10).total == pytest.approx(-0.2)
    assert Shift(0.1, -1.5, 10).total == -1
    assert Shift(0.9, 0.8, 10).total == 1
    assert Shift(0.2, None, 10).total == 0.2
