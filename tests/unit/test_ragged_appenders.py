"""Who may append to ragged rows: one at a time, within a process and between them, with locks or without."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import h5py
import pytest

from hyperslab import ragged
from hyperslab.ragged import appenders

SCRIPTS = Path(ragged.__file__).parents[2]
APPENDER = """
import sys, h5py
from hyperslab import ragged
with h5py.File(sys.argv[1], "r+") as file, ragged.open(file[sys.argv[2]]) as rows:
    rows.append([[7]])
    print(len(rows), flush=True)
    sys.stdin.readline()
"""
WRITER = """
import sys, h5py
with h5py.File(sys.argv[1], "w", libver="latest") as file:
    file["a"] = 1
    file.flush()
    print("open", flush=True)
    sys.stdin.readline()
"""
READER = (
    "import sys, h5py; from hyperslab import ragged; print(len(ragged.open(h5py.File(sys.argv[1])['one'])))"
)


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A file of two datasets, in HDF5's oldest format, which marks no file as being written."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in ("one", "other"):
            with ragged.create(file, name, "int32") as rows:
                rows.append([[1, 2, 3], [], [4, 5]])
    return tmp_path / "a.h5"


def started(code: str, *words: object, locking: str = "FALSE") -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(SCRIPTS), "HDF5_USE_FILE_LOCKING": locking}
    command = [sys.executable, "-c", code, *map(str, words)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env)


def said(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What a process says until it ends."""
    with process:
        return process.communicate("\n", timeout=60)


def test_two_processes_do_not_append_at_once_where_locks_are_off(two: Path) -> None:
    with started(APPENDER, two, "one") as first:
        assert first.stdout is not None and first.stdout.readline() == "4\n"
        for name in ("one", "other"):
            _, refused = said(started(APPENDER, two, name))
            assert refused.splitlines()[-1].endswith(
                "another process appends to this file; it has to close it first"
            )
        # Readers are not refused, with HDF5's locks or without.
        for locking in ("TRUE", "FALSE"):
            assert said(started(READER, two, locking=locking)) == ("3\n", "")
        assert first.communicate("\n", timeout=60)[1] == ""
    for name in ("one", "other"):
        assert said(started(APPENDER, two, name))[1] == ""
    with h5py.File(two) as file:
        assert (len(ragged.open(file["one"])), len(ragged.open(file["other"]))) == (5, 4)


def test_hdf5s_own_lock_refuses_another_writer(two: Path) -> None:
    with h5py.File(two, "r+", locking=True) as file, ragged.open(file["one"]) as rows:
        rows.append([[1]])
        _, refused = said(started(APPENDER, two, "one", locking="TRUE"))
        assert "unable to lock file" in refused


def test_rows_that_were_closed_leave_the_file_to_others(two: Path) -> None:
    with h5py.File(two, "r+", locking=False) as file:
        one, other = ragged.open(file["one"]), ragged.open(file["other"])
        one.append([[1]])
        other.append([[2]])
        one.close()
        assert "another process appends" in said(started(APPENDER, two, "one"))[1]
        other.close()
        assert said(started(APPENDER, two, "one")) == ("5\n", "")


def test_a_file_that_hdf5_has_locked_is_not_recovered(tmp_path: Path) -> None:
    """It has the mark of a writer, too, and would be cut to the length that it had before."""
    path = tmp_path / "a.h5"
    with started(WRITER, path, locking="TRUE") as first:
        assert first.stdout is not None and first.stdout.readline() == "open\n"
        before = path.read_bytes()
        with pytest.raises(ragged.RaggedError, match="a process that lives has this file open"):
            ragged.recover(path)
        assert path.read_bytes() == before
        assert first.communicate("\n", timeout=60)[1] == ""
    with h5py.File(path) as file:
        assert file["a"][()] == 1


@pytest.fixture
def lasting(tmp_path: Path) -> Path:
    """A file of rows that a kill may not spoil, which nobody has open."""
    with ragged.writer(tmp_path / "a.h5", "rows", "int32") as rows:
        rows.append([[1, 2]])
    return tmp_path / "a.h5"


def test_a_lock_of_all_bytes_hinders_no_recovery(lasting: Path) -> None:
    """Over NFS HDF5's lock is one, and cannot be had beside the byte that `recover` has locked."""
    with lasting.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert not ragged.recover(lasting)


def test_the_file_is_held_after_a_lock_of_all_bytes_was_let_go_of(
    lasting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over NFS the appender's byte is one of them."""

    def flock(descriptor: int, operation: int) -> None:
        if operation == fcntl.LOCK_UN:
            appenders._asked(descriptor, lock=False)

    monkeypatch.setattr(fcntl, "flock", flock)
    with lasting.open("r+b") as file, lasting.open("r+b") as other:
        assert appenders.free(file.fileno()) and not appenders.open_elsewhere(file.fileno())
        assert not appenders.free(other.fileno())
