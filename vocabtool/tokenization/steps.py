"""What a step from text to tokens is: the base classes of all steps.

Steps are frozen dataclasses, equal when they do the same. A rule's fingerprint is made of their
``repr``, and indexes store it: names of the classes and of their fields must not change.
"""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from vocabtool.tokenization.text_arrays import Integers, Tokens, map_distinct, split_distinct
from vocabtool.vocabulary import printable

WHITESPACE = b" \t\n\v\f\r"  # what isspace() of C says


class Step:
    """One step from text to tokens: it changes the strings, or cuts each further."""

    __slots__ = ()
    description: ClassVar[str] = ""
    is_local: ClassVar[bool] = False

    @property
    def local(self) -> bool:
        """Whether it may be applied to what stands between ASCII whitespace, piece by piece.

        True only where the step treats each piece alone, whatever stands around it, and makes
        ASCII whitespace of ASCII whitespace: then texts may be cut there first.
        """
        return self.is_local

    def apply(self, tokens: Tokens) -> Tokens:
        """Change the strings, or cut each further."""
        raise NotImplementedError

    def describe(self) -> str:
        """What it does, in plain words: ``lower-case A to Z``."""
        return self.description


class ChangeStep(Step):
    """A step that makes one string of each."""

    __slots__ = ()

    def apply(self, tokens: Tokens) -> Tokens:
        """Change each string."""
        return tokens._replace(values=self.change_all(tokens.values))

    def change_all(self, values: pa.StringArray) -> pa.StringArray:
        """Change many strings; equal ones once, by :meth:`change`, unless it is redefined."""
        return map_distinct(values, self.change)

    def change(self, text: bytes) -> bytes:
        """Change one string."""
        raise NotImplementedError


class SplitStep(Step):
    """A step that makes several strings of each, or none."""

    __slots__ = ()

    def apply(self, tokens: Tokens) -> Tokens:
        """Cut each string."""
        values, offsets = self.split_all(tokens.values)
        return Tokens(values, offsets[tokens.offsets])

    def split_all(self, values: pa.StringArray) -> tuple[pa.StringArray, Integers]:
        """Cut many strings; returns the parts, and offsets of shape (len(values) + 1,)."""
        return split_distinct(values, self.split)

    def split(self, text: bytes) -> list[bytes]:
        """Cut one string."""
        raise NotImplementedError


def quote(text: bytes | str) -> str:
    """A pattern or a separator for people, as it is but for what cannot be printed."""
    return f"'{printable(text.encode() if isinstance(text, str) else text)}'"
