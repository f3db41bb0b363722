"""Cells of arrays in an object store, small enough for tests, and stores in which they may lie."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from faulty_store import FaultyStore
from forked_cells import job
from samples import read_cell, summed

import hyperslab
from hyperslab.layouts import layout_of
from hyperslab.layouts.environments import of_cell
from hyperslab.measuring.object_store import KEY, SECRET, control
from hyperslab.measuring.process import interpreter_of
from hyperslab.sites.roots import MARKER, Root
from hyperslab.specifications import CaseSpecification, LayoutSpecification, Specification, file_digest
from hyperslab.studies.specification import text

ROOT = Path(__file__).parents[1]
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
# Before its first question a cell gets objects to time its gateway, and a server that is started, and started
# anew, so many descriptions.
BEFORE_VALUES = 2 * len(control.SIZES) * (control.PAIRS + 1) + 9

# What artifacts were filled with, by what tells their data apart: files by their place in an artifact.
_filled: dict[str, dict[Path, bytes]] = {}


class Users(NamedTuple):
    """A store with passwords, behind a proxy that causes faults, and the credentials of its user."""

    faults: FaultyStore
    credentials: dict[str, str]
    # A client that goes past the proxy.
    client: Any

    def listed(self, bucket: str = "mine") -> list[str]:
        """What lies in a bucket."""
        from pyarrow import fs

        found = self.client.get_file_info(fs.FileSelector(bucket, recursive=True))
        return [one.path for one in found if one.type == fs.FileType.File]

    @property
    def site(self) -> dict[str, Any]:
        """The store of a site that names the proxy."""
        return {**STORE, "start": None, "endpoint": f"http://127.0.0.1:{self.faults.port}", "bucket": "mine"}


@contextmanager
def store_of_users(python: str) -> Iterator[Users]:
    """A store of which only one user may read and write; `python` is that of object stores."""
    # Not at the top: all unit tests have this module in their conftest.
    from pyarrow import fs

    environment = {**os.environ, "PYTHONPATH": str(Path(hyperslab.__file__).parents[1])}
    store = subprocess.Popen(
        [python, str(ROOT / "tests" / "store_program.py")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    assert store.stdout is not None and store.stdin is not None
    said = json.loads(store.stdout.readline())
    credentials = {KEY: said["key"], SECRET: said["secret"]}
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


def put_store(root: Path, store: dict[str, Any]) -> None:
    """Have a root be that of a site with this object store."""
    (root / MARKER).write_text(json.dumps(asdict(Root(store=store))))


def cell(format_: str, **repeats: int) -> Specification:
    """What measure is told of a box of 12 x 20 x 25 elements: three chunks."""
    dataset: Any = {"axes": AXES, "shape": SHAPE, "dtype": "float32", "fill": "mixed"}
    return read_cell({"dataset": dataset, "layout": LAYOUTS[format_]}, (12, 1, 1), repeats or {"cold": 2})


def fill(spec: Specification, artifact: Path, **environment: str) -> None:
    """Have an artifact hold the data of a cell, which are written once for all cells that have the same."""
    key = file_digest(spec)
    if key not in _filled:
        done = run("generate", spec, artifact, None, **environment)
        assert (done.returncode, done.stderr) == (0, "")
        files = [path for path in artifact.rglob("*") if path.is_file()]
        _filled[key] = {path.relative_to(artifact): path.read_bytes() for path in files}
        return
    for path, content in _filled[key].items():
        (artifact / path).parent.mkdir(parents=True, exist_ok=True)
        (artifact / path).write_bytes(content)


def run(
    program: str, spec: Specification, artifact: Path, record: Path | None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A command of a cell, to its end; it is forked where its module's are and the environment is theirs."""
    command = job(f"hyperslab.{program}", *told(spec, artifact, record))
    if not environment.keys() <= {KEY, SECRET}:
        # What imports for one cell alone saves nothing.
        command = words(program, spec, artifact, record)
    return subprocess.run(
        command,
        cwd=ROOT, env=variables(environment), capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip


def words(program: str, spec: Specification, artifact: Path, record: Path | None) -> list[str]:
    """The command of a cell; one that measures is begun where it would go on: it loads all modules once."""
    python = sys.executable
    if record:
        own = of_cell(spec["case"], layout_of(spec["layout"]).environment())
        assert own is not None
        python = str(interpreter_of(str(ROOT / own)))
    return [python, "-m", f"hyperslab.{program}", *told(spec, artifact, record)]


def told(spec: Specification, artifact: Path, record: Path | None) -> list[str]:
    """What a command of a cell is told; it measures where there is to be a record."""
    more = ["--record", str(record), "--site", "store"] if record else []
    return ["--specification", text(spec), "--artifact", str(artifact), *more]


def variables(environment: dict[str, str]) -> dict[str, str]:
    """The environment of a cell: no credentials but these, and nothing that each test has its own of."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("AWS_") and name != "PYTEST_CURRENT_TEST"
    }
    return kept | environment


def summed_cell(format_: str, by: str = "processes", **case: Any) -> Specification:
    """What measure is told of summaries of all planes by two workers."""
    return summed(cell(format_, cold=2), by, **case)


def asked_cell(format_: str, requests: int, **repeats: int) -> Specification:
    """What measure is told of two clients who ask for planes and for series, so many requests in all."""
    case: CaseSpecification = {
        "name": "mixed-2p", "family": "mixed", "kind": "clients", "by": "processes", "workers": 2,
        "clients": {"map": [1, 40, 50], "series": [12, 1, 1]}, "requests": requests, "states": list(repeats),
    }  # fmt: skip
    return {**cell(format_, **repeats), "case": case}
