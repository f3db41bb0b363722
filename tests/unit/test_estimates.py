"""About how long cells take: what counts as a write, as a read of everything, or as a run on disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from studies import BASE, REDUCE, Content, changed, load, parallel_study, with_case

from hyperslab.layouts.hdf5 import Hdf5Layout
from hyperslab.planning.estimates import (
    READ_BYTES_PER_S,
    REQUESTS_TO_OPEN,
    SECONDS_A_CELL,
    SECONDS_A_REPEAT,
    estimated_seconds,
    total_bytes,
)
from hyperslab.planning.expected_times import expected_seconds
from hyperslab.planning.inventory import Inventory
from hyperslab.records import write_record
from hyperslab.sites.configuration import load_sites
from hyperslab.studies import specification


def seconds(directory: Path, content: Content, layout: str, case: str) -> float:
    """About how long a cell of a study with this content takes."""
    return estimated_seconds(load(directory, content), layout, case)


def test_how_long_a_reduction_takes_can_be_estimated(tmp_path: Path) -> None:
    few, many = (
        seconds(tmp_path, with_case(**REDUCE, repeats={"cold": count, "warm": count}), "4x4x64", "team-2p")
        for count in (5, 50)
    )
    assert SECONDS_A_CELL < few < many < 60


def test_reading_the_latest_of_many_datasets_is_no_write(tmp_path: Path) -> None:
    few, many = (
        seconds(tmp_path, with_case(objects="x", repeats={"write": 2, "cold": count}), "contiguous", "team")
        for count in (5, 105)
    )
    assert many - few == pytest.approx(100 * SECONDS_A_REPEAT)


def test_a_team_reads_all_that_it_wrote(tmp_path: Path) -> None:
    few, many = (
        seconds(tmp_path, {**parallel_study(), "repeats": {"cold": count}}, "contiguous", "team-posix-2r")
        for count in (5, 10**5)
    )
    assert few > SECONDS_A_CELL
    assert many - few == pytest.approx((10**5 - 5) * 3 * 64 * 2 / READ_BYTES_PER_S)


def test_whole_planes_lie_together_and_need_no_read_ahead_each(tmp_path: Path) -> None:
    content = changed("cases", {"planes": {"read": {"x": 2}}, "slices": {"read": {"z": 40}}})
    study = load(tmp_path, {**content, "score": None, "recommendation": {}})
    planes, slices = (estimated_seconds(study, "contiguous", case) for case in ("planes", "slices"))
    assert planes < slices


def test_a_high_level_of_gzip_takes_long_in_every_write(tmp_path: Path) -> None:
    levels = {f"gzip{level}": {"chunks": [4, 4, 64], "filters": [{"gzip": level}]} for level in (1, 4, 9)}
    content = changed("layouts", {"default": {"chunks": [4, 4, 64], "filters": ["gzip"]}, **levels})
    study = load(tmp_path, {**content, "score": None, "recommendation": {}})
    fast, middle, slow, default = (
        estimated_seconds(study, layout, "slices") for layout in ("gzip1", "gzip4", "gzip9", "default")
    )
    assert fast < middle < slow and default == middle


@pytest.mark.parametrize(
    ("repeats", "starts"),
    [({"cold": 7}, 8), ({"warm": 3}, 2), ({"cold": 7, "session": 3, "warm": 3}, 10)],
    ids=str,
)
def test_a_server_is_started_to_write_and_for_each_state_and_cold_repeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repeats: dict[str, int], starts: int
) -> None:
    study = load(tmp_path, with_case(read={"z": 25}, states=list(repeats), repeats=repeats))

    def started(case: str) -> int:
        return round(estimated_seconds(study, "contiguous", case) / 1e3)

    monkeypatch.setattr(Hdf5Layout, "restart_seconds", lambda _: 1e3)
    assert started("team") == starts
    # Each write has one of its own, and so has reading what was written last.
    assert started("write") == study.cases["write"]["repeats"]["write"] + 1
    # What a server only reads is written beside it.
    monkeypatch.setattr(Hdf5Layout, "abilities", replace(Hdf5Layout.abilities, writes=False))
    assert started("team") == starts - 1


def test_a_server_is_started_for_each_cold_repeat_with_which_a_short_cell_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = {**with_case(read={"x": 2}, states=["cold", "warm"]), "repeats": {}}
    study = load(tmp_path, content)
    asked = study.cases["team"]
    monkeypatch.setattr(Hdf5Layout, "restart_seconds", lambda _: 1e3)
    short = estimated_seconds(study, "contiguous", "team")
    monkeypatch.setattr("hyperslab.planning.estimates.SHORT_SECONDS", 0.0)
    long = estimated_seconds(study, "contiguous", "team")
    assert round((short - long) / 1e3) == asked["most_repeats"]["cold"] - asked["repeats"]["cold"] == 30


def test_all_files_of_a_collection_are_opened_and_each_waits_for_its_store(tmp_path: Path) -> None:
    layouts = {"one": {"chunks": [1, 12, 10]}, "days": {"chunks": [1, 12, 10], "files": 1}}
    content = {
        **yaml.safe_load(BASE), "layouts": layouts, "score": None, "recommendation": {}, "grids": [],
        "dataset": {
            "axes": ["day", "lat", "lon"], "shape": [60, 12, 10], "dtype": "float32",
            "collection": {"along": "day", "first": "1987-07-01"},
        },
        "cases": {"open": {"open_all": True, "states": ["cold"], "repeats": {"cold": 1}}},
    }  # fmt: skip
    study = load(tmp_path, content)
    near, far = (
        {name: estimated_seconds(study, name, "open", store=store) for name in layouts}
        for store in (None, {"latency_ms": 50.0, "bandwidth": None})
    )
    assert near["days"] > near["one"] + 0.03
    # Each is put into the store, eight at once, and opened by requests one after the other.
    assert far["one"] - near["one"] == pytest.approx((REQUESTS_TO_OPEN + 1 / 8) * 0.05)
    assert far["days"] - near["days"] == pytest.approx((60 * REQUESTS_TO_OPEN + 61 / 8) * 0.05)


def test_a_coarse_level_takes_less_where_it_lies_apart(tmp_path: Path) -> None:
    chunks = {"chunks": [4, 4, 64]}
    layouts = {
        "idx": {"format": "idx", "bits_per_block": 10},
        "pyramid": {**chunks, "pyramid": {"levels": 2, "by": "subsampling"}},
        "plain": chunks,
    }
    content = changed("cases", {"view": {"read": {"x": "all"}, "level": [3, 0], "states": ["cold"]}})
    content |= {"layouts": layouts, "grids": [], "score": None, "recommendation": {}}
    study = load(tmp_path, content)
    coarse, fine = (
        {name: estimated_seconds(study, name, f"view-level{level}") for name in layouts} for level in (3, 0)
    )
    assert coarse["idx"] < fine["idx"] and coarse["pyramid"] < fine["pyramid"]
    # Whole chunks of the array are read.
    assert coarse["plain"] == fine["plain"]


def test_what_is_put_into_a_store_and_read_from_it_passes_its_line(tmp_path: Path) -> None:
    study = load(tmp_path, {**yaml.safe_load(BASE), "grids": []})
    size, slow = study.dataset.nbytes, 1e3

    def estimated(bandwidth: float | None) -> float:
        store = {"latency_ms": 0.0, "bandwidth": bandwidth}
        return estimated_seconds(study, "contiguous", "slices", store=store)

    assert estimated(None) == estimated_seconds(study, "contiguous", "slices")
    assert estimated(slow) > size / slow + estimated(None)


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inventory:
    """A project with the study `mine` of two rounds on a disk."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config/studies").mkdir(parents=True)
    sites = tmp_path / "config/sites.yaml"
    sites.write_text("{file_systems: {disk: {root: files}}, sites: {disk: {file_system: disk}}}", "utf-8")
    study = {**yaml.safe_load(BASE), "sites": ["disk"], "rounds": 2}
    (tmp_path / "config/studies/mine.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    return Inventory(tmp_path, load_sites(sites), sites, {}, "")


def took(inventory: Inventory, number: int, seconds: float, **changed: object) -> None:
    """Write what is asked of the record of the first cell in a round: that it took so long."""
    study = inventory.study("mine")
    layout, case, round_ = next(
        cell for cell in inventory.cells(study, "disk", "main") if cell[2] == f"r{number}"
    )
    began = {"boot_id": "a", "boottime_s": 1000.0, "wall_s": 5.0}
    record = {
        "specification": {**specification.cell_specification(study, layout, case, round_), **changed},
        "repeats": [], "writer": {"began": began}, "began": {**began, "boottime_s": 1001.0},
        "ended": {**began, "boottime_s": 1000.0 + seconds},
    }  # fmt: skip
    write_record(f"results/mine/cells/disk/{layout}/{case}.{round_}.json", record)


def test_a_cell_is_expected_to_take_as_long_as_in_another_round(inventory: Inventory) -> None:
    study = inventory.study("mine")
    first, other = list(dict.fromkeys(cell[:2] for cell in inventory.cells(study, "disk", "main")))[:2]

    def expected() -> dict[tuple[str, str], float]:
        return expected_seconds(study, "disk", [first, other], inventory)

    estimated = {pair: estimated_seconds(study, *pair) for pair in (first, other)}
    assert expected() == estimated
    took(inventory, 0, 77.0)
    assert expected() == {**estimated, first: 77.0}
    took(inventory, 1, 88.0)
    assert expected()[first] == 88.0
    # What was measured of another study's cell says nothing of this one.
    took(inventory, 1, 99.0, seed=12345)
    assert expected() == estimated
    Path(f"results/mine/cells/disk/{first[0]}/{first[1]}.r1.json").write_text("damaged", encoding="utf-8")
    assert expected() == estimated


def test_every_repeat_of_a_write_is_counted(tmp_path: Path) -> None:
    study = load(tmp_path, {**yaml.safe_load(BASE), "repeats": {"write": 4}})
    size = study.dataset.nbytes
    assert total_bytes(study, "disk", [("auto", "write", "r0")]) == 4 * size
    assert total_bytes(study, "disk", [("auto", "slices", "r0")]) == size
