"""The command that serves indexes over HTTP: ``serve``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from vocabtool.cli.options import INDEX_MODEL, gather
from vocabtool.cli.output import usage_errors
from vocabtool.errors import UnsupportedFormat

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
SERVE: Final = "serving needs FastAPI and uvicorn: pip install 'vocabtool[serve]'"

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


@click.command("serve")
@click.argument("indexes", nargs=-1, required=True, metavar="[NAME=]DIR...")
@PLACE
@INDEX_MODEL
def serve_command(indexes: tuple[str, ...], place: dict[str, Any], model: dict[str, Any]) -> None:
    """Serve the indexes in DIR over HTTP, with a search page.

    NAME is the index's name in addresses; by default, the name of its folder.
    """
    try:
        from vocabtool.serve.server import ServeOptions, run
    except ImportError as error:
        raise UnsupportedFormat(SERVE) from error

    given = {name: each for name, each in model.items() if each is not None and each is not False}
    with usage_errors():
        options = ServeOptions(indexes=named_folders(indexes), model=given, **place)
    run(options)


def named_folders(given: tuple[str, ...]) -> dict[str, Path]:
    """Return folders by name, from ``NAME=DIR`` or ``DIR``. Raises :class:`click.UsageError`."""
    found: dict[str, Path] = {}
    for each in given:
        name, equals, folder = each.partition("=")
        path = Path(folder if equals else each)
        name = name if equals else path.resolve().name
        if not name or "/" in name:
            raise click.UsageError(f"{each}: wanted DIR or NAME=DIR, with a NAME without '/'")
        if name in found:
            raise click.UsageError(f"two indexes have the name {name!r}; name one: NAME={path}")
        found[name] = path
    return found
