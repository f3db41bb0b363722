"""A small study of an object store through the whole workflow, with every format that is kept there.

The store has users and passwords, and stands for one of the user's own.
"""

from __future__ import annotations

import lzma
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from clones import Clone, make_clone
from own_environments import interpreter
from process_tree import commands
from stored_cells import Users, store_of_users

from hyperslab.layouts.hsds import ENVIRONMENT

FILTERS = ["shuffle", {"zstd": 3}]
# Twelve of them: each of Zarr is an object, which every cell puts, and removes.
CHUNKS = [4, 12, 12]
LAYOUTS: dict[str, Any] = {
    # With the cache that its client has by itself.
    "contiguous": {"format": "hdf5-s3"},
    "in-place": {"format": "virtual", "chunks": CHUNKS, "filters": FILTERS},
    "zarr": {"format": "zarr-s3", "chunks": CHUNKS, "codecs": [{"zstd": 3}]},
    # For each object that it puts or gets HSDS makes a client anew.
    "service": {"format": "hsds-s3", "chunks": [12, 12, 12]},
    # In three files.
    "files": {"format": "hdf5-s3", "files": 4, "chunks": CHUNKS, "filters": FILTERS},
    "files-zarr": {"format": "zarr-s3", "files": 4, "chunks": CHUNKS, "codecs": [{"zstd": 3}]},
    "files-in-place": {"format": "virtual", "files": 4, "chunks": CHUNKS, "filters": FILTERS},
}
STUDY: dict[str, Any] = {
    "title": "A small store",
    "dataset": {
        "axes": ["day", "lat", "lon"], "shape": [12, 24, 24], "dtype": "float32", "fill": "daily-grid",
        "collection": {"along": "day"},
    },
    "layouts": LAYOUTS,
    "cases": {
        "series": {
            "read": {"lat": 1, "lon": 1}, "states": ["cold", "session"],
            "layouts": ["contiguous", "in-place", "zarr", "files", "files-in-place"],
        },
        "fetched": {
            "summaries": {"day": "all"}, "processes": [2], "fetch": True, "states": ["cold"],
            "layouts": ["files"],
        },
        "open": {
            "open_all": True, "states": ["cold"], "layouts": ["files", "files-zarr", "files-in-place"],
        },
        "direct": {
            "summaries": {"day": "all"}, "dask": [2], "states": ["cold", "session"], "layouts": ["in-place"],
            "repeats": {"session": 1},
        },
        "mixed": {
            "clients": {"map": {"day": 1}, "series": {"lat": 1, "lon": 1}}, "requests": 4,
            "processes": [2], "states": ["cold"], "layouts": ["zarr"], "repeats": {"cold": 2},
        },
        # Through the server, which keeps its objects in the store; what it reads there is in
        # tests/unit/test_object_stores.py.
        "written": {"write": {"lat": 12, "lon": 12}, "layouts": ["service"], "repeats": {"write": 1}},
    },
    "sites": ["bucket"],
    "rounds": 1,
    "repeats": {"cold": 1, "session": 2},
    "tradeoff": [],
    "recommendation": {"confirm_rounds": 0},
}  # fmt: skip


def sites(users: Users) -> dict[str, Any]:
    """One site: the bucket of a user."""
    store = {key: users.site[key] for key in ("endpoint", "bucket", "prefix")}
    return {
        "platforms": {"local": {"executor": "local"}},
        "file_systems": {"bucket": {"root": "testfiles-bucket", "store": store}},
        "sites": {"bucket": {"platform": "local", "file_system": "bucket"}},
    }


@contextmanager
def seen_meanwhile() -> Iterator[set[bytes]]:
    """Collect the commands of all processes while the block runs."""
    seen: set[bytes] = set()
    ended = threading.Event()

    def look() -> None:
        # Each look reads every process of the machine; a process of a cell lives for seconds.
        while not ended.wait(0.3):
            seen.update(commands())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def contents(*places: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file below these places, packs as what is in them."""
    for place in places:
        for path in place.rglob("*"):
            if path.is_file() and not path.is_symlink():
                content = path.read_bytes()
                yield path, lzma.decompress(content) if path.suffix == ".xz" else content


def packed(clone: Clone) -> Path:
    """The pack of the study."""
    words = [sys.executable, "workflow/scripts/pack.py", "pack", "store"]
    done = subprocess.run(words, cwd=clone.directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return clone.directory / "packs" / "store.tar.xz"


# Each of its cells starts a store, a gateway and maybe servers: beside other tests that takes long.
@pytest.mark.timeout(1500)
def test_the_study_small(
    tmp_path: Path, require: Callable[[str | None], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = make_clone(tmp_path / "clone")
    (clone.directory / ".venv-releases").mkdir()
    for name in ("object-store", ENVIRONMENT):
        environment = Path(interpreter(name, require)).parents[1]
        (clone.directory / ".venv-releases" / environment.name).symlink_to(environment)
    clone.write_study("store", STUDY)
    # Where temporary files are left, if any are.
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("HYPERSLAB_LOCKS", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    with store_of_users(interpreter("object-store", require)) as users:
        file = clone.directory / "config" / "sites.local.yaml"
        file.write_text(yaml.safe_dump(sites(users)), encoding="utf-8")
        for variable, value in users.credentials.items():
            monkeypatch.setenv(variable, value)
        with seen_meanwhile() as seen:
            clone.build("--", "results/store/report.html")
        assert users.listed() == [] and not users.faults.unfinished
        assert packed(clone).exists()
        searched = list(contents(clone.directory, tmp_path / "tmp"))
        assert any(b"object_store.gateway" in line for line in seen)
        assert any(path.suffix == ".html" for path, _ in searched)
        assert any(".snakemake" in path.parts for path, _ in searched)
        for value in users.credentials.values():
            assert [str(path) for path, content in searched if value.encode() in content] == []
            assert [line for line in seen if value.encode() in line] == []
    of_the_tables(clone)


def of_the_tables(clone: Clone) -> None:
    """What tables and report say."""
    table = pd.read_parquet(clone.directory / "results/store/measurements.parquet")
    assert len(table) == 5 * 3 + 1 + 3 + 2 + 2 + 1
    read = table[table["case"] == "series"]
    series = read[read["layout"].isin(["in-place", "zarr", "files-in-place"])]
    assert (series["wire_requests"] == series["chunks_touched"]).all()
    assert (series["wire_gets"] == series["wire_requests"]).all()
    assert (series["wire_bytes"] == series["chunk_bytes"]).all()
    # A reference is one request more, to how many files it ever leads, as is the description of a Zarr array.
    cold = series[series["state"] == "cold"]
    assert (cold["open_requests"] == 1).all()
    # One client lists what there is, then asks for each description; a reference needs no list.
    opened = table[table["case"] == "open"].groupby("layout")[["wire_lists", "wire_requests", "calls"]].max()
    assert opened.loc["files-zarr"].tolist() == [1, 4, 3]
    assert opened.loc["files-in-place"].tolist() == [0, 1, 1]
    assert opened.loc["files"].tolist()[::2] == [1, 3]
    fetched = table[table["case"] == "fetched-2p"]
    assert (fetched["fetch_s"] > 0).all() and (fetched["requested_bytes"] > 0).all()
    # Objects of this size come in one part each.
    assert (fetched["wire_requests"] == 3).all() and (fetched["wire_bytes"] == fetched["file_bytes"]).all()
    # Workers and clients of their own ask for each chunk once a request, and the kernel counts nothing of it.
    asked = table[table["case"].isin(["direct-2d", "mixed-2p"])]
    assert (asked["wire_requests"] == asked["chunks_touched"]).all()
    assert (asked["wire_bytes"] == asked["chunk_bytes"]).all() and asked["requested_bytes"].isna().all()
    assert (asked["wire_failures"] == 0).all() and (asked["open_requests"] >= 2).all()
    clients = asked[asked["case"] == "mixed-2p"]
    assert (clients["requests"] == 4).all() and (clients["errors"] == 0).all()
    # Each client has asked where the chunks lie, of a second repeat, too.
    assert (clients["open_requests"] == 2).all()
    page = (clone.directory / "results/store/report.html").read_text(encoding="utf-8")
    # Both are in the table of settings, whichever layout wins.
    assert "its default" in page and "VirtualiZarr and obstore" in page
    assert "What the gateway itself costs" in page
    assert not list((clone.directory / "testfiles-bucket").rglob("*.virtual"))
