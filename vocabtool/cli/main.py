"""The entry point of the command line: the commands, error messages and exit codes.

- 0: success
- 1: a limit of ``oov`` is exceeded, an ID is not in the index, or ``calibrate`` has too few texts
- 2: wrong usage
- 3: bad input
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Final, NoReturn

import click

import vocabtool
from vocabtool.errors import InvalidFile, VocabtoolError
from vocabtool.system.messages import tell

MODULES: Final = {
    "contents": ("copy", "delete", "export", "get", "list", "stats"),
    "embed": ("embed", "train"),
    "index": ("compact", "index", "update", "verify"),
    "main": ("demo",),
    "models": ("diff", "extract", "inspect", "words"),
    "oov": ("oov",),
    "search": ("calibrate", "eval", "search", "similar"),
    "serve": ("api-key", "mcp", "serve"),
}
# Module and function of each command, by name. Only the command that runs is imported.
COMMANDS: Final = {
    name: f"{module}:{name.replace('-', '_')}_command"
    for name, module in sorted((name, module) for module in MODULES for name in MODULES[module])
}


class _Commands(click.Group):
    """Imports a command only when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(f"vocabtool.cli.{module}"), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches  # rarely needed, and slow to import

            near = " or ".join(map(repr, get_close_matches(args[0], COMMANDS)))
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean {near}?", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first paragraph of each command's help in full; click would shorten it."""
        commands = ((name, self.get_command(ctx, name)) for name in COMMANDS)
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, " ".join((command.help or "").partition("\n\n")[0].split()))
                    for name, command in commands
                    if command is not None
                ]
            )


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(vocabtool.__version__, prog_name="vocabtool")
@click.option(
    "--config",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Settings file, which names indexes. [default: vocabtool.toml in this folder or the "
    "nearest one above]",
)
def cli(config: str | None) -> None:
    """Which words does an embedding model not know?

    DIR is the folder of an index, its NAME in a settings file, or the address of an index in an
    engine: postgresql://USER@HOST/DATABASE?index=NAME.
    """


@click.command("demo")
@click.argument(
    "folder", default="vocabtool-demo", type=click.Path(file_okay=False), metavar="[DIR]"
)
def demo_command(folder: str) -> None:
    """Demonstrate all steps offline, on Python's own documentation.

    The demo trains a small sentence encoder, extracts its vocabulary, and reports which words the
    encoder does not know. Then it builds an index, and asks two kinds of questions: in other words
    than the right document, and with a word that the encoder does not know. All files are written
    to DIR [default: vocabtool-demo].
    """
    from vocabtool.cli.demo import tell_story

    tell_story(Path(folder))


def main() -> NoReturn:
    """Run the command line and exit. Bad input gives a message, not a traceback."""
    try:
        code = _run()
    except OSError:  # standard error cannot be written either
        code = 3
    # All output is flushed. A normal exit would take 10 % longer, to unload NumPy.
    os._exit(code)


def _run() -> int:
    if sys.stdout is None:  # the parent process closed it
        tell("error: standard output is closed")
        return 3
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # hide TensorFlow's messages about its build
    try:
        result = cli.main(prog_name="vocabtool", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        return 130
    except (BrokenPipeError, SystemExit):  # the reader closed the pipe; click exits with 1 then
        return 0
    except (VocabtoolError, OSError) as error:
        tell(f"error: {error}")
        if isinstance(error, InvalidFile) and error.file is not None:
            from vocabtool.index.folder import advice

            hint = advice(error.file)
            if hint is not None:
                tell(hint)
        return 3
    except MemoryError:
        tell("error: not enough memory")
        return 3
    return result if isinstance(result, int) else 0
