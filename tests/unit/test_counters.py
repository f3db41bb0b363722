"""Counters of the kernel: nothing that belongs to no operation is among them."""

import os
import subprocess
import sys

import pytest

from hyperslab.measuring.counters import Counters

pytestmark = pytest.mark.usefixtures("own_locks")

# A new process, since the C library asks only once in each.
SHRINK_BETWEEN_READINGS = """
import ctypes, threading
from hyperslab.measuring import counters

# A process that has freed much lets a heap keep more of what is given back.
for size in (1, 4, 16):
    library = ctypes.CDLL(None)
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    library.free(library.malloc(size * 2**20))

def readings(counted):
    first = counted.read()
    thread = threading.Thread(target=counters._shrink_own_heap)
    thread.start()
    thread.join()
    found = counters.between(first, counted.read())
    return found["requested_bytes"], found["requested_reads"]

{before}
counted = counters.Counters()
print(*readings(counted), *readings(counted))
"""


def shrunk(before: str) -> list[int]:
    program = SHRINK_BETWEEN_READINGS.format(before=before)
    command = [sys.executable, "-c", program]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [int(number) for number in said.split()]


def test_the_first_shrinking_heap_of_a_thread_adds_nothing_to_the_counts() -> None:
    assert shrunk("") == [0, 0, 0, 0]


def test_without_asking_beforehand_it_would_add_one_byte_and_one_call() -> None:
    assert shrunk("counters._ask_of_overcommit = lambda: None") == [1, 1, 0, 0]


def test_no_descriptor_is_kept() -> None:
    """A process that rewrites or is tested makes counters for each of its operations."""
    before = os.listdir("/proc/self/fd")
    counters = Counters([os.getpid(), os.getppid()])
    assert len(os.listdir("/proc/self/fd")) == len(before) + 3
    counters.follow([os.getpid()])
    assert len(os.listdir("/proc/self/fd")) == len(before) + 2 and all(counters.read())
    del counters
    assert os.listdir("/proc/self/fd") == before
