"""Laws of streams: every element once whatever operators are put together, and fair chances."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from vocabtool import Stream, interleave, mix

Numbers = list[int]


class Operator(NamedTuple):
    """An operator of streams of numbers and, by the textbook, what it makes of a list."""

    name: str
    apply: Callable[[Stream[int]], Stream[int]]
    model: Callable[[Numbers], Numbers]
    keeps_order: bool = True


def add_one(number: int) -> int:
    return number + 1


def twice(number: int) -> Numbers:
    return [number, -number]


def is_even(number: int) -> bool:
    return number % 2 == 0


def flat(lists: Stream[Numbers]) -> Stream[int]:
    return lists.flat_map(list)


def operators() -> st.SearchStrategy[Operator]:
    size, seed, many = st.integers(1, 9), st.integers(0, 99), st.integers(0, 30)

    def added(n: Numbers) -> Numbers:
        return [*map(add_one, n)]

    def both(n: Numbers) -> Numbers:
        return [y for x in n for y in twice(x)]

    def same(n: Numbers) -> Numbers:
        return n

    def by_length(k: int) -> Operator:
        return Operator("by length", lambda s: flat(s.batch_by_length(k, length=abs)), same, False)

    def shuffle(k: int, x: int) -> Operator:
        return Operator("shuffle", lambda s: s.shuffle(k, seed=x), same, False)

    def mixed(x: int) -> Operator:
        return Operator("mix", lambda s: mix([s, s], "equal", seed=x), lambda n: n + n, False)

    def interleaved(k: int, b: int) -> Operator:
        return Operator("interleave", lambda s: interleave([s] * 3, k, b), lambda n: n * 3, False)

    return st.one_of(
        st.just(Operator("map", lambda s: s.map(add_one), added)),
        st.just(Operator("threads", lambda s: s.map(add_one, workers=2), added)),
        st.just(Operator("flat_map", lambda s: s.flat_map(twice), both)),
        st.just(Operator("filter", lambda s: s.filter(is_even), lambda n: [*filter(is_even, n)])),
        st.just(Operator("cache", lambda s: s.cache(), same)),
        many.map(lambda k: Operator("take", lambda s: s.take(k), lambda n: n[:k])),
        many.map(lambda k: Operator("skip", lambda s: s.skip(k), lambda n: n[k:])),
        st.integers(0, 3).map(lambda k: Operator("repeat", lambda s: s.repeat(k), lambda n: n * k)),
        size.map(lambda k: Operator("prefetch", lambda s: s.prefetch(k), same)),
        size.map(lambda k: Operator("batch", lambda s: flat(s.batch(k)), same)),
        size.map(by_length),
        st.builds(shuffle, size, seed),
        seed.map(mixed),
        st.builds(interleaved, size, size),
    )


# Where order was given up, how many are cut off is a law still, which ones is not.
CUTS = ("take", "skip")


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(-20, 20), max_size=25), st.lists(operators(), max_size=5))
def test_any_operators_give_every_element_once(numbers: Numbers, chain: list[Operator]) -> None:
    """Any chain of operators gives what the textbook says; twice the same; no thread is left."""
    shaped, expected, in_order = Stream.of(numbers), numbers, True
    for operator in chain:
        if not in_order and operator.name.startswith(CUTS):
            continue
        shaped, expected = operator.apply(shaped), operator.model(expected)
        in_order = in_order and operator.keeps_order
    threads = threading.active_count()
    found = list(shaped)
    assert Counter(found) == Counter(expected)
    assert found == expected or not in_order
    assert list(shaped) == found
    assert list(islice(shaped, 3)) == found[:3]
    assert threading.active_count() <= threads  # one of another test may end meanwhile


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(), max_size=25), st.lists(operators(), max_size=4), st.integers(0, 40))
def test_skipping_is_a_slice(numbers: Numbers, chain: list[Operator], left_out: int) -> None:
    """What is skipped, read or not, is what a whole pass gives first."""
    shaped = Stream.of(numbers)
    for operator in chain:
        shaped = operator.apply(shaped)
    whole = list(shaped)
    assert list(shaped.skip(left_out)) == whole[left_out:]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text("ab", max_size=12), max_size=40), st.integers(1, 30), st.integers(1, 50))
def test_batches_by_length_fit(texts: list[str], tokens: int, buffer: int) -> None:
    """Every text once; each batch padded to its longest fits, unless it is one text alone."""
    batches = list(Stream.of(texts).batch_by_length(tokens, buffer=buffer))
    assert sorted(text for batch in batches for text in batch) == sorted(texts)
    for batch in batches:
        assert len(batch) == 1 or max(map(len, batch)) * len(batch) <= tokens


SIZES = (1000, 2000, 3000)
RARE = 1e-6  # chance that a fair draw fails a check here


def test_mix_by_size_is_a_fair_draw() -> None:
    """Of all orders of two and three elements each is as likely as another."""
    draws = Counter(
        "".join(mix([Stream.of(["a"] * 2), Stream.of(["b"] * 3)], seed=seed))
        for seed in range(4000)
    )
    assert len(draws) == 10
    assert stats.chisquare([*draws.values()]).pvalue > RARE


def test_mix_equal_draws_each_alike() -> None:
    """Each is drawn alike until the shortest ends; with weights, by these."""
    sources = [Stream.of([str(place)] * size) for place, size in enumerate(SIZES)]
    found = list(mix(sources, "equal", seed=1))
    drawn = Counter(found[: len(found) - found[::-1].index("0")])
    assert drawn["0"] == SIZES[0]
    for place in ("1", "2"):
        fair = stats.nbinom(SIZES[0], 0.5)  # draws of it before the other's thousandth
        assert fair.ppf(RARE) <= drawn[place] <= fair.isf(RARE)
    weighed = Counter(islice(mix(sources, [1, 3, 6], seed=2), 1500))
    for number, weight in enumerate((1, 3, 6)):
        share = stats.binom(1500, weight / 10)
        assert share.ppf(RARE) <= weighed[str(number)] <= share.isf(RARE)


@pytest.mark.parametrize("buffer", [2, 3, 4])
def test_a_small_buffer_draws_by_the_textbook(buffer: int) -> None:
    """Each order comes as often as drawing from a buffer that is refilled says, no other comes."""
    expected = _chances(list(range(buffer)), list(range(buffer, 4)))
    times = 6000
    orders = Counter(tuple(Stream.of(range(4)).shuffle(buffer, seed=seed)) for seed in range(times))
    assert orders.keys() <= expected.keys()
    counts = [orders[order] for order in expected]
    assert stats.chisquare(counts, [times * p for p in expected.values()]).pvalue > RARE


def _chances(held: Numbers, coming: Numbers) -> dict[tuple[int, ...], float]:
    """The chance of each order, by going through all draws."""
    if not held:
        return {(): 1.0}
    found: dict[tuple[int, ...], float] = {}
    for at, drawn in enumerate(held):
        rest = [*held[:at], *coming[:1], *held[at + 1 :]]
        for order, chance in _chances(rest, coming[1:]).items():
            found[drawn, *order] = found.get((drawn, *order), 0) + chance / len(held)
    return found
