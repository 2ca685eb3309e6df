"""Rules: fast and plain processing agree; different rules have different fingerprints."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unicode12 import assigned_text
from vocabtool.errors import InvalidFile, VocabtoolError
from vocabtool.tokenization import rule as rules
from vocabtool.tokenization.rule import RUNS, LowerEveryScript, Matches, Rule, parse_rule
from vocabtool.tokenization.steps import (
    BertNormalize,
    BertSplit,
    CaseFold,
    Characters,
    DropEmpty,
    Join,
    Lower,
    NGrams,
    NormalizeUtf8,
    RegexReplace,
    RegexSplit,
    ScriptSplit,
    SplitAtAny,
    SplitOn,
    SplitWhitespace,
    Strip,
    Transcode,
    WhitespaceSplit,
)
from vocabtool.tokenization.text_arrays import Step, TokenCodes, Tokens, as_bytes, string_array

PUNCTUATION = r"[!-/:-@\[-`{-~]"
SPLIT = SplitWhitespace()
PAIRS = NGrams(b" ", (1, 2))
BETWEEN_BLANKS: tuple[tuple[Step, ...], ...] = (
    (SPLIT,),
    (Lower(), SPLIT),
    (Lower(utf8=True), SPLIT),
    (LowerEveryScript(), SPLIT),
    parse_rule("words"),
    (Lower(), RegexReplace(PUNCTUATION, ""), SPLIT),
    (RegexReplace(r"([^\w\s])", r" \1 "), SPLIT),
    (RegexReplace(r"[q-z]+", " "), SPLIT),
    (WhitespaceSplit(), PAIRS),
    (RegexReplace(r"\s", " "), SPLIT, DropEmpty()),
    (RegexReplace(r"\d+", "0"), SPLIT),
    (SPLIT, Strip(), Join(b"<", b">")),
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
    (Characters(),),
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


@pytest.fixture(autouse=True, scope="module", params=[0, 1 << 20], ids=["long", "short"])
def length_of_a_short_text(request: pytest.FixtureRequest) -> Iterator[None]:
    """Treat all texts as long ones, then as short ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vocabtool.tokenization.rule.SHORT", request.param)
        yield


def expanded(coded: TokenCodes) -> list[list[bytes]]:
    """Return the words of each text from codes."""
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
    """Codes give the same words as tokens, also for a slice of an array."""
    rule = Rule(steps)
    wanted = rule.tokens(string_array(texts)).to_lists()
    assert expanded(rule.token_codes(string_array(texts))) == wanted
    part = string_array([*before, *texts, *after]).slice(len(before), len(texts))
    assert expanded(rule.token_codes(part)) == wanted
    assert rule.tokens(part).to_lists() == wanted


@given(pattern=st.sampled_from([r"[^\w\s]", "[a ]", r"\s", r"\W", "[^b]"]), texts=TEXTS)
@example(pattern=r"\W", texts=[b"foo (bar"])
@example(pattern="[x ]", texts=[b"foo (bar", b"y xxz"])
@pytest.mark.parametrize("rewrite", [r"\1", r" \1 ", r"\0", "", " ", "x"])
@pytest.mark.parametrize("form", ["({})", "({}+)", "({})+", "{0}|({0})"])
def test_replacements_that_look_local_are(
    form: str, rewrite: str, pattern: str, texts: list[bytes]
) -> None:
    """Chunks only if the result is the same: ``\\1`` may keep another character."""
    rule = Rule((RegexReplace(form.format(pattern), rewrite), SPLIT))
    array = string_array(texts)
    assert expanded(rule.token_codes(array)) == rule.tokens(array).to_lists()


@pytest.mark.parametrize("steps", [*BETWEEN_BLANKS, *WHOLE_TEXTS], ids=shown)
def test_which_rules_are_worked_between_blanks(steps: tuple[Step, ...]) -> None:
    """Common rules work by chunks, except on NUL; rules that look across blanks do not."""
    rule, nul = Rule(steps), string_array(["a b", "c\0d e"])
    assert rule.works_between_blanks == (steps in BETWEEN_BLANKS)
    assert expanded(rule.token_codes(nul)) == rule.tokens(nul).to_lists()


def test_distinct_words_are_looked_at_once() -> None:
    """A step sees a repeated chunk once."""
    coded = Rule((Lower(), SPLIT)).token_codes(string_array(["A b a\n", "a B  ", "b"] * 1000))
    assert len(coded.codes) == 6000
    assert len(coded.distinct) < 10


ONE_STEP: tuple[Step, ...] = (
    *(Lower(), Lower(utf8=True), LowerEveryScript(), CaseFold(), Strip(), DropEmpty()),
    *(RegexReplace("a", "b"), RegexReplace("a", "c"), RegexReplace("b", "b")),
    *(SplitWhitespace(), SplitOn(b" "), SplitOn(b","), SplitAtAny(b" ")),
    *(SplitAtAny(b","), SplitAtAny(b" ", skip_empty=False), Join(b"a", b"b"), Join(b"b", b"b")),
    Join(b"a", b"a"),
    *(Transcode(), Characters()),
    *(NormalizeUtf8(form) for form in ("NFC", "NFD", "NFKC", "NFKD")),
    *(NGrams(b" ", (2,)), NGrams(b"_", (2,)), NGrams(b" ", (1, 2))),
    *(RegexSplit(r"\s", ""), RegexSplit(r"\s", "x")),
    *(ScriptSplit(True), ScriptSplit(False), WhitespaceSplit()),
    *(Matches("a"), Matches("b")),
)
VARIANTS: tuple[tuple[Step, ...], ...] = (
    (),
    *((step,) for step in ONE_STEP),
    (Lower(), SplitWhitespace()),
    (SplitWhitespace(), Lower()),
)


def test_fingerprints_tell_rules_apart() -> None:
    """Rules with different steps, parameters or order have different fingerprints."""
    for one, other in combinations(VARIANTS, 2):
        assert Rule(one) != Rule(other)
        assert Rule(one).fingerprint != Rule(other).fingerprint, (one, other)


def test_fingerprints_are_the_same_everywhere() -> None:
    """Indexes store fingerprints, so they must not change; each step has a description."""
    wanted = "61098eaec6e8c31bca3960b70f6fea61f7a3811e432e2b9cc652d99c60b8586a"
    assert Rule((Lower(), SplitWhitespace())).fingerprint == wanted
    told = ("lower-case A to Z", r"split at each '\n'")
    assert Rule((Lower(), SplitOn(b"\n"))).describe() == told
    assert Rule(()).describe() == ("the whole text is one word",)


# Single steps: local ones and invalid ones.

LOCAL_PATTERNS = (
    *((r"(\s+|[!-/]|[\p{P}]|[\x{4E00}-\x{9FFF}])", r"([!-/])"), (r"\s+|\[unused\d+\]", "()")),
    *((r"(\s)", r"(\s)"), (r"([^a-z])", "(.)"), ("([!?]+|ab+)", "(.*)"), ("[[:punct:]]", "()")),
    *(("(a)", "(a)"), (r"([^\s])", "(é)"), (r"(\x{3000}|\pN+)", "()"), ("([ ]+)", "( +)")),
)
OTHER_PATTERNS = (
    *(r"([^a-z]+)", r"(^a)", r"(a$)", r"(\ba)", r"( a)", r"(a )", r"(a|b)(c)?", r"(a.b)", r"(a*)"),
    *(r"(a?)", r"(\W+)", r"([\s!]+)", r"(a{2})", r"(?i)(a)", r"(\Aa)", r"(a+?)", "(", "(a", "a)"),
    *(r"(\s+a)", r"(\Ca)", r"(\Qa \E)", r"(\D+)"),
)
LOCAL_REPLACEMENTS = (
    *((r"([^\w\s])", r" \1 "), ("[!-/:-@]", ""), (r"\p{Cc}|\p{Cf}", " "), ("[!-/]+", "")),
    *((r"\p{Mn}", ""), ("ab", "")),
)
OTHER_REPLACEMENTS = (
    *(("^x", ""), (r"\bx", ""), (r"\s", ""), (r"[\s!]+", " "), (r"\s+", " ")),
    *(("x*", "-"), (r"[^a-z]", ""), (r"(a)|(B)", r"\2\1")),
)
LOCAL: tuple[Step, ...] = (
    *(RegexReplace(*pair) for pair in LOCAL_REPLACEMENTS),
    *(Lower(), Lower(utf8=True)),
    *(RegexSplit(*patterns) for patterns in LOCAL_PATTERNS),
    *(NormalizeUtf8("NFC"), NormalizeUtf8("NFD"), NormalizeUtf8("NFKC"), NormalizeUtf8("NFKD")),
    *(CaseFold(), BertNormalize(True), BertNormalize(False), BertSplit(), ScriptSplit(True)),
    WhitespaceSplit(),
)
OTHERS: tuple[Step, ...] = (
    *(RegexReplace(*pair) for pair in OTHER_REPLACEMENTS),
    *(RegexSplit(pattern) for pattern in OTHER_PATTERNS),
    *(ScriptSplit(False), NGrams(b" ", (2,))),
)


def made_of(step: Step, *texts: str | bytes) -> list[list[bytes]]:
    """Return the result of a step."""
    return step.apply(Tokens.whole(string_array(texts))).to_lists()


@pytest.mark.parametrize("step", LOCAL, ids=str)
@given(text=assigned_text(20) | st.binary(max_size=12))
def test_local_steps_need_only_what_stands_between_blanks(step: Step, text: str | bytes) -> None:
    """A local step gives the same on the parts between whitespace as on the whole."""
    # One ends a text at NUL, the other behaves differently on a text with one.
    if isinstance(step, RegexSplit) or (isinstance(step, Lower) and step.utf8):
        text = text.replace("\0", "") if isinstance(text, str) else text.replace(b"\0", b"")
    split = SplitWhitespace()
    once = split.apply(step.apply(Tokens.whole(string_array([text]))))
    pieces = split.apply(Tokens.whole(string_array([text])))
    assert once.to_lists() == split.apply(step.apply(pieces)).to_lists()


@pytest.mark.parametrize("step", [*LOCAL, *OTHERS], ids=str)
def test_what_is_local(step: Step) -> None:
    """Only proven steps are local; equal steps are equal and have a description."""
    assert step.local == (step in LOCAL)
    assert step.describe()
    assert len({step, step}) == 1


def test_damaged_normalizer() -> None:
    """An invalid flatbuffer is rejected."""
    with pytest.raises(InvalidFile):
        BertNormalize.read(b"\xff\xff\xff\xff")


@pytest.mark.parametrize("pattern", ["(x*)", "()", "(a)|b", "(^)"])
def test_patterns_on_which_the_op_never_ends(pattern: str) -> None:
    """A pattern with an empty match is rejected instead of looping forever."""
    with pytest.raises(VocabtoolError, match="never end"):
        made_of(RegexSplit(pattern), "bc")


@pytest.mark.parametrize("pattern", [RUNS, "(a|b)+", "x*", "^a|é", r"\bb"])
@given(texts=st.lists(st.text("abx1é.-_ \x00日") | st.binary(max_size=6)))
def test_small_and_large_texts_are_split_alike(pattern: str, texts: list[str | bytes]) -> None:
    """Arrow splits large texts; small ones are split without compiling the pattern again."""
    values, step = string_array(texts), Matches(pattern)
    words, offsets = step.split_all(values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "SMALL", 0)
        expected, starts = step.split_all(values)
    assert (as_bytes(words), offsets.tolist()) == (as_bytes(expected), starts.tolist())
