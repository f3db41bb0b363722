"""A process that ends when the one that started it ends, however that was."""

from __future__ import annotations

import ctypes
import os
import signal

# <linux/prctl.h>
PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """Have the kernel end this process when its parent ends; `parent` is the parent's id as it knows it."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    # The parent may have ended before the call.
    if os.getppid() != parent:
        os._exit(1)


def follow_parent(parent: int) -> None:
    """End with the parent, and leave to it what the terminal sends to the whole group (Ctrl-C)."""
    end_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
