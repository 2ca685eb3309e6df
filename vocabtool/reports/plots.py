"""Plots as SVG to stand inside a page; the same figures give the same bytes.

Text stays text, in the reader's fonts and colour: plots suit light and dark pages. Nothing that
comes from documents or models is to be drawn. What is plotted is known to each kind of report.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK: Final = "#010203"  # stands for the colour of the text around, put in place below
BLUE: Final = "#3d85c6"
ORANGE: Final = "#d9722e"
GREY: Final = "#9a9a9a"
INCHES: Final = 5.6  # of width, at 72 points each; the page scales it
STYLE: Final[Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "vocabtool",
    "font.family": "sans-serif",
    "font.size": 11,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
_IDS: Final = re.compile(r'(\bid="|href="#|url\(#)')


def svg(name: str, draw: Callable[[Axes], None], height: float) -> str:
    """What ``draw`` puts on its axes; ``name``: tells its ids from those of other plots."""
    from matplotlib.figure import Figure
    from matplotlib.style import context

    with context(["default", STYLE]):  # whatever the user has set for other plots
        figure = Figure(figsize=(INCHES, height), layout="constrained")
        draw(figure.add_subplot())
        return _inline(figure, name)


def bare(axes: Axes) -> None:
    """Bars that carry their number need no axis for it."""
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _inline(figure: Figure, name: str) -> str:
    """The ``svg`` element alone."""
    file = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    text = file.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    text = re.sub(r' width="[\d.]+pt" height="[\d.]+pt"| height="[\d.]+pt"', "", text, count=2)
    text = text.replace("<svg ", f'<svg role="img" aria-label="{name}" ', 1)
    return _IDS.sub(rf"\g<1>{name}-", text)
