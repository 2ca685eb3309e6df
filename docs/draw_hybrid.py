"""Draw ``_static/hybrid.svg``: results of a query with an unknown word, by vectors and by hybrid.

    vocabtool demo && python docs/draw_hybrid.py vocabtool-demo

The results come from the index that the demo builds (with TensorFlow).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final

import vocabtool
from vocabtool.choices import Fusion

QUERY: Final = "spawnle arguments supplied"
WANTED: Final = "os.spawnle"
NOTE: Final = "The model does not know the marked word; any unknown word gives the same vector."
TITLES: Final[dict[Fusion, str]] = {"dense": "vectors alone", "coverage": "hybrid"}
WIDTH, COLUMN, LINE, TOP = 820, 400, 34, 150
SHOWN: Final = 3
STYLE: Final = """
text { font: 17px system-ui, sans-serif; fill: #1f2328 }
.small { font-size: 14px; fill: #59636e }
.unknown { fill: #b34700; font-weight: 700 }
.found { fill: #116329; font-weight: 700 }
.card { fill: #fff; stroke: #d1d9e0 }
.mark { fill: #dafbe1 }
"""


def text(x: float, y: float, content: str, kind: str = "") -> str:
    return f'<text x="{x}" y="{y}" class="{kind}">{content}</text>'


def hits(index: vocabtool.Index, fusion: Fusion, left: float) -> Iterator[str]:
    """Yield a column with the first hits; the wanted document is highlighted."""
    yield text(left, TOP - 22, TITLES[fusion], "small")
    found = [hit.id for hit in index.search(QUERY, k=100, fusion=fusion)]
    for row, name in enumerate(found[:SHOWN]):
        y = TOP + 12 + row * LINE
        if name == WANTED:
            place_of = f'x="{left - 8}" y="{y - 22}" width="{COLUMN - 40}" height="30"'
            yield f'<rect {place_of} class="mark"/>'
        yield text(left, y, f"{row + 1}. {escape(name)}", "found" if name == WANTED else "")
    place = found.index(WANTED) + 1 if WANTED in found else None
    if place is None or place > SHOWN:
        told = "not among the first 100" if place is None else f"at place {place}"
        yield text(left, TOP + 12 + SHOWN * LINE, f"{WANTED}: {told}", "small")


def draw(index: vocabtool.Index) -> str:
    height = TOP + 4 * LINE + 10
    words = [
        word.surface if word.known else f'<tspan class="unknown">{word.surface}</tspan>'
        for word in index.search(QUERY, k=1).query.words
    ]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{QUERY}: vectors alone miss {WANTED}, hybrid search finds it</title>",
        f"<style>{STYLE}</style>",
        f'<rect x="1" y="1" width="{WIDTH - 2}" height="{height - 2}" rx="12" class="card"/>',
        text(32, 48, f"query: {' '.join(words)}"),
        text(
            32,
            76,
            NOTE,
            "small",
        ),
        *hits(index, "dense", 32),
        *hits(index, "coverage", 32 + COLUMN),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    drawn = draw(vocabtool.open(Path(sys.argv[1]) / "index"))
    Path(__file__).with_name("_static").joinpath("hybrid.svg").write_text(drawn, "utf-8")
