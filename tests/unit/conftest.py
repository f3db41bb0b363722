"""What the unit tests share: directories on a real disk and in memory, environments, and patience."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from forked_cells import fork_server
from hypothesis import settings
from own_environments import interpreter, ranks_environment, variables
from samples import prepared
from stored_cells import Users, store_of_users

import hyperslab
import run_forked
from hyperslab.cases.mpi import launch
from hyperslab.layouts.hsds import ENVIRONMENT as HSDS
from hyperslab.layouts.idx import OPENVISUS
from hyperslab.measuring.locks import VARIABLE
from hyperslab.measuring.machine import describe_file_system

ROOT = Path(__file__).parents[2]

# A deadline for each example would fail tests where other jobs take the processor.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


def _directory(where: Path, memory_resident: bool) -> Iterator[Path] | None:
    """A temporary directory below `where`, or None where that is not the kind of file system wanted."""
    if (
        not os.access(where, os.W_OK)
        or describe_file_system(str(where))["memory_resident"] != memory_resident
    ):
        return None
    return _removed_later(where)


def _removed_later(where: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hyperslab-test-", dir=where) as directory:
        yield Path(directory)


@pytest.fixture(scope="session")
def disk(require: Callable[[str | None], None]) -> Iterator[Path]:
    """A directory on a disk, whose files the page cache can lose."""
    for where in (Path(tempfile.gettempdir()), Path.cwd()):
        if found := _directory(where, memory_resident=False):
            yield from found
            return
    require("no temporary or current directory on a disk")


@pytest.fixture(scope="session")
def memory(require: Callable[[str | None], None]) -> Iterator[Path]:
    """A directory on a file system in memory."""
    if found := _directory(Path("/dev/shm"), memory_resident=True):
        yield from found
        return
    require("no file system in memory at /dev/shm")


@pytest.fixture
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of other users and tests on this node neither wait for these nor hold them up."""
    # Where processes lock the node, and keep temporary files.
    (place := tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setenv(VARIABLE, str(place))
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setenv("PYTHONPATH", str(Path(hyperslab.__file__).parents[1]))


@pytest.fixture(scope="session")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What tells cells of several modules of their server, and of one place for locks and temporary files."""
    place = str(tmp_path_factory.mktemp("forked") / "tmp")
    with fork_server(variables()) as name:
        yield {run_forked.VARIABLE: name, "TMPDIR": place, VARIABLE: place}


@pytest.fixture
def forked_alike(
    one_server: dict[str, str], own_locks: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As own_locks, for cells that one parent forks: their environment is the same, since it names a link,
    which leads to the place of each test.
    """
    for name, value in one_server.items():
        monkeypatch.setenv(name, value)
    link = Path(one_server["TMPDIR"])
    link.unlink(missing_ok=True)
    link.symlink_to(tmp_path / "tmp")


@pytest.fixture
def root(memory: Path) -> Iterator[Path]:
    """A root for test files in memory."""
    with prepared(memory) as root:
        yield root


@pytest.fixture(scope="session")
def openvisus(require: Callable[[str | None], None]) -> str:
    """The interpreter that has OpenVisus, made from its lock where it is not there."""
    return interpreter(OPENVISUS, require)


@pytest.fixture
def mpi(
    require: Callable[[str | None], None],
    monkeypatch: pytest.MonkeyPatch,
    any_launcher: None,
    own_locks: None,
) -> None:
    """The environment of ranks in the project's directory; tests of it need the machine's MPI."""
    monkeypatch.chdir(ROOT)
    ranks_environment(require)
    # As the rule has it: MPI is not to start in the measuring process.
    monkeypatch.setenv(launch.NOT_HERE, "0")


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """`program(lines)`: what ranks run, which first do what these lines say."""

    def replace(lines: str) -> None:
        path = tmp_path / "ranks.py"
        path.write_text(f"from hyperslab.cases.mpi import program\n{lines}program.main()\n", encoding="utf-8")
        monkeypatch.setattr(launch, "PROGRAM", path)

    return replace


@pytest.fixture(scope="session")
def store_python(require: Callable[[str | None], None]) -> str:
    """The interpreter that has the clients of object stores; that of HSDS is made, too."""
    interpreter(HSDS, require)
    return interpreter("object-store", require)


@pytest.fixture(scope="session")
def users(store_python: str) -> Iterator[Users]:
    """A store of which only one user may read and write."""
    with store_of_users(store_python) as found:
        yield found


@pytest.fixture
def store_root(disk: Path, store_python: str) -> Iterator[Path]:
    """A root on a disk, for a site with an object store."""
    with prepared(disk) as root:
        yield root
