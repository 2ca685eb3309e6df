"""Import TensorFlow and PyTorch so that both work in one process.

If ``TF_CPP_MIN_LOG_LEVEL`` is 3, standard error is muted during the import, because TensorFlow
prints some messages before it reads this variable.
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
LOCK: Final = Lock()  # two threads that redirect at a time could leave standard error silent


def import_library(library: str) -> ModuleType:
    load_triton()
    is_loud = os.environ.get(LEVEL) == SILENT and library not in sys.modules
    with _mute_stderr() if is_loud else nullcontext():
        return importlib.import_module(library)


def load_triton() -> None:
    """Load the native library of Triton, a dependency of PyTorch, if it is installed.

    Triton and TensorFlow have different versions of LLVM. If Triton 3.7 is loaded after TensorFlow,
    Triton calls TensorFlow's LLVM and crashes the process. Triton works if it is loaded first, or
    with ``RTLD_DEEPBIND``. A later ``import triton`` uses the library that is loaded here.
    """
    triton = None if "triton" in sys.modules else find_spec("triton")
    if triton is None:
        return
    mode = getattr(os, "RTLD_DEEPBIND", 0) if "tensorflow" in sys.modules else 0
    for folder in triton.submodule_search_locations or ():
        with suppress(OSError):  # no such file, or damaged: `import triton` will report it
            ctypes.CDLL(str(Path(folder, "_C", "libtriton.so")), mode)


@contextmanager
def _mute_stderr() -> Iterator[None]:
    """Discard all that any thread writes to standard error, until the block ends."""
    with LOCK, ExitStack() as undone:
        try:
            kept = os.dup(STDERR)
            undone.callback(os.close, kept)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            undone.callback(os.close, nowhere)
        except OSError:  # there is no standard error, or too many files are open
            pass
        else:
            undone.callback(os.dup2, kept, STDERR)
            os.dup2(nowhere, STDERR)
        yield
