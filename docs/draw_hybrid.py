"""Draw ``_static/hybrid.svg``: how often three searches find the right document.

    vocabtool demo | python docs/draw_hybrid.py

The figures are those that the demo prints.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from vocabtool.cli.demo import KINDS, NAMES, PLACES, QUESTIONS

WIDTH, HEIGHT, LEFT, BAR = 600, 316, 126, 390
TITLE: Final = f"Of {QUESTIONS} questions, the right document is in the first {PLACES} hits for:"
STYLE: Final = """
text { font: 17px system-ui, sans-serif; fill: #1f2328 }
.small { font-size: 14px; fill: #59636e }
.card { fill: #fff; stroke: #d1d9e0 }
.bar { fill: #8db4dc }
.hybrid { fill: #2f7d4f }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .small { fill: #9198a1 }
  .card { fill: #0d1117; stroke: #3d444d }
  .bar { fill: #4f7fae }
  .hybrid { fill: #3fa46a }
}
"""


def draw(printed: str) -> Iterator[str]:
    """Yield the lines of the picture: a group of bars for each kind of question."""
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
    yield f"<title>{TITLE}</title><style>{STYLE}</style>"
    yield f'<rect x="1" y="1" width="{WIDTH - 2}" height="{HEIGHT - 2}" rx="12" class="card"/>'
    yield f'<text x="32" y="44">{TITLE}</text>'
    y = 84
    for line in printed.splitlines():
        kind = next((kind for kind in KINDS.values() if line.strip().startswith(kind)), None)
        if kind is not None:
            counts = [int(count) for count in line.split()[-len(NAMES) :]]
            yield f'<text x="32" y="{y}" class="small">{kind}</text>'
            for name, count in zip(NAMES, counts, strict=True):
                y += 28
                width, look = BAR * count / QUESTIONS, "hybrid" if name == "hybrid" else "bar"
                yield f'<text x="32" y="{y}">{name}</text>'
                size = f'y="{y - 15}" width="{width:.0f}" height="19"'
                yield f'<rect x="{LEFT}" {size} class="{look}"/>'
                yield f'<text x="{LEFT + width + 8:.0f}" y="{y}">{count}</text>'
            y += 40
    yield "</svg>"


if __name__ == "__main__":
    picture = "\n".join(draw(sys.stdin.read())) + "\n"
    Path(__file__).with_name("_static").joinpath("hybrid.svg").write_text(picture, "utf-8")
