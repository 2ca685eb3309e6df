"""TensorFlow's libraries imported; silently where TensorFlow was told to be silent.

It heeds its own variable only when it is loaded: what its native parts say of the machine before
goes straight to the process's standard error.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import ModuleType
from typing import Final

LEVEL: Final = "TF_CPP_MIN_LOG_LEVEL"
SILENT: Final = "3"
STDERR: Final = 2


def imported(library: str) -> ModuleType:
    """A module. Raises ``ImportError``."""
    with _muted() if os.environ.get(LEVEL) == SILENT else nullcontext():
        return importlib.import_module(library)


@contextmanager
def _muted() -> Iterator[None]:
    """Nothing that any thread writes to standard error arrives, until the end of it."""
    try:
        kept = os.dup(STDERR)
    except OSError:  # closed by whoever started us
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, STDERR)
        yield
    finally:
        os.dup2(kept, STDERR)
        os.close(nowhere)
        os.close(kept)
