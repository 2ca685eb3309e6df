"""Commands that serve indexes: ``serve``, ``api-key``, and ``mcp`` for agents."""

from __future__ import annotations

import re
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

import click
from click.core import ParameterSource

from vocabtool.cli import options
from vocabtool.cli.options import gather
from vocabtool.cli.output import usage_errors
from vocabtool.cli.search import INDEX_MODEL
from vocabtool.errors import NotFound, UnsupportedFormat
from vocabtool.index.folder import is_address

if TYPE_CHECKING:
    from vocabtool.serve.application import ServeOptions

SERVE: Final = "serving needs FastAPI and uvicorn: pip install '.[serve]'"

ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://(?:[a-z0-9_.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")

LISTENING = gather(
    "listening",
    options.default_option(
        "--host",
        default="127.0.0.1",
        help="Address to listen on. By default, only this machine can connect.",
    ),
    options.default_option(
        "--port",
        type=click.IntRange(0, 65_535),
        default=8765,
        help="Port to listen on; 0 chooses a free one.",
    ),
    options.file_option(
        "--api-keys",
        help="Answer only requests with one of these keys, made by `vocabtool api-key`.",
    ),
    click.option("--no-auth", is_flag=True, help="Let anybody who can connect use the server."),
    click.option(
        "--allowed-host",
        "allowed_hosts",
        multiple=True,
        metavar="NAME",
        help="Host name of this server that requests may use. May be repeated. [default: "
        "localhost, 127.0.0.1 and [::1]; with a --host that other machines can reach, any name]",
    ),
)


@click.command("serve")
@click.argument("indexes", nargs=-1, required=True, metavar="[NAME=]DIR...")
@LISTENING
@click.option(
    "--cors",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="Website whose pages may send requests, such as https://example.org. May be repeated.",
)
@gather(
    "running",
    click.option(
        "--writable",
        is_flag=True,
        help="Let requests add, replace and delete documents. Without it, the indexes stay as they "
        "are.",
    ),
    click.option(
        "--log-texts", is_flag=True, help="Also log the queries. Without it, no text is logged."
    ),
)
@options.default_option(
    "--max-seconds",
    type=click.FloatRange(0, min_open=True),
    default=30,
    help="Seconds after which a search is given up.",
)
@INDEX_MODEL
def serve_command(
    indexes: tuple[str, ...],
    listening: dict[str, Any],
    origins: tuple[str, ...],
    running: dict[str, Any],
    max_seconds: float,
    model: dict[str, Any],
) -> None:
    """Serve the indexes in DIR over HTTP, with a search page.

    NAME is the index's name in URLs; by default, the name of its folder. With a --host
    that other machines can reach, --api-keys or --no-auth is needed.
    """
    try:
        from vocabtool.serve.application import run
    except ImportError as error:
        raise UnsupportedFormat(SERVE) from error

    origins = tuple(origin.lower() for origin in origins)  # as browsers write them
    for origin in origins:
        if not ORIGIN.fullmatch(origin):
            wanted = "SCHEME://HOST or SCHEME://HOST:PORT, such as https://example.org"
            raise click.UsageError(f"--cors: wanted {wanted}, got {origin!r}")
    run(
        serve_options(
            indexes, listening, model, {"seconds": max_seconds}, origins=origins, **running
        )
    )


def serve_options(
    indexes: tuple[str, ...],
    listening: dict[str, Any],
    model: dict[str, Any],
    limits: dict[str, Any],
    *,
    origins: tuple[str, ...] = (),
    **running: Any,
) -> ServeOptions:
    """Return the options of a server, from the options of the command line.

    Raises :class:`click.UsageError` if both ``--api-keys`` and ``--no-auth`` are given, or if
    neither is given and other machines can reach the host.
    """
    from vocabtool.serve.application import ServeOptions
    from vocabtool.serve.guard import LOOPBACK_HOSTS, KeyFile, Protection

    host, keys, no_auth = (listening[name] for name in ("host", "api_keys", "no_auth"))
    if keys and no_auth:
        raise click.UsageError("pass either --api-keys or --no-auth, not both")
    try:
        is_local = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        is_local = False
    if not (is_local or keys or no_auth):
        what = f"other machines can reach {host or 'all addresses'}"
        raise click.UsageError(f"{what}: pass --api-keys FILE, or --no-auth to allow everybody")
    allowed = frozenset(name.lower() for name in listening["allowed_hosts"])
    protection = Protection(
        **limits,
        keys=KeyFile(Path(keys)) if keys else None,
        hosts=allowed | LOOPBACK_HOSTS | {host} if allowed or is_local else None,
        origins=origins,
    )
    with usage_errors():
        return ServeOptions(
            indexes=named_folders(indexes),
            host=host,
            port=listening["port"],
            model=model,
            protection=protection,
            **running,
        )


@click.command("api-key")
@click.argument("file", type=click.Path(dir_okay=False))
@click.argument("name")
@click.option("--write", is_flag=True, help="The key may also add, replace and delete documents.")
def api_key_command(file: str, name: str, write: bool) -> None:
    """Make a key for `vocabtool serve --api-keys FILE`, add it to FILE and print it.

    The key is printed only now; FILE stores its SHA-256. To revoke a key, delete its line: a
    running server reads FILE again within a second. The log of the server shows NAME.
    """
    try:
        from vocabtool.serve.guard import make_key
    except ImportError as error:
        raise UnsupportedFormat(SERVE) from error

    click.echo(make_key(Path(file), name, "write" if write else "read"))


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


def named_folders(given: tuple[str, ...]) -> dict[str, Path | str]:
    """Return folders and addresses by name, from ``NAME=DIR`` or ``DIR``.

    Raises :class:`click.UsageError` for an invalid or repeated name, and :class:`NotFound` if a
    folder does not exist. A folder need not contain an index yet.
    """
    places: dict[str, Path | str] = {}
    for text in given:
        name, equals, place = text.partition("=")
        if is_address(text):  # its parameter `index`, or the last part of its path
            address, place = urlsplit(text), text
            name = parse_qs(address.query).get("index", [address.path.rpartition("/")[2]])[0]
        elif not equals:
            name, place = Path(text).resolve().name, text
        shown = "ADDRESS" if is_address(place) else place
        if not name or "/" in name:
            raise click.UsageError(f"{shown}: wanted DIR or NAME=DIR; NAME cannot contain '/'")
        if name in places:
            raise click.UsageError(f"two indexes have the name {name!r}; pass NAME={shown}")
        places[name] = place if is_address(place) else Path(place).absolute()
    for path in places.values():
        if isinstance(path, Path) and not path.is_dir():
            raise NotFound(f"{path}: no such folder; create an index with `vocabtool index`")
    return places
