"""What commands write: messages and progress on standard error, reports on standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import click

from vocabtool.errors import NotFound, VocabtoolError, no_documents
from vocabtool.system.messages import plural, tell

if TYPE_CHECKING:
    from vocabtool.documents.options import ReadOptions
    from vocabtool.documents.reading import Batch, ReadLog, Skip, SkipCounter
    from vocabtool.reports.render import Format
    from vocabtool.reports.report import Report

REPORT_ENDINGS: Final = (".json", ".csv", ".parquet", ".html")
SHOWN: Final = 3  # skipped rows that are printed


def check_files(file: str, html: str | None, output: str | None) -> None:
    """Raise an error if an output file cannot be written."""
    if not file:
        raise click.UsageError("-o needs the name of a file")
    if html in ("", "-"):
        raise click.UsageError("--html needs the name of a file")
    if file == "-" and output == "parquet" and sys.stdout.isatty():
        raise click.UsageError("parquet cannot be shown on a terminal; name a file with -o FILE")
    for path in (file, html):
        folder = Path(os.path.realpath(path)).parent if path and path != "-" else None
        if folder is not None and not folder.is_dir():
            raise NotFound(f"{folder}: the folder does not exist")


def check_ending(file: str, endings: Iterable[str] = REPORT_ENDINGS) -> None:
    """Raise :class:`click.UsageError` for an unknown ending. A file may have no ending."""
    others = [ending for ending in endings if ending != ".txt"]
    if Path(file).suffix.lower() not in (*others, "", ".txt"):
        wanted = ", ".join(others)
        raise click.UsageError(
            f"-o {file}: expected a file that ends in {wanted} or .txt; or pass --format"
        )


def width() -> int | None:
    """Return the width of the terminal in characters; ``None`` if output goes elsewhere."""
    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size

    return get_terminal_size().columns


@contextmanager
def standard_output() -> Iterator[BinaryIO]:
    """Open standard output. A reader that stops early, such as ``head``, causes no error."""
    try:
        yield sys.stdout.buffer
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # discards the rest


@contextmanager
def open_output(file: str) -> Iterator[BinaryIO]:
    """Open ``file`` to write it atomically; ``-`` is standard output."""
    if file == "-":
        with standard_output() as out:
            yield out
        return
    from vocabtool.system.own_files import whole_file

    with whole_file(file) as opened:
        yield opened


def show_report(report: Report, output: Format, html: str | None = None) -> None:
    """Print a report. If ``html`` is given, also write an HTML page to this file."""
    from vocabtool.reports.render import FILE_WIDTH, save, write

    if html is not None:
        save(report, html, "html")
    with standard_output() as out:
        write(report, out, output, FILE_WIDTH)


def deliver_report(
    report: Report,
    file: str,
    html: str | None,
    output: Format | None,
    *,
    as_list: bool = False,
) -> None:
    """Write a report to ``file`` (``-``: standard output), and as an HTML page to ``html``.

    ``output``: the format of ``file``; if ``None``, its ending decides. ``as_list``: print all rows
    as tab-separated text, even on a terminal.
    """
    from vocabtool.reports.render import FILE_WIDTH, format_of, save, write

    if html is not None:
        save(report, html, "html")
    columns = width() if file == "-" else FILE_WIDTH
    with open_output(file) as out:
        write(report, out, output or format_of(file), None if as_list else columns)


@contextmanager
def usage_errors(option: str = "") -> Iterator[None]:
    """Turn a ``ValueError`` of the library into a usage error that begins with ``option``."""
    try:
        yield
    except ValueError as error:
        if isinstance(error, VocabtoolError):
            raise
        raise click.UsageError(f"{option}{error}") from error


@contextmanager
def progress_bar(quiet: bool, *, eta: bool = True) -> Iterator[Callable[..., None] | None]:
    """Show progress while the context is open. Yield the function that updates it.

    The function's arguments are ``description``, ``total`` and ``completed``. Yields ``None`` if
    ``quiet`` is set or standard error is not a terminal. ``eta``: also show the remaining time.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    text, elapsed = TextColumn("{task.description}"), TimeElapsedColumn()
    columns = (BarColumn(), text, elapsed, *[TimeRemainingColumn()] * eta)
    console = Console(stderr=True)
    with Progress(SpinnerColumn(), *columns, console=console, transient=True) as progress:
        task = progress.add_task("reading", total=None)

        def update(description: str, total: float | None = None, completed: float = 0) -> None:
            if completed < progress.tasks[task].completed:  # a new step has its own speed
                progress.reset(task)
            progress.update(task, description=description, total=total, completed=completed)

        yield update


@contextmanager
def step_progress(quiet: bool) -> Iterator[Callable[[str, float], None] | None]:
    """Show progress like :func:`progress_bar`. Yield the function that updates it, or ``None``.

    The function's arguments: the name of the current step, and its completed share (0 to 1).
    """
    with progress_bar(quiet) as update:
        if update is None:
            yield None
            return

        def show(step: str, share: float) -> None:
            update(step, 1 if share else None, share)

        yield show


def read_documents(
    files: Sequence[str], read: ReadOptions, log: ReadLog, size: int
) -> Iterator[Batch]:
    """Yield documents in batches of ``size`` bytes of text. On a terminal, show progress."""
    from vocabtool.documents.reading import batches, extent

    with progress_bar(False) as update:
        found = batches(files, read, log=log, size=size)
        if update is None:
            yield from found
            return
        total = extent(files, options=read).bytes
        count = 0
        for batch in found:
            yield batch
            count += len(batch)
            update(f"{count:,} documents, {log.bytes / 1e6:,.0f} MB", total, log.bytes)


def refuse_nothing(
    documents: int, names: Iterable[str], what: str = "document", skipped: Sequence[Skip] = ()
) -> None:
    """Raise :class:`NotFound` if ``documents`` is 0. The error names the first skipped row."""
    if not documents:
        raise no_documents(names, skipped, what)


def tell_notes(notes: Iterable[str]) -> None:
    """Print notes, with control characters escaped."""
    from vocabtool.reports.report import safe

    for note in notes:
        tell(safe(note))


def tell_skipped(skipped: SkipCounter) -> None:
    if skipped.count:
        tell(f"{plural(skipped.count, 'row', 'rows')} skipped")
        for skip in skipped.first[:SHOWN]:
            tell(f"  {skip.place}: {skip.reason}")
        if skipped.count > SHOWN:
            tell("  ...")


def tell_left_out(skips: Iterable[Skip]) -> None:
    for skip in skips:
        tell(f"skipped: {skip.place}: {skip.reason}")
