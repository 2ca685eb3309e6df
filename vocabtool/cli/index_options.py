"""Options of the commands that make, keep and ask an index."""

from __future__ import annotations

from typing import Final

import click

from vocabtool.cli.source_options import together

# Repeated here, and held equal by a test, so that `--help` need not load NumPy.
METRICS: Final = ("cosine", "inner-product", "l2")
DTYPES: Final = ("float16", "float32")
EXISTING: Final = ("error", "skip", "update")
RECALL: Final = 0.95
EXACT_BELOW: Final = 20_000
COMMIT_ROWS: Final = 100_000

REPORTS: Final = ("text", "json")
LEAST_MEMORY: Final = 16 << 20  # of which the keyword leg takes 15 MB
UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

DIR = click.argument("folder", type=click.Path(file_okay=False), metavar="DIR")
QUIET = click.option("--quiet", is_flag=True, help="No progress and no report.")
FORMAT = click.option(
    "--format", "report_format", type=click.Choice(REPORTS), default="text", show_default=True
)


def size_of(context: click.Context, option: click.Parameter, text: str | None) -> int | None:
    """``512M`` or ``1G`` as bytes."""
    if text is None:
        return None
    number, unit = text.upper().removesuffix("B"), ""
    if number and number[-1] in UNITS:
        number, unit = number[:-1], number[-1]
    try:
        size = int(float(number) * UNITS[unit])
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(f"wanted a size as 512M or 2G, got {text!r}") from error
    if size < LEAST_MEMORY:
        raise click.BadParameter(
            f"wanted at least 16M, as 512M or 2G (a number alone is bytes), got {text!r}"
        )
    return size


SHAPE = together(
    click.option(
        "-o",
        "--folder",
        required=True,
        type=click.Path(file_okay=False),
        metavar="DIR",
        help="Where the index goes, or is: documents are added to it then.",
    ),
    click.option(
        "--existing",
        type=click.Choice(EXISTING),
        default="error",
        show_default=True,
        help="What becomes of a document whose id is in the index.",
    ),
    click.option(
        "--metric",
        type=click.Choice(METRICS),
        default="cosine",
        show_default=True,
        help="What near means.",
    ),
    click.option(
        "--dtype",
        type=click.Choice(DTYPES),
        default="float16",
        show_default=True,
        help="How vectors are stored.",
    ),
    click.option(
        "--language",
        default="english",
        show_default=True,
        help="Of stems and stop words; none: words as they are.",
    ),
    click.option(
        "--recall",
        type=click.FloatRange(0, 1, min_open=True),
        default=RECALL,
        show_default=True,
        help="Share of the ten nearest that the approximate search must find.",
    ),
    click.option(
        "--exact-below",
        type=click.IntRange(0),
        default=EXACT_BELOW,
        show_default=True,
        help="Up to so many documents every vector is compared.",
    ),
    click.option(
        "--force",
        is_flag=True,
        help="Build an index beside the one in DIR, which it replaces in the end.",
    ),
)
BUILDING: Final = together(
    click.option(
        "--memory",
        callback=size_of,
        metavar="SIZE",
        help="Bytes that building may take, as 512M or 1G. [default: as it comes]",
    ),
    click.option(
        "--commit-rows",
        type=click.IntRange(1),
        default=COMMIT_ROWS,
        show_default=True,
        help="Documents between commits, which is what a stop can cost.",
    ),
    click.option(
        "--threads",
        type=click.IntRange(1, 64),
        help="Batches encoded at a time. [default: by the kind of model]",
    ),
    click.option(
        "--calibrate/--no-calibrate",
        default=None,
        help="Measure the keyword leg's weight. [default: of a new index, and where it doubled]",
    ),
)
MODEL: Final = together(
    click.option("--model", help="What made the vectors. [default: as the index was made with]"),
    click.option(
        "--trust",
        is_flag=True,
        help="Run a model even though it reads files, uses the network or runs Python.",
    ),
)
