"""Run benchmarks, store the results, and write them into the README and the documentation.

    python -m benchmarks quick      # small inputs, about five minutes
    python -m benchmarks all        # everything, hours; see README.md for what it needs
    python -m benchmarks draw       # write the stored results into the pages again
    python -m benchmarks draw --check   # exit code 1 if a page differs from the results

Results are in ``results/quick`` and ``results/all``, a file for each script (``NAME.json``), and
perhaps more for single questions that ran alone (``NAME-QUESTION.json``). A page shows them
between ``<!-- figures: NAME -->`` and ``<!-- end figures -->``: NAME is a script, or ``summary``;
``NAME | TITLE`` is the first table whose title begins with TITLE. Pictures are written to
``docs/_static``.
Figures of ``all`` come before those of ``quick``.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).parent
sys.path.insert(0, str(FOLDER))

from pictures import bar_chart  # noqa: E402 - imported like by the other scripts in this folder
from results import Table, read  # noqa: E402 - the same

ROOT: Final = FOLDER.parent
RESULTS: Final = FOLDER / "results"
REGION: Final = re.compile(
    r"(<!-- figures: (\w+)(?: \| ([^\n]+?))? -->\n).*?(<!-- end figures -->)", re.DOTALL
)

Run = tuple[dict[str, str], list[Table]]  # facts of the machine, and what was measured

# Arguments of each script in `quick`; in `all` it runs without arguments.
SCRIPTS: Final[Mapping[str, str]] = {
    "extract": "--sizes 10,200 --runs 3 --warm-runs 5",
    "oov": "--sizes 200 --runs 1 --only rules",
    "formats": "--only diff --runs 1",
    "pipeline": "--only wide --documents 5000 --runs 1",
    "index_parts": "--documents 5000 --runs 1",
    "first_search": "--shapes 20000x100 --runs 3",
    "search": "--documents 10000 --only ours",
    "retrieval": "--only codes",
    "identifiers": "--documents 5000",
    "encoders": "--only http",
    "serve": "--only clients --documents 10000 --seconds 5",
    "stores": "--documents 5000 --rounds 2 --seconds 1",
    "growth": "--sizes 5000",
}


class Row(NamedTuple):
    """A row of the summary: the table, rows and columns of its two figures."""

    shown: str
    script: str
    table: str  # start of the table's title
    row: str  # text in the row's first cell
    ours: str  # column
    peer_row: str = ""
    peer: str = ""  # column
    against: str = ""


SUMMARY: Final = (
    Row(
        "Extract 400,004 words from a TensorFlow model of 200 MB",
        "extract",
        "Extract 400,004 words from a model of 200 MB",
        "time, TensorFlow",
        "vocabtool",
        peer="other",
        against="a script that imports TensorFlow",
    ),
    Row(
        "… memory",
        "extract",
        "Extract 400,004 words from a model of 200 MB",
        "memory, TensorFlow",
        "vocabtool",
        peer="other",
        against="the same script",
    ),
    Row(
        "Count the unknown words of a text, two threads",
        "oov",
        "Unknown words",
        "vocabtool oov, two",
        "speed",
        "plain Python",
        "speed",
        "a plain Python loop",
    ),
    Row(
        "Compare two vocabularies of a million entries",
        "formats",
        "Two vocabularies",
        "vocabtool",
        "time",
        "Python's sets",
        "time",
        "Python's sets",
    ),
    Row(
        "Embed documents with word vectors, documents a second",
        "pipeline",
        "Word vectors",
        "vocabtool",
        "documents a second",
        "datasets",
        "documents a second",
        "datasets.map",
    ),
    Row(
        "Hybrid search of 100,000 documents, p50",
        "search",
        "Hybrid search of 100,000",
        "ours",
        "p50",
        "zvec",
        "p50",
        "zvec",
    ),
    Row(
        "Quality for queries with an unknown word, nDCG@10",
        "retrieval",
        "Mean nDCG@10",
        "unk20, unknown word",
        "coverage",
        peer="RRF",
        against="reciprocal rank fusion",
    ),
    Row(
        "The one document that holds a code comes first",
        "retrieval",
        "How often the only document",
        "a code and words that it does not",
        "coverage",
        peer="RRF",
        against="reciprocal rank fusion",
    ),
)


class Picture(NamedTuple):
    """A bar chart; ``bars``: label, and row and column of its figure."""

    file: str
    title: str
    script: str
    table: str
    bars: Mapping[str, tuple[str, str]]
    ours: str


UNKNOWN: Final = "unk20, unknown word"
PICTURES: Final = (
    Picture(
        "extract-time.svg",
        "Seconds to extract 400,004 words from a model of 200 MB",
        "extract",
        "Extract 400,004 words from a model of 200 MB",
        {
            "vocabtool": ("time, TensorFlow", "vocabtool"),
            "a script with TensorFlow": ("time, TensorFlow", "other"),
        },
        "vocabtool",
    ),
    Picture(
        "fusions.svg",
        "nDCG@10 of queries with a word that the encoder does not know",
        "retrieval",
        "Mean nDCG@10",
        {
            "vectors alone": (UNKNOWN, "dense"),
            "reciprocal rank fusion": (UNKNOWN, "RRF"),
            "keywords alone (BM25)": (UNKNOWN, "BM25"),
            "convex combination": (UNKNOWN, "convex"),
            "coverage (the default)": (UNKNOWN, "coverage"),
        },
        "coverage (the default)",
    ),
    Picture(
        "stores.svg",
        "Queries whose only right document comes first",
        "stores",
        "Hybrid search of",
        {
            "vocabtool in a folder": ("ours: folder", "codes first"),
            "vocabtool in PostgreSQL": ("ours: PostgreSQL", "codes first"),
            "PostgreSQL, any word": ("own: any word", "codes first"),
            "PostgreSQL, all words": ("own: all words", "codes first"),
            "PostgreSQL, pg_textsearch": ("own: pg_textsearch", "codes first"),
        },
        "vocabtool in PostgreSQL",
    ),
)


def results() -> dict[str, list[Run]]:
    """Return the runs of each script."""
    found = {}
    for name in SCRIPTS:
        for kind in ("all", "quick"):
            if (whole := RESULTS / kind / f"{name}.json").exists():
                alone = sorted((RESULTS / kind).glob(f"{name}-*.json"))
                found[name] = [read(path) for path in (whole, *alone)]
                break
    return found


def tables_of(runs: Sequence[Run]) -> list[Table]:
    return [table for _, tables in runs for table in tables]


def cell(tables: list[Table], table: str, row: str, column: str) -> str | None:
    """Return a figure, or ``None`` if it was not measured."""
    for found in tables:
        if found.title.startswith(table) and column in found.columns:
            for cells in found.rows:
                if row in cells[0]:
                    return cells[found.columns.index(column)]
    return None


def summary(found: Mapping[str, list[Run]]) -> Iterator[str]:
    """Return the summary table for the README."""
    yield "| | vocabtool | compared with |"
    yield "|---|---:|---:|"
    for row in SUMMARY:
        tables = tables_of(found.get(row.script, []))
        ours = cell(tables, row.table, row.row, row.ours)
        peer = cell(tables, row.table, row.peer_row or row.row, row.peer)
        if ours is not None and peer is not None:
            yield f"| {row.shown} | **{ours}** | {peer}, {row.against} |"
    every = [facts for row in SUMMARY for facts, _ in found.get(row.script, [])]
    machines, commits = ({facts[name] for facts in every} for name in ("system", "commit"))
    yield ""
    yield (
        f"Measured on {', '.join(sorted(machines))}, at the commits {', '.join(sorted(commits))}. "
        "The code has changed since."
    )


def shown(name: str, title: str | None, found: Mapping[str, list[Run]]) -> str:
    """Return the text for a page between its two marks."""
    if name == "summary":
        return "\n".join(summary(found)) + "\n"
    if name not in found:
        return "Not measured yet for this version.\n"
    if title is not None:
        tables = tables_of(found[name])
        chosen = [each.markdown() for each in tables if each.title.startswith(title)]
        if not chosen:
            raise ValueError(f"{name}: no table whose title begins with {title!r}")
        return f"{chosen[0]}\n"
    parts = []
    for facts, tables in found[name]:
        versions = ", ".join(f"{k} {v}" for k, v in facts.items() if k not in ("date", "command"))
        parts.append(f"`{facts['command']}`, {facts['date']}: {versions}.")
        parts += (table.markdown() for table in tables)
    return "\n\n".join(parts) + "\n"


def pages() -> Iterator[tuple[Path, str, str]]:
    """Yield each page and picture with figures: path, text, and text with the stored results."""
    found = results()
    for picture in PICTURES:
        tables = tables_of(found.get(picture.script, []))
        bars = {
            label: figure
            for label, (row, column) in picture.bars.items()
            if (figure := cell(tables, picture.table, row, column)) is not None
        }
        if len(bars) < len(picture.bars):
            continue  # not measured yet
        file = ROOT / "docs" / "_static" / picture.file
        now = file.read_text("utf-8") if file.exists() else ""
        yield file, now, bar_chart(picture.title, bars, picture.ours)
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = page.read_text("utf-8")
        drawn = REGION.sub(
            lambda match: match[1] + shown(match[2], match[3], found) + match[4], text
        )
        if REGION.search(text):
            yield page, text, drawn


def draw(check: bool) -> int:
    """Write the results into the pages; with ``check`` only report pages that differ."""
    stale = [page for page, text, drawn in pages() if text != drawn]
    if check:
        for page in stale:
            print(f"{page.relative_to(ROOT)}: other figures than benchmarks/results")
        return int(bool(stale))
    for page, _, drawn in list(pages()):
        page.write_text(drawn, "utf-8")
    return 0


def run(kind: str, only: list[str]) -> int:
    """Run the scripts one after another; a script that fails does not stop the others."""
    failed = []
    for name, options in SCRIPTS.items():
        if only and name not in only:
            continue
        print(f"== {name}", flush=True)
        arguments = options.split() if kind == "quick" else []
        command = [sys.executable, str(FOLDER / f"{name}.py"), *arguments]
        kept = ["--json", str(RESULTS / kind / f"{name}.json")]
        if subprocess.run([*command, *kept], check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("quick", "all", "draw"))
    parser.add_argument("--only", choices=SCRIPTS, action="append", default=[])
    parser.add_argument("--check", action="store_true", help="with draw: write nothing")
    options = parser.parse_args()
    code = 0 if options.what == "draw" else run(options.what, options.only)
    sys.exit(draw(options.check) or code)


if __name__ == "__main__":
    main()
