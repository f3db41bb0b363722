"""Rows that MPI ranks write together, and what parallel HDF5 says of variable-length types."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from hyperslab import ragged
from hyperslab.cases.mpi import environment, launch

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("mpi")]

# Each word says what is done: rows are written to a file of that name, compressed or not.
PROGRAM = """
import sys
import h5py, numpy as np
from mpi4py import MPI
from hyperslab import ragged

comm = MPI.COMM_WORLD

def write(directory, doing):
    filters = {"compression": "gzip", "shuffle": True} if doing == "gzip" else None
    with h5py.File(f"{directory}/{doing}.h5", "w", driver="mpio", comm=comm, libver="latest") as file:
        if doing == "vlen":
            made = file.create_dataset("rows", (8,), h5py.vlen_dtype(np.int32))
            made[comm.rank] = np.arange(3, dtype=np.int32)
        rows = ragged.create(file, "rows", "int32", chunk_bytes=1000, row_chunk=16, filters=filters)
        for turn in range(4):
            # The last rank has nothing at first.
            count = 0 if turn == 0 and comm.rank == comm.size - 1 else 5 + 3 * comm.rank
            lengths = (np.arange(count) * 37 + turn) % 300
            values = np.full(lengths.sum(), comm.rank * 1000 + turn, np.int32)
            if doing == "wrong" and turn == 2 and comm.rank == comm.size - 1:
                lengths = -lengths
            if doing == "nested" and turn == 2 and comm.rank == comm.size - 1:
                lengths = [[1], [2, 3]]
            try:
                ragged.append_collectively(rows, comm, lengths, values)
            except ragged.RaggedError as error:
                print(f"{doing}: rank {comm.rank} was told: {error}", flush=True)
        if doing == "alone":
            rows.resize(len(rows) - 1)
            for add, *words in (
                (rows.append, [[1]]), (rows.append_block, [1], [1]), (rows.__setitem__, 0, [1]),
            ):
                try:
                    if comm.rank == 0:
                        add(*words)
                except ragged.RaggedError as error:
                    print(f"{doing}: rank {comm.rank} was told: {error}", flush=True)
            ragged.append_collectively(rows, comm, [1], np.array([comm.rank], np.int32))
        rows.close()

for doing in sys.argv[2:]:
    write(sys.argv[1], doing)
"""
Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which ranks write."""
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def started(place: Path) -> dict[tuple[int, tuple[str, ...]], Done]:
    """Programs of ranks that have ended, by the number of ranks and what they did."""
    return {}


@pytest.fixture
def by_ranks(place: Path, started: dict[tuple[int, tuple[str, ...]], Done]) -> Callable[..., Done]:
    """`by_ranks(number, *doing)`: what a program of so many ranks says, which is started once."""

    def run(ranks: int, *doing: str) -> Done:
        if (found := started.get((ranks, doing))) is None:
            (place / "program.py").write_text(PROGRAM)
            words = environment.resolved(["mpirun", "-n", str(ranks)])
            words += [environment.python(), str(place / "program.py"), str(place), *doing]
            # These ranks start MPI by themselves.
            env = {**os.environ, launch.NOT_HERE: "1"}
            found = subprocess.run(words, capture_output=True, text=True, timeout=120, env=env, check=False)
            started[ranks, doing] = found
        return found

    return run


# One start of two ranks does all this.
DONE_BY_TWO = ("gzip", "wrong", "nested", "alone")


@pytest.mark.parametrize(
    ("ranks", "doing", "name"), [(1, ("rows",), "rows"), (4, ("rows",), "rows"), (2, DONE_BY_TWO, "gzip")]
)
def test_rows_of_all_ranks_lie_behind_each_other(
    place: Path, by_ranks: Callable[..., Done], ranks: int, doing: tuple[str, ...], name: str
) -> None:
    done = by_ranks(ranks, *doing)
    assert done.returncode == 0, done.stderr
    wanted = [
        np.full((number * 37 + turn) % 300, rank * 1000 + turn, np.int32)
        for turn in range(4)
        for rank in range(ranks)
        for number in range(0 if turn == 0 and rank == ranks - 1 else 5 + 3 * rank)
    ]
    with h5py.File(place / f"{name}.h5") as file:
        rows = ragged.open(file["rows"])
        assert [row.tobytes() for row in rows] == [row.tobytes() for row in wanted]
        assert rows.lost_bytes == 0
        # Rows lie in their order, without gaps.
        assert (np.diff(rows.primary[:]["offset"].astype(np.int64)) >= 0).all()
        assert (rows.vector.compression == "gzip") == (name == "gzip")


@pytest.mark.parametrize(
    ("doing", "words"), [("wrong", "lengths should be a sequence of whole numbers from 0 on"), ("nested", "")]
)
def test_a_mistake_of_one_rank_is_raised_on_all_before_anything_is_written(
    place: Path, by_ranks: Callable[..., Done], doing: str, words: str
) -> None:
    done = by_ranks(2, *DONE_BY_TWO)
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        assert f"{doing}: rank {rank} was told: rank 1: {words}" in done.stdout.replace(
            f"{place}/{doing}.h5: /rows: ", ""
        )
    with h5py.File(place / f"{doing}.h5") as file:
        rows = ragged.open(file["rows"])
        # Three of four turns, of which the second rank took no part in the first.
        assert len(rows) == 3 * 5 + 2 * 8 and rows.lost_bytes == 0


def test_a_rank_adds_no_rows_alone(place: Path, by_ranks: Callable[..., Done]) -> None:
    """What one rank held in memory would be written by it alone when all of them write together."""
    done = by_ranks(2, *DONE_BY_TWO)
    assert done.returncode == 0, done.stderr
    words = "alone: rank 0 was told: .*: the file is open for several ranks; append_collectively adds"
    assert len(re.findall(words, done.stdout)) == 3
    with h5py.File(place / "alone.h5") as file:
        rows = ragged.open(file["rows"])
        assert len(rows) == 4 * 5 + 3 * 8 - 1 + 2 and [row.tolist() for row in rows[-2:]] == [[0], [1]]


def test_parallel_hdf5_refuses_variable_length_types(by_ranks: Callable[..., Done]) -> None:
    done = by_ranks(2, "vlen")
    assert done.returncode != 0
    assert "does not support writing VL" in done.stderr
