"""Options and arguments that several commands share, each written once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, get_args

import click

from vocabtool.choices import RULE_NAMES, EncoderKind, Weighting
from vocabtool.documents.options import Format, OnDuplicate, OnError, ReadOptions
from vocabtool.errors import VocabtoolError

if TYPE_CHECKING:
    from vocabtool.encoders.encoder import EncoderOptions

Decorator = Callable[[Any], Any]

RULES: Final = ", ".join(RULE_NAMES)


def gather(argument: str, *options: Decorator, into: Callable[..., Any] = dict) -> Decorator:
    """Options that the command gets as one argument, made ``into`` of their values by name."""

    def probe() -> None: ...

    names = [option.name for option in _together(*options)(probe).__click_params__]

    def decorate(command: Any) -> Any:
        @wraps(command)
        def run(**given: Any) -> Any:
            return command(**{argument: into(**{name: given.pop(name) for name in names})}, **given)

        return _together(*options)(run)

    return decorate


def _together(*options: Decorator) -> Decorator:
    """Several options as one decorator, in their order."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def check_rule(context: click.Context, option: click.Parameter, spec: str | None) -> str | None:
    """Refuse a rule that there is not."""
    if spec is not None:
        from vocabtool.tokenization.rule import parse_rule, tokenizer_file

        try:
            if tokenizer_file(spec) is None:
                parse_rule(spec)
        except VocabtoolError as error:
            raise click.BadParameter(str(error)) from error
    return spec


def split_model(model: str, name: str | None) -> tuple[str, str | None]:
    """The path of MODEL, and which vocabulary is meant: by ``#NAME`` or by ``--name``."""
    from vocabtool.formats.registry import split_name

    path, own = split_name(model)
    if own is not None and name is not None:
        raise click.UsageError("--name is the name of a vocabulary, and so is what follows #")
    return path, name if own is None else own


# Output.

OUTPUT = click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(dir_okay=False),
    default="-",
    help="FILE to write; it appears when it is complete. [default: standard output]",
)
HTML = click.option("--html", type=click.Path(dir_okay=False), help="Also write a page with plots.")
QUIET = click.option("--quiet", is_flag=True, help="No progress and no report.")


def format_option(help_text: str | None = None, *, people: str = "text") -> Decorator:
    """``--format`` of a report that is text or JSON. ``people``: the name of the first."""
    return click.option(
        "--format",
        "report_format",
        type=click.Choice((people, "json")),
        default=people,
        show_default=True,
        help=help_text,
    )


# Models.

NAME = click.option("--name", help="The vocabulary, as inspect prints its name.")
TRUST = click.option(
    "--trust",
    is_flag=True,
    help="Run a model even though it reads files, uses the network or runs Python.",
)


def encoder_options(*first: Decorator) -> Decorator:
    """:class:`EncoderOptions` as ``encoder``; ``first``: further ones that stand above them."""

    def make(**given: Any) -> EncoderOptions:
        from vocabtool.encoders.encoder import EncoderOptions  # loads NumPy

        return EncoderOptions(**given)

    return gather(
        "encoder",
        *first,
        click.option(
            "--encoder",
            "kind",
            type=click.Choice(get_args(EncoderKind)),
            help="[default: MODEL's content tells]",
        ),
        click.option("--signature", help="Of a TensorFlow model: which function takes the texts."),
        click.option("--output", "output", help="Of a TensorFlow model: which output is meant."),
        NAME,
        click.option(
            "--fingerprint",
            help="Of a Python callable: a text that changes when its vectors do. "
            "[default: its source]",
        ),
        click.option(
            "--rule",
            callback=check_rule,
            help="How texts become words. [default: as the model does]",
        ),
        TRUST,
        click.option(
            "--weights",
            type=click.Choice(get_args(Weighting)),
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
        into=make,
    )


# Documents.

FIELD = click.option(
    "--field", help="Which field or column holds the text. [default: text, or the only]"
)


def _input_format(of: str = "") -> Decorator:
    return click.option(
        "--input-format",
        "format",
        type=click.Choice(get_args(Format)),
        help=f"{of}[default: each file's ending tells; else lines of text]",
    )


def _on_error(what: str) -> Decorator:
    return click.option(
        "--on-error",
        type=click.Choice(get_args(OnError)),
        default="raise",
        show_default=True,
        help=f"What becomes of {what}",
    )


def text_options(of: str, what: str) -> Decorator:
    """:class:`ReadOptions` as ``read``, of texts without ids.

    ``of``: a sentence in front of the help of ``--input-format``; ``what``: ``--on-error`` is
    about, as "a bad row."
    """
    return gather("read", FIELD, _input_format(of), _on_error(what), into=ReadOptions)


DOCUMENTS = gather(
    "read",
    FIELD,
    _input_format(),
    click.option("--id-field", help="Which field is the id. [default: FILE:LINE]"),
    click.option(
        "--keep", multiple=True, metavar="FIELD", help="Store this field too; may be repeated."
    ),
    _on_error(
        "a row that is no document, and in an index of a value that is not of its field's kind: "
        "an error, or left out and counted."
    ),
    click.option(
        "--on-duplicate",
        type=click.Choice(get_args(OnDuplicate)),
        default="error",
        show_default=True,
        help="What becomes of documents with the same id.",
    ),
    into=ReadOptions,
)

# Indexes.

DIR = click.argument("folder", type=click.Path(file_okay=False), metavar="DIR")
INDEX_MODEL = gather(
    "model",
    click.option("--model", help="What made the vectors. [default: as the index was made with]"),
    TRUST,
)
