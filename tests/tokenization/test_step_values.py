"""The steps for tensorflow-text's ops by themselves: what is local, what is refused, and values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unicode12 import AWKWARD, assigned, assigned_text
from vocabtool.errors import InvalidFile, VocabtoolError
from vocabtool.tokenization.steps import Step
from vocabtool.tokenization.string_steps import NGrams, SplitWhitespace
from vocabtool.tokenization.text_arrays import Tokens, string_array
from vocabtool.tokenization.text_steps import (
    BertNormalize,
    BertSplit,
    CaseFold,
    NormalizeUtf8,
    RegexSplit,
    ScriptSplit,
    WhitespaceSplit,
)
from vocabtool.tokenization.wordpiece import WordPiece

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
LOCAL: tuple[Step, ...] = (
    *(RegexSplit(*patterns) for patterns in LOCAL_PATTERNS),
    *(NormalizeUtf8("NFC"), NormalizeUtf8("NFD"), NormalizeUtf8("NFKC"), NormalizeUtf8("NFKD")),
    *(CaseFold(), BertNormalize(True), BertNormalize(False), BertSplit(), ScriptSplit(True)),
    *(WhitespaceSplit(1), WhitespaceSplit(2)),
)
OTHERS: tuple[Step, ...] = (
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
    if isinstance(step, RegexSplit):  # which ends a text at NUL
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


def test_script_is_not_local() -> None:
    """Signs around a blank become one word, so texts must not be cut at blanks first."""
    assert words(ScriptSplit(), "! ?", "a b", "e\u0301") == [
        [b"!?"],
        [b"a", b"b"],
        [b"e", b"\xcc\x81"],
    ]


def test_a_text_ends_at_nul_for_regex_split() -> None:
    """What stands behind a NUL is lost, as in the op."""
    assert words(RegexSplit("( )"), b"a b\0c d") == [[b"a", b"b"]]


def test_white_space_of_several_bytes() -> None:
    """The second version of the op leaves a part of it with the word; the first does not."""
    assert words(WhitespaceSplit(2), "a\u00a0b \u3000c\u3000") == [[b"a\xc2", b"b", b"c\xe3\x80"]]
    assert words(WhitespaceSplit(1), "a\u00a0b \u3000c\u3000") == [[b"a", b"b", b"c"]]


def test_case_folding_values() -> None:
    """Sharp s, ligatures, final sigma and ignorable characters, from Unicode's own tables."""
    found = words(CaseFold(), "STRAẞE \ufb01 Σς soft\u00adhyphen \u0345 A\u030a", b"\xffA")
    assert found == [["strasse fi \u03c3\u03c3 softhyphen \u03b9 å".encode()], [b"\xffa"]]


def test_bert_values() -> None:
    """Accents go, control characters become spaces, Chinese characters stand alone."""
    assert words(BertNormalize(True), "Na\u00efve\u200eİ\0\u0130\xa0½") == [
        ["naivei i 1\u20442".encode()]
    ]
    assert words(BertNormalize(False), "Na\u00efve\0\u200e\tX") == [["Naïve   X".encode()]]
    assert words(BertSplit(), "don't 日本x\u3000$") == [
        [w.encode() for w in ("don", "'", "t", "日", "本", "x", "$")]
    ]


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


IDS = {b"[UNK]": 0, b"a": 1, b"ab": 2, b"##b": 3, "##é".encode(): 4}


def test_wordpiece_values() -> None:
    """The longest entry first; an unknown part makes a word unknown; ``[UNK]`` may be a word."""
    tokenizer = WordPiece(IDS)
    given = [b"abb", "abé".encode(), b"abc", b"", b"[UNK]", b"a" * 101]
    assert list(map(tokenizer.pieces, given)) == [
        ((b"ab", 2), (b"##b", 3)),
        ((b"ab", 2), ("##é".encode(), 4)),
        ((b"[UNK]", 0),),
        (),
        ((b"[UNK]", 0),),
        ((b"[UNK]", 0),),
    ]
    assert list(map(tokenizer.knows, given)) == [True, True, False, True, True, False]
    assert WordPiece({}).pieces(b"a") == ((b"[UNK]", -1),)


@given(st.lists(st.sampled_from([b"a", b"ab", b"b", b"c", "é".encode()])).map(b"".join))
def test_pieces_make_up_their_word(word: bytes) -> None:
    """Joined without their indicators, the pieces of a known word are the word."""
    tokenizer = WordPiece(IDS)
    pieces, known = tokenizer.pieces(word), tokenizer.knows(word)
    joined = b"".join(piece.removeprefix(b"##") for piece, _ in pieces)
    assert known == (joined == word)


def test_ngram_values() -> None:
    """Width by width, text by text; a text that is too short stays one run if it may."""
    cut = SplitWhitespace().apply(Tokens.whole(string_array(["a b c", "", "d"])))
    assert NGrams(b" ", (1, 2)).apply(cut).to_lists() == [
        [b"a", b"b", b"c", b"a b", b"b c"],
        [],
        [b"d"],
    ]
    padded = NGrams(b"_", (2,), b"<", b">", -1)
    assert padded.apply(cut).to_lists()[2] == [b"<_d", b"d_>"]
    assert NGrams(b" ", (2,), preserve_short=True).apply(cut).to_lists()[1:] == [[], [b"d"]]


def test_the_characters_of_unicode_12() -> None:
    """137,929 graphic and format ones, 65 controls and 137,468 for private use, as Unicode says."""
    assert len(assigned()) == 137_928 + 65 + 137_468
    assert set(AWKWARD) <= set(assigned())
    assert "\u32ff" not in assigned()  # of 12.1
