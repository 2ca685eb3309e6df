"""The command that serves indexes to agents: ``mcp``."""

from __future__ import annotations

from typing import Any, Final

import click
from click.core import ParameterSource

from vocabtool.cli.options import INDEX_MODEL, given_options
from vocabtool.cli.serve import PLACE, PROTECTION, named_folders, protection_of
from vocabtool.errors import UnsupportedFormat

NEEDED: Final = "serving agents needs the MCP SDK: pip install '.[mcp]'"


@click.command("mcp")
@click.argument("indexes", nargs=-1, required=True, metavar="[NAME=]DIR...")
@click.option(
    "--http",
    is_flag=True,
    help="Serve streamable HTTP at /mcp, instead of standard input and output.",
)
@PLACE
@PROTECTION
@INDEX_MODEL
def mcp_command(
    indexes: tuple[str, ...],
    http: bool,
    place: dict[str, Any],
    protection: dict[str, Any],
    model: dict[str, Any],
) -> None:
    """Serve the indexes in DIR to agents, by the Model Context Protocol (MCP).

    An agent's client starts this command and talks with it over standard input and output. NAME is
    the index's name for agents; by default, the name of its folder. With --http and a --host that
    other machines can reach, --api-keys or --no-auth is needed.
    """
    source = click.get_current_context().get_parameter_source
    for option in ("host", "port", *protection):
        if not http and source(option) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{option.replace('_', '-')} needs --http")
    guard = protection_of(place["host"], protection, {})
    try:
        from vocabtool.serve.agents import run
        from vocabtool.serve.server import ServeOptions
    except ImportError as error:
        raise UnsupportedFormat(NEEDED) from error

    options = ServeOptions(
        indexes=named_folders(indexes), model=given_options(model), protection=guard, **place
    )
    run(options, http=http)
