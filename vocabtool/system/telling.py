"""What the command line says about the work: on standard error, in one voice."""

from __future__ import annotations

import sys

import click


def tell(message: str) -> None:
    """Say something about the work on standard error."""
    click.echo(f"vocabtool: {message}", file=sys.stderr)


def counted(count: int, one: str, more: str) -> str:
    """A count of things, in the singular or the plural."""
    return f"{count:,} {one if count == 1 else more}"


def width() -> int | None:
    """Columns of the terminal that standard output is; ``None`` where it is none."""
    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size

    return get_terminal_size().columns
