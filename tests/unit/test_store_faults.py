"""What goes wrong in an object store while a cell reads or writes there, for every format and client.

Every fault is really caused: by a proxy before a store with passwords, or by killing a process.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from faulty_store import ALWAYS, IN_ERRORS
from forked_cells import job
from process_tree import alive, below, called, named, ports
from samples import write_cell
from stored_cells import (
    BEFORE_VALUES,
    LAYOUTS,
    ROOT,
    SECONDS,
    STORE,
    Users,
    asked_cell,
    cell,
    fill,
    put_store,
    run,
    summed_cell,
    told,
    variables,
    words,
)
from test_workers import wait_until

from hyperslab.measuring.object_store.address import ATTEMPTS
from hyperslab.measuring.servers import PLACE
from hyperslab.records import read_record
from hyperslab.specifications import Specification

pytestmark = pytest.mark.usefixtures("forked_alike")


class Way(NamedTuple):
    """A format with its client, what the names of its objects with values have in them, and how many reads of
    such an object come before the first that is of a selection.
    """

    format: str
    part: str
    before: int = 0
    access: dict[str, Any] | None = None


WAYS = {
    "hdf5 through s3fs": Way("hdf5-s3", "data.h5", 1),
    "hdf5 through obstore": Way("hdf5-s3", "data.h5", 8, {"through": "obstore", "block_bytes": 4096}),
    "by reference": Way("virtual", "array.h5"),
    "zarr": Way("zarr-s3", "/c/"),
    "hsds": Way("hsds-s3", "/0_"),
}
# An object that cannot be removed.
KEPT = "/c/0/0/1"
# What happens to requests for values -> words of the cell's line where it goes on for ever
READ_FAULTS = {"throttled": "SlowDown", "cut": "object store", "short": "object store"}


def specification(way: Way, **repeats: int) -> Specification:
    """A cell that is read in this way."""
    spec = cell(way.format, **repeats)
    layout: Any = {**spec["layout"], **({"access": way.access} if way.access else {})}
    return {**spec, "layout": layout}


def measuring_now() -> list[int]:
    """The process of a cell that this one's server has forked, and those of its name below it."""
    return [process for process in below(os.getpid()) if named(process, "measure")]


class Cell(NamedTuple):
    """A cell whose data were written: where, and where its record would be."""

    spec: Specification
    artifact: Path
    record: Path
    users: Users

    def forked(self) -> list[str]:
        """The command that measures it, forked as those of a run are."""
        return job("hyperslab.measure", *told(self.spec, self.artifact, self.record))

    def measured(self) -> subprocess.CompletedProcess[str]:
        return run("measure", self.spec, self.artifact, self.record, **self.users.credentials)

    def measured_while(self, *fault: Any, **more: Any) -> subprocess.CompletedProcess[str]:
        """Measure it while a fault is caused (`FaultyStore.causing`)."""
        with self.users.faults.causing(*fault, **more):
            return self.measured()

    def outlives(self, times: int, *fault: Any, **more: Any) -> None:
        """Measure it while a fault is caused so often, which it does not mind."""
        done = self.measured_while(*fault, **more)
        assert self.users.faults.caused == times, done.stderr
        assert (done.returncode, done.stderr) == (0, "")

    def nothing_stays(self) -> bool:
        """No object in the bucket, no file of the cell."""
        return not self.users.listed() and not list(self.artifact.parents[1].rglob("*"))


def written(users: Users, root: Path, tmp_path: Path, spec: Specification) -> Cell:
    """A cell with its data."""
    put_store(root, users.site)
    found = Cell(spec, root / "s" / "l" / "box.r0", tmp_path / "r", users)
    fill(spec, found.artifact, **users.credentials)
    return found


def failed_in_one_line(given: Cell, done: subprocess.CompletedProcess[str], said: str) -> None:
    """It ended with one line that says this, left no record and nothing else."""
    assert done.returncode == 1 and not given.record.exists()
    assert done.stderr.count("\n") == 1 and said in done.stderr, done.stderr
    assert IN_ERRORS not in done.stderr
    assert given.nothing_stays()


# By reference Zarr's client asks for ranges, as it does below HDF5 through obstore. What Zarr reads is cut
# and throttled below, where its objects are put, what s3fs and HSDS read in test_object_stores.py.
def test_what_goes_wrong_for_a_moment_is_asked_again_and_counted(
    users: Users, store_root: Path, tmp_path: Path
) -> None:
    chosen = WAYS["hdf5 through obstore"]
    given = written(users, store_root, tmp_path, specification(chosen, cold=2))
    # In the second repeat at the latest.
    given.outlives(
        3, "throttled", 1, chosen.part, method="GET", after=chosen.before, then=("throttled", "cut")
    )
    rows: Any = read_record(given.record)["repeats"]
    assert sum(row["wire_failures"] for row in rows) == 3
    assert sum(row["wire_refused"] for row in rows) == 0
    assert given.nothing_stays()


# By reference and through obstore HDF5 is read by Zarr's client, which gives up; what is short all see.
ENDLESS = [
    *((way, "short") for way in WAYS),
    *((way, "cut") for way in ("hdf5 through s3fs", "zarr")),
    *((way, "throttled") for way in ("hdf5 through s3fs", "zarr", "hsds")),
]
# HSDS counts its attempts at a chunk, whatever each ends with: the first are cut, all others throttled.
CUT_FIRST: tuple[str, int, tuple[str, ...]] = ("cut", 3, ("throttled",) * 1000)


@pytest.mark.parametrize(("way", "fault"), ENDLESS)
def test_what_goes_wrong_for_ever_is_one_line_after_a_few_attempts(
    users: Users, store_root: Path, tmp_path: Path, way: str, fault: str
) -> None:
    chosen = WAYS[way]
    given = written(users, store_root, tmp_path, specification(chosen, cold=1))
    first, times, then = CUT_FIRST if (way, fault) == ("hsds", "throttled") else (fault, ALWAYS, ())
    done = given.measured_while(first, times, chosen.part, method="GET", after=chosen.before, then=then)
    # Three chunks are asked for at once at most, each by itself; HSDS has a limit of its own.
    assert (times if then else 0) < users.faults.caused <= 3 * (ATTEMPTS + (10 if way == "hsds" else 0))
    failed_in_one_line(given, done, "HSDS" if way == "hsds" else READ_FAULTS[fault])


def test_a_store_that_finds_the_clock_wrong_is_one_line(
    users: Users, store_root: Path, tmp_path: Path
) -> None:
    given = written(users, store_root, tmp_path, cell("zarr-s3"))
    done = given.measured_while("skewed")
    failed_in_one_line(given, done, "RequestTimeTooSkewed")


# 20 MB in one chunk: its file is put in parts.
LARGE: dict[str, Any] = {"shape": [5, 1000, 1000], "chunks": [5, 1000, 1000]}


def large(format_: str) -> Specification:
    """A cell whose largest object goes to the store in parts."""
    spec = cell(format_, cold=1)
    dataset: Any = {**spec["dataset"], "shape": LARGE["shape"]}
    layout: Any = {**spec["layout"], "chunks": LARGE["chunks"]}
    case: Any = {**spec["case"], "extent": [5, 1, 1]}
    return {**spec, "dataset": dataset, "layout": layout, "case": case}


# What is put: objects of one request each, and parts of a large one.
PUTS = {"objects": cell("zarr-s3", cold=1), "parts": large("hdf5-s3")}


# A client that is throttled waits and asks again; what was cut it has to send anew.
@pytest.mark.parametrize("what", PUTS)
def test_what_goes_wrong_while_data_are_put_is_tried_again(
    users: Users, store_root: Path, tmp_path: Path, what: str
) -> None:
    given = written(users, store_root, tmp_path, PUTS[what])
    of_reads: tuple[str, ...] = ()
    if what == "objects":
        # Then while they are read. Nor does it matter that an object is not removed at first: what is left is
        # looked at once more.
        of_reads = ("cut", "throttled", "throttled")
        given.outlives(7, "throttled", 2, "/c/", then=("cut-put", *of_reads, "kept"))
    else:
        given.outlives(3, "throttled", 2, method="PUT", then=("cut-put",))
    found: Any = read_record(given.record)
    assert found["file"]["upload_failures"] == 3
    (row,) = found["repeats"]
    assert row["wire_failures"] == len(of_reads)
    assert row["wire_refused"] == 0
    assert given.nothing_stays()


def test_what_goes_wrong_while_a_write_is_timed_is_counted_in_its_row(
    users: Users, store_root: Path, tmp_path: Path
) -> None:
    put_store(store_root, users.site)
    spec = write_cell(cell("zarr-s3"), "chunk", 2)
    given = Cell(spec, store_root / "s" / "l" / "all.r0", tmp_path / "r", users)
    given.outlives(2, "throttled", 2, "/c/", method="PUT")
    first, second = read_record(given.record)["repeats"]
    assert (first["upload_failures"], second["upload_failures"]) == (2, 0)
    # Twelve chunks and the description of the array.
    assert second["upload_requests"] == 13 and first["upload_requests"] == 13 + 2
    assert second["upload_bytes"] >= second["asked_bytes"]
    assert given.nothing_stays()


# what is put, what goes wrong -> words of the cell's line
REFUSED = {
    ("objects", "cut-put"): "object store",
    # Not all stores take as many parts of an object as Amazon's.
    ("parts", "few"): "Part number must be",
}


@pytest.mark.parametrize(("what", "fault"), REFUSED)
def test_data_that_cannot_be_put_leave_nothing(
    users: Users, store_root: Path, tmp_path: Path, what: str, fault: str
) -> None:
    given = written(users, store_root, tmp_path, PUTS[what])
    done = given.measured_while(fault, after=1)
    failed_in_one_line(given, done, REFUSED[what, fault])
    # Nor a part of an object that was begun.
    assert not users.faults.unfinished


def test_a_copy_that_is_cut_short_is_not_summarised(users: Users, store_root: Path, tmp_path: Path) -> None:
    given = written(users, store_root, tmp_path, summed_cell("hdf5-s3", fetch=True, workers=1))
    done = given.measured_while("short")
    failed_in_one_line(given, done, "object store")


def test_what_cannot_be_removed_is_named_and_all_else_is_removed(
    users: Users, store_root: Path, tmp_path: Path
) -> None:
    given = written(users, store_root, tmp_path, cell("zarr-s3", cold=1))
    done = given.measured_while("kept", ALWAYS, KEPT)
    if left := users.listed():
        users.client.delete_dir("mine/runs")
    # What is left when all else was removed is looked at once more.
    assert users.faults.caused == 2
    assert [KEPT in one for one in left] == [True]
    assert done.returncode == 0 and IN_ERRORS not in done.stderr
    assert done.stderr.count("\n") == 1
    assert "may be there" in done.stderr and "AccessDenied" in done.stderr


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_cell_that_is_killed_while_it_puts_objects_leaves_none(
    users: Users, store_root: Path, tmp_path: Path, how: signal.Signals
) -> None:
    spec = cell("zarr-s3", cold=1)
    given = written(users, store_root, tmp_path, spec)
    # A line on which all of it takes some seconds.
    put_store(store_root, {**users.site, "bandwidth": 20_000})
    before = users.faults.puts
    # A terminal that is closed says so to all of its group, to which what is forked does not belong.
    told_all = how == signal.SIGHUP
    measuring = subprocess.Popen(
        words("measure", spec, given.artifact, given.record) if told_all else given.forked(),
        cwd=ROOT, env=variables(users.credentials), stderr=subprocess.DEVNULL,
        # Whoever runs the tests may have it ignored (nohup).
        preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),
    )  # fmt: skip
    try:
        assert wait_until(lambda: users.faults.puts > before) and users.listed()
        asked = measuring.pid if told_all else measuring_now()[0]
        everybody = below(asked)
        for process in (asked, *(everybody if told_all else ())):
            os.kill(process, how)
        measuring.wait(SECONDS)
        # Who is told to end waits for that: with it a job of Slurm's may end, and its gateway at once.
        assert how == signal.SIGTERM or wait_until(lambda: not any(map(alive, everybody)))
        assert users.listed() == [] and not any(map(alive, everybody))
    finally:
        measuring.kill()
        measuring.wait()


class Killed(NamedTuple):
    """Which process of a cell is killed: `depth` below it among those with a word in their command."""

    format: str
    word: str
    depth: int
    said: str
    # Of a store that is started for the cell, not the users' own.
    started: bool = False


# What clients say of an HSDS that has ended.
ENDED = "(HSDS has ended|no server of)"
KILLS = {
    "what watches over the gateway": Killed("zarr-s3", "object_store.gateway", 0, "the gateway to the"),
    "gateway": Killed("hdf5-s3", "object_store.gateway", 1, "the gateway to the object store has ended"),
    "gateway behind a server": Killed("hsds-s3", "object_store.gateway", 1, "gateway to the|HSDS answers"),
    "store": Killed("zarr-s3", "moto_server", 0, "the store that was started for the cell has ended", True),
    # One of its nodes, while two clients ask.
    "server": Killed("hsds-s3", "--node_type=dn", 0, rf"worker \d of 2: ServerError: {ENDED}"),
}


@pytest.mark.parametrize("name", KILLS)
def test_whatever_is_killed_within_a_cell_is_one_line_and_nothing_stays(
    users: Users, store_root: Path, tmp_path: Path, name: str
) -> None:
    chosen = KILLS[name]
    # It would go on for minutes; a million selections take seconds to draw.
    if name == "server":
        spec = asked_cell(chosen.format, 10**4, cold=1)
    else:
        # What a server keeps needs no store, and each cold repeat has another server.
        spec = cell(chosen.format, **({"cold": 1000} if chosen.format == "hsds-s3" else {"session": 10**5}))
    given = written(users, store_root, tmp_path, spec)
    if chosen.started:
        put_store(store_root, STORE)
    with (tmp_path / "log").open("wb") as log:
        asking = subprocess.Popen(
            given.forked(), cwd=ROOT,
            env=variables(users.credentials), stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    asked = users.faults.gets
    try:
        assert wait_until(lambda: bool(measuring_now())), (tmp_path / "log").read_text()
        measuring = measuring_now()[0]

        def found() -> list[int]:
            return [process for process in below(measuring) if called(process, chosen.word)]

        def reading() -> bool:
            # A gateway listens once the store that it has started has answered.
            return users.faults.gets > asked + BEFORE_VALUES or (
                chosen.started and bool(ports(*found_gateways()))
            )

        def found_gateways() -> list[int]:
            return [process for process in below(measuring) if called(process, "object_store.gateway")]

        # Who looks through processes all the time takes a processor from them; a server takes some time to
        # come up where other tests run.
        begun = wait_until(lambda: reading() and len(found()) > chosen.depth, SECONDS)
        assert begun, users.faults.gets - asked
        everybody = below(measuring)
        # The directory of a server; one that is started anew has another each time.
        private = [Path((given.artifact / PLACE).read_text())] if name == "server" else []
        os.kill(found()[chosen.depth], signal.SIGKILL)
        assert asking.wait(SECONDS) == 1
        said = (tmp_path / "log").read_text()
        assert said.count("\n") == 1 and re.search(chosen.said, said), said
        assert not given.record.exists()
        assert wait_until(lambda: not any(map(alive, everybody))), everybody
        assert wait_until(given.nothing_stays), users.listed()
        assert not any(place.exists() for place in private)
    finally:
        asking.kill()
        asking.wait()


# A store that compares the time of a request with its own clock; moto does not.
VERSITYGW = "versitygw"
SLOW_CLOCK = """
import contextlib, datetime
with contextlib.suppress(ImportError):
    import botocore.auth
    slow = datetime.timedelta(hours=2)
    botocore.auth.get_current_datetime = lambda *_, **__: datetime.datetime.now() - slow
"""


@pytest.mark.skipif(shutil.which(VERSITYGW) is None, reason="versitygw is not installed")
def test_versitygw_is_a_store_for_a_cell_and_looks_at_clocks(store_root: Path, tmp_path: Path) -> None:
    put_store(store_root, {**STORE, "start": VERSITYGW})
    spec, artifact, record = cell("zarr-s3"), store_root / "s" / "l" / "box.r0", tmp_path / "r"
    fill(spec, artifact)
    done = run("measure", spec, artifact, record)
    assert (done.returncode, done.stderr) == (0, "")
    found: Any = read_record(record)
    assert [row["wire_requests"] for row in found["repeats"]] == [3, 3]
    # Its files are evicted before each question.
    assert all(row["resident_before"] <= 0.01 < row["resident_after"] for row in found["repeats"])
    assert not list((store_root / "s").rglob("*"))
    record.unlink()
    # Who signs has a clock that is two hours slow.
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "sitecustomize.py").write_text(SLOW_CLOCK)
    fill(spec, artifact)
    done = run(
        "measure", spec, artifact, record, PYTHONPATH=f"{tmp_path / 'slow'}:{os.environ['PYTHONPATH']}"
    )
    assert done.returncode == 1 and not record.exists()
    assert done.stderr.count("\n") == 1 and "RequestTimeTooSkewed" in done.stderr, done.stderr
    assert not list((store_root / "s").rglob("*"))


def test_formats_of_these_tests_are_all_that_there_are() -> None:
    assert {way.format for way in WAYS.values()} == set(LAYOUTS)
