"""Commands that create, update, repair and check an index."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal, get_args

import click
from click.core import ParameterSource

from vocabtool.choices import COMMIT_ROWS, OnExisting
from vocabtool.cli import options, output
from vocabtool.cli.embed import ENCODER
from vocabtool.cli.search import INDEX_MODEL, open_index
from vocabtool.documents.files import can_be_read_again, facts_of, files_outside
from vocabtool.documents.options import ReadOptions
from vocabtool.errors import NotFound, VocabtoolError
from vocabtool.index import folder as folder_files
from vocabtool.index import folder_store
from vocabtool.index.documents import shards_in
from vocabtool.index.folder import IndexOptions, home, is_address, is_index
from vocabtool.index.index import Index
from vocabtool.index.load import LoadReport
from vocabtool.reports.index import index_report, verify_report
from vocabtool.system.messages import Progress, plural, tell
from vocabtool.vocabulary import safe

INDEX_HELP = """MODEL is the same as for embed: a SavedModel or a TensorFlow Hub handle, a file of
word vectors, a static embedding, an ONNX model, a folder of sentence-transformers,
openai:NAME@URL, or python:MODULE:NAME. Omit it if you give vectors (--vectors, --vector-field) or
if FILE is a folder that embed wrote; then DIR is searched by keywords, and by vectors if search
gets --vector or --model. DIR keeps a copy of word vectors. If they need more than 32 MiB, the copy
is in the user's cache ($VOCABTOOL_CACHE), and the model is needed where the cache does not have
it. If the command is interrupted, run it again: it resumes."""


SHAPE = options.gather("shape", *options.options_for(IndexOptions, "metric", "dtype", "language"))
ROWS: Final = options.default_option(
    "--commit-rows",
    type=click.IntRange(1),
    default=COMMIT_ROWS,
    help="Documents in each commit. There is also one every 30 seconds.",
)
CALIBRATE = click.option(
    "--calibrate/--no-calibrate",
    default=None,
    help="Estimate the best weight of keyword search for this index. [default: when the index "
    "first has 1,000 documents, and each time their number has doubled since the last estimate]",
)


@click.command("index", epilog=INDEX_HELP)
@click.argument("files", nargs=-1, metavar="[FILE]...", callback=options.files_of)
@click.option("--model", metavar="MODEL", help="The model that makes the vectors.")
@ENCODER
@options.output_folder("Folder of the index. If it already contains an index, documents are added.")
@options.default_option(
    "--existing",
    type=click.Choice(get_args(OnExisting)),
    default="error",
    help="What to do with a document whose id is already in the index.",
)
@SHAPE
@click.option(
    "--force", is_flag=True, help="Build a new index that replaces the one in DIR at the end."
)
@options.VECTORS
@ROWS
@CALIBRATE
@options.DOCUMENTS
@options.QUIET
@options.format_option()
def index_command(
    files: tuple[str, ...],
    model: str | None,
    encoder: dict[str, Any],
    folder: str,
    existing: Literal["error", "skip", "update"],
    shape: dict[str, Any],
    force: bool,
    vectors: str | None,
    commit_rows: int,
    calibrate: bool | None,
    read: ReadOptions,
    quiet: bool,
    report_format: Literal["text", "json"],
) -> None:
    """Create an index of the documents of FILE... in DIR, or add to it.

    A FILE has one document per line, or per row (.jsonl, .json, .csv, .tsv, .parquet, .arrow,
    .tfrecord). FILEs of other formats are cut into pieces: .md, .rst, .html, .py and other code,
    .ipynb, .pdf, .docx, and .txt in a folder. All except .parquet and .docx can be compressed
    (.gz, .zst). FILE can be a folder, a quoted glob, or - for standard input. It can be the output
    folder of embed; its vectors are then used. DIR stores the names of FILE... and the options, so
    that update can read the files again.

    FILE can also be the name of an index in a settings file. FILEs, DIR and other options then come
    from the settings.
    """
    _refuse_an_index(files)
    began, arguments = time.monotonic(), dict(encoder)
    if not quiet and shards_in(files) is None:
        output.tell_how_read(files, read, None if is_address(folder) else Path(folder))
    with output.usage_errors(), _advice_after_a_stop(), ExitStack() as stack:
        index = None
        with suppress(NotFound):
            if not force and (is_address(folder) or is_index(Path(folder))):
                index = Index.open(folder, model, **arguments)
        if index is not None:
            source = click.get_current_context().get_parameter_source
            for name, wanted in shape.items():
                value = getattr(index.configuration, name)
                if wanted != value and source(name) is not ParameterSource.DEFAULT:
                    raise click.UsageError(
                        f"--{name} {wanted}: {index.name} was created with {value}; omit the "
                        "option, name a new folder, or start over with --force"
                    )
        else:
            arguments |= {**shape, "notify": None if quiet else tell}
            if force:
                all_options = [model, existing, shape, commit_rows, read, encoder, vectors]
                arguments |= _replacement(folder, files, read, all_options)
            index = Index.create_for(
                folder, list(files), model, read=read, vectors=vectors, **arguments
            )
            stack.enter_context(_removed_if_useless(index))
        kinds, count = index.manifest.fields, len(index)
        lost = [name for name in kinds if name not in read.kept_fields]
        if existing == "update" and lost and shards_in(files) is None:
            names = ", ".join(f"'{safe(name)}'" for name in lost)
            keep = " ".join(f"--keep {safe(name)}" for name in lost)
            raise click.UsageError(
                f"the index has {plural(len(lost), 'field', 'fields')} that the new documents "
                f"would not have: {names}. To keep them, add: {keep}"
            )
        if not quiet and shards_in(files) is None:
            _tell_lost_options(index, read)
        with output.progress_bar(quiet) as progress:
            report = index.load(
                [*files],
                read,
                on_existing=existing,
                commit_rows=commit_rows,
                progress=progress,
                vectors=vectors,
            )
            output.refuse_empty(report.read, files, skipped=report.first_skipped)
            before = count - report.resumed
            seconds = _calibrate(index, before, calibrate, report, quiet, progress)
    if index.is_build:
        index = index.put_in_place()
    if not quiet:
        _show(index, report, time.monotonic() - began, seconds, report_format)
        for name in read.kept_fields:
            if index.manifest.fields.get(name, "null") == "null":
                tell(f"no document has a value in the field '{safe(name)}'")


@click.command("update")
@options.DIR
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--sync", is_flag=True, help="Delete documents that are no longer in FILE...")
@click.option("--force", is_flag=True, help="Let --sync delete more than a third of the documents.")
@options.VECTORS
@INDEX_MODEL
@ROWS
@CALIBRATE
@options.QUIET
@options.format_option()
def update_command(
    folder: str,
    files: tuple[str, ...],
    sync: bool,
    force: bool,
    vectors: str | None,
    model: dict[str, Any],
    commit_rows: int,
    calibrate: bool | None,
    quiet: bool,
    report_format: Literal["text", "json"],
) -> None:
    """Read FILE... again and apply the changes; without FILE, read every indexed FILE.

    A FILE that was indexed before is read with the options that were used then, but --vectors must
    be named again. A new FILE is read with the options of the last indexed FILE. New documents are
    added, and changed documents are replaced. Only new and changed texts are encoded. Before that,
    up to 8 documents of DIR are encoded again to check that the model is the same.

    --sync also deletes documents that came from a FILE and are no longer in it. Every FILE must
    then be complete and readable. The last commit contains the deletions.
    """
    _refuse_an_index(files)
    if force and not sync:
        raise click.UsageError("--force needs --sync")
    began = time.monotonic()
    with output.usage_errors(), _advice_after_a_stop():
        index = open_index(folder, model)
        before = len(index)
        with output.progress_bar(quiet) as progress:
            report = index.update(
                list(files) or None,
                sync=sync,
                force=force,
                progress=progress,
                vectors=vectors,
                commit_rows=commit_rows,
            )
            if not sync:  # --sync may have deleted the last document
                output.refuse_empty(report.read, files or [folder], skipped=report.first_skipped)
            seconds = _calibrate(index, before, calibrate, report, quiet, progress)
    if not quiet:
        _show(index, report, time.monotonic() - began, seconds, report_format)


@contextmanager
def _advice_after_a_stop() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        tell("interrupted; run the same command again to resume after the last commit")
        raise


def _refuse_an_index(files: Sequence[str]) -> None:
    for name in files:
        if is_index(Path(name)):
            raise VocabtoolError(
                f"{name}: is an index, not a file of documents; pass the files that its "
                "documents come from"
            )


def _replacement(
    folder: str, files: tuple[str, ...], read: ReadOptions, all_options: list[Any]
) -> dict[str, Any]:
    """Return the arguments that create an index to replace the one in ``folder``.

    A later run with the same options and the same files resumes this build, unless a FILE is a
    stream.
    """
    outside = home(Path(folder))
    inputs = files_outside(list(files), outside, read) or []
    paths = [value for value in all_options if isinstance(value, str) and Path(value).is_file()]
    build = None
    if can_be_read_again(inputs):
        build = json.dumps([facts_of([*inputs, *paths]), all_options], default=str)
    return {"force": True, "in_place": False, "build": build}


def _tell_lost_options(index: Index, read: ReadOptions) -> None:
    """Say which fields of the indexed FILEs, and whether their ids, this run does not read."""
    before = [source.options for source in index.manifest.sources]
    keep = {name: None for options in before for name in options.kept_fields}
    lost = [f"--keep {safe(name)}" for name in keep if name not in read.kept_fields]
    if read.id_field is None:
        ids = {options.id_field: None for options in before if options.id_field is not None}
        lost += [f"--id-field {safe(name)}" for name in [*ids][-1:]]
    if lost:
        tell(
            f"other FILEs of the index were indexed with {' '.join(lost)}; the new documents do "
            "not get these fields. If they have them, add these options"
        )


@contextmanager
def _removed_if_useless(index: Index) -> Iterator[None]:
    """After an error, remove an empty new index; a complete replacement replaces the old index."""
    try:
        yield
    except BaseException as error:
        with suppress(VocabtoolError):
            index.refresh()
            load = index.manifest.load
            is_loaded = load is not None and load.finished and len(index) > 0
            if isinstance(error, VocabtoolError) and index.is_build and is_loaded:
                index.put_in_place()
            else:
                index.remove(if_empty=True)
        raise


def _calibrate(
    index: Index,
    before: int,
    wanted: bool | None,
    report: LoadReport,
    quiet: bool,
    progress: Progress | None,
) -> float:
    """Return the seconds it took. ``wanted``: ``None`` if the growth since ``before`` decides."""
    if wanted is None:
        wanted = report.added > 0 and index.calibration_is_due(before)
    if not wanted or index.configuration.encoder is None:
        return 0.0
    if index.calibration is not None and index.calibration.judged:
        return 0.0  # tuned on judgements: an estimate must not replace it
    from vocabtool.evaluation.calibrate import calibrate

    began = time.monotonic()
    estimate = calibrate(index, progress=progress)
    if estimate is not None:
        index.store_calibration(estimate.calibration)
        if not quiet:
            tell(f"calibrated: the estimated weight of keyword search is {estimate.a:.2f}")
    return time.monotonic() - began


def _show(
    index: Index,
    report: LoadReport,
    seconds: float,
    calibrating: float,
    report_format: Literal["text", "json"],
) -> None:
    output.show_report(index_report(index, report, seconds, calibrating), report_format)
    output.tell_notes(report.notes)
    output.tell_left_out(report.first_skipped, report.first_left_out)


@click.command("compact")
@options.DIR
def compact_command(folder: str) -> None:
    """Rewrite the index in DIR without deleted documents."""
    with output.progress_bar(False) as progress:
        if is_address(folder):
            index = open_index(folder, {})
            removed, left = index.compact(progress), len(index)
        else:  # a folder is not opened: its keywords may be damaged
            removed = folder_store.compact(Path(folder), progress)
            left = folder_files.read_manifest(Path(folder)).live
    deleted = plural(removed, "deleted document", "deleted documents")
    tell(f"{deleted} removed, {left:,} left")


@click.command("verify")
@options.DIR
@INDEX_MODEL
@options.format_option()
def verify_command(
    folder: str, model: dict[str, Any], report_format: Literal["text", "json"]
) -> None:
    """Check all files of the index in DIR, its vectors and keywords, and the recall of vector
    search.

    With --model, also encode up to 8 documents again, and compare the vectors with those in DIR.
    """
    with output.usage_errors():
        index = open_index(folder, model)
        # A settings file names the model, but only the command line asks to compare it.
        source = click.get_current_context().get_parameter_source("model")
        with output.progress_bar(False) as progress:
            result = index.verify(progress, model=source is ParameterSource.COMMANDLINE)
    output.show_report(verify_report(index.name, result), report_format)
