"""Commands that read a model: ``inspect``, ``extract`` and ``words``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

import vocabtool
from vocabtool.cli.options import (
    NAME,
    OUTPUT,
    RULES,
    check_rule,
    format_option,
    gather,
    split_model,
)
from vocabtool.cli.output import check_ending, check_files, show_report, standard_output, width
from vocabtool.system.messages import plural, tell

if TYPE_CHECKING:
    from vocabtool.formats.vocabulary_files import FileFormat
    from vocabtool.reports.report import Report
    from vocabtool.tokenization.words import Words

EXTRACT_FORMATS = ("text", "json", "csv", "parquet")

MODEL_HELP = """MODEL is the folder of a SavedModel, a frozen graph's .pb, a TensorFlow Hub handle
(https://...) that is in the local cache, or another file with a vocabulary: a .keras archive, a
tokenizer.json, vocab.json or vocab.txt, a SentencePiece model, tiktoken ranks, GGUF, ONNX, TFLite,
TensorFlow.js, word vectors (GloVe, word2vec, fastText, .npz), a word list, a file that extract
wrote, a spaCy pipeline, a static embedding (model2vec), an ONNX graph beside a tokenizer.json, or a
folder of such files. The content of a file shows its format. MODEL#NAME selects one of several
vocabularies. The model is not run. TensorFlow is not needed."""


@click.command("inspect", epilog=MODEL_HELP)
@click.argument("model")
@click.option(
    "--all",
    "show_all",
    is_flag=True,
    help="Also list constants of fewer than ten strings, and skipped lists with the reason "
    "for skipping.",
)
@format_option("Table (tab-separated if not on a terminal), or JSON.", people="table")
def inspect_command(model: str, show_all: bool, report_format: Literal["table", "json"]) -> None:
    """List every vocabulary in MODEL: name, kind, size, ids, location.

    In JSON, `"complete": true` means that vocabtool read every place where it expects words in this
    format. Other places can exist: skipped lists (see --all), folders inside a folder, code, and
    custom ops.
    """
    from vocabtool.formats.registry import choose
    from vocabtool.reports.inspection import model_report

    path, name = split_model(model, None)
    found = vocabtool.inspect(path, small=show_all or name is not None)
    if name is not None:
        found = found._replace(vocabularies=(choose(found, name),))
    report = model_report(found, passed_over=show_all)
    _show(report, report_format)
    if report_format != "json" and not found.vocabularies:
        passed = f"{len(found.passed_over)} lists skipped"
        tell(f"{found.path}: no vocabulary found ({found.format}; {passed})")
    for warning in found.warnings:
        tell(f"incomplete: {warning}")


@click.command("extract", epilog=MODEL_HELP)
@click.argument("model")
@click.option(
    "--name",
    metavar="NAME",
    help="Name of the vocabulary, as inspect prints it. "
    "[default: the largest lookup table, else the largest list]",
)
@click.option(
    "--format",
    "output",
    type=click.Choice(EXTRACT_FORMATS),
    help="text: one entry a line; csv: with ids; json and parquet: everything. "
    "[default: by the ending of FILE; text for .txt or no ending]",
)
@OUTPUT
def extract_command(model: str, name: str | None, output: FileFormat | None, file: str) -> None:
    """Write the words of one vocabulary in MODEL, in the order of their ids."""
    from vocabtool.formats import vocabulary_files
    from vocabtool.formats.registry import choose

    if output is None and file:
        check_ending(file, vocabulary_files.ENDINGS)
    check_files(file, None, output)
    path, name = split_model(model, name)
    found = vocabtool.inspect(path, small=name is not None)
    vocabulary = choose(found, name)
    for warning in found.warnings:
        tell(f"incomplete: {warning}")
    if file == "-":
        escaped = vocabulary_files.write(vocabulary, sys.stdout.buffer, output or "text")
        sys.stdout.flush()  # report a write error before any message
    else:
        escaped = vocabulary_files.save(vocabulary, file, output)
        output = output or vocabulary_files.ENDINGS.get(Path(file).suffix.lower())
    if name is None:
        among = len(found.vocabularies)
        others = f", the first of {among}; use --name for another" if among > 1 else ""
        tell(f"{vocabulary.name}: {len(vocabulary):,} entries ({vocabulary.kind}){others}")
    if escaped:
        tell(
            f"{plural(escaped, 'entry', 'entries')} written with backslash escapes, because of "
            "line breaks or invalid UTF-8"
        )
    if output in (None, "text") and (vocabulary.first_id or vocabulary.ids is not None):
        tell(
            f"--format text omits the ids ({vocabulary.id_range}); use --format json to write them"
        )


WORDS_MODEL = """MODEL is the folder of a SavedModel, a frozen graph's .pb, a TensorFlow Hub handle
(https://...) that is in the local cache, a SentencePiece model, a tokenizer.json, a GGUF file, a
vocab.txt or vocab.json with its tokenizer_config.json, a Keras tokenizer, tekken.json, ranks that
OpenAI publishes, tiktoken:NAME, a static embedding (model2vec), an ONNX graph beside a
tokenizer.json, or word vectors of `vocabtool train`: these define how texts become words. For other
word vectors, the rule that fits their entries best is used without --rule. Any other file or folder
that `vocabtool extract` reads needs --rule. MODEL#NAME is the same as --name NAME."""
WORDS_OPTIONS = gather(
    "options",
    NAME,
    click.option(
        "--rule",
        callback=check_rule,
        metavar="RULE",
        help=f"Rule that splits texts into words, for models without a rule of their own: {RULES}. "
        "Take the rule that the model was trained with: keras for TextVectorization, ptb for "
        "GloVe, tokenizer:FILE for subword pieces, lower for lower-cased entries, else whitespace.",
    ),
)


@click.command("words", epilog=WORDS_MODEL)
@click.argument("model")
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@WORDS_OPTIONS
@click.option(
    "--beside",
    multiple=True,
    metavar="MODEL",
    help="Also show the pieces into which another MODEL splits TEXT by its own rule. May be "
    "repeated.",
)
@format_option("Columns (tab-separated if not on a terminal), or JSON.", people="table")
def words_command(
    model: str,
    texts: tuple[str, ...],
    beside: tuple[str, ...],
    report_format: Literal["table", "json"],
    options: dict[str, Any],
) -> None:
    """Show how MODEL splits TEXT into words, and which words it knows."""
    from vocabtool.reports.inspection import words_report

    own_rule = {**options, "name": None, "rule": None}
    others = [(other, open_words(other, own_rule)) for other in beside]
    report = words_report(open_words(model, options), texts, model, others)
    _show(report, report_format)


def _show(report: Report, report_format: Literal["table", "json"]) -> None:
    """Print a report; a table in the encoding of standard output, JSON in UTF-8."""
    from vocabtool.reports.render import render_text

    if report_format == "json":
        show_report(report, report_format)
        return
    with standard_output():
        sys.stdout.writelines(render_text(report, width()))


def open_words(model: str, options: dict[str, Any]) -> Words:
    """Return the ``Words`` of MODEL; ``options``: the values of ``WORDS_OPTIONS``."""
    from vocabtool.tokenization.words import Words

    path, name = split_model(model, options["name"])
    return Words.of(path, **{**options, "name": name})
