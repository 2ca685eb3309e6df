"""The command that makes an index: ``index``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click
from click.core import ParameterSource

from vocabtool.command_streams import print_report, step_progress, usage_errors
from vocabtool.index_options import FORMAT, QUIET, SHAPE
from vocabtool.source_options import DOCUMENTS, ENCODER
from vocabtool.telling import counted, tell

if TYPE_CHECKING:
    from vocabtool.documents import Document
    from vocabtool.index.index import Index
    from vocabtool.index.loading import LoadReport

CALIBRATED_FROM: Final = 1_000  # documents
SHOWN: Final = 3
# What an index is created as and stays.
CREATED: Final = ("metric", "dtype", "language", "recall", "exact_below")
PLAIN: Final = {
    "integer": "whole numbers",
    "number": "numbers",
    "boolean": "true and false",
    "string": "strings",
}

INDEX_HELP = """MODEL is what embed takes: a SavedModel or a TensorFlow Hub handle, a file of word
vectors, a folder of sentence-transformers, python:MODULE:NAME. It may be left out where FILE is a
folder that embed wrote; then DIR answers by keywords, and to vectors of your own. Run the same
command again after a stop, and it goes on where it was."""


@click.command("index", epilog=INDEX_HELP)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--model", metavar="MODEL", help="What makes the vectors.")
@ENCODER
@SHAPE
@DOCUMENTS
@QUIET
@FORMAT
def index_command(
    files: tuple[str, ...],
    model: str | None,
    folder: str,
    force: bool,
    no_calibrate: bool,
    quiet: bool,
    report_format: Literal["text", "json"],
    **given: Any,
) -> None:
    """Make an index of the documents of FILE... in DIR, or add them to it.

    A FILE holds one document a line, or is .jsonl, .csv, .tsv, .parquet, .arrow or .tfrecord,
    perhaps .gz or .zst; a folder or a glob in quotes is a FILE too, - is standard input, and so is
    a folder that embed wrote, whose vectors are taken.
    """
    from vocabtool.allocation import share_one_heap

    share_one_heap()
    _refuse_an_index(files)
    with usage_errors(), _stopped(force):
        index = _index(folder, files, model, force, {**given, "quiet": quiet})
        kinds = index.snapshot().documents_store.fields
        if given["existing"] == "update":
            _refuse_lost_fields(files, kinds, given["keep"])
        with step_progress(quiet) as progress:
            report = index.load(
                list(files),
                field=given["field"],
                format=given["source_format"],
                id_field=given["id_field"],
                keep=given["keep"],
                on_error=given["on_error"],
                on_duplicate=given["on_duplicate"],
                on_existing=given["existing"],
                commit_rows=given["commit_rows"],
                threads=given["threads"],
                memory=given["memory"],
                progress=progress,
            )
            if not no_calibrate and report.added:
                _calibrate(index, quiet)
    if not quiet:
        _show(index, report, report_format)
        _tell_fields(index, kinds, given["keep"])


@contextmanager
def _stopped(force: bool) -> Iterator[None]:
    """What to do after an interrupt."""
    try:
        yield
    except KeyboardInterrupt:
        but = ", without --force" if force else ""
        tell(f"stopped; the same command goes on from the last commit{but}")
        raise


def _refuse_an_index(files: Sequence[str]) -> None:
    """An index holds files that would be read as documents."""
    from vocabtool.errors import VocabtoolError
    from vocabtool.index.folder import is_index

    for name in files:
        if is_index(Path(name)):
            raise VocabtoolError(
                f"{name}: is an index, no file of documents: name the files that it was made of"
            )


def _refuse_lost_fields(files: Sequence[str], held: Iterable[str], keep: Sequence[str]) -> None:
    """Documents are put in the place of others whole; what ``embed`` wrote brings its fields."""
    from vocabtool.index.named_files import shards_in

    lost = [name for name in held if name not in keep]
    if lost and shards_in(files) is None:
        names = ", ".join(f"'{_printable(name)}'" for name in lost)
        options = " ".join(f"--keep {_printable(name)}" for name in lost)
        raise click.UsageError(
            f"documents here have {counted(len(lost), 'field', 'fields')} that those put in their "
            f"place would lack: {names}. Keep what is to stay: {options}"
        )


def _tell_fields(index: Index, before: Mapping[str, str], keep: Sequence[str]) -> None:
    """What a person may not expect of kept fields: a name that none has, values of another kind."""
    now = index.snapshot().documents_store.fields
    for name in keep:
        if now.get(name, "null") == "null":
            tell(f"no document has a value in the field '{_printable(name)}'")
    for name, kind in now.items():
        held = before.get(name, "null")
        if held not in ("null", kind):
            shown = _printable(name)
            tell(
                f"the field {shown!r} held {PLAIN[held]}, and holds {PLAIN[kind]} now: conditions "
                "compare it as such"
            )


def _index(
    folder: str, files: tuple[str, ...], model: str | None, force: bool, given: dict[str, Any]
) -> Index:
    """The index that is in a folder, or a new one: always with ``force``."""
    from vocabtool.index.folder import MANIFEST
    from vocabtool.index.index import Index

    options = _encoder_options(given)
    if (Path(folder) / MANIFEST).exists() and not force:
        index = Index.open(folder, model, **options)
        _refuse_another_shape(index, given)
        return index
    shape = {name: given[name] for name in (*CREATED, "memory")}
    dim, sample = None, None
    if model is None:
        dim = _dim_of_shards(files)
        if not given["quiet"]:
            tell(
                "no --model, so queries will be searched by their words only: start over with "
                "--model and --force to search by vectors, too"
            )
    else:
        from vocabtool.index.loading import weights_in
        from vocabtool.index.named_files import shards_in
        from vocabtool.pipeline.fitting import not_empty
        from vocabtool.pipeline.fitting import sample as sample_of
        from vocabtool.pipeline.inputs import can_be_read_again, facts_of, files_outside

        shards = shards_in(list(files))
        if shards is not None:
            options["fitted"] = options.get("fitted") or weights_in(shards)
        elif can_be_read_again(found := files_outside(list(files), Path(folder))):
            first = _first(found or [], given)
            facts_of(found or (), "stat")  # the others are there, too
            sample = not_empty(
                sample_of(found or [], given["field"], given["source_format"]), files
            )
            _tell_ids(first, given)
    options = {name: value for name, value in options.items() if value is not None}
    index = Index.create(folder, model, dim=dim, sample=sample, force=force, **shape, **options)
    for note in index.encoder.notes if index.encoder is not None and not given["quiet"] else ():
        tell(note)
    return index


def _printable(name: str) -> str:
    """A name as a person may safely see it."""
    from vocabtool.vocabulary import encode, printable

    return printable(encode(name))


def _first(files: Sequence[str], given: dict[str, Any]) -> Document | None:
    """The first document, by which files that cannot be read are known before anything is made."""
    from vocabtool.documents import Skipped, documents

    found = documents(
        list(files),
        field=given["field"],
        format=given["source_format"],
        id_field=given["id_field"],
        on_error=given["on_error"],
        skipped=Skipped(),
    )
    return next(iter(found), None)


def _tell_ids(first: Document | None, given: dict[str, Any]) -> None:
    """Rows that bring ids are called by their places only where that is meant."""
    if given["id_field"] is not None or given["quiet"] or first is None:
        return
    for name in ("id", "_id"):
        if name in first.fields:
            tell(f"documents are called FILE:LINE; they have a field {name!r}: --id-field {name}")


def _refuse_another_shape(index: Index, given: dict[str, Any]) -> None:
    """An index stays what it was created as: an option that says otherwise is not passed over."""
    context = click.get_current_context()
    for name in CREATED:
        held = getattr(index.configuration, name)
        if (
            context.get_parameter_source(name) is not ParameterSource.DEFAULT
            and given[name] != held
        ):
            raise click.UsageError(
                f"--{name.replace('_', '-')} {given[name]}: {index.path} was made with {held}: "
                "leave it out, name a new folder, or start over with --force"
            )


def _encoder_options(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of :func:`open_encoder` that were given."""
    from vocabtool.encoders.static_weights import FittedWeights

    names = ("kind", "signature", "name", "rule", "trust", "weights", "remove_component")
    options = {name: given[name] for name in (*names, "fingerprint") if given[name]}
    if given["model_output"]:
        options["output"] = given["model_output"]
    if given["fitted"]:
        options["fitted"] = FittedWeights.read(given["fitted"])
    return options


def _dim_of_shards(files: tuple[str, ...]) -> int:
    from vocabtool.index.named_files import shards_in
    from vocabtool.pipeline.shards import Shards

    shards = shards_in(list(files))
    if shards is None:
        raise click.UsageError(
            "--model is missing: it may be left out only where FILE is one folder that embed wrote"
        )
    return Shards.open(shards).dim


def _calibrate(index: Index, quiet: bool) -> None:
    """Find out how much keywords weigh, where there is enough to tell and a model to ask."""
    if len(index) < CALIBRATED_FROM or index.configuration.encoder is None:
        return
    before = index.calibration
    if before is not None and before.judged:
        return  # tuned on judgements, which an estimate is not to replace
    from vocabtool.evaluation.calibrating import calibrate

    found = calibrate(index)
    if found is None:
        return
    shift = before.shift if before is not None else 0.0  # the queries are no longer at hand
    calibration = found.calibration.shifted_by(shift)
    index.store_calibration(calibration)
    if not quiet:
        kept = f"; the shift of {shift:+.2f} by earlier queries is kept" if shift else ""
        tell(f"calibrated: the keyword leg weighs a = {calibration.a:.2f}, an estimate{kept}")


def _show(index: Index, report: LoadReport, report_format: Literal["text", "json"]) -> None:
    from vocabtool.index_report import as_json, lines

    told = as_json(index, report) if report_format == "json" else None
    print_report(told, lines(index, report))
    for skip in report.first_skipped[:SHOWN]:
        tell(f"left out: {skip.place}: {skip.reason}")
