"""HSDS: what a layout may say, and a real server: bytes, codecs, faults, and nothing left or told."""

from __future__ import annotations

import errno
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from own_environments import ROOT, interpreter, said_by, variables
from process_tree import alive
from samples import prepared, read_cell
from server_cells import CHUNKS, SHAPE, behind, commands
from studies import changed, load, mistake
from test_workers import wait_until

from hyperslab.data.selections import Box
from hyperslab.formats.hsds import array, inspection, server, transfer
from hyperslab.layouts import environments, layout_of
from hyperslab.layouts.chunks import chunk_count
from hyperslab.layouts.hsds import ENVIRONMENT
from hyperslab.measuring import servers
from hyperslab.measuring.supervise import below
from hyperslab.planning.site_checks import largest_bytes, largest_files
from hyperslab.records import read_record
from hyperslab.results.tables import rows_of, tidy

PROGRAM = "server_program.py"
SECONDS = 300
STATES = {"cold": 1, "warm": 2}
FIRST_REQUEST = 2**16
FILTERS = [{"name": "gzip", "level": 4}, {"name": "fletcher32"}]
# On a server that takes on more tasks at once than by itself.
STORED = behind("hsds", FILTERS, tasks=2000)


@pytest.fixture(scope="module")
def python(require: Callable[[str | None], None]) -> str:
    """The interpreter that has HSDS, made from its lock where it is not there."""
    return interpreter(ENVIRONMENT, require)


@pytest.fixture
def disk_root(disk: Path) -> Iterator[Path]:
    with prepared(disk) as root:
        yield root


# ---- what a study may say

ALLOWED = "should be gzip, lz4, lz4hc, blosclz or fletcher32"
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no effect": ({"filters": ["shuffle"]}, f"stores chunks as if it were not there; {ALLOWED}"),
    "REST alone": ({"filters": [{"zstd": 3}]}, f"HSDS has it in its REST interface alone; {ALLOWED}"),
    "refused": ({"filters": ["szip"]}, f"HSDS 1.0.2 refuses it; {ALLOWED}"),
    "unknown": ({"filters": ["gzp"]}, "should be 'gzip', 'lz4', 'lz4hc', 'blosclz' or 'fletcher32'"),
    "level": ({"filters": [{"gzip": 10}]}, "gzip's level should be 0 to 9, not 10"),
    "two": ({"filters": ["gzip", "lz4"]}, "at most one compressor"),
    "nodes": ({"settings": {"nodes": 65}}, "settings.nodes: should be less than or equal to 64"),
    "cache": ({"settings": {"chunk_cache_bytes": 8388608}}, "should be greater than or equal to 33554432"),
    "chunk": ({"chunks": [21, 30, 400]}, "is larger than the array"),
    "order": ({"order": ["z", "y", "x"]}, "layouts.4x4x64.order"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line(tmp_path: Path, name: str) -> None:
    given, said = MISTAKES[name]
    content = changed("layouts.4x4x64", {"format": "hsds", "chunks": [4, 4, 64], **given})
    assert said in mistake(tmp_path, content)


def test_a_chunk_has_to_fit_into_the_cache(tmp_path: Path) -> None:
    content = changed("layouts.4x4x64", {"format": "hsds", "chunks": ["all", "all", "all"]})
    content["dataset"]["shape"] = [200, 300, 400]
    content["layouts"]["4x4x64"]["settings"] = {"chunk_cache_bytes": 2**25}
    assert "48,000,000 bytes does not fit 4 times into chunk_cache_bytes" in mistake(tmp_path, content)


def test_a_study_of_it_is_planned(tmp_path: Path) -> None:
    layout = {"format": "hsds", "chunks": [4, 4, 64], "filters": [{"gzip": 6}, "fletcher32"]}
    study = load(tmp_path, changed("layouts", {"mine": {**layout, "settings": {"nodes": 2}}}) | {"grids": []})
    described = layout_of(study.layouts["mine"])
    assert described.environment() == environments.made(ENVIRONMENT)
    assert study.report_meta["layouts"]["mine"]["words"] == (
        "chunks of 4x4x64 (x, y, z; 2 KiB), an object each, filters gzip 6, fletcher32, "
        "HSDS with 2 data nodes"
    )
    assert "tasks" not in described.described["settings"]
    pieces = chunk_count([20, 30, 400], [4, 4, 64])
    assert pieces < largest_files(study) < pieces + 100
    assert largest_bytes(study) > pieces * 4 * 4 * 64 * 2


def test_only_chunks_that_are_stored_have_padding() -> None:
    spec: Any = {
        "dataset": {"axes": ["x", "y"], "shape": [5, 7], "dtype": "uint16"},
        "layout": {"format": "hsds", "chunks": [4, 4], "order": ["x", "y"], "filters": [], "settings": {}},
    }
    found = inspection.report({"/d/0_0": 32, "/d/1_1": 32, "/d/.dataset.json": 100}, 1, spec, {})
    # Of the last chunk 1 x 3 elements lie in the array.
    assert (found["stored_bytes"], found["data_bytes"], found["padding_bytes"]) == (64, 38, 26)


def test_a_server_takes_on_as_many_tasks_as_its_layout_says(tmp_path: Path) -> None:
    layout = {"format": "hsds", "chunks": [4, 4, 64], "settings": {"tasks": 2000}}
    described = load(tmp_path, changed("layouts", {"mine": layout}) | {"grids": []}).layouts["mine"]
    assert "up to 2,000 tasks at once" in layout_of(described).words(["x", "y", "z"], 2)
    connection = servers.Connection(str(tmp_path), str(tmp_path), "http://here", "u", "p")
    assert server.HsdsArtifact(tmp_path).settings(described, connection)["MAX_TASK_COUNT"] == "2000"
    del described["settings"]["tasks"]
    assert "MAX_TASK_COUNT" not in server.HsdsArtifact(tmp_path).settings(described, connection)


# ---- what needs no server


def test_requests_as_json_make_up_a_box() -> None:
    box = Box((3, 1, 2), (4, 5, 7))
    seen = np.zeros((10, 10, 10), int)
    for piece in transfer.pieces(box, 50):
        assert math.prod(piece.extent) <= 50
        seen[piece.slices()] += 1
    assert seen[box.slices()].all() and seen.sum() == math.prod(box.extent)
    assert transfer.select(box) == "[3:7,1:6,2:9]"


SAID: dict[Any, str] = {
    401: "HSDS refuses the password of user u (status 401)",
    404: "HSDS has no /home/hyperslab/data.h5 (status 404)",
    503: "HSDS turned a request away 6 times (503: more tasks than settings.tasks, or a node beyond its own "
    "timeout of 30 s); its log ends with: the last … line",
    500: "HSDS answers with status 500; its log ends with: the last … line",
    None: "HSDS does not answer (OSError: Connection … Error); its log ends with: the last … line",
}


@pytest.mark.parametrize("status", SAID)
def test_what_a_failed_request_says(
    tmp_path: Path, status: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / servers.LOG).write_text("first\nthe last\tsecret line\n\n", encoding="utf-8")
    connection = servers.Connection("data", str(tmp_path), "socket", "u", "secret")
    monkeypatch.setattr(server, "PAUSE_S", 0)
    monkeypatch.setattr(server, "ENDED_S", 0)
    asked = []

    def ask() -> None:
        asked.append(status)
        raise OSError(status, "words") if status else OSError("Connection\nsecret Error")

    with pytest.raises(servers.ServerError) as error:
        server.answered(connection, ask)
    assert str(error.value) == SAID[status]
    assert isinstance(error.value, servers.Busy) == (status == server.BUSY)
    assert len(asked) == (server.TRIES if status == server.BUSY else 1)


def test_a_client_that_gives_up_says_how_long_it_has_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / servers.LOG).write_text("the last line\n", encoding="utf-8")
    monkeypatch.setattr(server, "ENDED_S", 0)

    class ReadTimeout(OSError):
        """As the package requests has it."""

    def ask() -> None:
        error = OSError("Unexpected exception")
        error.__context__ = ReadTimeout()
        raise error

    with pytest.raises(servers.ServerError) as caught:
        server.answered(servers.Connection("data", str(tmp_path), "socket", "u", "secret"), ask)
    said = "HSDS has not answered within 120 s, after which its client gives up; its log ends with: "
    assert str(caught.value) == f"{said}the last line"


BUSY = [
    OSError(503, "busy"),
    OSError("PUT /datasets/d-1/value failed with status code: 503"),
    OSError("createObjects POST to datasets failed with status: 503"),
]


@pytest.mark.parametrize("busy", BUSY, ids=str)
def test_a_server_that_is_busy_once_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: OSError
) -> None:
    monkeypatch.setattr(server, "PAUSE_S", 0)
    answers = iter([busy, None])

    def ask() -> str:
        if error := next(answers):
            raise error
        return "values"

    assert server.answered(servers.Connection("data", str(tmp_path), "s", "u", "p"), ask) == "values"


@pytest.mark.parametrize(("text", "status"), [("Connection Error", None), ("put failed, status: 409", 409)])
def test_a_status_is_found_in_what_a_failed_request_says(text: str, status: int | None) -> None:
    assert server.status_of(OSError(text)) == status


def test_the_kernels_number_of_a_refused_connection_is_no_status() -> None:
    assert server.status_of(ConnectionRefusedError(errno.ECONNREFUSED, "refused")) is None
    assert server.status_of(OSError(503, "busy")) == 503


ANSWERS: dict[int, tuple[bool, Sequence[str]]] = {
    200: (True, ()),
    404: (True, server.FOLDERS),
    410: (True, server.FOLDERS),
    503: (False, ()),
}


@pytest.mark.parametrize("status", ANSWERS)
def test_folders_are_there_when_a_new_server_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    made: list[str] = []

    def folder(name: str, mode: str, **_: str) -> Any:
        assert mode == "w"
        made.append(name)
        return SimpleNamespace(close=lambda: None)

    http = SimpleNamespace(
        open=lambda: None, GET=lambda _: SimpleNamespace(status_code=status), close=lambda: None
    )
    h5pyd = SimpleNamespace(httpconn=SimpleNamespace(HttpConn=lambda *_, **__: http), Folder=folder)
    monkeypatch.setattr(server, "client", lambda: h5pyd)
    artifact = server.HsdsArtifact(tmp_path)
    artifact._sockets = []
    connection = servers.Connection("data", str(tmp_path), "s", "u", "p")
    assert (artifact.up(connection), tuple(made)) == ANSWERS[status]


def test_what_is_written_waits_for_a_server_that_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """h5pyd sends what it keeps when it is flushed, and by itself while more is given to it."""
    monkeypatch.setattr(server, "PAUSE_S", 0)
    opened, done = object.__new__(array.HsdsArray), []
    answers = {deed: iter([*BUSY[1:2] * 2, None]) for deed in ("given", "flushed")}

    def ask(deed: str) -> None:
        if error := next(answers[deed]):
            raise error
        done.append(deed)

    class Dataset:
        def __setitem__(self, index: Any, block: Any) -> None:
            ask("given")

    opened._dataset, opened._json, opened._pending = Dataset(), False, array.PENDING_BYTES
    opened._file = SimpleNamespace(flush=lambda: ask("flushed"))
    opened._connection = servers.Connection("data", str(tmp_path), "s", "u", "p")
    opened.write(Box((0,), (2,)), np.zeros(2))
    assert done == ["given", "flushed"] and opened._pending == 0


def test_a_file_without_its_dataset_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is turned away while it opens the array asks again by another connection."""
    monkeypatch.setattr(server, "PAUSE_S", 0)
    done = []

    class File:
        def __getitem__(self, name: str) -> Any:
            raise BUSY[0]

        def close(self) -> None:
            done.append("closed")
            raise OSError("its server has ended")

    connection = servers.Connection("data", str(tmp_path), "s", "u", "p")
    with pytest.raises(servers.Busy):
        array.HsdsArray(File(), connection, STORED)
    assert done == ["closed"]


@pytest.mark.parametrize(("answers", "asked"), [([500, 500, 204], 3), ([500, 403], 2)])
def test_what_is_not_all_written_in_time_is_waited_for(
    tmp_path: Path, answers: list[int], asked: int
) -> None:
    requests = []

    def put(path: str, params: dict[str, int]) -> Any:
        requests.append((path, params))
        return SimpleNamespace(status_code=answers[len(requests) - 1])

    class Opened(array.HsdsArray):
        http = SimpleNamespace(PUT=put)

    opened = object.__new__(Opened)
    opened._file, opened._pending = SimpleNamespace(flush=lambda: None), 0
    opened._connection = servers.Connection("data", str(tmp_path), "s", "u", "p")
    with (
        nullcontext() if answers[-1] == server.NO_CONTENT else pytest.raises(servers.ServerError, match="403")
    ):
        opened.flush()
    assert len(requests) == asked


NODES = """
import sys
from hyperslab.formats.hsds import serve
serve.commands = lambda *_: [[sys.executable, "-c", "import time; time.sleep(600)"]] * 2
serve.main()
"""


def test_nodes_end_with_what_has_started_them_also_where_that_is_killed() -> None:
    """As it is by the kernel where what watches over the server was killed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow" / "scripts")}
    parent = subprocess.Popen(
        [sys.executable, "-c", NODES, "directory", "root", "passwords", "2"], env=environment
    )
    nodes: set[int] = set()
    try:
        assert wait_until(lambda: len(below(parent.pid)) == 2)
        nodes = below(parent.pid)
        parent.kill()
        parent.wait(SECONDS)
        assert wait_until(lambda: not any(map(alive, nodes)))
    finally:
        parent.kill()
        parent.wait()
        for node in filter(alive, nodes):
            os.kill(node, signal.SIGKILL)


# ---- a real server


@pytest.mark.usefixtures("forked_alike", "python")
def test_selections_come_from_the_server_which_is_counted(disk_root: Path, tmp_path: Path) -> None:
    spec = read_cell(STORED, (3, 10, 60), STATES)
    artifact, record = disk_root / "study" / "layout" / "box.r0", tmp_path / "cells" / "mine" / "box.r0.json"
    for words in commands(spec, artifact, record):
        done = subprocess.run(
            words, cwd=ROOT, env=variables(), capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
    found: Any = read_record(record)
    assert found["skipped"] == {} and found["versions"]["hsds"] == "1.0.2"
    assert found["file"]["chunks"] == found["file"]["chunks_predicted"] == chunk_count(SHAPE, CHUNKS)
    assert found["file"]["settings"]["node_count"] == 1
    assert found["file"]["file_bytes"] <= layout_of(spec["layout"]).largest_bytes(_Array())
    assert found["file"]["files"] + found["file"]["folders"] <= layout_of(spec["layout"]).largest_files(
        _Array()
    )
    table = tidy(rows_of(record, "mine", None, {}))
    assert table["state"].value_counts().to_dict() == STATES
    cold = table[table["state"] == "cold"]
    # The server has read the objects of the chunks, and what Python loads at the first request of all.
    more = cold["server_requested_bytes"] - cold["chunk_bytes"]
    assert ((more >= 0) & (more < FIRST_REQUEST)).all()
    assert (cold["server_device_bytes"] >= cold["chunk_bytes"]).all()
    assert (cold["resident_before"] < 0.01).all()
    warm = table[table["state"] == "warm"]
    # It has had them before.
    assert (warm["server_requested_bytes"] < warm["chunk_bytes"]).all() and (warm["device_bytes"] == 0).all()
    assert (table["server_memory_bytes"] > 2**26).all()
    assert list(disk_root.rglob("*_*")) == []


class _Array:
    axes, shape, dtype, itemsize = list("xyz"), list(SHAPE), "float32", 4
    nbytes = 7 * 50 * 60 * 4


@pytest.fixture(scope="module")
def served(disk: Path, python: str) -> Any:
    """What a server says that starts anew, is asked for summaries, with a wrong password, and is killed."""
    with prepared(disk) as root:
        return said_by(python, PROGRAM, "hsds", str(root / "cell"))


def test_filters_and_json_come_back_equal_from_another_server_too(served: Any) -> None:
    found = served["codecs"]
    assert all(right for right, _ in found.values()), found
    asked = {"lz4": "lz4", "lz4hc": "lz4hc", "blosclz": "blosclz", "json": None}
    assert {name: compression for name, (_, compression) in found.items()} == asked


def test_summaries_of_daily_grids_are_those_of_what_was_written(served: Any) -> None:
    assert served["summarised"] == [2] and served["missing"] > 0


def test_a_fault_is_one_line_and_nothing_wrong_is_read(served: Any) -> None:
    assert served["right"] and not served["words"]
    # Each idle connection would count among the tasks after which requests are turned away.
    assert served["connections"] == 1
    assert all(len(str(line).splitlines()) == 1 for line in served.values())
    assert served["password"] == "ServerError: HSDS refuses the password of user hyperslab (status 401)"
    assert "ServerError: HSDS has ended while it was asked" in served["gone"]
    assert "ServerError: no server of" in served["stopped"]
