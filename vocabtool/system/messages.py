"""Progress messages on standard error, counts with a singular or plural noun, and shares."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

Progress = Callable[[str, float], None]
"""Is called with the name of a step, and its completed share: 0 to 1; 0 if unknown."""


def tell(message: str) -> None:
    click.echo(f"vocabtool: {message}", file=sys.stderr)


def documents_done(count: int, new: int, seconds: float) -> str:
    """Return the name of a step: a number of documents, and how many a second.

    ``new``: those of this run, which took so many seconds.
    """
    rate = new / seconds if seconds else 0.0
    return f"{plural(count, 'document')}, {rate:,.{int(rate < 10)}f}/s"


def plural(count: int, one: str, more: str = "") -> str:
    """Return a count with its noun. ``more``: the plural, by default with an s at the end."""
    return f"{count:,} {one if count == 1 else more or f'{one}s'}"


def percent(share: float) -> str:
    """Format a share as percent. Only exactly 0 gives 0 %, and only exactly 1 gives 100 %."""
    shown = f"{100 * share:.2f}%"
    if shown == "0.00%" and share > 0:
        return "<0.01%"
    return ">99.99%" if shown == "100.00%" and share < 1 else shown
