"""Benchmark results: tables and facts about the machine, as JSON, text or Markdown.

Each script in this folder yields tables and passes them to :func:`report`.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

PACKAGES: Final = ("vocabtool", "numpy", "pyarrow", "faiss-cpu", "tantivy", "tensorflow")
NUMBER: Final = re.compile(r"[<>=~+-]* ?\d")  # how a figure begins


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of results; ``rows``: one formatted cell for each column."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def text(self) -> str:
        """Return the table with aligned columns, for a terminal."""
        lines = [self.columns, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        first, *others = widths
        drawn = [
            "  ".join(
                (row[0].ljust(first), *(c.rjust(w) for c, w in zip(row[1:], others, strict=True)))
            ).rstrip()
            for row in lines
        ]
        return "\n".join((self.title, *drawn))

    def markdown(self) -> str:
        """Return the table in Markdown, with the title as a bold line."""
        _, *others = zip(*self.rows, strict=True)
        right = ["---:" if any(map(NUMBER.match, cells)) else "---" for cells in others]
        lines = [self.columns, ("---", *right), *self.rows]
        return "\n".join((f"**{self.title}**", "", *(f"| {' | '.join(row)} |" for row in lines)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A goal of a benchmark, and the measured figure."""

    what: str
    wanted: str
    measured: str
    reached: bool


def at_most(what: str, measured: float, wanted: float, shown: str) -> Goal:
    """Return a goal with an upper limit; ``shown``: the format of both figures."""
    limit, reached = f"<= {shown.format(wanted)}", measured <= wanted
    return Goal(what=what, wanted=limit, measured=shown.format(measured), reached=reached)


def at_least(what: str, measured: float, wanted: float, shown: str) -> Goal:
    """Return a goal with a lower limit; ``shown``: the format of both figures."""
    limit, reached = f">= {shown.format(wanted)}", measured >= wanted
    return Goal(what=what, wanted=limit, measured=shown.format(measured), reached=reached)


def goals(*found: Goal) -> Table:
    """Return goals as a table."""
    rows = ((g.what, g.wanted, g.measured, "yes" if g.reached else "no") for g in found)
    return Table(title="Goals", columns=("", "wanted", "measured", "reached"), rows=tuple(rows))


def facts() -> dict[str, str]:
    """Return system, cores, memory and versions; nothing that identifies the machine."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    found = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": _commit(),
        "system": f"{platform.system()} {platform.machine()}, {cores} cores, {memory:.0f} GiB",
        "python": platform.python_version(),
    }
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _commit() -> str:
    """Return the commit of the measured code, with a plus sign if files were changed since."""
    command = ["git", "describe", "--always", "--abbrev=8", "--exclude=*", "--dirty=+"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent)
    return done.stdout.strip() or "unknown"


def report(tables: Iterable[Table], path: Path | None) -> None:
    """Print each table as soon as it is measured; write all of them to ``path``, if given."""
    kept = []
    for table in tables:
        print(f"{table.text()}\n", flush=True)
        kept.append(asdict(table))
    if path:
        result = {"machine": facts(), "command": shlex.join(arguments()), "tables": kept}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")


def arguments() -> list[str]:
    """Return the command line of this process, without paths and addresses of this machine."""
    kept = ["python", f"benchmarks/{Path(sys.argv[0]).name}"]
    hidden = ("--json", "--work", "--baseline", "--store")
    rest = iter(sys.argv[1:])
    for argument in rest:
        if argument in hidden:
            next(rest, None)
        elif not argument.startswith(tuple(f"{option}=" for option in hidden)):
            kept.append(argument)
    return kept


def read(path: Path) -> tuple[dict[str, str], list[Table]]:
    """Read the facts and tables that :func:`report` wrote."""
    found = json.loads(path.read_text("utf-8"))
    tables = [
        Table(
            title=table["title"],
            columns=tuple(table["columns"]),
            rows=tuple(map(tuple, table["rows"])),
        )
        for table in found["tables"]
    ]
    return {**found["machine"], "command": found["command"]}, tables
