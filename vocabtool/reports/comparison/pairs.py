"""More than two vocabularies, written: their pairs as a table, in every format.

``json``: ``labels``, ``fold``, ``pairs``, each with the fields of ``Pair``, and ``notes``; ``csv``,
``parquet`` and text without a width: a row a pair.
"""

from __future__ import annotations

import csv
import io
import json
from itertools import combinations
from pathlib import Path
from typing import BinaryIO, Final, assert_never

from vocabtool.comparison.pairwise import COLUMNS, Pair, Pairs
from vocabtool.reports.comparison import ENDINGS, PAGE, DiffFormat
from vocabtool.reports.comparison.plain_words import FOLDS
from vocabtool.reports.pages import facts, page, remarks, table
from vocabtool.reports.text_tables import drawn
from vocabtool.system.whole_file import whole_file
from vocabtool.vocabulary import encode, printable

HEADS: Final = ("A", "B", "in A", "in B", "common", "only in A", "only in B", "Jaccard", "rho")
NUMBERS: Final = frozenset(HEADS[2:])


def write(found: Pairs, file: BinaryIO, format: DiffFormat, *, width: int | None = None) -> None:  # noqa: A002 - as the option is called
    """Write the table to an open file."""
    match format:
        case "text":
            file.write(_text(found, width).encode("utf-8", "backslashreplace"))
        case "json":
            shown = {**found._asdict(), "pairs": [pair._asdict() for pair in found.pairs]}
            text_ = json.dumps(shown, ensure_ascii=False, indent=2) + "\n"
            file.write(text_.encode("utf-8", "backslashreplace"))
        case "csv":
            rows = io.StringIO(newline="")
            csv.writer(rows, lineterminator="\r\n").writerows([COLUMNS, *found.pairs])
            file.write(rows.getvalue().encode("utf-8", "backslashreplace"))
        case "parquet":
            import pyarrow.parquet as pq

            pq.write_table(found.to_arrow(), file, compression="zstd")
        case "html":
            file.write(_page(found).encode("utf-8", "backslashreplace"))
        case _:
            assert_never(format)


def save_pairs(found: Pairs, path: str | Path, format: DiffFormat | None = None) -> None:  # noqa: A002 - as the option is called
    """Write a file wholly or not at all, as ``save_diff`` does."""
    known = format or ENDINGS.get(Path(path).suffix.lower(), "text")
    with whole_file(path) as file:
        write(found, file, known, width=PAGE)


def _cells(pair: Pair) -> tuple[str, ...]:
    labels = (printable(encode(label)) for label in pair[:2])
    rho = "" if pair.rho is None else f"{pair.rho:.3f}"
    return (*labels, *(f"{count:,}" for count in pair[2:7]), f"{pair.jaccard:.4f}", rho)


def _text(found: Pairs, width: int | None) -> str:
    if width is not None:
        return drawn(HEADS, map(_cells, found.pairs), width, NUMBERS)
    rows = [COLUMNS, *((*_cells(pair)[:2], *map(_exact, pair[2:])) for pair in found.pairs)]
    return "".join("\t".join(row) + "\n" for row in rows)


def _exact(value: float | None) -> str:
    return "" if value is None else str(value)


def _page(found: Pairs) -> str:
    """Names are long: they stand above the table once, and in it their numbers."""
    named = [(str(number), label) for number, label in enumerate(found.labels, 1)]
    folded = ", ".join(FOLDS[fold] for fold in found.fold)
    how = ("entries compared", f"without {folded}" if folded else "as they are stored")
    numbers = combinations([number for number, _ in named], 2)
    rows = ((*pair, *_cells(each)[2:]) for pair, each in zip(numbers, found.pairs, strict=True))
    body = (facts([*named, how]), table(HEADS, rows, NUMBERS), *remarks(found.notes))
    return page("Vocabularies compared", body)
