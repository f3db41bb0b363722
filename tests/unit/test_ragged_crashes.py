"""Rows whose writer is killed, or read by others: what was finished is there, and nothing is half read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import killed_writers
import numpy as np
import pytest
from killed_writers import DEEDS, ROWS, told

from hyperslab import ragged
from hyperslab.ragged.checksum import lookup3

TESTS = Path(killed_writers.__file__).parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{Path(ragged.__file__).parents[2]}:{TESTS}"}
# So often is a writer killed in the middle of an append, and a fifth as often in each other deed.
KILLS = int(os.environ.get("HYPERSLAB_KILLS", "10"))
Killer = Callable[..., Any]
# What is appended after a kill fills many chunks.
SEVENS = np.full(3000, 7)


@pytest.fixture(scope="module")
def killer() -> Iterator[Killer]:
    """A function that has a writer killed, and returns what that said of its flushes."""
    command, pipe = [sys.executable, killed_writers.__file__], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=ENVIRONMENT) as program:
        assert program.stdin is not None and program.stdout is not None
        asked, answers = program.stdin, program.stdout

        def kill(*words: Any) -> Any:
            asked.write(json.dumps(words) + "\n")
            asked.flush()
            return json.loads(answers.readline())

        yield kill


@pytest.mark.parametrize("deed", DEEDS)
def test_what_was_flushed_outlives_its_writer(tmp_path: Path, killer: Killer, deed: str) -> None:
    for attempt in range(KILLS if deed == "append" else max(2, KILLS // 5)):
        path, size = tmp_path / f"{attempt}.h5", 50 + 37 * attempt
        filters = {"compression": "gzip"} if attempt % 2 else {}
        seconds = float(np.random.default_rng([attempt, *deed.encode()]).uniform(0, 0.1))
        said = killer(deed, str(path), size, filters, seconds)
        assert said, f"attempt {attempt}: the writer ended by itself"
        with (
            pytest.raises(ragged.RaggedError, match="ragged.recover clears its mark"),
            ragged.writer(path, "rows"),
        ):
            pass
        assert ragged.recover(path)
        assert not ragged.recover(path)
        check_after_kill(path, deed, size, said)
        path.unlink()


def check_after_kill(path: Path, deed: str, size: int, said: list[Any]) -> None:
    """Assert that what was flushed is there, before and after more is appended, and that all is whole."""
    with ragged.writer(path, "rows") as rows:
        before = rows[:]
        found = [told(row, size) for row in before]
        assert None not in found, (said[-1], found.index(None))
        numbers, versions = zip(*(one for one in found if one), strict=True)
        assert numbers == tuple(range(len(found)))
        if deed.startswith("replace"):
            assert len(found) == ROWS and all(np.array(versions) >= said[-1]), (versions, said[-1])
            # Every third is flushed, and the last flush may not have been told any more.
            assert sum(versions) <= sum(said[-1]) + 6
        else:
            assert len(found) >= said[-1][0]
        with pytest.raises(IndexError):
            rows[len(before)]
        rows.append([SEVENS] * 10)
    with h5py.File(path) as file:
        after = ragged.open(file["rows"])[:]
        assert [row.tobytes() for row in after[: len(before)]] == [row.tobytes() for row in before]
        assert [row.tobytes() for row in after[len(before) :]] == [SEVENS.tobytes()] * 10


WRITER = """
import sys
from hyperslab import ragged
with ragged.writer(sys.argv[1], "rows", "int64", chunk_bytes=4096, row_chunk=64) as rows:
    while True:
        rows.append([[number] * (number * 7 % 300) for number in range(len(rows), len(rows) + 5)])
        rows.flush()
        print(len(rows), flush=True)
"""


def test_a_reader_beside_the_writer_finds_whole_rows(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WRITER, str(tmp_path / "a.h5")]
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


BESIDE = """
import json, sys
from hyperslab import ragged
with ragged.writer(sys.argv[1], "rows", "int32", reuse=True) as rows:
    rows.append([[1] * 4, [2] * 4])
    rows.flush()
    print("open", flush=True)
    for line in sys.stdin:
        for deed, *words in json.loads(line):
            getattr(rows, deed)(*words)
            rows.flush()
        print("done", flush=True)
"""


@contextmanager
def writer_beside(path: Path) -> Iterator[Callable[..., None]]:
    """Yield a function that has another process, which has two rows in a file, do something and flush it."""
    words, pipe = [sys.executable, "-c", BESIDE, str(path)], subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=ENVIRONMENT) as writer:
        assert writer.stdin is not None and writer.stdout is not None
        asked, answers = writer.stdin, writer.stdout
        assert answers.readline() == "open\n"

        def do(*deeds: Any) -> None:
            asked.write(json.dumps(deeds) + "\n")
            asked.flush()
            assert answers.readline() == "done\n"

        yield do
        asked.close()


def test_a_reader_that_has_not_looked_anew_finds_no_bytes_of_others(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    changes: list[Any] = [
        ([("__setitem__", 0, [3] * 4), ("__setitem__", 1, [4] * 4)], [[3] * 4, [4] * 4]),
        ([("resize", 1), ("append", [[5] * 4])], [[3] * 4, [5] * 4]),
    ]
    before = [[1] * 4, [2] * 4]
    with writer_beside(path) as do:
        for deeds, after in changes:
            with h5py.File(path, swmr=True) as file:
                rows = ragged.open(file["rows"])
                assert [row.tolist() for row in rows] == before
                do(*deeds)
                assert [row.tolist() for row in rows] == before
                rows.refresh()
                assert [row.tolist() for row in rows] == after
            before = after
    with h5py.File(path, "r+", libver="latest") as file, ragged.open(file["rows"]) as rows:
        # Of 20 numbers 12 belong to no row. Without readers their space is given to others.
        assert rows.lost_bytes == 12 * 4
        rows[0] = [6] * 8
        assert len(rows.vector) == 20 * 4 and [row.tolist() for row in rows] == [[6] * 8, [5] * 4]


def test_a_row_that_was_replaced_since_a_reader_opened_the_file_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with writer_beside(path) as do, h5py.File(path, swmr=True) as file:
        rows = ragged.open(file["rows"])
        do(("__setitem__", 1, [3] * 100))
        assert rows[1].tolist() == [3] * 100
        assert [row.tolist() for row in rows] == [[1] * 4, [3] * 100]
    with h5py.File(path, "r+", libver="latest") as file:
        file["rows.vector"].resize((100,))
    with h5py.File(path, swmr=True) as file, pytest.raises(ragged.RaggedError, match="which has 100 bytes"):
        ragged.open(file["rows"])[1]


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


def test_a_chunk_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with ragged.writer(path, "hits", "u1", filters={"compression": "gzip"}) as rows:
        rows.append([np.random.default_rng(0).integers(0, 255, 5000, np.uint8)])
    with h5py.File(path) as file:
        chunk = file["hits.vector"].id.get_chunk_info(0)
    content = bytearray(path.read_bytes())
    content[chunk.byte_offset + 1000 : chunk.byte_offset + 1100] = bytes(100)
    path.write_bytes(content)
    with pytest.raises(ragged.RaggedError, match="tore a chunk of hits.vector"):
        ragged.recover(path)
    assert path.read_bytes() == bytes(content)
