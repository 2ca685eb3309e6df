"""The command that shows the whole story offline: ``demo``."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command("demo")
@click.argument(
    "folder", default="vocabtool-demo", type=click.Path(file_okay=False), metavar="[DIR]"
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Draws other queries by the same rule."
)
def demo_command(folder: str, seed: int) -> None:
    """Show the whole story offline, in under a minute, on Python's own documentation.

    Trains a small sentence encoder on it, extracts its vocabulary, reports which words it does not
    know, builds an index, and searches it by vectors alone and by both legs. The encoder is a
    TensorFlow model, or a file of word vectors where TensorFlow is not installed. What is built
    stays in DIR (vocabtool-demo), to play with.
    """
    from vocabtool.demo.story import tell_story

    for line in tell_story(Path(folder), seed):
        click.echo(line)
        sys.stdout.flush()  # the next one takes seconds
