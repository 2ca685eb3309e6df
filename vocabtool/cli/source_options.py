"""Options of commands that run a model over documents: the model, and where documents come from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import click

from vocabtool.cli.command_streams import ERRORS, FIELD, SOURCE_FORMATS
from vocabtool.cli.text_commands import checked_rule
from vocabtool.documents.options import OnDuplicate

# Repeated here, and held equal by a test, so that `--help` need not load NumPy.
KINDS = ("tensorflow", "static", "sentence-transformers", "python")
WEIGHTINGS = ("none", "idf", "sif")
DUPLICATES = get_args(OnDuplicate)


def together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options as one decorator, in their order."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


ENCODER = together(
    click.option(
        "--encoder", "kind", type=click.Choice(KINDS), help="[default: MODEL's content tells]"
    ),
    click.option("--signature", help="Of a TensorFlow model: which function takes the texts."),
    click.option("--output", "model_output", help="Of a TensorFlow model: which output is meant."),
    click.option("--name", help="The vocabulary, as inspect prints its name."),
    click.option(
        "--fingerprint",
        help="Of a Python callable: a text that changes when its vectors do. [default: its source]",
    ),
    click.option(
        "--rule", callback=checked_rule, help="How texts become words. [default: as the model does]"
    ),
    click.option(
        "--trust",
        is_flag=True,
        help="Run a model even though it reads files, uses the network or runs Python.",
    ),
    click.option(
        "--weights",
        type=click.Choice(WEIGHTINGS),
        help="Of word vectors: how words weigh; fitted on the corpus. [default: idf]",
    ),
    click.option(
        "--remove-component",
        is_flag=True,
        default=None,
        help="Of word vectors: take out what all texts have in common.",
    ),
    click.option(
        "--fitted",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="Of word vectors: weights fitted before, the _weights.json of a DIR.",
    ),
)
DOCUMENTS = together(
    FIELD,
    click.option(
        "--input-format",
        "source_format",
        type=click.Choice(SOURCE_FORMATS),
        help="[default: each file's ending tells; else lines of text]",
    ),
    click.option("--id-field", help="Which field is the id. [default: FILE:LINE]"),
    click.option(
        "--keep", multiple=True, metavar="FIELD", help="Store this field too; may be repeated."
    ),
    click.option(
        "--on-error",
        type=click.Choice(ERRORS),
        default="raise",
        show_default=True,
        help="What becomes of a row that is no document, and in an index of a value that is not of "
        "its field's kind: an error, or left out and counted.",
    ),
    click.option(
        "--on-duplicate",
        type=click.Choice(DUPLICATES),
        default="error",
        show_default=True,
        help="What becomes of documents with the same id.",
    ),
)
