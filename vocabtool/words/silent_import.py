"""TensorFlow's libraries imported; silently where TensorFlow was told to be silent.

It heeds its own variable only when it is loaded: what its native parts say of the machine before
goes straight to the process's standard error.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from threading import Lock
from types import ModuleType
from typing import Final

LEVEL: Final = "TF_CPP_MIN_LOG_LEVEL"
SILENT: Final = "3"
STDERR: Final = 2
LOCK: Final = Lock()  # two that mute at a time would end with it muted


def imported(library: str) -> ModuleType:
    """A module. Raises ``ImportError``."""
    if os.environ.get(LEVEL) != SILENT or _is_there(library):
        return importlib.import_module(library)
    with LOCK, nullcontext() if _is_there(library) else _muted():
        return importlib.import_module(library)


def _is_there(library: str) -> bool:
    """Whether a module is loaded, or about to be: to import it then only waits."""
    return library in sys.modules


@contextmanager
def _muted() -> Iterator[None]:
    """Nothing that any thread writes to standard error arrives, until the end of it."""
    with ExitStack() as undone:
        try:
            kept = os.dup(STDERR)
            undone.callback(os.close, kept)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            undone.callback(os.close, nowhere)
        except OSError:  # there is no standard error, or no file more can be opened
            pass
        else:
            undone.callback(os.dup2, kept, STDERR)
            os.dup2(nowhere, STDERR)
        yield
