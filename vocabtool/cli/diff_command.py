"""The command that compares vocabularies: ``diff``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

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
from vocabtool.system.telling import tell, width

if TYPE_CHECKING:
    from vocabtool.comparison.diff import Diff
    from vocabtool.comparison.use import Use
    from vocabtool.documents.reading import Format as SourceFormat
    from vocabtool.documents.reading import OnError
    from vocabtool.reports.comparison.rows import Only

DiffFormat = Literal["text", "json", "csv", "parquet"]
FOLDS = ("case", "nfkc", "markers")  # held equal to comparison.folding.FOLDS by a test
ONLY = ("a", "b", "both")  # as diff_report_files.rows.Only, by a test too
RULES = "whitespace, lower, keras, ptb, tokenizer:FILE, regex:PATTERN"
WHOLE = (".json", ".html")  # endings of files that hold the whole comparison
SIZE = 4 << 20  # bytes of text counted together

HELP = """A and B are models or files of words, whatever `vocabtool extract` takes; FILE#NAME is one
of several vocabularies in FILE, as inspect prints its name. Entries are compared byte for byte
unless --fold says otherwise. More than two give a table of all pairs."""


def _folds(context: click.Context, option: click.Parameter, text: str) -> tuple[str, ...]:
    """``case,nfkc`` as names."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in FOLDS:
            raise click.BadParameter(f"wanted some of {', '.join(FOLDS)}, got {name!r}")
    return names


def _rule(context: click.Context, option: click.Parameter, spec: str | None) -> str | None:
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


@click.command("diff", epilog=HELP)
@click.argument("vocabularies", nargs=-1, required=True, metavar="A B [C]...")
@click.option(
    "--fold",
    callback=_folds,
    default="",
    metavar="FOLDS",
    help=f"Compare entries without these: some of {','.join(FOLDS)}. [default: none; what each "
    "would change is told in any case]",
)
@click.option(
    "--corpus",
    multiple=True,
    metavar="FILE",
    help="Weigh the difference by the words of these documents, as oov reads them; repeatable.",
)
@FIELD
@click.option(
    "--input-format",
    "source_format",
    type=click.Choice(SOURCE_FORMATS),
    help="Of the corpus. [default: each file's ending tells; else lines of text]",
)
@click.option(
    "--on-error",
    type=click.Choice(ERRORS),
    default="raise",
    show_default=True,
    help="What becomes of a row of the corpus that is no document.",
)
@click.option(
    "--rule",
    callback=_rule,
    help=f"How the corpus becomes words, the same for A and B: {RULES}. [default: keras]",
)
@click.option(
    "--format",
    "output",
    type=click.Choice(get_args(DiffFormat)),
    help="Tables, or complete lists tab-separated where no terminal is (text); all of it (json); "
    "complete lists (csv, parquet). [default: by the ending of -o, else text]",
)
@OUTPUT
@HTML
@click.option(
    "--limit",
    type=click.IntRange(0),
    metavar="N",
    help="How many entries of each list, those with the lowest ids. [default: all; in tables and "
    "pages a few]",
)
@click.option(
    "--only",
    type=click.Choice(ONLY),
    help="Just the complete list of what only A holds, only B, or both: text, csv, parquet. "
    "[default: all three]",
)
def diff_command(
    vocabularies: tuple[str, ...],
    fold: tuple[str, ...],
    corpus: tuple[str, ...],
    field: str | None,
    source_format: SourceFormat | None,
    on_error: OnError,
    rule: str | None,
    output: DiffFormat | None,
    file: str,
    html: str | None,
    limit: int | None,
    only: Only | None,
) -> None:
    """Compare the vocabularies of A and B: what both hold, and what one of them only."""
    if len(vocabularies) < 2:
        raise click.UsageError("wanted two vocabularies or more, got one")
    if not corpus and (rule or field or source_format):
        raise click.UsageError("--rule, --field and --input-format are for --corpus")
    if output is None:
        check_ending(file)
    check_files(file, html, output)
    if only is not None:
        _check_only(vocabularies, file, html, output)
    from vocabtool.system.allocation import keep_what_is_freed

    keep_what_is_freed()
    if len(vocabularies) > 2:
        if corpus:
            raise click.UsageError("--corpus weighs two vocabularies, not more")
        _pairs(vocabularies, fold, file, html, output)
        return
    reading = {"field": field, "format": source_format, "on_error": on_error}
    found = _compared(vocabularies, fold, corpus, rule, reading)
    if html is not None:
        _write_page(found, html, limit)
    _write(found, file, output, limit, only)


def _compared(
    names: tuple[str, ...],
    fold: tuple[str, ...],
    corpus: tuple[str, ...],
    rule: str | None,
    reading: dict[str, Any],
) -> Diff:
    from vocabtool.comparison import diff
    from vocabtool.comparison.folding import checked

    folds = checked(fold)
    (one, notes_a), (other, notes_b) = (diff.taken(name) for name in names)
    found = diff.compare(one, other, folds, (names[0], names[1]), notes_a + notes_b)
    _tell_notes(found.notes)
    if not corpus:
        return found
    from vocabtool.comparison.use import UseCounter
    from vocabtool.documents import reading as documents

    counter = UseCounter(one, other, rule=rule, folds=folds)
    skipped = documents.Skipped()
    batches = documents.batches(corpus, skipped=skipped, size=SIZE, **reading)
    counter.count(batch.texts for batch in watched(batches))
    tell_skipped(skipped)
    use = counter.report(corpus)
    refuse_nothing(use.documents, corpus)
    left_out = documents.left_out([*corpus])
    _tell_notes(left_out)
    return replace(diff.weighed(found, use), notes=found.notes + left_out)


def _check_only(
    names: tuple[str, ...], file: str, html: str | None, output: DiffFormat | None
) -> None:
    """``--only`` restricts lists of entries, and nothing else holds just these."""
    whole = output == "json" or (output is None and Path(file).suffix.lower() in WHOLE)
    if whole or html is not None:
        raise click.UsageError("--only is for text, csv and parquet: not for JSON and pages")
    if len(names) > 2:
        raise click.UsageError("--only wants two vocabularies, not more")


def _write_page(found: Diff, html: str, limit: int | None) -> None:
    from vocabtool.reports import comparison as diff_report_files

    diff_report_files.save_diff(found, html, "html", most=limit)


def _write(
    found: Diff, file: str, output: DiffFormat | None, limit: int | None, only: Only | None
) -> None:
    from vocabtool.reports import comparison as diff_report_files

    if file != "-":
        diff_report_files.save_diff(found, file, output, most=limit, only=only)
    else:
        with standard_output() as out:
            diff_report_files.write(
                found, out, output or "text", width=width(), most=limit, only=only
            )
    if file == "-" and output in (None, "text") and only is None and width() is not None:
        return
    tell(
        f"{found.common:,} entries common, {found.only_a:,} only in {found.a.label}, "
        f"{found.only_b:,} only in {found.b.label}"
    )
    if found.use is not None:
        _tell_use(found.use)


def _tell_notes(notes: Iterable[str]) -> None:
    """What files say of themselves holds names of strangers: it is made printable."""
    from vocabtool.vocabulary import encode, printable

    for note in notes:
        tell(printable(encode(note)))


def _tell_use(use: Use) -> None:
    from vocabtool.reports.comparison.plain_words import knowing
    from vocabtool.reports.oov.plain_words import percent

    known = ", ".join(f"{name} {percent(use.share(tokens))}" for name, tokens in knowing(use))
    tell(f"of {use.tokens:,} tokens known to {known} (rule for both: {use.rule_name})")


def _pairs(
    names: tuple[str, ...],
    fold: tuple[str, ...],
    file: str,
    html: str | None,
    output: DiffFormat | None,
) -> None:
    from vocabtool.comparison.pairwise import pairwise
    from vocabtool.reports.comparison import pairs

    found = pairwise(names, fold=fold)
    _tell_notes(found.notes)
    if html is not None:
        pairs.save_pairs(found, html, "html")
    if file != "-":
        pairs.save_pairs(found, file, output)
    else:
        with standard_output() as out:
            pairs.write(found, out, output or "text", width=width())
