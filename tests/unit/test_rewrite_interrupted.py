"""Whatever ends a rewrite, the original is untouched and there is no half file in the new one's place."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from hyperslab.measuring.processors import processors
from hyperslab.rewriting import supervise
from hyperslab.rewriting.differences import differences
from hyperslab.rewriting.supervise import made_whole, partial_of

SCRIPTS = Path(__file__).parents[2] / "workflow" / "scripts"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
PATIENCE_SECONDS = 60
# Slow enough to be met in the middle: values that gzip tries hard to shrink.
GZIP: dict[str, Any] = {"name": "gzip", "level": 9}
LAYOUT: dict[str, Any] = {"chunks": [1, 512, 256], "filters": [GZIP], "compact": False, "settings": {}}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("original") / "mine.h5"
    with h5py.File(path, "w") as file:
        data = np.random.default_rng(3).integers(0, 16, (256, 512, 256), np.uint8)
        file.create_dataset("counts", data=data, chunks=(32, 32, 256))
        file["counts"].attrs["unit"] = "1"
    return path


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return tmp_path / "new.h5"


def command(original: Path, new: Path, *more: str, layout: dict[str, Any] = LAYOUT) -> list[str]:
    """The rewriting of the file as the workflow calls it, which hands on what it made of its layouts."""
    run = [sys.executable, "-m", "hyperslab.rewrite", str(original), str(new)]
    return [*run, "--dataset", "counts", "--layouts", json.dumps({"it": layout}), *more]


@pytest.fixture
def started(original: Path, new: Path) -> Iterator[subprocess.Popen[str]]:
    """A rewrite that is under way, in a process group of its own."""
    run = subprocess.Popen(
        command(original, new), env=ENVIRONMENT, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        await_true(lambda: partial_of(new).exists() and partial_of(new).stat().st_size > 100_000)
        assert run.poll() is None
        yield run
    finally:
        run.kill()
        run.wait()
        if run.stderr:
            run.stderr.close()


def await_true(condition: Callable[[], bool]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def processes_of(new: Path) -> dict[int, int]:
    """The processes whose command names the new file, each with the one that started it."""
    found = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            named = str(new).encode() in (directory / "cmdline").read_bytes().split(b"\0")
            state, parent = (directory / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if named and state not in "ZX":
            found[int(directory.name)] = int(parent)
    return found


@pytest.mark.faults
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_leaves_no_trace(
    original: Path, new: Path, started: subprocess.Popen[str], number: signal.Signals
) -> None:
    before = digest(original)
    started.send_signal(number)
    _, said = started.communicate(timeout=PATIENCE_SECONDS)
    assert started.returncode == 128 + number
    assert "Traceback" not in said
    assert not list(new.parent.iterdir())
    await_true(lambda: not processes_of(new))
    assert digest(original) == before


@pytest.mark.faults
def test_the_interrupt_of_a_terminal_leaves_no_trace(new: Path, started: subprocess.Popen[str]) -> None:
    os.killpg(started.pid, signal.SIGINT)
    started.communicate(timeout=PATIENCE_SECONDS)
    assert started.returncode == 128 + signal.SIGINT
    assert not list(new.parent.iterdir())
    await_true(lambda: not processes_of(new))


@pytest.mark.faults
def test_after_a_kill_the_next_run_starts_afresh(
    original: Path, new: Path, started: subprocess.Popen[str]
) -> None:
    before = digest(original)
    started.kill()
    started.communicate()
    await_true(lambda: not processes_of(new))
    assert [path.name for path in new.parent.iterdir()] == [partial_of(new).name]
    assert digest(original) == before
    quick = {**LAYOUT, "filters": [{**GZIP, "level": 1}]}
    subprocess.run(command(original, new, layout=quick), env=ENVIRONMENT, check=True)
    assert [path.name for path in new.parent.iterdir()] == ["new.h5"]
    assert not list(differences(original, new, ["counts"]))


@pytest.mark.faults
def test_the_death_of_the_working_process_is_a_failure(new: Path, started: subprocess.Popen[str]) -> None:
    """As when memory runs out."""
    (worker,) = (process for process, parent in processes_of(new).items() if parent == started.pid)
    os.kill(worker, signal.SIGKILL)
    _, said = started.communicate(timeout=PATIENCE_SECONDS)
    assert started.returncode == 1
    assert "was ended by SIGKILL" in said
    assert not list(new.parent.iterdir())
    await_true(lambda: not processes_of(new))


@pytest.mark.faults
@pytest.mark.skipif(processors() < 2, reason="one processor: nothing is shared")
def test_the_death_of_a_process_that_shares_the_work_is_a_failure(
    new: Path, started: subprocess.Popen[str]
) -> None:
    found = processes_of(new)
    (worker,) = (process for process, parent in found.items() if parent == started.pid)
    sharing = [process for process, parent in found.items() if parent == worker]
    assert len(sharing) == processors()
    os.kill(sharing[-1], signal.SIGKILL)
    _, said = started.communicate(timeout=PATIENCE_SECONDS)
    assert started.returncode == 1
    assert "a process that shared the work was ended by signal 9" in said and "Traceback" not in said
    assert not list(new.parent.iterdir())
    await_true(lambda: not processes_of(new))


def test_two_runs_do_not_write_the_same_file(
    original: Path, new: Path, started: subprocess.Popen[str]
) -> None:
    # However long the second one takes to start, the first has not ended.
    os.killpg(started.pid, signal.SIGSTOP)
    second = subprocess.run(
        command(original, new), env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert second.returncode == 1
    assert "another run is writing it" in second.stderr and "Traceback" not in second.stderr
    assert started.poll() is None and partial_of(new).exists()
    os.killpg(started.pid, signal.SIGCONT)
    started.communicate(timeout=PATIENCE_SECONDS)
    assert started.returncode == 0 and not list(differences(original, new, ["counts"]))


@pytest.mark.faults
def test_a_signal_is_heeded_while_the_library_does_not_return(new: Path) -> None:
    """A call that keeps the interpreter's lock, as HDF5's do: no handler of that process would run."""
    code = (
        "import ctypes, sys\n"
        "from pathlib import Path\n"
        "from hyperslab.rewriting.supervise import made_whole\n"
        "def work(partial):\n"
        "    partial.write_text('half')\n"
        "    ctypes.PyDLL(None).sleep(3600)\n"
        "sys.exit(made_whole(Path(sys.argv[1]), work))\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(new)], env=ENVIRONMENT) as run:
        await_true(lambda: partial_of(new).exists() and partial_of(new).read_text() == "half")
        run.send_signal(signal.SIGTERM)
        try:
            assert run.wait(timeout=PATIENCE_SECONDS) == 128 + signal.SIGTERM
        finally:
            run.kill()
    assert not list(new.parent.iterdir())
    await_true(lambda: not processes_of(new))


def test_a_file_that_exists_is_not_replaced_unasked(original: Path, new: Path) -> None:
    new.write_text("precious")
    done = subprocess.run(
        command(original, new), env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "--overwrite" in done.stderr
    assert new.read_text() == "precious"


def test_a_failure_leaves_the_file_that_was_there(original: Path, new: Path) -> None:
    new.write_text("precious")
    wrong = command(original, new, "--overwrite", layout={**LAYOUT, "chunks": [1, 600, 256]})
    done = subprocess.run(wrong, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 2 and "does not fit" in done.stderr.splitlines()[1]
    assert [path.name for path in new.parent.iterdir()] == ["new.h5"]
    assert new.read_text() == "precious"


def test_the_original_cannot_be_the_new_file(original: Path) -> None:
    before = digest(original)
    run = command(original, original, "--overwrite")
    done = subprocess.run(run, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "would be overwritten" in done.stderr
    assert digest(original) == before


ZARR = {"format": "zarr", "chunks": [64, 64, 256]}


@pytest.mark.parametrize(
    ("place", "name", "layout"),
    [
        ("new.h5.hyperslab-partial", "new.h5", LAYOUT),
        ("new.zarr.hyperslab-partial/mine.h5", "new.zarr", ZARR),
        ("new.zarr.hyperslab-replaced/mine.h5", "new.zarr", ZARR),
    ],
)
def test_an_original_where_the_new_file_is_made_is_not_removed(
    tmp_path: Path, place: str, name: str, layout: dict[str, Any]
) -> None:
    mine = tmp_path / place
    mine.parent.mkdir(exist_ok=True)
    with h5py.File(mine, "w") as file:
        file["counts"] = np.arange(8).reshape(2, 2, 2)
    before = digest(mine)
    run = command(mine, tmp_path / name, layout=layout)
    done = subprocess.run(run, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "name another file to write" in done.stderr
    assert digest(mine) == before and not (tmp_path / name).exists()


@pytest.mark.parametrize("directory", [False, True])
def test_what_a_user_calls_partial_or_replaced_is_left_alone(tmp_path: Path, directory: bool) -> None:
    place = tmp_path / "new"
    if directory:
        place.mkdir()
    for suffix in ("partial", "replaced"):
        mine = tmp_path / f"new.{suffix}"
        if directory:
            mine.mkdir()
            mine /= "values"
        mine.write_text("precious")

    def work(partial: Path) -> None:
        (partial / "values" if directory else partial).write_text("new")

    assert made_whole(place, work, directory) == 0
    for suffix in ("partial", "replaced"):
        mine = tmp_path / f"new.{suffix}"
        assert (mine / "values" if directory else mine).read_text() == "precious"


@pytest.mark.parametrize("locking", ["TRUE", "BEST_EFFORT", "FALSE"])
def test_what_is_said_of_locks_keeps_nobody_from_a_rewrite(tmp_path: Path, locking: str) -> None:
    with h5py.File(tmp_path / "mine.h5", "w") as file:
        file["counts"] = np.arange(8).reshape(2, 2, 2)
    layout = {**LAYOUT, "chunks": [1, 2, 2], "filters": []}
    run = command(tmp_path / "mine.h5", tmp_path / "new.h5", layout=layout)
    environment = {**ENVIRONMENT, "HDF5_USE_FILE_LOCKING": locking}
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, "compared and equal" in done.stderr) == (0, True), done.stderr


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def permissions(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize(
    ("mode", "made", "finished", "directory"),
    [(0o600, 0o600, 0o600, 0o700), (0o664, 0o644, 0o644, 0o755), (0o440, 0o640, 0o440, 0o750)],
)
def test_a_new_file_is_never_open_to_more_than_the_original(
    tmp_path: Path, mode: int, made: int, finished: int, directory: int
) -> None:
    new = tmp_path / "new"

    def work(partial: Path) -> None:
        assert permissions(partial) == (directory if partial.is_dir() else made)

    assert made_whole(new, work, mode=mode) == 0 and permissions(new) == finished
    assert made_whole(tmp_path / "new.zarr", work, True, mode) == 0
    assert permissions(tmp_path / "new.zarr") == directory
    # What a killed run left is taken over.
    partial_of(new).touch()
    partial_of(new).chmod(0o666)
    assert made_whole(new, lambda partial: partial.touch(), mode=mode) == 0
    assert not permissions(new) & ~mode


@pytest.mark.usefixtures("umask")
def test_a_rewritten_file_has_the_permissions_of_its_original(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "mine.h5", "w") as file:
        file["counts"] = np.zeros((2, 512, 256), "u1")
    (tmp_path / "mine.h5").chmod(0o600)
    subprocess.run(command(tmp_path / "mine.h5", tmp_path / "new.h5"), env=ENVIRONMENT, check=True)
    assert permissions(tmp_path / "new.h5") == 0o600


def test_what_another_run_begins_is_left_alone(new: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # It may begin as soon as this one's file has its name.
    monkeypatch.setattr(supervise, "sync_directory", lambda _: partial_of(new).touch())
    assert made_whole(new, lambda _: None) == 0
    assert new.exists() and partial_of(new).exists()


SIGNALLED = """
import os, signal, sys
from pathlib import Path
from hyperslab.rewriting.supervise import made_whole

rename = os.rename

def renamed(*names):
    rename(*names)
    os.kill(os.getpid(), signal.SIGTERM)

os.rename = renamed
made_whole(Path(sys.argv[1]), lambda partial: (partial / "new").touch(), directory=True)
"""


def test_a_signal_leaves_the_old_directory_or_the_new_one(tmp_path: Path) -> None:
    place = tmp_path / "a.zarr"
    place.mkdir()
    run = [sys.executable, "-c", SIGNALLED, str(place)]
    done = subprocess.run(run, env=ENVIRONMENT, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 128 + signal.SIGTERM
    assert os.listdir(place) == ["new"]
