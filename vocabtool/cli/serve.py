"""Commands for serving indexes over HTTP: ``serve`` and ``api-key``."""

from __future__ import annotations

import re
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

import click

from vocabtool.cli.options import INDEX_MODEL, gather, given_options, read_size
from vocabtool.cli.output import usage_errors
from vocabtool.errors import NotFound, UnsupportedFormat

if TYPE_CHECKING:
    from vocabtool.serve.guard import Protection

SERVE: Final = "serving needs FastAPI and uvicorn: pip install '.[serve]'"

ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://(?:[a-z0-9_.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")

PLACE = gather(
    "place",
    click.option(
        "--host",
        default="127.0.0.1",
        show_default=True,
        help="Address to listen on. By default, only this machine can connect.",
    ),
    click.option(
        "--port",
        type=click.IntRange(0, 65_535),
        default=8765,
        show_default=True,
        help="Port to listen on; 0 chooses a free one.",
    ),
)
RUNNING = gather(
    "running",
    click.option(
        "--writable",
        is_flag=True,
        help="Let requests add, replace and delete documents. Without it, the indexes stay as they "
        "are.",
    ),
    click.option(
        "--workers",
        type=click.IntRange(1, 64),
        default=1,
        show_default=True,
        help="Number of processes. Each opens the indexes itself, and has limits and metrics of "
        "its own.",
    ),
    click.option(
        "--log-texts", is_flag=True, help="Also log the queries. Without it, no text is logged."
    ),
)

PROTECTION = gather(
    "protection",
    click.option(
        "--api-keys",
        type=click.Path(dir_okay=False),
        metavar="FILE",
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
    click.option(
        "--cors",
        "origins",
        multiple=True,
        metavar="ORIGIN",
        help="Website whose pages may send requests, such as https://example.org. May be repeated.",
    ),
)
LIMITS = gather(
    "limits",
    click.option(
        "--rate",
        type=click.FloatRange(0),
        default=1_000,
        show_default=True,
        help="Limit of requests per second for each key, or for each address if there are no keys; "
        "0: no limit.",
    ),
    click.option(
        "--max-seconds",
        "seconds",
        type=click.FloatRange(0, min_open=True),
        default=30,
        show_default=True,
        help="Seconds after which a search is given up.",
    ),
    click.option(
        "--max-waiting",
        "waiting",
        type=click.IntRange(0),
        default=64,
        show_default=True,
        help="Limit of requests that wait for a thread.",
    ),
    click.option(
        "--max-connections",
        "connections",
        type=click.IntRange(1),
        default=512,
        show_default=True,
        help="Limit of connections that are open at a time.",
    ),
    click.option(
        "--max-body",
        "documents_body",
        callback=read_size,
        default="16M",
        show_default=True,
        metavar="SIZE",
        help="Maximum size of a request that adds documents; for other requests it is 1M.",
    ),
)


@click.command("serve")
@click.argument("indexes", nargs=-1, required=True, metavar="[NAME=]DIR...")
@PLACE
@RUNNING
@PROTECTION
@LIMITS
@INDEX_MODEL
def serve_command(
    indexes: tuple[str, ...],
    place: dict[str, Any],
    running: dict[str, Any],
    protection: dict[str, Any],
    limits: dict[str, Any],
    model: dict[str, Any],
) -> None:
    """Serve the indexes in DIR over HTTP, with a search page.

    NAME is the index's name in URLs; by default, the name of its folder. With a --host
    that other machines can reach, --api-keys or --no-auth is needed.
    """
    guard = protection_of(place["host"], protection, limits)
    try:
        from vocabtool.serve.server import ServeOptions, run
    except ImportError as error:
        raise UnsupportedFormat(SERVE) from error

    with usage_errors():
        options = ServeOptions(
            indexes=named_folders(indexes),
            model=given_options(model),
            protection=guard,
            **place,
            **running,
        )
    run(options)


def protection_of(host: str, given: dict[str, Any], limits: dict[str, Any]) -> Protection:
    """Return the access rules of the server, from the options PROTECTION and LIMITS.

    Raises :class:`click.UsageError` if an origin is invalid, if both ``--api-keys`` and
    ``--no-auth`` are given, or if neither is given and other machines can reach ``host``.
    """
    keys, no_auth = given.pop("api_keys"), given.pop("no_auth")
    if keys and no_auth:
        raise click.UsageError("pass either --api-keys or --no-auth, not both")
    is_local = is_loopback(host)
    if not (is_local or keys or no_auth):
        what = f"other machines can reach {host or 'all addresses'}"
        raise click.UsageError(f"{what}: pass --api-keys FILE, or --no-auth to allow everybody")
    try:
        from vocabtool.serve.guard import LOOPBACK_HOSTS, Protection
        from vocabtool.serve.keys import KeyFile
        from vocabtool.serve.limits import Limits
    except ImportError as error:
        raise UnsupportedFormat(SERVE) from error

    origins = tuple(each.lower() for each in given.pop("origins"))  # as browsers write them
    for each in origins:
        if not ORIGIN.fullmatch(each):
            wanted = "SCHEME://HOST or SCHEME://HOST:PORT, such as https://example.org"
            raise click.UsageError(f"--cors: wanted {wanted}, got {each!r}")
    allowed = frozenset(name.lower() for name in given.pop("allowed_hosts"))
    return Protection(
        limits=Limits(**limits),
        keys=KeyFile(Path(keys)) if keys else None,
        hosts=allowed | LOOPBACK_HOSTS | {host} if allowed or is_local else None,
        origins=origins,
    )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


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
        from vocabtool.serve.keys import make_key
    except ImportError as error:
        raise UnsupportedFormat(SERVE) from error

    click.echo(make_key(Path(file), name, "write" if write else "read"))


def named_folders(given: tuple[str, ...]) -> dict[str, Path | str]:
    """Return folders and addresses by name, from ``NAME=DIR`` or ``DIR``.

    Raises :class:`click.UsageError` for an invalid or repeated name, and :class:`NotFound` if a
    folder does not exist. A folder need not contain an index yet.
    """
    from vocabtool.index.engines import is_address

    found: dict[str, Path | str] = {}
    for each in given:
        name, equals, folder = ("", "", each) if is_address(each) else each.partition("=")
        place = folder if equals or is_address(each) else each
        shown = "ADDRESS" if is_address(place) else place
        if not equals:
            name = _name_in(place) if is_address(place) else Path(place).resolve().name
        if not name or "/" in name:
            told = f"{name}={shown}" if equals else shown
            raise click.UsageError(f"{told}: wanted DIR or NAME=DIR; NAME cannot contain '/'")
        if name in found:
            raise click.UsageError(
                f"two indexes have the name {name!r}; pass another name: NAME={shown}"
            )
        found[name] = place if is_address(place) else Path(place).absolute()
    for path in found.values():
        if isinstance(path, Path) and not path.is_dir():
            raise NotFound(f"{path}: no such folder; create an index with `vocabtool index`")
    return found


def _name_in(address: str) -> str:
    """Return the parameter ``index`` of an address, or else the last part of its path."""
    parts = urlsplit(address)
    return parse_qs(parts.query).get("index", [parts.path.rpartition("/")[2]])[0]
