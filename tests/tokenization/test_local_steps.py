"""Steps by themselves: what is local, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unicode12 import AWKWARD, assigned, assigned_text
from vocabtool.errors import InvalidFile, VocabtoolError
from vocabtool.tokenization.lookup import WordPiece
from vocabtool.tokenization.string_steps import Lower, NGrams, RegexReplace, SplitWhitespace, Upper
from vocabtool.tokenization.text_arrays import Step, Tokens, string_array
from vocabtool.tokenization.text_steps import (
    BertNormalize,
    BertSplit,
    CaseFold,
    NormalizeUtf8,
    RegexSplit,
    ScriptSplit,
    WhitespaceSplit,
)

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
    (r"\p{Mn}", ""),
)
OTHER_REPLACEMENTS = (
    *(("^x", ""), (r"\bx", ""), (r"\s", ""), (r"[\s!]+", " "), ("ab", ""), (r"\s+", " ")),
    *(("x*", "-"), (r"[^a-z]", ""), (r"(a)|(B)", r"\2\1")),
)
LOCAL: tuple[Step, ...] = (
    *(RegexReplace(*pair) for pair in LOCAL_REPLACEMENTS),
    *(Lower(), Lower(utf8=True), Upper(), Upper(utf8=True)),
    *(RegexSplit(*patterns) for patterns in LOCAL_PATTERNS),
    *(NormalizeUtf8("NFC"), NormalizeUtf8("NFD"), NormalizeUtf8("NFKC"), NormalizeUtf8("NFKD")),
    *(CaseFold(), BertNormalize(True), BertNormalize(False), BertSplit(), ScriptSplit(True)),
    *(WhitespaceSplit(1), WhitespaceSplit(2)),
)
OTHERS: tuple[Step, ...] = (
    *(RegexReplace(*pair) for pair in OTHER_REPLACEMENTS),
    RegexReplace("[!-/]", "", every=False),
    *(RegexSplit(pattern) for pattern in OTHER_PATTERNS),
    *(ScriptSplit(False), NGrams(b" ", (2,))),
)


def words(step: Step, *texts: str | bytes) -> list[list[bytes]]:
    """What a step makes of texts."""
    return step.apply(Tokens.whole(string_array(texts))).to_lists()


@pytest.mark.parametrize("step", LOCAL, ids=str)
@given(text=assigned_text(20) | st.binary(max_size=12))
def test_local_steps_need_only_what_stands_between_blanks(step: Step, text: str | bytes) -> None:
    """A local step on the pieces between whitespace gives the words that it gives of the whole."""
    # One ends a text at NUL, the other works otherwise on all of a text with one.
    if isinstance(step, RegexSplit) or (isinstance(step, Lower | Upper) and step.utf8):
        text = text.replace("\0", "") if isinstance(text, str) else text.replace(b"\0", b"")
    split = SplitWhitespace()
    once = split.apply(step.apply(Tokens.whole(string_array([text]))))
    pieces = split.apply(Tokens.whole(string_array([text])))
    assert once.to_lists() == split.apply(step.apply(pieces)).to_lists()


@pytest.mark.parametrize("step", [*LOCAL, *OTHERS], ids=str)
def test_what_is_local(step: Step) -> None:
    """Local is only what was proved; every step tells what it does, and equals its like."""
    assert step.local == (step in LOCAL)
    assert step.describe()
    assert len({step, step}) == 1


def test_damaged_normalizer() -> None:
    """A model that is no flatbuffer is refused."""
    with pytest.raises(InvalidFile):
        BertNormalize.read(b"\xff\xff\xff\xff")


@pytest.mark.parametrize("pattern", ["(x*)", "()", "(a)|b", "(^)"])
def test_patterns_on_which_the_op_never_ends(pattern: str) -> None:
    """A pattern that matches nothing at all is refused instead of looping for ever."""
    with pytest.raises(VocabtoolError, match="never ends"):
        words(RegexSplit(pattern), "bc")


def test_bad_pattern() -> None:
    """A pattern that RE2 does not know is named."""
    with pytest.raises(VocabtoolError, match=r"\(\?=a\).*no regular expression of RE2"):
        words(RegexSplit("(?=a)"), "a")


@given(st.lists(st.sampled_from([b"a", b"ab", b"b", b"c", "é".encode()])).map(b"".join))
def test_pieces_make_up_their_word(word: bytes) -> None:
    """Joined without their indicators, the pieces of a known word are the word."""
    tokenizer = WordPiece({b"[UNK]": 0, b"a": 1, b"ab": 2, b"##b": 3, "##é".encode(): 4})
    pieces, known = tokenizer.cut(word)
    joined = b"".join(piece.removeprefix(b"##") for piece, _ in pieces)
    assert known == (joined == word)


def test_the_characters_of_unicode_12() -> None:
    """137,929 graphic and format ones, 65 controls and 137,468 for private use, as Unicode says."""
    assert len(assigned()) == 137_928 + 65 + 137_468
    assert set(AWKWARD) <= set(assigned())
    assert "\u32ff" not in assigned()  # of 12.1
