"""What commands on texts read and write: refused early, watched on the way, told of afterwards."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, get_args

import click

from vocabtool.documents.options import Format, OnError
from vocabtool.errors import NotFound
from vocabtool.system.telling import tell

if TYPE_CHECKING:
    from vocabtool.documents.reading import Batch, Skipped

SOURCE_FORMATS: Final = get_args(Format)
ERRORS: Final = get_args(OnError)
REPORT_ENDINGS: Final = (".json", ".csv", ".parquet", ".html")
SHOWN: Final = 3  # rows that were left out

# Options that mean the same wherever they are.
FIELD: Final = click.option(
    "--field", help="Which field or column holds the text. [default: text, or the only]"
)
OUTPUT: Final = click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(dir_okay=False),
    default="-",
    help="FILE to write; it appears when it is complete. [default: standard output]",
)
HTML: Final = click.option(
    "--html", type=click.Path(dir_okay=False), help="Also write a page with plots."
)


def check_files(file: str, html: str | None, output: str | None) -> None:
    """Refuse what cannot be written before hours of reading, not after."""
    if not file:
        raise click.UsageError("-o wants the name of a file")
    if html in ("", "-"):
        raise click.UsageError("--html wants the name of a file")
    if file == "-" and output == "parquet" and sys.stdout.isatty():
        raise click.UsageError("parquet is not for a terminal; give a file with -o FILE")
    for path in (file, html):
        folder = Path(os.path.realpath(path)).parent if path and path != "-" else None
        if folder is not None and not folder.is_dir():
            raise NotFound(f"{folder}: no such folder to write in")


def check_ending(file: str, endings: Iterable[str] = REPORT_ENDINGS) -> None:
    """Refuse a file whose ending promises what is not written; none, and ``.txt``, is text."""
    others = [ending for ending in endings if ending != ".txt"]
    if Path(file).suffix.lower() not in (*others, "", ".txt"):
        wanted = ", ".join(others)
        raise click.UsageError(f"-o wants a file that ends in {wanted} or .txt, or --format")


@contextmanager
def standard_output() -> Iterator[BinaryIO]:
    """Standard output, until its reader has what it wanted: that is no failure."""
    try:
        yield sys.stdout.buffer
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is left


def print_report(told: Mapping[str, Any] | None, lines: Iterable[str]) -> None:
    """A report on standard output: as JSON where it is given, else line by line."""
    with standard_output() as out:
        if told is not None:
            out.write(json.dumps(told, indent=1).encode() + b"\n")
        else:
            out.write("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))


@contextmanager
def usage_errors() -> Iterator[None]:
    """A wrong argument is told as one."""
    try:
        yield
    except ValueError as error:
        from vocabtool.errors import VocabtoolError

        if isinstance(error, VocabtoolError):
            raise
        raise click.UsageError(str(error)) from error


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Callable[..., None] | None]:
    """Called with ``description``, ``total`` and ``completed``; ``None`` where nobody watches."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield partial(bar.update, bar.add_task("reading", total=None))


@contextmanager
def step_progress(quiet: bool) -> Iterator[Callable[[str, float], None] | None]:
    """What to call as the work goes on; nothing where nobody is watching."""
    with progress_bar(quiet) as update:
        if update is None:
            yield None
            return

        def show(what: str, share: float) -> None:
            update(description=what, total=1 if share else None, completed=share)

        yield show


def refuse_nothing(documents: int, names: Iterable[str], what: str = "document") -> None:
    """Nothing can be said of nothing: bad input for every command that reads documents or queries.

    Raises :class:`NotFound`.
    """
    if not documents:
        raise NotFound(f"{', '.join(names)}: no {what} in it")


def tell_skipped(skipped: Skipped) -> None:
    """How many rows of documents were left out, and the first of them."""
    if skipped.count:
        tell(f"{skipped.count:,} {'row' if skipped.count == 1 else 'rows'} left out")
        for skip in skipped.first[:SHOWN]:
            tell(f"  {skip.place}: {skip.reason}")
        if skipped.count > SHOWN:
            tell("  ...")


def watched(batches: Iterable[Batch]) -> Iterator[Batch]:
    """The batches, with progress on standard error when a person is watching."""
    if not sys.stderr.isatty():
        yield from batches
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading")
        count = size = 0
        for batch in batches:
            yield batch
            count += len(batch)
            size += batch.texts.nbytes
            progress.update(task, description=f"{count:,} documents, {size / 1e6:,.0f} MB")
