"""Set the time slice of a thread: how long it runs before Linux gives its core to another one.

Since Linux 6.12, a process may request slices of 0.1 to 100 ms without privileges
(``sched_setattr`` with a runtime and the default policy), or ``chrt --other --sched-runtime`` can.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import struct
from typing import Final

SCHED_SETATTR: Final = {"x86_64": 314, "aarch64": 274}  # system call numbers
ATTRIBUTES: Final = struct.Struct("=IIQiIQQQII")  # struct sched_attr, include/uapi/linux/sched
THIS_ONE: Final = 0
ORDINARY: Final = 0  # SCHED_OTHER


def take_turns_of(milliseconds: float) -> None:
    """Request time slices of this length for the calling thread. Raises ``OSError`` if refused.

    Linux before 6.12 accepts the call but ignores the length.
    """
    runtime, nice = int(milliseconds * 1e6), os.getpriority(os.PRIO_PROCESS, THIS_ONE)
    wanted = ATTRIBUTES.pack(ATTRIBUTES.size, ORDINARY, 0, nice, 0, runtime, 0, 0, 0, 0)
    system = ctypes.CDLL(None, use_errno=True)
    if system.syscall(SCHED_SETATTR[platform.machine()], THIS_ONE, wanted, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def turns_can_be_asked_for() -> bool:
    """Whether the system is a Linux that supports requested time slices."""
    if platform.system() != "Linux" or platform.machine() not in SCHED_SETATTR:
        return False
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    return found is not None and (int(found[1]), int(found[2])) >= (6, 12)
