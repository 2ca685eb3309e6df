"""The command that counts unknown words: ``oov``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from math import inf
from typing import TYPE_CHECKING, Final, Literal, get_args

import click

from vocabtool.choices import LimitedFigure, MaskMode
from vocabtool.cli import output
from vocabtool.cli.models import WORDS_MODEL, WORDS_RULE
from vocabtool.cli.options import HTML, OUTPUT, TEXTS
from vocabtool.documents.files import kind_of
from vocabtool.documents.options import ReadOptions
from vocabtool.documents.reading import BATCH_BYTES, Batch, ReadLog, left_out
from vocabtool.reports.report import format_of
from vocabtool.system.messages import percent, plural, tell
from vocabtool.tokenization.text_arrays import as_bytes
from vocabtool.tokenization.words import Words, words_of
from vocabtool.vocabulary import decode, encode, printable, safe

if TYPE_CHECKING:
    from vocabtool.oov.report import OovReport

RULE_WIDTH: Final = 200  # characters of a rule in a message; JSON has all

ReportFormat = Literal["table", "json", "csv", "parquet"]


def _limits(
    context: click.Context, option: click.Parameter, texts: tuple[str, ...]
) -> dict[LimitedFigure, float]:
    """Return the limits of ``--fail-over``: pieces per token for ``fertility``, else shares."""
    limits: dict[LimitedFigure, float] = {}
    names: tuple[LimitedFigure, ...] = get_args(LimitedFigure)
    for limit_text in texts:
        name, equals, text = limit_text.rpartition("=")
        figure = next((known for known in names if known == (name if equals else "unknown")), None)
        if figure is None:
            wanted = f"one of {', '.join(names)} before '='"
            raise click.BadParameter(f"expected {wanted}, got {name!r}")
        try:  # decimals, because 0.7 / 100 is less than 7 / 1000 in floats
            limit = float(Decimal(text.removesuffix("%")) / (100 if text.endswith("%") else 1))
        except ArithmeticError:  # not a number
            limit = -1.0
        if figure == "fertility":
            fits = 1 <= limit < inf and not text.endswith("%")
            wanted = "1 or more pieces per token, such as 1.6"
        else:
            fits = 0 <= limit < 1 or (limit == 1 and text.endswith("%"))
            wanted = "a share such as 2% or 0.02"
        if not fits:
            others = f"limits of other figures ({', '.join(names)}) are written as in cut=5%"
            raise click.BadParameter(f"{figure}: expected {wanted}, got {text!r}; {others}")
        limits[figure] = limit
    return limits


@click.command("oov", epilog=WORDS_MODEL)
@click.argument("model")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@WORDS_RULE
@TEXTS
@click.option(
    "--format",
    "form",
    type=click.Choice(get_args(ReportFormat)),
    help="table: the report, as tab-separated text if not on a terminal; json: all figures; csv "
    "and parquet: a row for each unknown word, and for each split word of a subword model. "
    "[default: by the ending of -o, else table]",
)
@OUTPUT
@HTML
@click.option(
    "--mask",
    type=click.Choice(get_args(MaskMode)),
    help="Print the documents instead of a report. known: hide known words. unknown: replace "
    "unknown words by [UNK].",
)
@click.option(
    "--fail-over",
    metavar="LIMIT",
    multiple=True,
    callback=_limits,
    help="Exit with code 1 if a figure is above its limit. A limit without a name, such as 2% or "
    "0.02, is for the share of unknown tokens. split3=5%: share of tokens in words of three or "
    "more pieces. fertility=1.6: pieces per token. cut=5%: share of pieces (or whole words) that "
    "the model cuts off. split3 and fertility are for subword models. May be repeated.",
)
@click.option(
    "--suggest",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Also report the N words whose addition to MODEL saves most pieces.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    help="Maximum number of tokens that the model reads of a text. The special tokens that the "
    "model adds are included, so N must be larger than their number. "
    "[default: as the model's files state]",
)
def oov_command(
    model: str,
    files: tuple[str, ...],
    rule: str | None,
    read: ReadOptions,
    form: ReportFormat | None,
    file: str,
    html: str | None,
    mask: MaskMode | None,
    fail_over: dict[LimitedFigure, float],
    limit: int | None,
    suggest: int | None,
) -> int:
    """Report which words in FILE... are unknown to MODEL.

    For a MODEL of subword pieces, also report the words that it splits, and how many additional
    pieces each word costs.

    A FILE has one document per line, or per row (.jsonl, .csv, .tsv, .parquet). All except .parquet
    can be compressed (.gz, .zst). FILE can be a quoted glob; - is standard input.
    """
    from vocabtool.oov.corpus import oov, token_limit_of
    from vocabtool.reports.oov import oov_report

    if mask is not None and (form or html or fail_over or limit or suggest):
        raise click.UsageError(
            "--mask cannot be combined with --format, --html, --fail-over, --limit or --suggest"
        )
    output.check_files(file, html, form, () if mask is not None else output.REPORT_ENDINGS)
    output.tell_how_read(files, read)
    words = words_of(model, rule)
    if fail_over.keys() & {"split3", "fertility"} and not words.subword:
        raise click.UsageError(
            f"{model} knows whole words, but the limits split3 and fertility of --fail-over are "
            "for models of subword pieces"
        )
    steps = "; ".join(words.describe())
    steps = steps if len(steps) <= RULE_WIDTH else f"{steps[:RULE_WIDTH]} ..."
    rule = f"{safe(words.vocabulary.name)}, rule {words.fingerprint[:16]}: {steps}"
    log = ReadLog()
    if mask is not None:
        documents = output.read_documents(files, read, log, BATCH_BYTES)
        _print_masked(words, documents, mask, file, files, read, log)
        tell(rule)
        output.tell_skipped(log.skipped)
        output.tell_notes((*left_out([*files], read), *log.notes))
        return 0
    with output.usage_errors(), output.progress_bar(False) as progress:
        if "cut" in fail_over:
            token_limit, unclear = token_limit_of(words, limit)
            if token_limit is None:
                stated = f"{model} does not state how many tokens it reads; pass --limit N"
                raise click.UsageError(f"--fail-over cut=…: {(*unclear, stated)[0]}")
        report = oov(
            words,
            list(files),
            read,
            limit=limit,
            suggest=suggest,
            log=log,
            progress=progress,
        )
    report = replace(report, header=report.header._replace(model=model))
    output.deliver_report(oov_report(report), file, html, form)
    kind = form or format_of(file)
    shows_the_rule = kind == "json" or (
        kind in ("table", "text") and (file != "-" or output.width() is not None)
    )
    if not shows_the_rule:
        tell(rule)
    output.tell_notes(report.notes)
    output.tell_skipped(log.skipped)
    return _tell_result(report, fail_over, figures=bool(fail_over) or not shows_the_rule)


def _tell_result(report: OovReport, limits: dict[LimitedFigure, float], *, figures: bool) -> int:
    """Tell the figures, and which are above their limits. Return the exit code."""
    from vocabtool.reports.oov import cut_line

    if figures:
        unknown, verb = report.tokens_unknown, "is" if report.tokens_unknown == 1 else "are"
        share = percent(report.token_rate)
        tell(f"{unknown:,} of {report.tokens:,} tokens {verb} unknown ({share})")
        if report.split is not None:
            split3 = percent(report.split_rate())
            tell(f"{report.fertility:.2f} pieces per token; {split3} of tokens in 3 or more pieces")
        if report.cut is not None:
            tell(cut_line(report, report.cut))
    if not report.tokens:
        tell("the documents contain no words")
        return 1 if limits else 0
    values: dict[LimitedFigure, float] = {
        "unknown": report.token_rate,
        "split3": report.split_rate(),
        "fertility": report.fertility,
        "cut": report.cut_rate,
    }
    over = [name for name, limit in limits.items() if values[name] > limit]
    for name in over:
        above = limits[name]
        shown = f"{above:g}" if name == "fertility" else percent(above)
        tell(f"above the limit of {shown} (--fail-over{'' if name == 'unknown' else f' {name}'})")
    return 1 if over else 0


def _print_masked(
    words: Words,
    batches: Iterator[Batch],
    mode: MaskMode,
    file: str,
    sources: tuple[str, ...],
    read: ReadOptions,
    log: ReadLog,
) -> None:
    from vocabtool.tokenization import mask  # loads regex

    lines = unaligned = last = 0
    source = ""
    with output.open_output(file) as out:
        # On a terminal, control characters are escaped.
        shown = file == "-" and output.width() is not None
        for batch in batches:
            texts = [decode(text) for text in as_bytes(batch.texts)]
            format_, _ = kind_of(batch.source, read)
            if batch.source != source:
                source, last = batch.source, 0
            masked = mask.mask(texts, words.look_up, mode)
            for (text, missing), number in zip(masked, batch.numbers.tolist(), strict=True):
                if format_ == "lines":  # a blank line is no document, but lines stay where they are
                    out.write(b"\n" * (number - last - 1))
                    last = number
                line = encode(text.replace("\r\n", " ").replace("\n", " "))
                out.write((printable(line).encode() if shown else line) + b"\n")
                unaligned += missing
            lines += len(texts)
        output.refuse_empty(lines, sources, skipped=log.skipped.first)
    if unaligned:
        strange = plural(unaligned, "unknown word does", "unknown words do")
        tell(
            f"{strange} not occur in the documents as the model spells it, and could not be masked"
        )
