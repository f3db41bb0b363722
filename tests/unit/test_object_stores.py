"""Arrays in an object store, really read through its gateway: counts, faults, credentials, and what stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from faulty_store import FaultyStore
from own_environments import interpreter
from pyarrow import fs
from samples import prepared, read_cell
from test_environments import ROOT
from test_workers import alive, wait_until

import hyperslab
from hyperslab.layouts.hsds import ENVIRONMENT
from hyperslab.planning.store_checks import check_stores
from hyperslab.records import read_record
from hyperslab.results.tables import rows_of, tidy
from hyperslab.sites.roots import MARKER, Root
from hyperslab.specifications import CaseSpecification, LayoutSpecification, Specification
from hyperslab.studies.specification import text
from hyperslab.validation.errors import ConfigurationError

pytestmark = pytest.mark.usefixtures("own_locks")
SECONDS = 300
AXES, SHAPE, CHUNKS = ["t", "y", "x"], [12, 40, 50], [4, 20, 25]
HDF5_SETTINGS = {"chunk_cache_bytes": 2**20, "chunk_cache_slots": 521, "libver": "earliest"}
LAYOUTS: dict[str, LayoutSpecification] = {
    "hdf5-s3": {
        "format": "hdf5-s3", "chunks": CHUNKS, "order": AXES, "filters": [], "settings": HDF5_SETTINGS,
        "access": {"through": "s3fs", "cache": "blockcache", "block_bytes": 4096},
    },
    "zarr-s3": {
        "format": "zarr-s3", "chunks": CHUNKS, "order": AXES, "codecs": [],
        "settings": {"pipeline": "default", "write_empty_chunks": False},
    },
    "virtual": {
        "format": "virtual", "chunks": CHUNKS, "order": AXES, "settings": HDF5_SETTINGS,
        "filters": [{"name": "shuffle"}, {"name": "zstd", "level": 3}],
    },
    "hsds-s3": {
        "format": "hsds-s3", "chunks": CHUNKS, "order": AXES, "filters": [],
        "settings": {"nodes": 1, "chunk_cache_bytes": 2**26, "transfer": "binary"},
    },
}  # fmt: skip
STORE = {
    "start": "moto", "endpoint": None, "region": "us-east-1", "bucket": "hyperslab", "prefix": "runs/",
    "latency_ms": 0.0, "bandwidth": None,
}  # fmt: skip


class Users(NamedTuple):
    """A store with passwords, behind a proxy that causes faults, and the credentials of its user."""

    faults: FaultyStore
    credentials: dict[str, str]
    # A client that goes past the proxy.
    client: Any

    def listed(self) -> list[str]:
        """What lies in the bucket."""
        found = self.client.get_file_info(fs.FileSelector("mine", recursive=True))
        return [one.path for one in found if one.type == fs.FileType.File]

    @property
    def site(self) -> dict[str, Any]:
        """The store of a site that names the proxy."""
        return {**STORE, "start": None, "endpoint": f"http://127.0.0.1:{self.faults.port}", "bucket": "mine"}


@pytest.fixture(scope="module")
def python(require: Callable[[str | None], None]) -> str:
    """The interpreter that has the clients of object stores, made from its lock where it is not there."""
    interpreter(ENVIRONMENT, require)
    return interpreter("object-store", require)


@pytest.fixture(scope="module")
def users(python: str) -> Iterator[Users]:
    """A store of which only one user may read and write."""
    environment = {**os.environ, "PYTHONPATH": str(Path(hyperslab.__file__).parents[1])}
    store = subprocess.Popen(
        [python, str(ROOT / "tests" / "store_program.py")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    assert store.stdout is not None and store.stdin is not None
    said = json.loads(store.stdout.readline())
    credentials = {"AWS_ACCESS_KEY_ID": said["key"], "AWS_SECRET_ACCESS_KEY": said["secret"]}
    faults = FaultyStore(said["port"])
    client = fs.S3FileSystem(
        access_key=said["key"], secret_key=said["secret"], region="us-east-1", scheme="http",
        endpoint_override=f"127.0.0.1:{said['port']}",
    )  # fmt: skip
    try:
        yield Users(faults, credentials, client)
    finally:
        faults.close()
        store.stdin.close()
        store.wait(SECONDS)


@pytest.fixture
def store_root(disk: Path, python: str) -> Iterator[Path]:
    with prepared(disk) as root:
        yield root


def put_store(root: Path, store: dict[str, Any]) -> None:
    """Have a root be that of a site with this object store."""
    (root / MARKER).write_text(json.dumps(asdict(Root(store=store))))


def cell(format_: str, **repeats: int) -> Specification:
    """What measure is told of a box of 12 x 20 x 25 elements: three chunks."""
    dataset: Any = {"axes": AXES, "shape": SHAPE, "dtype": "float32", "fill": "mixed"}
    return read_cell({"dataset": dataset, "layout": LAYOUTS[format_]}, (12, 1, 1), repeats or {"cold": 2})


def run(
    program: str, spec: Specification, artifact: Path, record: Path | None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A command of a cell, to its end."""
    return subprocess.run(
        words(program, spec, artifact, record),
        cwd=ROOT, env=variables(environment), capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip


def words(program: str, spec: Specification, artifact: Path, record: Path | None) -> list[str]:
    more = ["--record", str(record), "--site", "store"] if record else []
    start = [sys.executable, "-m", f"hyperslab.{program}", "--specification", text(spec)]
    return [*start, "--artifact", str(artifact), *more]


def variables(environment: dict[str, str]) -> dict[str, str]:
    """The environment of a cell: no credentials but these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return kept | environment


@pytest.mark.parametrize("format_", LAYOUTS)
def test_a_cell_counts_what_passes_its_gateway(store_root: Path, tmp_path: Path, format_: str) -> None:
    put_store(store_root, {**STORE, "latency_ms": 20.0})
    spec, artifact, record = (
        cell(format_, cold=2, session=2),
        store_root / "s" / "l" / "box.r0",
        tmp_path / "r",
    )
    for program, place in (("generate", None), ("measure", record)):
        done = run(program, spec, artifact, place)
        assert (done.returncode, done.stderr) == (0, "")
    found: Any = read_record(record)
    assert found["skipped"] == {}
    assert found["file"]["upload_bytes"] >= found["file"]["file_bytes"]
    for row in found["repeats"]:
        assert row["wire_failures"] == 0
        # Two were measured in a session, of which the first has what opening took.
        asked = row["wire_requests"] + row.get("open_requests", 0)
        waited = row["time_s"] + row.get("open_s", 0.0)
        assert waited > 0.02 * min(1, asked)
        if format_ != "hdf5-s3":
            # Descriptions are read when it is opened, and no chunk is touched twice here.
            assert (row["wire_requests"], row["wire_bytes"]) == (row["chunks_touched"], row["chunk_bytes"])
        if format_ in ("zarr-s3", "virtual"):
            assert row.get("open_requests", 1) == 1
        elif row["state"] == "cold":
            assert asked >= 3 and row["wire_bytes"] + row["open_wire_bytes"] >= row["chunk_bytes"]
    table = tidy(rows_of(record, "mine", None, {}))
    assert table["requested_bytes"].isna().all() and table["upload_s"].notna().all()
    assert not list((store_root / "s").rglob("*"))


def summed_cell(format_: str, by: str = "processes", **case: Any) -> Specification:
    """What measure is told of summaries of all planes by two workers."""
    asked: Any = {
        "name": "days", "kind": "summaries", "statistics": "summaries", "planes": "t", "split": "t",
        "by": by, "workers": 2, "extent": SHAPE, "states": ["cold"], **case,
    }  # fmt: skip
    return {**cell(format_, cold=2), "case": asked}


def measured(spec: Specification, root: Path, record: Path, credentials: dict[str, str]) -> Any:
    """The record of a cell, of which nothing stays at the root."""
    for program, place in (("generate", None), ("measure", record)):
        done = run(program, spec, root / "s" / "l" / "a.r0", place, **credentials)
        assert (done.returncode, done.stderr) == (0, "")
    assert not list((root / "s").rglob("*"))
    found: Any = read_record(record)
    assert found["skipped"] == {}
    return found


@pytest.mark.parametrize("format_", ["hdf5-s3", "zarr-s3"])
def test_objects_are_copied_before_they_are_summarised(
    users: Users, store_root: Path, tmp_path: Path, format_: str
) -> None:
    put_store(store_root, users.site)
    found = measured(summed_cell(format_, fetch=True), store_root, tmp_path / "r", users.credentials)
    assert len(found["repeats"]) == 2
    for row in found["repeats"]:
        assert row["fetch_s"] > 0 and row["wire_bytes"] == found["file"]["file_bytes"]
        # An object of this size comes in one part.
        assert row["wire_requests"] == found["file"]["files"]
        assert row["requested_bytes"] > 0
    assert users.listed() == []


@pytest.mark.parametrize("by", ["processes", "dask"])
def test_workers_copy_the_objects_of_their_own_parts(
    users: Users, store_root: Path, tmp_path: Path, by: str
) -> None:
    put_store(store_root, users.site)
    spec = summed_cell("zarr-s3", by, fetch="each")
    found = measured(spec, store_root, tmp_path / "r", users.credentials)
    chunk_bytes = 4 * 4 * 20 * 25
    for row in found["repeats"]:
        # Of three chunks along t each has its own and the one between them, and both have zarr.json.
        assert row["wire_requests"] == 2 * (2 * 2 * 2 + 1)
        assert 0 < row["wire_bytes"] - 16 * chunk_bytes < 2 * 10_000
        assert row["fetch_s"] > 0 and row["requested_bytes"] >= 16 * chunk_bytes
    assert users.listed() == []


BY = [(format_, "processes") for format_ in ("hdf5-s3", "zarr-s3", "virtual")]


# Dask's workers read Zarr in the test above.
@pytest.mark.parametrize(("format_", "by"), [*BY, ("hdf5-s3", "dask"), ("virtual", "dask")])
def test_workers_summarise_what_lies_in_a_store(
    store_root: Path, tmp_path: Path, format_: str, by: str
) -> None:
    put_store(store_root, STORE)
    spec = summed_cell(format_, by, states=["cold", "session"])
    # In a job of Slurm's, too, they stay on the node of the gateway; nobody asks which others there are.
    job = {"SLURM_JOB_ID": "1"}
    found = measured({**spec, "repeats": {"cold": 1, "session": 1}}, store_root, tmp_path / "r", job)
    assert [row["state"] for row in found["repeats"]] == ["session", "cold"]
    for row in found["repeats"]:
        assert (row["processes"], row["wire_failures"]) == (2, 0)
        assert row["open_requests"] >= 2
        if format_ == "hdf5-s3":
            # Blocks of its clients' caches, which keep them.
            assert row["open_wire_bytes"] + row["wire_bytes"] >= row["chunk_bytes"]
        elif by == "processes":
            # The chunks between two parts are read by both.
            assert row["wire_requests"] == row["chunks_touched"] + row["chunks_shared"]
        else:
            # A task is of whole chunks.
            assert (row["wire_requests"], row["wire_bytes"]) == (row["chunks_touched"], row["chunk_bytes"])
    table = tidy(rows_of(tmp_path / "r", "mine", None, {}))
    assert table["requested_bytes"].isna().all() and (table["nodes"] != "").all()


@pytest.mark.parametrize("format_", ["hdf5-s3", "zarr-s3", "hsds-s3"])
def test_several_clients_ask_a_store_at_once(store_root: Path, tmp_path: Path, format_: str) -> None:
    put_store(store_root, STORE)
    case: CaseSpecification = {
        "name": "mixed-2p", "family": "mixed", "kind": "clients", "by": "processes", "workers": 2,
        "clients": {"map": [1, 40, 50], "series": [12, 1, 1]}, "requests": 10, "states": ["cold"],
    }  # fmt: skip
    found = measured({**cell(format_, cold=2), "case": case}, store_root, tmp_path / "r", {})
    assert len(found["repeats"]) == 2
    for row in found["repeats"]:
        assert (row["requests"], row["errors"], row["wire_failures"]) == (10, 0, 0)
        if format_ == "zarr-s3":
            # Nobody keeps anything: each request is for its chunks, and each client has asked where they lie.
            assert (row["wire_requests"], row["wire_bytes"]) == (row["chunks_touched"], row["chunk_bytes"])
            assert row["open_requests"] == 2
        else:
            assert row["wire_requests"] + row["open_requests"] > 0
            # Clients keep blocks, and the server chunks that any of them has asked for.
            assert row["wire_bytes"] + row["open_wire_bytes"] >= found["file"]["file_bytes"] / 2
    table = tidy(rows_of(tmp_path / "r", "mine", None, {}))
    assert table["requested_bytes"].isna().all()
    assert table["server_memory_bytes"].notna().all() == (format_ == "hsds-s3")


def test_a_copy_that_is_cut_short_is_not_summarised(users: Users, store_root: Path, tmp_path: Path) -> None:
    put_store(store_root, users.site)
    spec, artifact, record = (
        summed_cell("hdf5-s3", fetch=True),
        store_root / "s" / "l" / "days.r0",
        tmp_path / "r",
    )
    run("generate", spec, artifact, None, **users.credentials)
    users.faults.cause("short", 10**9)
    try:
        done = run("measure", spec, artifact, record, **users.credentials)
    finally:
        users.faults.cause("")
    assert done.returncode == 1 and not record.exists()
    assert done.stderr.count("\n") == 1 and "object store" in done.stderr, done.stderr
    assert users.listed() == [] and not list((store_root / "s").rglob("*"))


@pytest.mark.parametrize("format_", ["hdf5-s3", "hsds-s3"])
def test_nothing_leaks_and_nothing_stays(
    users: Users, store_root: Path, tmp_path: Path, format_: str
) -> None:
    put_store(store_root, users.site)
    spec, artifact, record = cell(format_, session=200), store_root / "s" / "l" / "box.r0", tmp_path / "r"
    done = run("generate", spec, artifact, None, **users.credentials)
    assert (done.returncode, done.stderr) == (0, "")
    with (tmp_path / "log").open("wb") as log:
        measuring = subprocess.Popen(
            words("measure", spec, artifact, record), cwd=ROOT, env=variables(users.credentials),
            stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        seen: set[bytes] = set()
        while measuring.poll() is None:
            seen.update(commands())
    assert measuring.wait() == 0, (tmp_path / "log").read_text()
    assert any(b"object_store.gateway" in line for line in seen)
    left = [
        path.read_bytes() for where in (tmp_path, store_root) for path in where.rglob("*") if path.is_file()
    ]
    for value in users.credentials.values():
        assert not any(value.encode() in content for content in [*left, *seen])
    assert users.listed() == []


def commands() -> list[bytes]:
    """The command of every process of this machine."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(place.read_bytes())
        except OSError:
            continue
    return found


@pytest.mark.parametrize(("format_", "processes"), [("zarr-s3", 1), ("hsds-s3", 2)])
def test_a_killed_cell_leaves_no_object_and_no_gateway(
    users: Users, store_root: Path, tmp_path: Path, format_: str, processes: int
) -> None:
    put_store(store_root, users.site)
    spec, artifact = cell(format_, session=10**6), store_root / "s" / "l" / "box.r0"
    run("generate", spec, artifact, None, **users.credentials)
    measuring = subprocess.Popen(
        words("measure", spec, artifact, tmp_path / "r"), cwd=ROOT, env=variables(users.credentials)
    )
    try:

        def children() -> list[str]:
            return Path(f"/proc/{measuring.pid}/task/{measuring.pid}/children").read_text().split()

        assert wait_until(lambda: users.listed() and len(children()) == processes)
        left = children()
        os.kill(measuring.pid, signal.SIGKILL)
        measuring.wait(SECONDS)
        assert wait_until(lambda: not any(alive(int(child)) for child in left))
        assert users.listed() == []
    finally:
        measuring.kill()
        measuring.wait()


# fault -> format, the store's fault, how often it comes, in which objects, and what the one line says of it
# (None: the cell gets over it)
FAULTS: dict[str, tuple[str, str, int, str, str | None]] = {
    "throttled for a moment": ("zarr-s3", "throttled", 2, "", None),
    "throttled": ("zarr-s3", "throttled", 10**9, "", "SlowDown"),
    "cut once": ("zarr-s3", "cut", 1, "", None),
    "cut": ("zarr-s3", "cut", 10**9, "", "object store"),
    "short objects": ("zarr-s3", "short", 10**9, "", "object store"),
    "clock": ("zarr-s3", "skewed", 10**9, "", "RequestTimeTooSkewed"),
    "chunk cut once behind a server": ("hsds-s3", "cut", 1, "/0_", None),
    "short chunks behind a server": ("hsds-s3", "short", 10**9, "/0_", "HSDS"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_got_over_or_said_in_one_line(
    users: Users, store_root: Path, tmp_path: Path, name: str
) -> None:
    put_store(store_root, users.site)
    format_, fault, times, part, said = FAULTS[name]
    spec, artifact, record = cell(format_), store_root / "s" / "l" / "box.r0", tmp_path / "r"
    run("generate", spec, artifact, None, **users.credentials)
    users.faults.cause(fault, times, part)
    try:
        done = run("measure", spec, artifact, record, **users.credentials)
        assert users.faults.caused
    finally:
        users.faults.cause("")
    assert users.listed() == [] and not list((store_root / "s").rglob("*"))
    if said is None:
        assert (done.returncode, done.stderr) == (0, "")
        return
    assert done.returncode == 1 and not record.exists()
    assert done.stderr.count("\n") == 1 and said in done.stderr, done.stderr


# what a site or the environment has wrong -> what the one line says before anything runs
MISTAKES: dict[str, tuple[dict[str, Any], dict[str, str], str]] = {
    "password": ({}, {"AWS_SECRET_ACCESS_KEY": "wrong"}, "is not that of its key"),
    "key": ({}, {"AWS_ACCESS_KEY_ID": "nobody"}, "does not know the AWS_ACCESS_KEY_ID"),
    "no password": ({}, {"AWS_SECRET_ACCESS_KEY": ""}, "the environment has no AWS_SECRET_ACCESS_KEY"),
    "bucket": ({"bucket": "missing"}, {}, "no such bucket"),
    "endpoint": ({"endpoint": "http://127.0.0.1:9"}, {}, "nothing answers there"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_store_that_cannot_be_used_is_refused_before_anything_runs(
    users: Users, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    changed, environment, said = MISTAKES[name]
    for variable, value in (users.credentials | environment).items():
        monkeypatch.setenv(variable, value)
    sites = {"mine": {"file_system": "bucket", "store": {**users.site, **changed}}}
    with pytest.raises(ConfigurationError, match=said) as caught:
        check_stores(["mine"], sites, Path("sites.yaml"))
    assert "file_systems.bucket.store" in str(caught.value) and "\n" not in str(caught.value)
    assert not any(value in str(caught.value) for value in users.credentials.values())


def test_what_lies_under_the_prefix_already_is_not_touched(
    users: Users, store_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_store(store_root, users.site)
    spec, artifact = cell("zarr-s3"), store_root / "s" / "l" / "box.r0"
    for variable, value in users.credentials.items():
        monkeypatch.setenv(variable, value)
    with users.client.open_output_stream("mine/runs/s/l/box.r0/precious") as stream:
        stream.write(b"mine")
    try:
        sites = {"mine": {"file_system": "bucket", "store": users.site}}
        with pytest.raises(ConfigurationError, match="is not empty, runs/s/l/box.r0/precious lies"):
            check_stores(["mine"], sites, Path("sites.yaml"))
        run("generate", spec, artifact, None)
        # A cell does not trust that somebody has looked.
        done = run("measure", spec, artifact, tmp_path / "r", **users.credentials)
        assert done.returncode == 1 and "is not empty" in done.stderr and done.stderr.count("\n") == 1
        assert users.listed() == ["mine/runs/s/l/box.r0/precious"]
    finally:
        users.client.delete_file("mine/runs/s/l/box.r0/precious")
