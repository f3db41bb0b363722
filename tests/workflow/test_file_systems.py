"""One study over file systems of every sort, mounted for real: what is detected, states, limits, striping."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from clones import Clone, make_clone

import loop_file_systems
import network_daemons
import network_file_systems
from hyperslab.measuring import pagecache
from hyperslab.results.tables import read_summary

LOOPS = ["ext4", "xfs", "btrfs", "btrfs-zstd", "portal=ext4"]
# These need packages of their own (bindfs, sshfs, Ceph), which a run of all tests may leave out by the mark.
pytestmark = pytest.mark.network
NETWORK = ["bindfs", "sshfs", "cephfs"]
RATE = 20 * 2**20
# Two layouts' worth of time on ten file systems would test nothing further.
STUDY: dict[str, Any] = {
    "title": "Every file system",
    "dataset": {"axes": ["x", "y", "z"], "shape": [16, 16, 1024], "dtype": "uint16"},
    "layouts": {"4x4x64": {"chunks": [4, 4, 64]}},
    "cases": {
        "slices": {"read": {"z": 5}, "states": ["cold", "warm", "session"]},
        "write": {"write": "whole"},
    },
    "sites": "all",
    "rounds": 1,
    "repeats": {"cold": 3, "warm": 3, "session": 3, "write": 2},
}
TYPES = {
    "memory": "tmpfs", "local-loop-ext4": "ext4", "local-loop-xfs": "xfs", "local-loop-btrfs": "btrfs",
    "local-loop-btrfs-zstd": "btrfs", "local-loop-portal": "ext4", "local-bindfs": "fuse",
    "local-sshfs": "fuse.sshfs", "local-cephfs": "fuse.ceph-fuse", "uncached": "fuse",
}  # fmt: skip
FUSE = [site for site, kind in TYPES.items() if kind.startswith("fuse")]
ON_DEVICES = [site for site in TYPES if site.startswith("local-loop")]
Require = Callable[[str | None], None]


def script(module: Any, *words: str) -> str:
    """What one of the scripts prints; it must succeed."""
    command = [sys.executable, module.__file__, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def site(name: str, root: Path | str) -> dict[str, Any]:
    """A local site, as a fragment of sites.yaml."""
    return {"file_systems": {name: {"root": str(root)}}, "sites": {name: {"file_system": name}}}


@contextmanager
def brought_up(module: Any, directory: Path, *words: str) -> Iterator[dict[str, Any]]:
    """The sites of file systems that a script makes; whatever happens, they are removed."""
    try:
        yield yaml.safe_load(script(module, "up", "--dir", str(directory), *words))
    finally:
        script(module, "down", "--dir", str(directory))


@contextmanager
def uncached(directory: Path) -> Iterator[dict[str, Any]]:
    """A FUSE file system that keeps no pages (direct_io), as some on clusters do."""
    stored, seen = directory / "stored", directory / "seen"
    stored.mkdir(parents=True)
    seen.mkdir()
    subprocess.run(["bindfs", "-o", "direct_io", stored, seen], check=True, timeout=30)
    try:
        yield site("uncached", seen)
    finally:
        subprocess.run(["umount", seen], check=True, timeout=30)


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory: pytest.TempPathFactory, require: Require) -> Iterator[Clone]:
    """A clone whose study was measured on every file system; they stay mounted for the tests."""
    require(loop_file_systems.missing("ext4", "xfs", "btrfs"))
    require(network_file_systems.missing(*NETWORK))
    top = tmp_path_factory.mktemp("everywhere")
    clone = make_clone(top / "clone")
    with ExitStack() as stack:
        memory = stack.enter_context(tempfile.TemporaryDirectory(prefix="hyperslab-", dir="/dev/shm"))
        loops = top / "räume frei"
        found = [
            site("memory", memory),
            stack.enter_context(brought_up(loop_file_systems, loops, "--size", "400M", *LOOPS)),
            stack.enter_context(brought_up(network_file_systems, top / "network", *NETWORK)),
            stack.enter_context(uncached(top / "uncached")),
        ]
        limit = ("--read", str(RATE), "--write", str(RATE))
        script(loop_file_systems, "throttle", "--dir", str(loops), "portal", *limit)
        found[1] = yaml.safe_load((loops / "sites.yaml").read_text(encoding="utf-8"))
        sites: dict[str, Any] = {"file_systems": {}, "sites": {}}
        for part in found:
            for key, entries in part.items():
                sites[key] |= entries
        (clone.directory / "config/sites.local.yaml").write_text(yaml.safe_dump(sites), encoding="utf-8")
        clone.write_study("everywhere", STUDY)
        clone.build("--", "results/everywhere/summary.csv")
        yield clone


@pytest.fixture(scope="module")
def table(everywhere: Clone) -> pd.DataFrame:
    """One row a repeat."""
    return pd.read_parquet(everywhere.directory / "results/everywhere/measurements.parquet")


@pytest.fixture(scope="module")
def context(everywhere: Clone) -> dict[str, dict[str, Any]]:
    """What was recorded of each site, rather with a skipped state than without."""
    file = everywhere.directory / "results/everywhere/context.json"
    entries = json.loads(file.read_text(encoding="utf-8"))
    return {entry["site"]: entry for entry in sorted(entries, key=lambda entry: bool(entry["skipped"]))}


def test_every_site_was_measured_and_detected(
    table: pd.DataFrame, context: dict[str, dict[str, Any]]
) -> None:
    assert set(table["site"]) == set(TYPES)
    facts = {site: entry["file_system"] for site, entry in context.items()}
    kinds = {site: fact["type"].removesuffix(".bindfs") for site, fact in facts.items()}
    assert kinds == TYPES
    assert {site for site, fact in facts.items() if fact["fuse"]} == set(FUSE)
    assert {site for site, fact in facts.items() if fact["network"]} == {"local-sshfs", "local-cephfs"}
    assert "compress=zstd" in facts["local-loop-btrfs-zstd"]["options"]
    assert "compress" not in facts["local-loop-btrfs"]["options"]
    assert all(facts[site]["read_ahead_bytes"] for site in TYPES if site != "memory")
    assert all(entry["locks"] == {"node": True, "root": True} for entry in context.values())


def test_cold_is_cold_and_warm_is_warm_or_skipped_with_its_reason(
    table: pd.DataFrame, context: dict[str, dict[str, Any]]
) -> None:
    cold = table[table["state"] == "cold"]
    assert set(cold["site"]) == set(TYPES) - {"memory"}
    assert (cold["resident_before"] <= 0.01).all()
    assert set(table.loc[table["state"] == "library-cold", "site"]) == {"memory"}
    # Opening a file drops its pages on bindfs and sshfs; it is warm again before the first selection.
    warm = table[table["state"] == "warm"]
    assert set(warm["site"]) == set(TYPES) - {"uncached"}
    assert (warm["resident_before"] >= 0.99).all()
    skipped = {site: entry["skipped"] for site, entry in context.items() if entry["skipped"]}
    assert skipped == {"uncached": {"warm": "only 0.0% of the file fits in the page cache"}}


def test_device_bytes_are_absent_where_another_process_reads(table: pd.DataFrame) -> None:
    cold = table[table["state"] == "cold"]
    assert cold.loc[cold["site"].isin(FUSE), "device_bytes"].isna().all()
    assert (cold.loc[cold["site"].isin(ON_DEVICES), "device_bytes"] > 0).all()
    assert (cold["requested_bytes"] == cold["requested_predicted_bytes"]).all()


def test_a_limit_holds_and_its_bursts_are_flagged(
    everywhere: Clone, table: pd.DataFrame, context: dict[str, dict[str, Any]]
) -> None:
    assert {site for site, entry in context.items() if entry["throttle"]} == {"local-loop-portal"}
    assert context["local-loop-portal"]["throttle"]["read_bytes_per_s"] == RATE
    held = table[(table["site"] == "local-loop-portal") & table["state"].isin(["cold", "write"])]
    whole = held.groupby("state")["throttled_s"].sum()
    assert (whole >= 2).all(), "seconds of I/O at the limit"
    records = everywhere.directory / "results/everywhere/cells/local-loop-portal"
    for record in map(json.loads, (path.read_text(encoding="utf-8") for path in records.rglob("*.json"))):
        # What was moved took at least as long as the limit allows, less what one slice lets pass.
        moved = sum(row.get("throttled_s") or 0 for row in record["repeats"])
        assert record["ended"]["boottime_s"] - record["began"]["boottime_s"] >= moved - 0.2
    assert set(table.loc[table["throttle_artefact"], "site"]) == {"local-loop-portal"}
    assert held["throttle_artefact"].all(), "each moves less than 2 MiB"
    summary = read_summary(everywhere.directory / "results/everywhere/summary.csv")
    portal = summary["site"] == "local-loop-portal"
    by_mean = portal & summary["state"].isin(["cold", "write"])
    at_least = summary[["mean_s"]].assign(limit=summary["throttled_s"] / summary["n"]).max(axis=1)
    assert (summary.loc[by_mean, "typical_s"] == at_least[by_mean]).all()
    # A session's rounds are told by their geometric means.
    by_median = ~by_mean & (summary["state"] != "session")
    assert (summary.loc[by_median, "typical_s"] == summary.loc[by_median, "median_s"]).all()
    assert table.loc[table["site"] != "local-loop-portal", "throttled_s"].isna().all()


def test_the_study_of_a_bottleneck_small(everywhere: Clone) -> None:
    name = "small-throttled"
    file = everywhere.directory / "config/studies/openmsi-compression-throttled.yaml"
    study = yaml.safe_load(file.read_text(encoding="utf-8"))
    for grid in study["grids"]:
        grid["over"] = {"m": [4]}
    counts = {"donor": None, "fill": "counts", "shape": [20, 20, 2500]}
    smaller = {"dataset": counts, "rounds": 1, "repeats": {"session": 2}}
    everywhere.write_study(name, {**study, **smaller})
    everywhere.build("--", f"results/{name}/claims.json")
    found = json.loads((everywhere.directory / "results" / name / "claims.json").read_text(encoding="utf-8"))
    (claim,) = found["claims"]
    (verdict,) = claim["verdicts"]
    assert (claim["id"], verdict["sites"]) == ("000.21", ["local-loop-portal"])
    assert verdict["verdict"] == "cannot tell", "one round has no interval"
    results = [result for comparison in verdict["comparisons"] for result in comparison["results"]]
    assert len(results) == 5 and all(result["value"] > 0 for result in results)


def test_new_files_are_striped(everywhere: Clone, context: dict[str, dict[str, Any]]) -> None:
    found = {site: entry["file_system"]["striping"] for site, entry in context.items()}
    striping = {"stripe_count": 2, "stripe_unit": 2**20, "object_size": 4 * 2**20}
    assert {site: told for site, told in found.items() if told} == {"local-cephfs": striping}
    sites = yaml.safe_load((everywhere.directory / "config/sites.local.yaml").read_text(encoding="utf-8"))
    below = Path(sites["file_systems"]["cephfs"]["root"]) / "a study" / "a layout"
    below.mkdir(parents=True)
    (below / "file").touch()
    layout = os.getxattr(below / "file", "ceph.file.layout").decode()
    assert layout.startswith("stripe_unit=1048576 stripe_count=2 object_size=4194304 ")


def test_the_sites_can_be_shown_without_touching_them(everywhere: Clone) -> None:
    before = os.stat(everywhere.directory).st_mtime_ns
    shown = subprocess.run(
        [sys.executable, "workflow/scripts/sites.py"],
        cwd=everywhere.directory, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    overview, places = shown.stdout.split("\n\n")
    lines = {line.split()[0]: line for line in overview.splitlines()[1:]}
    assert set(lines) == set(TYPES)
    assert "throttled: read 20 MiB/s, write 20 MiB/s" in lines["local-loop-portal"]
    assert "striped: stripe count 2, stripe unit 1 MiB, object size 4 MiB" in lines["local-cephfs"]
    assert "FUSE" in lines["uncached"] and "library-cold" in lines["memory"]
    assert "compress=zstd" in places
    assert os.stat(everywhere.directory).st_mtime_ns == before


def test_without_cachestat_a_file_system_that_maps_nothing_says_so(
    tmp_path: Path, require: Require, monkeypatch: pytest.MonkeyPatch
) -> None:
    require(network_file_systems.missing("bindfs"))
    with uncached(tmp_path) as sites:
        file = Path(sites["file_systems"]["uncached"]["root"]) / "file"
        file.write_bytes(b"x" * 10_000)
        monkeypatch.setattr(pagecache, "_cachestat", lambda _: None)  # as before Linux 6.5
        with file.open("rb") as opened, pytest.raises(pagecache.NotInState, match="does not tell"):
            pagecache.evict_file(opened.fileno(), 0.01)


def test_down_ends_every_process_and_keeps_what_it_did_not_make(tmp_path: Path, require: Require) -> None:
    require(network_file_systems.missing("bindfs", "sshfs"))
    directory = tmp_path / "räume frei"
    with brought_up(network_file_systems, directory, "bindfs", "sshfs"):
        record = json.loads((directory / "network.json").read_text(encoding="utf-8"))
        processes = [process for made in record.values() for process, _ in made["processes"]]
        assert all(network_daemons.started_at(process) for process in processes) and len(processes) == 3
        (directory / "bindfs/file").write_bytes(b"x")
        assert (directory / "bindfs.data/stored/file").read_bytes() == b"x"
        (directory / "mine").touch()
        again = [sys.executable, network_file_systems.__file__, "up", "--dir", str(directory), "bindfs"]
        refused = subprocess.run(again, capture_output=True, text=True, timeout=60, check=False)
        assert refused.returncode == 1 and "there already" in refused.stderr
        assert refused.stderr.count("\n") == 1
    assert not any(network_daemons.started_at(process) for process in processes)
    assert [path.name for path in directory.iterdir()] == ["mine"]


def test_a_killed_client_can_be_brought_down(tmp_path: Path, require: Require) -> None:
    require(network_file_systems.missing("bindfs"))
    with brought_up(network_file_systems, tmp_path / "one", "bindfs"):
        record = json.loads((tmp_path / "one/network.json").read_text(encoding="utf-8"))
        os.kill(record["bindfs"]["processes"][0][0], 9)
    assert list((tmp_path / "one").iterdir()) == []
