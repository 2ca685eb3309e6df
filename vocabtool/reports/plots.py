"""SVG plots for HTML pages. The same numbers give the same bytes.

The plots use the font and the text colour of the page.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from vocabtool.comparison.diff import KindCount, Ranks
    from vocabtool.oov.report import CurvePoint, Pieces

INK: Final = "#010203"  # placeholder, replaced by currentColor below
BLUE: Final = "#3d85c6"  # known; B
ORANGE: Final = "#d9722e"  # unknown; A; bars of tables
GREY: Final = "#9a9a9a"  # common to both
INCHES: Final = 5.6  # width; the page scales it
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
    """Return the plot that the function ``draw`` draws, as an ``svg`` element.

    ``name``: the beginning of all ids in the element; must be unique on the page.
    ``height``: the height of the plot in inches.
    """
    from matplotlib.figure import Figure
    from matplotlib.style import context

    with context(["default", STYLE]):  # ignore the user's settings
        figure = Figure(figsize=(INCHES, height), layout="constrained")
        draw(figure.add_subplot())
        file = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    text = file.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    text = re.sub(r' width="[\d.]+pt" height="[\d.]+pt"| height="[\d.]+pt"', "", text, count=2)
    text = text.replace("<svg ", f'<svg role="img" aria-label="{name}" ', 1)
    return _IDS.sub(rf"\g<1>{name}-", text)


def _bare(axes: Axes) -> None:
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _grid(axes: Axes, axis: Literal["x", "y", "both"]) -> None:
    axes.grid(axis=axis, color=INK, alpha=0.15)
    axes.set_axisbelow(True)


def _whole_number(value: float, _: Any) -> str:
    return f"{value:,.0f}"


# Unknown words.

MIN_GAP: Final = 0.01  # share of tokens: closer lines overlap in a plot of this height


def is_one_line(curve: Sequence[CurvePoint]) -> bool:
    """Whether the curves of all words and of known words would look like one line."""
    return all(point.covered - point.known < MIN_GAP for point in curve)


def coverage(curve: Sequence[CurvePoint]) -> str:
    """Draw which share of tokens the most frequent words cover.

    One curve counts all of these words. The other counts only those that the model knows.
    """

    def draw(axes: Axes) -> None:
        words = [point.words for point in curve]
        covered, known = ([100 * point[i] for point in curve] for i in (1, 2))
        axes.set_xscale("log")
        label = "known to the model"
        if is_one_line(curve):
            label = "all words, and those known to the model"
        else:
            axes.plot(words, covered, color=INK, marker="o", markersize=3, label="all")
            axes.fill_between(words, known, covered, color=ORANGE, alpha=0.2, linewidth=0)
        axes.plot(words, known, color=BLUE, marker="o", markersize=3, label=label)
        axes.set_xlabel("commonest words of the documents")
        axes.set_ylabel("% of tokens")
        axes.set_ylim(0, 102)
        axes.xaxis.set_major_formatter(_whole_number)
        axes.minorticks_off()
        axes.grid(color=INK, alpha=0.15)
        axes.legend(loc="upper left")

    return svg("coverage", draw, 3.0)


def bars(name: str, sizes: Sequence[tuple[str, int]]) -> str:
    """Draw a horizontal bar for each pair of a name and a number."""

    def draw(axes: Axes) -> None:
        shown = axes.barh(
            [each for each, _ in sizes], [size for _, size in sizes], color=ORANGE, height=0.6
        )
        axes.bar_label(shown, [f"{size:,}" for _, size in sizes], padding=4)
        axes.invert_yaxis()
        _bare(axes)
        axes.margins(x=0.18)

    return svg(name, draw, 0.3 + 0.27 * len(sizes))


def pieces(found: Pieces) -> str:
    """Draw how many tokens have one piece, two pieces, and so on."""
    from matplotlib.ticker import MaxNLocator

    def draw(axes: Axes) -> None:
        axes.bar(range(len(found.histogram)), found.histogram, color=BLUE, width=0.7)
        axes.set_xlabel("pieces of a word")
        axes.set_ylabel("tokens")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(_whole_number)
        _grid(axes, "y")

    return svg("pieces", draw, 2.4)


# Evaluation.


def curve(name: str, points: Sequence[tuple[float, float]], label: str) -> str:
    """Plot a value against the weight of keywords. ``label``: the name of the value."""

    def draw(axes: Axes) -> None:
        axes.plot(*zip(*points, strict=True), color=BLUE, marker="o", markersize=3)
        axes.set_xlabel("a, the weight of keywords")
        axes.set_ylabel(label)
        _grid(axes, "both")

    return svg(name, draw, 2.6)


# Comparisons.

MAX_POINTS: Final = 1_000  # common words in the plot
COLOURS: Final = {"only A": ORANGE, "both": GREY, "only B": BLUE, "neither": "none"}


def one_bar(name: str, parts: Sequence[tuple[str, int]]) -> str:
    """Draw one bar of several parts.

    ``parts``: the name and size of each part. The name must be a key of ``COLOURS``.
    """

    def draw(axes: Axes) -> None:
        start = 0
        for part, size in parts:
            look = {"color": COLOURS[part], "edgecolor": INK, "linewidth": 0.5}
            axes.barh(0, size, left=start, label=part, **look)  # type: ignore[arg-type] # any of its options
            start += size
        axes.set_xlim(0, max(start, 1))
        axes.set_yticks([])
        _bare(axes)
        axes.legend(ncols=len(parts), loc="lower center", bbox_to_anchor=(0.5, 1.0), handlelength=1)

    return svg(name, draw, 1.1)


def kinds(counts: Sequence[KindCount]) -> str:
    """Draw each kind's share of the entries of A and of B. Common entries are grey."""

    def draw(axes: Axes) -> None:
        places = np.arange(len(counts))
        a = [count.a for count in counts], [count.a - count.only_a for count in counts]
        b = [count.b for count in counts], [count.b - count.only_b for count in counts]
        for (every, common), shift, colour, name in ((a, -0.2, ORANGE, "A"), (b, 0.2, BLUE, "B")):
            scale = 100 / max(sum(every), 1)
            axes.barh(places + shift, np.multiply(every, scale), 0.36, color=colour, label=name)
            axes.barh(places + shift, np.multiply(common, scale), 0.36, color=GREY)
        axes.barh(0, 0, color=GREY, label="common to both")
        axes.set_yticks(places, [count.kind for count in counts])
        axes.set_xlabel("% of entries")
        axes.invert_yaxis()
        _grid(axes, "x")
        axes.legend(loc="lower right")

    return svg("kinds", draw, 0.9 + 0.42 * len(counts))


def ranks(found: Ranks) -> str:
    """Plot the common entries by their ranks in A and B, at most ``MAX_POINTS`` of them."""

    def draw(axes: Axes) -> None:
        last = len(found)
        spread = np.geomspace(1, last, min(MAX_POINTS, last))
        places = np.unique(spread.round().astype(np.int64)) - 1
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.plot([1, last], [1, last], color=INK, alpha=0.4, linewidth=1)
        axes.plot(places + 1, found.b[places], ".", color=BLUE, markersize=5, alpha=0.8)
        axes.set_xlabel("rank in A")
        axes.set_ylabel("rank in B")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(_whole_number)
        axes.minorticks_off()
        axes.grid(color=INK, alpha=0.15)

    return svg("ranks", draw, 4.0)
