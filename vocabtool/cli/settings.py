"""Read the settings file, which contains the folders and options of named indexes.

``docs/reference/settings.md`` has an example and the rules. A value ``python:...`` runs Python, and
a value ``openai:...`` sends texts and a key to a server. Both need --trust on the command line.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import click

from vocabtool.errors import InvalidFile, NotFound, reading

if TYPE_CHECKING:
    from vocabtool.index.index import Index

NAMES: Final = ("vocabtool.toml", "pyproject.toml")
MAX_BYTES: Final = 1 << 20
CONFIG_KEY: Final = "vocabtool.config"  # in the context of click: the value of --config
INDEX_KEY: Final = "vocabtool.index"  # and the settings that apply
FILES: Final = "files"
FOLDER: Final = "folder"
# Options of `index` that other commands take, too, if they have them.
SHARED: Final = (
    *("model", "vocabulary", "memory", "commit-rows", "threads", "calibrate"),
    *("requests", "requests-per-minute", "tokens-per-minute", "timeout", "retries"),
)
PATHS: Final = ("model", "vocabulary")
ALONE: Final = ("verify",)  # takes the folder only: with a model, it would encode documents
# Only on the command line: a file of others must not choose which secret is sent to a server, which
# file is written, or (``beside``, with a value in a value) what is run.
BY_HAND: Final = (
    *("api-key-env", "beside", "config", "dry-run", "force", "help", "html", "trust"),
    "whole-index",
)
DANGERS: Final = {
    "python": "runs Python code",
    "openai": "sends texts, and the key in the environment, to a server",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSettings:
    """The settings of one index.

    ``file``: absolute path of the settings file. ``values``: the values in the file, by key.
    """

    name: str
    file: Path
    values: Mapping[str, Any]

    @property
    def folder(self) -> str:
        """The absolute path of the index's folder, or the address of the index."""
        given = str(self.values[FOLDER])
        return given if _is_address(given) else str(self.file.parent / given)

    @property
    def files(self) -> list[str]:
        """The FILEs as written. A relative path starts at the folder of the settings file."""
        given = self.values.get(FILES, [])
        return [given] if isinstance(given, str) else [*given]

    def error(self, what: str, part: str = "") -> InvalidFile:
        """Return an error about ``[index.NAME]``, or about ``[index.NAME.part]``."""
        name = f"{self.name}.{part}" if part else self.name
        return InvalidFile(f"[index.{name}] {what}", file=str(self.file))


def folder_of(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return the folder that DIR stands for: DIR itself, or the folder of the index named DIR.

    For a named index, also sets the defaults of the command's other options. Raises
    :class:`NotFound` for an unknown name, and :class:`InvalidFile` for an invalid settings file.
    """
    from vocabtool.index.folder import is_index

    is_folder = os.path.isdir(value)  # noqa: PTH112 - accepts any length
    if is_folder and is_index(Path(value)):
        return value
    found = _find(context, value)
    if found is None:
        return value
    if is_folder:
        raise NotFound(
            f"{value}: this folder has no index, but is named like [index.{value}] in "
            f"{found.file}. Rename one of them, or pass "
            + ("its address" if _is_address(found.folder) else quote(found.folder))
        )
    command = context.command.name or ""
    if not _is_address(found.folder) and not is_index(Path(found.folder)):
        raise NotFound(
            f"{found.folder}: no index yet; create it with `vocabtool index {quote(value)}`"
        )
    chosen = {} if command in ALONE else _with_paths(found)
    _set_defaults(context, found, chosen)
    return found.folder


def files_of(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the FILEs that ``vocabtool index`` reads.

    If the argument is the name of an index, they come from the settings. Then this function also
    sets the defaults of all options, and changes the current folder to the folder of the settings
    file. Raises the errors of :func:`folder_of`.
    """
    if len(values) != 1 or values == ("-",):
        return values
    is_there, has_folder = os.path.lexists(values[0]), FOLDER in context.params
    if is_there and has_folder:
        return values
    found = _find(context, values[0], or_file=is_there or has_folder)
    if found is None:
        return values
    if is_there:
        raise click.UsageError(
            f"{values[0]}: is a file or folder here, and also [index.{values[0]}] in "
            f"{found.file}. Rename one of them, or pass -o DIR to index the FILE"
        )
    if not found.files:
        raise found.error(f"{FILES}: missing, wanted a list of FILEs")
    _set_defaults(context, found, found.values)
    os.chdir(found.file.parent)
    return tuple(found.files)


def new_files(context: click.Context, index: Index) -> list[str] | None:
    """Return the indexed FILEs and those that were added to the settings since the last load.

    If none was added, return ``None``. Otherwise, also change the current folder to the folder
    of the settings file.
    """
    from vocabtool.index.sources import Source

    found: IndexSettings | None = context.meta.get(INDEX_KEY)
    known = [each.locate(index.path) for each in index.manifest.sources]
    if found is None or not known:
        return None
    paths, base = [each.path for each in known], found.file.parent
    new = [
        name
        for name in found.files
        if Source(name, str(base), "", known[0].options).path not in paths
    ]
    if not new:
        return None
    os.chdir(base)
    return [*paths, *new]


def _is_address(folder: str) -> bool:
    from vocabtool.index.engines import is_address

    return is_address(folder)


def _find(context: click.Context, name: str, *, or_file: bool = False) -> IndexSettings | None:
    """Return the checked settings of an index.

    Return ``None`` if ``name`` is a path, or if there is no settings file.
    ``or_file``: return ``None`` for an unknown name too, instead of raising :class:`NotFound`.
    """
    if set(name) & {*"/*?["}:
        return None
    for file, indexes in _tables(context.meta.get(CONFIG_KEY)):
        table = indexes.get(name)
        if table is None:
            if or_file or Path(name).exists():
                return None
            there = ", ".join(indexes) or "none"
            raise NotFound(
                f"{name}: no such folder, and no [index.{name}] in {file}; "
                f"the indexes in this file: {there}"
            )
        found = IndexSettings(name=name, file=file, values={})
        if not isinstance(table, dict):
            raise found.error(f"wanted a table, got {table!r}")
        root = context.find_root().command
        assert isinstance(root, click.Group)  # noqa: S101 - every command is in the group
        own = {key: each for key, each in table.items() if not isinstance(each, dict)}
        for key in table.keys() - own.keys():
            if root.get_command(context, key) is None:
                raise found.error(f"{key}: is a table, but vocabtool has no command of this name")
        index_command = root.get_command(context, "index")
        assert index_command is not None  # noqa: S101 - it is in the table of commands
        _check(found, index_command, context, own)
        return IndexSettings(name=name, file=file, values=table)
    return None


def _tables(config: str | None) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the path of the settings file and its ``[index.NAME]`` tables, or yield nothing."""
    here = Path.cwd()
    places = [folder / name for folder in (here, *here.parents) for name in NAMES]
    for file in places if config is None else [here / config]:
        if config is None and not file.is_file():
            continue
        with reading(str(file)):
            table: Any = _parse(file)
            where = "[index.NAME]"
            if file.name == NAMES[1]:
                where = "[tool.vocabtool.index.NAME]"
                tools = table.get("tool", {})
                table = tools.get("vocabtool") if isinstance(tools, dict) else None
                if table is None and config is None:
                    continue
            if not isinstance(table, dict) or not isinstance(table.get("index", {}), dict):
                raise InvalidFile(f"wanted tables named {where}, got another value")
            if others := sorted(table.keys() - {"index"}):
                raise InvalidFile(
                    f"{others[0]}: unknown key; the file can contain only tables named {where}"
                )
        yield file, table.get("index", {})
        return


def _parse(file: Path) -> dict[str, Any]:
    with file.open("rb") as opened:
        data = opened.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise InvalidFile(
            f"a settings file can have at most {MAX_BYTES:,} bytes; this one has more"
        )
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise InvalidFile(f"not TOML: {error}") from error


def _check(
    found: IndexSettings,
    command: click.Command,
    context: click.Context,
    table: Mapping[str, Any],
    part: str = "",
) -> None:
    """Raise :class:`InvalidFile` for a wrong key or value in ``table``.

    ``part``: ``COMMAND`` for the table ``[index.NAME.COMMAND]``, empty for ``[index.NAME]``.
    """
    options, own = _options(command), () if part else (FILES,)
    for key, value in table.items():
        if any("\0" in each for each in _as_list(value) if isinstance(each, str)):
            raise found.error(f"{key}: contains a NUL character: {value!r}", part)
        if key in own:
            if not value or not all(isinstance(each, str) for each in _as_list(value)):
                raise found.error(f"{key}: wanted a list of FILEs, got {value!r}")
        elif key in BY_HAND:
            raise found.error(f"{key}: not allowed here; pass --{key} on the command line", part)
        elif key not in options:
            near = get_close_matches(key, [*options, *own], n=1)
            hint = f"did you mean {near[0]}?" if near else f"see `vocabtool {command.name} --help`"
            raise found.error(f"{key}: unknown key; {hint}", part)
        else:
            _check_value(found, options[key], context, key, value, part)
    if not part and FOLDER not in table:
        raise found.error(f"{FOLDER}: missing, wanted the folder of the index")


def _check_value(
    found: IndexSettings,
    option: click.Option,
    context: click.Context,
    key: str,
    value: object,
    part: str,
) -> None:
    kinds: tuple[type, ...] = (str,)
    wanted = "a list of strings" if option.multiple else "a string"
    if option.is_flag:
        kinds, wanted = (bool,), "true or false"
    elif isinstance(option.type, click.types.IntParamType):
        kinds, wanted = (int,), "an integer"
    elif isinstance(option.type, click.types.FloatParamType):
        kinds, wanted = (int, float), "a number"
    if not all(type(each) in kinds for each in (_as_list(value) if option.multiple else [value])):
        raise found.error(f"{key}: wanted {wanted}, got {value!r}", part)
    try:
        option.process_value(context, _as_list(value) if option.multiple else value)
    except click.BadParameter as error:
        raise found.error(f"{key}: {error.message}", part) from error


def _options(command: click.Command) -> dict[str, click.Option]:
    """Return a command's options by name: ``id-field``, or ``k`` for an option with only ``-k``."""
    found: dict[str, click.Option] = {}
    for option in command.params:
        if isinstance(option, click.Option):
            names = [name for name in option.opts if name.startswith("--")] or option.opts
            found |= {name.lstrip("-"): option for name in names}
    return found


def _as_list(value: object) -> list[Any]:
    return [*value] if isinstance(value, list) else [value]


def _with_paths(found: IndexSettings) -> dict[str, Any]:
    """Return the settings that apply to all commands. Paths of existing models become absolute."""
    from vocabtool.formats.files import split_kind

    chosen = {key: found.values[key] for key in SHARED if key in found.values}
    for key in chosen.keys() & {*PATHS}:
        kind, path = split_kind(chosen[key])
        if (found.file.parent / path.partition("#")[0]).exists():
            chosen[key] = f"{kind}{found.file.parent / path}"
    return chosen


def _set_defaults(context: click.Context, found: IndexSettings, chosen: Mapping[str, Any]) -> None:
    """Set the command's defaults from ``chosen`` and from ``[index.NAME.COMMAND]``."""
    command = context.command
    own = found.values.get(command.name or "", {})
    _check(found, command, context, own, command.name or "index")
    options = _options(command)
    used = {key: each for key, each in {**chosen, **own}.items() if key in options}
    encoder = used.get("encoder") or found.values.get("encoder")
    dangers = [
        f"{key}: {danger}"
        for key, each in used.items()
        for kind, danger in DANGERS.items()
        if str(each).startswith(f"{kind}:") or (key == "model" and encoder == kind)
    ]
    if dangers:
        if not context.params.get("trust"):
            raise found.error(f"{dangers[0]}; to allow it, pass --trust on the command line")
        context.params["trust"] = False  # it allowed this; these models take no such option
    context.default_map = {
        str(options[key].name): _as_list(each) if options[key].multiple else each
        for key, each in used.items()
    }
    context.meta[INDEX_KEY] = found
