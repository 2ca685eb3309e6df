"""Progress messages on standard error, counts with a noun, shares, and the limit of a text."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import click

MAX_DOCUMENT_BYTES: Final = 8 << 20  # of a text; to cut it into words takes 50 times its bytes
Progress = Callable[[str, float], None]
"""Is called with the name of a step, and its completed share: 0 to 1; 0 if unknown."""


def tell(message: str) -> None:
    click.echo(f"vocabtool: {message}", file=sys.stderr)


SPEED_SECONDS: Final = 10.0


def measure_speed(done: float = 0) -> Callable[[float], float]:
    """Return a function that gets how much is done, and returns how much is done in a second.

    This is the speed of the last ten seconds, or since the call before them.
    """
    past = deque([(time.monotonic(), done)])

    def speed(done: float) -> float:
        now = time.monotonic()
        past.append((now, done))
        while now - past[1][0] >= SPEED_SECONDS:
            past.popleft()
        began, before = past[0]
        return (done - before) / (now - began) if now > began else 0.0

    return speed


def documents_done(count: int, rate: float, encoded: int | None = None) -> str:
    """Return the name of a step. ``encoded``: how many documents are encoded, if not all."""
    what = "" if encoded is None else f", {encoded:,} encoded"
    return f"{plural(count, 'document')}{what}, {rate:,.{int(rate < 10)}f}/s"


def text_too_long(length: int, most: int) -> str:
    return f"a text of {length:,} bytes (allowed: {most:,}; cut it into several documents)"


def plural(count: int, one: str, more: str = "") -> str:
    """Return a count with its noun. ``more``: the plural, by default with an s at the end."""
    return f"{count:,} {one if count == 1 else more or f'{one}s'}"


def percent(share: float) -> str:
    """Format a share as percent. Only exactly 0 gives 0 %, and only exactly 1 gives 100 %."""
    shown = f"{100 * share:.2f}%"
    if shown == "0.00%" and share > 0:
        return "<0.01%"
    return ">99.99%" if shown == "100.00%" and share < 1 else shown
