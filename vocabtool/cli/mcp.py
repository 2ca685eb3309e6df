"""The command that serves indexes to agents: ``mcp``."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from vocabtool.cli.options import INDEX_MODEL
from vocabtool.cli.serve import LISTENING, serve_options
from vocabtool.errors import UnsupportedFormat


@click.command("mcp")
@click.argument("indexes", nargs=-1, required=True, metavar="[NAME=]DIR...")
@click.option(
    "--http",
    is_flag=True,
    help="Serve streamable HTTP at /mcp, instead of standard input and output.",
)
@LISTENING
@INDEX_MODEL
def mcp_command(
    indexes: tuple[str, ...], http: bool, listening: dict[str, Any], model: dict[str, Any]
) -> None:
    """Serve the indexes in DIR to agents, by the Model Context Protocol (MCP).

    An agent's client starts this command and talks with it over standard input and output. NAME is
    the index's name for agents; by default, the name of its folder. With --http and a --host that
    other machines can reach, --api-keys or --no-auth is needed.
    """
    context = click.get_current_context()
    for option in context.command.params:
        was_given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if option.name in listening and was_given and not http:
            raise click.UsageError(f"{option.opts[0]} needs --http")
    try:
        from vocabtool.serve.agents import run
    except ImportError as error:
        raise UnsupportedFormat("serving agents needs the MCP SDK: pip install '.[mcp]'") from error

    run(serve_options(indexes, listening, model, {}), http=http)
