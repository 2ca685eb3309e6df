"""The command that makes vectors: ``embed``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from vocabtool.cli.command_streams import print_report, progress_bar, usage_errors
from vocabtool.cli.source_options import DOCUMENTS, ENCODER, together
from vocabtool.system.telling import counted, tell

if TYPE_CHECKING:
    from vocabtool.documents.reading import Format, OnDuplicate, OnError
    from vocabtool.embedding.columns import Dtype
    from vocabtool.embedding.embed import Runner
    from vocabtool.embedding.inputs import Check
    from vocabtool.embedding.report import EmbedReport, Progress
    from vocabtool.encoders.choices import EncoderKind, Weighting

# Repeated here, and held equal by a test, so that `--help` need not load NumPy.
DTYPES = ("float32", "float16")
CHECKS = ("stat", "content")
RUNNERS = ("local", "ray")
REPORTS = ("text", "json")
SHARD_ROWS = 65_536
SHOWN = 3  # rows that were left out
# What the report says of one, and of several.
RESUMED = ("shard was there already", "shards were there already")
REDONE = ("shard that was begun and lost", "shards that were begun and lost")
SKIPPED = ("row that is no document", "rows that are no documents")
DROPPED = ("document of an id that was there", "documents of an id that was there")
EMPTY = ("text of nothing but blanks", "texts of nothing but blanks")
ZERO = (
    "vector: the model knows no word of the text",
    "vectors: the model knows no word of the text",
)
NOT_UTF8 = (
    "document, stored with U+FFFD for such bytes",
    "documents, stored with U+FFFD for such bytes",
)
CACHED = ("vector that was not made again", "vectors that were not made again")

MODEL_HELP = """MODEL is the folder of a SavedModel or a TensorFlow Hub handle, a file of word
vectors (GloVe, word2vec, fastText .vec, .npz), a folder of sentence-transformers (or
sentence-transformers:NAME), or python:MODULE:NAME, a callable of your own. Run the same command
again after a stop, and it goes on where it was: what is in DIR ends up the same to the byte."""


MODEL = together(
    click.option("--model", required=True, metavar="MODEL", help="What makes the vectors."),
    click.option(
        "--exact-words",
        "exact",
        is_flag=True,
        help="Take the unknown words from the running TensorFlow model, in the same pass.",
    ),
)
NO_TEXT = click.option("--no-text", is_flag=True, help="Do not store the texts.")
FOLDER = together(
    click.option(
        "-o",
        "--folder",
        required=True,
        type=click.Path(file_okay=False),
        metavar="DIR",
        help="Where the shards go.",
    ),
    click.option(
        "--shard-rows",
        type=click.IntRange(1),
        default=SHARD_ROWS,
        show_default=True,
        help="Rows of a shard, which is what a stop can cost.",
    ),
    click.option("--dtype", type=click.Choice(DTYPES), default="float32", show_default=True),
    click.option(
        "--batch-size",
        type=click.IntRange(1),
        help="Texts encoded at once. [default: what the model wants]",
    ),
    click.option(
        "--check",
        type=click.Choice(CHECKS),
        default="stat",
        show_default=True,
        help="How a changed FILE is noticed: by size and time, or by its content.",
    ),
    click.option("--force", is_flag=True, help="Start over, whatever run is in DIR."),
    click.option(
        "--cache",
        type=click.Path(file_okay=False),
        metavar="DIR",
        help="Keep vectors by model and text: no text is encoded twice, in later runs too.",
    ),
)
RUN = together(
    click.option("--runner", type=click.Choice(RUNNERS), default="local", show_default=True),
    click.option(
        "--workers",
        type=click.IntRange(1, 1024),
        default=1,
        show_default=True,
        help="Processes, or Ray's actors, each with a model of its own.",
    ),
    click.option(
        "--threads",
        type=click.IntRange(1, 64),
        help="Batches that a worker encodes at a time. [default: by the kind of model]",
    ),
    click.option("--ray-address", help="Of a cluster. [default: Ray is started here]"),
    click.option("--quiet", is_flag=True, help="No progress and no report."),
    click.option(
        "--format",
        "report_format",
        type=click.Choice(REPORTS),
        default="text",
        show_default=True,
        help="Of the report at the end.",
    ),
)


@click.command("embed", epilog=MODEL_HELP)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@MODEL
@ENCODER
@FOLDER
@DOCUMENTS
@NO_TEXT
@RUN
def embed_command(
    files: tuple[str, ...],
    model: str,
    kind: EncoderKind | None,
    signature: str | None,
    model_output: str | None,
    name: str | None,
    rule: str | None,
    exact: bool,
    trust: bool,
    weights: Weighting | None,
    remove_component: bool | None,
    fitted: str | None,
    fingerprint: str | None,
    folder: str,
    shard_rows: int,
    dtype: Dtype,
    batch_size: int | None,
    check: Check,
    force: bool,
    cache: str | None,
    field: str | None,
    source_format: Format | None,
    id_field: str | None,
    keep: tuple[str, ...],
    no_text: bool,
    on_error: OnError,
    on_duplicate: OnDuplicate,
    runner: Runner,
    workers: int,
    threads: int | None,
    ray_address: str | None,
    quiet: bool,
    report_format: Literal["text", "json"],
) -> None:
    """Write a vector for each document of FILE... into shards of Parquet in DIR.

    A FILE holds one document a line, or is .jsonl, .csv, .tsv, .parquet, .arrow or .tfrecord,
    perhaps .gz or .zst; a folder or a glob in quotes is a FILE too, and - is standard input.
    """
    from vocabtool.embedding.embed import embed
    from vocabtool.encoders.opening import open_encoder
    from vocabtool.encoders.word_weights import FittedWeights
    from vocabtool.system.allocation import share_one_heap

    share_one_heap()
    if ray_address is not None and runner != "ray":
        raise click.UsageError("--ray-address is for --runner ray")
    encoder = open_encoder(
        model,
        kind=kind,
        signature=signature,
        output=model_output,
        name=name,
        rule=rule,
        exact_words=exact,
        trust=trust,
        weights=weights,
        remove_component=remove_component,
        fitted=FittedWeights.read(fitted) if fitted is not None else None,
        fingerprint=fingerprint,
    )
    if not quiet:
        for note in encoder.notes:
            tell(note)
    with usage_errors(), _progress(quiet) as progress:
        try:
            report = embed(
                list(files),
                encoder,
                folder,
                field=field,
                format=source_format,
                id_field=id_field,
                keep=keep,
                text=not no_text,
                on_error=on_error,
                on_duplicate=on_duplicate,
                shard_rows=shard_rows,
                batch_size=batch_size,
                dtype=dtype,
                check=check,
                force=force,
                cache=cache,
                runner=runner,
                workers=workers,
                threads=threads,
                ray_address=ray_address,
                progress=progress,
            )
        except KeyboardInterrupt:
            tell("stopped; the same command goes on from the shards that are there")
            raise
    if not quiet:
        _show(report, report_format)
        for note in report.notes:
            if note not in encoder.notes:
                tell(note)


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[Progress], None] | None]:
    """What to call as the work goes on; nothing where nobody is watching."""
    with progress_bar(quiet) as update:
        if update is None:
            yield None
            return

        def show(progress: Progress) -> None:
            update(
                description=in_words(progress),
                total=progress.to_do if progress.read else None,
                completed=progress.read,
            )

        yield show


def in_words(progress: Progress) -> str:
    """``12,288 documents, 3,100/s, 2 min left, 4.1% of words unknown, 17% from the cache``."""
    counts = progress.counts
    told = [counted(counts.documents, "document", "documents"), f"{progress.rate:,.0f}/s"]
    if progress.remaining is not None:
        told.append(f"{_duration(progress.remaining)} left")
    if counts.tokens:
        told.append(f"{counts.tokens_unknown / counts.tokens:.1%} of words unknown")
    if progress.hits:
        told.append(f"{progress.hits / counts.documents:.0%} from the cache")
    return ", ".join(told)


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def _show(report: EmbedReport, report_format: Literal["text", "json"]) -> None:
    print_report(report.to_json() if report_format == "json" else None, in_lines(report))
    for skip in report.first_skipped[:SHOWN]:
        tell(f"left out: {skip.place}: {skip.reason}")


def in_lines(report: EmbedReport) -> Iterator[str]:
    """What was done, what was left out, and what the vectors do not show."""
    from vocabtool.reports.oov.plain_words import percent

    counts = report.counts
    documents = counted(counts.documents, "document", "documents")
    shards = counted(report.shards, "shard", "shards")
    yield f"{Path(report.folder)}: {documents} in {shards}"
    yield f"  done now    {_done_now(report)}"
    for name, count, (one, more) in (
        ("gone on", report.resumed, RESUMED),
        ("redone", report.redone, REDONE),
        ("skipped", report.skipped, SKIPPED),
        ("dropped", report.dropped, DROPPED),
        ("empty", counts.empty, EMPTY),
        ("zero", counts.zero, ZERO),
        ("not UTF-8", counts.not_utf8, NOT_UTF8),
        ("cached", report.hits, CACHED),
    ):
        if count:
            yield f"  {name:<11} {counted(count, one, more)}"
    if counts.tokens:
        share = percent(counts.tokens_unknown / counts.tokens)
        words = counted(counts.tokens, "word", "words")
        yield f"  unknown     {counts.tokens_unknown:,} of {words} ({share})"


def _done_now(report: EmbedReport) -> str:
    if report.encoded:
        documents = counted(report.encoded, "document", "documents")
        return f"{documents} in {report.seconds:,.1f} s, {report.rate:,.0f} a second"
    return "nothing: all of it was there"
