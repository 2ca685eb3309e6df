"""Run each measurement in its own process, with a time limit, and measure its memory.

A process prints its results as JSON objects, one per line; they are merged into one object. Output
of libraries is kept out: it goes to standard error while :class:`Reporter` is in use.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

TICK: Final = 0.05
UNIT: Final = 1 if sys.platform == "darwin" else 1024  # bytes per unit of ru_maxrss
QUIET: Final = {"TF_CPP_MIN_LOG_LEVEL": "3", "LANCEDB_LOG": "error"}


@dataclass(frozen=True, slots=True)
class Report:
    """``memory``: peak bytes with mapped files; ``own``: peak bytes without files (Linux)."""

    told: dict[str, Any]
    failure: str | None
    seconds: float
    memory: int
    own: int


def run(arguments: Sequence[str], limit: float, log: Path) -> Report:
    """Run this script with other arguments; its standard error goes to ``log``."""
    with tempfile.TemporaryFile() as out, log.open("wb") as err:
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *arguments], stdout=out, stderr=err, env={**os.environ, **QUIET}
        )
        clock = threading.Timer(limit, process.kill)
        clock.start()
        status, memory, own = _waited(process)
        seconds = time.perf_counter() - start
        clock.cancel()
        out.seek(0)
        told = merged(out)
    if status == 0:
        return Report(told, None, seconds, memory, own)
    reason = _timed_out(told, limit) if seconds >= limit else last_words(log, status)
    return Report(told, reason, seconds, memory, own)


def _waited(process: subprocess.Popen[bytes]) -> tuple[int, int, int]:
    """Return the exit status, the peak resident set, and the peak of its part without files.

    On Linux the peak is read from the system while the process runs: ``ru_maxrss`` of a child also
    counts the memory of its parent.
    """
    peak = own = 0
    while True:
        now = memory_of(process.pid)
        peak, own = max(peak, now.get("VmHWM", 0)), max(own, now.get("RssAnon", 0))
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, peak or usage.ru_maxrss * UNIT, own
        time.sleep(TICK)


def memory_of(pid: int) -> dict[str, int]:
    """Return the figures of a process in bytes, by their name; none if the system has none."""
    try:
        told = Path(f"/proc/{pid}/status").read_text("utf-8")
    except OSError:
        return {}
    lines = (line.split() for line in told.splitlines() if line.endswith(" kB"))
    return {name.rstrip(":"): int(number) * 1024 for name, number, _ in lines}


def merged(lines: IO[bytes]) -> dict[str, Any]:
    """Merge all reported objects; ignore a line that the end of the process truncated."""
    told: dict[str, Any] = {}
    for line in lines:
        if line.endswith(b"\n"):
            told |= json.loads(line)
    return told


def _timed_out(told: dict[str, Any], limit: float) -> str:
    return f"more than {limit:.0f} s, stopped while {told.get('doing', 'starting')}"


def last_words(log: Path, status: int) -> str:
    """Return the last line that a failed process wrote, which is its error."""
    lines = log.read_text("utf-8", "replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    return said[-1] if status > 0 and said else f"ended by signal {-status}, see {log.name}"


class Reporter:
    """Standard output, reserved for reports: output of libraries goes to standard error."""

    def __init__(self) -> None:
        self.out = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
        os.dup2(2, 1)

    def tell(self, **learned: Any) -> None:
        """Report results immediately."""
        self.out.write(json.dumps(learned) + "\n")
        self.out.flush()
