"""Masks: unknown or known words, spelled as in the line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain, count, islice, pairwise

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from vocabtool.choices import MaskMode
from vocabtool.tokenization.lookup import WordLookup
from vocabtool.tokenization.mask import (
    AHEAD,
    BATCH_LINES,
    SPACE,
    LookUp,
    MaskedLine,
    Span,
    Totals,
    batches,
    cuts,
    find_in_order,
    is_code,
    letters,
    mask,
)
from vocabtool.tokenization.rule import parse_rule
from vocabtool.tokenization.string_steps import Characters, Join
from vocabtool.tokenization.text_arrays import Step, Tokens, string_array
from vocabtool.vocabulary import decode, encode

# Surface words: Unicode boundaries, and codes.

ANY_LINE = st.text(
    st.sampled_from("aZé9 .,-_'+#@/:\t\u00a0日カ\u0301\u200d👩🚀🇫🇷”ก\ud800\0") | st.characters(),
    max_size=30,
)


def surface_words(line: str) -> list[Span]:
    """Split a line as finely as possible: words, codes, single marks and symbols.

    Together they contain every character that is not white space.
    """
    found: list[Span] = []
    start = 0
    for piece in SPACE.split(line):
        if piece and not piece.isspace():
            found += (Span(start + a, start + b) for a, b in cuts(piece)[-1])
        start += len(piece)
    return found


def shown(line: str) -> list[str]:
    return [line[start:end] for start, end in surface_words(line)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        (" \t ", []),
        ("didn't don\u2019t can:t", ["didn't", "don\u2019t", "can:t"]),
        ("quick-brown, fox", ["quick", "-", "brown", ",", "fox"]),
        ("3.14 1,234.5 10%", ["3.14", "1,234.5", "10", "%"]),
        ("nai\u0308ve e\u0301", ["nai\u0308ve", "e\u0301"]),
        ("日本語テキスト", ["日", "本", "語", "テキスト"]),
        ("한국어 हिन्दी", ["한국어", "हिन्दी"]),
        ('שנ"ב', ['שנ"ב']),
        ("👩\u200d🚀🇫🇷🇩🇪", ["👩\u200d🚀", "🇫🇷", "🇩🇪"]),
        ("a\u00a0b\u2028c", ["a", "b", "c"]),
        ("“So”…", ["“", "So", "”", "…"]),
        ("x\ud800\udcff", ["x", "\ud800", "\udcff"]),
    ],
)
def test_words_are_what_stands_between_unicode_boundaries(line: str, words: list[str]) -> None:
    """The examples of UAX #29; white space belongs to no word."""
    assert shown(line) == words


@pytest.mark.parametrize(
    "code",
    [
        *("C++", "C#", ".NET", "CVE-2024-1234", "SKU-48007-H", "0x80070005", "foo_bar.baz"),
        *("user@example.com", "3.14", "IL-6", "x86-64", "2024-01-31", "10:30", "std::vector"),
        *("https://a.b/c?d=e", "\u0422-34", "v1.2.3-rc1", "16GB", "a=b&c=1"),
    ],
)
def test_a_code_is_one_surface_word(code: str) -> None:
    """Codes stay whole in brackets and before a full stop; the rule splits joined words."""
    assert shown(f"({code}).") == ["(", code, ")", "."]
    assert not any(map(is_code, ("quick-brown", "GOOD-bye", "e-mail", "and/or", "R&D", "a.b")))


def test_a_chunk_can_be_cut_in_up_to_three_ways() -> None:
    """Whole, without surrounding punctuation, into words: each way once."""
    assert [[chunk[slice(*s)] for s in way] for chunk in ['"it-is".'] for way in cuts(chunk)] == [
        ['"it-is".'],
        ['"', "it-is", '"', "."],
        ['"', "it", "-", "is", '"', "."],
    ]
    assert cuts("word") == [((0, 4),)]
    assert cuts("don't") == [((0, 5),)]
    assert cuts("--") == [((0, 2),), ((0, 1), (1, 2))]


@given(ANY_LINE)
def test_surface_words_cover_all_that_is_not_white_space(line: str) -> None:
    """In order, disjoint, not empty; each way splits the one before it further."""
    spans = surface_words(line)
    assert all(span.start < span.end for span in spans)
    assert all(one.end <= two.start for one, two in pairwise(spans))
    covered = {i for start, end in spans for i in range(start, end)}
    assert all(c.isspace() for i, c in enumerate(line) if i not in covered)
    assert not any(line[start:end].isspace() for start, end in spans)

    for chunk in filter(None, SPACE.split(line)[::2]):
        for coarse, fine in pairwise(cuts(chunk)):
            within = [any(a <= start and end <= b for a, b in coarse) for start, end in fine]
            assert all(within)


@pytest.mark.parametrize("unit", ["🇫🇷", "日", "a-", "ab", "a\u0301", "x1-", "a:", "\u200d"])
def test_a_long_chunk_is_cut_like_a_short_one(unit: str) -> None:
    """Search windows do not matter: 6,000 repeats are split as 60 are."""

    def widths(count: int) -> list[int]:
        return [end - start for start, end in cuts(unit * count)[-1]]

    short, long = widths(60), widths(6000)
    if len(short) < 60:
        assert len(long) == len(short)
    else:
        assert long == short[: len(short) // 60] * 6000


# Lines.

Split = Callable[[str], list[str]]


def judged(words: list[list[bytes]], knows: Callable[[bytes], bool]) -> WordLookup:
    """Return the lookup of texts with these words."""
    distinct = sorted(set(chain.from_iterable(words)))
    place = {word: i for i, word in enumerate(distinct)}
    nothing = np.zeros(len(distinct), np.int64)
    return WordLookup(
        codes=np.array([place[word] for text in words for word in text], np.int32),
        offsets=np.array([0, *accumulate(map(len, words))], np.int64),
        distinct=string_array(distinct),
        known=np.array([knows(word) for word in distinct], np.bool_),
        ids=nothing,
        positions=nothing,
    )


def by_steps(steps: Sequence[Step], knows: Callable[[bytes], bool]) -> LookUp:
    """Return a lookup of steps and a table."""

    def judge(texts: Sequence[str]) -> WordLookup:
        cut = Tokens.whole(string_array(texts))
        for step in steps:
            cut = step.apply(cut)
        return judged(cut.to_lists(), knows)

    return judge


def by(split: Split, *known: str) -> LookUp:
    """Return a lookup with words made in Python, some of them known."""

    def judge(texts: Sequence[str]) -> WordLookup:
        return judged([[encode(w) for w in split(text)] for text in texts], table.__contains__)

    table = {encode(word) for word in known}
    return judge


def of(rule: str, *known: str) -> LookUp:
    """Return a lookup of a named rule with known words."""
    return by_steps(parse_rule(rule), {encode(word) for word in known}.__contains__)


def pairs(text: str) -> list[str]:
    return [" ".join(text.split()[i : i + 2]) for i in (0, 2)]


def numbered(text: str) -> list[str]:
    """Words with their position: no word alone is what it is in a line."""
    return [f"{word}{i}" for i, word in enumerate(text.lower().split())]


def one(line: str, judge: LookUp, mode: MaskMode) -> MaskedLine:
    (masked,) = mask([line], judge, mode)
    return masked


def both(line: str, judge: LookUp) -> tuple[str, str]:
    return one(line, judge, "known").text, one(line, judge, "unknown").text


@pytest.mark.parametrize(
    ("rule", "knows", "line", "known", "unknown"),
    [
        ("keras", "the dog", "The Café, the dog!", "Café", "The [UNK], the dog!"),
        ("keras", "the dog", "A quick-brown  dog", "A quick-brown", "[UNK] [UNK]  dog"),
        ("keras", "the dog", "(naïve) 'C++' the", "naïve C++", "([UNK]) '[UNK]' the"),
        ("keras", "the dog", "CVE-2024-1234: the", "CVE-2024-1234", "[UNK]: the"),
        ("keras", "the dog", " the\t-- dog ", "", " the\t-- dog "),
        ("keras", "the dog", "no\u00a0break", "no\u00a0break", "[UNK]"),
        ("lower", "the dog", "The dog, the DOG", "dog,", "The [UNK] the DOG"),
        ("whitespace", "the dog", "The dog", "The", "[UNK] dog"),
        ("regex:[a-z]+", "the dog", "dog-cat/dog x7", "cat x7", "dog-[UNK]/dog [UNK]"),
        ("regex:[a-z]+", "the dog", "dog-9 naïve", "naïve", "dog-9 [UNK]"),
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
    assert one(line, judge, "known").exact


def test_what_stands_around_every_text_is_no_part_of_it() -> None:
    """A rule that puts ``[START]`` and ``[END]`` around a line is aligned exactly."""
    frame = Join(b"[START] ", b" [END]")
    lower = parse_rule("lower")
    steps = (lower[0], frame, *lower[1:])
    for line in ("the dog the", "", "dog", "start [START] dog"):
        masked = one(line, by_steps(steps, {b"the", b"dog"}.__contains__), "known")
        assert masked == (line.replace("dog", "").replace("the", "").strip(), True, 0)


@pytest.mark.parametrize(
    ("judge", "line", "known", "unknown"),
    [
        # Penn Treebank's full stop is part of a word within a line, and a word at its end.
        (
            of("ptb", "the", "dog", "."),
            "The St. Bernard dog. The dog.",
            ("St. Bernard dog.", False, 0),
            ("The [UNK] [UNK] [UNK] The dog.", False, 0),
        ),
        # Surface words that share a word of the model are masked together.
        (by(pairs, "a b"), "a b C d", ("C d", False, 0), ("a b [UNK]", False, 0)),
        # Words that are not in the line are printed and counted.
        (
            by(numbered, "the0"),
            "The Dog  Barks, so",
            ("dog1 barks,2 so3", False, 3),
            ("The [UNK] [UNK] [UNK]", False, 3),
        ),
        (by(numbered, "the0", "dog1"), "The Dog", ("", False, 0), ("The Dog", False, 0)),
        # Known words among them are printed as the model makes them.
        (
            by(lambda t: ["a", "odd", "even", "b"] if len(t) > 2 else [t], "a", "b", "even"),
            "a ½ b",
            ("odd", False, 1),
            ("a [UNK] even b", False, 1),
        ),
        # Words that the model adds within a line mask nothing.
        (
            by(lambda t: [*t.split()[:1], *(["<sep>"] * (" " in t)), *t.split()[1:]], "a", "b"),
            "a b",
            ("<sep>", False, 1),
            ("a b", False, 1),
        ),
    ],
)
def test_a_word_alone_may_not_be_what_it_is_in_a_line(
    judge: LookUp, line: str, known: MaskedLine, unknown: MaskedLine
) -> None:
    """Return the masked text, whether it is exact, and the number of unaligned words."""
    assert one(line, judge, "known") == known
    assert one(line, judge, "unknown") == unknown


def test_a_masked_line_is_one_line() -> None:
    """Also if the model's word contains a line feed."""
    judge = by(lambda text: ["new\nline"] * text.count("x"))
    assert one("x", judge, "known").text == "x"
    odd = by(lambda text: ["new\nline"] if len(text) == 3 else [])
    assert one("x y", odd, "known").text == "new line"


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
    masked = one(line, judge, "unknown")
    left = masked.text.replace("[UNK]", " ")
    silent = [line[slice(*span)] for span in surface_words(line)]
    silent = [word for word, end in zip(silent, judge(silent).offsets[1:], strict=True) if not end]
    assert all(c in "".join(silent) for c in left if c.isalnum())


@given(LINES, A_RULE, st.integers(0, 3))
def test_the_unknown_words_printed_are_those_of_the_line(line: str, rule: str, salt: int) -> None:
    """The words of an exact line's output are the unknown words of the line in order."""
    assume(rule != "ptb")  # its full stop differs at the end of the output
    judge = by_steps(RULES[rule], lambda word: (sum(word) + salt) % 3 > 0)
    masked = one(line, judge, "known")
    assume(masked.exact)

    def spelled(text: str) -> list[bytes]:
        answer = judge([text])
        words = Tokens.whole(answer.distinct).to_lists()
        return [words[code][0] for code in answer.codes if not answer.known[code]]

    assert spelled(masked.text) == spelled(line)


@given(st.lists(LINES, max_size=5), A_RULE)
def test_lines_do_not_depend_on_each_other(lines: list[str], rule: str) -> None:
    """Lines together give the same as each alone, and the totals are their sums."""
    judge = by_steps(RULES[rule], lambda word: len(word) % 2 > 0)
    totals = Totals()
    together = list(mask(lines, judge, "unknown", totals))
    assert together == [one(line, judge, "unknown") for line in lines]
    exact, unaligned = (sum(getattr(m, name) for m in together) for name in ("exact", "unaligned"))
    assert totals == Totals(len(lines), exact, unaligned)


def test_endless_lines_are_masked_as_they_come() -> None:
    """Lines are read at most one batch ahead."""
    taken = 0

    def lines() -> Iterator[str]:
        nonlocal taken
        for number in count():
            taken += 1
            yield f"line {number}"

    first = list(islice(mask(lines(), of("lower", "line"), "known"), 3))
    assert [masked.text for masked in first] == ["0", "1", "2"]
    assert taken <= BATCH_LINES


def test_batches_are_bounded_by_lines_and_by_length() -> None:
    """Long lines make short batches, and none is lost."""
    assert [len(batch) for batch in batches(["x"] * (BATCH_LINES + 1))] == [BATCH_LINES, 1]
    assert [len(batch) for batch in batches(["x" * 700_000] * 5)] == [2, 2, 1]


def test_a_stretch_is_judged_once() -> None:
    """A repeated chunk is looked up once, also in later batches."""
    asked: list[str] = []

    def judge(texts: Sequence[str]) -> WordLookup:
        asked.extend(texts)
        return of("keras", "dog")(texts)

    lines = ["Dog, fish-cake"] * (BATCH_LINES + 5)
    assert {masked.text for masked in mask(lines, judge, "known")} == {"fish-cake"}
    stretches = [text for text in asked if text not in ("Dog, fish-cake", "")]
    assert sorted(stretches) == sorted({"Dog,", "Dog", ",", "fish-cake", "fish", "-", "cake"})


@pytest.mark.parametrize(
    ("text", "words", "places"),
    [
        ("Café au lait", ["cafe", "lait"], ["Café", "lait"]),
        ("It's 1st", ["its", "1st"], ["It's", "1st"]),
        ("ﬁne Straße", ["fine", "strasse"], ["ﬁne", "Straße"]),
        ("Mr. Fox.", ["mr.", "fox", "."], ["Mr.", "Fox", "."]),
        ("cat a t", ["a", "t"], ["a", "t"]),
        ("abc", ["a", "b", "c"], ["a", "b", "c"]),
        ("companies are", ["compani", "ar"], ["compani", "ar"]),
        ("apple pie", ["<s>", "apple", "pie"], [None, "apple", "pie"]),
        ("apple pie", ["a", "apple", "pie"], [None, "apple", "pie"]),
        ("a b a", ["x", "a", "b", "y", "a"], [None, "a", "b", None, "a"]),
        ("a b c", ["c", "b"], ["c", None]),
        ("b c a", ["a", "b", "c"], [None, "b", "c"]),
        ("x, y", [",", "y", "!"], [",", "y", None]),
        ("a, b", [",", "a", "b"], [None, "a", "b"]),
        ("", ["a"], [None]),
        ("a", [""], [None]),
    ],
)
def test_words_are_found_in_order(text: str, words: list[str], places: list[str | None]) -> None:
    """By letters, from left to right; a match that skips the next word is rejected."""
    spans = find_in_order(text, surface_words(text), words)
    assert [span and text[slice(*span)] for span in spans] == places


def test_a_word_is_not_looked_for_without_end() -> None:
    """The search distance is limited, so that time is linear in the length of a line."""
    assert find_in_order("x" * AHEAD + "word", [], ["word"]) == [Span(AHEAD, AHEAD + 4)]
    assert find_in_order("x" * AHEAD + "xword", [], ["word"]) == [None]


@given(st.text(max_size=8), st.text(max_size=8))
def test_letters_of_a_text_are_those_of_its_parts(one_part: str, other: str) -> None:
    """Folding keeps a position for each letter."""
    assert letters(one_part + other) == letters(one_part) + letters(other)
    assert letters(one_part) == letters(letters(one_part))
