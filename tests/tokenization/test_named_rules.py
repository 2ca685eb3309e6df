"""Named rules: Keras, Penn Treebank, runs of letters and digits, a pattern, white space."""

# own process: NLTK, which imports scikit-learn

from __future__ import annotations

import re
import string
from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from nltk.tokenize import TreebankWordTokenizer

import vocabtool
from tests.conftest import ROOT
from vocabtool import Vocabulary, Words
from vocabtool.errors import VocabtoolError

RULES = ("whitespace", "lower", "keras", "ptb", "words")
SOME = st.text(
    st.sampled_from("aBz 19.,'\"-\t\n\v\r\0éÉİ\u03a3\u03c3日\u00a0\u0301\x1e0\x1f"), max_size=12
).map(str.encode) | st.binary(max_size=8)


@cache
def vocabulary() -> Vocabulary:
    """Any vocabulary: only the words of the rules are compared."""
    return vocabtool.extract(ROOT / "data" / "sentence_encoder")


@cache
def by_rule(rule: str) -> Words:
    return Words.of(vocabulary(), rule=rule)


def decode(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


def words(rule: str, *texts: str | bytes) -> list[list[bytes]]:
    rows = by_rule(rule).split(texts).to_pylist()
    return [[word["word"] for word in row] for row in rows]


def shown(rule: str, text: str | bytes) -> list[str]:
    return [decode(word) for word in words(rule, text)[0]]


def test_rules_by_hand() -> None:
    """The words of one line by each rule."""
    line = "The Café's quick-brown DOG, didn't."
    assert shown("whitespace", line) == ["The", "Café's", "quick-brown", "DOG,", "didn't."]
    assert shown("lower", line) == ["the", "café's", "quick-brown", "dog,", "didn't."]
    assert shown("keras", line) == ["the", "cafés", "quickbrown", "dog", "didnt"]
    assert shown("ptb", line) == ["the", "café", "'s", "quick-brown", "dog", ",", "did", "n't", "."]
    assert shown("words", line) == ["the", "café", "s", "quick", "brown", "dog", "didn", "t"]
    line = "At the gasket. Please order SKU-48007-H (v1.2.3).\nCOVID-19, os.path हिन्दी"
    assert shown("words", line) == [
        *("at", "the", "gasket", "please", "order", "sku-48007-h", "v1.2.3"),
        *("covid-19", "os", "path", "हिन्दी"),
    ]
    line = "The Café's quick-brown DOG, didn't."
    assert shown("regex:[a-z]{2,}", line) == ["he", "af", "quick", "brown", "didn"]
    # A separator must not be in the text.
    assert shown("regex:[a-z]+", "a\x1e0\x1fb\x1e1\x1fc") == ["a", "b", "c"]
    assert by_rule("regex:[a-z]+").describe() == ("each match of '[a-z]+' is a word",)
    for name in (*RULES, "regex:a"):
        assert by_rule(name).fingerprint == Words.of(vocabulary(), rule=name).fingerprint
        assert all(by_rule(name).describe())


@given(st.lists(SOME, max_size=4))
def test_whitespace_and_lower_are_python(texts: list[bytes]) -> None:
    """``bytes.split``, which splits at ASCII whitespace, and ``str.lower``."""
    assert words("whitespace", *texts) == [text.split() for text in texts]
    lower = [decode(text).lower().encode("utf-8", "surrogateescape") for text in texts]
    assert words("lower", *texts) == [text.split() for text in lower]


@given(st.lists(SOME, max_size=4))
def test_keras_is_bytes_lower_and_translate(texts: list[bytes]) -> None:
    """A to Z lower-case, ASCII punctuation removed, split at ASCII whitespace.

    ``formats/test_keras.py`` compares the same steps with Keras.
    """
    marks = string.punctuation.encode()
    wanted = [text.lower().translate(None, marks).split() for text in texts]
    assert words("keras", *texts) == wanted


@given(st.text("aB1.-_ ,\n", max_size=20))
def test_words_are_runs_joined_only_with_a_digit(text: str) -> None:
    """The longest joined runs; those without a digit are taken apart."""
    joined = re.findall(r"[a-z0-9]+(?:[-_.][a-z0-9]+)*", text.lower())
    wanted = [[word] if re.search("[0-9]", word) else re.split("[-_.]", word) for word in joined]
    assert shown("words", text) == [word for each in wanted for word in each]


TREEBANK_SENTENCES = [
    "They'll save and invest more, won't they?",
    "Good muffins cost $3.88 (roughly 3,36 euros)\nin New York.  Please buy me two of them.",
    'She said, "I can\'t," and left. "Why?"',
    "Mr. Smith's dog isn't barking; it's asleep...",
    "I'm gonna wanna gimme lemme gotta cannot d'ye more'n that.",
    "'Tis the season, 'twas the night -- so they've said.",
    "Meet at 10:30, pay 1,000: no, 2,000!",
    "The boys' books [sic] {x} <y> e-mail a@b.com 50% & #1",
    "end.) \"end.\" 'end.' U.S.A.",
    "''quoted'' ``quoted'' \"\" ( \"x\" ) '''",
    "rock 'n' roll, y'all'd've, I'd, he'd, we're",
    "", " ", ".", "..", "...", "....", "a,,b", ",,,", "a:", "wanna", "wanna wanna go",
    "cannot-can not",
    "a -- b--c---d", "No.", "No. ", "No.\n", "x.'", "n't n't ", "it's's ", "'s", "'", "''",
    "don't can't won't shan't ain't",
]  # fmt: skip
BITS = """
' '' " `` ` . .. ... , : ; ? ! -- - ( ) [ ] { } < > @ # $ % & 's 'll n't n 't is was can not cannot
gimme gonna wanna gotta lemme more'n d'ye 'tis a b 1 23 don't
"""
PARTS = st.lists(st.sampled_from([*BITS.split(), " ", "\n", "\t"]), max_size=12).map("".join)
ASCII = st.text(st.sampled_from([c for c in map(chr, range(128)) if c not in "\x1c\x1d\x1e\x1f"]))


def treebank(text: str) -> list[str]:
    return list(TreebankWordTokenizer().tokenize(text.lower()))


def test_ptb_is_the_treebank_tokenizer() -> None:
    """On English sentences, alone and in pairs, tokens equal nltk's."""
    pairs = [f"{one} {two}" for one in TREEBANK_SENTENCES for two in TREEBANK_SENTENCES]
    for text in [*TREEBANK_SENTENCES, *pairs]:
        assert shown("ptb", text) == treebank(text), text


@given(PARTS | ASCII)
@example("a\x0bb")
def test_ptb_is_the_treebank_tokenizer_on_any_ascii(text: str) -> None:
    """Also on random texts; mixed case is split alike."""
    assert shown("ptb", text) == treebank(text)
    assert TreebankWordTokenizer().tokenize("He'Ll") == ["He'Ll"]
    assert shown("ptb", "He'Ll") == ["he", "'ll"]


PATTERNS = ("[a-z]+", r"\pL", "..", "a|", r"\S+", "^.", "x*", r"\b\w+\b", "[^ ]+", r"(\d)(.)?")


@given(st.lists(SOME, max_size=4), st.sampled_from(PATTERNS))
def test_matches_are_those_of_re2(texts: list[bytes], pattern: str) -> None:
    """The non-empty matches of google-re2 in UTF-8, in order."""
    re2 = pytest.importorskip("re2", reason="the oracle of this test is google-re2")
    texts = [decode(text).encode("utf-8", "replace") for text in texts]
    found = [[m[0] for m in re2.finditer(pattern, text.decode())] for text in texts]
    assert words(f"regex:{pattern}", *texts) == [[w.encode() for w in f if w] for f in found]


@pytest.mark.parametrize(
    "spec", ["", "Keras", "keras:", "regexp:a", "regex", "sentencepiece:", "tokenizer:"]
)
def test_an_unknown_rule_lists_the_choices(spec: str) -> None:
    """The message names the wrong rule and every valid name."""
    with pytest.raises(VocabtoolError) as error:
        Words.of(vocabulary(), rule=spec)
    assert repr(spec) in str(error.value)
    assert all(name in str(error.value) for name in (*RULES, "tokenizer:FILE"))


BAD = [
    ("(", "missing )"),
    ("a(?=b)", "invalid perl operator"),
    ("", "needs a pattern"),
    ("\udcff", "utf"),
]


@pytest.mark.parametrize(("pattern", "says"), BAD)
def test_a_bad_pattern_shows_what_re2_says(pattern: str, says: str) -> None:
    """The message contains RE2's reason and the pattern."""
    with pytest.raises(VocabtoolError, match=r"regex:") as error:
        Words.of(vocabulary(), rule=f"regex:{pattern}")
    assert says in str(error.value)


def test_long_chains_take_no_longer() -> None:
    """Sixteen runs are searched for a digit, so a chain without one is not read again and again."""
    assert shown("words", "a-" * 400_000) == ["a"] * 400_000
    assert shown("words", "a-" * 16 + "1") == ["a-" * 16 + "1"]
    assert shown("words", "a-" * 17 + "1") == ["a", "a-" * 16 + "1"]
