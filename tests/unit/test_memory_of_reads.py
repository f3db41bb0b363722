"""What surrounds a stopwatch leaves the memory that the next read gets as it was."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path

import pytest
from samples import file_specification, read_cell, values_of
from test_environments import ROOT

from hyperslab.formats.hdf5.array import FORMAT

# Prints how many page faults each selection costs that a loop reads.
FAULTS = """
import json, resource, sys
import check_harness, h5py

loop, spec, path = sys.argv[1:]
plain, found = h5py.Dataset.__getitem__, []

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def counted(dataset, index):
    before = faults()
    result = plain(dataset, index)
    found.append(faults() - before)
    return result

h5py.Dataset.__getitem__ = counted
check_harness.in_turn = iter
getattr(check_harness, loop)(json.loads(spec), path, "warm")
print(json.dumps(found))
"""

# Prints how many blocks the C library maps for a request of 4 MiB, once a file was read.
MAPPED = """
import ctypes, os, sys
from hyperslab.measuring import pagecache

class Information(ctypes.Structure):
    # struct mallinfo2; the fourth is the number of blocks that are mapped.
    _fields_ = [(f"field{number}", ctypes.c_size_t) for number in range(10)]

library = ctypes.CDLL(None)
library.mallinfo2.restype = Information
library.malloc.restype = ctypes.c_void_p
pagecache.read_whole(os.open(sys.argv[1], os.O_RDONLY))
before = library.mallinfo2().field3
library.malloc(ctypes.c_size_t(2**22))
print(library.mallinfo2().field3 - before)
"""


def run(program: str, *arguments: str) -> str:
    """Run a program in a new process, whose memory has no history; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT / "workflow/scripts", capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("loop", ["harness", "bare"])
def test_a_result_finds_the_memory_of_the_last_one(disk: Path, loop: str) -> None:
    spec = read_cell(file_specification((6, 6, 100_000)), (5, 5, 100_000), {"warm": 20})
    path = disk / f"{loop}.h5"
    FORMAT.generate(str(path), spec, values_of(spec))
    faults = json.loads(run(FAULTS, loop, json.dumps(spec), str(path)))
    path.unlink()
    assert len(faults) == 20
    # The C library maps the first one and takes the second from its heap, where all others can lie as well.
    assert faults[0] > 100
    assert sum(faults[2:]) < 100


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="not the GNU C library, 2.33 or later"
)
def test_warming_a_file_does_not_change_how_memory_is_served(disk: Path) -> None:
    path = disk / "large"
    path.write_bytes(bytes(2**20))
    assert run(MAPPED, str(path)) == "1\n"
    path.unlink()
