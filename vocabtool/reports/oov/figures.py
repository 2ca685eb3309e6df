"""The plots of a report: coverage, kinds, pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from vocabtool.oov.report import CurvePoint, KindShare, Pieces
from vocabtool.reports.oov.plain_words import KINDS
from vocabtool.reports.plots import BLUE, INK, ORANGE, bare, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KNOWN: Final = BLUE
UNKNOWN: Final = ORANGE
APART: Final = 0.01  # of all tokens: what is nearer is one line in a plot of this height


def is_one_line(curve: Sequence[CurvePoint]) -> bool:
    """Whether what is known cannot be told from all by the eye, as with models of pieces."""
    return all(point.covered - point.known < APART for point in curve)


def coverage(curve: Sequence[CurvePoint]) -> str:
    """Two lines over the commonest words: the share of tokens they cover, and the known share.

    One where they would lie on each other.
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
            axes.fill_between(words, known, covered, color=UNKNOWN, alpha=0.2, linewidth=0)
        axes.plot(words, known, color=KNOWN, marker="o", markersize=3, label=label)
        axes.set_xlabel("commonest words of the documents")
        axes.set_ylabel("% of tokens")
        axes.set_ylim(0, 102)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.minorticks_off()
        axes.grid(color=INK, alpha=0.15)
        axes.legend(loc="upper left")

    return svg("coverage", draw, 3.0)


def kinds(shares: Sequence[KindShare]) -> str:
    """A bar for each kind of unknown word, as long as its tokens are many."""

    def draw(axes: Axes) -> None:
        names = [KINDS[share.kind] for share in shares]
        bars = axes.barh(names, [share.tokens for share in shares], color=UNKNOWN, height=0.6)
        axes.bar_label(bars, [f"{share.tokens:,}" for share in shares], padding=4)
        axes.invert_yaxis()
        bare(axes)
        axes.margins(x=0.18)

    return svg("kinds", draw, 0.3 + 0.27 * len(shares))


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

    return svg("pieces", draw, 2.4)
