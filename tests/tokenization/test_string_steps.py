"""Steps give the same bytes as TensorFlow's string ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="the oracle of these tests is TensorFlow itself")

import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vocabtool.tokenization.steps import (
    Characters,
    DropEmpty,
    Join,
    Lower,
    RegexReplace,
    SplitAtAny,
    SplitOn,
    SplitWhitespace,
    Strip,
    Transcode,
)
from vocabtool.tokenization.text_arrays import Step, Tokens, string_array

AWKWARD = (
    *("naïve Café", "didn't", "GOOD-bye", "日本語 テキスト", "👩\u200d🚀 x", "a\0b C", "lone\rCR"),
    *("no\u00a0break", "İstanbul", "", " ", "x" * 10_000, "ΑΣ ΣΑΣ ΑΣ.", "tab\tnl\nvt\vff\f end "),
    *(",a,,b ,c,", "a  b", "x", " x y z ", "\u2028", "ß ẞ", "e\u0301"),
)
TEXTS = [
    *(text.encode() for text in AWKWARD),
    *(b"\xff\xfeAB c", b"a\xe2\x82 b", b"\xf0\x9f\x98 x", b"\xed\xa0\x80z", b"\xc0\xafQ"),
]
SOME = st.text(st.sampled_from("aBz ,.\t\n\v\r\0'!-éÉİΣσ日\u00a0\u200d\u0301👩"), max_size=12).map(
    str.encode
) | st.binary(max_size=8)

Op = Callable[[bytes], Any]


def listed(result: Any) -> list[bytes]:
    value = result.numpy()
    return [value] if isinstance(value, bytes) else list(value)


def split_v1(text: bytes, delimiter: str, skip_empty: bool) -> Any:
    sparse = tf.compat.v1.string_split([text], delimiter=delimiter, skip_empty=skip_empty)
    return sparse.values


CASES: list[tuple[Step, Op]] = [
    (Lower(), tf.strings.lower),
    (Lower(utf8=True), lambda x: tf.strings.lower(x, encoding="utf-8")),
    (Strip(), tf.strings.strip),
    *(
        (
            RegexReplace(pattern, rewrite),
            lambda x, p=pattern, r=rewrite: tf.strings.regex_replace(x, p, r),
        )
        for pattern, rewrite in [
            (r"([^\w\s])", r" \1 "),
            ("[!\"#$%&'()*+,-./:;<=>?@\\[\\\\\\]^_`{|}~']", ""),
            (r"\p{Mn}", ""),
            (r"\pN+|\s", "0"),
            ("^.", "\\0\\0"),
            ("x*", "-"),
            ("", "_"),
            (r"(a)|(B)", r"\2\1"),
        ]
    ),
    (SplitWhitespace(), tf.strings.split),
    *(
        (SplitOn(sep), lambda x, s=sep: tf.strings.split(x, sep=s))
        for sep in (b",", b" ", b", ", b"aa")
    ),
    *(
        (SplitAtAny(d, skip), lambda x, d=d, s=skip: split_v1(x, d, s))
        for d in (b" ", b",;", b"", b"^]-\\ ")
        for skip in (True, False)
    ),
    (Join(b"[START] ", b" [END]"), lambda x: tf.strings.join(["[START]", x, "[END]"], " ")),
    (Join(b"", b"!"), lambda x: tf.strings.join([x, "!"])),
    (Transcode(), lambda x: tf.strings.unicode_transcode(x, "UTF-8", "UTF-8")),
    (Characters(), lambda x: tf.strings.unicode_split(x, "UTF-8")),
]


def ours(step: Step, texts: list[bytes]) -> list[list[bytes]]:
    return step.apply(Tokens.whole(string_array(texts))).to_lists()


@pytest.mark.parametrize(
    ("step", "op"), CASES, ids=lambda value: "op" if callable(value) else repr(value)[:60]
)
@example(texts=TEXTS)
@given(texts=st.lists(SOME, max_size=4))
@settings(max_examples=settings().max_examples // 4)
def test_step_is_the_op(step: Step, op: Op, texts: list[bytes]) -> None:
    """On awkward and on random texts: the same as TensorFlow's op."""
    assert ours(step, texts) == [listed(op(text)) for text in texts]


def test_empty_padding_is_dropped() -> None:
    """In the texts that have it, and in those that have nothing else."""
    cut = SplitOn(b",").apply(Tokens.whole(string_array(["a,,b", "", ","])))
    assert DropEmpty().apply(cut).to_lists() == [[b"a", b"b"], [], []]
