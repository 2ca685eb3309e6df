"""Bar charts of figures that a benchmark wrote, as SVG that is readable on light and dark pages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Final

WIDTH, LABELS, LINE, TOP = 760, 230, 34, 46  # pixels
BARS: Final = WIDTH - LABELS - 130  # the longest bar; the figure stands behind it
STYLE: Final = """
text { font: 14px system-ui, sans-serif; fill: #59636e }
@media (prefers-color-scheme: dark) { text { fill: #9aa5b1 } }
.ours { font-weight: 700 } .bar { fill: #9aa5b1 } .bar.ours { fill: #c2571a }
"""


def bar_chart(title: str, bars: Mapping[str, str], ours: str) -> str:
    """Draw a bar for each label, as long as the number that its figure begins with.

    ``ours``: the label whose bar is emphasised.
    """
    height = TOP + LINE * len(bars) + 6
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            f'<text x="0" y="24">{escape(title)}</text>',
            *_lines(bars, ours),
            "</svg>\n",
        )
    )


def _lines(bars: Mapping[str, str], ours: str) -> Iterator[str]:
    values = {label: number(figure) for label, figure in bars.items()}
    longest = max(values.values())
    for row, (label, figure) in enumerate(bars.items()):
        y, kind = TOP + LINE * row, "ours" if label == ours else ""
        length = max(round(BARS * values[label] / longest), 2)
        yield f'<text x="0" y="{y + 17}" class="{kind}">{escape(label)}</text>'
        yield f'<rect x="{LABELS}" y="{y}" width="{length}" height="24" rx="3" class="bar {kind}"/>'
        yield (
            f'<text x="{LABELS + length + 10}" y="{y + 17}" class="{kind}">{escape(figure)}</text>'
        )


def number(figure: str) -> float:
    """Return the number that a figure begins with: ``1,335 MB`` is 1335."""
    found = re.match(r"[\d,]+(\.\d+)?", figure)
    if found is None:
        raise ValueError(f"wanted a figure that begins with a number, got {figure!r}")
    return float(found[0].replace(",", ""))
