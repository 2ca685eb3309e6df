"""The commands that look at texts with a model's eyes: ``words`` and ``oov``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, TypeVar, get_args

import click

from vocabtool.cli.command_streams import (
    ERRORS,
    FIELD,
    HTML,
    OUTPUT,
    SOURCE_FORMATS,
    check_ending,
    check_files,
    refuse_nothing,
    standard_output,
    tell_skipped,
    watched,
)
from vocabtool.cli.model_commands import InspectFormat, meant
from vocabtool.system.telling import tell, width

if TYPE_CHECKING:
    from vocabtool.documents.reading import Batch, OnError
    from vocabtool.documents.reading import Format as SourceFormat
    from vocabtool.oov.report import OovReport
    from vocabtool.tokenization.mask import Mode
    from vocabtool.tokenization.words import Words

# Repeated here, and held equal by a test, so that `--help` need not load NumPy.
REPORT_FORMATS = ("table", "json", "csv", "parquet")
MASKS = ("known", "unknown")
RULES = "whitespace, lower, keras, ptb, tokenizer:FILE, regex:PATTERN"

Command = TypeVar("Command", bound=Callable[..., object])
SIZE = 2 << 20  # bytes of text counted together: larger batches hold fewer distinct words
ReportFormat = Literal["table", "json", "csv", "parquet"]

MODEL_HELP = """MODEL is the folder of a SavedModel, a frozen graph's .pb, a TensorFlow Hub handle
(https://...) that is in the local cache, a SentencePiece model, or a Hugging Face tokenizer.json:
these say themselves how texts are cut into words. It may be any other file or folder that
`vocabtool extract` reads, where --rule must say so. MODEL#NAME is the same as --name NAME."""


def _share(context: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """``2%`` or ``0.02`` as a number from 0 to 1."""
    if text is None:
        return None
    try:  # in decimals: 0.7 / 100 of floats is less than 7 / 1000, the rate it is compared with
        share = float(Decimal(text.removesuffix("%")) / (100 if text.endswith("%") else 1))
    except ArithmeticError:
        share = -1.0
    if not 0 <= share <= 1 or (share == 1 and not text.endswith("%")):
        raise click.BadParameter(f"wanted a share such as 2% or 0.02, got {text!r}")
    return share


def checked_rule(context: click.Context, option: click.Parameter, spec: str | None) -> str | None:
    """A rule that there is."""
    if spec is not None:
        from vocabtool.errors import VocabtoolError
        from vocabtool.tokenization.named_rules import parse_rule
        from vocabtool.tokenization.options import tokenizer_file

        try:
            if tokenizer_file(spec) is None:
                parse_rule(spec)
        except VocabtoolError as error:
            raise click.BadParameter(str(error)) from error
    return spec


def model_options(command: Command) -> Command:
    """The options that say whose words are meant."""
    for option in reversed(
        (
            click.option("--name", help="The vocabulary, as inspect prints its name."),
            click.option(
                "--rule",
                callback=checked_rule,
                help="How texts become words where no model says: "
                f"{RULES}. [default: as the model does]",
            ),
            click.option(
                "--exact-words",
                "exact",
                is_flag=True,
                help="Run the model itself and take the words that it looks up. Needs TensorFlow: "
                "pip install '.[tensorflow]'.",
            ),
            click.option(
                "--trust",
                is_flag=True,
                help="Run a model even though it reads files, uses the network or runs Python.",
            ),
        )
    ):
        command = option(command)
    return command


@click.command("words", epilog=MODEL_HELP)
@click.argument("model")
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@model_options
@click.option(
    "--format",
    "output",
    type=click.Choice(get_args(InspectFormat)),
    default="table",
    show_default=True,
    help="Columns (tab-separated where no terminal is), or JSON.",
)
def words_command(
    model: str,
    texts: tuple[str, ...],
    name: str | None,
    rule: str | None,
    exact: bool,
    trust: bool,
    output: InspectFormat,
) -> None:
    """Show how MODEL makes words of a text, and which words of TEXT it knows."""
    from vocabtool.reports import words_report
    from vocabtool.tokenization.words import Words

    _check_rule(rule, exact)
    path, name = meant(model, name)
    words = Words.of(path, name=name, rule=rule, exact=exact, trust=trust)
    with standard_output() as out:
        if output == "json":
            shown = words_report.to_json(words, texts)
            out.write(shown.encode("utf-8", "backslashreplace") + b"\n")
        else:
            sys.stdout.write(words_report.to_text(words, texts, tabs=width() is None))


@click.command("oov", epilog=MODEL_HELP)
@click.argument("model")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@model_options
@FIELD
@click.option(
    "--input-format",
    "source_format",
    type=click.Choice(SOURCE_FORMATS),
    help="[default: each file's ending tells; else lines of text]",
)
@click.option(
    "--on-error",
    type=click.Choice(ERRORS),
    default="raise",
    show_default=True,
    help="What becomes of a row that is no document.",
)
@click.option(
    "--format",
    "output",
    type=click.Choice(REPORT_FORMATS),
    help="The report for people (table), all of it (json), or its unknown words in rows (csv, "
    "parquet). [default: by the ending of -o, else table]",
)
@OUTPUT
@HTML
@click.option(
    "--mask",
    type=click.Choice(MASKS),
    help="Print each document instead: with its known words left out (known), or with [UNK] in "
    "place of those that the model does not know (unknown).",
)
@click.option(
    "--fail-over",
    metavar="SHARE",
    callback=_share,
    help="Exit with 1 where a greater share of the tokens is unknown: 2%, or 0.02.",
)
@click.option(
    "--budget",
    type=click.IntRange(1),
    default=64,
    show_default=True,
    metavar="MB",
    help="Memory for distinct words; past it the counts of rare words are estimated.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, 64),
    default=2,
    show_default=True,
    help="How many batches are looked at together; with --exact-words one.",
)
def oov_command(
    model: str,
    files: tuple[str, ...],
    name: str | None,
    rule: str | None,
    exact: bool,
    trust: bool,
    field: str | None,
    source_format: SourceFormat | None,
    on_error: OnError,
    output: ReportFormat | None,
    file: str,
    html: str | None,
    mask: Mode | None,
    fail_over: float | None,
    budget: int,
    threads: int,
) -> int | None:
    """Report which words of FILE... MODEL does not know.

    A FILE holds one document a line, or is .jsonl, .csv, .tsv or .parquet, perhaps .gz or .zst;
    a glob in quotes is a FILE too, and - is standard input.
    """
    from vocabtool.documents import reading as documents
    from vocabtool.reports import words_report
    from vocabtool.reports.oov.plain_words import percent
    from vocabtool.tokenization.words import Words

    _check_rule(rule, exact)
    if mask is None and output is None:
        check_ending(file)
    if mask is not None and (output or html or fail_over is not None):
        raise click.UsageError("--mask prints lines: not with --format, --html or --fail-over")
    check_files(file, html, output)
    path, name = meant(model, name)
    words = Words.of(path, name=name, rule=rule, exact=exact, trust=trust)
    if mask is not None or not _tells_the_rule(output, file):
        tell(words_report.rule_line(words))
    skipped, left_out = documents.Skipped(), documents.left_out([*files])
    batches = documents.batches(
        files,
        field=field,
        format=source_format,
        on_error=on_error,
        skipped=skipped,
        size=SIZE if mask is None else documents.SIZE,
    )
    if mask is not None:
        _print_masked(words, batches, mask, file, files)
        tell_skipped(skipped)
        for note in left_out:
            tell(note)
        return None
    report = _count(words, batches, model, files, budget, 1 if exact else threads)
    refuse_nothing(report.documents, files)
    report = replace(report, notes=report.notes + left_out)
    _write(report, file, output, html)
    if fail_over is not None or not _tells_the_rule(output, file):
        unknown, tokens = report.tokens_unknown, report.tokens
        be = "is" if unknown == 1 else "are"
        tell(f"{unknown:,} of {tokens:,} tokens {be} unknown ({percent(report.token_rate)})")
    for note in report.notes:
        tell(note)
    tell_skipped(skipped)
    if not report.tokens:
        tell("no words were counted: nothing can be said of these documents")
        return None if fail_over is None else 1
    if fail_over is not None and report.token_rate > fail_over:
        tell(f"that is more than {percent(fail_over)}")
        return 1
    return None


def _check_rule(rule: str | None, exact: bool) -> None:
    if exact and rule is not None:
        raise click.UsageError("--exact-words are the model's own: not with --rule")


def _tells_the_rule(output: ReportFormat | None, file: str) -> bool:
    """Whether the report says how texts became words: as JSON, and as a table on a terminal."""
    from vocabtool.reports.oov import ENDINGS

    kind = output or ENDINGS.get(Path(file).suffix.lower(), "table")
    return kind == "json" or (kind == "table" and (file != "-" or width() is not None))


def _count(
    words: Words,
    batches: Iterator[Batch],
    model: str,
    sources: tuple[str, ...],
    budget: int,
    threads: int,
) -> OovReport:
    from vocabtool.oov.counter import OovCounter
    from vocabtool.system.allocation import share_one_heap

    share_one_heap()
    counter = OovCounter(words, budget=budget << 20)
    counter.count((batch.texts for batch in watched(batches)), threads=threads)
    return counter.report(model=model, sources=sources)


def _write(report: OovReport, file: str, output: ReportFormat | None, html: str | None) -> None:
    from vocabtool.reports import oov as oov_report_files

    if html is not None:
        oov_report_files.save_report(report, html, "html")
    if file == "-":
        with standard_output() as out:
            oov_report_files.write(report, out, output or "table", width=width())
    else:
        oov_report_files.save_report(report, file, output)


def _print_masked(
    words: Words, batches: Iterator[Batch], mode: Mode, file: str, sources: tuple[str, ...]
) -> None:
    from vocabtool.tokenization import mask as masks
    from vocabtool.tokenization.text_arrays import as_bytes
    from vocabtool.vocabulary import decode, encode, printable

    totals = masks.Totals()
    lines = (decode(text) for batch in watched(batches) for text in as_bytes(batch.texts))
    with _opened(file) as out:
        shown = file == "-" and width() is not None  # a terminal obeys what it is shown
        for masked in masks.mask(lines, words.look_up, mode, totals):
            line = encode(masked.text.replace("\r\n", " ").replace("\n", " "))
            out.write((printable(line).encode() if shown else line) + b"\n")
        refuse_nothing(totals.lines, sources)
    if totals.exact < totals.lines:
        aligned, strange = totals.lines - totals.exact, totals.unaligned
        tell(
            f"{aligned:,} of {totals.lines:,} lines {'was' if aligned == 1 else 'were'} aligned "
            f"word by word from the left; {strange:,} unknown {_words_are(strange)} printed as the "
            "model makes them"
        )


def _words_are(count: int) -> str:
    if count == 1:
        return "word, not found in its line, is"
    return "words, not found in their line, are"


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    """A file that appears when it is whole, or standard output."""
    if file == "-":
        with standard_output() as out:
            yield out
        return
    from vocabtool.system.whole_file import whole_file

    with whole_file(file) as opened:
        yield opened
