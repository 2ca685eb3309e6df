"""The command that shows the whole story offline: ``demo``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from vocabtool.demo.running import Step

# Repeated here, and held equal by a test, so that `--help` need not load NumPy.
FOLDER = "vocabtool-demo"


@click.command("demo")
@click.argument("folder", default=FOLDER, type=click.Path(file_okay=False), metavar="[DIR]")
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Draws other queries by the same rule."
)
def demo_command(folder: str, seed: int) -> None:
    """Show the whole story offline, in under a minute, on Python's own documentation.

    Trains a small sentence encoder on it, saves it as a TensorFlow model, reads its vocabulary out
    again, tells what it does not know, indexes, and asks: by vectors alone, and hybrid. What is
    built stays in DIR (vocabtool-demo), to play with. Needs TensorFlow:
    pip install '.[tensorflow]'.
    """
    from vocabtool.demo import story
    from vocabtool.demo.running import run
    from vocabtool.system.allocation import share_one_heap

    share_one_heap()

    def show(step: Step) -> None:
        click.echo("\n".join(story.of_step(step)))
        sys.stdout.flush()  # the next one takes seconds

    demo = run(folder, tell=show, seed=seed)
    click.echo("\n".join(story.of_answers(demo)))
