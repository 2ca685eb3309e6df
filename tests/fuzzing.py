"""Damage a model and read it, many times, in a process of its own with a limit on memory.

``python -m tests.fuzzing MODEL --every 97 --flips 2000`` cuts each file of the model at every 97th
byte, then flips 2,000 random bits one after the other, and reads the model each time. It prints
how that went as JSON; only vocabtool's own errors may come out.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import re
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import vocabtool
from vocabtool.cli.main import cli

ADDRESS_SPACE = 4 << 30  # far above what is measured; only keeps a runaway from the machine


def damages(data: bytes, every: int, flips: int, seed: str) -> Iterator[bytes]:
    """The content of a file cut short at every so many bytes, then with single bits flipped."""
    for size in range(0, len(data), every):
        yield data[:size]
    rng = random.Random(seed)
    for _ in range(flips if data else 0):
        position = rng.randrange(len(data))
        changed = bytearray(data)
        changed[position] ^= 1 << rng.randrange(8)
        yield bytes(changed)


def show(model: Path, formats: Sequence[str] = ("json",)) -> None:
    """Show all of a model as the command line does; raises what it raises."""
    for format_ in formats:
        out = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace")
        with redirect_stdout(out), redirect_stderr(out):
            command = ["inspect", "--all", "--format", format_, str(model)]
            cli.main(command, standalone_mode=False)


def read(model: Path) -> bool:
    """Whether the model could be read; anything but our own error is let through."""
    try:
        found = vocabtool.inspect(model, small=True)
        for vocabulary in found.vocabularies:
            vocabulary.id_array()
        show(model)
    except vocabtool.VocabtoolError:
        return False
    return True


def peak_mb() -> float:
    """The most memory that this process has held, in MB; ``ru_maxrss`` counts its parent's too."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s*(\d+)", status.read_text("ascii") if status.exists() else "")
    used = int(found[1]) if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def fuzz(model: Path, every: int, flips: int) -> dict[str, object]:
    """Damage every file of a model in turn; ``flips`` are shared out by size."""
    read_fine = refused = 0
    slowest = 0.0
    escaped: list[str] = []
    files = [model] if model.is_file() else sorted(p for p in model.rglob("*") if p.is_file())
    total = sum(file.stat().st_size for file in files) or 1
    for file in files:
        original = file.read_bytes()
        share = -(-flips * len(original) // total)
        for number, damaged in enumerate(damages(original, every, share, file.name)):
            file.write_bytes(damaged)
            began = time.perf_counter()
            try:
                fine = read(model)
                read_fine, refused = read_fine + fine, refused + (not fine)
            except Exception:  # noqa: BLE001 - what must not come out is what is looked for
                escaped.append(f"{file.name} #{number}: {traceback.format_exc(limit=-3)}")
            slowest = max(slowest, time.perf_counter() - began)
        file.write_bytes(original)
    return {
        "read": read_fine,
        "refused": refused,
        "escaped": escaped[:5],
        "slowest": slowest,
        "peak_mb": peak_mb(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Damage a model and read it, many times.")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--every", type=int, default=97)
    parser.add_argument("--flips", type=int, default=2000)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    for model in options.models:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / model.name
            if model.is_dir():
                shutil.copytree(model, copy)
            else:
                shutil.copy(model, copy)
            found = fuzz(copy, options.every, options.flips)
        print(json.dumps({"model": model.name, **found}), flush=True)  # noqa: T201 - its output is its result


if __name__ == "__main__":
    main()
