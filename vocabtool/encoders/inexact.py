"""What encoders answer that cannot tell the words their model looks up while it runs."""

from __future__ import annotations

from typing import NoReturn

from vocabtool.encoders.encoder import EncoderKind, Texts
from vocabtool.errors import VocabtoolError


class Inexact:
    """An encoder without exact words: inherit from it."""

    __slots__ = ()
    kind: EncoderKind

    @property
    def exact(self) -> bool:
        """Never."""
        return False

    def encode_judged(self, texts: Texts) -> NoReturn:
        """Raises :class:`VocabtoolError`."""
        raise VocabtoolError(
            f"an encoder of kind {self.kind!r} does not tell which words its model looks up: "
            "ask without exact words"
        )
