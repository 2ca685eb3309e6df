"""The command that serves indexes to agents: ``mcp``."""

from __future__ import annotations

from typing import Any, Final

import click
from click.core import ParameterSource

from vocabtool.cli.options import INDEX_MODEL
from vocabtool.cli.serve import LOOPBACK, PLACE, named_folders
from vocabtool.errors import UnsupportedFormat

NEEDED: Final = "serving agents needs the MCP SDK: pip install 'vocabtool[mcp]'"


@click.command("mcp")
@click.argument("indexes", nargs=-1, required=True, metavar="[NAME=]DIR...")
@click.option(
    "--http", is_flag=True, help="Serve streamable HTTP at /mcp, not standard input and output."
)
@PLACE
@click.option(
    "--allowed-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="With --http: also answer requests for this host name. May be repeated. By default, only "
    "for --host and the names of the loopback address.",
)
@click.option(
    "--no-auth", is_flag=True, help="With --host: let everybody who can connect read the indexes."
)
@INDEX_MODEL
def mcp_command(
    indexes: tuple[str, ...],
    http: bool,
    place: dict[str, Any],
    names: tuple[str, ...],
    no_auth: bool,
    model: dict[str, Any],
) -> None:
    """Serve the indexes in DIR to agents, by the Model Context Protocol (MCP).

    An agent's client starts this command and talks with it over standard input and output. NAME is
    the index's name for agents; by default, the name of its folder.
    """
    given = click.get_current_context().get_parameter_source
    for option in ("host", "port", "names", "no_auth"):
        if not http and given(option) is ParameterSource.COMMANDLINE:
            raise click.UsageError("--host, --port, --allowed-host and --no-auth need --http")
    if place["host"] not in LOOPBACK and not no_auth:
        raise click.UsageError(
            f"--host {place['host']}: everybody who can connect could read the indexes; add "
            "--no-auth if they may"
        )
    folders = named_folders(indexes)
    try:
        from vocabtool.serve.agents import run
    except ImportError as error:
        raise UnsupportedFormat(NEEDED) from error

    options = {name: each for name, each in model.items() if each is not None and each is not False}
    run(folders, options, http=http, names=(place["host"], *names), **place)
