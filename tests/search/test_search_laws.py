"""What holds for every fusion, corpus and query, and for the order of hits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.small_corpus import FUSED, Doc, Pieces, SmallCorpus, Whole
from vocabtool import Hits, Settings
from vocabtool.choices import Fusion
from vocabtool.keywords.cutter import Term, idf
from vocabtool.search.fusion import best_places, first_of_ties
from vocabtool.search.query import parse_query
from vocabtool.search.search import search

CODES = ("ABC-12", "x1y2z3", "SKU-48007-H")
WORDS = ("cat", "dog", "love", "xapian", "zebra", "7", *CODES)
KNOWN = Whole(["cat", "dog", "love"])
DIM = 2

texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
numbers = st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0])
vectors = st.one_of(st.just(()), st.tuples(numbers, numbers))
documents = st.lists(st.tuples(texts, vectors), max_size=8).map(
    lambda made: [Doc(f"id{n}", text, vector) for n, (text, vector) in enumerate(made)]
)
knowledge = st.sampled_from([KNOWN, None, Pieces(2), Whole([])])
choices = st.fixed_dictionaries(
    {
        "fusion": st.sampled_from(get_args(Fusion)),
        "a": st.sampled_from([None, 0.0, 0.3, 1.0]),
        "depth": st.sampled_from([1, 2, 200]),
    }
)
QUERY = np.array([1, 0.5], np.float32)


def found(corpus: SmallCorpus, text: str, k: int, **settings: Any) -> Hits:
    return search(corpus, text, QUERY, settings=Settings(k=k, **settings))


def holds(doc: Doc, text: str) -> bool:
    """Whether a document holds a code of the query exactly."""
    codes = {word for word in text.lower().split() if word in map(str.lower, CODES)}
    return not codes.isdisjoint(doc.text.lower().split())


@given(documents, texts, knowledge, st.integers(1, 9), choices, st.sampled_from(FUSED))
def test_no_document_without_the_code_outranks_one_with_it(
    docs: list[Doc], text: str, known: Any, k: int, chosen: dict[str, Any], fusion: Fusion
) -> None:
    """And none with it is missing while one without it is found."""
    corpus = SmallCorpus(docs, known, dim=DIM)
    hits = found(corpus, text, k, **chosen | {"fusion": fusion})
    by_id = {doc.id: doc for doc in docs}
    first = [holds(by_id[hit.id], text) for hit in hits]
    assert first == sorted(first, reverse=True)
    assert [hit.tier == 1 for hit in hits] == first
    assert sum(first) == min(k, sum(holds(doc, text) for doc in docs))


@given(
    *(documents, texts, knowledge, st.sampled_from(FUSED), st.integers(1, 9)),
    st.sampled_from(["", '"']),
    st.none() | st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_one_code_is_asked_for_quickly_as_several_are(
    docs: list[Doc], text: str, known: Any, fusion: Fusion, limit: int, quote: str, allowed: Any
) -> None:
    """The same candidates and tiers; the general way is taken where its code occurs twice."""
    corpus = SmallCorpus(docs, known, dim=DIM)
    settings = Settings(fusion=fusion, phrases="preferred")
    keywords = parse_query(corpus, f"{quote}{text}{quote}", settings).keywords
    keywords = keywords._replace(codes=keywords.codes[:1])
    among = corpus.live if allowed is None else np.array(allowed)
    quick, tiers = corpus.legs(keywords, QUERY, limit, among)
    keywords = keywords._replace(codes=keywords.codes * 2)
    general, wanted = corpus.legs(keywords, QUERY, limit, among)
    assert quick.rows.tolist() == general.rows.tolist()
    assert quick.keyword.tolist() == general.keyword.tolist()
    assert quick.bm25 == pytest.approx(general.bm25)
    assert quick.listed == general.listed
    assert tiers.tolist() == wanted.tolist()


@given(documents, texts, knowledge, st.integers(1, 9), choices, st.randoms())
def test_within_a_tier_scores_never_rise(
    docs: list[Doc], text: str, known: Any, k: int, chosen: dict[str, Any], random: Any
) -> None:
    """Each document once, ties by id; explanations and the order of adding change nothing."""
    corpus = SmallCorpus(docs, known, dim=DIM)
    hits = found(corpus, text, k, **chosen)
    keys = [(-hit.tier, -hit.score, hit.id) for hit in hits]
    assert keys == sorted(keys)
    assert len({hit.id for hit in hits}) == len(hits) <= k
    told = search(corpus, text, QUERY, settings=Settings(k=k, explain=True, **chosen))
    assert [(-hit.tier, -hit.score, hit.id) for hit in told] == keys
    assert all(hit.explanation is not None for hit in told)
    # where the legs' lists are as long as the corpus
    one, other = (
        found(SmallCorpus(some, known, dim=DIM), text, k, **chosen | {"depth": 200})
        for some in (docs, random.sample(docs, len(docs)))
    )
    assert [(hit.id, hit.tier) for hit in one] == [(hit.id, hit.tier) for hit in other]
    assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], abs=1e-6)


NAMES = (
    "snake_case_helper", "os.path.join", "std::vector", "p->next", "parseHttpHeader", "__init__",
)  # fmt: skip  # a list
JOINED = ("quick-brown", "and/or", "a/b/c.py", "foo_bar-baz")


def parts_of(name: str) -> list[str]:
    """Its words, by a rule of its own."""
    return re.findall("[a-z0-9]+", re.sub("(?=[A-Z])", " ", name).lower())


@given(
    st.sampled_from(NAMES),
    st.lists(st.tuples(st.booleans(), st.integers(1, 6), st.integers(0, 9), vectors), max_size=6),
    knowledge,
    choices,
    st.sampled_from(FUSED),
)
def test_no_document_with_only_the_parts_outranks_one_with_the_whole(
    name: str, made: Any, known: Any, chosen: dict[str, Any], fusion: Fusion
) -> None:
    """However often it holds them, however long the other is, whatever the vectors say."""
    docs = [
        Doc(f"id{n}", " ".join((parts_of(name) * times, [name])[whole] + ["more"] * longer), vector)
        for n, (whole, times, longer, vector) in enumerate(made)
    ]
    hits = found(SmallCorpus(docs, known, dim=DIM), name, 9, **chosen | {"fusion": fusion})
    first = [name in docs[int(hit.id[2:])].text for hit in hits]
    assert first == sorted(first, reverse=True)
    assert sum(first) == sum(name in doc.text for doc in docs)


@given(
    st.sampled_from(JOINED),
    st.lists(st.tuples(st.booleans(), st.integers(1, 6), st.integers(0, 9)), max_size=6),
)
def test_the_keyword_score_of_a_whole_is_at_least_that_of_all_its_parts(
    joined: str, made: Any
) -> None:
    """Of any joined word, by keywords alone."""
    docs = [
        Doc(f"id{n}", " ".join((parts_of(joined) * times, [joined])[whole] + ["more"] * longer))
        for n, (whole, times, longer) in enumerate(made)
    ]
    hits = found(SmallCorpus(docs, dim=DIM), joined, 9, fusion="keyword")
    scores: dict[bool, list[float]] = {True: [], False: []}
    for hit in hits:
        scores[joined in docs[int(hit.id[2:])].text].append(hit.score)
    assert min(scores[True], default=1e9) >= max(scores[False], default=0) - 1e-4


def by_hand(
    docs: Sequence[Doc], corpus: SmallCorpus, text: str, fusion: Fusion
) -> dict[str, tuple[float, float]]:
    """What each leg adds, by the formulas in plain Python, for words without a code; a = 0.5."""
    words = list(dict.fromkeys(text.split()))
    unknown = [word for word in words if word not in (*KNOWN.words, "7")]
    count = {word: corpus.document_frequency(Term("words", word)) for word in words}
    mass = {word: idf(len(docs), count[word]) for word in words}
    m = sum(mass[word] for word in unknown if count[word]) / sum(mass.values()) if words else 0
    weights = dict.fromkeys(words, 1.0)
    if fusion == "coverage":
        weights |= dict.fromkeys(unknown, 1.5)
    if fusion == "unknown-only":
        weights = dict.fromkeys(unknown, 1.0)
    near = {n: float(np.dot(doc.vector, QUERY)) for n, doc in enumerate(docs) if any(doc.vector)}
    bm25 = {
        n: sum(weight * corpus.bm25(Term("words", word), n) for word, weight in weights.items())
        for n, doc in enumerate(docs)
        if not weights.keys().isdisjoint(doc.text.split())
    }
    if fusion == "rrf":
        ranks = [
            {n: 1 + sum(other > score + 1e-5 for other in leg.values()) for n, score in leg.items()}
            for leg in (near, bm25)
        ]
        one, other = ({n: 1 / (60 + rank) for n, rank in leg.items()} for leg in ranks)
        return {docs[n].id: (one.get(n, 0), other.get(n, 0)) for n in near | bm25}
    w = 0.5 + 0.5 * m if fusion == "coverage" else 0.5
    w = 1 if not near else w if bm25 else 0
    low, high = min(near.values(), default=0), max(near.values(), default=0)
    dense = {n: (score - low) / (high - low) if high > low else 1.0 for n, score in near.items()}
    best = max(bm25.values(), default=1)
    found = near | bm25 if w < 1 else bm25  # vectors without a say find nothing
    return {docs[n].id: ((1 - w) * dense.get(n, 0), w * bm25.get(n, 0) / best) for n in found}


plain_texts = st.lists(st.sampled_from(["cat", "dog", "love", "xapian", "zebra", "7"]), max_size=5)


@given(documents, plain_texts.map(" ".join), st.sampled_from(FUSED))
def test_each_fusion_equals_its_formula_by_hand(docs: list[Doc], text: str, fusion: Fusion) -> None:
    """Every document of either leg, with the score that a person computes."""
    corpus = SmallCorpus(docs, KNOWN, dim=DIM)
    settings = Settings(k=20, fusion=fusion, explain=True)
    hits = search(corpus, text, QUERY, settings=settings, is_own=True)
    expected = by_hand(docs, corpus, text, fusion)
    sums = {id_: sum(parts) for id_, parts in expected.items()}
    assert {hit.id: hit.score for hit in hits} == pytest.approx(sums, abs=3e-6)
    for hit in hits:
        assert hit.explanation is not None
        parts = hit.explanation.dense.part, hit.explanation.keyword.part
        assert parts == pytest.approx(expected[hit.id], abs=3e-6)


# The order of hits: tiers, scores and ids; ranks that equal scores share.


@pytest.mark.parametrize(
    ("scores", "ranks"),
    [
        ((0.9, 0.5, 0.5, 0.1), [1, 2, 2, 4]),
        ((), []),
        ((0.5, 0.4999999, 0.4), [1, 1, 3]),  # below 1e-6 it is noise
        ((-1000.0, -1000.0005, -1001), [1, 1, 3]),  # or below that share of large scores
    ],
)
def test_equal_scores_share_a_rank(scores: tuple[float, ...], ranks: list[int]) -> None:
    """As in sports: 1, 2, 2, 4."""
    assert (first_of_ties(np.array(scores, np.float32)) + 1).tolist() == ranks


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.integers(0, 2))),
    st.integers(1, 9),
)
def test_the_order_is_that_of_sorting_all_by_all(
    documents: list[tuple[float, int]], k: int
) -> None:
    """What Python's own sorting of (tier, score, id) gives."""
    scores = np.array([score for score, _ in documents])
    tiers = np.array([tier for _, tier in documents], np.int8)
    ids = [f"{7 * place % 101:03}" for place in range(len(documents))]
    found = best_places(
        np.arange(len(ids)), scores, tiers, k, lambda rows: [ids[row] for row in rows]
    )
    places = sorted(range(len(ids)), key=lambda at: (-tiers[at], -scores[at], ids[at]))
    assert [ids[at] for at in found[0]] == [ids[at] for at in places[:k]]
