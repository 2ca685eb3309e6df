"""Where arrays get their memory from, for commands that have a process of their own.

Of mallopt(3); only glibc can be told. Elsewhere nothing changes but which of Arrow's pools is used.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

ARENA_MAX: Final = -8  # in how many heaps threads get memory


def share_one_heap() -> None:
    """Let Arrow, NumPy and all threads take memory from one heap.

    What one gives back fits the next: batches are all alike. With heaps of their own, ``oov``
    needs a fifth more.
    """
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
    _tell(ARENA_MAX, 1)


def _tell(option: int, value: int) -> None:
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is not None and hasattr(library, "mallopt"):
        library.mallopt(option, value)
