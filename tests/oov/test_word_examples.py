"""Examples of words: parts of texts, cut where a person would not mind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocabtool.oov.counter import SEARCHED, examples
from vocabtool.oov.lookalikes import CUT, WIDTH, clip, find_word
from vocabtool.tokenization.text_arrays import string_array


def one(text: bytes, word: bytes, share: float = 0.0) -> bytes:
    found = examples(string_array([b"before", text]), [word], np.array([1]), np.array([share]))
    return found[0]


def test_examples() -> None:
    """In whatever ASCII case, near the middle, or where it should be; a short text is its own."""
    text = b"a" * 500 + b" Word " + b"b" * 500
    found = one(text, b"word", 0.4)
    assert len(found) == WIDTH + 2 * len(CUT)
    assert found.startswith(CUT)
    assert found.endswith(CUT)
    assert abs(found.index(b"Word") - len(found) // 2) < 4
    assert one(b"Word " + text, b"word") == b"Word " + text[: WIDTH - 5] + CUT
    assert one(text + b" end", b"end", 1.0) == CUT + (text + b" end")[-WIDTH:]
    numbers = b"".join(b"%03d " % number for number in range(1_000))
    assert b" 500 " in one(numbers, b"gone", 0.5)
    assert one(numbers, b"gone", 1.0) == CUT + numbers[-WIDTH:]
    giant = b"word " + b"x" * (4 * SEARCHED)
    assert one(giant, b"word", 0.9) == CUT + b"x" * WIDTH + CUT
    assert b"word" in one(giant, b"word", 0.1)
    for short in (b"a word", b"", b"\xff word", b"x" * WIDTH, "é".encode() * (WIDTH // 2)):
        assert one(short, b"word") == short
    texts = string_array([b"zero", b"one", b"2" * 200, b"three"])[1:]
    several = examples(texts, [b"one", b"2", b"three"], np.array([0, 1, 2]), np.zeros(3))
    assert several == [b"one", b"2" * WIDTH + CUT, b"three"]
    text = b"was applied " + b"a" * 300 + b" p " + b"b" * 300
    assert b"a p b" in one(text, b"p", 0.1)
    cut = b"a" * 3 * SEARCHED + b"p" + b"a" * (SEARCHED - 1) + b" " + b"b" * 500 + b" p b"
    share = (4 * SEARCHED) / len(cut)
    guess = int(share * len(cut))
    assert cut[guess - SEARCHED : guess - SEARCHED + 1] == b"p"
    assert b"b p b" in one(cut, b"p", share)


FOUND = [
    *((b"was applied to p", b"p", 15), (b"Cat cat", b"cat", 4), ("ép p".encode(), b"p", 4)),
    (b"applied (P) up", b"p", 9),  # by itself in another case, not as a part
    *((b"cats concat", b"cat", 0), (b"CONCAT", b"cat", 3)),  # nowhere by itself
    *((b"it's 's", b"'s", 5), (b"dog", b"cat", -1), (b"", b"cat", -1), (b"dog", b"", 0)),
]


@pytest.mark.parametrize(("text", "word", "at"), FOUND)
def test_a_word_by_itself_comes_first(text: bytes, word: bytes, at: int) -> None:
    """Then as a part of another; each in its own case before any other. Bytes from 0x80 join."""
    assert find_word(text, word) == at


@given(st.text(min_size=1, max_size=400), st.floats(0, 1))
def test_no_character_is_cut(text: str, share: float) -> None:
    """A part of UTF-8 is UTF-8, is in the text, and is not much longer than asked for."""
    data = text.encode()
    part = clip(data, 0, len(data), int(share * len(data)))
    assert part.decode().strip("…") in text
    assert len(part) <= WIDTH + 2 * len(CUT) + 3
