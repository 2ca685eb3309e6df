"""The command that counts unknown words: ``oov``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import click

from vocabtool.choices import LimitedFigure, MaskMode, SplitOrder, StartVectors
from vocabtool.cli.inspect import WORDS_MODEL, WORDS_OPTIONS, open_words
from vocabtool.cli.options import HTML, OUTPUT, gather, split_model, text_options
from vocabtool.cli.output import (
    check_ending,
    check_files,
    deliver_report,
    open_output,
    read_documents,
    refuse_nothing,
    tell_notes,
    tell_skipped,
    usage_errors,
    width,
)
from vocabtool.errors import VocabtoolError
from vocabtool.system.messages import plural, tell

if TYPE_CHECKING:
    import pyarrow as pa

    from vocabtool.documents.options import ReadOptions
    from vocabtool.documents.reading import Batch, ReadLog
    from vocabtool.oov.report import OovReport
    from vocabtool.oov.suggest import Suggestions
    from vocabtool.tokenization.token_limit import TokenLimit
    from vocabtool.tokenization.words import Words

RULE_WIDTH: Final = 200  # characters of a rule in a message; JSON has all
COUNT_BYTES: Final = 1 << 20  # bytes of text per batch; larger batches take more memory

ReportFormat = Literal["table", "json", "csv", "parquet"]
SUGGEST: Final = gather(
    "suggestion",
    click.option(
        "--suggest",
        "most",
        type=click.IntRange(1, 100_000),
        metavar="N",
        help="Also report N words to add to MODEL: those that save most pieces; for word vectors, "
        "the most frequent unknown words. Half of the documents are used to choose the words, and "
        "half to measure what they save.",
    ),
    click.option(
        "--suggest-to",
        "to",
        type=click.Path(),
        metavar="PATH",
        help="Where to write the words of --suggest. NAME.json: tokens to add, with initial "
        "vectors if MODEL is a folder with model.safetensors. Any other PATH: a copy of a static "
        "MODEL, with these words added.",
    ),
    click.option(
        "--suggest-vectors",
        "start",
        type=click.Choice(get_args(StartVectors)),
        help="Initial vectors of the words of --suggest: the mean or sum of a word's pieces, or "
        "learned from its contexts. For a file of word vectors, only contexts are possible. "
        "[default: sum for static embeddings of tokens, else mean]",
    ),
)


def _limits(
    context: click.Context, option: click.Parameter, texts: tuple[str, ...]
) -> dict[LimitedFigure, float]:
    limits: dict[LimitedFigure, float] = {}
    for text in texts:
        name, equals, limit = text.partition("=")
        figures = ", ".join(get_args(LimitedFigure))
        if not equals:
            others = f"; the limit of a figure (one of {figures}) is written as in cut=5%"
            limits["unknown"] = _share(text, after=others)
        elif name in get_args(LimitedFigure):
            figure: LimitedFigure = name  # type: ignore[assignment] # one of its values
            is_share = name != "fertility"
            limits[figure] = _share(limit, f"{name}: ") if is_share else _fertility(limit)
        else:
            raise click.BadParameter(f"expected one of {figures} before '=', got {name!r}")
    return limits


def _fertility(text: str) -> float:
    try:
        pieces = float(Decimal(text))
    except ArithmeticError:
        pieces = 0.0
    if not 1 <= pieces < inf:
        raise click.BadParameter(
            f"fertility: expected 1 or more pieces per token, such as 1.6, got {text!r}"
        )
    return pieces


def _share(text: str, before: str = "", after: str = "") -> float:
    try:  # decimals, because 0.7 / 100 is less than 7 / 1000 in floats
        share = float(Decimal(text.removesuffix("%")) / (100 if text.endswith("%") else 1))
    except ArithmeticError:
        share = -1.0
    if not 0 <= share <= 1 or (share == 1 and not text.endswith("%")):
        told = f"expected a share such as 2% or 0.02, got {text!r}"
        raise click.BadParameter(f"{before}{told}{after}")
    return share


@click.command("oov", epilog=WORDS_MODEL)
@click.argument("model")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@WORDS_OPTIONS
@text_options("the FILEs", "an invalid row.")
@click.option(
    "--format",
    "output",
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
    "--sort",
    "order",
    type=click.Choice(get_args(SplitOrder)),
    help="Subword models: the figure by which split words are sorted, highest first; cost is "
    "count x (pieces - 1). [default: cost]",
)
@SUGGEST
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    help="Maximum number of tokens that the model reads of a text. The special tokens that the "
    "model adds are included, so N must be larger than their number. "
    "[default: as the model's files state]",
)
@click.option(
    "--budget",
    type=click.IntRange(1),
    default=64,
    show_default=True,
    metavar="MB",
    help="Memory for distinct words; if it is full, counts of rare words are estimated.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, 64),
    default=2,
    show_default=True,
    help="Number of threads.",
)
def oov_command(
    model: str,
    files: tuple[str, ...],
    options: dict[str, Any],
    read: ReadOptions,
    output: ReportFormat | None,
    file: str,
    html: str | None,
    mask: MaskMode | None,
    fail_over: dict[LimitedFigure, float],
    order: SplitOrder | None,
    limit: int | None,
    suggestion: dict[str, Any],
    budget: int,
    threads: int,
) -> int:
    """Report which words in FILE... are unknown to MODEL.

    For a MODEL of subword pieces, also report the words that it splits, and how many additional
    pieces each word costs.

    A FILE has one document per line, or per row (.jsonl, .csv, .tsv, .parquet), also with .gz or
    .zst. FILE can be a quoted glob; - is standard input.
    """
    from vocabtool.documents.reading import BATCH_BYTES, ReadLog, left_out
    from vocabtool.oov.counter import OovCounter
    from vocabtool.reports.model import safe
    from vocabtool.reports.oov import oov_report
    from vocabtool.reports.renderers import format_of

    if mask is None and output is None:
        check_ending(file)
    if mask is not None and (output or html or fail_over or order or limit or suggestion["most"]):
        raise click.UsageError(
            "--mask cannot be combined with --format, --html, --fail-over, --sort, --limit or "
            "--suggest"
        )
    check_files(file, html, output)
    words = open_words(model, options)
    split = order is not None or bool(fail_over.keys() & {"split3", "fertility"})
    if split and not words.subword:
        raise click.UsageError(
            f"{model} knows whole words, but --sort and the limits split3 and fertility of "
            "--fail-over are for models of subword pieces"
        )
    _check_suggestion(words, model, **suggestion)
    kind = "text" if mask else output or format_of(file)
    for_people = kind in ("table", "text") and (file != "-" or width() is not None)
    tells_the_rule = mask is None and (kind == "json" or for_people)
    rule = f"{safe(words.vocabulary.name)}, rule {words.fingerprint[:16]}: {_steps(words)}"
    log, notes = ReadLog(), left_out([*files], read)
    documents = read_documents(files, read, log, COUNT_BYTES if mask is None else BATCH_BYTES)
    if mask is not None:
        _print_masked(words, documents, mask, file, files, log)
        tell(rule)
        tell_skipped(log.skipped)
        tell_notes(notes)
        return 0
    token_limit, unclear = _token_limit(model, words, limit, needed="cut" in fail_over)
    counter = OovCounter(words, budget=budget << 20, limit=token_limit)
    kept: list[pa.StringArray] = []
    texts = _keep((batch.texts for batch in documents), kept, suggestion["most"])
    counter.count(texts, threads=threads)
    report = counter.report(model=model, sources=files, order=order or "cost")
    refuse_nothing(report.documents, files, skipped=log.skipped.first)
    suggested = _suggest(words, model, kept, **suggestion)
    report = replace(report, notes=(*report.notes, *notes, *unclear), suggested=suggested)
    deliver_report(oov_report(report), file, html, output)
    if not tells_the_rule:
        tell(rule)
    if fail_over or not tells_the_rule:
        _tell_figures(report)
    tell_notes(report.notes)
    tell_skipped(log.skipped)
    if not report.tokens:
        tell("the documents contain no words")
        return 1 if fail_over else 0
    over = _figures_over(report, fail_over)
    return 1 if over else 0


def _tell_figures(report: OovReport) -> None:
    from vocabtool.reports.model import percent
    from vocabtool.tokenization.token_limit import cut_note

    unknown, be = report.tokens_unknown, "is" if report.tokens_unknown == 1 else "are"
    share = percent(report.token_rate)
    tell(f"{unknown:,} of {report.tokens:,} tokens {be} unknown ({share})")
    if report.split is not None:
        split3 = percent(report.split_rate())
        tell(f"{report.fertility:.2f} pieces per token; {split3} of tokens in 3 or more pieces")
    if (cut := report.cut) is not None:
        unit = "token" if report.split is None else "piece"  # words are counted as tokens, too
        share = f" ({percent(report.cut_rate)} of all {unit}s)" if cut.tokens else ""
        tell(f"{cut_note(cut.documents, cut.tokens, cut.limit.tokens, unit=unit)}{share}")


def _token_limit(
    model: str, words: Words, limit: int | None, *, needed: bool
) -> tuple[TokenLimit | None, tuple[str, ...]]:
    from vocabtool.tokenization.token_limit import TokenLimit

    found, why = None, f"{model} does not state how many tokens it reads"
    notes: tuple[str, ...] = ()
    try:
        with usage_errors():
            found = TokenLimit.of(split_model(model, None)[0], words, limit)
    except VocabtoolError as error:
        why = f"how many tokens the model reads is unknown: {error}"
        notes = (f"{why}; pass --limit N",)
    if needed and found is None:
        raise click.UsageError(f"{why}; --fail-over cut=… needs --limit N")
    return found, notes


def _check_suggestion(
    words: Words, model: str, most: int | None, to: str | None, start: StartVectors | None
) -> None:
    from vocabtool.oov import new_vectors
    from vocabtool.oov.suggest import suggest

    if most is None:
        if to or start:
            raise click.UsageError("--suggest-to and --suggest-vectors need --suggest N")
        return
    found = suggest(words, (), most, model=model, start=start)
    if to is None:
        return
    check_files(to, None, None)
    if not to.endswith(".json"):
        new_vectors.check_static(model, to)
    elif not found.flags:
        raise click.UsageError(
            f"{model} knows whole words and has no tokenizer: --suggest-to can write a file of "
            "word vectors, but no .json file"
        )


def _keep(
    batches: Iterator[pa.StringArray], kept: list[pa.StringArray], most: int | None
) -> Iterator[pa.StringArray]:
    """Yield all batches. Also append batches to ``kept``, until it has over ``MAX_TEXT`` bytes.

    ``most``: the number of words to suggest. If ``None``, nothing is appended.
    """
    from vocabtool.oov.suggest import MAX_TEXT

    size = 0
    for batch in batches:
        if most is not None and size <= MAX_TEXT:
            kept.append(batch)
            size += batch.nbytes
        yield batch


def _suggest(
    words: Words,
    model: str,
    texts: list[pa.StringArray],
    most: int | None,
    to: str | None,
    start: StartVectors | None,
) -> Suggestions | None:
    from vocabtool.oov import new_vectors
    from vocabtool.oov.suggest import suggest

    if most is None:
        return None
    found = suggest(words, texts, most, model=model, start=start)
    if to is not None and to.endswith(".json"):
        found.save(to)
    elif to is not None and found.vectors is not None:
        new_vectors.save_extended(model, to, found.tokens, found.vectors)
    number, half = plural(len(found.words), "word", "words"), found.held_out
    unit = "pieces per word" if found.flags else "unknown words per word"
    tell(
        f"{number} to add{f', written to {to}' * (to is not None)}. Held-out documents have "
        f"{half.rate_before:.3f} {unit} before the addition, {half.rate_after:.3f} after it"
    )
    tell_notes(found.notes)
    return found


def _figures_over(report: OovReport, limits: dict[LimitedFigure, float]) -> list[LimitedFigure]:
    from vocabtool.reports.model import percent

    figures: dict[LimitedFigure, float] = {
        "unknown": report.token_rate,
        "split3": report.split_rate(),
        "fertility": report.fertility,
        "cut": report.cut_rate,
    }
    over = [name for name in limits if figures[name] > limits[name]]
    for name in over:
        shown = f"{limits[name]:g}" if name == "fertility" else percent(limits[name])
        tell(f"above the limit of {shown} (--fail-over{f' {name}' * (name != 'unknown')})")
    return over


def _steps(words: Words) -> str:
    steps = "; ".join(words.describe())
    return steps if len(steps) <= RULE_WIDTH else f"{steps[:RULE_WIDTH]} ..."


def _print_masked(
    words: Words,
    batches: Iterator[Batch],
    mode: MaskMode,
    file: str,
    sources: tuple[str, ...],
    log: ReadLog,
) -> None:
    from vocabtool.tokenization import mask as masks
    from vocabtool.tokenization.text_arrays import as_bytes
    from vocabtool.vocabulary import decode, encode, printable

    lines = unaligned = 0
    with open_output(file) as out:
        shown = file == "-" and width() is not None  # escape control characters on a terminal
        for batch in batches:
            texts = [decode(text) for text in as_bytes(batch.texts)]
            for masked in masks.mask(texts, words.look_up, mode):
                line = encode(masked.text.replace("\r\n", " ").replace("\n", " "))
                out.write((printable(line).encode() if shown else line) + b"\n")
                unaligned += masked.unaligned
            lines += len(texts)
        refuse_nothing(lines, sources, skipped=log.skipped.first)
    if unaligned:
        strange = plural(unaligned, "unknown word does", "unknown words do")
        tell(
            f"{strange} not occur in the documents as the model spells it, and could not be masked"
        )
