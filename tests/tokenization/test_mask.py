"""Masks: unknown or known words, spelled as in the line."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
import regex
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.some_reports import judged
from vocabtool.choices import MaskMode
from vocabtool.tokenization.lookup import AHEAD, Span, WordLookup, find_in_order
from vocabtool.tokenization.mask import SURFACE, mask
from vocabtool.tokenization.rule import parse_rule
from vocabtool.tokenization.steps import Characters, Join, RegexReplace
from vocabtool.tokenization.text_arrays import Step, Tokens, as_bytes, string_array
from vocabtool.vocabulary import decode, encode

LookUp = Callable[[Sequence[str]], WordLookup]

# Surface words and codes.


def surface_words(line: str) -> list[Span]:
    return [match.span() for match in regex.finditer(SURFACE, line)]


def shown(line: str) -> list[str]:
    return [line[start:end] for start, end in surface_words(line)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        (" \t ", []),
        ("didn't don\u2019t 'so'", ["didn't", "don\u2019t", "'", "so", "'"]),
        ("quick-brown, fox", ["quick", "-", "brown", ",", "fox"]),
        ("3.14 10%", ["3.14", "10", "%"]),
        ("nai\u0308ve e\u0301", ["nai\u0308ve", "e\u0301"]),
        ("日本語テキスト", ["日", "本", "語", "テキスト"]),
        ("한국어 हिन्दी", ["한국어", "हिन्दी"]),
        ("👩\u200d🚀🇫🇷🇩🇪👍🏽", ["👩\u200d🚀", "🇫🇷", "🇩🇪", "👍🏽"]),
        ("a\u00a0b\u2028c", ["a", "b", "c"]),
        ("“So”…", ["“", "So", "”", "…"]),
        ("x\ud800\udcff", ["x", "\ud800", "\udcff"]),
    ],
)
def test_words_are_what_a_person_sees(line: str, words: list[str]) -> None:
    """White space belongs to no word."""
    assert shown(line) == words


@pytest.mark.parametrize(
    "code",
    [
        *("C++", "C#", ".NET", "CVE-2024-1234", "SKU-48007-H", "0x80070005", "foo_bar.baz2"),
        *("user@example.com", "3.14", "IL-6", "x86-64", "2024-01-31", "10:30", "std::vector"),
        *("https://a.b/c?d=e", "\u0422-34", "v1.2.3-rc1", "16GB", "a=b&c=1"),
    ],
)
def test_a_code_is_one_surface_word(code: str) -> None:
    """Codes stay whole in brackets and before a full stop; other joined words do not."""
    assert shown(f"({code}).") == ["(", code, ")", "."]
    for words in ("quick-brown", "GOOD-bye", "e-mail", "and/or", "R&D", "a.b"):
        assert len(shown(words)) == 3


@given(
    st.text(st.sampled_from("aZé9 .,-_'+#@/:\t\u00a0日カ\u0301\u200d👩🚀🇫🇷”ก\ud800\0"), max_size=30)
)
def test_surface_words_cover_all_that_is_not_white_space(line: str) -> None:
    """In order, disjoint, not empty."""
    spans = surface_words(line)
    assert all(start < end for start, end in spans)
    assert all(one[1] <= two[0] for one, two in pairwise(spans))
    covered = {i for start, end in spans for i in range(start, end)}
    assert all(c.isspace() for i, c in enumerate(line) if i not in covered)


@pytest.mark.parametrize(
    "unit", ["🇫🇷", "日", "a-", "a\u0301", "x1-", "a:", "\u200d", "a\u200d", "#"]
)
def test_a_long_line_takes_proportional_time(unit: str) -> None:
    """Also a line made to take long: the time for 20 times the length is far from 400 times."""

    def seconds(count: int) -> float:
        start = time.process_time()
        shown(unit * count)
        find_in_order(unit * count, [unit] * count)
        return time.process_time() - start

    seconds(100)
    assert seconds(40_000) < 100 * max(seconds(2000), 0.002)


# Lines.


def by_steps(steps: Sequence[Step], knows: Callable[[bytes], bool]) -> LookUp:
    """Return a lookup of steps and a table."""

    def judge(texts: Sequence[str]) -> WordLookup:
        cut = Tokens.whole(string_array(texts))
        for step in steps:
            cut = step.apply(cut)
        known = {word: 0 for word in as_bytes(cut.values) if knows(word)}
        return judged(cut.to_lists(), known)

    return judge


def of(rule: str, *known: str) -> LookUp:
    """Return a lookup of a named rule with known words."""
    return by_steps(parse_rule(rule), {encode(word) for word in known}.__contains__)


def one(line: str, judge: LookUp, mode: MaskMode) -> tuple[str, int]:
    (masked,) = mask([line], judge, mode)
    return masked


def both(line: str, judge: LookUp) -> tuple[str, str]:
    return one(line, judge, "known")[0], one(line, judge, "unknown")[0]


@pytest.mark.parametrize(
    ("rule", "knows", "line", "known", "unknown"),
    [
        ("keras", "the dog", "The Café, the dog!", "Café", "The [UNK], the dog!"),
        ("keras", "the dog", "A quick-brown  dog", "A quick-brown", "[UNK] [UNK]  dog"),
        ("keras", "the dog", "CVE-2024-1234: the", "CVE-2024-1234", "[UNK]: the"),
        ("keras", "the dog", "no\u00a0break", "no\u00a0break", "[UNK]"),
        ("lower", "the dog", "The dog, the DOG", "dog,", "The [UNK] the DOG"),
        ("regex:[a-z]+", "the dog", "dog-cat/dog x7", "cat x7", "dog-[UNK]/dog [UNK]"),
        ("ptb", "the dog", "The dog can't.", "can't .", "The dog [UNK][UNK]"),
        # Surface words are as fine as the rule allows; one of several words is masked once.
        ("keras", "quick dont", "quick-brown don't", "quick-brown", "[UNK] don't"),
        ("regex:[a-z']+", "quick don't", "quick-brown don't", "brown", "quick-[UNK] don't"),
        ("regex:[a-z]+", "cve user", "user@example.com CVE-1", "user@example.com", "[UNK] CVE-1"),
        # Invalid bytes are kept.
        (
            "keras",
            "the",
            decode(b"the \xff dog\xe9, the"),
            decode(b"\xff dog\xe9"),
            "the [UNK] [UNK], the",
        ),
    ],
)
def test_lines_by_hand(rule: str, knows: str, line: str, known: str, unknown: str) -> None:
    """The unknown words of a line in its own spelling."""
    judge = of(rule, *knows.split())
    assert both(line, judge) == (known, unknown)


def test_a_word_without_a_place() -> None:
    """The surface words where it should be are unknown; if there are none, it is counted."""
    steps = (RegexReplace("odd", "strange"), *parse_rule("lower"))
    judge = by_steps(steps, {b"a", b"b"}.__contains__)
    assert one("a odd, b", judge, "unknown") == ("a [UNK], b", 0)
    assert one("a odd, b", judge, "known") == ("odd", 0)
    frame = (Join(b"[START] ", b" [END]"), *parse_rule("lower"))
    for knows, lost in (({b"a", b"[start]", b"[end]"}, 0), ({b"a"}, 2)):
        judge = by_steps(frame, knows.__contains__)
        assert one("a start a", judge, "unknown") == ("a [UNK] a", lost)


AWKWARD = (
    *("the", "The", "dog", "DOG,", "Café", "didn't", "quick-brown", "C++", ".NET", "naïve"),
    *("CVE-2024-1234", "İstanbul", "日本語", "👩\u200d🚀", "...", "--", "(x)", "a\u00a0b", "a\0b"),
    *("e\u0301", "ß", "Mr.", "user@example.com", "dog.", "3.14", "ﬁne", "ΑΣ"),
)
LINES = st.lists(
    st.sampled_from(AWKWARD)
    | st.text(st.sampled_from("aB ,.'-\u0301é日\t\r\u00a0\u03a3"), max_size=6)
    | st.text(st.characters(codec="utf-8"), max_size=4)
    | st.binary(max_size=3).map(decode),
    max_size=8,
).map(" ".join)
RULES: dict[str, tuple[Step, ...]] = {
    **{name: parse_rule(name) for name in ("whitespace", "lower", "keras", "ptb")},
    "regex": parse_rule(r"regex:[\pL\pM]+|\pN"),
    "characters": (Characters(),),
}
A_RULE = st.sampled_from(sorted(RULES))


@given(LINES, A_RULE)
def test_a_model_that_knows_all_masks_nothing(line: str, rule: str) -> None:
    """``unknown``: the line is unchanged; ``known``: it is empty."""
    assert both(line, by_steps(RULES[rule], lambda _: True)) == ("", line)


@given(LINES, A_RULE)
@example("½ 1\u20442", "keras")
def test_a_model_that_knows_nothing_leaves_no_word(line: str, rule: str) -> None:
    """No letter remains except in surface words without words of the model."""
    judge = by_steps(RULES[rule], lambda _: False)
    masked, _ = one(line, judge, "unknown")
    left = masked.replace("[UNK]", " ")
    silent = [line[slice(*span)] for span in surface_words(line)]
    silent = [word for word, end in zip(silent, judge(silent).offsets[1:], strict=True) if not end]
    assert all(c in "".join(silent) for c in left if c.isalnum())


@given(LINES, A_RULE, st.integers(0, 3))
def test_the_unknown_words_printed_are_those_of_the_line(line: str, rule: str, salt: int) -> None:
    """The unknown words of the output are the unknown words of the line in order."""
    assume(rule not in ("ptb", "characters"))  # its full stop differs at the end; words of blanks
    assume(all(c in " \t\n\v\f\r" for c in line if c.isspace()))  # others may be parts of words
    judge = by_steps(RULES[rule], lambda word: (sum(word) + salt) % 3 > 0)
    masked, lost = one(line, judge, "known")
    assume(not lost)

    def spelled(text: str) -> list[bytes]:
        answer = judge([text])
        words = Tokens.whole(answer.distinct).to_lists()
        return [words[code][0] for code in answer.codes if not answer.known[code]]

    assert spelled(masked) == spelled(line)


def test_a_word_is_not_looked_for_without_end() -> None:
    """The search distance is limited, so that time is linear in the length of a line."""
    assert find_in_order("x" * AHEAD + "word", ["word"]) == [(AHEAD, AHEAD + 4)]
    assert find_in_order("x" * AHEAD + "xword", ["word"]) == [None]
    assert find_in_order("...", []) == []
