"""TensorFlow's and PyTorch's libraries imported, so that they bear each other in one process.

Silently where TensorFlow was told to be silent: it heeds its own variable only when it is loaded,
and what its native parts say of the machine before goes straight to standard error.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Final

LEVEL: Final = "TF_CPP_MIN_LOG_LEVEL"
SILENT: Final = "3"
STDERR: Final = 2
LOCK: Final = Lock()  # two that mute at a time would end with it muted


def import_library(library: str) -> ModuleType:
    """A module. Raises ``ImportError``."""
    load_triton()
    if os.environ.get(LEVEL) != SILENT or _is_there(library):
        return importlib.import_module(library)
    with LOCK, nullcontext() if _is_there(library) else _mute_stderr():
        return importlib.import_module(library)


def load_triton() -> None:
    """Load the native part of Triton, which comes with PyTorch, if it is installed (0.03 s).

    TensorFlow offers its symbols, LLVM's among them, to every library that is loaded later. Triton
    3.7 has an LLVM of its own; loaded after TensorFlow it calls the wrong one, and the process
    dies. Loaded before, or told to prefer its own symbols, it works, and ``import triton`` takes
    the library that is loaded.
    """
    if "triton" in sys.modules or (triton := find_spec("triton")) is None:
        return
    mode = getattr(os, "RTLD_DEEPBIND", 0) if "tensorflow" in sys.modules else 0
    for folder in triton.submodule_search_locations or ():
        with suppress(OSError):  # no such file, or damaged: `import triton` will say it
            ctypes.CDLL(str(Path(folder, "_C", "libtriton.so")), mode)


def _is_there(library: str) -> bool:
    """Whether a module is loaded, or about to be: to import it then only waits."""
    return library in sys.modules


@contextmanager
def _mute_stderr() -> Iterator[None]:
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
