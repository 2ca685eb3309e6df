"""Text made of the characters that Unicode 12 assigns: all tables at hand agree on them.

Python, Arrow, RE2 and ICU carry tables of different ages; what they say of older characters is
the same, with the few exceptions that the documentation lists.
"""

from __future__ import annotations

import functools

from hypothesis import strategies as st

NEWEST = (12, 0)

# Where the rules of cutting and folding bite: drawn as often as all the others together.
AWKWARD = (
    *" \t\n\v\f\r\0\x1c\x7f\x85\u00a0\u1680\u2003\u2028\u3000\u200b\u200d\u00ad\ufeff",
    *"aBzéÉİ\u0131ßẞΣς\u03c3ǅﬁ½²Å日本かアガ가각ไท\u0301\u0308\u0327\u0345\u034f\u093f\u1160\u3099",
    *".,!?'-_[]()#$@/<=>|~«»\u2018\u2019\u2026\u3002\uff0c0129٣",
    *"👩🏽\U0001f680\ufe0f\U00020000\U0001d400\ufffd",
)


@functools.cache
def assigned() -> tuple[str, ...]:
    """The characters that Unicode 12.0 assigns, private use included, surrogates not."""
    import unicodedataplus

    def age(character: str) -> tuple[int, ...]:
        told: str = unicodedataplus.age(character)
        return NEWEST if told == "NA" else tuple(map(int, told.split(".")))

    every = map(chr, [*range(0xD800), *range(0xE000, 0x110000)])
    known = ((c, unicodedataplus.age(c)) for c in every)
    return tuple(c for c, told in known if told[0].isdigit() and age(c) <= NEWEST)


def assigned_text(max_size: int = 12) -> st.SearchStrategy[str]:
    """Texts over :func:`assigned`, in which awkward characters are common."""
    return st.text(st.sampled_from(AWKWARD) | st.sampled_from(assigned()), max_size=max_size)
