"""The commands that make an index and keep it up to date with its files: ``index``, ``update``."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click
from click.core import ParameterSource

from vocabtool.cli.command_streams import print_report, refuse_nothing, step_progress, usage_errors
from vocabtool.cli.index_options import BUILDING, DIR, FORMAT, MODEL, QUIET, SHAPE
from vocabtool.cli.source_options import DOCUMENTS, ENCODER
from vocabtool.system.telling import counted, tell

if TYPE_CHECKING:
    from vocabtool.documents.reading import Document
    from vocabtool.index.index import Index
    from vocabtool.index.loading import LoadReport

CALIBRATED_FROM: Final = 1_000  # documents
SHOWN: Final = 3
# What an index is created as and stays.
CREATED: Final = ("metric", "dtype", "language", "recall", "exact_below")

INDEX_HELP = """MODEL is what embed takes: a SavedModel or a TensorFlow Hub handle, a file of word
vectors, a folder of sentence-transformers, python:MODULE:NAME. It may be left out where FILE is a
folder that embed wrote; then DIR answers by keywords, and to vectors of your own. Run the same
command again after a stop, and it goes on where it was."""


@click.command("index", epilog=INDEX_HELP)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--model", metavar="MODEL", help="What makes the vectors.")
@ENCODER
@SHAPE
@BUILDING
@DOCUMENTS
@QUIET
@FORMAT
def index_command(
    files: tuple[str, ...],
    model: str | None,
    folder: str,
    force: bool,
    calibrate: bool | None,
    quiet: bool,
    report_format: Literal["text", "json"],
    **given: Any,
) -> None:
    """Make an index of the documents of FILE... in DIR, or add them to it.

    A FILE holds one document a line, or is .jsonl, .csv, .tsv, .parquet, .arrow or .tfrecord,
    perhaps .gz or .zst; a folder or a glob in quotes is a FILE too, - is standard input, and so is
    a folder that embed wrote, whose vectors are taken. DIR remembers FILE and options: update
    reads them again.
    """
    from vocabtool.system.allocation import share_one_heap

    share_one_heap()
    _refuse_an_index(files)
    from vocabtool.index.folder import removed_if_empty

    began = time.monotonic()
    with usage_errors(), _stopped():
        build = _build_folder(folder, files, model, given) if force else Path(folder)
        with removed_if_empty(build):
            index = _index(build, folder, files, model, {**given, "quiet": quiet})
            kinds, held = index.snapshot().documents.fields, len(index)
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
                refuse_nothing(report.read, files)
                seconds = _calibrate(index, held - report.resumed, calibrate, report, quiet)
        if build != Path(folder):
            index = index.put_in_place()
    if not quiet:
        _show(index, report, time.monotonic() - began, seconds, report_format)
        _tell_missing(index, given["keep"])


@click.command("update")
@DIR
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--sync", is_flag=True, help="Delete documents that FILE... no longer hold.")
@click.option("--force", is_flag=True, help="Let --sync delete more than a third of them.")
@MODEL
@BUILDING
@QUIET
@FORMAT
def update_command(
    folder: str,
    files: tuple[str, ...],
    sync: bool,
    force: bool,
    model: str | None,
    trust: bool,
    memory: int | None,
    commit_rows: int,
    threads: int | None,
    calibrate: bool | None,
    quiet: bool,
    report_format: Literal["text", "json"],
) -> None:
    """Read FILE... again and take over what changed; without FILE all that DIR was made of.

    Every FILE is read with the options that index was given for it, a new one with those of the
    last. Documents of new ids are added, changed ones are put in the place of what was there; only
    where the text changed is it encoded. --sync looks at the documents that came from FILE...
    alone, wants each FILE whole and readable, and deletes in the last commit.
    """
    from vocabtool.index.index import Index
    from vocabtool.system.allocation import share_one_heap

    share_one_heap()
    _refuse_an_index(files)
    if force and not sync:
        raise click.UsageError("--force is for --sync")
    began = time.monotonic()
    with usage_errors(), _stopped():
        index = Index.open(folder, model, **({"trust": True} if trust else {}))
        held = len(index)
        with step_progress(quiet) as progress:
            report = index.update(
                list(files) or None,
                sync=sync,
                force=force,
                commit_rows=commit_rows,
                threads=threads,
                memory=memory,
                progress=progress,
            )
            if not sync:  # which may have removed the last document
                refuse_nothing(report.read, files or [folder])
            seconds = _calibrate(index, held, calibrate, report, quiet)
    if not quiet:
        _show(index, report, time.monotonic() - began, seconds, report_format)
        _tell_missing(index, ())


@contextmanager
def _stopped() -> Iterator[None]:
    """What to do after an interrupt."""
    try:
        yield
    except KeyboardInterrupt:
        tell("stopped; the same command goes on from the last commit")
        raise


def _build_folder(
    folder: str, files: tuple[str, ...], model: str | None, given: dict[str, Any]
) -> Path:
    """Where an index is built while another is in the folder; of the same command the same place.

    A stream cannot be gone on with: what was built of one is removed.
    """
    from vocabtool.embedding.inputs import can_be_read_again, facts_of, files_outside
    from vocabtool.index import replacing
    from vocabtool.index.folder import is_index, refuse_others

    path = Path(folder)
    if not is_index(path):
        return path
    refuse_others(path, allow_index=True)
    found = files_outside(list(files), path) or []
    is_file = model is not None and Path(model).is_file()
    facts = facts_of([*found, model] if model is not None and is_file else found, "stat")
    told = json.dumps([facts, model, sorted(given.items())], default=str)
    build = replacing.build_folder(path, told)
    if not can_be_read_again(found):
        replacing.remove(build)
    return build


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


def _tell_missing(index: Index, keep: Sequence[str]) -> None:
    """A kept field of which no document has a value."""
    now = index.snapshot().documents.fields
    for name in keep:
        if now.get(name, "null") == "null":
            tell(f"no document has a value in the field '{_printable(name)}'")


def _index(
    build: Path, folder: str, files: tuple[str, ...], model: str | None, given: dict[str, Any]
) -> Index:
    """The index that is in a folder, or a new one, perhaps built beside the one of that folder."""
    from vocabtool.errors import InvalidFile, NotFound, OtherModel
    from vocabtool.index import replacing
    from vocabtool.index.folder import MANIFEST
    from vocabtool.index.index import Index

    options = _encoder_options(given)
    if (build / MANIFEST).exists():
        try:
            index = Index.open(build, model, **options)
            if build == Path(folder):
                _refuse_another_shape(index, given)
            elif model is not None:
                index.encoder  # noqa: B018 - opened now, for what was built may be of another
            return index
        except (InvalidFile, NotFound, OtherModel):
            if build == Path(folder):
                raise
    if build != Path(folder):
        replacing.remove(build)
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
        from vocabtool.documents import ReadOptions
        from vocabtool.embedding.inputs import can_be_read_again, facts_of, files_outside
        from vocabtool.embedding.inputs import sample as sample_of
        from vocabtool.index.loading import weights_in
        from vocabtool.index.named_files import shards_in

        shards = shards_in(list(files))
        if shards is not None:
            options["fitted"] = options.get("fitted") or weights_in(shards)
        elif can_be_read_again(found := files_outside(list(files), Path(folder))):
            first = _first(found or [], given)
            facts_of(found or (), "stat")  # the others are there, too
            options_of_files = ReadOptions(field=given["field"], format=given["source_format"])
            sample = sample_of(found or [], options_of_files)
            _tell_ids(first, given)
    options = {name: value for name, value in options.items() if value is not None}
    index = Index.create(build, model, dim=dim, sample=sample, **shape, **options)
    for note in index.encoder.notes if index.encoder is not None and not given["quiet"] else ():
        tell(note)
    return index


def _printable(name: str) -> str:
    """A name as a person may safely see it."""
    from vocabtool.vocabulary import encode, printable

    return printable(encode(name))


def _first(files: Sequence[str], given: dict[str, Any]) -> Document | None:
    """The first document, by which files that cannot be read are known before anything is made."""
    from vocabtool.documents.reading import ReadLog, ReadOptions, documents

    options = ReadOptions(
        field=given["field"],
        format=given["source_format"],
        id_field=given["id_field"],
        on_error=given["on_error"],
    )
    found = documents(list(files), options, log=ReadLog())
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
    from vocabtool.encoders.word_weights import FittedWeights

    names = ("kind", "signature", "name", "rule", "trust", "weights", "remove_component")
    options = {name: given[name] for name in (*names, "fingerprint") if given[name]}
    if given["model_output"]:
        options["output"] = given["model_output"]
    if given["fitted"]:
        options["fitted"] = FittedWeights.read(given["fitted"])
    return options


def _dim_of_shards(files: tuple[str, ...]) -> int:
    from vocabtool.embedding.shards import Shards
    from vocabtool.index.named_files import shards_in

    shards = shards_in(list(files))
    if shards is None:
        raise click.UsageError(
            "--model is missing: it may be left out only where FILE is one folder that embed wrote"
        )
    return Shards.open(shards).dim


def _calibrate(
    index: Index, before: int, wanted: bool | None, report: LoadReport, quiet: bool
) -> float:
    """Find out how much keywords weigh, where that is due or wanted; the seconds that it took.

    ``before``: documents that the index held. It needs a model to ask, and text that tells.
    """
    if wanted is None:
        wanted = report.added > 0 and _is_due(index, before)
    if not wanted or index.configuration.encoder is None:
        return 0.0
    held = index.calibration
    if held is not None and held.judged:
        return 0.0  # tuned on judgements, which an estimate is not to replace
    from vocabtool.evaluation.calibrate import calibrate

    began = time.monotonic()
    found = calibrate(index)
    if found is not None:
        index.store_calibration(found.calibration)
        if not quiet:
            tell(f"calibrated: the keyword leg weighs a = {found.a:.2f}, an estimate")
    return time.monotonic() - began


def _is_due(index: Index, before: int) -> bool:
    """Whether the index is new, or holds twice as many documents as when it was calibrated.

    One that was not calibrated when there was enough to tell was made with --no-calibrate.
    """
    held = index.calibration
    known = held.documents if held is not None else before if before >= CALIBRATED_FROM else 0
    return len(index) >= max(CALIBRATED_FROM, 2 * known)


def _show(
    index: Index,
    report: LoadReport,
    seconds: float,
    calibrating: float,
    report_format: Literal["text", "json"],
) -> None:
    from vocabtool.reports.index_report import Took, as_json, lines

    took = Took(seconds, calibrating)
    told = as_json(index, report, took) if report_format == "json" else None
    print_report(told, lines(index, report, took))
    for note in report.notes:
        tell(_printable(note))
    for skip in (*report.first_skipped[:SHOWN], *report.first_left_out[:SHOWN]):
        tell(f"left out: {skip.place}: {skip.reason}")
