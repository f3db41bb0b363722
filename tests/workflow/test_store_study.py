"""A small study of an object store through the whole workflow, with every format that is kept there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from clones import make_clone
from own_environments import interpreter

from hyperslab.layouts.hsds import ENVIRONMENT

FILTERS = ["shuffle", {"zstd": 3}]
LAYOUTS: dict[str, Any] = {
    # With the cache that its client has by itself.
    "contiguous": {"format": "hdf5-s3"},
    "chunks": {"format": "hdf5-s3", "chunks": [4, 6, 6], "filters": FILTERS},
    "in-place": {"format": "virtual", "chunks": [4, 6, 6], "filters": FILTERS},
    "zarr": {"format": "zarr-s3", "chunks": [4, 6, 6], "codecs": [{"zstd": 3}]},
    "service": {"format": "hsds-s3", "chunks": [4, 6, 6]},
}
STUDY: dict[str, Any] = {
    "title": "A small store",
    "dataset": {"axes": ["day", "lat", "lon"], "shape": [12, 24, 24], "dtype": "float32", "fill": "counts"},
    "layouts": LAYOUTS,
    "cases": {
        "series": {"read": {"lat": 1, "lon": 1}, "states": ["cold", "session"]},
        "fetched": {
            "summaries": {"day": "all"}, "processes": [1], "fetch": True, "states": ["cold"],
            "repeats": {"cold": 1}, "layouts": ["contiguous", "zarr"],
        },
        "direct": {
            "summaries": {"day": "all"}, "processes": [1], "dask": [1], "states": ["cold"],
            "repeats": {"cold": 1}, "layouts": ["in-place"],
        },
        "mixed": {
            "clients": {"map": {"day": 1}, "series": {"lat": 1, "lon": 1}}, "requests": 4,
            "processes": [1, 2], "states": ["cold"], "repeats": {"cold": 1}, "layouts": ["zarr"],
        },
        # Through the server, which keeps its objects in the store.
        "written": {"write": {"lat": 12, "lon": 12}, "layouts": ["service"], "repeats": {"write": 2}},
    },
    "sites": ["bucket"],
    "rounds": 1,
    "repeats": {"cold": 2, "session": 2},
    "tradeoff": [],
    "recommendation": {"confirm_rounds": 0},
}  # fmt: skip
SITES = {
    "platforms": {"local": {"executor": "local"}},
    "file_systems": {"bucket": {"root": "testfiles-bucket", "store": {"start": "moto"}}},
    "sites": {"bucket": {"platform": "local", "file_system": "bucket"}},
}


def test_the_study_small(tmp_path: Path, require: Callable[[str | None], None]) -> None:
    clone = make_clone(tmp_path / "clone")
    (clone.directory / ".venv-releases").mkdir()
    for name in ("object-store", ENVIRONMENT):
        environment = Path(interpreter(name, require)).parents[1]
        (clone.directory / ".venv-releases" / environment.name).symlink_to(environment)
    clone.write_study("store", STUDY)
    sites = clone.directory / "config" / "sites.local.yaml"
    sites.write_text(yaml.safe_dump(SITES), encoding="utf-8")
    clone.build("--", "results/store/report.html")
    table = pd.read_parquet(clone.directory / "results/store/measurements.parquet")
    assert len(table) == 5 * 4 + 2 + 2 + 2 + 2
    read = table[table["case"] == "series"]
    series = read[read["layout"].isin(["in-place", "zarr"])]
    # The server also asks for descriptions that it does not keep.
    service = read[read["layout"] == "service"]
    assert (service["wire_bytes"] >= service["chunk_bytes"]).all()
    assert (series["wire_requests"] == series["chunks_touched"]).all()
    assert (series["wire_bytes"] == series["chunk_bytes"]).all()
    # A reference is one request more, as is the description of a Zarr array.
    cold = series[series["state"] == "cold"]
    assert (cold["open_requests"] == 1).all()
    assert (table[table["case"] == "fetched-1p"]["fetch_s"] > 0).all()
    # Workers and clients of their own ask for each chunk once a request, and the kernel counts nothing of it.
    asked = table[table["case"].isin(["direct-1p", "direct-1d", "mixed-1p", "mixed-2p"])]
    assert (asked["wire_bytes"] == asked["chunk_bytes"]).all() and asked["requested_bytes"].isna().all()
    assert {*asked["open_requests"]} == {1, 2}
    page = (clone.directory / "results/store/report.html").read_text(encoding="utf-8")
    # Both are in the table of settings, whichever layout wins.
    assert "its default" in page and "VirtualiZarr and obstore" in page
    assert not list((clone.directory / "testfiles-bucket").rglob("*.virtual"))
