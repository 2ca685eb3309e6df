"""The settings file ``vocabtool.toml``: names of indexes, with their folders, FILEs and options.

A value ``python:...`` runs Python, and a value ``openai:...`` sends texts and a key to a server.
Both need --trust on the command line. ``docs/reference/settings.md`` has an example.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, Final

import click

from vocabtool.errors import InvalidFile, NotFound, reading

FILE: Final = "vocabtool.toml"
MAX_BYTES: Final = 1 << 20
SHARED: Final = ("model", "memory", "calibrate", "timeout")  # also of other commands
# A file of others must not choose which secret is sent to a server, or what is replaced.
BY_HAND: Final = ("api-key-env", "force", "help", "trust")


def folder_of(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return the folder of the index named DIR, or DIR itself if it is a path or an address."""
    if os.path.lexists(value) or (file := _file(context)) is None or {*value} & {*"/:"}:
        return value
    table = _table(context, file, value, SHARED)
    folder = str(table["folder"])
    return folder if "://" in folder else str(file.parent / folder)


def files_of(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the FILEs of the index if the only argument is its name.

    All options then come from the settings, and all paths begin at the folder of the file.
    """
    name, file = values[0] if len(values) == 1 else "-", _file(context)
    if file is None or name == "-" or os.path.lexists(name) or {*name} & {*"/:*?["}:
        return values
    table = _table(context, file, name, None)
    os.chdir(file.parent)
    return tuple(table["files"])


def _file(context: click.Context) -> Path | None:
    """Return the settings file that --config names, or else the nearest one, if there is one."""
    if config := context.find_root().params.get("config"):
        return Path(config).absolute()
    return next((f / FILE for f in (Path.cwd() / FILE).parents if (f / FILE).is_file()), None)


def _table(
    context: click.Context, file: Path, name: str, shared: tuple[str, ...] | None
) -> dict[str, Any]:
    """Return the table of an index. Set the command's defaults: all options, or ``shared`` ones."""
    with reading(str(file)), file.open("rb") as opened:
        try:
            table = tomllib.loads(opened.read(MAX_BYTES).decode())["index"].get(name)
        except (ValueError, RecursionError, LookupError, AttributeError, TypeError) as error:
            raise InvalidFile(f"wanted TOML with tables [index.NAME]: {error}") from error
        if table is None:
            raise NotFound(f"{name}: no such file or folder, and no [index.{name}] in {file}")
        if not isinstance(table, dict) or not {"folder", "files"} <= {*table}:
            raise InvalidFile(f"[index.{name}] wanted a table with `folder` and `files`")
        options = {opt.lstrip("-"): o for o in context.command.params for opt in o.opts}
        context.default_map = {}
        for key in {*table} - {"files"} if shared is None else {*shared} & {*table} & {*options}:
            option, value = options.get(key), table[key]
            if option is None or key in BY_HAND or isinstance(value, list) != option.multiple:
                raise InvalidFile(f"[index.{name}] {key}: unknown, not allowed, or no list")
            if str(value).startswith(("python:", "openai:")) and not context.params.get("trust"):
                raise InvalidFile(
                    f"[index.{name}] {key}: {value} runs Python or sends texts to a server; to "
                    "allow it, pass --trust on the command line"
                )
            is_file = key == "model" and (file.parent / str(value)).exists()
            context.default_map[str(option.name)] = str(file.parent / value) if is_file else value
            try:
                option.process_value(context, value)
            except click.BadParameter as error:
                raise InvalidFile(f"[index.{name}] {key}: {error.message}") from error
    is_dangerous = str(table.get("model")).startswith(("python:", "openai:"))
    if is_dangerous and context.params.get("trust"):
        context.params["trust"] = False  # it allowed the model, which takes no such option
    return table
