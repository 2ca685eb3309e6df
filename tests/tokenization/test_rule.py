"""Rules: the fast way gives exactly the words of the plain one; fingerprints tell rules apart."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unicode12 import assigned_text
from vocabtool.tokenization.rule import LowerEveryScript, Matches, Rule, parse_rule
from vocabtool.tokenization.string_steps import (
    Characters,
    Decoder,
    DropEmpty,
    Join,
    Lower,
    NGrams,
    RegexReplace,
    SplitAtAny,
    SplitOn,
    SplitWhitespace,
    Strip,
    Substr,
    Transcode,
    Upper,
)
from vocabtool.tokenization.text_arrays import Step, TokenCodes, as_bytes, string_array
from vocabtool.tokenization.text_steps import (
    CaseFold,
    NormalizeUtf8,
    RegexSplit,
    ScriptSplit,
    WhitespaceSplit,
)

PUNCTUATION = r"[!-/:-@\[-`{-~]"
SPLIT = SplitWhitespace()
PAIRS = NGrams(b" ", (1, 2))
BETWEEN_BLANKS: tuple[tuple[Step, ...], ...] = (
    (SPLIT,),
    (Lower(), SPLIT),
    (Lower(utf8=True), SPLIT),
    (Upper(utf8=True), SPLIT, Lower()),
    (LowerEveryScript(), SPLIT),
    (Lower(), RegexReplace(PUNCTUATION, ""), SPLIT),
    (RegexReplace(r"([^\w\s])", r" \1 "), SPLIT),
    (RegexReplace(r"[q-z]+", " "), SPLIT),
    (WhitespaceSplit(), PAIRS),
    (RegexReplace(r"\s", " "), SPLIT, DropEmpty()),
    (RegexReplace(r"\d+", "0"), SPLIT),
    (SPLIT, Strip(), Substr(0, 2), Join(b"<", b">")),
    (SPLIT, SplitOn(b","), Characters()),
    (SPLIT, CaseFold(), NormalizeUtf8("NFKC")),
    (Lower(), SPLIT, PAIRS),
    (SPLIT, PAIRS, Join(b"<", b">")),
    (SPLIT, NGrams(b"_", (2,)), NGrams(b"+", (2,))),
)
WHOLE_TEXTS: tuple[tuple[Step, ...], ...] = (
    (),
    (Lower(),),
    (Strip(), SplitOn(b" ")),
    (SplitOn(b" "), DropEmpty()),
    (SplitAtAny(b" ,"),),
    (SplitAtAny(b" ", skip_empty=False), PAIRS),
    (Join(b"[START] ", b" [END]"), SPLIT),
    (RegexReplace("^.", "x"), SPLIT),
    (RegexReplace("a b", "ab"), SPLIT),
    (RegexReplace(r"\s", ""), SPLIT),
    (RegexReplace(r"\s+", "_"), SPLIT),
    (RegexReplace("a", "b", every=False), SPLIT),
    (SplitWhitespace(1), SPLIT),
    (Substr(0, 0), SPLIT),
    (Characters(Decoder("ignore")),),
    (Transcode(), SPLIT),
    (Matches("[a-z]+|b c"),),
    (ScriptSplit(False),),
    (RegexSplit(r"\s", ""),),
    parse_rule("ptb"),
)
BLANKS = ("\u00a0", "\u2028", "\u3000", "\x1c", "\x85", *" \t\n\v\f\r")
TEXT = (
    assigned_text(16).map(str.encode)
    | st.lists(st.sampled_from(["a", "B", "b c", "x,y", "\0", "naïve", *BLANKS]), max_size=12).map(
        lambda parts: "".join(parts).encode()
    )
    | st.binary(max_size=8)
)
TEXTS = st.lists(TEXT, max_size=6)


@pytest.fixture(autouse=True, scope="module")
def no_text_is_short() -> Iterator[None]:
    """Texts of a few bytes are cut in pieces, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vocabtool.tokenization.rule.SHORT", 0)
        yield


def expanded(coded: TokenCodes) -> list[list[bytes]]:
    """The words of each text that codes stand for."""
    distinct = as_bytes(coded.distinct)
    flat = [distinct[code] for code in coded.codes.tolist()]
    bounds = coded.offsets.tolist()
    return [flat[start:end] for start, end in pairwise(bounds)]


def shown(steps: tuple[Step, ...]) -> str:
    return "+".join(type(step).__name__ for step in steps) or "none"


@pytest.mark.parametrize("steps", [*BETWEEN_BLANKS, *WHOLE_TEXTS], ids=shown)
@given(texts=TEXTS, before=TEXTS, after=TEXTS)
@example(texts=[], before=[], after=[])
@example(texts=[b"", b""], before=[b"a"], after=[b"b"])
@example(texts=[b" a ", b"\ta\n", b" ", b"a\0b c", b"a  b\r\n"], before=[b"x y"], after=[b"z"])
def test_coded_words_are_those_of_the_cut(
    steps: tuple[Step, ...], texts: list[bytes], before: list[bytes], after: list[bytes]
) -> None:
    """What ``coded`` gives are the words of ``cut``; also of a slice of a longer array."""
    rule = Rule(steps)
    wanted = rule.tokens(string_array(texts)).to_lists()
    assert expanded(rule.token_codes(string_array(texts))) == wanted
    part = string_array([*before, *texts, *after]).slice(len(before), len(texts))
    assert expanded(rule.token_codes(part)) == wanted
    assert rule.tokens(part).to_lists() == wanted


@given(pattern=st.sampled_from([r"[^\w\s]", "[a ]", r"\s", r"\W", "[^b]"]), texts=TEXTS)
@example(pattern=r"\W", texts=[b"foo (bar"])
@pytest.mark.parametrize("rewrite", [r"\1", r" \1 ", r"\0", "", " ", "x"])
@pytest.mark.parametrize("form", ["({})", "({}+)", "{0}|({0})"])
def test_replacements_that_look_local_are(
    form: str, rewrite: str, pattern: str, texts: list[bytes]
) -> None:
    """A replacement is worked between blanks only where that makes no difference."""
    rule = Rule((RegexReplace(form.format(pattern), rewrite), SPLIT))
    assert (
        expanded(rule.token_codes(string_array(texts)))
        == rule.tokens(string_array(texts)).to_lists()
    )


@pytest.mark.parametrize("pattern", [r"(\W)+", "([x ])+"])
def test_the_last_of_a_run_may_be_another_character(pattern: str) -> None:
    """Of a run with a blank in it ``\\1`` may keep another character: the words grow together."""
    rule = Rule((RegexReplace(pattern, r"\1"), SPLIT))
    texts = string_array(["foo (bar", "y xxz"])
    assert expanded(rule.token_codes(texts)) == rule.tokens(texts).to_lists()


@pytest.mark.parametrize("steps", [*BETWEEN_BLANKS, *WHOLE_TEXTS], ids=shown)
def test_which_rules_are_worked_between_blanks(steps: tuple[Step, ...]) -> None:
    """Common rules, on texts without a NUL; not those that look across blanks, or keep them."""
    fast = steps in BETWEEN_BLANKS
    assert Rule(steps).works_between_blanks(string_array(["a b", ""])) == fast
    assert not Rule(steps).works_between_blanks(string_array(["a b", "c\0d"]))


def test_distinct_words_are_looked_at_once() -> None:
    """However often a piece stands in the texts, a step sees it once."""
    coded = Rule((Lower(), SPLIT)).token_codes(string_array(["A b a\n", "a B  ", "b"] * 1000))
    assert len(coded.codes) == 6000
    assert len(coded.distinct) < 10


ONE_STEP: tuple[Step, ...] = (
    *(Lower(), Lower(utf8=True), Upper(), LowerEveryScript(), CaseFold(), Strip(), DropEmpty()),
    *(RegexReplace("a", "b"), RegexReplace("a", "c"), RegexReplace("b", "b")),
    *(RegexReplace("a", "b", every=False), SplitWhitespace(), SplitWhitespace(1)),
    *(SplitWhitespace(2), SplitOn(b" "), SplitOn(b","), SplitOn(b",", 1), SplitAtAny(b" ")),
    *(SplitAtAny(b","), SplitAtAny(b" ", skip_empty=False), Join(b"a", b"b"), Join(b"b", b"b")),
    *(Join(b"a", b"a"), Substr(0, 1), Substr(1, 1), Substr(0, 2), Substr(0, 1, "UTF8_CHAR")),
    *(Transcode(Decoder(errors)) for errors in ("replace", "ignore", "strict")),
    *(Transcode(Decoder(replacement=33)), Transcode(Decoder(controls=True)), Characters()),
    *(NormalizeUtf8(form) for form in ("NFC", "NFD", "NFKC", "NFKD")),
    *(NGrams(b" ", (2,)), NGrams(b"_", (2,)), NGrams(b" ", (1, 2)), NGrams(b" ", (2,), b"<")),
    *(NGrams(b" ", (2,), right_pad=b"<"), NGrams(b" ", (2,), pad_width=1)),
    *(NGrams(b" ", (2,), preserve_short=True), RegexSplit(r"\s", ""), RegexSplit(r"\s", "x")),
    *(ScriptSplit(True), ScriptSplit(False), WhitespaceSplit(), WhitespaceSplit(version=2)),
    *(Matches("a"), Matches("b")),
)
VARIANTS: tuple[tuple[Step, ...], ...] = (
    (),
    *((step,) for step in ONE_STEP),
    (Lower(), SplitWhitespace()),
    (SplitWhitespace(), Lower()),
)


def test_fingerprints_tell_rules_apart() -> None:
    """Rules that differ in any step, its parameters or the order have different fingerprints."""
    for one, other in combinations(VARIANTS, 2):
        assert Rule(one) != Rule(other)
        assert Rule(one).fingerprint != Rule(other).fingerprint, (one, other)


def test_fingerprints_are_the_same_everywhere() -> None:
    """Indexes store them: they must not change."""
    wanted = "3ef63b894dd64c332d1b6d79c1b03a3e6ab42e21ec37af9ca36b374978a58903"
    assert Rule((Lower(), SplitWhitespace())).fingerprint == wanted


def test_rules_are_told_in_plain_words() -> None:
    """Each step is a line; a rule without steps is told, too."""
    assert Rule((Lower(), SplitOn(b"\n"))).describe() == (
        "lower-case A to Z",
        r"split at each '\n'",
    )
    assert Rule(()).describe() == ("the whole text is one word",)
