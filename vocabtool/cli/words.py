"""The command that looks at texts with a model's eyes: ``words``; and how ``oov`` names a model."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal

import click

from vocabtool.cli.options import NAME, RULES, TRUST, check_rule, gather, split_model
from vocabtool.cli.output import standard_output, width

if TYPE_CHECKING:
    from vocabtool.tokenization.words import Words

MODEL_HELP = """MODEL is the folder of a SavedModel, a frozen graph's .pb, a TensorFlow Hub handle
(https://...) that is in the local cache, a SentencePiece model, or a Hugging Face tokenizer.json:
these say themselves how texts are cut into words. It may be any other file or folder that
`vocabtool extract` reads, where --rule must say so. MODEL#NAME is the same as --name NAME."""
WORDS_OPTIONS = gather(
    "options",
    NAME,
    click.option(
        "--rule",
        callback=check_rule,
        help=f"How texts become words where no model says: {RULES}. [default: as the model does]",
    ),
    click.option(
        "--exact-words",
        "exact",
        is_flag=True,
        help="Run the model itself and take the words that it looks up. Needs TensorFlow: "
        "pip install '.[tensorflow]'.",
    ),
    TRUST,
)


@click.command("words", epilog=MODEL_HELP)
@click.argument("model")
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@WORDS_OPTIONS
@click.option(
    "--format",
    "output",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="Columns (tab-separated where no terminal is), or JSON.",
)
def words_command(
    model: str, texts: tuple[str, ...], output: Literal["table", "json"], options: dict[str, Any]
) -> None:
    """Show how MODEL makes words of a text, and which words of TEXT it knows."""
    from vocabtool.reports import words as words_report

    words = open_words(model, options)
    with standard_output() as out:
        if output == "json":
            text = words_report.to_json(words, texts)
            out.write(text.encode("utf-8", "backslashreplace") + b"\n")
        else:
            sys.stdout.write(words_report.to_text(words, texts, tabs=width() is None))


def open_words(model: str, options: dict[str, Any]) -> Words:
    """The words of MODEL, by the options of ``WORDS_OPTIONS``."""
    from vocabtool.tokenization.words import Words

    if options["exact"] and options["rule"] is not None:
        raise click.UsageError("--exact-words are the model's own: not with --rule")
    path, name = split_model(model, options["name"])
    return Words.of(path, **{**options, "name": name})
