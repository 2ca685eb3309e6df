"""Messages about the work, on standard error, and how they count things."""

from __future__ import annotations

import sys

import click


def tell(message: str) -> None:
    """Write a message on standard error."""
    click.echo(f"vocabtool: {message}", file=sys.stderr)


def plural(count: int, one: str, more: str) -> str:
    """A count of things, in the singular or the plural."""
    return f"{count:,} {one if count == 1 else more}"
