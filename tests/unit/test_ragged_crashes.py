"""Rows whose writer is killed, or read by others: what was finished is there, and nothing is half read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from hyperslab import ragged
from hyperslab.ragged.recovery import lookup3


def same(found: Sequence[Any], wanted: Sequence[Any]) -> bool:
    return [(row.dtype, row.tobytes()) for row in found] == [(row.dtype, row.tobytes()) for row in wanted]


SCRIPTS = Path(ragged.__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
WRITER = """
import sys, h5py
from hyperslab import ragged
path, size = sys.argv[1], int(sys.argv[2])
with h5py.File(path, "w", libver="latest") as file:
    rows = ragged.create(file, "rows", "int64", chunk_bytes=4096, row_chunk=64, filters=FILTERS)
    file.swmr_mode = True
    number = 0
    while True:
        rows.append([[number] * (number * 7 % size) for number in range(number, number + 5)])
        rows.flush()
        number += 5
        print(number, flush=True)
"""


# The writer is killed so often; HYPERSLAB_KILLS=100 takes about a minute.
KILLS = int(os.environ.get("HYPERSLAB_KILLS", "10"))


@pytest.mark.parametrize("attempt", range(KILLS))
def test_killed_in_the_middle_of_an_append(tmp_path: Path, attempt: int) -> None:
    finished = killed(tmp_path / "a.h5", attempt)
    check_after_kill(tmp_path / "a.h5", finished)


def test_a_reader_beside_the_writer_finds_whole_rows(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WRITER.replace("FILTERS", "None"), str(tmp_path / "a.h5"), "300"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as writer:
        try:
            assert writer.stdout is not None
            finished = int(writer.stdout.readline())
            with h5py.File(tmp_path / "a.h5", swmr=True) as file:
                rows = ragged.open(file["rows"])
                counts: list[int] = []
                while len(set(counts)) < 20:
                    counts.append(rows.refresh())
                    latest = rows[max(0, counts[-1] - 20) : counts[-1]]
                    for number, row in enumerate(latest, max(0, counts[-1] - 20)):
                        assert row.tolist() == [number] * (number * 7 % 300)
        finally:
            writer.kill()
    assert counts == sorted(counts) and counts[0] >= finished


def killed(path: Path, attempt: int) -> int:
    """Kill a process that appends at a random moment; the number of rows that it said were there."""
    filters = '{"compression": "gzip"}' if attempt % 2 else "None"
    words = [sys.executable, "-c", WRITER.replace("FILTERS", filters), str(path), str(50 + 37 * attempt)]
    rng = np.random.default_rng(attempt)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline()]
        time.sleep(float(rng.uniform(0, 0.2)))
        writer.send_signal(signal.SIGKILL)
        said += writer.stdout.readlines()
    return int([line for line in said if line.endswith("\n")][-1])


def check_after_kill(path: Path, finished: int) -> None:
    """Assert that every finished row is there, before and after more are appended."""
    size = None
    assert ragged.recover(path)
    assert not ragged.recover(path)
    with h5py.File(path, "r+") as file, ragged.open(file["rows"]) as rows:
        before = rows[:]
        assert len(before) >= finished
        assert same(list(rows), before)
        with pytest.raises(IndexError):
            rows[len(before)]
        size = next((n for n in range(40, 5000) if all(len(r) == i * 7 % n for i, r in enumerate(before))), 0)
        assert size
        assert all((row == number).all() for number, row in enumerate(before))
        rows.append([[7] * 3000] * 50)
    with h5py.File(path) as file:
        after = ragged.open(file["rows"])[:]
        assert same(after[: len(before)], before)
        assert [row.tolist() for row in after[len(before) :]] == [[7] * 3000] * 50


def test_only_a_file_that_can_be_recovered_is_touched(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    path.write_bytes(b"no HDF5 file" * 10)
    with pytest.raises(ragged.RaggedError, match="is no HDF5 file"):
        ragged.recover(path)
    with h5py.File(path, "w", libver=("earliest", "v108")) as file:
        file["a"] = 1
    with pytest.raises(ragged.RaggedError, match="cannot be recovered"):
        ragged.recover(path)
    with h5py.File(path, "w", libver="latest") as file:
        file["a"] = 1
    content = bytearray(path.read_bytes())
    content[30] ^= 1
    path.write_bytes(content)
    with pytest.raises(ragged.RaggedError, match="does not add up"):
        ragged.recover(path)
    assert path.read_bytes() == bytes(content)


def test_the_checksum_is_jenkins() -> None:
    # The values that lookup3.c gives for its own driver5.
    assert lookup3(b"") == 0xDEADBEEF
    assert lookup3(b"Four score and seven years ago") == 0x17770551
