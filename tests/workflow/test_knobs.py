"""Studies of HDF5's knobs through the whole workflow: unusual layouts, published numbers, other releases."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from clones import Clone, make_clone
from knob_studies import small

from hyperslab.layouts.hdf5_releases import RELEASES

pytestmark = pytest.mark.slow


def restricted(name: str, *layouts: str) -> dict[str, Any]:
    """A small study with some of its layouts, on one site whose name test machines all have."""
    content = small(name)
    kept = {layout: content["layouts"][layout] for layout in layouts}
    published = {
        case: {layout: numbers for layout, numbers in found.items() if layout in kept}
        for case, found in content.get("published", {}).items()
    }
    return {**content, "layouts": kept, "published": published, "sites": ["disk"]}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone in which three small studies were measured, and two of them reported."""
    found = make_clone(tmp_path_factory.mktemp("knobs") / "clone")
    objects = restricted("knobs-objects", "default", "split-memory", "direct", "meta-block-1M")
    found.write_study("objects", objects)
    found.write_study("tables", restricted("knobs-cache-shuffle", "none-16M", "shuffle-gzip-256M"))
    scatter = restricted("knobs-scatter", "contiguous", "sieve-1M")
    scatter["cases"] = {"checkerboard": scatter["cases"]["checkerboard"]}
    found.write_study("scatter", scatter)
    reports = (f"results/{name}/report.html" for name in ("objects", "tables"))
    found.build(*reports, "results/scatter/measurements.parquet")
    return found


def page(clone: Clone, study: str) -> str:
    return (clone.directory / "results" / study / "report.html").read_text(encoding="utf-8")


def measurements(clone: Clone, study: str) -> pd.DataFrame:
    return pd.read_parquet(clone.directory / "results" / study / "measurements.parquet")


def figures(clone: Clone, study: str) -> set[str]:
    return {path.stem for path in (clone.directory / "results" / study / "figures" / "disk").iterdir()}


def test_the_published_table_stands_beside_the_measured_one(clone: Clone) -> None:
    assert {"published-write", "requests", "writes"} <= figures(clone, "tables")
    text = page(clone, "tables")
    for words in ("Measured and published", "83.0 s", "3.48 s", "67.34 MB", "5.61 s"):
        assert words in text
    table = measurements(clone, "tables")
    parts = table[["create_s", "write_s", "flush_s", "close_s"]].sum(axis=1)
    assert table["total_s"].to_numpy() == pytest.approx(parts.to_numpy())
    assert set(table["calls"]) == {16}
    assert (table["call_median_s"] <= table["call_max_s"]).all()


def test_scattered_selections_have_their_requests_predicted(clone: Clone) -> None:
    table = measurements(clone, "scatter")
    cold = table[table["state"].str.endswith("cold")].set_index("layout")
    assert (cold["requested_bytes"] == cold["requested_predicted_bytes"]).all()
    assert cold.loc["sieve-1M", "requested_reads"] < cold.loc["contiguous", "requested_reads"]


def test_many_objects_have_a_figure_and_a_table(clone: Clone) -> None:
    assert {"objects", "requests"} <= figures(clone, "objects")
    assert "Many small datasets" in page(clone, "objects")
    table = measurements(clone, "objects")
    assert set(table["kind"]) == {"objects"}
    states = {state.removeprefix("library-") for state in table["state"]}
    assert states == {"write", "session", "warm", "cold"}
    writes = table[table["state"] == "write"].set_index("layout")["requested_writes"]
    assert writes["meta-block-1M"] < writes["default"]


def test_what_a_build_lacks_is_said_and_costs_no_other_cell(clone: Clone) -> None:
    assert "this HDF5 was built without the direct driver" in page(clone, "objects")
    assert "direct" not in set(measurements(clone, "objects")["layout"])
    # It is measured: there is nothing to do again.
    assert clone.planned("results/objects/report.html") == {}


def test_settings_by_layout_are_those_of_the_files(clone: Clone) -> None:
    text = page(clone, "objects")
    assert "Settings by layout, as read back from the files" in text
    context = json.loads((clone.directory / "results/objects/context.json").read_text(encoding="utf-8"))
    drivers = {layout: entry["settings"].get("driver") for entry in context for layout in entry["layouts"]}
    assert drivers == {"default": "sec2", "meta-block-1M": "sec2", "split-memory": "split", "direct": None}


def test_split_metadata_leave_nothing_behind(clone: Clone) -> None:
    sites = (clone.directory / "config" / "sites.yaml").read_text(encoding="utf-8")
    assert "memory" in sites
    # Unlike rglob this minds no directory of other tests that goes while it looks.
    folders = [at for root in Path("/dev/shm").glob("hyperslab-*") for at, *_ in os.walk(root)]
    assert [at for at in folders if str(clone.directory) in at] == []


def test_an_unknown_file_system_for_metadata_is_one_line(clone: Clone) -> None:
    content = restricted("knobs-objects", "default")
    content["layouts"]["elsewhere"] = {"settings": {"driver": {"name": "split", "metadata_on": "third"}}}
    clone.write_study("elsewhere", content)
    done = clone.run("results/elsewhere/report.html")
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("hyperslab:")]
    where = "layouts.elsewhere.settings.driver.metadata_on"
    assert f"{where}: no file system 'third' with a site; " in line


def test_a_release_is_measured_in_its_own_environment(
    clone: Clone, require: Callable[[str | None], None]
) -> None:
    wanted = [("1.12", "equal"), ("1.14", "equal"), ("2.0", "equal"), ("2.0", "default")]
    study = restricted("knobs-release-openmsi", *(f"4x4x2048-{release}-{kind}" for release, kind in wanted))
    clone.write_study("releases", study)
    done = clone.run("results/releases/context.json", timeout=900)
    log = "".join(path.read_text() for path in (clone.directory / ".venv-releases").glob("*.log"))
    require(f"no environment with other releases: {log[-300:]}" if "error: " in log else None)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert {release for release, _ in wanted} == set(RELEASES)
    for release, kind in wanted:
        cell = clone.directory / f"results/releases/cells/disk/4x4x2048-{release}-{kind}/slices.r0.json"
        record = json.loads(cell.read_text(encoding="utf-8"))
        versions, settings = record["versions"], record["file"]["settings"]
        assert (versions["hdf5"], versions["h5py"]) == (RELEASES[release].hdf5, RELEASES[release].h5py)
        assert versions["python"].startswith("3.11.")
        cache = (2**20, 521) if kind == "equal" else (2**23, 8191)
        assert (settings["chunk_cache_bytes"], settings["chunk_cache_slots"]) == cache
    context = json.loads((clone.directory / "results/releases/context.json").read_text(encoding="utf-8"))
    assert {entry["versions"]["hdf5"] for entry in context} == {known.hdf5 for known in RELEASES.values()}
