"""The plots of a report, as SVG to stand inside a page; the same report gives the same bytes.

Text stays text, in the reader's fonts and colour: plots suit light and dark pages. Nothing that
comes from documents or models is drawn here.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from vocabtool.oov.report import CurvePoint, KindShare, Pieces
from vocabtool.oov_report_files.plain_words import KINDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK: Final = "#010203"  # stands for the colour of the text around, put in place below
KNOWN: Final = "#3d85c6"
UNKNOWN: Final = "#d9722e"
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


def coverage(curve: Sequence[CurvePoint]) -> str:
    """Two lines over the commonest words: the share of tokens they cover, and the known share."""

    def draw(axes: Axes) -> None:
        words = [point.words for point in curve]
        covered, known = ([100 * point[i] for point in curve] for i in (1, 2))
        axes.set_xscale("log")
        axes.plot(words, covered, color=INK, marker="o", markersize=3, label="all")
        axes.plot(words, known, color=KNOWN, marker="o", markersize=3, label="known to the model")
        axes.fill_between(words, known, covered, color=UNKNOWN, alpha=0.2, linewidth=0)
        axes.set_xlabel("commonest words of the documents")
        axes.set_ylabel("% of tokens")
        axes.set_ylim(0, 102)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.minorticks_off()
        axes.grid(color=INK, alpha=0.15)
        axes.legend(loc="upper left")

    return _svg("coverage", draw, 3.0)


def kinds(shares: Sequence[KindShare]) -> str:
    """A bar for each kind of unknown word, as long as its tokens are many."""

    def draw(axes: Axes) -> None:
        names = [KINDS[share.kind] for share in shares]
        bars = axes.barh(names, [share.tokens for share in shares], color=UNKNOWN, height=0.6)
        axes.bar_label(bars, [f"{share.tokens:,}" for share in shares], padding=4)
        axes.invert_yaxis()
        _plain(axes)

    return _svg("kinds", draw, 0.3 + 0.27 * len(shares))


def pieces(found: Pieces) -> str:
    """A bar for each number of pieces, as high as its tokens are many."""

    from matplotlib.ticker import MaxNLocator

    def draw(axes: Axes) -> None:
        axes.bar(range(len(found.histogram)), found.histogram, color=KNOWN, width=0.7)
        axes.set_xlabel("pieces of a word")
        axes.set_ylabel("tokens")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.grid(axis="y", color=INK, alpha=0.15)
        axes.set_axisbelow(True)

    return _svg("pieces", draw, 2.4)


def _plain(axes: Axes) -> None:
    """Bars that carry their number need no axis for it."""
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.18)


def _svg(name: str, draw: Any, height: float) -> str:
    from matplotlib.figure import Figure
    from matplotlib.style import context

    with context(["default", STYLE]):  # whatever the user has set for other plots
        figure = Figure(figsize=(INCHES, height), layout="constrained")
        draw(figure.add_subplot())
        return _inline(figure, name)


def _inline(figure: Figure, name: str) -> str:
    """The ``svg`` element alone; its ids are told apart from those of other plots by ``name``."""
    file = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    text = file.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    text = re.sub(r' width="[\d.]+pt" height="[\d.]+pt"| height="[\d.]+pt"', "", text, count=2)
    text = text.replace("<svg ", f'<svg role="img" aria-label="{name}" ', 1)
    return _IDS.sub(rf"\g<1>{name}-", text)
