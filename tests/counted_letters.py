"""Encoders that a person can compute: a vector counts letters. For tests of the pipeline.

``encode``: bytes of the text, how many ``a`` and ``b``, and 1 if there is a ``z``. ``logged`` does
the same, slowly, and notes each text and its process in the file that LOG names.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

LOG: Final = "VOCABTOOL_TEST_LOG"
SECONDS: Final = "VOCABTOOL_TEST_SECONDS"  # that a batch takes
DIM: Final = 4


def encode(texts: Sequence[str]) -> NDArray[np.float32]:
    """The letters of each text, counted."""
    rows = [
        [len(t.encode("utf-8", "surrogateescape")), t.count("a"), t.count("b"), "z" in t]
        for t in texts
    ]
    return np.array(rows, np.float32).reshape(len(texts), DIM)


def logged(texts: Sequence[str]) -> NDArray[np.float32]:
    """The same; each text is noted as one line, whatever happens next."""
    time.sleep(float(os.environ.get(SECONDS, "0")))
    lines = "".join(f"{os.getpid()} {noted_as(text)}\n" for text in texts)
    handle = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, lines.encode())
    finally:
        os.close(handle)
    return encode(texts)


def noted_as(text: str) -> str:
    """What stands for a text in the log."""
    return hashlib.md5(text.encode()).hexdigest()


def write_corpus(path: Path, count: int, end: str = "") -> list[str]:
    """JSON lines with id, text, title and number; the texts are all different."""
    texts = [f"document {at} {'ab'[at % 2] * (at % 7)}{end}" for at in range(count)]
    with path.open("w", encoding="utf-8") as file:
        for number, text in enumerate(texts):
            row = {"id": f"d{number}", "text": text, "title": f"t{number % 10}", "n": number}
            file.write(json.dumps(row) + "\n")
    return texts


def files_of(folder: Path) -> dict[str, bytes]:
    """What is in a folder, by name."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
