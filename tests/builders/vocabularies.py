"""Vocabularies made of nothing but their entries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vocabtool import ByteStrings, Vocabulary


def vocabulary(entries: Iterable[bytes], *facts: Any, name: str = "words") -> Vocabulary:
    """A table of these entries; ``facts``: ``first_id`` and what follows it."""
    return Vocabulary(name, "table", ByteStrings.of(entries), *facts)
