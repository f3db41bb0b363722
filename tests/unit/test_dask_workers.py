"""Workers of a Dask cluster: what they find, who may join them, and what is left when one is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from own_environments import interpreter
from process_tree import alive, called, children
from studies import load, mistake
from test_collections import study
from test_environments import ROOT
from test_reduce import command
from test_workers import wait_until

from hyperslab import formats
from hyperslab.data.models import open_content
from hyperslab.layouts import layout_of
from hyperslab.layouts.environments import OF_WORKERS, made, of_cell
from hyperslab.planning.requirements import environments
from hyperslab.records import read_record
from update_pins import versions

pytestmark = pytest.mark.usefixtures("own_locks")
CASE: dict[str, Any] = {"summaries": {"day": "all"}, "dask": [2], "repeats": {"cold": 1, "warm": 2}}
NAME = OF_WORKERS["dask"]
SECONDS = 300


@pytest.fixture(scope="module", autouse=True)
def python(require: Callable[[str | None], None]) -> str:
    """The interpreter that has Dask, made from its lock where it is not there."""
    return interpreter(NAME, require)


def started(root: Path, record: Path, python: str = sys.executable, **changes: Any) -> subprocess.Popen[str]:
    """The program that measures, begun in an interpreter, at work on a collection of months."""
    spec = json.loads(
        load(record.parent, study(cases={"days": {**CASE, **changes}})).cell_text("month", "days-2d", "r0")
    )
    data = root / "a" / f"data{layout_of(spec['layout']).suffix}"
    data.parent.mkdir()
    formats.format_of(spec["layout"]).generate(str(data), spec, open_content(spec["dataset"]))
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    _, *words = command(spec, root, record)
    return subprocess.Popen([python, *words], cwd=ROOT, **pipes)


def workers_of(parent: int) -> list[int]:
    """The workers among the children of a process."""
    return [child for child in children(parent) if called(child, "distributed.cli.dask_worker")]


def test_the_workers_find_what_was_written(root: Path, tmp_path: Path) -> None:
    run = started(root, tmp_path / "record.json")
    _, said = run.communicate(timeout=SECONDS)
    assert run.returncode == 0, said
    record = read_record(tmp_path / "record.json")
    assert [row["state"] for row in record["repeats"]] == ["warm", "warm", "library-cold"]
    assert {row["processes"] for row in record["repeats"]} == {2}
    assert all(row["time_s"] > 0 and row["requested_bytes"] > 0 for row in record["repeats"])
    assert {row["nodes"] for row in record["repeats"]} == {record["machine"]["node"]}
    pins = versions((ROOT / "envs" / "releases" / f"{NAME}.lock").read_text())
    assert record["versions"]["distributed"] == pins["distributed"]
    assert not (root / "a").exists()


@pytest.mark.faults
def test_a_killed_worker_fails_the_cell_with_one_line(root: Path, tmp_path: Path, python: str) -> None:
    # The cell above has begun where it has to go on in this interpreter.
    run = started(root, tmp_path / "record.json", python, repeats={"warm": 10**5}, states=["warm"])
    assert wait_until(lambda: len(workers_of(run.pid)) == 2)
    workers = workers_of(run.pid)
    # The key by which they joined is in no command line.
    lines = [Path(f"/proc/{pid}/cmdline").read_text() for pid in workers]
    assert all(
        "tls://127.0.0.1" in line and "PRIVATE KEY" not in line and ".pem" not in line for line in lines
    )
    os.kill(workers[0], signal.SIGKILL)
    _, said = run.communicate(timeout=SECONDS)
    assert run.returncode == 1
    (line,) = [line for line in said.splitlines() if line.startswith("hyperslab.measure: ")]
    assert "ChildProcessError: Dask worker 0 of 2 was ended by signal 9 before its work was done" in line
    assert not any(map(alive, workers)) and not (root / "a").exists()


CLUSTER = """
import json, os, sys, time
from pathlib import Path
from hyperslab.cases.dask_cluster import DaskCluster
from hyperslab.measuring.residency import warm

if __name__ == "__main__":
    cluster = DaskCluster(2, Path(sys.argv[1]))
    print(*cluster.everywhere(os.getpid), flush=True)
    print(cluster._cluster.scheduler.worker_ttl, flush=True)
    for function, arguments in ((json.loads, ["x"]), (warm, [0.0, False])):
        try:
            cluster.everywhere(function, *arguments)
        except Exception as error:
            print(f"{type(error).__name__}: {error}", flush=True)
    time.sleep(600)
"""


@pytest.mark.faults
def test_what_a_worker_raises_is_one_line_and_none_outlives_whoever_started_it(
    python: str, tmp_path: Path
) -> None:
    program = tmp_path / "cluster.py"
    program.write_text(CLUSTER, encoding="utf-8")
    words = [python, str(program), str(tmp_path / "dask")]
    run = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    workers = [int(word) for word in run.stdout.readline().split()]
    assert len(workers) == 2 and all(map(alive, workers))
    assert [run.stdout.readline() for _ in range(3)] == [
        # How long a worker may send no heartbeat: for ever, since it sends none while it works.
        "None\n",
        "ChildProcessError: a Dask worker: JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n",
        "NotInState: only 0.0% of the file fits in the page cache\n",
    ]
    run.kill()
    run.communicate()
    assert wait_until(lambda: not any(map(alive, workers)))


def test_cells_of_these_workers_have_an_environment_of_their_own(tmp_path: Path) -> None:
    planned = load(tmp_path, study(cases={"days": {**CASE, "processes": [1]}}))
    assert list(planned.cases) == ["days-1p", "days-2d"]
    cases = planned.cases
    assert of_cell(cases["days-1p"], None) is None
    assert environments([(planned.layouts["month"], case) for case in cases.values()]) == [made(NAME)]
    assert of_cell(cases["days-2d"], made("object-store")) == made("object-store")


def test_a_layout_of_another_environment_is_a_mistake(tmp_path: Path) -> None:
    layouts = {"old": {"release": "1.12"}}
    said = mistake(tmp_path, study(layouts=layouts, cases={"days": CASE}))
    assert "cases.days.dask: HDF5 has an environment of its own" in said


def test_the_lock_holds_what_measuring_imports() -> None:
    directory = ROOT / "envs" / "releases"
    asked, pins = (versions((directory / f"{NAME}{end}").read_text()) for end in (".in", ".lock"))
    assert asked.items() <= pins.items()
    ours = versions((ROOT / "requirements.lock").read_text())
    assert all(ours[name] == pins[name] for name in ("h5py", "hdf5plugin", "numpy", "zarr", "xxhash"))
