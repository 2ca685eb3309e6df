"""Where arrays get their memory from, for commands that have a process of their own.

Of mallopt(3); only glibc can be told. Elsewhere nothing changes but which of Arrow's pools is used.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

ARENA_MAX: Final = -8  # in how many heaps threads get memory
MMAP_THRESHOLD: Final = -3  # from how many bytes on memory is mapped apart
TRIM_THRESHOLD: Final = -1  # how many free bytes are kept
NEVER: Final = 1 << 30


def share_one_heap() -> None:
    """Let Arrow, NumPy and all threads take memory from one heap.

    What one gives back fits the next: batches are all alike. With heaps of their own, ``oov``
    needs a fifth more.
    """
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
    _tell(ARENA_MAX, 1)


def keep_what_is_freed() -> None:
    """Let Arrow and NumPy use freed memory again instead of pages that were never touched.

    First touches are a tenth of the run where a few large arrays follow each other.
    """
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
    _tell(MMAP_THRESHOLD, NEVER)
    _tell(TRIM_THRESHOLD, NEVER)


def _tell(option: int, value: int) -> None:
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is not None and hasattr(library, "mallopt"):
        library.mallopt(option, value)
