"""The command that compares vocabularies: ``diff``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, get_args

import click

from vocabtool.choices import FOLDS, NAMED, Only
from vocabtool.cli.options import HTML, OUTPUT, check_rule, text_options
from vocabtool.cli.output import (
    check_ending,
    check_files,
    deliver_report,
    read_documents,
    refuse_nothing,
    tell_notes,
    tell_skipped,
    width,
)
from vocabtool.system.messages import tell

if TYPE_CHECKING:
    from vocabtool.comparison.compare import Diff
    from vocabtool.documents.options import ReadOptions

DiffFormat = Literal["text", "json", "csv", "parquet"]
WHOLE: Final = (".json", ".html")  # endings of files that contain the whole comparison
BATCH_BYTES: Final = 4 << 20  # bytes of text per batch

HELP = """A and B are models or word lists: anything that `vocabtool extract` reads. FILE#NAME
selects one of several vocabularies in FILE by the name that `inspect` prints. Entries are compared
byte for byte unless --fold is set. But if one of them has pieces with markers, entries are compared
by the text that they stand for: `the` of WordPiece equals `▁the` and `Ġthe`, and `##ing` equals
`ing`."""


def _folds(context: click.Context, option: click.Parameter, text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in FOLDS:
            raise click.BadParameter(f"expected one or more of {', '.join(FOLDS)}, got {name!r}")
    return names


@click.command("diff", epilog=HELP)
@click.argument("a")
@click.argument("b")
@click.option(
    "--fold",
    callback=_folds,
    default="",
    metavar="FOLDS",
    help=f"Differences to ignore, separated by commas: {', '.join(FOLDS)}. "
    "[default: markers if A or B has pieces with markers (## or ▁), else none]",
)
@click.option(
    "--as-stored",
    is_flag=True,
    help="Compare pieces of tokenizers byte for byte, with their markers (## or ▁), and split the "
    "corpus by the same rule for A and B.",
)
@click.option(
    "--corpus",
    multiple=True,
    metavar="FILE",
    help="Documents in which to count the words that A and B know. If A or B has pieces with "
    "markers, A and B each split the documents by their own rule, and pieces are counted too. May "
    "be repeated.",
)
@text_options("the corpus", "an invalid row of the corpus.")
@click.option(
    "--rule",
    callback=check_rule,
    metavar="RULE",
    help=f"Rule that splits the corpus into words, for A and B: {', '.join(NAMED)} or "
    "regex:PATTERN. [default: keras; if A or B has pieces with markers, each uses its own rule]",
)
@click.option(
    "--format",
    "output",
    type=click.Choice(get_args(DiffFormat)),
    help="text: tables on a terminal, else complete tab-separated lists; json: everything; csv and "
    "parquet: complete lists. [default: by the ending of -o, else text]",
)
@OUTPUT
@HTML
@click.option(
    "--limit",
    type=click.IntRange(0),
    metavar="N",
    help="Show at most N entries in each list, lowest ids first. [default: all; a few in tables "
    "and pages]",
)
@click.option(
    "--only",
    type=click.Choice(get_args(Only)),
    help="Print one complete list: a (entries only in A), b (only in B) or both (in both). "
    "For the formats text, csv and parquet. [default: all three lists]",
)
def diff_command(
    a: str,
    b: str,
    fold: tuple[str, ...],
    as_stored: bool,
    corpus: tuple[str, ...],
    read: ReadOptions,
    rule: str | None,
    output: DiffFormat | None,
    file: str,
    html: str | None,
    limit: int | None,
    only: Only | None,
) -> None:
    """Compare the vocabularies A and B: entries in both, and entries in only one."""
    if not corpus and (rule or read.field or read.format):
        raise click.UsageError("--rule, --field and --input-format need --corpus")
    if output is None:
        check_ending(file)
    check_files(file, html, output)
    if only is not None:  # other formats contain the whole comparison
        ending = Path(file).suffix.lower()
        if html is not None or output == "json" or (output is None and ending in WHOLE):
            raise click.UsageError(
                "--only works with text, csv and parquet, not with json and --html"
            )
    import pyarrow as pa

    from vocabtool.comparison.compare import compare
    from vocabtool.reports.comparison import diff_report, known_to
    from vocabtool.reports.report import percent

    pa.set_memory_pool(pa.system_memory_pool())  # Arrow's allocator needs 25 % more memory here
    comparison = compare(a, b, fold, as_stored)
    tell_notes(comparison.notes)
    if corpus:
        comparison = _weigh(comparison, corpus, read, rule, as_stored)
    report = diff_report(comparison, limit, only)
    deliver_report(report, file, html, output, as_list=only is not None)
    if file == "-" and output in (None, "text") and only is None and width() is not None:
        return  # the printed tables already contain these figures
    tell(
        f"{comparison.common:,} entries common, {comparison.only_a:,} only in {a}, "
        f"{comparison.only_b:,} only in {b}"
    )
    use, cuts = comparison.use, comparison.cuts
    if use is not None:
        known = ", ".join(f"{name} {percent(use.share(tokens))}" for name, tokens in known_to(use))
        tell(f"{use.tokens:,} tokens; known tokens: {known} (rule for both: {use.rule_name})")
    for label, cut in ((a, cuts.a), (b, cuts.b)) if cuts is not None else ():
        tell(
            f"{label}: {cut.tokens:,} words, {cut.pieces:,} pieces, {cut.fertility:.2f} pieces "
            f"per word, {cut.unknown:,} unknown words (by its own rule)"
        )


def _weigh(
    comparison: Diff, corpus: tuple[str, ...], read: ReadOptions, rule: str | None, as_stored: bool
) -> Diff:
    from vocabtool.comparison.compare import weigh
    from vocabtool.documents.reading import ReadLog, left_out

    log = ReadLog()
    texts = (batch.texts for batch in read_documents(corpus, read, log, BATCH_BYTES))
    weighed = weigh(comparison, texts, corpus, rule=rule, as_stored=as_stored)
    tell_skipped(log.skipped)
    counted = weighed.use or weighed.cuts
    refuse_nothing(counted.documents if counted else 0, corpus, skipped=log.skipped.first)
    weighed = replace(weighed, notes=weighed.notes + left_out([*corpus], read))
    tell_notes(weighed.notes[len(comparison.notes) :])
    return weighed
