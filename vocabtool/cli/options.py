"""Options and arguments that several commands share, and the settings file ``vocabtool.toml``.

The settings file has names of indexes, with their folders, FILEs and options. A value
``python:...`` runs Python, and a value ``openai:...`` sends texts and a key to a server. Both need
--trust on the command line. ``docs/reference/settings.md`` has an example.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import click

from vocabtool.choices import RULE_NAMES, choices_in, options_of
from vocabtool.documents.options import ReadOptions
from vocabtool.errors import InvalidFile, NotFound, VocabtoolError, reading
from vocabtool.formats.files import split_kind

Decorator = Callable[[Any], Any]
type_hints: Final = cache(get_type_hints)  # of a dataclass with thirty options, once

RULES: Final = ", ".join(RULE_NAMES)
OF_RUN: Final = ("device", "api_key_env", "timeout")  # of an encoder; an index stores none of them


def gather(argument: str, *options: Decorator, into: Callable[..., Any] = dict) -> Decorator:
    """Pass several options to a command as one ``argument``, which is ``into(name=value, ...)``."""

    def decorate(command: Any) -> Any:
        @wraps(command)
        def run(**given: Any) -> Any:
            value = into(**{name: given.pop(name) for name in names})
            return command(**{argument: value}, **given)

        decorated: Any = run
        # click keeps the options of a function in this list, the newest last.
        before = len(getattr(command, "__click_params__", ()))
        for option in reversed(options):
            decorated = option(decorated)
        names = [option.name for option in decorated.__click_params__[before:]]
        return decorated

    return decorate


def options_for(kind: type, *names: str) -> list[Decorator]:
    return [option_of(kind, name) for name in names]


def option_of(kind: type, name: str) -> Decorator:
    """Return the option of the command line for an option of a dataclass, which describes it."""
    about, hint = options_of(kind)[name], type_hints(kind)[name]
    default = next(field.default for field in fields(kind) if field.name == name)
    dashed, members = name.replace("_", "-"), get_args(hint) or (hint,)
    if about.repeated:
        about = replace(about, help=f"{about.help} May be repeated.")
    flags: Sequence[str] = about.flags or (f"--{dashed}",)
    value_type: Any = str
    if hint is bool:
        value_type = bool
        if default:
            flags = (f"--{dashed}/--no-{dashed}",)
    elif choices := choices_in(hint):
        value_type = click.Choice(choices)
    elif int in members:
        least, most = (None if n is None else int(n) for n in (about.least, about.most))
        value_type = click.IntRange(least, most)
    elif float in members:
        ends = (about.least, about.most)
        value_type = float if ends == (None, None) else click.FloatRange(*ends)
    elif default == () and not about.repeated:
        default = ""
    return click.option(
        *flags,
        name,
        type=value_type,
        is_flag=hint is bool,
        default=default,
        show_default=default not in (None, False, "", ()),
        metavar=about.metavar,
        multiple=about.repeated,
        help=about.full_help,
    )


def default_option(*names: str, default: object, **attributes: Any) -> Decorator:
    """Return an option whose help ends with its default."""
    return click.option(*names, default=default, show_default=True, **attributes)


def file_option(*names: str, metavar: str = "FILE", **attributes: Any) -> Decorator:
    return click.option(*names, type=click.Path(dir_okay=False), metavar=metavar, **attributes)


def check_rule(context: click.Context, option: click.Parameter, spec: str | None) -> str | None:
    if spec is not None:
        from vocabtool.tokenization.rule import makes_pieces, names_tokenizer, parse_rule

        try:
            if not names_tokenizer(spec) and not makes_pieces(spec):
                parse_rule(spec)
        except VocabtoolError as error:
            raise click.BadParameter(str(error)) from error
    return spec


# Output.

OUTPUT = file_option(
    "-o",
    "--output",
    "file",
    default="-",
    help="Write to this file, atomically. [default: standard output]",
)
HTML = file_option("--html", help="Also write an HTML page.")
QUIET = click.option("--quiet", is_flag=True, help="Print no progress and no report.")


def format_option(
    help_text: str = "Format of the report.", choices: tuple[str, str] = ("text", "json")
) -> Decorator:
    """Return the option ``--format`` with two choices; the first is the default."""
    return default_option(
        "--format",
        "report_format",
        type=click.Choice(choices),
        default=choices[0],
        help=help_text,
    )


def rule_option(help_text: str, **attributes: Any) -> Decorator:
    return click.option("--rule", callback=check_rule, metavar="RULE", help=help_text, **attributes)


def output_folder(help_text: str) -> Decorator:
    folder = click.Path(file_okay=False)
    return click.option("-o", "--folder", required=True, type=folder, metavar="DIR", help=help_text)


# Documents.


def _read_options(*, weights: bool = False, **values: Any) -> ReadOptions:
    """``weights``: whether fields may have weights."""
    try:
        read = ReadOptions(**values)
        if not weights:
            read.refuse_weights()
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return read


OF_TEXTS: Final = ("field", "format", "quotes", "on_error")
OF_PIECES: Final = ("id_field", "keep", "split", "split_size", "include", "exclude", "gitignore")
TEXTS = gather("read", *options_for(ReadOptions, *OF_TEXTS), into=_read_options)
EMBEDDED = gather("read", *options_for(ReadOptions, *OF_TEXTS, *OF_PIECES), into=_read_options)
DOCUMENTS = gather(
    "read",
    *options_for(ReadOptions, *OF_TEXTS, *OF_PIECES, "vector_field"),
    into=partial(_read_options, weights=True),
)

VECTORS = file_option(
    "--vectors",
    help="Vectors of the documents: .npy or .parquet (a column of lists, and a column `id`). "
    "Without ids, row N belongs to document N.",
)

# The settings file.

SETTINGS_FILE: Final = "vocabtool.toml"
MAX_SETTINGS_BYTES: Final = 1 << 20
SHARED: Final = ("model", "calibrate", "timeout", "device")  # also of other commands
# A file of others must not choose which secret is sent to a server, or what is replaced.
BY_HAND: Final = ("api-key-env", "force", "help", "trust")
DANGEROUS: Final = ("python:", "openai:")  # how models begin that need --trust


def folder_of(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return the folder of the index named DIR, or DIR itself if it is a path or an address."""
    file = _settings_file(context, value)
    if file is None:
        return value
    folder = str(_table(context, file, value, SHARED)["folder"])
    return folder if "://" in folder else str(file.parent / folder)


def files_of(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the FILEs of the index if the only argument is its name; all options then come from
    the settings, and all paths begin at the folder of the settings file."""
    file = _settings_file(context, values[0]) if len(values) == 1 else None
    if file is None:
        return values
    table = _table(context, file, values[0], None)
    os.chdir(file.parent)
    return tuple(table["files"])


def _settings_file(context: click.Context, name: str) -> Path | None:
    """Return the file that --config names, or else the nearest one; ``None`` for a path."""
    if name == "-" or os.path.lexists(name) or {*name} & {*"/:*?["}:
        return None
    config = context.find_root().params.get("config")
    if config:
        return Path(config).absolute()
    files = (folder / SETTINGS_FILE for folder in (Path.cwd() / SETTINGS_FILE).parents)
    return next((file for file in files if file.is_file()), None)


def _table(
    context: click.Context, file: Path, name: str, shared: tuple[str, ...] | None
) -> dict[str, Any]:
    """Return the table of an index. Set the command's defaults: all options, or ``shared`` ones."""
    with reading(str(file)), file.open("rb") as opened:
        data, where = opened.read(MAX_SETTINGS_BYTES + 1), f"[index.{name}]"
        try:
            if len(data) > MAX_SETTINGS_BYTES:
                raise ValueError(f"more than {MAX_SETTINGS_BYTES:,} bytes")
            table: Any = tomllib.loads(data.decode())["index"].get(name)
        except (ValueError, RecursionError, LookupError, AttributeError, TypeError) as error:
            raise InvalidFile(f"wanted TOML with tables [index.NAME]: {error}") from error
        if table is None:
            raise NotFound(f"{name}: no such file or folder, and no [index.{name}] in {file}")
        files = table.get("files") if isinstance(table, dict) else None
        texts = [table.get("folder"), *files] if isinstance(files, list) and files else [None]
        if not all(isinstance(text, str) and "\0" not in text for text in texts):
            raise InvalidFile(f"{where} wanted a text `folder`, and a list of texts `files`")
        options = {opt.lstrip("-"): o for o in context.command.params for opt in o.opts}
        context.default_map = {}
        for key in {*table} - {"files"} if shared is None else {*shared} & {*table} & {*options}:
            option, value = options.get(key), table[key]
            if option is None or key in BY_HAND or isinstance(value, list) != option.multiple:
                raise InvalidFile(f"{where} {key}: unknown, not allowed, or no list")
            if str(value).startswith(DANGEROUS) and not context.params.get("trust"):
                needed = "--trust on the command line: it runs Python or sends texts to a server"
                raise InvalidFile(f"{where} {key}: {value} needs {needed}")
            if key == "model":  # paths begin at the folder of the settings file
                kind, path = split_kind(str(value))
                if (file.parent / path.partition("#")[0]).exists():
                    value = f"{kind}{file.parent / path}"
            context.default_map[str(option.name)] = value
            try:
                option.process_value(context, value)
            except click.BadParameter as error:
                raise InvalidFile(f"{where} {key}: {error.message}") from error
    if str(table.get("model")).startswith(DANGEROUS) and context.params.get("trust"):
        context.params["trust"] = False  # it allowed the model, which takes no such option
    return dict(table)


# Indexes.

DIR = click.argument("folder", type=click.Path(file_okay=False), metavar="DIR", callback=folder_of)
