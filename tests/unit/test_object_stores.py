"""Arrays in an object store, really read through its gateway: counts, faults, credentials, and what stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import pytest
from process_tree import alive, below, children
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
    variables,
    words,
)
from test_workers import wait_until

import hyperslab
from hyperslab.measuring.artifact import NOTE
from hyperslab.measuring.object_store.address import PATIENCE_SECONDS
from hyperslab.measuring.object_store.artifact import MOST_PARTS, part_bytes, patience_seconds
from hyperslab.measuring.servers import connection_of
from hyperslab.planning.store_checks import check_stores
from hyperslab.records import read_record
from hyperslab.results.tables import rows_of, tidy
from hyperslab.specifications import Specification
from hyperslab.studies.specification import text
from hyperslab.validation.errors import ConfigurationError

pytestmark = pytest.mark.usefixtures("forked_alike")


# What goes wrong for a moment while values are read; then a request is throttled and one is cut. What s3fs
# reads first is no selection, and of all clients it asks again after 429. HSDS gets each chunk by itself.
MOMENTS: dict[str, dict[str, Any]] = {
    "hdf5-s3": {"fault": "busy", "part": "data.h5", "after": 1},
    "hsds-s3": {"fault": "throttled", "part": "/0_"},
}
NEVER: dict[str, Any] = {"fault": ""}


def for_a_moment(users: Users, fault: dict[str, Any]) -> AbstractContextManager[None]:
    """Have a fault, and two others, caused once each while values are read."""
    return users.faults.causing(**fault, times=1, method="GET", then=("throttled", "cut"))


def all_counted(users: Users, fault: dict[str, Any], rows: list[Any]) -> None:
    """See that these were caused, and that nothing else went wrong."""
    assert users.faults.caused == (0 if fault == NEVER else 3)
    assert sum(row["wire_failures"] for row in rows) == users.faults.caused
    assert sum(row["wire_refused"] for row in rows) == 0


@pytest.mark.parametrize("format_", LAYOUTS)
def test_a_cell_counts_what_passes_its_gateway(
    users: Users, store_root: Path, tmp_path: Path, format_: str
) -> None:
    # Clients see the gateway alone, so that one store of a cell's own is enough.
    put_store(store_root, {**(STORE if format_ == "zarr-s3" else users.site), "latency_ms": 20.0})
    spec, record = cell(format_, cold=1, session=2), tmp_path / "r"
    artifact = store_root / "s" / "l" / "box.r0"
    fill(spec, artifact)
    fault = MOMENTS[format_] if format_ == "hdf5-s3" else NEVER
    with for_a_moment(users, fault):
        done = run("measure", spec, artifact, record, **users.credentials)
    assert (done.returncode, done.stderr) == (0, "")
    found: Any = read_record(record)
    assert found["skipped"] == {} and len(found["repeats"]) == 3
    # As in a run: what these tests cost, and that each client of a store can be forked.
    assert found["environment"]["HYPERSLAB_FORKED"] == "1"
    assert found["file"]["upload_bytes"] >= found["file"]["file_bytes"]
    all_counted(users, fault, found["repeats"])
    for row in found["repeats"]:
        # Two were measured in a session, of which the first has what opening took.
        asked = row["wire_requests"] + row.get("open_requests", 0)
        waited = row["time_s"] + row.get("open_s", 0.0)
        assert waited > 0.02 * min(1, asked)
        if format_ != "hdf5-s3":
            # Descriptions are read when it is opened, and no chunk is touched twice here.
            assert (row["wire_requests"], row["wire_bytes"]) == (row["chunks_touched"], row["chunk_bytes"])
        if format_ == "hsds-s3":
            assert row["client_bytes"] >= row["asked_bytes"]
        if format_ in ("zarr-s3", "virtual"):
            assert row.get("open_requests", 1) == 1
        elif "open_requests" in row:
            assert asked >= 3 and row["wire_bytes"] + row["open_wire_bytes"] >= row["chunk_bytes"]
    table = tidy(rows_of(record, "mine", None, {}))
    assert table["requested_bytes"].isna().all() and table["upload_s"].notna().all()
    assert not list((store_root / "s").rglob("*"))


def measured(spec: Specification, root: Path, record: Path, credentials: dict[str, str]) -> Any:
    """The record of a cell, of which nothing stays at the root."""
    artifact = root / "s" / "l" / "a.r0"
    fill(spec, artifact)
    done = run("measure", spec, artifact, record, **credentials)
    assert (done.returncode, done.stderr) == (0, "")
    assert not list((root / "s").rglob("*"))
    found: Any = read_record(record)
    assert found["skipped"] == {}
    return found


# All objects are copied once for all workers in tests/workflow/test_store_study.py.
def test_workers_copy_the_objects_of_their_own_parts(users: Users, store_root: Path, tmp_path: Path) -> None:
    put_store(store_root, users.site)
    spec = summed_cell("zarr-s3", "dask", fetch="each")
    # In a job of Slurm's, too, Dask's stay on the node of the gateway; nobody asks which others there are.
    # Nor does anybody look at a password that is for all hosts.
    (netrc := tmp_path / "netrc").write_text("default login anonymous password mine\n")
    job = users.credentials | {"SLURM_JOB_ID": "1", "NETRC": str(netrc)}
    found = measured(spec, store_root, tmp_path / "r", job)
    chunk_bytes = 4 * 4 * 20 * 25
    assert len(found["repeats"]) == 2
    for row in found["repeats"]:
        # Of three chunks along t each has its own and the one between them, and both have zarr.json.
        assert row["wire_requests"] == 2 * (2 * 2 * 2 + 1)
        assert 0 < row["wire_bytes"] - 16 * chunk_bytes < 2 * 10_000
        assert row["fetch_s"] > 0 and row["requested_bytes"] >= 16 * chunk_bytes
    assert users.listed() == []
    assert (tidy(rows_of(tmp_path / "r", "mine", None, {}))["nodes"] != "").all()


# Dask's workers read Zarr in the test above and by reference in tests/workflow/test_store_study.py, processes
# read HDF5 in the test below.
@pytest.mark.parametrize(("format_", "by"), [("zarr-s3", "processes"), ("hdf5-s3", "dask")])
def test_workers_summarise_what_lies_in_a_store(
    users: Users, store_root: Path, tmp_path: Path, format_: str, by: str
) -> None:
    put_store(store_root, users.site)
    spec = summed_cell(format_, by, states=["cold", "session"])
    spec["repeats"] = {"cold": 1, "session": 1}
    found = measured(spec, store_root, tmp_path / "r", users.credentials)
    assert [row["state"] for row in found["repeats"]] == ["session", "cold"]
    for row in found["repeats"]:
        assert (row["processes"], row["wire_failures"]) == (2, 0)
        assert row["open_requests"] >= 2
        if format_ == "hdf5-s3":
            # Blocks of its clients' caches, which keep them.
            assert row["open_wire_bytes"] + row["wire_bytes"] >= row["chunk_bytes"]
        else:
            # The chunks between two parts are read by both.
            assert row["wire_requests"] == row["chunks_touched"] + row["chunks_shared"]
    table = tidy(rows_of(tmp_path / "r", "mine", None, {}))
    assert table["requested_bytes"].isna().all() and (table["nodes"] != "").all()


# Clients of Zarr ask at once in tests/workflow/test_store_study.py.
@pytest.mark.parametrize("format_", ["hdf5-s3", "hsds-s3"])
def test_several_clients_ask_a_store_at_once(
    users: Users, store_root: Path, tmp_path: Path, format_: str
) -> None:
    put_store(store_root, users.site)
    # Each cold repeat of HSDS starts it anew; of all others a client has to let go what it has kept.
    repeats = 1 if format_ == "hsds-s3" else 2
    spec = asked_cell(format_, 10, cold=repeats)
    fault = MOMENTS[format_] if format_ == "hsds-s3" else NEVER
    with for_a_moment(users, fault):
        found = measured(spec, store_root, tmp_path / "r", users.credentials)
    assert len(found["repeats"]) == repeats
    all_counted(users, fault, found["repeats"])
    for row in found["repeats"]:
        # What HSDS asks for again its clients do not notice.
        assert (row["requests"], row["errors"]) == (10, 0)
        assert row["wire_requests"] + row["open_requests"] > 0
        # Clients keep blocks, and the server chunks that any of them has asked for.
        assert row["wire_bytes"] + row["open_wire_bytes"] >= found["file"]["file_bytes"] / 2
    table = tidy(rows_of(tmp_path / "r", "mine", None, {}))
    assert table["requested_bytes"].isna().all()
    assert table["server_memory_bytes"].notna().all() == (format_ == "hsds-s3")


# One that has no server is killed in test_store_faults.py, while it puts its objects.
def test_nothing_is_told_and_nothing_stays_when_a_cell_with_a_server_is_killed(
    users: Users, store_root: Path, tmp_path: Path
) -> None:
    put_store(store_root, users.site)
    spec, artifact = cell("hsds-s3", session=10**5), store_root / "s" / "l" / "box.r0"
    fill(spec, artifact)
    command, asked = words("measure", spec, artifact, tmp_path / "r"), users.faults.gets
    with (tmp_path / "log").open("wb") as log:
        measuring = subprocess.Popen(
            command, cwd=ROOT, env=variables(users.credentials), stdout=log, stderr=log
        )
    try:
        # A server takes some time to come up where other tests run.
        assert wait_until(lambda: users.faults.gets > asked + BEFORE_VALUES, SECONDS)
        # The gateway, and what watches over the server: a service node, a data node and what starts them.
        assert len(children(measuring.pid)) == 2
        connection, processes = connection_of(str(artifact / "data.hsds-s3")), below(measuring.pid)
        told = [_told(process) for process in [measuring.pid, *processes]]
        # One may just have ended.
        assert sum(map(bool, told)) >= 6
        assert not any(connection.password.encode() in one for one in told)
        os.kill(measuring.pid, signal.SIGKILL)
        measuring.wait(SECONDS)
        assert wait_until(lambda: not any(map(alive, processes)))
        assert wait_until(lambda: not Path(connection.directory).exists())
        assert users.listed() == []
    finally:
        measuring.kill()
        measuring.wait()
    left = [file for place in (store_root, tmp_path) for file in place.rglob("*") if file.is_file()]
    assert left
    assert not [file for file in left if connection.password.encode() in file.read_bytes()]


def _told(process: int) -> bytes:
    """What a process was told, nothing where it has ended."""
    with suppress(OSError):
        return b"".join(Path(f"/proc/{process}/{name}").read_bytes() for name in ("cmdline", "environ"))
    return b""


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


def test_a_store_that_is_started_serves_its_gateway_alone(store_python: str) -> None:
    words = [store_python, "-m", "hyperslab.measuring.object_store.moto_server"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as store:
        assert store.stdin is not None and store.stdout is not None
        try:
            store.stdin.write("the-key-of-its-gateway\n")
            store.stdin.flush()
            port = int(store.stdout.readline())
            answers = {key: _answer(port, key) for key in ("", "nobody", "the-key-of-its-gateway")}
        finally:
            store.kill()
    # There is no such bucket yet.
    assert answers == {"": 403, "nobody": 403, "the-key-of-its-gateway": 404}


def _answer(port: int, key: str) -> int:
    """The status of a store's answer to whoever signs with a key, or with none."""
    signed = f"AWS4-HMAC-SHA256 Credential={key}/20260101/us-east-1/s3/aws4_request"
    address = f"http://127.0.0.1:{port}/hyperslab"
    asked = urllib.request.Request(address, headers={"Authorization": signed} if key else {})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(asked)
    refused.value.close()
    return refused.value.code


def test_what_lies_under_the_prefix_already_is_not_touched(
    users: Users, store_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_store(store_root, users.site)
    spec, artifact = cell("zarr-s3", cold=1), store_root / "s" / "l" / "box.r0"
    for variable, value in users.credentials.items():
        monkeypatch.setenv(variable, value)
    with users.client.open_output_stream("mine/runs/s/l/box.r0/precious") as stream:
        stream.write(b"mine")
    try:
        sites = {"mine": {"file_system": "bucket", "store": users.site}}
        with pytest.raises(ConfigurationError, match="is not empty, runs/s/l/box.r0/precious lies"):
            check_stores(["mine"], sites, Path("sites.yaml"))
        fill(spec, artifact)
        # A cell does not trust that somebody has looked.
        done = run("measure", spec, artifact, tmp_path / "r", **users.credentials)
        assert done.returncode == 1 and "is not empty" in done.stderr and done.stderr.count("\n") == 1
        assert users.listed() == ["mine/runs/s/l/box.r0/precious"]
    finally:
        users.client.delete_file("mine/runs/s/l/box.r0/precious")


def test_a_bucket_that_keeps_every_version_is_refused(users: Users, store_root: Path, tmp_path: Path) -> None:
    put_store(store_root, {**users.site, "bucket": "versions"})
    spec, artifact = cell("zarr-s3"), store_root / "s" / "l" / "versions.r0"
    fill(spec, artifact)
    done = run("measure", spec, artifact, tmp_path / "r", **users.credentials)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "bucket versions keeps every version" in done.stderr
    assert users.listed("versions") == []


def test_a_slow_line_is_given_time() -> None:
    assert patience_seconds(None) == patience_seconds(10**9) == PATIENCE_SECONDS
    # All parts that are on their way at once.
    assert patience_seconds(10**6) > 8 * 16 * 2**20 / 1e6


def test_an_object_has_no_more_parts_than_a_store_takes() -> None:
    assert part_bytes(1) == part_bytes(160 * 10**9) == 16 * 2**20
    # The largest object that Amazon S3 holds, in requests of at most 1 GiB, which the gateway lets pass.
    for size in (170 * 10**9, 5 * 2**40):
        part = part_bytes(size)
        assert 16 * 2**20 < part <= 2**30 and -(-size // part) <= MOST_PARTS
    assert patience_seconds(10**6, 2**29) > 8 * 2**29 / 1e6


GONE = """
import http.server, threading
from botocore.exceptions import BotoCoreError, ClientError
from hyperslab.measuring.object_store.emptying import remove
from hyperslab.measuring.object_store.signing import Signer, of_environment

class Once(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        keys = "".join(f"<Contents><Key>runs/{n}</Key></Contents>" for n in range(400))
        body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{keys}</ListBucketResult>".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        threading.Thread(target=self.server.shutdown).start()

    def log_message(self, *_):
        pass

def serve(server):
    server.serve_forever()
    server.server_close()

server = http.server.HTTPServer(("127.0.0.1", 0), Once)
threading.Thread(target=serve, args=[server]).start()
try:
    signer = Signer("us-east-1", of_environment())
    remove(f"http://127.0.0.1:{server.server_port}", "us-east-1", signer, "mine", "runs/")
except (BotoCoreError, ClientError) as error:
    print(type(error).__name__)
"""


def test_a_store_that_goes_while_objects_are_removed_is_not_asked_for_each(store_python: str) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    scripts = str(Path(hyperslab.__file__).parents[1])
    done = subprocess.run(
        [store_python, "-c", GONE], env={**os.environ, **keys, "PYTHONPATH": scripts},
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    # Each of 400 objects would be asked for five times, with pauses of seconds between.
    assert done.stdout.strip() in ("EndpointConnectionError", "ConnectionClosedError", "ClientError")


def ended(python: str, *words: str) -> subprocess.CompletedProcess[str]:
    """What an interpreter with Hyperslab has run, to its end."""
    environment = {**os.environ, "PYTHONPATH": str(Path(hyperslab.__file__).parents[1])}
    return subprocess.run(
        [python, *words], env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )


BEFORE_OPENING = """
import json, sys
from types import SimpleNamespace
from obstore.store import LocalStore
from zarr.core import sync
from hyperslab.data.selections import Box
from hyperslab.formats.virtual import array

path, spec = sys.argv[1], json.loads(sys.argv[2])
array.FORMAT.prepare(spec)
assert sync.loop[0] is not None, "Zarr's event loop is not there yet"
array.Zarr.prepare = lambda *_: sys.exit("a small array is written while a file is opened")
array.address_of = lambda _: SimpleNamespace(store=lambda _: LocalStore(path), name_of=lambda _: "")
loaded = set(sys.modules)
array.FORMAT.open(path, spec).read(Box((0, 0, 0), (1, 1, 1)))
print(*sorted(set(sys.modules) - loaded))
"""


def test_zarr_is_started_and_all_is_loaded_before_a_reference_is_opened(
    store_root: Path, store_python: str
) -> None:
    put_store(store_root, STORE)
    spec, artifact = cell("virtual"), store_root / "s" / "l" / "box.r0"
    fill(spec, artifact)
    done = ended(store_python, "-c", BEFORE_OPENING, str(artifact / "data.virtual"), text(spec))
    assert (done.returncode, done.stdout) == (0, "\n"), done.stdout + done.stderr


def test_chunks_that_a_filter_left_as_they_were_are_not_read_by_reference(store_root: Path) -> None:
    put_store(store_root, STORE)
    plain = cell("virtual")
    filters: Any = [{"name": "blosc", "codec": "lz4", "level": 5, "shuffle": "none"}]
    # Of 16 bits that are mixed nothing shrinks.
    spec: Specification = {
        **plain,
        "dataset": {**plain["dataset"], "dtype": "uint16"},
        "layout": {**plain["layout"], "filters": filters},
    }
    artifact = store_root / "s" / "l" / "box.r0"
    done = run("generate", spec, artifact, None)
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads((artifact / NOTE).read_text(encoding="utf-8")).get("unavailable", "")
    assert said.startswith("filters: one left ") and "chunks as they were" in said


BEFORE_COPYING = """
import json, sys
from functools import partial
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from hyperslab.cases.reduce.division import Division, Share
from hyperslab.cases.reduce.source import Fetch, Source
from hyperslab.data.selections import Box
from hyperslab.measuring.object_store.address import Address, reached

data, spec = Path(sys.argv[1]), json.loads(sys.argv[2])
nowhere = Address("http://127.0.0.1:9", "us-east-1", "mine", "runs/", data.parent, "key", "secret", bool)
source = Source(spec, str(data), partial(reached, data, nowhere))
share = Share(source, 0, RawArray("d", Division.of(spec).cells))
go = share.prepare(Fetch(Box((0, 0, 0), tuple(spec["dataset"]["shape"]))))
loaded = set(sys.modules)
# Nothing was put: no store is asked.
go()
print(*sorted(name for name in set(sys.modules) - loaded if name.startswith("obstore")))
"""


def test_a_worker_has_loaded_its_client_before_it_copies(store_python: str, tmp_path: Path) -> None:
    spec = summed_cell("zarr-s3", fetch="each")
    done = ended(store_python, "-c", BEFORE_COPYING, str(tmp_path / "data.zarr"), text(spec))
    assert (done.returncode, done.stdout) == (0, "\n"), done.stdout + done.stderr


# A store that pauses in its answers: together for longer than a client is patient, or once for ever.
PAUSES = """
import http.server, threading, time
from pathlib import Path
import obstore
from obstore.exceptions import BaseError
from hyperslab.measuring.object_store.address import Address
from hyperslab.measuring.process import ask_itself_directly

PIECES, PIECE, PAUSE, PATIENCE = 6, 1000, 0.5, 2
done = threading.Event()

class Slow(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        size = PIECES * PIECE
        self.send_response(206)
        self.send_header("Content-Length", str(size))
        self.send_header("Content-Range", f"bytes 0-{size - 1}/{size}")
        self.send_header("ETag", '"one"')
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.end_headers()
        for _ in range(PIECES):
            self.wfile.write(bytes(PIECE))
            if "still" in self.path:
                done.wait()
            time.sleep(PAUSE)

    def do_PUT(self):
        done.wait()

    def log_message(self, *_):
        pass

ask_itself_directly()
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
threading.Thread(target=server.serve_forever, daemon=True).start()
where = f"http://127.0.0.1:{server.server_port}"
store = Address(where, "us-east-1", "mine", "runs/", Path(), "key", "secret", bool, PATIENCE).store()
size = PIECES * PIECE
print(len(obstore.get_range(store, "slow", start=0, length=size)))
for ask in (lambda: obstore.get_range(store, "still", start=0, length=size),
            lambda: obstore.put(store, "still", b"values")):
    try:
        ask()
    except BaseError:
        print("given up")
done.set()
"""


def test_what_stands_still_is_given_up_and_not_what_takes_long(store_python: str) -> None:
    done = ended(store_python, "-c", PAUSES)
    assert done.stdout.splitlines() == ["6000", "given up", "given up"], done.stdout + done.stderr


# what the command that times a gateway is told -> what its last line says
OPTIONS = {
    "--repeats 0": "--repeats should be 1 or more",
    "--start minio": "invalid choice: 'minio'",
    "--latency-ms -1": "--latency-ms should be 0 or more",
    "--bandwidth 0": "--bandwidth should be 1 or more",
}
MISTAKEN = """
import contextlib, io, json, sys
import gateway_cost
said = {}
for options in sys.argv[1:]:
    sys.argv[1:] = options.split()
    with contextlib.redirect_stderr(io.StringIO()) as lines:
        try:
            gateway_cost.main()
        except SystemExit as stop:
            said[options] = stop.code, lines.getvalue().splitlines()[-1]
gateway_cost.StoredArtifact.control = lambda *_: {}
sys.argv[1:] = []
try:
    gateway_cost.main()
except SystemExit as stop:
    said["nothing came"] = stop.code
print(json.dumps(said))
"""


def test_what_goes_wrong_where_a_gateway_is_timed_is_one_line(store_python: str) -> None:
    done = ended(store_python, "-c", MISTAKEN, *OPTIONS)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    for options, said in OPTIONS.items():
        code, line = found[options]
        assert code and said in line
    assert found["nothing came"].startswith("gateway_cost: an object of 1,024 bytes did not come; ")
    assert "\n" not in found["nothing came"]
