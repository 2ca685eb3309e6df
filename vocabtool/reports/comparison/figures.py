"""The plots of a comparison: overlap, kinds, rank against rank, use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from vocabtool.comparison.diff import Diff, KindCount
from vocabtool.comparison.ranks import Ranks
from vocabtool.comparison.use import Use
from vocabtool.reports.comparison.plain_words import shares
from vocabtool.reports.plots import BLUE, GREY, INK, ORANGE, bare, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS: Final = 1_000  # common words that are drawn
ONLY_A: Final = ORANGE
ONLY_B: Final = BLUE


def overlap(found: Diff) -> str:
    """One bar: what only A holds, what both do, what only B holds."""
    parts = (
        ("only A", found.only_a, ONLY_A),
        ("both", found.common, GREY),
        ("only B", found.only_b, ONLY_B),
    )
    return svg("overlap", lambda axes: _one_bar(axes, parts), 1.1)


def use(found: Use) -> str:
    """One bar: the tokens of the corpus by who knows them."""
    colours = {"both": GREY, "only A": ONLY_A, "only B": ONLY_B, "neither": "none"}
    parts = [(name, tokens, colours[name]) for name, tokens in shares(found)]
    return svg("use", lambda axes: _one_bar(axes, parts), 1.1)


def _one_bar(axes: Axes, parts: Sequence[tuple[str, int, str]]) -> None:
    start = 0
    for name, size, colour in parts:
        axes.barh(0, size, left=start, color=colour, edgecolor=INK, linewidth=0.5, label=name)
        start += size
    axes.set_xlim(0, max(start, 1))
    axes.set_yticks([])
    bare(axes)
    axes.legend(ncols=len(parts), loc="lower center", bbox_to_anchor=(0.5, 1.0), handlelength=1)


def kinds(counts: Sequence[KindCount]) -> str:
    """Two bars for each kind: the share of A's entries and of B's, and of these what is common."""

    a = [count.a for count in counts], [count.a - count.only_a for count in counts]
    b = [count.b for count in counts], [count.b - count.only_b for count in counts]

    def draw(axes: Axes) -> None:
        places = np.arange(len(counts))
        for (every, common), shift, colour, name in ((a, -0.2, ONLY_A, "A"), (b, 0.2, ONLY_B, "B")):
            percent = 100 / max(sum(every), 1)
            axes.barh(places + shift, np.multiply(every, percent), 0.36, color=colour, label=name)
            axes.barh(places + shift, np.multiply(common, percent), 0.36, color=GREY)
        axes.barh(0, 0, color=GREY, label="common to both")
        axes.set_yticks(places, [count.kind for count in counts])
        axes.set_xlabel("% of entries")
        axes.invert_yaxis()
        axes.grid(axis="x", color=INK, alpha=0.15)
        axes.set_axisbelow(True)
        axes.legend(loc="lower right")

    return svg("kinds", draw, 0.9 + 0.42 * len(counts))


def ranks(found: Ranks) -> str:
    """A point for a common word: its rank in A, and in B; as many from each range of ranks."""

    def draw(axes: Axes) -> None:
        last = len(found)
        places = np.unique(np.geomspace(1, last, min(POINTS, last)).round().astype(np.int64)) - 1
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.plot([1, last], [1, last], color=INK, alpha=0.4, linewidth=1)
        axes.plot(places + 1, found.b[places], ".", color=BLUE, markersize=3, alpha=0.7)
        axes.set_xlabel("rank in A")
        axes.set_ylabel("rank in B")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.minorticks_off()
        axes.grid(color=INK, alpha=0.15)

    return svg("ranks", draw, 4.0)
