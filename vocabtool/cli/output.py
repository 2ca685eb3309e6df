"""What commands write: messages and progress on standard error, reports on standard output."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import click

from vocabtool.errors import NotFound, VocabtoolError, no_documents
from vocabtool.system.messages import Progress, documents_done, measure_speed, plural, tell
from vocabtool.system.own_files import whole_file
from vocabtool.vocabulary import safe

if TYPE_CHECKING:
    from vocabtool.documents.options import ReadOptions
    from vocabtool.documents.reading import Batch, ReadLog, Skip, SkipCounter
    from vocabtool.reports.report import Format, Report

REPORT_ENDINGS: Final = (".json", ".csv", ".parquet", ".html")
SHOWN: Final = 3  # skipped rows that are printed
LINE_SECONDS: Final = 10.0  # between two lines of progress


def check_files(
    file: str, html: str | None, output: str | None, endings: Iterable[str] = ()
) -> None:
    """Raise an error if an output file cannot be written.

    ``output``: the format of ``file``. If it is ``None``, the ending of ``file`` decides, and must
    be one of ``endings``, or ``.txt``, or none.
    """
    if not file:
        raise click.UsageError("-o needs the name of a file")
    if html in ("", "-"):
        raise click.UsageError("--html needs the name of a file")
    if file == "-" and output == "parquet" and sys.stdout.isatty():
        raise click.UsageError("parquet cannot be shown on a terminal; name a file with -o FILE")
    others = [ending for ending in endings if ending != ".txt"]
    if others and output is None and Path(file).suffix.lower() not in (*others, ".txt", ""):
        wanted = ", ".join(others)
        raise click.UsageError(
            f"-o {file}: expected a file that ends in {wanted} or .txt; or pass --format"
        )
    for path in (file, html):
        folder = Path(os.path.realpath(path)).parent if path and path != "-" else None
        if folder is not None and not folder.is_dir():
            raise NotFound(f"{folder}: the folder does not exist")


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
    with whole_file(file) as opened:
        yield opened


def show_report(report: Report, output: Format, html: str | None = None) -> None:
    """Print a report. If ``html`` is given, also write an HTML page to this file."""
    from vocabtool.reports.report import FILE_WIDTH, save, write

    if html is not None:
        save(report, html, "html")
    with standard_output() as out:
        write(report, out, output, FILE_WIDTH)


def deliver_report(
    report: Report, file: str, html: str | None, output: Format | None, *, as_list: bool = False
) -> None:
    """Write a report to ``file`` (``-``: standard output), and as an HTML page to ``html``.

    ``output``: the format of ``file``; if ``None``, its ending decides. ``as_list``: print all rows
    as tab-separated text, even on a terminal.
    """
    from vocabtool.reports.report import FILE_WIDTH, format_of, save, write

    if html is not None:
        save(report, html, "html")
    columns = width() if file == "-" else FILE_WIDTH
    with open_output(file) as out:
        write(report, out, output or format_of(file), None if as_list else columns)


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a ``ValueError`` of the library into a usage error."""
    try:
        yield
    except ValueError as error:
        if isinstance(error, VocabtoolError):
            raise
        raise click.UsageError(str(error)) from error


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Progress | None]:
    """Show progress while the context is open. Yield the function that updates it.

    Without a terminal, it prints a line every ten seconds. If ``quiet`` is set, it is ``None``.
    """
    if quiet:
        yield None
        return
    if not sys.stderr.isatty():
        yield progress_lines()
        return
    from rich import progress as bars
    from rich.console import Console

    text, elapsed = bars.TextColumn("{task.description}"), bars.TimeElapsedColumn()
    columns = [bars.SpinnerColumn(), bars.BarColumn(), text, elapsed, bars.TimeRemainingColumn()]
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None)

        def update(step: str, share: float) -> None:
            if share < bar.tasks[task].completed / 2:  # a new step has its own speed
                bar.reset(task)
            bar.update(task, description=step, total=1 if share else None, completed=share)

        yield update


def tell_how_read(files: Sequence[str], read: ReadOptions, folder: Path | None = None) -> None:
    """Say how each kind of file is read. ``folder``: the output folder, which is not read."""
    from vocabtool.documents.files import files_outside, how_read

    with usage_errors():
        tell_notes([f"reading {how_read(files_outside([*files], folder, read) or (), read)}"])


def progress_lines() -> Progress:
    """Return a function that prints the step, and how long it may take, every ten seconds."""
    printed, last, speed = time.monotonic(), inf, measure_speed()

    def update(step: str, share: float) -> None:
        nonlocal printed, last, speed
        now = time.monotonic()
        if share < last / 2:
            speed = measure_speed(share)  # a new step has its own speed
        last, rate = share, speed(share)
        if now - printed < LINE_SECONDS:
            return
        printed = now
        if rate > 0:
            seconds = (1 - share) / rate
            left = f"{seconds:,.0f} s"
            if seconds >= 7200:
                left = f"{seconds / 3600:,.0f} h"
            elif seconds >= 120:
                left = f"{seconds / 60:,.0f} min"
            step += f", {share:.0%}, about {left} left"
        tell(step)

    return update


def read_documents(
    files: Sequence[str], read: ReadOptions, log: ReadLog, size: int
) -> Iterator[Batch]:
    """Yield documents in batches of ``size`` bytes of text, and show progress."""
    from vocabtool.documents.reading import batches, extent

    with progress_bar(False) as update:
        size_of_all = extent(files, read=read).bytes if update else None
        count, speed = 0, measure_speed()
        for batch in batches(files, read, log=log, size=size):
            yield batch
            count += len(batch)
            if update is not None:
                step = documents_done(count, speed(count))
                share = log.bytes / size_of_all if size_of_all else 0
                update(f"{step}, {log.bytes / 1e6:,.0f} MB", min(share, 1))


def refuse_empty(
    count: int, names: Iterable[str], what: str = "document", skipped: Sequence[Skip] = ()
) -> None:
    """Raise :class:`NotFound` if ``count`` is 0. The error names the first skipped row."""
    if not count:
        raise no_documents(names, skipped, what)


def tell_notes(notes: Iterable[str]) -> None:
    """Print notes, with control characters escaped."""
    for note in notes:
        tell(safe(note))


def tell_skipped(skipped: SkipCounter) -> None:
    if skipped.count:
        tell(f"{plural(skipped.count, 'row', 'rows')} skipped")
        for skip in skipped.first[:SHOWN]:
            tell(f"  {skip.place}: {skip.reason}")
        if skipped.count > SHOWN:
            tell("  ...")


def tell_left_out(*skips: Sequence[Skip]) -> None:
    for skip in (skip for some in skips for skip in some[:SHOWN]):
        tell(f"skipped: {skip.place}: {skip.reason}")
